"""A column's kind is decided on its first cells; what could only be guessed is refused."""

import math
import re
from typing import Any, NamedTuple

import polars as pl

from jaxmkl._checks import shown
from jaxmkl.tables import _cells, _kinds
from jaxmkl.tables._cells import Where
from jaxmkl.tables._kinds import KINDS, Kind
from jaxmkl.tables._table import MOSTLY

FEW = 50  # words, at most, that become categories
MANY = 50  # rows from which on values that are all distinct name the rows
DECIMAL_COMMA = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+$"
THOUSANDS = r"^[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
NAMES_ROWS = re.compile(r"(?i:(^|[\W_])(id|uuid|guid|index)$)|[a-z]I[dD]$")


class Decision(NamedTuple):
    """What a column becomes."""

    kind: Kind
    note: str
    """A sentence about it, "" for numbers as they stand."""


class First(NamedTuple):
    """A column in the first rows of a table."""

    name: str
    cells: pl.Series
    """The cells, null where they are missing."""
    known: pl.Series
    """The cells that are not missing."""
    where: Where
    """Names the cell of a row."""
    comma: bool
    """Whether other columns have decimal commas."""
    keep: bool
    """Whether numbers stay that are constant or name the rows."""

    @property
    def missing(self) -> bool:
        """Whether cells are missing."""
        return len(self.known) < len(self.cells)


class Style(NamedTuple):
    """How numbers are written."""

    decimal: str = "."
    percent: bool = False
    share: float = 1.0
    """The share of the cells that are such numbers."""


def style_of(cells: pl.Series, comma: bool = False) -> Style | None:
    """How most of the cells (none missing) are written as numbers; None where they are not.

    ``comma``: other columns have decimal commas.
    """
    if cells.dtype != pl.String:
        return Style() if cells.dtype.is_numeric() or cells.dtype == pl.Duration else None
    percent = bool(cells.str.ends_with("%").any())
    bare = cells.str.strip_suffix("%").str.strip_chars_end(_cells.BLANKS) if percent else cells
    found, decimal = _cells.parsed(bare).is_not_null(), "."
    commas = bare.str.contains(DECIMAL_COMMA)
    if commas.any() and (comma or not bare.filter(commas).str.contains(THOUSANDS).all()):
        found, decimal = commas | found, ","
    share = int(found.sum()) / max(1, len(found))
    return Style(decimal, percent, share) if share > MOSTLY else None


def has_decimal_comma(cells: pl.Series) -> bool:
    """Whether a column has decimal commas beyond doubt."""
    style = style_of(_cells.known(cells).drop_nulls()) if cells.dtype == pl.String else None
    return style is not None and style.decimal == ","


def kind_of(
    name: str,
    cells: pl.Series,
    where: Where,
    wanted: str | None = None,
    comma: bool = False,
    keep: bool = False,
) -> Decision:
    """Decide what a column becomes.

    Args:
      name, cells: the column in the first rows.
      where: names the cell of a row.
      wanted: the kind to be, or a form of time with its percent signs; None finds one.
      comma: whether other columns have decimal commas.
      keep: whether numbers stay that are constant or name the rows.

    Raises:
      ValueError: for numbers or dates that can be read in two ways, and a kind that does not fit.
    """
    cells = _cells.known(cells)
    column = First(name, cells, cells.drop_nulls(), where, comma, keep)
    if wanted is not None:
        _cells.flat(cells, where)
        return _as_wanted(column, wanted)
    return next(found for rule in RULES if (found := rule(column)) is not None)


