"""Which points of a pool to label: experimental design with one kernel or several.

    random   points drawn at random
    ted      greedily, the point that lowers the variance most
    facility greedily, the point that is near to most of the others
    cted     the points that reconstruct all others, chosen at once (convex)
    rrss     as cted, with a loss that is less sensitive to outliers
    gmkal    as cted, with several kernels, each with a weight
    lmkal    as gmkal, with a weight for every point and kernel

:func:`from_points` chooses from points as they are, with defaults that beat random points on most
data sets: ``ted`` with a Gaussian as wide as the median distance. The functions named above take
Gram matrices, or ``features`` of kernels of low rank (not ``facility``), and return a
:class:`Design`. All can be traced: map them over ``regularization`` or over a stack of pools.
"""

from jaxmkl.design._frame import Design
from jaxmkl.design.dictionary import centred, dictionary, normalised
from jaxmkl.design.facility import facility
from jaxmkl.design.gmkal import cted, gmkal
from jaxmkl.design.lmkal import lmkal
from jaxmkl.design.random import random
from jaxmkl.design.rows import from_points
from jaxmkl.design.rrss import rrss
from jaxmkl.design.ted import ted

__all__ = [
    "Design",
    "centred",
    "cted",
    "dictionary",
    "facility",
    "from_points",
    "gmkal",
    "lmkal",
    "normalised",
    "random",
    "rrss",
    "ted",
]
