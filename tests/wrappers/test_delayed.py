"""Labels that come late: against loops in NumPy, and the same however a stream is cut."""

import functools

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities, features, models, query, updates
from jaxmkl.wrappers import delayed, lagged, predictive, probabilities
from tests.common.marks import long, quick
from tests.common.trees import assert_equal, plain, scan

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 40, 2
RATES, TOLERANCE, MOST = (0.05, 0.3), 0.01, 2


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)).astype(np.float32)
    return X, (X @ [0.7, -0.4] + 0.1 * rng.normal(size=NUM_EXAMPLES)).astype(np.float32)


ASKING = query.Disagreement(TOLERANCE, MOST)


def linear(query=ASKING):
    """Two gradient steps on (x, 1): what a loop in NumPy needs no random numbers for."""
    bank = models.FeatureModels(jaxmkl.Linear(), updates.OGD(RATES), features.LinearFeatures())
    return jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), query=query)


class TwoSteps:
    """The same in NumPy."""

    def __init__(self, num_inputs, most):
        self.theta, self.skips, self.most = np.zeros((2, num_inputs + 1)), np.inf, most

    def say(self, x):
        """Prediction, and whether the label is wanted."""
        f = self.theta @ (np.append(x, 1.0) / np.sqrt(len(x) + 1))
        score = max(np.mean((f - one) ** 2) for one in f)
        return f.mean(), score > TOLERANCE or self.skips >= self.most

    def ask(self):
        """Count a label when it is asked for."""
        self.skips = 0

    def learn(self, x, y, asked):
        self.skips += not asked
        if asked:
            z = np.append(x, 1.0) / np.sqrt(len(x) + 1)
            errors = self.theta @ z - y
            self.theta = self.theta - 2 * np.outer(np.multiply(RATES, errors), z)


def oracle(delay, labels=0, errors=0, most=MOST, bad=()):
    """Predictions and questions of each round, and θ after all labels came, but the bad ones."""
    X, y = data()
    inner = TwoSteps(NUM_INPUTS + labels + errors, most)
    last_y, last_e = [0.0] * labels, [0.0] * errors
    waiting, said = [], []

    def learn_oldest():
        nonlocal last_y, last_e
        x, label, asked = waiting.pop(0)
        f = inner.say(x)[0]
        inner.learn(x, label, asked)
        value = label if asked else f
        last_y, last_e = [value, *last_y][:labels], [value - f, *last_e][:errors]

    for t, (x, label) in enumerate(zip(X.astype(float), y.astype(float), strict=True)):
        row = np.concatenate([x, last_y, last_e])
        said.append(inner.say(row))
        if said[-1][1]:
            inner.ask()
        waiting.append((row, label, said[-1][1] and t not in bad))
        if len(waiting) > delay:
            learn_oldest()
    while waiting:
        learn_oldest()
    predictions, queried = zip(*said, strict=True)
    return np.array(predictions), np.array(queried), inner.theta


def begin(learner, dtype=None):
    return learner.init(jax.random.key(0), NUM_INPUTS, dtype)


# --- against NumPy -------------------------------------------------------------------------------


# delay, skips in a row, labels and errors among the inputs; a delay of 0 is the learner itself
CASES = [(7, MOST, 0, 0), (100, 0, 0, 0), (3, MOST, 2, 3), (0, MOST, 0, 0)]


@pytest.mark.parametrize(("delay", "most", "labels", "errors"), quick(CASES[:1], CASES))
def test_oracle(delay, most, labels, errors, x64):
    """Beyond the stream's length all is learned at its end; each example with its own inputs."""
    X, y = data()
    learner = linear(query.Disagreement(TOLERANCE, most))
    learner = lagged(learner, labels, errors) if labels else learner
    learner, late = (learner, {"delay": delay}) if delay else (delayed(learner, 0), {})
    predictions, queried, theta = oracle(delay, labels, errors, most)
    state, outputs = jaxmkl.run(learner, begin(learner), X, y, **late)
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(outputs.queried, queried)
    bank = (state.inner if labels or not delay else state).models[0]
    np.testing.assert_allclose(bank.rules[0].weights[0, 0], theta, rtol=0, atol=1e-12)
    assert int(state.round) == NUM_EXAMPLES
    assert delay or int(state.due) == 0
    assert (0 < queried.sum() < NUM_EXAMPLES) == (most > 0)


