"""Kernels that are functions of the inner product: Polynomial, Linear, and a base for others."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._types import Numbers
from jaxmkl.kernels.products import Products
from jaxmkl.kernels.stationary import Stacked

Degree = int | Sequence[int] | np.ndarray


class DotProduct(Stacked):
    """Base of kernels of the inner product u: subclasses define ``profile(u)``, elementwise.

    >>> from jaxmkl import pytree
    >>> @pytree.dataclass
    ... class Exponential(DotProduct):
    ...     scale: float = 1.0
    ...     def profile(self, u):
    ...         return jnp.exp(u / self.scale)
    >>> jax.jit(Exponential([1.0, 2.0]).gram)(jnp.ones((1, 2))).ravel()
    Array([7.389..., 2.718...], dtype=float32)
    """

    def _argument(self, products: Products, index: jax.Array | None) -> jax.Array:
        return products.inner[None] if index is None else products.inner


def _as_degree(owner: object, name: str, value: Degree) -> int | tuple[int, ...]:
    q = np.asarray(value)
    good = q.dtype.kind in "iu" and q.ndim <= 1 and q.size > 0 and bool((q >= 1).all())
    pytree.require(good, owner, name, value, "a positive integer or several")
    return int(q) if q.ndim == 0 else tuple(q.tolist())


@pytree.dataclass
class Polynomial(DotProduct):
    """Polynomial kernel (x·x' + c)^q.

    Args:
      degree: q, a positive integer or a sequence of them (static: it unrolls into products).
      offset: c, a number or an array (P,), at least 0.

    Raises:
      ValueError: if a degree is below 1, an offset negative, or their lengths do not match.

    >>> jax.jit(Polynomial([1, 2, 3], offset=1.0).gram)(jnp.ones((1, 1))).ravel()
    Array([2., 4., 8.], dtype=float32)
    """

    degree: Degree = pytree.static(convert=_as_degree)
    offset: Numbers = pytree.nonnegative(default=0.0, ndim=1)

    def __post_init__(self) -> None:
        good = len({np.size(self.degree), np.size(self.offset)} - {1}) <= 1
        pytree.require(good, self, "offset", self.offset, "of the same length as degree")

    @property
    def num_kernels(self) -> int:
        return max(np.size(self.degree), np.size(self.offset))

    def codes(self, products: Products, index: jax.Array | None = None) -> jax.Array:
        inner, P = products.inner, self.num_kernels
        offset = jnp.broadcast_to(jnp.asarray(self.offset, inner.dtype), (P,))
        degrees = np.broadcast_to(self.degree, (P,)).tolist()
        powers = [jax.lax.integer_pow(inner + offset[i], q) for i, q in enumerate(degrees)]
        if index is None:
            return jnp.stack(powers)
        return jax.lax.select_n(jnp.broadcast_to(index, inner.shape).astype(jnp.int32), *powers)


@pytree.dataclass
class Linear(DotProduct):
    """Linear kernel x·x'."""

    def profile(self, u: jax.Array) -> jax.Array:
        return u
