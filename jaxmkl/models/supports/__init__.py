"""Support vectors: the part of a kernel learner's state that grows, and how blocks read it.

All learners with support vectors have models of one form, one for each kernel p,

    f_p(x) = Σ_j a_pj k_p(x_j, x)

and a round changes few of the coefficients. So rounds are grouped into periods of R. Supports of
earlier periods are *settled*: they lie in tiles, and the sums of a block of examples over the
tiles in use are matrix products, in a loop whose number of turns is a value; the cost follows the
support in use, and one compiled program serves a stream of any length. The examples of the present
period are *recent*: each is a potential support vector whose coefficients are zero until it
becomes one, so inside a block only coefficients change. At the end of a period those in use are
settled.

There are three stores, all with the methods of :class:`Store`:

    DenseSupport    rows shared by all kernels, with coefficients (P, C): where kernels learn on
                    the same examples
    SparseSupport   a list of entries (row, coefficient) for each kernel: where most coefficients
                    are zero
    BudgetSupport   at most B supports for each kernel; an eviction makes room where it is full

Sums of kernels keep their sign even if they are too small for their dtype
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
    RemoveUnbiased,
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
    "RemoveUnbiased",
    "Replace",
    "SelfTuned",
    "SparseSupport",
    "Store",
    "View",
    "eviction",
    "protocol",
]
