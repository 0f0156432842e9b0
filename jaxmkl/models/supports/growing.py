"""A store without a budget, with coefficients for all kernels."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Scaled, scaled
from jaxmkl.models.supports import protocol
from jaxmkl.models.supports.protocol import Codes, Proposal, Store
from jaxmkl.models.supports.tiles import dense_sums


class GrowingState(NamedTuple):
    """State of a store without a budget."""

    rows: jax.Array
    """Settled supports (C + R, D)."""
    coefficients: Any
    """Their coefficients: (P, C + R), or :class:`jaxmkl.models.supports.tiles.Entries`."""
    used: jax.Array
    """Number of settled supports, int32."""
    scale: jax.Array
    """The factor of the coefficients (P,): 1 after a period's end."""
    recent_rows: jax.Array
    """The period's examples so far (R, D)."""
    recent: jax.Array
    """Their coefficients (P, R)."""
    number: jax.Array
    """Supports of each kernel (P,), int32."""
    overflow: jax.Array
    """Examples that were not added for want of room, int32."""


@pytree.dataclass
class DenseSupport(Store[GrowingState, Codes, tuple]):
    """Supports shared by all kernels, with coefficients (P, C).

    Args:
      capacity: the number of supports for which there is room at least (static), as it is filled
        up to whole tiles. Drivers enlarge it before a stream; inside a caller's own ``jit`` an
        example that finds no room is counted and not learned.
      tile: the number of supports in one matrix product (static).
      period: the number of rounds after which new supports are settled, a power of two of at most
        4,096 (static).

    Raises:
      ValueError: if an argument is outside its range.
    """

    capacity: int = pytree.count(default=1024)
    tile: int = pytree.count(default=512)
    period: int = pytree.static(default=128, convert=protocol.as_period)

    def _no_coefficients(self, num_kernels: int, length: int, dtype: DTypeLike) -> PyTree:
        """Zero coefficients for so many rows."""
        return jnp.zeros((num_kernels, length), dtype)

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Scaled:
        """Sums (P, B) over the settled supports, not scaled."""
        return dense_sums(self.tile, kernels, X, state.rows, state.coefficients, state.used)

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: Any
    ) -> PyTree:
        """Old coefficients times ``scale`` (P,), if any; then those ``used`` of ``order`` (R,)."""
        new = jnp.where(used[None, :], state.recent[:, order], 0.0)
        old = state.coefficients if scale is None else state.coefficients * scale[:, None]
        return jax.lax.dynamic_update_slice_in_dim(old, new, state.used, 1)

    def _length(self, capacity: int) -> int:
        """The number of rows for a capacity: the rows of a period are written as a whole."""
        return -(-(capacity + self.period) // self.tile) * self.tile

    def init(self, kernels: Kernel, num_inputs: int, dtype: DTypeLike) -> GrowingState:
        P, R, L = kernels.num_kernels, self.period, self._length(self.capacity)
        return GrowingState(
            rows=jnp.zeros((L, num_inputs), dtype),
            coefficients=self._no_coefficients(P, L, dtype),
            used=jnp.zeros((), jnp.int32),
            scale=jnp.ones((P,), dtype),
            recent_rows=jnp.zeros((R, num_inputs), dtype),
            recent=jnp.zeros((P, R), dtype),
            number=jnp.zeros((P,), jnp.int32),
            overflow=jnp.zeros((), jnp.int32),
        )

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array:
        return protocol.reach_of_sums(step, rounds)

    def used(self, state: GrowingState) -> jax.Array:
        """The number of supports, those of the period included."""
        return state.used + jnp.sum(jnp.any(state.recent != 0, axis=0), dtype=jnp.int32)

    def capacity_of(self, state: GrowingState) -> int:
        return state.rows.shape[-2] - self.period

    def enlarged(self, state: GrowingState, capacity: int) -> GrowingState:
        more = self._length(capacity) - state.rows.shape[-2]
        if more <= 0:
            return state

        def padded(array: jax.Array) -> jax.Array:  # one that has an item for each row
            return array if array.ndim == 1 else jnp.pad(array, ((0, 0), (0, more)))

        rows = jnp.pad(state.rows, ((0, more), (0, 0)))
        coefficients = jax.tree.map(padded, state.coefficients)
        return state._replace(rows=rows, coefficients=coefficients)

    def encode(
        self, state: GrowingState, kernels: Kernel, X: jax.Array, round: jax.Array
    ) -> Codes:
        codes = protocol.encode_recent(kernels, state.recent_rows, X, round)
        sums = self._settled_sums(state, kernels, codes.rows)
        return codes._replace(settled=jax.tree.map(jnp.transpose, sums))

    def predict(
        self, state: GrowingState, kernels: Kernel, code: Codes
    ) -> tuple[jax.Array, tuple]:
        settled = Scaled(state.scale * code.settled.mantissa, code.settled.exponent)
        recent = scaled.unpacked(code.recent, kernels.exponential)
        return recent.weighted_sum(state.recent, settled).value(), ()

    def update(
        self, state: GrowingState, kernels: Kernel, code: Codes, aux: tuple, proposal: Proposal
    ) -> GrowingState:
        room = self.used(state) < self.capacity_of(state)
        learned = proposal.learned & room
        recent, scale = state.recent, state.scale
        if proposal.decay is not None:
            # the settled ones keep a single factor, as their sums are known for the whole block
            recent, scale = recent * proposal.decay[:, None], scale * proposal.decay
        here = jnp.arange(self.period, dtype=jnp.int32) == code.round % self.period
        new = learned[:, None] & here[None, :]
        lost = jnp.any(proposal.learned) & ~room
        return state._replace(
            recent=jnp.where(new, proposal.coefficient[:, None], recent),
            scale=scale,
            number=state.number + learned.astype(jnp.int32),
            overflow=state.overflow + lost.astype(jnp.int32),
        )

    def close(
        self, state: GrowingState, kernels: Kernel, codes: Codes, round: jax.Array, decays: bool
    ) -> GrowingState:
        recent_rows = protocol.keep_rows(state.recent_rows, codes, round)
        settle = round % self.period == 0
        becomes = jnp.any(state.recent != 0, axis=0) & settle
        # those that became supports come first, in their order; all R are written, then zeros
        order = jnp.argsort(~becomes, stable=True)
        used = becomes[order]
        rows = jnp.where(used[:, None], recent_rows[order], 0.0)
        scale = jnp.where(settle, state.scale, 1.0) if decays else None
        return state._replace(
            rows=jax.lax.dynamic_update_slice_in_dim(state.rows, rows, state.used, 0),
            coefficients=self._settle(state, order, used, scale),
            used=state.used + jnp.sum(used, dtype=jnp.int32),
            scale=jnp.where(settle, 1.0, state.scale) if decays else state.scale,
            recent_rows=jnp.where(settle, 0.0, recent_rows),
            recent=jnp.where(settle, 0.0, state.recent),
        )
