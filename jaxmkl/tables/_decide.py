"""Decisions on the kinds of columns by their first cells; nothing is guessed."""

import math
import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import polars as pl

from jaxmkl import _tails
from jaxmkl._checks import refuse_unless, shown
from jaxmkl._flags import are_flags
from jaxmkl._pytree import require
from jaxmkl.tables import _kinds
from jaxmkl.tables._cells import (
    CLOCKS,
    CURRENCY,
    DURATIONS,
    MOSTLY,
    Cells,
    Notation,
    durations_of,
    forms_of,
    instants,
    nested,
    parsed,
)
from jaxmkl.tables._kinds import Kind, truth_in
from jaxmkl.tables._rows import Chunk

FEW = 50  # the most words that become categories
MANY = 50  # of so many rows or more, values that are all distinct name the rows
NAMES_ROWS = re.compile(r"(?i:(^|[\W_])(id|uuid|guid|index)$)|[a-z]I[dD]$")


class Decision(NamedTuple):
    """The decision on how a column is read."""

    kind: Kind
    note: str
    """A sentence about it, "" for numbers as they stand."""
    has_heavy_tails: bool = False


def kind_of(cells: Cells, wanted: str | None = None, keep: bool = False) -> Decision:
    """Decide what a column becomes by its first cells, unless a kind or form of time is wanted.

    With ``keep``, numbers that are constant or name the rows are kept.

    Raises:
      ValueError: numbers or dates can be read in two ways, or a kind does not fit.
    """
    if wanted is None:
        return _decided(cells, keep)
    if "%" in wanted:
        return _time(cells, wanted)
    if number := re.fullmatch(r"text:(\d+)", wanted):
        return _text(cells, int(number[1]))
    text = f"the kind must be one of {', '.join(AS_WANTED)}, text:NUMBER of words, or a form "
    text += "of time as %d.%m.%Y"
    refuse_unless(wanted in AS_WANTED, f"column {cells.name!r}: {text}; got {wanted!r}")
    return AS_WANTED[wanted](cells)


def plainly_numbers(chunk: Chunk, names: Sequence[str], keep: bool) -> dict[str, Decision]:
    """Decide at once on the columns that :func:`kind_of` would take for numbers as they stand."""
    plain, found = chunk.plain_numbers(names)
    if not keep and len(found) > 1:
        varied = found.min(axis=0) < found.max(axis=0)
        whole = (found == np.round(found)).all(axis=0)
        counts = (np.abs(np.diff(found, axis=0)) == 1).all(axis=0)
        named = np.array([NAMES_ROWS.search(name) is not None for name in plain], bool)
        sure = varied & ~(whole & (counts | named))
    else:
        sure = np.ones(len(plain), bool)
    firsts, tails = found[0].tolist() if len(found) else (), _tails.heavy_tailed(found).tolist()
    decided = zip(plain, firsts, are_flags(found).tolist(), tails, sure.tolist(), strict=False)
    return {name: Decision(_kinds.Number(name, start, flag=is_flag), "", is_heavy)
            for name, start, is_flag, is_heavy, is_sure in decided if is_sure}  # fmt: skip


def _decided(cells: Cells, keep: bool) -> Decision:
    """Decide by the first rule that fits."""
    name, known, dtype = cells.name, cells.known, cells.raw.dtype
    if dtype == pl.Object and nested(known).all():
        return _left_out(cells, "holds lists or objects, neither numbers nor text")
    neither = f"holds {cells.values.dtype}, neither numbers nor text"
    if dtype.is_nested() or dtype == pl.Binary:
        return _left_out(cells, neither)
    values = cells.flat
    if known.is_empty():
        return _left_out(cells, "has no value in the first rows", "")
    if not (keep or cells.has_gaps or len(known) == 1 or known.n_unique() > 1):
        return _left_out(cells, f"is {known[0]!r} in all of the first rows", cells.words[0])
    if isinstance(dtype, pl.Date | pl.Datetime | pl.Time):
        return _time(cells, CLOCKS[0] if dtype == pl.Time else None)
    if cells.notation is not None:
        why = "" if keep else _names_rows(known, name, parsed(known, cells.notation))
        return _left_out(cells, why) if why else _number(cells)
    if values.dtype == pl.Boolean or (values.dtype == pl.String and truth_in(known.unique())):
        return _boolean(cells)
    if values.dtype != pl.String:
        return _left_out(cells, neither)
    forms = forms_of(known)
    cells.refuse_commas()
    if len(forms) > 1:
        found = f"{known[0]!r} and all others are times of the forms {' and '.join(forms)}"
        raise ValueError(f"{cells.where(0)}: {found}: choose one ({_as(name, forms[0])})")
    if forms:
        return _time(cells, forms[0])
    distinct, lengths = known.n_unique(), cast(float, known.str.count_matches(r"\w+").mean())
    if distinct == len(known) >= MANY and lengths < 3:
        decided = _left_out(cells, "holds another word in each row, which names it")
    else:
        decided = _categories(cells) if distinct <= FEW else _text(cells)
    return decided._replace(note=decided.note + (_almost_numbers(cells) or _almost_times(known)))


