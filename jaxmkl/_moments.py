"""Running moments: what scalers and queries keep of numbers seen."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Moments(NamedTuple):
    """Means and variances of some numbers, or of some inputs (D,)."""

    mean: Array
    variance: Array

    @classmethod
    def none(cls, shape: tuple, dtype: Any) -> "Moments":
        """Before the first."""
        return cls(*(jnp.zeros(shape, dtype) for _ in cls._fields))

    def after(self, x: Array, n: Array) -> "Moments":
        """Those of n, ``x`` being the last of them (Welford, 1962)."""
        difference, n = x - self.mean, n.astype(x.dtype)
        mean = self.mean + difference / n
        return Moments(mean, self.variance + (difference * (x - mean) - self.variance) / n)

    def scaled(self, x: Array) -> Array:
        """``x`` with mean 0 and variance 1; 0 where nothing varies."""
        varied = self.variance > 0
        root = jax.lax.rsqrt(jnp.where(varied, self.variance, 1))
        return jnp.where(varied, (x - self.mean) * root, 0)
