"""The files that a command writes, none of which it reads or another process writes.

``-`` is standard output, for text: the command then says on standard error what it has to say.
CSV, JSON and pages are in UTF-8 there as in files.
"""

import contextlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from jaxmkl._files import is_special, kept_from_others, replaced
from jaxmkl.command_line import STANDARD, Named, is_standard, refuse_clashes
from jaxmkl.evaluate import UsageError, printable

LOCK = ".lock"
NO_TEXT = ".gz", ".bz2", ".xz", ".zst", ".zip", ".parquet", ".arrow", ".feather", ".npz", ".xlsx"
"""Endings of names that promise something else than plain text."""
OUT = "CSV (default: standard output, also -)"  # the help of --out, where it has no other


@contextlib.contextmanager
def reserved(
    inputs: Mapping[str, str | Path | None],
    outputs: Mapping[str, Path | None],
    *,
    text: Collection[str] = (),
    beside: Mapping[str, tuple[str, ...]] | None = None,
    replaces: Mapping[str, tuple[str, ...]] | None = None,
    says: bool = True,
) -> Iterator[None]:
    """Lock all files that a command writes, which also checks that they can be written.

    Args:
      inputs: the files that the command reads, by the options that name them, None if none is
        given.
      outputs: those that it writes, likewise.
      text: options whose file is plain text, and may be "-", standard output.
      beside: endings of the names of further files that are written beside one, by its option;
        that one is no device then.
      replaces: the inputs that an output may replace, by its option.
      says: whether the command writes to standard output besides.

    Raises:
      UsageError: if one is also read or written for another purpose, cannot be written, is
        written by another process, or is text whose name promises something else.
    """
    given = {name: path for name, path in outputs.items() if path is not None}
    standard = [name for name, path in given.items() if is_standard(path)]
    for name in standard:
        if name not in text:
            raise UsageError(f"{name}: - is standard output, which takes text alone; name a file")
    beside, replaces = beside or {}, replaces or {}
    files = [Named(name, path) for name, path in inputs.items() if path is not None]
    files += [Named(name, path, True, (LOCK, *beside.get(name, ())), replaces.get(name, ()))
              for name, path in given.items()]  # fmt: skip
    if says and not standard:
        files.append(Named("standard output", STANDARD, True))
    if len(standard) > 1:
        raise UsageError(f"{standard[1]}: - is also named by {standard[0]}; name another file")
    refuse_clashes(files)
    with contextlib.ExitStack() as stack:
        for name, path in given.items():
            if name in standard or (is_special(path) and name not in beside):
                continue
            if name in text and path.suffix.lower() in NO_TEXT:
                promise = f"its name promises {path.suffix}, and plain text is written"
                raise UsageError(f"{name}: {path}: {promise}; name another file")
            if os.path.exists(path) and not path.is_file():
                raise UsageError(f"{name}: {path} is not a file")
            if not path.parent.is_dir():
                raise UsageError(f"{name}: {path}: the folder {path.parent} does not exist")
            try:
                stack.enter_context(kept_from_others(path))
            except OSError as error:
                raise UsageError(f"{name}: {path}: {error.strerror}") from None
        yield


class Utf8:
    """A file of text, such as the csv module writes to, in UTF-8 whatever the locale says.

    Control characters are escaped if the file is a terminal, which they would steer.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.flush, self._is_terminal = file, file.flush, file.isatty()

    def write(self, text: str) -> None:
        """Write a text; halves of surrogate pairs, as in names of files, are escaped."""
        text = printable(text, keep="\r\n\t") if self._is_terminal else text
        self._file.write(text.encode("utf-8", "backslashreplace"))


def standard_output() -> Any:
    """Standard output, for text in UTF-8."""
    sys.stdout.flush()
    # a stand-in, such as that of a notebook, may take text alone
    return Utf8(sys.stdout.buffer) if hasattr(sys.stdout, "buffer") else sys.stdout


@contextlib.contextmanager
def opened(out: Path | None) -> Iterator[TextIO]:
    """Open a file that appears once it is complete, or standard output for None and "-"."""
    if out is None or is_standard(out):
        yield (file := standard_output())
        file.flush()
        return
    with replaced(out) as binary:
        yield Utf8(binary)  # type: ignore[misc]
