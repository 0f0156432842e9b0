"""How large labels of numbers have been: by this a label is judged before it is believed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

FAR, FAR_AT_FIRST = 100.0, 1e6
WIDER, NARROWER = 10.0, 0.95


class Magnitudes(NamedTuple):
    """The largest magnitude learned, and the bound b beyond which a label is refused.

        |y| <= b:   a <- max(a, |y|),  b <- max(100 a, .95 b)       the label is learned
        |y| > b:    b <- 10 b                                       it is not

    from a = 0 and b infinite; the first label that is not 0 makes b = 10^6 a. So one absurd label
    costs nothing; a target that has changed its level is followed after as many labels as the
    change has tens beyond a hundred; and what is as far off in more than one label of 45 is
    believed in the end. Only the units of the target are its own: y -> c y changes nothing.
    Of several outputs each has its own numbers, and one that is beyond refuses the example.
    """

    levels: jax.Array
    """[a, b], (2,) or (2, K); one array, which is cheaper in a scan than two."""

    @classmethod
    def none(cls, num_outputs: int | None, dtype: Any) -> "Magnitudes":
        """Before the first label."""
        shape = () if num_outputs is None else (num_outputs,)
        return cls(jnp.stack([jnp.zeros(shape, dtype), jnp.full(shape, jnp.inf, dtype)]))

    def beyond(self, y: jax.Array) -> jax.Array:
        """Which outputs of a label are beyond the bound, none where it is not finite."""
        return jnp.isfinite(y) & (jnp.abs(y) > self.levels[1])

    def after(self, y: jax.Array, learns: jax.Array, refused: jax.Array) -> "Magnitudes":
        """After a label that is learned, or one that is refused as it is beyond, or none."""
        largest, bound = self.levels
        larger = jnp.maximum(largest, jnp.abs(y))
        first = jnp.where(larger > 0, FAR_AT_FIRST * larger, jnp.inf)
        near = jnp.where(jnp.isfinite(bound), NARROWER * bound, first)
        wide = jnp.where(refused & self.beyond(y), WIDER * bound, bound)
        learned = jnp.stack([larger, jnp.maximum(FAR * larger, near)])
        return Magnitudes(jnp.where(learns, learned, jnp.stack([largest, wide])))
