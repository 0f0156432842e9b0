"""Tables in text, in chunks of rows: CSV and NDJSON.

Every row knows the line in which it begins, and the text may come through a pipe. The cells of
CSV remain text here: the kind of a column is decided once, and no later row can change it.
"""

import csv
import functools
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from jaxmkl._checks import refuse_unless
from jaxmkl.tables import _header
from jaxmkl.tables._bytes import Bytes, is_text, not_text
from jaxmkl.tables._cells import half_of_a_pair, series_of
from jaxmkl.tables._reading import Reading
from jaxmkl.tables._rows import Chunk, Table, at_most
from jaxmkl.tables._words import twice

SEPARATORS = ";\t|,"  # the first of several that split alike: commas may be decimal ones
SAID = re.compile(r"sep=([,;\t|])", re.IGNORECASE)  # a line that names the separator
Reasons = dict[int, str]  # why rows are refused, by their places in a chunk
PIECE = 2**16  # bytes that are read at once, as many as a pipe of Linux holds
PATIENCE = 0.01  # seconds that a chunk waits for lines of a pipe, once the first one has come
BOM = b"\xef\xbb\xbf"
NAMED_BY = 1000  # the first objects of JSON, from which the names of columns are taken


class TextTable(Table):
    """A table in a file of text, whose lines are counted while they are read."""

    def __init__(self, file: Bytes, reading: Reading) -> None:
        # the first lines tell the names
        self.file, self.top, self.notes = file, file.name, list[str]()
        self.reading, self.lines = reading, Lines(file, reading.longest_line)

    def close(self) -> None:
        self.file.close()

    def share_read(self) -> float | None:
        return self.file.share_read()

    def chunks(self, size: int) -> Iterator[Chunk]:
        for chunk in self._chunks(at_most(size, len(self.names))):
            if self.reading.keep_refused or not chunk.refused:
                yield chunk
                continue
            end, reason = chunk.refused[0]
            if end:
                yield chunk.take(range(end))
            raise ValueError(reason)
        self.lines.check()

    def _chunks(self, size: int) -> Iterator[Chunk]:
        """Read chunks, refused rows included."""
        raise NotImplementedError

    def _chunk(self, frame: pl.DataFrame, numbers: Sequence[int], refused: Reasons) -> Chunk:
        missing = tuple(self.reading.missing)
        return Chunk(frame, "line", numbers, self.file.name, missing, tuple(refused.items()))


