"""Hedge: exponential weights over experts, kept as centred log-weights.

    w_{t+1}(e) = w_t(e) exp(-rate · l_t(e)),     p_t = w_t / Σ w_t

Weights are read through softmax, so that no number of rounds makes them underflow together. After
each update the largest log-weight is 0; a log-weight never falls below a finite floor, so that an
expert with an infinite or undefined loss has weight zero and stays harmless.

References:
  Freund and Schapire (1997); Hong and Chae, equations (21), (22), (32), (38), (39), (44).
"""

import jax
import jax.numpy as jnp

__all__ = ["init", "restricted", "update", "weights"]

_FLOOR = -1e30


def init(num_experts: int, dtype: jnp.dtype) -> jax.Array:
    """Equal weights: log-weights (E,) of zero."""
    return jnp.zeros((num_experts,), dtype)


def weights(log_weights: jax.Array) -> jax.Array:
    """Weights p (E,), positive, of sum 1.

    >>> import jax.numpy as jnp
    >>> weights(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return jax.nn.softmax(log_weights)


def restricted(log_weights: jax.Array, subset: jax.Array) -> jax.Array:
    """Weights q (E,) renormalised inside the boolean mask ``subset`` (E,), zero outside."""
    return jax.nn.softmax(log_weights, where=subset)


def update(log_weights: jax.Array, losses: jax.Array, rate: jax.Array) -> jax.Array:
    """Log-weights (E,) after the experts' ``losses`` (E,) at a learning rate (a number)."""
    updated = log_weights - rate * losses
    updated = jnp.where(updated > _FLOOR, updated, _FLOOR)
    return updated - jax.lax.stop_gradient(jnp.max(updated))
