"""Tables: rows of named columns in chunks, whatever their source."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from jaxmkl._checks import refuse_unless, shown
from jaxmkl.tables._cells import Cells, RefusedRows
from jaxmkl.tables._words import missing_cells

MOST_CELLS = 2**24  # cells of a chunk, at most


def at_most(rows: int, columns: int) -> int:
    """The number of rows of a chunk: ``rows``, or fewer if they are very wide."""
    return max(1, min(rows, MOST_CELLS // max(1, columns)))


class Chunk(NamedTuple):
    """Some rows of a table."""

    frame: pl.DataFrame
    place: str
    """The unit in which rows are counted: "line" or "row"."""
    numbers: Sequence[int]
    """The number of each row (n,)."""
    source: str
    """The name of the file."""
    missing: tuple[str, ...] = ()
    """Words for missing cells, beside the usual ones."""
    refused: tuple[tuple[int, str], ...] = ()
    """The places of rows that cannot be read, in order, and why; their cells are meaningless."""

    def column(self, name: str, comma: bool = False) -> Cells:
        """The cells of a column; all are missing if it is not there."""
        cells = self.frame.get_column(name, default=None)  # a list of names would be quadratic
        if cells is None:
            cells = pl.Series(name, [None] * len(self.frame), pl.Null)

        def where(row: int) -> str:
            return f"{self.source}, {self.place} {self.numbers[row]}, column {name!r}"

        return Cells(cells, where, comma, self.missing)

    @property
    def has_decimal_commas(self) -> bool:
        """True if the numbers of some column certainly have decimal commas."""
        names = (name for name in self.frame.columns if self.has_sign(",", name))
        found = (self.column(name).notation for name in names)
        return any(written is not None and written.decimal == "," for written in found)

    def has_sign(self, sign: str, name: str) -> bool:
        """True if a column is text with a sign, such as points, which may separate thousands."""
        cells = self.frame.get_column(name).alias("")
        return cells.dtype == pl.String and bool(cells.str.contains(sign, literal=True).any())

    def plain_numbers(self, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Read at once those of these columns whose cells are all finite numbers without signs.

        Returns:
          Their names, and the numbers (n, names) float64, as :meth:`Cells.numbers` reads them.
        """
        schema, none = self.frame.schema, np.zeros((len(self.frame), 0))
        if missing_cells(self.missing)[1]:
            return [], none
        dtypes = ((name, schema.get(name)) for name in names)
        some = [name for name, of in dtypes if of == pl.String or (of and of.is_numeric())]
        if not some or self.frame.is_empty():
            return [], none
        # by their places, as a name like ^a$ would be a pattern
        cells = self.frame[some].select(pl.all().cast(pl.Float64, strict=False))
        found = cells.to_numpy()
        plain = np.isfinite(found).all(axis=0)
        return [some[at] for at in np.flatnonzero(plain)], found[:, plain]

    def require(self, *names: str) -> None:
        """Refuse names that no column has."""
        for name in names:
            if name not in self.frame.schema:
                known = f"its columns are {shown(self.frame.columns, 100)}"
                raise ValueError(f"{self.source}: has no column {name!r}; {known}")

    def filter(self, mask: pl.Series) -> "Chunk":
        """The rows at which a mask is True."""
        return self.take(mask.arg_true().to_list())

    def take(self, rows: Sequence[int]) -> "Chunk":
        """The rows at these places."""
        if len(rows) == len(self.frame):
            return self
        why, numbers = dict(self.refused), [self.numbers[row] for row in rows]
        refused = tuple((place, why[row]) for place, row in enumerate(rows) if row in why)
        return self._replace(frame=self.frame[rows], numbers=numbers, refused=refused)


class Readable(NamedTuple):
    """The rows of a chunk that can be read, before the first one that is refused."""

    chunk: Chunk
    found: Any
    """The result of ``read`` for them."""
    passed: int
    """The number of rows read or skipped."""
    reasons: dict[int, str]
    """The reasons not to read other rows, by their places; before ``passed`` they are skipped."""
    refusal: str
    """The reason why the next row is refused, or ""."""


def readable(
    chunk: Chunk,
    most: int,
    read: Callable[[Chunk], Any],
    aligned: Callable[[list[int]], list[int]] = list,
) -> Readable:
    """Read the rows of a chunk, and skip at most so many that cannot be read; more are refused.

    ``read`` reads rows, or raises :class:`RefusedRows`; ``aligned`` returns those to be read of
    the rows before a refused one.
    """
    reasons = dict(chunk.refused)
    while True:
        bad = sorted(reasons)
        end = [*bad, len(chunk.frame)][min(most, len(bad))]
        rows, is_refused = [row for row in range(end) if row not in reasons], len(bad) > most
        kept = chunk.take(rows)
        try:
            found = read(kept)
        except RefusedRows as error:
            reasons |= {rows[row]: reason for row, reason in error.reasons.items()}
            continue
        if is_refused and len(fewer := aligned(rows)) < len(rows):
            rows, kept = fewer, chunk.take(fewer)
            found = read(kept)
        passed = end if not is_refused else rows[-1] + 1 if rows else 0
        refusal = reasons[end] if is_refused else ""
        return Readable(kept, found, passed, {row: reasons[row] for row in bad}, refusal)


class Table:
    """Rows of named columns, which are read once and in order.

    ``frames`` reads frames of at most so many rows; the length is the number of all rows;
    ``missing`` has words for missing cells.
    """

    named_by: int | None = None
    """The number of first rows that decided :attr:`names`; None if all rows did."""
    target: str | None = None
    """The target of arrays, whose columns are to be kept as they are; None if there is none."""

    def __init__(
        self,
        source: str,
        names: Sequence[str],
        frames: Callable[[int], Iterator[pl.DataFrame]],
        length: int,
        missing: Sequence[str] = (),
    ) -> None:
        self.source = self.top = source
        """``top`` is the place where it begins, for messages."""
        self.names = [*names]
        self.notes = list[str]()
        """A sentence on each decision made while it was opened."""
        self._frames, self._length, self._missing = frames, length, tuple(missing)
        self._read = 0
        refuse_unless(self.names, f"{source}: has no columns")

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Read chunks of ``size`` rows; the last one has the rest.

        A chunk of text from a pipe, unless it is compressed, has at most so many: the first one
        that comes, and those that are there by then.
        """
        for frame in self._frames(at_most(size, len(self.names))):
            numbers = range(self._read + 1, self._read + 1 + len(frame))
            self._read += len(frame)
            yield Chunk(frame, "row", numbers, self.source, self._missing)

    def share_read(self) -> float | None:
        """Return the share that was read, from 0 to 1; None where it is not known."""
        return self._read / max(1, self._length)

    def close(self) -> None:
        """Close the file, if there is one."""
