"""Banks with a learned metric: an oracle over two renewals, their parts, and bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl._metric import signs_of
from jaxmkl.features import FeatureMap, FourierFeatures, SampledDictionary
from jaxmkl.models import FeatureModels, MetricModels
from jaxmkl.testing import check_learner
from jaxmkl.updates import OGD, RLS
from tests.common.marks import long
from tests.common.trees import assert_equal, begin, scan, stacked
from tests.oracles.metric import MetricBank

SMALL_PROGRAMS = True

WIDTHS, FEATURES = np.array([0.7, 2.0]), 5


def learner_of(
    shape="diagonal", *, forgetting=1.0, outputs=None, size=100, aggregate=None, **options
):
    rules = RLS(0.1, forgetting, max_growth=1e9, period=8), OGD(0.3)
    inside = FeatureModels(jaxmkl.Gaussian(WIDTHS), rules, FourierFeatures(FEATURES))
    bank = MetricModels(inside, shape, size, **({"first": 16} | options))
    given = {} if aggregate is None else {"aggregate": aggregate}
    return jaxmkl.MKL(bank, loss="squared", num_outputs=outputs, **given)


def stream(T, D=3, outputs=None, dtype=np.float64):
    draws = np.random.default_rng(5)
    X = draws.normal(size=(T, D))
    y = np.sin(2 * X[:, 0]) + 0.1 * X[:, -1]
    y = y if outputs is None else np.stack([y, X[:, 0] * X[:, -1]], axis=1)
    return X.astype(dtype), y.astype(dtype)


def signs(round, turn):
    """The learner's draws."""
    return np.asarray(signs_of(round, turn, 3, np.float64))


def values_of(bank, state, round, x):
    codes = bank.encode(state, x[None], round, None)
    return bank.predict(state, jax.tree.map(lambda leaf: leaf[0], codes))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "outputs", "forgetting"),
    [
        ("full", 2, 1.0),
        pytest.param("full", None, 0.95, marks=pytest.mark.endless),
        pytest.param("diagonal", 2, 0.95, marks=pytest.mark.endless),
    ],
)
def test_is_a_plain_loop_over_two_renewals(x64, shape, outputs, forgetting):
    X, y = stream(40, outputs=outputs)
    learner = learner_of(shape, forgetting=forgetting, outputs=outputs)
    state = begin(learner, 3, seed=2)
    frequencies = np.asarray(state.models[0].features[0]) / WIDTHS[:, None, None]
    loop = MetricBank(
        frequencies, 0.1, forgetting, 0.3, shape == "diagonal", 16, outputs or 1, signs
    )
    predict = jax.jit(functools.partial(values_of, learner.models[0]))

    def each(state, example):
        state, _ = learner.step(state, example)
        return state, state

    _, states = jax.jit(lambda s: jax.lax.scan(each, s, (X, y)))(state)
    for t in range(40):
        loop.learn(X[t], np.atleast_1d(y[t]))
        if t in (3, 15, 20, 31, 39):
            own = jax.tree.map(lambda leaf, t=t: leaf[t], states.models[0])
            values = np.asarray(predict(own, t + 1, X[-1])).reshape(loop.K, 2, -1)
            wanted = np.moveaxis(loop.values(X[-1]), 0, 1)
            # the jitter that keeps S definite is of the size of rounding
            np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-9)
            np.testing.assert_allclose(own.losses, loop.losses, rtol=0, atol=1e-9)
            metric = np.asarray(own.metrics[0] if shape == "full" else np.diag(own.metrics[0]))
            np.testing.assert_allclose(metric @ metric.T, loop.L @ loop.L.T, atol=1e-9)


