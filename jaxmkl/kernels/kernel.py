"""What all kernels have in common, and kernels made of kernels by ``+`` and ``*``."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl.kernels import scaled
from jaxmkl.kernels.products import Products, of_themselves, pairwise_products


class Kernel:
    """One kernel, or several kernels stacked; base of all of them.

    A kernel that is exp(-u) of something is handled by its exponent u (see
    :mod:`jaxmkl.kernels.scaled`). What kernels are computed as is called their code: u for those
    kernels, the value for the others.

    A subclass defines ``num_kernels`` and ``codes``, and ``exponential`` if its codes are
    exponents. Kernels of a distance or of an inner product have it easier:
    :class:`~jaxmkl.kernels.Stationary`, :class:`~jaxmkl.kernels.DotProduct`.

    Kernels add and multiply, each with each; one goes with a stack of P:

    >>> import jax.numpy as jnp, jaxmkl
    >>> kernel = 0.5 * jaxmkl.Gaussian([1.0, 2.0]) * jaxmkl.Polynomial(2) + jaxmkl.Linear()
    >>> kernel.num_kernels
    2
    >>> kernel.gram(jnp.ones((1, 2))).ravel()  # (2² / 2) + 2
    Array([4., 4.], dtype=float32)
    """

    # a number of NumPy leaves the product to the kernel
    __array_ufunc__ = None

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
        """Kernel values (P, n, m) between the rows of ``X`` (n, D) and ``Y`` (m, D; default X).

        >>> import jax.numpy as jnp, jaxmkl
        >>> jaxmkl.Gaussian([1.0, 2.0]).gram(jnp.zeros((1, 3)), jnp.ones((1, 3))).ravel()
        Array([0.2231..., 0.6872...], dtype=float32)
        """
        X = jnp.asarray(X)
        return self.evaluate(pairwise_products(X, X if Y is None else jnp.asarray(Y)))

    def diagonal_codes(self, X: jax.Array) -> jax.Array:
        """Codes (P, n) of each row of ``X`` (n, D) with itself."""
        return self.codes(of_themselves(X))[:, :, 0]

    def __add__(self, other: Any) -> "Kernel":
        """k + k'."""
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        """k k', or a number times k."""
        return Product((self, other)) if isinstance(other, Kernel) else Multiple(self, other)

    def __rmul__(self, factor: Any) -> "Kernel":
        """A number times k."""
        return Multiple(self, factor)


class _Combined(Kernel):
    """Several kernels, combined one by one."""

    kernels: tuple

    def __post_init__(self) -> None:
        sizes = {kernel.num_kernels for kernel in self.kernels} - {1}
        wanted = "of one number of kernels each, or of one kernel"
        pytree.require(len(sizes) <= 1, self, "kernels", self.kernels, wanted)

    @property
    def num_kernels(self) -> int:
        return max(kernel.num_kernels for kernel in self.kernels)

    def _of_each(self, part: Callable[[Kernel], jax.Array], join: Any) -> jax.Array:
        """Arrays (P or 1, ...) of the kernels joined, (P, ...)."""
        return reduce(join, [part(kernel) for kernel in self.kernels])


@pytree.dataclass
class Sum(_Combined):
    """The sums of kernels, k + k'.

    Args:
      kernels: two kernels or more, each with P kernels or with one.
    """

    kernels: tuple = pytree.parts(Kernel, "a kernel")

    def codes(self, products: Products) -> jax.Array:
        return self._of_each(lambda kernel: kernel.evaluate(products), jnp.add)


@pytree.dataclass
class Product(_Combined):
    """The products of kernels, k k'.

    Exponents add: where all are exp(-u), so is the product.

    Args:
      kernels: two kernels or more, each with P kernels or with one.
    """

    kernels: tuple = pytree.parts(Kernel, "a kernel")

    @property
    def exponential(self) -> tuple[bool, ...]:
        marks = [np.array(kernel.exponential) for kernel in self.kernels]
        joined = reduce(np.logical_and, marks, np.ones(self.num_kernels, bool))
        return tuple(bool(mark) for mark in joined)

    @property
    def families(self) -> tuple[Kernel, ...]:
        """Products of the families, where those of all kernels go together."""
        families = [kernel.families for kernel in self.kernels]
        sizes = {tuple(family.num_kernels for family in one) for one in families}
        if len(sizes) > 1:
            return (self,)
        return tuple(Product(together) for together in zip(*families, strict=True))

    def codes(self, products: Products) -> jax.Array:
        decays = self.exponential
        if all(decays):
            return self._of_each(lambda kernel: kernel.codes(products), jnp.add)
        values = self._of_each(lambda kernel: kernel.evaluate(products), jnp.multiply)
        if not any(decays):
            return values
        exponents = self._of_each(lambda kernel: kernel.codes(products), jnp.add)
        return jnp.where(np.array(decays)[:, None, None], exponents, values)


@pytree.dataclass
class Multiple(Kernel):
    """A positive number times a kernel, c k.

    Args:
      kernel: one kernel, or P of them.
      factor: c, a number or an array (P,).

    Raises:
      ValueError: for what is no kernel, or a factor that is not positive.
    """

    kernel: Kernel = pytree.part(Kernel, "a kernel")
    factor: Any = pytree.positive(ndim=1)

    def __post_init__(self) -> None:
        sizes = {self.kernel.num_kernels, int(np.prod(jnp.shape(self.factor)))} - {1}
        wanted = f"one number, or one for each of the {self.kernel.num_kernels} kernels"
        pytree.require(len(sizes) <= 1, self, "factor", self.factor, wanted)

    @property
    def num_kernels(self) -> int:
        return max(self.kernel.num_kernels, int(np.prod(jnp.shape(self.factor))))

    @property
    def exponential(self) -> tuple[bool, ...]:
        marks = self.kernel.exponential
        return marks * (self.num_kernels // len(marks))

    def _factor(self, dtype: Any) -> jax.Array:
        return jnp.atleast_1d(jnp.asarray(self.factor, dtype))[:, None, None]

    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m): u - log c, or c times the value."""
        codes = self.kernel.codes(products)
        factor, decays = self._factor(codes.dtype), self.exponential
        if all(decays):
            return codes - jnp.log(factor)
        if not any(decays):
            return factor * codes
        marks = np.array(decays)[:, None, None]
        return jnp.where(marks, codes - jnp.log(factor), factor * codes)

    def evaluate(self, products: Products) -> jax.Array:
        values = self.kernel.evaluate(products)
        return self._factor(values.dtype) * values
