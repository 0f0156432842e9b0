"""Recursive least squares on inputs that are known one round at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl.updates.second_order import RLS, gathered_diagonal

_HIGHEST = jax.lax.Precision.HIGHEST


class Recursive(NamedTuple):
    """State of an :class:`RLS` of R rates, with K models of each that share inputs x (M,) and S.

    With S as it was at the end of the last period, and a row h_s for each example learned since,
    the present covariances are (S - Σ_s h_s h_s') / discount. So S is read once a round and
    written once a period. (To write it in each round, with θ in the same table, took 1.4 times as
    long with 48 models on a CPU: XLA computes h again for each entry of S.) S is kept for a ridge
    penalty of 1, and divided by λ where it is used.
    """

    weights: jax.Array
    """θ (R, K, M)."""
    covariance: jax.Array
    """S (R, M, M), symmetric to rounding."""
    rows: jax.Array
    """h (R, period, M), zeros where nothing was learned."""
    discount: jax.Array
    """The product of φ_s (R,)."""
    floor: jax.Array
    """The smallest φ of this period (R,)."""
    diagonal: jax.Array
    """The diagonal of S when this period began (R, M)."""

    @classmethod
    def start(
        cls, rule: RLS, num_inputs: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> "Recursive":
        """Before the first example."""
        R, M = rule.num_rates, num_inputs
        diagonal = jnp.ones((R, M), dtype)
        return cls(
            weights=jnp.zeros((R, num_outputs, M), dtype),
            covariance=jnp.tile(jnp.eye(M, dtype=dtype), (R, 1, 1)),
            rows=jnp.zeros((R, rule.period, M), dtype),
            discount=jnp.ones((R,), dtype),
            floor=rule.limits(diagonal)[0],
            diagonal=diagonal,
        )

    def predict(self, x: jax.Array) -> jax.Array:
        """Values θ·x (R K,)."""
        return jnp.dot(self.weights, x, precision=_HIGHEST).reshape(-1)

    def after(
        self, rule: RLS, x: jax.Array, errors: jax.Array, round: jax.Array | int, learns: jax.Array
    ) -> "Recursive":
        """The state after the example x of a round, by the errors y - θ·x (R K,), if it learns."""
        ridge = jnp.atleast_1d(jnp.asarray(rule.regularization, x.dtype))
        forgetting = jnp.atleast_1d(jnp.asarray(rule.forgetting, x.dtype))
        # S x times the discount, and x'S x
        past = jnp.dot(self.rows, x, precision=_HIGHEST)  # (R, period)
        gain = jnp.dot(self.covariance, x, precision=_HIGHEST)
        gain = gain - jnp.einsum("rs,rsm->rm", past, self.rows, precision=_HIGHEST)
        variance = jnp.dot(gain, x, precision=_HIGHEST)
        # rounding must not make the variance of an exhausted direction negative
        learned = learns & (variance > 0)
        discount = jnp.maximum(forgetting, self.floor) * self.discount
        apart = jnp.sum(self.diagonal * x[None] ** 2, axis=-1)
        noise = jnp.maximum(rule.least_noise(apart), ridge)
        length = jax.lax.rsqrt(noise * discount + jnp.where(learned, variance, 1.0))
        length = jnp.where(learned, length, 0.0)[:, None]
        row = jnp.where(learned[:, None], length * gain, 0.0)
        multiples = jnp.where(learned[:, None], length * errors.reshape(len(row), -1), 0.0)
        place = round % rule.period
        return self._replace(
            weights=self.weights + multiples[:, :, None] * row[:, None, :],
            rows=jax.lax.dynamic_update_index_in_dim(self.rows, row, place, 1),
            discount=jnp.where(learned, discount, self.discount),
        )

    def close(self, rule: RLS, size: int, round: jax.Array) -> "Recursive":
        """The state after a block of ``size``: S absorbs its rows when a period is full."""
        return rule.settled(lambda own, *when: own._renewed(rule, *when), self, size, round)

    def _renewed(self, rule: RLS, full: jax.Array, due: jax.Array) -> "Recursive":
        rows = jnp.where(full, self.rows, 0.0)
        learned = jnp.any(rows != 0, axis=(-2, -1))
        _, jitter = rule.limits(self.diagonal)
        S = rule.taken_in(self.covariance, self.discount, rows, jitter, learned, full, due)
        diagonal = jnp.where(full, gathered_diagonal(S), self.diagonal)
        return self._replace(
            covariance=S,
            rows=self.rows - rows,
            discount=jnp.where(full, 1.0, self.discount),
            floor=rule.limits(diagonal)[0],
            diagonal=diagonal,
        )
