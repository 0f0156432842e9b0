"""Many tasks on one dictionary: each part by its definition."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from task_streams import (
    NUM_INPUTS,
    SIZE,
    all_draws,
    assert_same,
    begin,
    covariances,
    examples,
    make,
    one_round,
    predicted,
    rounds,
    scanned,
    scanned_rounds,
    updated,
)

import jaxmkl
from jaxmkl import multitask, raker
from jaxmkl.query import Margin, Uncertainty
from jaxmkl.streaming import SparseRows, run, run_many
from jaxmkl.tables import with_tasks
from jaxmkl.wrappers import RunningMoments, label_budget, scaled

SMALL_PROGRAMS = True


# --- one round by definition ---------------------------------------------------------------------


def amid():
    """A state amid a stream, that any learner may go on from, its means and covariances."""
    learner = make()
    X, y, present = rounds(40, 3)
    state, _ = scanned_rounds(learner, begin(learner), X, y, present)
    # a full dictionary does not change any more
    assert int(state.dictionary.number) == SIZE
    return state, np.asarray(state.means), np.asarray(covariances(learner, state))


def coordinates(learner, state, X):
    """φ (n, D) of rows, from the definition."""
    kernel = np.asarray(learner.kernel.gram(state.dictionary.rows, X)[0])
    gram = np.asarray(learner.kernel.gram(state.dictionary.rows)[0])
    return np.linalg.solve(np.linalg.cholesky(gram), kernel).T


@pytest.mark.slow
def test_a_covariance_is_the_inverse_of_the_sum(x64):
    """Equation (2)."""
    learner = make(covariance="queried", noise=0.4)
    state, _, sigma = amid()
    x = np.array([0.3, -0.5, 0.8])
    after = updated(learner, state, np.append(1.0, x), 1.0)
    (phi,) = coordinates(learner, state, x[None])
    wanted = sigma.copy()
    for g in (0, 2):
        wanted[g] = np.linalg.inv(np.linalg.inv(sigma[g]) + np.outer(phi, phi) / 0.4)
    np.testing.assert_allclose(covariances(learner, after), wanted, atol=1e-10)


@pytest.mark.slow
def test_the_covariance_of_all_takes_the_tasks_of_a_round_one_after_the_other(x64):
    """Equation (4), by Woodbury, and by rank-one updates in another order."""
    learner = make(covariance="queried", noise=0.4)
    state, _, sigma = amid()
    X, y, _ = rounds(1, 3, seed=8)
    after, _ = one_round(learner, state, (X[0], y[0], np.ones(3, bool)))
    F = coordinates(learner, state, X[0]).T
    C = 0.4 * np.eye(3) + F.T @ sigma[0] @ F
    woodbury = sigma[0] - sigma[0] @ F @ np.linalg.solve(C, F.T @ sigma[0])
    one = sigma[0]
    for phi in F.T[::-1]:
        s = one @ phi
        one = one - np.outer(s, s) / (0.4 + phi @ s)
    np.testing.assert_allclose(woodbury, one, atol=1e-12)
    np.testing.assert_allclose(covariances(learner, after)[0], woodbury, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("inertia", [0.3, 3.0])
def test_a_mean_of_a_task_is_the_minimizer(loss, inertia, x64):
    """Equation (3): |μ - old|² by the new covariance's inverse + loss/ε, as others were."""
    learner = make(loss=loss, inertia=inertia, update_on="margin")
    state, means, _ = amid()
    for i, x in enumerate(np.random.default_rng(3).normal(size=(4, NUM_INPUTS))):
        (phi,) = coordinates(learner, state, x[None])
        y = -np.sign(phi @ (means[0] + means[1]))
        after = updated(learner, state, np.append(0.0, x), y)
        inverse = np.linalg.inv(np.asarray(covariances(learner, after))[1])
        # in the coordinates of the root the distance is round, which a search likes better
        root = np.linalg.cholesky(np.linalg.inv(inverse))

        def objective(z, phi=phi, y=y, root=root):
            hinge = max(0.0, 1.0 - y * float(phi @ (means[0] + means[1] + root @ z)))
            return z @ z + hinge ** (2 if loss == "squared_hinge" else 1) / inertia

        ours = np.linalg.solve(root, np.asarray(after.means)[1] - means[1])
        rng = np.random.default_rng(i)
        for size in (1e-1, 1e-3, 1e-5):
            for z in rng.normal(size=(50, SIZE)):
                assert objective(ours + size * z) > objective(ours)
        along = root.T @ phi
        found = minimize(
            lambda c, along=along: objective(c[0] * along), [0.0], method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-16},
        )  # fmt: skip
        np.testing.assert_allclose(ours, found.x[0] * along, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_mean_of_all_in_a_round(loss, x64):
    """Equation (5); for squared hinges the minimizer by the new covariance."""
    learner = make(loss=loss, inertia=0.7, update_on="margin")
    state, means, _ = amid()
    X, _, _ = rounds(1, 3, seed=8)
    F = coordinates(learner, state, X[0])
    value = np.sum(F * (means[0] + means[1:]), axis=1)
    y = np.where(value > 0, -1.0, 1.0)
    after, output = one_round(learner, state, (X[0], y, np.ones(3, bool)))
    np.testing.assert_allclose(output.prediction, value, atol=1e-10)
    inverse = np.linalg.inv(np.asarray(covariances(learner, after))[0])
    change = np.asarray(after.means)[0] - means[0]
    left = 1 - y * (value + F @ change) if loss == "squared_hinge" else np.full(3, 0.5)
    np.testing.assert_allclose(inverse @ change, (left * y) @ F / 0.7, atol=1e-9)


@pytest.mark.slow
def test_predictions_are_those_of_the_definition(x64):
    learner = make(h=0.05)
    state, means, sigma = amid()
    X = np.random.default_rng(5).normal(size=(30, NUM_INPUTS))
    F = coordinates(learner, state, X)
    for k in range(3):
        rows = with_tasks(np.full(30, k), X)
        prediction = predicted(learner, state, rows)
        value = F @ (means[0] + means[1 + k])
        np.testing.assert_allclose(prediction.value, value, atol=1e-9)
        theta = np.abs(value) - np.einsum("nd,de,ne->n", F, sigma[0] + sigma[1 + k], F) / 4
        u = np.asarray(all_draws(state, np.full(30, state.round), rows))[:, 1]
        chance = np.where(theta <= 0, 1.0, 0.05 / (0.05 + np.maximum(theta, 0)))
        np.testing.assert_array_equal(prediction.query, u < chance)
        assert 0 < (theta <= 0).sum() < 30


# --- tasks ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "h"), [("squared_hinge", None), ("hinge", 0.2)])
def test_one_task_without_the_whole_is_the_single_task_learner(loss, h, x64):
    """In NumPy: one Gaussian, kept as the inverse of its covariance."""
    learner = make(None, components="local", loss=loss, h=h)
    _, X, y = examples(250, 1)
    start = begin(learner)
    _, outputs, states = jax.tree.map(np.asarray, scanned_values(learner, start, X, y))
    mean, precision = np.zeros(SIZE), np.eye(SIZE)
    uniform = np.asarray(all_draws(start, np.arange(250), X))
    for t in range(250):
        phi = states[t]
        f, v = mean @ phi, phi @ np.linalg.solve(precision, phi)
        theta = abs(f) - v / 4
        asked = h is None or theta <= 0 or uniform[t, 1] < h / (h + theta)
        assert abs(f - outputs.prediction[t]) < 1e-8
        assert asked == outputs.queried[t]
        loss_value = max(0.0, 1 - y[t] * f)
        if asked and (y[t] * f <= 0 or (h is not None and theta <= 0 and loss_value > 0)):
            precision += np.outer(phi, phi)
            s = np.linalg.solve(precision, phi)
            v = phi @ s
            g = loss_value / (1 + v) if loss == "squared_hinge" else min(0.5, loss_value / v)
            mean = mean + g * y[t] * s
    if h is not None:
        return  # of an example with a task, the question's number is another one
    with_a_column = make(1, components="local", loss=loss, h=h)
    _, same = run(with_a_column, begin(with_a_column), with_tasks(np.zeros(250, int), X), y)
    np.testing.assert_allclose(same.prediction, outputs.prediction, atol=1e-12)


def scanned_values(learner, start, X, y):
    """The end, the outputs, and the coordinates (T, D) of all examples in their rounds."""
    state, (outputs, states) = scanned(learner, start, X, y)

    @jax.jit
    def phi(learner, state, x):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, x[None])).own
        return learner.dictionary.predict(state.dictionary, code.dictionary)[0][0]

    return state.means, outputs, jax.vmap(phi, in_axes=(None, 0, 0))(learner, states, X)


