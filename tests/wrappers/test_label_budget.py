"""Learners around learners: each is the learner inside on what the wrapper lets through."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from uneven_stream import NUM_EXAMPLES, NUM_INPUTS, data

import jaxmkl
from jaxmkl import _learner, wrappers
from jaxmkl.recipes import random_features
from tests.common.marks import long
from tests.common.trees import assert_equal, begin, scan

SMALL_PROGRAMS = True

KERNELS = jaxmkl.Gaussian((0.5, 2.0))


def small(name="raker", **arguments):
    return getattr(random_features, name)(KERNELS, num_features=4, **arguments)


# --- label_budget --------------------------------------------------------------------------------

ARGUMENTS = {"amkl_aks": {"tolerance": 0.5, "max_skips": 2}}


def at_round(state, number):
    """A state, set to a round."""

    def leaf_at(path, leaf):
        return number if jax.tree_util.keystr(path).endswith(".round") else leaf

    return jax.tree_util.tree_map_with_path(leaf_at, state)


@functools.cache
def bare_run(name):
    X, y = data()
    X = (X - [0, 5, -1e3]).astype(np.float32)
    learner = small(name, **ARGUMENTS.get(name, {}))
    state = begin(learner, NUM_INPUTS)
    return learner, state, (X, y), scan(learner, state, X, y)


@pytest.mark.slow
def test_label_budget_is_the_learner_until_it_is_spent():
    """And then the learner stands still, and predicts."""
    bare, state, (X, y), (_, expected) = bare_run("amkl_aks")
    budget = 12
    learner = wrappers.label_budget(bare, budget)
    start = begin(learner, NUM_INPUTS)
    assert_equal(start.inner, state)
    end, outputs = scan(learner, start, X, y)

    wanted = np.asarray(expected.queried)
    assert wanted.sum() > budget
    last = int(np.flatnonzero(wanted)[budget - 1])
    np.testing.assert_array_equal(outputs.queried[: last + 1], wanted[: last + 1])
    assert not np.asarray(outputs.queried[last + 1 :]).any()
    np.testing.assert_array_equal(outputs.prediction[: last + 1], expected.prediction[: last + 1])
    assert int(end.remaining) == 0

    # of a learner that draws, a prediction is that of its round
    rounds = np.arange(last + 1, NUM_EXAMPLES, dtype=np.int32)
    later = jax.jit(jax.vmap(lambda r, x: learner.predict(at_round(end, r), x)))(
        rounds, X[last + 1 :]
    )
    np.testing.assert_allclose(outputs.prediction[last + 1 :], later.value, rtol=1e-3, atol=1e-4)
    assert not np.asarray(later.query).any()
    assert np.isfinite(outputs.loss).all()


@pytest.mark.slow
def test_a_budget_for_all_changes_nothing():
    bare, _, (X, y), (bare_end, expected) = bare_run("amkl_aks")
    learner = wrappers.label_budget(bare, NUM_EXAMPLES)
    end, outputs = scan(learner, begin(learner, NUM_INPUTS), X, y)
    assert_equal(outputs, expected)
    assert_equal(end.inner, bare_end)
    assert int(end.remaining) == NUM_EXAMPLES - int(expected.queried.sum())


@pytest.mark.endless
def test_no_budget_is_no_label():
    bare, state, (X, y), _ = bare_run("raker")
    learner = wrappers.label_budget(bare, 0)
    end, outputs = scan(learner, begin(learner, NUM_INPUTS), X, y)
    assert not np.asarray(outputs.queried).any()
    np.testing.assert_array_equal(outputs.prediction, 0)
    assert_equal(end.inner.replace(round=state.round), state)


@pytest.mark.slow
def test_unusable_inputs_cost_no_label():
    bare, _, (X, y), _ = bare_run("raker")
    X = X.copy()
    X[:10] = np.nan
    learner = wrappers.label_budget(bare, 15)
    end, outputs = scan(learner, begin(learner, NUM_INPUTS), X, y)
    expected = np.isin(np.arange(NUM_EXAMPLES), np.arange(10, 25))
    np.testing.assert_array_equal(outputs.queried, expected)
    assert int(end.remaining) == 0


@pytest.mark.endless
def test_budgets_side_by_side():
    """A budget is a number like others: one compilation, a sweep is a vmap."""
    bare, _, (X, y), _ = bare_run("amkl_aks")
    budgets = np.array([0.0, 3.0, 7.0], np.float32)
    structure = jax.tree.structure(wrappers.label_budget(bare, 1))

    def spent(budget):
        leaves = jax.tree.leaves(wrappers.label_budget(bare, 1))[:-1]
        learner = jax.tree.unflatten(structure, [*leaves, budget])
        state = begin(learner, NUM_INPUTS)
        return scan(learner, state, X, y)[1].queried.sum()

    np.testing.assert_array_equal(jax.jit(jax.vmap(spent))(budgets), [0, 3, 7])


@pytest.mark.slow
def test_the_smaller_budget_counts():
    bare, _, (X, y), (_, expected) = bare_run("amkl_aks")
    for budgets in ((5, 9), (9, 5)):
        learner = wrappers.label_budget(wrappers.label_budget(bare, budgets[0]), budgets[1])
        end, outputs = scan(learner, begin(learner, NUM_INPUTS), X, y)
        wanted = np.asarray(expected.queried)
        np.testing.assert_array_equal(outputs.queried, wanted & (wanted.cumsum() <= 5))
        assert sorted([int(end.remaining), int(end.inner.remaining)]) == [0, 4]


# --- answers that come late ----------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=0)
def call(method, learner, *arguments):
    """A method, compiled once for all learners of a kind."""
    return getattr(learner, method)(*arguments)


def outcome(learner, method, delay):
    """A user's loop in which labels come ``delay`` rounds late; how many were asked for."""
    X, y = data()
    state = begin(learner, NUM_INPUTS)
    waiting, asked = [], 0
    for t in range(NUM_EXAMPLES):
        prediction = call(method, learner, state, X[t])
        if method == "ask":
            prediction, state = prediction
        if prediction.query:
            asked += 1
            waiting.append((t, X[t], y[t]))
        else:
            state = call("skip", learner, state, X[t])
        while waiting and waiting[0][0] <= t - delay:
            state = call("update", learner, state, *waiting.pop(0)[1:])
    for _, x, label in waiting:
        state = call("update", learner, state, x, label)
    return asked, state


