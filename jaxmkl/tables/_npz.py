"""npz files: dense features, or the parts of a CSR matrix."""

import zipfile
import zlib
from typing import Any

import jax
import numpy as np

from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._cells import MISSING
from jaxmkl.tables._entries import from_entries, not_sparse
from jaxmkl.tables._table import Dataset, as_float, finish, note_dropped, shown


def read_npz(path: str, target: str | None, task: str | None, sparse: bool) -> Dataset:
    """Read an npz file."""
    key = "y" if target is None else target
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            keys = set(archive.files)
            parts = {"X"} if "X" in keys else {"data", "indices", "indptr", "shape"}
            if not parts <= keys:
                raise ValueError(
                    f"{path}: X, or data, indices, indptr and shape, wanted; its keys are "
                    f"{shown(sorted(keys), 100)}"
                )
            if key not in keys or key in parts:
                raise ValueError(
                    f"{path}: has no target {key!r}; its keys are {shown(sorted(keys), 100)}"
                )
            arrays = {name: _loaded(path, archive, name) for name in (*parts, key)}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise ValueError(f"{path}: is damaged or no npz archive ({error})") from error
    y = arrays.pop(key)
    if sparse and "X" in arrays:
        raise not_sparse(path, "an npz file with a dense X")
    X: Any = arrays["X"] if "X" in arrays else _from_csr(path, sparse=sparse, **arrays)
    if X.ndim != 2:
        raise ValueError(f"{path}: X must have the shape (n, D); got {X.shape}")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != X.shape[:1]:
        raise ValueError(
            f"{path}: {key} must have the shape ({len(X)},), one target a row of X; got {y.shape}"
        )
    if not sparse:
        X = as_float(f"{path}: X", X)
        _refuse_infinite(path, "X", X)
    notes: list[str] = []
    where = f"{path}, {key}"
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        values = np.char.strip(y)
        spelled = values
        given = ~np.isin(np.char.lower(values), list(MISSING))
    else:
        values = as_float(where, y).astype(np.float64)
        _refuse_infinite(path, key, values)
        given = ~np.isnan(values)
        spelled = y
        codes = np.unique(y) if task is None and y.dtype == np.int16 else y[:0]
        if len(codes) > 2 and np.array_equal(codes, np.arange(len(codes))):
            task = "multiclass"
            notes.append(f"the target's int16 codes 0 to {len(codes) - 1} are read as classes")
    if not given.all():
        note_dropped(notes, np.flatnonzero(~given).tolist(), "index")
        X = jax.tree.map(lambda part: part[given], X)
        values, spelled = values[given], spelled[given]
    names = [f"x{index}" for index in range(X.shape[1])]
    return finish(path, X, names, values, spelled, key, where, task, notes)


def _loaded(path: str, archive: Any, name: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:  # an array of Python objects, which would run code
        raise ValueError(f"{path}: {name} cannot be read: {error}") from None


def _from_csr(
    path: str,
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: np.ndarray,
    sparse: bool,
) -> np.ndarray | SparseRows:
    whole = all(part.dtype.kind in "iu" for part in (indices, indptr, shape))
    if not whole or shape.shape != (2,) or shape.min() < 0:
        raise ValueError(f"{path}: shape must be two whole numbers; got {shape!r}")
    num_rows, num_columns = (int(size) for size in shape)
    ends = indptr.astype(np.int64)
    columns = indices.astype(np.int64)
    if not (
        ends.shape == (num_rows + 1,)
        and ends[0] == 0
        and (np.diff(ends) >= 0).all()
        and data.ndim == 1
        and data.shape == columns.shape == (ends[-1],)
    ):
        raise ValueError(
            f"{path}: data {data.shape}, indices {indices.shape} and indptr {indptr.shape} are "
            f"not the parts of a CSR matrix of shape {num_rows} x {num_columns}"
        )
    if columns.size and not 0 <= columns.min() <= columns.max() < num_columns:
        raise ValueError(
            f"{path}: indices must lie in 0 .. {num_columns - 1}; got {columns.min()} .. "
            f"{columns.max()}"
        )
    values = as_float(f"{path}: data", data)
    rows = np.repeat(np.arange(num_rows), np.diff(ends))
    order = np.lexsort((columns, rows))
    columns, values = columns[order], values[order]
    twice = np.flatnonzero((np.diff(rows) == 0) & (np.diff(columns) == 0))
    if len(twice):
        at = twice[0]
        raise ValueError(f"{path}: the entry [{rows[at]}, {columns[at]}] stands twice")
    if sparse and not np.isfinite(values).all():
        at = np.flatnonzero(~np.isfinite(values))[0]
        raise ValueError(f"{path}: X[{rows[at]}, {columns[at]}] = {values[at]} is not finite")
    return from_entries(path, (num_rows, num_columns), rows, columns, values, sparse)


def _refuse_infinite(path: str, name: str, values: np.ndarray) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        at = tuple(np.argwhere(infinite)[0].tolist())
        index = ", ".join(map(str, at))
        raise ValueError(f"{path}: {name}[{index}] = {values[at]} is not finite")
