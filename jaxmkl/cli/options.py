"""Options that several commands have."""

import argparse
import functools
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any

from jaxmkl._version import __version__
from jaxmkl.command_line import Parser, count, names, setting
from jaxmkl.tables import LONGEST_LINE

OF_THE_LINE = "command", "name", "line"  # attributes of a parsed line that are no options
LEARNER = "expert_mkl"  # of a command that has one learner
natural = functools.partial(count, least=0)  # parses a whole number of at least 0
AS_IT_STANDS = argparse.RawDescriptionHelpFormatter  # of descriptions with lines of their own


def parser_of(description: str) -> tuple[Parser, Any]:
    """The parser of the command, and where its subcommands are added."""
    parser = Parser(prog="jaxmkl", description=description, formatter_class=AS_IT_STANDS)
    parser.add_argument("--version", action="version", version=f"jaxmkl {__version__}")
    return parser, parser.add_subparsers(dest="name", required=True, metavar="COMMAND")


def table_options(parser: Any, otherwise: str = "the last one") -> None:
    """Add the options that say how a table is read."""
    add = parser.add_argument_group("the table").add_argument
    add("--target", metavar="COLUMN", help="column to predict (default: the one named target, y, "
        f"label or class, else {otherwise})")  # fmt: skip
    add("--drop", type=names, default=(), metavar="A,B", help="columns to leave out")
    add("--as", dest="as_", type=kind, action="append", default=[], metavar="COLUMN=KIND",
        help="number, boolean, categories, text, text:2048 (words), time, duration, or a format "
        "such as %%d/%%m/%%Y; may be given several times")  # fmt: skip
    reading_options(add)
    add("--first", type=count, default=1000, metavar="N",
        help="number of rows that decide how columns are read (default: 1000); standard input is "
        "waited for until they have come, 100 lines of CSV at least")  # fmt: skip


def learner_options(add: Any, task: str, where: str = "") -> None:
    """Add the options that say how a new pipeline learns; by default it does as ``task`` says.

    The help begins with ``where`` they matter, if that is not everywhere.
    """
    tasks = "regression", "classification"
    add("--task", choices=tasks, help=f"{where}default: as the {task}")
    add("--learner", metavar="NAME", help=f"{where}default: {LEARNER}")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a learner's argument; may be given several times")  # fmt: skip


def reading_options(add: Any) -> None:
    """Add the options that say how a file is read, whatever its columns become."""
    add("--names", type=names, default=(), metavar="A,B",
        help="names of the columns of a CSV file without a header")  # fmt: skip
    add("--header", action=argparse.BooleanOptionalAction, help="whether the first line of a CSV "
        "file is a header (default: yes, but one that looks like a row is refused)")  # fmt: skip
    add("--missing", type=names, default=(), metavar="A,B", help="words that stand for missing "
        "cells, beside NA, ? and the like: --missing=None,-")  # fmt: skip
    add("--longest-line", type=count, default=LONGEST_LINE, metavar="MiB",
        help=f"the MiB that a line of text may take (default: {LONGEST_LINE})")  # fmt: skip


def bad_rows(add: Any, one_more: str) -> None:
    """Add the option that says how many rows may be skipped, and what ``one_more`` does."""
    add("--bad-rows", type=natural, default=0, metavar="N", help="skip up to N rows that cannot "
        "be read, because a cell or class does not fit its column, there are too many or too few "
        f"cells, or the text is not UTF-8 (default: 0); {one_more}")  # fmt: skip


def reading(given: Namespace) -> dict[str, Any]:
    """The arguments of :func:`jaxmkl.tables.open_table` that were given."""
    return {name: getattr(given, name) for name in ("names", "header", "missing", "longest_line")}


def plain(given: Namespace, without: Collection[str]) -> dict[str, Any]:
    """The given options except those ``without``, with paths as text."""
    kept = {name: value for name, value in vars(given).items() if name not in without}
    return {name: str(v) if isinstance(v, Path) else v for name, v in kept.items()}


def interval(text: str) -> dict[str, float]:
    """Parse a number of rows, or of minutes if an m follows.

    >>> interval("100000"), interval("5m")
    ({'examples': 100000}, {'minutes': 5.0})
    """
    if text.isdecimal() and int(text) > 0:
        return {"examples": int(text)}
    try:
        minutes = float(text.removesuffix("m"))
    except ValueError:
        minutes = -1.0
    if not text.endswith("m") or not 0 < minutes < float("inf"):
        wanted = "rows such as 100000 or minutes such as 5m"
        raise argparse.ArgumentTypeError(f"expected {wanted}; got {text!r}")
    return {"minutes": minutes}


def share(text: str) -> float:
    """Parse a number above 0 and at most 1."""
    try:
        if 0 < float(text) <= 1:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected a share above 0 and at most 1; got {text!r}")


def kind(text: str) -> tuple[str, str]:
    """Parse COLUMN=KIND; the column's name may hold an equals sign."""
    column, equals, wanted = text.rpartition("=")
    if not column or not equals or not wanted:
        raise argparse.ArgumentTypeError(f"expected COLUMN=KIND; got {text!r}")
    return column, wanted
