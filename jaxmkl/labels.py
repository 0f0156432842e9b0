"""Labels as numbers, on the host or in a trace: two classes are -1 and +1, K are 0 to K - 1."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl._checks import as_array, refuse_masked, refuse_tracers, refuse_unless

Labels = np.ndarray | jax.Array | Sequence


def labels(y: Labels, classes: Sequence[Any] | None = None) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Convert two-class labels of any usual kind to -1 and +1.

    Numbers above 0 are +1: if there are two values, one must be above 0 and one not ({0, 1},
    {-1, 1}, booleans, {0, 5}); a single value must be 1, 0, -1 or a boolean. Of two strings, the
    second in sorted order is +1. {1, 2} is refused, as both would be one class inside a trace.

    Args:
      y: (T,) or (T, 1) numbers, booleans or strings.
      classes: the two classes (negative, positive), any two values, if they are known: every
        label must be one of them. They are needed if parts of a stream are read one by one, or
        the same word could be -1 in one part and +1 in the next.

    Returns:
      The signs (T,), in the dtype of ``y`` if it is floating and float32 otherwise, and the
      classes (negative, positive) as they were given.

    Raises:
      ValueError: if labels are of another kind or NaN, or not of the ``classes``; the message
        shows the values given.

    >>> labels(["spam", "ham"])
    (array([ 1., -1.], dtype=float32), ('ham', 'spam'))
    >>> labels(["ham", "ham"], classes=("ham", "spam"))[0]
    array([-1., -1.], dtype=float32)
    >>> labels([1, 2])
    Traceback (most recent call last):
    ValueError: labels: y must be {0, 1}, {-1, 1}, booleans or two strings; got the values 1, 2 \
    (numbers are read by their sign: pass y == 2)
    """
    values = _column("labels", y)
    kind = values.dtype.kind
    dtype = values.dtype if kind == "f" else np.dtype(np.float32)
    if classes is not None:
        found, classes = _numbered("labels", values, classes, 2)
        return (2.0 * found - 1.0).astype(dtype), classes
    distinct = np.unique(values).tolist() if kind in "USiuf" else []
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
        elif kind == "f" and np.isfinite(values).all() and np.any(values % 1):
            text += " (for regression take a learner such as jaxmkl.raker())"
        elif len(shown) == 1 and kind in "US":
            text += f" (one word alone: pass y == {shown[0]})"
        text = ("value " if len(shown) == 1 else "values ") + text
        wanted = "{0, 1}, {-1, 1}, booleans or two strings"
        raise ValueError(f"labels: y must be {wanted}; got the {text}")
    return np.where(values == classes[1], dtype.type(1), dtype.type(-1)), classes


