"""LMKAL: a weight for every point and kernel, chosen together with the points.

    minimise  tr((I - A)' K_Z (I - A)) + lambda sum_i |a^i|     over A (n, n) and Z (n, P),
    K_Z = sum_t (z_t z_t') * K_t (entry by entry),  rows of Z >= 0 and of sum 1

by alternating a reweighting step for A with Z fixed, as in GMKAL, and a minimisation over Z with A
fixed. The latter minimises a quadratic form,

    f(Z) = sum_t z_t' (K_t * G) z_t,     G = (A - I)(A - I)',

over a simplex for each point, by accelerated proximal gradient steps until its Frank-Wolfe gap,
which bounds the distance of f from its minimum, is small. Equations (24) to (26) of the paper omit
Z >= 0, and its Algorithm 4 takes a step with a bound of the curvature that it has just refused;
both are corrected here. The steepness of f differs greatly between points, so lengths are measured
with m_i = max_t (K_t * G)_ii, which turns thousands of steps into a hundred and does not change
the projection of each row. As f is a quadratic form, a bound L holds for a step d of Z if
f(d) <= L/2 sum_i m_i |d^i|².

K_Z is defined on the pool alone: other points have no weights.

Reference:
  Wang, Du, Shi, Zhou, Qian and Shen, Experimental design with multiple kernels, equations (18) to
  (32), Algorithms 3 to 5.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from jaxmkl._devices import local
from jaxmkl._pytree import as_count
from jaxmkl._types import Number, Numbers
from jaxmkl.design import _reconstruction as reconstruction
from jaxmkl.design._descent import Descent
from jaxmkl.design._frame import Design, Problem, choose, design_of, iterated
from jaxmkl.design._pool import Pool, pool_of
from jaxmkl.design._reconstruction import HIGHEST, dot, equal_weights, largest_penalty, stacked
from jaxmkl.design.gmkal import before_last, solve, start_of

Form = Callable[[jax.Array], jax.Array]
# The Frank-Wolfe gap, as a share of f, at which a minimisation over weights ends, and the most
# steps it takes; if the tolerance of the whole is smaller: that tolerance, and MORE times as many.
GAP, MAX_STEPS, MORE = 1e-7, 200, 100


class Proximal(NamedTuple):
    """State of the accelerated proximal gradient."""

    Z: jax.Array  # the weights (n, P)
    Y: jax.Array  # the point (n, P) that the next step starts from
    slope: jax.Array  # the gradient (n, P) of f at Z
    value: jax.Array  # f(Z)
    momentum: jax.Array  # the paper's a_t
    curvature: jax.Array  # L, the last bound that held
    gap: jax.Array  # the Frank-Wolfe gap of Z
    turn: jax.Array  # number of steps tried


def minimised(
    f: Form,
    steepness: jax.Array,
    Z: jax.Array,
    *,
    gap: Number = GAP,
    max_steps: int | jax.Array = MAX_STEPS,
) -> Proximal:
    """Minimise a convex quadratic form f over weights (n, P) with rows on the simplex, from Z.

    Lengths are measured with the ``steepness`` m (n,) >= 0; it ends when the gap is ``gap`` f.
    """
    gap = jnp.maximum(jnp.asarray(gap, Z.dtype), 10 * jnp.finfo(Z.dtype).eps)
    gradient = jax.grad(f)
    project = jax.vmap(optax.projections.projection_simplex)

    def gap_of(slope: jax.Array, Z: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sum(slope * Z, axis=1) - jnp.min(slope, axis=1))

    one = jnp.ones((), Z.dtype)
    value, slope = f(Z), gradient(Z)
    least = 1e-6 * jnp.max(steepness) + jnp.finfo(Z.dtype).tiny
    metric = jnp.maximum(steepness, least)[:, None]
    # a lower bound of the curvature; the test below doubles it until it holds
    curvature = jnp.maximum(2 * value / jnp.sum(metric * Z**2), jnp.finfo(Z.dtype).tiny)
    first, no_turn = gap_of(slope, Z), jnp.asarray(0, jnp.int32)
    state = Proximal(Z, Z, slope, value, one, curvature, first, no_turn)

    def turn(state: Proximal) -> Proximal:
        new = project(state.Y - gradient(state.Y) / (state.curvature * metric)).astype(Z.dtype)
        step, slack = new - state.Y, 1 + 100 * jnp.finfo(Z.dtype).eps
        good = f(step) <= slack * state.curvature / 2 * jnp.sum(metric * step**2)
        slope = gradient(new)
        # Twice the decrease of f, by the quadratic form: a difference of values of f would lack
        # the digits that locate the minimum. As rows keep their sum, a number for each row may be
        # subtracted from the slopes, whose large values would lose these digits, too.
        both = state.slope + slope
        both = both - jnp.min(both, axis=1, keepdims=True)
        lower = jnp.sum(both * (state.Z - new)) >= 0
        taken = good & lower
        momentum = (1 + jnp.sqrt(1 + 4 * state.momentum**2)) / 2
        ahead = new + (state.momentum - 1) / momentum * (new - state.Z)
        # a plain step that does not lower f: the limit of the precision is reached
        stuck = good & ~lower & (state.momentum == 1)
        return Proximal(
            Z=jnp.where(taken, new, state.Z),
            Y=jnp.where(taken, ahead, jnp.where(good, state.Z, state.Y)),
            slope=jnp.where(taken, slope, state.slope),
            value=jnp.where(taken, f(new), state.value),
            momentum=jnp.where(taken, momentum, jnp.where(good, one, state.momentum)),
            curvature=jnp.where(good, state.curvature, 2 * state.curvature),
            gap=jnp.where(taken, gap_of(slope, new), state.gap),
            turn=jnp.where(stuck, max_steps, state.turn + 1),
        )

    def going(state: Proximal) -> jax.Array:
        return (state.gap > gap * state.value) & (state.turn < max_steps)

    return jax.lax.while_loop(going, turn, state)


def localized(pool: Pool, Z: jax.Array) -> Pool:
    """The pool of the one kernel K_Z."""
    if pool.gram is not None:
        K = jnp.einsum("tij,it,jt->ij", pool.gram, Z, Z, precision=HIGHEST)
        return Pool(K[None], None)
    return Pool(None, stacked(pool.features, Z)[None])


def form(pool: Pool, Z: jax.Array, d: jax.Array, penalty: jax.Array) -> tuple[Form, jax.Array]:
    """The quadratic form f of weights (n, P), and m (n,), for the A that follows from Z and d."""
    largest = jnp.max(reconstruction.diagonals_of(pool), axis=0)
    of_Z = localized(pool, Z)
    if pool.gram is not None:
        R_transposed, R = reconstruction.coefficients(of_Z.gram[0], d, penalty)
        G = dot(R, R_transposed)
        M = pool.gram * G[None]

        def of_grams(Z: jax.Array) -> jax.Array:
            return jnp.sum(jnp.einsum("tij,jt->it", M, Z, precision=HIGHEST) * Z)

        return of_grams, largest * jnp.diagonal(G)
    products = F, inner = reconstruction.products_of(of_Z)
    solved_by = reconstruction.factored(products, jnp.ones((1,), F.dtype), d, penalty)[0]

    def of_features(Z: jax.Array) -> jax.Array:
        # |(I - A')Phi|² with A = D^-1 F M^-1 F' and Phi the features at Z
        Phi = stacked(pool.features, Z)
        return jnp.sum((Phi - dot(F, solved_by(dot(F.T, Phi * d[:, None])))) ** 2)

    # G_ii = 1 - 2 A_ii + |a^i|²
    left = solved_by(F.T).T
    own = d * jnp.sum(left * F, axis=1)
    squares = d**2 * reconstruction.forms(left, inner)
    return of_features, largest * jnp.maximum(1 - 2 * own + squares, 0)


def iterate(problem: Problem, Z: jax.Array, *, steps: int = 1, **bounds: Any) -> Descent:
    """The descent on points (n + n P,) that hold the rows' sizes, then the weights.

    There are ``steps`` for A before each one for the weights; other arguments bound the descent.
    """
    pool, penalty, n = problem.pool, problem.penalty, problem.pool.num_points
    one = jnp.ones((1,), pool.dtype)
    gap = jnp.minimum(jnp.asarray(problem.tolerance, pool.dtype), GAP)
    most = jnp.where(gap < jnp.asarray(GAP, pool.dtype), MORE * MAX_STEPS, MAX_STEPS)

    def step(x: jax.Array) -> tuple[jax.Array, ...]:
        sizes, Z = parts(x, n)
        of_Z = localized(pool, Z)
        products = reconstruction.products_of(of_Z)
        sizes = before_last(of_Z, products, one, sizes, problem, steps)
        norms, (error,), _ = reconstruction.reconstruct(of_Z, products, one, 2 * sizes, penalty)
        f, steepness = form(pool, Z, 2 * sizes, penalty)
        best = minimised(f, steepness, Z, gap=gap, max_steps=most)
        return norms, best.value, best.Z.ravel(), jnp.abs(f(Z) - error)  # the last: lost digits

    start = jnp.concatenate([jnp.ones((n,), pool.dtype), Z.ravel()])
    return iterated(problem, step, start, **bounds)


def parts(x: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Sizes (n,) and weights (n, P), rows of sum 1, of a point of the iteration."""
    Z = x[n:].reshape(n, -1)
    return x[:n], Z / jnp.sum(Z, axis=1, keepdims=True)


