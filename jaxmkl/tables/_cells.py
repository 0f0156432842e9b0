"""Rows of a table, and the cells of a column: numbers, times or words, null if missing.

A cell that is neither missing nor of the wanted kind is refused, by its row and column.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from jaxmkl._checks import shown
from jaxmkl._pytree import require
from jaxmkl.tables._words import MISSING

Where = Callable[[int], str]  # names the cell of a row, for messages

MOSTLY = 0.9  # a column with a larger share of numbers is one of numbers, with mistakes
DECIMAL_COMMA = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+$"
THOUSANDS = r"^[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
SURELY_THOUSANDS = r"^[-+]?[1-9]\d{0,2}(,\d{3})+(,\d{3}|\.\d+)$"  # no decimal comma among them
CURRENCY = r"(\p{Sc})"
# the forms of time, in the order in which they are tried
DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y"),
)
CLOCKS = ("%H:%M:%S%.f", "%H:%M")
ISO = "%+"
FORMATS = (*DATES, *(f"{d}{t}{c}" for d in DATES for t in " T" for c in CLOCKS), ISO)
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9}
# blanks around a cell are ignored: spaces, tabs and ends of lines, no other control characters
BLANKS = " \t\r\n\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """How numbers are written."""

    decimal: str = "."
    thousands: bool = False
    """Whether commas stand between thousands."""
    percent: bool = False
    currency: str = ""
    """The sign that stands before or behind them."""

    def __post_init__(self) -> None:
        require(self.decimal in (".", ","), self, "decimal", self.decimal, "a point or a comma")

    @property
    def writing(self) -> dict[str, Any]:
        """The fields of this class alone."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Written)}

    def bare(self, cells: pl.Series) -> pl.Series:
        """Take percent or currency signs off, and the blanks beside them."""
        if self.percent:
            cells = cells.str.strip_suffix("%").str.strip_chars_end(BLANKS)
        if self.currency:
            sign = re.escape(self.currency)
            before, behind = rf"^([-+]?)[{BLANKS}]*{sign}[{BLANKS}]*", rf"[{BLANKS}]*{sign}$"
            cells = cells.str.replace(before, "${1}").str.replace(behind, "")
        return cells


class Style(NamedTuple):
    """How most of the numbers of a column are written."""

    written: Written
    share: float = 1.0
    """The share of the cells that are such numbers."""


class Cells:
    """The cells of a column.

    Args:
      raw: the cells as they were read.
      where: names the cell of a row.
      comma: whether numbers of other columns have decimal commas.
    """

    def __init__(self, raw: pl.Series, where: Where, comma: bool = False) -> None:
        self.raw, self.where, self.comma, self.name = raw, where, comma, raw.name

    @cached_property
    def values(self) -> pl.Series:
        """The cells, null where they are missing: empty, ``NA``, ``?``, NaN and the like."""
        cells = self.raw
        if cells.dtype.is_float():
            return cells.fill_nan(None)
        if isinstance(cells.dtype, pl.Categorical | pl.Enum):
            cells = cells.cast(pl.String)
        if cells.dtype != pl.String:
            return cells
        cells = cells.str.strip_chars(BLANKS)
        missing = cells.str.len_chars() <= max(map(len, MISSING))
        missing &= cells.str.to_lowercase().is_in(sorted(MISSING))
        return cells.set(missing, None) if missing.any() else cells

    @cached_property
    def known(self) -> pl.Series:
        """The cells that are not missing."""
        return self.values.drop_nulls()

    @property
    def has_gaps(self) -> bool:
        """Whether cells are missing."""
        return len(self.known) < len(self.raw)

    @property
    def flat(self) -> pl.Series:
        """The values, of which a list or an object of JSON is refused."""
        why = "a number or text is wanted; got a list or an object (--drop leaves the column out)"
        if self.raw.dtype == pl.Object:
            self.refuse(nested(self.values), why)
        return self.values

    @cached_property
    def words(self) -> pl.Series:
        """The cells as text, whole numbers without a point, truth values in small letters."""
        if self.raw.dtype.is_float():
            whole = (self.known == self.known.round()) & (self.known.abs() < 2**53)
            if whole.all():
                return self.values.cast(pl.Int64).cast(pl.String)
        return self.flat.cast(pl.String)

    @cached_property
    def style(self) -> Style | None:
        """How most of the numbers are written; None where the cells are no numbers."""
        dtype = self.known.dtype
        if dtype != pl.String:
            numeric = dtype.is_numeric() or dtype == pl.Duration
            return Style(Written()) if numeric else None
        written, bare = self.signed
        found, commas = parsed(bare).is_not_null(), bare.str.contains(DECIMAL_COMMA)
        if bare.str.contains(SURELY_THOUSANDS).any():
            written = dataclasses.replace(written, thousands=True)
            found = found | bare.str.contains(THOUSANDS)
        elif commas.any() and (
            self.comma or not bare.filter(commas).str.contains(THOUSANDS).all()
        ):
            written = dataclasses.replace(written, decimal=",")
            found = found | commas
        share = int(found.sum()) / max(1, len(found))
        return Style(written, share) if share > MOSTLY else None

    @cached_property
    def signed(self) -> tuple[Written, pl.Series]:
        """Which signs the known cells, of text, have as numbers; and the cells without them."""
        known = self.known
        currencies = known.str.extract(CURRENCY).drop_nulls().unique()
        written = Written(
            percent=bool(known.str.ends_with("%").any()),
            currency=currencies[0] if len(currencies) == 1 else "",
        )
        return written, written.bare(known)

    def refuse(self, wrong: pl.Series, why: str, cells: pl.Series | None = None) -> None:
        """Raise for the first cell that is wrong; ``why`` shows it in the place of ``{}``."""
        cells = self.values if cells is None else cells
        for row in wrong.arg_true().head(1):
            raise ValueError(f"{self.where(row)}: {why.replace('{}', repr(cells[row]), 1)}")

    def refuse_unread(self, found: pl.Series, why: str) -> None:
        """Raise for the first cell that is not missing, where nothing was ``found``."""
        self.refuse(self.values.is_not_null() & found.is_null(), why)

    def numbers(self, written: Written) -> np.ndarray:
        """Read the cells as numbers (n,) float64, NaN where missing.

        Raises:
          ValueError: a cell is not a finite number.
        """
        cells = self.flat
        if cells.dtype.is_temporal() and not isinstance(cells.dtype, pl.Duration | pl.Time):
            self.refuse(cells.is_not_null(), "{} is a time, where a number is wanted")
        found = parsed(cells, written)
        advice = "mend the cell, leave it empty, or have another kind for the column"
        self.refuse_unread(found, f"{{}} is not a number, unlike the others; {advice}")
        infinite = found.is_infinite().fill_null(False)
        self.refuse(infinite, "{} is not finite; mend the cell or leave it empty")
        return found.fill_null(float("nan")).to_numpy()


