"""How the points of a pool reconstruct each other, from Gram matrices or from features.

With weights w the kernels make up K = sum_t w_t² K_t. Given d (n,), positive, the coefficients

    A = (K + lambda D)^-1 K,     D = diag(1 / d),     R = I - A

minimise tr(R' K R) + lambda sum_i |a^i|² / d_i, a^i the rows of A. With S = D^(-1/2) and
M = lambda I + S K S this is A = S M^-1 S K = I - lambda S M^-1 S^-1: symmetric, bounded, and
rows that vanish do no harm. From features F (n, r), K = F F', nothing of size (n, n) is formed:

    M = lambda I + F' S² F (r, r),   A = S² F M^-1 F',   |a^i|² = d_i² F_i N F_i',
    N = M^-1 F' F M^-1,              tr(R' K_t R) = lambda² tr(N_tt) / w_t².
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl.design._pool import Pool

HIGHEST = jax.lax.Precision.HIGHEST
dot = partial(jnp.dot, precision=HIGHEST)
# From features: rows whose sums are worked out where A has more entries than these, and at once.
EXACT_ROWS, ROWS_AT_ONCE = 4096, 64
ENTRIES = 2**31


class Reconstruction(NamedTuple):
    """What is needed of the coefficients."""

    norms: jax.Array  # squared norms |a^i|² of the rows (n,)
    errors: jax.Array  # e_t = tr(R' K_t R) (P,)


def solver(matrix: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """The product with the inverse of a symmetric positive definite matrix (k, k)."""
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    return lambda right: jax.scipy.linalg.cho_solve((factor, True), right)


def inverse(matrix: jax.Array) -> jax.Array:
    """The inverse (k, k) of a symmetric positive definite matrix."""
    return solver(matrix)(jnp.eye(len(matrix), dtype=matrix.dtype))


def shifted(matrix: jax.Array, penalty: jax.Array) -> jax.Array:
    """The matrix (k, k) with the penalty added to its diagonal."""
    return matrix + penalty * jnp.eye(len(matrix), dtype=matrix.dtype)


def consensus(gram: jax.Array, weights: jax.Array) -> jax.Array:
    """K = sum_t w_t² K_t (n, n) of Gram matrices (P, n, n)."""
    return jnp.tensordot(weights**2, gram, 1, precision=HIGHEST)


def stacked(features: jax.Array, weights: jax.Array) -> jax.Array:
    """Features (n, P r) of the consensus kernel: [w_1 F_1, ..., w_P F_P].

    Weights are one a kernel (P,), or one a point and kernel (n, P).
    """
    P, n, r = features.shape
    scale = weights[:, None, None] if weights.ndim == 1 else weights.T[:, :, None]
    return jnp.moveaxis(features * scale, 0, 1).reshape(n, P * r)


def forms(F: jax.Array, N: jax.Array) -> jax.Array:
    """F_i N F_i' (n,) of the rows of F (n, k)."""
    return jnp.sum(dot(F, N) * F, axis=1)


def squared_columns(pool: Pool, weights: jax.Array, by: jax.Array) -> jax.Array:
    """sum_j K_ij² b_j (n,) of the consensus kernel."""
    if pool.gram is not None:
        return jnp.sum(consensus(pool.gram, weights) ** 2 * by[None, :], axis=1)
    F = stacked(pool.features, weights)
    return forms(F, dot(F.T, F * by[:, None]))


@jax.jit
def largest_penalty(pool: Pool) -> jax.Array:
    """lambda_max = 2 max_i |k_i| with equal weights: from it on all coefficients vanish."""
    P, one = pool.num_kernels, jnp.ones((pool.num_points,), pool.dtype)
    squares = squared_columns(pool, jnp.full((P,), 1 / P, pool.dtype), one)
    return 2 * jnp.sqrt(jnp.max(squares))


def diagonals_of(pool: Pool) -> jax.Array:
    """The diagonals (P, n) of the kernels."""
    if pool.gram is not None:
        return jnp.diagonal(pool.gram, axis1=1, axis2=2)
    return jnp.sum(pool.features**2, axis=2)


def coefficients(K: jax.Array, d: jax.Array, penalty: jax.Array) -> tuple[jax.Array, jax.Array]:
    """R' = I - A' and R (n, n)."""
    s = jnp.sqrt(d)
    M = shifted(s[:, None] * K * s[None, :], penalty)
    inverted = penalty * inverse(M)
    return inverted * s[None, :] / s[:, None], inverted * s[:, None] / s[None, :]


def products_of(pool: Pool) -> Any:
    """What every iteration needs of a pool and no iteration changes."""
    if pool.gram is not None:
        return None
    P, n, r = pool.features.shape
    F = jnp.moveaxis(pool.features, 0, 1).reshape(n, P * r)
    return F, dot(F.T, F)


