"""Random numbers by a hash of counters: a few operations on integers, which fuse with others.

A draw of :mod:`jax.random` is a loop of its own in a compiled program, twenty kernels wherever it
stands. These numbers are for what no statistic relies on to the last digit, inside of programs:
the thresholds of trees, the signs of a metric. Whatever is public is drawn by typed keys.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

# 2^32 over the golden ratio, by which words that are equal do not cancel
_STEP = np.uint32(0x9E3779B9)
# the mixer: shift to the right, xor, multiply; and a last shift
_SHIFTS, _LAST = (17, 11, 15), 14
_FACTORS = (0xED5AD4BB, 0xAC4C1B51, 0x31848BAB)


def hashed(seed: jax.Array, *words: jax.typing.ArrayLike) -> jax.Array:
    """Random bits, uint32, of a seed, uint32, and of integers that may be arrays of its rank.

        h_0 = seed,     h_i = m((h_{i-1} + 0x9E3779B9) xor word_i)

    Here m is Wellons' ``triple32``, a bijection of three products between four shifts. So of one
    seed different words make different numbers.

    References:
      Wellons (2018), Prospecting for hash functions, https://nullprogram.com/blog/2018/07/31/.

    >>> import jax.numpy as jnp
    >>> hashed(jnp.uint32(7), jnp.arange(3)).tolist() == hashed(jnp.uint32(7), range(3)).tolist()
    True
    """
    bits = seed
    for word in words:
        # a conversion of known numbers would be a kernel outside of the loop that uses them
        library = np if isinstance(word, np.ndarray) else jnp
        bits = (bits + _STEP) ^ library.asarray(word).astype(np.uint32)
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=True):
            bits = (bits ^ bits >> np.uint32(shift)) * np.uint32(factor)
        bits = bits ^ bits >> np.uint32(_LAST)
    return bits


def seed_of(key: jax.Array) -> jax.Array:
    """A seed, uint32, of a typed key ()."""
    return hashed(jnp.zeros((), jnp.uint32), *jax.random.key_data(key))


def uniform_of(bits: jax.Array, dtype: DTypeLike = jnp.float32) -> jax.Array:
    """Uniform numbers in [0, 1) from the upper 24 of random bits, the same in every dtype."""
    return (bits >> np.uint32(8)).astype(dtype) * jnp.asarray(2.0**-24, dtype)
