"""Recursive least squares on inputs that are known one round at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl.updates.second_order import RLS, diagonal_of, symmetric_if

_HIGHEST = jax.lax.Precision.HIGHEST


class Recursive(NamedTuple):
    """State of an :class:`RLS` of R rates, with K models of each that share inputs x (M,) and S.

    S is kept for a ridge penalty of 1, and divided by λ where used. Amid a period it is also
    multiplied by the discount since the period began.
    """

    table: jax.Array
    """The rows of S times the discount, and below them those of θ (R, M + K, M)."""
    discount: jax.Array
    """The product of φ_s in this period (R,)."""
    floor: jax.Array
    """The smallest φ of this period (R,)."""
    diagonal: jax.Array
    """That of S when this period began (R, M)."""

    @property
    def covariance(self) -> jax.Array:
        """S times the discount (R, M, M), symmetric to rounding."""
        return self.table[:, : self.table.shape[-1]]

    @property
    def weights(self) -> jax.Array:
        """θ (R, K, M)."""
        return self.table[:, self.table.shape[-1] :]

    @classmethod
    def start(
        cls, rule: RLS, num_inputs: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> "Recursive":
        """Before the first example."""
        R, M = rule.num_rates, num_inputs
        diagonal = jnp.ones((R, M), dtype)
        return cls(
            table=jnp.tile(jnp.eye(M + num_outputs, M, dtype=dtype), (R, 1, 1)),
            discount=jnp.ones((R,), dtype),
            floor=rule.limits(diagonal)[0],
            diagonal=diagonal,
        )

    def _products(self, x: jax.Array) -> jax.Array:
        """S x times the discount, and θ·x: (R, M + K)."""
        return jnp.dot(self.table, x, precision=_HIGHEST)

    def predict(self, x: jax.Array) -> jax.Array:
        """Values θ·x (R K,)."""
        return self._products(x)[:, len(x) :].reshape(-1)

    def after(
        self, rule: RLS, x: jax.Array, errors: jax.Array, round: jax.Array | int, learns: jax.Array
    ) -> "Recursive":
        """The state after the example x of a round, by the errors y - θ·x (R K,), if it learns."""
        ridge = jnp.atleast_1d(jnp.asarray(rule.regularization, x.dtype))
        forgetting = jnp.atleast_1d(jnp.asarray(rule.forgetting, x.dtype))
        gain = self._products(x)[:, : len(x)]
        # x'S x. Rounding must not turn a direction that is used up negative.
        variance = jnp.dot(gain, x, precision=_HIGHEST)
        learned = learns & (variance > 0)
        discount = jnp.maximum(forgetting, self.floor) * self.discount
        apart = jnp.sum(self.diagonal * x[None] ** 2, axis=-1)
        noise = jnp.maximum(rule.least_noise(apart), ridge)
        length = jax.lax.rsqrt(noise * discount + jnp.where(learned, variance, 1.0))[:, None]
        row = jnp.where(learned[:, None], length * gain, 0.0)
        # S loses h h', and θ gains a multiple of h
        moves = jnp.where(learned[:, None], -errors.reshape(len(row), -1) * length, 0.0)
        moves = jnp.concatenate([row, moves], axis=1)
        return self._replace(
            table=self.table - moves[:, :, None] * row[:, None, :],
            discount=jnp.where(learned, discount, self.discount),
        )

    def close(self, rule: RLS, size: int, round: jax.Array) -> "Recursive":
        """The state after a block of ``size``: S is divided by the discount of a full period."""
        return rule.settled(lambda own, *when: own._renewed(rule, *when), self, size, round)

    def _renewed(self, rule: RLS, full: jax.Array, due: jax.Array) -> "Recursive":
        _, jitter = rule.limits(self.diagonal)
        learned = full & jnp.any(diagonal_of(self.covariance) != self.diagonal, axis=-1)
        S = rule.taken_in(self.covariance, self.discount, jitter, learned, full)
        S = symmetric_if(due, S)
        diagonal = jnp.where(full, diagonal_of(S), self.diagonal)
        return Recursive(
            table=jnp.concatenate([S, self.weights], axis=1),
            discount=jnp.where(full, 1.0, self.discount),
            floor=rule.limits(diagonal)[0],
            diagonal=diagonal,
        )
