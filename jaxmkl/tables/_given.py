"""Rows as they are given to a session, one mapping or several, or a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from jaxmkl._checks import shown, warn_outside
from jaxmkl.tables._plain import PlainRows
from jaxmkl.tables._rows import Chunk
from jaxmkl.tables.source import of_rows

if TYPE_CHECKING:
    from jaxmkl.tables._columns import Columns, Fills

Rows = Sequence[Mapping[str, Any]] | pl.DataFrame


class Refused(ValueError):
    """A row, an id or a label cannot be accepted; the session is as it was before."""


class Given:
    """Read rows as inputs, by the columns of a pipeline."""

    def __init__(self, columns: "Columns") -> None:
        self._columns, self._plain = columns, PlainRows(columns)
        self._names = columns.names
        self._absent = set[str]()  # columns whose absence was warned of

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
        self, rows: Rows, fills: "Fills", ids: Sequence[Any] | None = None
    ) -> tuple[np.ndarray, "Fills"]:
        """Inputs (n, D) of rows, and the fills after them.

        Raises:
          Refused: a row cannot be read; it is named by its id or its number.
        """
        for row in [rows.columns] if isinstance(rows, pl.DataFrame) else rows:
            self._look_for_columns(row)
        found = None if isinstance(rows, pl.DataFrame) else self._plain.read(rows)
        if found is not None:
            filled, after = self._columns.filled(found, fills)
            if (X := self._columns.centred(filled)) is not None:
                return X, after
        place = "row" if ids is None else "row with id"
        numbers = range(1, len(rows) + 1) if ids is None else ids
        try:
            frame = rows if isinstance(rows, pl.DataFrame) else of_rows(rows)
            return self._columns.inputs(Chunk(frame, place, numbers, "the rows"), fills)
        except ValueError as error:
            raise Refused(str(error)) from None

    def _look_for_columns(self, given: Iterable[str]) -> None:
        """Warn of columns that are not there, and refuse rows without any."""
        absent = [name for name in self._names if name not in given]
        if len(absent) == len(self._names):
            text = (
                f"the pipeline knows {shown(self._names, 20)}, of which none is among the columns"
            )
            raise Refused(f"{text} {shown([*map(str, given)], 20)}")
        if new := [name for name in absent if name not in self._absent]:
            self._absent.update(new)
            text = "not among the columns of a row, and counted as missing cells"
            warn_outside(f"{text}: {shown(new, 20)}", UserWarning)