@pytest.mark.slow
def test_the_column_of_the_task_is_not_scaled():
    """And the inputs are, as they are without that column."""
    task, X, _ = examples(20, 3)
    X = (100 * X + 7).astype(np.float32)

    @jax.jit
    def codes(learner, X):
        state = learner.init(jax.random.key(0), X.shape[1])
        return learner.encode(state, X).inner

    bare = scaled(make(None), RunningMoments())
    learner = scaled(make(3), RunningMoments())
    of_tasks, of_inputs = codes(learner, with_tasks(task, X)), codes(bare, X)
    np.testing.assert_array_equal(of_tasks.own.task, task)
    assert of_tasks.usable.all()
    scaled_inputs = of_inputs.own.dictionary.x
    np.testing.assert_array_equal(of_tasks.own.dictionary.x, scaled_inputs)
    assert np.abs(scaled_inputs).max() < 10
    wrapped = label_budget(learner, 5)
    assert [one.leading_columns for one in (make(3), learner, wrapped)] == [1, 1, 1]
    assert [one.leading_columns for one in (make(None), bare, raker())] == [0, 0, 0]


def predictions(components, stream, y):
    learner = make(5, components=components, size=40)
    return np.asarray(run(learner, begin(learner, np.float32), stream, y)[1].prediction)


