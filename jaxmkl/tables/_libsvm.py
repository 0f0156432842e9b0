"""LIBSVM text: a label, then the entries of a row by their indices."""

import io
import re
from array import array

import numpy as np
import scipy.sparse

from jaxmkl.tables._table import Dataset, dense_or_sparse, finish, number_in, text_of


def read_libsvm(path: str, target: str | None, task: str | None, sparse: bool) -> Dataset:
    """Read LIBSVM text."""
    if target is not None:
        why = "the label is what comes first in every line of a LIBSVM file"
        raise ValueError(f"{path}: target must be None, since {why}; got {target!r}")
    spelled: list[str] = []
    data, indices, ends = array("d"), array("q"), array("q", [0])
    notes: list[str] = []
    for line, text in enumerate(io.StringIO(text_of(path)), 1):
        label, *pairs = text.partition("#")[0].split() or [""]
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
            if not re.fullmatch("[0-9]{1,18}:.*", pair):
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
    names = [str(index + base) for index in range(shape[1])]
    notes = [f"features are numbered from {base}", *notes]
    values = np.array(spelled, np.float64)
    return finish(path, X, names, values, spelled, "label", f"{path}, label", task, notes)
