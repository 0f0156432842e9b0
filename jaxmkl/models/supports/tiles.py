"""Sums of kernels over many supports, a tile at a time, and their derivatives.

The loops turn as often as there are tiles in use, which is a value and not a shape. JAX cannot
differentiate such a loop in reverse mode, so each of the two sums defines its own derivative:
another loop over the same tiles, which computes the kernel values of a tile again instead of
storing them all.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Products, Scaled, pairwise_products, scaled


def _tile(array: Array, i: Array, size: int, axis: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(array, i * size, size, axis)


def _by_family(
    kernels: Kernel, products: Products, coefficients: Array
) -> list[tuple[Scaled, Array, slice]]:
    """Each family's values (p, B, n), its coefficients (p, n), and which kernels it has."""
    found, start = [], 0
    for family in kernels.families:
        which, marks = slice(start, start + family.num_kernels), family.exponential
        codes = scaled.finite(family.codes(products), marks)
        found.append((scaled.unpacked(codes, marks), coefficients[which], which))
        start = which.stop
    return found


def _tile_sums(kernels: Kernel, products: Products, coefficients: Array, exponent: Array) -> Array:
    """Sums (P, B) of a tile's terms times exp(exponent), for exponents (P, B) that fit."""
    sums = []
    for k, a, which in _by_family(kernels, products, coefficients):
        terms = k.times_exp(exponent[which, :, None])
        sums.append(jnp.einsum("pbn,pn->pb", terms, a, precision=jax.lax.Precision.HIGHEST))
    return jnp.concatenate(sums)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def dense_sums(
    size: int, kernels: Kernel, X: Array, rows: Array, coefficients: Array, used: Any
) -> Scaled:
    """Sums (P, B) at X (B, D) over the first ``used`` of the rows (C, D), in tiles of ``size``.

    ``size`` divides C; the coefficients (P, C) are zero from ``used`` on. The sums are
    differentiable in reverse mode by everything but ``used``; exponents count as constants.
    """

    def body(i: Array, sums: Scaled) -> Scaled:
        products = pairwise_products(X, _tile(rows, i, size, 0))
        a = _tile(coefficients, i, size, 1)
        parts = _by_family(kernels, products, a)
        nearest = [k.smallest_exponent(a[:, None, :] != 0) for k, a, _ in parts]
        # a term nearer than all before it rescales their sum to its exponent
        exponent = jnp.minimum(sums.exponent, jnp.concatenate(nearest))
        value = sums.mantissa * jnp.exp(exponent - sums.exponent)
        return Scaled(value + _tile_sums(kernels, products, a, exponent), exponent)

    none = scaled.nothing(jnp.zeros((kernels.num_kernels, X.shape[0]), X.dtype))
    return jax.lax.fori_loop(0, -(-used // size), body, none)


def _dense_forward(size: int, *arguments: Any) -> tuple[Scaled, Any]:
    sums = dense_sums(size, *arguments)
    return sums, (arguments, sums.exponent)


def _dense_backward(size: int, saved: PyTree, gradient: Scaled) -> tuple:
    (kernels, X, rows, coefficients, used), exponent = saved

    def body(i: Array, totals: PyTree) -> PyTree:
        of_kernels, of_X, of_rows, of_coefficients = totals
        tile = _tile(rows, i, size, 0), _tile(coefficients, i, size, 1)

        def of_tile(kernels: Kernel, X: Array, rows: Array, a: Array) -> Array:
            # with the exponents of the whole sum, the parts of the tiles are simply added
            return _tile_sums(kernels, pairwise_products(X, rows), a, exponent)

        _, pull = jax.vjp(of_tile, kernels, X, *tile)
        k, x, r, a = pull(gradient.mantissa)
        add = jax.tree.map(jnp.add, (of_kernels, of_X), (k, x))
        of_rows = jax.lax.dynamic_update_slice_in_dim(of_rows, r, i * size, 0)
        of_coefficients = jax.lax.dynamic_update_slice_in_dim(of_coefficients, a, i * size, 1)
        return *add, of_rows, of_coefficients

    zeros = jax.tree.map(jnp.zeros_like, (kernels, X, rows, coefficients))
    totals = jax.lax.fori_loop(0, -(-used // size), body, zeros)
    return *totals, None


dense_sums.defvjp(_dense_forward, _dense_backward)


class Entries(NamedTuple):
    """Single coefficients, each of one kernel."""

    row: Array
    """The row of each (E,), int32."""
    kernel: Array
    """The kernel of each (E,), int32."""
    coefficient: Array
    """The coefficients (E,)."""
    used: Array
    """Number of entries in use, int32."""


def column_values(kernels: Kernel, X: Array, rows: Array, index: Array) -> Array:
    """Bounded kernel values (n, m) of X and rows, column j of the kernel ``index[j]``."""
    codes = kernels.column_codes(pairwise_products(X, rows, used_once=True), index)
    if all(kernels.exponential):
        return jnp.exp(-codes)
    marks = jnp.asarray(kernels.exponential)[index][None, :]
    return scaled.plain(jnp.where(marks, codes, scaled.bounded(codes)), marks)


def _entry_sums(
    kernels: Kernel, X: Array, rows: Array, coefficients: Array, index: Array
) -> Array:
    """Sums (P, B) over entries, one row (n, D), coefficient (n,) and kernel (n,) each."""
    values = column_values(kernels, X, rows, index) * coefficients[None, :]
    # each entry is added to its kernel's sum by a matrix product: faster than a scatter
    which = jax.nn.one_hot(index, kernels.num_kernels, dtype=values.dtype, axis=0)
    return jnp.dot(which, values.T, precision=jax.lax.Precision.HIGHEST)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def entry_sums(size: int, kernels: Kernel, X: Array, rows: Array, entries: Entries) -> Array:
    """Sums (P, B) over the entries in use of rows (C, D), in tiles of ``size``.

    The sums are differentiable in reverse mode by everything but the integers of the entries.
    """

    def body(i: Array, sums: Array) -> Array:
        row, kernel, a = (_tile(part, i, size, 0) for part in entries[:3])
        return sums + _entry_sums(kernels, X, rows[row], a, kernel)

    zero = jnp.zeros((kernels.num_kernels, X.shape[0]), X.dtype)
    return jax.lax.fori_loop(0, -(-entries.used // size), body, zero)


def _entries_backward(size: int, saved: PyTree, gradient: Array) -> tuple:
    kernels, X, rows, entries = saved

    def body(i: Array, totals: PyTree) -> PyTree:
        of_kernels, of_X, of_rows, of_coefficients = totals
        row, kernel, a = (_tile(part, i, size, 0) for part in entries[:3])

        def of_tile(kernels: Kernel, X: Array, rows: Array, a: Array) -> Array:
            return _entry_sums(kernels, X, rows, a, kernel)

        _, pull = jax.vjp(of_tile, kernels, X, rows[row], a)
        k, x, r, a = pull(gradient)
        add = jax.tree.map(jnp.add, (of_kernels, of_X), (k, x))
        of_coefficients = jax.lax.dynamic_update_slice_in_dim(of_coefficients, a, i * size, 0)
        # a row may have entries of several kernels
        return *add, of_rows.at[row].add(r), of_coefficients

    zeros = jax.tree.map(jnp.zeros_like, (kernels, X, rows, entries.coefficient))
    *totals, a = jax.lax.fori_loop(0, -(-entries.used // size), body, zeros)
    return *totals, Entries(None, None, a, None)  # type: ignore[arg-type]


entry_sums.defvjp(lambda size, *given: (entry_sums(size, *given), given), _entries_backward)
