"""Rows of a table, and the cells of a column: numbers, times or words, null if missing.

A cell that is neither missing nor of the wanted kind is refused, by its row and column.
"""

import dataclasses
import datetime
import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from jaxmkl._pytree import require
from jaxmkl.tables._words import missing_cells

Where = Callable[[int], str]  # names the cell of a row, for messages

MOSTLY = 0.9  # a column with a larger share of numbers is a column of numbers with mistakes
DECIMAL_COMMA = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+$"
# separators of thousands, and numbers that have them
SEPARATORS = {",": ",", ".": r"\.", " ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
POINTS = {",": r"\.", ".": ",", " ": "[.,]", "'": "[.,]"}
GROUPS = {sign: rf"[1-9]\d{{0,2}}({any_of}\d{{3}})+" for sign, any_of in SEPARATORS.items()}
INDIAN = r"[1-9]\d?(,\d{2})+,\d{3}"  # 1,00,000
GROUPS[","] = f"({GROUPS[',']}|{INDIAN})"
GROUPED = {sign: rf"^[-+]?{GROUPS[sign]}({POINTS[sign]}\d+)?$" for sign in SEPARATORS}
# surely not decimal commas
SURELY_COMMAS = rf"^[-+]?([1-9]\d{{0,2}}(,\d{{3}})+(,\d{{3}}|\.\d+)|{INDIAN}(\.\d+)?)$"
# the forms of time, in the order in which they are tried
DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %B %Y", "%d-%B-%Y", "%B %d, %Y"),  # the month may have three letters
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d", "%d-%m-%y", "%m-%d-%y", "%d-%B-%y"),
)
MONTHS = ("%Y-%m", "%m/%Y", "%B %Y")  # each stands for its first day
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p")  # a time of day may stand alone
ISO = "%+"
# of any number of hours, or days before them, as pandas and Python write
LASTING = r"^(?:([-+]?\d+) days?,? )?([-+]?)(\d+):([0-5]\d)"
DURATIONS = {"H:MM:SS": rf"{LASTING}:([0-5]\d(?:\.\d+)?)$", "H:MM": f"{LASTING}()$"}
OF_DAYS = (*CLOCKS, *DURATIONS)
MOMENTS = (f"{date}{t}{clock}" for date in DATES for t in " T" for clock in CLOCKS)
FORMATS = (*DATES, *MOMENTS, ISO, *MONTHS, *CLOCKS)
YEAR_100 = -59_011_459_200.0  # seconds since 1970; %Y also reads years of fewer than four digits
TEMPORAL = (datetime.date, datetime.time, datetime.timedelta)
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9}
# blanks around a cell are ignored: spaces, tabs and ends of lines, no other control characters
BLANKS = " \t\r\n\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
CURRENCY, UNIT = r"(\p{L}{0,3}\p{Sc})", rf"\d[{BLANKS}]*(°?\p{{L}}[\p{{L}}/²³]*)$"
CURRENCIES = (
    "AED|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|"
    r"PHP|PLN|RMB|RON|RUB|Rs\.?|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR"
)
BEFORE = rf"^[-+]?[{BLANKS}]*({CURRENCIES})[{BLANKS}]*[-+]?[.\d]"  # other words may name the rows
# ($5), $(5), (5) kg, (5%)
PARENTHESES = rf"^([^()0-9+-]*)\([{BLANKS}]*([^()+-]*[0-9][^()+-]*?)[{BLANKS}]*\)([^()0-9]*)$"
BEHIND = r"^([^()+-]*[0-9])-([^()0-9+-]*)$"  # 1.234,50-
MINUS = "\u2212"  # is read as the usual minus


