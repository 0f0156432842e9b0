"""A store without a budget that keeps single coefficients."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Scaled, scaled
from jaxmkl.models.supports.growing import DenseSupport, GrowingState
from jaxmkl.models.supports.protocol import Codes, as_period
from jaxmkl.models.supports.tiles import Entries, entry_sums


@pytree.dataclass
class SparseSupport(DenseSupport):
    """Entries (row, kernel, coefficient), whose number decides the cost, whatever their kernels.

    Values below the smallest number of the dtype are zero here.

    Args:
      capacity: the number of rows for which there is room at least, as for
        :class:`DenseSupport`; so are period and errors.
      tile: the number of entries in one matrix product (static).
    """

    period: int = pytree.static(default=64, convert=as_period)

    def _no_coefficients(self, num_kernels: int, length: int, dtype: DTypeLike) -> Entries:
        E = (num_kernels * length,)
        row, kernel = jnp.zeros(E, jnp.int32), jnp.zeros(E, jnp.int32)
        return Entries(row, kernel, jnp.zeros(E, dtype), jnp.zeros((), jnp.int32))

    def _settled_sums(self, state: GrowingState, kernels: Kernel, X: jax.Array) -> Scaled:
        return Scaled(entry_sums(self.tile, kernels, X, state.rows, state.coefficients), None)

    def encode(self, state: PyTree, kernels: Kernel, X: jax.Array, round: jax.Array) -> Codes:
        """Codes of a block; ``recent`` are plain values."""
        codes = super().encode(state, kernels, X, round)
        return codes._replace(recent=scaled.plain(codes.recent, kernels.exponential, axis=1))

    def predict(
        self, state: GrowingState, kernels: Kernel, code: Codes
    ) -> tuple[jax.Array, tuple]:
        recent = jnp.sum(state.recent * code.recent, axis=1)
        return state.scale * code.settled.mantissa + recent, ()

    def _settle(
        self, state: GrowingState, order: jax.Array, used: jax.Array, scale: Any
    ) -> PyTree:
        entries, recent = state.coefficients, state.recent.T[order]
        R, P = recent.shape
        becomes = ((recent != 0) & used[:, None]).ravel()
        number = jnp.sum(becomes, dtype=jnp.int32)
        # where each of the new entries is found, in order
        place = jnp.where(becomes, jnp.cumsum(becomes, dtype=jnp.int32) - 1, R * P)
        found = jnp.zeros((R * P,), jnp.int32)
        found = found.at[place].set(jnp.arange(R * P, dtype=jnp.int32), mode="drop")
        within = jnp.arange(R * P, dtype=jnp.int32) < number
        row = jnp.where(within, state.used + found // P, 0)
        kernel = jnp.where(within, found % P, 0)
        coefficient = jnp.where(within, recent.ravel()[found], 0.0)
        old = entries.coefficient if scale is None else entries.coefficient * scale[entries.kernel]
        write = partial(jax.lax.dynamic_update_slice_in_dim, start_index=entries.used, axis=0)
        before, new = (entries.row, entries.kernel, old), (row, kernel, coefficient)
        row, kernel, coefficient = map(write, before, new)
        return Entries(row, kernel, coefficient, entries.used + number)
