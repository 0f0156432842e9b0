"""LIBSVM text: a label, then the entries of a row by their indices."""

import re
from array import array

import numpy as np

from jaxmkl.tables._cells import not_utf8, number_in
from jaxmkl.tables._entries import from_entries
from jaxmkl.tables._table import Dataset, finish


def looks_like_libsvm(start: bytes) -> bool:
    """Whether a file that begins so is LIBSVM text."""
    for line in start.decode("utf-8-sig", errors="replace").splitlines():
        label, *pairs = line.partition("#")[0].split() or [""]
        if pairs:
            return all(re.fullmatch(r"(qid|-?\d+):[^,;]+", pair) for pair in pairs)
        if label and number_in(label) is None:
            return False
    return False


def read_libsvm(path: str, target: str | None, task: str | None, sparse: bool) -> Dataset:
    """Read LIBSVM text."""
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
                value = number_in(label)
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
        raise not_utf8(path) from None
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
    X = from_entries(path, shape, rows, indices - base, np.array(data), sparse)
    names = [str(index + base) for index in range(num_columns)]
    where = f"{path}, label"
    return finish(path, X, names, np.array(labels_read), spelled, "label", where, task, notes)


def _indexed(path: str, line: int, pair: str, last: int) -> tuple[int, float]:
    """Return index and value of ``index:value``, which must follow the index ``last``."""
    index_text, colon, value_text = pair.partition(":")
    if not (colon and re.fullmatch(r"[0-9]{1,18}", index_text)):
        raise ValueError(f"{path}, line {line}: index:value wanted; got {pair!r}")
    index, value = int(index_text), number_in(value_text)
    if index <= last:
        problem = "stands twice" if index == last else f"follows {last}; indices must increase"
        raise ValueError(f"{path}, line {line}, column {index}: the index {problem}")
    if value is None or not np.isfinite(value):
        raise ValueError(
            f"{path}, line {line}, column {index}: {value_text!r} is not a finite number"
        )
    return index, value
