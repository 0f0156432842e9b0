"""Sums of what the shards of a stream have learned apart."""

from typing import Any

import jax
import jax.numpy as jnp


def added(states: jax.Array, start: Any = 0) -> jax.Array:
    """The sum of shards (S, ...) that all began with ``start``, in their dtype."""
    start = jnp.broadcast_to(jnp.asarray(start, states.dtype), states.shape[1:])
    return start + jnp.sum(states - start[None], axis=0, dtype=states.dtype)
