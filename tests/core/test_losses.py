"""Losses against NumPy, their slopes against derivatives, their kinks, and losses of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import aggregate, losses, models, updates
from jaxmkl.losses import LOSSES
from jaxmkl.testing import check_learner
from tests.common.trees import begin

SMALL_PROGRAMS = True
numbers = st.floats(-50, 50, allow_subnormal=False)
IN_NUMPY = {
    "squared": lambda f, y: np.square(np.subtract(f, y)),
    "huber": lambda f, y, threshold=1.0: np.where(
        np.abs(np.subtract(f, y)) <= threshold,
        np.subtract(f, y) ** 2,
        threshold * (2 * np.abs(np.subtract(f, y)) - threshold),
    ),
    "epsilon_insensitive": lambda f, y, epsilon=0.1: np.clip(
        np.abs(np.subtract(f, y)) - epsilon, 0, None
    ),
    "pinball": lambda f, y, quantile=0.9: np.where(
        np.less(f, y), quantile * np.subtract(y, f), (1 - quantile) * np.subtract(f, y)
    ),
    "logistic": lambda f, y: np.logaddexp(0, -np.multiply(y, f)),
    "hinge": lambda f, y: np.clip(1 - np.multiply(y, f), 0, None),
}
# a parameter, and where the kinks are, as numbers that are 0 there
PARAMETERS = {
    "huber": ("threshold", st.floats(0.1, 10), lambda f, y, d: [abs(f - y) - d]),
    "epsilon_insensitive": ("epsilon", st.floats(0, 10), lambda f, y, e: [abs(f - y) - e, f - y]),
    "pinball": ("quantile", st.floats(0, 1), lambda f, y, q: [f - y]),
    "hinge": (None, st.none(), lambda f, y, _: [1 - y * f]),
}


def test_names_and_tasks():
    assert {name: (type(loss).__name__, loss.task) for name, loss in LOSSES.items()} == {
        "squared": ("Squared", "regression"),
        "huber": ("Huber", "regression"),
        "epsilon_insensitive": ("EpsilonInsensitive", "regression"),
        "pinball": ("Pinball", "regression"),
        "logistic": ("Logistic", "classification"),
        "hinge": ("Hinge", "classification"),
    }


@jax.jit
def derived(loss, f, y):
    """The value, its derivative, the loss's slope, and the slope that a loss has by default."""
    value, derivative = jax.value_and_grad(loss.value)(f, y)
    return value, derivative, loss.slope(f, y), losses.Loss.slope(loss, f, y)


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data())
def test_value_and_slope(name, data):
    """At any parameter, off the kinks."""
    argument, drawn, kinks = PARAMETERS.get(name, (None, st.none(), lambda *_: []))
    regression = LOSSES[name].task == "regression"
    f, y = data.draw(numbers), data.draw(numbers if regression else st.sampled_from([-1.0, 1.0]))
    given = {} if argument is None else {argument: data.draw(drawn)}
    step = 1e-5
    assume(all(abs(kink) > 2 * step for kink in kinks(f, y, *(given.values() or [None]))))
    loss = type(LOSSES[name])(**given)
    with jax.enable_x64(True):
        value, derivative, slope, by_default = derived(loss, f, y)
    expected = IN_NUMPY[name]
    np.testing.assert_allclose(value, expected(f, y, **given), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slope, derivative, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(by_default, derivative)
    above, below = expected(f + step, y, **given), expected(f - step, y, **given)
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5, atol=1e-5)


def test_slopes_at_kinks_are_zero():
    one, r = np.float32(1), jnp.asarray([-0.75, -0.5, 0, 0.5, 0.75], jnp.float32)
    below, above = np.nextafter(one, np.float32(0)), np.nextafter(one, np.float32(2))
    margins = np.array([-3, 0, below, one, above, 7], np.float32)
    for y in (-1.0, 1.0):
        slope = losses.Hinge().slope(jnp.asarray(margins * y), jnp.full(6, y))
        np.testing.assert_array_equal(slope, [-y, -y, -y, 0, 0, 0])
    np.testing.assert_array_equal(losses.Hinge().value(margins[3:], jnp.ones(3)), 0)
    slope = losses.EpsilonInsensitive(0.5).slope(2.0 + r, 2.0)
    np.testing.assert_array_equal(slope, [-1, 0, 0, 0, 1])
    slope = losses.Pinball(0.75).slope(2.0 + r, 2.0)
    np.testing.assert_array_equal(slope, [-0.75, -0.75, 0, 0.25, 0.25])


