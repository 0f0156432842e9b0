"""Scaling of a whole data set before a run."""

from typing import Any

import numpy as np

from jaxmkl.tables._table import as_float


def scale(X: Any, how: str) -> np.ndarray:
    r"""Scale a whole data set before a run (the scaled copies of the papers are made this way).

    ===================  ==================================================
    ``"unit_interval"``  every column to [0, 1]: (x - min) / (max - min)
    ``"symmetric"``      every column to [-1, 1]: 2 (x - min) / (max - min) - 1
    ``"standard"``       every column to mean 0 and variance 1 (divisor n)
    ``"unit_rows"``      every row to Euclidean length 1
    ``"largest"``        all divided by the largest absolute entry
    ===================  ==================================================

    A constant column becomes 0 in the first three; a row, or an array, of zeros stays as it is.

    Args:
      X: (n, D) finite numbers, n >= 1.
      how: one of the names above.

    Returns:
      A new (n, D) array; float32 and float64 are kept, float16 becomes float32, and integers
      and booleans become float64.

    Raises:
      ValueError: NaN or an infinite value, a wrong shape or dtype, or an unknown ``how``.

    >>> scale([[1, 5], [2, 5], [3, 5]], "symmetric")
    array([[-1.,  0.],
           [ 0.,  0.],
           [ 1.,  0.]])
    """
    known = ("unit_interval", "symmetric", "standard", "unit_rows", "largest")
    if how not in known:
        raise ValueError(f"scale: how must be one of {', '.join(known)}; got {how!r}")
    X = as_float("scale: X", np.asarray(X))
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"scale: X must have the shape (n, D) with n, D >= 1; got {X.shape}")
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(f"scale: X must be finite; got X[{row}, {column}] = {X[row, column]}")
    # A power of two first, which loses nothing: then no square, sum or range can overflow, and
    # none of the column's (row's) leading entries can underflow.
    axis = {"unit_rows": 1, "largest": None}.get(how, 0)
    exponents = np.frexp(np.abs(X).max(axis=axis, keepdims=True))[1]
    X = np.ldexp(X, -exponents)
    if how == "largest":
        return _divided(X, np.abs(X).max(keepdims=True))
    if how == "unit_rows":
        return _divided(X, np.sqrt(np.square(X).sum(axis=1, keepdims=True)))
    if how == "standard":
        centred = X - X.mean(axis=0, dtype=np.float64)
        centred -= centred.mean(axis=0)  # the mean above is rounded; this leaves constants at 0
        deviation = np.sqrt(np.square(centred).mean(axis=0))
        return _divided(centred, deviation).astype(X.dtype)
    low, high = X.min(axis=0), X.max(axis=0)
    unit = _divided(X - low, high - low)
    if how == "unit_interval":
        return unit
    return np.where(high > low, 2 * unit - 1, X.dtype.type(0))


def _divided(X: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Return X / divisor in the dtype of X, and 0 where the divisor is 0."""
    quotient = np.zeros_like(X)
    np.divide(X, divisor, out=quotient, where=divisor > 0, casting="same_kind")
    return quotient
