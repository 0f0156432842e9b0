"""Reading a whole table, whatever its format."""

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from jaxmkl._checks import MOST_SHOWN, refuse_unless, shown
from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._reading import How, Reading
from jaxmkl.tables._table import NOT_SPARSE, Arrays, Dataset, check_size
from jaxmkl.tables._words import needs_polars

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

    from jaxmkl.tables._columns import Columns
    from jaxmkl.tables._rows import Chunk

TASKS = ("regression", "classification", "multiclass")


def read(
    source: Any,
    target: str | None = None,
    task: str | None = None,
    *,
    sparse: bool = False,
    drop: Collection[str] = (),
    as_: Mapping[str, str] | None = None,
    **how: Unpack[How],
) -> Dataset:
    """Read a data set from a file, whose format its content decides, or from a DataFrame.

    Tables (CSV, NDJSON, Parquet, Arrow, DataFrames; see :func:`open_table`): all rows decide how
    each column is encoded, see :meth:`Columns.decide`. A missing cell (empty, ``NA``, ``N/A``,
    ``#N/A``, ``<NA>``, ``NaN``, ``?``, ``null``, an error as ``#DIV/0!``) in a column of numbers
    becomes the mean of those in the rows before; a row without a target is dropped.

    LIBSVM: ``label index:value index:value ... # comment``, with increasing indices that begin
    with 1, or 0 if one of them is 0. Entries not named are zero. A label ``?`` is unknown.

    npz: ``X`` (n, D), or the parts ``data``, ``indices``, ``indptr``, ``shape`` of a CSR matrix,
    made dense unless ``sparse``; and the target (n,). Other keys are ignored. NaN counts as
    missing, as in a table. An int16 target with the values 0, 1, ..., K - 1 (K > 2) is multiclass.

    Inputs become float64; those of an npz file in float16 or float32 become float32.

    Args:
      source: the path of a file, "-" for standard input, or a DataFrame.
      target: the column of a table, or the key of an npz file, to be predicted. By default the
        column named target, y, label or class, else the last one, and the key "y".
      task: "regression", "classification" or "multiclass". By default a target with two
        distinct values, numbers or text, is classification (the smaller one is -1), other
        numbers are regression, other text is multiclass.
      sparse: keep the inputs of a LIBSVM file, or of an npz file's CSR matrix, as
        :class:`jaxmkl.streaming.SparseRows`, which the drivers take; none may be missing then.
      drop, as_: for tables, as for :meth:`Columns.decide`.
      how: ``names``, ``header``, ``missing`` and ``longest_line`` as for :func:`open_table`.

    Returns:
      The :class:`Dataset`.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file cannot be read without guessing, the target does not exist or has
        one value only, or the task does not fit it; or ``sparse`` for a file that is not.
      ImportError: polars (the extra ``cli``) is not installed.

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
    column 'height': numbers, missing cells become the mean so far, an input tells which
    column 'colour' holds words: one 0/1 input for each of its 2 values; others are all zeros
    >>> folder.cleanup()
    """
    if task is not None and task not in TASKS:
        raise ValueError(f"read: task must be one of {', '.join(TASKS)} or None; got {task!r}")
    with needs_polars(), contextlib.ExitStack() as closing:
        from jaxmkl.tables import source as files
        from jaxmkl.tables._columns import Columns
        from jaxmkl.tables._target import target_name

        reading = Reading(**how)
        if isinstance(source, str | os.PathLike):
            file = closing.enter_context(contextlib.closing(Bytes(source)))
            name, of = file.name, files.format_of(file)
            if of in ("LIBSVM", "npz"):
                # SciPy takes a while
                from jaxmkl.tables._entries import read_npz
                from jaxmkl.tables._libsvm import read_libsvm

                files.refuse_of_csv(name, of, reading)
                if of == "npz":
                    return _of_arrays(read_npz(file, target, sparse), task)
                return _of_arrays(read_libsvm(file, target, sparse, reading), task)
        else:
            name, file = "DataFrame", None
        refuse_unless(not sparse, f"{name}: {NOT_SPARSE}; got a table")
        table = files.open_file(file, of, reading) if file else files.open_table(source, **how)
        whole, notes = files.joined(table, files.ROWS), [*table.notes]
        label = target_name(whole.frame.columns, target, notes)
        whole.require(label)
        whole = whole.filter(_given(whole, label, notes))
        columns = Columns.decide(whole, label, _asked(task), drop=drop, as_=as_, notes=notes)
        check_size(whole.source, (len(whole.frame), len(columns.features)), np.float64)
        X, _ = columns.encode(whole, columns.init())
        return _data_set(X, columns.features, whole, columns, task)


