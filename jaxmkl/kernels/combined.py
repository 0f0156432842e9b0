"""Dictionaries of kernels, and one kernel that is a weighted sum of several."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl.kernels.kernel import Kernel
from jaxmkl.kernels.products import Products


@pytree.dataclass
class KernelDictionary(Kernel):
    """Several kernels, of one family or of many, as one.

    Args:
      kernels: a tuple of kernels, each of which may stack several.

    Raises:
      ValueError: when there is no kernel, or something that is none.

    >>> from jaxmkl import Gaussian, Linear, Polynomial
    >>> dictionary = KernelDictionary((Gaussian([0.5, 2.0]), Polynomial(2), Linear()))
    >>> dictionary.num_kernels
    4
    """

    kernels: tuple = pytree.parts(Kernel, "a kernel")

    @property
    def num_kernels(self) -> int:
        return sum(kernel.num_kernels for kernel in self.kernels)

    @property
    def bandwidth(self) -> jax.Array:
        """Bandwidths (P,) or (P, D) of shift-invariant kernels."""
        return jnp.concatenate([jnp.atleast_1d(k.bandwidth) for k in self.kernels])

    @property
    def exponential(self) -> tuple[bool, ...]:
        return tuple(mark for kernel in self.kernels for mark in kernel.exponential)

    @property
    def families(self) -> tuple[Kernel, ...]:
        return tuple(family for kernel in self.kernels for family in kernel.families)

    @property
    def without_spectrum(self) -> tuple[str, ...]:
        return tuple(name for kernel in self.kernels for name in kernel.without_spectrum)

    def codes(self, products: Products) -> jax.Array:
        return jnp.concatenate([kernel.codes(products) for kernel in self.kernels])

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        result, start = jnp.zeros_like(products.inner), 0
        for kernel in self.kernels:
            local = jnp.clip(index - start, 0, kernel.num_kernels - 1)
            of_part = kernel.column_codes(products, local)
            result = jnp.where((index >= start)[None, :], of_part, result)
            start += kernel.num_kernels
        return result

    def evaluate(self, products: Products) -> jax.Array:
        return jnp.concatenate([kernel.evaluate(products) for kernel in self.kernels])

    def frequency_scale(self, dtype: Any) -> jax.Array:
        """1 / b, (P, 1) or (P, D)."""
        scales = [kernel.frequency_scale(dtype) for kernel in self.kernels]
        D = max(scale.shape[1] for scale in scales)
        return jnp.concatenate([jnp.broadcast_to(s, (s.shape[0], D)) for s in scales])

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: Any) -> jax.Array:
        """Random scales (P, F) of the frequencies, family by family."""
        pairs = zip(self.kernels, jax.random.split(key, len(self.kernels)), strict=True)
        return jnp.concatenate([k.spectral_scale(own, num_features, dtype) for k, own in pairs])


@pytree.dataclass
class WeightedSum(Kernel):
    """One kernel Σ_p w_p k_p(x, x') made of several.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      weights: w (P,), at least 0.

    Raises:
      ValueError: for weights that are negative or not as many as the kernels.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import Gaussian
    >>> both = WeightedSum(Gaussian((0.5, 2.0)), (0.25, 0.75))
    >>> both.gram(jnp.ones((1, 3)))
    Array([[[1.]]], dtype=float32)
    """

    kernels: Kernel = pytree.part(Kernel, "a kernel")
    weights: Any = pytree.nonnegative(ndim=1)

    def __post_init__(self) -> None:
        P = self.kernels.num_kernels
        wanted = f"one for each of the {P} kernels, at least 0 and finite"
        pytree.require(jnp.shape(self.weights) == (P,), self, "weights", self.weights, wanted)

    @property
    def num_kernels(self) -> int:
        return 1

    def codes(self, products: Products) -> jax.Array:
        values = self.kernels.evaluate(products)
        weights = jnp.asarray(self.weights, values.dtype)
        return jnp.sum(weights[:, None, None] * values, axis=0, keepdims=True)

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        return self.codes(products)[0]
