"""Queries: scores and draws by hand; each example of a pool draws for itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import MKL, losses, run, wrappers
from jaxmkl._checks import fingerprints
from jaxmkl.features import FourierFeatures
from jaxmkl.models import FeatureModels
from jaxmkl.query import All, Disagreement, Forecast, Margin, Query, Random, Rate, Uncertainty
from tests.common.marks import long

SMALL_PROGRAMS = True
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
BANK = FeatureModels(KERNELS, features=FourierFeatures(4, scale="mean"))


def forecast(value, values=(), weights=(), active=None, variance=None):
    arrays = [jnp.asarray(a) for a in (value, values, weights)]
    others = (None if a is None else jnp.asarray(a) for a in (active, variance))
    return Forecast(*arrays, *others)


def begun(query):
    """The state before the first round, or where one had to ask, after it."""
    state = query.init()
    return state._replace(skips=jnp.zeros_like(state.skips)) if hasattr(state, "skips") else state


def asked(query, score, noise=0.0, state=None):
    state = begun(query) if state is None else state
    return bool(query.ask(state, jnp.asarray(score), jnp.asarray(noise)))


# --- score and draw ------------------------------------------------------------------------------


def test_every_label():
    query, said = All(), forecast(3.0)
    assert float(query.score(query.init(), said)) == 1
    assert asked(query, 1.0, 0.9999)


@pytest.mark.parametrize("active", [None, [True, True, True], [True, False, True]])
def test_disagreement_is_the_largest_distance_from_one_model(active, x64):
    """(33), where active models have their weight, and anyone is the one compared with."""
    rng, query = np.random.default_rng(0), Disagreement(0.1, 1)
    for _ in range(10):
        f, p = rng.normal(size=3), rng.dirichlet(np.ones(3))
        V = range(3) if active is None else np.flatnonzero(active)
        expected = max(sum(p[i] * (f[i] - f[j]) ** 2 for i in V) for j in range(3))
        score = query.score(query.init(), forecast(0.0, f, p, active))
        np.testing.assert_allclose(score, expected, rtol=1e-12)
        # the tolerance itself is still agreement
        assert not asked(Disagreement(expected * (1 + 1e-12), 1), score)
        assert asked(Disagreement(expected * (1 - 1e-12), 1), score)


@pytest.mark.parametrize("max_skips", [0, 1, 3, np.inf])
def test_after_some_skips_in_a_row_a_label_is_asked_for(max_skips):
    """A label is skipped only if one of the last M was asked for, so that the first one is."""
    query = Disagreement(0.1, max_skips)
    state, rounds = query.init(), []
    for t in range(12):
        # models that disagree in round 6
        ask = asked(query, 0.2 if t == 6 else 0.1, state=state)
        state = query.update(state, forecast(0.0), jnp.asarray(ask))
        assert state.skips.dtype == jnp.int32
        rounds.append(ask)
    a = []
    for t in range(12):
        last = a[-int(max_skips) :] if 0 < max_skips < 12 else a if max_skips else []
        a.append(not (any(last) and t != 6))
    assert rounds == a
    assert rounds[0]
    assert sum(rounds) == {0: 12, 1: 6, 3: 4, np.inf: 2}[max_skips]


def test_a_late_label_counts_when_it_is_asked_for():
    """And no more when it comes, or is refused: the rounds skipped meanwhile are not forgotten."""
    query, said = Disagreement(0.1, 2), forecast(0.0)
    yes, no = jnp.asarray(True), jnp.asarray(False)
    state = query.init()
    assert int(query.await_label(state, no).skips) == -1
    assert int(query.update(state, said, no).skips) == -1  # a round that nobody asked about
    for score in (0.1, 0.2):  # the first, and one of which models disagree
        assert asked(query, score, state=state)
        state = query.await_label(state, yes)
    assert (int(state.skips), int(state.waiting)) == (0, 2)
    for left in (True, False):
        assert not asked(query, 0.1, state=state)
        state = query.update(state, said, no)
        state = query.update(state, said, yes) if left else query.refuse_label(state, yes)
    assert (int(state.skips), int(state.waiting)) == (2, 0)
    assert asked(query, 0.1, state=state)
    assert int(query.update(state, said, yes).skips) == 0
    assert int(query.refuse_label(state, yes).waiting) == 0


@pytest.mark.parametrize(
    ("loss", "distance"),
    [
        (losses.EpsilonInsensitive(0.0), abs),
        ("huber", lambda r: r * r if abs(r) < 1 else 2 * abs(r) - 1),
        (losses.Pinball(0.8), lambda r: max(0.2 * r, -0.8 * r)),
        ("squared", np.square),
    ],
)
def test_a_disagreement_by_any_loss_is_the_papers_sum(loss, distance, x64):
    """(33) in a loop: max_j Σ_{i in V} p_i L(f_i, f_j), summed over outputs."""
    draws = np.random.default_rng(5)
    f, p = 2 * draws.normal(size=(2, 6)), draws.dirichlet(np.ones(6))
    active = np.array([True, False, True, True, False, True])
    for values in (f, f[:1]):
        expected = max(
            sum(
                p[i] * sum(distance(of[i] - of[j]) for of in values)
                for i in np.flatnonzero(active)
            )
            for j in range(6)
        )
        given = values if len(values) > 1 else values[0]
        said = Forecast(jnp.zeros(()), jnp.asarray(given), jnp.asarray(p), jnp.asarray(active))
        query = Disagreement(0.1, loss=loss)
        np.testing.assert_allclose(query.score(query.init(jnp.float64), said), expected, 1e-12)


def test_a_disagreement_by_a_loss_of_classes_is_refused():
    with pytest.raises(ValueError, match=r"Disagreement: loss must be a loss of regression"):
        Disagreement(loss="hinge")
    with pytest.raises(ValueError, match="loss must be squared where the tolerance is relative"):
        Disagreement(relative=True, loss="huber")
    with pytest.raises(ValueError, match="loss must be a loss, as"):
        Disagreement(loss="absolute")


def test_a_relative_tolerance_is_in_units_of_the_labels_variance(x64):
    """The variance of the labels learned; before two of them every label is asked for."""
    query, labels = Disagreement(0.1, np.inf, relative=True), [3.0, 5.0, -40.0, 5.0]
    state, learned = query.init(jnp.float64), []
    assert asked(query, 0.0, state=state)
    for y, ask in zip(labels, [True, True, False, True], strict=True):
        state = query.update(state, forecast(0.0), jnp.asarray(ask), jnp.asarray(y))
        learned += [y] if ask else []
        bound = 0.1 * np.var(learned)
        assert asked(query, bound * (1 - 1e-9), state=state) == (len(learned) < 2)
        assert asked(query, bound * (1 + 1e-9), state=state)
    assert int(state.skips) == 0
    # without it the state is as small as it was
    assert len(jax.tree.leaves(Disagreement().init())) == 2


def test_models_that_say_nothing_sensible_are_no_agreement():
    query = Disagreement(np.inf, np.inf)
    for f in ([np.nan, 1.0], [np.inf, 1.0]):
        assert asked(query, query.score(query.init(), forecast(0.0, f, [0.5, 0.5])))
    assert not asked(query, 1e30)


@pytest.mark.parametrize("query", [Margin(0.5), Uncertainty(0.5)])
def test_chances_by_the_score(query):
    # with h = 1/2
    for score, probability in ((0.0, 1.0), (-0.5, 0.5), (-1.5, 0.25), (-np.inf, 0.0)):
        for noise in (0.0, 0.2, 0.3, 0.45, 0.55, 0.99):
            assert asked(query, score, noise) == (noise < probability)
    # not a number: nothing is known
    assert asked(query, np.nan, 0.99)
    assert asked(type(query)(np.inf), -3.0, 0.99)
    assert asked(type(query)(np.inf), -np.inf, 0.99)
    assert not asked(type(query)(0.0), -1e-30, 0.0)
    assert asked(type(query)(0.0), 0.0, 0.99)


def test_scores_of_margins_and_variances(x64):
    for value in (-2.0, 0.0, 0.5):
        assert float(Margin().score((), forecast(value))) == -abs(value)
        for variance in (0.0, 3.0):
            score = Uncertainty(0.1, 0.5).score((), forecast(value, variance=variance))
            np.testing.assert_allclose(score, variance / 2 - abs(value), rtol=1e-15)
    # where unsure, always
    assert asked(Uncertainty(0.0), 1e-9, 0.9999)


def test_chance_alone():
    for rate in (0.0, 0.3, 1.0):
        query = Random(rate)
        score = query.score((), forecast(1.0))
        np.testing.assert_allclose(score, rate, rtol=1e-6)
        for noise in (0.0, 0.29, 0.31, 1 - 2.0**-24):
            assert asked(query, score, noise) == (noise < rate)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("query", [Random(1.0), Margin(np.inf), Margin(0.0), Uncertainty(1e9)])
def test_what_is_certain_is_so_in_short_dtypes(query, dtype):
    """A uniform number just below 1 must not be rounded up to it."""
    said = forecast(jnp.zeros((), dtype), variance=jnp.zeros((), dtype))
    score = query.score((), said)
    assert score.dtype == dtype
    assert bool(query.ask((), score, jnp.asarray(1 - 2.0**-24, jnp.float32)))


@pytest.mark.parametrize(
    ("query", "arguments", "wanted"),
    [
        (Disagreement, {"tolerance": -1e-3}, "tolerance"),
        (Disagreement, {"tolerance": np.nan}, "tolerance"),
        (Disagreement, {"tolerance": [0.1, 0.2]}, "tolerance"),
        (Disagreement, {"max_skips": -1}, "max_skips"),
        (Disagreement, {"relative": 0.1}, "relative"),
        (Margin, {"h": -0.1}, "h"),
        (Margin, {"h": "often"}, "h"),
        (Uncertainty, {"h": np.nan}, "h"),
        (Uncertainty, {"inertia": 0.0}, "inertia"),
        (Random, {"rate": -0.1}, "rate"),
        (Random, {"rate": 1.1}, "rate"),
        (Rate, {"rate": 0.0}, "rate"),
        (Rate, {"rate": 1.1}, "rate"),
        (Rate, {"epsilon": 0.0}, "epsilon"),
        (Rate, {"by": "chance"}, "by"),
    ],
)
def test_bad_arguments_are_named(query, arguments, wanted):
    with pytest.raises(ValueError, match=f"{query.__name__}: {wanted} must be"):
        query(**arguments)


@pytest.mark.parametrize("query", [Uncertainty(0.1), Rate(0.1, by="variance")])
def test_a_query_that_reads_a_variance_is_refused_where_there_is_none(query):
    wanted = rf"MKL: query must be one that needs no variance.*{type(query).__name__}"
    with pytest.raises(ValueError, match=wanted):
        MKL(BANK, query=query).init(jax.random.key(0), 2)


# --- in a learner --------------------------------------------------------------------------------


@jax.jit
def pool_at(learner, state, X):
    return learner.predict_many(state, X)


def start(learner, key, dtype):
    return learner.init(key, 2, dtype)


@pytest.fixture(scope="module")
def pool():
    return np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)


@functools.cache
def with_labels():
    """The state of a learner that has seen 100 labels."""
    X, learner = np.random.default_rng(1).normal(size=(100, 2)).astype(np.float32), MKL(BANK)
    state = start(learner, jax.random.key(0), jnp.float32)
    return run(learner, state, X, np.sin(2 * X[:, 0]))[0]


@jaxmkl.pytree.dataclass
class Unsure(Query):
    """A query whose score is 1, and that asks by a chance of one half."""

    def score(self, state, forecast):
        return jnp.ones_like(forecast.value)

    def ask(self, state, score, noise):
        return noise < 0.5


AT_HALF = {"Random": Random(0.5), "from outside": Unsure()}


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["from outside"], AT_HALF))
def test_points_of_a_pool_draw_for_themselves(name, pool):
    """Ten at one state do not all ask or all stay silent; alone each does the same."""
    learner = MKL(BANK, query=AT_HALF[name])
    state = start(learner, jax.random.key(0), jnp.float32)
    many = pool_at(learner, state, pool)
    together = np.asarray(many.query)
    assert 0 < together[:10].sum() < 10
    assert abs(together.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(pool))
    predict = jax.jit(learner.predict)
    alone = [predict(state, x) for x in pool[:10]]
    np.testing.assert_array_equal([bool(p.query) for p in alone], together[:10])
    np.testing.assert_array_equal([float(p.score) for p in alone], many.score[:10])
    # the same point says the same, wherever it stands; in another round it draws again
    np.testing.assert_array_equal(pool_at(learner, state, pool[::-1]).query[::-1], together)
    later = pool_at(learner, state.replace(round=state.round + 1), pool).query
    assert 100 < (np.asarray(later) != together).sum() < 300


@pytest.mark.slow
def test_points_of_a_pool_draw_by_their_margins(pool):
    """At a state that has learned something: each by its own chance."""
    learner = MKL(BANK, query=Margin(0.2))
    state = with_labels()
    many = pool_at(learner, state, pool)
    p = 0.2 / (0.2 + np.abs(np.asarray(many.value, np.float64)))
    np.testing.assert_allclose(many.score, -np.abs(many.value))
    spread = np.sqrt(np.sum(p * (1 - p)))
    assert abs(np.asarray(many.query).sum() - p.sum()) < 4 * spread
    # and the nearer to 0, the likelier
    near = p > np.median(p)
    assert np.asarray(many.query)[near].mean() > np.asarray(many.query)[~near].mean()


@pytest.mark.parametrize(
    "kind", ["normal", "binary", "one of many", "whole numbers", "one input apart"]
)
def test_examples_that_differ_have_numbers_of_their_own(kind):
    """Inputs of few digits too, in which most bits are zero."""
    rng = np.random.default_rng(0)
    X = {
        "normal": rng.normal(size=(2000, 5)),
        "binary": rng.integers(0, 2, size=(2000, 30)),
        "one of many": np.eye(2000),
        "whole numbers": np.unique(rng.integers(0, 100, size=(2000, 3)), axis=0),
        "one input apart": np.full((2000, 4), 3.0) + np.arange(2000)[:, None] * [0, 0, 0, 1],
    }[kind].astype(np.float32)
    numbers = np.asarray(jax.jit(fingerprints)(X))
    assert len(np.unique(numbers)) >= 0.999 * len(X)
    # -0.0 is 0.0
    np.testing.assert_array_equal(fingerprints(jnp.where(X == 0, -0.0, X)), numbers)


@pytest.mark.endless
def test_the_same_labels_are_asked_for_in_both_precisions(pool):
    """The same numbers are drawn; only a score's own rounding may tell them apart."""
    learner, y = MKL(BANK, query=Margin(0.2)), np.sin(2 * pool[:, 0])
    frequencies = start(learner, jax.random.key(0), jnp.float32).models[0].frequencies

    def outcome(dtype):
        state = start(learner, jax.random.key(0), dtype)
        bank = state.models[0]._replace(features=jnp.asarray(frequencies, dtype))
        state, outputs = run(learner, state.replace(models=(bank,)), pool, y)
        return np.asarray(outputs.queried), np.asarray(pool_at(learner, state, pool).query)

    single = outcome(jnp.float32)
    with jax.enable_x64(True):
        double = outcome(jnp.float64)
    for a, b in zip(single, double, strict=True):
        assert 0.1 < a.mean() < 0.9
        assert (a != b).sum() <= 2


