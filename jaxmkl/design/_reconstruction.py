"""Reconstruction of the points of a pool by each other, from Gram matrices or from features.

With weights w the kernels add up to K = sum_t w_t² K_t. Given positive d (n,), the coefficients

    A = (K + lambda D)^-1 K,     D = diag(1 / d),     R = I - A

minimise tr(R' K R) + lambda sum_i |a^i|² / d_i, with a^i the rows of A. With S = D^(-1/2) and
M = lambda I + S K S this is A = S M^-1 S K = I - lambda S M^-1 S^-1: M is symmetric and bounded,
even if rows vanish. From features F (n, r), K = F F', nothing of size (n, n) is formed:

    M = lambda I + F' S² F (r, r),   A = S² F M^-1 F',   |a^i|² = d_i² F_i N F_i',
    N = M^-1 F' F M^-1,              tr(R' K_t R) = lambda² tr(N_tt) / w_t².
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxmkl._types import Number
from jaxmkl.design._pool import Pool

HIGHEST = jax.lax.Precision.HIGHEST
FeatureProducts = tuple[jax.Array, ...]
dot = partial(jnp.dot, precision=HIGHEST)
# If A has more than ENTRIES entries, only EXACT_ROWS of its rows are summed, ROWS_AT_ONCE a time.
ENTRIES, EXACT_ROWS, ROWS_AT_ONCE = 2**31, 4096, 64


def solver(matrix: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """The product with the inverse of a symmetric positive definite matrix (k, k)."""
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    return lambda right: jax.scipy.linalg.cho_solve((factor, True), right)


def consensus(gram: jax.Array, weights: jax.Array) -> jax.Array:
    """K = sum_t w_t² K_t (n, n) of Gram matrices (P, n, n)."""
    return jnp.tensordot(weights**2, gram, 1, precision=HIGHEST)


def stacked(features: jax.Array, weights: jax.Array) -> jax.Array:
    """Features (n, P r) of the consensus kernel, [w_1 F_1, ..., w_P F_P], for w (P,) or (n, P)."""
    P, n, r = features.shape
    scale = weights[:, None, None] if weights.ndim == 1 else weights.T[:, :, None]
    return jnp.moveaxis(features * scale, 0, 1).reshape(n, P * r)


def forms(F: jax.Array, N: jax.Array) -> jax.Array:
    """The forms F_i N F_i' (n,) of the rows of F (n, k)."""
    return jnp.sum(dot(F, N) * F, axis=1)


def equal_weights(pool: Pool) -> jax.Array:
    """Equal weights (P,) of sum 1."""
    return jnp.full((pool.num_kernels,), 1 / pool.num_kernels, pool.dtype)


def squared_columns(pool: Pool, by: jax.Array) -> jax.Array:
    """The sums sum_j K_ij² b_j (n,), with K the consensus kernel with equal weights."""
    if pool.gram is not None:
        return jnp.sum(consensus(pool.gram, equal_weights(pool)) ** 2 * by[None, :], axis=1)
    F = stacked(pool.features, equal_weights(pool))
    return forms(F, dot(F.T, F * by[:, None]))


@jax.jit
def largest_penalty(pool: Pool) -> jax.Array:
    """The penalty 2 max_i |k_i| with equal weights, from which on all coefficients vanish."""
    one = jnp.ones((pool.num_points,), pool.dtype)
    return 2 * jnp.sqrt(jnp.max(squared_columns(pool, one)))


def diagonals_of(pool: Pool) -> jax.Array:
    """The diagonals (P, n) of the kernels."""
    if pool.gram is not None:
        return jnp.diagonal(pool.gram, axis1=1, axis2=2)
    return jnp.sum(pool.features**2, axis=2)


