"""Labels of two classes as -1 and +1: read on the host, or inside a trace."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import refuse_unless


def labels(y: Any) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Turn two-class labels of any usual kind into -1 and +1.

    Numbers above 0 are +1: of two values one must be above 0 and one not ({0, 1}, {-1, 1},
    booleans, {0, 5}), a single one must be 1, 0, -1 or a boolean. Of two strings the second in
    sorted order is +1. {1, 2} is refused: it would be one class inside a trace.

    Args:
      y: (T,) or (T, 1) numbers, booleans or strings.

    Returns:
      The signs (T,), in the dtype of ``y`` if it is floating and float32 otherwise, and the
      classes (negative, positive) as they were given.

    Raises:
      ValueError: any other labels, NaN among them; the message shows the values given.

    >>> labels(["spam", "ham"])
    (array([ 1., -1.], dtype=float32), ('ham', 'spam'))
    >>> labels([1, 2])
    Traceback (most recent call last):
    ValueError: labels: y must be {0, 1}, {-1, 1}, booleans or two strings; got the values 1, 2 \
    (numbers are read by their sign: pass y == 2)
    """
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    text = f"labels: y must have the shape (T,) or (T, 1); got {values.shape}"
    refuse_unless(values.ndim == 1, text)
    values = _unboxed(values) if values.dtype.kind in "OT" else values
    kind = values.dtype.kind
    distinct = np.unique(values).tolist() if kind in "USiuf" else []
    classes: tuple
    if kind == "b":
        classes = False, True
    elif len(distinct) == 2 and (kind in "US" or distinct[0] <= 0 < distinct[1]):
        classes = tuple(distinct)
    elif kind in "iuf" and len(distinct) < 2 and set(distinct) <= {-1, 0, 1}:
        classes = (0, 1) if 0 in distinct else (-1, 1)
    else:
        shown = list(dict.fromkeys(map(repr, values.tolist())))  # repr: NaN equals NaN
        text = ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")
        if len(shown) == 2 and kind in "iuf" and not np.isnan(values).any():
            text += f" (numbers are read by their sign: pass y == {values.max()})"
        text = ("value " if len(shown) == 1 else "values ") + text
        wanted = "{0, 1}, {-1, 1}, booleans or two strings"
        raise ValueError(f"labels: y must be {wanted}; got the {text}")
    dtype = values.dtype if kind == "f" else np.dtype(np.float32)
    return np.where(values == classes[1], dtype.type(1), dtype.type(-1)), classes


def signs(y: Any) -> jax.Array:
    """The same inside a trace, of numbers or booleans of any shape: +1 above 0, else -1, or NaN.

    In the dtype of ``y`` if it is floating, else in JAX's default one.

    >>> jax.jit(signs)(jax.numpy.array([True, False]))
    Array([ 1., -1.], dtype=float32)
    """
    y = jnp.asarray(y)
    y = y.astype(jnp.result_type(y, float))
    return jnp.where(jnp.isnan(y), y, jnp.where(y > 0, jnp.ones_like(y), -jnp.ones_like(y)))


def _unboxed(values: np.ndarray) -> np.ndarray:
    """Python objects as an array of strings, booleans or numbers, where all are of a kind."""
    items = [item.item() if isinstance(item, np.generic) else item for item in values.tolist()]
    found = {type(item) for item in items}
    for kind, dtype in (({str}, np.str_), ({bool}, np.bool_), ({int, float}, None)):
        if found <= kind:
            return np.array(items, dtype)
    return values
