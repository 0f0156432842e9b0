"""The alignment of kernels with labels, and a bandwidth to start from."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import as_array, as_floats, known_array
from jaxmkl._programs import Kept
from jaxmkl.kernels.kernel import SEVERAL, Kernel
from jaxmkl.kernels.products import pairwise_products


def kernel_alignment(kernels: Kernel, X: jax.Array, y: jax.Array) -> jax.Array:
    """Alignment (P,) of each kernel with the labels y (n,) of the rows of ``X`` (n, D).

        A_p = Σ_ij y_i y_j k_p(x_i, x_j) / (n sqrt(Σ_ij k_p(x_i, x_j)²)),  without (n, n) matrices

    Raises:
      ValueError: if ``kernels`` is not a kernel, or the shapes do not fit.

    References:
      Cristianini, Shawe-Taylor, Elisseeff and Kandola (2002), On kernel-target alignment.

    >>> from jaxmkl import Gaussian
    >>> X, y = jnp.array([[0.0], [0.1], [3.0], [3.1]]), jnp.array([1.0, 1.0, -1.0, -1.0])
    >>> kernel_alignment(Gaussian([0.01, 1.0, 100.0]), X, y).round(2)
    Array([0.5, 0.7, 0. ], dtype=float32)
    """
    pytree.require(isinstance(kernels, Kernel), "kernel_alignment", "kernels", kernels, SEVERAL)
    X = as_floats("X", X)
    y = as_array("y", y).astype(X.dtype)
    if X.ndim != 2 or y.shape != X.shape[:1] or not len(X):
        text = f"X must have shape (n, D) and y (n,), n >= 1; got {X.shape} and {y.shape}"
        raise ValueError(f"kernel_alignment: {text}")
    return _aligned(kernels, X, y)


@Kept  # alone, each call would compile its loop again
def _aligned(kernels: Kernel, X: jax.Array, y: jax.Array) -> jax.Array:
    n = X.shape[0]
    B = min(128, n)  # rows of a Gram matrix at a time

    def in_blocks(Z: jax.Array) -> jax.Array:
        return jnp.pad(Z, [(0, -n % B)] + [(0, 0)] * (Z.ndim - 1)).reshape(-1, B, *Z.shape[1:])

    def add(sums: tuple, block: tuple) -> tuple[tuple, None]:
        x, label, present = block
        k = kernels.evaluate(pairwise_products(x, X)) * present[None, :, None]
        along = jnp.einsum("pbn,b,n->p", k, label, y, precision=jax.lax.Precision.HIGHEST)
        return (sums[0] + along, sums[1] + jnp.sum(k**2, axis=(1, 2))), None

    zero = jnp.zeros((kernels.num_kernels,), X.dtype)
    blocks = jax.tree.map(in_blocks, (X, y, jnp.ones_like(y)))
    (along, squares), _ = jax.lax.scan(add, (zero, zero), blocks)
    return along / (n * jnp.sqrt(jnp.where(squares > 0, squares, 1.0)))


def median_distance(X: ArrayLike, most: int = 1000) -> float:
    """Median Euclidean distance between the rows of ``X`` (n, D), a bandwidth to start from.

    Args:
      X: at least two rows, finite, and known: no tracer.
      most: the largest number of rows used; of more rows, that many evenly spaced ones are taken.

    Raises:
      ValueError: if the shape does not fit, or all rows are the same.

    >>> median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]))
    5.0
    """
    X = known_array("median_distance", "X", X)
    if X.ndim != 2 or len(X) < 2:
        raise ValueError(f"median_distance: X must have shape (n, D), n >= 2; got {X.shape}")
    most = min(pytree.as_count("median_distance", "most", most, minimum=2), len(X))
    rows = X[np.unique(np.linspace(0, len(X) - 1, most).round().astype(int))].astype(float)
    # divided by a power of two, which rounds nothing, so that squares neither vanish nor overflow
    exponent = int(np.frexp(np.abs(rows).max(initial=0))[1])
    rows = np.ldexp(rows, -exponent)
    with jax.ensure_compile_time_eval(), np.errstate(invalid="ignore"):  # maybe inside a trace
        # without an offset, beside which single precision would lose the distances
        squares = np.asarray(_squares(jnp.asarray(rows - rows[0])))
    median = float(np.ldexp(median_of(squares), exponent))
    if not (np.isfinite(median) and median > 0):
        raise ValueError("median_distance: X must have finite rows that are not all the same")
    return median


@jax.jit
def _squares(rows: jax.Array) -> jax.Array:
    return pairwise_products(rows, rows).squared_distance


def median_of(squares: np.ndarray) -> float:
    """Median distance, from squares (n, n); if more than half are 0, the median of the others.

    >>> median_of(np.array([[0.0, 25.0], [25.0, 0.0]]))
    5.0
    """
    above = squares[np.triu_indices(len(squares), 1)]
    median = np.median(above) or np.median(above[above > 0] if (above > 0).any() else above)
    return float(np.sqrt(median))