class Lines(Iterator[str]):
    """The lines of a file, counted; bytes that are not UTF-8 become surrogates.

    Damage ends the lines, and so does a line that is too long, which might fill the memory.
    :meth:`check` raises the error, after the rows before it were used.
    """

    def __init__(self, file: Bytes, longest: int) -> None:
        self.number = 0
        self._file, self._longest, self._patience = file, longest, 0.0
        self.ready = deque[str]()  # read or put back
        self._part, self.is_over = bytearray(), False  # of a line that has no end yet
        self.error: ValueError | None = None

    def __next__(self) -> str:
        while not (self.ready or self.is_over):
            self._read()
        if not self.ready:
            raise StopIteration
        self.number += 1
        return self.ready.popleft()

    def _read(self) -> None:
        """Read what has come, at least a byte; an error or the end is the last of it."""
        try:
            with self._file.whole():
                read = self._file.stream.read1(PIECE)
        except ValueError as error:
            self.error, self.is_over = error, True
            return
        if len(read) == PIECE:  # the writer had to wait
            self._patience = PATIENCE
        begin, part = max(0, len(self._part) - 1), self._part
        part += read
        # a line that ends with \r may go on with \n
        stop = len(part) - part.endswith(b"\r")
        end = max(part.rfind(sign, begin, stop) for sign in (b"\n", b"\r")) + 1
        if not read:
            self.is_over, end = True, len(part)
        if end:
            whole = bytes(part[:end])
            del part[:end]
            if not (self.number or self.ready):
                whole = whole.removeprefix(BOM)
            # those of bytes, as those of text would end at other characters, too
            lines = whole.splitlines(True)
            if not self._is_too_long(len(lines[0]) if lines else 0):
                self.ready += (line.decode("utf-8", "surrogateescape") for line in lines)
        self._is_too_long(len(part))

    def _is_too_long(self, size: int) -> bool:
        """End the lines if the next one has too many bytes."""
        if size > self._longest << 20 and self.error is None:
            where = f"{self._file.name}, line {self.number + len(self.ready) + 1}"
            text = f"is longer than {self._longest} MiB"
            self.error = ValueError(f"{where}: {text} (--longest-line allows more)")
            self.is_over, self._part = True, bytearray()
        return self.error is not None

    def have_come(self) -> bool:
        """Tell whether a whole line can be read, of a pipe without much patience."""
        while not (self.ready or self.is_over):
            began = time.monotonic()
            has_come = self._file.has_come(self._patience)
            self._patience -= time.monotonic() - began
            if not has_come:
                return False
            self._read()
        return bool(self.ready)

    def taken(self, size: int, is_row: Callable[[str], bool]) -> list[tuple[int, str]]:
        """Take lines with a row, with their numbers, up to ``size``: one at least, unless all
        lines were read, and of a pipe those that have come."""
        found, self._patience = list[tuple[int, str]](), PATIENCE
        while len(found) < size and (not found or self.have_come()):
            first, line = self.number + 1, next(self, None)
            if line is None:
                break
            more = range(min(size - len(found) - 1, len(self.ready)))
            lines, self.number = [line, *(self.ready.popleft() for _ in more)], first + len(more)
            found += (one for one in enumerate(lines, first) if is_row(one[1]))
        return found

    def begun(
        self, size: float, is_row: Callable[[str], bool] = bool, most: float = math.inf
    ) -> list[tuple[int, str]]:
        """The next lines with a row, up to ``size``, which stay to be read.

        They have not many more than ``most`` characters, unless they are only two.
        """
        read, found, length = list[str](), list[tuple[int, str]](), 0
        while len(found) < size and (length <= most or len(found) < 2):
            if (line := next(self, None)) is None:
                break
            read.append(line)
            length += len(line)
            if is_row(line):
                found.append((self.number, line))
        self.put_back(read)
        return found

    def put_back(self, lines: Sequence[str]) -> None:
        """Put back the last lines that were read."""
        self.ready.extendleft(reversed(lines))
        self.number -= len(lines)

    def check(self) -> None:
        """Raise the error that ended the lines, if one did."""
        if self.error is not None:
            raise self.error


