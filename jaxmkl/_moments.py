"""Running moments: what scalers and queries keep of numbers seen."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Moments(NamedTuple):
    """Means and variances of some numbers, or of some inputs (D,)."""

    mean: Array
    variance: Array
    rests: Array
    """What rounding took off both, (2, ...): else they would stand still after 2^24 numbers."""

    @classmethod
    def none(cls, shape: tuple, dtype: Any) -> "Moments":
        """Before the first."""
        mean, variance = (jnp.zeros(shape, dtype) for _ in range(2))
        return cls(mean, variance, jnp.zeros((2, *shape), dtype))

    def after(self, x: Array, n: Array) -> "Moments":
        """Those of n, ``x`` being the last of them (Welford, 1962; sums as Kahan, 1965)."""
        difference, n = x - self.mean, n.astype(x.dtype)
        mean, of_mean = _added(self.mean, self.rests[0], difference / n)
        change = (difference * (x - mean) - self.variance) / n
        variance, of_variance = _added(self.variance, self.rests[1], change)
        return Moments(mean, variance, jnp.stack([of_mean, of_variance]))

    def scaled(self, x: Array) -> Array:
        """``x`` with mean 0 and variance 1; 0 where nothing varies."""
        varied = self.variance > 0
        root = jax.lax.rsqrt(jnp.where(varied, self.variance, 1))
        return jnp.where(varied, (x - self.mean) * root, 0)


def _added(total: Array, rest: Array, change: Array) -> tuple[Array, Array]:
    """A sum, and what rounding took off it."""
    change = change + rest
    after = total + change
    return after, change - (after - total)
