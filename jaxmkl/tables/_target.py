"""The target: its column, the task and the classes are decided on the first rows."""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from jaxmkl._checks import shown
from jaxmkl.tables import _cells
from jaxmkl.tables._cells import Where
from jaxmkl.tables._decide import style_of
from jaxmkl.tables._table import FEW_VALUES, usual_target

MOST_CLASSES = 1000
Codes = TypeVar("Codes", float, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Target:
    """The column that is predicted."""

    name: str
    """The name of the column."""
    task: str
    """"regression" or "classification"."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in order; of two the first is -1 and the second +1."""
    decimal: str = "."
    percent: bool = False

    def encode(self, cells: pl.Series, where: Where) -> np.ndarray:
        """Encode cells (n,) as numbers, -1 and +1, or 0 to K - 1; NaN where missing.

        Raises:
          ValueError: a cell is not a number, or a class that the first rows did not have.
        """
        if self.task == "regression":
            return _cells.numbers(cells, where, self.decimal, self.percent)
        places = dict(zip(self.classes, range(len(self.classes)), strict=True))
        found = spelled(cells)
        codes = found.replace_strict(places, default=None, return_dtype=pl.Float64)
        known = f"the classes of the first rows, {shown(self.classes)}"
        advice = "look at more rows before (--first), or mend the cell"
        if _is_numbers(pl.Series(self.classes)):
            advice = f"if the target is a number, say so (--task regression); else {advice}"
        wrong = found.is_not_null() & codes.is_null()
        _cells.refuse(found, wrong, where, f"{{}} is none of {known}; {advice}")
        return self.coded(codes.fill_null(float("nan")).to_numpy())

    def coded(self, places: Codes) -> Codes:
        """Turn places among the classes, from 0 on, into what :meth:`encode` returns.

        >>> Target("kind", "classification", ("bush", "tree")).coded(np.array([0.0, 1.0]))
        array([-1.,  1.])
        """
        return 2.0 * places - 1.0 if len(self.classes) == 2 else places

    def places(self, y: Codes) -> Codes:
        """Turn what :meth:`encode` returns into places among the classes; numbers stay."""
        return (y + 1.0) / 2.0 if len(self.classes) == 2 else y

    def named(self, values: np.ndarray, start: float) -> np.ndarray:
        """Turn predictions (n,) or (n, K) into names of classes, or numbers plus ``start``."""
        if self.task == "regression":
            return start + np.asarray(values, np.float64)
        places = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
        return np.array(self.classes)[places]


def spelled(cells: pl.Series) -> pl.Series:
    """Write labels as words, whole numbers in one way: 1.0 and +1 are 1."""
    found = _cells.words(cells)
    if not _is_numbers(found.drop_nulls()):
        return found
    numbers = found.cast(pl.Float64)
    whole = (numbers == numbers.round()) & (numbers.abs() < 2**53)
    short = numbers.cast(pl.Int64, strict=False).cast(pl.String)
    return pl.select(pl.when(whole).then(short).otherwise(found)).to_series().alias(cells.name)


def _is_numbers(known: pl.Series) -> bool:
    numbers = known.cast(pl.Float64, strict=False)
    return bool((numbers.is_not_null() & numbers.is_finite()).all())


def target_name(source: str, names: Sequence[str], target: str | None, notes: list[str]) -> str:
    """Find the target: the one given, else target, y, label or class, else the last column."""
    if target is not None:
        if target not in names:
            columns = shown(list(names), 100)
            raise ValueError(f"{source}: has no column {target!r}; its columns are {columns}")
        return target
    usual = usual_target(names)
    if usual is not None:
        notes.append(f"the target is the column {usual!r}, by its name")
        return usual
    notes.append(f"the target is the last column, {names[-1]!r}")
    return names[-1]


def target_of(
    source: str,
    name: str,
    cells: pl.Series,
    where: Where,
    task: str | None,
    notes: list[str],
    comma: bool = False,
) -> Target:
    """Decide the task and the classes by a target's cells in the first rows.

    Raises:
      ValueError: no row has a target, all have the same one, or the task does not fit.
    """
    _cells.flat(cells, where)
    column, known = f"{source}, column {name!r}", _cells.known(cells).drop_nulls()
    if known.is_empty():
        raise ValueError(f"{column}: no row has a target (of the {len(cells)} looked at)")
    if known.dtype.is_temporal() and known.dtype != pl.Duration:
        raise ValueError(f"{column}: holds times; name another target (--target)")
    style = style_of(known, comma)
    numeric = style is not None
    distinct = spelled(known).unique(maintain_order=True)
    if len(distinct) == 1:
        found = f"the target is {distinct[0]!r} in every row looked at ({len(known)})"
        advice = "nothing to learn (--first N looks at more rows, --target names another)"
        raise ValueError(f"{column}: {found}; {advice}")
    if task is None:
        task = "regression" if numeric and len(distinct) > 2 else "classification"
        _note_numbers(known, len(distinct), task, notes)
    if task == "regression":
        if style is None:
            cells = _cells.known(cells)
            wrong = cells.is_not_null() & _cells.parsed(cells).is_null()
            _cells.refuse(cells, wrong, where, "regression needs numbers; got {}")
            raise ValueError(f"{column}: regression needs numbers; got {known.dtype}")
        return Target(name, task, (), style.decimal, style.percent)
    classes = _ordered(distinct)
    most = min(MOST_CLASSES, max(2, len(known) // 2))
    if len(classes) > most and not (len(classes) <= MOST_CLASSES and len(known) < 100):
        found = f"{len(classes)} different values in {len(known)} rows are too many classes"
        raise ValueError(f"{column}: {found}; name another target (--target)")
    if len(classes) == 2 and classes != ("-1", "1"):
        text = f"{classes[0]!r} is -1 and {classes[1]!r} is +1"
        notes.append(f"the target has two values: {text}")
    elif len(classes) > 2:
        notes.append(f"the target has {len(classes)} classes: {shown(classes)}")
    return Target(name, task, classes)


def _note_numbers(known: pl.Series, distinct: int, task: str, notes: list[str]) -> None:
    if task != "regression" or distinct > FEW_VALUES:
        return
    numbers = _cells.parsed(known).drop_nulls()
    if len(numbers) == len(known) and (numbers == numbers.round()).all():
        found = f"{distinct} distinct whole numbers and is read as regression"
        notes.append(f"the target has {found}; as task classification they are classes")


def _ordered(distinct: pl.Series) -> tuple[str, ...]:
    if _is_numbers(distinct):
        return tuple(sorted(distinct, key=float))
    return tuple(sorted(distinct))
