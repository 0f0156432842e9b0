"""A store with at most B support vectors for each kernel; an eviction makes room."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, pairwise_products, scaled
from jaxmkl.models.supports import protocol
from jaxmkl.models.supports.eviction import EMPTY, Eviction, View
from jaxmkl.models.supports.protocol import Codes, Proposal, Store


class BudgetState(NamedTuple):
    """State of :class:`BudgetSupport`; C is the budget."""

    rows: jax.Array
    """Settled supports of each kernel (P, C, D), in order."""
    own: jax.Array
    """Values k_p(x, x) of the slots (P, C + R)."""
    coefficients: jax.Array
    """Coefficients of the slots (P, C + R): the settled ones, then the period's examples."""
    order: jax.Array
    """Order of the slots (P, C + R), by place or age; EMPTY where there is no support."""
    arrivals: jax.Array
    """Supports that came, counted on from the period's start (P,), int32."""
    recent_rows: jax.Array
    """The period's examples so far (R, D)."""
    number: jax.Array
    """Supports of each kernel (P,), int32."""
    overflow: jax.Array
    """Always 0, as there is always room, int32."""
    eviction: PyTree
    """The eviction's own state."""


def _within_budget(store: "BudgetSupport", name: str, value: object) -> int:
    """Check a period, and limit it to the largest power of two within the budget."""
    largest = 1 << (store.budget.bit_length() - 1)
    return min(protocol.as_period(store, name, value), largest)


@pytree.dataclass
class BudgetSupport(Store[BudgetState, Codes, jax.Array]):
    """At most ``budget`` supports for each kernel.

    Args:
      budget: C, the number of supports of a kernel (static).
      eviction: which support is removed when the budget is full.
      period: as for :class:`DenseSupport`, and so are the errors; at most the largest power of two
        within the budget.
    """

    budget: int = pytree.count()
    eviction: Eviction = pytree.part(Eviction, "an eviction, as RemoveOldest()")
    period: int = pytree.static(default=128, convert=_within_budget)

    def init(self, kernels: Kernel, num_inputs: int, dtype: DTypeLike) -> BudgetState:
        P, C, R = kernels.num_kernels, self.budget, self.period
        return BudgetState(
            rows=jnp.zeros((P, C, num_inputs), dtype),
            own=jnp.zeros((P, C + R), dtype),
            coefficients=jnp.zeros((P, C + R), dtype),
            order=jnp.full((P, C + R), EMPTY, jnp.int32),
            arrivals=jnp.zeros((P,), jnp.int32),
            recent_rows=jnp.zeros((R, num_inputs), dtype),
            number=jnp.zeros((P,), jnp.int32),
            overflow=jnp.zeros((), jnp.int32),
            eviction=self.eviction.init(P, C, R, dtype),
        )

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.eviction.random

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array | None:
        return self.eviction.reach(step, rounds)

    def encode(self, state: BudgetState, kernels: Kernel, X: jax.Array, round: jax.Array) -> Codes:
        """Codes of a block; ``recent`` those of all slots (B, P, C + R)."""
        codes = protocol.encode_recent(kernels, state.recent_rows, X, round)
        P, C, D = state.rows.shape
        # each kernel has rows of its own: one matrix of products, a kernel a column
        products = pairwise_products(codes.rows, state.rows.reshape(P * C, D), used_once=True)
        settled = kernels.column_codes(products, jnp.repeat(jnp.arange(P, dtype=jnp.int32), C))
        settled = scaled.finite(settled.reshape(-1, P, C), kernels.exponential, axis=1)
        return codes._replace(recent=jnp.concatenate([settled, codes.recent], axis=2))

    def predict(
        self, state: BudgetState, kernels: Kernel, code: Codes
    ) -> tuple[jax.Array, jax.Array]:
        """Values f (P,) of an example, and kernel values k_p(x, slot) (P, C + R)."""
        marks = kernels.exponential
        f = scaled.unpacked(code.recent, marks).weighted_sum(state.coefficients).value()
        return f, scaled.plain(code.recent, marks)

    def update(
        self, state: BudgetState, kernels: Kernel, code: Codes, aux: jax.Array, proposal: Proposal
    ) -> BudgetState:
        C, decay, old = self.budget, proposal.decay, state.coefficients
        slot = C + code.round % self.period
        here, full = jnp.arange(state.order.shape[1], dtype=jnp.int32) == slot, state.number >= C
        view = View(
            **proposal._asdict(),
            coefficients=old if decay is None else decay[:, None] * old,
            order=state.order,
            kernel=aux,
            own=state.own,
            itself=code.own,
            oldest=state.arrivals - C,
            number=state.number,
            full=full,
            slot=slot,
            budget=C,
        )
        eviction, choice = self.eviction.step(state.eviction, view)
        inserted = choice.inserted[:, None]
        goes = inserted & full[:, None] & (state.order == choice.victim[:, None])
        comes = inserted & here[None, :]
        place = jnp.where(full, choice.victim, state.number)
        order = state.arrivals if self.eviction.by_age else place
        coefficients = jnp.where(goes, 0.0, choice.coefficients)
        came = choice.inserted.astype(jnp.int32)
        return state._replace(
            own=jnp.where(comes, code.own[:, None], state.own),
            coefficients=jnp.where(comes, choice.coefficient[:, None], coefficients),
            order=jnp.where(comes, order[:, None], jnp.where(goes, EMPTY, state.order)),
            arrivals=state.arrivals + came,
            number=jnp.minimum(state.number + came, C),
            eviction=eviction,
        )

    def close(
        self, state: BudgetState, kernels: Kernel, codes: Codes, round: jax.Array, decays: bool
    ) -> BudgetState:
        state = state._replace(recent_rows=protocol.keep_rows(state.recent_rows, codes, round))
        C = self.budget

        def settled(state: BudgetState) -> BudgetState:
            # empty slots come last in order, so that the first C hold all supports
            slot = jnp.argsort(state.order, axis=1)[:, :C]
            old = jnp.take_along_axis(state.rows, jnp.minimum(slot, C - 1)[:, :, None], axis=1)
            new = state.recent_rows[jnp.maximum(slot - C, 0)]
            taken = jnp.arange(C, dtype=jnp.int32)[None, :] < state.number[:, None]
            rows = jnp.where((slot < C)[:, :, None], old, new)
            rows = jnp.where(taken[:, :, None], rows, 0.0)

            def kept(values: jax.Array) -> jax.Array:
                values = jnp.where(taken, jnp.take_along_axis(values, slot, axis=1), 0.0)
                return jnp.pad(values, ((0, 0), (0, self.period)))

            coefficients = kept(state.coefficients)
            places = jnp.arange(C + self.period, dtype=jnp.int32)[None, :]
            return state._replace(
                rows=rows,
                own=kept(state.own),
                coefficients=coefficients,
                order=jnp.where(places < state.number[:, None], places, EMPTY),
                arrivals=state.number,
                recent_rows=jnp.zeros_like(state.recent_rows),
                eviction=self.eviction.close(state.eviction, kernels, rows, coefficients[:, :C]),
            )

        return jax.lax.cond(round % self.period == 0, settled, lambda same: same, state)
