"""Lateness: labels that come after other examples were predicted.

:meth:`jaxmkl.Learner.ask` awaits a label, and :meth:`jaxmkl.Learner.update` receives it.
:func:`jaxmkl.wrappers.delayed`, and sessions of pipelines, keep the context that an example had
when it was predicted, and learn it so; ``update`` by hand learns it with the context of its state.
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


@functools.singledispatch
def out_of_order(learner: Any, state: PyTree) -> PyTree:
    """The state to predict examples that do not follow the last one learned.

    The labels right before such an example are not known, so what would be read from the last ones
    (:class:`jaxmkl.aggregate.Stack`) is left out. By default it is that of the learners inside.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.expert_mkl(banks="linear")
    >>> state = learner.init(jax.random.key(0), num_inputs=1)
    >>> state = learner.update(state, jax.numpy.ones(1), 2.0)
    >>> state.aggregate.last[:, 0], out_of_order(learner, state).aggregate.last[:, 0]
    (Array([2., 2.], dtype=float32), Array([inf, inf], dtype=float32))
    """
    return changed(out_of_order, learner, state)
