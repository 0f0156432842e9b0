"""The best fixed function of each kernel, against which regret is measured."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmkl import MKL

ROWS_AT_ONCE = 512


def hindsight_losses(
    learner: MKL, state: Any, X: np.ndarray, y: np.ndarray, regularization: float = 0.0
) -> np.ndarray:
    """Return the total squared loss (P,) of the best fixed function of each kernel, in hindsight.

        loss_p = Σ_t (θ_p·z_p(x_t) - y_t)²,   θ_p = argmin_θ Σ_t (θ·z_p(x_t) - y_t)² + λ |θ|²

    on the random features z_p of the learner, such as :func:`jaxmkl.raker`, in this state; of
    several best θ (λ = 0) the shortest is taken. X (T, D) and y (T,) may have rows that are not
    finite, which are left out. The losses are without the penalty λ, ``regularization``.

    The solution uses the triangular factor of the features in float64, block by block, instead of
    normal equations, which would square the condition number: memory does not grow with T, and
    features may be dependent.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.1, 1.0]))
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> losses = hindsight_losses(learner, learner.init(jax.random.key(0), 1), X, X[:, 0] ** 2)
    >>> bool((losses < 1e-3).all())
    True
    """
    bank, frequencies = learner.models[0], state.models[0].frequencies
    factor: list[Any] = []  # R of [z_p, y] = Q R, (P, 2 F + 1, 2 F + 1), once there are rows
    for start in range(0, len(X), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        block = jnp.asarray(X[rows], frequencies.dtype)
        z = np.asarray(bank.features(bank.kernels, frequencies, block), np.float64)
        features = z.swapaxes(0, 1)
        target = np.broadcast_to(y[rows].astype(np.float64)[:, None], (*features.shape[:2], 1))
        table = np.concatenate([features, target], axis=2)
        valid = np.isfinite(table).all(axis=(0, 2))
        if valid.any():
            table = np.concatenate([*factor, table[:, valid]], axis=1)
            factor = [np.linalg.qr(table, mode="r")]
    # In the basis of the singular vectors, θ keeps s²/(s² + λ) of the target along each.
    triangle, target = factor[0][..., :-1], factor[0][..., -1]
    left, singular, _ = np.linalg.svd(triangle, full_matrices=False)
    along = np.einsum("pmk,pm->pk", left, target)
    cut = np.finfo(np.float64).eps * max(triangle.shape[1:]) * singular.max(axis=1, keepdims=True)
    squares = np.where(singular > cut, np.square(singular), 0.0)
    whole = squares + regularization
    kept = np.divide(squares, whole, out=np.zeros_like(squares), where=squares > 0)
    outside = target - np.einsum("pmk,pk->pm", left, kept * along)
    return np.square(outside).sum(axis=1)


def absolute_losses(
    learner: MKL,
    state: Any,
    X: np.ndarray,
    y: np.ndarray,
    regularization: float,
    rounds: int = 20,
    near: float = np.inf,
) -> np.ndarray:
    """Return the total absolute loss (P,) of a fixed function of each kernel, near the best.

        loss_p = Σ_t |θ_p·z_p(x_t) - y_t|,   θ_p = argmin_θ Σ_t |θ·z_p(x_t) - y_t| + λ |θ|²

    by ``rounds`` of least squares with weights 1 / |θ·z_p(x_t) - y_t| of the round before, at most
    a thousand times 1 over the mean of |y|. Except for that limit no round raises the penalised
    sum. A kernel whose loss is more than ``near`` times the least after three rounds is not
    improved further, as it will not be the best. Otherwise as :func:`hindsight_losses`, but that
    all rows are finite, λ > 0, and the features of all T examples are held in memory.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.1, 1.0]))
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> y = X[:, 0] ** 2 + 9.0 * (np.arange(200) % 10 == 0)  # one in ten is far off
    >>> losses = absolute_losses(learner, learner.init(jax.random.key(0), 1), X, y, 1e-3)
    >>> bool((losses < 9.0 * 20 * 1.05).all())
    True
    """
    bank, frequencies = learner.models[0], state.models[0].frequencies
    inputs = jnp.asarray(X, frequencies.dtype)
    z = np.asarray(bank.features(bank.kernels, frequencies, inputs), np.float64).swapaxes(0, 1)
    target = np.asarray(y, np.float64)
    least, penalty = 1e-3 * np.abs(target).mean(), 2 * regularization * np.eye(z.shape[2])
    residuals = np.ones((len(z), len(target)))

    def improve(p: int, number: int) -> None:
        for _ in range(number):
            weighted = z[p] / np.maximum(np.abs(residuals[p]), least)[:, None]
            theta = np.linalg.solve(weighted.T @ z[p] + penalty, weighted.T @ target)
            residuals[p] = z[p] @ theta - target

    for p in range(len(z)):
        improve(p, min(3, rounds))
    losses = np.abs(residuals).sum(axis=1)
    for p in np.flatnonzero(losses <= near * losses.min()).tolist():
        improve(p, rounds - 3)
    return np.abs(residuals).sum(axis=1)
