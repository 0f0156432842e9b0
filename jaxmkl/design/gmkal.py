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

from jaxmkl.design.common import (
    Design,
    Pool,
    checked_settings,
    count_active,
    default_smoothing,
    penalty_of,
    points_wanted,
    pool_of,
    ranked,
    traced,
    unless_zero,
    warn_of_few,
    without_smoothing,
)
from jaxmkl.design.descent import Descent, Move, descend
from jaxmkl.design.reconstruction import (
    diagonals_of,
    largest_penalty,
    products_of,
    reconstruct,
    row_sums,
)
from jaxmkl.design.working_set import by_working_sets, worth_it
from jaxmkl.pytree import require

__all__ = ["gmkal"]

FLOOR = 1e-12  # of the largest error


def weights_of(errors: jax.Array) -> jax.Array:
    """The weights (P,) that minimise sum_t w_t² e_t, of sum 1."""
    floored = jnp.maximum(errors, FLOOR * jnp.max(errors))
    inverse = jnp.min(floored) / floored
    return inverse / jnp.sum(inverse)


def iterate(
    pool: Pool,
    weights: jax.Array,
    penalty: jax.Array,
    smoothing: Any,
    tolerance: Any,
    *,
    max_iterations: int,
    accelerate: bool = True,
    products: Any = None,
    start: jax.Array | None = None,
    **more: Any,
) -> Descent:
    """The iteration from checked arguments.

    Its points (n + P,) are the rows' sizes sqrt(|a^i|² + eps), then the weights. The last
    coefficients are those that follow from its origin. What is given beside goes to
    :func:`jaxmkl.design.descent.descend`.
    """
    n, dtype = pool.num_points, pool.dtype
    eps = jnp.asarray(smoothing, dtype)
    products = products_of(pool) if products is None else products

    def step(x: jax.Array) -> Move:
        sizes, w = x[:n], x[n:] / jnp.sum(x[n:])
        found = reconstruct(pool, products, w, 2 * sizes, penalty)
        following = jnp.sqrt(found.norms + eps)
        updated = weights_of(found.errors)
        objective = jnp.sum(updated**2 * found.errors)
        objective += penalty * jnp.sum(following - jnp.sqrt(eps))
        # 2 |row i of K (I - A)| / lambda, by K (I - A) = lambda D A: at most 1, and 1 where a row
        # is not zero
        norms = jnp.sqrt(found.norms)
        steepness = norms / sizes
        gap = penalty * jnp.sum(norms * jnp.abs(1 - steepness)) / objective
        violation = jnp.maximum(jnp.max(steepness) - 1, gap)
        return Move(jnp.concatenate([following, updated]), objective, violation)

    if start is None:
        start = jnp.concatenate([jnp.ones((n,), dtype), weights])
    return descend(
        step,
        start,
        tolerance=tolerance,
        max_iterations=max_iterations,
        **more,
        accelerate=accelerate,
    )


@partial(jax.jit, static_argnames=("max_iterations", "num_points"))
def solve(
    pool: Pool,
    weights: jax.Array,
    penalty: jax.Array,
    smoothing: Any,
    tolerance: Any,
    *,
    max_iterations: int,
    num_points: int | None,
) -> Design:
    """The design of a pool from checked arguments; with one kernel it is that of CTED."""
    n, P = pool.num_points, pool.num_kernels
    settings = {"tolerance": tolerance, "max_iterations": max_iterations}
    if not worth_it(pool):
        end = iterate(pool, weights, penalty, smoothing, **settings)
        origin, w = end.origin[:n], end.origin[n:] / jnp.sum(end.origin[n:])
        sizes, updated = end.move.point[:n], end.move.point[n:]
        objective, converged = end.objective, end.converged
    else:

        def on_part(part: Pool, products: Any, start: jax.Array, **more: Any) -> Descent:
            more = {"products": products, "start": start, **settings, **more}
            return iterate(part, weights, penalty, smoothing, **more)

        eps = jnp.asarray(smoothing, pool.dtype)
        last = by_working_sets(on_part, pool, weights, penalty, eps, **settings)
        origin, w, sizes, updated = last.origin, last.weights, last.sizes, last.updated
        objective, converged = last.objective, last.converged
    num_active = count_active(sizes, smoothing)
    scores = row_sums(pool, w, 2 * origin, penalty, 2 * jnp.sqrt(smoothing))
    found = Design(
        scores=scores,
        ranking=ranked(scores, num_points),
        num_active=num_active,
        kernel_weights=updated if P > 1 else jnp.ones((1,), pool.dtype),
        objective=objective,
        converged=converged,
    )
    # without coefficients e_t = tr K_t, and sum_t w_t² e_t is least for w_t as 1 / e_t
    none = 1 / jnp.sum(1 / jnp.sum(diagonals_of(pool), axis=1))
    if P == 1:
        zero = penalty >= largest_penalty(pool, weights)
    else:
        eps = jnp.asarray(smoothing, pool.dtype)
        zero = none <= without_smoothing(objective, sizes, penalty, eps)
    return unless_zero(found, zero, none)


