"""Drivers ask once where X and y lie, and their warnings name the line of whoever called them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxmkl
import jaxmkl.sklearn
from jaxmkl.streaming import _engine, _warnings, examples, many
from tests.common.trees import begin, stacked

SMALL_PROGRAMS = True
T = 50
LEARNER = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4)
CLASSIFIER = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4, loss="hinge")
X = np.random.default_rng(0).normal(size=(T, 2)).astype(np.float32)
Y = X[:, 0]


def run(learner, X, y):
    return jaxmkl.run(learner, begin(learner), X, y)


def stream(learner, X, y):
    return list(jaxmkl.stream(learner, begin(learner), [(X, y)], gaps=True))


def run_many(learner, X, y):
    return jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 2), X, y)


def run_fleet(learner, X, y):
    states, X, y = stacked(begin(learner)), *(jnp.asarray(array)[None] for array in (X, y))
    return jaxmkl.run_fleet(learner, states, X, y)


@pytest.fixture
def asked(monkeypatch):
    """The shapes of arrays of which a driver asks whether they lie on an accelerator."""
    found = []

    def on_accelerator(array, of=examples.on_accelerator):
        found.append(np.shape(array))
        return of(array)

    for module in (examples, _engine, _warnings, many):
        if hasattr(module, "on_accelerator"):
            monkeypatch.setattr(module, "on_accelerator", on_accelerator)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "shapes"),
    [
        (run, [(T, 2), (T, 1)]),
        (stream, [(T, 2), (T, 1)]),
        pytest.param(run_many, [(T, 2), (T, 1)], marks=pytest.mark.endless),
        pytest.param(run_fleet, [(1, T, 2), (1, T)], marks=pytest.mark.endless),
    ],
)
def test_where_data_lie_is_asked_once(driver, shapes, asked):
    for inputs in (X, jnp.asarray(X)):
        for learner, labels in ((LEARNER, Y), (CLASSIFIER, Y > 0)):
            labels = labels if driver is run_fleet else labels[:, None]
            asked.clear()
            driver(learner, inputs, labels)
            assert [asked.count(shape) for shape in shapes] == [1, 1]
    if driver not in (run_fleet, run_many):
        asked.clear()
        rows = jaxmkl.streaming.SparseRows.from_csr(scipy.sparse.csr_array(X))
        driver(LEARNER, jax.device_put(rows), Y[:, None])
        assert [asked.count(shape) for shape in shapes] == [1, 1]


def test_many_runs_need_a_column():
    """A state that is made before is refused if it has none."""
    with pytest.raises(ValueError, match=r"X must have at least one column; got shape \(\d+, 0\)"):
        run_many(LEARNER, X[:, :0], Y)


def test_where_examples_lie_is_known():
    """In a trace, on the host as NumPy sees it, and sparse; of labels of classes, read."""
    state = begin(CLASSIFIER)
    known = examples.Examples.of(CLASSIFIER, state, X, np.where(Y > 0, "a", "b"))
    assert not known.traced
    assert known.X.seen is X
    np.testing.assert_array_equal(known.y.seen, np.where(Y > 0, -1.0, 1.0))
    rows = scipy.sparse.csr_array(np.where(X > 0, X, 0))
    sparse = examples.Examples.of(LEARNER, begin(LEARNER), rows, jnp.asarray(Y))
    assert sparse.X.is_sparse
    assert sparse.X.seen.shape == (T, 2)
    assert isinstance(sparse.y.array, jax.Array)
    np.testing.assert_array_equal(sparse.y.seen, Y)
    found = []

    @jax.jit
    def inside(X):
        found.append(examples.Examples.of(LEARNER, begin(LEARNER), X, Y))
        return X

    inside(X)
    assert found[0].traced
    assert found[0].X.traced
    assert not found[0].y.traced
    assert found[0].y.seen is Y


@pytest.mark.slow
def test_counted_rounds_are_told_in_the_line_of_whoever_called():
    """Also through an estimator, and by a stream that is pushed or iterated."""
    labels = np.where(np.arange(T) == 40, 1e9, Y)

    def fit():
        wild = {"num_features": 4, "step_size": 1e3, "regularization": 0.0}
        jaxmkl.sklearn.MKLRegressor("raker", **wild).fit(X, Y)

    def push():
        jaxmkl.streaming.Stream(LEARNER).push(begin(LEARNER), X, labels)

    for call, text in (
        (fit, "the learner diverges"),
        (push, "as large as all before"),
        (lambda: run(LEARNER, X, labels), "as large as all before"),
        (lambda: stream(LEARNER, X, labels), "as large as all before"),
    ):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        told = [one.filename for one in found if text in str(one.message)]
        assert told == [__file__]
