"""Rows by name as inputs without a table, which takes far longer than a row.

Numbers, words of categories and truth values are read here, exactly as :mod:`jaxmkl.tables._cells`
reads them in a row of its own. Rows with any other cell are left to it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmkl.tables._kinds import MISSING_CATEGORY, Boolean, Categories, Number

if TYPE_CHECKING:
    from jaxmkl.tables._columns import Columns

LARGEST = 1e300
WHOLE = 2.0**53  # whole numbers below are exact
NAN = float("nan")


class NotPlain(Exception):
    """A cell is left to :mod:`jaxmkl.tables._cells`."""


class PlainRows:
    """Read rows by name, of a table with these columns, as inputs before gaps are filled."""

    def __init__(self, columns: "Columns") -> None:
        words, numbers = columns.missing_cells
        self._words, self._size = frozenset(words), len(columns.features)
        self._readers: list[tuple[str, int, Callable[[Any], Any]]] = []
        self._indicators: list[tuple[int, int]] = []
        self._is_able = not numbers  # that stand for missing cells
        for kind, first, end in columns._spans:
            match kind:
                case Number():
                    self._readers.append((kind.name, first, _number))
                    if kind.missing:
                        self._indicators.append((first, first + 1))
                case Boolean():
                    values = {kind.false: 0.0, kind.true: 1.0}
                    self._readers.append((kind.name, first, partial(self._boolean, values)))
                case Categories():
                    self._readers.append((kind.name, first, partial(self._category, kind.places)))
                case _:
                    self._is_able &= first == end

    def read(self, rows: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
        """Inputs (n, D) of rows, NaN where missing; None unless all cells are plain."""
        if not self._is_able:
            return None
        found = [[0.0] * self._size for _ in rows]
        try:
            for row, inputs in zip(rows, found, strict=True):
                for name, first, reader in self._readers:
                    place, value = reader(row.get(name))
                    if place >= 0:
                        inputs[first + place] = value
        except NotPlain:
            return None
        X = np.array(found)
        for first, indicator in self._indicators:
            X[:, indicator] = np.isnan(X[:, first])
        return X

    def _word(self, cell: Any) -> str | None:
        """The word in a cell; None for a missing one."""
        if isinstance(cell, str):
            if not cell.isascii():
                raise NotPlain
            word = cell.strip(" \t\r\n")
            return None if word.lower() in self._words else word
        if cell is None:
            return None
        if isinstance(cell, bool):
            return "true" if cell else "false"
        if isinstance(cell, int | float):
            if cell != cell:
                return None
            if abs(cell) < WHOLE and cell == int(cell):
                return str(int(cell))
        raise NotPlain

    def _boolean(self, values: Mapping[str, float], cell: Any) -> tuple[int, float]:
        word = self._word(cell)
        return 0, 0.5 if word is None else values.get(word.lower(), 0.5)

    def _category(self, places: Mapping[str, int], cell: Any) -> tuple[int, float]:
        word = self._word(cell)
        return places.get(MISSING_CATEGORY if word is None else word, -1), 1.0


def _number(cell: Any) -> tuple[int, float]:
    """A number that is finite or missing."""
    if cell is None:
        return 0, NAN
    is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    if is_number and (cell != cell or abs(cell) < LARGEST):
        return 0, float(cell)
    raise NotPlain
