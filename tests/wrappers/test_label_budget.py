"""Learners around learners: each is the learner inside on what the wrapper lets through."""

import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import learner as protocol

SMALL_PROGRAMS = True

NUM_EXAMPLES, NUM_INPUTS = 40, 3


def small(name="raker", **arguments):
    factory = jaxmkl.LEARNERS[name]
    offered = {"kernels": jaxmkl.Gaussian((0.5, 2.0)), "num_features": 4}
    taken = {k: v for k, v in offered.items() if k in inspect.signature(factory).parameters}
    return factory(**taken, **arguments)


@functools.cache
def data(seed=0):
    """X (T, D) on very different scales, and y (T,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)) * [1e-3, 1, 300] + [0, 5, -1e3]
    y = np.sin(2 * (X[:, 1] - 5)) + X[:, 0] * 500
    return X.astype(np.float32), y.astype(np.float32)


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


def plain(tree):
    def numbers(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(numbers, tree)


def assert_equal(one, other):
    """Bit for bit."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    for (path, a), b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def standardized_by_prefix(X):
    """The first row is 0; the others by mean and deviation of all rows up to them."""
    Z = np.zeros_like(X)
    for t in range(1, len(X)):
        Z[t] = (X[t] - X[: t + 1].mean(axis=0)) / X[: t + 1].std(axis=0)
    return Z


def scaled_alone(scaler, state, X):
    """What a scaler does by itself."""

    def body(state, x):
        change, z = scaler.observe(state, x)
        return scaler.accept(state, change, True), z

    return jax.jit(lambda state, X: jax.lax.scan(body, state, X))(state, X)


# --- scaled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["amkl_aks", "expert_mkl"])
@pytest.mark.parametrize("block_size", [None, 1, 5, 16])
def test_scaled_by_moments_is_the_learner_on_scaled_inputs(inner, block_size):
    """In double precision, from the same inner state; without a block size by ``step``."""
    X, y = (array.astype(np.float64) for array in data())
    bare = small(inner)
    learner = jaxmkl.scaled(bare, jaxmkl.RunningMoments())
    with jax.enable_x64(True):
        state = learner.init(jax.random.key(0), NUM_INPUTS, np.float64)
        _, expected = scan(bare, state.inner, standardized_by_prefix(X), y)
        if block_size is None:
            end, outputs = scan(learner, state, X, y)
        else:
            end, outputs = jaxmkl.run(learner, state, X, y, block_size=block_size)
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(outputs.loss, expected.loss, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(outputs.queried, expected.queried)
    np.testing.assert_allclose(end.scaler.mean, X.mean(axis=0), rtol=1e-12)
    assert int(end.round) == NUM_EXAMPLES


@pytest.mark.parametrize("block_size", [None, 1, 7])
def test_scaled_by_ranks_is_the_learner_on_scaled_inputs(block_size):
    """With a sample that is soon full."""
    X, y = data()
    bare, scaler = small("omkl_aks"), jaxmkl.RunningRanks(capacity=6)
    learner = jaxmkl.scaled(bare, scaler)
    state = learner.init(jax.random.key(1), NUM_INPUTS)
    scaler_end, Z = scaled_alone(scaler, state.scaler, X)
    _, expected = scan(bare, state.inner, Z, y)
    if block_size is None:
        end, outputs = scan(learner, state, X, y)
    else:
        end, outputs = jaxmkl.run(learner, state, X, y, block_size=block_size)
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-4, atol=1e-5)
    assert_equal(end.scaler, scaler_end)


SCALERS = {"moments": jaxmkl.RunningMoments(), "ranks": jaxmkl.RunningRanks(capacity=6)}


@pytest.mark.parametrize("name", SCALERS)
def test_predictions_see_the_input_and_leave_no_trace(name):
    X, y = data()
    learner = jaxmkl.scaled(small(), SCALERS[name])
    state, _ = scan(learner, learner.init(jax.random.key(0), NUM_INPUTS), X, y)
    _, z = SCALERS[name].observe(state.scaler, X[0])
    expected = jax.jit(learner.learner.predict)(state.inner, z)
    prediction, after = jax.jit(lambda s, x: (learner.predict(s, x), learner.skip(s, x)))(
        state, X[0]
    )
    np.testing.assert_allclose(prediction.value, expected.value, rtol=1e-5)
    assert int(after.scaler.num_seen) == int(state.scaler.num_seen) + 1
    assert_equal(after.inner.log_weights, state.inner.log_weights)


