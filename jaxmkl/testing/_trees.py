"""Comparison of trees of arrays, and the base of checks."""

import contextlib
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl._checks import leaves_by_name
from jaxmkl._types import PyTree


@dataclasses.dataclass
class Check:
    """Base of checks of a ``subject``; the name of its class begins all messages."""

    subject: Any
    tolerance: float

    def require(self, condition: object, text: str) -> None:
        """Raise an ``AssertionError`` with this sentence unless the condition holds."""
        if not condition:
            raise AssertionError(f"{type(self.subject).__name__}: {text}")

    def equal(self, one: PyTree, other: PyTree, text: str, tolerance: float | None = None) -> None:
        """Raise with this sentence unless two trees are equal, bit for bit without a tolerance."""
        left, right = leaves_by_name(one, prefix=""), jax.tree.leaves(other)
        self.require(len(left) == len(right), f"{text}; {len(left)} arrays are {len(right)}")
        for (path, leaf), against in zip(left.items(), right, strict=True):
            a, b = numbers(leaf), numbers(against)
            same, floating = a.shape == b.shape and a.dtype == b.dtype, a.dtype.kind == "f"
            if same and tolerance is not None and floating:
                same = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
            elif same:
                same = np.array_equal(a, b, equal_nan=floating)
            if not same:
                place = f"{path} is" if path else "got"
                self.require(False, f"{text}; {place} {difference(a, b)}")


def numbers(leaf: ArrayLike) -> np.ndarray:
    """The leaf as a NumPy array; keys become their data."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """A text on two arrays: all values if few, else the largest difference and their number."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return " and ".join(f"{array.dtype} of shape {array.shape}" for array in (one, other))
    if one.size <= 4:
        both = (np.array2string(a, precision=17, separator=", ") for a in (one, other))
        return " and ".join(both)
    unequal = (one != other) & ((one == one) | (other == other))  # NaN equals NaN
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
    distance = np.where(unequal, np.nan_to_num(distance, nan=np.inf), -1.0)
    place = np.unravel_index(np.argmax(distance), one.shape)
    where = ", ".join(map(str, place))
    shown = f"{one[place]} and {other[place]} at [{where}], where they differ most"
    return f"{shown}; they differ in {int(unequal.sum())} of {one.size} numbers"


def types(tree: PyTree) -> dict[str, tuple]:
    """Shape, dtype and weakness of the type of each leaf, by its name."""
    named = leaves_by_name(tree, prefix="").items()
    return {name: (leaf.shape, leaf.dtype, bool(leaf.weak_type)) for name, leaf in named}


def join(parts: list) -> PyTree:
    """Stack the leaves of trees along a new leading axis."""
    return jax.tree.map(lambda *leaves: np.stack([numbers(leaf) for leaf in leaves]), *parts)


def is_frozen(value: Any) -> bool:
    """True if attributes cannot be set."""
    with contextlib.suppress(AttributeError):
        value.probe_of_check = 0
        del value.probe_of_check
        return False
    return True
