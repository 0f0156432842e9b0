"""CTED: convex transductive experimental design with one kernel.

    minimise  tr((I - A)' K (I - A)) + lambda sum_i |a^i|     over A (n, n)

by the reweighting steps of :func:`jaxmkl.design.gmkal` with a single kernel. The problem is
convex; a point whose row a^i vanishes takes no part in reconstructing the others.

References:
  Yu, Zhu, Xu and Gong (2008), Non-greedy active learning for text categorization using convex
  transductive experimental design.
  Wang et al., Experimental design with multiple kernels, equations (6) to (10), Algorithm 1.
"""

from functools import partial
from typing import Any

from jaxmkl.design._frame import Design, choose
from jaxmkl.design._pool import pool_of
from jaxmkl.design._reconstruction import equal_weights, largest_penalty
from jaxmkl.design.gmkal import solve


def cted(
    gram: Any = None,
    regularization: Any = 0.1,
    *,
    features: Any = None,
    num_points: int | None = None,
    absolute: bool = False,
    tolerance: Any = 1e-5,
    max_iterations: int = 500,
    smoothing: Any = None,
) -> Design:
    """Choose points with one kernel (CTED).

    Args:
      gram: the Gram matrix (n, n), symmetric and positive semi-definite.
      regularization: the penalty lambda as a share of lambda_max = 2 max_i |k_i|, k_i the columns
        of the Gram matrix, from which on no point is chosen; a number that may be traced.
      features: features (n, r) in the place of ``gram``: a kernel of low rank, for which nothing
        of size (n, n) is formed.
      num_points: how many points to rank; all by default.
      absolute: whether ``regularization`` is lambda itself.
      tolerance: the share of the objective a last step may lower it by; its root bounds how far
        the optimality conditions may be violated.
      max_iterations: steps at most.
      smoothing: eps, 1e-16 in float64 and 1e-12 in float32 by default.

    Returns:
      A :class:`Design`; its weight of the one kernel is 1.

    Raises:
      ValueError: for a Gram matrix that is not symmetric, not positive semi-definite or not
        finite, and for any other argument out of its range.

    >>> import jax.numpy as jnp
    >>> from jaxmkl import design
    >>> x = jnp.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]])
    >>> design.cted(x @ x.T, num_points=2).ranking.tolist()
    [2, 4]
    >>> design.cted(features=x, num_points=2).ranking.tolist()
    [2, 4]
    """
    pool = pool_of("cted", gram, features, stacked=False)
    settings = num_points, regularization, absolute, tolerance, max_iterations, smoothing
    return choose("cted", pool, partial(solve, equal_weights(pool)), largest_penalty, settings)
