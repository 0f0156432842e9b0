"""Recursive least squares on inputs that are known one round at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl.updates.second_order import RLS

_HIGHEST = jax.lax.Precision.HIGHEST


class Recursive(NamedTuple):
    """State of R models of an :class:`RLS` that share their inputs x (M,).

    With S as it stood when ``period`` rounds were last taken in, and a row h_s for each example
    learned since, the present covariances are (S - Σ_s h_s h_s') / discount. So S is read once a
    round and written once a period. S is kept for a ridge penalty of 1, and divided by λ where
    used.
    """

    weights: jax.Array
    """θ (R, M)."""
    covariance: jax.Array
    """S (R, M, M), symmetric to rounding."""
    rows: jax.Array
    """h (R, period, M), zeros where nothing was learned."""
    discount: jax.Array
    """The product of φ_s (R,)."""
    floor: jax.Array
    """The smallest φ of this period (R,)."""

    @classmethod
    def start(cls, rule: RLS, num_inputs: int, dtype: DTypeLike) -> "Recursive":
        """Before the first example."""
        R, M = rule.num_rates, num_inputs
        covariance = jnp.tile(jnp.eye(M, dtype=dtype), (R, 1, 1))
        floor, _ = rule.limits(covariance)
        return cls(
            weights=jnp.zeros((R, M), dtype),
            covariance=covariance,
            rows=jnp.zeros((R, rule.period, M), dtype),
            discount=jnp.ones((R,), dtype),
            floor=floor,
        )

    def predict(self, x: jax.Array) -> jax.Array:
        """Values θ·x (R,)."""
        return jnp.dot(self.weights, x, precision=_HIGHEST)

    def after(
        self, rule: RLS, x: jax.Array, errors: jax.Array, round: jax.Array | int, learns: jax.Array
    ) -> "Recursive":
        """The state after the example x of a round, by the errors y - θ·x (R,), if it learns."""
        ridge = jnp.atleast_1d(jnp.asarray(rule.regularization, x.dtype))
        forgetting = jnp.atleast_1d(jnp.asarray(rule.forgetting, x.dtype))
        forgetting = jnp.maximum(forgetting, self.floor)
        past = jnp.dot(self.rows, x, precision=_HIGHEST)  # (R, period)
        gain = jnp.dot(self.covariance, x, precision=_HIGHEST)
        gain = gain - jnp.einsum("rs,rsm->rm", past, self.rows, precision=_HIGHEST)
        # x'S x. Rounding must not turn a direction that is used up negative.
        variance = jnp.dot(gain, x, precision=_HIGHEST)
        learned, discount = learns & (variance > 0), forgetting * self.discount
        length = jax.lax.rsqrt(ridge * discount + jnp.where(learned, variance, 1.0))
        row = jnp.where(learned, length, 0.0)[:, None] * gain
        place = round % rule.period
        return self._replace(
            weights=self.weights + jnp.where(learned, errors * length, 0.0)[:, None] * row,
            rows=jax.lax.dynamic_update_index_in_dim(self.rows, row, place, 1),
            discount=jnp.where(learned, discount, self.discount),
        )

    def close(self, rule: RLS, size: int, round: jax.Array) -> "Recursive":
        """The state after a block of ``size``: S takes its rows in when a period is full."""
        return rule.settled(lambda own, full: own._renewed(rule, full), self, size, round)

    def _renewed(self, rule: RLS, full: jax.Array | bool) -> "Recursive":
        rows = jnp.where(full, self.rows, 0.0)
        learned = jnp.any(rows != 0, axis=(-2, -1))
        _, jitter = rule.limits(self.covariance)
        own = rule.taken_in(self, jitter, rows, learned, full)
        floor, _ = rule.limits(own["covariance"])
        floor = jnp.where(full, floor, self.floor)
        return self._replace(rows=self.rows - rows, floor=floor, **own)
