"""Reading a file, whatever its format."""

import os
import re

from jaxmkl.tables._table import NOT_SPARSE, Dataset, number_in

TASKS = ("regression", "classification", "multiclass")


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
    made dense unless ``sparse``; and the target (n,). Other keys are ignored; NaN counts as
    missing. An int16 target with the values 0, 1, ..., K - 1 (K > 2) is multiclass.

    Features become float64, but the float16 and float32 of an npz file float32.

    Args:
      path: the file.
      target: the column of a CSV file, or the key of an npz file, to be predicted. By default
        the CSV column named target, y, label or class, else the last one, and the key "y".
      task: "regression", "classification" or "multiclass". By default a target with two
        distinct values, numbers or text, is classification (the smaller one is -1), other
        numbers are regression, other text is multiclass.
      sparse: keep the features of a LIBSVM file, or of an npz file's CSR matrix, as
        :class:`jaxmkl.streaming.SparseRows`, which the drivers take; none may be missing then.

    Returns:
      The :class:`Dataset`.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file cannot be read without guessing, the target does not exist or has
        one value only, or the task does not fit it; or ``sparse`` for a file that is not.
      ImportError: a CSV file, where polars (the extra ``cli``) is not installed.

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
    extension = os.path.splitext(path)[1].lower()
    # imported where there is such a file: SciPy (which comes with JAX) and polars take a while
    if start.startswith(b"PK"):
        from jaxmkl.tables._npz import read_npz

        return read_npz(path, target, task, sparse)
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")):
        raise ValueError(f"{path}: is compressed; unpack it first")
    if start.startswith(b"\x93NUMPY") or extension in (".npy", ".npz"):
        wanted = "write one with numpy.savez(path, X=features, y=target)"
        raise ValueError(f"{path}: is no npz archive; {wanted}")
    text = start.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise ValueError(f"{path}: is empty")
    if extension in (".libsvm", ".svmlight", ".svm") or _looks_like_libsvm(text):
        from jaxmkl.tables._libsvm import read_libsvm

        return read_libsvm(path, target, task, sparse)
    if sparse:
        raise ValueError(f"{path}: {NOT_SPARSE}; got a CSV file")
    try:
        from jaxmkl.tables._csv import read_csv
    except ModuleNotFoundError:
        raise ImportError(f"{path}: CSV files are read by polars: pip install polars") from None
    return read_csv(path, target, task)


def _looks_like_libsvm(start: str) -> bool:
    for line in start.splitlines():
        label, *pairs = line.partition("#")[0].split() or [""]
        if pairs:
            return all(re.fullmatch(r"(qid|-?\d+):[^,;]+", pair) for pair in pairs)
        if label and number_in(label) is None:
            return False
    return False
