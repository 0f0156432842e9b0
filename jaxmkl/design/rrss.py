"""RRSS: points that reconstruct all others, with a loss that is less sensitive to outliers.

    minimise  sum_j r_j + gamma sum_i |a^i|,     r_j² = (1_j - a_j)' K (1_j - a_j),

with a_j the columns and a^i the rows of A (n, n), by reweighting:

    a_j = (K + c_j V)^-1 k_j,
    c_j = 2 gamma sqrt(r_j² + eps),   V_ii = 1 / (2 sqrt(|a^i|² + eps)).

Solving a system for every column would take O(n⁴). But with features F (n, r), where K = F F', one
eigendecomposition F' V^-1 F = U diag(e) U' serves all columns, in O(n r²): with H = F U,

    A = V^-1 H G',   G_jk = H_jk / (e_k + c_j),   r_j² = sum_k (c_j G_jk)².

A Gram matrix is factored into features first. From K itself, r_j² would be a small difference of
large numbers, and where it is lost to rounding, the point is no longer looked at.

References:
  Nie, Wang, Huang and Ding (2013), Early active learning via robust representation and structured
  sparsity.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxmkl._types import Number
from jaxmkl.design._descent import Descent
from jaxmkl.design._frame import Design, Problem, choose, design_of, iterated
from jaxmkl.design._pool import Pool, pool_of
from jaxmkl.design._reconstruction import block_sums, diagonals_of, dot, forms, squared_columns


def by_features(pool: Pool) -> Pool:
    """The pool by features (1, n, r); of a Gram matrix r is n, and what is only rounding is 0."""
    if pool.gram is None:
        return pool
    e, Q = jnp.linalg.eigh(pool.gram[0])
    sizes = jnp.where(e > 4 * jnp.finfo(e.dtype).eps * e[-1], e, 0)
    return Pool(None, (Q * jnp.sqrt(sizes)[None, :])[None])


def factors(F: jax.Array, d: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The factors H and G (n, r) of A = diag(d) H G'."""
    rooted = F * jnp.sqrt(d)[:, None]
    e, U = jnp.linalg.eigh(dot(rooted.T, rooted))
    H = dot(F, U)
    return H, H / (jnp.maximum(e, 0)[None, :] + c[:, None])


@jax.jit
def _largest_penalty(pool: Pool) -> jax.Array:
    """The penalty max_i sqrt(sum_j K_ij² / K_jj), from which on all coefficients vanish."""
    diagonal = diagonals_of(pool)[0]
    inverse = jnp.where(diagonal > 0, 1 / jnp.where(diagonal > 0, diagonal, 1), 0)
    return jnp.sqrt(jnp.max(squared_columns(pool, inverse)))


def lengths_of(pool: Pool, d: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Squared norms of rows |a^i|² and of residuals r_j², both (n,)."""
    H, G = factors(pool.features[0], d, c)
    norms = d**2 * forms(H, dot(G.T, G))
    return jnp.maximum(norms, 0), jnp.sum((c[:, None] * G) ** 2, axis=1)


def iterate(problem: Problem, **bounds: Any) -> Descent:
    """The descent on points (2 n,) that hold the rows' sizes, then the residuals' lengths.

    It starts from rows of norm 1 and residuals of A = 0. The other arguments bound the descent.
    """
    pool, penalty, n = problem.pool, problem.penalty, problem.pool.num_points
    diagonal = diagonals_of(pool)[0]
    floor = problem.eps * jnp.mean(diagonal)

    def step(x: jax.Array) -> tuple[jax.Array, ...]:
        norms, residuals = lengths_of(pool, 2 * x[:n], 2 * penalty * x[n:])
        after = jnp.sqrt(residuals + floor)
        return norms, jnp.sum(after), after

    start = jnp.concatenate([jnp.ones((n,), pool.dtype), jnp.sqrt(diagonal + floor)])
    return iterated(problem, step, start, **bounds)


@partial(jax.jit, static_argnames=("max_iterations", "accelerate"))
def _solve(problem: Problem, *, max_iterations: int, accelerate: bool) -> Design:
    pool, n = by_features(problem.pool), problem.pool.num_points
    problem = problem._replace(pool=pool)
    end = iterate(problem, max_iterations=max_iterations, accelerate=accelerate)
    d, c = 2 * end.origin[:n], 2 * problem.penalty * end.origin[n:]
    norms = jnp.sqrt(lengths_of(pool, d, c)[0])
    scores = block_sums(*factors(pool.features[0], d, c), d, norms)
    none, one = jnp.sum(jnp.sqrt(diagonals_of(pool)[0])), jnp.ones((1,), pool.dtype)
    return design_of(problem, end, scores, one, none)


def rrss(
    gram: ArrayLike | None = None,
    regularization: Number = 0.1,
    *,
    features: ArrayLike | None = None,
    num_points: int | None = None,
    absolute: bool = False,
    tolerance: Number = 1e-5,
    max_iterations: int = 500,
    smoothing: Number | None = None,
    accelerate: bool = True,
) -> Design:
    """Choose points with one kernel and a robust loss (RRSS).

    In float32, residuals r_j² below about 1e-6 K_jj have no correct digits: a small regularization
    needs float64, and ``converged`` is False if digits run out. All else is as for :func:`cted`.

    Args:
      regularization: the penalty gamma as a share of the smallest one with which no point is
        chosen, max_i sqrt(sum_j K_ij² / K_jj), or gamma itself if ``absolute``; may be traced.
      smoothing: eps as in :func:`cted`; for residuals it is multiplied by the mean of K_ii.

    >>> from jaxmkl import design
    >>> x = [[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]]
    >>> design.rrss(features=x, num_points=2).ranking.tolist()
    [2, 4]
    """
    pool = pool_of("rrss", gram, features, stacked=False)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    found = partial(_solve, accelerate=bool(accelerate))
    return choose("rrss", pool, found, _largest_penalty, settings, degree=0.5)
