"""Readers, labels and scaling: from a file on disk to the arrays a learner takes.

Everything here works in NumPy on the host. :func:`read` takes CSV, LIBSVM text and npz files and
says in :attr:`Dataset.notes` what it decided, filled in, encoded or left out; what it cannot read
without guessing it refuses with an error that names the file, the line and the column.
"""

import csv
import dataclasses
import itertools
import os
import re
import zipfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from jaxmkl.sparse import SparseRows

__all__ = ["Dataset", "labels", "read", "scale", "with_tasks"]

TASKS = ("regression", "classification", "multiclass")
MISSING = frozenset({"", "na", "n/a", "nan", "?", "null"})  # compared without regard to case
TARGET_NAMES = ("target", "y", "label", "class")  # in this order, without regard to case
MAX_CATEGORIES = 100
MAX_DENSE_BYTES = 4 * 2**30
MOSTLY = 0.9  # a column with a larger share of numbers is a numeric one with a slip in it
FEW_VALUES = 20  # whole numbers with at most so many values might have been meant as classes
ROWS_AT_ONCE = 8192


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A table of examples in the order of the file, ready for a learner.

    Attributes:
      X: (n, D) float32 or float64, finite; :class:`~jaxmkl.SparseRows` if read so.
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


def read(
    path: str | os.PathLike[str],
    target: str | None = None,
    task: str | None = None,
    *,
    sparse: bool = False,
) -> Dataset:
    """Read a data set from a CSV, LIBSVM text or npz file; the content decides which.

    CSV: a header, then one example a line; cells parted by comma, semicolon or tab, quoted where
    they must be. A column of text becomes one 0/1 feature for each of its values. A missing cell
    (empty, ``NA``, ``N/A``, ``NaN``, ``?``, ``null``) becomes the column's median, or a category
    ``column=?`` of its own in a column of text; a row without a target is dropped.

    LIBSVM: ``label index:value index:value ... # comment``, indices increasing and from 1, or
    from 0 if one of them is 0. What a row does not name is zero.

    npz: ``X`` (n, D), or the parts ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix,
    which is made dense unless ``sparse``; and ``y`` (n,). Other keys are ignored, but ``target``
    may name one. NaN counts as missing. An int16 target with the values 0, 1, ..., K - 1 (K > 2)
    is multiclass.

    CSV and LIBSVM files are read as float64; an npz file's float32 or float64 is kept and other
    numbers become float64.

    Args:
      path: the file.
      target: the column of a CSV file, or the key of an npz file, to be predicted. By default
        the CSV column named target, y, label or class, else the last one, and the key "y".
      task: "regression", "classification" or "multiclass". By default a target with two
        distinct values, numbers or text, is classification (the smaller one is -1), other
        numbers are regression, other text is multiclass.
      sparse: keep the features of a LIBSVM file, or of an npz file's CSR matrix, as
        :class:`~jaxmkl.SparseRows`, which the drivers take. No entry may be missing then.

    Returns:
      The :class:`Dataset`.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file cannot be read without guessing, the target does not exist or has
        one value only, or the task does not fit it; or ``sparse`` for a file that is not.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "plants.csv")
    >>> _ = path.write_text("height,colour,class\\n1.5,red,yes\\n,blue,no\\n2.5,red,no\\n")
    >>> plants = read(path)
    >>> plants.task, plants.classes, plants.feature_names
    ('classification', ('no', 'yes'), ('height', 'colour=blue', 'colour=red'))
    >>> plants.X
    array([[1.5, 0. , 1. ],
           [2. , 1. , 0. ],
           [2.5, 0. , 1. ]])
    >>> plants.y
    array([ 1., -1., -1.])
    >>> print(*plants.notes, sep="\\n")
    the target is the column 'class', by its name
    the target has two values: 'no' is -1 and 'yes' is +1
    column 'colour' holds text: one 0/1 feature for each of its 2 values
    column 'height': 1 missing cell replaced by the median 2.0
    >>> folder.cleanup()
    """
    path = os.fspath(path)
    if task is not None and task not in TASKS:
        raise ValueError(f"read: task must be one of {', '.join(TASKS)} or None; got {task!r}")
    if os.path.isdir(path):
        raise ValueError(f"{path}: is a folder; a file is wanted")
    with open(path, "rb") as file:  # raises FileNotFoundError
        start = file.read(2**16)
    if start.startswith(b"PK"):
        return _read_npz(path, target, task, sparse)
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")):
        raise ValueError(f"{path}: is compressed; unpack it first")
    extension = os.path.splitext(path)[1].lower()
    if start.startswith(b"\x93NUMPY") or extension in (".npy", ".npz"):
        raise ValueError(
            f"{path}: is no npz archive; write one with numpy.savez(path, X=features, y=target)"
        )
    if not start.decode("utf-8-sig", errors="replace").strip():
        raise ValueError(f"{path}: is empty")
    if extension in (".libsvm", ".svmlight", ".svm") or _looks_like_libsvm(start):
        return _read_libsvm(path, target, task, sparse)
    if sparse:
        raise _not_sparse(path, "a CSV file")
    return _read_csv(path, target, task)