def _as_wanted(column: First, wanted: str) -> Decision:
    name, cells, known, where, *_ = column
    if "%" in wanted:
        return _time(column, wanted)
    if wanted == "time":
        forms = _cells.forms_of(known) if known.dtype == pl.String else [None]
        if len(forms) != 1:
            found = f"{len(forms)} forms of time fit"
            found += f": {' and '.join(map(str, forms))}" if forms else ""
            raise ValueError(f"{where(0)}: {found}; name one, as --as {name}=%d/%m/%Y")
        return _time(column, forms[0])
    if wanted == "number":
        style = style_of(known, column.comma)
        if style is None and known.dtype == pl.String:
            wrong = cells.is_not_null() & _cells.parsed(cells).is_null()
            why = "{} is not a number, as which the column was to be read; name another kind, or"
            _cells.refuse(cells, wrong, where, f"{why} write all of its cells as numbers")
        return _number(column, style or Style())
    makers = {"boolean": _boolean, "categories": _categories, "text": _text}
    if wanted in makers:
        return makers[wanted](column)
    kinds = ", ".join(kind for kind in KINDS if kind != "left out")
    text = f"the kind must be one of {kinds}, or a form of time as %d.%m.%Y"
    raise ValueError(f"column {name!r}: {text}; got {wanted!r}")


# --- rules: the first one that does not return None decides --------------------------------------


def _nested(column: First) -> Decision | None:
    dtype = column.cells.dtype
    if dtype == pl.Object and _cells.nested(column.known).all():
        return _left_out(column, "holds lists or objects, neither numbers nor text")
    _cells.flat(column.cells, column.where)
    return _other_type(column) if dtype.is_nested() or dtype == pl.Binary else None


def _constant(column: First) -> Decision | None:
    known = column.known
    if known.is_empty():
        return _left_out(column, "has no value in the first rows", "")
    if known.n_unique() > 1 or column.missing or len(known) == 1 or column.keep:
        return None
    constant = _cells.words(known)[0]
    return _left_out(column, f"is {known[0]!r} in all of the first rows", constant)


def _typed_time(column: First) -> Decision | None:
    is_time = isinstance(column.cells.dtype, pl.Date | pl.Datetime)
    return _time(column, None) if is_time else None


def _numeric(column: First) -> Decision | None:
    style = style_of(column.known, column.comma)
    if style is None:
        return None
    numbers = _cells.parsed(column.known, style.decimal)
    why = "" if column.keep or style.share < 1 else _names_rows(column.name, numbers)
    return _left_out(column, why) if why else _number(column, style)


def _truth_values(column: First) -> Decision | None:
    known = column.known
    is_truth = known.dtype == pl.Boolean or (known.dtype == pl.String and _truth(known))
    return _boolean(column) if is_truth else None


def _other_type(column: First) -> Decision | None:
    dtype = column.cells.dtype
    why = f"holds {dtype}, neither numbers nor text"
    return _left_out(column, why) if dtype != pl.String else None


def _time_in_text(column: First) -> Decision | None:
    name, _, known, where, *_ = column
    if known.str.contains(THOUSANDS).all():
        found = f"numbers with commas, e.g. {known[0]!r}"
        why = "write them with a decimal point and nothing between thousands"
        raise ValueError(f"{where(0)}: {found}; {why}")
    forms = _cells.forms_of(known)
    if len(forms) > 1:
        found = f"{known[0]!r} and all others are times of the forms {' and '.join(forms)}"
        raise ValueError(f"{where(0)}: {found}: choose one (--as {name}={forms[0]})")
    return _time(column, forms[0]) if forms else None


def _words(column: First) -> Decision:
    known = column.known
    distinct = known.n_unique()
    lengths: Any = known.str.count_matches(r"\w+").mean()
    if distinct == known.len() >= MANY and lengths < 3:
        return _left_out(column, "holds another word in each row, which names it")
    return _categories(column) if distinct <= FEW else _text(column)


RULES = (
    *(_nested, _constant, _typed_time, _numeric, _truth_values, _other_type, _time_in_text),
    _words,
)


