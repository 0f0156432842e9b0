"""LIBSVM text: a label, then the entries of a row by their indices."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._cells import Chunk
from jaxmkl.tables._table import Arrays, Numbered, dense_or_sparse
from jaxmkl.tables._text import TextTable

AT_ONCE = 8192  # rows
MOST = 100_000  # columns of a table
CELLS = 2**24  # of a chunk
BLANKS = " \t\r\n\v\f"  # as scikit-learn's


class Entries(NamedTuple):
    """Some rows as they stand in the file."""

    lines: Sequence[int]
    """The lines of the rows (n,)."""
    labels: np.ndarray
    """The labels (n,), float64."""
    rows: np.ndarray
    """The row of each entry (m,), from 0."""
    indices: np.ndarray
    """The index of each entry (m,), int64 and increasing in a row."""
    values: np.ndarray
    """The value of each entry (m,), float64."""
    has_queries: bool
    """Whether query numbers were ignored."""


def examples(text: TextTable) -> Iterator[tuple[int, str]]:
    """The lines that hold an example, and their numbers.

    Raises:
      ValueError: there is none.
    """
    is_empty = True
    for line in text.lines:
        if line.lstrip(BLANKS)[:1] not in ("", "#"):
            is_empty = False
            yield text.number, line
    if is_empty:
        raise ValueError(f"{text.file.name}: holds no example, only comments")


def entries(name: str, rows: Iterator[tuple[int, str]], size: int = AT_ONCE) -> Iterator[Entries]:
    """Parse rows, ``size`` of them at a time and what remains.

    Raises:
      ValueError: for the first token that is not what it should be, by its line.
    """
    while taken := list(itertools.islice(rows, size)):
        yield _parsed(name, *zip(*taken, strict=True))


def _parsed(name: str, lines: Sequence[int], texts: Sequence[str]) -> Entries:
    text = pl.Series("token", texts).str.replace("(?s)#.*", "").str.strip_chars(BLANKS)
    tokens = text.str.replace_all(f"[{BLANKS}]+", " ").str.split(" ")
    frame = pl.DataFrame({"row": range(len(texts)), "token": tokens})
    frame = frame.explode("token", empty_as_null=False)
    is_label = frame["row"].is_first_distinct()
    is_query = is_label.shift(fill_value=False) & frame["token"].str.starts_with("qid:")
    row, token, is_label = frame.with_columns(is_label=is_label).filter(~is_query)
    parts = token.str.extract_groups(r"(?s)^([0-9]{1,18}):(.*)$").struct
    index = parts.field("1").cast(pl.Int64).set(is_label, -1)
    cell = token.zip_with(is_label, parts.field("2"))
    value, last = cell.cast(pl.Float64, strict=False), index.shift()
    falls = ~is_label & (index <= last).fill_null(False)
    wrong = index.is_null() | falls | ~value.is_finite().fill_null(False)
    for at in wrong.arg_true().head(1):
        where, column = f"{name}, line {lines[row[at]]}", f", column {index[at]}"
        if is_label[at]:
            raise ValueError(f"{where}: the label {token[at]!r} is not a finite number")
        if index[at] is None:
            raise ValueError(f"{where}: index:value wanted; got {token[at]!r}")
        if falls[at]:
            why = f"the index follows {last[at]}; indices must increase"
            raise ValueError(f"{where}{column}: {why}")
        raise ValueError(f"{where}{column}: {cell[at]!r} is not a finite number")
    labels = value.filter(is_label).to_numpy()
    rows, indices, values = (s.filter(~is_label).to_numpy() for s in (row, index, value))
    return Entries(lines, labels, rows, indices, values, bool(is_query.any()))


def extent(parts: Iterable[Entries]) -> tuple[int, int]:
    """Where indices begin, 0 or 1, and the largest, -1 if there is none."""
    ends = [(part.indices.min(), part.indices.max()) for part in parts if len(part.indices)]
    return min([1, *(int(low) for low, _ in ends)]), max([-1, *(int(high) for _, high in ends)])


class LIBSVM(TextTable):
    """A LIBSVM file: its columns are the indices, from 0 if one of them is 0, and the label.

    A first pass over a file finds the largest index; of a stream the first rows tell it, and
    entries above it are left out.
    """

    target = "label"

    def __init__(self, file: Bytes) -> None:
        super().__init__(file)
        rows = examples(self)
        begun = list(itertools.islice(rows, AT_ONCE))
        self._rows = itertools.chain(begun, rows)
        is_whole = file.is_file and os.path.isfile(file.name)
        if is_whole:
            with Bytes(file.name) as again:
                self._base, last = extent(entries(file.name, examples(TextTable(again))))
        else:
            self._base, last = extent(entries(file.name, iter(begun)))
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

    def chunks(self, size: int) -> Iterator[Chunk]:
        # fewer rows where they are very wide
        size = min(size, max(1, CELLS // len(self.names)))
        for part in entries(self.file.name, self._rows, size):
            yield Chunk(pl.DataFrame(self._dense(part), self.names), "line", part.lines, self.top)

    def _dense(self, part: Entries) -> np.ndarray:
        """Features and labels (n, D + 1)."""
        n, D = len(part.labels), len(self.names) - 1
        places = part.indices - self._base
        for row in part.rows[places < 0][:1]:
            text = "an index of 0, where rows before had none; number them all alike"
            raise ValueError(f"{self.file.name}, line {part.lines[row]}: {text}")
        known = places < D
        cells = np.zeros((n, D + 1))
        cells[part.rows[known], places[known]] = part.values[known]
        cells[:, D] = part.labels
        return cells


def read_libsvm(file: Bytes, target: str | None, sparse: bool) -> Arrays:
    """Read LIBSVM text as a whole."""
    from scipy.sparse import csr_array  # which takes a while

    path = file.name
    if target is not None:
        why = "the label is what comes first in every line of a LIBSVM file"
        raise ValueError(f"{path}: target must be None, since {why}; got {target!r}")
    parts = list(entries(path, examples(TextTable(file))))
    base, last = extent(parts)
    if last < 0:
        raise ValueError(f"{path}: has no features")
    labels = np.concatenate([part.labels for part in parts])
    columns = np.concatenate([part.indices for part in parts]) - base
    values = np.concatenate([part.values for part in parts])
    counts = [np.bincount(part.rows, minlength=len(part.labels)) for part in parts]
    ends = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    csr = csr_array((values, columns, ends), (len(labels), last + 1 - base))
    notes = [f"features are numbered from {base}"]
    notes += ["query numbers (qid) are ignored"] * any(part.has_queries for part in parts)
    names = Numbered("", base, csr.shape[1])
    X, lines = dense_or_sparse(path, csr, sparse), [line for part in parts for line in part.lines]
    return Arrays(X, pl.Series("label", labels), names, "line", lines, notes)
