"""The published setting of a learner: how to make it, and where each of its constants stands."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxmkl._learner import Learner


class Constant(NamedTuple):
    """A constant of a published setting."""

    name: str
    """The argument of the recipe, or the part that it belongs to."""
    value: str
    """Its value in the paper's symbols, as "η_l = T^(-1/2)"."""
    source: str
    """The section, equation, algorithm or table that states it; or "not stated", and why this is
    taken."""


class Setting(NamedTuple):
    """A learner as its paper runs it."""

    paper: str
    """Authors, year and title."""
    learner: Callable[..., Learner]
    """Makes the learner for T examples of D inputs and, by their names, values of what is
    ``tuned``."""
    constants: tuple[Constant, ...]
    """Every constant with its source."""
    tuned: Mapping[str, tuple[float, ...]] = MappingProxyType({})
    """The arguments that the paper tunes on each data set, with the values that it tries."""
