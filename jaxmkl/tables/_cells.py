"""Cells of a text file: numbers, text and what is missing; and what a column of them holds."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

MISSING = frozenset({"", "na", "n/a", "nan", "?", "null"})  # compared without regard to case
MAX_CATEGORIES = 100
MOSTLY = 0.9  # a column with a larger share of numbers is a numeric one with a slip in it


def is_missing(cell: str) -> bool:
    """Whether a cell stands for no value."""
    return cell.casefold() in MISSING


def number_in(cell: str) -> float | None:
    """Return the number in a cell, NaN for a missing one and None for text."""
    if is_missing(cell):
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if "_" in cell else value  # Python's 1_000 is no number in a file


def quick_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """Return the cells as numbers if all are plain finite ones, else None."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return values if np.isfinite(values).all() and "_" not in "".join(cells) else None


def numbers_in(cells: Sequence[str]) -> np.ndarray:
    """The numbers in cells, NaN where one is missing."""
    values = quick_numbers(cells)
    return np.array([number_in(cell) for cell in cells], float) if values is None else values


def not_utf8(path: str) -> ValueError:
    """What to raise for a file that is no text, with the first such line."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return ValueError(f"{path}, line {number}: is not text in UTF-8")
    return ValueError(f"{path}: is not text in UTF-8")


@dataclasses.dataclass
class Column:
    """What the cells of one CSV column were found to be."""

    path: str
    name: str
    numbers: int = 0
    texts: int = 0
    first_text: tuple[int, str] | None = None
    first_infinite: tuple[int, str] | None = None
    distinct: set[str] = dataclasses.field(default_factory=set)
    has_missing: bool = False

    def look(self, lines: Sequence[int], cells: Sequence[str]) -> None:
        """Take note of some more cells of the column."""
        if len(self.distinct) <= MAX_CATEGORIES:
            self.distinct.update(cell for cell in set(cells) if not is_missing(cell))
        values = quick_numbers(cells)
        if values is not None:
            self.numbers += len(cells)
            return
        for line, cell in zip(lines, cells, strict=True):
            number = number_in(cell)
            if number is None:
                self.texts += 1
                self.first_text = self.first_text or (line, cell)
            elif np.isnan(number):
                self.has_missing = True
            else:
                self.numbers += 1
                if np.isinf(number):
                    self.first_infinite = self.first_infinite or (line, cell)

    def is_text(self) -> bool:
        """Decide what the column is; refuse it where that would be a guess."""
        if self.first_text is None or self.numbers > MOSTLY * (self.numbers + self.texts):
            if self.first_text is not None:
                line, cell = self.first_text
                raise ValueError(f"{self._at(line)}: {cell!r} is not a number, unlike the others")
            if self.first_infinite is not None:
                line, cell = self.first_infinite
                raise ValueError(f"{self._at(line)}: {cell!r} is not finite")
            return False
        values = sorted(self.distinct)
        with_comma = [value for value in values if re.fullmatch(r"[-+]?\d[\d.]*,\d+", value)]
        if with_comma and all(
            value in with_comma or number_in(value) is not None for value in values
        ):
            raise ValueError(
                f"{self.path}, column {self.name!r}: numbers with commas, e.g. {with_comma[0]!r}; "
                "write them with a decimal point and nothing between thousands"
            )
        if len(values) > MAX_CATEGORIES:
            line, cell = self.first_text
            raise ValueError(
                f"{self._at(line)}: text ({cell!r}) in a column with more than {MAX_CATEGORIES} "
                "distinct values; drop the column or make it numeric"
            )
        return True

    def _at(self, line: int) -> str:
        return f"{self.path}, line {line}, column {self.name!r}"
