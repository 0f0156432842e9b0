"""Voting: aggregates that know a value by its sign alone, which makes sense for classes only."""

import functools
from typing import Any


@functools.singledispatch
def signs(aggregate: Any) -> set[str]:
    """The purposes, "vote" or "mistake", for which only signs of values count; none by default."""
    return set()