def coefficients(K: jax.Array, d: jax.Array, penalty: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The matrices R' = I - A' and R (n, n)."""
    s = jnp.sqrt(d)
    one = jnp.eye(len(K), dtype=K.dtype)
    inverted = penalty * solver(s[:, None] * K * s[None, :] + penalty * one)(one)
    return inverted * s[None, :] / s[:, None], inverted * s[:, None] / s[None, :]


def products_of(pool: Pool) -> FeatureProducts:
    """All features F (n, k) and F'F (k, k), constant over the iterations; () for Gram matrices."""
    if pool.gram is not None:
        return ()
    F = stacked(pool.features, jnp.ones((1,), pool.dtype))
    return F, dot(F.T, F)


def factored(
    products: FeatureProducts, weights: jax.Array, d: jax.Array, penalty: jax.Array
) -> tuple[Callable[[jax.Array], jax.Array], jax.Array, jax.Array]:
    """The product with M^-1, N (k, k), and w_s w_t (k, k) for features of kernels s and t.

    Both belong to features without weights, so ``F N F'`` needs ``N w_s w_t`` in place of N.
    """
    F, inner = products
    scale = jnp.repeat(weights, F.shape[1] // len(weights), total_repeat_length=F.shape[1])
    scales = scale[:, None] * scale[None, :]
    rooted = F * jnp.sqrt(d)[:, None]
    M = dot(rooted.T, rooted) * scales + penalty * jnp.eye(len(scales), dtype=F.dtype)
    solved = solver(M)
    return solved, solved(solved(inner * scales).T), scales


def reconstruct(
    pool: Pool, products: FeatureProducts, weights: jax.Array, d: jax.Array, penalty: jax.Array
) -> tuple[jax.Array, jax.Array, Number]:
    """For given w, d > 0, lambda: squared norms |a^i|² (n,), errors e_t = tr(R' K_t R) (P,), and
    the difference of their sum, weighted, from what another formula gives: lost digits.
    """
    if pool.gram is not None:
        K = consensus(pool.gram, weights)
        R_transposed, R = coefficients(K, d, penalty)
        norms = jnp.sum((jnp.eye(len(R), dtype=R.dtype) - R) ** 2, axis=1)
        # K R = lambda D A, so tr(R'KR) = tr(K R) - lambda sum_i |a^i|² / d_i
        error = jnp.sum(K * R) - penalty * jnp.sum(norms / d)
        if pool.num_kernels == 1:
            return norms, error[None] / weights**2, 0.0
        errors = jnp.sum(pool.gram * dot(R, R_transposed)[None], axis=(1, 2))
        return norms, errors, jnp.abs(error - jnp.sum(weights**2 * errors))
    _, N, scales = factored(products, weights, d, penalty)
    norms = d**2 * forms(products[0], N * scales)
    traces = jnp.sum(jnp.diagonal(N).reshape(pool.num_kernels, -1), axis=1)
    return jnp.maximum(norms, 0), penalty**2 * traces / weights**2, 0.0


def row_sums(
    pool: Pool, weights: jax.Array, d: jax.Array, penalty: jax.Array, floor: Number = 0.0
) -> jax.Array:
    """Sums (n,) of absolute values in the rows of A; with features as in :func:`block_sums`.

    With features, d may be zero: such a row does not enter M, and is computed with ``floor``.
    """
    if pool.gram is not None:
        R = coefficients(consensus(pool.gram, weights), d, penalty)[1]
        return jnp.sum(jnp.abs(jnp.eye(len(R), dtype=R.dtype) - R), axis=1)
    products = F, _ = products_of(pool)
    solved, N, scales = factored(products, weights, d, penalty)
    d = jnp.maximum(d, floor)
    norms = d * jnp.sqrt(jnp.maximum(forms(F, N * scales), 0))
    middle = solved(jnp.eye(len(N), dtype=N.dtype)) * scales
    return block_sums(dot(F, middle), F, d, norms)


def block_sums(left: jax.Array, right: jax.Array, d: jax.Array, norms: jax.Array) -> jax.Array:
    """Sums of absolute values (n,) of the rows of A = diag(d) L R' with L and R (n, k).

    If A has more than 2^31 entries, only the 4,096 rows with the largest ``norms`` (n,) are
    summed. The others get their norm, which is less than their sum, so they are ranked after.
    """
    n = len(right)
    wanted = n if n * n <= ENTRIES else min(n, EXACT_ROWS)
    order = jnp.argsort(-norms, stable=True)
    B = min(n, ROWS_AT_ONCE)

    def block(turn: jax.Array, sums: jax.Array) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(order, jnp.minimum(turn * B, n - B), B)
        A = d[rows][:, None] * dot(left[rows], right.T)
        return sums.at[rows].set(jnp.sum(jnp.abs(A), axis=1))

    return jax.lax.fori_loop(0, -(-wanted // B), block, norms)
