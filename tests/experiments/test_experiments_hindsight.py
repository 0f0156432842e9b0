"""The best fixed function of each kernel, in hindsight, against other solvers."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

import jaxmkl
from experiments import hindsight
from experiments.hindsight import hindsight_losses
from jaxmkl import metrics

SMALL_PROGRAMS = True

quick = settings(max_examples=40, deadline=None)


def linear_learner(num_kernels, num_inputs):
    """A learner whose features are x itself, times 1, 2, ... for its kernels."""

    def features(kernels, frequencies, X):
        return jnp.stack([X * scale for scale in kernels], axis=1)

    bank = types.SimpleNamespace(kernels=range(1, num_kernels + 1), features=features)
    drawn = types.SimpleNamespace(frequencies=jnp.zeros((num_kernels, 1, num_inputs), float))
    return types.SimpleNamespace(models=(bank,)), types.SimpleNamespace(models=(drawn,))


@pytest.mark.endless
@quick
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    columns=st.integers(1, 6),
    rank=st.integers(1, 6),
    regularization=st.sampled_from([0.0, 1e-3, 0.5, 20.0]),
    block=st.sampled_from([1, 3, 16, 512]),
)
def test_hindsight_of_linear_features(seed, rows, columns, rank, regularization, block):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    y = rng.normal(size=rows)
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(hindsight, "ROWS_AT_ONCE", block)
        learner, state = linear_learner(2, columns)
        losses = hindsight_losses(learner, state, X, y, regularization)
    for loss, scale in zip(losses, (1, 2), strict=True):
        if regularization:
            model = Ridge(alpha=regularization, fit_intercept=False, solver="svd")
            fitted = model.fit(scale * X, y).predict(scale * X)
        else:
            fitted = X @ scipy.linalg.lstsq(X, y, cond=1e-12)[0]
        np.testing.assert_allclose(loss, np.sum((fitted - y) ** 2), rtol=1e-7, atol=1e-12)


@pytest.mark.slow
def test_hindsight_of_random_features():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=900)
    bandwidths = np.array([0.3, 1.0, 3.0])
    learner = jaxmkl.raker(jaxmkl.Gaussian(bandwidths), num_features=20)
    state = learner.init(jax.random.key(0), 3)
    losses = hindsight_losses(learner, state, X, y, 0.01)
    frequencies = np.asarray(state.models[0].frequencies, np.float64)
    assert losses.dtype == np.float64
    for loss, bandwidth, v in zip(losses, bandwidths, frequencies, strict=True):
        phase = X @ v.T / bandwidth
        z = np.hstack([np.sin(phase), np.cos(phase)])
        fitted = Ridge(alpha=0.01, fit_intercept=False).fit(z, y).predict(z)
        np.testing.assert_allclose(loss, np.sum((fitted - y) ** 2), rtol=1e-4)


def test_no_function_of_a_kernel_does_better():
    # features of wide kernels are nearly dependent: the case that normal equations get wrong
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 2))
    y = np.exp(-np.sum(X**2, axis=1))
    with jax.enable_x64(True):
        learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 30.0, 1e4]), num_features=30)
        state = learner.init(jax.random.key(0), 2)
        losses = hindsight_losses(learner, state, X, y)
        bank, frequencies = learner.models[0], state.models[0].frequencies
        z = np.asarray(bank.features(bank.kernels, frequencies, jnp.asarray(X)))
    singular = np.linalg.svd(z.swapaxes(0, 1), compute_uv=False)
    assert (singular[:, -1] < 1e-9 * singular[:, 0]).tolist() == [False, True, True]
    assert losses[0] < 0.9 * losses[1] < 0.9 * losses[2]
    for p, loss in enumerate(losses):
        basis = np.linalg.qr(z[:, p])[0]
        outside = y - basis @ (basis.T @ y)
        assert loss >= outside @ outside * (1 - 1e-9)
        near_best = y - z[:, p] @ scipy.linalg.lstsq(z[:, p], y, cond=1e-12)[0]
        assert loss <= near_best @ near_best * (1 + 1e-9)
        for alpha in (1e-6, 1e-3, 1.0):
            ridge = Ridge(alpha=alpha, fit_intercept=False, solver="svd").fit(z[:, p], y)
            assert loss <= np.sum((ridge.predict(z[:, p]) - y) ** 2) * (1 + 1e-9)


def test_hindsight_leaves_out_what_the_learner_refuses():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    learner, state = linear_learner(2, 2)
    expected = hindsight_losses(learner, state, X[3:], y[3:])
    X[0, 1], y[1], X[2, 0] = np.nan, np.nan, np.inf
    result = hindsight_losses(learner, state, X, y)
    np.testing.assert_allclose(result, expected, rtol=1e-9)


@pytest.mark.endless
def test_a_run_against_its_best_kernel():
    rng = np.random.default_rng(4)
    X = rng.random((600, 2)).astype(np.float32)
    y = np.sin(4 * X[:, 0]).astype(np.float32)
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.1, 0.5, 50.0]), num_features=20)
    state = learner.init(jax.random.key(0), 2)
    best = hindsight_losses(learner, state, X, y)
    _, outputs = jax.lax.scan(learner.step, state, (jnp.asarray(X), jnp.asarray(y)))
    total = float(metrics.running_mse(outputs.prediction, y)[-1]) * len(y)
    # nobody who must learn on the way does as well as the best function known beforehand
    gap = metrics.regret(outputs.loss, best)
    assert gap == pytest.approx(total - best.min(), rel=1e-4)
    assert 0 < gap < np.sum(y**2)


def test_absolute_losses_in_hindsight_are_those_of_a_linear_program(x64):
    """The sum of absolute residuals with a penalty, by another method: iterated descent."""
    draws = np.random.default_rng(7)
    X = draws.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + draws.standard_t(2, size=60)
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4)
    state = learner.init(jax.random.key(3), 2, np.float64)
    found = hindsight.absolute_losses(learner, state, X, y, 0.3, rounds=400)
    bank = learner.models[0]
    z = np.asarray(bank.features(bank.kernels, state.models[0].frequencies, X)).swapaxes(0, 1)
    for of_kernel, total in zip(z, found, strict=True):
        # θ = p - q with p, q >= 0 and slack s >= |r|: a smooth problem with bounds
        M = of_kernel.shape[1]

        def cost(v, M=M):
            return v[M:].sum() + 0.3 * v[:M] @ v[:M]

        def slope(v, M=M):
            return np.concatenate([0.6 * v[:M], np.ones(len(v) - M)])

        table = np.block([[-of_kernel, np.eye(60)], [of_kernel, np.eye(60)]])
        rest = np.concatenate([y, -y])
        bounds = {"type": "ineq", "fun": lambda v, A=table, b=rest: A @ v + b,
                  "jac": lambda v, A=table: A}  # fmt: skip
        start = np.concatenate([np.zeros(M), np.abs(y)])
        best = minimize(cost, start, jac=slope, constraints=[bounds], method="SLSQP",
                        options={"maxiter": 300, "ftol": 1e-9})  # fmt: skip
        residual = np.abs(of_kernel @ best.x[:M] - y).sum()
        assert total == pytest.approx(residual, rel=2e-3)
