"""What all kernels have in common, and kernels made of kernels by ``+`` and ``*``."""

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl.kernels import scaled
from jaxmkl.kernels.products import Products, pairwise_products


class Kernel:
    """One kernel, or several kernels stacked; base of all of them.

    What a kernel is computed as is its *code*: the exponent u of one that is exp(-u), the value of
    any other (see :mod:`jaxmkl.kernels.scaled`). A subclass defines ``num_kernels`` and ``codes``,
    and ``exponential`` if its codes are exponents (easier: ``Stationary`` and ``DotProduct``).

    Kernels add and multiply, each with each; one goes with a stack of P:

    >>> import jaxmkl
    >>> kernel = 0.5 * jaxmkl.Gaussian([1.0, 2.0]) * jaxmkl.Polynomial(2) + jaxmkl.Linear()
    >>> kernel.gram(jnp.ones((1, 2))).ravel()  # (2² / 2) + 2
    Array([4., 4.], dtype=float32)
    """

    __array_ufunc__ = None  # a number of NumPy leaves the product to the kernel

    @property
    def num_kernels(self) -> int:
        """Number of kernels P."""
        pytree.abstract(self, "num_kernels")

    @property
    def exponential(self) -> tuple[bool, ...]:
        """For each of the P kernels: whether it is exp(-u) and its code is u."""
        return (False,) * self.num_kernels

    @property
    def families(self) -> tuple["Kernel", ...]:
        """The kernels as parts, in order; what is the same in all of a part is computed once."""
        return (self,)

    @property
    def without_spectrum(self) -> tuple[str, ...]:
        """Names of the kernels that have no Fourier features."""
        return (type(self).__name__,)

    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m): u of kernels that are exp(-u), values of the others."""
        pytree.abstract(self, "codes")

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Codes (n, m) of one kernel a column: column j is of the kernel ``index[j]``."""
        return jnp.take_along_axis(self.codes(products), index[None, None, :], axis=0)[0]

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m) from inner products and squared distances."""
        return scaled.plain(self.codes(products), self.exponential)

    def gram(self, X: Any, Y: Any = None) -> jax.Array:
        """Kernel values (P, n, m) between the rows of ``X`` (n, D) and ``Y`` (m, D; default X)."""
        X = jnp.asarray(X)
        return self.evaluate(pairwise_products(X, X if Y is None else jnp.asarray(Y)))

    def diagonal_codes(self, X: jax.Array) -> jax.Array:
        """Codes (P, n) of each row of ``X`` (n, D) with itself."""
        square = jnp.sum(X**2, axis=1, keepdims=True)
        return self.codes(Products(square, jnp.zeros_like(square)))[:, :, 0]

    def __add__(self, other: Any) -> "Kernel":
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        return Product((self, other)) if isinstance(other, Kernel) else Multiple(self, other)

    __rmul__ = __mul__


@pytree.dataclass
class _Combined(Kernel):
    """Two ``kernels`` or more, combined one by one: each has P kernels or one."""

    kernels: tuple = pytree.parts(Kernel, "a kernel")

    def __post_init__(self) -> None:
        sizes = {kernel.num_kernels for kernel in self.kernels} - {1}
        wanted = "of one number of kernels each, or of one kernel"
        pytree.require(len(sizes) <= 1, self, "kernels", self.kernels, wanted)

    @property
    def num_kernels(self) -> int:
        return max(kernel.num_kernels for kernel in self.kernels)


@pytree.dataclass
class Sum(_Combined):
    """The sums k + k' of two ``kernels`` or more, each with P kernels or with one."""

    def codes(self, products: Products) -> jax.Array:
        return reduce(jnp.add, [kernel.evaluate(products) for kernel in self.kernels])


@pytree.dataclass
class Product(_Combined):
    """The products k k' of two ``kernels`` or more, each with P kernels or with one.

    Where all are exp(-u), so is the product: exponents add.
    """

    @property
    def exponential(self) -> tuple[bool, ...]:
        marks = np.broadcast_arrays(*(kernel.exponential for kernel in self.kernels))
        return tuple(np.all(marks, axis=0).tolist())

    @property
    def families(self) -> tuple[Kernel, ...]:
        """Products of the families, where those of all kernels go together."""
        families = [kernel.families for kernel in self.kernels]
        sizes = {tuple(family.num_kernels for family in one) for one in families}
        return tuple(map(Product, zip(*families, strict=True))) if len(sizes) == 1 else (self,)

    def codes(self, products: Products) -> jax.Array:
        return scaled.of_each_kind(
            self.exponential,
            lambda: reduce(jnp.add, [kernel.codes(products) for kernel in self.kernels]),
            lambda: reduce(jnp.multiply, [kernel.evaluate(products) for kernel in self.kernels]),
        )


@pytree.dataclass
class Multiple(Kernel):
    """A positive ``factor`` c, a number or (P,), times a ``kernel`` or P; of exponents, u - log c.

    Raises:
      ValueError: for what is no kernel, or a factor that is not positive.
    """

    kernel: Kernel = pytree.part(Kernel, "a kernel")
    factor: Any = pytree.positive(ndim=1)

    def __post_init__(self) -> None:
        P = self.kernel.num_kernels
        good = len({P, np.size(self.factor)} - {1}) <= 1
        wanted = f"one number, or one for each of the {P} kernels"
        pytree.require(good, self, "factor", self.factor, wanted)

    @property
    def num_kernels(self) -> int:
        return max(self.kernel.num_kernels, np.size(self.factor))

    @property
    def exponential(self) -> tuple[bool, ...]:
        return self.kernel.exponential * (self.num_kernels // self.kernel.num_kernels)

    def _factor(self, dtype: Any) -> jax.Array:
        return jnp.atleast_1d(jnp.asarray(self.factor, dtype))[:, None, None]

    def codes(self, products: Products) -> jax.Array:
        codes = self.kernel.codes(products)
        c = self._factor(codes.dtype)
        return scaled.of_each_kind(self.exponential, lambda: codes - jnp.log(c), lambda: c * codes)

    def evaluate(self, products: Products) -> jax.Array:
        values = self.kernel.evaluate(products)
        return self._factor(values.dtype) * values
