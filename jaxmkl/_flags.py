"""Inputs that are 0 or 1, as of categories, which are not scaled beside numbers.

Scaled to variance 1, the K inputs of K words would count as much as K numbers, and one that is
rarely 1 would then be far from all others. What was 0 or 1 in some rows may be another number in
later ones, which is clipped as :class:`jaxmkl.wrappers.RunningMoments` clips what it scales.
"""

from typing import Any

import numpy as np

from jaxmkl.wrappers import AllBut, RunningMoments, Scaler

Ranges = tuple[tuple[int, int], ...]

LEAST = 100  # rows that tell that a column of numbers is of 0 and 1


def are_flags(numbers: np.ndarray) -> np.ndarray:
    """Whether each column of numbers (n, D) or (n,) holds 0 and 1 alone, in 100 rows at least.

    >>> are_flags(np.resize([[0, 1], [1, 2]], (100, 2)))
    array([ True, False])
    """
    return ((numbers == 0) | (numbers == 1)).all(axis=0) & (len(numbers) >= LEAST)


def flags_of(X: Any) -> Ranges:
    """The ranges (first, end) of columns of X (n, D) that are flags; X may be in CSR form.

    >>> flags_of(np.resize([[0, 2, 1, 0], [1, 1, 1, 1]], (100, 4)))
    ((0, 1), (2, 4))
    """
    if hasattr(X, "tocsr"):
        others = X.indices[(X.data != 0) & (X.data != 1)]
        only = ~np.isin(np.arange(X.shape[1]), others) & (X.shape[0] >= LEAST)
    else:
        only = are_flags(X)
    return ranges_of(only)


def ranges_of(mask: np.ndarray) -> Ranges:
    """The ranges (first, end) of places where a mask (D,) is True.

    >>> ranges_of(np.array([True, False, True, True]))
    ((0, 1), (2, 4))
    """
    ends = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return tuple((first, end) for first, end in ends.reshape(-1, 2).tolist())


def scaler_of(flags: Ranges, words: Ranges = ()) -> Scaler:
    """The scaler of all inputs but those in these ranges, and words of texts."""
    moments = RunningMoments()
    scaler: Scaler = AllBut(moments, words) if words else moments
    return AllBut(scaler, flags, moments.clip) if flags else scaler
