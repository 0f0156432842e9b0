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

with r the Euclidean distance and b the bandwidth. The first three are shift-invariant. Their
spectral densities (Rahimi and Recht, 2007) are scale mixtures of Gaussians: a frequency is
``s g / b`` with g ~ N(0, I) and a random scale s that is 1 (Gaussian), 1/|u| with u ~ N(0, 1)
(Laplacian) or sqrt(2 e) with e ~ Exp(1) (Cauchy).
"""

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
    "pairwise_products",
]

# So many inputs at a time are subtracted, squared and summed.
_INPUTS_AT_ONCE = 32


class Products(NamedTuple):
    """What all kernels are evaluated from: two matrices of shape (n, m)."""

    inner: jax.Array
    squared_distance: jax.Array


def pairwise_products(X: jax.Array, Y: jax.Array) -> Products:
    """Inner products and squared distances of the rows of ``X`` (n, D) and ``Y`` (m, D).

    Distances are summed squared differences: the expansion |x|² + |y|² - 2 x·y is one matrix
    product, but in float32 it loses near duplicates of large norm, which narrow kernels live on.

    >>> import jax.numpy as jnp
    >>> pairwise_products(jnp.array([[3.0, 4.0]]), jnp.zeros((1, 2))).squared_distance
    Array([[25.]], dtype=float32)
    """
    chex.assert_rank([X, Y], 2)
    chex.assert_equal_shape_suffix([X, Y], 1)
    inner = jnp.dot(X, Y.T, precision=jax.lax.Precision.HIGHEST)

    def parts(Z: jax.Array) -> jax.Array:
        """The columns in equal parts, filled up with zeros: (parts, rows, columns)."""
        padded = jnp.pad(Z, ((0, 0), (0, -Z.shape[1] % _INPUTS_AT_ONCE)))
        return jnp.moveaxis(padded.reshape(Z.shape[0], -1, _INPUTS_AT_ONCE), 1, 0)

    def add(total: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        x, y = part
        return total + jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1), None

    if X.shape[1] <= _INPUTS_AT_ONCE:
        return Products(inner, add(jnp.zeros_like(inner), (X, Y))[0])
    return Products(inner, jax.lax.scan(add, jnp.zeros_like(inner), (parts(X), parts(Y)))[0])


def _stacked(parameter: Any, dtype: Any) -> jax.Array:
    """The parameter as an array of shape (P, 1, 1)."""
    return jnp.atleast_1d(jnp.asarray(parameter, dtype))[:, None, None]


class Kernel:
    """What kernels and dictionaries have in common."""

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        raise NotImplementedError

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m) from inner products and squared distances."""
        raise NotImplementedError

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

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        b = _stacked(self.bandwidth, products.inner.dtype)
        return jnp.exp(-products.squared_distance[None] / (2.0 * b**2))

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

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        b = _stacked(self.bandwidth, products.inner.dtype)
        apart = products.squared_distance > 0
        distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, products.squared_distance, 1.0)), 0)
        return jnp.exp(-distance[None] / b)

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

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        b = _stacked(self.bandwidth, products.inner.dtype)
        return 1.0 / (1.0 + products.squared_distance[None] / b**2)

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

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m)."""
        P = self.num_kernels
        offset = jnp.broadcast_to(_stacked(self.offset, products.inner.dtype), (P, 1, 1))
        degrees = self._degrees * (P if len(self._degrees) == 1 else 1)
        return jnp.stack(
            [jax.lax.integer_pow(products.inner + offset[i], q) for i, q in enumerate(degrees)]
        )


@pytree.dataclass
class Linear(Kernel):
    """Linear kernel x·x'."""

    @property
    def num_kernels(self) -> int:
        """One."""
        return 1

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (1, n, m)."""
        return products.inner[None]


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
