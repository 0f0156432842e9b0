"""What the methods share: the result, the settings, the penalty, the ranking.

Shapes: n points of the pool, P kernels, r features a kernel, T iterations at most.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._pytree import as_count, as_leaf, require
from jaxmkl.design._descent import Move
from jaxmkl.design._pool import Pool, traced

# A row of the coefficients is active from this share of the largest row on.
ACTIVE = 1e-4


class Design(NamedTuple):
    """Which points of a pool to label, and how that was found.

    Attributes:
      scores: a number for each point (n,), the larger the better: the sum of the absolute
        values of its row of coefficients, what all points are reconstructed from.
      ranking: indices of the points (p,), best first; equal scores go to the smaller index.
      num_active: how many points have a row that does not vanish, a number. Points further down
        the ranking are in an order that means little.
      kernel_weights: the weights w (P,) of the kernels, of sum 1; of localized ones (n, P).
      objective: its value after each iteration (T,), falling; NaN behind the last one.
      converged: whether the iteration ended by its tolerance, a boolean.
    """

    scores: jax.Array
    ranking: jax.Array
    num_active: jax.Array
    kernel_weights: jax.Array
    objective: jax.Array
    converged: jax.Array


class Problem(NamedTuple):
    """What is minimised, and how finely."""

    pool: Pool
    penalty: Any  # lambda, a number
    smoothing: Any  # eps, a number
    tolerance: Any  # see choose

    @property
    def eps(self) -> jax.Array:
        """The smoothing in the precision of the work."""
        return jnp.asarray(self.smoothing, self.pool.dtype)


def choose(
    owner: str,
    pool: Pool,
    solve: Callable[..., Design],
    largest: Callable[[Pool], jax.Array],
    num_points: int | None,
    regularization: Any,
    absolute: bool,
    tolerance: Any,
    max_iterations: int,
    smoothing: Any,
) -> Design:
    """Check the settings, solve, and warn of what means little.

    Args:
      owner: the function that was called, for messages.
      pool: the checked kernels.
      solve: from the problem, and by name ``max_iterations`` and ``num_points``, to the design.
      largest: from the pool to the penalty from which on no point is chosen.
      num_points: this and the others: see :func:`jaxmkl.design.cted`.
    """
    num_points = points_wanted(owner, num_points, pool.num_points)
    as_leaf(owner, "tolerance", tolerance, wanted="at least 0 and finite", minimum=0.0)
    as_count(owner, "max_iterations", max_iterations)
    if smoothing is None:
        smoothing = 1e-16 if jnp.finfo(pool.dtype).bits == 64 else 1e-12
    _check_positive(owner, "smoothing", smoothing)
    bound = largest(pool)
    penalty = penalty_of(owner, regularization, absolute, bound)
    if not traced(penalty, bound) and float(penalty) >= float(bound):
        warnings.warn(
            f"{owner}: regularization {float(regularization):.4g} makes a penalty of "
            f"{float(penalty):.4g}, which is at or above lambda_max = {float(bound):.4g}: all "
            "coefficients vanish (of several kernels: while their weights are equal) and the "
            "ranking means nothing",
            UserWarning,
            stacklevel=3,
        )
    settings = {"max_iterations": max_iterations, "num_points": num_points}
    found = solve(Problem(pool, penalty, smoothing, tolerance), **settings)
    few = num_points is not None and not traced(found.num_active)
    if few and int(found.num_active) < num_points:  # type: ignore[operator]
        warnings.warn(
            f"{owner}: num_points is {num_points}, but only {int(found.num_active)} points are "
            "active: the order of the others means little; a smaller regularization has more",
            UserWarning,
            stacklevel=3,
        )
    return found


def points_wanted(owner: str, num_points: Any, pool_size: int) -> int | None:
    """The checked number of points p to choose; None where all are to be ranked."""
    if num_points is None:
        return None
    good = isinstance(num_points, int | np.integer) and not isinstance(num_points, bool)
    good = good and 1 <= num_points <= pool_size
    wanted = f"an integer from 1 to {pool_size}, the size of the pool"
    require(bool(good), owner, "num_points", num_points, wanted)
    return int(num_points)


def _check_positive(owner: str, argument: str, value: Any) -> None:
    as_leaf(owner, argument, value, wanted="positive and finite", minimum=0.0, exclusive=True)


def penalty_of(owner: str, regularization: Any, absolute: bool, largest: jax.Array) -> jax.Array:
    """The penalty lambda, a number.

    Args:
      owner: the function that was called, for messages.
      regularization: a share of ``largest``, or with ``absolute`` the penalty itself.
      absolute: which of the two it is.
      largest: a penalty that all others are measured by.
    """
    _check_positive(owner, "regularization", regularization)
    given = jnp.asarray(regularization, largest.dtype)
    return given if absolute else given * largest


def move_to(
    problem: Problem, sizes: jax.Array, norms: jax.Array, value: jax.Array, others: jax.Array
) -> Move:
    """The move of an iteration whose points are rows' sizes sqrt(|a^i|² + eps), then others.

    Args:
      problem: for its penalty and smoothing.
      sizes: those the rows were found from (n,).
      norms: squared norms |a^i|² of the rows (n,) that were found.
      value: the objective without its penalty.
      others: what else makes the next point (d - n,).
    """
    following = jnp.sqrt(norms + problem.eps)
    objective = value + problem.penalty * jnp.sum(following - jnp.sqrt(problem.eps))
    violation = jnp.max(jnp.sqrt(norms) / sizes) - 1
    return Move(jnp.concatenate([following, others]), objective, violation)


def design_of(
    problem: Problem,
    num_points: int | None,
    end: Any,
    sizes: jax.Array,
    scores: jax.Array,
    kernel_weights: jax.Array,
    none: jax.Array,
    zero: jax.Array | None = None,
) -> Design:
    """The design, or that of coefficients that all vanish where these are better.

    Args:
      problem: what was solved.
      num_points: how many points to rank.
      end: how the iteration ended, with ``objective`` (T,) and ``converged``.
      sizes: sqrt(|a^i|² + eps) of the rows (n,).
      scores: sums of the absolute values of the rows (n,).
      kernel_weights: the weights.
      none: the objective of no coefficients.
      zero: whether these are better; by default where ``none`` is at most the last objective.
    """
    if zero is None:
        # the last value with |a^i| for sqrt(|a^i|² + eps) - sqrt(eps)
        last = end.objective[jnp.sum(jnp.isfinite(end.objective)) - 1]
        norms = jnp.sqrt(jnp.maximum(sizes**2 - problem.eps, 0))
        smoothed = sizes - jnp.sqrt(problem.eps)
        zero = none <= last + problem.penalty * jnp.sum(norms - smoothed)
    ranking = ranked(scores, num_points)
    count = jnp.sum(active(sizes, problem.eps), dtype=jnp.int32)
    found = Design(scores, ranking, count, kernel_weights, end.objective, end.converged)
    nothing = Design(
        scores=jnp.zeros_like(scores),
        ranking=jnp.arange(len(ranking), dtype=jnp.int32),
        num_active=jnp.zeros_like(count),
        kernel_weights=kernel_weights,
        objective=jnp.full_like(end.objective, jnp.nan).at[0].set(none),
        converged=jnp.ones_like(end.converged),
    )
    return jax.tree.map(lambda a, b: jnp.where(zero, a, b), nothing, found)


def ranked(scores: jax.Array, num_points: int | None = None) -> jax.Array:
    """Indices (p,) of the largest ``scores`` (n,), ties to the smaller index.

    Scores count as equal when they agree in the leading half of their binary digits and a bit
    more, so that rounding decides no tie.

    >>> import jax.numpy as jnp
    >>> ranked(jnp.array([0.5, 2.0, 0.5, 3.0])).tolist()
    [3, 1, 0, 2]
    """
    digits = 32 if jnp.finfo(scores.dtype).bits == 64 else 14
    mantissa, exponent = jnp.frexp(scores)
    rounded = jnp.ldexp(jnp.round(mantissa * 2.0**digits), exponent - digits)
    return jnp.argsort(-rounded, stable=True)[:num_points].astype(jnp.int32)


def active(sizes: jax.Array, eps: jax.Array) -> jax.Array:
    """Which rows (n,) do not vanish, given their ``sizes`` (n,)."""
    return sizes > jnp.maximum(ACTIVE * jnp.max(sizes), 100 * jnp.sqrt(eps))
