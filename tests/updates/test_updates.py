"""Update rules: their steps worked by hand, at kinks too; least squares against NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmkl.losses import LOSSES, Huber
from jaxmkl.models import Feedback
from jaxmkl.updates import (
    OGD,
    RLS,
    NormalizedOGD,
    PassiveAggressive,
    Perceptron,
    SparsePassiveAggressive,
    Step,
    Update,
)
from jaxmkl.updates.first_order import shapes_of_step
from tests.common.trees import assert_equal
from tests.oracles.feature_mkl import RecursiveLeastSquares

SMALL_PROGRAMS = True


def step(rule, f, y, norm=None):
    """The step on the values f (R, P), or (P,) at one rate."""
    f = jnp.atleast_2d(jnp.asarray(f))
    norm = jnp.ones((1, f.shape[1])) if norm is None else jnp.asarray(norm)[None]
    return rule.step(f, jnp.asarray(y, f.dtype), norm)


# --- first order ---------------------------------------------------------------------------------


def test_perceptron(x64):
    for y in (1.0, -1.0):
        got = step(Perceptron(), [y * 0.1, 0.0, -0.0, y * -1e-300], y)
        np.testing.assert_array_equal(got.coefficient, [[0.0, y, y, y]])
        assert got.probability is None
        assert got.decay is None


def test_passive_aggressive(x64):
    # losses 0 at the margin, 1/2, 3, 2; loss / k is 1/4, 3/4 and 8, cut at C = 1/2
    got = step(PassiveAggressive(0.5), [-1.0, -0.5, 2.0, 1.0], -1.0, [1.0, 2.0, 4.0, 0.25])
    np.testing.assert_allclose(got.coefficient, [[0, -0.25, -0.5, -0.5]], rtol=1e-15)
    assert got.probability is None
    assert got.decay is None
    got = step(PassiveAggressive(5.0), [0.5, -1.0], 1.0, [2.0, 4.0])
    np.testing.assert_allclose(got.coefficient, [[0.25, 0.5]], rtol=1e-15)
    got = step(PassiveAggressive(5.0, False), [0.5, -1.0], 1.0, [2.0, 4.0])
    np.testing.assert_allclose(got.coefficient, [[0.5, 2.0]], rtol=1e-15)


def test_passive_aggressive_with_an_input_of_zero():
    """k(x, x) = 0: no step helps, and the aggressiveness bounds it."""
    got = step(PassiveAggressive(0.5), [0.0], 1.0, [0.0])
    np.testing.assert_array_equal(got.coefficient, [[0.5]])


def test_sparse_passive_aggressive(x64):
    # losses 0, .2, .5 (= α) and 2: ρ = min(.5, l) / 2; η/ρ = 1, .4, .4; l / k = .05, .25, 4
    rule = SparsePassiveAggressive(0.1, 0.5, 2.0)
    got = step(rule, [1.0, 0.8, 0.5, -1.0], 1.0, [1.0, 4.0, 2.0, 0.5])
    np.testing.assert_allclose(got.probability, [[0.0, 0.1, 0.25, 0.25]], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(got.coefficient, [[0, 0.05, 0.25, 0.4]], rtol=1e-12)
    assert got.decay is None
    plain = SparsePassiveAggressive(0.1, 0.5, 2.0, normalized_step=False)
    got = step(plain, [0.8, -1.0], 1.0, [4.0, 0.5])
    np.testing.assert_allclose(got.coefficient, [[0.2, 0.4]], rtol=1e-12)


SLOPES = [
    ("squared", [0.5, 2.0, -1.0], 2.0, [-3.0, 0.0, -6.0]),
    # at the margin of 1 the hinge loss moves nothing
    ("hinge", [0.0, -1.0, -2.0, -0.999], -1.0, [1.0, 0.0, 0.0, 1.0]),
    ("logistic", [0.0, np.log(3.0)], 1.0, [-0.5, -0.25]),
]


@pytest.mark.parametrize(("loss", "f", "y", "slopes"), SLOPES)
def test_gradient_descent(loss, f, y, slopes, x64):
    got = step(OGD(0.25, 0.8, loss), f, y)
    np.testing.assert_allclose(got.coefficient, [-0.25 * np.array(slopes)], rtol=1e-15)
    assert got.probability is None
    # as a penalty of λ/2 |f|² has it
    np.testing.assert_allclose(got.decay, [[0.8]], rtol=1e-15)
    assert np.broadcast_to(got.decay, got.coefficient.shape).shape == (1, len(f))


def test_gradient_descent_at_several_rates(x64):
    """Models (R, P), of which each rate has its own values."""
    rule, rates = OGD([0.1, 0.5], 0.4), np.array([0.1, 0.5])
    assert rule.num_rates == 2
    f = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, 3.0]])
    got = step(rule, f, 1.0)
    np.testing.assert_allclose(got.coefficient, -rates[:, None] * 2 * (f - 1), rtol=1e-15)
    np.testing.assert_allclose(got.decay, 1 - 0.4 * rates[:, None], rtol=1e-15)
    for i, rate in enumerate(rates):
        alone = step(OGD(rate, 0.4), f[i], 1.0)
        np.testing.assert_array_equal(alone.coefficient[0], got.coefficient[i])
        np.testing.assert_array_equal(alone.decay[0], got.decay[i])


@pytest.mark.parametrize(("loss", "f", "y", "slopes"), SLOPES)
def test_normalized_gradient_descent(loss, f, y, slopes, x64):
    norm = 1.0 + np.arange(len(f))
    got = step(NormalizedOGD(0.5, 0.25, loss), f, y, norm)
    expected = -0.5 * np.array(slopes) / (0.25 + norm)
    np.testing.assert_allclose(got.coefficient, [expected], rtol=1e-15)
    assert got.decay is None
    assert got.probability is None


def test_normalized_steps_reach_the_label_at_one_half():
    """η = 1/2 and ε = 0: after the step f(x) = y, whatever the norm."""
    for norm in (1e-6, 1.0, 1e6):
        got = step(NormalizedOGD(0.5, 0.0), [3.0], 1.0, [norm])
        np.testing.assert_allclose(3.0 + got.coefficient * norm, 1.0, rtol=1e-6)


RULES = (
    Perceptron(),
    PassiveAggressive(0.5),
    SparsePassiveAggressive(),
    OGD(0.1, 0.5, "hinge"),
    NormalizedOGD(0.1, loss="hinge"),
)


LARGEST = (*RULES[:2], SparsePassiveAggressive(0.5, 1.0, 1.5), SparsePassiveAggressive(0.05))
LARGEST += (*RULES[3:], OGD(2.0, loss="logistic"), NormalizedOGD(1.5, 0.25, "hinge"))


@pytest.mark.parametrize("rule", LARGEST, ids=repr)
def test_the_largest_step_is_reached_and_not_passed(rule):
    """By c or by c f, on a fine grid of values."""
    f = np.linspace(-40, 40, 80_001, dtype=np.float32)
    found = [step(rule, f, y).coefficient[0] for y in (-1.0, 1.0)]
    largest = max(np.maximum(np.abs(c), c * f).max() for c in found)
    np.testing.assert_allclose(largest, rule.largest_step, rtol=1e-2)


def test_a_largest_step_by_labels_of_any_size_is_not_known():
    assert OGD(0.1).largest_step is NormalizedOGD(0.1).largest_step is None


def test_a_coefficient_of_zero_is_one_in_any_dtype():
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):
        f, y, norm = jnp.ones((1, 2), dtype), jnp.ones((), dtype), jnp.ones((1, 2), dtype)
        for rule in RULES:
            got = jax.jit(rule.step)(f, y, norm)
            assert {leaf.dtype for leaf in jax.tree.leaves(got)} == {jnp.dtype(dtype)}
            np.testing.assert_array_equal(got.coefficient, np.zeros((1, 2)))


class Half(Update):
    """A rule from outside, which forgets by chance."""

    def step(self, f, y, norm):
        return Step(0.5 * (y - f), jnp.asarray(0.5, f.dtype), jnp.full_like(f, 0.5))


class SaidByName(Half):
    loss = "pinball"


@pytest.mark.parametrize(
    ("rule", "decays", "random"),
    [
        (Perceptron(), False, False),
        (PassiveAggressive(0.1), False, False),
        (SparsePassiveAggressive(), False, True),
        (OGD(0.1), True, False),
        (OGD([0.1, 0.2], 0.1, "hinge"), True, False),
        (NormalizedOGD(), False, False),
        (Half(), True, True),
    ],
)
def test_traits(rule, decays, random):
    def traits():
        step = shapes_of_step(rule)
        return step.decay is not None, step.probability is not None

    assert traits() == (decays, random)
    # under a trace too, where numbers cannot be looked at
    assert jax.eval_shape(lambda: jnp.zeros(traits()[0] + 2)).shape == (2 + decays,)


def test_every_rule_says_its_loss():
    for rule in (Perceptron(), PassiveAggressive(1.0), SparsePassiveAggressive(), Half()):
        assert repr(rule.loss) == "Hinge()"
    assert RLS().loss is OGD().loss is NormalizedOGD().loss is LOSSES["squared"]
    assert OGD(loss="logistic").loss is LOSSES["logistic"]
    assert repr(OGD(loss=Huber(2.0)).loss) == "Huber(threshold=2.0)"
    assert SaidByName().loss is LOSSES["pinball"]


@pytest.mark.parametrize(
    ("rule", "arguments", "wanted"),
    [
        (PassiveAggressive, {"aggressiveness": 0.0}, "aggressiveness"),
        (PassiveAggressive, {"aggressiveness": np.inf}, "aggressiveness"),
        (PassiveAggressive, {"aggressiveness": [0.1, 0.2]}, "aggressiveness"),
        (SparsePassiveAggressive, {"step_size": 0.0}, "step_size"),
        (SparsePassiveAggressive, {"alpha": -1.0}, "alpha"),
        (SparsePassiveAggressive, {"beta": np.nan}, "beta"),
        (SparsePassiveAggressive, {"alpha": 3.1, "beta": 3.0}, "beta"),
        (OGD, {"step_sizes": -0.1}, "step_sizes"),
        (OGD, {"step_sizes": [0.1, np.nan]}, "step_sizes"),
        (OGD, {"regularization": -0.1}, "regularization"),
        (OGD, {"step_sizes": 0.5, "regularization": 2.0}, "regularization"),
        (OGD, {"step_sizes": [0.1, 0.5], "regularization": 2.0}, "regularization"),
        (OGD, {"loss": "cubic"}, "loss"),
        (OGD, {"loss": Huber}, "loss"),
        (NormalizedOGD, {"step_size": 0.0}, "step_size"),
        (NormalizedOGD, {"epsilon": -1e-3}, "epsilon"),
        (NormalizedOGD, {"loss": "cubic"}, "loss"),
        (RLS, {"regularization": 0.0}, "regularization"),
        (RLS, {"forgetting": [0.9, 0.8], "regularization": [0.1, 0.2, 0.3]}, "forgetting"),
        (RLS, {"forgetting": 0.0}, "forgetting"),
        (RLS, {"forgetting": [0.9, 1.1]}, "forgetting"),
        (RLS, {"max_growth": 0.0}, "max_growth"),
        (RLS, {"max_growth": np.nan}, "max_growth"),
        (RLS, {"period": 0}, "period"),
        (RLS, {"period": 2.5}, "period"),
    ],
)
def test_bad_arguments_are_named(rule, arguments, wanted):
    with pytest.raises(ValueError, match=f"{rule.__name__}: {wanted} must be"):
        rule(**arguments)


def test_numbers_are_traced():
    """Other step sizes are not another trace, and what is checked is not looked at then."""
    traces = 0

    @jax.jit
    def moved(rule):
        nonlocal traces
        traces += 1
        return step(rule, [0.5], 1.0).coefficient[0, 0]

    assert float(moved(PassiveAggressive(0.25))) == 0.25
    assert float(moved(PassiveAggressive(0.125))) == 0.125
    assert traces == 1


# --- second order --------------------------------------------------------------------------------


def told(values, label, updates):
    """The feedback of a round, for all models of a rule with these values."""
    updates = jnp.broadcast_to(updates, (1, *values.shape[1:]))
    present = jnp.asarray(True)
    return Feedback(jnp.asarray(label), updates, present, present)


@functools.partial(jax.jit, static_argnames="block_size")
def least_squares(rule, Z, y, learns, block_size, start=0):
    """The state after Z (T, P, M), and values (T, R, P) of the one output, from ``start`` on."""
    T, P, M = Z.shape

    def one(state, example):
        code, label, taken = example
        values, aux = rule.predict(state, code, None)
        return rule.update(state, code, aux, told(values, label, taken)), values[0]

    def block(state, examples):
        Z, y, learns, first = examples
        codes = rule.encode(state, first, Z)
        state, values = jax.lax.scan(one, state, (codes, y, learns))
        return rule.close(state, codes, first + block_size), values

    blocks = [leaf.reshape(-1, block_size, *leaf.shape[1:]) for leaf in (Z, y, learns)]
    first = start + jnp.arange(0, T, block_size, dtype=jnp.int32)
    state, values = jax.lax.scan(block, rule.init(P, M, Z.dtype), (*blocks, first))
    return state, values.reshape(T, *values.shape[2:])


STEPS = jax.jit(least_squares, static_argnums=4)


def recursive(rule, forgetting, Z, y, learns):
    """The same for one factor and one kernel, in NumPy."""
    number = float(rule.regularization)
    growth = float(rule.max_growth)
    oracle = RecursiveLeastSquares(forgetting, number, growth, rule.period, Z.shape[1])
    values = []
    for t, (z, label, taken) in enumerate(zip(Z, y, learns, strict=True)):
        oracle.begin(t)
        values.append(oracle.theta @ z)
        if taken:
            oracle.learn(z, label)
    return oracle, np.array(values)


def features(num_examples, num_kernels=2, num_coordinates=5, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(num_examples, num_kernels, num_coordinates))
    y = Z[:, 0] @ rng.normal(size=num_coordinates) + 0.1 * rng.normal(size=num_examples)
    return Z, y, rng.random(num_examples) < 0.7


@pytest.mark.parametrize("block_size", [1, 4])
def test_least_squares_is_its_recursion(block_size, x64):
    """Examples without a label leave no trace; S and θ are up to date where a period is over."""
    rule = RLS(0.3, [1.0, 0.9], max_growth=3.0, period=8)
    Z, y, learns = features(64)
    state, values = least_squares(rule, Z, y, learns, block_size)
    for r, forgetting in enumerate((1.0, 0.9)):
        for p in range(2):
            oracle, expected = recursive(rule, forgetting, Z[:, p], y, learns)
            np.testing.assert_allclose(values[:, r, p], expected, rtol=1e-9, atol=1e-9)
            # features are divided by the root of the regularization
            theta = np.asarray(state.weights[0, r, p]) / np.sqrt(0.3)
            np.testing.assert_allclose(theta, oracle.theta, rtol=1e-9, atol=1e-9)
            S = np.asarray(state.covariance[r, p]) / 0.3
            np.testing.assert_allclose(S, oracle.covariance, rtol=1e-8, atol=1e-9)


def test_least_squares_without_forgetting_is_ridge_regression(x64):
    rule = RLS(0.5, [1.0, 1.0], period=8)
    Z, y, learns = features(64)
    state, _ = least_squares(rule, Z, y, learns, 4)
    for p in range(2):
        kept = Z[learns, p]
        ridge = np.linalg.solve(kept.T @ kept + 0.5 * np.eye(5), kept.T @ y[learns])
        for weights in np.asarray(state.weights)[0, :, p]:
            np.testing.assert_allclose(weights / np.sqrt(0.5), ridge, rtol=1e-10)


def test_nothing_learned_leaves_every_bit(x64):
    rule = RLS(0.1, [1.0, 0.99], period=8)
    Z, y, _ = features(64)
    state, _ = least_squares(rule, Z, y, np.zeros(64, bool), 4)
    assert_equal(state, jax.jit(lambda: rule.init(2, 5, jnp.float64))())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_least_squares_keep_their_digits_on_examples_of_any_size(seed, x64):
    """Where |z|² / λ is far above one over the unit of rounding; with and without forgetting."""
    draws, rule = np.random.default_rng(seed), RLS(0.01, [1.0, 0.999, 0.99])
    Z = draws.normal(size=(4096, 1, 4)) * 10.0 ** draws.uniform(-3, 3, (4096, 1, 1))
    y = np.tanh(Z[:, 0, 0] - Z[:, 0, 1]) + 0.1 * draws.normal(size=4096)
    found = {}
    for dtype in (np.float32, np.float64):
        rows = (Z.astype(np.float32).astype(dtype), y.astype(dtype), np.ones(4096, bool))
        state, values = STEPS(rule, *rows, 32)
        # the first large examples count for less in single precision
        errors = (np.asarray(values, float)[512:, :, 0] - y[512:, None]) ** 2
        found[dtype] = np.mean(errors, axis=0)
        S = np.asarray(state.covariance, float)
        eigenvalues = np.linalg.eigvalsh((S + np.swapaxes(S, -1, -2)) / 2)
        assert (eigenvalues > 0).all()
    assert (found[np.float32] <= 1.02 * found[np.float64]).all()


@pytest.mark.slow
def test_amid_a_block_rounds_that_are_over_are_not_looked_at(x64):
    """Bit for bit, with anything in their place."""
    rule = RLS(0.1, 0.95, period=4)
    Z, y, _ = features(4)

    @jax.jit
    def halves(Z, rest):
        def some(state, Z, first, rounds):
            codes = rule.encode(state, first, Z)
            for t in rounds:
                code = jax.tree.map(lambda leaf, t=t: leaf[t], codes)
                values, aux = rule.predict(state, code, None)
                state = rule.update(state, code, aux, told(values, y[t], True))
            return rule.close(state, codes, rounds[-1] + 1)

        start = rule.init(2, 5, jnp.float64)
        # closed amid the block, and encoded again without the first rows
        middle, last = some(start, Z, jnp.asarray(0), range(2)), (jnp.asarray(2), range(2, 4))
        return some(middle, rest, *last), some(middle, Z, *last)

    rest = Z.copy()
    rest[:2] = 7.0
    cut, whole = halves(Z, rest)
    for a, b in zip(jax.tree.leaves(cut), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(a, b)
    expected, _ = least_squares(rule, Z, y, np.ones(4, bool), 4)
    np.testing.assert_allclose(cut.weights, expected.weights, rtol=1e-10)
    np.testing.assert_allclose(cut.covariance, expected.covariance, atol=1e-12)


def test_a_number_and_several_factors():
    for forgetting, number in ((0.9, 1), ([0.9, 1.0, 0.5], 3)):
        rule = RLS(0.1, forgetting)
        assert rule.num_rates == number
        assert rule.init(2, 5, jnp.float32).covariance.shape == (number, 2, 5, 5)
