"""Which kind a column is, decided on its first cells; what could only be guessed is refused."""

import math
import re
from typing import Any, NamedTuple

import polars as pl

from jaxmkl._checks import shown
from jaxmkl.tables import _cells, _kinds
from jaxmkl.tables._cells import Where
from jaxmkl.tables._table import MOSTLY

FEW = 50  # words, at most, that become categories
MANY = 50  # rows from which on values that are all distinct name the rows
DECIMAL_COMMA = r"^[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+$"
THOUSANDS = r"^[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
NAMES_ROWS = re.compile(r"(?i:(^|[\W_])(id|uuid|guid|index)$)|[a-z]I[dD]$")


class Style(NamedTuple):
    """How numbers are written."""

    decimal: str = "."
    percent: bool = False
    share: float = 1.0  # of the cells that are numbers so


def style_of(cells: pl.Series, comma: bool = False) -> Style | None:
    """How most of the cells (none missing) are numbers; None where they are not.

    ``comma``: other columns have decimal commas.
    """
    if cells.dtype != pl.String:
        return Style() if cells.dtype.is_numeric() or cells.dtype == pl.Duration else None
    percent = bool(cells.str.ends_with("%").any())
    bare = cells.str.strip_suffix("%").str.strip_chars_end(_cells.BLANKS) if percent else cells
    found = _cells.parsed(bare).is_not_null()
    commas = bare.str.contains(DECIMAL_COMMA)
    if commas.any() and not (bare.filter(commas).str.contains(THOUSANDS).all() and not comma):
        return _most(Style(",", percent, _share(commas | found)))
    return _most(Style(".", percent, _share(found)))


def _share(found: pl.Series) -> float:
    return int(found.sum()) / max(1, len(found))


def _most(style: Style) -> Style | None:
    return style if style.share > MOSTLY else None


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
) -> tuple[Any, str]:
    """The kind of a column and a sentence about it, "" for numbers as they stand.

    Args:
      name, cells: of the column, in the first rows.
      where: names the cell of a row.
      wanted: the kind to be, or a form of time with its percent signs; None finds one.
      comma: whether other columns have decimal commas.
      keep: whether numbers stay that are constant or name the rows.

    Raises:
      ValueError: for numbers or dates that can be read in two ways, and a kind that does not fit.
    """
    cells = _cells.known(cells)
    known = cells.drop_nulls()
    missing = known.len() < cells.len()
    is_nested = cells.dtype == pl.Object and _cells.nested(known).all()
    if wanted is not None or not is_nested:
        _cells.flat(cells, where)
    if wanted is not None:
        return _as_wanted(name, cells, known, where, wanted, missing, comma)
    if cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Object):
        what = "lists or objects" if is_nested else cells.dtype
        return _left_out(name, f"holds {what}, neither numbers nor text")
    if known.is_empty():
        return _left_out(name, "has no value in the first rows", "")
    if known.n_unique() == 1 and not missing and cells.len() > 1 and not keep:
        constant = _cells.words(known)[0]
        return _left_out(name, f"is {known[0]!r} in all of the first rows", constant)
    if _cells.instants(known, None).null_count() == 0:
        return _time(name, cells, None)
    style = style_of(known, comma)
    if style is not None:
        found = _number(name, known, missing, style)
        why = (
            ""
            if keep or style.share < 1
            else _names_rows(name, _cells.parsed(known, style.decimal))
        )
        return _left_out(name, why) if why else found
    if cells.dtype == pl.Boolean or (cells.dtype == pl.String and _truth(known)):
        return _boolean(name, known, missing)
    if cells.dtype != pl.String:
        return _left_out(name, f"holds {cells.dtype}, neither numbers nor text")
    return _of_text(name, cells, known, where, missing)


def _of_text(name: str, cells: pl.Series, known: pl.Series, where: Where, missing: bool) -> Any:
    """Of text that is no number: a time, categories, text by its words, or what names the rows."""
    if known.str.contains(THOUSANDS).all():
        found = f"numbers with commas, e.g. {known[0]!r}"
        why = "write them with a decimal point and nothing between thousands"
        raise ValueError(f"{where(0)}: {found}; {why}")
    forms = _cells.forms_of(known)
    if len(forms) > 1:
        found = f"{known[0]!r} and all others are times of the forms {' and '.join(forms)}"
        raise ValueError(f"{where(0)}: {found}: choose one (--as {name}={forms[0]})")
    if forms:
        return _time(name, cells, forms[0])
    distinct = known.n_unique()
    if distinct == known.len() >= MANY and known.str.count_matches(r"\w+").mean() < 3:  # type: ignore[operator]
        return _left_out(name, "holds another word in each row, which names it")
    return _categories(name, known, missing) if distinct <= FEW else _text(name, distinct)