def labels(y: Any) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Turn two-class labels of any usual kind into -1 and +1.

    Accepts {0, 1}, {-1, 1}, booleans, or two distinct strings, of which the second in sorted
    order is +1. One value alone is accepted where its sign is plain: 1 and True are +1; 0, -1 and
    False are -1.

    Args:
      y: (T,) or (T, 1) numbers, booleans or strings.

    Returns:
      The signs (T,), in the dtype of ``y`` if it is floating and float32 otherwise, and the
      classes (negative, positive) as they were given.

    Raises:
      ValueError: any other labels, NaN among them; the message shows the values given.

    >>> labels([0, 1, 1])
    (array([-1.,  1.,  1.], dtype=float32), (0, 1))
    >>> labels(["spam", "ham"])
    (array([ 1., -1.], dtype=float32), ('ham', 'spam'))
    >>> labels([1, 2, 3])
    Traceback (most recent call last):
    ValueError: labels: y must be {0, 1}, {-1, 1}, booleans or two strings; got the values 1, 2, 3
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"labels: y must have the shape (T,) or (T, 1); got {values.shape}")
    if values.dtype.kind in "OT":
        values = _unboxed(values)
    kind = values.dtype.kind
    negative: Any
    positive: Any
    if kind in "US" and values.size:
        negative = positive = values[0]
        others = values != negative
        if others.any():
            positive = values[np.argmax(others)]
            others &= values != positive
        if positive == negative or others.any():
            raise _unknown_labels(values)
        negative, positive = sorted((negative.item(), positive.item()))
        is_positive = values == positive
    elif kind in "biuf":
        is_positive = values == 1
        is_zero = values == 0
        is_minus = np.zeros_like(is_zero) if kind in "bu" else values == -1
        if not ((is_positive | is_zero).all() or (is_positive | is_minus).all()):
            raise _unknown_labels(values)
        negative, positive = (0, 1) if is_zero.any() else (-1, 1)
        if kind == "b":
            negative, positive = False, True
    else:
        raise _unknown_labels(values)
    dtype = values.dtype if kind == "f" else np.dtype(np.float32)
    return np.where(is_positive, dtype.type(1), dtype.type(-1)), (negative, positive)


