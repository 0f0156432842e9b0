"""Random sampling, the baseline of all other methods."""

import jax
import jax.numpy as jnp

from jaxmkl._pytree import as_count, require
from jaxmkl.design._frame import Design, points_wanted


def random(key: jax.Array, pool_size: int, *, num_points: int | None = None) -> Design:
    """Choose points at random, without replacement.

    Args:
      key: a typed key.
      pool_size: the number of points n.
      num_points: the number of points to rank; all by default.

    Returns:
      A :class:`Design` with evenly spaced scores, all points active, no kernels, no objective.

    Raises:
      ValueError: if the key is not one, ``pool_size`` is below 1, or ``num_points`` not from 1 to
        ``pool_size``.

    >>> import jax
    >>> from jaxmkl import design
    >>> sorted(design.random(jax.random.key(0), 4).ranking.tolist())
    [0, 1, 2, 3]
    """
    pool_size = as_count("random", "pool_size", pool_size)
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    good = typed and key.ndim == 0
    require(good, "random", "key", key, "a typed key, as of jax.random.key, and one")
    num_points = points_wanted("random", num_points, pool_size)
    order = jax.random.permutation(key, pool_size)
    # evenly spaced in the drawn order, since ties would favour points with small indices
    spaced = (pool_size - jnp.arange(pool_size)) / pool_size
    scores = jnp.zeros((pool_size,)).at[order].set(spaced)
    ranking, number = order[:num_points].astype(jnp.int32), jnp.asarray(pool_size, jnp.int32)
    none, objective = jnp.ones((0,)), jnp.full((1,), jnp.nan)
    return Design(scores, ranking, number, none, objective, jnp.asarray(True))
