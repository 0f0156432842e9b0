"""Drivers say where predictions of numbers err more than the mean of the labels would."""

import warnings
from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxmkl
import jaxmkl.sklearn
from tests.common.messages import messages

SMALL_PROGRAMS = True
T = 1500
DRAWS = np.random.default_rng(5)
X = DRAWS.normal(size=(T, 2))
FAR = DRAWS.standard_cauchy((T, 2))
NOISE = DRAWS.normal(size=T)
CAUCHY = X[:, 0] + DRAWS.standard_cauchy(T)
LEARNER = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4)


def begin():
    return LEARNER.init(jax.random.key(0), 2)


def run(X, y):
    return jaxmkl.run(LEARNER, begin(), X, y)[1].loss


def stream(X, y):
    chunks = [(X[:7], y[:7]), (X[7:1200], y[7:1200]), (X[1200:], y[1200:])]
    outcome = jaxmkl.stream(LEARNER, begin(), chunks)
    return np.concatenate([outputs.loss for _, outputs in outcome])


def run_many(X, y):
    keys = jax.random.split(jax.random.key(0), 2)
    return jaxmkl.run_many(LEARNER, keys, X, y, permute=True)[1].loss


def fit(X, y):
    jaxmkl.sklearn.MKLRegressor("raker", num_features=4).fit(X, y)


warned = partial(messages, __file__)


DRIVERS = [run, pytest.param(stream, marks=pytest.mark.slow)]
DRIVERS += [pytest.param(run_many, marks=pytest.mark.slow)]
DRIVERS += [pytest.param(fit, marks=pytest.mark.endless)]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_whoever_is_worse_than_the_mean_is_told_why(driver):
    name = "run" if driver is fit else driver.__name__
    for inputs, y, why in (
        (X, CAUCHY, "the target has heavy tails"),
        (FAR, NOISE, "heavy tails:"),
    ):
        (text,) = warned(driver, inputs, y)
        assert text.startswith(f"{name}: predictions err 1.")
        assert f"; {why}" in text
        assert ("'column 0', 'column 1'" in text) == (inputs is FAR)
    (text,) = warned(driver, X, NOISE)
    assert "heavy tails" not in text
    assert "take smaller ones" in text
    assert warned(driver, X, X[:, 0] + 0.1 * NOISE) == []


def test_the_ratio_is_that_of_the_variance():
    (text,) = warned(run, X, CAUCHY)
    ratio = float(np.mean(np.asarray(run_quietly(X, CAUCHY)[100:], float))) / np.var(CAUCHY[100:])
    assert f"err {ratio:.2f} times as much as the mean of the labels would" in text
    assert "over the last 1400 rows" in text


@pytest.mark.slow
def test_a_target_far_from_0_is_no_reason():
    """The first prediction, before any label, errs by all of it."""
    learner = jaxmkl.wrappers.scaled_targets(LEARNER)
    state, y = learner.init(jax.random.key(0), 2), X[:, 0] + 0.1 * NOISE + 2000.0
    assert warned(lambda: jaxmkl.run(learner, state, X, y)) == []
    chunks = [(X[:7], y[:7]), (X[7:], y[7:])]
    assert warned(lambda: list(jaxmkl.stream(learner, state, chunks))) == []


def run_quietly(X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(X, y)


@pytest.mark.slow
def test_few_rows_other_losses_and_late_labels_are_not_judged():
    assert warned(run, X[:999], CAUCHY[:999]) == []
    assert len(warned(run, X[:1000], CAUCHY[:1000])) == 1
    state = begin()

    def outcome(learner, y, **options):
        return warned(lambda: jaxmkl.run(learner, state, X, y, **options))

    assert outcome(LEARNER, CAUCHY, delay=3) == []
    assert outcome(LEARNER, CAUCHY, record=lambda output: output.prediction) == []
    robust = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4, loss="huber")
    robust_state = robust.init(jax.random.key(0), 2)
    assert warned(lambda: jaxmkl.run(robust, robust_state, X, CAUCHY)) == []


@pytest.mark.slow
def test_gaps_several_targets_and_sparse_rows():
    gone = np.where(np.arange(T) % 3 == 0, np.nan, CAUCHY)

    def with_gaps(y):
        return list(jaxmkl.stream(LEARNER, begin(), [(X, y)], gaps=True))

    (text,) = warned(with_gaps, gone)
    assert "over the last 900 rows" in text
    assert warned(with_gaps, np.where(np.arange(T) < 600, np.nan, CAUCHY)) == []
    several = jaxmkl.raker(jaxmkl.Gaussian(0.5), num_features=4, num_outputs=2)
    state = several.init(jax.random.key(0), 2)
    y = np.stack([X[:, 0], CAUCHY], axis=1)
    (text,) = warned(lambda: jaxmkl.run(several, state, X, y))
    assert "the target has heavy tails" in text
    assert len(warned(run, scipy.sparse.csr_array(X), CAUCHY)) == 1
    scaled = jaxmkl.scaled(LEARNER, jaxmkl.wrappers.RunningMoments())
    within = scaled.init(jax.random.key(0), 2)
    assert len(warned(lambda: jaxmkl.run(scaled, within, X, CAUCHY))) == 1


@pytest.mark.slow
def test_a_long_stream_is_told_once_it_is_so():
    """Good at first, and then labels that nothing tells."""
    y = np.where(np.arange(6 * T) < T, np.tile(X[:, 0], 6), 100 * np.tile(NOISE, 6))
    chunks = [(X, part) for part in y.reshape(6, T)]
    told = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in jaxmkl.stream(LEARNER, begin(), chunks):
            told.append(len(found))
    assert told[0] == 0
    assert told[-1] == 1
