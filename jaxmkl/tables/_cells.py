"""Cells of any type as numbers, times or words, null where they are missing.

A cell that is neither missing nor of the wanted kind is refused, by its row and column.
"""

from collections.abc import Callable

import numpy as np
import polars as pl

from jaxmkl.tables._table import MISSING

Where = Callable[[int], str]  # names the cell of a row, for messages

# the forms of time, in the order in which they are tried
DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y"),
)
CLOCKS = ("%H:%M:%S%.f", "%H:%M")
# blanks around a cell are ignored: spaces, tabs and ends of lines, no other control characters
BLANKS = " \t\r\n\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9}
ISO = "%+"
FORMATS = (*DATES, *(f"{d}{t}{c}" for d in DATES for t in " T" for c in CLOCKS), ISO)
FALSE_TRUE = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"))


def known(cells: pl.Series) -> pl.Series:
    """Return the cells, null where they are missing: empty, ``NA``, ``?``, NaN and the like."""
    if cells.dtype.is_float():
        return cells.fill_nan(None)
    if isinstance(cells.dtype, pl.Categorical | pl.Enum):
        cells = cells.cast(pl.String)
    if cells.dtype != pl.String:
        return cells
    cells = cells.str.strip_chars(BLANKS)
    missing = cells.str.len_chars() <= max(map(len, MISSING))
    missing &= cells.str.to_lowercase().is_in(sorted(MISSING))
    return cells if not missing.any() else cells.set(missing, None)


def refuse(cells: pl.Series, wrong: pl.Series, where: Where, why: str) -> None:
    """Raise for the first cell that is wrong; ``why`` shows it in the place of ``{}``."""
    for row in wrong.arg_true().head(1):
        raise ValueError(f"{where(row)}: {why.format(repr(cells[row]))}")


def nested(cells: pl.Series) -> pl.Series:
    """Tell which cells of a column of Python's objects are lists or objects of JSON."""
    return pl.Series([isinstance(cell, list | dict) for cell in cells], dtype=pl.Boolean)


def flat(cells: pl.Series, where: Where) -> None:
    """Refuse a cell that is a list or an object."""
    if cells.dtype == pl.Object:
        why = "a number or text is wanted; got a list or an object (--drop leaves the column out)"
        refuse(cells, nested(cells), where, why)


def parsed(cells: pl.Series, decimal: str = ".", percent: bool = False) -> pl.Series:
    """Parse cells as numbers, null where there is none."""
    if cells.dtype == pl.String:
        if percent:
            signs = cells.str.ends_with("%")
            parts = cells.str.strip_suffix("%").str.strip_chars_end(BLANKS)
            numbers = parsed(parts, decimal)
            return numbers / pl.Series([1.0, 100.0]).gather(signs.fill_null(False).cast(pl.Int8))
        if decimal == ",":
            # 1.234,5: points separate thousands
            cells = cells.str.replace_all(r"\.(\d{3})", "$1").str.replace(",", ".", literal=True)
        return cells.cast(pl.Float64, strict=False)
    if isinstance(cells.dtype, pl.Duration):
        return cells.dt.total_microseconds() / 1e6
    if isinstance(cells.dtype, pl.Time):
        return cells.cast(pl.Int64) / 3.6e12
    return cells.cast(pl.Float64, strict=False)


def numbers(
    cells: pl.Series, where: Where, decimal: str = ".", percent: bool = False
) -> np.ndarray:
    """Read cells as numbers (n,) float64, NaN where missing.

    Raises:
      ValueError: a cell is not a finite number.
    """
    cells = known(cells)
    if cells.dtype.is_temporal() and not isinstance(cells.dtype, pl.Duration | pl.Time):
        refuse(cells, cells.is_not_null(), where, "{} is a time, where a number is wanted")
    found = parsed(cells, decimal, percent)
    advice = "mend the cell, leave it empty, or have another kind for the column"
    wrong = cells.is_not_null() & found.is_null()
    refuse(cells, wrong, where, f"{{}} is not a number, unlike the others; {advice}")
    infinite = found.is_infinite().fill_null(False)
    refuse(cells, infinite, where, "{} is not finite; mend the cell or leave it empty")
    return found.fill_null(float("nan")).to_numpy()


def instants(cells: pl.Series, form: str | None) -> pl.Series:
    """Read times as seconds since 1970, null where there is none; text has the form given."""
    if cells.dtype == pl.String and form is not None:
        if form == ISO:
            cells = cells.str.to_datetime(ISO, strict=False, time_unit="us", time_zone="UTC")
        elif "%H" in form:
            cells = cells.str.to_datetime(form, strict=False, time_unit="us")
        else:
            cells = cells.str.to_date(form, strict=False)
    if not isinstance(cells.dtype, pl.Date | pl.Datetime):
        return pl.Series(cells.name, [None], pl.Float64).new_from_index(0, len(cells))
    # as numbers: polars panics at times that its calendar does not have
    if cells.dtype == pl.Date:
        return cells.cast(pl.Int32) * 86400.0
    return cells.cast(pl.Int64) / PER_SECOND[cells.dtype.time_unit]  # type: ignore[union-attr]


def forms_of(cells: pl.Series) -> list[str]:
    """List the forms of time in which all of the cells can be read."""
    cells = cells.drop_nulls()
    if not cells.head(1).str.contains(r"\d").any():
        return []
    first = [form for form in FORMATS if instants(cells.head(1), form).null_count() == 0]
    return [form for form in first if instants(cells, form).null_count() == 0]


def words(cells: pl.Series) -> pl.Series:
    """Return cells as text, whole numbers without a point, truth values in small letters."""
    cells = known(cells)
    if cells.dtype.is_float() and cells.drop_nulls().is_finite().all():
        whole = cells.drop_nulls()
        if (whole == whole.round()).all() and (whole.abs() < 2**53).all():
            return cells.cast(pl.Int64).cast(pl.String)
    return cells.cast(pl.String)
