"""Which points of a pool to label: experimental design with one kernel or several.

    random   any points
    ted      greedily, the point that lowers the variance most
    cted     the points that reconstruct all others, chosen at once (convex)
    rrss     the same with a loss that outliers matter less to
    gmkal    the same with several kernels, each with a weight
    lmkal    the same with a weight for every point and kernel

Each takes Gram matrices, or ``features`` of kernels of low rank, and returns a :class:`Design`.
All are functions that can be traced: map them over ``regularization`` or over a stack of pools.
"""

from jaxmkl.design._frame import Design as Design
from jaxmkl.design.dictionary import centred as centred
from jaxmkl.design.dictionary import dictionary as dictionary
from jaxmkl.design.dictionary import normalised as normalised
from jaxmkl.design.gmkal import cted as cted
from jaxmkl.design.gmkal import gmkal as gmkal
from jaxmkl.design.lmkal import lmkal as lmkal
from jaxmkl.design.random import random as random
from jaxmkl.design.rrss import rrss as rrss
from jaxmkl.design.ted import ted as ted
