"""Judging: losses that nothing in a block depends on may be worked out for the block at once.

Drivers do so on accelerators, where each kernel takes a while to begin.
"""

import functools
from typing import Any

import jax

from jaxmkl._types import PyTree, State


@functools.singledispatch
def advance_unjudged(
    learner: Any, state: State, code: PyTree, y: jax.Array, present: Any = True
) -> tuple[State, PyTree]:
    """Do ``learner.advance`` but for the losses; return the state and what :func:`judge` needs."""
    raise NotImplementedError(f"{type(learner).__name__} must be a jaxmkl.Learner")


@functools.singledispatch
def judge(learner: Any, state: State, left: PyTree, y: jax.Array) -> tuple[State, PyTree]:
    """The state and the outputs of rounds with labels ``y`` (B, ...), which left ``left``."""
    raise NotImplementedError(f"{type(learner).__name__} must be a jaxmkl.Learner")
