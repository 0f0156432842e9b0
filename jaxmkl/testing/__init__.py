"""What a learner and a kernel must keep, checked: for authors of new ones.

    jaxmkl.testing.check_learner(my_learner)
    jaxmkl.testing.check_kernel(my_kernel)

Both raise an ``AssertionError`` whose one sentence says what is wrong, and are silent otherwise.
"""

from jaxmkl.testing.kernels import check_kernel
from jaxmkl.testing.learners import check_learner

__all__ = [
    "check_kernel",
    "check_learner",
]
