"""TED: transductive experimental design, one point after the other.

Each step takes the point that lowers tr(K) most,

    i = argmax |k_i|² / (K_ii + lambda),     K <- K - k_i k_i' / (K_ii + lambda),

with k_i the columns of the kernel as it then stands. From features only two numbers a point are
kept, K_ii and |k_i|², and the columns of the points taken so far are worked out from a matrix
W (r, r): K = F W F'.

Reference:
  Yu, Bi and Tresp (2006), Active learning via transductive experimental design.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl.design._frame import Design, penalty_of, points_wanted, ranked
from jaxmkl.design._pool import Pool, pool_of
from jaxmkl.design._reconstruction import diagonals_of, dot, largest_penalty, squared_columns


@partial(jax.jit, static_argnames=("steps", "num_points"))
def _solve(pool: Pool, penalty: jax.Array, *, steps: int, num_points: int | None) -> Design:
    n, dtype = pool.num_points, pool.dtype
    F = None if pool.gram is not None else pool.features[0]
    squares = squared_columns(pool, jnp.ones((n,), dtype))
    kernel = pool.gram[0] if F is None else jnp.eye(F.shape[1], dtype=dtype)
    # what is left of the kernel (of features W), of K_ii and of |k_i|² (n,), and who is taken (n,)
    state = kernel, diagonals_of(pool)[0], squares, jnp.zeros((n,), bool)

    def gains(diagonal: jax.Array, squares: jax.Array) -> jax.Array:
        return jnp.maximum(squares, 0) / (jnp.maximum(diagonal, 0) + penalty)

    def step(state: tuple[jax.Array, ...], _: Any) -> tuple[tuple, tuple]:
        kernel, diagonal, squares, taken = state
        gain = gains(diagonal, squares)
        i = ranked(jnp.where(taken, -1.0, gain), 1)[0]
        if F is None:
            outer = column = kernel[i]
            image = dot(kernel, column)
        else:
            outer = dot(kernel, F[i])
            column = dot(F, outer)
            image = dot(F, dot(kernel, dot(column, F)))
        divisor = jnp.maximum(column[i], 0) + penalty
        length = jnp.sum(column**2)
        kernel = kernel - outer[:, None] * (outer[None, :] / divisor)
        diagonal = diagonal - column**2 / divisor
        squares = squares - (2 * column * image - column**2 * (length / divisor)) / divisor
        left = kernel, diagonal, squares, taken.at[i].set(True)
        return left, (i, gain[i], jnp.sum(jnp.maximum(diagonal, 0)))

    (_, *left, taken), (order, gain, rest) = jax.lax.scan(step, state, None, length=steps)
    scores = gains(*left).at[order].set(gain)
    others = ranked(jnp.where(taken, -1.0, scores))
    return Design(
        scores=scores,
        ranking=jnp.concatenate([order, others[: n - steps]])[:num_points].astype(jnp.int32),
        num_active=jnp.asarray(steps, jnp.int32),
        kernel_weights=jnp.ones((1,), dtype),
        objective=jax.lax.cummin(rest),
        converged=jnp.asarray(True),
    )


def ted(
    gram: Any = None,
    regularization: Any = 0.1,
    *,
    features: Any = None,
    num_points: int | None = None,
    absolute: bool = False,
) -> Design:
    """Choose points greedily (TED); other arguments and errors are those of :func:`cted`.

    Args:
      regularization: the ridge lambda as a share of 2 max_i |k_i|, k_i the columns of the Gram
        matrix, or with ``absolute`` itself; a number that may be traced.
      num_points: how many points to choose. By default all of a Gram matrix, which takes O(n³),
        are chosen, and r from features, each in O(n r); the others are ranked by what each alone
        would bring.

    Returns:
      A :class:`Design`. The ranking is the order in which points were taken, the score what each
      brought when it was, which need not fall; the objective is tr(K) after each point.

    >>> from jaxmkl import design
    >>> x = [[0.0, 1.0], [0.1, 1.0], [3.0, 0.0], [3.0, 0.2], [-2.0, -2.0]]
    >>> design.ted(features=x, num_points=2).ranking.tolist()
    [3, 4]
    """
    pool = pool_of("ted", gram, features, stacked=False)
    n = pool.num_points
    num_points = points_wanted("ted", num_points, n)
    penalty = penalty_of("ted", regularization, absolute, largest_penalty(pool))
    steps = num_points or min(n, pool.values.shape[2])
    return _solve(pool, penalty, steps=steps, num_points=num_points)
