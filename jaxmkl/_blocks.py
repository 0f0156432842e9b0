"""Small functions for blocks of examples, counters and random numbers."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl._types import PyTree, at_least_single


def rounds_of(round: jax.Array, size: int) -> jax.Array:
    """The rounds (B,) of the block that contains a round, for blocks of ``size`` B."""
    return round // size * size + jnp.arange(size, dtype=jnp.int32)


def or_zero(known: jax.Array, array: jax.Array) -> jax.Array:
    """The array where it is ``known``, else 0; there derivatives are 0 and not 0 times NaN."""
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


# sums of products whose factors are not rounded, as GPUs and TPUs would do
einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


def take(tree: PyTree, place: ArrayLike) -> PyTree:
    """Index the leading axis of all leaves of a tree."""
    return jax.tree.map(lambda leaf: leaf[place], tree)


def of_each(function: Callable, round: jax.Array, *trees: PyTree, in_turn: bool = False) -> Any:
    """Apply a function to trees of a state, or to those of each of several states side by side.

    ``round`` then has the same leading axes as the trees. It is applied to all of them at once, or
    to one after the other.
    """
    for _ in range(round.ndim):
        function = partial(_in_turn, function) if in_turn else jax.vmap(function)
    return function(*trees)


def _in_turn(function: Callable, *trees: PyTree) -> Any:
    return jax.lax.map(lambda given: function(*given), trees)


def scan_first(body: Callable, state: PyTree, ys: PyTree, number: Any) -> tuple[PyTree, PyTree]:
    """As ``jax.lax.scan(body, state, arange(len(ys)))`` for the first ``number``, put into ys."""

    def turn(i: Any, carry: tuple) -> tuple[PyTree, PyTree]:
        state, ys = carry
        state, y = body(state, i)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return state, jax.tree.map(put, ys, y)

    return jax.lax.fori_loop(0, number, turn, (state, ys))


def dots(a: jax.Array, b: jax.Array) -> jax.Array:
    """The sum Σ a b along the last axis of b, as a product with ones.

    On CPUs, XLA vectorises matrix products, but not loops that sum products.
    """
    ones = jnp.ones(b.shape[-1:], b.dtype)
    return jnp.dot(a * b, ones, precision=jax.lax.Precision.HIGHEST)


def sums_of(rows: jax.Array) -> jax.Array:
    """The sums (m,) of rows (n, m), as a product with a row of ones and one of zeros.

    XLA's CPU compiler makes three kernels for a sum over thousands of rows, or a product with a
    single row, and one more for a constant row.
    """
    ones = np.repeat(np.eye(2, 1, dtype=rows.dtype), len(rows), axis=1)
    return jnp.dot(ones, rows, precision=jax.lax.Precision.HIGHEST)[0]


def diagonal_of(matrix: jax.Array) -> jax.Array:
    """The diagonal (..., M) of a matrix (..., M, N) with M <= N, by strides."""
    M, N = matrix.shape[-2:]
    return matrix.reshape(*matrix.shape[:-2], M * N)[..., :: N + 1][..., :M]


def factor_and_inverse(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cholesky's factor of a positive definite matrix (M, M), and its inverse; NaN if it is not.

    Only the lower triangle is read. For several matrices, ``jax.lax.map`` takes a small part of
    the time of a batch on a CPU, whose triangular solves are not made for batches.
    """
    wide = matrix.astype(at_least_single(matrix.dtype))
    both = jax.lax.platform_dependent(wide, cpu=by_halves, default=_as_a_whole)
    inverse = jnp.dot(both[1].T, both[1], precision=jax.lax.Precision.HIGHEST)
    return both[0].astype(matrix.dtype), inverse.astype(matrix.dtype)


