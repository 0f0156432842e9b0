"""What every format ends in: the data set, with its target typed and its gaps filled."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmkl.streaming.sparse import SparseRows

FEW_VALUES = 20  # whole numbers with at most so many values might have been meant as classes


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A table of examples in the order of the file, ready for a learner.

    Attributes:
      X: (n, D) float32 or float64, finite; :class:`~jaxmkl.streaming.SparseRows` if read so.
      y: (n,). Regression: the targets, in the dtype of ``X``. Classification: -1 and +1, in the
        dtype of ``X``. Multiclass: int16 codes 0, 1, ... into ``classes``.
      task: "regression", "classification" (two classes) or "multiclass".
      feature_names: D names; a category of a text column is named ``column=value``.
      classes: the labels as they stood in the file: (negative, positive) for two classes, in
        the order of their codes for more, () for regression.
      notes: what was decided, filled in, encoded or left out, one sentence each.
      target: the name of the target.
    """

    X: Any
    y: np.ndarray
    task: str
    feature_names: tuple[str, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    target: str


def finish(
    path: str,
    X: np.ndarray | SparseRows,
    names: Sequence[str],
    values: np.ndarray,
    spelled: Sequence[Any] | np.ndarray,
    target: str,
    where: str,
    task: str | None,
    notes: list[str],
    encoding: Sequence[str] = (),
) -> Dataset:
    """Make a data set of features (NaN where missing, sparse ones complete) and all targets.

    ``values`` are the targets as finite float64 or as text, ``spelled`` the same as they stood in
    the file, ``where`` names the target in errors, ``encoding`` are notes that follow its own.
    """
    y, task, classes = _typed_target(where, values, spelled, task, notes)
    notes.extend(encoding)
    if not isinstance(X, SparseRows):
        X, names = _filled(path, X, names, notes)
    if not names:
        raise ValueError(f"{path}: has no features")
    constant = np.flatnonzero(_is_constant(X)).tolist()
    if constant:
        notes.append(f"constant, and kept: {shown([names[index] for index in constant])}")
    with np.errstate(over="ignore"):  # looked at next
        y = y if task == "multiclass" else y.astype(X.dtype)
    if not np.isfinite(y).all():
        raise ValueError(f"{where}: the target has values beyond the range of {X.dtype}")
    return Dataset(X, y, task, tuple(names), classes, tuple(notes), target)


def _typed_target(
    where: str,
    values: np.ndarray,
    spelled: Sequence[Any] | np.ndarray,
    task: str | None,
    notes: list[str],
) -> tuple[np.ndarray, str, tuple[str, ...]]:
    is_text = values.dtype.kind == "U"
    distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
    if len(distinct) == 0:
        raise ValueError(f"{where}: no row has a target")
    if len(distinct) == 1:
        raise ValueError(
            f"{where}: the target is {str(spelled[0])!r} in every row; nothing to learn"
        )
    guessed = task is None
    if task is None:
        task = "classification" if len(distinct) == 2 else "regression"
        task = "multiclass" if is_text and len(distinct) > 2 else task
    if task == "regression":
        if is_text:
            raise ValueError(
                f"{where}: regression needs numbers; got text, e.g. {str(spelled[0])!r}"
            )
        if guessed and len(distinct) <= FEW_VALUES and (distinct == np.rint(distinct)).all():
            notes.append(
                f"the target has {len(distinct)} distinct whole numbers and is read as "
                "regression; task='multiclass' reads them as classes"
            )
        return values, task, ()
    classes = tuple(str(spelled[index]) for index in first.tolist())
    if task == "multiclass":
        if len(distinct) > np.iinfo(np.int16).max:
            raise ValueError(f"{where}: {len(distinct)} distinct values are too many classes")
        return codes.astype(np.int16), task, classes
    if len(distinct) > 2:
        raise ValueError(
            f"{where}: classification needs two distinct values; got {len(distinct)}: "
            f"{shown(classes)}"
        )
    if is_text or distinct.tolist() != [-1.0, 1.0]:
        notes.append(f"the target has two values: {classes[0]!r} is -1 and {classes[1]!r} is +1")
    return np.where(codes == 1, 1.0, -1.0), task, classes


def _filled(
    path: str, X: np.ndarray, names: Sequence[str], notes: list[str]
) -> tuple[np.ndarray, Sequence[str]]:
    """Replace NaN by medians and drop columns without any value."""
    missing = np.isnan(X).sum(axis=0)
    empty = missing == len(X)
    if empty.any():
        lost = [name for name, gone in zip(names, empty, strict=True) if gone]
        names = [name for name, gone in zip(names, empty, strict=True) if not gone]
        X, missing = X[:, ~empty], missing[~empty]
        notes.append(f"dropped for having no value at all: {shown(lost)}")
    for index in np.flatnonzero(missing).tolist():
        column = X[:, index]
        gaps = np.isnan(column)
        # halves, or the mean of the two middle values could overflow
        column[gaps] = median = 2 * np.median(column[~gaps] / 2)
        cells = "cell" if missing[index] == 1 else "cells"
        notes.append(
            f"column {names[index]!r}: {missing[index]} missing {cells} replaced by the median "
            f"{median!s}"
        )
    return X, names


def _is_constant(X: np.ndarray | SparseRows) -> np.ndarray:
    """Return which columns (D,) hold one value alone."""
    if not isinstance(X, SparseRows):
        return X.min(axis=0) == X.max(axis=0)
    stored = X.indices < X.num_columns
    columns, values = X.indices[stored], X.values[stored]
    # columns with an entry in every row; the others hold zeros too
    full = np.bincount(columns, minlength=X.num_columns) == len(X)
    low, high = np.where(full, [[np.inf], [-np.inf]], 0.0)
    np.minimum.at(low, columns, values)
    np.maximum.at(high, columns, values)
    return low == high


def as_float(what: str, values: np.ndarray) -> np.ndarray:
    """Real numbers as float32, if they are single or half, else as float64."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers; got the dtype {values.dtype}")
    is_single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if is_single else np.float64, copy=False)


def shown(values: Sequence[Any], most: int = 5) -> str:
    """The first values, for messages."""
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


def note_dropped(notes: list[str], lost: Sequence[int], what: str) -> None:
    """Note which rows were left out, by their line or index."""
    if lost:
        rows = "row" if len(lost) == 1 else "rows"
        notes.append(f"{len(lost)} {rows} without a target dropped ({what} {shown(lost)})")
