"""Kernels and dictionaries of kernels.

Every kernel here is a function of the inner product and the squared Euclidean distance of two
inputs, so that all kernels of a dictionary share ONE matrix of inner products and ONE of squared
distances. A kernel object may stack several kernels of its family: its parameters then have the
shape ``(P,)``. A single stacked kernel and a :class:`KernelDictionary` answer to the same methods.

    Gaussian     k(x, x') = exp(-r² / (2 b²))
    Laplacian    k(x, x') = exp(-r / b)
    Cauchy       k(x, x') = 1 / (1 + r² / b²)
    Polynomial   k(x, x') = (x·x' + c)^q
    Linear       k(x, x') = x·x'
    WeightedSum  k(x, x') = Σ_p w_p k_p(x, x')

with r the Euclidean distance and b the bandwidth. The first three are shift-invariant. Their
spectral densities (Rahimi and Recht, 2007) are scale mixtures of Gaussians: a frequency is
``s g / b`` with g ~ N(0, I) and a random scale s that is 1 (Gaussian), 1/|u| with u ~ N(0, 1)
(Laplacian) or sqrt(2 e) with e ~ Exp(1) (Cauchy).
"""

from functools import partial, reduce
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree

__all__ = [
    "Cauchy",
    "Gaussian",
    "Kernel",
    "KernelDictionary",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Products",
    "ShiftInvariantKernel",
    "WeightedSum",
    "kernel_alignment",
    "median_distance",
    "pairwise_products",
]

# So many inputs at a time are subtracted, squared and summed.
_INPUTS_AT_ONCE = 32
# So many rows of a Gram matrix are made at a time.
_ROWS_AT_ONCE = 128
# Squared distances below this share of the squared norms are not left to the expansion.
_CLOSE = 1 / 256


class Products(NamedTuple):
    """What all kernels are evaluated from: two matrices of shape (n, m)."""

    inner: jax.Array
    squared_distance: jax.Array


def pairwise_products(X: jax.Array, Y: jax.Array, *, used_once: bool = False) -> Products:
    """Inner products and squared distances of the rows of ``X`` (n, D) and ``Y`` (m, D).

    The expansion |x|² + |y|² - 2 x·y of a distance is one matrix product, but in float32 it loses
    near duplicates of large norm, which narrow kernels live on. So up to 32 inputs, differences
    are squared and summed. Beyond, the expansion is used where it is exact (whole numbers of
    moderate size) or where no distance is small against the norms; else differences again.

    With ``used_once``, distances may be computed anew by each of several users, which is faster
    for a single one.

    >>> import jax.numpy as jnp
    >>> pairwise_products(jnp.array([[3.0, 4.0]]), jnp.zeros((1, 2))).squared_distance
    Array([[25.]], dtype=float32)
    """
    chex.assert_rank([X, Y], 2)
    chex.assert_equal_shape_suffix([X, Y], 1)
    return Products(_inner(X, Y), _squared_distances(used_once, X, Y))


def _inner(X: jax.Array, Y: jax.Array) -> jax.Array:
    return jnp.dot(X, Y.T, precision=jax.lax.Precision.HIGHEST)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _squared_distances(used_once: bool, X: jax.Array, Y: jax.Array) -> jax.Array:
    """Squared distances (n, m)."""
    if X.shape[1] <= _INPUTS_AT_ONCE and used_once:
        # one term after the other: XLA makes one loop of this and of what follows
        columns = zip(X.T, Y.T, strict=True)
        return reduce(jnp.add, ((x[:, None] - y[None, :]) ** 2 for x, y in columns))
    if X.shape[1] <= _INPUTS_AT_ONCE:
        return _summed_differences(X, Y)
    norms = jnp.sum(X**2, axis=1), jnp.sum(Y**2, axis=1)
    total = norms[0][:, None] + norms[1][None, :]
    expanded = jnp.maximum(total - 2.0 * _inner(X, Y), 0.0)
    whole = jnp.all(jnp.round(X) == X) & jnp.all(jnp.round(Y) == Y)
    exact = whole & (jnp.max(norms[0]) + jnp.max(norms[1]) < 0.5 / jnp.finfo(X.dtype).eps)
    doubtful = ~exact & jnp.any(expanded < _CLOSE * total)

    def again(turn: jax.Array, _: jax.Array) -> jax.Array:
        # the turn is 0; what depended on nothing of the loop would be moved out of it
        zero = turn.astype(X.dtype)
        return _summed_differences(X + zero, Y + zero)

    # a loop of no turn or one: mapped over runs, it turns only if one of them needs it
    return jax.lax.fori_loop(0, doubtful.astype(jnp.int32), again, expanded)


