"""Evictions: how a kernel makes room when its budget of support vectors is full.

An eviction receives an example (x, y) that a model adds with the coefficient c.

References:
  Cavallanti, Cesa-Bianchi and Gentile (2007), Tracking the best hyperplane with a simple budget
  perceptron; Dekel, Shalev-Shwartz and Singer (2005), The Forgetron; Zhao, Wang, Wu, Jin and Hoi
  (2012), Fast bounded online gradient descent algorithms for scalable kernel-based online
  learning; Wang and Vucetic (2010), Online passive-aggressive algorithms on a budget; Orabona,
  Keshet and Caputo (2009), Bounded kernel-based online learning.
"""

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number, PyTree
from jaxmkl.kernels import Kernel
from jaxmkl.models.supports.protocol import reach_of_all, reach_of_sums
from jaxmkl.models.supports.tiles import column_values

_HIGHEST = jax.lax.Precision.HIGHEST
# The order of a slot that holds no support.
EMPTY = 2**30


class View(NamedTuple):
    """The arguments of an eviction; slots are B settled places and the period's examples."""

    learned: jax.Array
    """A mask of the kernels that add the example (P,)."""
    coefficient: jax.Array
    """Its coefficient (P,)."""
    coefficients: jax.Array
    """Coefficients of the slots, after the decay (P, B + R)."""
    order: jax.Array
    """Order of the slots, by place or by age, empty ones last (P, B + R)."""
    kernel: jax.Array
    """Values k_p(x, slot) (P, B + R)."""
    own: jax.Array
    """Values k_p(slot, slot) (P, B + R)."""
    itself: jax.Array
    """k_p(x, x) (P,)."""
    oldest: jax.Array
    """Order of the oldest (P,), where the budget is full."""
    number: jax.Array
    """Supports of kernel p (P,), int32."""
    full: jax.Array
    """A mask of the kernels whose budget is full (P,)."""
    decay: jax.Array | None
    """The factor by which all coefficients have just been multiplied (P,), or None."""
    draw: jax.Array | None
    """A uniform random number (P,), or None."""
    slot: jax.Array
    """The slot of the example itself."""
    budget: int
    """B, a Python integer."""


class Choice(NamedTuple):
    """The decision of an eviction."""

    inserted: jax.Array
    """A mask of the kernels for which the example becomes a support vector (P,)."""
    coefficient: jax.Array
    """Its coefficient (P,)."""
    victim: jax.Array
    """Order of the support that is removed where the budget is full (P,)."""
    coefficients: jax.Array
    """Coefficients of the slots, before one support is removed and one added (P, B + R)."""


class Eviction(abc.ABC):
    """The base of all evictions: frozen pytree dataclasses."""

    by_age: bool = False
    """True if supports are ordered by age; otherwise each keeps its place."""
    random: bool = False
    """True if ``step`` draws random numbers."""

    def init(self, num_kernels: int, budget: int, period: int, dtype: DTypeLike) -> PyTree:
        """The state of the eviction, a pytree."""
        return ()

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array | None:
        """How large |f| can be, as :meth:`jaxmkl.models.supports.Store.reach` says."""
        return None

    @abc.abstractmethod
    def step(self, state: PyTree, view: View) -> tuple[PyTree, Choice]:
        """The next state, and the decision of a round."""

    def close(
        self, state: PyTree, kernels: Kernel, rows: jax.Array, coefficients: jax.Array
    ) -> PyTree:
        """The state at the start of a period, with the supports (P, B, D) in order."""
        return state


class _Removal(Eviction):
    """The base of evictions that remove supports: |f| is at most the sum of all steps."""

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array:
        return reach_of_all(step, rounds)


def _drawn(view: View) -> jax.Array:
    """A place (P,) drawn at random."""
    place = (jnp.asarray(view.draw) * view.budget).astype(jnp.int32)
    return jnp.minimum(place, view.budget - 1)


@pytree.dataclass
class RemoveRandom(_Removal):
    """Remove a support drawn at random (randomized budget perceptron); the new one replaces it."""

    random = True

    def step(self, state: PyTree, view: View) -> tuple[PyTree, Choice]:
        return state, Choice(view.learned, view.coefficient, _drawn(view), view.coefficients)


