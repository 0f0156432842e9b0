"""Intervals: against NumPy in double precision, and the coverage of each half of a stream."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.wrappers import Intervals, intervals, scaled_targets
from tests.common.trees import assert_equal, begin, plain, scan

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian((0.5, 2.0))


def stream(num_examples, noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_examples, 2))
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=num_examples)


def test_oracle(x64):
    X, y = stream(200, 0.3)
    y[17], X[30] = np.nan, np.nan
    inner = jaxmkl.raker(KERNELS, num_features=4, query=jaxmkl.query.Random(0.7))
    learner = intervals(inner, 0.8, 0.1)
    state, outputs = plain(scan(learner, begin(learner), X, y))
    radius, quantile, excess, labels = np.nan, np.nan, 0.0, 0
    for t, f in enumerate(np.asarray(outputs.prediction)):
        np.testing.assert_allclose(outputs.info.radius[t], radius, rtol=1e-9)
        if not outputs.queried[t] or not np.isfinite(y[t]):
            continue
        distance = abs(y[t] - f)
        step = max(0.1, 1 / np.sqrt(1 + labels))
        excess += (distance > radius) - 0.2 if labels else 0
        quantile = quantile * np.exp(step * ((distance > quantile) - 0.2)) if labels else distance
        radius = quantile * np.exp(0.02 * excess)
        labels += 1
    for name, value in (("radius", radius), ("quantile", quantile), ("excess", excess)):
        np.testing.assert_allclose(getattr(state, name), value, rtol=1e-9)
    assert abs(excess) > 0.5
    assert int(state.labels) == labels < 199
    # predictions are those of the learner inside
    _, alone = scan(inner, begin(inner), X, y)
    np.testing.assert_array_equal(alone.prediction, outputs.prediction)


def least_squares():
    """A learner that knows its variance, which is 0 until it has erred."""
    return jaxmkl.MKL(jaxmkl.models.FeatureModels(KERNELS, jaxmkl.updates.RLS(), FEATURES))


FEATURES = jaxmkl.features.FourierFeatures(num_features=4)


@pytest.mark.slow
def test_oracle_in_units_of_the_deviation(x64):
    """The first labels are 0, and so are all units and errors until one is not."""
    X, y = stream(200, 0.3)
    y[:5], y[17] = 0.0, np.nan
    learner = intervals(least_squares(), 0.8, 0.1)
    state, outputs = plain(scan(learner, begin(learner), X, y))
    eps = np.finfo(float).eps
    radius, quantile, excess, labels, silent = np.nan, np.nan, 0.0, 0, 0
    for t, f in enumerate(np.asarray(outputs.prediction)):
        np.testing.assert_allclose(outputs.info.radius[t], radius, rtol=1e-9)
        unit = max(np.sqrt(max(outputs.variance[t], np.finfo(float).tiny)), eps * abs(f))
        low, high = (end[t] for end in outputs.interval)
        np.testing.assert_allclose((high - low) / 2, unit * radius, rtol=1e-6, atol=1e-9)
        if not np.isfinite(y[t]):
            continue
        if unit <= eps * abs(y[t] - f) or (labels == 0 and y[t] == f):
            silent += 1
            continue
        distance = abs(y[t] - f) / unit
        step = max(0.1, 1 / np.sqrt(1 + labels))
        excess += (distance > radius) - 0.2 if labels else 0
        moved = quantile * np.exp(step * ((distance > quantile) - 0.2))
        quantile = moved if labels else np.clip(distance, 1, 10)
        radius = quantile * np.exp(0.02 * excess)
        labels += 1
    assert silent > 0
    np.testing.assert_allclose(state.radius, radius, rtol=1e-9)
    assert int(state.labels) == labels == 199 - silent


@pytest.mark.endless
@pytest.mark.parametrize(
    "around",
    [
        intervals,
        lambda inner: intervals(scaled_targets(inner)),
    ],
)
def test_widths_are_of_the_labels_order_from_the_start(around):
    """Where the learner's variance is 0 at first, as nothing or only zeros came before."""
    X, y = stream(600, 0.1)
    for labels in (y, y - y[0], np.where(np.arange(600) < 20, 0.0, y)):
        learner = around(least_squares())
        low, high = plain(scan(learner, begin(learner), X, labels)[1].interval)
        assert (high - low)[30:].max() < 10
        np.testing.assert_allclose(jaxmkl.metrics.coverage(low, high, labels), 0.9, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 38.16])
def test_labels_that_do_not_vary_yet_make_no_narrow_interval(level):
    """Around a learner without a variance; of two targets each has its own."""
    X, y = stream(600, 0.3)
    y = np.where(np.arange(600) < 100, level, level + y).astype("f")
    inner = jaxmkl.raker(KERNELS, num_features=4, num_outputs=2)
    learner, both = intervals(scaled_targets(inner)), np.stack([y, y[::-1]], axis=1)
    outputs = plain(scan(learner, begin(learner), X.astype("f"), both)[1])
    low, high = outputs.interval
    assert (np.isnan(low) | (high - low > 1e-3)).all()
    covered = (low <= both) & (both <= high)
    assert covered[103:303, 0].mean() > 0.8
    assert covered[10:210, 1].mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(least_squares, marks=pytest.mark.endless),
        lambda: jaxmkl.raker(KERNELS, num_features=4),
    ],
)
def test_an_outlying_label_is_as_none(make):
    X, y = stream(60, 0.3)
    learner, outcome = intervals(make()), []
    for bad in (np.nan, 1e12):
        y[40] = bad
        state, _ = scan(learner, begin(learner), X, y)
        assert int(state.invalid) == 1
        outcome.append((state.radius, state.quantile, state.labels))
    assert_equal(*outcome)