@pytest.mark.parametrize("name", SCALERS)
@pytest.mark.parametrize("block_size", [None, 4, 9])
def test_unusable_rows_leave_the_scaler_untouched(name, block_size):
    """Rows of NaN, infinite and huge values, at both ends of blocks and amid."""
    X, y = data()
    X = X.copy()
    bad = np.array([0, 3, 4, 8, 17, 18, 39])
    X[bad, bad % 3] = np.array([np.nan, np.inf, -np.inf, 1e25, np.nan, -1e30, np.nan])
    learner = jaxmkl.scaled(small(), SCALERS[name])
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    if block_size is None:
        end, outputs = scan(learner, state, X, y)
    else:
        run = functools.partial(jaxmkl.run, block_size=block_size)
        end, outputs = jax.jit(run)(learner, state, X, y)
    good = np.setdiff1d(np.arange(NUM_EXAMPLES), bad)
    scaler_end, Z = scaled_alone(SCALERS[name], state.scaler, X[good])
    assert_equal(end.scaler, scaler_end)
    assert int(end.scaler.num_seen) == len(good)
    assert int(end.inner.invalid) == len(bad)
    assert int(end.round) == NUM_EXAMPLES
    np.testing.assert_array_equal(np.isnan(outputs.prediction), np.isin(np.arange(40), bad))
    np.testing.assert_array_equal(np.isnan(outputs.loss), np.isin(np.arange(40), bad))
    # no draws are involved in raker: it goes on as if those rows had not been
    _, expected = scan(learner.learner, state.inner, Z, y[good])
    np.testing.assert_allclose(outputs.loss[good], expected.loss, rtol=1e-4, atol=1e-5)


def test_a_bad_label_does_not_hide_its_input_from_the_scaler():
    X, y = data()
    y = y.copy()
    y[[5, 6]] = np.nan
    learner = jaxmkl.scaled(small(), jaxmkl.RunningMoments())
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    end, outputs = scan(learner, state, X, y)
    scaler_end, _ = scaled_alone(learner.scaler, state.scaler, X)
    assert_equal(end.scaler, scaler_end)
    assert int(end.inner.invalid) == 2
    assert np.isfinite(outputs.prediction).all()
    np.testing.assert_array_equal(np.isnan(outputs.loss), np.isin(np.arange(40), [5, 6]))


def test_two_scalers_one_behind_the_other():
    X, y = data()
    bare = small()
    inner = jaxmkl.scaled(bare, jaxmkl.RunningMoments())
    learner = jaxmkl.scaled(inner, jaxmkl.RunningRanks())
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    _, Z = scaled_alone(learner.scaler, state.scaler, X)
    _, Z = scaled_alone(inner.scaler, state.inner.scaler, Z)
    _, expected = scan(bare, state.inner.inner, Z, y)
    _, outputs = jaxmkl.run(learner, state, X, y, block_size=8)
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-4, atol=1e-4)


# --- label_budget --------------------------------------------------------------------------------

LEARNERS = {
    "raker": {},
    "omkl_aks": {},
    "amkl": {"tolerance": 0.5},
    "amkl_aks": {"tolerance": 0.5, "max_skips": 2},
    "expert_mkl": {"labelling": jaxmkl.Confidence(0.5, 1)},
}


def at_round(state, number):
    """A state, set to a round."""

    def leaf_at(path, leaf):
        return number if jax.tree_util.keystr(path).endswith(".round") else leaf

    return jax.tree_util.tree_map_with_path(leaf_at, state)


@functools.cache
def bare_run(name):
    X, y = data()
    X = (X - [0, 5, -1e3]).astype(np.float32)
    learner = small(name, **LEARNERS.get(name, {}))
    if learner.task == "classification":
        y = np.where(y > np.median(y), 1, -1).astype(np.float32)
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    return learner, state, (X, y), scan(learner, state, X, y)


