"""Predictive distributions: against a NumPy loop in double precision, and on known noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn import datasets

import jaxmkl
from jaxmkl.wrappers import intervals, predictive, scaled_targets
from jaxmkl.wrappers.predictive import DEGREES
from tests.common.marks import long
from tests.common.trees import begin, plain, scan

SMALL_PROGRAMS = True
NU = np.asarray(DEGREES)


def learner_of(known, num_features=5, **named):
    """A learner that knows its variance, or one that does not."""
    rule = jaxmkl.updates.RLS(0.1) if known else jaxmkl.updates.OGD(0.1)
    features = jaxmkl.features.FourierFeatures(num_features)
    bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), rule, features)
    return jaxmkl.MKL(bank, **named)


def stream(T, seed=0, D=2):
    """Rows whose noise grows with the second input, from .014 to .74."""
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(T, D))
    deviation = 0.1 * np.exp(np.clip(X[:, 1], -2, 2))
    return X, np.sin(2 * X[:, 0]) + deviation * draws.standard_t(5, size=T)


class Oracle:
    """The density of one output, written from its formulas, with a covariance that is updated."""

    def __init__(self, directions, inputs, known):
        self.W = np.asarray(directions, np.float64)
        M = 68 + known
        self.S, self.theta = np.eye(M) / 3.5, np.zeros(M)
        self.o, self.b, self.logs = np.zeros(2), np.zeros(4), np.zeros(4)
        self.labels, self.X, self.standard = [], [], (np.zeros(inputs), np.ones(inputs))

    def says(self, x, f, variance):
        """The features of the round, the scales and the weights."""
        z = np.clip((x - self.standard[0]) * self.standard[1], -3, 3)
        angles = self.W @ z / np.sqrt(len(x))
        mean, deviation = (np.mean(self.labels), np.std(self.labels)) if self.labels else (0, 0)
        g = np.clip((f - mean) / deviation, -6, 6) if deviation > 0 else 0.0
        logs = [self.o[0]] if variance is None else [self.o[0], np.log(variance)]
        beyond = np.clip(np.asarray(logs) - self.o[1], -6, 6) / 2
        waves = np.concatenate([np.sin(angles), np.cos(angles)]) / np.sqrt(32)
        self.phi = np.concatenate([[1.0, g, abs(g)], beyond, waves])
        log_squares, n = self.o[1] + self.theta @ self.phi + self.b, len(self.labels)
        if n < 20:
            log_squares = self.o[1] + np.array([1, 2 / 3, 1 / 3, 0]) * np.log(100) / max(n - 1, 1)
            log_squares[0] = max(log_squares[0], 2 * np.log(deviation)) if n > 1 else np.nan
        scales = np.exp(log_squares / 2)
        shares = np.exp(self.logs - self.logs.max())
        return scales, 0.99 * shares / shares.sum() + 0.01 / 4

    def sees(self, x):
        self.X.append(x)

    def learns(self, y, f, scales, weights):
        self.labels.append(y)
        n, e = len(self.labels), y - f
        if n <= 20:
            square = max(e**2, 1e-6 * np.var(self.labels))
            beyond = np.log(square) + 1.27 - self.o
            self.o = self.o + beyond / max(n - 1, 1)
            return
        each = stats.t.logpdf(e / scales, NU) - np.log(scales)
        shares = weights * np.exp(each)
        shares /= shares.sum()
        rho = (e / scales) ** 2
        g = ((NU + 1) * rho / (NU + rho) - 1) / 2
        information = NU / (2 * (NU + 3))
        rho_of_running = e**2 / np.exp(self.o)
        step = ((5 * rho_of_running / (4 + rho_of_running)) - 1) / 2 / (4 / 14)
        self.o = self.o + np.maximum(1 / (n - 1), [1 / 20, 1 / 200]) * step
        error = shares @ g / (shares @ information)
        gain = self.S @ self.phi
        forgetting = 0.9995
        gain /= forgetting + self.phi @ gain
        self.theta = self.theta + gain * error
        self.S = (self.S - np.outer(gain, self.phi @ self.S)) / forgetting
        self.b = self.b + max(1 / n, 1 / 200) * g / information
        self.logs = 0.998 * self.logs + each

    def closes(self):
        """After every 32 rounds."""
        X = np.asarray(self.X)
        self.standard = X.mean(axis=0), 1 / X.std(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("known", long([True], [True, False]))
def test_oracle(x64, known):
    X, y = stream(130)
    y[17], X[30, 0] = np.nan, np.nan
    inner = learner_of(known, query=jaxmkl.query.Random(0.8))
    learner = predictive(inner)
    state, of_inner = begin(learner), begin(inner)
    oracle = Oracle(state.directions, 2, known)
    _, alone = plain(scan(inner, of_inner, X, y))
    state, outputs = plain(scan(learner, state, X, y))
    np.testing.assert_allclose(outputs.prediction, alone.prediction, rtol=1e-12)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        f = float(alone.prediction[t])
        usable = np.isfinite(x).all() and (np.isfinite(label) or not alone.queried[t])
        if np.isfinite(x).all():
            scales, weights = oracle.says(x, f, float(alone.variance[t]) if known else None)
            found = jax.tree.map(lambda leaf, t=t: leaf[t], outputs.distribution)
            # S is kept definite by some thousand units of rounding more than the formula has
            scales = np.full(4, np.nan) if np.isnan(scales).any() else scales
            np.testing.assert_allclose(found.scales, scales, rtol=1e-8)
            np.testing.assert_allclose(found.weights, weights, rtol=1e-8)
            nu = NU / (NU - 2)
            np.testing.assert_allclose(outputs.variance[t], weights @ (scales**2 * nu), rtol=1e-8)
            if np.isfinite(label):
                score = np.log(weights @ (stats.t.pdf((label - f) / scales, NU) / scales))
                np.testing.assert_allclose(outputs.info.log_score[t], score, rtol=1e-8)
        if usable:
            oracle.sees(x)
            if alone.queried[t]:
                oracle.learns(label, f, scales, weights)
        if (t + 1) % 32 == 0:
            oracle.closes()
    assert int(state.inputs.number) == len(oracle.X) < 130
    assert int(state.density.number) == len(oracle.labels) < 115


@pytest.mark.endless
def test_scale_follows_the_input():
    X, y = stream(3000)
    learner = intervals(predictive(learner_of(True, 20)))
    state = learner.init(jax.random.key(0), 2)
    _, outputs = jaxmkl.run(learner, state, X, y)
    late, wide, narrow = slice(1000, None), X[1000:, 1] > 1, X[1000:, 1] < -1
    low, high = (np.asarray(end)[late] for end in outputs.interval)
    widths = high - low
    assert np.median(widths[wide]) > 2.5 * np.median(widths[narrow])
    found, y = jax.tree.map(lambda leaf: leaf[late], outputs.distribution), y[late]
    inside = np.abs(np.asarray(found.cdf(y)) - 0.5) <= 0.45
    for part in (wide, narrow):
        assert 0.84 <= inside[part].mean() <= 0.96
    assert 0.88 <= ((low <= y) & (y <= high)).mean() <= 0.92
    # no normal distribution of one scale, the best of which is known afterwards, says so much
    errors = np.asarray(outputs.prediction)[late] - y
    best = stats.norm.logpdf(errors, 0, errors.std()).mean()
    assert np.asarray(found.log_prob(y)).mean() > best + 0.3


@pytest.mark.endless
def test_units_and_outputs():
    """Targets in other units, and each output of two, have the distributions of one alone."""
    X, y = stream(200)
    learner, key = scaled_targets(predictive(learner_of(True))), jax.random.key(0)
    record = lambda output: output.distribution  # noqa: E731
    one, other = (
        jaxmkl.run(learner, learner.init(key, 2), X, targets, record=record)[1]
        for targets in (y, 100 + 50 * y)
    )
    np.testing.assert_allclose(50 * one.scales[2:], other.scales[2:], rtol=2e-3)
    np.testing.assert_allclose(100 + 50 * one.mean[2:], other.mean[2:], rtol=1e-3)
    both = predictive(learner_of(True, num_outputs=2))
    targets = np.stack([y, 3.0 - y], axis=1)
    state, two = jaxmkl.run(both, both.init(key, 2), X, targets, record=record)
    assert two.mean.shape == (200, 2)
    assert two.scales.shape == (200, 2, 4)
    assert both.distribution(state, jnp.ones(2)).log_prob(jnp.ones(2)).shape == (2,)
    single = predictive(learner_of(True))
    _, of_first = jaxmkl.run(single, single.init(key, 2), X, y, record=record)
    np.testing.assert_allclose(two.scales[:, 0], of_first.scales, rtol=1e-3)


def bad(kind, T=100):
    X, y = stream(T)
    match kind:
        case "constant":
            y = np.full(T, 3.0)
        case "huge":
            y = y * 1e12
        case "one label":
            y[1:] = np.nan
        case "constant inputs":
            X = np.ones_like(X)
        case "wild inputs":
            X = 1e15 * X
    return X, y


@pytest.mark.parametrize(
    "kind", ["constant", "huge", "one label", "constant inputs", "wild inputs"]
)
@pytest.mark.slow
def test_bad_data(kind):
    X, y = bad(kind)
    learner = predictive(learner_of(True))
    state, outputs = plain(scan(learner, begin(learner), X.astype("f"), y.astype("f")))
    found = outputs.distribution
    labels = [y[: t + 1][np.isfinite(y[: t + 1])].astype("f") for t in range(-1, len(y) - 1)]
    known = np.array([len(set(before.tolist())) > 1 for before in labels])
    for leaf in (found.scales, outputs.variance):
        assert np.isfinite(leaf[known]).all()
        assert np.isnan(leaf[~known]).all()
    for leaf in (found.mean, found.weights):
        assert np.isfinite(leaf).all()
    assert (found.scales[known] > 0).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    assert int(state.invalid) == (99 if kind == "one label" else 0)


def tables():
    """The first two columns of tables, and labels (130,) of any unit, some constant at first."""
    draws = np.random.default_rng(3)
    for load in (
        datasets.load_diabetes,
        datasets.load_linnerud,
        datasets.load_iris,
        datasets.load_wine,
        datasets.load_breast_cancer,
    ):
        X, y = load(return_X_y=True)
        y = X[:, -1] if y.ndim == 1 and y.dtype.kind == "i" else y.reshape(len(y), -1)[:, 0]
        yield load.__name__, X[:, :2], y
    X, T = draws.normal(size=(130, 2)), np.arange(130)
    yield "constant for 100", X, np.where(T < 100, 5.0, 5.0 + X[:, 0])
    yield "constant for 100, then once not", X, np.where(T == 100, 38.0, 38.16)
    yield "nothing for 100", X, np.where(T < 100, 0.0, X[:, 1])
    yield "equal pairs", X, np.repeat(draws.normal(30, 5, 65), 2)
    yield "counts", X, draws.poisson(0.3, 130).astype(float)
    yield "mostly nothing", X, np.where(draws.random(130) < 0.9, 0.0, 1e3 * X[:, 1])
    yield "a walk far off", X, 1e4 + np.cumsum(draws.normal(size=130))
    yield "millions", X, 1e6 * X[:, 0]
    yield "millionths", X, 1e-6 * X[:, 0]
    yield "a label without noise", X, X[:, 0]
    yield "heavy tails", X, draws.standard_cauchy(130)


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, pytest.param(True, marks=pytest.mark.endless)])
@pytest.mark.parametrize(
    "first", ["as it is", pytest.param("taken off", marks=pytest.mark.endless)]
)
@pytest.mark.parametrize(
    "order",
    [
        (predictive, scaled_targets),
        pytest.param((scaled_targets, predictive), marks=pytest.mark.endless),
    ],
    ids=["targets scaled inside", "targets scaled around"],
)
def test_no_interval_is_narrow_by_chance(known, first, order):
    """With few labels, or constant ones."""
    outer, inner = order
    of_scaled = jaxmkl.scaled(learner_of(known), jaxmkl.wrappers.RunningMoments())
    learner = intervals(outer(inner(of_scaled)))
    start = begin(learner)
    for name, X, y in tables():
        X, y = np.resize(X, (130, 2)).astype("f"), np.resize(y, 130).astype("f")
        y = y - y[0] if first == "taken off" else y
        outputs = plain(scan(learner, start, X, y)[1])
        known_from = 1 + np.argmax(y != y[0])
        scores = np.asarray(outputs.distribution.log_prob(y))
        assert np.isnan(scores[:2]).all(), name
        assert np.isfinite(scores[known_from + 1 :]).all(), name
        present = scores[np.isfinite(scores)][:50]
        assert present.min() > -20, (name, present.argmin())
        low, high = outputs.interval
        absent = np.isnan(low)
        assert (absent == np.isnan(high)).all(), name
        assert (absent | (low < high)).all(), name
        assert not absent[known_from + 3 :].any(), name


@pytest.mark.endless
def test_of_two_targets_each_has_its_own():
    """One never varies, and does not keep the other from having a density and an interval."""
    X, y = stream(60)
    learner = intervals(predictive(learner_of(False, num_outputs=2)))
    targets = np.stack([y, np.zeros(60)], axis=1).astype("f")
    outputs = plain(scan(learner, begin(learner), X.astype("f"), targets)[1])
    for leaf in (outputs.variance, *outputs.interval):
        assert np.isfinite(leaf[4:, 0]).all()
        assert np.isnan(leaf[:, 1]).all()


@pytest.mark.endless
def test_a_density_that_is_not_known_has_no_derivative(x64):
    X, y = stream(24)

    @jax.jit
    def loss(step_size):
        rule = jaxmkl.updates.OGD(step_size)
        features = jaxmkl.features.FourierFeatures(5)
        bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), rule, features)
        learner = predictive(jaxmkl.MKL(bank))
        state = learner.init(jax.random.key(0), 2)
        _, outputs = jax.lax.scan(learner.step, state, (X, y))
        return -outputs.distribution.log_prob(y)[2:].sum() - outputs.info.log_score[2:].sum()

    by_difference = (loss(0.1 + 1e-6) - loss(0.1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(0.1), by_difference, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_examples_that_are_refused_have_no_derivative(known, x64):
    """Those of densities, intervals and scores of all others are numbers, by the learner's too."""
    X, y = stream(24)
    X[9, 1], y[0], y[12] = np.nan, np.nan, np.inf
    plain, densities = intervals(learner_of(known), 0.8), intervals(predictive(learner_of(known)))

    @jax.jit
    def total(learner):
        _, outputs = jax.lax.scan(learner.step, learner.init(jax.random.key(0), 2), (X, y))
        said = [outputs.loss, outputs.interval]
        if outputs.distribution is not None:
            said += [outputs.variance, outputs.distribution.log_prob(y)]
        masked = [jnp.where(jnp.isfinite(leaf), leaf, 0.0) for leaf in jax.tree.leaves(said)]
        return sum(leaf.sum() for leaf in masked)

    for learner in (plain, scaled_targets(densities)):
        learner = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), learner)
        slopes = jax.grad(total)(learner)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
        bandwidths = [leaf for leaf in jax.tree.leaves(slopes) if leaf.shape == (2,)]
        assert bandwidths
        assert all(np.abs(leaf).min() > 0 for leaf in bandwidths)


