"""Masked arrays of NumPy: what lies beneath a mask is never learned."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxmkl
from jaxmkl.sklearn import MKLClassifier, MKLRegressor, PoolSelector
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
LEARNER = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=5)
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = X[:, 0]
HOLES = np.ma.array(X, mask=np.arange(80).reshape(40, 2) == 17)
GAPS = np.ma.array(Y, mask=np.arange(40) % 8 == 0)
STATE = LEARNER.init(jax.random.key(0), 2)
KEYS = jax.random.split(jax.random.key(0), 2)

PATHS = {
    "run": lambda X, y: jaxmkl.run(LEARNER, STATE, X, y),
    "run_many": lambda X, y: jaxmkl.run_many(LEARNER, KEYS, X, y),
    "run_fleet": lambda X, y: jaxmkl.run_fleet(
        LEARNER, jax.tree.map(lambda leaf: leaf[None], STATE), X[None], y[None]
    ),
    "stream": lambda X, y: list(jaxmkl.stream(LEARNER, STATE, [(X, y)])),
    "step": lambda X, y: LEARNER.step(STATE, (X[8], y[8:9])),
    "update": lambda X, y: LEARNER.update(STATE, X[8], y[8:9]),
    "regressor": lambda X, y: MKLRegressor("raker").fit(X, y),
    "classifier": lambda X, y: MKLClassifier("raker").partial_fit(X, y > 0, classes=[0, 1]),
}


@pytest.mark.parametrize("name", PATHS)
def test_what_is_masked_is_refused(name):
    for inputs, labels, wrong in ((HOLES, Y, "X|x"), (X, GAPS, "y")):
        with pytest.raises(
            ValueError, match=f"({wrong}) must not be masked: drop what is missing"
        ):
            PATHS[name](inputs, labels)


@pytest.mark.slow
def test_inputs_alone_are_refused():
    found = MKLRegressor("raker").fit(X, Y)
    for path in (
        lambda X: LEARNER.predict_many(STATE, X),
        found.predict,
        PoolSelector(2).fit,
        lambda X: jaxmkl.design.from_points(X, 2),
        lambda X: jaxmkl.design.ted(features=X),
    ):
        with pytest.raises(ValueError, match=r"(X|features) must not be masked"):
            path(HOLES)


def test_a_mask_of_nothing_is_none():
    state, _ = jaxmkl.run(LEARNER, STATE, np.ma.array(X), np.ma.array(Y))
    assert_equal(state, jaxmkl.run(LEARNER, STATE, X, Y)[0])


def test_labels_that_may_be_missing_may_be_masked():
    states = [
        next(jaxmkl.stream(LEARNER, STATE, [(X, y)], gaps=True))[0]
        for y in (GAPS, GAPS.filled(np.nan), np.where(GAPS.mask, None, Y), pd.Series(GAPS))
    ]
    for state in states[1:]:
        assert_equal(state, states[0])
    assert int(states[0].invalid) == 5
    with pytest.raises(ValueError, match="chunk 0: y must hold real numbers; got dtype object"):
        next(jaxmkl.stream(LEARNER, STATE, [(X, np.where(GAPS.mask, None, "1"))], gaps=True))


@pytest.mark.slow
def test_labels_in_words_may_be_missing():
    """As pandas has them, masked, and of no label that is known in a chunk."""
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=5, loss="hinge")
    state = learner.init(jax.random.key(0), 2)
    words, missing = np.where(Y > 0, "spam", "ham"), GAPS.mask

    def outcome(*labels):
        chunks = [(X, y) for y in labels]
        return [state for state, _ in jaxmkl.stream(learner, state, chunks, gaps=True)][-1]

    numbers = np.where(missing, np.nan, np.sign(Y))
    expected = outcome(numbers, np.full(40, np.nan))
    for gap in (None, np.nan, pd.NA):
        given = words.astype(object)
        given[missing] = gap
        assert_equal(outcome(given, np.full(40, gap, object)), expected)
    nothing = np.ma.masked_all(40, words.dtype)
    assert_equal(outcome(np.ma.array(words, mask=missing), nothing), expected)
    assert_equal(outcome(np.where(missing, None, Y > 0), np.full(40, None)), expected)
    flags = pd.Series(np.where(missing, None, Y > 0), dtype="boolean")
    assert_equal(outcome(flags, flags.mask(flags.notna())), expected)
    with pytest.raises(
        ValueError, match="chunk 2: labels: y must be of the classes 'ham', 'spam'; got 'eggs'"
    ):
        outcome(given, given, np.full(40, "eggs"))
    with pytest.raises(ValueError, match=r"two strings; got the values .*None"):
        jaxmkl.run(learner, state, X, np.where(missing, None, words))


def test_metrics_leave_out_what_is_masked():
    metrics, f = jaxmkl.metrics, Y + 1.0
    for library in (np, jax.numpy):
        found = metrics.running_mse(library.asarray(f), GAPS)
        np.testing.assert_allclose(found, metrics.running_mse(f, GAPS.filled(np.nan)), rtol=1e-6)
    signs = np.ma.array(np.sign(Y), mask=GAPS.mask, dtype=int)
    wrong = np.where(GAPS.mask, -Y, Y)  # where labels are known, all is right
    assert metrics.running_mistake_rate(wrong, signs)[-1] == 0.0
    words = np.ma.array(np.where(Y > 0, "spam", "ham"), mask=GAPS.mask)
    assert metrics.running_mistake_rate(wrong, words)[-1] == 0.0