@dataclasses.dataclass(frozen=True, kw_only=True)
class Notation:
    """The notation of the numbers of a column."""

    decimal: str = "."
    thousands: str = ""
    """The separator of thousands: "" for none, else a comma, a blank or an apostrophe."""
    percent: bool = False
    unit: str = ""
    """The currency that stands before or behind them, or the word behind them."""
    parentheses: bool = False
    """Whether numbers in parentheses are negative, as are those with a minus behind them."""

    def __post_init__(self) -> None:
        require(self.decimal in (".", ","), self, "decimal", self.decimal, "a point or a comma")
        good = self.thousands in {"", *SEPARATORS} - {"."}  # points stand beside decimal commas
        wanted = "nothing, a comma, a blank or an '"
        require(good, self, "thousands", self.thousands, wanted)

    @property
    def writing(self) -> dict[str, Any]:
        """The fields of this class alone."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Notation)}

    @property
    def is_usual(self) -> bool:
        """True if numbers have a decimal point, and no other signs."""
        return self.writing == Notation().writing

    @property
    def signs(self) -> list[str]:
        """Phrases on what is not usual about them."""
        between = {",": "commas", " ": "blanks", "'": "apostrophes"}.get(self.thousands)
        found = ["with decimal commas"] * (self.decimal == ",")
        found += [f"with {between} between thousands"] * bool(between)
        found += ["with percent signs, in hundredths"] * self.percent
        found += [f"in {self.unit}"] * bool(self.unit)
        return found + ["negative in parentheses or with a minus behind"] * self.parentheses

    @property
    def separators(self) -> str:
        """The separators of thousands: beside decimal commas, points are too."""
        return self.thousands + "." * (self.decimal == ",")

    def bare(self, cells: pl.Series) -> pl.Series:
        """Remove percent signs, units, the blanks beside them, and separators of thousands.

        Parentheses, and a minus behind a number, become a minus before it.
        """
        cells = cells.str.replace_all(MINUS, "-", literal=True)
        if self.parentheses:
            cells = cells.str.replace(PARENTHESES, "-${1}${2}${3}").str.replace(
                BEHIND, "-${1}${2}"
            )
        if self.percent:
            cells = cells.str.strip_suffix("%").str.strip_chars_end(BLANKS)
        if self.unit:
            sign = re.escape(self.unit)
            before, behind = rf"^([-+]?)[{BLANKS}]*{sign}[{BLANKS}]*", rf"[{BLANKS}]*{sign}$"
            cells = cells.str.replace(before, "${1}").str.replace(behind, "")
        for sign in self.separators:
            grouped = cells.str.contains(GROUPED[sign]).fill_null(False)
            without = cells.str.replace_all(SEPARATORS[sign], "")
            cells = without.zip_with(grouped, cells)
        return cells


class RefusedRows(ValueError):
    """Some rows have a cell that cannot be read.

    Args:
      reasons: a sentence for each of these rows, by its place in the chunk; the first sentence is
        the message.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(next(iter(reasons.values())))
        self.reasons = reasons