class Chunk(NamedTuple):
    """Some rows of a table."""

    frame: pl.DataFrame
    place: str
    """The unit in which rows are counted: "line" or "row"."""
    numbers: Sequence[int]
    """The number of each row (n,)."""
    source: str
    """The name of the file."""

    def column(self, name: str, comma: bool = False) -> Cells:
        """The cells of a column; all are missing if it is not there."""
        there = name in self.frame.columns
        cells = self.frame[name] if there else pl.Series(name, [None] * len(self.frame), pl.Null)
        of = f"column {name!r}"
        return Cells(
            cells, lambda row: f"{self.source}, {self.place} {self.numbers[row]}, {of}", comma
        )

    @property
    def has_decimal_commas(self) -> bool:
        """Whether the numbers of a column have decimal commas beyond doubt."""
        text = self.frame.select(pl.col(pl.String))
        names = [cells.name for cells in text if cells.str.contains(",", literal=True).any()]
        styles = (self.column(name).style for name in names)
        return any(style is not None and style.written.decimal == "," for style in styles)

    def require(self, *names: str) -> None:
        """Refuse names that are none of a column."""
        for name in names:
            if name not in self.frame.columns:
                known = f"its columns are {shown(self.frame.columns, 100)}"
                raise ValueError(f"{self.source}: has no column {name!r}; {known}")

    def filter(self, mask: pl.Series) -> "Chunk":
        """The rows at which a mask is True."""
        numbers = [self.numbers[row] for row in mask.arg_true()]
        return self._replace(frame=self.frame.filter(mask), numbers=numbers)


def nested(cells: pl.Series) -> pl.Series:
    """Tell which cells of a column of Python's objects are lists or objects of JSON."""
    return pl.Series([isinstance(cell, list | dict) for cell in cells], dtype=pl.Boolean)


def parsed(cells: pl.Series, written: Written | None = None) -> pl.Series:
    """Parse cells as numbers, null where there is none."""
    if isinstance(cells.dtype, pl.Duration):
        return cells.dt.total_microseconds() / 1e6
    if isinstance(cells.dtype, pl.Time):
        return cells.cast(pl.Int64) / 3.6e12
    if cells.dtype != pl.String:
        return cells.cast(pl.Float64, strict=False)
    if written is None:
        return cells.cast(pl.Float64, strict=False)
    bare = written.bare(cells)
    if written.thousands:
        without = bare.str.replace_all(",", "", literal=True)
        bare = without.zip_with(bare.str.contains(THOUSANDS).fill_null(False), bare)
    if written.decimal == ",":
        # 1.234,5: points separate thousands
        bare = bare.str.replace_all(r"\.(\d{3})", "$1").str.replace(",", ".", literal=True)
    found = bare.cast(pl.Float64, strict=False)
    if not written.percent:
        return found
    # by a column: polars would multiply by 1 / 100, which rounds otherwise
    signs = cells.str.ends_with("%").fill_null(False)
    return found / pl.Series([1.0, 100.0]).gather(signs.cast(pl.Int8))


def instants(cells: pl.Series, form: str | None) -> pl.Series:
    """Read times as seconds since 1970, null where there is none; text has the form given."""
    if cells.dtype == pl.String and form is not None:
        if form == ISO:
            cells = cells.str.to_datetime(ISO, strict=False, time_unit="us", time_zone="UTC")
        elif "%H" in form:
            cells = cells.str.to_datetime(form, strict=False, time_unit="us")
        else:
            cells = cells.str.to_date(form, strict=False)
    # as numbers: polars panics at times that its calendar does not have
    if cells.dtype == pl.Date:
        return cells.cast(pl.Int32) * 86400.0
    if isinstance(cells.dtype, pl.Datetime):
        return cells.cast(pl.Int64) / PER_SECOND[cells.dtype.time_unit]
    return pl.Series(cells.name, [None], pl.Float64).new_from_index(0, len(cells))


def forms_of(cells: pl.Series) -> list[str]:
    """List the forms of time in which all of the cells, none missing, can be read."""
    if not cells.head(1).str.contains(r"\d").any():
        return []
    first = [form for form in FORMATS if instants(cells.head(1), form).null_count() == 0]
    return [form for form in first if instants(cells, form).null_count() == 0]
