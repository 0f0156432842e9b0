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
    k + k'       k * k'       2.0 * k

with r the Euclidean distance and b the bandwidth. Only a bandwidth for each input, (P, D), makes
a kernel compute distances of its own. A kernel of one's own is a subclass of :class:`Stationary`
or :class:`DotProduct` with one method.
"""

from jaxmkl.kernels.combined import KernelDictionary as KernelDictionary
from jaxmkl.kernels.combined import WeightedSum as WeightedSum
from jaxmkl.kernels.combined import hong_chae as hong_chae
from jaxmkl.kernels.combined import lu_hoi as lu_hoi
from jaxmkl.kernels.combined import two_decades as two_decades
from jaxmkl.kernels.combined import zhang_liao as zhang_liao
from jaxmkl.kernels.dot_product import DotProduct as DotProduct
from jaxmkl.kernels.dot_product import Linear as Linear
from jaxmkl.kernels.dot_product import Polynomial as Polynomial
from jaxmkl.kernels.heuristics import kernel_alignment as kernel_alignment
from jaxmkl.kernels.heuristics import median_distance as median_distance
from jaxmkl.kernels.kernel import Kernel as Kernel
from jaxmkl.kernels.kernel import Multiple as Multiple
from jaxmkl.kernels.kernel import Product as Product
from jaxmkl.kernels.kernel import Sum as Sum
from jaxmkl.kernels.optimizers import InverseTime as InverseTime
from jaxmkl.kernels.optimizers import Optax as Optax
from jaxmkl.kernels.optimizers import Optimizer as Optimizer
from jaxmkl.kernels.products import Products as Products
from jaxmkl.kernels.products import pairwise_products as pairwise_products
from jaxmkl.kernels.scaled import Scaled as Scaled
from jaxmkl.kernels.spaces import GaussianWidths as GaussianWidths
from jaxmkl.kernels.spaces import KernelBox as KernelBox
from jaxmkl.kernels.spaces import KernelSpace as KernelSpace
from jaxmkl.kernels.stationary import Cauchy as Cauchy
from jaxmkl.kernels.stationary import Gaussian as Gaussian
from jaxmkl.kernels.stationary import Laplacian as Laplacian
from jaxmkl.kernels.stationary import Stationary as Stationary
