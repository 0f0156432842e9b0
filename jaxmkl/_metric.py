"""Metrics of the inputs: x -> L'x, from the average gradient outer product of a predictor.

    M = Σ_i ∇f(x_i) ∇f(x_i)',     L L' ∝ M^power

and the size of L L' is given. A diagonal metric keeps the diagonal of M, and is a vector.

References:
  Radhakrishnan, Beaglehole, Pandit and Belkin (2024), Mechanism for feature learning in neural
  networks and backpropagation-free machine learning models, Science 383,
  https://doi.org/10.1126/science.adi5639.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl._hash import hashed
from jaxmkl._types import Number, at_least_single

SHAPES = "diagonal", "full"
WIDE = 500  # inputs, beyond which a metric is diagonal: a full one takes D² numbers and D³ steps

_HIGHEST = jax.lax.Precision.HIGHEST


def isotropic(shape: str, num_inputs: int, dtype: DTypeLike) -> jax.Array:
    """The metric I/sqrt(D), of trace 1: (D,), or (D, D) if it is full and D ≤ 500."""
    scales = jnp.full((num_inputs,), (1.0 / num_inputs) ** 0.5, dtype)
    return scales if shape == "diagonal" or num_inputs > WIDE else jnp.diag(scales)


def applied(metric: jax.Array, X: jax.Array) -> jax.Array:
    """The inputs L'x of the rows of ``X`` (..., D)."""
    if metric.ndim == 1:
        return X * jnp.expand_dims(metric, range(X.ndim - 1))
    return jnp.dot(X, metric, precision=_HIGHEST)


def outer_products(gradients: jax.Array, weights: jax.Array, diagonal: bool) -> jax.Array:
    """Σ_i w_i g_i g_i' of gradients (n, D), or its diagonal (D,)."""
    weighted = weights[:, None] * gradients
    if diagonal:
        return jnp.sum(weighted * gradients, axis=0)
    return jnp.dot(weighted.T, gradients, precision=_HIGHEST)


def by_inputs(moments: jax.Array, metric: jax.Array) -> jax.Array:
    """M of gradients by x, from that of gradients by L'x: L M L'."""
    if metric.ndim == 1:
        return metric**2 * moments
    half = jnp.dot(metric, moments, precision=_HIGHEST)
    return jnp.dot(half, metric.T, precision=_HIGHEST)


def signs_of(round: jax.Array, turn: jax.Array, num_inputs: int, dtype: DTypeLike) -> jax.Array:
    """Random signs (D,), others in each turn of a renewal."""
    bits = hashed(hashed(jnp.zeros((), jnp.uint32), round, turn), np.arange(num_inputs))
    return jnp.where(bits >> 31 > 0, jnp.ones((), dtype), -1)


def metric_of(
    moments: jax.Array,
    power: Number,
    before: jax.Array,
    variances: jax.Array,
    signs: jax.Array,
) -> jax.Array:
    """The metric L of M, or the one before where M or what it makes is 0 or not finite.

    Of a full M = V diag(e) V' it is c V diag(e)^(power/2) V' S, with c such that inputs of these
    variances (D,), if they are uncorrelated, have Σ_d v_d (L L')_dd = 1: the sum of the variances
    of L'x. Neither signs nor the order of eigenvectors, in which solvers differ, matter.

    S is the diagonal matrix of the ``signs`` (D,). What a gradient has of noise lies along those
    frequencies of random features that it comes from. A symmetric L would stretch just these, and
    the next gradient would have more of it. With signs that are drawn anew each time, the features
    have other frequencies there.
    """
    power = jnp.asarray(power, moments.dtype)
    largest = jnp.max(jnp.abs(moments))
    good = jnp.isfinite(largest) & (largest > 0)
    values = jnp.where(good, moments / jnp.where(good, largest, 1), 1)
    if moments.ndim == 1:
        metric = jnp.sqrt(jnp.maximum(values, 0) ** power)
        squares = metric**2
    else:
        found = jnp.linalg.eigh(values.astype(at_least_single(values.dtype)))
        values, vectors = (part.astype(moments.dtype) for part in found)
        roots = jnp.sqrt(jnp.maximum(values, 0) ** power)
        metric = jnp.dot(vectors * roots[None], vectors.T, precision=_HIGHEST) * signs[None]
        squares = jnp.sum(metric**2, axis=1)
    total = jnp.sum(variances * squares)
    metric /= jnp.sqrt(jnp.where(total > 0, total, 1))
    good &= (total > 0) & jnp.all(jnp.isfinite(metric))
    return jnp.where(good, metric, before)


def importances(metric: jax.Array, variances: jax.Array) -> jax.Array:
    """Shares (D,) of the inputs, of these variances (D,), in Σ_d v_d (L L')_dd.

    The weight of a constant input means nothing, as no label tells how a model should change with
    it.
    """
    squares = metric**2 if metric.ndim == 1 else jnp.sum(metric**2, axis=1)
    scaled = squares * variances
    scaled = jnp.where(jnp.any(scaled > 0), scaled, squares)
    return scaled / jnp.sum(scaled)
