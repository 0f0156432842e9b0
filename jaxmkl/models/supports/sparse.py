"""A store without a budget that keeps single coefficients."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Scaled
from jaxmkl.models.supports.growing import DenseSupport, GrowingState
from jaxmkl.models.supports.protocol import as_period
from jaxmkl.models.supports.tiles import Entries, entry_sums


@pytree.dataclass
class SparseSupport(DenseSupport):
    """A list of (row, coefficient) for each kernel: only coefficients that are not 0 cost time.

    Args:
      capacity: the number of rows for which there is room at least, as for
        :class:`DenseSupport`; so are period and errors.
      tile: the number of entries in one matrix product (static).
    """

    period: int = pytree.static(default=64, convert=as_period)

    def _no_coefficients(self, num_kernels: int, length: int, dtype: DTypeLike) -> Entries:
        shape = num_kernels, length
        used = jnp.zeros((num_kernels,), jnp.int32)
        return Entries(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, dtype), used)

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Scaled:
        return entry_sums(self.tile, kernels, X, state.rows, state.coefficients)

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: Any
    ) -> PyTree:
        entries, recent = state.coefficients, state.recent[:, order]
        P, R = recent.shape
        becomes = (recent != 0) & used[None, :]
        kernel = jnp.arange(P, dtype=jnp.int32)[:, None]
        # after the entries so far, in order; the others' places are beyond the lists
        slot = jnp.arange(R, dtype=jnp.int32)
        place = entries.used[:, None] + jnp.cumsum(becomes, axis=1, dtype=jnp.int32) - 1
        place = jnp.where(becomes, place, entries.row.shape[1] + slot)
        row = jnp.broadcast_to(state.used + slot, (P, R))
        old = entries.coefficient if scale is None else entries.coefficient * scale[:, None]
        return Entries(
            entries.row.at[kernel, place].set(row, mode="drop", unique_indices=True),
            old.at[kernel, place].set(recent, mode="drop", unique_indices=True),
            entries.used + jnp.sum(becomes, axis=1, dtype=jnp.int32),
        )
