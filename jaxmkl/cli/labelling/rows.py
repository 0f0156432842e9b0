"""A table whose rows are to be labelled: their cells, their inputs, the labels they have."""

import csv
import dataclasses
import hashlib
import io
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmkl._checks import input_bound, shown
from jaxmkl._files import written_whole
from jaxmkl.tables import Pipeline, Seen

if TYPE_CHECKING:
    from jaxmkl.tables import Chunk, Columns, Fills


Label = str | float  # a class, or a number


class Refused(Exception):
    """An answer cannot be accepted; the message is the reason."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """All n rows of a table, counted from 0; an item is the number of a row in the file."""

    chunk: "Chunk"
    columns: "Columns"
    fills: "Fills"  #: what fills missing numbers, after these rows
    X: np.ndarray  #: inputs (n, D)
    y: np.ndarray  #: labels in the table, as :meth:`number` has them, else NaN (n,) float64
    seen: Seen  #: labels before the first question

    @classmethod
    def of(cls, chunk: "Chunk", columns: "Columns", pipeline: Pipeline | None = None) -> "Rows":
        """Read the rows of a table; the fills of a pipeline stay as they are.

        Raises:
          ValueError: if a cell does not fit its column.
        """
        assert columns.target is not None
        known = columns.init() if pipeline is None else pipeline.fills
        X, known = columns.inputs(chunk, known, learn=pipeline is None)
        there = columns.target.name in chunk.frame.columns
        y = columns.targets(chunk) if there else np.full(len(X), np.nan)
        K = len(columns.classes)
        seen = Seen.nothing(K).after(columns.target.places(y), K)
        return cls(chunk, columns, known, X, y, seen if pipeline is None else pipeline.seen)

    @property
    def target(self) -> Any:
        """The column to be predicted."""
        return self.columns.target

    @cached_property
    def items(self) -> list[int]:
        """The number of each row in the file."""
        return [int(number) for number in self.chunk.numbers]

    @cached_property
    def places(self) -> dict[int, int]:
        """The row of each item."""
        return {item: row for row, item in enumerate(self.items)}

    def place(self, item: object) -> int:
        """Return the row of an item, or raise :class:`Refused` if the table has none."""
        row = self.places.get(item) if type(item) is int else None
        if row is None:
            raise Refused(f"the table has no {self.chunk.place} {item!r}")
        return row

    @cached_property
    def has_label(self) -> np.ndarray:
        """The mask (n,) of the rows that have a label in the table."""
        return ~np.isnan(self.y)

    @property
    def about(self) -> dict[str, object]:
        """A description that distinguishes these rows and labels from others."""
        digest = hashlib.sha256(self.X.tobytes() + self.y.tobytes())
        of = f"{self.target.name}: {', '.join(self.target.classes) or 'numbers'}"
        return {"table": f"{len(self.X)} rows, {digest.hexdigest()[:16]}", "target": of}

    def cells(self, row: int) -> dict[str, object]:
        """Return the cells of a row as they are in the table, without the target."""
        cells = self.chunk.frame.row(row, named=True)
        return {name: cell for name, cell in cells.items() if name != self.target.name}

    @cached_property
    def values(self) -> dict[str, list]:
        """The cells of each column but the target as they are read: numbers, text or None."""
        return self.columns.known(self.chunk)

    def label(self, answer: object) -> Label:
        """Read an answer as a class or a number, as cells are, or raise :class:`Refused`."""
        classes = self.target.classes
        if classes:
            is_word = isinstance(answer, str | int | float) and not isinstance(answer, bool)
            if isinstance(answer, float) and answer.is_integer():
                answer = int(answer)  # 1.0 is 1, as in a table
            word = str(answer)
            if is_word and word in classes:
                return word
            raise Refused(f"{answer!r} is not one of the classes {shown(classes, 20)}")
        import polars as pl

        number = np.nan
        if isinstance(answer, str | int | float) and not isinstance(answer, bool):
            try:
                cell = answer if isinstance(answer, str) else float(answer)
                frame = pl.DataFrame({self.target.name: [cell]})
                number = float(self.columns.targets(self.chunk._replace(frame=frame))[0])
            except (ValueError, OverflowError):
                pass
        if not abs(number) <= input_bound(np.float32):  # NaN fails the comparison
            raise Refused(f"{answer!r} is not a number that can be learned")
        return number

    def number(self, label: Label) -> float:
        """Turn a label into -1 or +1, 0 to K - 1, or the number that it is."""
        classes = self.target.classes
        return self.target.numbered(float(classes.index(label))) if classes else float(label)

    def write(self, path: Path, labels: Mapping[int, Label]) -> int:
        """Write the rows with a label, in the table or in ``labels`` by item, as CSV.

        The file appears whole or not at all. Returns the number of rows.
        """
        classes, found = self.target.classes, {self.places[i]: y for i, y in labels.items()}
        for row in np.flatnonzero(self.has_label).tolist():
            place = self.target.places(self.y[row])
            found.setdefault(row, classes[int(place)] if classes else place)
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        names = [name for name in self.chunk.frame.columns if name != self.target.name]
        writer.writerow([*names, self.target.name])
        writer.writerows([*self.cells(row).values(), found[row]] for row in sorted(found))
        with written_whole(path) as file:
            file.write(text.getvalue().encode())
        return len(found)
