"""Dictionaries of kernels, some as published, and one kernel that is a weighted sum of several."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._types import Numbers
from jaxmkl.kernels.dot_product import Polynomial
from jaxmkl.kernels.kernel import SEVERAL, Kernel, WithSpectraOfParts, of_all_parts
from jaxmkl.kernels.products import Products
from jaxmkl.kernels.stationary import Gaussian


@pytree.dataclass
class KernelDictionary(WithSpectraOfParts):
    """Several ``kernels`` in one: a tuple, each of which may stack several kernels of its family.

    Raises:
      ValueError: if the tuple is empty or holds something that is not a kernel.

    >>> KernelDictionary((Gaussian([0.5, 2.0]), Polynomial(2))).num_kernels
    3
    """

    kernels: tuple[Kernel, ...] = pytree.parts(Kernel, "a kernel")
    exponential = of_all_parts("exponential")
    unit = of_all_parts("unit")
    families = of_all_parts("families")

    @property
    def num_kernels(self) -> int:
        return sum(kernel.num_kernels for kernel in self.kernels)

    def codes(self, products: Products) -> jax.Array:
        return jnp.concatenate([kernel.codes(products) for kernel in self.kernels])

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        result, start = jnp.zeros_like(products.inner), 0
        for kernel in self.kernels:
            local = jnp.clip(index - start, 0, kernel.num_kernels - 1)
            codes = kernel.column_codes(products, local)
            result = jnp.where((index >= start)[None, :], codes, result)
            start += kernel.num_kernels
        return result

    def evaluate(self, products: Products) -> jax.Array:
        return jnp.concatenate([kernel.evaluate(products) for kernel in self.kernels])

    def frequencies(self, drawn: jax.Array) -> jax.Array:
        return jnp.concatenate(self._frequencies(drawn))


@pytree.dataclass
class WeightedSum(Kernel):
    """One kernel Σ_p w_p k_p(x, x') of ``kernels``, a stack or dictionary, and ``weights`` w (P,).

    Raises:
      ValueError: if a weight is negative, or there are not as many weights as kernels.

    >>> jax.jit(WeightedSum(Gaussian((0.5, 2.0)), (0.25, 0.75)).gram)(jnp.ones((1, 3)))
    Array([[[1.]]], dtype=float32)
    """

    kernels: Kernel = pytree.part(Kernel, SEVERAL)
    weights: Numbers = pytree.nonnegative(ndim=1)

    def __post_init__(self) -> None:
        P = self.kernels.num_kernels
        wanted = f"one for each of the {P} kernels, at least 0 and finite"
        pytree.require(np.shape(self.weights) == (P,), self, "weights", self.weights, wanted)

    num_kernels = 1

    def codes(self, products: Products) -> jax.Array:
        values = self.kernels.evaluate(products)
        weights = jnp.asarray(self.weights, values.dtype)
        return jnp.sum(weights[:, None, None] * values, axis=0, keepdims=True)

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        return self.codes(products)[0]


def hong_chae() -> Gaussian:
    """The 17 Gaussians with b² = 10^((i - 9)/2), i = 1 ... 17.

    From Hong and Chae, Active learning with multiple kernels, equation (56).

    >>> hong_chae().bandwidth[[0, 8, 16]]
    array([1.e-02, 1.e+00, 1.e+02])
    """
    return Gaussian(10.0 ** ((np.arange(1, 18) - 9) / 4))


def two_decades() -> Gaussian:
    """The 8 Gaussians of ``expert_mkl``, with b from .25 to 30, evenly spaced in logarithm.

    In a mixture, few bandwidths with many features each err less than many with few features.

    >>> two_decades().bandwidth[[0, 7]]
    array([ 0.25, 30.  ])
    """
    return Gaussian(np.geomspace(0.25, 30.0, 8))


def lu_hoi() -> KernelDictionary:
    """The 13 Gaussians with b = 2^-6 ... 2^6, and the kernels (x·x')^q for q = 1, 2, 3.

    From Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning.

    >>> lu_hoi().num_kernels
    16
    """
    return KernelDictionary((Gaussian(2.0 ** np.arange(-6, 7)), Polynomial((1, 2, 3))))


def zhang_liao() -> Gaussian:
    """The 25 Gaussians with b = 2^(-(i + 1) / 2), i = -12 ... 12, of Zhang and Liao (2020).

    >>> zhang_liao().bandwidth[[0, 11, 24]].round(3)
    array([4.5255e+01, 1.0000e+00, 1.1000e-02])
    """
    return Gaussian(2.0 ** (-(np.arange(-12, 13) + 1) / 2))