# --- counts --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("outside", [True, False])
def test_a_budget_is_spent_when_labels_are_asked_for(outside):
    X, y = data()
    inner = linear(query.All())
    if outside:
        learner = jaxmkl.label_budget(delayed(inner, 10), 9)
    else:
        learner = delayed(jaxmkl.label_budget(inner, 9), 10)
    state, outputs = jaxmkl.run(learner, begin(learner), X, y)
    np.testing.assert_array_equal(outputs.queried, np.arange(NUM_EXAMPLES) < 9)
    budget = state if outside else state.inner
    counts = budget.remaining, budget.outstanding, budget.overdrawn
    assert [int(count) for count in counts] == [0, 0, 0]


@pytest.mark.endless
def test_labels_of_a_budget_are_outstanding_while_they_are_due():
    X, y = data()
    learner = delayed(jaxmkl.label_budget(linear(query.All()), 9), 10)
    state, _ = jaxmkl.run(learner, begin(learner), X[:7], y[:7])
    assert (int(state.inner.remaining), int(state.inner.outstanding)) == (2, 7)
    # one asked for by a person, whose answer is to come before it waits once more
    prediction, asking = learner.ask(state, X[7])
    assert prediction.query
    assert (int(asking.inner.remaining), int(asking.awaited)) == (1, 1)
    after = learner.update(asking, X[7], y[7])
    assert_equal(after, learner.update(state, X[7], y[7]))
    assert (int(after.inner.remaining), int(after.inner.outstanding)) == (1, 8)
    inner = learner.flushed(after).inner
    assert (int(inner.remaining), int(inner.outstanding)) == (1, 0)


@pytest.mark.endless
def test_a_rate_is_kept_whatever_the_delay():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, NUM_INPUTS)).astype(np.float32)
    learner = linear(query.Rate(0.2))
    outputs = jaxmkl.run(learner, begin(learner), X, X[:, 0], delay=300)[1]
    asked = np.cumsum(outputs.queried)
    due = 0.2 * np.arange(1, 1001)
    # those not asked for are counted when they are learned
    assert (asked <= due + 2 + due / 40 + 1).all()
    assert asked[-1] > 100


@pytest.mark.endless
def test_a_label_asked_for_by_hand_counts_once_for_a_rate():
    X, y = data()
    learner = delayed(linear(query.Rate(0.2)), 3)

    @jax.jit
    def by_hand(state, example):
        x, y = example
        prediction, asking = learner.ask(state, x)
        return jax.lax.cond(
            prediction.query, lambda: learner.update(asking, x, y), lambda: learner.skip(asking, x)
        ), prediction.query

    state, queried = jax.lax.scan(by_hand, begin(learner), (X, y))
    alone, outputs = jaxmkl.run(learner, begin(learner), X, y)
    np.testing.assert_array_equal(queried, outputs.queried)
    state, alone = jax.jit(learner.flushed)(state), jax.jit(learner.flushed)(alone)
    assert_equal(state, alone)
    assert int(state.inner.query.asked) == queried.sum() > 3
    assert int(state.awaited) == int(state.inner.query.waiting) == 0


@pytest.mark.endless
def test_a_late_label_that_is_refused_is_not_waited_for():
    X, y = (array.copy() for array in data())
    y[5::7] = np.nan
    learner = linear(query.Rate(0.5))
    for late in (delayed(learner, 3), learner):
        state, _ = scan(late, begin(late), X, y)
        inner = jax.jit(late.flushed)(state).inner if late is not learner else state
        assert int(inner.query.waiting) == 0
        assert int(inner.invalid) > 0


@pytest.mark.slow
@pytest.mark.parametrize("delay", long([4], [3, 4]))
def test_rounds_go_on_at_the_end_of_the_counter(delay):
    """2^30 follows on 2^31 - 1."""
    X, y = data()
    learner = delayed(linear(), delay)
    state = begin(learner)
    late = state.replace(inner=state.inner.replace(round=np.int32(2**31 - 8)))
    found, expected = (scan(learner, start, X, y)[1] for start in (late, state))
    assert_equal(found.prediction, expected.prediction)


def test_bad_examples_are_refused_at_once_and_counted_once():
    X, y = (array.copy() for array in data())
    X[[4, 20]], y[9] = np.nan, np.nan
    learner = delayed(linear(query.All()), 3)
    state, outputs = scan(learner, begin(learner), X, y)
    outputs = plain(outputs)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(outputs.prediction)), [4, 20])
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(outputs.loss)), [4, 9, 20])
    np.testing.assert_array_equal(np.flatnonzero(~outputs.queried), [4, 20])
    inner = jax.jit(learner.flushed)(state).inner
    assert (int(inner.invalid), int(inner.nonfinite)) == (3, 0)
    predictions, _, theta = oracle(3, most=0, bad=(4, 9, 20))
    good = np.isfinite(outputs.prediction)
    np.testing.assert_allclose(outputs.prediction[good], predictions[good], atol=1e-5)
    np.testing.assert_allclose(inner.models[0].rules[0].weights[0, 0], theta, atol=1e-5)


