"""Tables of numbers, dense or sparse: entries that a sparse row does not name are zero."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._reading import Reading
from jaxmkl.tables._rows import Table

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


def of_entries(
    X: np.ndarray | scipy.sparse.csr_array,
    source: str,
    reading: Reading,
    labels: pl.DataFrame | None = None,
) -> Table:
    """Numbers X (n, D) as a table, dense or sparse, perhaps with labels, its target.

    Its columns are called x0, x1 and so on, or as those of a pipeline that :class:`Reading` names:
    if that learned from LIBSVM, whose indices begin with 1, the first column is called 1.
    """
    n, D = X.shape
    plain = labels is None and any(name.isdecimal() for name in reading.columns)
    first = min([1, *reading.numbered]) if plain and reading.numbered else 0
    if not isinstance(X, np.ndarray):
        D, X = max([D, *(1 - first + number for number in reading.numbered)]), X.copy()
        if D > MOST:
            text = f"has {D:,} columns, and a table has at most {MOST:,}; jaxmkl.run takes"
            advice = "sparse matrices, jaxmkl.tables.read(path, sparse=True) reads one"
            raise ValueError(f"{source}: {text} {advice}")
        X.resize(n, D)
    inputs = [f"{'' if plain else 'x'}{i}" for i in range(first, first + D)]
    target = pl.DataFrame() if labels is None else labels

    def frames(size: int) -> Iterator[pl.DataFrame]:
        for start in range(0, n, size):
            part = X[start : start + size]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            yield pl.DataFrame(dense, inputs).with_columns(target[start : start + size])

    table = Table(source, [*inputs, *target.columns], frames, n, reading.missing)
    table.target = next(iter(target.columns), None)
    return table
