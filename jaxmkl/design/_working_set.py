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

from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl.design._descent import Descent
from jaxmkl.design._frame import Problem, active
from jaxmkl.design._pool import Pool
from jaxmkl.design._reconstruction import diagonals_of, dot, factored, forms, products_of

STEPS_OF_ALL = 10  # that go through the whole pool before the first working set
STEPS_OF_SET = 25  # at most, before the pool is looked through for other points
WORTH = 4  # working sets are used where the pool is at least that much larger

# The descent, and for the next working set the priority (n,) and the sizes (n,) to start from.
State = tuple[Descent, jax.Array, jax.Array]


def by_working_sets(iterate: Any, problem: Problem, max_iterations: int) -> Descent:
    """Iterate, on a large pool at last on working sets, until no point violates the conditions.

    Points outside the last working set have size 0 in the origin of what is returned, and
    sqrt(eps) in the point after it; differences of past steps are not in it. ``iterate`` is that
    of GMKAL, with all set but the problem, its products, a start (m + P,) and a limit.
    """
    pool, penalty, eps = problem.pool, problem.penalty, problem.eps
    n, k, dtype = pool.num_points, pool.num_kernels * pool.values.shape[2], pool.dtype
    m = max(4096, k**2)  # points of a working set
    if pool.gram is not None or n < WORTH * m:
        return iterate(problem)
    products = F, inner = products_of(pool)
    diagonals = diagonals_of(pool)  # (P, n)

    def going(state: State) -> jax.Array:
        return ~state[0].converged & (state[0].turn < max_iterations)

    def turn(state: State) -> State:
        past, priority, start = state
        rows = jnp.sort(jax.lax.top_k(priority, m)[1].astype(jnp.int32))
        end: Descent = iterate(
            problem._replace(pool=Pool(None, pool.features[:, rows])),
            products=(F[rows], inner),
            start=jnp.concatenate([start[rows], past.move.point[n:]]),
            limit=jnp.minimum(STEPS_OF_SET, max_iterations - past.turn),
        )
        origin, w = end.origin[:m], end.origin[m:] / jnp.sum(end.origin[m:])
        sizes = jnp.full((n,), jnp.sqrt(eps)).at[rows].set(end.move.point[:m])
        _, N, scales = factored((F[rows], inner), w, 2 * origin, penalty)
        slopes = jnp.sqrt(jnp.maximum(forms(F, N * scales), 0))
        outside = jnp.max(2 * slopes, where=jnp.ones((n,), bool).at[rows].set(False), initial=0)
        # a point alone would get a row of this norm; half of it, as it is not alone
        gain = penalty * jnp.maximum(2 * slopes - 1, 0) / 4
        alone = gain / jnp.maximum(dot(w**2, diagonals), jnp.finfo(dtype).tiny)
        # a working set that does not yet lower the objective is not a step of its own
        places = jnp.arange(max_iterations) - past.length
        inside = (places >= 0) & (places < end.length)
        values = end.objective[jnp.clip(places, 0, max_iterations - 1)]
        last = past.objective[jnp.maximum(past.length - 1, 0)]
        lowest = jax.lax.cummin(jnp.where(inside, jnp.minimum(values, last), jnp.inf))
        whole = jnp.zeros((n,), dtype).at[rows].set(origin)
        here = past._replace(
            origin=jnp.concatenate([whole, end.origin[m:]]),
            move=past.move._replace(point=jnp.concatenate([sizes, end.move.point[m:]])),
            objective=jnp.where(inside, lowest, past.objective),
            length=past.length + end.length,
            turn=past.turn + end.turn,
            converged=end.converged & (outside <= 1 + jnp.sqrt(problem.tolerance)),
        )
        priority = slopes + jnp.where(active(sizes, eps), jnp.max(slopes), 0)
        return here, priority, jnp.maximum(sizes, alone)

    first = iterate(problem, products=products, limit=min(STEPS_OF_ALL, max_iterations))
    first, sizes = first._replace(points=None, images=None), first.move.point[:n]
    return jax.lax.while_loop(going, turn, (first, sizes, sizes))[0]
