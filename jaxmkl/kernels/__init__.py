"""Kernels and dictionaries of kernels.

Every kernel here is a function of the inner product and the squared Euclidean distance of two
inputs, so that all kernels of a dictionary share ONE matrix of each. Parameters of shape ``(P,)``
stack P kernels of a family; a stack and a :class:`KernelDictionary` answer to the same methods.

    Gaussian     k(x, x') = exp(-r² / (2 b²))
    Laplacian    k(x, x') = exp(-r / b)
    Cauchy       k(x, x') = 1 / (1 + r² / b²)
    Polynomial   k(x, x') = (x·x' + c)^q
    Linear       k(x, x') = x·x'
    WeightedSum  k(x, x') = Σ_p w_p k_p(x, x')
    k + k'       k * k'       2.0 * k       k.on([0, 2])

with r the Euclidean distance and b the bandwidth. Only a bandwidth for each input, (P, D), and a
kernel on some columns compute distances of their own. To write a kernel, subclass
:class:`Stationary` or :class:`DotProduct` with one method, or :class:`Kernel`, whose docstring
states all requirements.
"""

from jaxmkl.kernels import scaled, spaces
from jaxmkl.kernels.combined import (
    KernelDictionary,
    WeightedSum,
    hong_chae,
    lu_hoi,
    two_decades,
    zhang_liao,
)
from jaxmkl.kernels.dot_product import DotProduct, Linear, Polynomial
from jaxmkl.kernels.heuristics import kernel_alignment, median_distance
from jaxmkl.kernels.kernel import Kernel, Multiple, OnColumns, Product, Sum
from jaxmkl.kernels.products import Products, pairwise_products
from jaxmkl.kernels.scaled import Scaled
from jaxmkl.kernels.spaces import GaussianWidths, KernelBox, KernelSpace
from jaxmkl.kernels.stationary import Cauchy, Gaussian, Laplacian, Stationary

__all__ = [
    "Cauchy",
    "DotProduct",
    "Gaussian",
    "GaussianWidths",
    "Kernel",
    "KernelBox",
    "KernelDictionary",
    "KernelSpace",
    "Laplacian",
    "Linear",
    "Multiple",
    "OnColumns",
    "Polynomial",
    "Product",
    "Products",
    "Scaled",
    "Stationary",
    "Sum",
    "WeightedSum",
    "hong_chae",
    "kernel_alignment",
    "lu_hoi",
    "median_distance",
    "pairwise_products",
    "scaled",
    "spaces",
    "two_decades",
    "zhang_liao",
]
