"""Recursive least squares on inputs that are known one round at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl.updates.second_order import RLS, diagonal_of

_HIGHEST = jax.lax.Precision.HIGHEST


def _after(
    state: Any,
    rule: RLS,
    x: jax.Array,
    errors: jax.Array,
    round: jax.Array | int,
    learns: jax.Array,
) -> Any:
    """The state after the example x of a round, by the errors y - θ·x (R,), if it learns."""
    ridge = jnp.atleast_1d(jnp.asarray(rule.regularization, x.dtype))
    forgetting = jnp.atleast_1d(jnp.asarray(rule.forgetting, x.dtype))
    forgetting = jnp.maximum(forgetting, state.floor)
    gain = state.gain(x)
    # x'S x. Rounding must not turn a direction that is used up negative.
    variance = state.variance(gain, x)
    learned, discount = learns & (variance > 0), forgetting * state.discount
    apart = jnp.sum(state.diagonal * x[None] ** 2, axis=-1)
    noise = jnp.maximum(rule.least_noise(apart), ridge)
    length = jax.lax.rsqrt(noise * discount + jnp.where(learned, variance, 1.0))
    row = jnp.where(learned, length, 0.0)[:, None] * gain
    after = state.learned(round % rule.period, row, jnp.where(learned, errors * length, 0.0))
    return after._replace(discount=jnp.where(learned, discount, state.discount))


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
    diagonal: jax.Array
    """That of S when this period began (R, M)."""

    @classmethod
    def start(cls, rule: RLS, num_inputs: int, dtype: DTypeLike) -> "Recursive":
        """Before the first example."""
        R, M = rule.num_rates, num_inputs
        covariance = jnp.tile(jnp.eye(M, dtype=dtype), (R, 1, 1))
        diagonal = jnp.ones((R, M), dtype)
        return cls(
            weights=jnp.zeros((R, M), dtype),
            covariance=covariance,
            rows=jnp.zeros((R, rule.period, M), dtype),
            discount=jnp.ones((R,), dtype),
            floor=rule.limits(diagonal)[0],
            diagonal=diagonal,
        )

    def predict(self, x: jax.Array) -> jax.Array:
        """Values θ·x (R,)."""
        return jnp.dot(self.weights, x, precision=_HIGHEST)

    def gain(self, x: jax.Array) -> jax.Array:
        """S x times the discount (R, M)."""
        past = jnp.dot(self.rows, x, precision=_HIGHEST)  # (R, period)
        gain = jnp.dot(self.covariance, x, precision=_HIGHEST)
        return gain - jnp.einsum("rs,rsm->rm", past, self.rows, precision=_HIGHEST)

    def variance(self, gain: jax.Array, x: jax.Array) -> jax.Array:
        """x'S x times the discount (R,)."""
        return jnp.dot(gain, x, precision=_HIGHEST)

    def learned(self, place: jax.Array, row: jax.Array, multiple: jax.Array) -> "Recursive":
        """The state with an example's row h (R, M), whose multiple (R,) θ moves by."""
        return self._replace(
            weights=self.weights + multiple[:, None] * row,
            rows=jax.lax.dynamic_update_index_in_dim(self.rows, row, place, 1),
        )

    def packed(self) -> Any:
        """The state as the rounds of a block have it on an accelerator."""
        rows = [self.covariance, self.weights[:, None], self.rows]
        table = jnp.pad(jnp.concatenate(rows, axis=1), ((0, 0), (0, 0), (0, 1)))
        return PackedRecursive(self.covariance, table, self.discount, self.floor, self.diagonal)

    def after(
        self, rule: RLS, x: jax.Array, errors: jax.Array, round: jax.Array | int, learns: jax.Array
    ) -> "Recursive":
        """The state after the example x of a round, by the errors y - θ·x (R,), if it learns."""
        return _after(self, rule, x, errors, round, learns)

    def close(self, rule: RLS, size: int, round: jax.Array) -> "Recursive":
        """The state after a block of ``size``: S takes its rows in when a period is full."""
        return rule.settled(lambda own, full: own._renewed(rule, full), self, size, round)

    def _renewed(self, rule: RLS, full: jax.Array | bool) -> "Recursive":
        rows = jnp.where(full, self.rows, 0.0)
        learned = jnp.any(rows != 0, axis=(-2, -1))
        _, jitter = rule.limits(self.diagonal)
        own = rule.taken_in(self, jitter, rows, learned, full)
        diagonal = jnp.where(full, diagonal_of(own["covariance"]), self.diagonal)
        floor, _ = rule.limits(diagonal)
        return self._replace(rows=self.rows - rows, floor=floor, diagonal=diagonal, **own)


class PackedRecursive(NamedTuple):
    """The state of :class:`Recursive` amid a block."""

    covariance: jax.Array
    """S, as in the state (R, M, M)."""
    table: jax.Array
    """The rows of S, θ before the block, and the rows h of the period. Beside each of the latter
    stands what it adds to θ, as its multiple: (R, M + 1 + period, M + 1)."""
    discount: jax.Array
    """As in the state (R,)."""
    floor: jax.Array
    """As in the state (R,)."""
    diagonal: jax.Array
    """As in the state (R, M)."""

    def unpacked(self) -> Recursive:
        """The state that has this form."""
        M = self.table.shape[-1] - 1
        rows, multiples = self.table[:, M + 1 :, :M], self.table[:, M + 1 :, M:]
        weights = self.table[:, M, :M] + jnp.sum(multiples * rows, axis=1)
        kept = self.discount, self.floor, self.diagonal
        return Recursive(weights, self.covariance, rows, *kept)

    def _products(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """θ·x (R,), and S x times the discount (R, M)."""
        M = self.table.shape[-1] - 1
        products = jnp.sum(self.table[..., :M] * x[None, None], axis=-1)
        past = products[:, M + 1 :, None]
        sums = jnp.sum(self.table[:, M + 1 :] * past, axis=1)
        return products[:, M] + sums[:, M], products[:, :M] - sums[:, :M]

    def predict(self, x: jax.Array) -> jax.Array:
        """Values θ·x (R,)."""
        return self._products(x)[0]

    def gain(self, x: jax.Array) -> jax.Array:
        """S x times the discount (R, M)."""
        return self._products(x)[1]

    def variance(self, gain: jax.Array, x: jax.Array) -> jax.Array:
        """x'S x times the discount (R,)."""
        return jnp.sum(gain * x[None], axis=-1)

    def learned(self, place: jax.Array, row: jax.Array, multiple: jax.Array) -> "PackedRecursive":
        """The form with an example's row h (R, M), whose multiple (R,) θ moves by."""
        row, first = jnp.concatenate([row, multiple[:, None]], axis=1), self.table.shape[-1]
        table = jax.lax.dynamic_update_index_in_dim(self.table, row, first + place, 1)
        return self._replace(table=table)

    def after(
        self, rule: RLS, x: jax.Array, errors: jax.Array, round: jax.Array | int, learns: jax.Array
    ) -> "PackedRecursive":
        """The state after the example x of a round, by the errors y - θ·x (R,), if it learns."""
        return _after(self, rule, x, errors, round, learns)
