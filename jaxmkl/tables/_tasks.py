"""Inputs that say which of several tasks an example belongs to."""

from typing import Any

import numpy as np

from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._table import shown


def with_tasks(task: Any, X: Any) -> Any:
    """The inputs with the task of each example as column 0, for :func:`jaxmkl.multitask`.

    Args:
      task: (n,) whole numbers from 0.
      X: inputs (n, D), dense or :class:`~jaxmkl.streaming.SparseRows`.

    Returns:
      (n, 1 + D), of the floating dtype of ``X`` (float32 for whole numbers), sparse if ``X`` is.

    Raises:
      ValueError: for shapes that do not fit, or tasks that are no whole numbers from 0.

    >>> with_tasks([1, 0], [[0.5, 2.0], [0.25, 4.0]])
    array([[1.  , 0.5 , 2.  ],
           [0.  , 0.25, 4.  ]])
    """
    known = np.asarray(task)
    X = X if isinstance(X, SparseRows) else np.asarray(X)
    if X.ndim != 2 or known.shape != (X.shape[0],):
        raise ValueError(
            "with_tasks: task must have shape (n,) and X (n, D); got shapes "
            f"{known.shape} and {X.shape}"
        )
    kind = known.dtype.kind
    whole = kind in "iu" or (kind == "f" and bool((np.round(known) == known).all()))
    if not whole or (known < 0).any():
        raise ValueError(
            f"with_tasks: task must hold whole numbers from 0; got {known.dtype} "
            f"{shown(np.unique(known).tolist())}"
        )
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float32)
    column = known[:, None].astype(dtype)
    if isinstance(X, SparseRows):
        first = np.zeros((len(known), 1), np.int32)
        indices = np.concatenate([first, np.asarray(X.indices) + 1], axis=1)
        values = np.concatenate([column, np.asarray(X.values).astype(dtype)], axis=1)
        return SparseRows(indices, values, X.num_columns + 1)
    return np.concatenate([column, X.astype(dtype)], axis=1)
