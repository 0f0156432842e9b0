"""CTED: points that reconstruct all others; GMKAL: the same with a consensus of several kernels.

    minimise  tr((I - A)' K_w (I - A)) + lambda sum_i |a^i|     over A (n, n) and w (P,),
    K_w = sum_t w_t² K_t,  sum_t w_t = 1,  w >= 0

by alternating a reweighting step for A and the exact minimisation over w,

    D_ii = 1 / (2 sqrt(|a^i|² + eps)),   A = (K_w + lambda D)^-1 K_w,
    e_t = tr(K_t (I - A) (I - A)'),      w_t = (1 / e_t) / sum_s (1 / e_s),

with e floored at 1e-12 of its maximum. Each step lowers the objective in which |a^i| is replaced
by sqrt(|a^i|² + eps) - sqrt(eps). One step for A per step for w (``steps`` sets more) reaches the
same minimum as the paper's full minimisation over A. Equation (7) of the paper omits lambda by
mistake. CTED is the same with a single kernel, K_w = K. The problem is then convex; a point whose
row a^i vanishes is not used to reconstruct the others.

References:
  Yu, Zhu, Xu and Gong (2008), Non-greedy active learning for text categorization using convex
  transductive experimental design.
  Wang, Du, Shi, Zhou, Qian and Shen, Experimental design with multiple kernels, equations (6) to
  (17), Algorithms 1 and 2.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl._checks import is_tracer
from jaxmkl._pytree import as_count, as_leaf, require
from jaxmkl._types import Number, Numbers
from jaxmkl.design import _reconstruction as reconstruction
from jaxmkl.design._descent import Descent
from jaxmkl.design._frame import Design, Problem, active, choose, design_of, iterated
from jaxmkl.design._pool import Pool, pool_of
from jaxmkl.design._reconstruction import dot, equal_weights, largest_penalty

FLOOR = 1e-12  # the smallest error counted, as a share of the largest
STEPS_OF_ALL = 10  # steps on the whole pool before the first working set
STEPS_OF_SET = 25  # most steps on a working set before the pool is searched for other points
WORTH = 4  # working sets are used if the pool is at least this many times larger


def weights_of(errors: jax.Array) -> jax.Array:
    """The weights (P,) that minimise sum_t w_t² e_t, of sum 1."""
    floored = jnp.maximum(errors, FLOOR * jnp.max(errors))
    inverse = jnp.min(floored) / floored
    return inverse / jnp.sum(inverse)


def before_last(
    pool: Pool,
    products: reconstruction.FeatureProducts,
    weights: jax.Array,
    sizes: jax.Array,
    problem: Problem,
    steps: int,
) -> jax.Array:
    """The rows' sizes (n,) after ``steps - 1`` steps for A, with the weights fixed."""

    def step(_: jax.Array, sizes: jax.Array) -> jax.Array:
        norms = reconstruction.reconstruct(pool, products, weights, 2 * sizes, problem.penalty)[0]
        return jnp.sqrt(norms + problem.eps)

    return jax.lax.fori_loop(0, steps - 1, step, sizes) if steps > 1 else sizes


def iterate(
    problem: Problem,
    weights: jax.Array,
    *,
    products: reconstruction.FeatureProducts | None = None,
    start: jax.Array | None = None,
    steps: int = 1,
    **bounds: Any,
) -> Descent:
    """The descent on points (n + P,) that hold the rows' sizes, then the weights.

    There are ``steps`` for A before each one for the weights; other arguments bound the descent.
    """
    pool, n = problem.pool, problem.pool.num_points
    products = reconstruction.products_of(pool) if products is None else products

    def step(x: jax.Array) -> tuple[jax.Array, ...]:
        w = x[n:] / jnp.sum(x[n:])
        sizes = before_last(pool, products, w, x[:n], problem, steps)
        norms, errors, lost = reconstruction.reconstruct(
            pool, products, w, 2 * sizes, problem.penalty
        )
        updated = weights_of(errors)
        # The optimality conditions: 2 |row i of K (I - A)| / lambda, by K (I - A) = lambda D A,
        # is at most 1, and is 1 if row i is not zero.
        lengths = jnp.sqrt(norms)
        gap = problem.penalty * jnp.sum(lengths * jnp.abs(1 - lengths / sizes))
        return norms, jnp.sum(updated**2 * errors), updated, jnp.maximum(gap, lost)

    start = jnp.concatenate([jnp.ones((n,), pool.dtype), weights]) if start is None else start
    return iterated(problem, step, start, **bounds)


