"""Many tasks on one dictionary: each part by its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxmkl
from jaxmkl import multitask, raker
from jaxmkl.query import Margin, Uncertainty
from jaxmkl.streaming import SparseRows, run, run_many
from jaxmkl.tables import with_tasks
from jaxmkl.wrappers import RunningMoments, label_budget, scaled
from tests.common.task_streams import (
    NUM_INPUTS,
    SIZE,
    assert_same,
    begin,
    covariances,
    examples,
    make,
    rounds,
    scanned,
    scanned_rounds,
)

SMALL_PROGRAMS = True


# --- tasks ---------------------------------------------------------------------------------------


@pytest.mark.endless
def test_one_task_without_the_whole_is_the_single_task_learner(x64):
    """In NumPy: one Gaussian, kept as the inverse of its covariance."""
    learner = make(None, components="local", loss="squared_hinge")
    _, X, y = examples(250, 1)
    start = begin(learner)
    outputs, states = jax.tree.map(np.asarray, scanned_values(learner, start, X, y))
    mean, precision = np.zeros(SIZE), np.eye(SIZE)
    for t in range(250):
        phi = states[t]
        f = mean @ phi
        assert abs(f - outputs.prediction[t]) < 1e-8
        if y[t] * f < 1:
            precision += np.outer(phi, phi)
            s = np.linalg.solve(precision, phi)
            mean = mean + (1 - y[t] * f) / (1 + phi @ s) * y[t] * s
    assert outputs.queried.all()


def scanned_values(learner, start, X, y):
    """The outputs, and the coordinates (T, D) of all examples in their rounds."""
    _, (outputs, states) = scanned(learner, start, X, y)

    @jax.jit
    def phi(learner, state, x):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, x[None])).own
        return learner.dictionary.predict(state.dictionary, code.dictionary)[0][0]

    return outputs, jax.vmap(phi, in_axes=(None, 0, 0))(learner, states, X)


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


@pytest.mark.slow
@pytest.mark.parametrize("bad", [-1.0, 3.0, 0.5, np.nan])
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


@pytest.mark.endless
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


# --- mixtures ------------------------------------------------------------------------------------


@pytest.mark.endless
def test_a_mixture_learns_how_much_the_tasks_share():
    """Tasks with one rule are one model; of those that deny each other each is its own."""
    learner = make(2, components="mixed", loss="squared_hinge")
    task, X, y = examples(400, 1)
    task = np.arange(400) % 2
    rows, start = with_tasks(task, X).astype(np.float32), begin(learner, np.float32)
    weights = []
    for labels in (y, np.where(task == 0, y, -y)):
        state, _ = run(learner, start, rows, labels.astype(np.float32))
        weights.append(np.asarray(learner.info(state).weights))
        np.testing.assert_allclose(weights[-1].sum(), 1, rtol=1e-5)
    sharing, denying = weights
    assert sharing.argmin() == 1  # each alone
    assert denying.argmax() == 1


@pytest.mark.endless
def test_each_prediction_of_a_mixture_learns_as_if_alone(x64):
    """If covariances do not depend on the predictions, the means are those of single learners."""
    task, X, y = examples(200, 3)
    rows = with_tasks(task, X)
    states = {}
    for components in ("mixed", "both", "local", "global"):
        learner = make(3, components=components, loss="squared_hinge", covariance="queried")
        states[components] = run(learner, begin(learner), rows, y)[0]
    mixed = states["mixed"]
    np.testing.assert_allclose(mixed.means, states["both"].means, atol=1e-10)
    np.testing.assert_allclose(mixed.alone[1:], states["local"].means, atol=1e-10)
    np.testing.assert_allclose(mixed.alone[:1], states["global"].means, atol=1e-10)
    np.testing.assert_allclose(mixed.roots, states["both"].roots, atol=1e-10)


def test_the_defaults_are_a_mixture_and_the_papers_learner_is_one_argument_away():
    made = multitask(3)
    assert (made.components, made.loss, made.update_on) == ("mixed", "squared_hinge", "margin")
    assert multitask(3, h=0.1).update_on == "margin"
    paper = {"loss": "hinge", "components": "both"}
    assert multitask(3, **paper).update_on == "mistake"
    assert multitask(3, **paper, h=0.1).update_on == "unsure"
    assert repr(jaxmkl.learners.MultiTask(3)) == repr(made)


# --- precision, memory, growth -------------------------------------------------------------------


@pytest.mark.endless
def test_covariances_stay_positive_in_single_precision():
    """After many rounds that mostly shrink them."""
    learner = make(2, covariance="queried", noise=0.01, size=40)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, NUM_INPUTS)) * [1.0, 0.3, 0.1]  # directions of every size
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X = with_tasks(rng.integers(2, size=len(X)), X)
    state = begin(learner, np.float32)
    state, _ = run(learner, state, X.astype(np.float32), y.astype(np.float32))
    given = np.asarray(covariances(learner, state))
    np.testing.assert_array_equal(given, given.swapaxes(1, 2))
    roots = np.asarray(state.roots, np.float64)
    exact = np.linalg.eigvalsh(roots @ roots.swapaxes(1, 2))
    assert exact.min() > 0
    assert exact.max() / exact.min() > 1e4  # which is what rounding has to be held against
    assert np.linalg.eigvalsh(given).min() > 0


@pytest.mark.slow
def test_memory_is_that_of_the_covariances():
    for components, vectors in (("both", 0.5), ("mixed", 0.8)):
        learner = make(29, size=100, components=components)
        state = begin(learner, np.float32)
        assert state.roots.shape == (30, 100, 100)
        leaves = jax.tree.leaves(state.replace(key=state.round))
        # beside the covariances the dictionary's three factors, and vectors
        assert sum(leaf.nbytes for leaf in leaves) < (30 + 3 + vectors) * 100**2 * 4
    for components, number in (("local", 29), ("global", 1)):
        assert len(begin(make(29, components=components), np.float32).roots) == number


@pytest.mark.endless
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
        ({"rate": -1.0}, "rate must be"),
        ({"loss": "logistic"}, "loss must be one of 'hinge', 'squared_hinge'"),
        ({"components": "all"}, "components must be one of 'mixed', 'both', 'local', 'global'"),
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


def test_tasks_are_exact_beside_inputs_in_half_precision():
    task = np.arange(3000)
    X = np.ones((3000, 1), np.float16)
    rows = SparseRows(np.zeros((3000, 1), int), X, 1)
    for one in (X, jnp.asarray(X, jnp.bfloat16), rows):
        found = with_tasks(task, one)
        column = found.values if isinstance(found, SparseRows) else found
        assert column.dtype == np.float32
        np.testing.assert_array_equal(column[:, 0], task)


def test_tasks_are_put_beside_known_inputs():
    rows = SparseRows([[0], [0]], [[1.0], [2.0]], 1)
    with pytest.raises(ValueError, match=r"^with_tasks: task must be an array outside of jit"):
        jax.jit(lambda task: with_tasks(task, np.ones((2, 2))))(jnp.arange(2))
    for X in (jnp.ones((2, 2)), rows):
        with pytest.raises(ValueError, match=r"^with_tasks: X must be an array outside of jit"):
            jax.jit(lambda X: with_tasks([0, 1], X))(X)


def test_the_median_distance():
    X = np.random.default_rng(0).normal(size=(200, 4))
    apart = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))[np.triu_indices(200, 1)]
    np.testing.assert_allclose(jaxmkl.kernels.median_distance(X), np.median(apart), rtol=1e-5)
    some = jaxmkl.kernels.median_distance(np.repeat(X, 10, axis=0), most=100)
    assert abs(some - np.median(apart)) < 0.2
    for exponent in (-800, -80, -62, 62, 80, 800):  # their squares would vanish or overflow
        found = jaxmkl.kernels.median_distance(np.ldexp(X, exponent))
        np.testing.assert_allclose(np.ldexp(found, -exponent), np.median(apart), rtol=1e-5)
    tiny = np.ldexp(X, -130).astype(np.float32)  # subnormal numbers
    np.testing.assert_allclose(jaxmkl.kernels.median_distance(tiny) * 2.0**130, some, rtol=0.1)
    for bad in (np.zeros((5, 2)), np.zeros(3), np.zeros((1, 2)), np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="median_distance: X must"):
            jaxmkl.kernels.median_distance(bad)
    with pytest.raises(ValueError, match="median_distance: most must be an integer of at least 2"):
        jaxmkl.kernels.median_distance(X, 1)


def test_the_median_distance_of_points_far_from_the_origin():
    X = np.random.default_rng(0).normal(size=(50, 2))
    near = jaxmkl.kernels.median_distance(X)
    assert jaxmkl.kernels.median_distance(X + 1.7e9) == pytest.approx(near, rel=1e-5)


def test_the_median_distance_of_any_dtype_and_inside_a_trace():
    X = np.random.default_rng(0).normal(size=(40, 50)) + 300
    for dtype in (np.int64, np.float16, ">f4", jnp.bfloat16):
        rounded = X.astype(dtype)
        wanted = jaxmkl.kernels.median_distance(rounded.astype(float))
        np.testing.assert_allclose(jaxmkl.kernels.median_distance(rounded), wanted, rtol=1e-6)
    of_jax = jnp.asarray(X, jnp.bfloat16)
    np.testing.assert_allclose(jaxmkl.kernels.median_distance(of_jax), wanted, rtol=1e-6)
    found = jax.jit(jax.vmap(lambda a: a * jaxmkl.kernels.median_distance(X)))(jnp.ones(2))
    np.testing.assert_allclose(found, jaxmkl.kernels.median_distance(X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"^median_distance: X must be an array outside of jit"):
        jax.jit(jaxmkl.kernels.median_distance)(X)
