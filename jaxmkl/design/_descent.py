"""Descent by reweighting, accelerated and kept monotone.

A reweighting method is a map x -> g(x) of positive numbers (norms of rows, weights of kernels);
each application lowers an objective. It converges linearly in the end, so a few past steps predict
its limit (Anderson, 1965): the next point is

    g_k - sum_j c_j (g_{j+1} - g_j),     c least squares for the residuals f = g - x.

Far from the minimum this predicts little, as sizes change by factors. So the first steps extend
the plain one to x (g / x)^s with s = 1, 1.5, 1.5², ..., at most 16, until one is refused. A
point that does not lower the objective is refused; then the plain step g_k follows, and the memory
of past steps is cleared. So the objective falls in every accepted step, and the iteration stops
only where the plain one does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxmkl._types import Number
from jaxmkl.design._reconstruction import dot, solver

MEMORY = 6  # past steps from which the next point is computed
REACH = 10.0  # a point lies between a tenth and ten times the plain step
LONGER, LONGEST = 1.5, 16.0  # growth of the first steps' exponent s, and its maximum


class Move(NamedTuple):
    """One application of the map."""

    point: jax.Array  # the next point (d,), positive
    objective: jax.Array  # its value there, a number
    violation: jax.Array  # the relative violation of the optimality conditions


class Descent(NamedTuple):
    """State and result of a descent."""

    origin: jax.Array  # the point (d,) at which the last accepted step started
    move: Move  # that step
    points: Any  # differences (m, d) of past origins
    images: Any  # differences (m, d) of past steps' points
    held: jax.Array  # number of these differences
    turn: jax.Array  # number of applications of the map
    length: jax.Array  # number of accepted steps
    objective: jax.Array  # history (T,), NaN after its end
    plain: jax.Array  # whether the next step is plain
    stretch: jax.Array  # s of the first steps, 0 once one was refused
    done: jax.Array  # whether to stop
    converged: jax.Array  # whether the tolerance was reached


def extrapolated(state: Descent) -> jax.Array:
    """The next point (d,) from the last steps."""
    g = state.move.point
    changes = state.images - state.points  # (m, d), zero where no difference is held
    products = dot(changes, changes.T)
    size = jnp.trace(products)
    small = 100 * jnp.finfo(g.dtype).eps ** 0.75
    filled = products + (small * size + (size == 0)) * jnp.eye(MEMORY, dtype=g.dtype)
    c = solver(filled)(dot(changes, g - state.origin))
    point = g - dot(c, state.images)
    return jnp.clip(jnp.where(jnp.isfinite(point), point, g), g / REACH, g * REACH)


def descend(
    step: Callable[[jax.Array], Move],
    start: jax.Array,
    *,
    tolerance: Number,
    max_iterations: int,
    limit: int | jax.Array | None = None,
    accelerate: bool = True,
    least: jax.Array | float = 0.0,
) -> Descent:
    """Apply a map until its objective hardly falls and its violation is small.

    It stops when an accepted step lowers the objective by at most ``tolerance`` of its value,
    with a violation of at most the square root of the tolerance; when a plain step no longer
    lowers the objective, at the limit of the precision; or after ``max_iterations`` (T) or
    ``limit`` applications, the latter a number that may be traced. The first point, ``start``
    (d,), is positive. Without ``accelerate`` all steps are plain. No step of the map leads below
    ``least`` (d,), and no accelerated step may: below it, the objective is only rounding errors.
    """
    dtype = start.dtype
    tolerance = jnp.asarray(tolerance, dtype)
    limit = max_iterations if limit is None else limit
    above, none, no = jnp.asarray(jnp.inf, dtype), jnp.asarray(0, jnp.int32), jnp.asarray(False)
    empty = jnp.zeros((MEMORY, len(start)), dtype)
    state = Descent(
        start,
        Move(start, above, above),  # as if a step from the start had led to the start
        *(empty, empty, none, none, none),
        objective=jnp.full((max_iterations,), jnp.nan, dtype),
        plain=~no,
        stretch=jnp.asarray(1, dtype),
        done=no,
        converged=no,
    )

    def turn(state: Descent) -> Descent:
        further = state.origin * (state.move.point / state.origin) ** state.stretch
        beyond = jnp.where(state.stretch > 0, further, extrapolated(state))
        x = jnp.where(state.plain, state.move.point, jnp.maximum(beyond, least))
        move = step(x)
        fall = state.move.objective - move.objective
        accepted = fall >= 0  # False for NaN
        near = (fall <= tolerance * jnp.abs(move.objective)) & accepted
        converged = near & (move.violation <= jnp.sqrt(tolerance))
        stuck = ~accepted & state.plain
        # an extended step may violate the conditions although the plain step does not
        violation = jnp.minimum(state.move.violation, move.violation)
        converged |= stuck & (violation <= jnp.sqrt(tolerance))
        # the first step has no earlier step to differ from
        slot = jnp.where(state.length == 0, MEMORY, state.held % MEMORY)
        points = state.points.at[slot].set(x - state.origin, mode="drop")
        images = state.images.at[slot].set(move.point - state.move.point, mode="drop")
        held = state.held + (state.length > 0).astype(jnp.int32)
        place = jnp.where(accepted, state.length, max_iterations)
        new, old = (x, move, points, images, held), (state.origin, state.move, empty, empty, none)
        origin, last, points, images, held = optax.tree.where(accepted, new, old)
        return Descent(
            *(origin, last, points, images, held),
            turn=state.turn + 1,
            length=state.length + accepted.astype(jnp.int32),
            objective=state.objective.at[place].set(move.objective, mode="drop"),
            plain=~accepted | (not accelerate),
            stretch=jnp.where(accepted, jnp.minimum(LONGER * state.stretch, LONGEST), 0),
            done=converged | stuck,
            converged=converged,
        )

    return jax.lax.while_loop(lambda state: ~state.done & (state.turn < limit), turn, state)
