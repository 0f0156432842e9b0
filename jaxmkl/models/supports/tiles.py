"""Sums of kernels over many supports, a tile at a time, and their derivatives.

The loops turn as often as there are tiles in use, which is a value and not a shape. JAX cannot
differentiate such a loop in reverse mode, so each of the two sums defines its own derivative:
another loop over the same tiles, which computes the kernel values of a tile again instead of
storing them all.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Products, Scaled, pairwise_products, scaled

# The most entries of one kernel that are summed together, by an exponent of their own.
_SEGMENT = 32

_dot = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


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
        sums.append(_dot("pbn,pn->pb", terms, a))
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
    """Single coefficients, for each kernel a list of its own."""

    row: Array
    """The rows of each kernel's supports (P, L), int32."""
    coefficient: Array
    """Their coefficients (P, L)."""
    used: Array
    """The length of each list (P,), int32."""


def column_values(kernels: Kernel, X: Array, rows: Array, index: Array) -> Array:
    """Bounded kernel values (n, m) of X and rows, column j of the kernel ``index[j]``."""
    return _column_numbers(kernels, pairwise_products(X, rows, used_once=True), index).plain()


def _column_numbers(kernels: Kernel, products: Products, index: Array) -> Scaled:
    codes = kernels.column_codes(products, index)
    if all(kernels.exponential):
        return Scaled(None, codes)
    if not any(kernels.exponential):
        return Scaled(scaled.bounded(codes), None)
    marks = jnp.asarray(kernels.exponential)[index][None, :]
    return scaled.unpacked(jnp.where(marks, codes, scaled.bounded(codes)), marks)


class _Turn(NamedTuple):
    """The entries of a turn of the loop: G segments of S, those of a segment of one kernel."""

    kernel: Array
    """The number of each segment's kernel in its family (G,), int32."""
    entry: tuple[Array, Array]
    """The lists (G, 1) and the places in them (G, S) of the entries, int32."""
    there: Array
    """Whether they are in use (G, S), boolean."""


