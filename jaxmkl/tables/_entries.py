"""Tables of numbers, dense or sparse, and npz files of them.

Such a file has dense inputs, or the parts of a CSR matrix; entries that a sparse row does not name
are zero.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from jaxmkl._archive import Archive, damage
from jaxmkl._checks import refuse_unless, shown
from jaxmkl._scale import as_float
from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables import _table
from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._reading import Reading
from jaxmkl.tables._rows import Chunk, Table

MOST = 100_000  # columns of a table
CSR = ("data", "indices", "indptr", "shape")


def csr_of(X: Any) -> csr_array:
    """A sparse matrix (n, D) of SciPy, or :class:`jaxmkl.streaming.SparseRows`, as CSR."""
    if isinstance(X, SparseRows):
        indices, values = np.asarray(X.indices), np.asarray(X.values)
        row, place = np.nonzero(indices < X.num_columns)
        entries = values[row, place], (row, indices[row, place])
        return csr_array(entries, shape=X.shape)
    csr = csr_array(X)
    refuse_unless(csr.ndim == 2, f"a table must have the shape (n, D); got {csr.shape}")
    return csr


def of_entries(
    X: np.ndarray | csr_array,
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
        text = f"has {D:,} columns, and a table has at most {MOST:,}; jaxmkl.run takes"
        advice = "sparse matrices, jaxmkl.tables.read(path, sparse=True) reads one"
        refuse_unless(D <= MOST, f"{source}: {text} {advice}")
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


def read_npz(file: Bytes, target: str | None, sparse: bool | None) -> _table.Arrays:
    """Read an npz file; a CSR matrix is made dense if ``sparse`` is False."""
    path, key = file.name, "y" if target is None else target
    arrays = _arrays(file, path, key)
    y = arrays.pop(key)
    if "X" not in arrays:
        X = _csr(path, **arrays)
        X = X if sparse is None else _table.dense_or_sparse(path, X, sparse)
    elif sparse:
        raise ValueError(f"{path}: {_table.NOT_SPARSE}; got an npz file with a dense X")
    else:
        X = as_float(f"{path}: X", arrays["X"])
    refuse_unless(X.ndim == 2, f"{path}: X must have the shape (n, D); got {X.shape}")
    refuse_unless(X.shape[1] != 0, f"{path}: has no inputs")
    if isinstance(X, np.ndarray):
        _refuse(path, "X", X, np.isinf(X))
    else:  # gaps in sparse rows are not filled, so NaN is refused, too
        _refuse(path, "X", X, csr_array((~np.isfinite(X.data), X.indices, X.indptr), X.shape))
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    wanted = f"the shape {X.shape[:1]}, one target a row of X"
    refuse_unless(y.shape == X.shape[:1], f"{path}: {key} must have {wanted}; got {y.shape}")
    classes = np.unique(y) if y.dtype == np.int16 else np.zeros(0)
    are_classes = len(classes) > 2 and np.array_equal(classes, np.arange(len(classes)))
    if y.dtype.kind == "f":
        _refuse(path, key, y, np.isinf(y))
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    elif y.dtype.kind not in "Ub":
        y = as_float(f"{path}, {key}", y)
    labels = Chunk(pl.DataFrame({key: y}), "index", range(len(y)), path)
    names = _table.Numbered("x", 0, X.shape[1])
    return _table.Arrays(X, names, labels, [], "multiclass" if are_classes else None)


def _arrays(file: Bytes, path: str, key: str) -> dict[str, np.ndarray]:
    """Read X, or the parts of a CSR matrix, and the target, whose key is given."""
    with file.sought() as content:
        with damage(f"{path}: is damaged or no npz archive"):
            archive = Archive(content, is_compressed=True)
        keys = archive.keys
        parts, found = ("X",) if "X" in keys else CSR, f"its keys are {shown(keys, 100)}"
        if not {*parts} <= {*keys}:
            files = [name for name in keys if os.path.splitext(name)[1]]  # arrays have lost theirs
            found = f"it is a zip archive of {shown(files)}: unpack it" if files else found
            found = "it is a workbook: save it as CSV" if "xl/workbook.xml" in keys else found
            raise ValueError(f"{path}: X, or data, indices, indptr and shape, wanted; {found}")
        if key not in keys or key in parts:
            raise ValueError(f"{path}: has no target {key!r}; {found}")
        with damage(f"{path}: is damaged, or cannot be read"):
            if parts == ("X",) and len((of := archive.header("X")).shape) == 2:
                single = of.dtype.kind == "f" and of.dtype.itemsize <= 4
                # checked before any array of this size is made
                _table.check_size(path, of.shape, np.float32 if single else np.float64)
            return {name: archive.read(name) for name in (*parts, key)}


def _csr(
    path: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray
) -> csr_array:
    """Make the CSR matrix, with its entries sorted; none may stand twice."""
    whole = all(part.dtype.kind in "iu" for part in (indices, indptr, shape))
    if not whole or shape.shape != (2,) or shape.min() < 0:
        raise ValueError(f"{path}: shape must be two whole numbers; got {shape!r}")
    values = as_float(f"{path}: data", data)
    try:
        csr = csr_array((values, indices, indptr), tuple(shape.tolist()))
        csr.check_format()
        if csr.indptr[-1] != len(data) or (np.diff(csr.indptr) < 0).any():  # SciPy may let it pass
            raise ValueError(f"indptr must rise to {len(data)}")
    except ValueError as error:
        found = f"data {data.shape}, indices {indices.shape} and indptr {indptr.shape}"
        wanted = f"the parts of a CSR matrix of shape {' x '.join(map(str, shape))}"
        raise ValueError(f"{path}: {found} are not {wanted}: {error}") from None
    csr.sort_indices()
    entries = csr.tocoo()
    for at in np.flatnonzero((np.diff(entries.row) == 0) & (np.diff(entries.col) == 0)):
        raise ValueError(f"{path}: the entry [{entries.row[at]}, {entries.col[at]}] stands twice")
    return csr


def _refuse(
    path: str, name: str, values: np.ndarray | csr_array, wrong: np.ndarray | csr_array
) -> None:
    """Refuse the first of the values at which ``wrong`` is True."""
    for at in zip(*wrong.nonzero(), strict=True):
        index = ", ".join(map(str, at))
        raise ValueError(f"{path}: {name}[{index}] = {values[at]} is not finite")
