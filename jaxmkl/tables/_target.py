"""The target: the first rows decide its column, the task and the classes."""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from jaxmkl import _tails
from jaxmkl._checks import refuse_unless, shown
from jaxmkl._pytree import require
from jaxmkl.tables._cells import (
    DURATIONS,
    Cells,
    Notation,
    durations_of,
    forms_of,
    instants,
    parsed,
    without_points,
)
from jaxmkl.tables._kinds import truth_in
from jaxmkl.tables._words import usual_target

MOST_CLASSES = 1000
FEW_VALUES = 20  # whole numbers of at most so many values may be meant as classes
Numbers = TypeVar("Numbers", float, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Target(Notation):
    """The column to be predicted."""

    name: str
    """The name of the column."""
    task: str
    """"regression" or "classification"."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in order; of two the first is -1 and the second +1."""
    form: str = ""
    """The form of durations, which are read in seconds; "" for other numbers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        tasks = {"regression": not self.classes, "classification": len(self.classes) > 1}
        wanted = f"one of {', '.join(tasks)} that fits the classes {shown(self.classes)}"
        require(tasks.get(self.task, False), self, "task", self.task, wanted)
        distinct = len(set(self.classes)) == len(self.classes)
        require(distinct, self, "classes", self.classes, "names of which none stands twice")

    def encode(self, cells: Cells) -> np.ndarray:
        """Encode cells (n,) as numbers, -1 and +1, or 0 to K - 1; NaN where missing.

        Other cells are refused: no numbers, or classes that the first rows did not have.
        """
        if self.form:
            found = instants(cells.flat, self.form)
            cells.refuse_unread(found, f"{{}} is not a duration of the form {self.form}")
            return found.fill_null(float("nan")).to_numpy()
        if self.task == "regression":
            return cells.numbers(self)
        places = {name: place for place, name in enumerate(self.classes)}
        found = self.words(cells)
        numbers = found.replace_strict(places, default=None, return_dtype=pl.Float64)
        advice = "mend the cell, or begin anew and look at more rows before (--first)"
        if is_numbers(pl.Series(self.classes)):
            advice = f"{advice}; if the target is a number, begin anew with --task regression"
        known = f"the classes of the first rows, {shown(self.classes)}"
        wrong = found.is_not_null() & numbers.is_null()
        cells.refuse(wrong, f"{{}} is not one of {known}; {advice}", found)
        return self.numbered(numbers.fill_null(float("nan")).to_numpy())

    def words(self, cells: Cells) -> pl.Series:
        """The labels as words, spelled as the classes: numbers, or truth values in any case."""
        if truth_in(self.classes):
            own = {name.lower(): name for name in self.classes}
            return cells.words.str.to_lowercase().replace(own)
        return _plain(cells.words, pl.Series(self.classes))

    def numbered(self, places: Numbers) -> Numbers:
        """Convert places among the classes, from 0 on, to the numbers of :meth:`encode`.

        >>> Target("kind", "classification", ("bush", "tree")).numbered(np.array([0.0, 1.0]))
        array([-1.,  1.])
        """
        return 2.0 * places - 1.0 if len(self.classes) == 2 else places

    def places(self, y: Numbers) -> Numbers:
        """Convert the numbers of :meth:`encode` to places among the classes; targets stay."""
        return (y + 1.0) / 2.0 if len(self.classes) == 2 else y

    def named(self, values: np.ndarray, start: float) -> np.ndarray:
        """Turn predictions (n,) or (n, K) into names of classes, or numbers plus ``start``."""
        if self.task == "regression":
            return start + np.asarray(values, np.float64)
        places = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
        return np.array(self.classes)[places]


def spelled(cells: Cells) -> pl.Series:
    """Write labels as words, with whole numbers in one spelling: 1.0 and +1 are 1.

    Truth values that have several, as yes and Yes, are in small letters.
    """
    found, distinct = cells.words, cells.words.drop_nulls().unique()
    if len(distinct) > 2 and truth_in(distinct):
        return found.str.to_lowercase()
    return _plain(found, distinct)


def _plain(found: pl.Series, classes: pl.Series) -> pl.Series:
    """The words, with whole numbers in one spelling if all classes are numbers."""
    are_numbers = is_numbers(classes)
    return without_points(found, found.cast(pl.Float64, strict=False)) if are_numbers else found


def is_numbers(known: pl.Series) -> bool:
    """Tell if all of these words are finite numbers, and none is a code such as 007."""
    are_finite = known.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    return bool(are_finite.all()) and not known.str.contains(r"^[-+]?0\d").any()


def _without_case(word: str) -> tuple[str, str]:
    return word.casefold(), word


def target_name(names: Sequence[str], target: str | None, notes: list[str]) -> str:
    """Find the target: the one given, else target, y, label or class, else the last column."""
    if target is not None:
        return target
    if (usual := usual_target(names)) is None:
        notes.append(f"the target is the last column, {names[-1]!r}")
        return names[-1]
    notes.append(f"the target is the column {usual!r}, by its name")
    return usual


def target_of(source: str, cells: Cells, task: str | None, notes: list[str]) -> Target:
    """Decide the task and the classes by a target's cells in the first rows of ``source``."""
    name, known = cells.name, cells.flat.drop_nulls()
    column = f"{source}, column {name!r}"
    if known.is_empty():
        raise ValueError(f"{column}: no row has a target (of the {len(cells.raw)} looked at)")
    if known.dtype.is_temporal() and known.dtype != pl.Duration:
        raise ValueError(f"{column}: holds times; name another target (--target)")
    distinct = spelled(cells).drop_nulls().unique(maintain_order=True)
    found = f"the target is {distinct[0]!r} in every row looked at ({len(known)})"
    advice = "nothing to learn (--first N looks at more rows, --target names another)"
    refuse_unless(len(distinct) != 1, f"{column}: {found}; {advice}")
    if task != "classification" and known.dtype == pl.String and cells.notation is None:
        cells.refuse_commas()
    if (forms := durations_of(known)) and task is None:  # below 24 hours they may be times of day
        forms = [form for form in forms_of(known) if form in DURATIONS]
    form = forms[0] if forms else ""
    if task is None:
        numeric = (form or cells.notation is not None) and len(distinct) > 2
        task = "regression" if numeric else "classification"
        numbers = instants(known, form) if form else parsed(known, cells.notation)
        whole = bool((numbers == numbers.round()).fill_null(False).all())
        if numeric and whole and len(distinct) <= FEW_VALUES:
            found = f"{numbers.n_unique()} distinct whole numbers and is read as regression"
            notes.append(f"the target has {found}; as task classification they are classes")
    if task == "regression":
        if (written := Notation() if form else cells.notation) is None:
            cells.refuse_unread(parsed(cells.values), "regression needs numbers; got {}")
            raise ValueError(f"{column}: regression needs numbers; got {known.dtype}")
        labels = (instants(known, form) if form else parsed(known, written)).to_numpy()
        seconds = ["in seconds"] * bool(form or known.dtype == pl.Duration)
        if signs := written.signs + cells.doubts + seconds:
            notes.append(f"the target: {', '.join(['numbers', *signs])}")
        notes += [f"{note} (--set loss=huber)" for note in _tails.of_target(labels)]
        return Target(name, task, form=form, **written.writing)
    # no before Yes, as of two classes the first is -1
    classes = tuple(sorted(distinct, key=float if is_numbers(distinct) else _without_case))
    most = MOST_CLASSES if len(known) < 100 else min(MOST_CLASSES, len(known) // 2)
    if len(classes) > most:
        found = f"{len(classes)} different values in {len(known)} rows are too many classes"
        found = "holds times" if forms_of(distinct) else found
        advice = ", or have durations (--task regression)" * bool(durations_of(known))
        raise ValueError(f"{column}: {found}; name another target (--target){advice}")
    if len(classes) > 2:
        notes.append(f"the target has {len(classes)} classes: {shown(classes)}")
    elif classes != ("-1", "1"):
        text = f"{classes[0]!r} is -1 and {classes[1]!r} is +1"
        notes.append(f"the target has two values: {text}")
    return Target(name, task, classes)