def checked_weights(owner: str, weights: Any, num_kernels: int, dtype: Any) -> jax.Array:
    """Weights (P,) to start from, of sum 1: equal ones unless others are given."""
    if weights is None:
        return jnp.full((num_kernels,), 1 / num_kernels, dtype)
    if not traced(weights):
        array = np.asarray(weights, np.float64)
        good = array.shape == (num_kernels,) and bool((np.isfinite(array) & (array > 0)).all())
        wanted = f"{num_kernels} positive numbers, one a kernel"
        require(good, owner, "initial_weights", weights, wanted)
    weights = jnp.asarray(weights, dtype)
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
    ``jax_enable_x64``.

    Args:
      grams: Gram matrices (P, n, n), symmetric and positive semi-definite.
      regularization: the penalty lambda as a share of lambda_max = 2 max_i |k_i|, k_i the columns
        of the consensus kernel with equal weights; a number that may be traced.
      features: features (P, n, r) in the place of ``grams``: kernels of low rank, for which
        nothing of size (n, n) is formed.
      num_points: how many points to rank; all by default.
      absolute: whether ``regularization`` is lambda itself.
      initial_weights: weights (P,) to start from; equal ones by default.
      tolerance: the share of the objective a last step may lower it by; its root bounds how far
        the optimality conditions may be violated.
      max_iterations: steps at most.
      smoothing: eps, 1e-16 in float64 and 1e-12 in float32 by default.

    Returns:
      A :class:`Design`.

    Raises:
      ValueError: for a Gram matrix that is not symmetric, not positive semi-definite or not
        finite, and for any other argument out of its range.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import design
    >>> x = jnp.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]])
    >>> grams = jnp.stack([x @ x.T, jnp.exp(-jnp.sum((x[:, None] - x[None]) ** 2, axis=2))])
    >>> found = design.gmkal(grams, num_points=2)
    >>> found.ranking.shape, found.kernel_weights.shape, bool(found.converged)
    ((2,), (2,), True)
    """
    pool = pool_of("gmkal", "grams", grams, features, stacked=True)
    return run(
        "gmkal",
        pool,
        regularization,
        num_points,
        absolute,
        initial_weights,
        tolerance,
        max_iterations,
        smoothing,
    )


def run(
    owner: str,
    pool: Pool,
    regularization: Any,
    num_points: int | None,
    absolute: bool,
    initial_weights: Any,
    tolerance: Any,
    max_iterations: int,
    smoothing: Any,
) -> Design:
    """Check what is left to check, and solve."""
    num_points = points_wanted(owner, num_points, pool.num_points)
    checked_settings(owner, tolerance, max_iterations, smoothing)
    weights = checked_weights(owner, initial_weights, pool.num_kernels, pool.dtype)
    equal = jnp.full((pool.num_kernels,), 1 / pool.num_kernels, pool.dtype)
    largest = largest_penalty(pool, equal)
    penalty = penalty_of(owner, regularization, absolute, largest, pool.dtype)
    found = solve(
        pool,
        weights,
        penalty,
        default_smoothing(smoothing, pool.dtype),
        tolerance,
        max_iterations=max_iterations,
        num_points=num_points,
    )
    warn_of_few(owner, num_points, found.num_active)
    return found