@pytest.mark.parametrize("query", [Disagreement(0.01), Random(0.25)])
def test_a_prediction_carries_its_score(query, pool):
    state, learner = with_labels(), MKL(BANK, query=query)
    many = pool_at(learner, state.replace(query=begun(query)), pool)
    assert many.score.shape == many.query.shape == many.value.shape == (400,)
    assert many.score.dtype == jnp.float32
    if isinstance(query, Random):
        np.testing.assert_array_equal(many.score, 0.25)
    else:
        asks = np.asarray(many.query)
        assert 0 < asks.sum() < 400
        assert np.asarray(many.score)[asks].min() > np.asarray(many.score)[~asks].max()


@pytest.mark.endless
def test_draws_go_by_the_input_as_it_was_given(pool):
    """Behind scalers, whose results round otherwise in other blocks, too."""
    plain = MKL(BANK, query=Random(0.5))
    scaler = wrappers.RunningMoments()
    learner = jaxmkl.scaled(jaxmkl.scaled(plain, scaler), scaler)
    X, y = pool * np.float32([100, 0.1]), pool[:, 0]
    outer = jax.random.key(1)
    inner = jax.random.fold_in(jax.random.fold_in(outer, 0), 0)
    _, expected = run(plain, start(plain, inner, jnp.float32), X, y)
    _, outputs = run(learner, start(learner, outer, jnp.float32), X, y, block_size=64)
    np.testing.assert_array_equal(outputs.queried, expected.queried)


