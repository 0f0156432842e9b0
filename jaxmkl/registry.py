"""All learners by name: one line each.

Each entry is a factory that makes a working learner without arguments. The test suite that every
learner must pass, the command line and the benchmarks go through this table.
"""

from collections.abc import Callable

from jaxmkl.learner import Learner
from jaxmkl.learners import feature_mkl

__all__ = ["LEARNERS"]

LEARNERS: dict[str, Callable[..., Learner]] = {
    "raker": feature_mkl.raker,
    "omkl_aks": feature_mkl.omkl_aks,
    "amkl": feature_mkl.amkl,
    "amkl_aks": feature_mkl.amkl_aks,
    "expert_mkl": feature_mkl.expert_mkl,
}
