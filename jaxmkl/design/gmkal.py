"""GMKAL: one consensus kernel for the whole pool, chosen together with the points.

    minimise  tr((I - A)' K_w (I - A)) + lambda sum_i |a^i|     over A (n, n) and w (P,),
    K_w = sum_t w_t² K_t,  sum_t w_t = 1,  w >= 0

by turns of one reweighting step of A and the exact step of w,

    D_ii = 1 / (2 sqrt(|a^i|² + eps)),   A = (K_w + lambda D)^-1 K_w,
    e_t = tr(K_t (I - A) (I - A)'),      w_t = (1 / e_t) / sum_s (1 / e_s),

e floored at 1e-12 of its largest. Each lowers the objective with sqrt(|a^i|² + eps) - sqrt(eps)
in the place of |a^i|. One step of A for each of w reaches what the paper's full minimisation in
A reaches. Equation (7) of the paper leaves out lambda, which is meant.

Reference:
  Wang, Du, Shi, Zhou, Qian and Shen, Experimental design with multiple kernels, equations (7) to
  (17), Algorithms 1 and 2.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._pytree import require
from jaxmkl.design._descent import Descent, Move, descend
from jaxmkl.design._frame import Design, Problem, choose, design_of, move_to
from jaxmkl.design._pool import Pool, pool_of, traced
from jaxmkl.design._reconstruction import (
    diagonals_of,
    largest_penalty,
    products_of,
    reconstruct,
    row_sums,
)
from jaxmkl.design._working_set import by_working_sets, found_of, worth_it

FLOOR = 1e-12  # of the largest error


def weights_of(errors: jax.Array) -> jax.Array:
    """The weights (P,) that minimise sum_t w_t² e_t, of sum 1."""
    floored = jnp.maximum(errors, FLOOR * jnp.max(errors))
    inverse = jnp.min(floored) / floored
    return inverse / jnp.sum(inverse)


def iterate(
    problem: Problem,
    weights: jax.Array,
    *,
    max_iterations: int,
    products: Any = None,
    start: jax.Array | None = None,
    **more: Any,
) -> Descent:
    """The iteration.

    Its points (n + P,) are the rows' sizes sqrt(|a^i|² + eps), then the weights. The last
    coefficients are those that follow from its origin. What is given beside goes to
    :func:`descend`.
    """
    pool, penalty = problem.pool, problem.penalty
    n = pool.num_points
    products = products_of(pool) if products is None else products

    def step(x: jax.Array) -> Move:
        sizes, w = x[:n], x[n:] / jnp.sum(x[n:])
        found = reconstruct(pool, products, w, 2 * sizes, penalty)
        updated = weights_of(found.errors)
        value = jnp.sum(updated**2 * found.errors)
        move = move_to(problem, sizes, found.norms, value, updated)
        # 2 |row i of K (I - A)| / lambda, by K (I - A) = lambda D A: at most 1, and 1 where a row
        # is not zero
        norms = jnp.sqrt(found.norms)
        gap = penalty * jnp.sum(norms * jnp.abs(1 - norms / sizes)) / move.objective
        return move._replace(violation=jnp.maximum(move.violation, gap))

    if start is None:
        start = jnp.concatenate([jnp.ones((n,), pool.dtype), weights])
    settings = {"tolerance": problem.tolerance, "max_iterations": max_iterations}
    return descend(step, start, **settings, **more)


@partial(jax.jit, static_argnames=("max_iterations", "num_points"))
def solve(
    weights: jax.Array, problem: Problem, *, max_iterations: int, num_points: int | None
) -> Design:
    """The design from weights to start from; with one kernel it is that of CTED."""
    pool, penalty = problem.pool, problem.penalty
    n, P = pool.num_points, pool.num_kernels
    of = partial(iterate, weights=weights, max_iterations=max_iterations)
    if worth_it(pool):
        last = by_working_sets(of, problem, max_iterations)
    else:
        last = found_of(of(problem), n)
    floor = 2 * jnp.sqrt(problem.smoothing)
    scores = row_sums(pool, last.weights, 2 * last.origin, penalty, floor)
    # without coefficients e_t = tr K_t, and sum_t w_t² e_t is least for w_t as 1 / e_t
    none = 1 / jnp.sum(1 / jnp.sum(diagonals_of(pool), axis=1))
    updated = last.updated if P > 1 else jnp.ones((1,), pool.dtype)
    zero = None if P > 1 else penalty >= largest_penalty(pool)
    return design_of(problem, num_points, last, last.sizes, scores, updated, none, zero)


def equal_weights(pool: Pool) -> jax.Array:
    """One weight (P,) for all kernels, of sum 1."""
    return jnp.full((pool.num_kernels,), 1 / pool.num_kernels, pool.dtype)


def _start(weights: Any, pool: Pool) -> jax.Array:
    """Weights (P,) to start from, of sum 1: equal ones unless others are given."""
    if weights is None:
        return equal_weights(pool)
    P = pool.num_kernels
    if not traced(weights):
        array = np.asarray(weights, np.float64)
        good = array.shape == (P,) and bool((np.isfinite(array) & (array > 0)).all())
        wanted = f"{P} positive numbers, one a kernel"
        require(good, "gmkal", "initial_weights", weights, wanted)
    weights = jnp.asarray(weights, pool.dtype)
    return weights / jnp.sum(weights)


def gmkal(
    grams: Any = None,
    regularization: Any = 0.1,
    *,
    features: Any = None,
    num_points: int | None = None,
    absolute: bool = False,
    initial_weights: Any = None,
    tolerance: Any = 1e-5,
    max_iterations: int = 500,
    smoothing: Any = None,
) -> Design:
    """Choose points and one weight for each of several kernels (GMKAL).

    The work is done in the precision of the input as JAX takes it: float64 needs
    ``jax_enable_x64``. Arguments that are not named here are those of :func:`cted`, whose errors
    are raised too.

    Args:
      grams: Gram matrices (P, n, n), symmetric and positive semi-definite.
      regularization: the penalty lambda as a share of lambda_max = 2 max_i |k_i|, k_i the columns
        of the consensus kernel with equal weights; a number that may be traced.
      features: features (P, n, r) in the place of ``grams``: kernels of low rank, for which
        nothing of size (n, n) is formed.
      initial_weights: weights (P,) to start from; equal ones by default.

    Returns:
      A :class:`Design`.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import design
    >>> x = jnp.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]])
    >>> grams = jnp.stack([x @ x.T, jnp.exp(-jnp.sum((x[:, None] - x[None]) ** 2, axis=2))])
    >>> found = design.gmkal(grams, num_points=2)
    >>> found.ranking.shape, found.kernel_weights.shape, bool(found.converged)
    ((2,), (2,), True)
    """
    pool = pool_of("gmkal", grams, features, stacked=True)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    from_start = partial(solve, _start(initial_weights, pool))
    return choose("gmkal", pool, from_start, largest_penalty, *settings)
