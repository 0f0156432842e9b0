"""Losses against NumPy, their slopes against automatic differentiation, and their kinks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaxmkl.losses import LOSSES

predictions = st.floats(-50, 50, allow_subnormal=False)
targets = {
    "squared": st.floats(-50, 50, allow_subnormal=False),
    "huber": st.floats(-50, 50, allow_subnormal=False),
    "logistic": st.sampled_from([-1.0, 1.0]),
    "hinge": st.sampled_from([-1.0, 1.0]),
}
IN_NUMPY = {
    "squared": lambda f, y: np.square(np.subtract(f, y)),
    "huber": lambda f, y: np.where(
        np.abs(np.subtract(f, y)) <= 1, np.subtract(f, y) ** 2, 2 * np.abs(np.subtract(f, y)) - 1
    ),
    "logistic": lambda f, y: np.logaddexp(0, -np.multiply(y, f)),
    "hinge": lambda f, y: np.clip(1 - np.multiply(y, f), 0, None),
}


def test_tasks():
    tasks = {name: loss.task for name, loss in LOSSES.items()}
    assert tasks == {
        "squared": "regression",
        "huber": "regression",
        "logistic": "classification",
        "hinge": "classification",
    }


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data())
def test_value_and_slope(name, data):
    f, y = data.draw(predictions), data.draw(targets[name])
    assume(name != "hinge" or abs(y * f - 1) > 1e-9)
    loss = LOSSES[name]
    with jax.enable_x64(True):
        value, derivative = jax.value_and_grad(loss.value)(f, y)
        slope = loss.slope(jnp.asarray(f), jnp.asarray(y))
    np.testing.assert_allclose(value, IN_NUMPY[name](f, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slope, derivative, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_hinge_moves_a_model_only_below_the_kink(y):
    slope = LOSSES["hinge"].slope
    one = np.float32(1)
    below, above = np.nextafter(one, np.float32(0)), np.nextafter(one, np.float32(2))
    f = jnp.asarray(np.array([-3, 0, below, one, above, 7], np.float32)) * y
    np.testing.assert_array_equal(slope(f, jnp.full(6, y)), [-y, -y, -y, 0, 0, 0])
    np.testing.assert_array_equal(LOSSES["hinge"].value(f[3:], jnp.full(3, y)), 0)


def test_huber_is_squared_near_and_linear_far():
    """Of labels as far as numbers go too."""
    r = jnp.asarray([-1e30, -3, -1, -0.5, 0, 0.5, 1, 3, 1e30], jnp.float32)
    loss = LOSSES["huber"]
    value, slope = loss.value(7.0 + r, 7.0), loss.slope(7.0 + r, 7.0)
    np.testing.assert_allclose(value, [2e30, 5, 1, 0.25, 0, 0.25, 1, 5, 2e30], rtol=1e-6)
    np.testing.assert_allclose(slope, [-2, -2, -2, -1, 0, 1, 2, 2, 2])
    derivative = jax.vmap(jax.grad(loss.value), in_axes=(0, None))(r, 0.0)
    np.testing.assert_array_equal(derivative, slope)
    assert np.isnan(loss.value(jnp.nan, 0.0))


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_logistic_of_large_margins(y):
    """Linear on the wrong side, zero on the right one, with neither overflow nor NaN."""
    f = jnp.asarray([-1e30, -1e4, 0, 1e4, 1e30], jnp.float32) * y
    value, slope = LOSSES["logistic"].value(f, y), LOSSES["logistic"].slope(f, y)
    expected = np.float32([1e30, 1e4, np.log(2), 0, 0])
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(slope, np.array([-1, -1, -0.5, 0, 0]) * y, rtol=1e-6)
    derivative = jax.vmap(jax.grad(LOSSES["logistic"].value), in_axes=(0, None))(f, y)
    np.testing.assert_allclose(derivative, slope, rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_in_the_types_given(name, dtype):
    rng = np.random.default_rng(0)
    f = rng.normal(size=(3, 4)).astype(dtype)
    y = np.sign(rng.normal(size=(3, 4))).astype(dtype)
    with jax.enable_x64(True):
        value = LOSSES[name].value(jnp.asarray(f), jnp.asarray(y))
        slope = LOSSES[name].slope(jnp.asarray(f), jnp.asarray(y))
        assert value.dtype == slope.dtype == dtype
        alone = [
            [LOSSES[name].value(a, b) for a, b in zip(*rows, strict=True)]
            for rows in zip(f, y, strict=True)
        ]
        alone = np.array(alone)
    assert value.shape == slope.shape == (3, 4)
    np.testing.assert_allclose(value, alone, rtol=1e-6)
    assert (np.asarray(value) >= 0).all()