def test_huber_is_squared_near_and_linear_far():
    """Even for labels as large as numbers go."""
    r = np.asarray([-1e30, -3, -1, -0.5, 0, 0.5, 1, 3, 1e30], np.float32)
    loss = losses.Huber()
    value, slope = jax.jit(lambda f: (loss.value(f, 7.0), loss.slope(f, 7.0)))(7.0 + r)
    np.testing.assert_allclose(value, [2e30, 5, 1, 0.25, 0, 0.25, 1, 5, 2e30], rtol=1e-6)
    np.testing.assert_allclose(slope, [-2, -2, -2, -1, 0, 1, 2, 2, 2])
    derivative = jax.jit(jax.vmap(jax.grad(loss.value), in_axes=(0, None)))(r, 0.0)
    np.testing.assert_array_equal(derivative, slope)
    assert np.isnan(jax.jit(loss.value)(np.nan, 0.0))


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_logistic_of_large_margins(y):
    """Linear on the wrong side, zero on the right one, with neither overflow nor NaN."""
    f, loss = np.float32([-1e30, -1e4, 0, 1e4, 1e30]) * np.float32(y), losses.Logistic()
    value, slope = jax.jit(lambda f: (loss.value(f, y), loss.slope(f, y)))(f)
    expected = np.float32([1e30, 1e4, np.log(2), 0, 0])
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(slope, np.array([-1, -1, -0.5, 0, 0]) * y, rtol=1e-6)
    derivative = jax.jit(jax.vmap(jax.grad(loss.value), in_axes=(0, None)))(f, y)
    np.testing.assert_allclose(derivative, slope, rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_in_the_types_given(name, dtype):
    rng = np.random.default_rng(0)
    f = rng.normal(size=(3, 4)).astype(dtype)
    y = np.sign(rng.normal(size=(3, 4))).astype(dtype)
    with jax.enable_x64(True):
        value, slope = jax.jit(lambda f, y: (LOSSES[name].value(f, y), LOSSES[name].slope(f, y)))(
            f, y
        )
        alone = jax.jit(LOSSES[name].value)(f[1, 2], y[1, 2])
        by_default = jax.jit(lambda f, y: losses.Loss.slope(LOSSES[name], f, y))(f, y)
    assert value.dtype == slope.dtype == dtype
    assert value.shape == slope.shape == (3, 4)
    np.testing.assert_allclose(value[1, 2], alone, rtol=1e-6)
    np.testing.assert_allclose(by_default, slope, rtol=1e-5)
    assert (np.asarray(value) >= 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.Huber(0.0), "Huber: threshold must be a positive finite number"),
        (lambda: losses.EpsilonInsensitive(-0.1), "EpsilonInsensitive: epsilon must be a finite"),
        (lambda: losses.Pinball(1.5), r"Pinball: quantile must be a number in \[0, 1\]"),
        (lambda: updates.OGD(loss="cubic"), "OGD: loss must be a loss, as .* 'pinball'.*'cubic'"),
        (lambda: jaxmkl.raker(loss="cubic"), "OGD: loss must be a loss"),
        (lambda: type("Mine", (losses.Loss,), {}), "Mine: task must be 'regression' or"),
        (lambda: type("Rule", (updates.Rule,), {"loss": "cubic"}), "Rule: loss must be a loss"),
    ],
)
def test_what_is_no_loss_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- in learners ---------------------------------------------------------------------------------


@jaxmkl.pytree.dataclass
class Quartic(losses.Loss):
    task = "regression"

    def value(self, prediction, y):
        return (prediction - y) ** 4


@jaxmkl.pytree.dataclass
class SquaredHinge(losses.Loss):
    """For classes, with a parameter."""

    margin: float = jaxmkl.pytree.positive(default=1.0)
    task = "classification"

    def value(self, prediction, y):
        return jnp.maximum(self.margin - y * prediction, 0.0) ** 2