def _as_wanted(
    name: str,
    cells: pl.Series,
    known: pl.Series,
    where: Where,
    wanted: str,
    missing: bool,
    comma: bool,
) -> tuple[Any, str]:
    if "%" in wanted:
        return _time(name, cells, wanted)
    if wanted == "time":
        forms: list[Any] = _cells.forms_of(known) if known.dtype == pl.String else [None]
        if len(forms) != 1:
            found = f"{len(forms)} forms of time fit" + f": {' and '.join(forms)}" * bool(forms)
            raise ValueError(f"{where(0)}: {found}; name one, as --as {name}=%d/%m/%Y")
        return _time(name, cells, forms[0])
    if wanted == "number":
        style = style_of(known, comma)
        if style is None and known.dtype == pl.String:
            wrong = cells.is_not_null() & _cells.parsed(cells).is_null()
            why = "{} is not a number, as which the column was to be read; name another kind, or"
            _cells.refuse(cells, wrong, where, f"{why} write all of its cells as numbers")
        return _number(name, known, missing, style or Style())
    if wanted == "boolean":
        return _boolean(name, known, missing)
    if wanted == "categories":
        return _categories(name, known, missing)
    if wanted == "text":
        return _text(name, known.n_unique())
    kinds = ", ".join(kind for kind in _kinds.KINDS if kind != "left out")
    text = f"the kind must be one of {kinds}, or a form of time as %d.%m.%Y"
    raise ValueError(f"column {name!r}: {text}; got {wanted!r}")


def _left_out(name: str, why: str, constant: str | None = None) -> tuple[Any, str]:
    return _kinds.LeftOut(name, constant), f"column {name!r} {why}: left out"


def _number(name: str, known: pl.Series, missing: bool, style: Style) -> tuple[Any, str]:
    numbers = _cells.parsed(known, style.decimal, style.percent).drop_nulls()
    finite = numbers.filter(numbers.is_finite())
    start = float(finite[0]) if len(finite) else 0.0
    kind = _kinds.Number(name, start, missing, style.decimal, style.percent)
    parts = ["with decimal commas"] * (style.decimal == ",")
    parts += ["with percent signs, in hundredths"] * style.percent
    if missing:
        parts += ["missing cells become the mean so far, a feature tells which"]
    return kind, f"column {name!r}: {', '.join(['numbers', *parts])}" if parts else ""


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


def _boolean(name: str, known: pl.Series, missing: bool) -> tuple[Any, str]:
    spelled = _cells.words(known)
    pair = _truth(spelled) or (("0", "1") if set(spelled) <= {"0", "1"} else None)
    if missing or (pair is None and known.dtype != pl.Boolean):
        return _categories(name, spelled, missing)
    false, true = pair or ("false", "true")
    return _kinds.Boolean(name, false, true), f"column {name!r}: {false} is 0 and {true} is 1"


def _categories(name: str, known: pl.Series, missing: bool) -> tuple[Any, str]:
    values = _cells.words(known).unique().sort().to_list()
    also = ""
    if missing:
        values, also = [*values, _kinds.MISSING_CATEGORY], ", of which ? stands for missing cells"
    kind = _kinds.Categories(name, tuple(values))
    text = f"one 0/1 feature for each of its {len(values)} values{also}; others are all zeros"
    return kind, f"column {name!r} holds words: {text}"


def _text(name: str, distinct: int) -> tuple[Any, str]:
    kind = _kinds.Text(name)
    text = (
        f"text of {distinct} values in the first rows: its words hashed to {kind.width} features"
    )
    return kind, f"column {name!r} holds {text}"


def _time(name: str, cells: pl.Series, form: str | None) -> tuple[Any, str]:
    seconds = _cells.instants(cells, form).drop_nulls()
    start = float(seconds[0]) if len(seconds) else 0.0
    if len(seconds) == 0 or (seconds % 86400 == 0).all():
        unit, turns = "days", tuple(_kinds.TURNS)[1:]
    else:
        span = float(seconds.max() - seconds.min())  # type: ignore[operator,arg-type]
        fitting = (unit for unit, size in _kinds.UNITS.items() if span >= 10 * size)
        unit, turns = next(fitting, "seconds"), tuple(_kinds.TURNS)
    of = "" if form in (None, _cells.ISO) else f" of the form {form}"
    text = f"{unit} since the first, and turns of {', '.join(turns[:-1])} and {turns[-1]}"
    kind = _kinds.Time(name, math.floor(start), unit, turns, form)
    return kind, f"column {name!r} holds times{of}: {text} as sin and cos"


def sentences(found: list[tuple[Any, str]]) -> list[str]:
    """What was decided of columns, those of numbers as they stand in one sentence."""
    plain = [kind.name for kind, text in found if not text]
    numbers = [f"numbers as they stand: {shown(plain)}"] if plain else []
    return [*numbers, *(text for _, text in found if text)]
