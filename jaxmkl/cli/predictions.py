"""The predictions of each row, which a run writes as CSV."""

import csv
import errno
import io
import math
import os
from pathlib import Path
from typing import Any, cast

import numpy as np

from jaxmkl._files import is_special, named
from jaxmkl.cli import show
from jaxmkl.cli.outputs import standard_output
from jaxmkl.cli.prequential import Written
from jaxmkl.command_line import is_standard
from jaxmkl.tables import Chunk

LONGEST_LINE = 2**20  # bytes


class Predictions:
    """A CSV file, written chunk by chunk: the number of a row, the predictions and the target.

    A prediction with a density is followed by the ends of its interval, ``low`` and ``high``. The
    target's column is called "target" if its own name is that of another one.

    A file that was moved, removed, or changed by anything else since the last write is noticed at
    the next one. Until the first one, an earlier file stays as it was. A run that continues keeps
    what is left of its file, and says so; ``length`` is the number of bytes that its earlier part
    wrote. Without a path there is no file, and nothing may be written.

    Raises:
      OSError: if it cannot be written, or is not what was written so far; its methods raise this
        too.
    """

    def __init__(self, path: Path | None, target: Any, length: int = 0) -> None:
        self._target, self._path, self._length = target, cast(Path, path), 0
        is_open = path is not None and not is_standard(path)
        self._is_file = is_open and not is_special(self._path)
        self._is_begun = self._is_file and length > 0 and self._path.exists()
        # another file keeps its content until the first row is written
        mode = "r+b" if self._is_begun else "ab" if self._is_file else "wb"
        self._file: Any = open(self._path, mode, buffering=0) if is_open else None  # noqa: SIM115
        if self._is_begun:
            self._length = self._kept(length)
        if self._is_file and self._length < length:
            lost = f"{length - self._length:,} bytes that an earlier part of this run wrote"
            text = f"{path}: {lost} are gone; it has no predictions of those rows"
            show.aside(f"jaxmkl: --predictions: {text}")

    def _kept(self, length: int) -> int:
        """Keep so many bytes of an earlier part; of a shorter file, keep its whole lines."""
        kept = min(length, os.fstat(self._file.fileno()).st_size)
        if kept < length:
            begin = max(0, kept - LONGEST_LINE)
            self._file.seek(begin)
            found = self._file.read(kept - begin).rfind(b"\n")
            kept = 0 if found < 0 else begin + found + 1
        self._file.truncate(kept)
        self._file.seek(kept)
        return kept

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with named(self._path):
                self._file.close()

    def write(
        self, chunk: Chunk, said: dict[str, Written], labels: np.ndarray, start: float
    ) -> None:
        """Write the rows of a chunk; predictions of numbers are ``start`` plus a difference."""
        written = {}
        for name, (prediction, interval) in said.items():
            of = "" if len(said) == 1 else f" {name}"
            written[f"prediction{of}"] = prediction
            if interval is not None:
                written |= zip((f"low{of}", f"high{of}"), interval, strict=True)
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if not self._length:
            header, name = [chunk.place, *written], self._target.name
            writer.writerow([*header, "target" if name in header else name])
        columns = [self._spelled(values, start) for values in written.values()]
        columns.append(self._spelled(labels))
        writer.writerows(zip(chunk.numbers, *columns, strict=True))
        self._append(text.getvalue())

    def _append(self, text: str) -> None:
        with named(self._path):
            if self._file is None:
                file = standard_output()
                file.write(text)
                file.flush()
                self._length += len(text)
                return
            if self._is_file and not self._is_begun:
                self._file.truncate(0)
                self._is_begun = True
            self.check()
            left = memoryview(text.encode("utf-8", "backslashreplace"))
            while left:  # one write may take only a part
                number = self._file.write(left)
                self._length, left = self._length + number, left[number:]

    def check(self) -> None:
        """Raise an ``OSError`` unless the file is where and what it was after the last write."""
        if not self._is_begun:
            return
        about = os.fstat(self._file.fileno())
        try:
            is_there = os.path.samestat(os.stat(self._path), about)
        except FileNotFoundError:
            is_there = False
        changed = "" if is_there else "was moved or removed"
        if is_there and about.st_size != self._length:
            changed = f"has {about.st_size:,} bytes in place of {self._length:,}"
        if changed:
            text = f"{changed} while it was written; no more is written to it"
            raise OSError(errno.ESTALE, text, os.fspath(self._path))

    def _spelled(self, values: np.ndarray, start: float | None = None) -> list:
        """Names of classes, or numbers; empty for NaN."""
        if not self._target.classes:
            return spelled(values, start)
        classes = self._target.classes
        return ["" if np.isnan(place) else classes[int(place)] for place in values.tolist()]

    def length(self) -> int:
        """Flush the file to the disk, and return its number of bytes; 0 if it is no file."""
        if not self._is_file:
            return 0
        with named(self._path):
            self.check()
            os.fsync(self._file.fileno())
        return self._length


def spelled(values: np.ndarray, start: float | None = 0.0) -> list[str]:
    """Spell words as they are, and numbers in digits; NaN becomes an empty word.

    The difference of a number and ``start`` has the digits of single precision; None asks for all
    digits of double precision.

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
