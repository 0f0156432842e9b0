"""Tables of sparse matrices: what a row does not name is zero."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._cells import Chunk, at_most
from jaxmkl.tables._reading import Reading

MOST = 100_000  # columns of a table


def csr_of(X: Any) -> scipy.sparse.csr_array:
    """A sparse matrix (n, D) of SciPy, or :class:`jaxmkl.streaming.SparseRows`, as CSR."""
    if isinstance(X, SparseRows):
        indices, values = np.asarray(X.indices), np.asarray(X.values)
        row, place = np.nonzero(indices < X.num_columns)
        entries = values[row, place], (row, indices[row, place])
        return scipy.sparse.csr_array(entries, shape=X.shape)
    csr = scipy.sparse.csr_array(X)
    if csr.ndim != 2:
        raise ValueError(f"a table must have the shape (n, D); got {csr.shape}")
    return csr


def width(name: str, own: int, first: int, reading: Reading) -> int:
    """The number of columns: those of the source, and those that a pipeline knows."""
    found = max([own, *(1 - first + number for number in reading.numbered)])
    if found > MOST:
        text = f"has {found:,} columns, and a table has at most {MOST:,}"
        advice = (
            "jaxmkl.run takes sparse matrices, jaxmkl.tables.read(path, sparse=True) reads one"
        )
        raise ValueError(f"{name}: {text}; {advice}")
    return found


class Entries:
    """A sparse matrix as a table.

    Its columns are called x0, x1 and so on, or as those of a pipeline: of one that learned from
    LIBSVM, whose indices begin with 1, the first column is 1.

    Args:
      csr: the matrix (n, D).
      source: its name, for messages.
      reading: the columns that a pipeline knows.
      labels: the target, if there is one.
    """

    named_by: int | None = None

    def __init__(
        self,
        csr: scipy.sparse.csr_array,
        source: str,
        reading: Reading,
        labels: pl.DataFrame | None = None,
    ) -> None:
        self.top = self.source = source
        self.notes, self._labels, self._read = list[str](), labels, 0
        self.target = None if labels is None else labels.columns[0]
        plain = any(name.isdecimal() for name in reading.columns)
        first = min(reading.numbered, default=0) if plain and labels is None else 0
        first = min(first, 1)
        D = width(source, csr.shape[1], first, reading)
        self._missing = tuple(reading.missing)
        self._inputs = [
            f"{'' if plain and labels is None else 'x'}{i}" for i in range(first, first + D)
        ]
        self.names = [*self._inputs, *([] if labels is None else labels.columns)]
        if not self.names:
            raise ValueError(f"{source}: has no columns")
        self._csr = csr.copy()
        self._csr.resize(csr.shape[0], D)

    def chunks(self, size: int) -> Iterator[Chunk]:
        size = at_most(size, len(self.names))
        for start in range(0, self._csr.shape[0], size):
            part = self._csr[start : start + size].toarray()
            frame = pl.DataFrame(part, self._inputs)
            if self._labels is not None:
                frame = frame.with_columns(self._labels[start : start + size])
            self._read = start + len(part)
            numbers = range(start + 1, self._read + 1)
            yield Chunk(frame, "row", numbers, self.source, self._missing)

    def share_read(self) -> float:
        return self._read / max(1, self._csr.shape[0])

    def close(self) -> None:
        pass