@_squared_distances.defjvp
def _squared_distances_jvp(
    used_once: bool, primals: Any, tangents: Any
) -> tuple[jax.Array, jax.Array]:
    (X, Y), (dX, dY) = primals, tangents
    own = jnp.sum(X * dX, axis=1)[:, None] + jnp.sum(Y * dY, axis=1)[None, :]
    return _squared_distances(used_once, X, Y), 2.0 * (own - _inner(dX, Y) - _inner(X, dY))


def _summed_differences(X: jax.Array, Y: jax.Array) -> jax.Array:
    """Squared distances (n, m) as sums of squared differences, some columns at a time."""

    def parts(Z: jax.Array) -> jax.Array:
        """The columns in equal parts, filled up with zeros: (parts, rows, columns)."""
        padded = jnp.pad(Z, ((0, 0), (0, -Z.shape[1] % _INPUTS_AT_ONCE)))
        return jnp.moveaxis(padded.reshape(Z.shape[0], -1, _INPUTS_AT_ONCE), 1, 0)

    def add(total: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        x, y = part
        return total + jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1), None

    zero = jnp.zeros((X.shape[0], Y.shape[0]), X.dtype)
    if X.shape[1] <= _INPUTS_AT_ONCE:
        return add(zero, (X, Y))[0]
    return jax.lax.scan(add, zero, (parts(X), parts(Y)))[0]


def _stacked(parameter: Any, dtype: Any) -> jax.Array:
    """The parameter as an array of shape (P, 1, 1)."""
    return jnp.atleast_1d(jnp.asarray(parameter, dtype))[:, None, None]


