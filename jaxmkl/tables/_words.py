"""Words of tables: for missing cells, for targets and for numbers."""

import contextlib
import functools
import math
import re
from collections.abc import Iterator, Sequence

# compared without regard to case
_ERRORS = ("#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!")  # of a spreadsheet
MISSING = frozenset({"", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "?", "null", *_ERRORS})
TARGET_NAMES = ("target", "y", "label", "class")  # in this order, without regard to case
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


@functools.cache
def missing_cells(also: tuple[str, ...] = ()) -> tuple[list[str], list[float]]:
    """The words, in small letters, and numbers that stand for missing cells; some are ``also``."""
    numbers = (number for word in also if (number := number_in(word)) is not None)
    return sorted(MISSING | {word.lower() for word in also}), [*numbers]


@contextlib.contextmanager
def needs_polars() -> Iterator[None]:
    """Say what to install if polars cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "polars":
            raise
        text = 'tables are read by polars: pip install "jaxmkl[cli]"'
        raise ImportError(text, name="polars") from None


def usual_target(names: Sequence[str]) -> str | None:
    """Find the first column with a usual name of a target.

    >>> usual_target(["a", "Label", "y"])
    'y'
    """
    found = (name for usual in TARGET_NAMES for name in names if name.casefold() == usual)
    return next(found, None)


def twice(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Find the names that occur more than once, and the first two places of each.

    >>> twice(["a", "b", "a", "a"])
    {'a': (0, 2)}
    """
    first, found = dict[str, int](), dict[str, tuple[int, int]]()
    for place, name in enumerate(names):
        if first.setdefault(name, place) != place:
            found.setdefault(name, (first[name], place))
    return found


def number_in(cell: str) -> float | None:
    """Read a cell as a finite number; None if it is none.

    >>> [number_in(cell) for cell in ("-1.5e3", "1_000", "١", "1\\x0b", "1e999")]
    [-1500.0, None, None, None, None]
    """
    value = float(cell) if _NUMBER.fullmatch(cell) else math.inf
    return value if math.isfinite(value) else None
