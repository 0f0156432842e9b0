"""Reading a whole table, whatever its format."""

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from jaxmkl._checks import shown
from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._polars import needs_polars
from jaxmkl.tables._read_arrays import holds_arrays, read_arrays
from jaxmkl.tables._table import NOT_SPARSE, Dataset, check_size, note_dropped

TASKS = ("regression", "classification", "multiclass")


def read(
    source: Any,
    target: str | None = None,
    task: str | None = None,
    *,
    sparse: bool = False,
    drop: Collection[str] = (),
    as_: Mapping[str, str] | None = None,
) -> Dataset:
    """Read a data set from a file, whose content decides what it is, or from a DataFrame.

    Tables (CSV, NDJSON, Parquet, Arrow, DataFrames; see :func:`open_table`): what each column
    becomes is decided on all rows, see :meth:`Columns.decide`. A missing cell (empty, ``NA``,
    ``N/A``, ``NaN``, ``?``, ``null``) in a column of numbers becomes the mean of those in the rows
    before; a row without a target is dropped.

    LIBSVM: ``label index:value index:value ... # comment``, indices increasing and from 1, or
    from 0 if one of them is 0. What a row does not name is zero.

    npz: ``X`` (n, D), or the parts ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix,
    made dense unless ``sparse``; and the target (n,). Other keys are ignored; NaN counts as
    missing, and becomes the median. An int16 target with the values 0, 1, ..., K - 1 (K > 2) is
    multiclass.

    Features become float64, but the float16 and float32 of an npz file float32.

    Args:
      source: the path of a file, "-" for standard input, or a DataFrame.
      target: the column of a table, or the key of an npz file, to be predicted. By default the
        column named target, y, label or class, else the last one, and the key "y".
      task: "regression", "classification" or "multiclass". By default a target with two
        distinct values, numbers or text, is classification (the smaller one is -1), other
        numbers are regression, other text is multiclass.
      sparse: keep the features of a LIBSVM file, or of an npz file's CSR matrix, as
        :class:`jaxmkl.streaming.SparseRows`, which the drivers take; none may be missing then.
      drop, as_: for tables, as for :meth:`Columns.decide`.

    Returns:
      The :class:`Dataset`.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file cannot be read without guessing, the target does not exist or has
        one value only, or the task does not fit it; or ``sparse`` for a file that is not.
      ImportError: a table, where polars (the extra ``cli``) is not installed.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "plants.csv")
    >>> _ = path.write_text("height,colour,class\\n1.5,red,yes\\n,blue,no\\n2.5,red,no\\n")
    >>> plants = read(path)
    >>> plants.task, plants.classes
    ('classification', ('no', 'yes'))
    >>> plants.feature_names
    ('height', 'height is missing', 'colour=blue', 'colour=red')
    >>> plants.X
    array([[1.5, 0. , 0. , 1. ],
           [1.5, 1. , 1. , 0. ],
           [2.5, 0. , 0. , 1. ]])
    >>> print(*plants.notes, sep="\\n")
    the target is the column 'class', by its name
    the target has two values: 'no' is -1 and 'yes' is +1
    column 'height': numbers, missing cells become the mean so far, a feature tells which
    column 'colour' holds words: one 0/1 feature for each of its 2 values; others are all zeros
    >>> folder.cleanup()
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"read: task must be one of {', '.join(TASKS)} or None; got {task!r}")
    with contextlib.ExitStack() as closing:
        is_file, table = isinstance(source, str | os.PathLike), None
        if is_file:
            file = closing.enter_context(Bytes(source))
            if holds_arrays(file, os.path.splitext(os.fspath(source))[1].lower()):
                return read_arrays(file, source, target, task, sparse)
        if sparse:
            raise ValueError(f"{file.name if is_file else 'DataFrame'}: {NOT_SPARSE}; got a table")
        with needs_polars():
            from jaxmkl.tables.source import ROWS, joined, open_file, open_table
        table = open_file(source, file) if is_file else open_table(source)
        return _of_table(joined(table, ROWS), [*table.notes], target, task, drop, as_)


def _of_table(
    whole: Any, notes: list[str], target: str | None, task: str | None, drop: Any, as_: Any
) -> Dataset:
    """The data set in a table that was read."""
    from jaxmkl.tables._cells import known
    from jaxmkl.tables._columns import Columns
    from jaxmkl.tables._target import target_name

    name = target_name(whole.source, whole.frame.columns, target, notes)
    cells = known(whole.frame[name])
    note_dropped(notes, [whole.numbers[row] for row in cells.is_null().arg_true()], whole.place)
    whole = whole.filter(cells.is_not_null())
    asked = "classification" if task == "multiclass" else task
    columns = Columns.decide(whole, name, asked, drop=drop, as_=as_, notes=notes)
    K, found = len(columns.classes), f"{whole.source}, column {name!r}"
    if task == "classification" and K > 2:
        found += f": classification needs two distinct values; got {K}: {shown(columns.classes)}"
        raise ValueError(found)
    check_size(whole.source, (len(whole.frame), len(columns.features)), np.float64)
    X, y = columns.encode(whole, columns.init())[0], columns.targets(whole)
    if K > 2 or task == "multiclass":
        y, asked = np.maximum(y, 0).astype(np.int16), "multiclass"
    else:
        asked = columns.task
    return Dataset(X, y, asked, columns.features, columns.classes, columns.notes, name, columns)
