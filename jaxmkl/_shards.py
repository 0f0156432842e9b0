"""The shards of a stream, and sums of what they have learned apart."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._blocks import take

shard = jax.jit(take)
"""The state of a shard, by one program: leaf by leaf each shape would take its own."""


def added(states: jax.Array, start: Any = 0) -> jax.Array:
    """The sum of shards (S, ...) that all began with ``start``, in their dtype."""
    start = jnp.broadcast_to(jnp.asarray(start, states.dtype), states.shape[1:])
    return start + jnp.sum(states - start[None], axis=0, dtype=states.dtype)
