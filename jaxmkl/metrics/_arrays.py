"""Operations of metrics on arrays of NumPy and of JAX alike."""

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import as_array, real_array, refuse_listed, refuse_unless, unmasked
from jaxmkl._types import AnyArray, Data, at_least_single
from jaxmkl.labels import floats, labels, signs, where_known


def library_of(*values: Data) -> ModuleType:
    """JAX's NumPy if any of these is of JAX, or is a list that holds such an array; else NumPy."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values)) else np


def numeric(**values: Data) -> tuple:
    """The :func:`library_of` some arrays, by their names, and the arrays.

    They are of float64 in NumPy, and at least of float32 in JAX, as sums are of many rounds.
    """
    for name, value in values.items():
        refuse_listed(name, value)
    given: dict[str, Any] = {name: unmasked(value) for name, value in values.items()}
    if library_of(*given.values()) is np:
        read = (real_array(name, floats(np.asarray(value))) for name, value in given.items())
        return np, *(np.asarray(value, np.float64) for value in read)
    arrays = (as_array(name, value) for name, value in given.items())
    return jnp, *(a.astype(at_least_single(jnp.result_type(a, float))) for a in arrays)


def paired(caller: str, first: Data, second: Data, names: tuple = ("prediction", "y")) -> tuple:
    xp, one, other = numeric(**dict(zip(names, (first, second), strict=True)))
    return matched(caller, xp, one, other, names)


def matched(caller: str, xp: ModuleType, one: AnyArray, other: AnyArray, names: tuple) -> tuple:
    """The library and both arrays in one shape (..., T), the first NaN where the other is."""
    shape, good = one.shape, other.shape in (one.shape, one.shape[-1:])
    text = f"{caller}: {names[1]} must have the shape of {names[0]} (..., T) or (T,)"
    refuse_unless(shape and good, f"{text}; got {other.shape} for {shape}")
    other = xp.broadcast_to(other, shape)
    return xp, unknown_where(xp, other, one), other


def unknown_where(xp: ModuleType, label: AnyArray, values: AnyArray) -> AnyArray:
    """Make values NaN where the label is, so that no derivative passes through them there."""
    return xp.where(xp.isnan(label), xp.nan, values)


def signs_of(y: Data) -> AnyArray:
    """Labels of any usual kind as -1 and +1, NaN kept."""
    refuse_listed("y", y)
    if isinstance(y, jax.core.Tracer):
        return signs(y)
    read = where_known(lambda known: labels(known)[0], np.asarray(unmasked(y)))
    return library_of(y).asarray(read)


def classes(
    caller: str, prediction: Data, y: Data, num_classes: int | None, name: str = "prediction"
) -> tuple:
    """The predicted and the true classes (..., T), numbers from 0 on; NaN is kept."""
    if num_classes is None:
        xp, f, sign = paired(caller, prediction, signs_of(y), (name, "y"))
        return xp, xp.where(xp.isnan(f), f, f > 0), (sign + 1.0) / 2.0
    xp, f, true = numeric(**{name: prediction, "y": y})
    text = f"{caller}: {name} must have the shape (..., T, {num_classes}); got {f.shape}"
    refuse_unless(f.ndim > 1 and f.shape[-1] == num_classes, text)
    known = xp.isnan(true) | ((true >= 0) & (true < num_classes) & (true == xp.floor(true)))
    each_known(known, true, f"{caller}: y must be whole numbers from 0 to {num_classes - 1}")
    predicted = xp.where(xp.isnan(f).any(axis=-1), xp.nan, xp.argmax(f, axis=-1))
    return paired(caller, predicted, true)


def one_hot(xp: ModuleType, y: AnyArray, num_classes: int) -> AnyArray:
    """Classes (...) as rows (..., K) of zeros and a one; zeros for NaN."""
    each = xp.arange(num_classes).reshape((1,) * y.ndim + (num_classes,))
    return xp.where(y[..., None] == each, 1.0, 0.0)


def counts(xp: ModuleType, places: AnyArray, number: int) -> AnyArray:
    """How often 0, 1, ... are among places (..., T), as integers (..., number), without NaN."""
    *axes, T = places.shape
    rows = xp.where(xp.isnan(places), number, places).astype(int).reshape(math.prod(axes), T)
    flat = (rows + (number + 1) * xp.arange(len(rows))[:, None]).ravel()
    length = {"length" if xp is jnp else "minlength": (number + 1) * len(rows)}
    return xp.bincount(flat, **length).reshape(*axes, number + 1)[..., :number]


def sums_by_bin(
    caller: str, xp: ModuleType, places: AnyArray, bins: int, *values: AnyArray
) -> tuple:
    """Sums (..., B) of values (..., T) by the bin of their place in [0, 1]; NaN is in no bin."""
    good = isinstance(bins, int | np.integer) and not isinstance(bins, bool) and bins > 0
    refuse_unless(good, f"{caller}: bins must be an integer of at least 1; got {bins!r}")
    bin_of = xp.minimum(xp.floor(places * bins), bins - 1)

    def sums(b: int | jax.Array) -> tuple:
        return tuple(xp.where(bin_of == b, each, 0.0).sum(axis=-1) for each in values)

    if xp is jnp:
        return jax.vmap(sums, out_axes=-1)(jnp.arange(bins))
    # a pass for each bin needs no memory of T times B
    return tuple(
        np.stack(of_bins, axis=-1) for of_bins in zip(*map(sums, range(bins)), strict=True)
    )


def mean_of(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Mean (...) of the values that are not NaN; NaN if there are none."""
    known = ~xp.isnan(values)
    number, total = known.sum(axis=-1), xp.where(known, values, 0).sum(axis=-1)
    return xp.where(number > 0, total / xp.maximum(number, 1), xp.nan)[()]


def mean_so_far(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Means of the first 1, ..., T values that are not NaN, along the last axis."""
    counts = ~xp.isnan(values)
    total = xp.cumsum(xp.where(counts, values, 0), axis=-1)
    number = xp.cumsum(counts, axis=-1)
    return xp.where(number > 0, total / xp.maximum(number, 1), xp.nan)


def between_0_and_1(caller: str, name: str, xp: ModuleType, values: AnyArray) -> None:
    known = xp.isnan(values) | ((values >= 0) & (values <= 1))
    each_known(known, values, f"{caller}: {name} must lie between 0 and 1")


def each_known(good: AnyArray, values: AnyArray, text: str) -> None:
    """Refuse values that are not good, and show the first; inside a trace they are unknown."""
    if isinstance(good, jax.core.Tracer) or bool(good.all()):
        return
    # under jax.grad alone comparisons are known, and so are values without their derivatives
    shown = jax.lax.stop_gradient(values) if isinstance(values, jax.Array) else values
    raise ValueError(f"{text}; got {np.asarray(shown)[~np.asarray(good)][0]}")
