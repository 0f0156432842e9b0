"""A table whose rows are to be labelled: their cells, their inputs, the labels they have."""

import contextlib
import csv
import dataclasses
import hashlib
import io
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmkl._checks import input_bound, shown
from jaxmkl._files import written_whole
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Model, Seen, usual_target

if TYPE_CHECKING:
    from jaxmkl.tables import Chunk, Columns, Fills

NEW = "label"  # the target's name, where the table has none


class Refused(Exception):
    """An answer that cannot be taken; the message is the reason."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """All rows of a table; a row is a place from 0 on, an item its number in the file."""

    chunk: "Chunk"
    columns: "Columns"
    fills: "Fills"  #: what missing numbers are filled by, after these rows
    X: np.ndarray  #: inputs (n, D)
    y: np.ndarray  #: labels that are there (n,) float64, as :meth:`code` has them; else NaN
    seen: Seen  #: of labels before the first question

    @classmethod
    def of(cls, chunk: "Chunk", columns: "Columns", model: Model | None = None) -> "Rows":
        """The rows of a table; of a model with its fills, which stay as they are.

        Raises:
          ValueError: for a cell that is not what its column holds.
        """
        assert columns.target is not None
        known = columns.init() if model is None else model.fills
        X, known = columns.inputs(chunk, known, learn=model is None)
        there = columns.target.name in chunk.frame.columns
        y = columns.targets(chunk) if there else np.full(len(X), np.nan)
        if model is not None:
            return cls(chunk, columns, known, X, y, model.seen)
        K = len(columns.classes)
        seen = Seen.nothing(K).after(columns.target.places(y), K)
        return cls(chunk, columns, known, X, y, seen)

    @property
    def target(self) -> Any:
        """The column to be predicted."""
        return self.columns.target

    @cached_property
    def items(self) -> list[int]:
        """The number of each row."""
        return [int(number) for number in self.chunk.numbers]

    @cached_property
    def places(self) -> dict[int, int]:
        """The row of each item."""
        return {item: row for row, item in enumerate(self.items)}

    @cached_property
    def has_label(self) -> np.ndarray:
        """Which rows have a label in the table (n,)."""
        return ~np.isnan(self.y)

    @property
    def about(self) -> dict[str, Any]:
        """A description that tells these rows and labels from others."""
        digest = hashlib.sha256(self.X.tobytes() + self.y.tobytes())
        of = f"{self.target.name}: {', '.join(self.target.classes) or 'numbers'}"
        return {"table": f"{len(self.X)} rows, {digest.hexdigest()[:16]}", "target": of}

    def cells(self, row: int) -> dict[str, Any]:
        """A row's cells but the target, by column."""
        cells = self.chunk.frame.row(row, named=True)
        return {name: cell for name, cell in cells.items() if name != self.target.name}

    def values(self, row: int) -> dict[str, Any]:
        """A row's cells but the target, as its columns are read: numbers, text, None."""
        return {name: cells[row] for name, cells in self._read.items()}

    @cached_property
    def _read(self) -> dict[str, list]:
        return self.columns.known(self.chunk)

    def label(self, answer: Any) -> Any:
        """An answer as the class or the finite number that it names.

        Raises:
          Refused: it names none.
        """
        if self.target.classes:
            is_word = isinstance(answer, str | int) and not isinstance(answer, bool)
            if is_word and str(answer) in self.target.classes:
                return str(answer)
            raise Refused(f"{answer!r} is none of the classes {shown(self.target.classes, 20)}")
        number = self._number(answer)
        if not math.isfinite(number) or abs(number) > input_bound(np.float32):
            raise Refused(f"{answer!r} is no number that can be learned")
        return number

    def _number(self, answer: Any) -> float:
        """Text is read as the table's cells are."""
        import polars as pl

        if isinstance(answer, str):
            try:
                frame = pl.DataFrame({self.target.name: [answer]})
                return float(self.columns.targets(self.chunk._replace(frame=frame))[0])
            except ValueError:
                return math.nan
        number = isinstance(answer, int | float) and not isinstance(answer, bool)
        try:
            return float(answer) if number else math.nan
        except OverflowError:
            return math.inf

    def code(self, label: Any) -> float:
        """A label as -1 or +1, 0 to K - 1, or the number that it is."""
        if not self.target.classes:
            return label
        return self.target.coded(float(self.target.classes.index(label)))

    def named(self, code: float) -> Any:
        """The label of a code."""
        if not self.target.classes:
            return code
        return self.target.classes[int(self.target.places(code))]

    def start(self, labels: Mapping[int, Any]) -> float:
        """Where numbers begin: at the first label of all, of the table or of these answers."""
        if self.target.classes or not self.seen.is_nothing:
            return self.seen.start
        return next(iter(labels.values()), 0.0)

    def seen_with(self, labels: Mapping[int, Any]) -> Seen:
        """The labels seen once these answers came, too, by row and in their order."""
        codes = np.array([self.code(label) for label in labels.values()], np.float64)
        return self.seen.after(self.target.places(codes), len(self.target.classes))

    def write(self, path: Path, labels: Mapping[int, Any]) -> int:
        """Write the rows with a label, those of ``labels`` by row and the table's own, as CSV.

        The file appears whole or not at all. Returns the number of rows.
        """
        there = {int(row): self.named(self.y[row]) for row in np.flatnonzero(self.has_label)}
        found = dict(sorted((there | dict(labels)).items()))
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        names = [name for name in self.chunk.frame.columns if name != self.target.name]
        writer.writerow([*names, self.target.name])
        writer.writerows([*self.cells(row).values(), label] for row, label in found.items())
        with written_whole(path) as file:
            file.write(text.getvalue().encode())
        return len(found)


def whole_table(path: str) -> "Chunk":
    """All rows of a table.

    Raises:
      UsageError: for standard input, from which answers come.
      ValueError: for what is no table, or one without rows.
    """
    from jaxmkl.tables import open_table
    from jaxmkl.tables.source import ROWS, joined

    if path == "-":
        raise UsageError("ask reads answers from standard input; the table must be a file")
    with contextlib.closing(open_table(path)) as table:
        return joined(table, ROWS)


def decided(chunk: "Chunk", given: Any) -> "Columns":
    """Decide on the columns by the options ``given``; the target may have no label yet.

    Raises:
      UsageError: it cannot be told what the target is.
      ValueError: as :meth:`jaxmkl.tables.Columns.decide`.
    """
    from jaxmkl.tables import Columns

    name = given.target or usual_target(chunk.frame.columns) or NEW
    inputs = chunk.frame.drop(name, strict=False)[: given.first]
    drop = [column for column in given.drop if column != name]
    first = chunk._replace(frame=inputs)
    columns = Columns.decide(first, drop=drop, as_=dict(given.as_), supervised=False)
    classes = tuple(dict.fromkeys(given.classes))
    if given.classes and (len(classes) < 2 or given.task == "regression"):
        raise UsageError("--classes: two classes or more are wanted, of a classification")
    columns = columns.with_target(chunk, name, given.task, classes)
    if columns.target is None:
        text = f"{chunk.source} has no labels of two kinds in a column {name!r}"
        advice = "--classes A,B or --task regression tells of what kind they will be"
        raise UsageError(f"{text}: {advice}, --target names another column")
    return columns