@pytest.mark.slow
@pytest.mark.parametrize("budgeted", long(["outside"], ["outside", "inside"]))
def test_late_answers_do_not_overdraw(budgeted):
    """98 labels of 50 once; what is asked for is counted."""
    bare = small("amkl", tolerance=0.5)
    if budgeted == "outside":
        learner = wrappers.label_budget(wrappers.scaled(bare, wrappers.RunningMoments()), 9)
    else:
        learner = wrappers.scaled(wrappers.label_budget(bare, 9), wrappers.RunningMoments())
    asked, state = outcome(learner, "ask", delay=10)
    state = state if budgeted == "outside" else state.inner
    assert asked == 9
    counts = state.remaining, state.outstanding, state.overdrawn
    assert [int(count) for count in counts] == [0, 0, 0]
    assert int(state.round) == NUM_EXAMPLES


@pytest.mark.slow
def test_what_is_asked_for_is_outstanding_until_it_comes():
    learner = wrappers.label_budget(small(), 3)
    X, y = data()
    state = begin(learner, NUM_INPUTS)
    for t in range(5):
        prediction, state = call("ask", learner, state, X[t])
        assert bool(prediction.query) == (t < 3)
    assert (int(state.remaining), int(state.outstanding), int(state.round)) == (0, 3, 0)
    assert not call("predict", learner, state, X[7]).query
    state = call("update", learner, state, X[0], y[0])
    assert (int(state.remaining), int(state.outstanding), int(state.overdrawn)) == (0, 2, 0)
    # a pool in one scan, each example at the state that the one before left
    several = jax.jit(lambda s, X: jax.lax.scan(lambda s, x: learner.ask(s, x)[::-1], s, X))
    _, predictions = several(begin(learner, NUM_INPUTS), X[:8])
    assert predictions.query.tolist() == [True] * 3 + [False] * 5


