"""Magnitudes of labels in regression, by which absurd labels are refused."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

FAR, FAR_AT_FIRST = 100.0, 1e6
WIDER, NARROWER = 10.0, 0.95


class Magnitudes(NamedTuple):
    """The largest magnitude learned, and the bound b beyond which a label is refused.

        |y| <= b:   a <- max(a, |y|),  b <- max(100 a, .95 b)       the label is learned
        |y| > b:    b <- 10 b                                       it is refused

    At first a = 0 and b is infinite; the first label that is not 0 sets b = 10^6 a. So one absurd
    label costs nothing; when the level grows by a factor of 10^(2 + k), k labels are refused
    before the new level is learned; and labels as far off that are more frequent than one in 45
    are learned in the end. A change of units y -> c y changes nothing. Each of several outputs has
    its own numbers, and one output beyond its bound refuses the example.
    """

    levels: jax.Array
    """The numbers [a, b], (2,) or (2, K), in one array, as two are slower in a scan."""

    @property
    def largest(self) -> jax.Array:
        """The largest magnitude learned a, a number or (K,)."""
        return self.levels[0]

    @classmethod
    def none(cls, num_outputs: int | None, dtype: DTypeLike) -> "Magnitudes":
        """The magnitudes before the first label."""
        shape = () if num_outputs is None else (num_outputs,)
        return cls(jnp.stack([jnp.zeros(shape, dtype), jnp.full(shape, jnp.inf, dtype)]))

    def beyond(self, y: jax.Array) -> jax.Array:
        """Which outputs of a label are beyond the bound; those that are not finite are not."""
        return jnp.isfinite(y) & (jnp.abs(y) > self.levels[1])

    def after(self, y: jax.Array, learns: jax.Array, refused: jax.Array) -> "Magnitudes":
        """The magnitudes after a label that is learned, refused as it is beyond, or missing."""
        largest, bound = self.levels
        larger = jnp.maximum(largest, jnp.abs(y))
        first = jnp.where(larger > 0, FAR_AT_FIRST * larger, jnp.inf)
        near = jnp.where(jnp.isfinite(bound), NARROWER * bound, first)
        wide = jnp.where(refused & self.beyond(y), WIDER * bound, bound)
        learned = jnp.stack([larger, jnp.maximum(FAR * larger, near)])
        return Magnitudes(jnp.where(learns, learned, jnp.stack([largest, wide])))