class CSV(TextTable):
    """A CSV file: a header, then rows of as many cells; blank lines are skipped.

    polars splits lines without quotes. The csv module reads chunks with quotes or blank lines,
    because polars does not tell the line of a row, fills short rows with nulls, fails at a quote
    inside a cell (``5'11"``) or after a space, and first reads the whole of a pipe into memory.
    """

    def __init__(self, file: Bytes, reading: Reading) -> None:
        super().__init__(file, reading)
        name, given = file.name, self.reading
        separator, number = self._known_header()
        begun = self.lines.begun(number, most=_header.MOST_LOOKED_AT)
        if not (first := [line for _, line in begun]):
            self.lines.check()
        if why := not_text(file, 1, first[0]):
            raise ValueError(why)
        self.separator = separator or _header.separator_of(first, SEPARATORS)
        if said := SAID.fullmatch(first[0].strip()):  # a line that spreadsheets write
            self.separator = said[1]
            next(self.lines)
            del first[0]
        before, (lines, cells) = self.lines.number, _header.rows_of(first, self.separator)
        refuse_unless(cells, f"{name}: has no names of columns, only blank lines")
        self.top = where = f"{name}, line {before + lines[0]}"
        has_header = not given.names if given.header is None else given.header
        if given.header is None:
            _header.refuse_wabbit(where, first[lines[0] - 1])
            if len({len(row) for row in cells}) > 1 or sum(map(bool, cells[0])) == 1:
                _header.refuse_title(name, before, first, self.separator + SEPARATORS)
        if not has_header:
            self.names = [f"column_{i + 1}" for i in range(len(cells[0]))]
        else:
            rows, refused = self._parsed(1)
            if refused:
                raise ValueError(refused[0])
            header = rows[0][1]
            if given.header is None:
                _header.refuse_row(where, cells[0], cells[1:])
            self.names = names_of(where, header, self.notes)
            if len(self.names) == 1 and " " in header[0].strip():
                wanted = "columns must be separated by commas, semicolons, tabs or |"
                raise ValueError(f"{where}: {wanted}; got {header[0]!r}")
        if given.names:
            text = f"{len(self.names)} cells, where {len(given.names)} names are given"
            refuse_unless(len(given.names) == len(self.names), f"{where}: {text} (--names)")
            self.names = [*given.names]

    def _known_header(self) -> tuple[str, int]:
        """The separator and the line of a header with most columns of a pipeline, if it is one.

        It is sure, whatever is below. Otherwise more lines decide.
        """
        known, given = {*self.reading.columns}, self.reading
        rows = self.lines.begun(1, _is_row) if known else []
        if said := rows and rows[0][0] == 1 and SAID.fullmatch(rows[0][1].strip()):
            rows = self.lines.begun(2, _is_row)
        if not rows or rows[-1][1].count('"') % 2:
            return "", _header.LOOKED_AT

        def found(separator: str) -> tuple[int, int]:
            cells = next(iter(_header.rows_of([rows[-1][1]], separator)[1]), [])
            names: Sequence[str] = cells
            if given.names:
                names = given.names if len(cells) == len(given.names) else ()
            elif given.header is False:
                names = [f"column_{i + 1}" for i in range(len(cells))]
            return len(known.intersection(names)), -len(names)

        best = max(said[1] if said else SEPARATORS, key=found)
        is_sure = 2 * found(best)[0] > len(known)
        return (best, rows[-1][0]) if is_sure else ("", _header.LOOKED_AT)

    def _chunks(self, size: int) -> Iterator[Chunk]:
        while True:
            before = self.lines.number
            lines = [line for _, line in self.lines.taken(size, bool)]
            numbers: Sequence[int] = range(before + 1, before + 1 + len(lines))
            frame, refused = self._split(lines), Reasons()
            if frame is None:
                self.lines.put_back(lines)
                rows, refused = self._parsed(size)
                numbers = [line for line, _ in rows]
                none = [None] * len(self.names)
                kept = (none if i in refused else row for i, (_, row) in enumerate(rows))
                schema = dict.fromkeys(self.names, pl.String)
                cells = dict(zip(self.names, zip(*kept, strict=True), strict=False))
                frame = pl.DataFrame(cells, schema)
            if not numbers:
                return
            yield self._chunk(frame, numbers, refused)

    def _split(self, lines: list[str]) -> pl.DataFrame | None:
        """Split lines; None if one is blank, not UTF-8, has a quote or too many or few cells."""
        text, separator, last = "".join(lines), self.separator, len(self.names) - 1
        if '"' in text or any(x.count(separator) != last or x.isspace() for x in lines):
            return None
        if not is_text(text):
            return None
        rows = pl.Series(lines, dtype=pl.String).str.strip_chars_end("\r\n")
        cells = rows.str.split_exact(separator, last).struct.rename_fields(self.names)
        frame = cells.struct.unnest()
        return frame.with_columns(pl.all().str.strip_chars_start(" ")) if " " in text else frame

    def _parsed(self, size: int) -> tuple[list[tuple[int, list[str]]], Reasons]:
        """Read the next ``size`` rows that are not blank.

        A row whose quotes are wrong is only its first line: the next row begins below it. A row
        behind others of which a part has come is left to the next chunk. The header may have any
        width.

        Returns:
          The lines in which rows begin, with their cells, and reasons for refusals, by place.
        """
        lines, rows, refused, taken = self.lines, list[tuple[int, list[str]]](), Reasons(), []
        style: Any = {"skipinitialspace": True, "strict": True}
        reader = functools.partial(csv.reader, delimiter=self.separator, **style)

        def noted() -> Iterator[str]:
            while not rows or lines.have_come():
                if (line := next(lines, None)) is None:
                    return
                taken.append(line)
                yield line

        parser = reader(noted())
        with _header.cells_up_to(self.reading.longest_line << 20):
            while len(rows) < size:
                taken.clear()
                begin = lines.number + 1
                where = f"{self.file.name}, line {begin}"
                try:
                    row = next(parser, None)
                    if row is None:
                        break
                    if len(row) < 2 and not (row and row[0].strip()):
                        continue
                    why = self._unread(where, begin, row)
                except csv.Error as error:
                    if rows and not (lines.ready or lines.is_over):  # more of it may come
                        lines.put_back(taken)
                        break
                    if lines.error and not lines.ready:  # it is cut off
                        break
                    row, why = [], f"{where}: {_of_quotes(str(error), lines.number)}"
                    lines.put_back(taken[1:])
                    parser = reader(noted())
                if why:
                    refused[len(rows)] = why
                rows.append((begin, row))
        return rows, refused

    def _unread(self, where: str, begin: int, row: list[str]) -> str:
        """Say why a row that begins in this line cannot be read; "" if it can be."""
        if hasattr(self, "names") and len(row) != len(self.names):
            found = f"{len(row)} cell{'s' * (len(row) > 1)}"
            text = f"{found} where the header has {len(self.names)} columns"
            return f"{where}: {text}; mend the line, or quote its separators"
        return not_text(self.file, begin, "".join(row))