def _almost_numbers(cells: Cells) -> str:
    """A phrase on what most likely keeps cells from being numbers or times: several currencies,
    or one or two words that may stand for missing cells, as all others have digits."""
    known = cells.known
    signs = known.str.extract(CURRENCY)
    if not signs.has_nulls() and len(several := signs.unique().sort()) > 1:
        return f"; its amounts are in {shown(several.to_list())}: in one of them they are numbers"
    odd = ~known.str.contains(r"\d")
    words, rest = known.filter(odd).unique(maintain_order=True), known.filter(~odd)
    are_few = 0 < len(words) < 3 and 2 * len(rest) >= len(known)
    others = Cells(rest, cells.where, cells.comma)
    if not are_few or words.str.contains(",").any() or not (others.notation or forms_of(rest)):
        return ""
    missing = shlex.quote(",".join(words))
    return f"; without {shown(words.to_list())} it is numbers or times (--missing={missing})"


def _almost_times(known: pl.Series) -> str:
    """A phrase on the few cells that keep others from being times, by the forms of the first."""
    for form in dict.fromkeys([*forms_of(known.head(1)), *forms_of(known.slice(1, 1))]):
        wrong = known.filter(instants(known, form).is_null())
        if 0 < len(wrong) < (1 - MOSTLY) * len(known):
            found = f"all but {len(wrong)} of its cells are times of the form {form}"
            return f"; {found}: mend or empty those such as {wrong[0]!r}"
    return ""


def _names_rows(known: pl.Series, name: str, numbers: pl.Series) -> str:
    """Say why cells, which are numbers, name the rows; "" if they do not, or if some are none."""
    # numbers above 2^53 may be the same where cells are not
    if len(numbers) < MANY or numbers.has_nulls() or known.n_unique() < len(known):
        return ""
    steps = numbers.diff().drop_nulls()
    if (steps.abs() == 1).all() and steps.n_unique() == 1:
        return "counts the rows"
    whole = numbers.is_finite().all() and (numbers == numbers.round()).all()
    names = whole and NAMES_ROWS.search(name)
    return "holds another whole number in each row, which names it" if names else ""


def _left_out(cells: Cells, why: str, constant: str | None = None) -> Decision:
    kind = _kinds.LeftOut(cells.name, constant)
    return Decision(kind, f"column {cells.name!r} {why}: left out")


def _number(cells: Cells) -> Decision:
    if cells.flat.dtype == pl.String and cells.notation is None:
        why = "{} is not a number, as which the column was to be read; name another kind, or"
        cells.refuse_unread(parsed(cells.values), f"{why} write all of its cells as numbers")
    written, missing = cells.notation or Notation(), cells.has_gaps
    numbers = parsed(cells.known, written).drop_nulls()
    start = next(iter(numbers.filter(numbers.is_finite()).head(1)), 0.0)
    parts = written.signs + cells.doubts + ["in seconds"] * (cells.known.dtype == pl.Duration)
    parts += ["missing cells become the mean so far, an input tells which"] * missing
    is_flag = bool(are_flags(numbers.to_numpy()))
    kind = _kinds.Number(cells.name, start, missing, is_flag, **written.writing)
    note = f"column {kind.name!r}: {', '.join(['numbers', *parts])}" * bool(parts)
    (is_heavy,) = _tails.heavy_tailed(numbers.to_numpy()[:, None]).tolist()
    return Decision(kind, note, is_heavy)


