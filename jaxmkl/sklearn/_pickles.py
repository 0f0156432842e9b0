"""States of learners in pickles, as NumPy arrays, which any machine can read."""

from typing import NamedTuple

import jax
import numpy as np

from jaxmkl._types import PyTree


class _Key(NamedTuple):
    """A typed key in a pickle."""

    data: np.ndarray
    implementation: str


def packed(state: PyTree) -> PyTree:
    """Return a state in host memory."""

    def pack(leaf: PyTree) -> PyTree:
        if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return np.asarray(leaf)
        return _Key(np.asarray(jax.random.key_data(leaf)), str(jax.random.key_impl(leaf)))

    return jax.tree.map(pack, state)


def unpacked(state: PyTree) -> PyTree:
    """Return the state that was packed."""

    def unpack(leaf: PyTree) -> PyTree:
        if not isinstance(leaf, _Key):
            return jax.numpy.asarray(leaf)
        return jax.random.wrap_key_data(jax.numpy.asarray(leaf.data), impl=leaf.implementation)

    return jax.tree.map(unpack, state, is_leaf=lambda leaf: isinstance(leaf, _Key))
