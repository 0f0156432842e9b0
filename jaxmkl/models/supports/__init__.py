"""Support vectors: the part of a kernel learner's state that grows, and how it is met in blocks.

All learners with support vectors have models of one form, one for each kernel p,

    f_p(x) = Σ_j a_pj k_p(x_j, x)

and a round changes few of the coefficients. So rounds are taken in periods of R. Supports of
earlier periods are *settled*: they lie in tiles, and a block of examples meets the tiles in use
by matrix products, in a loop whose number of turns is a value, so that the cost follows the
living support and one compilation serves a stream of any length. The period's own examples are
*recent*: each is a possible support vector whose coefficients are zero until it becomes one, so
inside a block only coefficients change. At the end of a period the used ones are settled.

Three stores with the same methods, those of :class:`Store`:

    DenseSupport    rows shared by all kernels, with coefficients (P, C): where kernels learn on
                    the same examples
    SparseSupport   a list of entries (row, kernel, coefficient): where most coefficients are zero
    BudgetSupport   at most B supports for each kernel; an eviction makes room where it is full

Sums of kernels keep their sign where they are too small for their dtype
(:mod:`jaxmkl.kernels.scaled`).
"""

from jaxmkl.models.supports import eviction, protocol
from jaxmkl.models.supports.budget import BudgetSupport
from jaxmkl.models.supports.eviction import (
    Choice,
    Eviction,
    Project,
    RemoveOldest,
    RemoveRandom,
    Replace,
    SelfTuned,
    View,
)
from jaxmkl.models.supports.growing import DenseSupport
from jaxmkl.models.supports.protocol import Proposal, Store
from jaxmkl.models.supports.sparse import SparseSupport

__all__ = [
    "BudgetSupport",
    "Choice",
    "DenseSupport",
    "Eviction",
    "Project",
    "Proposal",
    "RemoveOldest",
    "RemoveRandom",
    "Replace",
    "SelfTuned",
    "SparseSupport",
    "Store",
    "View",
    "eviction",
    "protocol",
]
