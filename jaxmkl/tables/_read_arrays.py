"""Files of numbers alone, LIBSVM text and npz: read whole, without polars."""

import os
import re
from typing import Any

from jaxmkl.tables._bytes import Bytes
from jaxmkl.tables._table import Dataset, number_in


def holds_arrays(file: Bytes, extension: str) -> bool:
    """Whether a file is LIBSVM text, npz or npy."""
    return is_of_numpy(file, extension) or is_libsvm(file, extension)


def is_of_numpy(file: Bytes, extension: str) -> bool:
    """Whether a file is npz or npy."""
    return file.start.startswith((b"PK", b"\x93NUMPY")) or extension in (".npy", ".npz")


def is_libsvm(file: Bytes, extension: str) -> bool:
    """Whether a file is LIBSVM text."""
    text = file.start.decode("utf-8-sig", errors="replace")
    return extension in (".libsvm", ".svmlight", ".svm") or _looks_like_libsvm(text)


def read_arrays(
    file: Bytes, path: Any, target: str | None, task: str | None, sparse: bool
) -> Dataset:
    """Read LIBSVM text or npz, as :func:`jaxmkl.tables.read` does."""
    # imported where there is such a file: SciPy (which comes with JAX) takes a while
    if file.start.startswith(b"PK") and file.is_file:
        from jaxmkl.tables._npz import read_npz

        return read_npz(os.fspath(path), target, task, sparse)
    if file.start.startswith((b"PK", b"\x93NUMPY")) or os.fspath(path).endswith((".npy", ".npz")):
        wanted = "write a file with numpy.savez(path, X=features, y=target)"
        raise ValueError(f"{file.name}: is no npz archive in a file; {wanted}")
    from jaxmkl.tables._libsvm import read_libsvm

    return read_libsvm(file, target, task, sparse)


def _looks_like_libsvm(start: str) -> bool:
    for line in start.splitlines():
        label, *pairs = line.partition("#")[0].split() or [""]
        if pairs:
            return all(re.fullmatch(r"(qid|-?\d+):[^,;]+", pair) for pair in pairs)
        if label and number_in(label) is None:
            return False
    return False