@pytest.mark.slow
def test_what_is_around_late_labels_passes_over_the_examples_refused_and_no_others():
    X, y = (array.copy() for array in data())
    X[10], y[::3] = np.nan, np.nan
    good = np.isfinite(y) & np.isfinite(X).all(axis=1)
    learner = predictive(delayed(linear(query.All()), 4))
    state, _ = scan(learner, begin(learner), X, y)
    assert int(state.density.number) == int(state.inputs.number) == good.sum()
    rule = updates.OGD(0.1, loss="hinge")
    bank = models.FeatureModels(jaxmkl.Linear(), rule, features.LinearFeatures())
    learner = probabilities(delayed(jaxmkl.MKL(bank), 4), passthrough=True)
    state, _ = scan(learner, begin(learner), X, y)
    found = state.on_inputs.standard
    assert int(found.number) == int(state.calibration.number) == good.sum()
    np.testing.assert_allclose(found.running.mean, X[good].mean(axis=0), atol=1e-6)


@pytest.mark.slow
def test_two_examples_at_one_state_draw_for_themselves():
    """Before the first label came, and of a round that is the learner's own."""
    X, _ = data()
    learner = delayed(linear(query.Random(0.5)), 100)
    outputs = jaxmkl.run(learner, begin(learner), X, X[:, 0])[1]
    assert 8 <= int(outputs.queried.sum()) <= 32


# --- drivers -------------------------------------------------------------------------------------


@pytest.mark.endless
def test_run_many_and_traced_runs(x64):
    X, y = (array.astype(np.float64) for array in data())
    learner, keys = linear(query.Rate(0.5)), jax.random.split(jax.random.key(3), 2)
    states, outputs = jaxmkl.run_many(learner, keys, X, y, delay=4)
    assert states.round.tolist() == [NUM_EXAMPLES] * 2
    orders = jaxmkl.permutations(keys, NUM_EXAMPLES)
    traced = jax.jit(lambda state, X, y: jaxmkl.run(learner, state, X, y, delay=4))
    for row, order in enumerate(orders):
        start = learner.init(jax.random.fold_in(keys[row], 0), NUM_INPUTS, np.float64)
        state, alone = traced(start, X[order], y[order])
        np.testing.assert_allclose(alone.prediction, outputs.prediction[row], atol=1e-12)
        np.testing.assert_array_equal(alone.queried, outputs.queried[row])
        weights = [s.models[0].rules[0].weights for s in (state, states)]
        np.testing.assert_allclose(weights[0], weights[1][row], atol=1e-12)


@pytest.mark.slow
def test_supports_find_room_in_a_run():
    """Also the supports of the examples that are due at its end."""
    X, y = data()
    store = models.supports.DenseSupport(8, tile=8, period=4)
    learner = jaxmkl.MKL(models.SupportModels(jaxmkl.Gaussian(1.0), updates.OGD(0.1), store))
    state = jaxmkl.run(learner, begin(learner), X, y, delay=6)[0]
    assert (
        int(abilities.num_supports(learner, state)),
        int(learner.info(state).overflow),
    ) == (40, 0)
    late = delayed(learner, 6)
    chunks = [(X[:30], y[:30]), (X[30:], y[30:])]
    for state, _ in jaxmkl.stream(late, begin(late), chunks):
        room = abilities.capacity(late, state) - int(abilities.num_supports(late, state))
        assert room >= 0
    assert int(late.info(late.flushed(state)).overflow) == 0


@pytest.mark.parametrize("delay", [-1, 1.0, True])
def test_another_delay_is_refused(delay):
    X, y = data()
    learner, wanted = linear(), "delay must be an integer of at least 0; got"
    with pytest.raises(ValueError, match=f"run: {wanted}"):
        jaxmkl.run(learner, begin(learner), X, y, delay=delay)
    with pytest.raises(ValueError, match=f"run_many: {wanted}"):
        jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 2), X, y, delay=delay)
    with pytest.raises(ValueError, match=f"Delayed: {wanted}"):
        delayed(learner, delay)
    with pytest.raises(ValueError, match="Delayed: learner must be a learner"):
        delayed(jaxmkl.raker, 3)
