"""Components: their updates worked by hand, at kinks too, and bad arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl


def update(component, f, y, own=None):
    f = jnp.asarray(f)
    own = jnp.ones(f.shape) if own is None else jnp.asarray(own)
    return component.update(f, jnp.asarray(y, f.dtype), own)


def test_perceptron(x64):
    for y in (1.0, -1.0):
        got = update(jaxmkl.Perceptron(), [y * 0.1, 0.0, -0.0, y * -1e-300], y)
        np.testing.assert_array_equal(got.wanted, [False, True, True, True])
        np.testing.assert_array_equal(got.coefficient, [y] * 4)
        assert got.probability is None
        assert got.shrink is None


def test_passive_aggressive(x64):
    # losses 0 at the margin, 1/2, 3, 2; loss / k is 1/4, 3/4 and 8, cut at C = 1/2
    got = update(
        jaxmkl.PassiveAggressive(0.5), [-1.0, -0.5, 2.0, 1.0], -1.0, [1.0, 2.0, 4.0, 0.25]
    )
    np.testing.assert_array_equal(got.wanted, [False, True, True, True])
    np.testing.assert_allclose(got.coefficient[1:], [-0.25, -0.5, -0.5], rtol=1e-15)
    assert got.probability is None
    got = update(jaxmkl.PassiveAggressive(5.0), [0.5, -1.0], 1.0, [2.0, 4.0])
    np.testing.assert_allclose(got.coefficient, [0.25, 0.5], rtol=1e-15)
    got = update(jaxmkl.PassiveAggressive(5.0, False), [0.5, -1.0], 1.0, [2.0, 4.0])
    np.testing.assert_allclose(got.coefficient, [0.5, 2.0], rtol=1e-15)


def test_passive_aggressive_with_an_input_of_zero():
    """k(x, x) = 0: no step helps, and the aggressiveness bounds it."""
    got = update(jaxmkl.PassiveAggressive(0.5), [0.0], 1.0, [0.0])
    np.testing.assert_array_equal(got.coefficient, [0.5])


def test_sparse_passive_aggressive(x64):
    # losses 0, .2, .5 (= α) and 2: ρ = min(.5, l) / 2; η/ρ = 1, .4, .4; l / k = .05, .25, 4
    component = jaxmkl.SparsePassiveAggressive(0.1, 0.5, 2.0)
    got = update(component, [1.0, 0.8, 0.5, -1.0], 1.0, [1.0, 4.0, 2.0, 0.5])
    np.testing.assert_array_equal(got.wanted, [False, True, True, True])
    np.testing.assert_allclose(got.probability, [0.0, 0.1, 0.25, 0.25], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(got.coefficient[1:], [0.05, 0.25, 0.4], rtol=1e-12)
    assert np.isfinite(got.coefficient).all()
    plain = jaxmkl.SparsePassiveAggressive(0.1, 0.5, 2.0, normalized_step=False)
    got = update(plain, [0.8, -1.0], 1.0, [4.0, 0.5])
    np.testing.assert_allclose(got.coefficient, [0.2, 0.4], rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "f", "y", "slopes"),
    [
        ("squared", [0.5, 2.0, -1.0], 2.0, [-3.0, 0.0, -6.0]),
        # at the margin of 1 the hinge loss moves nothing
        ("hinge", [0.0, -1.0, -2.0, -0.999], -1.0, [1.0, 0.0, 0.0, 1.0]),
        ("logistic", [0.0, np.log(3.0)], 1.0, [-0.5, -0.25]),
    ],
)
def test_gradient_descent(loss, f, y, slopes, x64):
    got = update(jaxmkl.GradientDescent(0.25, 0.8, loss), f, y)
    np.testing.assert_array_equal(got.wanted, np.array(slopes) != 0)
    np.testing.assert_allclose(got.coefficient, -0.25 * np.array(slopes), rtol=1e-15)
    assert float(got.shrink) == 0.8
    assert got.probability is None


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("PassiveAggressive", {"aggressiveness": 0.0}, "aggressiveness"),
        ("PassiveAggressive", {"aggressiveness": np.inf}, "aggressiveness"),
        ("PassiveAggressive", {"aggressiveness": [0.1, 0.2]}, "aggressiveness"),
        ("SparsePassiveAggressive", {"step_size": 0.0}, "step_size"),
        ("SparsePassiveAggressive", {"alpha": -1.0}, "alpha"),
        ("SparsePassiveAggressive", {"beta": np.nan}, "beta"),
        ("SparsePassiveAggressive", {"alpha": 3.1, "beta": 3.0}, "beta"),
        ("GradientDescent", {"step_size": 0.0}, "step_size"),
        ("GradientDescent", {"regularization": -0.1}, "regularization"),
        ("GradientDescent", {"step_size": 0.5, "regularization": 2.0}, "regularization"),
        ("GradientDescent", {"loss": "huber"}, "loss"),
    ],
)
def test_bad_arguments_are_named(name, arguments, wanted):
    with pytest.raises(ValueError, match=f"{name}: {wanted} must be"):
        getattr(jaxmkl, name)(**arguments)


def test_numbers_are_traced():
    """Other step sizes are not another trace, and what is checked is not looked at then."""
    traces = 0

    @jax.jit
    def step(component):
        nonlocal traces
        traces += 1
        return update(component, [0.5], 1.0).coefficient[0]

    assert float(step(jaxmkl.PassiveAggressive(0.25))) == 0.25
    assert float(step(jaxmkl.PassiveAggressive(0.125))) == 0.125
    assert traces == 1
