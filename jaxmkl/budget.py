"""Support on a budget: at most B support vectors for each kernel, and what goes when it is full.

Policies, on an example (x, y) that a component takes in with the coefficient c:

    RemoveRandom   one at random goes (randomized budget perceptron)
    RemoveOldest   the oldest goes
    SelfTuned      all coefficients shrink, so little that mistakes stay bounded, and the oldest
                   goes (Forgetron)
    Replace        the one goes that the new one makes up for best (BPAS, budget passive
                   aggressive, simple)
    Project        none goes, the new one is projected onto the others (Projectron)

References:
  Cavallanti, Cesa-Bianchi and Gentile (2007), Tracking the best hyperplane with a simple budget
  perceptron; Dekel, Shalev-Shwartz and Singer (2005), The Forgetron; Wang and Vucetic (2010),
  Online passive-aggressive algorithms on a budget; Orabona, Keshet and Caputo (2009), Bounded
  kernel-based online learning.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree, support
from jaxmkl.kernels import Kernel, pairwise_products

__all__ = [
    "BudgetState",
    "BudgetSupport",
    "Policy",
    "Project",
    "RemoveOldest",
    "RemoveRandom",
    "Replace",
    "SelfTuned",
]

# The order of a slot that holds no support.
_EMPTY = 2**30


class View(NamedTuple):
    """What a policy sees of a round; slots are the B settled places and the period's examples.

    Attributes:
      learned: whether kernel p takes the example in (P,).
      coefficient: with which coefficient (P,).
      coefficients: of the slots, after the component's shrinking (P, B + R).
      order: of the slots: by place or by age, empty ones last (P, B + R).
      kernel: values k_p(x, slot) (P, B + R).
      own: values k_p(slot, slot) (P, B + R).
      itself: k_p(x, x) (P,).
      oldest: order of the oldest (P,), where the budget is full.
      number: supports of kernel p (P,), int32.
      full: whether they are B (P,).
      shrink: what the component has just multiplied all coefficients by, or None.
      draw: a uniform random number (P,), or None.
      slot: the slot of the example itself.
      budget: B, a Python integer.
    """

    learned: jax.Array
    coefficient: jax.Array
    coefficients: jax.Array
    order: jax.Array
    kernel: jax.Array
    own: jax.Array
    itself: jax.Array
    oldest: jax.Array
    number: jax.Array
    full: jax.Array
    shrink: jax.Array | None
    draw: jax.Array | None
    slot: jax.Array
    budget: int


class Choice(NamedTuple):
    """What a policy decides.

    Attributes:
      inserted: whether the example becomes a support vector of kernel p (P,).
      coefficient: its coefficient (P,).
      victim: order of the one that goes where the budget is full (P,).
      coefficients: of the slots before one goes and one comes (P, B + R).
    """

    inserted: jax.Array
    coefficient: jax.Array
    victim: jax.Array
    coefficients: jax.Array


class Policy(Protocol):
    """A policy; a frozen pytree dataclass."""

    @property
    def by_age(self) -> bool:
        """Whether supports are ordered by age, or keep their place."""
        ...

    @property
    def random(self) -> bool:
        """Whether it draws."""
        ...

    def init(self, num_kernels: int, budget: int, period: int, dtype: Any) -> Any:
        """Its own state, a pytree."""
        ...

    def choose(self, state: Any, view: View) -> tuple[Choice, Any]:
        """What is to be done, and the next state."""
        ...

    def settle(self, state: Any, kernels: Kernel, rows: jax.Array, coefficients: jax.Array) -> Any:
        """The state at the start of a period, with rows (P, B, D) in order."""
        ...


class _Stateless:
    """A policy that remembers nothing."""

    random = False

    def init(self, num_kernels: int, budget: int, period: int, dtype: Any) -> tuple:
        """Nothing."""
        return ()

    def settle(self, state: Any, kernels: Kernel, rows: jax.Array, coefficients: jax.Array) -> Any:
        """Nothing."""
        return state


@pytree.dataclass
class RemoveRandom(_Stateless):
    """One at random goes, and the new one takes its place."""

    by_age = False
    random = True

    def choose(self, state: Any, view: View) -> tuple[Choice, Any]:
        """A place drawn uniformly."""
        assert view.draw is not None
        place = jnp.minimum((view.draw * view.budget).astype(jnp.int32), view.budget - 1)
        return Choice(view.learned, view.coefficient, place, view.coefficients), state


@pytree.dataclass
class RemoveOldest(_Stateless):
    """The oldest goes."""

    by_age = True

    def choose(self, state: Any, view: View) -> tuple[Choice, Any]:
        """The oldest."""
        return Choice(view.learned, view.coefficient, view.oldest, view.coefficients), state


class SelfTunedState(NamedTuple):
    """State of :class:`SelfTuned`.

    Attributes:
      deviation: Q (P,), what removals have cost so far.
      mistakes: M (P,), examples taken in, of the dtype of the data.
      victims: values f_p of the next R to go (P, R).
      gram: their kernel values among each other (P, R, R).
    """

    deviation: jax.Array
    mistakes: jax.Array
    victims: jax.Array
    gram: jax.Array


@pytree.dataclass
class SelfTuned:
    """The Forgetron's self-tuned shrinking, then the oldest goes.

    On removal of r with d = |a_r| and μ = y_r f(x_r), f with the new one in, the largest φ <= 1
    such that

        Q + (φ d)² + 2 φ d (1 - φ μ) <= 15/32 M

    All coefficients are multiplied by φ, and Q grows by what stands on the left of it. The period
    is at most the budget, so that the next to go are known at its start.
    """

    by_age = True
    random = False

    def init(self, num_kernels: int, budget: int, period: int, dtype: Any) -> SelfTunedState:
        """Nothing removed yet."""
        P, R = num_kernels, period
        return SelfTunedState(
            jnp.zeros((P,), dtype),
            jnp.zeros((P,), dtype),
            jnp.zeros((P, R), dtype),
            jnp.zeros((P, R, R), dtype),
        )

    def choose(self, state: SelfTunedState, view: View) -> tuple[Choice, SelfTunedState]:
        """Shrink where one has to go."""
        R = state.victims.shape[1]
        mistakes = state.mistakes + view.learned.astype(state.mistakes.dtype)
        coefficient = jnp.where(view.learned, view.coefficient, 0.0)
        # the values of the next to go follow every change of f
        victims = state.victims if view.shrink is None else state.victims * view.shrink
        victims = victims + coefficient[:, None] * view.kernel[:, :R]
        goes = view.learned & view.full
        here = (jnp.arange(R)[None, :] == view.oldest[:, None]) & goes[:, None]
        a = jnp.sum(jnp.where(here, view.coefficients[:, :R], 0.0), axis=1)
        mu = jnp.sign(a) * jnp.sum(jnp.where(here, victims, 0.0), axis=1)
        d = jnp.abs(a)
        phi = jnp.where(goes, _largest_shrink(d, mu, state.deviation - 15 / 32 * mistakes), 1.0)
        cost = (d * phi) ** 2 + 2 * d * phi * (1 - phi * mu)
        row = jnp.clip(view.oldest, 0, R - 1)
        gram = jnp.take_along_axis(state.gram, row[:, None, None], axis=1)[:, 0]
        removed = jnp.where(goes, phi * a, 0.0)
        victims = phi[:, None] * victims - removed[:, None] * gram
        choice = Choice(
            view.learned,
            phi * view.coefficient,
            view.oldest,
            phi[:, None] * view.coefficients,
        )
        deviation = state.deviation + jnp.where(goes, cost, 0.0)
        return choice, SelfTunedState(deviation, mistakes, victims, state.gram)

    def settle(
        self, state: SelfTunedState, kernels: Kernel, rows: jax.Array, coefficients: jax.Array
    ) -> SelfTunedState:
        """Values and kernel values of the R oldest."""
        R = state.victims.shape[1]

        def of_kernel(p: jax.Array, rows: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
            index = jnp.full((rows.shape[0],), p)
            values = support.column_values(kernels, pairwise_products(rows[:R], rows), index)
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
class Replace(_Stateless):
    """The new one takes the place of the one it makes up for best.

    With τ y the component's coefficient, the new one's is b_r = a_r k(x_r, x) / k(x, x) + τ y
    where it takes the place of x_r. The loss on the example is then the same whichever goes, and
    what f loses is a_r² (k(x_r, x_r) - k(x_r, x)² / k(x, x)). The place with the least goes, the
    first one among equals.
    """

    by_age = False

    def choose(self, state: Any, view: View) -> tuple[Choice, Any]:
        """Compare all."""
        a, k = view.coefficients, view.kernel
        itself = jnp.maximum(view.itself, jnp.finfo(k.dtype).tiny)[:, None]
        lost = a**2 * (view.own - k * (k / itself))
        lost = jnp.where((view.order < _EMPTY) & ~jnp.isnan(lost), lost, jnp.inf)
        least = jnp.min(lost, axis=1, keepdims=True)
        place = jnp.min(jnp.where(lost <= least, view.order, _EMPTY), axis=1)
        goes = (view.order == place[:, None]) & view.full[:, None]
        made_up = jnp.sum(jnp.where(goes, a * (k / itself), 0.0), axis=1)
        coefficient = view.coefficient + made_up
        inserted = view.learned & jnp.isfinite(coefficient)
        return Choice(inserted, coefficient, place, a), state


class ProjectState(NamedTuple):
    """State of :class:`Project`.

    Attributes:
      inverse: of the Gram matrix of the supports, by place (P, B, B).
      slot: where the supports are, by place (P, B), int32.
    """

    inverse: jax.Array
    slot: jax.Array


@pytree.dataclass
class Project:
    """The new one is projected onto the others where the budget is full, or where it is close.

    With d = K⁻¹ k, k = (k(x_j, x))_j, the squared distance from their span is δ = k(x, x) - k·d.
    Where δ <= threshold or the budget is full, the coefficients grow by c d; else the new one is
    taken in. δ below k(x, x) times the cube root of the dtype's precision (.005 in float32, 6e-6
    in float64) counts as 0: rounding of the inverse grows like 1/δ², and with smaller ones the
    coefficients of wide kernels are lost to it.

    Args:
      threshold: of δ, at least 0.
    """

    threshold: Any = 0.0
    by_age = False
    random = False

    def __post_init__(self) -> None:
        threshold = pytree.as_leaf(
            self,
            "threshold",
            self.threshold,
            minimum=0.0,
            wanted="a finite number of at least 0",
        )
        object.__setattr__(self, "threshold", threshold)

    def init(self, num_kernels: int, budget: int, period: int, dtype: Any) -> ProjectState:
        """No support."""
        slot = jnp.broadcast_to(jnp.arange(budget, dtype=jnp.int32), (num_kernels, budget))
        return ProjectState(
            jnp.zeros((num_kernels, budget, budget), dtype),
            jnp.array(slot),
        )

    def choose(self, state: ProjectState, view: View) -> tuple[Choice, ProjectState]:
        """Insert, or project."""
        number, full = view.number, view.full
        taken = jnp.arange(view.budget)[None, :] < number[:, None]
        k = jnp.where(taken, jnp.take_along_axis(view.kernel, state.slot, axis=1), 0.0)
        d = jnp.einsum("pij,pj->pi", state.inverse, k, precision=jax.lax.Precision.HIGHEST)
        apart = view.itself - jnp.sum(k * d, axis=1)
        floor = view.itself * float(jnp.finfo(k.dtype).eps) ** (1 / 3)
        close = apart <= jnp.maximum(jnp.asarray(self.threshold, k.dtype), floor)
        inserted = view.learned & ~full & ~close
        projected = jnp.where(view.learned & ~inserted, view.coefficient, 0.0)
        place = jnp.clip(view.order, 0, view.budget - 1)
        of_slots = jnp.take_along_axis(projected[:, None] * d, place, axis=1)
        coefficients = view.coefficients + jnp.where(view.order < _EMPTY, of_slots, 0.0)

        def grown(inverse: jax.Array) -> jax.Array:
            """The inverse with the new one in: a bordered matrix."""
            here = (jnp.arange(view.budget)[None, :] == number[:, None]).astype(k.dtype)
            border = here - d
            share = jnp.where(inserted, 1.0 / jnp.where(inserted, apart, 1.0), 0.0)
            return inverse + share[:, None, None] * border[:, :, None] * border[:, None, :]

        inverse = jax.lax.cond(jnp.any(inserted), grown, lambda same: same, state.inverse)
        new = (jnp.arange(view.budget)[None, :] == number[:, None]) & inserted[:, None]
        state = ProjectState(inverse, jnp.where(new, view.slot, state.slot))
        # where the budget is full nothing is inserted, so that none goes
        return Choice(inserted, view.coefficient, number, coefficients), state

    def settle(
        self, state: ProjectState, kernels: Kernel, rows: jax.Array, coefficients: jax.Array
    ) -> ProjectState:
        """Slots are places again."""
        places = jnp.arange(state.slot.shape[1], dtype=jnp.int32)
        return state._replace(slot=jnp.broadcast_to(places, state.slot.shape))


class BudgetCodes(NamedTuple):
    """What a block's examples are to the slots; leading axis B of examples.

    Attributes:
      slots: codes of the kernels (B, P, C + R), C the budget.
      own: values k_p(x, x), (B, P).
      rows: the examples (B, D).
      round: their rounds (B,), int32.
    """

    slots: jax.Array
    own: jax.Array
    rows: jax.Array
    round: jax.Array


class BudgetState(NamedTuple):
    """State of :class:`BudgetSupport`; C is the budget.

    Attributes:
      rows: settled supports of each kernel (P, C, D), in order.
      own: values k_p(x, x) of the slots (P, C + R).
      coefficients: of the slots (P, C + R): the settled, then the period's examples.
      order: of the slots (P, C + R): place or age; a large number where there is no support.
      arrivals: supports that came, counted on from those at the period's start (P,), int32.
      recent_rows: the period's examples so far (R, D).
      number: supports of each kernel (P,), int32.
      overflow: 0, as there is always room, int32.
      policy: the policy's own state.
    """

    rows: jax.Array
    own: jax.Array
    coefficients: jax.Array
    order: jax.Array
    arrivals: jax.Array
    recent_rows: jax.Array
    number: jax.Array
    overflow: jax.Array
    policy: Any


@pytree.dataclass
class BudgetSupport:
    """At most ``budget`` supports for each kernel.

    Args:
      budget: supports a kernel (static).
      policy: what goes when it is full.
      period: rounds after which new supports are settled, a power of two (static); at most the
        largest one within the budget.
    """

    budget: int = pytree.static()
    policy: Policy
    period: int = pytree.static(default=128)

    def __post_init__(self) -> None:
        good = isinstance(self.budget, int | np.integer) and self.budget >= 1
        pytree.require(good, self, "budget", self.budget, "an integer of at least 1")
        object.__setattr__(self, "budget", int(self.budget))
        parts = ("init", "choose", "settle")
        good = not isinstance(self.policy, type)
        good = good and all(callable(getattr(self.policy, part, None)) for part in parts)
        pytree.require(good, self, "policy", self.policy, "a policy, as RemoveOldest()")
        support.check_period(self)
        largest = 1 << (self.budget.bit_length() - 1)
        object.__setattr__(self, "period", min(self.period, largest))

    def init(self, kernels: Kernel, num_inputs: int, dtype: Any) -> BudgetState:
        """No support at all."""
        P, C, R = kernels.num_kernels, self.budget, self.period
        return BudgetState(
            rows=jnp.zeros((P, C, num_inputs), dtype),
            own=jnp.zeros((P, C + R), dtype),
            coefficients=jnp.zeros((P, C + R), dtype),
            order=jnp.full((P, C + R), _EMPTY, jnp.int32),
            arrivals=jnp.zeros((P,), jnp.int32),
            recent_rows=jnp.zeros((R, num_inputs), dtype),
            number=jnp.zeros((P,), jnp.int32),
            overflow=jnp.zeros((), jnp.int32),
            policy=self.policy.init(P, C, R, dtype),
        )

    @property
    def random(self) -> bool:
        """Whether the policy draws."""
        return self.policy.random

    def used(self, state: BudgetState) -> jax.Array:
        """None that matters: there is always room."""
        return jnp.zeros((), jnp.int32)

    def capacity_of(self, state: BudgetState) -> None:
        """None: it is never short of room."""
        return None

    def enlarged(self, state: BudgetState, capacity: int) -> BudgetState:
        """The state as it is."""
        return state

    def encode(
        self, state: BudgetState, kernels: Kernel, X: jax.Array, round: jax.Array
    ) -> BudgetCodes:
        """What the examples X (B, D) are to the slots."""
        codes, own, rows, rounds = support.encode_recent(kernels, state.recent_rows, X, round)
        P, C, D = state.rows.shape
        index = jnp.repeat(jnp.arange(P), C)
        settled = kernels.column_codes(
            pairwise_products(rows, state.rows.reshape(P * C, D)), index
        )
        settled = support.bounded_codes(kernels, settled.reshape(-1, P, C), 1)
        return BudgetCodes(jnp.concatenate([settled, codes], axis=2), own, rows, rounds)

    def values(self, state: BudgetState, kernels: Kernel, code: BudgetCodes) -> jax.Array:
        """Values f (P,) of an example."""
        return support.total(kernels, None, code.slots, state.coefficients)

    def learn(
        self,
        state: BudgetState,
        kernels: Kernel,
        code: BudgetCodes,
        proposal: support.Proposal,
    ) -> BudgetState:
        """Take the example in where it is proposed; the policy makes room for it."""
        C = self.budget
        shrink = proposal.shrink
        if shrink is not None:
            shrink = jnp.where(proposal.present, shrink, 1.0)
        slot = C + code.round % self.period
        here = jnp.arange(state.order.shape[1]) == slot
        full = state.number >= C
        view = View(
            learned=proposal.learned,
            coefficient=proposal.coefficient,
            coefficients=state.coefficients if shrink is None else shrink * state.coefficients,
            order=state.order,
            kernel=support.kernel_values(kernels, code.slots),
            own=state.own,
            itself=code.own,
            oldest=state.arrivals - C,
            number=state.number,
            full=full,
            shrink=shrink,
            draw=proposal.draw,
            slot=slot,
            budget=C,
        )
        choice, policy = self.policy.choose(state.policy, view)
        inserted = choice.inserted[:, None]
        goes = inserted & full[:, None] & (state.order == choice.victim[:, None])
        comes = inserted & here[None, :]
        place = jnp.where(full, choice.victim, state.number)
        order = state.arrivals if self.policy.by_age else place
        coefficients = jnp.where(goes, 0.0, choice.coefficients)
        came = choice.inserted.astype(jnp.int32)
        return state._replace(
            own=jnp.where(comes, code.own[:, None], state.own),
            coefficients=jnp.where(comes, choice.coefficient[:, None], coefficients),
            order=jnp.where(comes, order[:, None], jnp.where(goes, _EMPTY, state.order)),
            arrivals=state.arrivals + came,
            number=jnp.minimum(state.number + came, C),
            policy=policy,
        )

    def fold(
        self,
        state: BudgetState,
        kernels: Kernel,
        codes: BudgetCodes,
        round: jax.Array,
        shrinks: bool,
    ) -> BudgetState:
        """Keep the block's rows; at the end of a period settle the supports, in order."""
        recent = support.fold_rows(state.recent_rows, codes.rows, codes.round, round)
        state = state._replace(recent_rows=recent)
        C = self.budget

        def settled(state: BudgetState) -> BudgetState:
            slot = jnp.argsort(state.order, axis=1)[:, :C]
            old = jnp.take_along_axis(state.rows, jnp.minimum(slot, C - 1)[:, :, None], axis=1)
            new = state.recent_rows[jnp.maximum(slot - C, 0)]
            taken = jnp.arange(C)[None, :] < state.number[:, None]
            rows = jnp.where((slot < C)[:, :, None], old, new)
            rows = jnp.where(taken[:, :, None], rows, 0.0)

            def kept(values: jax.Array) -> jax.Array:
                values = jnp.where(taken, jnp.take_along_axis(values, slot, axis=1), 0.0)
                return jnp.pad(values, ((0, 0), (0, self.period)))

            coefficients = kept(state.coefficients)
            places = jnp.arange(C + self.period, dtype=jnp.int32)[None, :]
            return BudgetState(
                rows=rows,
                own=kept(state.own),
                coefficients=coefficients,
                order=jnp.where(places < state.number[:, None], places, _EMPTY),
                arrivals=state.number,
                recent_rows=jnp.zeros_like(state.recent_rows),
                number=state.number,
                overflow=state.overflow,
                policy=self.policy.settle(state.policy, kernels, rows, coefficients[:, :C]),
            )

        return jax.lax.cond(round % self.period == 0, settled, lambda same: same, state)
