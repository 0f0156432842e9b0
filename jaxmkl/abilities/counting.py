"""Counting: rounds in which a learner diverges are counted in its state."""

import functools
from typing import Any

import jax

from jaxmkl._types import PyTree, State
from jaxmkl.abilities.walk import inside


@functools.singledispatch
def diverged_unless(learner: Any, before: State, after: State, sound: jax.Array) -> State:
    """The state ``after`` some rounds, all of which count as diverged unless it is ``sound``.

    By default the learners inside count them.
    """
    begun, ended = inside(learner, before), inside(learner, after)
    if not ended.parts:
        return after

    def one(part: Any, before: PyTree, after: PyTree) -> PyTree:
        def alone(before: PyTree, after: PyTree) -> PyTree:
            return diverged_unless(part, before, after, sound)

        return (jax.vmap(alone) if ended.many else alone)(before, after)

    pairs = zip(begun.parts, ended.parts, strict=True)
    return ended.put([one(part, then, now) for (part, then), (_, now) in pairs])
