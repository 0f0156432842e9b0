"""Mixing: how an aggregate weighs what it puts between the models and the prediction."""

import functools
from typing import Any, NamedTuple

import jax

from jaxmkl._types import PyTree


class Shares(NamedTuple):
    """Weights of what carries a prediction; each adds up to 1."""

    memories: jax.Array | None
    """The weights of a mixture's memories (M,): those of short ones grow after a change."""
    stacks: jax.Array | None = None
    """The weights of the aggregate below a stack, and of its regressions (1 + R,)."""


@functools.singledispatch
def shares(aggregate: Any, state: PyTree) -> Shares | None:
    """The weights of memories and stacks; None if an aggregate mixes nothing but models."""
    return None
