"""Small things that are done with blocks of examples, and with their number, in one place."""

from typing import Any

import jax
import jax.numpy as jnp


def rounds_of(round: jax.Array, size: int) -> jax.Array:
    """Rounds (B,) of the rows of the block that a round is in, for blocks of ``size`` B."""
    return round // size * size + jnp.arange(size, dtype=jnp.int32)


def count_on(count: jax.Array, more: Any = 1) -> jax.Array:
    """A count, int32, with some more; after 2^31 - 1 comes 2^30, so that it stays large.

    What goes by powers of two, as blocks and periods do, goes on.

    >>> count_on(jnp.asarray(2**31 - 2), 3)
    Array(1073741825, dtype=int32)
    """
    total = count + jnp.asarray(more).astype(jnp.int32)
    return jnp.where(total < 0, total - 2**30, total)  # integers wrap, twice


def take(tree: Any, place: Any) -> Any:
    """What stands at a place of the leading axis, in all leaves of a tree."""
    return jax.tree.map(lambda leaf: leaf[place], tree)


def dots(a: jax.Array, b: jax.Array) -> jax.Array:
    """Σ a b along the last axis of b: a product with ones.

    XLA's loops for a sum of products do not use the vector unit of a CPU, its products of
    matrices do.
    """
    ones = jnp.ones(b.shape[-1:], b.dtype)
    return jnp.dot(a * b, ones, precision=jax.lax.Precision.HIGHEST)


def uniform(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Uniform numbers in [0, 1), the same in every dtype, to rounding."""
    return jax.random.uniform(key, shape, jnp.float32).astype(dtype)
