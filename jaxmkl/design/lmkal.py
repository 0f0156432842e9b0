"""LMKAL: a weight for every point and kernel, chosen together with the points.

    minimise  tr((I - A)' K_Z (I - A)) + lambda sum_i |a^i|     over A (n, n) and Z (n, P),
    K_Z = sum_t (z_t z_t') * K_t (entry by entry),  rows of Z >= 0 and of sum 1

by turns of A with Z fixed, as CTED, and of Z with A fixed. The latter is a quadratic form,

    f(Z) = sum_t z_t' (K_t * G) z_t,     G = (A - I)(A - I)',

over a simplex for each point, solved by accelerated proximal gradient until its Frank-Wolfe gap,
which bounds how far f is above its minimum, is small. Equations (24) to (26) of the paper leave
out Z >= 0, and its Algorithm 4 takes a step with a bound of the curvature that it has just
refused; both are put right. As f is a quadratic form, a bound L is good for a step d if
f(d) <= L/2 |d|².

K_Z is defined on the pool alone: there are no weights for other points, and none are invented.

Reference:
  Wang, Du, Shi, Zhou, Qian and Shen, Experimental design with multiple kernels, equations (18) to
  (32), Algorithms 3 to 5.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

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
    warn_of_few,
)
from jaxmkl.design.descent import Move, descend
from jaxmkl.design.gmkal import solve
from jaxmkl.design.reconstruction import (
    HIGHEST,
    coefficients,
    largest_penalty,
    products_of,
    reconstruct,
    row_sums,
    small_matrix,
    stacked,
)
from jaxmkl.pytree import require

__all__ = ["lmkal"]

GAP = 1e-7  # of f, which ends a step of Z
STEPS_OF_A, STEPS_OF_Z = 50, 1000  # at most, within one iteration


class Proximal(NamedTuple):
    """State of the accelerated proximal gradient.

    Attributes:
      Z: the weights (n, P).
      Y: where the next step starts from (n, P).
      value: f(Z).
      momentum: the paper's a_t.
      curvature: L, the bound that was good last.
      gap: the Frank-Wolfe gap of Z.
      turn: steps tried.
    """

    Z: jax.Array
    Y: jax.Array
    value: jax.Array
    momentum: jax.Array
    curvature: jax.Array
    gap: jax.Array
    turn: jax.Array


def minimised(
    f: Callable[[jax.Array], jax.Array],
    Z: jax.Array,
    *,
    gap: Any = GAP,
    max_steps: int = STEPS_OF_Z,
) -> Proximal:
    """Minimise a convex quadratic form over Z (n, P) with rows on the simplex.

    Args:
      f: the form.
      Z: the weights to start from.
      gap: the share of f the Frank-Wolfe gap is to come down to.
      max_steps: tries at most.
    """
    gradient = jax.grad(f)
    project = jax.vmap(optax.projections.projection_simplex)

    def gap_of(Z: jax.Array) -> jax.Array:
        slope = gradient(Z)
        return jnp.sum(jnp.sum(slope * Z, axis=1) - jnp.min(slope, axis=1))

    one = jnp.ones((), Z.dtype)
    value, first = f(Z), gap_of(Z)
    slope = gradient(Z)
    # f(Z) <= L/2 |Z|² holds for an upper bound; the test below raises one that is too small
    curvature = jnp.maximum(2 * value / jnp.sum(Z**2), jnp.finfo(Z.dtype).tiny)
    curvature = jnp.maximum(curvature, jnp.sqrt(jnp.sum(slope**2) / jnp.sum(Z**2)))
    state = Proximal(Z, Z, value, one, curvature, first, jnp.asarray(0, jnp.int32))

    def going(state: Proximal) -> jax.Array:
        return (state.gap > gap * state.value) & (state.turn < max_steps)

    def turn(state: Proximal) -> Proximal:
        new = project(state.Y - gradient(state.Y) / state.curvature)
        step = new - state.Y
        length = jnp.sum(step**2)
        slack = 1 + 100 * jnp.finfo(Z.dtype).eps
        good = f(step) <= slack * state.curvature / 2 * length
        value = f(new)
        lower = value <= state.value
        taken = good & lower
        momentum = (1 + jnp.sqrt(1 + 4 * state.momentum**2)) / 2
        ahead = new + (state.momentum - 1) / momentum * (new - state.Z)
        plain = state.momentum == 1
        # a plain step that does not lower f: the end of the precision
        stuck = good & ~lower & plain
        return Proximal(
            Z=jnp.where(taken, new, state.Z),
            Y=jnp.where(taken, ahead, jnp.where(good, state.Z, state.Y)),
            value=jnp.where(taken, value, state.value),
            momentum=jnp.where(taken, momentum, jnp.where(good, one, state.momentum)),
            curvature=jnp.where(good, state.curvature, 2 * state.curvature),
            gap=jnp.where(taken, gap_of(new), state.gap),
            turn=jnp.where(stuck, max_steps, state.turn + 1),
        )

    return jax.lax.while_loop(going, turn, state)


def localized(pool: Pool, Z: jax.Array) -> Pool:
    """The pool of the one kernel K_Z."""
    if pool.gram is not None:
        K = jnp.einsum("tij,it,jt->ij", pool.gram, Z, Z, precision=HIGHEST)
        return Pool(K[None], None)
    return Pool(None, stacked(pool.features, Z)[None])


def form(pool: Pool, Z: jax.Array, d: jax.Array, penalty: jax.Array) -> Callable:
    """The quadratic form f of weights (n, P), with A as it follows from Z and d."""
    if pool.gram is not None:
        R_transposed, R = coefficients(localized(pool, Z).gram[0], d, penalty)
        G = jnp.dot(R, R_transposed, precision=HIGHEST)
        M = pool.gram * G

        def of_grams(Z: jax.Array) -> jax.Array:
            return jnp.sum(jnp.einsum("tij,jt->it", M, Z, precision=HIGHEST) * Z)

        return of_grams
    F = stacked(pool.features, Z)
    k = F.shape[1]
    M = small_matrix(F, jnp.ones((k, k), F.dtype), d, penalty)
    factor = jax.lax.linalg.cholesky(M, symmetrize_input=False)
    inner = jnp.dot(F.T, F, precision=HIGHEST)

    def of_features(Z: jax.Array) -> jax.Array:
        # |Phi'(I - A)|² with A = D^-1 F M^-1 F' and Phi the features at Z
        Phi = stacked(pool.features, Z)
        shared = jnp.dot(F.T, Phi, precision=HIGHEST)
        weighted = jnp.dot(F.T, Phi * d[:, None], precision=HIGHEST)
        solved = jax.scipy.linalg.cho_solve((factor, True), weighted)
        crossed = jnp.sum(solved * shared)
        squared = jnp.sum(solved * jnp.dot(inner, solved, precision=HIGHEST))
        return jnp.sum(Phi**2) - 2 * crossed + squared

    return of_features


class Turn(NamedTuple):
    """State of LMKAL: rows' norms (n,) and weights Z (n, P) after A and Z took their turns.

    Attributes:
      sizes: sqrt(|a^i|² + eps) of the coefficients (n,).
      origin: the ones these coefficients came from (n,).
      Z: the weights the next turn starts with.
      before: the weights these coefficients were found with.
      objective: history (T,).
      length: turns so far.
      done: whether to stop.
      converged: whether that is by the tolerance.
    """

    sizes: jax.Array
    origin: jax.Array
    Z: jax.Array
    before: jax.Array
    objective: jax.Array
    length: jax.Array
    done: jax.Array
    converged: jax.Array


@partial(jax.jit, static_argnames=("max_iterations", "num_points"))
def _solve(
    pool: Pool,
    Z: jax.Array,
    penalty: jax.Array,
    smoothing: Any,
    tolerance: Any,
    *,
    max_iterations: int,
    num_points: int | None,
) -> Design:
    n, dtype = pool.num_points, pool.dtype
    eps = jnp.asarray(smoothing, dtype)
    tolerance = jnp.asarray(tolerance, dtype)
    one = jnp.ones((1,), dtype)

    def turn(state: Turn) -> Turn:
        of_Z = localized(pool, state.Z)
        products = products_of(of_Z)

        def step(x: jax.Array) -> Move:
            found = reconstruct(of_Z, products, one, 2 * x, penalty)
            following = jnp.sqrt(found.norms + eps)
            objective = found.errors[0] + penalty * jnp.sum(following - jnp.sqrt(eps))
            violation = jnp.max(jnp.sqrt(found.norms) / x) - 1
            return Move(following, objective, violation)

        end = descend(step, state.sizes, tolerance=tolerance, max_iterations=STEPS_OF_A)
        f = form(pool, state.Z, 2 * end.origin, penalty)
        best = minimised(f, state.Z)
        objective = best.value + penalty * jnp.sum(end.move.point - jnp.sqrt(eps))
        last = state.objective[jnp.maximum(state.length - 1, 0)]
        first = state.length == 0
        fall = jnp.where(first, jnp.inf, last - objective)
        accepted = fall >= 0
        converged = (fall <= tolerance * jnp.abs(objective)) & ~first
        converged &= end.move.violation <= jnp.sqrt(tolerance)
        done = ~accepted | converged

        def kept(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(accepted, new, old)

        place = jnp.where(accepted, state.length, max_iterations)
        return Turn(
            sizes=kept(end.move.point, state.sizes),
            origin=kept(end.origin, state.origin),
            Z=kept(best.Z, state.Z),
            before=kept(state.Z, state.before),
            objective=state.objective.at[place].set(objective, mode="drop"),
            length=state.length + accepted.astype(jnp.int32),
            done=done,
            converged=converged,
        )

    def going(state: Turn) -> jax.Array:
        return ~state.done & (state.length < max_iterations)

    no = jnp.asarray(False)
    ones = jnp.ones((n,), dtype)
    history = jnp.full((max_iterations,), jnp.nan, dtype)
    start = Turn(ones, ones, Z, Z, history, jnp.asarray(0, jnp.int32), no, no)
    end = jax.lax.while_loop(going, turn, start)
    num_active = count_active(end.sizes, eps)
    scores = row_sums(localized(pool, end.before), one, 2 * end.origin, penalty, num_active)
    return Design(
        scores=scores,
        ranking=ranked(scores, num_points),
        num_active=num_active,
        kernel_weights=end.Z,
        objective=end.objective,
        converged=end.converged,
    )


def _start(weights: Any, pool: Pool) -> jax.Array:
    """Checked weights (n, P) to start from."""
    shape = (pool.num_points, pool.num_kernels)
    if not traced(weights):
        array = np.asarray(weights, np.float64)
        good = array.shape in (shape, shape[1:]) and bool(np.isfinite(array).all())
        good = good and bool((array >= 0).all()) and bool((array.sum(axis=-1) > 0).all())
        wanted = f"weights {shape[1:]} or {shape}, not negative and of positive sums"
        require(good, "lmkal", "initial_weights", weights, wanted)
    Z = jnp.broadcast_to(jnp.asarray(weights, pool.dtype), shape)
    return Z / jnp.sum(Z, axis=1, keepdims=True)


def lmkal(
    grams: Any = None,
    regularization: Any = 0.1,
    *,
    features: Any = None,
    num_points: int | None = None,
    absolute: bool = False,
    initial_weights: Any = None,
    tolerance: Any = 1e-5,
    max_iterations: int = 100,
    smoothing: Any = None,
) -> Design:
    """Choose points and, for each point of the pool, a weight for each kernel (LMKAL).

    Args:
      grams: Gram matrices (P, n, n), symmetric and positive semi-definite.
      regularization: the penalty lambda as a share of lambda_max = 2 max_i |k_i|, k_i the columns
        of the consensus kernel with equal weights; a number that may be traced.
      features: features (P, n, r) in the place of ``grams``: kernels of low rank, for which
        nothing of size (n, n) is formed.
      num_points: how many points to rank; all by default.
      absolute: whether ``regularization`` is lambda itself.
      initial_weights: weights (P,) or (n, P) to start from. By default those that
        :func:`jaxmkl.design.gmkal` ends with, so that the objective is at most its.
      tolerance: the share of the objective a last turn may lower it by.
      max_iterations: turns of A and Z at most.
      smoothing: eps, 1e-16 in float64 and 1e-12 in float32 by default.

    Returns:
      A :class:`Design` with weights (n, P).

    Raises:
      ValueError: for a Gram matrix that is not symmetric, not positive semi-definite or not
        finite, and for any other argument out of its range.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import design
    >>> x = jnp.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]])
    >>> grams = jnp.stack([x @ x.T, jnp.exp(-jnp.sum((x[:, None] - x) ** 2, axis=2))])
    >>> design.lmkal(grams, num_points=2).kernel_weights.shape
    (5, 2)
    """
    pool = pool_of("lmkal", "grams", grams, features, stacked=True)
    num_points = points_wanted("lmkal", num_points, pool.num_points)
    checked_settings("lmkal", tolerance, max_iterations, smoothing)
    P = pool.num_kernels
    equal = jnp.full((P,), 1 / P, pool.dtype)
    largest = _largest_penalty(pool, equal)
    penalty = penalty_of("lmkal", regularization, absolute, largest, pool.dtype)
    smoothing = default_smoothing(smoothing, pool.dtype)
    if initial_weights is None:
        initial_weights = solve(
            pool, equal, penalty, smoothing, tolerance, max_iterations=500, num_points=None
        ).kernel_weights
    found = _solve(
        pool,
        _start(initial_weights, pool),
        penalty,
        smoothing,
        tolerance,
        max_iterations=max_iterations,
        num_points=num_points,
    )
    warn_of_few("lmkal", num_points, found.num_active)
    return found


_largest_penalty = jax.jit(largest_penalty)