def reconstruct(
    pool: Pool, products: Any, weights: jax.Array, d: jax.Array, penalty: jax.Array
) -> Reconstruction:
    """Norms of the coefficients' rows and the kernels' errors.

    Args:
      pool: the kernels.
      products: :func:`products_of` the pool.
      weights: w (P,).
      d: the reciprocals of D (n,), positive.
      penalty: lambda, a number.
    """
    if pool.gram is not None:
        K = consensus(pool.gram, weights)
        R_transposed, R = coefficients(K, d, penalty)
        norms = jnp.sum((jnp.eye(len(R), dtype=R.dtype) - R) ** 2, axis=1)
        if pool.num_kernels == 1:
            # K R = lambda D A, so tr(R'KR) = tr(K R) - lambda sum_i |a^i|² / d_i
            errors = (jnp.sum(K * R) - penalty * jnp.sum(norms / d))[None]
            return Reconstruction(norms, errors / weights**2)
        G = dot(R, R_transposed)
        return Reconstruction(norms, jnp.sum(pool.gram * G[None], axis=(1, 2)))
    F, inner = products
    P, r = pool.num_kernels, pool.features.shape[2]
    scales = kernel_scales(pool, weights)
    N = squared_inverse(small_matrix(F, scales, d, penalty), inner * scales)
    norms = d**2 * forms(F, N * scales)
    errors = penalty**2 * jnp.sum(jnp.diagonal(N).reshape(P, r), axis=1) / weights**2
    return Reconstruction(jnp.maximum(norms, 0), errors)


def small_matrix(F: jax.Array, scales: jax.Array, d: jax.Array, penalty: jax.Array) -> jax.Array:
    """M (k, k) = lambda I + F' S² F, the features' scales put in afterwards."""
    rooted = F * jnp.sqrt(d)[:, None]
    return shifted(dot(rooted.T, rooted) * scales, penalty)


def kernel_scales(pool: Pool, weights: jax.Array) -> jax.Array:
    """w_s w_t (P r, P r) for each pair of features, of kernels s and t."""
    P, r = pool.num_kernels, pool.features.shape[2]
    scale = jnp.repeat(weights, r, total_repeat_length=P * r)
    return scale[:, None] * scale[None, :]


def slopes_of(F: jax.Array, N: jax.Array) -> jax.Array:
    """sqrt(F_i N F_i') (n,)."""
    return jnp.sqrt(jnp.maximum(forms(F, N), 0))


def squared_inverse(M: jax.Array, inner: jax.Array) -> jax.Array:
    """N (k, k) = M^-1 F' F M^-1 from M and F'F."""
    solved = solver(M)
    return solved(solved(inner).T)


def row_sums(
    pool: Pool, weights: jax.Array, d: jax.Array, penalty: jax.Array, floor: Any = 0.0
) -> jax.Array:
    """Sums of the absolute values of the rows of A (n,).

    From features that is done for the rows of largest norm: for all where A has at most 2^31
    entries, else for 4,096. The others get their norm, which is less than the sum and so leaves
    their place behind the others.

    Args:
      pool: the kernels.
      weights: w (P,).
      d: the reciprocals of D (n,), of features also zero.
      penalty: lambda, a number.
      floor: what rows are worked out with whose d is less.
    """
    n = pool.num_points
    if pool.gram is not None:
        R = coefficients(consensus(pool.gram, weights), d, penalty)[1]
        return jnp.sum(jnp.abs(jnp.eye(n, dtype=R.dtype) - R), axis=1)
    F, inner = products_of(pool)
    scales = kernel_scales(pool, weights)
    M = small_matrix(F, scales, d, penalty)
    d = jnp.maximum(d, floor)
    norms = d * slopes_of(F, squared_inverse(M, inner * scales) * scales)
    middle = inverse(M) * scales
    return blockwise_row_sums(lambda rows: dot(F[rows], middle), F, d, norms)


def blockwise_row_sums(
    left: Callable[[jax.Array], jax.Array], right: jax.Array, d: jax.Array, norms: jax.Array
) -> jax.Array:
    """Sums of absolute values (n,) of rows of A = diag(d) L R', or their norms.

    Args:
      left: from indices of rows to those of L.
      right: R (n, k).
      d: the factor of each row (n,).
      norms: the rows' norms (n,).
    """
    n = len(right)
    wanted = n if n * n <= ENTRIES else min(n, EXACT_ROWS)
    order = jnp.argsort(-norms, stable=True)
    B = min(n, ROWS_AT_ONCE)

    def block(turn: jax.Array, sums: jax.Array) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(order, jnp.minimum(turn * B, n - B), B)
        A = d[rows][:, None] * dot(left(rows), right.T)
        return sums.at[rows].set(jnp.sum(jnp.abs(A), axis=1))

    return jax.lax.fori_loop(0, -(-wanted // B), block, norms)