def scale(X: Any, how: str) -> np.ndarray:
    r"""Scale a whole data set before a run (the scaled copies of the papers are made this way).

    ===================  ==================================================
    ``"unit_interval"``  every column to [0, 1]: (x - min) / (max - min)
    ``"symmetric"``      every column to [-1, 1]: 2 (x - min) / (max - min) - 1
    ``"standard"``       every column to mean 0 and variance 1 (divisor n)
    ``"unit_rows"``      every row to Euclidean length 1
    ``"largest"``        all divided by the largest absolute entry
    ===================  ==================================================

    A constant column becomes 0 in the first three; a row, or an array, of zeros stays as it is.

    Args:
      X: (n, D) finite numbers, n >= 1.
      how: one of the names above.

    Returns:
      A new (n, D) array; float32 and float64 are kept, float16 becomes float32, and integers
      and booleans become float64.

    Raises:
      ValueError: NaN or an infinite value, a wrong shape or dtype, or an unknown ``how``.

    >>> scale([[1, 5], [2, 5], [3, 5]], "symmetric")
    array([[-1.,  0.],
           [ 0.,  0.],
           [ 1.,  0.]])
    """
    known = ("unit_interval", "symmetric", "standard", "unit_rows", "largest")
    if how not in known:
        raise ValueError(f"scale: how must be one of {', '.join(known)}; got {how!r}")
    X = _as_float("scale: X", np.asarray(X))
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"scale: X must have the shape (n, D) with n, D >= 1; got {X.shape}")
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(f"scale: X must be finite; got X[{row}, {column}] = {X[row, column]}")
    # A power of two first, which loses nothing: then no square, sum or range can overflow, and
    # none of the column's (row's) leading entries can underflow.
    axis = {"unit_rows": 1, "largest": None}.get(how, 0)
    exponents = np.frexp(np.abs(X).max(axis=axis, keepdims=True))[1]
    X = np.ldexp(X, -exponents)
    if how == "largest":
        return _divided(X, np.abs(X).max(keepdims=True))
    if how == "unit_rows":
        return _divided(X, np.sqrt(np.square(X).sum(axis=1, keepdims=True)))
    if how == "standard":
        centred = X - X.mean(axis=0, dtype=np.float64)
        centred -= centred.mean(axis=0)  # the mean above is rounded; this leaves constants at 0
        deviation = np.sqrt(np.square(centred).mean(axis=0))
        return _divided(centred, deviation).astype(X.dtype)
    low, high = X.min(axis=0), X.max(axis=0)
    unit = _divided(X - low, high - low)
    if how == "unit_interval":
        return unit
    return np.where(high > low, 2 * unit - 1, X.dtype.type(0))


# --- the target and the table, whatever the format --------------------------------------------


def with_tasks(task: Any, X: Any) -> Any:
    """The inputs with the task of each example as column 0, for :func:`jaxmkl.multitask`.

    Args:
      task: (n,) whole numbers from 0.
      X: inputs (n, D), dense or :class:`~jaxmkl.SparseRows`.

    Returns:
      (n, 1 + D), of the floating dtype of ``X`` (float32 for whole numbers), sparse if ``X`` is.

    Raises:
      ValueError: for shapes that do not fit, or tasks that are no whole numbers from 0.

    >>> with_tasks([1, 0], [[0.5, 2.0], [0.25, 4.0]])
    array([[1.  , 0.5 , 2.  ],
           [0.  , 0.25, 4.  ]])
    """
    known = np.asarray(task)
    X = X if isinstance(X, SparseRows) else np.asarray(X)
    if X.ndim != 2 or known.shape != (X.shape[0],):
        raise ValueError(
            "with_tasks: task must have shape (n,) and X (n, D); got shapes "
            f"{known.shape} and {X.shape}"
        )
    kind = known.dtype.kind
    whole = kind in "iu" or (kind == "f" and bool((np.round(known) == known).all()))
    if not whole or (known < 0).any():
        raise ValueError(
            f"with_tasks: task must hold whole numbers from 0; got {known.dtype} "
            f"{_shown(np.unique(known).tolist())}"
        )
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float32)
    column = known[:, None].astype(dtype)
    if isinstance(X, SparseRows):
        first = np.zeros((len(known), 1), np.int32)
        indices = np.concatenate([first, np.asarray(X.indices) + 1], axis=1)
        values = np.concatenate([column, np.asarray(X.values).astype(dtype)], axis=1)
        return SparseRows(indices, values, X.num_columns + 1)
    return np.concatenate([column, X.astype(dtype)], axis=1)


