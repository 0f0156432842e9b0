"""Arrays are given a column of tasks."""

from typing import TYPE_CHECKING, overload

import numpy as np

from jaxmkl._checks import shown
from jaxmkl.streaming.sparse import SparseRows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
      (n, 1 + D), of the floating dtype of ``X`` (float32 for whole numbers), sparse if ``X`` is.

    Raises:
      ValueError: the shapes do not fit, or a task is not a whole number from 0.

    >>> with_tasks([1, 0], [[0.5, 2.0], [0.25, 4.0]])
    array([[1.  , 0.5 , 2.  ],
           [0.  , 0.25, 4.  ]])
    """
    known = np.asarray(task)
    X = X if isinstance(X, SparseRows) else np.asarray(X)
    if X.ndim != 2 or known.shape != (X.shape[0],):
        found = f"shapes {known.shape} and {X.shape}"
        raise ValueError(f"with_tasks: task must have shape (n,) and X (n, D); got {found}")
    whole = known.dtype.kind in "iuf" and bool((np.round(known) == known).all())
    if not whole or (known < 0).any():
        found = f"{known.dtype} {shown(np.unique(known).tolist())}"
        raise ValueError(f"with_tasks: task must hold whole numbers from 0; got {found}")
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float32)
    if not isinstance(X, SparseRows):
        return np.insert(X.astype(dtype), 0, known, axis=1)
    indices = np.insert(np.asarray(X.indices) + 1, 0, 0, axis=1)
    values = np.insert(np.asarray(X.values).astype(dtype), 0, known, axis=1)
    return SparseRows(indices, values, X.num_columns + 1)
