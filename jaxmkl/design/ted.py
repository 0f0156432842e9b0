"""TED: transductive experimental design, one point after the other.

Each step takes the point that lowers tr(K) most,

    i = argmax |k_i|² / (K_ii + lambda),     K <- K - k_i k_i' / (K_ii + lambda),

with k_i the columns of the current kernel. Only two numbers for each point are updated,

    K_jj <- K_jj - c_j² / d,     |k_j|² <- |k_j|² - 2 (c_j / d) (K c)_j + c_j² |c|² / d²,

with c = k_i and d = c_i + lambda. The Gram matrix itself is not changed: the columns c / sqrt(d)
so far say what is to be subtracted. A point costs O(n²) with a Gram matrix, O(n r) with features.

Reference:
  Yu, Bi and Tresp (2006), Active learning via transductive experimental design.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxmkl._pytree import require
from jaxmkl._types import Number
from jaxmkl.design._frame import Design, greedily, penalty_of, points_wanted
from jaxmkl.design._pool import Pool, pool_of
from jaxmkl.design._reconstruction import diagonals_of, dot, largest_penalty, squared_columns

UNITS: dict[str, Callable[[Pool], jax.Array]] = {
    "diagonal": lambda pool: jnp.mean(diagonals_of(pool)),
    "columns": largest_penalty,
}


@partial(jax.jit, static_argnames=("steps", "num_points"))
def _solve(pool: Pool, penalty: jax.Array, *, steps: int, num_points: int | None) -> Design:
    n, dtype = pool.num_points, pool.dtype
    values = pool.values[0]
    squares = squared_columns(pool, jnp.ones((n,), dtype))
    # current K_ii and |k_i|² (n,), and the columns (steps, n) that are subtracted
    start = diagonals_of(pool)[0], squares, jnp.zeros((steps, n), dtype)

    def gains(state: tuple[jax.Array, ...]) -> jax.Array:
        diagonal, squares, _ = state
        return jnp.maximum(squares, 0) / (jnp.maximum(diagonal, 0) + penalty)

    def take(state: tuple[jax.Array, ...], i: jax.Array, t: jax.Array) -> tuple[tuple, jax.Array]:
        diagonal, squares, off = state
        column = values[i] if pool.features is None else dot(values, values[i])
        column = column - dot(off[:, i], off)
        inner = column if pool.features is None else dot(column, values)
        image = dot(values, inner) - dot(dot(off, column), off)
        divisor = jnp.maximum(column[i], 0) + penalty
        length = jnp.sum(column**2)
        diagonal = diagonal - column**2 / divisor
        squares = squares - (2 * column * image - column**2 * (length / divisor)) / divisor
        off = off.at[t].set(column / jnp.sqrt(divisor))
        return (diagonal, squares, off), jnp.sum(jnp.maximum(diagonal, 0))

    return greedily(gains, take, start, steps=steps, num_points=num_points)


def ted(
    gram: ArrayLike | None = None,
    regularization: Number = 0.1,
    *,
    features: ArrayLike | None = None,
    num_points: int | None = None,
    absolute: bool = False,
    share_of: str = "diagonal",
) -> Design:
    """Choose points greedily (TED); other arguments and errors are as for :func:`cted`.

    With one Gaussian as wide as the median distance and the default ridge, learners do better on
    the chosen points than on random ones for most data sets. The papers' ridge, a share of the
    columns, grows with the pool; with it the points are often worse than random ones.

    Args:
      regularization: the ridge lambda: a share of the mean of K_ii, unlike for the other methods;
        or of what ``share_of`` says, or lambda itself if ``absolute``; a number that may be
        traced.
      num_points: the number of points to choose, by default all n with a Gram matrix, which takes
        O(n³), and r with features, O(n r) for each; the others are ranked by the gain that each
        alone would add.
      share_of: the unit of ``regularization`` unless it is absolute: "diagonal" for the mean of
        K_ii, or "columns" for lambda_max = 2 max_i |k_i|, with k_i the columns of the Gram matrix.

    Returns:
      A :class:`Design`. The ranking is the order in which points were taken, a score is the gain
      at that time, which need not fall; the objective is tr(K) after each point.

    >>> from jaxmkl import design
    >>> x = [[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]]
    >>> design.ted(features=x, num_points=2).ranking.tolist()
    [3, 4]
    """
    pool = pool_of("ted", gram, features, stacked=False)
    n = pool.num_points
    num_points = points_wanted("ted", num_points, n)
    known = isinstance(share_of, str) and share_of in UNITS
    require(known, "ted", "share_of", share_of, f"one of {', '.join(UNITS)}")
    penalty = penalty_of("ted", regularization, absolute, UNITS[share_of](pool))
    steps = num_points or min(n, pool.values.shape[2])
    return _solve(pool, penalty, steps=steps, num_points=num_points)
