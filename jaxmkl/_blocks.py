"""Small functions for blocks of examples, counters and random numbers."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jaxmkl._types import PyTree


def rounds_of(round: jax.Array, size: int) -> jax.Array:
    """The rounds (B,) of the block that contains a round, for blocks of ``size`` B."""
    return round // size * size + jnp.arange(size, dtype=jnp.int32)


def or_zero(known: jax.Array, array: jax.Array) -> jax.Array:
    """The array where it is ``known``, and else 0: derivatives there are 0, not 0 times NaN."""
    return jnp.where(known, array, jnp.zeros_like(array))


def count_on(count: jax.Array, more: ArrayLike = 1) -> jax.Array:
    """Increase a counter, int32; after 2^31 - 1 comes 2^30, so that it stays large.

    Blocks and periods continue then, as their sizes are powers of two.

    >>> count_on(jnp.asarray(2**31 - 2), 3)
    Array(1073741825, dtype=int32)
    """
    total = count + jnp.asarray(more).astype(jnp.int32)
    return jnp.where(total < 0, total - 2**30, total)  # integers wrap, twice


def common_period(parts: Iterable[Any]) -> int | None:
    """The largest number that divides the periods of all parts that have one."""
    periods = [part.period for part in parts if part.period is not None]
    return math.gcd(*periods) if periods else None


def take(tree: PyTree, place: ArrayLike) -> PyTree:
    """Index the leading axis of all leaves of a tree."""
    return jax.tree.map(lambda leaf: leaf[place], tree)


def dots(a: jax.Array, b: jax.Array) -> jax.Array:
    """The sum Σ a b along the last axis of b, as a product with ones.

    On CPUs, XLA vectorises matrix products, but not loops that sum products.
    """
    ones = jnp.ones(b.shape[-1:], b.dtype)
    return jnp.dot(a * b, ones, precision=jax.lax.Precision.HIGHEST)


def sum_of(numbers: Sequence[jax.Array]) -> jax.Array:
    """The sum of a few arrays, on an accelerator no kernel of its own."""
    return reduce(jnp.add, numbers)


def uniform(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Uniform numbers in [0, 1), the same in every dtype up to rounding."""
    return jax.random.uniform(key, shape, jnp.float32).astype(dtype)


def sum_over_rows(
    function: Callable[[PyTree], PyTree], rows: PyTree, used: jax.Array, size: int = 256
) -> PyTree:
    """The sum of ``function(piece)`` over pieces of the rows, up to the last that is used.

    Args:
      function: of ``size`` rows at most, those behind the last padded with zeros.
      rows: leaves (N, ...).
      used: which rows count (N,); where none in a piece does, it adds nothing.
      size: rows of a piece.
    """
    N = len(used)
    size = min(size, N)

    padded = jax.tree.map(
        lambda leaf: jnp.pad(leaf, ((0, -N % size), *((0, 0),) * (leaf.ndim - 1))), rows
    )

    def add(piece: jax.Array, total: PyTree) -> PyTree:
        part = jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, piece * size, size), padded
        )
        return jax.tree.map(jnp.add, total, function(part))

    first = jax.tree.map(lambda leaf: leaf[:size], padded)
    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, first))
    last = jnp.max(jnp.where(used, jnp.arange(1, N + 1), 0))
    return jax.lax.fori_loop(0, largest_of_runs(-(-last // size)), add, zeros)


@jax.custom_batching.custom_vmap
def largest_of_runs(number: jax.Array) -> jax.Array:
    """The number; of runs side by side the largest of theirs, the same for all.

    As many turns of a loop then are the same for all runs, and none waits for the others: with a
    number for each, every turn would write all states anew.
    """
    return number


@largest_of_runs.def_vmap
def _of_runs(size: int, batched: list[bool], number: jax.Array) -> tuple[jax.Array, bool]:
    return largest_of_runs(jnp.max(number, axis=0) if batched[0] else number), False
