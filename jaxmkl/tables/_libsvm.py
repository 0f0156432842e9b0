"""LIBSVM text: each line has a label, then the entries of a row by their indices."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import polars as pl
import scipy.sparse

from jaxmkl._checks import refuse_unless
from jaxmkl.tables._bytes import Bytes, is_text, not_text
from jaxmkl.tables._entries import MOST
from jaxmkl.tables._reading import Reading
from jaxmkl.tables._rows import Chunk
from jaxmkl.tables._table import Arrays, Numbered, dense_or_sparse
from jaxmkl.tables._text import TextTable

AT_ONCE = 8192  # rows
BLANKS = " \t\r\n\v\f"  # as scikit-learn's


class Part(NamedTuple):
    """Some rows as they are in the file."""

    lines: Sequence[int]
    """The lines of the rows (n,)."""
    labels: np.ndarray
    """The labels (n,), float64; NaN for a question mark, an unknown label."""
    entries: scipy.sparse.csr_array
    """The entries (n, largest index + 1), float64."""
    has_queries: bool
    """True if query numbers were ignored."""
    refused: dict[int, str]
    """Reasons why rows cannot be read, by their places; these rows have no entries."""


def refuse_empty(text: TextTable) -> None:
    """Refuse a file without an example."""
    text.lines.check()
    raise ValueError(f"{text.file.name}: holds no example, only comments")


def is_example(line: str) -> bool:
    """Tell whether a line holds an example, and not only a comment."""
    return line.lstrip(BLANKS)[:1] not in ("", "#")


def parts(text: TextTable, size: int = AT_ONCE) -> Iterator[Part]:
    """Parse the rows of a file, some at a time."""
    while rows := text.lines.taken(size, is_example):
        yield _parsed(text.file, rows)


def _parsed(file: Bytes, numbered: Sequence[tuple[int, str]]) -> Part:
    lines, texts = [line for line, _ in numbered], [text for _, text in numbered]
    name, refused = file.name, dict[int, str]()
    if not all(map(is_text, texts)):
        refused = {i: not_text(file, lines[i], text)
                   for i, text in enumerate(texts) if not is_text(text)}  # fmt: skip
        texts = ["0" if i in refused else text for i, text in enumerate(texts)]
    text = pl.Series("token", texts).str.replace("(?s)#.*", "").str.strip_chars(BLANKS)
    tokens = text.str.replace_all(f"[{BLANKS}]+", " ").str.split(" ")
    frame = pl.DataFrame({"row": range(len(texts)), "token": tokens})
    frame = frame.explode("token", empty_as_null=False)
    is_label = frame["row"].is_first_distinct()
    is_query = is_label.shift(fill_value=False) & frame["token"].str.starts_with("qid:")
    row, token, is_label = frame.with_columns(is_label=is_label).filter(~is_query)
    pairs = token.str.extract_groups(r"(?s)^([0-9]{1,18}):(.*)$").struct
    index = pairs.field("1").cast(pl.Int64).set(is_label, -1)
    cell = token.zip_with(is_label, pairs.field("2"))
    value, last = cell.cast(pl.Float64, strict=False), index.shift()
    falls = ~is_label & (index <= last).fill_null(False)
    unknown = is_label & (token == "?")
    value = value.set(unknown, float("nan"))
    wrong = index.is_null() | falls | ~(value.is_finite().fill_null(False) | unknown)
    for at in wrong.arg_true():
        where, column = f"{name}, line {lines[row[at]]}", f", column {index[at]}"
        if is_label[at]:
            why = f"{where}: the label {token[at]!r} is not a finite number"
        elif index[at] is None:
            why = f"{where}: index:value wanted; got {token[at]!r}"
        elif falls[at]:
            why = f"{where}{column}: the index follows {last[at]}; indices must increase"
        else:
            why = f"{where}{column}: {cell[at]!r} is not a finite number"
        refused.setdefault(row[at], why)
    labels = value.filter(is_label).to_numpy()
    entries = ~is_label & ~row.is_in([*refused])
    rows, indices, values = (s.filter(entries).to_numpy() for s in (row, index, value))
    shape = len(labels), int(indices.max(initial=-1)) + 1
    csr = scipy.sparse.csr_array((values, (rows, indices)), shape)
    return Part(lines, labels, csr, bool(is_query.any()), dict(sorted(refused.items())))


def extent(name: str, parts: Iterable[Part], known: Sequence[int] = ()) -> tuple[int, int]:
    """Return the first index, 0 or 1, and the largest, among rows and the columns ``known``.

    Rows must not begin with 0 where the columns known do not.
    """
    ends, refused = list[tuple[int, int]](), list[str]()
    for part in parts:
        ends.append((part.entries.indices.min(initial=1), part.entries.shape[1] - 1))
        refused += [*part.refused.values()][:1]
    lows, lasts = zip(*ends, (min(known, default=1), max(known, default=-1)), strict=True)
    if max(lasts) < 0:
        for why in refused:
            raise ValueError(why)
        raise ValueError(f"{name}: has no inputs")
    text = "an index of 0, where the columns of the pipeline begin with 1"
    refuse_unless(not (known and min(lows) < min(known) < 2), f"{name}: {text}; number them alike")
    return int(min(*lows, 1)), int(max(lasts))


class LIBSVM(TextTable):
    """A LIBSVM file: its columns are the indices, from 0 if one of them is 0, and the label.

    A first pass over a file finds the largest index. In a stream the first rows decide it, and
    entries above it are left out. All columns of a pipeline are added.
    """

    target = "label"

    def __init__(self, file: Bytes, reading: Reading) -> None:
        super().__init__(file, reading)
        name, known = file.name, self.reading.numbered
        # the columns of a pipeline need not wait for more of a pipe
        most = AT_ONCE if file.is_at_rest or not known else 1
        begun = self.lines.begun(math.inf if self.reading.whole else most, is_example)
        if not begun:
            refuse_empty(self)
        is_known = len(begun) < most or self.reading.whole
        if file.is_at_rest and not is_known:
            is_known = True
            with closing(Bytes(name)) as again:
                table = TextTable(again, self.reading)
                self._base, last = extent(name, parts(table), known)
        else:
            starts = range(0, len(begun), AT_ONCE)
            found = (_parsed(file, begun[start : start + AT_ONCE]) for start in starts)
            self._base, last = extent(name, found, known)
        text = f"the largest index is {last}, and a table has at most {MOST:,} columns"
        advice = "read it with jaxmkl.tables.read(path, sparse=True)"
        refuse_unless(last - self._base < MOST, f"{name}: {text}; {advice}")
        self.names = [*map(str, range(self._base, last + 1)), self.target]
        self.notes = [f"inputs are numbered from {self._base}"]
        if not is_known:
            text = f"the first {len(begun):,} rows decide the inputs, up to {last}"
            self.notes.append(f"{text}; entries above are left out")

    def _chunks(self, size: int) -> Iterator[Chunk]:
        for part in parts(self, size):
            n, width, refused = len(part.labels), self._base + len(self.names) - 1, part.refused
            for row in part.entries[:, : self._base].tocoo().row.tolist():
                text = "an index of 0, where rows before had none; number them all alike"
                refused[row] = f"{self.file.name}, line {part.lines[row]}: {text}"
            part.entries.resize(n, width)  # which drops the entries above
            cells = np.c_[part.entries[:, self._base :].toarray(), part.labels]
            frame, ordered = pl.DataFrame(cells, self.names), dict(sorted(refused.items()))
            yield self._chunk(frame, part.lines, ordered)


def read_libsvm(file: Bytes, target: str | None, sparse: bool, reading: Reading) -> Arrays:
    """Read LIBSVM text as a whole."""
    path = file.name
    why = "the label is what comes first in every line of a LIBSVM file"
    refuse_unless(target is None, f"{path}: target must be None, since {why}; got {target!r}")
    text = TextTable(file, reading)
    if not (found := [*parts(text)]):
        refuse_empty(text)
    for part in found:
        for why in part.refused.values():
            raise ValueError(why)
    text.lines.check()
    base, last = extent(path, found)
    for part in found:
        part.entries.resize(len(part.labels), last + 1)
    entries = scipy.sparse.vstack([part.entries for part in found], "csr")[:, base:]
    notes = [f"inputs are numbered from {base}"]
    notes += ["query numbers (qid) are ignored"] * any(part.has_queries for part in found)
    lines = [line for part in found for line in part.lines]
    labels = pl.DataFrame({"label": np.concatenate([part.labels for part in found])})
    names = Numbered("", base, entries.shape[1])
    X = dense_or_sparse(path, entries, sparse)
    return Arrays(X, names, Chunk(labels, "line", lines, path), notes)
