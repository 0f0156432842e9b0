"""The data set, and the arrays from which formats of numbers make it."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from jaxmkl._checks import known_array, refuse_tracers, refuse_unless, shown
from jaxmkl.streaming.sparse import SparseRows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike
    from scipy.sparse import csr_array

    from jaxmkl.tables._columns import Columns
    from jaxmkl.tables._rows import Chunk

MAX_DENSE_BYTES = 4 * 2**30
NOT_SPARSE = "sparse must be False but for LIBSVM files and the parts of a CSR matrix in npz files"


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A table of examples in the order of the file, ready for a learner."""

    X: np.ndarray | SparseRows
    """(n, D) float32 or float64, finite; or :class:`jaxmkl.streaming.SparseRows`."""
    y: np.ndarray
    """(n,): the targets, or -1 and +1 for two classes, in the dtype of X; int16 for more."""
    task: str
    """"regression", "classification" (two classes) or "multiclass"."""
    feature_names: Sequence[str]
    """D names, a tuple unless X is sparse; a category of text is named ``column=value``."""
    classes: tuple[str, ...]
    """The labels as text, (negative, positive) or by number; () for regression."""
    notes: tuple[str, ...]
    """A sentence on each decision, on columns filled in, encoded or left out."""
    target: str
    """The name of the target."""
    columns: "Columns | None" = None
    """The :class:`jaxmkl.tables.Columns` of a table, for other files; else None."""


class Arrays(NamedTuple):
    """Inputs that are numbers, and the target."""

    X: "np.ndarray | csr_array"
    """(n, D), float32 or float64; NaN in a dense array is a missing number."""
    names: Sequence[str]
    """The names of the inputs."""
    labels: "Chunk"
    """The rows with one column, the target."""
    notes: list[str]
    task: str | None = None
    """The task, if the format has one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Numbered(Sequence[str]):
    """Names numbered from ``start`` on; each is made when it is asked for.

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


def dense_or_sparse(path: str, csr: "csr_array", sparse: bool) -> "np.ndarray | csr_array":
    """Keep a CSR matrix, or make it dense if memory allows it."""
    widest = int(np.diff(csr.indptr).max(initial=0)) if sparse else None
    check_size(path, csr.shape, csr.dtype, widest)
    return csr if sparse else csr.toarray()


def check_size(
    path: str, shape: tuple[int, int], dtype: "DTypeLike", width: int | None = None
) -> None:
    """Refuse inputs (n, D) that take too much memory; sparse rows have ``width`` entries."""
    (n, D), itemsize = shape, np.dtype(dtype).itemsize
    size, start, wide = n * D * itemsize, f"as a dense {np.dtype(dtype)} array its", ""
    if width is not None:
        refuse_unless(D < 2**31, f"{path}: {D} inputs are too many; below 2^31 are wanted")
        size, start = n * width * (itemsize + 4), "its"
        wide = f" with {width} entries a row, as many as the fullest row has"
    if size > MAX_DENSE_BYTES:
        much = f"{start} {n} x {D} inputs would take {size / 2**30:.1f} GiB{wide}"
        allowed = f"{MAX_DENSE_BYTES / 2**30:g} GiB allowed; take fewer rows or inputs"
        raise ValueError(f"{path}: {much}, more than the {allowed}")


@overload
def with_tasks(task: "ArrayLike", X: SparseRows) -> SparseRows: ...
@overload
def with_tasks(task: "ArrayLike", X: "ArrayLike") -> np.ndarray: ...
def with_tasks(task: "ArrayLike", X: "ArrayLike | SparseRows") -> np.ndarray | SparseRows:
    """Prepend the task of each example as column 0, for :func:`jaxmkl.multitask`.

    Args:
      task: (n,) whole numbers from 0.
      X: inputs (n, D), dense or :class:`jaxmkl.streaming.SparseRows`.

    Returns:
      (n, 1 + D), of the floating dtype of ``X`` (float32 for whole numbers and float16), sparse if
      ``X`` is.

    Raises:
      ValueError: the shapes do not fit, or a task is not a whole number from 0.

    >>> with_tasks([1, 0], [[0.5, 2.0], [0.25, 4.0]])
    array([[1.  , 0.5 , 2.  ],
           [0.  , 0.25, 4.  ]])
    """
    refuse_tracers("with_tasks", "task", task)
    refuse_tracers("with_tasks", "X", X)
    known = np.asarray(task)
    X = X if isinstance(X, SparseRows) else known_array("with_tasks", "X", X)
    if X.ndim != 2 or known.shape != (X.shape[0],):
        found = f"shapes {known.shape} and {X.shape}"
        raise ValueError(f"with_tasks: task must have shape (n,) and X (n, D); got {found}")
    whole = known.dtype.kind in "iuf" and bool((np.round(known) == known).all())
    if not whole or (known < 0).any():
        found = f"{known.dtype} {shown(np.unique(known).tolist())}"
        raise ValueError(f"with_tasks: task must hold whole numbers from 0; got {found}")
    # float16 has no numbers for tasks above 2,048
    single = X.dtype.kind != "f" or X.dtype.itemsize < 4
    dtype = np.dtype(np.float32) if single else X.dtype
    if not isinstance(X, SparseRows):
        return np.insert(X.astype(dtype), 0, known, axis=1)
    indices = np.insert(np.asarray(X.indices) + 1, 0, 0, axis=1)
    values = np.insert(np.asarray(X.values).astype(dtype), 0, known, axis=1)
    return SparseRows(indices, values, X.num_columns + 1)
