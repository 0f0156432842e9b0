"""The published setting of a learner, and the source of each of its constants."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxmkl._learner import Learner


class Constant(NamedTuple):
    """A constant of a published setting."""

    name: str
    """The argument of the recipe, or the part to which it belongs."""
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
    """A function that makes the learner for T examples of D inputs, and ``tuned`` arguments by
    their names."""
    constants: tuple[Constant, ...]
    """Every constant with its source."""
    tuned: Mapping[str, tuple[float, ...]] = MappingProxyType({})
    """The arguments that the paper tunes on each data set, with the values that it tries."""


def setting(
    paper: str,
    learner: Callable[..., Learner],
    *constants: Constant,
    tuned: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
) -> Setting:
    """The setting with these constants."""
    return Setting(paper, learner, constants, tuned)