@pytest.mark.endless
def test_shards_are_merged_by_a_renewal(x64):
    """On all that they saw, which has room, from the models of the shard that saw the most."""
    X, y = stream(40)
    learner = learner_of("full", aggregate=jaxmkl.aggregate.Uniform())
    start = begin(learner, 3, seed=2)
    both = stacked(start, start)
    halves = (np.stack([a[:26], a[14:]]) for a in (X, y))
    shards, _ = jaxmkl.run_fleet(learner, both, *halves, lengths=[14, 26])
    merged = jaxmkl.merge(learner, shards)
    frequencies = np.asarray(start.models[0].features[0]) / WIDTHS[:, None, None]
    loop = MetricBank(frequencies, 0.1, 1.0, 0.3, False, 16, 1, signs)
    for t in range(14, 40):
        loop.learn(X[t], y[t, None])
    own = merged.models[0]
    kept = np.asarray(merged.memory.X[:40])
    assert_equal(np.sort(kept, axis=0), np.sort(X, axis=0))
    order = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in kept]
    loop.X, loop.Y = list(X[order]), list(y[order, None])
    for turn in range(2):
        loop.renew(turn)
    metric = np.asarray(own.metrics[0])
    np.testing.assert_allclose(metric @ metric.T, loop.L @ loop.L.T, atol=1e-9)
    predict = jax.jit(functools.partial(values_of, learner.models[0]))
    values = np.asarray(predict(own, 40, X[-1])).reshape(2, -1)
    np.testing.assert_allclose(values, loop.values(X[-1])[:, 0], rtol=0, atol=1e-9)
    assert int(merged.round) == 40


def test_gradients_in_closed_form_are_those_of_any_map(x64):
    features, kernels = FourierFeatures(4), jaxmkl.Gaussian([0.5, 1.0, 3.0])
    X, _ = stream(6, 2)
    weights = np.random.default_rng(0).normal(size=(2, 3, 8))

    @jax.jit
    def both(X, weights):
        state = features.init(jax.random.key(0), kernels, 2, jnp.float64)
        derived = FeatureMap.gradients(features, state, kernels, X, weights)
        return features.gradients(state, kernels, X, weights), derived

    closed, derived = both(X, weights)
    assert closed.shape == (6, 2, 3, 2)
    np.testing.assert_allclose(closed, derived, atol=1e-12)


def test_least_squares_at_once_are_those_of_a_stream(x64):
    """With all counts 1 and nothing forgotten; then one goes on like the other."""
    rule, draws = RLS([0.1, 2.0], period=8), np.random.default_rng(0)
    Z, y = draws.normal(size=(16, 2, 3)), draws.normal(size=(16, 2))

    @jax.jit
    def both(Z, y):
        given = rule.init(2, 3, jnp.float64, 2), Z, y, jnp.ones(16), jnp.asarray(16)
        return rule.fitted(*given), jaxmkl.updates.Rule.fitted(rule, *given)

    at_once, streamed = both(Z, y)
    for name in "weights", "covariance":
        ours, theirs = getattr(at_once, name), getattr(streamed, name)
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.slow
def test_examples_count_as_often_as_they_say(x64):
    rule, draws = RLS(0.5), np.random.default_rng(0)
    Z, y = draws.normal(size=(5, 1, 3)), draws.normal(size=5)
    counts = np.array([2, 0, 1, 3, 1])

    @jax.jit
    def fitted(Z, y, counts):
        return rule.fitted(rule.init(1, 3, jnp.float64), Z, y, counts, jnp.asarray(7))

    weighted = fitted(Z, y, counts.astype(float))
    repeated = fitted(np.repeat(Z, counts, axis=0), np.repeat(y, counts), np.ones(7))
    np.testing.assert_allclose(weighted.weights, repeated.weights, atol=1e-12)
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, atol=1e-12)


@pytest.mark.slow
def test_gradient_steps_leave_out_what_does_not_count():
    rule, draws = OGD(0.3), np.random.default_rng(0)
    Z, y = (draws.normal(size=s).astype(np.float32) for s in ((6, 1, 3), 6))
    counts = np.array([1, 0, 1, 1, 0, 0], np.float32)

    @jax.jit
    def fitted(Z, y, counts):
        return rule.fitted(rule.init(1, 3, jnp.float32), Z, y, counts, jnp.asarray(9))

    some, kept = fitted(Z, y, counts), np.flatnonzero(counts)
    alone = fitted(Z[kept], y[kept], np.ones(3, np.float32))
    assert_equal(some, alone)


