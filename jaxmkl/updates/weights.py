"""Weights of linear models on features, as rules keep them: (P, K, R, M).

Models that meet the same features z_p lie together, so that a prediction is one product of
matrices for each kernel.
"""

import jax
import jax.numpy as jnp

from jaxmkl._blocks import dots

_HIGHEST = jax.lax.Precision.HIGHEST


def values_of(weights: jax.Array, z: jax.Array) -> jax.Array:
    """θ·z (K, R, P) of models (P, K, R, M) on features (P, M)."""
    P, K, R, M = weights.shape
    if K * R == 1:  # one model a kernel: no matrices to multiply
        return dots(weights[:, 0, 0], z)[None, None]
    of_kernel, batch = ((2,), (1,)), ((0,), (0,))
    flat = weights.reshape(P, K * R, M)
    values = jax.lax.dot_general(flat, z, (of_kernel, batch), precision=_HIGHEST)
    return jnp.moveaxis(values.reshape(P, K, R), 0, -1)


def squared_norms_of(weights: jax.Array) -> jax.Array:
    """|θ|² (K, R, P) of models (P, K, R, M)."""
    return jnp.moveaxis(jnp.sum(jnp.square(weights), axis=-1), 0, -1)


def beside_weights(a: jax.Array) -> jax.Array:
    """Numbers of models (K, R, P) as they stand beside weights, (P, K, R, 1)."""
    return jnp.moveaxis(a, -1, 0)[..., None]
