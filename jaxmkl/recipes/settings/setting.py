"""The published setting of a learner: how to make it, and where each of its constants stands."""

from collections.abc import Callable
from typing import NamedTuple

from jaxmkl._learner import Learner


class Constant(NamedTuple):
    """A constant of a published setting."""

    name: str
    """The argument of the recipe, or the part that it belongs to."""
    value: str
    """Its value in the paper's symbols, as "η_l = T^(-1/2)"."""
    source: str
    """The section, equation, algorithm or table that states it."""


class Setting(NamedTuple):
    """A learner as its paper runs it."""

    paper: str
    """Authors, year and title."""
    learner: Callable[[int, int], Learner]
    """Makes the learner for T examples of D inputs."""
    constants: tuple[Constant, ...]
    """Every constant with its source."""
