"""LIBSVM text: a label, then the entries of a row by their indices."""

import re
from array import array
from collections.abc import Iterator

import numpy as np
import scipy.sparse

from jaxmkl.tables._bytes import Bytes, not_text
from jaxmkl.tables._table import Dataset, Numbered, dense_or_sparse, finish, number_in

# as scikit-learn's; str.split takes others
BLANKS = " \t\r\n\v\f"
_BLANKS = re.compile(f"[{BLANKS}]+")


def read_libsvm(file: Bytes, target: str | None, task: str | None, sparse: bool) -> Dataset:
    """Read LIBSVM text."""
    path = file.name
    if target is not None:
        why = "the label is what comes first in every line of a LIBSVM file"
        raise ValueError(f"{path}: target must be None, since {why}; got {target!r}")
    spelled: list[str] = []
    data, indices, ends = array("d"), array("q"), array("q", [0])
    notes: list[str] = []
    for line, text in _lines(file):
        label, *pairs = _BLANKS.split(text.partition("#")[0].strip(BLANKS))
        if not label:
            continue
        where = f"{path}, line {line}"
        if number_in(label) is None:
            raise ValueError(f"{where}: the label {label!r} is not a finite number")
        spelled.append(label)
        if pairs and pairs[0].startswith("qid:"):
            notes = ["query numbers (qid) are ignored"]
            del pairs[0]
        last = -1
        for pair in pairs:
            index, _, cell = pair.partition(":")
            if not re.fullmatch("[0-9]{1,18}:.*", pair, re.DOTALL):
                raise ValueError(f"{where}: index:value wanted; got {pair!r}")
            if int(index) <= last:
                why = f"the index follows {last}; indices must increase"
                raise ValueError(f"{where}, column {int(index)}: {why}")
            last, value = int(index), number_in(cell)
            if value is None:
                raise ValueError(f"{where}, column {last}: {cell!r} is not a finite number")
            indices.append(last)
            data.append(value)
        ends.append(len(data))
    if not spelled:
        raise ValueError(f"{path}: holds no example, only comments")
    if not indices:
        raise ValueError(f"{path}: has no features")
    columns = np.array(indices)
    base = min(1, int(columns.min()))
    shape = (len(spelled), int(columns.max()) + 1 - base)
    csr = scipy.sparse.csr_array((np.array(data), columns - base, np.array(ends)), shape)
    X = dense_or_sparse(path, csr, sparse)
    names = Numbered("", base, shape[1])
    notes = [f"features are numbered from {base}", *notes]
    values = np.array(spelled, np.float64)
    return finish(path, X, names, values, spelled, "label", f"{path}, label", task, notes)


def _lines(file: Bytes) -> Iterator[tuple[int, str]]:
    line, text = 0, file.text()
    try:
        with file.whole():
            for line, row in enumerate(text, 1):
                yield line, row
    except UnicodeDecodeError as error:
        raise not_text(file.name, line, error) from None