def _finish(
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
        notes.append(f"constant, and kept: {_shown([names[index] for index in constant])}")
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
        shown = _shown(classes)
        raise ValueError(
            f"{where}: classification needs two distinct values; got {len(distinct)}: {shown}"
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
        notes.append(f"dropped for having no value at all: {_shown(lost)}")
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


def _from_entries(
    path: str,
    shape: tuple[int, int],
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    sparse: bool,
) -> np.ndarray | SparseRows:
    """Make features of entries sorted by row and column, each of which stands once."""
    if sparse:
        lengths = np.bincount(rows, minlength=shape[0])
        _check_sparse_size(path, shape, int(lengths.max(initial=0)), values.dtype)
        return SparseRows.from_entries(lengths, columns, values, shape[1])
    _check_size(path, shape, values.dtype)
    X = np.zeros(shape, values.dtype)
    X[rows, columns] = values
    return X


def _not_sparse(path: str, given: str) -> ValueError:
    return ValueError(
        f"{path}: sparse must be False but for LIBSVM files and the parts of a CSR matrix in npz "
        f"files; got {given}"
    )


def _check_sparse_size(path: str, shape: tuple[int, int], width: int, dtype: np.dtype) -> None:
    # 64 bytes for the name of a column
    size = shape[0] * width * (dtype.itemsize + 4) + 64 * shape[1]
    if size > MAX_DENSE_BYTES:
        raise ValueError(
            f"{path}: its {shape[0]} x {shape[1]} features would take {size / 2**30:.1f} GiB with "
            f"{width} entries a row, as many as the fullest row has, more than the "
            f"{MAX_DENSE_BYTES / 2**30:g} GiB allowed; take fewer rows or features"
        )


def _check_size(path: str, shape: tuple[int, int], dtype: np.dtype) -> None:
    size = shape[0] * shape[1] * dtype.itemsize
    if size > MAX_DENSE_BYTES:
        raise ValueError(
            f"{path}: as a dense {dtype} array its {shape[0]} x {shape[1]} features would take "
            f"{size / 2**30:.1f} GiB, more than the {MAX_DENSE_BYTES / 2**30:g} GiB allowed; "
            "take fewer rows or features"
        )


def _as_float(what: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers; got the dtype {values.dtype}")
    is_single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return values.astype(np.float32 if is_single else np.float64, copy=False)


def _shown(values: Sequence[Any], most: int = 5) -> str:
    shown = ", ".join(repr(value) for value in values[:most])
    return f"{shown}, ..." if len(values) > most else shown


# --- CSV --------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Column:
    """What the cells of one CSV column were found to be."""

    path: str
    name: str
    numbers: int = 0
    texts: int = 0
    first_text: tuple[int, str] | None = None
    first_infinite: tuple[int, str] | None = None
    distinct: set[str] = dataclasses.field(default_factory=set)
    has_missing: bool = False

    def look(self, lines: Sequence[int], cells: Sequence[str]) -> None:
        """Take note of some more cells of the column."""
        if len(self.distinct) <= MAX_CATEGORIES:
            self.distinct.update(cell for cell in set(cells) if not _is_missing(cell))
        values = _quick_numbers(cells)
        if values is not None:
            self.numbers += len(cells)
            return
        for line, cell in zip(lines, cells, strict=True):
            number = _number(cell)
            if number is None:
                self.texts += 1
                self.first_text = self.first_text or (line, cell)
            elif np.isnan(number):
                self.has_missing = True
            else:
                self.numbers += 1
                if np.isinf(number):
                    self.first_infinite = self.first_infinite or (line, cell)

    def is_text(self) -> bool:
        """Decide what the column is; refuse it where that would be a guess."""
        if self.first_text is None or self.numbers > MOSTLY * (self.numbers + self.texts):
            if self.first_text is not None:
                line, cell = self.first_text
                raise ValueError(f"{self._at(line)}: {cell!r} is not a number, unlike the others")
            if self.first_infinite is not None:
                line, cell = self.first_infinite
                raise ValueError(f"{self._at(line)}: {cell!r} is not finite")
            return False
        values = sorted(self.distinct)
        with_comma = [value for value in values if re.fullmatch(r"[-+]?\d[\d.]*,\d+", value)]
        if with_comma and all(
            value in with_comma or _number(value) is not None for value in values
        ):
            raise ValueError(
                f"{self.path}, column {self.name!r}: numbers with commas, e.g. {with_comma[0]!r}; "
                "write them with a decimal point and nothing between thousands"
            )
        if len(values) > MAX_CATEGORIES:
            line, cell = self.first_text
            raise ValueError(
                f"{self._at(line)}: text ({cell!r}) in a column with more than {MAX_CATEGORIES} "
                "distinct values; drop the column or make it numeric"
            )
        return True

    def _at(self, line: int) -> str:
        return f"{self.path}, line {line}, column {self.name!r}"


def _read_csv(path: str, target: str | None, task: str | None) -> Dataset:
    separator = _separator(path)
    notes: list[str] = []
    names = _header(path, separator, notes)
    index = _target_column(path, names, target, notes)
    dropped: list[int] = []

    # First what every column is, then its values: the text of the file is never all in memory.
    columns = [_Column(path, name) for name in names]
    num_rows = 0
    for lines, rows in _labelled_rows(path, separator, len(names), index, dropped):
        num_rows += len(rows)
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column.look(lines, cells)
    if num_rows + len(dropped) == 0:
        raise ValueError(f"{path}, line 1: a header and no rows below it")
    if dropped:
        notes.append(
            f"{len(dropped)} {'row' if len(dropped) == 1 else 'rows'} without a target dropped "
            f"(line {_shown(dropped)})"
        )

    encoding: list[str] = []
    features: list[str] = []
    codes: list[dict[str, int] | None] = []  # of a text column: its features by value
    for column in columns:
        is_text = column.is_text()
        if column is columns[index]:
            target_is_text = is_text
            codes.append(None)
            continue
        if not is_text:
            codes.append(None)
            features.append(column.name)
            continue
        categories = sorted(column.distinct) + (["?"] if column.has_missing else [])
        codes.append({value: len(features) + code for code, value in enumerate(categories)})
        features.extend(f"{column.name}={value}" for value in categories)
        missing = ", of which ? stands for missing cells" if column.has_missing else ""
        encoding.append(
            f"column {column.name!r} holds text: one 0/1 feature for each of its "
            f"{len(categories)} values{missing}"
        )
    _check_size(path, (num_rows, len(features)), np.dtype(np.float64))
    X = np.zeros((num_rows, len(features)))
    spelled: list[str] = []
    end = 0
    for _, rows in _labelled_rows(path, separator, len(names), index, []):
        start, end = end, end + len(rows)
        feature = 0
        for position, cells in enumerate(zip(*rows, strict=True)):
            code = codes[position]
            if position == index:
                spelled.extend(cells)
            elif code is None:
                X[start:end, feature] = _numbers(cells)
                feature += 1
            else:
                hot = [code["?"] if _is_missing(cell) else code[cell] for cell in cells]
                X[np.arange(start, end), hot] = 1.0
                feature += len(code)
    values = np.array(spelled, dtype=np.str_) if target_is_text else _numbers(spelled)
    where = f"{path}, column {names[index]!r}"
    return _finish(path, X, features, values, spelled, names[index], where, task, notes, encoding)


def _csv_rows(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line at which a row begins (from 1) and its cells; blank lines are passed over."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{path}, line {line}: {error}") from None
            except UnicodeDecodeError:
                raise _not_utf8(path) from None
            if row and (len(row) > 1 or row[0].strip()):
                yield line, [cell.strip() for cell in row]


def _separator(path: str) -> str:
    """Return the separator that parts the header most and the first rows alike."""
    best: tuple[tuple[bool, int], str] | None = None
    trouble: ValueError | None = None
    for separator in ",;\t":
        widths: list[int] = []
        try:
            for _, row in itertools.islice(_csv_rows(path, separator), 50):
                widths.append(len(row))
            alike = len(set(widths)) == 1
        except ValueError as error:  # met again, with its line, when the file is read
            trouble = trouble or error
            alike = False
        if widths and widths[0] > 1:
            candidate = ((alike, widths[0]), separator)
            best = candidate if best is None or candidate[0] > best[0] else best
    if best is not None:
        return best[1]
    raise trouble or ValueError(
        f"{path}, line 1: a header of two or more columns, parted by commas, semicolons or tabs, "
        "is wanted"
    )


def _header(path: str, separator: str, notes: list[str]) -> list[str]:
    line, names = next(_csv_rows(path, separator))
    unnamed = [position for position, name in enumerate(names, 1) if not name]
    for position in unnamed:
        names[position - 1] = f"column_{position}"
        notes.append(f"column {position} has no name and is called 'column_{position}'")
    numbers = [_number(name) for name in names]
    counted = [number for number in numbers if number is not None and np.isfinite(number)]
    whole = all(number == int(number) for number in counted)
    plain = whole and counted in ([*range(len(names))], [*range(1, len(names) + 1)])
    if not whole or (len(counted) == len(names) and not plain):
        raise ValueError(
            f"{path}, line {line}: the first line must name the columns; got {_shown(names)}"
        )
    for position, name in enumerate(names):
        first = names.index(name)
        if first < position:
            raise ValueError(
                f"{path}, line {line}, column {name!r}: the name stands twice, at columns "
                f"{first + 1} and {position + 1}"
            )
    return names


def _target_column(path: str, names: list[str], target: str | None, notes: list[str]) -> int:
    if target is not None:
        if target not in names:
            raise ValueError(
                f"{path}: has no column {target!r}; its columns are {_shown(names, 100)}"
            )
        return names.index(target)
    folded = [name.casefold() for name in names]
    for usual in TARGET_NAMES:
        if usual in folded:
            index = folded.index(usual)
            notes.append(f"the target is the column {names[index]!r}, by its name")
            return index
    notes.append(f"the target is the last column, {names[-1]!r}")
    return len(names) - 1


def _labelled_rows(
    path: str, separator: str, width: int, target: int, dropped: list[int]
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield lines and rows, many at once; rows without a target only leave their line behind."""
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in itertools.islice(_csv_rows(path, separator), 1, None):
        if len(row) != width:
            cells = "cell" if len(row) == 1 else "cells"
            raise ValueError(
                f"{path}, line {line}: {len(row)} {cells} where the header has {width} columns"
            )
        if _is_missing(row[target]):
            dropped.append(line)
            continue
        lines.append(line)
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows


def _is_missing(cell: str) -> bool:
    return cell.casefold() in MISSING


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN for a missing one and None for text."""
    if _is_missing(cell):
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if "_" in cell else value  # Python's 1_000 is no number in a file


def _quick_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """Return the cells as numbers if all are plain finite ones, else None."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return values if np.isfinite(values).all() and "_" not in "".join(cells) else None


def _numbers(cells: Sequence[str]) -> np.ndarray:
    values = _quick_numbers(cells)
    return np.array([_number(cell) for cell in cells], float) if values is None else values


def _not_utf8(path: str) -> ValueError:
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return ValueError(f"{path}, line {number}: is not text in UTF-8")
    return ValueError(f"{path}: is not text in UTF-8")


# --- LIBSVM -----------------------------------------------------------------------------------


def _looks_like_libsvm(start: bytes) -> bool:
    for line in start.decode("utf-8-sig", errors="replace").splitlines():
        label, *pairs = line.partition("#")[0].split() or [""]
        if pairs:
            return all(re.fullmatch(r"(qid|-?\d+):[^,;]+", pair) for pair in pairs)
        if label and _number(label) is None:
            return False
    return False


def _read_libsvm(path: str, target: str | None, task: str | None, sparse: bool) -> Dataset:
    if target is not None:
        raise ValueError(
            f"{path}: target must be None, since the label is what comes first in every line of "
            f"a LIBSVM file; got {target!r}"
        )
    spelled: list[str] = []
    labels_read, data = array("d"), array("d")
    columns, lengths = array("q"), array("q")
    has_qid = False
    try:
        with open(path, encoding="utf-8-sig") as file:
            for line, text in enumerate(file, 1):
                label, *pairs = text.partition("#")[0].split() or [""]
                if not label:
                    continue
                value = _number(label)
                if value is None or not np.isfinite(value):
                    raise ValueError(
                        f"{path}, line {line}: the label {label!r} is not a finite number"
                    )
                if pairs and pairs[0].startswith("qid:"):
                    has_qid = True
                    del pairs[0]
                last = -1
                for pair in pairs:
                    last, entry = _indexed(path, line, pair, last)
                    columns.append(last)
                    data.append(entry)
                spelled.append(label)
                labels_read.append(value)
                lengths.append(len(pairs))
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    if not spelled:
        raise ValueError(f"{path}: holds no example, only comments")
    if not columns:
        raise ValueError(f"{path}: has no features")
    indices = np.array(columns)
    base = 0 if indices.min() == 0 else 1
    num_columns = int(indices.max()) + 1 - base
    notes = [f"features are numbered from {base}"]
    if has_qid:
        notes.append("query numbers (qid) are ignored")
    rows = np.repeat(np.arange(len(spelled)), np.array(lengths))
    shape = (len(spelled), num_columns)
    X = _from_entries(path, shape, rows, indices - base, np.array(data), sparse)
    names = [str(index + base) for index in range(num_columns)]
    where = f"{path}, label"
    return _finish(path, X, names, np.array(labels_read), spelled, "label", where, task, notes)


def _indexed(path: str, line: int, pair: str, last: int) -> tuple[int, float]:
    """Return index and value of ``index:value``, which must follow the index ``last``."""
    index_text, colon, value_text = pair.partition(":")
    if not (colon and re.fullmatch(r"[0-9]{1,18}", index_text)):
        raise ValueError(f"{path}, line {line}: index:value wanted; got {pair!r}")
    index, value = int(index_text), _number(value_text)
    if index <= last:
        problem = "stands twice" if index == last else f"follows {last}; indices must increase"
        raise ValueError(f"{path}, line {line}, column {index}: the index {problem}")
    if value is None or not np.isfinite(value):
        raise ValueError(
            f"{path}, line {line}, column {index}: {value_text!r} is not a finite number"
        )
    return index, value


# --- npz --------------------------------------------------------------------------------------


def _read_npz(path: str, target: str | None, task: str | None, sparse: bool) -> Dataset:
    key = "y" if target is None else target
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            keys = set(archive.files)
            parts = {"X"} if "X" in keys else {"data", "indices", "indptr", "shape"}
            if not parts <= keys:
                raise ValueError(
                    f"{path}: X, or data, indices, indptr and shape, wanted; its keys are "
                    f"{_shown(sorted(keys), 100)}"
                )
            if key not in keys or key in parts:
                raise ValueError(
                    f"{path}: has no target {key!r}; its keys are {_shown(sorted(keys), 100)}"
                )
            arrays = {name: _loaded(path, archive, name) for name in (*parts, key)}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise ValueError(f"{path}: is damaged or no npz archive ({error})") from error
    y = arrays.pop(key)
    if sparse and "X" in arrays:
        raise _not_sparse(path, "an npz file with a dense X")
    X: Any = arrays["X"] if "X" in arrays else _from_csr(path, sparse=sparse, **arrays)
    if X.ndim != 2:
        raise ValueError(f"{path}: X must have the shape (n, D); got {X.shape}")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != X.shape[:1]:
        raise ValueError(
            f"{path}: {key} must have the shape ({len(X)},), one target a row of X; got {y.shape}"
        )
    if not sparse:
        X = _as_float(f"{path}: X", X)
        _refuse_infinite(path, "X", X)
    notes: list[str] = []
    where = f"{path}, {key}"
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        values = np.char.strip(y)
        spelled = values
        given = ~np.isin(np.char.lower(values), list(MISSING))
    else:
        values = _as_float(where, y).astype(np.float64)
        _refuse_infinite(path, key, values)
        given = ~np.isnan(values)
        spelled = y
        codes = np.unique(y) if task is None and y.dtype == np.int16 else y[:0]
        if len(codes) > 2 and np.array_equal(codes, np.arange(len(codes))):
            task = "multiclass"
            notes.append(f"the target's int16 codes 0 to {len(codes) - 1} are read as classes")
    if not given.all():
        lost = np.flatnonzero(~given).tolist()
        notes.append(
            f"{len(lost)} {'row' if len(lost) == 1 else 'rows'} without a target dropped "
            f"(index {_shown(lost)})"
        )
        X = jax.tree.map(lambda part: part[given], X)
        values, spelled = values[given], spelled[given]
    names = [f"x{index}" for index in range(X.shape[1])]
    return _finish(path, X, names, values, spelled, key, where, task, notes)


def _loaded(path: str, archive: Any, name: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:  # an array of Python objects, which would run code
        raise ValueError(f"{path}: {name} cannot be read: {error}") from None


def _from_csr(
    path: str,
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: np.ndarray,
    sparse: bool,
) -> np.ndarray | SparseRows:
    whole = all(part.dtype.kind in "iu" for part in (indices, indptr, shape))
    if not whole or shape.shape != (2,) or shape.min() < 0:
        raise ValueError(f"{path}: shape must be two whole numbers; got {shape!r}")
    num_rows, num_columns = (int(size) for size in shape)
    ends = indptr.astype(np.int64)
    columns = indices.astype(np.int64)
    if not (
        ends.shape == (num_rows + 1,)
        and ends[0] == 0
        and (np.diff(ends) >= 0).all()
        and data.ndim == 1
        and data.shape == columns.shape == (ends[-1],)
    ):
        raise ValueError(
            f"{path}: data {data.shape}, indices {indices.shape} and indptr {indptr.shape} are "
            f"not the parts of a CSR matrix of shape {num_rows} x {num_columns}"
        )
    if columns.size and not 0 <= columns.min() <= columns.max() < num_columns:
        raise ValueError(
            f"{path}: indices must lie in 0 .. {num_columns - 1}; got {columns.min()} .. "
            f"{columns.max()}"
        )
    values = _as_float(f"{path}: data", data)
    rows = np.repeat(np.arange(num_rows), np.diff(ends))
    order = np.lexsort((columns, rows))
    columns, values = columns[order], values[order]
    twice = np.flatnonzero((np.diff(rows) == 0) & (np.diff(columns) == 0))
    if len(twice):
        at = twice[0]
        raise ValueError(f"{path}: the entry [{rows[at]}, {columns[at]}] stands twice")
    if sparse and not np.isfinite(values).all():
        at = np.flatnonzero(~np.isfinite(values))[0]
        raise ValueError(f"{path}: X[{rows[at]}, {columns[at]}] = {values[at]} is not finite")
    return _from_entries(path, (num_rows, num_columns), rows, columns, values, sparse)


def _refuse_infinite(path: str, name: str, values: np.ndarray) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        at = tuple(np.argwhere(infinite)[0].tolist())
        index = ", ".join(map(str, at))
        raise ValueError(f"{path}: {name}[{index}] = {values[at]} is not finite")


# --- labels and scaling -----------------------------------------------------------------------


def _unboxed(values: np.ndarray) -> np.ndarray:
    """Return Python objects as an array of strings, booleans or numbers, if all are of a kind."""
    items = [item.item() if isinstance(item, np.generic) else item for item in values.tolist()]
    if all(isinstance(item, str) for item in items):
        return np.array(items, dtype=np.str_)
    if all(isinstance(item, bool) for item in items):
        return np.array(items, dtype=np.bool_)
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        return np.array(items)
    raise _unknown_labels(values)


def _unknown_labels(values: np.ndarray) -> ValueError:
    distinct = list(dict.fromkeys(map(repr, values.tolist())))  # repr: NaN equals NaN
    shown = ", ".join(distinct[:5]) + (", ..." if len(distinct) > 5 else "")
    return ValueError(
        "labels: y must be {0, 1}, {-1, 1}, booleans or two strings; "
        f"got the {'value' if len(distinct) == 1 else 'values'} {shown}"
    )


def _divided(X: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Return X / divisor in the dtype of X, and 0 where the divisor is 0."""
    quotient = np.zeros_like(X)
    np.divide(X, divisor, out=quotient, where=divisor > 0, casting="same_kind")
    return quotient
