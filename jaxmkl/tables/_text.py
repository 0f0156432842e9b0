"""Tables in text, in chunks of rows: CSV and NDJSON.

Every row knows the line in which it begins, and the text may come through a pipe. The cells of
CSV remain text here: what a column holds is decided once, and no later row can change it.
"""

import csv
import datetime
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from jaxmkl.tables import _header
from jaxmkl.tables._bytes import Bytes, not_text
from jaxmkl.tables._cells import Chunk, at_most
from jaxmkl.tables._reading import Reading
from jaxmkl.tables._words import twice

SEPARATORS = ";\t|,"  # of several that split alike the first: commas may be of decimals
SAID = re.compile(r"sep=([,;\t|])", re.IGNORECASE)  # a line that names the separator
NAMED_BY = 1000  # objects of JSON that are looked at for names of columns


class TextTable:
    """A :class:`Table` in a file of text, whose lines are counted while they are read."""

    names: list[str]
    named_by: int | None = None

    def __init__(self, file: Bytes, reading: Reading | None = None) -> None:
        self.file, self.top, self.notes = file, file.name, list[str]()
        self.reading = reading or Reading()
        self.close, self.share_read = file.close, file.share_read
        self._rest = self._read()
        self.number, self.lines = 0, self._counted()

    def _read(self) -> Iterator[str]:
        """Read lines, of which none may be too long: one without an end would fill the memory."""
        text = io.TextIOWrapper(self.file.stream, "utf-8-sig", newline="")  # line ends as they are
        number, most = 0, self.reading.longest_line << 20
        try:
            with self.file.whole():
                while line := text.readline(most + 1):
                    number += 1
                    if len(line) > most:
                        where = f"{self.file.name}, line {number}"
                        text_ = f"is longer than {self.reading.longest_line} MiB"
                        raise ValueError(f"{where}: {text_} (--longest-line allows more)")
                    yield line
        except UnicodeDecodeError as error:
            raise not_text(self.file.name, number, error) from None

    def first_lines(self) -> list[str]:
        """The lines from which a file is told, before any is read."""
        found, size = list[str](), 0
        for line in itertools.islice(self._rest, _header.LOOKED_AT):
            found.append(line)
            size += len(line)
            if size > _header.MOST_LOOKED_AT and len(found) > 1:
                break
        self._rest = itertools.chain(found, self._rest)
        return [*found]

    def _counted(self) -> Iterator[str]:
        for line in self._rest:
            self.number += 1
            yield line


class CSV(TextTable):
    """A CSV file: a header, then rows of as many cells; blank lines are skipped.

    polars splits lines without quotes. The csv module reads chunks with quotes or blank lines:
    polars tells no row's line, fills short rows with nulls, fails at a quote inside a cell
    (``5'11"``) or behind a space, and takes all that a pipe holds into memory first.
    """

    def __init__(self, file: Bytes, reading: Reading | None = None) -> None:
        super().__init__(file, reading)
        first, name, given = self.first_lines(), file.name, self.reading
        self.separator = _header.separator_of(
            file.start.decode("utf-8-sig", errors="replace"), SEPARATORS
        )
        if said := SAID.fullmatch(first[0].strip()):  # by a spreadsheet, for another
            self.separator = said[1]
            next(self.lines)
            del first[0]
        before, (lines, cells) = self.number, _header.rows_of(first, self.separator)
        if not cells:
            raise ValueError(f"{name}: has no names of columns, only blank lines")
        self.top = where = f"{name}, line {before + lines[0]}"
        has_header = not given.names if given.header is None else given.header
        if given.header is None:
            _header.refuse_wabbit(where, first[lines[0] - 1])
            if len({len(row) for row in cells}) > 1 or sum(map(bool, cells[0])) == 1:
                _header.refuse_title(name, before, first, self.separator + SEPARATORS)
        if not has_header:
            self.names = [f"column_{i + 1}" for i in range(len(cells[0]))]
        else:
            header = self._parsed(self.lines, 1, before)[0][1]
            if given.header is None:
                _header.refuse_row(where, cells[0], cells[1:])
            self.names = names_of(where, header, self.notes)
            if len(self.names) == 1 and " " in header[0].strip():
                wanted = "columns must be separated by commas, semicolons, tabs or |"
                raise ValueError(f"{where}: {wanted}; got {header[0]!r}")
        if given.names:
            if len(given.names) != len(self.names):
                text = f"{len(self.names)} cells, where {len(given.names)} names are given"
                raise ValueError(f"{where}: {text} (--names)")
            self.names = [*given.names]

    def chunks(self, size: int) -> Iterator[Chunk]:
        size = at_most(size, len(self.names))
        while True:
            before, lines = self.number, list(itertools.islice(self.lines, size))
            numbers: Sequence[int] = range(before + 1, before + 1 + len(lines))
            frame = self._split(lines)
            if frame is None:  # the rows use up all of these lines, and perhaps more
                rows = self._parsed(itertools.chain(lines, self.lines), size, before)
                numbers = [line for line, _ in rows]
                cells = zip(*(row for _, row in rows), strict=True)
                schema = dict.fromkeys(self.names, pl.String)
                frame = pl.DataFrame(dict(zip(self.names, cells, strict=False)), schema)
            if not numbers:
                return
            yield Chunk(frame, "line", numbers, self.file.name, tuple(self.reading.missing))

    def _split(self, lines: list[str]) -> pl.DataFrame | None:
        """Split lines; None if a line is blank, has a quote or another number of cells."""
        text, separator, last = "".join(lines), self.separator, len(self.names) - 1
        if '"' in text or any(x.count(separator) != last or x.isspace() for x in lines):
            return None
        rows = pl.Series(lines, dtype=pl.String).str.strip_chars_end("\r\n")
        cells = rows.str.split_exact(separator, last).struct.rename_fields(self.names)
        frame = cells.struct.unnest()
        return frame.with_columns(pl.all().str.strip_chars_start(" ")) if " " in text else frame

    def _parsed(self, lines: Iterable[str], size: int, start: int) -> list[tuple[int, list[str]]]:
        """Read the next ``size`` rows that are not blank, and the lines in which they begin.

        ``start`` is the number of lines before these. The header may have any width.
        """
        name, rows = self.file.name, list[tuple[int, list[str]]]()
        line, most = start + 1, csv.field_size_limit(self.reading.longest_line << 20)
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    rows.append((line, row))
                    if hasattr(self, "names") and len(row) != len(self.names):
                        found = f"{len(row)} cell{'s' * (len(row) > 1)}"
                        text = f"{found} where the header has {len(self.names)} columns"
                        advice = "mend the line, or quote its separators"
                        raise ValueError(f"{name}, line {line}: {text}; {advice}")
                    if len(rows) == size:
                        break
                line = start + reader.line_num + 1
        except csv.Error as error:
            text = _of_quotes(str(error), start + reader.line_num)
            raise ValueError(f"{name}, line {line}: {text}") from None
        finally:
            csv.field_size_limit(most)
        return rows