def class_numbers(
    y: Labels, num_classes: int, classes: Sequence[Any] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Convert labels of K classes to whole numbers from 0 to K - 1.

    Such numbers are kept; K different strings are numbered in sorted order. Other numbers are
    refused, as inside a trace they would not be classes. ``np.unique(y, return_inverse=True)[1]``
    converts any labels to such numbers.

    Args:
      y: (T,) or (T, 1) numbers, booleans or strings.
      num_classes: K.
      classes: the K classes in the order of their numbers, any values, as for :func:`labels`.

    Returns:
      The numbers (T,), float32, and the classes (K,) as they were given.

    Raises:
      ValueError: if labels are of another kind or NaN, strings are not of K classes, or labels
        are not of the ``classes``.

    >>> class_numbers(["oak", "ash", "elm", "ash"], 3)
    (array([2., 0., 1., 0.], dtype=float32), ('ash', 'elm', 'oak'))
    """
    values = _column("class_numbers", y)
    if classes is not None:
        return _numbered("class_numbers", values, classes, num_classes)
    if values.dtype.kind in "US":
        distinct = np.unique(values).tolist()
        text = f"class_numbers: y must be of {num_classes} classes; got {len(distinct)}: "
        text += f"{distinct[:5]}"
        refuse_unless(len(distinct) == num_classes, text)
        return np.searchsorted(distinct, values).astype(np.float32), tuple(distinct)
    text = f"class_numbers: y must be whole numbers from 0 to {num_classes - 1}, or strings; got"
    known = values.dtype.kind in "biuf"
    refuse_unless(known, f"{text} the dtype {values.dtype}")
    wrong = values[~np.isin(values, np.arange(num_classes))].tolist()
    shown = list(dict.fromkeys(map(repr, wrong)))[:5]
    refuse_unless(not wrong, f"{text} {', '.join(shown)} (see np.unique, return_inverse=True)")
    return values.astype(np.float32), tuple(range(num_classes))


def _numbered(
    owner: str, values: np.ndarray, classes: Sequence[Any], num_classes: int
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The place of each value (T,) among the classes, float32, and the classes."""
    known, items = np.atleast_1d(np.asarray(classes, object)).tolist(), values.tolist()
    places = {one: place for place, one in enumerate(known) if isinstance(one, Hashable)}
    odd = " that can be hashed" * any(not isinstance(one, Hashable) for one in known)
    text = f"{owner}: classes must be {num_classes} different values{odd}; got {known}"
    refuse_unless(len(places) == len(known) == num_classes, text)
    wrong = (one for one in items if not isinstance(one, Hashable) or one not in places)
    unknown = list(dict.fromkeys(map(repr, wrong)))
    text = f"{owner}: y must be of the classes {', '.join(map(repr, known))}; got "
    refuse_unless(not unknown, text + ", ".join(unknown[:5]))
    return np.array([places[item] for item in items], np.float32), tuple(known)


def are_words(y: Any) -> bool:
    """Tell if labels on the host are words or unknown objects, not numbers or booleans."""
    if isinstance(y, jax.Array):
        return False
    y = np.asarray(y)
    if y.dtype.kind == "O":
        y = unboxed(y[given(y)])
    return y.dtype.kind in "OSTU"


def given(y: np.ndarray) -> np.ndarray:
    """The mask of the labels that are not NaN, nor None or pandas' NA among Python objects."""
    if y.dtype.kind == "O":
        # NaN is not equal to itself, and of NA it is not known
        same = (label is not None and label == label for label in y.ravel())
        there = [isinstance(known, bool | np.bool_) and bool(known) for known in same]
        return np.array(there, bool).reshape(y.shape)
    return ~np.isnan(y) if jnp.issubdtype(y.dtype, jnp.floating) else np.ones(y.shape, bool)


def where_known(
    read: Callable[[np.ndarray], np.ndarray], y: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """Apply ``read`` to the known labels, by default those :func:`given`; the others are NaN.

    All arrays have the same shape, and ``read`` gets the known labels as an array (n,).

    >>> where_known(lambda known: labels(known)[0], np.array([0.0, np.nan, 1.0]))
    array([-1., nan,  1.])
    """
    known = given(y) if known is None else known
    if known.all():
        return read(y.ravel()).reshape(y.shape)
    found = read(y[known]) if known.any() else np.zeros(0, np.float32)
    filled = np.full(y.shape, np.nan, found.dtype)
    filled[known] = found
    return filled


def floats(y: np.ndarray) -> np.ndarray:
    """Python objects as floats, NaN for missing ones; unchanged if some are no numbers."""

    def read(known: np.ndarray) -> np.ndarray:
        found = unboxed(known)
        return found.astype(float) if found.dtype.kind in "biuf" else known

    return where_known(read, y) if y.dtype.kind == "O" else y


def signs(y: ArrayLike) -> jax.Array:
    """Signs of numbers or booleans of any shape, also in a trace: +1 above 0, NaN if NaN, else -1.

    Their dtype is that of ``y`` if it is floating, else JAX's default one.

    >>> jax.jit(signs)(jax.numpy.array([True, False]))
    Array([ 1., -1.], dtype=float32)
    """
    y = as_array("y", y)
    y = y.astype(jnp.result_type(y, float))
    return jnp.where(jnp.isnan(y), y, jnp.where(y > 0, jnp.ones_like(y), -jnp.ones_like(y)))


def one_vs_rest(y: ArrayLike, num_classes: int) -> jax.Array:
    """Classes 0 to K - 1 (...) as K labels each (..., K): +1 for the class, -1 for the others.

    Numbers that are not classes become NaN. The dtype is that of ``y`` if it is floating, else
    JAX's default one.

    >>> one_vs_rest(jax.numpy.array([1.0, 3.0]), 3)
    Array([[-1.,  1., -1.],
           [nan, nan, nan]], dtype=float32)
    """
    y = as_array("y", y)
    y = y.astype(jnp.result_type(y, float))
    classes = jnp.arange(num_classes, dtype=y.dtype).reshape((1,) * y.ndim + (num_classes,))
    found = y[..., None] == classes
    signs = jnp.where(found, jnp.ones_like(classes), -jnp.ones_like(classes))
    return jnp.where(jnp.any(found, axis=-1, keepdims=True), signs, jnp.nan)


def _column(owner: str, y: Labels) -> np.ndarray:
    """Labels as an array (T,); Python objects become strings, booleans or numbers."""
    refuse_tracers(owner, "y", y, " (inside, jaxmkl.labels.signs reads two classes)")
    refuse_masked("y", y)
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    text = f"{owner}: y must have the shape (T,) or (T, 1); got {values.shape}"
    refuse_unless(values.ndim == 1, text)
    if jnp.issubdtype(values.dtype, jnp.floating) and values.dtype.kind != "f":
        return values.astype(np.float32)  # bfloat16, which is no dtype of NumPy
    return unboxed(values) if values.dtype.kind in "OT" else values


def unboxed(values: np.ndarray) -> np.ndarray:
    """Python objects as an array of strings, booleans or numbers, if all are of one kind."""
    items = [item.item() if isinstance(item, np.generic) else item for item in values.tolist()]
    found = {type(item) for item in items}
    for kind, dtype in (({str}, np.str_), ({bool}, np.bool_), ({int, float}, None)):
        if found <= kind:
            return np.array(items, dtype)
    return values
