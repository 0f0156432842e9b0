"""A metric learned around any learner: a plain loop, and the contract."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.reservoir import Reservoir
from jaxmkl.testing import check_learner
from jaxmkl.wrappers import RunningMoments, learned_metric, scaled
from tests.common.marks import long
from tests.common.trees import begin, scan

SMALL_PROGRAMS = True


def stream(T, D, dtype=np.float64):
    draws = np.random.default_rng(3)
    X = draws.normal(size=(T, D))
    return X.astype(dtype), np.sin(2 * X[:, 1]).astype(dtype)


def gaussian_steps(X, y, step, width, forgets=0.0):
    """Coefficients of kernel gradient steps on (f - y)², in a plain loop."""
    a = np.zeros(len(X))
    for t in range(len(X)):
        k = np.exp(-np.sum((X[:t] - X[t]) ** 2, axis=1) / (2 * width**2))
        a *= 1 - forgets
        a[t] = -step * 2 * (k @ a[:t] - y[t])
    return a


def gradient(x, X, a, width):
    difference = x - X
    k = np.exp(-np.sum(difference**2, axis=1) / (2 * width**2))
    return -((a * k) @ difference) / width**2


@pytest.mark.slow
@pytest.mark.parametrize("shape", long(["diagonal"], ["diagonal", "full"]))
def test_is_a_plain_loop_over_two_renewals(x64, shape):
    """The reservoir holds everything, so no draw matters but the order is that of the stream."""
    X, y = stream(40, 3)
    width, step = 1.5, 0.2
    inner = jaxmkl.kernel_ogd(
        jaxmkl.Gaussian(width), step_size=step, regularization=0.0, capacity=64
    )
    learner = learned_metric(inner, shape, reservoir=Reservoir(50), first=16)
    state = begin(learner, 3)
    state, outputs = jaxmkl.run(learner, state, X, y)

    L = np.eye(3)
    predicted, a = np.zeros(40), np.zeros(0)
    for t in range(40):
        Z = X[:t] @ L
        k = np.exp(-np.sum((Z - X[t] @ L) ** 2, axis=1) / (2 * width**2))
        predicted[t] = k @ a
        a = np.append(a, -step * 2 * (predicted[t] - y[t]))
        if t + 1 in (16, 32):
            for _ in range(2):
                Z = X[: t + 1] @ L
                G = np.stack([gradient(z, Z, a, width) for z in Z]) @ L.T
                M = G.T @ G
                if shape == "diagonal":
                    M = np.diag(np.diag(M))
                values, V = np.linalg.eigh(M)
                L = V * np.sqrt(values * 3 / values.sum())
                a = gaussian_steps(X[: t + 1] @ L, y[: t + 1], step, width)
    np.testing.assert_allclose(outputs.prediction, predicted, rtol=0, atol=1e-9)
    metric = state.metric if shape == "full" else jnp.diag(state.metric)
    np.testing.assert_allclose(metric @ metric.T, L @ L.T, atol=1e-9)
    expected = np.diag(L @ L.T) / 3
    np.testing.assert_allclose(learner.importances(state), expected, atol=1e-9)


@pytest.mark.endless
@pytest.mark.parametrize(
    "inner",
    [
        lambda: jaxmkl.spa(capacity=64),
        lambda: jaxmkl.kernel_ogd(jaxmkl.Gaussian([1.0])),
        lambda: jaxmkl.oks_sil(),
        lambda: jaxmkl.raker(jaxmkl.Gaussian([1.0, 2.0]), num_features=4, num_outputs=2),
    ],
    ids=["spa", "kernel_ogd", "oks_sil", "two outputs"],
)
def test_keeps_the_contract(inner):
    check_learner(learned_metric(inner(), reservoir=Reservoir(9, latest=2), first=16))


@pytest.mark.endless
def test_learns_which_input_matters():
    X, y = stream(600, 5, np.float32)
    inner = jaxmkl.kernel_ogd(jaxmkl.Gaussian(2.0))
    learner = learned_metric(inner)
    state, outputs = jaxmkl.run(learner, begin(learner, 5), X, y)
    fixed = jaxmkl.run(inner, begin(inner, 5), X, y)[1]
    assert learner.importances(state).argmax() == 1
    assert outputs.loss[300:].mean() < fixed.loss[300:].mean() / 5


@pytest.mark.endless
def test_without_gradients_the_metric_stays():
    """No label came, or all labels are 0: M is 0."""
    X, _ = stream(40, 2, np.float32)
    inner = jaxmkl.kernel_ogd(jaxmkl.Gaussian(1.0), capacity=64)
    learner = learned_metric(inner, "full", first=16)
    for y in np.zeros(40), np.full(40, np.nan):
        state = begin(learner)
        state, _ = scan(learner, state, X, y)
        np.testing.assert_array_equal(state.metric, np.eye(2))
        assert state.round == 40


@pytest.mark.slow
def test_refused_examples_stay_out_of_the_reservoir():
    X, y = stream(30, 2, np.float32)
    X[::3], y[1::3] = np.nan, np.inf
    learner = learned_metric(jaxmkl.kernel_ogd(capacity=64), first=16)
    state = begin(learner)
    state, _ = scan(learner, state, X, y)
    assert state.reservoir.num_examples == 10 == state.round - state.invalid
    np.testing.assert_array_equal(state.reservoir.X[:10], X[2::3])
    np.testing.assert_array_equal(state.reservoir.X[10:], 0)


def test_a_wrapper_inside_is_refused():
    with pytest.raises(ValueError, match="LearnedMetric: learner must be a learner that is no"):
        learned_metric(scaled(jaxmkl.raker(), RunningMoments()))
