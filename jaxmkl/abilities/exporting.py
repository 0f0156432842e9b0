"""Exporting: a part at a fixed state as arrays and the name of an operation that reads them."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree


class Operation(NamedTuple):
    """An operation of :mod:`jaxmkl.export.predictor`, which says what each of them works out."""

    name: str
    arrays: dict[str, np.ndarray]
    """Its arguments, finite numbers."""
    inside: tuple[Any, ...] = ()
    """The operations that it calls."""

    def after(self, other: "Operation") -> "Operation":
        """This operation, applied to the result of another one."""
        return Operation("chain", {}, (other, self))


def operation(name: str, inside: tuple[Operation, ...] = (), **arrays: Any) -> Operation:
    """An operation of these arrays; infinite numbers become the largest ones."""
    found = {key: np.asarray(array) for key, array in arrays.items()}
    return Operation(name, {k: np.nan_to_num(a, nan=np.nan) for k, a in found.items()}, inside)


def on_fourier(
    maps: Sequence[Any], frequencies: Sequence[Any], models: Sequence[tuple[Any, np.ndarray]]
) -> Operation:
    """The operation of models on Fourier features.

    Args:
      maps: maps of features.
      frequencies: those of each map, in turns (P, F, D).
      models: weights θ (K, R, P, M), and of each of these R P models the number of its vector of
        features among those of all maps.
    """
    sizes: list[float] = []
    for features, own in zip(maps, frequencies, strict=True):
        good = hasattr(features, "at_frequencies")
        wanted = "jaxmkl.features.FourierFeatures or LinearFeatures"
        pytree.require(good, "export", "features", features, wanted)
        sizes += [(features.squared_norm / own.shape[1]) ** 0.5] * len(own)
    vector = np.concatenate([places for _, places in models])
    flat = [np.asarray(w).reshape(len(w), -1, w.shape[-1]) for w, _ in models]
    weights = np.concatenate(flat, axis=1)
    weights = weights * np.asarray(sizes, weights.dtype)[vector, None]
    joined = np.concatenate([*map(np.asarray, frequencies)])
    return operation("fourier", frequencies=joined, vector=vector, weights=weights)


@functools.singledispatch
def exported(part: Any, state: PyTree, *more: Any) -> Operation:
    """The predictions of a part at a fixed state, as an operation that needs NumPy alone.

    A learner makes values (B, K) of inputs (B, D); a bank values (B, K, E), with K = 1 for one
    output; an aggregate, given which models are active (E,), values (B, K) of these.

    Raises:
      ValueError: by default, as most parts have no such operation.
    """
    wanted = (
        "random features, a forest, a weighted mean, a mixture or a stack: others have no form "
    )
    wanted += "without JAX (jaxmkl export OUT.stablehlo takes any learner)"
    pytree.require(False, "export", "a part of the learner", type(part).__name__, wanted)
    raise AssertionError
