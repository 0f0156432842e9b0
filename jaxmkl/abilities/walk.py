"""How abilities reach the parts inside a composite."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from jaxmkl._types import PyTree, State


class Inside(NamedTuple):
    """The parts inside a part, each with its state, and how their states are put back."""

    parts: tuple[tuple[Any, PyTree], ...]
    """Pairs of a part and its state."""
    put: Callable[[Sequence[PyTree]], PyTree]
    """The state of the whole, from states of these parts in the same order."""
    many: bool = False
    """True if states have a leading axis, for several of each part side by side."""


@functools.singledispatch
def inside(part: Any, state: PyTree) -> Inside:
    """The parts inside a part and their states; by default there are none."""
    return Inside((), lambda states: state)


def found(ability: Callable, part: Any, state: PyTree) -> list[Any]:
    """Results of an ability for the parts inside, with a leading axis where there are several."""
    within = inside(part, state)

    def one(part: Any, own: PyTree) -> Any:
        return jax.vmap(lambda own: ability(part, own))(own) if within.many else ability(part, own)

    return [one(*pair) for pair in within.parts]


def changed(ability: Callable, part: Any, state: State, *given: Any) -> State:
    """The state after an ability that returns the next state of each part inside."""
    within = inside(part, state)
    if not within.parts:
        return state

    def one(part: Any, own: PyTree) -> PyTree:
        alone = functools.partial(ability, part)
        if not within.many:
            return alone(own, *given)
        return jax.vmap(lambda own: alone(own, *given))(own)

    return within.put([one(*pair) for pair in within.parts])


def can(ability: Any, part: Any) -> bool:
    """True if the class of a part, or a base of it, registered an ability for itself."""
    return ability.dispatch(type(part)) is not ability.dispatch(object)
