"""GMKAL and CTED on pools too large to go through in every iteration.

A row a^i of the coefficients that is zero needs no work: with d_i = 0 it drops out of
M = lambda I + F' S² F (k, k), a matrix of k (k + 1) / 2 numbers, so there is a minimum with no
more rows than these. After some steps that go through all of the pool, the iteration therefore
goes through a working set of k² points alone, for some steps at a time. These reconstruct all
points of the pool: that is in F'F (k, k), worked out once. After each working set one pass over
the pool finds the points that violate the conditions

    2 |row i of K (I - A)| = 2 lambda sqrt(F_i N F_i') <= lambda,

and these take the places of points that are not active, until none does. What is found is the
minimum over the whole pool, to the same tolerance.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl.design._descent import Descent
from jaxmkl.design._frame import Problem, active
from jaxmkl.design._pool import Pool
from jaxmkl.design._reconstruction import (
    diagonals_of,
    dot,
    kernel_scales,
    products_of,
    slopes_of,
    small_matrix,
    squared_inverse,
)

STEPS_OF_ALL = 10  # that go through the whole pool before the first working set
STEPS_OF_SET = 25  # at most, before the pool is looked through for other points
WORTH = 4  # a working set is used where the pool is at least that much larger


class Found(NamedTuple):
    """Where the iteration stands after a working set."""

    sizes: (
        jax.Array
    )  # sqrt(|a^i|² + eps) of all points (n,), sqrt(eps) of those outside of the set
    origin: jax.Array  # the sizes (n,) the coefficients follow from, zero outside
    weights: jax.Array  # the weights (P,) they follow from
    updated: jax.Array  # the weights that follow from them
    priority: jax.Array  # what the points (n,) of a next working set are the largest of
    start: jax.Array  # the sizes (n,) a next working set starts from
    objective: jax.Array  # history (T,)
    length: jax.Array  # how many values it has
    turn: jax.Array  # how often the map was applied
    converged: jax.Array  # if the last one ended by its tolerance and no point outside violates


def found_of(end: Descent, n: int) -> Found:
    """Where a descent on the whole pool of n points stands."""
    sizes = end.move.point[:n]
    return Found(
        sizes=sizes,
        origin=end.origin[:n],
        weights=end.origin[n:] / jnp.sum(end.origin[n:]),
        updated=end.move.point[n:],
        priority=sizes,
        start=sizes,
        objective=end.objective,
        length=end.length,
        turn=end.turn,
        converged=end.converged,
    )


def size_of_set(pool: Pool) -> int:
    """How many points a working set has."""
    return max(4096, (pool.num_kernels * pool.features.shape[2]) ** 2)


def worth_it(pool: Pool) -> bool:
    """Whether the pool is so much larger than a working set that this pays."""
    return pool.gram is None and pool.num_points >= WORTH * size_of_set(pool)


def by_working_sets(iterate: Any, problem: Problem, max_iterations: int) -> Found:
    """Iterate, at last on working sets, until no point of the pool violates the conditions.

    Args:
      iterate: from a problem, and by name its products, a start (m + P,) and when to stop, to
        a descent.
      problem: with the features of more points than a working set has.
      max_iterations: T.
    """
    pool, penalty, eps = problem.pool, problem.penalty, problem.eps
    products = F, inner = products_of(pool)
    n, m, dtype = pool.num_points, size_of_set(pool), pool.dtype
    diagonals = diagonals_of(pool)  # (P, n)

    def started(state: Descent) -> jax.Array:
        return state.turn >= STEPS_OF_ALL

    def going(state: Found) -> jax.Array:
        return ~state.converged & (state.turn < max_iterations)

    def turn(state: Found) -> Found:
        rows = jnp.sort(jax.lax.top_k(state.priority, m)[1].astype(jnp.int32))
        part = problem._replace(pool=Pool(None, pool.features[:, rows]))
        own = F[rows], inner
        limit = jnp.minimum(STEPS_OF_SET, max_iterations - state.turn)
        start = jnp.concatenate([state.start[rows], state.updated])
        end: Descent = iterate(part, products=own, start=start, limit=limit)
        origin, w = end.origin[:m], end.origin[m:] / jnp.sum(end.origin[m:])
        sizes = jnp.full((n,), jnp.sqrt(eps)).at[rows].set(end.move.point[:m])
        scales = kernel_scales(pool, w)
        M = small_matrix(own[0], scales, 2 * origin, penalty)
        slopes = slopes_of(F, squared_inverse(M, inner * scales) * scales)
        outside = jnp.max(2 * slopes, where=jnp.ones((n,), bool).at[rows].set(False), initial=0)
        # a point alone would get a row of this norm; half of it, as it is not alone
        gain = penalty * jnp.maximum(2 * slopes - 1, 0) / 4
        scale = dot(w**2, diagonals)
        alone = gain / jnp.maximum(scale, jnp.finfo(dtype).tiny)
        # a working set that does not yet lower the objective is not a step of its own
        places = jnp.arange(max_iterations) - state.length
        inside = (places >= 0) & (places < end.length)
        values = end.objective[jnp.clip(places, 0, max_iterations - 1)]
        last = state.objective[jnp.maximum(state.length - 1, 0)]
        lowest = jax.lax.cummin(jnp.where(inside, jnp.minimum(values, last), jnp.inf))
        return Found(
            sizes=sizes,
            origin=jnp.zeros((n,), dtype).at[rows].set(origin),
            weights=w,
            updated=end.move.point[m:],
            priority=slopes + jnp.where(active(sizes, eps), jnp.max(slopes), 0),
            start=jnp.maximum(sizes, alone),
            objective=jnp.where(inside, lowest, state.objective),
            length=state.length + end.length,
            turn=state.turn + end.turn,
            converged=end.converged & (outside <= 1 + jnp.sqrt(problem.tolerance)),
        )

    first = found_of(iterate(problem, products=products, leave=started), n)
    return jax.lax.while_loop(going, turn, first)
