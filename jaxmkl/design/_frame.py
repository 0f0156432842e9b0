"""The parts that all methods share: result, settings, penalty, iteration and ranking.

Shapes: n points of the pool, P kernels, r features of each, at most T iterations.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import is_tracer, warn_outside
from jaxmkl._pytree import as_count, as_leaf, require
from jaxmkl._types import Number, PyTree
from jaxmkl.design._descent import Descent, Move, descend
from jaxmkl.design._pool import Pool

# A row of the coefficients is active if it exceeds this share of the largest row.
ACTIVE = 1e-4
as_positive = partial(as_leaf, wanted="positive and finite", minimum=0.0, exclusive=True)


class Design(NamedTuple):
    """The points of a pool to label, and how they were found.

    Attributes:
      scores: a number for each point (n,), the larger the better: the sum of the absolute
        values of its row of coefficients, with which all points are reconstructed.
      ranking: indices of the points (p,), best first; ties are ranked by index.
      num_active: the number of points whose row does not vanish. Points further down the ranking
        are unranked: their order means nothing.
      kernel_weights: the weights w (P,) of the kernels, of sum 1; (n, P) if localized.
      objective: the objective after each iteration (T,), falling; NaN after the last one.
      converged: whether the iteration reached its tolerance, a boolean.
    """

    scores: jax.Array
    ranking: jax.Array
    num_active: jax.Array
    kernel_weights: jax.Array
    objective: jax.Array
    converged: jax.Array


class Problem(NamedTuple):
    """An objective to minimise, and its precision."""

    pool: Pool
    penalty: jax.Array  # lambda, a number
    eps: jax.Array  # the smoothing
    tolerance: Number
    largest: Number = float("inf")  # the smallest penalty with which no point is chosen


Settings = tuple[int | None, Number, bool, Number, int, Number | None]


def choose(
    owner: str,
    pool: Pool,
    solve: Callable[..., Design],
    largest_penalty: Callable[[Pool], jax.Array],
    settings: Settings,
    degree: float = 1.0,
) -> Design:
    """Check the settings of ``owner``, solve a problem, and warn of meaningless results.

    The objective and the penalty of kernels c K are those of K times c to the power ``degree``.
    """
    num_points, regularization, absolute, tolerance, max_iterations, smoothing = settings
    num_points = points_wanted(owner, num_points, pool.num_points)
    as_leaf(owner, "tolerance", tolerance, wanted="at least 0 and finite", minimum=0.0)
    as_count(owner, "max_iterations", max_iterations)
    if smoothing is None:
        smoothing = 1e-16 if jnp.finfo(pool.dtype).bits == 64 else 1e-12
    as_positive(owner, "smoothing", smoothing)
    bound, unit = largest_penalty(pool), pool.unit**degree
    penalty = penalty_of(owner, regularization, absolute, bound, unit)
    if not is_tracer(penalty, bound) and float(penalty) >= float(bound):
        given, largest = float(penalty * unit), float(bound * unit)
        text = f"{float(regularization):.4g} makes a penalty of {given:.4g}, which is at "
        text += f"or above lambda_max = {largest:.4g}: all coefficients vanish (of several "
        text += "kernels: while their weights are equal) and the ranking means nothing"
        warn_outside(f"{owner}: regularization {text}", UserWarning)
    problem = Problem(pool, penalty, jnp.asarray(smoothing, pool.dtype), tolerance, bound)
    found = solve(problem, max_iterations=max_iterations)
    if not is_tracer(found.objective):
        wanted = f"larger, as {pool.dtype} has too few digits for it (see jax_enable_x64)"
        good = not jnp.isnan(found.objective[0])
        require(good, owner, "regularization", regularization, wanted)
    few = num_points is not None and not is_tracer(found.num_active)
    if few and int(found.num_active) < num_points:  # type: ignore[operator]
        text = f"{num_points}, but only {int(found.num_active)} points are active: the others are "
        text += "unranked; a smaller regularization has more, and ted ranks any number"
        warn_outside(f"{owner}: num_points is {text}", UserWarning)
    return found._replace(ranking=found.ranking[:num_points], objective=found.objective * unit)


def points_wanted(
    owner: str, num_points: int | None, most: int, why: str = "the size of the pool"
) -> int | None:
    """The checked number p of points to choose, or None to rank all."""
    if num_points is None:
        return None
    whole = isinstance(num_points, int | np.integer) and not isinstance(num_points, bool)
    wanted = f"an integer from 1 to {most}, {why}"
    require(whole and 1 <= num_points <= most, owner, "num_points", num_points, wanted)
    return int(num_points)


def penalty_of(
    owner: str, regularization: Number, absolute: bool, largest: jax.Array, unit: Number
) -> jax.Array:
    """The penalty: ``regularization`` / ``unit`` if ``absolute``, else a share of ``largest``."""
    given = jnp.asarray(as_positive(owner, "regularization", regularization), largest.dtype)
    return given / unit if absolute else given * largest


def iterated(
    problem: Problem,
    step: Callable[[jax.Array], tuple[jax.Array, ...]],
    start: jax.Array,
    **bounds: Any,
) -> Descent:
    """The descent on the rows' sizes sqrt(|a^i|² + eps), followed by any other numbers.

    From a point, ``step`` computes the squared norms (n,) of the rows, the objective without its
    penalty, the other numbers, and any duality gap. The last coefficients follow from the origin.
    All other arguments are passed to :func:`descend`.
    """

    def move(x: jax.Array) -> Move:
        norms, value, others, *gap = step(x)
        sizes = jnp.sqrt(norms + problem.eps)
        objective = value + problem.penalty * jnp.sum(sizes - jnp.sqrt(problem.eps))
        violation = jnp.max(jnp.sqrt(norms) / x[: len(norms)]) - 1
        if gap:
            violation = jnp.maximum(violation, gap[0] / jnp.abs(objective))
        return Move(jnp.concatenate([sizes, others]), objective, violation)

    least = jnp.zeros_like(start).at[: problem.pool.num_points].set(jnp.sqrt(problem.eps))
    return descend(move, start, tolerance=problem.tolerance, least=least, **bounds)


def design_of(
    problem: Problem, end: Descent, scores: jax.Array, kernel_weights: jax.Array, none: jax.Array
) -> Design:
    """The design found, or the empty one, whose objective is ``none``, if that is better.

    The empty design is better, with one kernel, from the largest penalty on; with several, if the
    last objective is not less than ``none``.
    """
    sizes = end.move.point[: len(scores)]
    if kernel_weights.shape == (1,):
        zero = problem.penalty >= problem.largest
    else:
        # the last value, with |a^i| in place of sqrt(|a^i|² + eps) - sqrt(eps)
        last = end.objective[jnp.sum(jnp.isfinite(end.objective)) - 1]
        norms = jnp.sqrt(jnp.maximum(sizes**2 - problem.eps, 0))
        smoothed = sizes - jnp.sqrt(problem.eps)
        zero = none <= last + problem.penalty * jnp.sum(norms - smoothed)
    scores = jnp.where(zero, 0, scores)
    count = jnp.sum(active(sizes, problem.eps) & ~zero, dtype=jnp.int32)
    only = jnp.full_like(end.objective, jnp.nan).at[0].set(none)
    objective = jnp.where(zero, only, end.objective)
    return Design(scores, ranked(scores), count, kernel_weights, objective, zero | end.converged)


def greedily(
    gains: Callable[[Any], jax.Array],
    take: Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]],
    state: PyTree,
    *,
    steps: int,
    num_points: int | None,
) -> Design:
    """The design of points taken one after the other, each the one of largest gain.

    Args:
      gains: computes the gains (n,) of all points from the state; the gains of points taken before
        are ignored.
      take: takes a point i at step t; returns the state after it and the objective.
      state: the state of both functions before the first step.
      steps: the number of points to take; the others are ranked by the gain each alone would add.
      num_points: the length of the ranking, None for all.
    """

    def step(carry: tuple[Any, jax.Array], t: jax.Array) -> tuple[tuple, tuple]:
        state, taken = carry
        gain = gains(state)
        i = jnp.argmax(rounded(jnp.where(taken, -1.0, gain)))
        state, objective = take(state, i, t)
        return (state, taken.at[i].set(True)), (i, gain[i], objective)

    first = jax.eval_shape(gains, state)
    carry = state, jnp.zeros(first.shape, bool)
    (state, taken), (order, gain, objective) = jax.lax.scan(step, carry, jnp.arange(steps))
    scores = gains(state).at[order].set(gain)
    others = ranked(jnp.where(taken, -1.0, scores), len(scores) - steps)
    return Design(
        scores=scores,
        ranking=jnp.concatenate([order, others])[:num_points].astype(jnp.int32),
        num_active=jnp.asarray(steps, jnp.int32),
        kernel_weights=jnp.ones((1,), scores.dtype),
        objective=jax.lax.cummin(objective),
        converged=jnp.asarray(True),
    )


def rounded(scores: jax.Array) -> jax.Array:
    """The scores (n,), rounded so that rounding errors decide no tie.

    Scores become equal if they agree in the leading half of their binary digits and a few more.
    """
    digits = 32 if jnp.finfo(scores.dtype).bits == 64 else 14
    mantissa, exponent = jnp.frexp(scores)
    return jnp.ldexp(jnp.round(mantissa * 2.0**digits), exponent - digits)


def ranked(scores: jax.Array, num_points: int | None = None) -> jax.Array:
    """Indices (p,) of the largest ``rounded`` scores (n,), ties to the smaller index."""
    return jnp.argsort(-rounded(scores), stable=True)[:num_points].astype(jnp.int32)


def active(sizes: jax.Array, eps: jax.Array) -> jax.Array:
    """The mask (n,) of the rows that do not vanish, given their ``sizes`` (n,)."""
    return sizes > jnp.maximum(ACTIVE * jnp.max(sizes), 100 * jnp.sqrt(eps))