@partial(jax.jit, static_argnames=("max_iterations", "accelerate", "steps"))
def _solve(
    Z: jax.Array, problem: Problem, *, max_iterations: int, accelerate: bool, steps: int
) -> Design:
    pool, n = problem.pool, problem.pool.num_points
    end = iterate(problem, Z, max_iterations=max_iterations, accelerate=accelerate, steps=steps)
    (sizes, before), weights = parts(end.origin, n), parts(end.move.point, n)[1]
    one, of_before = jnp.ones((1,), pool.dtype), localized(pool, before)
    products = reconstruction.products_of(of_before) if steps > 1 else ()
    sizes = before_last(of_before, products, one, sizes, problem, steps)
    scores = reconstruction.row_sums(of_before, one, 2 * sizes, problem.penalty)
    # without coefficients point i adds sum_t z_it² K_t(i, i), least for z_it ~ 1 / K_t(i, i)
    diagonals = reconstruction.diagonals_of(pool)
    smallest = jnp.min(diagonals, axis=0, keepdims=True)
    shares = jnp.where(diagonals > 0, smallest / diagonals, 1)
    none = jnp.sum(smallest / jnp.sum(shares, axis=0, keepdims=True))
    return design_of(problem, end, scores, weights, none)


def lmkal(
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
    """Choose points and, for each point of the pool, a weight for each kernel (LMKAL).

    Other arguments, the result and errors are as for :func:`gmkal`, but weights are (n, P).

    Args:
      tolerance: as for :func:`gmkal`. The minimum over the weights for given coefficients is found
        to 1e-7 of its value, or to the tolerance if that is smaller.
      initial_weights: weights (P,) or (n, P) to start from, by default the final weights of
        :func:`jaxmkl.design.gmkal`, so that the objective ends no higher than there; the paper
        starts from equal weights.

    >>> from jaxmkl import design
    >>> grams = design.dictionary([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [-2.0, -2.0]])
    >>> design.lmkal(grams, num_points=2).kernel_weights.shape
    (4, 9)
    """
    pool = pool_of("lmkal", grams, features, stacked=True)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    how = {"accelerate": bool(accelerate), "steps": as_count("lmkal", "steps", steps)}
    shape = pool.num_points, pool.num_kernels
    wanted = f"weights {shape[1:]} or {shape}, not negative and of positive sums"

    def from_start(problem: Problem, **static: Any) -> Design:
        given = initial_weights
        if given is None:
            given = local(solve(equal_weights(pool), problem, max_iterations=500).kernel_weights)
        start = start_of("lmkal", given, pool, [shape, shape[1:]], wanted)
        return _solve(jnp.broadcast_to(start, shape), problem, **how, **static)

    return choose("lmkal", pool, from_start, largest_penalty, settings)
