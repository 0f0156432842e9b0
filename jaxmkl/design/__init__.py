"""The choice of points of a pool to label: experimental design with one kernel or several.

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

**As published.** Wang et al. (Experimental design with multiple kernels) run these methods with
settings other than our defaults, which keyword arguments make:

- *kernels* (section VII-B): not centred, and divided by the largest squared distance, after which
  their entries are said to lie in [0, 1]. ``dictionary(X, centre=False, normalise="max_abs")`` has
  such entries, except for the linear kernel, in [-1, 1]; with ``normalise="distance"`` they reach
  1e10. By default kernels are centred and divided by that distance, the only reading with which
  the consensus does not depend on the start.
- *penalty* (sections VII-B and C): one of 1e-3, 1e-2, ..., 1e3 by cross-validation with labels,
  and .01 for RRSS: ``rrss(K, 0.01, absolute=True)``. Our default is a tenth of the smallest
  penalty with which no point is chosen; up to four values of that grid choose none.
- *steps* (Algorithms 1, 2 and 5): plain ones, ``accelerate=False``, and as many for the
  coefficients as converge before each one for the weights, as ``steps=50``. The paper states no
  tolerance. Its random start of the coefficients is not offered: CTED and RRSS are convex.
- *start* of LMKAL (Algorithm 5): equal ``initial_weights``. By default they are the final ones of
  GMKAL.
- *RRSS* is that of Nie et al. (2013); the paper has its objective, (5), alone.
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
