"""Sums of kernels over many supports, a tile at a time, and their derivatives.

The loops turn as often as there are tiles in use, which is a value and not a shape; for runs side
by side, as often as there are in any of them, since coefficients of other tiles are zero. JAX
cannot differentiate such a loop in reverse mode, so it has a derivative of its own here: another
loop over the same tiles, which computes the kernel values of a tile again instead of storing them
all. Derivatives of any order are such loops.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxmkl._blocks import einsum, largest_of_runs
from jaxmkl._types import PyTree
from jaxmkl.kernels import Kernel, Products, Scaled, pairwise_products, scaled

# The most entries of one kernel that lie together in a tile.
_SEGMENT = 32

# The smallest exponents of a tile's terms (P, B), and the sums (P, B) of its terms times
# exp(exponent) as a function of exponents (P, B), which are no larger than those.
Terms = tuple[Array, Callable[[Array], Array]]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sums(
    terms: Callable[[Array, PyTree, PyTree], Terms],
    turns: Array,
    start: Scaled,
    given: PyTree,
    fixed: PyTree,
) -> Scaled:
    """The start (P, B) and the terms of so many tiles, ``terms(i, given, fixed)`` for tile i.

    Derivatives are by what is ``given``.
    """

    def body(i: Array, sums: Scaled) -> Scaled:
        nearest, sums_at = terms(i, given, fixed)
        # a term nearer than all before it rescales their sum to its exponent
        exponent = jnp.minimum(sums.exponent, nearest)
        value = sums.mantissa * jnp.exp(exponent - sums.exponent)
        return Scaled(value + sums_at(exponent), exponent)

    return jax.lax.fori_loop(0, largest_of_runs(turns), body, start)


def _forward(terms: Callable, *arguments: Any) -> tuple[Scaled, Any]:
    sums = _sums(terms, *arguments)
    return sums, (arguments, sums.exponent)


def _backward(terms: Callable, saved: PyTree, gradient: Scaled) -> tuple:
    (turns, _, given, fixed), exponent = saved

    def values(i: Array, given: PyTree, fixed: PyTree) -> Array:
        # with the exponents of the whole sum, the parts of the tiles are simply added
        return terms(i, given, fixed[0])[1](fixed[1])

    return None, None, _slopes(values, turns, given, (fixed, exponent), gradient.mantissa), None


_sums.defvjp(_forward, _backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _slopes(values: Callable, turns: Array, given: PyTree, fixed: PyTree, along: PyTree) -> PyTree:
    """The products of ``along`` and derivatives by what is ``given`` of so many tiles, added.

    Their own derivatives, by ``given`` and ``along``, are such a sum again.
    """

    def body(i: Array, totals: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, totals, _slope(values, i, (given, along), fixed))

    none = jax.tree.map(jnp.zeros_like, given)
    return jax.lax.fori_loop(0, largest_of_runs(turns), body, none)


def _slope(values: Callable, i: Array, given: tuple[PyTree, PyTree], fixed: PyTree) -> PyTree:
    """The part of tile i in :func:`_slopes`, of what is given and along."""
    return jax.vjp(lambda own: values(i, own, fixed), given[0])[1](given[1])[0]


def _slopes_backward(values: Callable, saved: PyTree, gradient: PyTree) -> tuple:
    turns, given, fixed, along = saved
    slopes = _slopes(partial(_slope, values), turns, (given, along), fixed, gradient)
    return None, slopes[0], None, slopes[1]


_slopes.defvjp(lambda values, *saved: (_slopes(values, *saved), saved), _slopes_backward)


def _parts(kernels: Kernel) -> list[slice]:
    """Which kernels each family has."""
    sizes = (family.num_kernels for family in kernels.families)
    return [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]


def _none(kernels: Kernel, X: Array) -> Scaled:
    """Empty sums (P, B)."""
    return scaled.nothing(jnp.zeros((kernels.num_kernels, len(X)), X.dtype))


def dense_sums(
    size: int, kernels: Kernel, X: Array, rows: Array, coefficients: Array, used: Any
) -> Scaled:
    """Sums (P, B) at X (B, D) over the first ``used`` of the rows (C, D), in tiles of ``size``.

    ``size`` divides C; the coefficients (P, C) are zero from ``used`` on. The sums are
    differentiable in reverse mode, any number of times, by everything but ``used``; exponents
    count as constants.
    """
    turns = -(-jnp.asarray(used) // size)
    given = kernels, X, rows, coefficients
    return _sums(partial(_dense_terms, size), turns, _none(kernels, X), given, ())


def _dense_terms(size: int, i: Array, given: PyTree, fixed: PyTree) -> Terms:
    """The terms of ``size`` rows, on which all kernels have coefficients."""
    kernels, X, rows, coefficients = given
    products = pairwise_products(X, jax.lax.dynamic_slice_in_dim(rows, i * size, size, 0))
    a = jax.lax.dynamic_slice_in_dim(coefficients, i * size, size, 1)
    each = []
    for family, which in zip(kernels.families, _parts(kernels), strict=True):
        marks = family.exponential
        values = scaled.unpacked(scaled.finite(family.codes(products), marks), marks)
        each.append((values, a[which], which))

    def sums_at(exponent: Array) -> Array:
        at = [(k.times_exp(exponent[which, :, None]), a) for k, a, which in each]
        return jnp.concatenate([einsum("pbn,pn->pb", k, a) for k, a in at])

    return jnp.concatenate([k.smallest_exponent(a[:, None] != 0) for k, a, _ in each]), sums_at


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


def entry_sums(size: int, kernels: Kernel, X: Array, rows: Array, entries: Entries) -> Scaled:
    """Sums (P, B) over the entries in use of rows (C, D), in tiles of ``size``.

    The sums are differentiable in reverse mode, any number of times, by everything but the
    integers of the entries; exponents count as constants.
    """
    S = math.gcd(size, _SEGMENT)
    sums = []
    for family, which in zip(kernels.families, _parts(kernels), strict=True):
        row, coefficient, used = (part[which] for part in entries)
        # lists are cut into segments, the last of which they need not fill; segments are numbered
        # from the first of the first list to the last of the last one
        number = -(-used // S)
        ends = jnp.cumsum(number, dtype=jnp.int32)
        terms, turns = partial(_entry_terms, size // S, S), -(-ends[-1] // (size // S))
        # with the examples innermost, a CPU is faster at differences and exponentials
        given, fixed = (family, X.T, rows, coefficient), (row, used, ends - number, ends)
        sums.append(_sums(terms, turns, _none(family, X), given, fixed))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *sums)


def _entry_terms(G: int, S: int, i: Array, given: PyTree, fixed: PyTree) -> Terms:
    """The terms of G segments of S entries, those of a segment of one kernel."""
    (family, columns, rows, coefficient), (row, used, starts, ends) = given, fixed
    X = columns.T
    number = i * G + jnp.arange(G, dtype=jnp.int32)
    passed = jnp.sum(number[:, None] >= ends[None, :], axis=1, dtype=jnp.int32)
    # segments beyond the last are places of the last list that are not in use
    kernel = jnp.minimum(passed, len(used) - 1)
    start = S * (number - starts[kernel])
    place = start[:, None] + jnp.arange(S, dtype=jnp.int32)[None, :]  # (G, S)
    length = used[kernel][:, None]
    # where there is none, the last entry of the list stands, whose distances are there anyway
    entry = kernel[:, None], jnp.minimum(place, jnp.maximum(length - 1, 0))
    a, near = jnp.where(place < length, coefficient[entry], 0.0), rows[row[entry]]
    near, index = near.reshape(G * S, -1), jnp.repeat(kernel, S)

    # the sum (G, B) of each segment, by an exponent of its own
    if any(family.exponential):
        products = pairwise_products(near, X, used_once=True).transposed
        values = _column_numbers(family, products, index)
        values = jax.tree.map(lambda part: part.T.reshape(G, S, -1), values)
        own = values.weighted_sum(a[:, :, None], axis=1)
    else:
        # with the entries innermost, which are not the same in each turn, at inner products
        values = _column_numbers(family, pairwise_products(X, near, used_once=True), index)
        own = Scaled(einsum("bgs,gs->gb", values.mantissa.reshape(-1, G, S), a), None)
    mine = jnp.arange(len(used), dtype=jnp.int32)[:, None] == kernel[None, :]  # (P, G)

    def sums_at(exponent: Array) -> Array:
        sums = own.mantissa
        if own.exponent is not None:
            sums = sums * jnp.exp(exponent[kernel] - own.exponent)
        # a matrix product is faster than a scatter
        return einsum("pg,gb->pb", mine.astype(X.dtype), sums)

    if own.exponent is None:
        return jnp.zeros((len(used), len(X)), X.dtype), sums_at
    return jnp.min(jnp.where(mine[:, :, None], own.exponent[None], jnp.inf), axis=1), sums_at
