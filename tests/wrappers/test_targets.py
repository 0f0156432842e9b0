"""Scaled targets: against NumPy, equivariant, deaf to outliers where asked to be."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.wrappers import scaled_targets
from tests.common.marks import long
from tests.common.trees import scan

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian((0.5, 2.0))


@functools.cache
def stream(num_examples=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_examples, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=num_examples)


def begin(learner, dtype=np.float32):
    return learner.init(jax.random.key(0), 2, dtype)


def predictions(learner, X, y, dtype=np.float32):
    state = begin(learner, dtype)
    return np.asarray(jaxmkl.run(learner, state, X, y)[1].prediction, np.float64)


def test_oracle(x64):
    """The learner inside, fed by hand with what NumPy makes of the labels."""
    X, y = stream(40)
    y = 100 + 7 * y
    inner = jaxmkl.raker(KERNELS, num_features=4)
    said = predictions(scaled_targets(inner), X, y, np.float64)
    now = [y[: t + 1] for t in range(40)]
    means, spreads = (np.array([getattr(seen, f)() for seen in now]) for f in ("mean", "std"))
    z = np.append(0.0, (y - means)[1:] / spreads[1:])
    before = predictions(inner, X, z, np.float64)
    expected = np.append(0.0, means[:-1] + spreads[:-1] * before[1:])
    np.testing.assert_allclose(said, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clip", "offset", "scale"), long([(None, 1e4, 1e3)], [(None, 1e4, 1e3), (5.0, -5.0, -2.0)])
)
def test_units_change_nothing_else(clip, offset, scale, x64):
    X, y = stream()
    learner = scaled_targets(jaxmkl.raker(KERNELS, num_features=4), clip)
    # whether a label is clipped may hang on rounding
    dtype = np.float32 if clip is None else np.float64
    one = offset + scale * predictions(learner, X, y, dtype)
    other = predictions(learner, X, offset + scale * y, dtype)
    # the first prediction knows no label
    size = (1e-4 if clip is None else 1e-9) * (abs(offset) + abs(scale))
    np.testing.assert_allclose(other[1:], one[1:], atol=size)


@pytest.mark.slow
def test_the_first_label_is_asked_for():
    """A learner that would skip it, as its models agree, would not know where the target lies."""
    inner = jaxmkl.amkl(KERNELS, num_features=4, tolerance=1e9, max_skips=5)
    learner, (X, y) = scaled_targets(inner), stream(12)
    asked = {}
    for late in (0, 2):
        one = jaxmkl.wrappers.delayed(learner, late) if late else learner
        labels = np.where(np.arange(12) < 1, np.nan, y + 50)
        state = begin(one)
        ((state, outputs),) = jaxmkl.stream(one, state, [(X, labels)], gaps=True)
        asked[late] = np.flatnonzero(outputs.queried).tolist()
        first = outputs.prediction[asked[late][1] + late + 1]
        np.testing.assert_allclose(first, 50 + y[asked[late][1]], rtol=1e-6)
    # the first has no label, which is known two rounds later where labels are late
    assert asked[0][:2] == [0, 1]
    assert asked[2][:2] == [0, 3]
    assert len(asked[0]) == 3


@pytest.mark.slow
def test_a_budget_inside_is_hard_before_the_first_label():
    learner = scaled_targets(jaxmkl.label_budget(jaxmkl.raker(KERNELS, num_features=4), 3))
    X, _ = stream(12)
    state, outputs = scan(learner, begin(learner), X, np.full(12, np.nan, np.float32))
    assert outputs.queried.tolist() == [True] * 3 + [False] * 9
    assert int(state.inner.overdrawn) == 0


@pytest.mark.endless
@pytest.mark.filterwarnings("ignore:run. predictions err")  # of labels that are wild
def test_outliers_cost_little_where_labels_are_clipped():
    X, y = stream(2000)
    rng = np.random.default_rng(1)
    wild = np.where(rng.random(2000) < 0.01, 1e6 * rng.choice([-1, 1], 2000), y)
    errors = {}
    for clip in (None, 5.0):
        learner = scaled_targets(jaxmkl.raker(KERNELS, num_features=10), clip)
        for name, labels in (("clean", y), ("wild", wild)):
            errors[clip, name] = np.mean((predictions(learner, X, labels) - y)[100:] ** 2)
    assert errors[5.0, "wild"] < 2 * errors[None, "clean"]
    assert errors[None, "wild"] > 1e3 * errors[None, "clean"]
    assert errors[5.0, "clean"] < 1.1 * errors[None, "clean"]


@pytest.mark.endless
@pytest.mark.filterwarnings("ignore:run. predictions err .* as the mean of the labels would")
def test_hubers_loss_and_a_clip():
    """Behind scaled targets its threshold is one deviation, whatever the labels' units."""
    X, y = stream(2000)
    y = 1e3 * y
    rng = np.random.default_rng(1)
    wild, sign = rng.random(2000) < 0.01, rng.choice([-1, 1], 2000)
    errors = {}
    for loss in ("squared", "huber"):
        learner = scaled_targets(
            jaxmkl.raker(KERNELS, num_features=10, loss=loss), None if loss == "squared" else 10.0
        )
        for size in (0.0, 1e9):
            labels = np.where(wild, size * sign, y) if size else y
            errors[loss, size] = np.mean((predictions(learner, X, labels) - y)[100:] ** 2)
    assert errors["huber", 1e9] < 1.5 * errors["squared", 0.0]
    assert errors["huber", 0.0] < 1.1 * errors["squared", 0.0]
    assert errors["squared", 1e9] > 1e3 * errors["squared", 0.0]