@pytree.dataclass
class RemoveUnbiased(Eviction):
    """Remove a support drawn at random, and enlarge the others so that f keeps its mean.

    Support j is removed with probability p_j, and a_j <- a_j / (1 - p_j) where it is kept. So the
    mean of a_j over the draw is what it was. Uniform removal is that of bounded online gradient
    descent (BOGD); removal by size that of BOGD++:

        uniform      p_j = 1/B                    each coefficient is multiplied by B / (B - 1)
        by size      p_j = 1 - (B - 1) s_j / Σ s,    s_j = |a_j| sqrt(k(x_j, x_j))

    Where some s_j exceeds Σ s / (B - 1) its p_j is 0, and those of the others are divided by their
    sum. The new support takes the place of the one removed.

    Args:
      by_size: whether small supports are removed more often (static).
      largest: a bound on the absolute values of the enlarged coefficients, in the paper γ η for a
        step size η; None for no bound.

    >>> RemoveUnbiased(largest=0.4).largest
    0.4
    """

    by_size: bool = pytree.flag(default=False)
    largest: Number | None = pytree.positive(default=None, optional=True)
    random = True

    def step(self, state: PyTree, view: View) -> tuple[PyTree, Choice]:
        uniform = jnp.full_like(view.coefficients, 1 / view.budget)
        p, victim = self._by_size(view) if self.by_size else (uniform, _drawn(view))
        kept = view.coefficients / jnp.where(p < 1, 1 - p, 1.0)
        if self.largest is not None:
            bound = jnp.asarray(self.largest, kept.dtype)
            kept = jnp.clip(kept, -bound, bound)
        makes_room = (view.learned & view.full)[:, None]
        coefficients = jnp.where(makes_room, kept, view.coefficients)
        return state, Choice(view.learned, view.coefficient, victim, coefficients)

    def _by_size(self, view: View) -> tuple[jax.Array, jax.Array]:
        """Probabilities (P, B + R) of the slots by their sizes, and the place (P,) drawn."""
        B, held = view.budget, view.order < EMPTY
        size = jnp.where(held, jnp.abs(view.coefficients) * jnp.sqrt(view.own), 0.0)
        total = jnp.sum(size, axis=1, keepdims=True)
        # sizes that are all 0 are equal
        share = jnp.where(total > 0, size / jnp.where(total > 0, total, 1.0), 1 / B)
        p = jnp.where(held, jnp.maximum(1 - (B - 1) * share, 0.0), 0.0)
        p = p / jnp.sum(p, axis=1, keepdims=True)
        # by place, which unlike the slots does not depend on the period
        kernels = jnp.arange(len(p), dtype=jnp.int32)[:, None]
        placed = jnp.zeros((len(p), B), p.dtype).at[kernels, view.order].set(p, mode="drop")
        reached = jnp.cumsum(placed, axis=1)
        passed = reached <= jnp.asarray(view.draw)[:, None] * reached[:, -1:]
        return p, jnp.minimum(jnp.sum(passed, axis=1, dtype=jnp.int32), B - 1)


@pytree.dataclass
class RemoveOldest(_Removal):
    """Remove the oldest support."""

    by_age = True

    def step(self, state: PyTree, view: View) -> tuple[PyTree, Choice]:
        return state, Choice(view.learned, view.coefficient, view.oldest, view.coefficients)


class SelfTunedState(NamedTuple):
    """State of :class:`SelfTuned`."""

    slack: jax.Array
    """15/32 M - Q (P,), with the number M of examples taken in, and the cost Q of all removals."""
    victims: jax.Array
    """Values f_p of the next R supports to be removed (P, R)."""
    gram: jax.Array
    """Their kernel values among each other (P, R, R)."""


