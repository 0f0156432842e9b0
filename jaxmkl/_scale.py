"""Arrays of NumPy that are scaled as a whole, before a run."""

from typing import TYPE_CHECKING

import numpy as np

from jaxmkl._checks import refuse_masked, refuse_tracers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def scale(X: "ArrayLike", how: str) -> np.ndarray:
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
      ValueError: NaN or an infinite value, a wrong shape or dtype, a masked array, a tracer, or an
        unknown ``how``.

    >>> scale([[1, 5], [2, 5], [3, 5]], "symmetric")
    array([[-1.,  0.],
           [ 0.,  0.],
           [ 1.,  0.]])
    """
    if how not in (known := ("unit_interval", "symmetric", "standard", "unit_rows", "largest")):
        raise ValueError(f"scale: how must be one of {', '.join(known)}; got {how!r}")
    refuse_tracers("scale", "X", X)
    refuse_masked("scale: X", X)
    X = as_float("scale: X", np.asarray(X))
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"scale: X must have the shape (n, D) with n, D >= 1; got {X.shape}")
    for row, column in np.argwhere(~np.isfinite(X)):
        raise ValueError(f"scale: X must be finite; got X[{row}, {column}] = {X[row, column]}")
    # A power of two first, which loses nothing: then no square, sum or range overflows, and no
    # leading entry of a column (row) underflows.
    axis = {"unit_rows": 1, "largest": None}.get(how, 0)
    exponents = np.frexp(np.abs(X).max(axis=axis, keepdims=True))[1]
    scaled = np.ldexp(X, -exponents)
    if how == "largest":
        divisor = np.abs(scaled).max()
    elif how == "unit_rows":
        divisor = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    elif how == "standard":
        scaled = scaled - scaled.mean(axis=0, dtype=np.float64)
        scaled -= scaled.mean(axis=0)  # the mean above is rounded; this leaves constants at 0
        divisor = np.sqrt(np.square(scaled).mean(axis=0))
    else:
        low, high = scaled.min(axis=0), scaled.max(axis=0)
        scaled, divisor = scaled - low, high - low
    quotient = np.divide(scaled, divisor, out=np.zeros_like(scaled), where=divisor > 0)
    if how == "symmetric":
        quotient = 2 * quotient - (divisor > 0)
    return quotient.astype(X.dtype, copy=False)


def as_float(what: str, values: np.ndarray) -> np.ndarray:
    """Convert real numbers to float32, if they are single or half, else to float64."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers; got the dtype {values.dtype}")
    is_single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if is_single else np.float64, copy=False)