@pytest.mark.slow
def test_tasks_alone_do_not_hear_of_each_other():
    """Local only: another task's labels change nothing; with both they do."""
    task, X, y = examples(1200, 5)
    X = with_tasks(task, X).astype(np.float32)
    flipped = np.where(task == 1, -y, y)
    for components, same in (("local", True), ("both", False)):
        one, other = (predictions(components, X, labels) for labels in (y, flipped))
        assert np.array_equal(one[task == 0], other[task == 0]) == same


@pytest.mark.slow
def test_what_all_tasks_share_and_what_they_do_not():
    """Tasks that agree are learned faster together; tasks that contradict, apart."""
    rng = np.random.default_rng(0)
    task, X = rng.integers(5, size=1200), rng.normal(size=(1200, NUM_INPUTS))
    agree = np.sign(np.sin(2 * X[:, 0]) + X[:, 1])
    contradict = np.where(task % 2 == 0, agree, -agree)
    stream = with_tasks(task, X).astype(np.float32)

    def mistakes(components, y):
        return float((y * predictions(components, stream, y) <= 0).mean())

    assert mistakes("global", agree) < mistakes("local", agree) - 0.02
    assert mistakes("both", agree) < mistakes("local", agree) - 0.02
    assert mistakes("local", contradict) < mistakes("global", contradict) - 0.1
    assert mistakes("both", contradict) < mistakes("global", contradict) - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("bad", [-1.0, 3.0, 0.5, 1e9, np.nan, np.inf])
def test_a_task_that_is_none_is_refused(bad, x64):
    """Counted, predicted as NaN, and the rest as if it had not been there."""
    learner, (task, X, y) = make(3, h=0.4), examples(60, 3)
    good = with_tasks(task, X)
    mixed = good.copy()
    mixed[30, 0] = bad
    state, (outputs, states) = scanned(learner, begin(learner), mixed, y)
    assert int(state.invalid) == 1
    assert np.isnan(outputs.prediction[30])
    assert np.isnan(outputs.loss[30])
    assert not outputs.queried[30]
    before, after = (jax.tree.map(lambda v, t=t: v[t], states) for t in (30, 31))
    counted = before.replace(round=before.round + 1, invalid=before.invalid + 1)
    assert_same(after, counted)


