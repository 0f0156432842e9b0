"""The options of ``open_table``: everything about reading that the bytes do not tell."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypedDict

from jaxmkl._pytree import require
from jaxmkl.tables._words import twice

LONGEST_LINE = 64
"""The MiB that a line of text may take, by default."""


class How(TypedDict, total=False):
    """The keyword arguments that make a :class:`Reading`."""

    names: Sequence[str]
    header: bool | None
    missing: Sequence[str]
    longest_line: int
    columns: Iterable[str]
    whole: bool
    keep_refused: bool


@dataclasses.dataclass(frozen=True)
class Reading:
    """The options of :func:`jaxmkl.tables.open_table`, which explains them."""

    names: Sequence[str] = ()
    header: bool | None = None
    missing: Sequence[str] = ()
    longest_line: int = LONGEST_LINE
    columns: Iterable[str] = ()
    whole: bool = False
    keep_refused: bool = False

    def __post_init__(self) -> None:
        for one, (first, second) in twice(self.names).items():
            at = f"{one!r} at {first + 1} and {second + 1}"
            require(False, "open_table", "names", at, "names of which none stands twice")
        good = self.longest_line > 0
        require(good, "open_table", "longest_line", self.longest_line, "a number of MiB above 0")

    @property
    def numbered(self) -> list[int]:
        """The columns that are known by their numbers, without ``x`` before them."""
        plain = (name.removeprefix("x") for name in self.columns)
        found = (name for name in plain if name.isdecimal() and name.isascii())
        return [int(name) for name in found if name == str(int(name))]