@pytest.mark.parametrize("delay", [0, 10])
def test_predict_counts_nothing(delay):
    """With answers at once a budget is hard all the same; late ones are learned, and told."""
    learner = wrappers.label_budget(small(), 9)
    asked, state = outcome(learner, "predict", delay)
    assert asked == 9 + delay
    assert (int(state.remaining), int(state.overdrawn)) == (0, delay)


def test_ask_is_predict_for_learners_that_count_nothing():
    learner = small()
    state = begin(learner, NUM_INPUTS)
    x = data()[0][0]
    assert_equal(call("ask", learner, state, x), (call("predict", learner, state, x), state))


@pytest.mark.parametrize("budget", [0, 2**24 + 1, 2**31 - 1])
def test_a_budget_is_exact(budget):
    state = wrappers.label_budget(small(), budget).init(jax.random.key(0), NUM_INPUTS)
    assert int(state.remaining) == budget
    assert state.remaining.dtype == jnp.int32


@pytest.mark.parametrize("budget", [-1, np.nan, 2**31, [1, 2], "ten", 10.7])
def test_a_budget_is_checked(budget):
    with pytest.raises(ValueError, match="LabelBudget: budget must be"):
        wrappers.label_budget(small(), budget)


# --- both, and what wrappers hand through --------------------------------------------------------


@pytest.mark.endless
def test_wrappers_commute():
    X, y = data()
    bare, scaler = small("amkl", tolerance=0.5), wrappers.RunningRanks(capacity=6)
    outer = wrappers.label_budget(wrappers.scaled(bare, scaler), 8)
    inner = wrappers.scaled(wrappers.label_budget(bare, 8), scaler)
    runs = []
    for learner in (outer, inner):
        runs.append(scan(learner, begin(learner, NUM_INPUTS), X, y))
    (outer_end, one), (inner_end, other) = runs
    assert_equal(one.queried, other.queried)
    assert int(one.queried.sum()) == 8
    np.testing.assert_allclose(one.prediction, other.prediction, rtol=1e-4, atol=1e-5)
    assert_equal(outer_end.inner.scaler, inner_end.scaler)
    assert int(outer_end.inner.scaler.num_seen) == NUM_EXAMPLES
    assert int(outer_end.round) == int(inner_end.round) == NUM_EXAMPLES


@pytest.mark.parametrize(
    ("task", "dtype"), [("regression", "float32"), ("classification", "float64")]
)
def test_wrappers_hand_through(task, dtype):
    bare = small("expert_mkl", task=task)
    learner = wrappers.label_budget(wrappers.scaled(bare, wrappers.RunningMoments()), 8)
    assert isinstance(learner, _learner.Learner)
    assert learner.task == task
    assert learner.preferred_block_size == bare.preferred_block_size
    assert learner.fit_block_size(27) == bare.fit_block_size(27) == 16

    def both(key, x):
        state = learner.init(key, NUM_INPUTS, dtype)
        return state, learner.step(state, (x, 1.0))

    with jax.enable_x64(True):
        x = np.ones(NUM_INPUTS, dtype)
        state, (_, output) = jax.eval_shape(both, jax.random.key(0), x)
        assert learner.num_inputs(state) == NUM_INPUTS
        assert learner.dtype(state) == dtype
    assert output.info.weights.shape == (bare.num_models,)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wrappers.scaled(wrappers.RunningMoments(), small()),
        lambda: wrappers.scaled(small(), wrappers.RunningMoments),
        lambda: wrappers.scaled(small(), "moments"),
        lambda: wrappers.label_budget(10, small()),
        lambda: wrappers.label_budget(jaxmkl.raker, 10),
    ],
    ids=["swapped", "class", "name", "swapped budget", "factory"],
)
def test_parts_are_checked(make):
    with pytest.raises(ValueError, match="must be"):
        make()