class Kernel:
    """What kernels and dictionaries have in common.

    A kernel that is exp(-u) of something is handled by its exponent u: sums of such values keep
    their sign and their relative precision when all terms are below the smallest number. What
    kernels are computed as is called their code: u for those kernels, the value for the others.
    """

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        raise NotImplementedError

    @property
    def exponential(self) -> tuple[bool, ...]:
        """For each of the P kernels: whether it is exp(-u) and its code is u."""
        return (False,) * self.num_kernels

    @property
    def families(self) -> tuple["Kernel", ...]:
        """The kernels as parts of one family each."""
        return (self,)

    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m): u of kernels that are exp(-u), values of the others."""
        raise NotImplementedError

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Codes (n, m) of one kernel a column: column j is of the kernel ``index[j]``."""
        raise NotImplementedError

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m) from inner products and squared distances."""
        codes = self.codes(products)
        return jnp.exp(-codes) if self.exponential[0] else codes

    def gram(self, X: jax.Array, Y: jax.Array | None = None) -> jax.Array:
        """Kernel values (P, n, m) between the rows of ``X`` (n, D) and ``Y`` (m, D; default X).

        >>> import jax.numpy as jnp
        >>> Gaussian([1.0, 2.0]).gram(jnp.zeros((1, 3)), jnp.ones((1, 3))).ravel()
        Array([0.2231..., 0.6872...], dtype=float32)
        """
        X = jnp.asarray(X)
        return self.evaluate(pairwise_products(X, X if Y is None else jnp.asarray(Y)))


class ShiftInvariantKernel(Kernel):
    """A kernel of the distance alone, whose spectrum can be sampled."""

    bandwidth: Any

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        return int(np.prod(jnp.shape(self.bandwidth)))

    def profile(self, squared_distance: jax.Array, bandwidth: jax.Array) -> jax.Array:
        """Codes of squared distances by bandwidths of a shape that goes with theirs."""
        raise NotImplementedError

    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m)."""
        distance = products.squared_distance
        return self.profile(distance[None], _stacked(self.bandwidth, distance.dtype))

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Codes (n, m)."""
        distance = products.squared_distance
        b = jnp.atleast_1d(jnp.asarray(self.bandwidth, distance.dtype))
        return self.profile(distance, b[index][None, :])

    def frequency_scale(self, dtype: Any) -> jax.Array:
        """What frequencies drawn for bandwidth 1 are multiplied by: 1 / bandwidth, shape (P,)."""
        return 1.0 / jnp.atleast_1d(jnp.asarray(self.bandwidth, dtype))

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """Random scales s (P, F) of the frequencies s g, g ~ N(0, I), for bandwidth 1."""
        raise NotImplementedError


def _check_bandwidth(kernel: ShiftInvariantKernel) -> None:
    bandwidth = pytree.as_leaf(
        kernel,
        "bandwidth",
        kernel.bandwidth,
        minimum=0.0,
        exclusive=True,
        max_ndim=1,
        wanted="a positive finite number or a one-dimensional array of them",
    )
    object.__setattr__(kernel, "bandwidth", bandwidth)


@pytree.dataclass
class Gaussian(ShiftInvariantKernel):
    """Gaussian kernel exp(-r² / (2 b²)); ``bandwidth`` b is a number or an array (P,).

    >>> Gaussian([0.1, 1.0, 10.0]).num_kernels
    3
    """

    bandwidth: Any

    def __post_init__(self) -> None:
        _check_bandwidth(self)

    @property
    def exponential(self) -> tuple[bool, ...]:
        """All of them."""
        return (True,) * self.num_kernels

    def profile(self, squared_distance: jax.Array, bandwidth: jax.Array) -> jax.Array:
        """The exponents r² / (2 b²)."""
        return squared_distance * (0.5 / bandwidth**2)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """All ones: frequencies are Gaussian."""
        return jnp.ones((self.num_kernels, num_features), dtype)


@pytree.dataclass
class Laplacian(ShiftInvariantKernel):
    """Laplacian (exponential) kernel exp(-r / b), r the Euclidean distance.

    Its gradient by coincident inputs is taken as zero.
    """

    bandwidth: Any

    def __post_init__(self) -> None:
        _check_bandwidth(self)

    @property
    def exponential(self) -> tuple[bool, ...]:
        """All of them."""
        return (True,) * self.num_kernels

    def profile(self, squared_distance: jax.Array, bandwidth: jax.Array) -> jax.Array:
        """The exponents r / b."""
        apart = squared_distance > 0
        return jnp.where(apart, jnp.sqrt(jnp.where(apart, squared_distance, 1.0)), 0) / bandwidth

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """1/|u| with u ~ N(0, 1): frequencies are multivariate Cauchy."""
        u = jax.random.normal(key, (self.num_kernels, num_features), dtype)
        return 1.0 / jnp.maximum(jnp.abs(u), 1e-7)


@pytree.dataclass
class Cauchy(ShiftInvariantKernel):
    """Cauchy (rational quadratic) kernel 1 / (1 + r² / b²)."""

    bandwidth: Any

    def __post_init__(self) -> None:
        _check_bandwidth(self)

    def profile(self, squared_distance: jax.Array, bandwidth: jax.Array) -> jax.Array:
        """The values."""
        return 1.0 / (1.0 + squared_distance / bandwidth**2)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """sqrt(2 e) with e ~ Exp(1): frequencies are multivariate Laplace."""
        e = jax.random.exponential(key, (self.num_kernels, num_features), dtype)
        return jnp.sqrt(2.0 * e)


@pytree.dataclass
class Polynomial(Kernel):
    """Polynomial kernel (x·x' + c)^q.

    Args:
      degree: q, a positive integer or a sequence of them (static: it unrolls into products).
      offset: c, a number or an array (P,).
    """

    degree: Any = pytree.static()
    offset: Any = 0.0

    def __post_init__(self) -> None:
        degrees = np.asarray(self.degree)
        good = degrees.dtype.kind in "iu" and degrees.ndim <= 1 and degrees.size > 0
        good = good and bool((degrees >= 1).all())
        pytree.require(good, self, "degree", self.degree, "a positive integer or several")
        degree = int(degrees) if degrees.ndim == 0 else tuple(int(q) for q in degrees)
        object.__setattr__(self, "degree", degree)
        offset = pytree.as_leaf(
            self, "offset", self.offset, max_ndim=1, minimum=0.0, wanted="at least 0 and finite"
        )
        object.__setattr__(self, "offset", offset)
        sizes = {np.size(self._degrees), int(np.prod(jnp.shape(offset)))} - {1}
        pytree.require(
            len(sizes) <= 1, self, "offset", self.offset, "of the same length as degree"
        )

    @property
    def _degrees(self) -> tuple[int, ...]:
        return self.degree if isinstance(self.degree, tuple) else (self.degree,)

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        return max(len(self._degrees), int(np.prod(jnp.shape(self.offset))))

    def _powers(self, inner: jax.Array) -> list[jax.Array]:
        """Values by each of the P kernels, of the shape of ``inner``."""
        P = self.num_kernels
        offset = jnp.broadcast_to(jnp.asarray(self.offset, inner.dtype), (P,))
        degrees = self._degrees * (P if len(self._degrees) == 1 else 1)
        return [jax.lax.integer_pow(inner + offset[i], q) for i, q in enumerate(degrees)]

    def codes(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        return jnp.stack(self._powers(products.inner))

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Kernel values (n, m)."""
        powers = self._powers(products.inner)
        value = powers[0]
        for i, power in enumerate(powers[1:], start=1):
            value = jnp.where((index == i)[None, :], power, value)
        return value


@pytree.dataclass
class Linear(Kernel):
    """Linear kernel x·x'."""

    @property
    def num_kernels(self) -> int:
        """One."""
        return 1

    def codes(self, products: Products) -> jax.Array:
        """Kernel values (1, n, m)."""
        return products.inner[None]

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Kernel values (n, m)."""
        return products.inner


@pytree.dataclass
class KernelDictionary(ShiftInvariantKernel):
    """Several kernels, of one family or of many, as one.

    Args:
      kernels: a tuple of kernels, each of which may stack several.

    Raises:
      ValueError: when there is no kernel, or something that is none.

    >>> dictionary = KernelDictionary((Gaussian([0.5, 2.0]), Polynomial(2), Linear()))
    >>> dictionary.num_kernels
    4
    """

    kernels: tuple

    def __post_init__(self) -> None:
        kernels = self.kernels
        good = isinstance(kernels, tuple | list) and len(kernels) > 0
        good = good and all(isinstance(kernel, Kernel) for kernel in kernels)
        pytree.require(good, self, "kernels", kernels, "a non-empty tuple of kernels")
        object.__setattr__(self, "kernels", tuple(kernels))

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        return sum(kernel.num_kernels for kernel in self.kernels)

    @property
    def bandwidth(self) -> jax.Array:  # type: ignore[override]
        """Bandwidths (P,) of shift-invariant kernels."""
        return jnp.concatenate([jnp.atleast_1d(k.bandwidth) for k in self._shift_invariant()])

    def _shift_invariant(self) -> list[ShiftInvariantKernel]:
        found = [k for k in self.kernels if isinstance(k, ShiftInvariantKernel)]
        others = [type(k).__name__ for k in self.kernels if k not in found]
        if others:
            raise ValueError(
                f"KernelDictionary: kernels must all be shift-invariant (Gaussian, Laplacian, "
                f"Cauchy) to have Fourier features; got {', '.join(others)}"
            )
        return found

    @property
    def exponential(self) -> tuple[bool, ...]:
        """For each of the P kernels: whether it is exp(-u)."""
        return tuple(mark for kernel in self.kernels for mark in kernel.exponential)

    @property
    def families(self) -> tuple[Kernel, ...]:
        """The kernels as parts of one family each."""
        return tuple(family for kernel in self.kernels for family in kernel.families)

    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m)."""
        return jnp.concatenate([kernel.codes(products) for kernel in self.kernels])

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Codes (n, m) of one kernel a column."""
        result = jnp.zeros_like(products.inner)
        start = 0
        for kernel in self.kernels:
            local = jnp.clip(index - start, 0, kernel.num_kernels - 1)
            of_part = kernel.column_codes(products, local)
            result = jnp.where((index >= start)[None, :], of_part, result)
            start += kernel.num_kernels
        return result

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        return jnp.concatenate([kernel.evaluate(products) for kernel in self.kernels])

    def frequency_scale(self, dtype: Any) -> jax.Array:
        """1 / bandwidth, shape (P,)."""
        return jnp.concatenate([k.frequency_scale(dtype) for k in self._shift_invariant()])

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """Random scales (P, F) of the frequencies, family by family."""
        kernels = self._shift_invariant()
        keys = jax.random.split(key, len(kernels))
        return jnp.concatenate(
            [
                kernel.spectral_scale(k, num_features, dtype)
                for kernel, k in zip(kernels, keys, strict=True)
            ]
        )


@pytree.dataclass
class WeightedSum(Kernel):
    """One kernel Σ_p w_p k_p(x, x') made of several.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      weights: w (P,), at least 0.

    Raises:
      ValueError: for weights that are negative or not as many as the kernels.

    >>> import jax.numpy as jnp
    >>> both = WeightedSum(Gaussian((0.5, 2.0)), (0.25, 0.75))
    >>> both.gram(jnp.ones((1, 3)))
    Array([[[1.]]], dtype=float32)
    """

    kernels: Any
    weights: Any

    def __post_init__(self) -> None:
        pytree.require(isinstance(self.kernels, Kernel), self, "kernels", self.kernels, "a kernel")
        P = self.kernels.num_kernels
        wanted = f"one for each of the {P} kernels, at least 0 and finite"
        weights = pytree.as_leaf(
            self, "weights", self.weights, minimum=0.0, max_ndim=1, wanted=wanted
        )
        pytree.require(jnp.shape(weights) == (P,), self, "weights", self.weights, wanted)
        object.__setattr__(self, "weights", weights)

    @property
    def num_kernels(self) -> int:
        """One."""
        return 1

    def codes(self, products: Products) -> jax.Array:
        """Kernel values (1, n, m)."""
        values = self.kernels.evaluate(products)
        weights = jnp.asarray(self.weights, values.dtype)
        return jnp.sum(weights[:, None, None] * values, axis=0, keepdims=True)

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Kernel values (n, m)."""
        return self.codes(products)[0]


def kernel_alignment(kernels: Kernel, X: jax.Array, y: jax.Array) -> jax.Array:
    """Alignment (P,) of each kernel with the labels y (n,) of the rows of ``X`` (n, D).

        A_p = Σ_ij y_i y_j k_p(x_i, x_j) / (n sqrt(Σ_ij k_p(x_i, x_j)²))

    Rows are met in blocks, so that no (n, n) matrix is made.

    Raises:
      ValueError: for shapes that do not fit.

    References:
      Cristianini, Shawe-Taylor, Elisseeff and Kandola (2002), On kernel-target alignment.

    >>> import jax.numpy as jnp
    >>> X, y = jnp.array([[0.0], [0.1], [3.0], [3.1]]), jnp.array([1.0, 1.0, -1.0, -1.0])
    >>> kernel_alignment(Gaussian([0.01, 1.0, 100.0]), X, y).round(2)
    Array([0.5, 0.7, 0. ], dtype=float32)
    """
    X = jnp.asarray(X)
    y = jnp.asarray(y).astype(X.dtype)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"kernel_alignment: X must have shape (n, D) and y (n,); got {X.shape} and {y.shape}"
        )
    n = X.shape[0]
    B = min(_ROWS_AT_ONCE, n)
    padding = -n % B
    rows = jnp.pad(X, ((0, padding), (0, 0))).reshape(-1, B, X.shape[1])
    there = jnp.pad(jnp.ones((n,), X.dtype), (0, padding)).reshape(-1, B)
    labels = jnp.pad(y, (0, padding)).reshape(-1, B)

    def add(sums: tuple, block: tuple) -> tuple[tuple, None]:
        x, label, present = block
        k = kernels.evaluate(pairwise_products(x, X)) * present[None, :, None]
        along = jnp.einsum("pbn,b,n->p", k, label, y, precision=jax.lax.Precision.HIGHEST)
        return (sums[0] + along, sums[1] + jnp.sum(k**2, axis=(1, 2))), None

    zero = jnp.zeros((kernels.num_kernels,), X.dtype)
    (along, squares), _ = jax.lax.scan(add, (zero, zero), (rows, labels, there))
    return along / (n * jnp.sqrt(jnp.where(squares > 0, squares, 1.0)))


def median_distance(X: Any, most: int = 1000) -> float:
    """Median Euclidean distance of the rows of ``X`` (n, D), a bandwidth to start from.

    Args:
      X: at least two rows, finite.
      most: of more rows than these, so many at even distances are taken.

    Raises:
      ValueError: for a shape that does not fit, or rows that are all the same.

    >>> import numpy as np
    >>> median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]))
    5.0
    """
    X = np.asarray(X)
    if X.ndim != 2 or len(X) < 2:
        raise ValueError(f"median_distance: X must have shape (n, D), n >= 2; got {X.shape}")
    rows = X[np.unique(np.linspace(0, len(X) - 1, min(most, len(X))).round().astype(int))]
    squares = np.asarray(pairwise_products(jnp.asarray(rows), jnp.asarray(rows)).squared_distance)
    above = squares[np.triu_indices(len(rows), 1)]
    # where more than half are 0, of the others
    median = np.median(above) or np.median(above[above > 0] if (above > 0).any() else above)
    if not (np.isfinite(median) and median > 0):
        raise ValueError("median_distance: X must have finite rows that are not all the same")
    return float(np.sqrt(median))