@pytest.mark.slow
def test_a_label_that_is_refused_has_no_score():
    X, y = stream(12)
    y[9:11] = np.inf, np.nan
    learner = predictive(learner_of(True))
    _, outputs = scan(learner, begin(learner), X.astype("f"), y.astype("f"))
    scored = np.isfinite(outputs.info.log_score)[2:]
    np.testing.assert_array_equal(scored, np.isfinite(outputs.loss)[2:])


@pytest.mark.endless
def test_padding_and_refused_examples_leave_no_trace():
    X, y = stream(40)
    learner = predictive(learner_of(True))
    state, _ = scan(learner, begin(learner), X.astype("f"), y.astype("f"))

    @jax.jit
    def after(label, present):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, X[:1].astype("f")))
        _, aux = learner.predict_code(state, code)
        yes = jnp.asarray(True)
        return learner.update_code(state, code, aux, label, yes, present)[0].replace(inner=0)

    before = state.replace(inner=0)
    for label, present in ((1.0, False), (np.nan, True)):
        jax.tree.map(np.testing.assert_array_equal, after(label, present), before)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), after(1.0, True), before)
    assert changed.density.running


def test_errors():
    with pytest.raises(ValueError, match="learner must be a regression learner"):
        predictive(jaxmkl.spa())