@pytest.mark.parametrize("at", [0, 700])
def test_one_absurd_label_is_forgotten(at):
    X, y = stream(2000)
    learner = scaled_targets(jaxmkl.raker(KERNELS, num_features=10))
    absurd = y.copy()
    absurd[at] = 1e12
    clean = predictions(learner, X, y)[1000:] - y[1000:]
    after = predictions(learner, X, absurd)[1000:] - y[1000:]
    assert np.mean(after**2) < 3 * np.mean(clean**2)


@pytest.mark.endless
def test_labels_that_do_not_come_change_nothing():
    X, y = stream(50)
    learner = scaled_targets(jaxmkl.raker(KERNELS, num_features=4))
    state = begin(learner)
    state, _ = jaxmkl.run(learner, state, X, y)
    after = jax.jit(learner.skip)(state, X[0])
    broken = jax.jit(learner.update)(state, X[0], np.nan)
    for name in ("num_seen", "mean", "variance"):
        of_moments = (getattr(s.moments, name) for s in (after, broken, state))
        assert len({float(np.squeeze(value)) for value in of_moments}) == 1
    assert after.residual == broken.residual == state.residual
    assert int(broken.invalid) == 1


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: scaled_targets(jaxmkl.spa()), "learner"),
        (lambda: scaled_targets(None), "learner"),
        (lambda: scaled_targets(jaxmkl.raker(), 0.0), "clip"),
    ],
)
def test_errors(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()


@pytest.mark.slow
def test_dtypes_that_are_never_promoted_by_themselves():
    learner = scaled_targets(jaxmkl.raker(KERNELS, num_features=4), clip=3.0)
    state = learner.init(jax.random.key(0), 2)
    X, y = (array[:4].astype(np.float32) for array in stream())
    with jax.numpy_dtype_promotion("strict"):
        assert jaxmkl.run(learner, state, X, y)[0].residual > 0


@pytest.mark.slow
def test_losses_have_derivatives_by_the_labels(x64):
    """The variance after the first label is 0, where the root has no derivative."""
    learner = scaled_targets(jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=4))
    X, y = jnp.ones((4, 1)), jnp.array([1.0, 2.0, 3.0, 2.0])
    start = learner.init(jax.random.key(0), num_inputs=1)

    @jax.jit
    def loss(y):
        return jax.lax.scan(learner.step, start, (X, y))[1].loss.sum()

    apart = 1e-6 * np.eye(4)
    by_difference = [(loss(y + one) - loss(y - one)) / 2e-6 for one in apart]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(y), by_difference, rtol=1e-6)