# --- labels at a rate ----------------------------------------------------------------------------


def scores(kind, num_rounds):
    """Logarithms of scores of streams that a fixed threshold would not survive."""
    rng = np.random.default_rng(0)
    noise, t = rng.normal(size=num_rounds), np.arange(num_rounds)
    return {
        "steady": noise,
        "sorted": np.sort(3 * noise),
        "sorted the other way": -np.sort(3 * noise),
        "shifted": noise + 8 * (t > num_rounds // 2),
        "constant": np.zeros(num_rounds),
        "shrinking": noise - t / 100,
    }[kind]


@jax.jit
def asked_at(rate, values, noise, said):
    """Which of the rounds with these scores, as logarithms, a rate asks for."""
    query = Rate(rate)

    def turn(state, example):
        value, u = example
        ask = query.ask(state, jnp.exp(value), u)
        return query.update(state, said, ask), ask

    return jax.lax.scan(turn, query.init(), (values, noise))[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["steady", "sorted", "sorted the other way", "shifted", "constant", "shrinking"]
)
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("rate", [0.02, 0.2, 1.0])
def test_a_rate_is_kept_whatever_the_scores(kind, rate, classes):
    said = forecast(0.0)._replace(margin=jnp.zeros(()) if classes else None)
    noise = jax.random.uniform(jax.random.key(0), (4000,))
    ask = np.asarray(asked_at(rate, jnp.asarray(scores(kind, 4000), jnp.float32), noise, said))
    share = np.cumsum(ask) / np.arange(1, 4001)
    assert np.abs(share[2000:] / rate - 1).max() < 0.1
    if kind == "steady" and rate <= 0.2 and not classes:
        # those worth most
        assert scores(kind, 4000)[ask].mean() > 0.5


def test_scores_of_a_rate(x64):
    """For classes, disagreement against the margin; for numbers, against the past."""
    f, p = [0.5, -0.1, 0.3], [0.2, 0.3, 0.5]
    mean = np.dot(p, f)
    d = np.dot(p, (np.array(f) - mean) ** 2)
    query = Rate(0.1, epsilon=0.01)
    assert not query.needs_variance
    said = forecast(0.2, f, p)
    of_classes = query.score(query.init(), said._replace(margin=jnp.asarray(0.2)))
    np.testing.assert_allclose(of_classes, ((d + 0.01) / (0.04 + 0.01)) ** 4, rtol=1e-12)
    state = query.init()
    assert float(query.score(state, said)) == 1
    for spread in (0.04, 0.09):
        one = Forecast.of_one(jnp.zeros(()), jnp.asarray(spread))
        state = query.update(state, one, jnp.asarray(False))
    expected = (1 + np.sqrt(d) / 0.25) / 2
    np.testing.assert_allclose(query.score(state, said), expected, rtol=1e-6)
    # several models are judged by their disagreement whether they know a variance or not
    own = query.score(state, forecast(0.2, f, p, variance=0.25))
    np.testing.assert_allclose(own, expected, rtol=1e-6)


@pytest.mark.parametrize("absurd", [np.inf, np.nan])
def test_models_of_no_weight_do_not_count_for_a_rate(absurd):
    said = forecast(0.2, [absurd, 0.1, 0.3], [0.0, 0.5, 0.5])._replace(margin=jnp.asarray(0.2))
    score = Rate(epsilon=0.01).score(Rate().init(), said)
    np.testing.assert_allclose(score, ((0.01 + 0.01) / (0.04 + 0.01)) ** 4, rtol=1e-5)


def test_scores_of_a_rate_by_variance(x64):
    """The prediction's own variance, against the margin, or against the past alone."""
    query, p = Rate(0.1, epsilon=0.01, by="variance"), [0.5, 0.5]
    said = forecast(0.2, [0.2, 0.2], p, variance=0.25)  # the models agree
    state = query.init()
    assert float(query.score(state, said)) == 1
    for variance in (0.04, 0.09):
        one = forecast(0.2, [0.2, 0.2], p, variance=variance)
        state = query.update(state, one, jnp.asarray(False))
    np.testing.assert_allclose(query.score(state, said), 0.5 / 0.25, rtol=1e-6)
    of_classes = query.score(state, said._replace(margin=jnp.asarray(0.2)))
    np.testing.assert_allclose(of_classes, (0.26 / 0.05) ** 4, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "rate"), [(True, 0.05), (False, 0.4)])