def _as_a_whole(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cholesky's factor L of a matrix (M, M), and its inverse."""
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    return factor, _inverse_of_lower(factor)


def by_halves(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same, by parts of fewer than 256 rows, as OpenBLAS divides larger ones among cores.

    For a matrix of A_1, A_2 below it and A_3 beside that, with L_1 the factor of A_1 and
    B = A_2 L_1⁻ᵀ, the factor has L_1, B below it, and beside that the factor of A_3 - B B'.
    """
    M, dot = len(matrix), partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
    if M < _WHOLE:
        factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
        return factor, _inverse_by_rows(factor)
    n = M // 2
    none = jnp.zeros((n, M - n), matrix.dtype)
    above, X = by_halves(matrix[:n, :n])
    left = dot(matrix[n:, :n], X.T)
    below, Y = by_halves(matrix[n:, n:] - dot(left, left.T))
    inverse = jnp.block([[X, none], [-dot(dot(Y, left), X), Y]])
    return jnp.block([[above, none], [left, below]]), inverse


_WHOLE = 256  # rows of a matrix whose factor would be made by several threads
_ROWS = 31  # of a triangular solve, at most, so that it has fewer than 1,024 numbers


def _inverse_of_lower(factor: jax.Array) -> jax.Array:
    """The inverses (..., M, M) of lower triangular matrices."""
    # as a constant, the identity takes no kernels
    eye = np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return jax.lax.linalg.triangular_solve(factor, eye, left_side=True, lower=True)


def _inverse_by_rows(factor: jax.Array) -> jax.Array:
    """The inverse of a lower triangular matrix L (M, M), by blocks of at most 31 rows,

        X_i = L_ii⁻¹ (I_i - Σ_{j < i} L_ij X_j).

    OpenBLAS divides a triangular solve of 1,024 numbers or more among all cores, whose threads
    then wait for .1 s without sleep: of the first 4,096 rounds of the default
    :func:`jaxmkl.expert_mkl` on two cores, that was two fifths of the processor time. On one core
    these blocks take a fifth longer than one solve.
    """
    M, dot = len(factor), partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
    number = -(-M // _ROWS)
    rows = -(-M // number)
    N, each = number * rows, np.arange(number)
    eye = np.eye(N, dtype=factor.dtype)
    # as many rows more, of I, as make whole blocks
    L = jnp.pad(factor, (0, N - M)) + np.where(np.arange(N) < M, 0, eye)
    own = _inverse_of_lower(L.reshape(number, rows, number, rows)[each, :, each])

    def block(i: jax.Array, X: jax.Array) -> jax.Array:
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=i * rows, slice_size=rows)
        # the rows of X from this block on are 0
        rest = cut(jnp.asarray(eye)) - dot(cut(L), X)
        return jax.lax.dynamic_update_slice_in_dim(X, dot(own[i], rest), i * rows, 0)

    return jax.lax.fori_loop(0, number, block, jnp.zeros_like(L))[:M, :M]


def sum_of(numbers: Sequence[jax.Array]) -> jax.Array:
    """The sum of a few arrays; on an accelerator it needs no kernel of its own."""
    return reduce(jnp.add, numbers)


def uniform(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Uniform numbers in [0, 1), the same in every dtype up to rounding."""
    return jax.random.uniform(key, shape, jnp.float32).astype(dtype)


# numbers that are processed at once, rather than in pieces, which take a loop of some ten kernels
_AT_ONCE = 3 * 2**19
_PIECE = 256  # rows


def sum_over_rows(
    function: Callable[[PyTree], PyTree], rows: PyTree, used: jax.Array, width: int = 0
) -> PyTree:
    """The sum of ``function(piece)`` over pieces of the rows, up to the last that is used.

    It is ``function(rows)`` if that takes no more numbers than 6 MiB of single precision.

    Args:
      function: a sum over rows, to which rows that do not count add nothing; pieces are padded
        with zeros after the last row.
      rows: leaves (N, ...).
      used: a mask of the rows that count (N,), or the number of the first rows that do.
      width: the numbers that the function makes of a row, if more than the row has.
    """
    leaves = jax.tree.leaves(rows)
    N = len(leaves[0])
    if max(width * N, sum(leaf.size for leaf in leaves)) <= _AT_ONCE:
        return function(rows)
    pieces = -(-N // _PIECE)
    size = -(-N // pieces)  # of equal sizes, so that often none is padded

    def padded(leaf: jax.Array) -> jax.Array:
        return jnp.pad(leaf, ((0, pieces * size - N), *((0, 0),) * (leaf.ndim - 1)))

    rows = jax.tree.map(padded, rows)

    def add(piece: jax.Array, total: PyTree) -> PyTree:
        part = jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, piece * size, size), rows
        )
        return jax.tree.map(jnp.add, total, function(part))

    first = jax.tree.map(lambda leaf: leaf[:size], rows)
    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, first))
    if used.ndim:
        in_pieces = sums_of(padded(used).astype(jnp.float32).reshape(pieces, size).T)
        numbers = np.arange(1, pieces + 1, dtype=np.int32)
        turns = jnp.max(jnp.where(in_pieces > 0, numbers, 0))
    else:
        turns = jax.lax.div(used + (size - 1), jnp.asarray(size, used.dtype))
    return jax.lax.fori_loop(0, largest_of_runs(turns), add, zeros)


def moments_of(X: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean and the variance (D,) of the first ``number`` rows of X (N, D).

    The variance is the mean square of what is left of the rows without their mean: with other
    numbers subtracted it loses digits on some processors. The first row is subtracted before the
    mean is taken, which so loses no digits if it is large.

    >>> X = jnp.asarray([[1.0], [3.0], [7.0]])
    >>> moments_of(X, jnp.asarray(2))
    (Array([2.], dtype=float32), Array([1.], dtype=float32))
    """
    known = np.arange(len(X), dtype=np.int32)[:, None] < number
    n = jnp.maximum(number, 1).astype(X.dtype)

    def means(rows: jax.Array) -> jax.Array:
        """The means of rows and of their squares (2, D), in one product."""
        rows = jnp.where(known, rows, 0)
        # a single column would be summed in another order where runs are side by side
        return sums_of(jnp.concatenate([rows, rows**2], axis=1)).reshape(2, -1) / n

    apart = X - X[:1]
    mean = means(apart)[0]
    return X[0] + mean, means(apart - mean[None])[1]


@jax.custom_batching.custom_vmap
def largest_of_runs(number: jax.Array) -> jax.Array:
    """The number; for runs side by side, the largest of their numbers.

    Loops then have the same number of iterations for all runs: with a number for each run, every
    iteration would write all states anew.
    """
    return number


@largest_of_runs.def_vmap
def _of_runs(size: int, batched: list[bool], number: jax.Array) -> tuple[jax.Array, bool]:
    return largest_of_runs(jnp.max(number, axis=0) if batched[0] else number), False


@jax.custom_batching.custom_vmap
def wanted_of_runs(wanted: jax.Array) -> jax.Array:
    """True for a run alone; for runs side by side, which of them want an iteration.

    A loop whose number of iterations is :func:`largest_of_runs` runs those that a run alone wants,
    and so makes no choices there between what is new and what was.
    """
    return jnp.ones_like(wanted)


@wanted_of_runs.def_vmap
def _of_some_runs(size: int, batched: list[bool], wanted: jax.Array) -> tuple[jax.Array, bool]:
    return wanted, batched[0]
