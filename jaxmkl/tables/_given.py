"""Rows and labels as they are given to a session; rows are mappings or a table.

Numbers, words of categories and truth values in mappings are read here, exactly as
:mod:`jaxmkl.tables._cells` reads them in a table, which takes far longer than a row. Rows with any
other cell are left to it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from jaxmkl._checks import input_bound, shown, warn_outside
from jaxmkl.tables._columns import Columns, Fills
from jaxmkl.tables._kinds import MISSING_CATEGORY, Boolean, Categories, Number
from jaxmkl.tables._rows import Chunk
from jaxmkl.tables.source import of_rows

Rows = Sequence[Mapping[str, Any]] | pl.DataFrame
LARGEST = 1e300
LARGEST_LABEL = input_bound(np.float32) / 2  # the differences of labels are to be numbers
WHOLE = 2.0**53  # whole numbers below are exact
NAN = float("nan")


class Refused(ValueError):
    """A row, an id or a label cannot be accepted; the session is as it was before."""


class Given:
    """Read rows as inputs and labels as numbers, by the columns of a pipeline."""

    def __init__(self, columns: Columns) -> None:
        self._columns, self._plain = columns, PlainRows(columns)
        self._absent = set[str]()  # columns whose absence was warned of
        self._places = {name: float(at) for at, name in enumerate(columns.classes)}

    def rows(self, given: object) -> Rows:
        """The rows, of which there is at least one, or :class:`Refused`."""
        if isinstance(given, Mapping):
            return [given]
        if not isinstance(given, list | tuple | pl.DataFrame):
            wanted = "cells by column, a list of such rows, or a DataFrame of polars"
            raise Refused(f"rows must be {wanted}; got {type(given).__name__}")
        if not len(given):
            raise Refused("rows must hold a row; got none")
        for at, row in enumerate([] if isinstance(given, pl.DataFrame) else given):
            if not isinstance(row, Mapping):
                raise Refused(f"rows[{at}] must be cells by column; got {type(row).__name__}")
        return given

    def inputs(
        self, rows: Rows, fills: Fills, ids: Sequence[Any] | None = None
    ) -> tuple[np.ndarray, Fills]:
        """Inputs (n, D) of rows, and the fills after them; rows are refused by id or number."""
        columns = self._columns
        try:
            for names in [rows.columns] if isinstance(rows, pl.DataFrame) else rows:
                absent = [name for name in columns._absent(names) if name not in self._absent]
                if absent:
                    self._absent.update(absent)
                    text = "not among the columns of a row, and counted as missing cells"
                    warn_outside(f"{text}: {shown(absent, 20)}", UserWarning)
            if isinstance(rows, pl.DataFrame):
                frame = rows
            else:
                if (found := self._plain.read(rows)) is not None:
                    found, after = columns.filled(found, fills)
                    if (X := columns.centred(found)) is not None:
                        return X, after
                frame = of_rows(rows)
            place = "row" if ids is None else "row with id"
            numbers = range(1, len(rows) + 1) if ids is None else ids
            return columns.inputs(Chunk(frame, place, numbers, "the rows"), fills)
        except ValueError as error:
            raise Refused(str(error)) from None

    def number(self, label: Any) -> float:
        """The place of a class, or a number, as a label of a table is read; else refuse it."""
        if (known := self._plainly(label)) is not None:
            return known
        target = self._columns.target
        assert target is not None
        try:
            frame = of_rows([{target.name: label}])
            numbers = self._columns.labels(Chunk(frame, "row", [1], "the label"))
            number = float(target.places(numbers)[0])
            why = " (a missing cell)"
        except ValueError:  # its advice is for whoever can mend a cell of a file
            is_large = isinstance(label, int | float) and abs(label) > LARGEST_LABEL
            number, why = np.nan, " (too large)" * (is_large and not target.classes)
        if np.isnan(number):
            named = f"one of the classes {shown(target.classes, 20)}"
            wanted = named if target.classes else "a finite number"
            raise Refused(f"label must be {wanted}; got {label!r}{why}")
        return number

    def _plainly(self, label: Any) -> float | None:
        """The same for a class by its name and for a number, in far less time; None for others."""
        if isinstance(label, str):
            return self._places.get(label)
        is_number = isinstance(label, int | float) and not isinstance(label, bool)
        if not is_number or self._columns.missing_cells[1]:
            return None
        if not self._places:
            return float(label) if abs(label) <= LARGEST_LABEL else None
        is_whole = abs(label) < WHOLE and label == int(label)
        return self._places.get(str(int(label))) if is_whole else None


class NotPlain(Exception):
    """A cell is left to :mod:`jaxmkl.tables._cells`."""


class PlainRows:
    """Read rows by name, of a table with these columns, as inputs before gaps are filled."""

    def __init__(self, columns: Columns) -> None:
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
