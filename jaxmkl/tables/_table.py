"""What the formats share: text, and the data set with its target typed and its gaps filled."""

import dataclasses
import math
import re
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from jaxmkl._checks import MOST_SHOWN, shown
from jaxmkl.streaming.sparse import SparseRows

MISSING = frozenset({"", "na", "n/a", "nan", "?", "null"})  # compared without regard to case
MAX_DENSE_BYTES = 4 * 2**30
NOT_SPARSE = "sparse must be False but for LIBSVM files and the parts of a CSR matrix in npz files"
TARGET_NAMES = ("target", "y", "label", "class")  # in this order, without regard to case
MOSTLY = 0.9  # a column with a larger share of numbers is a numeric one with a slip in it
FEW_VALUES = 20  # whole numbers with at most so many values might have been meant as classes

_ENDS = np.minimum, np.maximum


def usual_target(names: Sequence[str]) -> str | None:
    """The first column named as targets are, or None.

    >>> usual_target(["a", "Label", "y"])
    'y'
    """
    found = (name for usual in TARGET_NAMES for name in names if name.casefold() == usual)
    return next(found, None)


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A table of examples in the order of the file, ready for a learner."""

    X: Any
    """(n, D) float32 or float64, finite; :class:`jaxmkl.streaming.SparseRows` if read so."""
    y: np.ndarray
    """(n,): the targets, or -1 and +1 for two classes, in the dtype of X; int16 codes for more."""
    task: str
    """"regression", "classification" (two classes) or "multiclass"."""
    feature_names: Sequence[str]
    """D, a tuple unless X is sparse; a category of a text column is named ``column=value``."""
    classes: tuple[str, ...]
    """The labels as they stood in the file, (negative, positive) or by code; () for regression."""
    notes: tuple[str, ...]
    """What was decided, filled in, encoded or left out, a sentence each."""
    target: str
    """The name of the target."""
    columns: Any = None
    """:class:`jaxmkl.tables.Columns` of a table, for other files; else None."""


@dataclasses.dataclass(frozen=True, eq=False)
class Numbered(Sequence[str]):
    """Names by their numbers, from ``start`` on; none is made before it is asked for.

    >>> names = Numbered("x", 0, 40_000_000)
    >>> names[-1], names[:2], Numbered("", 1, 2) == ("1", "2")
    ('x39999999', ('x0', 'x1'), True)
    """

    prefix: str
    start: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        numbers = range(self.start, self.start + self.length)[place]
        if isinstance(place, slice):
            return tuple(f"{self.prefix}{number}" for number in numbers)
        return f"{self.prefix}{numbers}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


def finish(
    path: str,
    X: Any,
    names: Sequence[str],
    values: np.ndarray,
    spelled: Any,
    target: str,
    where: str,
    task: str | None,
    notes: list[str],
    encoding: Sequence[str] = (),
) -> Dataset:
    """Make a data set of features (NaN where missing, or a complete CSR matrix) and all targets.

    ``values`` are the targets as finite float64 or as text, ``spelled`` the same as they stood in
    the file, ``where`` names the target in errors, ``encoding`` are notes that follow its own.
    """
    y, task, classes = _typed_target(where, values, spelled, task, notes)
    notes.extend(encoding)
    is_sparse = not isinstance(X, np.ndarray)
    if not is_sparse:
        X, names = _filled(X, names, notes)
    if not names:
        raise ValueError(f"{path}: has no features")
    same = _constant(X) if is_sparse else np.flatnonzero(X.min(axis=0) == X.max(axis=0))
    if len(same) > 0:
        notes.append(
            f"constant, and kept: {shown([names[place] for place in same[: MOST_SHOWN + 1]])}"
        )
    with np.errstate(over="ignore"):  # looked at next
        y = y if task == "multiclass" else y.astype(X.dtype)
    if not np.isfinite(y).all():
        raise ValueError(f"{where}: the target has values beyond the range of {X.dtype}")
    X = SparseRows.from_csr(X) if is_sparse else X
    names = names if is_sparse else tuple(names)
    return Dataset(X, y, task, names, classes, tuple(notes), target)


def _constant(csr: Any) -> np.ndarray:
    """The first columns that are constant, more than are shown; few of D are looked at."""
    order = np.argsort(csr.indices, kind="stable")
    columns, first, counts = np.unique(csr.indices[order], return_index=True, return_counts=True)
    values = csr.data[order]
    low, high = (f.reduceat(values, first) if len(first) else values for f in _ENDS)
    same = np.where(counts == csr.shape[0], low == high, (low == 0) & (high == 0))
    among = np.arange(min(csr.shape[1], len(columns) + MOST_SHOWN + 1))
    return np.setdiff1d(among, columns[~same])


NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_NUMBER = re.compile(NUMBER)


def number_in(cell: str) -> float | None:
    """The number in a cell, None where there is no finite one.

    >>> [number_in(cell) for cell in ("-1.5e3", "1_000", "١", "1\\x0b", "1e999")]
    [-1500.0, None, None, None, None]
    """
    value = float(cell) if _NUMBER.fullmatch(cell) else math.inf
    return value if math.isfinite(value) else None


def _typed_target(
    where: str, values: np.ndarray, spelled: Any, task: str | None, notes: list[str]
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """Return the targets in their dtype, the task and the classes."""
    is_text = values.dtype.kind == "U"
    distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
    if len(distinct) == 0:
        raise ValueError(f"{where}: no row has a target")
    one = str(spelled[0])
    if len(distinct) == 1:
        raise ValueError(f"{where}: the target is {one!r} in every row; nothing to learn")
    if task is None:
        several = "multiclass" if is_text else "regression"
        task = "classification" if len(distinct) == 2 else several
        few = task == "regression" and len(distinct) <= FEW_VALUES
        if few and (distinct == np.rint(distinct)).all():
            found = f"{len(distinct)} distinct whole numbers and is read as regression"
            notes.append(f"the target has {found}; task='multiclass' reads them as classes")
    if task == "regression":
        if is_text:
            raise ValueError(f"{where}: regression needs numbers; got text, e.g. {one!r}")
        return values, task, ()
    classes = tuple(str(spelled[index]) for index in first.tolist())
    if task == "multiclass":
        if len(distinct) > np.iinfo(np.int16).max:
            raise ValueError(f"{where}: {len(distinct)} distinct values are too many classes")
        return codes.astype(np.int16), task, classes
    if len(distinct) > 2:
        found = f"{len(distinct)}: {shown(classes)}"
        raise ValueError(f"{where}: classification needs two distinct values; got {found}")
    if is_text or distinct.tolist() != [-1.0, 1.0]:
        notes.append(f"the target has two values: {classes[0]!r} is -1 and {classes[1]!r} is +1")
    return np.where(codes == 1, 1.0, -1.0), task, classes


def _filled(X: np.ndarray, names: Any, notes: list[str]) -> tuple[np.ndarray, Any]:
    """Replace NaN by medians and drop columns without any value."""
    missing = np.isnan(X).sum(axis=0)
    filled = missing < len(X)
    if not filled.all():
        lost = shown(list(compress(names, ~filled)))
        notes.append(f"dropped for having no value at all: {lost}")
        X, missing, names = X[:, filled], missing[filled], list(compress(names, filled))
    for index in np.flatnonzero(missing).tolist():
        column, gaps = X[:, index], np.isnan(X[:, index])
        # halves, or the mean of the two middle values could overflow
        column[gaps] = median = 2 * np.median(column[~gaps] / 2)
        cells = f"{missing[index]} missing cell{'s' if missing[index] > 1 else ''}"
        notes.append(f"column {names[index]!r}: {cells} replaced by the median {median!s}")
    return X, names


def dense_or_sparse(path: str, csr: Any, sparse: bool) -> Any:
    """A CSR matrix as it is, or dense, where memory allows it."""
    widest = int(np.diff(csr.indptr).max(initial=0)) if sparse else None
    check_size(path, csr.shape, csr.dtype, widest)
    return csr if sparse else csr.toarray()


def check_size(path: str, shape: tuple[int, int], dtype: Any, width: int | None = None) -> None:
    """Refuse features (n, D), of ``width`` entries a row if sparse, that take too much memory."""
    (n, D), itemsize = shape, np.dtype(dtype).itemsize
    if width is None:
        size, start, wide = n * D * itemsize, f"as a dense {np.dtype(dtype)} array its", ""
    else:
        if D >= 2**31:
            raise ValueError(f"{path}: {D} features are too many; below 2^31 are wanted")
        size, start = n * width * (itemsize + 4), "its"
        wide = f" with {width} entries a row, as many as the fullest row has"
    if size > MAX_DENSE_BYTES:
        much = f"{start} {n} x {D} features would take {size / 2**30:.1f} GiB{wide}"
        allowed = f"{MAX_DENSE_BYTES / 2**30:g} GiB allowed; take fewer rows or features"
        raise ValueError(f"{path}: {much}, more than the {allowed}")


def as_float(what: str, values: np.ndarray) -> np.ndarray:
    """Real numbers as float32, if they are single or half, else as float64."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers; got the dtype {values.dtype}")
    is_single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if is_single else np.float64, copy=False)


def note_dropped(notes: list[str], lost: Sequence[int], what: str) -> None:
    """Note which rows were left out, by their line or index."""
    if lost:
        rows = f"{len(lost)} row{'s' * (len(lost) > 1)}"
        notes.append(f"{rows} without a target dropped ({what} {shown(lost)})")