def _names_rows(name: str, numbers: pl.Series) -> str:
    """Why numbers name the rows; "" if they do not."""
    if len(numbers) < MANY or numbers.n_unique() < len(numbers):
        return ""
    steps = numbers.diff().drop_nulls()
    if (steps.abs() == 1).all() and steps.n_unique() == 1:
        return "counts the rows"
    whole = numbers.is_finite().all() and (numbers == numbers.round()).all()
    return "holds another whole number in each row, which names it" * bool(
        whole and NAMES_ROWS.search(name)
    )


def _truth(known: pl.Series) -> tuple[str, str] | None:
    found = sorted(set(known.str.to_lowercase().unique()))
    return next((pair for pair in _cells.FALSE_TRUE if sorted(pair) == found), None)


# --- decisions -----------------------------------------------------------------------------------


def _left_out(column: First, why: str, constant: str | None = None) -> Decision:
    name = column.name
    return Decision(_kinds.LeftOut(name, constant), f"column {name!r} {why}: left out")


def _number(column: First, style: Style) -> Decision:
    name, missing = column.name, column.missing
    numbers = _cells.parsed(column.known, style.decimal, style.percent).drop_nulls()
    finite = numbers.filter(numbers.is_finite())
    start = float(finite[0]) if len(finite) else 0.0
    parts = ["with decimal commas"] * (style.decimal == ",")
    parts += ["with percent signs, in hundredths"] * style.percent
    parts += ["missing cells become the mean so far, a feature tells which"] * missing
    kind = _kinds.Number(name, start, missing, style.decimal, style.percent)
    return Decision(kind, f"column {name!r}: {', '.join(['numbers', *parts])}" if parts else "")


def _boolean(column: First) -> Decision:
    name, spelled = column.name, _cells.words(column.known)
    pair = _truth(spelled) or (("0", "1") if set(spelled) <= {"0", "1"} else None)
    if column.missing or (pair is None and column.known.dtype != pl.Boolean):
        return _categories(column)
    false, true = pair or ("false", "true")
    text = f"column {name!r}: {false} is 0 and {true} is 1"
    return Decision(_kinds.Boolean(name, false, true), text)


def _categories(column: First) -> Decision:
    name, values, also = column.name, _cells.words(column.known).unique().sort().to_list(), ""
    if column.missing:
        values, also = [*values, _kinds.MISSING_CATEGORY], ", of which ? stands for missing cells"
    text = f"one 0/1 feature for each of its {len(values)} values{also}; others are all zeros"
    return Decision(_kinds.Categories(name, tuple(values)), f"column {name!r} holds words: {text}")


def _text(column: First) -> Decision:
    kind, distinct = _kinds.Text(column.name), column.known.n_unique()
    text = f"text of {distinct} values in the first rows: its words hashed to {kind.width}"
    return Decision(kind, f"column {kind.name!r} holds {text} features")


def _time(column: First, form: str | None) -> Decision:
    seconds = _cells.instants(column.cells, form).drop_nulls()
    start = float(seconds[0]) if len(seconds) else 0.0
    if len(seconds) == 0 or (seconds % 86400 == 0).all():
        unit, turns = "days", tuple(_kinds.TURNS)[1:]
    else:
        span = seconds.to_numpy().max() - seconds.to_numpy().min()
        fitting = (unit for unit, size in _kinds.UNITS.items() if span >= 10 * size)
        unit, turns = next(fitting, "seconds"), tuple(_kinds.TURNS)
    of = "" if form in (None, _cells.ISO) else f" of the form {form}"
    text = f"{unit} since the first, and turns of {', '.join(turns[:-1])} and {turns[-1]}"
    kind = _kinds.Time(column.name, math.floor(start), unit, turns, form)
    return Decision(kind, f"column {kind.name!r} holds times{of}: {text} as sin and cos")


def sentences(decisions: list[Decision]) -> list[str]:
    """The notes of columns; numbers as they stand share one sentence."""
    plain = [found.kind.name for found in decisions if not found.note]
    numbers = [f"numbers as they stand: {shown(plain)}"] if plain else []
    return [*numbers, *(found.note for found in decisions if found.note)]