@pytree.dataclass
class SelfTuned(_Removal):
    """The Forgetron: shrink all coefficients, then remove the oldest support.

    When r is removed, let d = |a_r| and μ = y_r f(x_r), where f includes the new support. The
    coefficients are multiplied by the largest φ <= 1 such that

        Q + (φ d)² + 2 φ d (1 - φ μ) <= 15/32 M

    and the terms that follow Q on the left are added to it. So the number of mistakes stays
    bounded. The period is at most the budget, so that the next R supports to be removed are known
    at its start.
    """

    by_age = True

    def init(self, num_kernels: int, budget: int, period: int, dtype: DTypeLike) -> SelfTunedState:
        P, R = num_kernels, period
        shapes = (P,), (P, R), (P, R, R)
        return SelfTunedState(*(jnp.zeros(shape, dtype) for shape in shapes))

    def step(self, state: SelfTunedState, view: View) -> tuple[SelfTunedState, Choice]:
        R = state.victims.shape[1]
        slack = state.slack + 15 / 32 * view.learned.astype(state.slack.dtype)
        coefficient = jnp.where(view.learned, view.coefficient, 0.0)
        # the values of the next supports to be removed follow every change of f
        victims = state.victims if view.decay is None else state.victims * view.decay[:, None]
        victims = victims + coefficient[:, None] * view.kernel[:, :R]
        goes = view.learned & view.full
        here = (jnp.arange(R, dtype=jnp.int32)[None, :] == view.oldest[:, None]) & goes[:, None]
        a = jnp.sum(jnp.where(here, view.coefficients[:, :R], 0.0), axis=1)
        mu = jnp.sign(a) * jnp.sum(jnp.where(here, victims, 0.0), axis=1)
        d = jnp.abs(a)
        phi = jnp.where(goes, _largest_shrink(d, mu, -slack), 1.0)
        cost = (d * phi) ** 2 + 2 * d * phi * (1 - phi * mu)
        row = jnp.clip(view.oldest, 0, R - 1)
        gram = jnp.take_along_axis(state.gram, row[:, None, None], axis=1)[:, 0]
        removed = jnp.where(goes, phi * a, 0.0)
        victims = phi[:, None] * victims - removed[:, None] * gram
        shrunk, coefficients = phi * view.coefficient, phi[:, None] * view.coefficients
        choice = Choice(view.learned, shrunk, view.oldest, coefficients)
        slack = jnp.maximum(slack - jnp.where(goes, cost, 0.0), 0.0)
        return SelfTunedState(slack, victims, state.gram), choice

    def close(
        self, state: PyTree, kernels: Kernel, rows: jax.Array, coefficients: jax.Array
    ) -> PyTree:
        R = state.victims.shape[1]

        def of_kernel(p: jax.Array, rows: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
            index = jnp.full((rows.shape[0],), p)
            values = column_values(kernels, rows[:R], rows, index)
            return jnp.sum(values * a[None, :], axis=1), values[:, :R]

        victims, gram = jax.vmap(of_kernel)(jnp.arange(rows.shape[0]), rows, coefficients)
        return state._replace(victims=victims, gram=gram)


def _largest_shrink(d: jax.Array, mu: jax.Array, excess: jax.Array) -> jax.Array:
    """The largest φ in [0, 1] with (φ d)² + 2 φ d (1 - φ μ) + excess <= 0, for excess <= 0."""
    a, b = d**2 - 2 * d * mu, 2 * d
    root = jnp.sqrt(jnp.maximum(b**2 - 4 * a * excess, 0.0))
    quadratic = (root - b) / (2 * jnp.where(a == 0, 1.0, a))
    linear = -excess / jnp.where(b == 0, 1.0, b)
    phi = jnp.where(a == 0, linear, quadratic)
    return jnp.where(a + b + excess <= 0, 1.0, jnp.clip(phi, 0.0, 1.0))


@pytree.dataclass
class Replace(_Removal):
    """The new support replaces the one for which it compensates best (BPAS-simple).

    With the proposed coefficient τ y, the new support gets the coefficient b_r = a_r k(x_r, x) /
    k(x, x) + τ y in the place of x_r. The loss on the example is then the same whichever support
    is removed; the one whose removal changes f least, by a_r² (k(x_r, x_r) - k(x_r, x)² / k(x,
    x)), is chosen, the first of several.
    """

    def step(self, state: PyTree, view: View) -> tuple[PyTree, Choice]:
        a, k = view.coefficients, view.kernel
        itself = jnp.maximum(view.itself, jnp.finfo(k.dtype).tiny)[:, None]
        lost = a**2 * (view.own - k * (k / itself))
        lost = jnp.where((view.order < EMPTY) & ~jnp.isnan(lost), lost, jnp.inf)
        least = jnp.min(lost, axis=1, keepdims=True)
        place = jnp.min(jnp.where(lost <= least, view.order, EMPTY), axis=1)
        goes = (view.order == place[:, None]) & view.full[:, None]
        made_up = jnp.sum(jnp.where(goes, a * (k / itself), 0.0), axis=1)
        coefficient = view.coefficient + made_up
        inserted = view.learned & jnp.isfinite(coefficient)
        return state, Choice(inserted, coefficient, place, a)


class ProjectState(NamedTuple):
    """State of :class:`Project`."""

    basis: jax.Array
    """L⁻¹ (P, B, B), with the Gram matrix L L' of the supports, by place: lower triangular."""
    slot: jax.Array
    """Slots of the supports, by place (P, B), int32."""


def _projected(basis: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The coefficients d (..., B) of projections, and |M k|² (...); M is the basis (..., B, B)."""
    along = jnp.einsum("...ij,...j->...i", basis, k, precision=_HIGHEST)
    d = jnp.einsum("...ij,...i->...j", basis, along, precision=_HIGHEST)
    return d, jnp.sum(along**2, axis=-1)


def _no_projection(basis: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros_like(k), jnp.zeros_like(k[..., 0])


def _projected_at_once(
    basis: jax.Array, k: jax.Array, learned: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Projections (P, B) of all kernels, if any of them has learned (P,)."""
    return jax.lax.cond(jnp.any(learned), _projected, _no_projection, basis, k)


def _projected_in_turn(
    basis: jax.Array, k: jax.Array, learned: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Projections (P, B) of the kernels that have learned (P,), one after the other."""

    def one(p: jax.Array) -> tuple[jax.Array, jax.Array]:
        # inside the branches: a kernel that has not learned copies nothing
        of_p, none = (lambda: _projected(basis[p], k[p])), (lambda: _no_projection(basis, k[0]))
        return jax.lax.cond(learned[p], of_p, none)

    return jax.lax.map(one, jnp.arange(len(learned)))


_DEPENDENT = 6e-6
"""The share below which what is left of a projection counts as rounding, see :class:`Project`."""


@pytree.dataclass
class Project(Eviction):
    """The Projectron: no support is removed, the new one is projected onto the others.

    With d = K⁻¹ k, k = (k(x_j, x))_j, the squared distance from their span is δ = k(x, x) - k·d.
    If δ <= threshold or the budget is full, c d is added to the coefficients; otherwise the new
    support is added.

    K itself is not inverted: with K = L L', the rows of M = L⁻¹ are the coefficients of an
    orthonormal basis of the span, so that

        d = M'(M k),   δ = k(x, x) - |M k|²,   a new support appends the row (-d, 1) / sqrt(δ)

    Rows that were written never change, and their errors grow like 1/sqrt(δ). (Those of an inverse
    that is grown by rank-one updates grow like 1/δ², and in single precision f diverges.) And a
    support that is nearly a combination of the others, or one of large d, would need coefficients
    so large that f were rounded away. So, in either precision,

        δ <= 6e-6 (k(x, x) + Σ_j d_j² k(x_j, x_j))

    counts as 0. Hence the trace of K⁻¹ is at most B / 6e-6, for kernels with k(x, x) = 1.

    Args:
      threshold: the largest δ that is projected, at least 0.
    """

    threshold: Number = pytree.nonnegative(default=0.0)

    def init(self, num_kernels: int, budget: int, period: int, dtype: DTypeLike) -> ProjectState:
        slot = jnp.broadcast_to(jnp.arange(budget, dtype=jnp.int32), (num_kernels, budget))
        return ProjectState(jnp.zeros((num_kernels, budget, budget), dtype), jnp.array(slot))

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array:
        return reach_of_sums(step, rounds)

    def step(self, state: ProjectState, view: View) -> tuple[ProjectState, Choice]:
        P, number = len(view.number), view.number
        places = jnp.arange(view.budget, dtype=jnp.int32)[None, :]
        k = jnp.take_along_axis(view.kernel, state.slot, axis=1)
        k = jnp.where(places < number[:, None], k, 0.0)

        # most examples are not learned, and need no projection
        given = state.basis, k, view.learned
        on_cpu = _projected_in_turn if P > 1 else _projected_at_once
        d, explained = jax.lax.platform_dependent(*given, cpu=on_cpu, default=_projected_at_once)
        place = jnp.clip(view.order, 0, view.budget - 1)
        of_slots = jnp.take_along_axis(d, place, axis=1)
        of_slots = jnp.where(view.order < EMPTY, of_slots, 0.0)
        apart = view.itself - explained
        rounding = _DEPENDENT * (view.itself + jnp.sum(of_slots**2 * view.own, axis=1))
        close = apart <= jnp.maximum(jnp.asarray(self.threshold, k.dtype), rounding)
        inserted = view.learned & ~view.full & ~close
        moved = jnp.where(view.learned & ~inserted, view.coefficient, 0.0)
        coefficients = view.coefficients + moved[:, None] * of_slots
        new = (places == number[:, None]) & inserted[:, None]
        row = (new.astype(k.dtype) - d) * jax.lax.rsqrt(jnp.where(inserted, apart, 1.0))[:, None]
        # a place behind the last is none: no row is written
        at = jnp.where(inserted, number, view.budget)
        basis = state.basis.at[jnp.arange(P), at].set(row, mode="drop")
        state = ProjectState(basis, jnp.where(new, view.slot, state.slot))
        # where the budget is full nothing is inserted, so that none is removed
        return state, Choice(inserted, view.coefficient, number, coefficients)

    def close(
        self, state: PyTree, kernels: Kernel, rows: jax.Array, coefficients: jax.Array
    ) -> PyTree:
        places = jnp.arange(state.slot.shape[1], dtype=jnp.int32)
        return state._replace(slot=jnp.broadcast_to(places, state.slot.shape))
