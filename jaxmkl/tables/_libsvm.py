"""LIBSVM text: a label, then the entries of a row by their indices."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from jaxmkl.tables._bytes import Bytes, not_text
from jaxmkl.tables._table import NUMBER, Dataset, Numbered, dense_or_sparse, finish, number_in

AT_ONCE = 8192  # rows
BLANKS = " \t\r\n\v\f"  # as scikit-learn's; str.split takes others
_BLANKS = re.compile(f"[{BLANKS}]+")
_PLAIN = re.compile(rf"{NUMBER}(?: [0-9]{{1,9}}:{NUMBER})*[ \r\n]*")


class Entries(NamedTuple):
    """Rows as they stand in the file: of row i those from ``ends[i]`` to ``ends[i + 1]``."""

    lines: Sequence[int]
    """Where the rows stand (n,)."""
    labels: np.ndarray
    """(n,) float64."""
    spelled: list[str]
    """The labels as text (n,)."""
    ends: np.ndarray
    """(n + 1,)."""
    indices: np.ndarray
    """Int64, increasing in a row."""
    values: np.ndarray
    """Float64."""
    has_queries: bool = False
    """Whether query numbers were passed over."""

    @property
    def rows(self) -> np.ndarray:
        """The row that an entry is of."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.ends))


def rows_of(file: Bytes) -> Iterator[tuple[int, str]]:
    """The lines of a file that hold a row, by their numbers."""
    number, text = 0, file.text()
    try:
        with file.whole():
            for number, line in enumerate(text, 1):
                if line.lstrip(BLANKS)[:1] not in ("", "#"):
                    yield number, line
    except UnicodeDecodeError as error:
        raise not_text(file.name, number, error) from None


def entries(path: str, rows: Iterator[tuple[int, str]], size: int) -> Iterator[Entries]:
    """What rows hold, ``size`` of them at a time and what remains.

    Raises:
      ValueError: for what is no such row, by its line.
    """
    while taken := list(itertools.islice(rows, size)):
        lines, texts = zip(*taken, strict=True)
        found = _plain(lines, texts)
        yield _any(path, lines, texts) if found is None else found


def _plain(lines: Sequence[int], texts: Sequence[str]) -> Entries | None:
    """Rows of numbers and nothing else, read together; None if there is anything else."""
    if not all(map(_PLAIN.fullmatch, texts)):
        return None
    numbers = np.fromstring("\n".join(texts).replace(":", " "), sep=" ")
    counts = np.array([text.count(":") for text in texts])
    ends = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(len(texts)) + 2 * ends[:-1]
    indices, values = np.delete(numbers, places).reshape(-1, 2).T
    follows = np.diff(indices) > 0
    inner = ends[1:-1]
    follows[inner[(inner > 0) & (inner < len(indices))] - 1] = True
    if not (follows.all() and np.isfinite(numbers).all()):
        return None
    spelled = [text.split(maxsplit=1)[0] for text in texts]
    return Entries(lines, numbers[places], spelled, ends, indices.astype(np.int64), values)


def _any(path: str, lines: Sequence[int], texts: Sequence[str]) -> Entries:
    """Rows one by one: with comments, query numbers, or what is to be refused."""
    spelled, ends, has_queries = list[str](), [0], False
    indices, values = list[int](), list[float]()
    for line, text in zip(lines, texts, strict=True):
        label, *pairs = _BLANKS.split(text.partition("#")[0].strip(BLANKS))
        where = f"{path}, line {line}"
        if number_in(label) is None:
            raise ValueError(f"{where}: the label {label!r} is not a finite number")
        spelled.append(label)
        if pairs and pairs[0].startswith("qid:"):
            has_queries = True
            del pairs[0]
        last = -1
        for pair in pairs:
            index, _, cell = pair.partition(":")
            if not re.fullmatch("[0-9]{1,18}:.*", pair, re.DOTALL):
                raise ValueError(f"{where}: index:value wanted; got {pair!r}")
            if int(index) <= last:
                why = f"the index follows {last}; indices must increase"
                raise ValueError(f"{where}, column {int(index)}: {why}")
            last, value = int(index), number_in(cell)
            if value is None:
                raise ValueError(f"{where}, column {last}: {cell!r} is not a finite number")
            indices.append(last)
            values.append(value)
        ends.append(len(values))
    columns = np.array(indices, np.int64), np.array(values, np.float64)
    labels = np.array(spelled, np.float64)
    return Entries(lines, labels, spelled, np.array(ends), *columns, has_queries)


def read_libsvm(file: Bytes, target: str | None, task: str | None, sparse: bool) -> Dataset:
    """Read LIBSVM text."""
    path = file.name
    if target is not None:
        why = "the label is what comes first in every line of a LIBSVM file"
        raise ValueError(f"{path}: target must be None, since {why}; got {target!r}")
    parts = list(entries(path, rows_of(file), AT_ONCE))
    if not parts:
        raise ValueError(f"{path}: holds no example, only comments")
    columns = np.concatenate([part.indices for part in parts])
    if not len(columns):
        raise ValueError(f"{path}: has no features")
    labels = np.concatenate([part.labels for part in parts])
    base = min(1, int(columns.min()))
    shape = len(labels), int(columns.max()) + 1 - base
    counts = np.concatenate([np.diff(part.ends) for part in parts])
    ends = np.concatenate([[0], np.cumsum(counts)])
    values = np.concatenate([part.values for part in parts])
    X = dense_or_sparse(path, csr_array((values, columns - base, ends), shape), sparse)
    names = Numbered("", base, shape[1])
    notes = [f"features are numbered from {base}"]
    notes += ["query numbers (qid) are ignored"] * any(part.has_queries for part in parts)
    spelled = [label for part in parts for label in part.spelled]
    return finish(path, X, names, labels, spelled, "label", f"{path}, label", task, notes)
