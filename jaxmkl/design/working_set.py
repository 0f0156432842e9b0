"""GMKAL and CTED on pools too large to go through in every iteration.

At the minimum few rows a^i of the coefficients are not zero, and a row that is zero costs
nothing: with d_i = 0 it drops out of M = lambda I + F' S² F. So the iteration goes through a
working set of points alone, which reconstructs all points of the pool: that is in F'F (k, k),
worked out once. Then one pass over the pool finds the points that violate the conditions

    2 |row i of K (I - A)| = 2 lambda sqrt(F_i N F_i') <= lambda,

and these take the places of points that are not active, until none does. What is found is the
minimum over the whole pool, to the same tolerance.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl.design.common import ACTIVE, Pool
from jaxmkl.design.descent import Descent
from jaxmkl.design.reconstruction import (
    HIGHEST,
    diagonals_of,
    kernel_scales,
    shifted,
    small_matrix,
    squared_inverse,
)

__all__ = ["Found", "by_working_sets", "size_of_set"]

ROUNDS = 30  # working sets at most


class Found(NamedTuple):
    """Where the iteration stands after a working set.

    Attributes:
      rows: the points of the working set (m,).
      sizes: sqrt(|a^i|² + eps) of all points (n,), sqrt(eps) of those outside of the set.
      origin: the sizes (m,) the coefficients follow from.
      weights: the weights (P,) they follow from.
      updated: the weights that follow from them.
      slopes: sqrt(F_i N F_i') of all points (n,): half of it is the bound.
      start: the sizes (n,) a next working set starts from.
      objective: history (T,).
      length: how many values it has.
      turn: how often the map was applied.
      round: how many working sets there were.
      converged: whether the last one ended by its tolerance and no point outside violates.
    """

    rows: jax.Array
    sizes: jax.Array
    origin: jax.Array
    weights: jax.Array
    updated: jax.Array
    slopes: jax.Array
    start: jax.Array
    objective: jax.Array
    length: jax.Array
    turn: jax.Array
    round: jax.Array
    converged: jax.Array


def size_of_set(num_features: int) -> int:
    """How many points a working set has, for kernels of so many features in all."""
    return max(4096, 8 * num_features)


def by_working_sets(
    iterate: Any,
    pool: Pool,
    products: Any,
    weights: jax.Array,
    penalty: jax.Array,
    eps: jax.Array,
    tolerance: jax.Array,
    max_iterations: int,
) -> Found:
    """Iterate on working sets until no point of the pool violates the conditions.

    Args:
      iterate: from a pool, its products, a start (m + P,) and a limit of turns to a descent.
      pool: the features, of more points than a working set has.
      products: those of the pool.
      weights: w (P,) to start with.
      penalty: lambda, a number.
      eps: the smoothing.
      tolerance: of the iteration.
      max_iterations: T.
    """
    F, inner = products
    n, k = F.shape
    m = size_of_set(k)
    diagonals = diagonals_of(pool)  # (P, n)

    def slopes_of(M: jax.Array, w: jax.Array) -> jax.Array:
        scales = kernel_scales(pool, w)
        N = squared_inverse(M, inner * scales) * scales
        return jnp.sqrt(jnp.maximum(jnp.sum(jnp.dot(F, N, precision=HIGHEST) * F, axis=1), 0))

    def going(state: Found) -> jax.Array:
        return ~state.converged & (state.turn < max_iterations) & (state.round < ROUNDS)

    def turn(state: Found) -> Found:
        active = state.sizes > jnp.maximum(ACTIVE * jnp.max(state.sizes), 100 * jnp.sqrt(eps))
        priority = state.slopes + jnp.where(active, jnp.max(state.slopes), 0)
        rows = jnp.sort(jax.lax.top_k(priority, m)[1].astype(jnp.int32))
        part = Pool(None, pool.features[:, rows])
        own = F[rows], inner
        start = jnp.concatenate([state.start[rows], state.updated])
        end: Descent = iterate(part, own, start, max_iterations - state.turn)
        origin, w = end.origin[:m], end.origin[m:] / jnp.sum(end.origin[m:])
        sizes = jnp.full((n,), jnp.sqrt(eps)).at[rows].set(end.move.point[:m])
        M = small_matrix(own[0], kernel_scales(pool, w), 2 * origin, penalty)
        slopes = slopes_of(M, w)
        outside = jnp.max(2 * slopes, where=jnp.ones((n,), bool).at[rows].set(False), initial=0)
        # a point alone would get a row of this norm; half of it, as it is not alone
        gain = penalty * jnp.maximum(2 * slopes - 1, 0) / 4
        alone = gain / jnp.maximum(jnp.dot(w**2, diagonals), jnp.finfo(F.dtype).tiny)
        # a working set that does not yet lower the objective is not a step of its own
        places = jnp.arange(max_iterations) - state.length
        seen = jnp.where((places >= 0) & (places < end.length), places, max_iterations)
        shifted_in = jnp.append(end.objective, jnp.nan)[seen]
        last = state.objective[jnp.maximum(state.length - 1, 0)]
        lowest = jax.lax.cummin(jnp.where(jnp.isnan(shifted_in), jnp.inf, shifted_in))
        lowest = jnp.where(state.length > 0, jnp.minimum(lowest, last), lowest)
        return Found(
            rows=rows,
            sizes=sizes,
            origin=origin,
            weights=w,
            updated=end.move.point[m:],
            slopes=slopes,
            start=jnp.maximum(sizes, alone),
            objective=jnp.where(seen < max_iterations, lowest, state.objective),
            length=state.length + end.length,
            turn=state.turn + end.turn,
            round=state.round + 1,
            converged=end.converged & (outside <= 1 + jnp.sqrt(tolerance)),
        )

    # all rows of the same size, as the iteration without working sets starts
    slopes = slopes_of(shifted(2 * inner * kernel_scales(pool, weights), penalty), weights)
    none = jnp.asarray(0, jnp.int32)
    first = Found(
        rows=jnp.arange(m, dtype=jnp.int32),
        sizes=jnp.full((n,), jnp.sqrt(eps)),
        origin=jnp.full((m,), jnp.sqrt(eps)),
        weights=weights,
        updated=weights,
        slopes=slopes,
        start=2 * slopes + jnp.sqrt(eps),
        objective=jnp.full((max_iterations,), jnp.nan, F.dtype),
        length=none,
        turn=none,
        round=none,
        converged=jnp.asarray(False),
    )
    return jax.lax.while_loop(going, turn, first)