@pytest.mark.parametrize("name", jaxmkl.LEARNERS)
def test_label_budget_is_the_learner_until_it_is_spent(name):
    """And then the learner stands still, and predicts."""
    bare, state, (X, y), (_, expected) = bare_run(name)
    budget = 12
    learner = jaxmkl.label_budget(bare, budget)
    start = learner.init(jax.random.key(0), NUM_INPUTS)
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
    rounds = jnp.arange(last + 1, NUM_EXAMPLES, dtype=jnp.int32)
    later = jax.jit(jax.vmap(lambda r, x: learner.predict(at_round(end, r), x)))(
        rounds, X[last + 1 :]
    )
    np.testing.assert_allclose(outputs.prediction[last + 1 :], later.value, rtol=1e-3, atol=1e-4)
    assert not np.asarray(later.query).any()
    assert np.isfinite(outputs.loss).all()


@pytest.mark.parametrize("name", jaxmkl.LEARNERS)
def test_a_budget_for_all_changes_nothing(name):
    bare, _, (X, y), (bare_end, expected) = bare_run(name)
    learner = jaxmkl.label_budget(bare, NUM_EXAMPLES)
    end, outputs = scan(learner, learner.init(jax.random.key(0), NUM_INPUTS), X, y)
    assert_equal(outputs, expected)
    assert_equal(end.inner, bare_end)
    assert int(end.remaining) == NUM_EXAMPLES - int(expected.queried.sum())


@pytest.mark.parametrize("block_size", [1, 16])
def test_no_budget_is_no_label(block_size):
    bare, state, (X, y), _ = bare_run("raker")
    learner = jaxmkl.label_budget(bare, 0)
    end, outputs = jaxmkl.run(
        learner, learner.init(jax.random.key(0), NUM_INPUTS), X, y, block_size=block_size
    )
    assert not np.asarray(outputs.queried).any()
    np.testing.assert_array_equal(outputs.prediction, 0)
    assert_equal(end.inner._replace(round=state.round), state._replace(labelling=()))


def test_unusable_inputs_cost_no_label():
    bare, _, (X, y), _ = bare_run("raker")
    X = X.copy()
    X[:10] = np.nan
    learner = jaxmkl.label_budget(bare, 15)
    end, outputs = scan(learner, learner.init(jax.random.key(0), NUM_INPUTS), X, y)
    expected = np.isin(np.arange(NUM_EXAMPLES), np.arange(10, 25))
    np.testing.assert_array_equal(outputs.queried, expected)
    assert int(end.remaining) == 0


def test_budgets_side_by_side():
    """A budget is a number like others: one compilation, a sweep is a vmap."""
    bare, _, (X, y), _ = bare_run("amkl")
    budgets = jnp.array([0.0, 3.0, 7.0])
    structure = jax.tree.structure(jaxmkl.label_budget(bare, 1))

    def spent(budget):
        leaves = jax.tree.leaves(jaxmkl.label_budget(bare, 1))[:-1]
        learner = jax.tree.unflatten(structure, [*leaves, budget])
        state = learner.init(jax.random.key(0), NUM_INPUTS)
        return scan(learner, state, X, y)[1].queried.sum()

    np.testing.assert_array_equal(jax.vmap(spent)(budgets), [0, 3, 7])


def test_the_smaller_budget_counts():
    bare, _, (X, y), (_, expected) = bare_run("amkl")
    for budgets in ((5, 9), (9, 5)):
        learner = jaxmkl.label_budget(jaxmkl.label_budget(bare, budgets[0]), budgets[1])
        end, outputs = scan(learner, learner.init(jax.random.key(0), NUM_INPUTS), X, y)
        wanted = np.asarray(expected.queried)
        np.testing.assert_array_equal(outputs.queried, wanted & (wanted.cumsum() <= 5))
        assert sorted([int(end.remaining), int(end.inner.remaining)]) == [0, 4]


@pytest.mark.parametrize("budget", [0, 1, 2**24 + 1, 123_456_789, 2**31 - 1])
def test_a_budget_is_exact(budget):
    state = jaxmkl.label_budget(small(), budget).init(jax.random.key(0), NUM_INPUTS)
    assert int(state.remaining) == budget
    assert state.remaining.dtype == jnp.int32


@pytest.mark.parametrize("budget", [-1, np.nan, np.inf, 2**31, [1, 2], []])
def test_a_budget_is_checked(budget):
    with pytest.raises(ValueError, match="LabelBudget: budget must be a number of labels from 0"):
        jaxmkl.label_budget(small(), budget)