class Cells:
    """The cells of a column, ``raw`` as they were read; ``where`` names the cell of a row.

    ``comma`` tells whether numbers of other columns have decimal commas, ``missing`` has words for
    missing cells, beside the usual ones.
    """

    def __init__(
        self, raw: pl.Series, where: Where, comma: bool = False, missing: tuple[str, ...] = ()
    ) -> None:
        self.where, self.comma, self.name = where, comma, raw.name
        # under a plain name: polars takes a name like ^a$ for a pattern, even in a method
        self.raw = raw = raw.alias("cells")
        if raw.dtype == pl.Object and not nested(raw).any():  # rows with lists were taken out
            self.raw = series_of("cells", raw.to_list())
        self.missing = missing

    @cached_property
    def values(self) -> pl.Series:
        """The cells, null where they are missing: empty, ``NA``, ``?``, NaN and the like."""
        cells = self.raw
        words, numbers = missing_cells(self.missing)
        if numbers and cells.dtype.is_numeric():
            found = cells.cast(pl.Float64, strict=False).is_in(numbers).fill_null(False)
            cells = cells.set(found, None) if found.any() else cells
        if cells.dtype.is_float():
            return cells.fill_nan(None)
        if isinstance(cells.dtype, pl.Categorical | pl.Enum):
            cells = cells.cast(pl.String)
        if cells.dtype != pl.String:
            return cells
        cells = cells.str.strip_chars(BLANKS)
        missing = cells.str.len_chars() <= max(map(len, words))
        missing &= cells.str.to_lowercase().is_in(words)
        return cells.set(missing, None) if missing.any() else cells

    @cached_property
    def known(self) -> pl.Series:
        """The cells that are not missing."""
        return self.values.drop_nulls()

    @property
    def has_gaps(self) -> bool:
        """True if cells are missing."""
        return len(self.known) < len(self.raw)

    @property
    def flat(self) -> pl.Series:
        """The values; a list, an object of JSON or bytes among them are refused."""
        got = "bytes" if self.raw.dtype == pl.Binary else "a list or an object"
        why = f"a number or text is wanted; got {got} (--drop leaves the column out)"
        if self.raw.dtype == pl.Object:
            self.refuse(nested(self.values), why)
        if self.raw.dtype.is_nested() or self.raw.dtype == pl.Binary:
            self.refuse(self.values.is_not_null(), why)
        return self.values

    @cached_property
    def words(self) -> pl.Series:
        """The cells as text, whole numbers without a point, truth values in small letters."""
        cells = self.flat
        cells = parsed(cells) if isinstance(cells.dtype, pl.Duration) else cells
        words = cells.cast(pl.String)
        return without_points(words, cells) if cells.dtype.is_float() else words

    @cached_property
    def notation(self) -> Notation | None:
        """The notation of most of the numbers; None where the cells are no numbers."""
        dtype = self.known.dtype
        if dtype != pl.String:
            numeric = dtype.is_numeric() or dtype == pl.Duration
            return Notation() if numeric else None
        written, bare = self.signed
        commas, grouped = bare.str.contains(DECIMAL_COMMA), bare.str.contains(GROUPED[","])
        pointed = bare.filter(bare.str.contains(".", literal=True))
        points = pointed.str.contains(GROUPED["."])
        comma = self.comma or pointed.str.contains(r"\.\d+\.").any()  # 1.234.567
        has_decimals = commas.any() and (self.comma or not grouped.filter(commas).all())
        if bare.str.contains(SURELY_COMMAS).any():
            written = dataclasses.replace(written, thousands=",")
        # beside decimal commas in other columns, 1.234 is a thousand
        elif has_decimals or (comma and len(points) and points.all()):
            written = dataclasses.replace(written, decimal=",")
        numbers = parsed(self.known, written).count()
        return written if numbers > MOSTLY * len(bare) else None

    @property
    def doubts(self) -> list[str]:
        """A phrase on points that stand between thousands only as other columns have commas."""
        if self.known.dtype != pl.String or not (written := self.notation):
            return []
        bare = self.signed[1]
        pointed = bare.filter(bare.str.contains(".", literal=True))
        is_sure = bare.str.contains(r",|\..*\.").any()  # 1,5 or 1.234.567
        if written.decimal == "." or pointed.is_empty() or is_sure:
            return []
        one = pointed[0]
        return [f"as other columns have them: {one} is {one.replace('.', '')}"]

    @cached_property
    def signed(self) -> tuple[Notation, pl.Series]:
        """The notation of the known cells, which are text, and the cells without its signs.

        Blanks separate thousands if not all cells have them, or some have decimals, or other
        columns have decimal commas: otherwise the cells may be telephone numbers.
        """
        known = self.known
        behind = known.filter(known.str.contains(BEHIND)).str.contains("[.,]").any()
        has_parentheses = bool(known.str.contains(PARENTHESES).any() or behind)
        written = Notation(parentheses=has_parentheses)
        bare = written.bare(known)
        units = bare.str.extract(CURRENCY).drop_nulls().unique()
        if units.is_empty():  # a word is a unit only if it stands beside all of them
            beside = bare.str.extract(UNIT).fill_null(bare.str.extract(BEFORE)).unique()
            units = units if beside.has_nulls() else beside
        unit, percent = units[0] if len(units) == 1 else "", bool(bare.str.ends_with("%").any())
        written = dataclasses.replace(written, unit=unit, percent=percent)
        bare = written.bare(known)
        for sign in (" ", "'"):
            grouped = bare.str.contains(GROUPED[sign])
            sure = sign == "'" or self.comma or not grouped.all()
            sure = sure or bool(bare.str.contains("[.,]").any())
            if grouped.any() and sure:
                written = dataclasses.replace(written, thousands=sign)
                bare = written.bare(known)
        return written, bare

    def refuse(self, wrong: pl.Series, why: str, cells: pl.Series | None = None) -> None:
        """Refuse the rows of wrong cells; ``why`` shows the cell in the place of ``{}``."""
        cells = self.values if cells is None else cells
        found = {row: why.replace("{}", repr(cells[row]), 1) for row in wrong.arg_true()}
        if found:
            raise RefusedRows({row: f"{self.where(row)}: {text}" for row, text in found.items()})

    def refuse_unread(self, found: pl.Series, why: str) -> None:
        """Refuse the rows whose cell is not missing, but was not ``found`` to be anything."""
        self.refuse(self.values.is_not_null() & found.is_null(), why)

    def refuse_commas(self) -> None:
        """Refuse text that is numbers with commas, if these may be either of two signs."""
        written, bare = self.signed
        with_commas = f"{GROUPED[',']}|{DECIMAL_COMMA}"
        commas = bare.str.contains(with_commas)
        numbers = commas | parsed(bare).is_not_null()
        if commas.any() and int(numbers.sum()) > MOSTLY * len(numbers):
            why = "write them with a decimal point and nothing between thousands"
            wrong = written.bare(self.values).str.contains(with_commas)
            self.refuse(wrong, f"numbers with commas, e.g. {{}}; {why}")

    def numbers(self, written: Notation) -> np.ndarray:
        """Read the cells as finite numbers (n,) float64, NaN where missing; refuse others."""
        cells = self.flat
        if cells.dtype.is_temporal() and not isinstance(cells.dtype, pl.Duration | pl.Time):
            self.refuse(cells.is_not_null(), "{} is a time, where a number is wanted")
        found = parsed(cells, written)
        advice = "mend the cell, leave it empty, or have another kind for the column"
        of = " with decimal commas" * (written.decimal == ",")
        self.refuse_unread(found, f"{{}} is not a number{of}, unlike the others; {advice}")
        infinite = found.is_infinite().fill_null(False)
        self.refuse(infinite, "{} is not finite; mend the cell or leave it empty")
        return found.fill_null(float("nan")).to_numpy()


