"""Tables in text, a chunk of rows after the other: CSV by the csv module, NDJSON by json.

Both tell the line in which a row begins, and read what comes through a pipe. CSV cells stay text
here: what a column holds is decided once, and no later row can change it.
"""

import csv
import datetime
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import polars as pl

from jaxmkl._checks import shown
from jaxmkl.tables._bytes import Bytes, not_text
from jaxmkl.tables._table import number_in

SEPARATORS = ",;\t|"


class Chunk(NamedTuple):
    """Some rows of a table."""

    frame: pl.DataFrame
    place: str
    """What rows are counted in: "line" or "row"."""
    numbers: Any
    """The number of each row, a sequence (n,)."""
    source: str
    """The name of the file."""

    def cell(self, column: str) -> Callable[[int], str]:
        """What names the cell of a row in a column, for messages."""
        return lambda row: f"{self.source}, {self.place} {self.numbers[row]}, column {column!r}"

    def filter(self, mask: pl.Series) -> "Chunk":
        """The rows at which a mask is True."""
        numbers = [self.numbers[row] for row in mask.arg_true()]
        return self._replace(frame=self.frame.filter(mask), numbers=numbers)


class CSV:
    """A CSV file: a header, then rows of as many cells; blank lines are passed over."""

    def __init__(self, file: Bytes) -> None:
        self.file = file
        self.separator = separator_of(file.start.decode("utf-8-sig", errors="replace"))
        self._text, self._line = file.text(), 0
        style: Any = {"delimiter": self.separator, "skipinitialspace": True, "strict": True}
        self._reader: Any = csv.reader(self._text, **style)
        self.notes: list[str] = []
        with file.whole():
            line, header = next(self._rows(), (0, []))
        if not header:
            raise ValueError(f"{file.name}: has no names of columns, only blank lines")
        self.top = where = f"{file.name}, line {line}"
        self.names = names_of(where, header, self.notes)
        if len(self.names) == 1 and " " in header[0].strip():
            wanted = "columns are to be parted by commas, semicolons, tabs or |"
            raise ValueError(f"{where}: {wanted}; got {header[0]!r}")

    def share_read(self) -> float | None:
        """The share of the file."""
        return self.file.share_read()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not blank, with the lines in which they begin."""
        reader, name = self._reader, self.file.name
        try:
            for row in reader:
                line, self._line = self._line + 1, reader.line_num
                if len(row) > 1 or (row and row[0].strip()):
                    yield line, row
        except csv.Error as error:
            text = _of_quotes(str(error), reader.line_num)
            raise ValueError(f"{name}, line {self._line + 1}: {text}") from None
        except UnicodeDecodeError as error:
            raise not_text(name, reader.line_num, error) from None

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Chunks of ``size`` rows, the last one with what remains; all cells are text."""
        rows, width = self._rows(), len(self.names)
        while True:
            with self.file.whole():
                taken = list(itertools.islice(rows, size))
            if not taken:
                return
            for line, row in taken:
                if len(row) != width:
                    found = f"{len(row)} cell{'s' * (len(row) > 1)}"
                    text = f"{found} where the header has {width} columns; mend the line, or quote"
                    raise ValueError(f"{self.file.name}, line {line}: {text} its separators")
            lines, body = zip(*taken, strict=True)
            cells = dict(zip(self.names, zip(*body, strict=True), strict=True))
            schema = dict.fromkeys(self.names, pl.String)
            yield Chunk(pl.DataFrame(cells, schema), "line", lines, self.file.name)


def _of_quotes(error: str, line: int) -> str:
    """What the csv module refuses of a row that was read up to a line, by the user's words."""
    if "end of data" in error or "field limit" in error:
        text = "the row has a quote that is not closed"
    elif "expected after" in error:
        text = f"the row has a quote that is closed in line {line}, amid a cell"
    else:
        return error
    return f"{text}; close it, or write it twice where it is part of a text in quotes"


