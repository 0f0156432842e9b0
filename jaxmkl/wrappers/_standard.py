"""Standardised inputs of a learner, for wrappers that read them beside the learner."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike

from jaxmkl._blocks import count_on
from jaxmkl._moments import Moments

FAR = 3.0  # standard deviations from the mean at which inputs are clipped


class Standard(NamedTuple):
    """Running moments of the inputs, and earlier moments by which they are standardised."""

    running: Moments
    """Means and variances of the inputs (D,)."""
    used: Moments
    """Those that standardise, of the last round in which they were renewed."""
    number: Array
    """Inputs so far, int32."""

    @classmethod
    def none(cls, num_inputs: int, dtype: DTypeLike) -> "Standard":
        """The moments before the first input, which leave inputs unchanged."""
        running = Moments.none((num_inputs,), dtype)
        used = running._replace(variance=jnp.ones((num_inputs,), dtype))
        return cls(running, used, jnp.zeros((), jnp.int32))

    def standardised(self, X: Array) -> Array:
        """The rows X (B, D) in standard deviations from the mean, at most three."""
        return jnp.clip(jax.vmap(self.used.scaled)(X), -FAR, FAR)

    def after(self, x: Array, taken: Array) -> "Standard":
        """The moments after the input x (D,), if it is ``taken``."""
        number = count_on(self.number, taken)
        running = self.running.after(x, jnp.maximum(number, 1))
        good = taken & jnp.all(jnp.isfinite(running.variance))
        counted = self._replace(running=running, number=number)
        return optax.tree.where(good, counted, self)

    def renewed(self, due: Array) -> "Standard":
        """Standardise by all inputs so far from now on, if it is due and there were any."""
        used = optax.tree.where(due & (self.number > 0), self.running, self.used)
        return self._replace(used=used)


def columns_of(X: Array, leading_columns: int) -> Array:
    """The inputs (B, D) among the columns of X, with zeros where a value is not finite."""
    return jnp.where(jnp.isfinite(X), X, 0.0)[:, leading_columns:]
