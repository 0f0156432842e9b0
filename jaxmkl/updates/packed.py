"""Least squares amid a block, in few sums: the form that accelerators have of their states.

There a round takes as long as its kernels take to begin: their number counts, not their work. So
what a round multiplies by the same vector lies in one table, of which it writes one row.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class PackedRLS(NamedTuple):
    """The state of :class:`jaxmkl.updates.RLS` amid a block."""

    weights: jax.Array
    """θ before the block, and so the two below."""
    covariance: jax.Array
    gains: jax.Array
    table: jax.Array
    """Of each round of the period its row of the factor and its coefficients, and a row of zeros
    for rounds of the block that are over: (R, P, period + 1, period + K)."""
    discount: jax.Array
    """As in the state (R, P)."""

    @classmethod
    def of(cls, state: Any) -> "PackedRLS":
        """The form of a state."""
        table = jnp.concatenate([state.factor, jnp.moveaxis(state.coefficients, 0, -1)], axis=-1)
        table = jnp.pad(table, ((0, 0), (0, 0), (0, 1), (0, 0)))
        return cls(state.weights, state.covariance, state.gains, table, state.discount)

    @property
    def factor(self) -> jax.Array:
        """That of the state (R, P, period, period)."""
        return self.table[..., :-1, : self._period]

    @property
    def coefficients(self) -> jax.Array:
        """Those of the state (K, R, P, period)."""
        return jnp.moveaxis(self.table[..., :-1, self._period :], -1, 0)

    @property
    def _period(self) -> int:
        return self.table.shape[-2] - 1

    def predict(self, code: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Values (K, R, P), and the other sums over the examples since the last renewal.

        These are Σ_s h_s·z factor_s (R, P, period) and Σ_s (h_s·z)² (R, P).
        """
        period = self._period
        h_z = jnp.sum(self.table[..., :period] * code.kernel[..., None, :], axis=-1)[..., None]
        sums = jnp.sum(jnp.concatenate([self.table, h_z], axis=-1) * h_z, axis=-2)
        moved = jnp.moveaxis(sums[..., period:-1], -1, 0)
        return code.value + moved, (sums[..., :period], sums[..., -1])

    def square(self, found: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Σ_s (h_s·z)² (R, P)."""
        return found[1]

    def past(self, found: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Σ_s h_s·z factor_s (R, P, period)."""
        return found[0]

    def learned(
        self, code: Any, row: jax.Array, coefficients: jax.Array, where: jax.Array
    ) -> "PackedRLS":
        """The form with an example's row of the factor (R, P, period) and coefficients (K, R, P).

        Models that are not ``where`` (R, P) have none of this round.
        """
        row = jnp.concatenate([row, jnp.moveaxis(coefficients, 0, -1)], axis=-1)
        row = jnp.where(where[..., None], row, 0.0)
        slot = jnp.where(code.fresh, code.slot, self._period)
        table = jax.lax.dynamic_update_index_in_dim(self.table, row, slot, -2)
        return self._replace(table=table)
