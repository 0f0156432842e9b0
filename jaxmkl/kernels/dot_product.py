"""Kernels of the inner product: Polynomial and Linear, and a base for others.

Polynomial   k(x, x') = (x·x' + c)^q
Linear       k(x, x') = x·x'
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl.kernels.products import Products
from jaxmkl.kernels.stationary import Stacked, _along_columns, _along_kernels


class DotProduct(Stacked):
    """Base of kernels of the inner product: a subclass defines ``profile`` of it, elementwise.

    Parameters are numbers or arrays (P,); in ``profile`` they have a shape that goes with its
    argument.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import pytree
    >>> @pytree.dataclass
    ... class Exponential(DotProduct):
    ...     scale: float = 1.0
    ...     def profile(self, u):
    ...         return jnp.exp(u / self.scale)
    >>> Exponential([1.0, 2.0]).gram(jnp.ones((1, 2))).ravel()
    Array([7.389..., 2.718...], dtype=float32)
    """

    def codes(self, products: Products) -> jax.Array:
        u = products.inner[None]
        codes = self._spread(_along_kernels, u.dtype).profile(u)
        return jnp.broadcast_to(codes, (self.num_kernels, *u.shape[1:]))

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        u = products.inner
        codes = self._spread(_along_columns(index), u.dtype).profile(u)
        return jnp.broadcast_to(codes, u.shape)


def _as_degree(owner: Any, name: str, value: Any) -> int | tuple[int, ...]:
    degrees = np.asarray(value)
    good = degrees.dtype.kind in "iu" and degrees.ndim <= 1 and degrees.size > 0
    good = good and bool((degrees >= 1).all())
    pytree.require(good, owner, name, value, "a positive integer or several")
    return int(degrees) if degrees.ndim == 0 else tuple(int(q) for q in degrees)


@pytree.dataclass
class Polynomial(DotProduct):
    """Polynomial kernel (x·x' + c)^q.

    Args:
      degree: q, a positive integer or a sequence of them (static: it unrolls into products).
      offset: c, a number or an array (P,), at least 0.

    Raises:
      ValueError: for a degree below 1, a negative offset, or numbers of them that do not go
        together.

    >>> import jax.numpy as jnp
    >>> Polynomial([1, 2, 3], offset=1.0).gram(jnp.ones((1, 1))).ravel()
    Array([2., 4., 8.], dtype=float32)
    """

    degree: Any = pytree.static(convert=_as_degree)
    offset: Any = pytree.nonnegative(0.0, ndim=1)

    def __post_init__(self) -> None:
        sizes = {np.size(self.degree), int(np.prod(jnp.shape(self.offset)))} - {1}
        wanted = "of the same length as degree"
        pytree.require(len(sizes) <= 1, self, "offset", self.offset, wanted)

    @property
    def num_kernels(self) -> int:
        return max(np.size(self.degree), int(np.prod(jnp.shape(self.offset))))

    def _powers(self, inner: jax.Array) -> list[jax.Array]:
        """Values by each of the P kernels, of the shape of ``inner``."""
        P = self.num_kernels
        offset = jnp.broadcast_to(jnp.asarray(self.offset, inner.dtype), (P,))
        degrees = np.broadcast_to(self.degree, (P,)).tolist()
        return [jax.lax.integer_pow(inner + offset[i], q) for i, q in enumerate(degrees)]

    def codes(self, products: Products) -> jax.Array:
        return jnp.stack(self._powers(products.inner))

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        powers = self._powers(products.inner)
        value = powers[0]
        for i, power in enumerate(powers[1:], start=1):
            value = jnp.where((index == i)[None, :], power, value)
        return value


@pytree.dataclass
class Linear(DotProduct):
    """Linear kernel x·x'."""

    def profile(self, u: jax.Array) -> jax.Array:
        return u
