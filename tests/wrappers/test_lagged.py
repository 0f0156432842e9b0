"""The last labels and errors as inputs: against a loop in NumPy, and what they are good for."""

import functools

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import query, wrappers
from jaxmkl.wrappers import lagged
from tests.common.trees import assert_equal, scan

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 40, 2
KERNELS = jaxmkl.Gaussian((0.5, 2.0))


@functools.cache
def data(task="regression"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS))
    y = X @ [0.7, -0.4] + 0.5 * rng.normal(size=NUM_EXAMPLES)
    return X, np.where(y > 0, 1.0, -1.0) if task == "classification" else y


def begin(learner, dtype=None):
    return learner.init(jax.random.key(0), NUM_INPUTS, dtype)


BY_CHANCE = query.Random(0.6)


def small(task="regression", asking=BY_CHANCE):
    loss = "squared" if task == "regression" else "hinge"
    return jaxmkl.raker(KERNELS, num_features=4, loss=loss, query=asking)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["classification", pytest.param("regression", marks=pytest.mark.endless)]
)
def test_oracle(task, x64):
    """The learner inside, fed by hand with what was seen before; of classes their signs."""
    X, y = data(task)
    inner, L, M = small(task), 3, 2
    learner = lagged(inner, L, M)
    start = begin(learner, np.float64)
    end, outputs = jaxmkl.run(learner, start, X, y, block_size=8)
    labels, errors, state = [0.0] * L, [0.0] * M, start.inner
    predict, update, skip = (jax.jit(f) for f in (inner.predict, inner.update, inner.skip))
    for t in range(NUM_EXAMPLES):
        x = np.concatenate([X[t], labels, errors])
        f = float(predict(state, x).value)
        np.testing.assert_allclose(outputs.prediction[t], f, rtol=1e-9, atol=1e-9)
        # chance goes by the inputs that were given
        asked = bool(outputs.queried[t])
        state = update(state, x, y[t]) if asked else skip(state, x)
        said = f if task == "regression" else (1.0 if f > 0 else -1.0)
        value = y[t] if asked else said
        labels, errors = [value, *labels][:L], [value - said, *errors][:M]
    np.testing.assert_allclose(end.labels, labels, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(end.errors, errors, rtol=1e-9, atol=1e-9)
    assert 5 < int(outputs.queried.sum()) < NUM_EXAMPLES - 5


@pytest.mark.endless
def test_nothing_appended_is_the_learner_itself():
    X, y = data()
    inner = small()
    learner = lagged(inner, 0, 0)
    expected = jaxmkl.run(inner, begin(inner), X, y, block_size=1)[1]
    outputs = jaxmkl.run(learner, begin(learner), X, y, block_size=1)[1]
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-5, atol=1e-6)
    assert_equal(outputs.queried, expected.queried)


@pytest.mark.slow
def test_bad_examples_leave_the_last_labels_alone():
    """Huge labels and inputs too, which would make the next inputs unusable."""
    X, y = (array.copy() for array in data())
    learner = lagged(small(asking=query.All()), 2, 2)
    step = jax.jit(learner.step)
    state = begin(learner)
    for t in range(4):
        state, _ = step(state, (X[t], y[t]))
    before = state.labels, state.errors
    for bad in (np.nan, np.inf, -1e30):
        refused, output = step(state, (np.array([bad, 0.0]), y[4]))
        assert np.isnan(output.prediction)
        assert_equal((refused.labels, refused.errors), before)
        assert int(refused.invalid) == 1
        # in the place of a bad label stands the prediction
        after, output = step(state, (X[4], bad))
        assert_equal(after.labels[0], output.prediction)
        assert (float(after.errors[0]), float(after.errors[1])) == (0.0, float(state.errors[0]))
        assert np.isfinite(jax.jit(learner.predict)(after, X[5]).value)


@pytest.mark.slow
def test_an_outlying_label_does_not_become_an_input():
    X, y = (array.copy() for array in data())
    learner, states = lagged(small(asking=query.All()), 2, 1), []
    for bad in (np.nan, 1e9):
        y[30] = bad
        states.append(scan(learner, begin(learner), X, y)[0])
    assert int(states[1].inner.outlying) == 1
    assert_equal(*[(state.labels, state.errors, state.inner.models) for state in states])


@pytest.mark.slow
def test_checks_see_the_inputs_given():
    learner = lagged(small(), 3, 1)
    state = begin(learner)
    assert learner.num_inputs(state) == NUM_INPUTS
    assert learner.learner.num_inputs(state.inner) == NUM_INPUTS + 4
    with pytest.raises(ValueError, match="X must have 2 columns"):
        jaxmkl.run(learner, state, np.ones((5, 6)), np.ones(5))
    with pytest.raises(ValueError, match=r"x must be of shape \(2,\)"):
        learner.predict(state, np.ones(6))
    with pytest.raises(ValueError, match="Lagged: num_inputs must be"):
        learner.init(jax.random.key(0), 0)
    tasks = lagged(jaxmkl.multitask(2), 2)
    bad = np.array([[0.0, 1.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="column 0 of X must be a task"):
        jaxmkl.run(tasks, begin(tasks), bad, np.array([1, -1]))


@pytest.mark.endless
def test_an_autoregression_is_found():
    """y_t = 0.3 y_{t-1} - 0.9 y_{t-2} + noise, of which the inputs tell nothing."""
    rng = np.random.default_rng(3)
    y = np.zeros(1500)
    for t in range(2, len(y)):
        y[t] = 0.3 * y[t - 1] - 0.9 * y[t - 2] + 0.1 * rng.normal()
    X = rng.normal(size=(len(y), 1))
    inner = jaxmkl.expert_mkl(KERNELS, num_features=10)
    learner = lagged(jaxmkl.scaled(inner, wrappers.RunningMoments()), 2)
    outputs = jaxmkl.run(learner, learner.init(jax.random.key(0), 1), X, y)[1]
    assert outputs.loss[-500:].mean() < 0.015 < 0.02 < y[-500:].var()


@pytest.mark.parametrize(("argument", "number"), [("labels", -1), ("errors", 1.5)])
def test_other_numbers_are_refused(argument, number):
    with pytest.raises(ValueError, match=f"Lagged: {argument} must be an integer of at least 0"):
        lagged(small(), **{argument: number})
    with pytest.raises(ValueError, match="Lagged: learner must be a learner"):
        lagged(jaxmkl.raker)
