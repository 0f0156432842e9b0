"""The paper's nine kernels over a pool, in double precision whatever the settings of JAX.

They are six Gaussians of bandwidths 1, 10, ..., 1e5 times the largest distance, the polynomials
of degree 2 and 4, and the linear kernel. A Gaussian wider than 1e4 distances is exactly the
constant 1 in float32, and differs from it in few digits in float64. So the code computes
expm1(-r² / (2 b²)) = k - 1 instead, which is the same after centring.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from jaxmkl._checks import known_array
from jaxmkl._pytree import require

WIDTHS = tuple(10.0**k for k in range(6))
DEGREES = (2, 4, 1)  # the last is the linear kernel
NORMALISATIONS = ("distance", "max_abs", "none")


def _square(owner: str, gram: ArrayLike) -> np.ndarray:
    """The checked Gram matrices (..., n, n) in double precision."""
    array = known_array(owner, "gram", gram).astype(np.float64)
    shape = array.shape
    good = array.size > 0 and array.ndim > 1 and shape[-1] == shape[-2]
    require(good, owner, "gram", f"an array of shape {shape}", "an array (..., n, n)")
    return array


def centred(gram: ArrayLike) -> np.ndarray:
    """Gram matrices (..., n, n) of features with their mean over the pool subtracted.

    Other shapes raise a ``ValueError``.

    >>> centred(np.ones((2, 2))).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    gram = _square("centred", gram)
    rows, columns = (gram.mean(axis=axis, keepdims=True) for axis in (-1, -2))
    return gram - rows - columns + rows.mean(axis=-2, keepdims=True)


def normalised(gram: ArrayLike, by: str = "distance") -> np.ndarray:
    """Gram matrices (..., n, n), each divided by one number.

    If ``by`` is "distance", it is the largest squared distance of two points in feature space; if
    "max_abs", the largest absolute value; if "none", 1. Anything else raises a ``ValueError``.

    >>> normalised(np.diag([1.0, 3.0])).tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    require(by in NORMALISATIONS, "normalised", "by", by, f"one of {', '.join(NORMALISATIONS)}")
    gram = _square("normalised", gram)
    if by == "none":
        return gram
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
    squared = diagonal[..., :, None] + diagonal[..., None, :] - 2 * gram
    size = (np.abs(gram) if by == "max_abs" else squared).max(axis=(-2, -1), keepdims=True)
    return gram / np.where(size > 0, size, 1.0)


def dictionary(
    X: ArrayLike | None = None,
    *,
    inner: ArrayLike | None = None,
    centre: bool = True,
    normalise: str = "distance",
) -> np.ndarray:
    """Gram matrices (9, n, n), float64, of the paper's kernels over a pool, exactly symmetric.

    Their order is: Gaussians of widths 1 to 1e5, polynomials of degree 2 and 4, the linear kernel.
    Centred and divided by the largest squared distance in feature space, they are comparable, and
    the consensus of GMKAL does not depend on its initial weights. The other settings serve for
    comparison, and are degenerate: without centring, a wide Gaussian is the constant 1 up to
    1e-10, and gets all the weight; divided by its largest distance, it has entries of 1e10. Even
    when centred, the wide Gaussians and the linear kernel agree to about 1e-4.

    Args:
      X: the points (n, D).
      inner: their inner products (n, n) instead of ``X``, as for sparse points.
      centre: whether to centre each kernel over the pool.
      normalise: the divisor of each kernel, see :func:`normalised`.

    Raises:
      ValueError: if points are not finite or all the same, or shapes are wrong.

    >>> dictionary(np.array([[0.0], [1.0], [3.0]])).shape
    (9, 3, 3)
    """
    if (X is None) == (inner is None):
        raise ValueError("dictionary: X or inner must be given, one of them")
    name, axes = ("X", "(n, D)") if inner is None else ("inner", "(n, n)")
    array = known_array("dictionary", name, X if inner is None else inner).astype(np.float64)
    good = array.ndim == 2 and array.size > 0 and (inner is None or len(array) == array.shape[1])
    require(good, "dictionary", name, f"an array of shape {array.shape}", f"an array {axes}")
    require(bool(np.isfinite(array).all()), "dictionary", name, "NaN or infinite values", "finite")
    products = array @ array.T if inner is None else array
    products = (products + products.T) / 2
    # products = level + tilt_i + tilt_j + near with centred points in near, as the products of
    # points far from the origin have no digits left for their distances
    if inner is None:
        mean = array.mean(axis=0)
        apart = array - mean
        level, near, tilt = float(mean @ mean), apart @ apart.T, apart @ mean
    else:
        level = float(products.mean())
        near, tilt = centred(products), products.mean(axis=1) - level
    rest = near + tilt[:, None] + tilt[None, :]
    norms = np.diagonal(near)
    squared = np.maximum(norms[:, None] + norms[None, :] - near - near.T, 0.0)
    np.fill_diagonal(squared, 0.0)
    widest = squared.max()
    found = "points that are all the same"
    require(bool(widest > 0), "dictionary", name, found, "at least two different points")
    result = np.empty((len(WIDTHS) + len(DEGREES), *products.shape))
    for t in range(len(result)):
        gaussian = t < len(WIDTHS)
        if gaussian:
            kernel = np.expm1(squared * (-0.5 / (WIDTHS[t] ** 2 * widest)))
        elif centre:  # the binomial series without what centring removes
            p = DEGREES[t - len(WIDTHS)]
            kernel = p * level ** (p - 1) * near
            for k in range(2, p + 1):
                kernel += math.comb(p, k) * level ** (p - k) * rest**k
        else:
            kernel = products ** DEGREES[t - len(WIDTHS)]
        if centre:
            kernel = normalised(centred(kernel), normalise)
        elif gaussian and normalise == "distance":  # the distances of k - 1 are those of k
            kernel = normalised(kernel, normalise) + 1.0 / (-2 * np.min(kernel))
        else:
            kernel = normalised(kernel + 1.0 if gaussian else kernel, normalise)
        result[t] = (kernel + kernel.T) / 2
    return result