def _of_quotes(error: str, line: int) -> str:
    """Say in the user's words why the csv module refuses a row that ends in a line."""
    if "field limit" in error:
        return f"a cell is longer than a line may be; is a quote not closed before line {line}?"
    if "end of data" in error:
        text = "the row has a quote that is not closed"
    elif "expected after" in error:
        text = f"the row has a quote that is closed in line {line}, inside a cell"
    else:
        return error
    return f"{text}; close it, or double it where it is part of a quoted text"


class NDJSON(TextTable):
    """One JSON object a line; a name that an object lacks is a missing cell there."""

    def __init__(self, file: Bytes, reading: Reading | None = None) -> None:
        super().__init__(file, reading)
        rows = self._objects()
        begun = list(itertools.islice(rows, NAMED_BY))
        self.named_by = NAMED_BY if len(begun) == NAMED_BY else None
        self._rows = itertools.chain(begun, rows)
        self.names = list(dict.fromkeys(name for _, row in begun for name in row))
        if not self.names:
            raise ValueError(f"{file.name}: has no columns, only empty objects")

    def _objects(self) -> Iterator[tuple[int, dict[str, object]]]:
        for text in self.lines:
            where = f"{self.file.name}, line {self.number}"
            if not text.strip():
                continue
            try:
                row = json.loads(text, parse_constant=lambda _: None)
                if "\\u" in text:  # half of a surrogate pair is not text
                    json.dumps(row, ensure_ascii=False).encode()
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: is no JSON object: {error}") from None
            if not isinstance(row, dict):
                wanted = 'one JSON object a line is wanted, as {"a": 1, "b": 2}'
                raise ValueError(f"{where}: {wanted}; got {text.strip()[:40]!r}")
            yield self.number, row

    def chunks(self, size: int) -> Iterator[Chunk]:
        size = at_most(size, len(self.names))
        while taken := list(itertools.islice(self._rows, size)):
            lines, rows = zip(*taken, strict=True)
            names = dict.fromkeys([*self.names, *(name for row in rows for name in row)])
            cells = [series_of(name, [row.get(name) for row in rows]) for name in names]
            missing = tuple(self.reading.missing)
            yield Chunk(pl.DataFrame(cells), "line", lines, self.file.name, missing)


def series_of(name: str, values: list) -> pl.Series:
    """Make a column of Python's values: numbers, booleans, times, nested objects, else text."""
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
    except OverflowError:  # infinite numbers are refused later
        return math.inf if value > 0 else -math.inf


def names_of(where: str, header: list[str], notes: list[str]) -> list[str]:
    """Return the names of columns, of which none must stand twice."""
    names = [name.strip() for name in header]
    for place, name in enumerate(names):
        if not name:
            names[place] = f"column_{place + 1}"
            notes.append(f"column {place + 1} has no name and is called 'column_{place + 1}'")
    for name, (first, second) in twice(names).items():
        text = (
            f"the name stands twice, at columns {first + 1} and {second + 1}; rename one of them"
        )
        raise ValueError(f"{where}, column {name!r}: {text}")
    return names
