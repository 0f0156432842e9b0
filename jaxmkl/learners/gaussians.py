"""Gaussians N(μ, Σ) over the weights of linear models: how a label narrows and moves them.

A Gaussian that meets an example with coordinates φ (D,) and label y becomes

    Σ <- Σ - Σφ φ'Σ/(λ + φ'Σφ)
    μ <- μ + g y Σφ                        with the new Σ
         hinge            g = min(1/(2ε), loss/φ'Σφ)
         squared hinge    g = loss/(ε + φ'Σφ)

**Precision.** Only factors S with Σ = S S' are kept, so that Σ is symmetric and positive whatever
the rounding; updates of Σ itself lose that in single precision. As Potter (1963) did, in Bierman
(1977), Factorization methods for discrete sequential estimation,

    S <- S - c/(1 + sqrt(λ c)) S f f',     f = S'φ,  c = 1/(λ + |f|²)
"""

from functools import partial

import jax
import jax.numpy as jnp

from jaxmkl._types import Number, PyTree

MARGIN_LOSSES = ("hinge", "squared_hinge")
# The product of two matrices, or of a matrix and a vector.
times = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


def narrowed(
    root: jax.Array, along: jax.Array, noise: PyTree, when: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """S (D, D) after an update along f = S'φ (D,); Σφ (D,) and φ'Σφ with the new Σ.

    Where it is not ``when``, the latter two are of the old Σ; S is new all the same: drop it.
    """
    variance = jnp.sum(along**2)
    c = 1.0 / (noise + variance)
    towards = times(root, along)
    after = root - (c / (1.0 + jnp.sqrt(noise * c)) * towards)[:, None] * along[None, :]
    left = jnp.where(when, noise * c, 1.0)
    return after, left * towards, left * variance


def step_of_one(loss: str, hinge: jax.Array, variance: jax.Array, inertia: Number) -> jax.Array:
    """g of an example with this loss before the update, and φ'Σφ after it."""
    if loss == "squared_hinge":
        return hinge / (inertia + variance)
    return jnp.minimum(0.5 / inertia, hinge / jnp.where(variance > 0, variance, 1.0))


def narrowed_by_all(
    root: jax.Array, phi: jax.Array, shrunk: jax.Array, noise: PyTree
) -> jax.Array:
    """S (D, D) of a Gaussian that meets K examples φ (K, D) at once.

    ``shrunk`` (K,) says which of them narrow the covariance; ``noise`` is λ.
    """

    def one(root: jax.Array, example: tuple) -> tuple[jax.Array, None]:
        phi, when = example
        return jnp.where(when, narrowed(root, times(phi, root), noise, when)[0], root), None

    return jax.lax.scan(one, root, (phi, shrunk))[0]


def moved_by_all(
    root: jax.Array,
    phi: jax.Array,
    y: jax.Array,
    hinge: jax.Array,
    moved: jax.Array,
    loss: str,
    inertia: Number,
) -> jax.Array:
    """The move of μ (D,) of a Gaussian with the new S (D, D) that meets K examples φ (K, D).

        hinge            μ <- μ + 1/(2ε) Σ Σ_k yᵏφᵏ
        squared hinge    μ <- μ + ΣW (εI + W'ΣW)⁻¹ loss,     W = [yᵏφᵏ]

    ``hinge`` are their losses before the update, ``moved`` says which of them move the mean (K,);
    ``inertia`` is ε.
    """
    along = times(jnp.where(moved, y, 0.0)[:, None] * phi, root)
    if loss == "squared_hinge":
        inner = times(along, along.T) + inertia * jnp.eye(len(y), dtype=y.dtype)
        total = times(_solved(inner, jnp.where(moved, hinge, 0.0)), along)
    else:
        total = jnp.sum(along, axis=0) * (0.5 / inertia)
    return times(root, total)


def _solved(matrix: jax.Array, values: jax.Array) -> jax.Array:
    """The solution (K,) for a positive definite matrix (K, K), by Gauss and Jordan."""

    def eliminate(table: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        row = table[i] / table[i, i]
        table = table - table[:, i][:, None] * row[None, :]
        return table.at[i].set(row), None

    table = jnp.concatenate([matrix, values[:, None]], axis=1)
    return jax.lax.scan(eliminate, table, jnp.arange(len(values)))[0][:, -1]