def series_of(name: str, values: list) -> pl.Series:
    """Make a column of Python values: numbers, booleans, times, nested objects, else text."""
    values = [_of_python(value) for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds & {list, dict}:
        return pl.Series(name, values, pl.Object)
    if kinds == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if kinds <= {int, float}:
        return pl.Series(name, [None if v is None else _as_float(v) for v in values], pl.Float64)
    if any(all(issubclass(kind, of) for kind in kinds) for of in TEMPORAL):
        return pl.Series(name, values)
    texts = [v if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    try:
        return pl.Series(name, texts, pl.String)
    except UnicodeEncodeError as error:
        raise ValueError(f"column {name!r}: {half_of_a_pair(error)}") from None


def half_of_a_pair(error: UnicodeEncodeError) -> str:
    """Say in plain words why a text of Python is none."""
    return f"{error.object[error.start]!r} is half of a surrogate pair, which is no text"


def _of_python(value: Any) -> Any:
    """A value of Python in place of NumPy's; None if Python, NumPy or pandas marks it missing."""
    if isinstance(value, np.datetime64 | np.timedelta64):  # as nanoseconds it would be an integer
        value = value.astype(f"{value.dtype.kind}8[us]")
    value = value.item() if hasattr(value, "item") else value
    is_gap = isinstance(value, float) and value != value
    return None if is_gap or type(value).__name__ in ("NAType", "NaTType") else value


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # infinite numbers are refused later
        return math.inf if value > 0 else -math.inf


def nested(cells: pl.Series) -> pl.Series:
    """Mask the cells of a column of Python objects that are lists or objects of JSON."""
    return pl.Series([isinstance(cell, list | dict) for cell in cells], dtype=pl.Boolean)


def without_points(words: pl.Series, numbers: pl.Series) -> pl.Series:
    """The words, with whole numbers among them in one spelling: 1.0 and +1 are 1."""
    whole = ((numbers == numbers.round()) & (numbers.abs() < 2**53)).fill_null(False)
    return numbers.cast(pl.Int64, strict=False).cast(pl.String).zip_with(whole, words)


def parsed(cells: pl.Series, written: Notation | None = None) -> pl.Series:
    """Parse cells as numbers, null where there is none."""
    if isinstance(cells.dtype, pl.Duration):
        return cells.dt.total_microseconds() / 1e6
    if isinstance(cells.dtype, pl.Time):
        return cells.cast(pl.Int64) / 3.6e12
    if cells.dtype != pl.String or written is None:
        return cells.cast(pl.Float64, strict=False)
    bare = written.bare(cells)
    if written.decimal == ",":  # a point that is left would be a decimal one
        others = bare.str.contains(".", literal=True).fill_null(False)
        bare = bare.set(others, None).str.replace(",", ".", literal=True)
    found = bare.cast(pl.Float64, strict=False)
    if not written.percent:
        return found
    # by a column: polars would multiply by 1 / 100, which rounds otherwise
    signs = cells.str.contains("%", literal=True).fill_null(False)
    return found / pl.Series([1.0, 100.0]).gather(signs.cast(pl.Int8))


def instants(cells: pl.Series, form: str | None) -> pl.Series:
    """Read times as seconds since 1970, null where there is none; ``form`` is that of text.

    Those of a form of ``DURATIONS`` are seconds in all.
    """
    if form in DURATIONS and cells.dtype != pl.Time:
        return _lasting(cells, form) if cells.dtype == pl.String else parsed(cells)
    if cells.dtype == pl.String and form is not None:
        if form == ISO:
            cells = cells.str.to_datetime(ISO, strict=False, time_unit="us", time_zone="UTC")
        elif form in CLOCKS:
            cells = ("1970-1-1 " + cells).str.to_datetime(
                f"%Y-%m-%d {form}", strict=False, time_unit="us"
            )
        elif "%H" in form or "%I" in form:
            cells = cells.str.to_datetime(form, strict=False, time_unit="us")
        elif form in MONTHS:
            cells = (cells + " 1").str.to_date(f"{form} %d", strict=False)
        else:
            cells = cells.str.to_date(form, strict=False)
        found = instants(cells, None)
        return found.set((found < YEAR_100).fill_null(False), None) if "%Y" in form else found
    # as numbers: polars panics at times that its calendar does not have
    if cells.dtype == pl.Date:
        return cells.cast(pl.Int32) * 86400.0
    if isinstance(cells.dtype, pl.Datetime) or (cells.dtype == pl.Time and form in OF_DAYS):
        unit = getattr(cells.dtype, "time_unit", "ns")
        # by a column: polars would multiply by 1e-9, after which midnight is not midnight
        divisors = pl.Series([PER_SECOND[unit]]).new_from_index(0, len(cells))
        return cells.cast(pl.Int64) / divisors
    return pl.Series(cells.name, [None], pl.Float64).new_from_index(0, len(cells))


def _lasting(cells: pl.Series, form: str) -> pl.Series:
    found = cells.str.extract_groups(DURATIONS[form]).struct.unnest()
    days, _, hours, minutes, seconds = found.cast(pl.Float64, strict=False)
    clock = 3600.0 * hours + 60.0 * minutes + seconds.fill_null(0.0)
    is_negative = (found["2"] == "-").fill_null(False)
    return 86400.0 * days.fill_null(0.0) + (-clock).zip_with(is_negative, clock)


def forms_of(cells: pl.Series) -> list[str]:
    """List the forms of time in which all of the cells, none missing, can be read."""
    if not cells.head(1).str.contains(r"\d").any():
        return []
    cell = cells[0].upper()
    forms = [  # by their signs at first, as polars takes a while to try a form
        form
        for form in FORMATS
        if (":" in form or form == ISO) == (":" in cell)
        and ("T%" not in form or "T" in cell)
        and ("%p" not in form or "M" in cell)
    ]
    forms = [form for form in forms if instants(cells.head(1), form).null_count() == 0]
    forms = [form for form in forms if instants(cells, form).null_count() == 0]
    return forms or durations_of(cells)


def durations_of(cells: pl.Series) -> list[str]:
    """The form of durations in which all of the cells, none missing, can be read, if any."""
    if cells.dtype != pl.String or not cells.head(1).str.contains(":").any():
        return []
    return [form for form in DURATIONS if instants(cells, form).null_count() == 0]
