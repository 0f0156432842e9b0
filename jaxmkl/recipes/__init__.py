"""The published algorithms by name: each is a set of parts.

Defaults are those that measure well, which often are not the paper's; :func:`published` makes the
learners exactly as their papers run them, and :mod:`jaxmkl.recipes.settings` names the source of
each constant. :data:`LEARNERS` has all recipes; each makes a working learner without arguments.
The test suite that every learner must pass, the command line and the benchmarks use it, and you
may add your own (:mod:`jaxmkl.guide.extend`). The default ``query`` is :class:`jaxmkl.query.All`;
with any other, a learner asks for only some labels. An argument outside its range raises a
``ValueError`` that names it.
"""

from collections.abc import Callable

from jaxmkl._learner import Learner
from jaxmkl.recipes import budgets, kernel_selection, random_features, support_vectors
from jaxmkl.recipes.budgets import bogd, bpas, forgetron, omkl_b, projectron, rbp
from jaxmkl.recipes.kernel_selection import okl_gd, oks, oks_sil, proj_ka
from jaxmkl.recipes.multitask import multitask
from jaxmkl.recipes.random_features import amkl, amkl_aks, expert_mkl, omkl_aks, raker
from jaxmkl.recipes.settings import published
from jaxmkl.recipes.support_vectors import (
    kernel_ogd,
    omkc_dd,
    omkc_sd,
    omkc_u,
    omkl,
    perceptron,
    spa,
)

__all__ = [
    "LEARNERS",
    "amkl",
    "amkl_aks",
    "bogd",
    "bpas",
    "budgets",
    "expert_mkl",
    "forgetron",
    "kernel_ogd",
    "kernel_selection",
    "multitask",
    "okl_gd",
    "oks",
    "oks_sil",
    "omkc_dd",
    "omkc_sd",
    "omkc_u",
    "omkl",
    "omkl_aks",
    "omkl_b",
    "perceptron",
    "proj_ka",
    "projectron",
    "published",
    "raker",
    "random_features",
    "rbp",
    "spa",
    "support_vectors",
]

_ROWS: tuple[tuple[Callable[..., Learner], ...], ...] = (
    (raker, omkl_aks, amkl, amkl_aks, expert_mkl),
    (perceptron, omkc_u, omkc_dd, omkc_sd, spa, kernel_ogd, omkl),
    (rbp, forgetron, bogd, bpas, projectron, omkl_b),
    (oks_sil, okl_gd, oks, proj_ka),
    (multitask,),
)
LEARNERS: dict[str, Callable[..., Learner]] = {f.__name__: f for row in _ROWS for f in row}
