"""LIBSVM text as a table, a chunk of rows after the other."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._libsvm import AT_ONCE, BLANKS, Entries, entries, rows_of
from jaxmkl.tables._text import Chunk

MOST = 100_000  # columns
CELLS = 2**24  # of a chunk
_INDEX, _ZERO = re.compile(f"[{BLANKS}]"), re.compile(f"[{BLANKS}]0+:")


class LIBSVM:
    """A LIBSVM file: its columns are the indices, from 0 if there is one, and the label.

    A file is passed through before, to know the largest index; of a stream the first rows tell,
    and entries above are left out.
    """

    target = "label"

    def __init__(self, file: Bytes) -> None:
        self.file, self.top = file, file.name
        rows = rows_of(file)
        begun = list(itertools.islice(rows, AT_ONCE))
        if not begun:
            raise ValueError(f"{file.name}: holds no example, only comments")
        self._rows = itertools.chain(begun, rows)
        is_whole = file.is_file and os.path.isfile(file.name)
        if is_whole:
            with Bytes(file.name) as again:
                self._base, last = extent(rows_of(again))
        else:
            self._base, last = extent(begun)
        if last < 0:
            raise ValueError(f"{file.name}: has no features")
        count = last + 1 - self._base
        if count > MOST:
            text = f"the largest index is {last}, and a table has at most {MOST:,} columns"
            advice = "read it with jaxmkl.tables.read(path, sparse=True)"
            raise ValueError(f"{file.name}: {text}; {advice}")
        self.names = [*(str(index + self._base) for index in range(count)), self.target]
        self.notes = [f"features are numbered from {self._base}"]
        if not is_whole:
            text = f"the first {len(begun):,} rows tell the features, up to {last}"
            self.notes.append(f"{text}; entries above are left out")

    def share_read(self) -> float | None:
        """The share of the file."""
        return self.file.share_read()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Chunks of ``size`` rows, fewer where rows are very wide, the last with what remains."""
        size = min(size, max(1, CELLS // len(self.names)))
        for part in entries(self.file.name, self._rows, size):
            frame = pl.DataFrame(self._dense(part), schema=self.names)
            yield Chunk(frame, "line", part.lines, self.file.name)

    def _dense(self, part: Entries) -> np.ndarray:
        """Features and labels (n, D + 1)."""
        n, D = len(part.labels), len(self.names) - 1
        places = part.indices - self._base
        for line in np.asarray(part.lines)[part.rows[places < 0]][:1]:
            text = "an index of 0, where rows before had none; number them all alike"
            raise ValueError(f"{self.file.name}, line {line}: {text}")
        known = places < D
        cells = np.zeros((n, D + 1))
        cells[part.rows[known], places[known]] = part.values[known]
        cells[:, D] = part.labels
        return cells


def extent(rows: Iterable[tuple[int, str]]) -> tuple[int, int]:
    """Where the indices of rows begin, 0 or 1, and the largest, -1 if there is none.

    What is no index is passed over, to be refused where the row is read.

    >>> extent([(1, "1 1:0.5 3:2 # first"), (2, "-1")])
    (1, 3)
    """
    first, largest = 1, -1
    for _, text in rows:
        row = text.partition("#")[0] if "#" in text else text
        end = row.rfind(":")
        index = row[row.rfind(" ", 0, end) + 1 : end]
        if end > 0 and not index.isdecimal():
            index = _INDEX.split(index)[-1]
        if end > 0 and index.isdecimal():
            largest = max(largest, int(index))
        if first and _ZERO.search(row):
            first = 0
    return first, largest