@pytest.mark.slow
def test_an_example_without_a_usable_label_teaches_nothing(x64):
    """Its input may come into the dictionary, which knows no labels."""
    learner, (task, X, y) = make(3, h=np.inf), examples(60, 3)
    y[4:20] = np.nan
    state, (outputs, states) = scanned(learner, begin(learner), with_tasks(task, X), y)
    assert int(state.invalid) == 16
    assert np.isnan(outputs.loss[4:20]).all()
    np.testing.assert_array_equal(states.means[20], states.means[4])
    np.testing.assert_array_equal(states.roots[20], states.roots[4])
    assert states.dictionary.number[20] > states.dictionary.number[4]
    X, y, present = rounds(40, 3, share=2.0)
    y[2, 1] = np.inf
    learner = make()
    state, _ = scanned_rounds(learner, begin(learner), X, y, present)
    assert int(state.invalid) == 1


def test_a_column_without_tasks_is_refused_where_values_are_known():
    """By the drivers, of dense and of sparse rows; what is left out of the latter is task 0."""
    X = with_tasks([0, 1, 2], np.ones((3, 2)))
    sparse = SparseRows.from_csr(scipy.sparse.csr_array(X))
    for rows in (X, jnp.asarray(X), sparse):
        make(3).check_inputs(rows)
        make(None).check_inputs(rows)
        label_budget(make(3), 5).check_inputs(rows)
        with pytest.raises(ValueError, match=r"column 0 of X must be a task in every row, a whole "
                           r"number from 0 to 1 .*; got \[2.0\]"):  # fmt: skip
            make(2).check_inputs(rows)
    for bad in (-1.0, 0.5, np.nan, np.inf):
        X[1, 0] = bad
        with pytest.raises(ValueError, match="column 0 of X must be a task"):
            make(3).check_inputs(X)
    with pytest.raises(ValueError, match="column 0 of X must be a task"):
        run(make(3), begin(make(3), np.float32), np.full((9, 1 + NUM_INPUTS), 0.3), np.ones(9))


# --- precision, memory, growth -------------------------------------------------------------------


@functools.cache
def long_run(noise, num_rounds):
    """A state after many rounds in float32 that mostly shrink the covariances."""
    learner = make(2, covariance="queried", noise=noise, size=40)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rounds, NUM_INPUTS)) * [1.0, 0.3, 0.1]  # directions of every size
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X = with_tasks(rng.integers(2, size=num_rounds), X)
    state = begin(learner, np.float32)
    return learner, run(learner, state, X.astype(np.float32), y.astype(np.float32))[0]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "num_rounds"), [(0.01, 100_000)])
def test_covariances_stay_positive_in_single_precision(noise, num_rounds):
    learner, state = long_run(noise, num_rounds)
    given = np.asarray(covariances(learner, state))
    np.testing.assert_array_equal(given, given.swapaxes(1, 2))
    roots = np.asarray(state.roots, np.float64)
    exact = np.linalg.eigvalsh(roots @ roots.swapaxes(1, 2))
    assert exact.min() > 0
    assert exact.max() / exact.min() > 1e4  # which is what rounding has to be held against
    assert np.linalg.eigvalsh(given).min() > 0


def test_memory_is_that_of_the_covariances():
    learner = make(29, size=100)
    state = begin(learner, np.float32)
    assert state.roots.shape == (30, 100, 100)
    leaves = jax.tree.leaves(state.replace(key=state.round))
    # beside the covariances the dictionary's three factors, and vectors
    assert sum(leaf.nbytes for leaf in leaves) < (30 + 3.5) * 100**2 * 4
    for components, number in (("local", 29), ("global", 1)):
        assert len(begin(make(29, components=components), np.float32).roots) == number


@pytest.mark.slow
def test_covariances_are_changed_where_they_are():
    """The compiled pass holds them once more, in its result, and copies them in no round."""
    learner = make(29, size=100, h=0.1)
    task, X, y = examples(256, 29)
    X = with_tasks(task, X).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), 2)

    def play(keys, X, y):
        return run_many(learner, keys, X, y)

    program = jax.jit(play).lower(keys, X, y.astype(np.float32)).compile()
    covariances = 2 * 30 * 100**2 * 4  # bytes, of two runs
    memory = program.memory_analysis()
    assert covariances < memory.output_size_in_bytes < 1.2 * covariances
    assert memory.temp_size_in_bytes < 1.2 * covariances