KERNELS = jaxmkl.Gaussian((0.5, 2.0))
OWN = {
    "classes": lambda: jaxmkl.raker(
        KERNELS, num_features=4, loss=SquaredHinge(2.0), num_classes=3
    ),
    "one against the rest": lambda: jaxmkl.wrappers.one_vs_rest(
        jaxmkl.kernel_ogd(loss=SquaredHinge()), 3
    ),
    "a moving kernel": lambda: jaxmkl.oks_sil(budget=6, loss=SquaredHinge()),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", OWN)
def test_a_loss_of_ones_own_in_learners(name):
    check_learner(OWN[name](), block_sizes=(16,))


def stream(num_examples=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_examples, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=num_examples)


@pytest.mark.slow
def test_gradient_descent_on_features_and_supports(x64):
    """A run is the recursion in NumPy, on the features' own kernel z·z' and on k."""
    X, y = stream()
    rule, rate = updates.OGD(0.1, 0.5, Quartic()), 0.1
    fourier = jaxmkl.features.FourierFeatures(6)
    banks = (
        models.FeatureModels(jaxmkl.Gaussian(1.0), rule, fourier),
        models.SupportModels(jaxmkl.Gaussian(1.0), rule),
    )
    for bank in banks:
        learner = jaxmkl.MKL(bank, aggregate.Uniform())
        state = begin(learner)
        _, outputs = jaxmkl.run(learner, state, X, y, block_size=16)
        if isinstance(bank, models.FeatureModels):
            turns = X @ np.asarray(state.models[0].frequencies)[0].T
            z = np.concatenate([np.sin(turns), np.cos(turns)], axis=1) / np.sqrt(6)
            gram = z @ z.T
        else:
            gram = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2)
        coefficients, predictions = np.zeros(len(y)), np.zeros(len(y))
        for t in range(len(y)):
            predictions[t] = coefficients @ gram[t]
            coefficients *= 1 - rate * 0.5
            coefficients[t] = -rate * 4 * (predictions[t] - y[t]) ** 3
        np.testing.assert_allclose(outputs.prediction, predictions, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(outputs.loss, (predictions - y) ** 4, rtol=1e-8, atol=1e-9)


@pytest.mark.endless
def test_parameters_are_swept_and_differentiated(x64):
    X, y = stream()

    def total(quantile):
        learner = jaxmkl.raker(KERNELS, num_features=4, loss=losses.Pinball(quantile))
        state = learner.init(jax.random.key(0), 2)
        return jax.lax.scan(learner.step, state, (X, y))[1].loss.sum()

    step = 1e-6
    quantiles = jnp.array([0.1, 0.5, 0.9, 0.3 - step, 0.3 + step])
    swept = jax.jit(jax.vmap(total))(quantiles)
    assert len({float(value) for value in swept[:3]}) == 3
    value, slope = jax.jit(jax.value_and_grad(total))(0.3)
    np.testing.assert_allclose(value, (swept[3] + swept[4]) / 2, rtol=1e-9)
    np.testing.assert_allclose(slope, (swept[4] - swept[3]) / (2 * step), rtol=1e-4)


def test_quantiles_are_followed():
    """Without features that matter, predictions settle where q of the labels are below."""
    rng = np.random.default_rng(0)
    y = rng.exponential(size=4000)
    rule = updates.OGD(0.05, loss=losses.Pinball(0.75))
    bank = models.FeatureModels(jaxmkl.Linear(), rule, jaxmkl.features.LinearFeatures())
    learner = jaxmkl.MKL(bank)
    state = begin(learner, 1)
    with pytest.warns(RuntimeWarning, match="all 4000 rows have the same inputs"):
        _, outputs = jaxmkl.run(learner, state, np.ones((4000, 1)), y)
    assert abs(float((y[1000:] < outputs.prediction[1000:]).mean()) - 0.75) < 0.02


def test_a_learner_with_losses_is_written_and_read(tmp_path):
    learner = jaxmkl.raker(KERNELS, num_features=3, loss=losses.EpsilonInsensitive(0.25))
    state = begin(learner)
    jaxmkl.save(tmp_path / "it.npz", learner, state)
    loaded, _ = jaxmkl.load(tmp_path / "it.npz", like=learner)
    assert repr(loaded) == repr(learner)
    assert "loss=EpsilonInsensitive(epsilon=0.25)" in repr(learner)
    assert repr(eval(repr(learner.models[0].rules), vars(updates) | vars(losses)))
    other = jaxmkl.raker(KERNELS, num_features=3)
    with pytest.raises(ValueError, match=r"loss is EpsilonInsensitive.* and Squared\(\) in like"):
        jaxmkl.load(tmp_path / "it.npz", like=other)


@pytest.mark.parametrize("name", ["squared", "huber", "logistic", "hinge", "pinball"])
def test_bounds_of_derivatives_are_reached_and_not_passed(name):
    """The curvature that warnings of step sizes read, by differences of slopes on a fine grid."""
    loss = LOSSES[name]
    f = np.linspace(-30, 30, 60_001)
    slopes = np.asarray(loss.slope(jnp.asarray(f, jnp.float32), jnp.float32(1)), np.float64)
    if loss.steepest is not None:
        np.testing.assert_allclose(np.abs(slopes).max(), loss.steepest, rtol=1e-6)
    if loss.curvature is not None:
        apart = 100  # far enough for the digits of slopes
        second = np.abs(slopes[apart:] - slopes[:-apart]) / (f[apart] - f[0])
        np.testing.assert_allclose(second.max(), loss.curvature, rtol=1e-2)