def _of_quotes(error: str, line: int) -> str:
    """Say in plain words why the csv module refuses a row that ends in this line."""
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
    """One JSON object per line; a name that an object lacks is a missing cell."""

    def __init__(self, file: Bytes, reading: Reading) -> None:
        super().__init__(file, reading)
        known = set[str]() if file.is_at_rest else {*self.reading.columns}
        # of a pipe, the first object decides if it has a column of the pipeline
        for most in (1, NAMED_BY):
            begun = [self._object(*row) for row in self.lines.begun(most, _is_row)]
            self.names = list(dict.fromkeys(name for row, _ in begun for name in row))
            if known.intersection(self.names):
                break
        self.named_by = most if len(begun) == most else None
        if not self.names:
            if begun and (why := begun[0][1]):
                raise ValueError(why)
            self.lines.check()
            raise ValueError(f"{file.name}: has no columns, only empty objects")

    def _object(self, number: int, text: str) -> tuple[dict[str, object], str]:
        """The object of a line, and the reason to refuse it or ""."""
        where = f"{self.file.name}, line {number}"
        if why := not_text(self.file, number, text):
            return {}, why
        try:
            row = json.loads(text, parse_constant=lambda _: None)
            if "\\u" in text:  # half of a surrogate pair is not text
                json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            return {}, f"{where}: {half_of_a_pair(error)}"
        except (ValueError, RecursionError) as error:
            return {}, f"{where}: is no JSON object: {error}"
        if not isinstance(row, dict):
            wanted = 'one JSON object a line is wanted, as {"a": 1, "b": 2}'
            return {}, f"{where}: {wanted}; got {text.strip()[:40]!r}"
        return row, ""

    def _chunks(self, size: int) -> Iterator[Chunk]:
        while taken := self.lines.taken(size, _is_row):
            lines = [number for number, _ in taken]
            rows, reasons = zip(*(self._object(*row) for row in taken), strict=True)
            names = dict.fromkeys([*self.names, *(name for row in rows for name in row)])
            cells = [series_of(name, [row.get(name) for row in rows]) for name in names]
            refused = {place: why for place, why in enumerate(reasons) if why}
            yield self._chunk(pl.DataFrame(cells), lines, refused)


def _is_row(line: str) -> bool:
    return not line.isspace()


def names_of(where: str, header: list[str], notes: list[str]) -> list[str]:
    """Return the names of columns, and refuse a name that occurs twice."""
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