def by_working_sets(
    problem: Problem, weights: jax.Array, max_iterations: int, accelerate: bool, steps: int
) -> Descent:
    """Iterate from ``weights``; on large pools, on one working set of points after the other.

    A row a^i that is zero needs no work: with d_i = 0 it drops out of M = lambda I + F' S² F
    (k, k), a matrix of k (k + 1) / 2 numbers, so there is a minimum with no more rows than that.
    After some steps on the whole pool, the iteration therefore continues on a working set of k²
    points, for some steps at a time. These points still reconstruct all of the pool, which enters
    through F'F (k, k), computed once. After each working set, one pass over the pool finds the
    points that violate the conditions

        2 |row i of K (I - A)| = 2 lambda sqrt(F_i N F_i') <= lambda,

    and these replace points that are not active, until no point violates them. The result is the
    minimum over the whole pool, to the same tolerance. Points outside the last working set have
    size 0 in the origin that is returned, and sqrt(eps) in the point after it; the differences of
    past steps are not returned.
    """
    pool, penalty, eps = problem.pool, problem.penalty, problem.eps
    n, k, dtype = pool.num_points, pool.num_kernels * pool.values.shape[2], pool.dtype
    m = max(4096, k**2)  # points of a working set
    of = partial(iterate, weights=weights, max_iterations=max_iterations)
    if pool.gram is not None or n < WORTH * m or not accelerate or steps > 1:
        return of(problem, accelerate=accelerate, steps=steps)
    products = F, inner = reconstruction.products_of(pool)
    diagonals = reconstruction.diagonals_of(pool)  # (P, n)

    def going(state: tuple) -> jax.Array:
        return ~state[0].converged & (state[0].turn < max_iterations)

    def turn(state: tuple) -> tuple:
        # the descent so far; priorities (n,), which select the working set; initial sizes (n,)
        past, priority, start = state
        rows = jnp.sort(jax.lax.top_k(priority, m)[1].astype(jnp.int32))
        end = of(
            problem._replace(pool=Pool(None, pool.features[:, rows])),
            products=(F[rows], inner),
            start=jnp.concatenate([start[rows], past.move.point[n:]]),
            limit=jnp.minimum(STEPS_OF_SET, max_iterations - past.turn),
        )
        origin, w = end.origin[:m], end.origin[m:] / jnp.sum(end.origin[m:])
        sizes = jnp.full((n,), jnp.sqrt(eps)).at[rows].set(end.move.point[:m])
        _, N, scales = reconstruction.factored((F[rows], inner), w, 2 * origin, penalty)
        slopes = jnp.sqrt(jnp.maximum(reconstruction.forms(F, N * scales), 0))
        outside = jnp.max(2 * slopes, where=jnp.ones((n,), bool).at[rows].set(False), initial=0)
        # half of the norm that the row would get if this point alone joined
        gain = penalty * jnp.maximum(2 * slopes - 1, 0) / 4
        alone = gain / jnp.maximum(dot(w**2, diagonals), jnp.finfo(dtype).tiny)
        # steps of a working set that do not yet lower the objective repeat its last value
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

    first = of(problem, products=products, limit=min(STEPS_OF_ALL, max_iterations))
    first, sizes = first._replace(points=None, images=None), first.move.point[:n]
    return jax.lax.while_loop(going, turn, (first, sizes, sizes))[0]


@partial(jax.jit, static_argnames=("max_iterations", "accelerate", "steps"))
def solve(
    weights: jax.Array,
    problem: Problem,
    *,
    max_iterations: int,
    accelerate: bool = True,
    steps: int = 1,
) -> Design:
    """The design from initial weights; with one kernel, that of CTED."""
    pool, n = problem.pool, problem.pool.num_points
    end = by_working_sets(problem, weights, max_iterations, accelerate, steps)
    before, floor = end.origin[n:] / jnp.sum(end.origin[n:]), 2 * jnp.sqrt(problem.eps)
    products = reconstruction.products_of(pool) if steps > 1 else ()
    sizes = before_last(pool, products, before, end.origin[:n], problem, steps)
    scores = reconstruction.row_sums(pool, before, 2 * sizes, problem.penalty, floor)
    # without coefficients e_t = tr K_t, and sum_t w_t² e_t is least for w_t ~ 1 / e_t
    none = 1 / jnp.sum(1 / jnp.sum(reconstruction.diagonals_of(pool), axis=1))
    updated = end.move.point[n:] if pool.num_kernels > 1 else jnp.ones((1,), pool.dtype)
    return design_of(problem, end, scores, updated, none)