def _of_arrays(arrays: Arrays, task: str | None) -> Dataset:
    """Keep inputs as they are, with gaps filled; decide on the target as on a table's."""
    import polars as pl

    from jaxmkl import _tails
    from jaxmkl.tables._columns import Columns
    from jaxmkl.tables._target import target_of

    X, names, whole, notes, of_format = arrays
    task, label = task or of_format, whole.frame.columns[0]
    given = _given(whole, label, notes)
    whole, X = whole.filter(given), X if given.all() else X[given.to_numpy()]
    of = target_of(whole.source, whole.column(label), _asked(task), notes)
    is_dense = isinstance(X, np.ndarray)
    if is_dense and np.isnan(X).any():
        rows = whole._replace(frame=pl.DataFrame(X, [*names]))
        columns = Columns.decide(rows, supervised=False, keep=True, notes=notes)
        X = columns.encode(rows, columns.init())[0].astype(X.dtype)
        names, notes = columns.features, [*columns.notes]
    else:
        heavy = np.flatnonzero(_tails.heavy_tailed(X)) if is_dense else _tails.heavy_entries(X)
        notes += _tails.of_inputs([names[place] for place in heavy.tolist()])
    same = np.flatnonzero(X.min(axis=0) == X.max(axis=0)) if is_dense else _constant(X)
    if len(same) > 0:
        constant = shown([names[place] for place in same[: MOST_SHOWN + 1]])
        notes.append(f"constant, and kept: {constant}")
    X, names = (X, tuple(names)) if is_dense else (SparseRows.from_csr(X), names)
    return _data_set(X, names, whole, Columns((), of, tuple(notes)), task)


def _asked(task: str | None) -> str | None:
    return "classification" if task == "multiclass" else task


def _given(whole: "Chunk", name: str, notes: list[str]) -> "pl.Series":
    """The rows that have a target; the others are noted."""
    given = whole.column(name).values.is_not_null()
    lost = [whole.numbers[row] for row in (~given).arg_true()]
    if lost:
        rows = f"{len(lost)} row{'s' * (len(lost) > 1)}"
        notes.append(f"{rows} without a target dropped ({whole.place} {shown(lost)})")
    return given


def _data_set(
    X: np.ndarray | SparseRows,
    names: Sequence[str],
    whole: "Chunk",
    decided: "Columns",
    task: str | None,
) -> Dataset:
    """The data set of these inputs, with the target as decided."""
    of, K = decided.target, len(decided.classes)
    assert of is not None
    where = f"{whole.source}, column {of.name!r}"
    if task == "classification" and K > 2:
        found = f"{K}: {shown(decided.classes)}"
        raise ValueError(f"{where}: classification needs two distinct values; got {found}")
    y = decided.targets(whole)
    if np.abs(y).max() > np.finfo(X.dtype).max:
        raise ValueError(f"{where}: the target has values beyond the range of {X.dtype}")
    several = K > 2 or task == "multiclass"
    y = np.maximum(y, 0).astype(np.int16) if several else y.astype(X.dtype)
    task = "multiclass" if several else of.task
    columns = decided if decided.kinds else None
    return Dataset(X, y, task, names, decided.classes, decided.notes, of.name, columns)


def _constant(csr: "csr_array") -> np.ndarray:
    """The first constant columns, at least one more than a message shows."""
    columns, places = np.unique(csr.indices, return_inverse=True)
    named = type(csr)((csr.data, places, csr.indptr), (csr.shape[0], len(columns)))
    ends = named.min(axis=0), named.max(axis=0)
    varied = np.not_equal(*(end.todense() for end in ends))
    among = np.arange(min(csr.shape[1], len(columns) + MOST_SHOWN + 1))
    return np.setdiff1d(among, columns[varied])
