"""Checks of the contract of learners and kernels, for authors of new ones.

    jaxmkl.testing.check_learner(my_learner)
    jaxmkl.testing.check_kernel(my_kernel)

Both raise an ``AssertionError`` that says in one sentence what is wrong, and else return None.
"""

from jaxmkl.testing.kernels import check_kernel
from jaxmkl.testing.learners import check_learner

__all__ = [
    "check_kernel",
    "check_learner",
]
