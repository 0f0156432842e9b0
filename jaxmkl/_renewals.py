"""Renewals of what a learner learns from its memory, apart from the rounds between them.

A renewal is a program of its own. So a bank whose kernels are learned adds nothing to the program
of the rounds, and the first rounds do not wait for the compilation of renewals. (To compile these
in another thread meanwhile took longer on two cores: 16 s for 15 to the first result of the
default, and 28 processor seconds for 24.) Drivers call them between segments of rounds; ``step``,
``update`` and ``skip`` after a round, where they are called by themselves. Inside a user's trace
they are a part of :meth:`jaxmkl.Learner.close`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxmkl._types import PyTree


class Renewals(NamedTuple):
    """The renewals of a learner, apart from its rounds."""

    rounds: Any
    """The learner without its renewals, which has the same states."""
    after: Callable[[int], int]
    """The round of the next renewal after a round."""
    renewed: Callable[[PyTree, int], PyTree]
    """A state after the renewals that are due when a round begins: ``renewed(state, round)``."""


@functools.singledispatch
def renewals_of(learner: Any) -> Renewals | None:
    """The renewals of a learner; None without any, or if they are not in rounds of a driver."""
    return None
