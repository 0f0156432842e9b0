"""TED: transductive experimental design, one point after the other.

Each step takes the point that lowers tr(K) most,

    i = argmax |k_i|² / (K_ii + lambda),     K <- K - k_i k_i' / (K_ii + lambda),

with k_i the columns of the current kernel. Only two numbers for each point are updated,

    K_jj <- K_jj - c_j² / d,     |k_j|² <- |k_j|² - 2 (c_j / d) (K c)_j + c_j² |c|² / d²,

with c = k_i and d = c_i + lambda. The Gram matrix itself is not changed: the past columns
c / sqrt(d) give the difference, and a point costs O(n²). From features F (n, r) the current
kernel is F M F', where M is the identity at first, and a point costs O(n r + r²): with u = M F_i

    c = F u,     K c = F M F'F u,     |c|² = u' F'F u,     M <- M - u u' / d.

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


# c (n,) and K c (n,) of a column c of the current kernel K, |c|², d, and what is kept of K
Taken = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]


def _from_gram(
    K: jax.Array, off: jax.Array, i: jax.Array, t: jax.Array, penalty: jax.Array
) -> Taken:
    """Take a point by the Gram matrix (n, n) and the columns ``off`` (steps, n) taken from it."""
    column = K[i] - dot(off[:, i], off)
    image = dot(K, column) - dot(dot(off, column), off)
    divisor = jnp.maximum(column[i], 0) + penalty
    off = off.at[t].set(column / jnp.sqrt(divisor))
    return column, image, jnp.sum(column**2), divisor, off


def _from_features(
    F: jax.Array, inner: jax.Array, M: jax.Array, i: jax.Array, penalty: jax.Array
) -> Taken:
    """Take a point by features (n, r), ``inner`` = F'F (r, r) and M (r, r)."""
    u = dot(M, F[i])
    v = dot(inner, u)
    column, image = dot(jnp.stack([u, dot(M, v)]), F.T)  # F is read once
    divisor = jnp.maximum(dot(F[i], u), 0) + penalty
    return column, image, dot(u, v), divisor, M - jnp.outer(u, u) / divisor


@partial(jax.jit, static_argnames=("steps", "num_points"))
def _solve(pool: Pool, penalty: jax.Array, *, steps: int, num_points: int | None) -> Design:
    n, dtype = pool.num_points, pool.dtype
    values = pool.values[0]
    squares = squared_columns(pool, jnp.ones((n,), dtype))
    if pool.features is None:
        memory = jnp.zeros((steps, n), dtype)
    else:
        memory, inner = jnp.eye(values.shape[1], dtype=dtype), dot(values.T, values)
    # current K_ii and |k_i|² (n,), and the difference of the current kernel from the first one
    start = diagonals_of(pool)[0], squares, memory
    # below it, what rounding leaves of points that are explained would grow in each step
    penalty = jnp.maximum(penalty, 8 * jnp.finfo(dtype).eps * jnp.max(start[0]))

    def gains(state: tuple[jax.Array, ...]) -> jax.Array:
        diagonal, squares, _ = state
        return jnp.maximum(squares, 0) / (jnp.maximum(diagonal, 0) + penalty)

    def take(state: tuple[jax.Array, ...], i: jax.Array, t: jax.Array) -> tuple[tuple, jax.Array]:
        diagonal, squares, memory = state
        if pool.features is None:
            c, image, length, d, memory = _from_gram(values, memory, i, t, penalty)
        else:
            c, image, length, d, memory = _from_features(values, inner, memory, i, penalty)
        diagonal = diagonal - c**2 / d
        squares = squares - (2 * c * image - c**2 * (length / d)) / d
        return (diagonal, squares, memory), jnp.sum(jnp.maximum(diagonal, 0))

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
      regularization: the ridge lambda, unlike for the other methods as a share of the mean of
        K_ii, or of the quantity that ``share_of`` names; lambda itself if ``absolute``. It may be
        traced.
      num_points: the number of points to choose: by default all n with a Gram matrix, which takes
        O(n³), and r with features, in O(n r) each. The others are ranked by the gain that each
        alone would add.
      share_of: the unit of ``regularization`` unless it is absolute: "diagonal" for the mean of
        K_ii, or "columns" for lambda_max = 2 max_i |k_i|, with k_i the columns of the Gram matrix.

    Returns:
      A :class:`Design`. The ranking is the order in which points were taken. A score is the gain
      at that time, which need not fall. The objective is tr(K) after each point.

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
    penalty = penalty_of("ted", regularization, absolute, UNITS[share_of](pool), pool.unit)
    steps = num_points or min(n, pool.values.shape[2])
    found = _solve(pool, penalty, steps=steps, num_points=num_points)
    scores, objective = found.scores * pool.unit, found.objective * pool.unit
    return found._replace(scores=scores, objective=objective)
