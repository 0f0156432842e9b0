"""Options and files of a command line, for ``jaxmkl`` and for ``python -m experiments``."""

import argparse
import ast
import csv
import errno
import itertools
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from jaxmkl.evaluate import UsageError


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UsageError(message)


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas; one that has a comma is quoted, as in CSV.

    >>> names('size, "weight, kg"')
    ('size', 'weight, kg')
    """
    try:
        split = next(csv.reader([text], skipinitialspace=True)) if '"' in text else text.split(",")
    except csv.Error:
        split = []
    found = tuple(name.strip() for name in split if name.strip())
    if not found:
        raise argparse.ArgumentTypeError("expected names separated by commas")
    return found


def count(text: str, least: int = 1) -> int:
    """Parse a whole number, by default of at least 1."""
    if not text.isdecimal() or int(text) < least:
        wanted = f"a whole number of at least {least}"
        raise argparse.ArgumentTypeError(f"expected {wanted}; got {text!r}")
    return int(text)


def setting(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE; the value is a Python literal, or else text."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE; got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


# --- files ---------------------------------------------------------------------------------------

STANDARD = "-"  # standard input, or standard output
_ADVICE = "name another file"
PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial")  # the end of a name while the file is written
Identity = tuple[int | str, ...]


def is_standard(path: object) -> bool:
    """Tell if a path is "-", standard input or output."""
    return str(path) == STANDARD


class Named(NamedTuple):
    """A file that a command reads or writes."""

    name: str  #: by which messages call it, such as the option
    path: str | Path  #: "-" is standard input or output
    is_written: bool = False
    beside: tuple[str, ...] = ()  #: endings of the names of files that are written beside it
    replaces: tuple[str, ...] = ()  #: names of files that it may be, as they are read before


def refuse_clashes(files: Sequence[Named]) -> None:
    """Refuse to write a file that the command also reads, or writes for another purpose.

    Files are compared by device and number, so that links, relative paths and letter case hide
    nothing; those that do not exist yet, by their folder and name. Nothing is touched.

    Raises:
      UsageError: if two of the files are one, or a path cannot be followed.

    >>> refuse_clashes([Named("FILE", "t.csv"), Named("--json", "./t.csv", True)])
    Traceback (most recent call last):
    jaxmkl.evaluate.candidates.UsageError: --json: ./t.csv is also named by FILE; name another file
    """
    places = ((_identity(file.name, file.path, file.is_written), file) for file in files)
    known = [(place, file) for place, file in places if place]
    for (at, other), (place, file) in itertools.combinations(known, 2):
        both_read = not (file.is_written or other.is_written)
        allowed = other.name in file.replaces or file.name in other.replaces
        if at == place and not both_read and not allowed:
            one, two = (file, other) if file.is_written else (other, file)
            path = two.path if is_standard(one.path) else one.path
            raise UsageError(f"{one.name}: {path} is also named by {two.name}; {_ADVICE}")
    for file in (file for file in files if file.is_written):
        real = os.path.realpath(file.path)
        beside = {_identity(file.name, f"{at}{end}", True): end
                  for at in (real, file.path) for end in file.beside}  # fmt: skip
        for place, other in known:
            end = os.path.realpath(other.path).removeprefix(real)
            end = beside.get(place, end if PARTIAL.fullmatch(end) else "")
            if end:
                text = f"{file.path} needs {os.path.basename(real)}{end} beside it"
                raise UsageError(f"{file.name}: {text}, which {other.name} names; {_ADVICE}")


def _identity(name: str, path: str | Path, is_written: bool) -> Identity | None:
    """The device and the number of a file; of one that does not exist its folder's, and its name.

    None for what is no file, such as a pipe or a terminal.
    """
    try:
        about = os.fstat(int(is_written)) if is_standard(path) else os.stat(path)
        return (about.st_dev, about.st_ino) if stat.S_ISREG(about.st_mode) else None
    except OSError as error:
        if is_standard(path):  # it is closed
            return None
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise UsageError(f"{name}: {path}: {error.strerror}") from None
    folder, own = os.path.split(os.path.realpath(path))  # a link may lead to what is not there yet
    try:
        about = os.stat(folder)
    except OSError:
        return folder, own
    return about.st_dev, about.st_ino, own