@pytest.mark.parametrize("budget", ["ten", None, 10.7])
def test_a_budget_is_a_whole_number(budget):
    with pytest.raises(ValueError, match="LabelBudget: budget must be"):
        jaxmkl.label_budget(small(), budget)


# --- both, and what wrappers hand through --------------------------------------------------------


@pytest.mark.parametrize("name", SCALERS)
def test_wrappers_commute(name):
    X, y = data()
    bare = small("amkl", tolerance=0.5)
    outer = jaxmkl.label_budget(jaxmkl.scaled(bare, SCALERS[name]), 8)
    inner = jaxmkl.scaled(jaxmkl.label_budget(bare, 8), SCALERS[name])
    runs = []
    for learner in (outer, inner):
        state = learner.init(jax.random.key(0), NUM_INPUTS)
        runs.append(jaxmkl.run(learner, state, X, y, block_size=16))
    (outer_end, one), (inner_end, other) = runs
    assert_equal(one.queried, other.queried)
    assert int(one.queried.sum()) == 8
    np.testing.assert_allclose(one.prediction, other.prediction, rtol=1e-4, atol=1e-5)
    assert_equal(outer_end.inner.scaler, inner_end.scaler)
    assert int(outer_end.inner.scaler.num_seen) == NUM_EXAMPLES
    assert int(outer_end.round) == int(inner_end.round) == NUM_EXAMPLES


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wrappers_hand_through(task, dtype):
    bare = small("expert_mkl", task=task)
    learner = jaxmkl.label_budget(jaxmkl.scaled(bare, jaxmkl.RunningMoments()), 8)
    assert isinstance(learner, protocol.Learner)
    assert learner.task == task
    assert learner.preferred_block_size == bare.preferred_block_size
    assert learner.fit_block_size(27) == bare.fit_block_size(27) == 16

    def both(key, x):
        state = learner.init(key, NUM_INPUTS, dtype)
        return state, learner.step(state, (x, 1.0))

    with jax.enable_x64(True):
        x = np.ones(NUM_INPUTS, dtype)
        state, (after, output) = jax.eval_shape(both, jax.random.key(0), x)
        assert learner.num_inputs(state) == NUM_INPUTS
        assert learner.dtype(state) == dtype
    assert state == after
    for leaf in jax.tree.leaves((state, output)):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert leaf.dtype == dtype
    assert output.info.weights.shape == (bare.num_experts,)


def test_labels_of_classifiers_are_accepted_through_wrappers():
    X, y = data()
    bare = small("raker", loss="hinge")
    learner = jaxmkl.label_budget(jaxmkl.scaled(bare, jaxmkl.RunningMoments()), 30)
    state = learner.init(jax.random.key(0), NUM_INPUTS)
    _, expected = jaxmkl.run(learner, state, X, np.where(y > 0, 1, -1))
    _, outputs = jaxmkl.run(learner, state, X, np.where(y > 0, "yes", "no"))
    assert_equal(outputs, expected)
    with pytest.raises(ValueError, match="labels: y must be"):
        jaxmkl.run(learner, state, X, y)


def test_derivative_through_wrappers():
    """The scaler has no numbers of its own; the budget's derivative is zero."""
    X, y = data()
    learner = jaxmkl.label_budget(jaxmkl.scaled(small(), jaxmkl.RunningMoments()), 30)

    def total(learner):
        state = learner.init(jax.random.key(0), NUM_INPUTS)
        return jaxmkl.run(learner, state, X, y)[1].loss.mean()

    gradient = jax.grad(total)(learner)
    assert float(gradient.budget) == 0
    rate = gradient.learner.learner.rules[0].step_sizes
    assert np.isfinite(rate)
    assert rate != 0
    assert dataclasses.fields(gradient.learner.scaler) == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: jaxmkl.scaled(jaxmkl.RunningMoments(), small()),
        lambda: jaxmkl.scaled(small(), jaxmkl.RunningMoments),
        lambda: jaxmkl.scaled(small(), "moments"),
        lambda: jaxmkl.label_budget(10, small()),
        lambda: jaxmkl.label_budget(jaxmkl.raker, 10),
    ],
    ids=["swapped", "class", "name", "swapped budget", "factory"],
)
def test_parts_are_checked(make):
    with pytest.raises(ValueError, match="must be"):
        make()
