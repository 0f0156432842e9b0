"""Inner products and squared distances, from which all kernels of a dictionary are evaluated."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

_INPUTS_AT_ONCE = 32  # inputs whose differences are squared and summed at a time
_CLOSE = 1 / 256  # the expansion is not used for distances below this share of squared norms

Pair = tuple[jax.Array, jax.Array]

_dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class Products(NamedTuple):
    """The two matrices from which kernels are evaluated, and the rows behind them."""

    inner: jax.Array  # inner products x·y (n, m)
    squared_distance: jax.Array  # |x - y|² (n, m)
    X: jax.Array  # the rows (n, D)
    Y: jax.Array  # the rows (m, D)

    @property
    def transposed(self) -> "Products":
        """The products of Y and X."""
        return Products(self.inner.T, self.squared_distance.T, self.Y, self.X)

    def on(self, columns: int | Sequence[int] | np.ndarray) -> "Products":
        """The products of some columns of the rows."""
        places = np.asarray(columns)
        return pairwise_products(self.X[:, places], self.Y[:, places])

    def weighted_distance(self, weights: jax.Array) -> jax.Array:
        """The sums Σ_d w_d (x_d - y_d)² (P, n, m), for weights (P, D) of P kernels."""
        return jax.vmap(lambda w: self.weighted_column_distance(w[None, :]))(weights)

    def weighted_column_distance(self, weights: jax.Array) -> jax.Array:
        """The sums Σ_d w_jd (x_d - y_jd)² (n, m), for weights (m, D), one row for each column."""
        return _summed_differences(self.X, self.Y, weights)


def pairwise_products(X: jax.Array, Y: jax.Array, *, used_once: bool = False) -> Products:
    """Inner products and squared distances of the rows of ``X`` (n, D) and ``Y`` (m, D).

    The expansion |x|² + |y|² - 2 x·y of a distance is one matrix product, but in float32 it cannot
    tell near duplicates of large norm apart, as narrow kernels must. So with up to 32 inputs, or
    where it is neither exact (whole numbers of moderate size) nor all distances large beside the
    norms, differences are squared and summed. With ``used_once``, every use computes the distances
    again, which is faster for a single use.

    >>> pairwise_products(jnp.array([[3.0, 4.0]]), jnp.zeros((1, 2))).squared_distance
    Array([[25.]], dtype=float32)
    """
    chex.assert_rank([X, Y], 2)
    chex.assert_equal_shape_suffix([X, Y], 1)
    return Products(_dot(X, Y.T), _squared_distances(used_once, X, Y), X, Y)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _squared_distances(used_once: bool, X: jax.Array, Y: jax.Array) -> jax.Array:
    if X.shape[1] <= _INPUTS_AT_ONCE and used_once:
        # the compiler for TPUs takes seconds for a sum of many terms
        return jax.lax.platform_dependent(
            X, Y, tpu=_summed_differences, default=_added_differences
        )
    if X.shape[1] <= _INPUTS_AT_ONCE:
        return _summed_differences(X, Y)
    norms = jnp.sum(X**2, axis=1), jnp.sum(Y**2, axis=1)
    total = norms[0][:, None] + norms[1][None, :]
    expanded = jnp.maximum(total - 2.0 * _dot(X, Y.T), 0.0)
    whole = jnp.all(jnp.round(X) == X) & jnp.all(jnp.round(Y) == Y)
    # squares and products of whole numbers are whole, and exact as long as the mantissa holds them
    exact = whole & (jnp.max(norms[0]) + jnp.max(norms[1]) < 0.5 / jnp.finfo(X.dtype).eps)
    doubtful = ~exact & jnp.any(expanded < _CLOSE * total)

    def again(turn: jax.Array, _: jax.Array) -> jax.Array:
        # the turn is 0; without it XLA would move the differences out of the loop
        zero = turn.astype(X.dtype)
        return _summed_differences(X + zero, Y + zero)

    # a loop of at most one turn: under vmap it turns only if one of the runs needs it
    return jax.lax.fori_loop(0, doubtful.astype(jnp.int32), again, expanded)


@_squared_distances.defjvp
def _squared_distances_jvp(used_once: bool, primals: Pair, tangents: Pair) -> Pair:
    (X, Y), (dX, dY) = primals, tangents
    # the derivative of Σ (x - y)² is 2 (x - y)·(dx - dy), in matrix products
    own = jnp.sum(X * dX, axis=1)[:, None] + jnp.sum(Y * dY, axis=1)[None, :]
    return _squared_distances(used_once, X, Y), 2.0 * (own - _dot(dX, Y.T) - _dot(X, dY.T))


def _added_differences(X: jax.Array, Y: jax.Array) -> jax.Array:
    """Sums (n, m) of squared differences, one term after the other.

    XLA fuses them with the operations that follow.
    """
    columns = zip(X.T, Y.T, strict=True)
    return reduce(jnp.add, ((x[:, None] - y[None, :]) ** 2 for x, y in columns))


def _summed_differences(X: jax.Array, Y: jax.Array, weights: jax.Array | None = None) -> jax.Array:
    """Sums (n, m) of squared differences, some columns at a time, weighted by (1 or m, D)."""

    def sums(x: jax.Array, y: jax.Array, w: jax.Array | None) -> jax.Array:
        squares = (x[:, None, :] - y[None, :, :]) ** 2
        # weight before summing: a sum that overflows would have no finite derivative
        return jnp.sum(squares if w is None else w[None, :, :] * squares, axis=-1)

    if X.shape[1] <= _INPUTS_AT_ONCE or X.shape[0] == 1:
        return sums(X, Y, weights)

    def parts(Z: jax.Array) -> jax.Array:
        """The columns in parts of one size, padded with zeros: (parts, rows, columns)."""
        padded = jnp.pad(Z, ((0, 0), (0, -Z.shape[1] % _INPUTS_AT_ONCE)))
        return jnp.moveaxis(padded.reshape(Z.shape[0], -1, _INPUTS_AT_ONCE), 1, 0)

    zero = jnp.zeros((X.shape[0], Y.shape[0]), X.dtype)
    of_parts = jax.tree.map(parts, (X, Y, weights))
    return jax.lax.scan(lambda total, part: (total + sums(*part), None), zero, of_parts)[0]
