"""Chance: random numbers of aggregates that draw."""

import functools
from typing import Any

import jax
from jax.typing import DTypeLike

from jaxmkl._types import PyTree


@functools.singledispatch
def noise(aggregate: Any, key: jax.Array, num_models: int, dtype: DTypeLike) -> PyTree:
    """The random numbers of one round, from its key; none by default."""
    return ()