class NDJSON:
    """One JSON object a line; a name that an object lacks is a missing cell there."""

    def __init__(self, file: Bytes) -> None:
        self.file, self._text, self._line = file, file.text(), 0
        self.top, self.notes = file.name, list[str]()
        with file.whole():
            self._begun = list(itertools.islice(self._rows(), 1000))
        self.names: list[str] = list(dict.fromkeys(name for _, row in self._begun for name in row))
        if not self.names:
            raise ValueError(f"{file.name}: has no columns, only empty objects")

    def share_read(self) -> float | None:
        """The share of the file."""
        return self.file.share_read()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _rows(self) -> Iterator[tuple[int, dict]]:
        try:
            for text in self._text:
                self._line += 1
                if not text.strip():
                    continue
                try:
                    row = json.loads(text, parse_constant=lambda _: None)
                    if "\\u" in text:  # half of a pair is no text
                        json.dumps(row, ensure_ascii=False).encode()
                except (ValueError, RecursionError) as error:
                    where = f"{self.file.name}, line {self._line}"
                    raise ValueError(f"{where}: is no JSON object: {error}") from None
                if not isinstance(row, dict):
                    raise ValueError(
                        f"{self.file.name}, line {self._line}: one JSON object a line is wanted, "
                        f'as {{"a": 1, "b": 2}}; got {text.strip()[:40]!r}'
                    )
                yield self._line, row
        except UnicodeDecodeError as error:
            raise not_text(self.file.name, self._line, error) from None

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Chunks of ``size`` rows, the last one with what remains."""
        rows = itertools.chain(self._begun, self._rows())
        while True:
            with self.file.whole():
                taken = list(itertools.islice(rows, size))
            if not taken:
                return
            self._begun = []
            lines = [line for line, _ in taken]
            cells = {name: [row.get(name) for _, row in taken] for name in self.names}
            series = [series_of(name, values) for name, values in cells.items()]
            yield Chunk(pl.DataFrame(series), "line", lines, self.file.name)


def series_of(name: str, values: list) -> pl.Series:
    """Python values as a column: numbers, booleans, times, objects if some are nested, or text."""
    values = [value.item() if hasattr(value, "item") else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds & {list, dict}:
        return pl.Series(name, values, pl.Object)
    if kinds == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if kinds <= {int, float}:
        return pl.Series(name, [None if v is None else _number(v) for v in values], pl.Float64)
    if all(issubclass(kind, datetime.date) for kind in kinds):
        return pl.Series(name, values)
    return pl.Series(name, [None if v is None else str(v) for v in values], pl.String)


def _number(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # infinite, which is refused where a number is wanted
        return math.inf if value > 0 else -math.inf


def separator_of(start: str) -> str:
    """The separator that parts the header most and the first rows alike.

    >>> separator_of("a;b;c\\n1,5;2,5;3\\n")
    ';'
    """

    def rank(separator: str) -> tuple[bool, bool, int]:
        rows = csv.reader(
            io.StringIO(start, newline=""), delimiter=separator, skipinitialspace=True
        )
        try:
            widths = [len(row) for row in itertools.islice(rows, 50) if len(row) > 0]
        except csv.Error:
            widths = []
        # the last row may have been cut
        widths = widths[:-1] if len(widths) > 2 else widths
        widths = widths or [0]
        return widths[0] > 1, len(set(widths)) == 1, widths[0]

    return max(SEPARATORS, key=rank)


def names_of(where: str, header: list[str], notes: list[str]) -> list[str]:
    """The names of columns; numbers are none, and none may stand twice."""
    names = [name.strip() for name in header]
    for place, name in enumerate(names):
        if not name:
            names[place] = f"column_{place + 1}"
            notes.append(f"column {place + 1} has no name and is called 'column_{place + 1}'")
    counted = [number for number in map(number_in, names) if number is not None]
    whole = all(number == int(number) for number in counted)
    plain = whole and counted in ([*range(len(names))], [*range(1, len(names) + 1)])
    if not whole or (len(counted) == len(names) and not plain):
        text = f"the first line must name the columns; got {shown(names)}"
        raise ValueError(f"{where}: {text}; put a line of names above it")
    for place, name in enumerate(names):
        if names.index(name) < place:
            both = f"{names.index(name) + 1} and {place + 1}"
            text = f"the name stands twice, at columns {both}; rename one of them"
            raise ValueError(f"{where}, column {name!r}: {text}")
    return names
