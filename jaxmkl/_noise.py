"""The noise of labels around predictions, for learners that know their own variance."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl._blocks import count_on
from jaxmkl._shards import added

_RATE = 0.005  # of the latest error, once there are 200


def least_square(y: jax.Array) -> jax.Array:
    """The least square of an error: what rounding the label costs, and more than nothing."""
    limits = jnp.finfo(y.dtype)
    return jnp.square(limits.eps * y) + jnp.sqrt(limits.tiny)


class Noise(NamedTuple):
    """A running variance of what labels have beyond the variance of the model.

    With the error e = y - f of a prediction whose own variance is v,

        s <- s + η (e² s / (s + v) - s),     η = max(1/n, .005)

    so that e² / (s + v) is 1 in the mean: the share of an error that is the model's own is taken
    off. The error of the first label, which was predicted knowing none, counts no longer once
    there is another.
    """

    variance: jax.Array
    """s, a number or (K,); 1 before the first label."""
    number: jax.Array
    """Labels so far, int32."""

    @classmethod
    def none(cls, num_outputs: int | None, dtype: DTypeLike) -> "Noise":
        """Before the first label."""
        shape = () if num_outputs is None else (num_outputs,)
        return cls(jnp.ones(shape, dtype), jnp.zeros((), jnp.int32))

    def after(
        self, y: jax.Array, value: jax.Array, of_model: jax.Array, known: jax.Array
    ) -> "Noise":
        """The noise after a label, if it is ``known``."""
        s, dtype = self.variance, self.variance.dtype
        square = jnp.square(y - value)
        share = jnp.where(self.number > 0, s / (s + of_model), 1.0)
        rate = jnp.maximum(1.0 / jnp.maximum(self.number, 1).astype(dtype), _RATE)
        after = jnp.maximum(s + rate * (square * share - s), least_square(y))
        good = known & jnp.all(jnp.isfinite(after))
        return Noise(jnp.where(good, after, s), count_on(self.number, good))

    def merged(self, start: "Noise | None") -> "Noise":
        """The noise of shards, whose leaves have a leading axis: the mean by their own labels."""
        began = 0 if start is None else start.number
        number = (self.number - began).astype(self.variance.dtype)
        shares = number / jnp.maximum(jnp.sum(number), 1)
        shares = jnp.where(jnp.sum(number) > 0, shares, 1 / len(number))
        highest = jax.lax.Precision.HIGHEST
        variance = jnp.tensordot(shares, self.variance, axes=1, precision=highest)
        return Noise(variance, added(self.number, began))