def _cut(size: int, used: Array, which: slice) -> tuple[Array, Callable[[Array], _Turn]]:
    """The number of turns of ``size`` entries for a family's lists, and the entries of turn i.

    Each list is cut into segments, the last of which it need not fill. They are numbered from the
    first of the first list to the last of the last one.
    """
    S = math.gcd(size, _SEGMENT)
    G, used = size // S, used[which]
    number_of = -(-used // S)
    ends = jnp.cumsum(number_of, dtype=jnp.int32)

    def turn(i: Array) -> _Turn:
        number = i * G + jnp.arange(G, dtype=jnp.int32)
        passed = jnp.sum(number[:, None] >= ends[None, :], axis=1, dtype=jnp.int32)
        # segments beyond the last are places of the last list that are not in use
        kernel = jnp.minimum(passed, len(used) - 1)
        start = S * (number - (ends - number_of)[kernel])
        place = start[:, None] + jnp.arange(S, dtype=jnp.int32)[None, :]
        length = used[kernel][:, None]
        # where there is none, the last entry of the list stands, whose distances are there anyway
        entry = (which.start + kernel)[:, None], jnp.minimum(place, jnp.maximum(length - 1, 0))
        return _Turn(kernel, entry, place < length)

    return -(-ends[-1] // G), turn


def _turn_values(kernels: Kernel, columns: Array, rows: Array, kernel: Array) -> Scaled:
    """Values (G, S, B) of the rows (G, S, D) of segments and of X, whose ``columns`` are (D, B).

    With the rows of X innermost, a CPU is faster at differences and exponentials.
    """
    G, S, D = rows.shape
    products = pairwise_products(rows.reshape(G * S, D), columns.T, used_once=True).transposed
    values = _column_numbers(kernels, products, jnp.repeat(kernel, S))
    return jax.tree.map(lambda part: part.T.reshape(G, S, -1), values)


def _turn_sums(kernels: Kernel, columns: Array, rows: Array, kernel: Array, a: Array) -> Scaled:
    """Sums (G, B) of such values times the coefficients a (G, S)."""
    if any(kernels.exponential):
        values = _turn_values(kernels, columns, rows, kernel)
        return values.weighted_sum(a[:, :, None], axis=1)
    # inner products are faster with those rows innermost that are not the same in each turn
    G, S, D = rows.shape
    products = pairwise_products(columns.T, rows.reshape(G * S, D), used_once=True)
    values = _column_numbers(kernels, products, jnp.repeat(kernel, S))
    return Scaled(_dot("bgs,gs->gb", values.mantissa.reshape(-1, G, S), a), None)


def _plus_segments(sums: Scaled, kernel: Array, own: Scaled) -> Scaled:
    """Sums (P, B), each with those of its kernel's segments (G, B)."""
    which = jnp.arange(len(sums.mantissa), dtype=jnp.int32)[:, None] == kernel[None, :]

    def added(values: Array) -> Array:
        # a matrix product is faster than a scatter
        return _dot("pg,gb->pb", which.astype(values.dtype), values)

    if own.exponent is None:
        return Scaled(sums.mantissa + added(own.mantissa), None)
    nearest = jnp.min(jnp.where(which[:, :, None], own.exponent[None], jnp.inf), axis=1)
    exponent = jnp.minimum(sums.exponent, nearest)
    value = sums.mantissa * jnp.exp(exponent - sums.exponent)
    return Scaled(value + added(own.mantissa * jnp.exp(exponent[kernel] - own.exponent)), exponent)


def _parts(kernels: Kernel) -> list[slice]:
    """Which kernels each family has."""
    ends = list(accumulate(family.num_kernels for family in kernels.families))
    return [slice(start, end) for start, end in pairwise([0, *ends])]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def entry_sums(size: int, kernels: Kernel, X: Array, rows: Array, entries: Entries) -> Scaled:
    """Sums (P, B) over the entries in use of rows (C, D), in tiles of ``size``.

    The sums are differentiable in reverse mode by everything but the integers of the entries;
    exponents count as constants.
    """
    columns = X.T

    def of_family(family: Kernel, which: slice) -> Scaled:
        turns, turn = _cut(size, entries.used, which)

        def body(i: Array, sums: Scaled) -> Scaled:
            here = turn(i)
            a = jnp.where(here.there, entries.coefficient[here.entry], 0.0)
            own = _turn_sums(family, columns, rows[entries.row[here.entry]], here.kernel, a)
            return _plus_segments(sums, here.kernel, own)

        none = scaled.nothing(jnp.zeros((family.num_kernels, X.shape[0]), X.dtype))
        if any(family.exponential):
            return jax.lax.fori_loop(0, turns, body, none)
        plain = jax.lax.fori_loop(0, turns, body, Scaled(none.mantissa, None))
        return Scaled(plain.mantissa, none.mantissa)

    sums = [of_family(*part) for part in zip(kernels.families, _parts(kernels), strict=True)]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *sums)


def _entries_forward(size: int, *arguments: Any) -> tuple[Scaled, Any]:
    sums = entry_sums(size, *arguments)
    return sums, (arguments, sums.exponent)


def _entries_backward(size: int, saved: PyTree, gradient: Scaled) -> tuple:
    (kernels, X, rows, entries), exponent = saved
    totals = jax.tree.map(jnp.zeros_like, (kernels, X, rows, entries.coefficient))
    for f, which in enumerate(_parts(kernels)):
        turns, turn = _cut(size, entries.used, which)

        def body(i: Array, totals: PyTree, f: int = f, turn: Any = turn) -> PyTree:
            of_kernels, of_X, of_rows, of_coefficients = totals
            here = turn(i)
            row, own = entries.row[here.entry], here.entry[0][:, 0]

            def of_turn(kernels: Kernel, X: Array, rows: Array, a: Array) -> Array:
                values = _turn_values(kernels.families[f], X.T, rows, here.kernel)
                # with the exponents of the whole sum, the parts of the turns are simply added
                a = jnp.where(here.there, a, 0.0)[:, :, None]
                return jnp.sum(values.times_exp(exponent[own][:, None, :]) * a, axis=1)

            given = kernels, X, rows[row], entries.coefficient[here.entry]
            k, x, r, a = jax.vjp(of_turn, *given)[1](gradient.mantissa[own])
            add = jax.tree.map(jnp.add, (of_kernels, of_X), (k, x))
            # a row may have entries of several kernels
            return *add, of_rows.at[row].add(r), of_coefficients.at[here.entry].add(a)

        totals = jax.lax.fori_loop(0, turns, body, totals)
    *totals, a = totals
    return *totals, Entries(None, a, None)  # type: ignore[arg-type]


entry_sums.defvjp(_entries_forward, _entries_backward)