def test_a_rate_is_its_formulas(classes, rate, x64):
    """Round by round, as the docstring has them."""
    rng, T, epsilon = np.random.default_rng(0), 1500, 0.01
    f, spread, u = rng.normal(size=T), rng.lognormal(size=T), rng.random(T)

    @jax.jit
    def turn(state, example):
        value, variance, noise = example
        said = Forecast.of_one(value, variance=variance)
        said = said._replace(margin=jnp.abs(value)) if classes else said
        query = Rate(rate, epsilon)
        ask = query.ask(state, query.score(state, said), noise)
        state = query.update(state, said, ask)
        return state, (ask, state.threshold)

    _, (asked, thresholds) = jax.lax.scan(turn, Rate().init(jnp.float64), (f, spread, u))
    s = total = number = 0.0
    for t in range(T):
        lead = 400.0 if classes and t > 0 else 0.0  # after the first round it is known
        mean = total / t if t else 0.0
        score = (1.0 + (np.sqrt(spread[t]) / mean if mean else 1.0)) / 2.0
        score = ((spread[t] + epsilon) / (f[t] ** 2 + epsilon)) ** 4 if classes else score
        due = rate * (t + 1 + lead * max(0.0, 1.0 - (t + 1) / 1000.0))
        wanting, slack = due - number, 2.0 + due / 40.0
        ask = np.log(score / u[t]) > s - np.log(rate)
        ask = (ask and wanting > -slack) or wanting >= slack
        assert bool(asked[t]) == ask
        if abs(wanting) < slack:
            s += (ask - rate * (1.0 - (lead / 1000.0 if t < 1000 else 0.0))) / np.sqrt(1 + t / 100)
        np.testing.assert_allclose(thresholds[t], s, rtol=1e-9, atol=1e-9)
        number, total = number + ask, total + np.sqrt(spread[t])
    assert abs(number - rate * T) <= 2.0 + rate * T / 40.0


@pytest.mark.slow
def test_the_rate_counts_labels_that_come_late():
    learner = jaxmkl.raker(KERNELS, num_features=4, query=Rate(0.2))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    ask, learn, skip = (jax.jit(m) for m in (learner.ask, learner.update, learner.skip))
    state, waiting, counts = learner.init(jax.random.key(0), 2), [], []
    for x in X:
        prediction, state = ask(state, x)
        if prediction.query:
            waiting.append(x)
        else:
            state = skip(state, x)
        if len(waiting) > 10:
            # ten labels late
            late = waiting.pop(0)
            state = learn(state, late, late[0])
        counts.append(int(state.query.asked))
    assert counts[-1] == int(state.query.asked)
    assert abs(counts[-1] - 60) < 5
    assert int(state.query.waiting) == len(waiting) == 10
    assert int(state.query.asked + state.query.passed) == 300