@pytest.mark.endless
def test_widths_in_units_of_the_deviation_have_derivatives(x64):
    X, y = stream(24, 0.3)

    @jax.jit
    def width(log_rate):
        rule = jaxmkl.updates.RLS(regularization=jax.numpy.exp(log_rate))
        bank = jaxmkl.models.FeatureModels(KERNELS, rule, FEATURES)
        learner = intervals(jaxmkl.MKL(bank))
        _, outputs = scan(learner, learner.init(jax.random.key(0), 2), X, y)
        return jaxmkl.metrics.width(*outputs.interval)

    found, h = jax.grad(width)(-1.0), 1e-6
    np.testing.assert_allclose(found, (width(-1.0 + h) - width(-1.0 - h)) / (2 * h), rtol=1e-5)
    assert abs(found) > 1e-3


@pytest.mark.endless
def test_widths_have_derivatives(x64):
    X, y = stream(24, 0.3)
    inner = jaxmkl.raker(KERNELS, num_features=4)

    @jax.jit
    def width(numbers):
        learner = intervals(inner, numbers[0], numbers[1])
        state = learner.init(jax.random.key(0), 2, X.dtype)
        _, (low, high) = jaxmkl.run(learner, state, X, y, record=lambda output: output.interval)
        return (high - low)[5:].mean()

    at, h = np.array([0.8, 0.3]), 1e-6
    steps = h * np.eye(2)
    wanted = [(width(at + step) - width(at - step)) / (2 * h) for step in steps]
    np.testing.assert_allclose(jax.jit(jax.grad(width))(at), wanted, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("coverage", "growing"), [(0.5, True), (0.9, False)])
def test_every_half_is_covered(coverage, growing):
    """Where the noise grows tenfold along the stream too."""
    size = 4000
    X, y = stream(size, np.geomspace(0.1, 1.0, size) if growing else 0.3)
    learner = intervals(jaxmkl.raker(KERNELS, num_features=4), coverage)
    state = begin(learner)
    state, outputs = jaxmkl.run(learner, state, X, y)
    low, high = map(np.asarray, outputs.interval)
    inside = (low <= y) & (y <= high)
    shares = inside.reshape(2, -1).mean(axis=1)
    np.testing.assert_allclose(shares, coverage, atol=0.015)
    known = jaxmkl.metrics.coverage(low, high, y)
    np.testing.assert_allclose(known, inside[1:].mean(), rtol=1e-4)
    lower, upper = jax.jit(learner.interval)(state, X[0])
    np.testing.assert_allclose(upper - lower, 2 * state.radius, rtol=1e-5)


@pytest.mark.data
@pytest.mark.endless
@pytest.mark.parametrize("dataset", ["twitter", "tom", "air", "energy", "naval"])
@pytest.mark.parametrize("name", ["raker", "expert_mkl"])
def test_every_half_of_the_papers_streams_is_covered(name, dataset, data_dir):
    """As the experiments load them: nothing scaled, naval by its one largest entry."""
    data = jaxmkl.tables.read(data_dir / f"{dataset}.npz")
    X = jaxmkl.tables.scale(data.X, "largest") if dataset == "naval" else data.X
    X, y = X.astype(np.float32), data.y.astype(np.float32)
    few = {"num_features": 20, "step_sizes": (0.5,), "forgetting": (1.0,)}
    learner = intervals(getattr(jaxmkl, name)(**few if name == "expert_mkl" else {}), 0.9)
    state = learner.init(jax.random.key(0), X.shape[1])
    _, outputs = jaxmkl.run(learner, state, X, y)
    half, (low, high) = len(y) // 2, outputs.interval
    for part in (slice(half), slice(half, None)):
        assert 0.89 <= jaxmkl.metrics.coverage(low[part], high[part], y[part]) <= 0.91
    assert jaxmkl.metrics.width(low, high) < 3.3 * np.std(y)


@pytest.mark.slow
def test_dtypes_that_are_never_promoted_by_themselves():
    X, y = (array.astype(np.float32) for array in stream(4, 0.3))
    learner = intervals(jaxmkl.raker(KERNELS, num_features=4))
    state = begin(learner)
    with jax.numpy_dtype_promotion("strict"):
        assert np.isfinite(jaxmkl.run(learner, state, X, y)[0].radius)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: intervals(jaxmkl.spa()), "learner"),
        (lambda: intervals(0.5), "learner"),
        (lambda: intervals(jaxmkl.raker(), 0.0), "coverage"),
        (lambda: intervals(jaxmkl.raker(), 1.5), "coverage"),
        (lambda: Intervals(jaxmkl.raker(), step_size=-1.0), "step_size"),
    ],
)
def test_errors(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()