@pytest.mark.endless
@pytest.mark.parametrize("case", ["numbers", "full, two targets", "three classes"])
def test_keeps_the_contract(case):
    options = {"first": 16, "size": 9}
    if case == "numbers":
        learner = learner_of(**options)
    elif case == "full, two targets":
        learner = learner_of("full", outputs=2, forgetting=0.9, **options)
    else:
        bank = learner_of(**options).models[0]
        learner = jaxmkl.MKL(bank, loss="squared", task="classification", num_outputs=3)
    check_learner(learner)


@pytest.mark.endless
@pytest.mark.parametrize("shape", long(["diagonal"], ["diagonal", "full"]))
def test_bad_input_leaves_the_metric_finite(shape):
    """Constant inputs or labels, half of the labels missing, a single label."""
    learner = learner_of(shape, size=7)
    X, y = stream(32, dtype=np.float32)
    half = np.where(np.arange(32) % 2 == 0, np.nan, y)
    single = np.where(np.arange(32) == 3, y, np.nan)
    cases = [(X, np.ones(32)), (X, half)]
    cases += [(np.ones_like(X), y), (X, np.zeros(32)), (X, single)]  # where the metric stays
    for i, (inputs, labels) in enumerate(cases):
        start = begin(learner, 3)
        state, outputs = scan(learner, start, inputs, labels.astype(np.float32))
        own, learns = state.models[0], i < 2
        assert all(np.isfinite(leaf).all() for leaf in (own.metrics[0], own.rules[0].weights))
        assert np.isfinite(outputs.prediction).all()
        assert learns != np.array_equal(own.metrics[0], start.models[0].metrics[0])
        if learns:
            variances = np.var(state.memory.X, axis=0)
            np.testing.assert_allclose(own.variances, variances, rtol=1e-5)
            L = np.diag(own.metrics[0]) if shape == "diagonal" else own.metrics[0]
            np.testing.assert_allclose(variances @ np.diag(L @ L.T), 1.0, rtol=1e-4)


@pytest.mark.endless
@pytest.mark.parametrize("shape", ["diagonal", "full"])
def test_a_metric_of_one_input(shape):
    learner = learner_of(shape, size=7)
    X, y = stream(32, D=1, dtype=np.float32)
    state, _ = scan(learner, begin(learner, num_inputs=1), X, y)
    own = state.models[0]
    deviation = np.std(state.memory.X)
    np.testing.assert_allclose(np.abs(own.metrics[0]) * deviation, 1.0, rtol=1e-4)


def test_features_that_grow_are_refused():
    inside = FeatureModels(jaxmkl.Gaussian(1.0), RLS(), SampledDictionary(5))
    with pytest.raises(ValueError, match="MetricModels: bank must be one whose features do not"):
        MetricModels(inside)


@pytest.mark.slow
def test_importances_pass_through_wrappers():
    learner = learner_of(size=7)
    state = begin(learner, 3)
    (bank,) = state.models
    metrics = (np.random.default_rng(0).normal(size=3).astype(np.float32),)  # as if it had learned
    shares = learner.importances(state.replace(models=(bank._replace(metrics=metrics),)))
    assert np.ptp(shares) > 0.1
    np.testing.assert_allclose(jnp.sum(shares), 1.0, rtol=1e-5)
    budget = jaxmkl.label_budget(learner, 10)
    shares = budget.importances(begin(budget, 3))
    np.testing.assert_allclose(shares, np.full(3, 1 / 3), rtol=1e-6)
    lagged = jaxmkl.wrappers.lagged(learner, 2)
    of_classes = jaxmkl.MKL(learner.models, loss="squared", task="classification")
    for wrapped in (lagged, jaxmkl.wrappers.one_vs_rest(of_classes, 3)):
        state = jax.eval_shape(lambda of: begin(of, 3), wrapped)
        assert jax.eval_shape(wrapped.importances, state).shape == (3,)
    state = begin(lagged, 3)
    (bank,) = state.inner.models
    of_labels = bank._replace(metrics=(np.arange(5, dtype=np.float32) // 3,))
    shares = lagged.importances(state.replace(inner=state.inner.replace(models=(of_labels,))))
    np.testing.assert_allclose(shares, np.full(3, 1 / 3), rtol=1e-6)
    raker = jaxmkl.raker(num_features=3)
    with pytest.raises(ValueError, match="importances: learner must be one that learns a metric"):
        raker.importances(jax.eval_shape(lambda of: begin(of, 3), raker))
