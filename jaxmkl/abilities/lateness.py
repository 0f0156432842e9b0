"""Lateness: labels that come after other examples were predicted.

:meth:`jaxmkl.Learner.ask` awaits a label, and :meth:`jaxmkl.Learner.update` receives it. An
example is learned as it was predicted, with the context that it had then
(:func:`jaxmkl.wrappers.delayed`).
"""

import functools
from typing import Any

import jax

from jaxmkl._types import PyTree, State
from jaxmkl.abilities.walk import changed, inside


@functools.singledispatch
def awaiting(learner: Any, state: State, query: jax.Array) -> State:
    """The state after a label was asked for (if ``query``) that comes later."""
    return changed(awaiting, learner, state, query)


@functools.singledispatch
def receiving(learner: Any, state: State, asked: jax.Array) -> State:
    """The state before a label is learned (if ``asked``) that may have been awaited."""
    return changed(receiving, learner, state, asked)


@functools.singledispatch
def context(learner: Any, state: PyTree) -> PyTree:
    """The part of the state that belongs to the present example, a pytree.

    It holds the last labels, for instance (:func:`jaxmkl.wrappers.lagged`): the example is
    predicted with them, and learned with them too, even if that is later. By default it is that of
    the one learner inside, or empty.
    """
    parts = inside(learner, state).parts
    return context(*parts[0]) if len(parts) == 1 else ()


@functools.singledispatch
def with_context(learner: Any, state: State, context: PyTree) -> State:
    """The state with the context of an earlier example."""
    within = inside(learner, state)
    if len(within.parts) != 1:
        return state
    return within.put([with_context(*within.parts[0], context)])