@pytest.mark.slow
@pytest.mark.parametrize("growth", ["extend", "restart"])
def test_growth(growth, x64):
    learner = make(2, growth=growth, size=100)
    task, X, y = examples(60, 2)
    _, (outputs, states) = scanned(learner, begin(learner), with_tasks(task, X), y)
    number = np.asarray(states.dictionary.number)
    grew = np.flatnonzero(np.diff(number))
    assert 5 < len(grew) < 50
    for t in grew:
        value = float(outputs.prediction[t])
        assert (value == 0) == (growth == "restart" or not np.any(states.means[t]))
    t = 40
    means, stale = np.asarray(states.means[t]), np.asarray(states.stale[t])
    assert not np.any(means[:, number[t] :])
    assert stale.any() == (growth == "restart")


@pytest.mark.slow
def test_sparse_rows_are_the_dense_ones(x64):
    learner = make(2)
    task, X, y = examples(80, 2)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = with_tasks(task, X)
    sparse = SparseRows.from_csr(scipy.sparse.csr_array(dense))
    _, one = run(learner, begin(learner), dense, y)
    _, other = run(learner, begin(learner), sparse, y)
    np.testing.assert_allclose(one.prediction, other.prediction, atol=1e-12)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"num_tasks": 0}, "num_tasks must be an integer of at least 1; got 0"),
        ({"num_tasks": 2.0}, "num_tasks must be an integer"),
        ({"kernel": jaxmkl.Gaussian((1.0, 2.0))}, "kernel must be one kernel"),
        ({"noise": 0.0}, "noise must be a positive finite number"),
        ({"inertia": -1.0}, "inertia must be a positive finite number"),
        ({"h": -0.1}, "Uncertainty: h must be a number of at least 0"),
        ({"h": 0.1, "query": Margin()}, "query must be None where h is given"),
        ({"query": Uncertainty}, "query must be a query"),
        ({"loss": "logistic"}, "loss must be one of 'hinge', 'squared_hinge'"),
        ({"components": "all"}, "components must be one of 'both', 'local', 'global'"),
        ({"update_on": "always"}, "update_on must be one of"),
        ({"covariance": "never"}, "covariance must be one of"),
        ({"growth": "shrink"}, "growth must be one of"),
        ({"size": 0}, "size must be an integer of at least 1"),
    ],
)
def test_what_is_no_parameter_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        multitask(**arguments)


def test_an_input_is_wanted_beside_the_task():
    with pytest.raises(ValueError, match="num_inputs must be at least 2"):
        make(3).init(jax.random.key(0), 1)


@pytest.mark.parametrize(
    ("task", "X", "said"),
    [
        ([0.5, 1.0], np.zeros((2, 1)), "whole numbers from 0"),
        ([-1, 1], np.zeros((2, 1)), "whole numbers from 0"),
        (["a", "b"], np.zeros((2, 1)), "whole numbers from 0"),
        ([np.nan, 1], np.zeros((2, 1)), "whole numbers from 0"),
        ([0, 1, 2], np.zeros((2, 1)), r"shapes \(3,\) and \(2, 1\)"),
        ([0, 1], np.zeros(2), r"shapes \(2,\) and \(2,\)"),
    ],
)
def test_tasks_are_checked(task, X, said):
    with pytest.raises(ValueError, match=said):
        with_tasks(task, X)


def test_the_median_distance():
    X = np.random.default_rng(0).normal(size=(200, 4))
    apart = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))[np.triu_indices(200, 1)]
    np.testing.assert_allclose(jaxmkl.kernels.median_distance(X), np.median(apart), rtol=1e-5)
    some = jaxmkl.kernels.median_distance(np.repeat(X, 10, axis=0), most=100)
    assert abs(some - np.median(apart)) < 0.2
    for bad in (np.zeros((5, 2)), np.zeros(3), np.zeros((1, 2)), np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="median_distance: X must"):
            jaxmkl.kernels.median_distance(bad)
