"""ARFF files, by SciPy."""

import io
from typing import Any

import numpy as np
import polars as pl

from jaxmkl._archive import damage
from jaxmkl.tables._bytes import Bytes

UNREAD = "is ARFF that SciPy cannot read (of text or sparse rows, or damaged; write CSV)"


def is_arff(text: str) -> bool:
    """Tell an ARFF file: the first line that is no comment names a relation.

    >>> is_arff("% of plants\\n\\n@RELATION plants\\n"), is_arff("@,b\\n1,2\\n")
    (True, False)
    """
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and line[0] != "%"), "")
    return first.lower().startswith("@relation")


def read_arff(file: Bytes) -> pl.DataFrame:
    """Read an ARFF file of numbers, categories and dates; SciPy reads no text and sparse rows."""
    from scipy.io import arff  # which takes a while

    text = io.TextIOWrapper(file.stream, "utf-8-sig")
    with file.whole(), damage(f"{file.name}: {UNREAD}"):
        rows, _ = arff.loadarff(text)
    return pl.DataFrame([_cells(name, rows[name]) for name in rows.dtype.names])


def _cells(name: str, cells: Any) -> pl.Series:
    words = np.char.decode(cells, "utf-8") if cells.dtype.kind == "S" else cells
    return pl.Series(name, words.astype("datetime64[us]") if words.dtype.kind == "M" else words)
