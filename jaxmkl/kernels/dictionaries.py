"""Dictionaries of kernels, as published."""

import numpy as np

from jaxmkl.kernels.combined import KernelDictionary
from jaxmkl.kernels.dot_product import Polynomial
from jaxmkl.kernels.stationary import Gaussian


def hong_chae() -> Gaussian:
    """The 17 Gaussians of Hong and Chae: b² = 10^((i - 9)/2), i = 1 ... 17.

    References:
      Hong and Chae, Active learning with multiple kernels, equation (56).

    >>> hong_chae().bandwidth[[0, 8, 16]]
    array([1.e-02, 1.e+00, 1.e+02])
    """
    return Gaussian(10.0 ** ((np.arange(1, 18) - 9) / 4))


def lu_hoi() -> KernelDictionary:
    """The 16 kernels of Lu et al.: Gaussians of b = 2^-6 ... 2^6, and (x·x')^q for q = 1, 2, 3.

    References:
      Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning.

    >>> lu_hoi().num_kernels
    16
    """
    return KernelDictionary((Gaussian(2.0 ** np.arange(-6, 7)), Polynomial((1, 2, 3))))


def zhang_liao() -> Gaussian:
    """The 25 Gaussians of Zhang and Liao: b = 2^(-(i + 1) / 2), i = -12 ... 12.

    References:
      Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
      space.

    >>> zhang_liao().bandwidth[[0, 11, 24]].round(3)
    array([4.5255e+01, 1.0000e+00, 1.1000e-02])
    """
    return Gaussian(2.0 ** (-(np.arange(-12, 13) + 1) / 2))
