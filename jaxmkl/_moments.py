"""Running moments of numbers, for scalers and queries."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike


class Moments(NamedTuple):
    """Means and variances of some numbers, or of some inputs (D,)."""

    mean: Array
    variance: Array
    rests: Array
    """Rounding errors of both, (2, ...), without which they would stop after 2^24 numbers."""

    @classmethod
    def none(cls, shape: tuple[int, ...], dtype: DTypeLike) -> "Moments":
        """The moments before the first number."""
        mean, variance = (jnp.zeros(shape, dtype) for _ in range(2))
        return cls(mean, variance, jnp.zeros((2, *shape), dtype))

    def after(self, x: Array, n: Array) -> "Moments":
        """The moments of n numbers, the last of which is ``x`` (Welford, 1962; Kahan, 1965)."""
        difference, n = x - self.mean, n.astype(x.dtype)
        mean, of_mean = _added(self.mean, self.rests[0], difference / n)
        change = (difference * (x - mean) - self.variance) / n
        variance, of_variance = _added(self.variance, self.rests[1], change)
        return Moments(mean, variance, jnp.stack([of_mean, of_variance]))

    def scaled(self, x: Array) -> Array:
        """Scale ``x`` to mean 0 and variance 1; to 0 if the variance is 0."""
        varied = self.variance > 0
        root = jax.lax.rsqrt(jnp.where(varied, self.variance, 1))
        return jnp.where(varied, (x - self.mean) * root, 0)


def _added(total: Array, rest: Array, change: Array) -> tuple[Array, Array]:
    """A sum, and its rounding error."""
    change = change + rest
    after = total + change
    return after, change - (after - total)
