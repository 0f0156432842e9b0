"""The predictions of each row, which a run writes as CSV."""

import csv
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxmkl._files import named
from jaxmkl.cli.play import Written
from jaxmkl.evaluate import UsageError
from jaxmkl.tables import Chunk


class Predictions:
    """A CSV file, written chunk by chunk: the number of a row, the predictions and the target.

    A prediction with a density is followed by the ends of its interval, ``low`` and ``high``. The
    target's column is called "target" if its own name is that of another one.

    Args:
      path: the file.
      target: the target of the table.
      length: the number of bytes to keep from an earlier part of the run; 0 begins anew.

    Raises:
      UsageError: if the file is shorter than that.
      OSError: if it cannot be written; its methods raise this too.
    """

    def __init__(self, path: Path, target: Any, length: int = 0) -> None:
        there = path.stat().st_size if length and path.exists() else 0
        if there < length:
            text = f"has {there:,} bytes, and the checkpoint continues after {length:,}"
            raise UsageError(f"--predictions: {path} {text}")
        self._target, self._begun, self._path = target, length > 0, path
        self._file = open(path, "r+" if length else "w", newline="", encoding="utf-8")  # noqa: SIM115
        if length:
            self._file.truncate(length)
            self._file.seek(length)
        self._writer = csv.writer(self._file)

    def close(self) -> None:
        """Close the file."""
        with named(self._path):
            self._file.close()

    def write(
        self, chunk: Chunk, said: dict[str, Written], labels: np.ndarray, start: float
    ) -> None:
        """Write the rows of a chunk, whose predictions are ``start`` and a number beyond it."""
        written = {}
        for name, (prediction, interval) in said.items():
            of = "" if len(said) == 1 else f" {name}"
            written[f"prediction{of}"] = prediction
            if interval is not None:
                written |= zip((f"low{of}", f"high{of}"), interval, strict=True)
        if not self._begun:
            header, name = [chunk.place, *written], self._target.name
            self._writer.writerow([*header, "target" if name in header else name])
            self._begun = True
        columns = [self._spelled(values, start) for values in written.values()]
        columns.append(self._spelled(labels))
        with named(self._path):
            self._writer.writerows(zip(chunk.numbers, *columns, strict=True))
            self._file.flush()

    def _spelled(self, values: np.ndarray, start: float | None = None) -> list:
        """Names of classes, or numbers; empty for NaN."""
        if not self._target.classes:
            return spelled(values, start)
        classes = self._target.classes
        return ["" if np.isnan(place) else classes[int(place)] for place in values.tolist()]

    def length(self) -> int:
        """The number of bytes so far, which are flushed to the disk."""
        with named(self._path):
            os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size


def spelled(values: np.ndarray, start: float | None = 0.0) -> list[str]:
    """Words as they are, and numbers; empty for NaN.

    What numbers are beyond ``start`` has the digits of single precision; None asks for all digits
    of double precision.

    >>> spelled(np.array([1 / 3, np.nan])), spelled(np.array([1e9 + 1 / 3]), start=1e9)
    (['0.3333333', ''], ['1000000000.33333'])
    """
    if values.dtype.kind == "U":
        return values.tolist()
    return ["" if np.isnan(v) else f"{v:.{_digits(v, start)}g}" for v in values.tolist()]


def _digits(value: float, start: float | None) -> int:
    if start is None or value == start:
        return 15
    beyond = abs(value - start)
    if not (math.isfinite(beyond) and beyond < abs(value)):
        return 7
    return min(15, 7 + math.ceil(math.log10(abs(value) / beyond)))
