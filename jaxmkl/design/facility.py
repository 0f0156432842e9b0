"""Facility location: points such that each point of the pool has one of them near.

With S the points taken so far, each step takes the point i that raises

    f(S) = sum_x max(0, max_{i in S} K_xi)

most:

    i = argmax sum_x max(K_xi - c_x, 0),     c_x <- max(c_x, K_xi),     c = 0 at first.

No gain exceeds the one before it, and f is at least 1 - 1/e of what the best points would reach
(Nemhauser, Wolsey and Fisher). A point costs O(n²). Bae, Noh and Sutherland label these points,
with a Gaussian kernel, and call the method MaxHerding.

References:
  Nemhauser, Wolsey and Fisher (1978), An analysis of approximations for maximizing submodular set
  functions, https://doi.org/10.1007/BF01588971.
  Bae, Noh and Sutherland (2024), Generalized coverage for more robust low-budget active learning,
  https://arxiv.org/abs/2407.12212.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxmkl.design._frame import Design, greedily, points_wanted
from jaxmkl.design._pool import pool_of


@partial(jax.jit, static_argnames=("steps", "num_points"))
def _solve(K: jax.Array, *, steps: int, num_points: int | None) -> Design:
    def gains(covered: jax.Array) -> jax.Array:
        return jnp.sum(jnp.maximum(K - covered[:, None], 0), axis=0)

    def take(covered: jax.Array, i: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        covered = jnp.maximum(covered, K[:, i])
        return covered, jnp.trace(K) - jnp.sum(covered)

    start = jnp.zeros((len(K),), K.dtype)
    return greedily(gains, take, start, steps=steps, num_points=num_points)


def facility(gram: ArrayLike, *, num_points: int | None = None) -> Design:
    """Choose points such that each point of the pool has a chosen one near it.

    With a Gaussian kernel somewhat wider than the median distance, as in :func:`from_points`, this
    suits learners that predict by neighbours, and pools of many classes. It finds a small cluster,
    of one point in a hundred, sooner than :func:`ted` does.

    Args:
      gram: the Gram matrix (n, n), symmetric and positive semi-definite. For a large pool, take
        that of points drawn from it.
      num_points: the number of points to choose, each in O(n²); all by default.

    Returns:
      A :class:`Design`. The ranking is the order in which points were taken. A score is the gain
      at that time, which never rises; for a point not taken, the gain that it alone would add.
      The objective is sum_x K_xx - f(S) after each point.

    Raises:
      ValueError: as :func:`cted`, if the matrix is no kernel, or ``num_points`` not from 1 to n.

    >>> import jaxmkl
    >>> from jaxmkl import design
    >>> x = jax.numpy.array([[0.0], [0.1], [0.2], [5.0], [5.2]])
    >>> design.facility(jaxmkl.Gaussian(1.0).gram(x)[0], num_points=2).ranking.tolist()
    [1, 3]
    """
    pool = pool_of("facility", gram, None, stacked=False)
    num_points = points_wanted("facility", num_points, pool.num_points)
    steps = num_points or pool.num_points
    return _solve(pool.gram[0] * pool.unit, steps=steps, num_points=num_points)
