"""Warnings of inputs that tell nothing, and of inputs and targets whose squares vanish."""

from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxmkl
import jaxmkl.sklearn
from tests.common.messages import messages

SMALL_PROGRAMS = True
LEARNER = jaxmkl.scaled(
    jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4), jaxmkl.wrappers.RunningMoments()
)
T = 120
DRAWN = np.random.default_rng(2).normal(size=(T, 2))
Y = DRAWN[:, 0]


def begin():
    return LEARNER.init(jax.random.key(0), 2)


def run(X, y=Y):
    return jaxmkl.run(LEARNER, begin(), X, y)


def run_many(X, y=Y):
    return jaxmkl.run_many(LEARNER, jax.random.split(jax.random.key(0), 1), X, y)


def run_fleet(X, y=Y):
    states = jax.tree.map(lambda leaf: leaf[None], begin())
    return jaxmkl.run_fleet(LEARNER, states, X[None], y[None])


def stream(X, y=Y):
    chunks = [(X[:7], y[:7]), (X[:0], y[:0]), (X[7:], y[7:])]
    return list(jaxmkl.stream(LEARNER, begin(), chunks))


warned = partial(messages, __file__)
SMALL = DRAWN * [1.0, 1e-19]
DRIVERS = [run, stream, pytest.param(run_many, marks=pytest.mark.slow)]
DRIVERS += [pytest.param(run_fleet, marks=pytest.mark.endless)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_columns_whose_squares_vanish_are_named(driver):
    (text,) = warned(driver, SMALL)
    name = driver.__name__
    assert text.startswith(f"{name}: inputs in column(s) 1 differ by at most 5.")
    assert "whose square vanishes in float32" in text
    factor = eval(text.rsplit(" as ", 1)[1])
    assert 1 <= np.ptp(SMALL[:, 1] * factor) < 2
    assert warned(driver, SMALL * [1.0, factor]) == []
    assert "column(s) 0, 1 differ" in warned(driver, DRAWN * 1e-40)[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_targets_whose_squares_vanish_are_named(driver):
    for y in (1e-20 * Y, 1e-38 * Y):
        (text,) = warned(driver, DRAWN, y)
        assert text.startswith(f"{driver.__name__}: targets differ by at most ")
        assert "whose square vanishes in float32" in text
        factor = eval(text.rsplit(" as ", 1)[1])
        assert 1 <= np.ptp(y * factor) < 2
        assert warned(driver, DRAWN, y * factor) == []
    assert len(warned(driver, SMALL, 1e-20 * Y)) == 2
    # equal ones may be so by chance
    assert warned(driver, DRAWN, np.zeros(T)) == warned(driver, DRAWN, 1e-12 * Y) == []


@pytest.mark.slow
def test_targets_by_their_columns_and_with_gaps():
    learner = jaxmkl.raker(jaxmkl.Gaussian(0.5), num_features=4, num_outputs=3)
    state = learner.init(jax.random.key(0), 2)
    y = np.stack([Y, 1e-22 * Y, 0 * Y], axis=1)
    (text,) = warned(lambda y: jaxmkl.run(learner, state, DRAWN, y), y)
    assert text.startswith("run: targets in column(s) 1 differ by at most ")
    small = np.where(np.arange(T) % 3 == 0, np.nan, 1e-25 * Y)

    def stream(y):
        return list(jaxmkl.stream(LEARNER, begin(), [(DRAWN, y)], gaps=True))

    assert "targets differ by at most" in warned(stream, small)[0]
    assert warned(stream, 1e25 * small) == warned(stream, np.full(T, np.nan)) == []


@pytest.mark.endless
def test_an_estimator_warns_of_targets_in_the_line_that_fits_it():
    estimator = jaxmkl.sklearn.MKLRegressor("raker", num_features=4)
    (text,) = warned(lambda: estimator.fit(DRAWN, 1e-30 * Y))
    assert "targets differ by at most" in text


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_is_rounded_away_is_told(driver):
    for far, columns in (([0.0, 1e8], "1"), ([1e12, 1e9], "0, 1")):
        (text,) = warned(driver, DRAWN + far)
        assert text.startswith(f"{driver.__name__}: inputs in column(s) {columns} differ by at m")
        assert "which float32 rounds to steps of about" in text
        assert "subtract the first value" in text
    (text,) = warned(driver, DRAWN, Y + 1e7)
    assert text.startswith(f"{driver.__name__}: targets differ by at most 4.66, ")
    whole = 2.0**24 + 20 + 2 * np.round(DRAWN)  # in single precision, too
    for X in (DRAWN + 1e5, np.float32(8 * DRAWN + 1e8), whole):
        assert warned(driver, X) == []


@pytest.mark.slow
def test_columns_are_numbered_as_they_are_given():
    learner = jaxmkl.multitask(num_tasks=2, kernel=jaxmkl.Gaussian(1.0), size=5)
    state = learner.init(jax.random.key(0), 3)
    X = np.column_stack([np.arange(T) % 2, DRAWN * [1.0, 1e-20]])
    (text,) = warned(lambda: jaxmkl.run(learner, state, X, Y > 0))
    assert "column(s) 2 differ" in text


@pytest.mark.parametrize("driver", DRIVERS)
def test_constant_inputs_are_told(driver):
    for X in (np.ones((T, 2)), np.zeros((T, 2), int)):
        (text,) = warned(driver, X)
        assert text.startswith(f"{driver.__name__}: all 120 rows have the same inputs")


def test_others_are_not():
    """One column tells enough; few rows may be equal by chance."""
    for X in (DRAWN, 1e-12 * DRAWN, DRAWN * [1, 0], DRAWN > 0, 1e15 * DRAWN):
        assert warned(run, X) == []
        assert warned(stream, X) == []
    assert warned(lambda X: jaxmkl.run(LEARNER, begin(), X[:20], Y[:20]), np.ones((T, 2))) == []


@pytest.mark.slow
def test_sparse_inputs_and_double_precision(x64):
    rows = scipy.sparse.csr_array(np.where(DRAWN > 0, DRAWN, 0.0))
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4)
    state, factor = learner.init(jax.random.key(0), 2, np.float64), 1e-160

    def run(X):
        return jaxmkl.run(learner, state, X, Y)

    for X in rows, DRAWN:
        assert "vanishes in float64" in warned(run, X * factor)[0]
        assert warned(run, X * factor**0.5) == []


def test_lists_of_tracers_are_told_how_to_be_stacked():
    X, y = DRAWN[:3].astype("f"), Y[:3].astype("f")

    def outcome(X, y):
        return jaxmkl.run(LEARNER, begin(), X, y)[1].loss

    with pytest.raises(ValueError, match=r"X must be an array .* pass jax.numpy.stack\(X\)"):
        jax.jit(lambda X: outcome(list(X), y))(X)
    with pytest.raises(ValueError, match=r"y must be an array .* tuple of tracers: pass"):
        jax.jit(lambda X: outcome(X, tuple(X[:, 0])))(X)
    keys = jax.random.split(jax.random.key(0), 1)
    with pytest.raises(ValueError, match=r"X must be an array .* list of tracers"):
        jax.jit(lambda X: jaxmkl.run_many(LEARNER, keys, [list(x) for x in X], y)[1])(X)
    with pytest.raises(ValueError, match=r"prediction must be an array .* list of tracers"):
        jax.jit(lambda X: jaxmkl.metrics.running_mse(list(X[:, 0]), y))(X)