def _boolean(cells: Cells) -> Decision:
    words = cells.words.drop_nulls()
    pair = truth_in(words.unique()) or (("0", "1") if set(words) <= {"0", "1"} else None)
    if cells.has_gaps or (pair is None and cells.raw.dtype != pl.Boolean):
        return _categories(cells)
    false, true = pair or ("false", "true")
    note = f"column {cells.name!r}: {false} is 0 and {true} is 1"
    return Decision(_kinds.Boolean(cells.name, false, true), note)


def _categories(cells: Cells) -> Decision:
    name, values, also = cells.name, cells.words.drop_nulls().unique().sort().to_list(), ""
    if cells.has_gaps:
        values, also = [*values, _kinds.MISSING_CATEGORY], ", of which ? stands for missing cells"
    text = f"one 0/1 input for each of its {len(values)} values{also}; others are all zeros"
    return Decision(_kinds.Categories(name, tuple(values)), f"column {name!r} holds words: {text}")


def _text(cells: Cells, most: int = _kinds.WORDS) -> Decision:
    wanted, given = f"a number of words from 1 to {_kinds.MOST_PLACES}", f"text:{most}"
    require(1 <= most <= _kinds.MOST_PLACES, f"column {cells.name!r}", "the kind", given, wanted)
    known = cells.words.drop_nulls()
    words, idf = _kinds.vocabulary(known, most)
    if not words:
        return _left_out(cells, "has no value in the first rows", "")
    kind = _kinds.Text(cells.name, len(words), words, idf)
    text = f"text of {known.n_unique()} values in the first rows: {len(words)} words"
    return Decision(kind, f"column {kind.name!r} holds {text} become inputs, by TF-IDF")


def _time(cells: Cells, form: str | None) -> Decision:
    seconds = instants(cells.flat, form).drop_nulls().to_numpy()
    unit, turns = "days", tuple(_kinds.TURNS)[1:]
    if (seconds % 86400 != 0).any():
        span, turns = np.ptp(seconds), tuple(_kinds.TURNS)
        fitting = (unit for unit, size in _kinds.UNITS.items() if span >= 10 * size)
        unit = next(fitting, "seconds")
    if form in CLOCKS:
        unit, turns = "hours", ("day",)
    if form in DURATIONS:
        turns = ()
    start = math.floor(seconds[0]) if len(seconds) else 0
    kind = _kinds.Time(cells.name, start, unit, turns, form)
    several = " and ".join(filter(None, [", ".join(turns[:-1]), *turns[-1:]]))
    text = f"{unit} since the first" + f", and turns of {several} as sin and cos" * bool(turns)
    return Decision(kind, f"column {kind.name!r} holds times{kind.of_form}: {text}")


def _as(name: str, form: str) -> str:
    """The option that names a form of time, as a shell reads it."""
    return f"--as {shlex.quote(f'{name}={form}')}"


def _time_as_wanted(cells: Cells) -> Decision:
    forms = forms_of(cells.known) if cells.flat.dtype == pl.String else [None]
    if len(forms) != 1:
        found = f"{len(forms)} forms of time fit"
        found += f": {' and '.join(map(str, forms))}" if forms else ""
        raise ValueError(f"{cells.where(0)}: {found}; name one, as {_as(cells.name, '%d/%m/%Y')}")
    return _time(cells, forms[0])


AS_WANTED: dict[str, Callable[[Cells], Decision]] = {
    "number": _number,
    "boolean": _boolean,
    "categories": _categories,
    "text": _text,
    "time": _time_as_wanted,
    "duration": lambda cells: _time(cells, (*durations_of(cells.known), *DURATIONS)[0]),
}


def sentences(decisions: list[Decision]) -> list[str]:
    """The notes of columns; numbers as they stand share one sentence, and so do heavy tails."""
    heavy = [found.kind.name for found in decisions if found.has_heavy_tails]
    plain = [found.kind.name for found in decisions if not found.note]
    numbers = [f"numbers as they stand: {shown(plain)}"] if plain else []
    others = (found.note for found in decisions if found.note)
    return [*numbers, *others, *_tails.of_inputs(heavy)]
