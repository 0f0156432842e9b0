"""Growth: support vectors lie in arrays of a fixed size, which can be made larger.

Drivers of rounds enlarge a state before a run that may need more room. In a ``jit`` of one's own
shapes are fixed: call ``enlarged(learner, state, capacity)`` before it. Support vectors without
room are counted in ``info(state).overflow``.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._types import PyTree, State
from jaxmkl.abilities.walk import changed, found, inside


@functools.singledispatch
def capacity(part: Any, state: PyTree) -> int | None:
    """Support vectors that a state has room for; None where it cannot run short.

    By default it is the least of the parts inside. It is read from shapes alone.
    """
    rooms = (capacity(*pair) for pair in inside(part, state).parts)
    return min((room for room in rooms if room is not None), default=None)


@functools.singledispatch
def num_supports(part: Any, state: PyTree) -> jax.Array:
    """The number of support vectors in a state; by default the largest of the parts inside."""
    numbers = [jnp.max(one) for one in found(num_supports, part, state)]
    return functools.reduce(jnp.maximum, numbers, jnp.zeros((), jnp.int32))


@functools.singledispatch
def enlarged(part: Any, state: State, capacity: int) -> State:
    """The state with room for ``capacity`` support vectors, at least, in every part inside."""
    return changed(enlarged, part, state, capacity)


@functools.singledispatch
def support_counts(bank: Any, state: PyTree) -> tuple[jax.Array, jax.Array] | None:
    """Support vectors of each kernel (P,) and examples without room; None of other banks."""
    return None
