"""Comparing trees of arrays, and refusing what is not as it must be."""

import contextlib
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import leaves_by_name


@dataclasses.dataclass
class Check:
    """What is checked, by whose class's name all sentences begin; tolerance of what is equal."""

    subject: Any
    tolerance: float

    def require(self, condition: Any, text: str) -> None:
        """Raise with the name and this sentence."""
        if not condition:
            raise AssertionError(f"{type(self.subject).__name__}: {text}")

    def equal(self, one: Any, other: Any, text: str, tolerance: float | None = None) -> None:
        """Raise with this sentence unless two trees are equal; without a tolerance bit for bit."""
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


def numbers(leaf: Any) -> np.ndarray:
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """Both arrays where they are small, else where they differ most, and in how many places."""
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


def types(tree: Any) -> dict[str, tuple]:
    """Shape, dtype, and whether the type is weak, of each leaf by its name."""
    named = leaves_by_name(tree, prefix="").items()
    return {name: (leaf.shape, leaf.dtype, bool(leaf.weak_type)) for name, leaf in named}


def join(parts: list) -> Any:
    """Trees (T', ...) behind one another, or numbers beside one another."""
    return jax.tree.map(lambda *leaves: np.stack([numbers(leaf) for leaf in leaves]), *parts)


def is_frozen(value: Any) -> bool:
    with contextlib.suppress(AttributeError):
        value.probe_of_check = 0
        del value.probe_of_check
        return False
    return True
