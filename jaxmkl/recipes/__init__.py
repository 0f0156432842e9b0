"""The published algorithms by name: each is a row of parts, with the paper's defaults.

:data:`LEARNERS` has them all; each makes a working learner without arguments. The test suite that
every learner must pass, the command line and the benchmarks go through it.
"""

from collections.abc import Callable

from jaxmkl._learner import Learner
from jaxmkl.recipes.budgets import bogd as bogd
from jaxmkl.recipes.budgets import bpas as bpas
from jaxmkl.recipes.budgets import forgetron as forgetron
from jaxmkl.recipes.budgets import omkl_b as omkl_b
from jaxmkl.recipes.budgets import projectron as projectron
from jaxmkl.recipes.budgets import rbp as rbp
from jaxmkl.recipes.kernel_selection import okl_gd as okl_gd
from jaxmkl.recipes.kernel_selection import oks as oks
from jaxmkl.recipes.kernel_selection import oks_sil as oks_sil
from jaxmkl.recipes.kernel_selection import proj_ka as proj_ka
from jaxmkl.recipes.multitask import multitask as multitask
from jaxmkl.recipes.random_features import amkl as amkl
from jaxmkl.recipes.random_features import amkl_aks as amkl_aks
from jaxmkl.recipes.random_features import expert_mkl as expert_mkl
from jaxmkl.recipes.random_features import omkl_aks as omkl_aks
from jaxmkl.recipes.random_features import raker as raker
from jaxmkl.recipes.support_vectors import kernel_ogd as kernel_ogd
from jaxmkl.recipes.support_vectors import omkc_dd as omkc_dd
from jaxmkl.recipes.support_vectors import omkc_sd as omkc_sd
from jaxmkl.recipes.support_vectors import omkc_u as omkc_u
from jaxmkl.recipes.support_vectors import omkl as omkl
from jaxmkl.recipes.support_vectors import perceptron as perceptron
from jaxmkl.recipes.support_vectors import spa as spa

__all__ = ["LEARNERS"]

LEARNERS: dict[str, Callable[..., Learner]] = {
    factory.__name__: factory
    for factory in (
        raker,
        omkl_aks,
        amkl,
        amkl_aks,
        expert_mkl,
        perceptron,
        omkc_u,
        omkc_dd,
        omkc_sd,
        spa,
        kernel_ogd,
        omkl,
        rbp,
        forgetron,
        bogd,
        bpas,
        projectron,
        omkl_b,
        oks_sil,
        okl_gd,
        oks,
        proj_ka,
        multitask,
    )
}
