"""All learners by name: one line each.

Each entry is a factory that makes a working learner without arguments. The test suite that every
learner must pass, the command line and the benchmarks go through this table.
"""

from collections.abc import Callable

from jaxmkl.learner import Learner
from jaxmkl.learners import feature_mkl, multitask, okl_gd, oks_sil, proj_ka, support_mkl

__all__ = ["LEARNERS"]

LEARNERS: dict[str, Callable[..., Learner]] = {
    "raker": feature_mkl.raker,
    "omkl_aks": feature_mkl.omkl_aks,
    "amkl": feature_mkl.amkl,
    "amkl_aks": feature_mkl.amkl_aks,
    "expert_mkl": feature_mkl.expert_mkl,
    "perceptron": support_mkl.perceptron,
    "omkc_u": support_mkl.omkc_u,
    "omkc_dd": support_mkl.omkc_dd,
    "omkc_sd": support_mkl.omkc_sd,
    "spa": support_mkl.spa,
    "rbp": support_mkl.rbp,
    "forgetron": support_mkl.forgetron,
    "bogd": support_mkl.bogd,
    "bpas": support_mkl.bpas,
    "projectron": support_mkl.projectron,
    "kernel_ogd": support_mkl.kernel_ogd,
    "omkl": support_mkl.omkl,
    "omkl_b": support_mkl.omkl_b,
    "oks_sil": oks_sil.oks_sil,
    "okl_gd": okl_gd.okl_gd,
    "oks": support_mkl.oks,
    "proj_ka": proj_ka.proj_ka,
    "multitask": multitask.multitask,
}
