"""Pools to choose points from: Gram matrices of P kernels over n points, or their features."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl._checks import is_tracer, real_array, refuse_listed, warn_outside
from jaxmkl._devices import left_to_xla, whole
from jaxmkl._pytree import require
from jaxmkl._types import PyTree

WITHIN = 16  # values between 2^-16 and 2^16 are taken as they are


class Pool(NamedTuple):
    """Kernels over a pool of points; either ``gram`` or ``features`` is None."""

    gram: Any  # Gram matrices (P, n, n)
    features: PyTree  # features (P, n, r); the inner products of rows are the kernels' values
    unit: Any = 1.0  # what kernels were divided by, a power of two; see :func:`_in_units`

    @property
    def values(self) -> jax.Array:
        """The array that is not None."""
        return self.features if self.gram is None else self.gram

    @property
    def num_kernels(self) -> int:
        return self.values.shape[0]

    @property
    def num_points(self) -> int:
        return self.values.shape[1]

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype


def pool_of(owner: str, gram: ArrayLike | None, features: ArrayLike | None, stacked: bool) -> Pool:
    """The checked pool of ``owner``; if ``stacked``, arrays have a leading axis of kernels.

    Raises:
      ValueError: if both or neither are given, a shape is wrong, a number is not finite, or a Gram
        matrix is not symmetric or not positive semi-definite.
    """
    name = "grams" if stacked else "gram"
    given: Any = gram if features is None else features
    argument = name if features is None else "features"
    if (gram is None) == (features is None):
        found = "both" if gram is not None else "none"
        raise ValueError(f"{owner}: {name} or features must be given, one of them; got {found}")
    refuse_listed(argument, given)
    array = real_array(argument, given, owner)
    shape = tuple(array.shape)
    axes = ("P",) * stacked + (("n", "n") if features is None else ("n", "r"))
    good = len(shape) == len(axes) and 0 not in shape
    good = good and (features is not None or shape[-1] == shape[-2])
    wanted = f"an array ({', '.join(axes)})"
    require(good, owner, argument, f"an array of shape {shape}", wanted)
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(array.dtype, jnp.float32))
    values = jnp.asarray(array, dtype)
    values = left_to_xla(values)
    values = values if stacked else values[None]
    if not is_tracer(values):
        _check_values(owner, argument, values, features is None)
    values, unit = _in_units(values)
    return Pool(values, None, unit) if features is None else Pool(None, values, unit**2)


def _in_units(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The values divided by a power of four, and this: 1 unless they are very large or small.

    The methods multiply up to three values, which would overflow or vanish.
    """
    exponent = jnp.frexp(jnp.max(jnp.abs(values)))[1]
    unit = jnp.exp2(jnp.where(jnp.abs(exponent) > WITHIN, exponent // 2 * 2, 0)).astype(
        values.dtype
    )
    return (values if not is_tracer(unit) and unit == 1 else values / unit), unit


def _check_values(owner: str, argument: str, values: jax.Array, is_gram: bool) -> None:
    """Raise if no design can be made from the values; warn of points that occur twice."""
    root = math.sqrt(jnp.finfo(values.dtype).eps)
    for kernel, size in enumerate(jnp.max(jnp.abs(values), axis=(1, 2)).tolist()):
        place = argument if len(values) == 1 else f"{argument}[{kernel}]"
        require(math.isfinite(size), owner, place, "NaN or infinite values", "finite")
        require(size > 0, owner, place, "zeros only", "other than zero")
        if is_gram:
            skew, positive = (part.item() for part in _symmetry(values[kernel], root))
            found = f"entries that differ from their mirror image by up to {skew:.3g}"
            require(skew <= root * size, owner, place, found, "symmetric")
            found = f"a matrix with an eigenvalue below -{root:.1g} of its largest row sum"
            require(positive, owner, place, found, "positive semi-definite")
    first, second, count = twins(values, is_gram)
    if count:
        text = f"{count} points are the same as one before, as point {second} is as point {first}"
        text += "; they share their coefficients and are ranked side by side, so leave one out"
        warn_outside(f"{owner}: {argument} has duplicates: {text}", UserWarning)


@jax.jit
def _symmetry(matrix: jax.Array, root: float) -> tuple[jax.Array, jax.Array]:
    """The largest asymmetry, and whether the matrix, slightly shifted, has a Cholesky factor."""
    shift = root * jnp.max(jnp.sum(jnp.abs(matrix), axis=1))
    shifted = (matrix + matrix.T) / 2 + shift * jnp.eye(len(matrix), dtype=matrix.dtype)
    factor = jax.lax.linalg.cholesky(shifted, symmetrize_input=False)
    return jnp.max(jnp.abs(matrix - matrix.T)), jnp.all(jnp.isfinite(jnp.diagonal(factor)))


def twins(values: jax.Array, is_gram: bool) -> tuple[int, int, int]:
    """The first two points whose rows of (P, n, k) agree, and the number of repeated rows.

    Rows of features must agree bit for bit, rows of Gram matrices to rounding.
    """
    # a number (n,) for each row; equal rows have equal numbers
    draws = jax.random.normal(jax.random.key(0), values.shape[::2], values.dtype)
    prints = whole(jnp.einsum("pnk,pk->n", values, draws, precision="highest"))
    order = np.argsort(prints, kind="stable")
    eps, width = np.finfo(prints.dtype).eps, values.shape[2] if is_gram else 1
    slack = 64 * eps * math.sqrt(width) * float(np.abs(prints).max())
    close = np.flatnonzero(np.diff(prints[order]) <= slack)
    if not len(close):
        return 0, 0, 0
    # in a pool with more such pairs, a sample of them is enough
    pairs = np.sort(np.stack([order[close], order[close + 1]]), axis=0)[:, :4096]
    one, other = values[:, pairs[0]], values[:, pairs[1]]
    apart = whole(jnp.max(jnp.abs(one - other), axis=(0, 2)))
    limit = 8 * eps * float(jnp.max(jnp.abs(values))) if is_gram else 0.0
    same = pairs[:, apart <= limit]
    first, second = min(same.T.tolist(), default=(0, 0))
    return first, second, same.shape[1]