def start_of(
    owner: str,
    given: Numbers,
    pool: Pool,
    shapes: Sequence[tuple[int, ...]],
    wanted: str,
    exclusive: bool = False,
) -> jax.Array:
    """The checked initial weights (..., P), normalised to sum 1."""
    about = owner, "initial_weights"
    weights = as_leaf(*about, given, wanted=wanted, minimum=0.0, exclusive=exclusive, max_ndim=2)
    good = np.shape(weights) in shapes
    good = good and (is_tracer(weights) or bool((np.sum(weights, axis=-1) > 0).all()))
    require(good, *about, given, wanted)
    weights = jnp.asarray(weights, pool.dtype)
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


def cted(
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
    """Choose points with one kernel (CTED).

    Args:
      gram: the Gram matrix (n, n), symmetric and positive semi-definite.
      regularization: the penalty lambda as a share of lambda_max = 2 max_i |k_i|, with k_i the
        columns of the Gram matrix, from which on no point is chosen; a number that may be traced.
      features: features (n, r) instead of ``gram``: a kernel of low rank, for which nothing of
        size (n, n) is formed.
      num_points: the number of points to rank; all by default.
      absolute: whether ``regularization`` is lambda itself.
      tolerance: the iteration ends when a step lowers the objective by at most this share; its
        square root bounds the violation of the optimality conditions, and in ``gmkal`` and
        ``lmkal`` the share of the objective that is rounding: if digits run out, as in float32
        with a small regularization, ``converged`` is False.
      max_iterations: the largest number of steps.
      smoothing: eps, by default 1e-16 in float64 and 1e-12 in float32.
      accelerate: whether steps are extrapolated, which reaches the same minimum in fewer steps;
        with False they are those of the paper, one after the other.

    Returns:
      A :class:`Design`; the weight of its only kernel is 1.

    Raises:
      ValueError: if the Gram matrix is not symmetric, not positive semi-definite or not finite, or
        another argument is out of its range, or the regularization too small for the dtype.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import design
    >>> x = jnp.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]])
    >>> design.cted(x @ x.T, num_points=2).ranking.tolist()
    [2, 4]
    >>> design.cted(features=x, num_points=2).ranking.tolist()
    [2, 4]
    """
    pool = pool_of("cted", gram, features, stacked=False)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    found = partial(solve, equal_weights(pool), accelerate=bool(accelerate))
    return choose("cted", pool, found, largest_penalty, settings)


def gmkal(
    grams: ArrayLike | None = None,
    regularization: Number = 0.1,
    *,
    features: ArrayLike | None = None,
    num_points: int | None = None,
    absolute: bool = False,
    initial_weights: Numbers | None = None,
    tolerance: Number = 1e-5,
    max_iterations: int = 500,
    smoothing: Number | None = None,
    accelerate: bool = True,
    steps: int = 1,
) -> Design:
    """Choose points and one weight for each of several kernels (GMKAL).

    The precision is that of the input in JAX: float64 needs ``jax_enable_x64``. Other arguments,
    the result and errors are as for :func:`cted`.

    Args:
      grams: Gram matrices (P, n, n), symmetric and positive semi-definite.
      regularization: as for :func:`cted`; lambda_max is that of the consensus kernel with
        equal weights.
      features: features (P, n, r) instead of ``grams``.
      initial_weights: weights (P,) to start from; by default they are equal.
      steps: the number of steps for the coefficients before each step for the weights; together
        they are one iteration. The paper takes as many as converge.

    >>> from jaxmkl import design
    >>> grams = design.dictionary([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [-2.0, -2.0]])
    >>> found = design.gmkal(grams, num_points=2)
    >>> found.ranking.shape, found.kernel_weights.shape, bool(found.converged)
    ((2,), (9,), True)
    """
    pool = pool_of("gmkal", grams, features, stacked=True)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    start, P = equal_weights(pool), pool.num_kernels
    if initial_weights is not None:
        wanted = f"{P} positive numbers, one a kernel"
        start = start_of("gmkal", initial_weights, pool, [(P,)], wanted, exclusive=True)
    how = {"accelerate": bool(accelerate), "steps": as_count("gmkal", "steps", steps)}
    return choose("gmkal", pool, partial(solve, start, **how), largest_penalty, settings)
