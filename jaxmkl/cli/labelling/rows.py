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

from jaxmkl._files import written_whole
from jaxmkl.tables import Refused

if TYPE_CHECKING:
    from jaxmkl.tables import Chunk, Columns, Fills

Label = str | float  # a class, or a number


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """All n rows of a table, counted from 0; an item is the number of a row in the file."""

    chunk: "Chunk"
    columns: "Columns"
    fills: "Fills"  #: what fills missing numbers
    X: np.ndarray  #: inputs (n, D)
    y: np.ndarray  #: labels in the table, as learners have them, else NaN (n,) float64

    @classmethod
    def of(cls, chunk: "Chunk", columns: "Columns", fills: "Fills | None" = None) -> "Rows":
        """Read all rows of a table; by default they themselves fill their missing numbers.

        Raises:
          ValueError: if a cell does not fit its column.
        """
        assert columns.target is not None
        X, known = columns.inputs(chunk, fills or columns.init(), learn=fills is None)
        there = columns.target.name in chunk.frame.columns
        y = columns.targets(chunk) if there else np.full(len(X), np.nan)
        return cls(chunk, columns, known, X, y)

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
        """Return the row of an item, or raise ``Refused`` if the table has none."""
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

    def write(self, path: Path, labels: Mapping[int, Label]) -> int:
        """Write the rows with a label, in the table or in ``labels`` by item, as CSV.

        The file appears whole or not at all. Returns the number of rows.
        """
        rows, classes = np.flatnonzero(self.has_label), self.target.classes
        known = self.target.places(self.y[rows]).tolist()
        known = [classes[int(place)] for place in known] if classes else known
        found = dict(zip(rows.tolist(), known, strict=True))
        found |= {self.places[item]: label for item, label in labels.items()}
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        names = [name for name in self.chunk.frame.columns if name != self.target.name]
        writer.writerow([*names, self.target.name])
        writer.writerows([*self.cells(row).values(), found[row]] for row in sorted(found))
        with written_whole(path) as file:
            file.write(text.getvalue().encode())
        return len(found)
