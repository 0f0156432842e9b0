"""How a table becomes inputs and targets: decided on its first rows, kept, applied to all."""

import dataclasses
import json
import math
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, get_origin, get_type_hints

import numpy as np
import polars as pl

from jaxmkl._checks import input_bound, shown
from jaxmkl.tables import _cells, _decide, _kinds
from jaxmkl.tables._decide import Decision
from jaxmkl.tables._kinds import KINDS, Kind
from jaxmkl.tables._target import Target, target_name, target_of
from jaxmkl.tables._text import Chunk

FIRST = 1000  # rows by which is decided
BOUND = input_bound(np.float32)
T = TypeVar("T")


class Fills(NamedTuple):
    """Counts and sums, whose ratio fills in the missing numbers of F features."""

    counts: np.ndarray
    """The numbers so far (F,), float64."""
    sums: np.ndarray
    """Their sums (F,), float64."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """How the columns of a table are encoded: a value that JSON can hold.

    :meth:`decide` makes it from the first rows of a table. Every later row, and every other file
    with columns of these names, is encoded in the same way.
    """

    kinds: tuple[Kind, ...]
    """The kind of each column but the target."""
    target: Target | None = None
    """None for a table of inputs alone."""
    notes: tuple[str, ...] = ()
    """A sentence on each decision."""

    @classmethod
    def decide(
        cls,
        first: Chunk,
        target: str | None = None,
        task: str | None = None,
        *,
        drop: Collection[str] = (),
        as_: Mapping[str, str] | None = None,
        keep: bool = False,
        supervised: bool = True,
        notes: Collection[str] = (),
    ) -> "Columns":
        """Decide how columns are encoded, by the first rows.

        ====================  ===============================================================
        numbers               as they are; if some are missing the mean of those before, and
                              a feature that tells which
        true/false, yes/no    1 and 0
        up to 50 words        ``categories``: a 0/1 feature for each; others are zeros
        more, or free text    ``text``: its words hashed to 32 features
        dates and times       time since the first; turns of day, week and year
        ====================  ===============================================================

        Columns that are constant or empty in these rows are left out, as are those that name or
        count the rows.

        Args:
          first: the first rows.
          target: the column to predict; by default the one named target, y, label or class, else
            the last one.
          task: "regression" or "classification"; by default numbers of more than two values are
            regression.
          drop: columns to leave out.
          as_: kinds by the names of columns: "number", "boolean", "categories", "text", "time",
            or a form of time as ``%d/%m/%Y``.
          keep: whether numbers stay that are constant or name the rows.
          supervised: False where there is no target.
          notes: the first of the notes.

        Raises:
          ValueError: a column does not exist or can be read in two ways, the target cannot be
            learned, or there are no features.

        >>> from jaxmkl.tables import open_table
        >>> rows = {"colour": ["red", "blue", "red"], "length": [1.0, None, 3.0], "y": [1, 0, 0]}
        >>> columns = Columns.decide(next(open_table(rows).chunks(3)))
        >>> columns.features
        ('colour=blue', 'colour=red', 'length', 'length is missing')
        """
        frame, said, wanted = first.frame, list(notes), dict(as_ or {})
        for name in (*drop, *wanted):
            if name not in frame.columns:
                known = shown(frame.columns, 100)
                text = f"has no column {name!r}; its columns are {known}"
                raise ValueError(f"{first.source}: {text}")
        comma = any(_decide.has_decimal_comma(column) for column in frame)
        label: str | None = None
        of: Target | None = None
        if supervised:
            label = target_name(first.source, frame.columns, target, said)
            where = first.cell(label)
            of = target_of(first.source, label, frame[label], where, task, said, comma)
        found: list[Decision] = []
        for column in frame.drop(label) if label is not None else frame:
            name = column.name
            if name in drop:
                left_out = _kinds.LeftOut(name)
                found.append(Decision(left_out, f"column {name!r} left out, as asked"))
            else:
                where = first.cell(name)
                found.append(_decide.kind_of(name, column, where, wanted.get(name), comma, keep))
        said += _decide.sentences(found)
        columns = cls(tuple(decision.kind for decision in found), of, tuple(said))
        if not columns.features:
            left = f" ({'; '.join(decision.note for decision in found[:5])})" if found else ""
            raise ValueError(f"{first.source}: has no features{left}")
        return columns

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the D inputs."""
        return tuple(name for kind in self.kinds for name in kind.features)

    @property
    def task(self) -> str:
        """ "regression" or "classification"; "" without a target."""
        return "" if self.target is None else self.target.task

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in order; of two the first is -1."""
        return () if self.target is None else self.target.classes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are not left out."""
        return tuple(kind.name for kind in self.kinds if kind.features)

    @cached_property
    def _filled(self) -> np.ndarray:
        """The places of the features that may have gaps (F,)."""
        firsts = zip(self._ends - [len(k.features) for k in self.kinds], self.kinds, strict=True)
        return np.array([place for place, kind in firsts if kind.filled], int)

    @cached_property
    def _ends(self) -> np.ndarray:
        """The place behind the last feature of each kind."""
        return np.cumsum([len(kind.features) for kind in self.kinds], dtype=int)

    @cached_property
    def starts(self) -> np.ndarray:
        """A number near those of each feature (D,), which :meth:`inputs` subtracts."""
        starts = np.zeros(len(self.features))
        filled = (kind for kind in self.kinds if kind.filled)
        starts[self._filled] = [k.start if isinstance(k, _kinds.Number) else 0.0 for k in filled]
        return starts

    def init(self) -> Fills:
        """Return the fills before the first row."""
        return Fills(*np.zeros((2, len(self._filled))))

    def encode(self, chunk: Chunk, fills: Fills, learn: bool = True) -> tuple[np.ndarray, Fills]:
        """Encode rows as features (n, D), float64 and finite, and return the fills after them.

        Columns are found by their names; one that is not there is missing in all rows. Without
        ``learn`` the fills stay as they are.

        Raises:
          ValueError: a cell is not of its column's kind.
        """
        n = len(chunk.frame)
        parts = []
        for kind in self.kinds:
            if kind.features:
                there = kind.name in chunk.frame.columns
                cells = chunk.frame[kind.name] if there else pl.Series([None] * n, dtype=pl.Null)
                _cells.flat(cells, where := chunk.cell(kind.name))
                parts.append(kind.encode(cells, where))
        X = np.concatenate(parts, axis=1) if parts else np.zeros((n, 0))
        numbers, count, total = X[:, self._filled], fills.counts, fills.sums
        gaps = np.isnan(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            if learn:
                known = np.where(gaps, 0.0, numbers)
                # one after the other, so that chunks of any size have the same sums
                total = np.cumsum(np.concatenate([total[None], known]), axis=0)
                count = np.cumsum(np.concatenate([count[None], ~gaps]), axis=0)
            if gaps.any():
                before = (count[:-1], total[:-1]) if learn else (count[None], total[None])
                X[:, self._filled] = np.where(gaps, self._means(*before), numbers)
        return X, Fills(count[-1], total[-1]) if learn else fills

    def _means(self, count: np.ndarray, total: np.ndarray) -> np.ndarray:
        means = total / np.maximum(count, 1)
        return np.where((count > 0) & np.isfinite(means), means, self.starts[self._filled])

    def inputs(self, chunk: Chunk, fills: Fills, learn: bool = True) -> tuple[np.ndarray, Fills]:
        """Encode rows for learners: as :meth:`encode`, less :attr:`starts`, in single precision.

        Raises:
          ValueError: as :meth:`encode`, or a number is too large for single precision.
        """
        X, fills = self.encode(chunk, fills, learn)
        X -= self.starts
        for row, place in np.argwhere(np.abs(X) > BOUND)[:1]:
            name = self.kinds[int(np.searchsorted(self._ends, place, "right"))].name
            raise _too_large(chunk.cell(name)(int(row)))
        return X.astype(np.float32), fills

    def labels(self, chunk: Chunk) -> np.ndarray:
        """Read :meth:`targets` whose differences fit into single precision.

        Raises:
          ValueError: as :meth:`targets`, or a number is too large.
        """
        y, target = self.targets(chunk), self.target
        assert target is not None
        for row in np.flatnonzero(np.abs(y) > BOUND / 2)[:1]:
            raise _too_large(chunk.cell(target.name)(int(row)))
        return y

    def unseen(self, chunk: Chunk, X: np.ndarray) -> np.ndarray:
        """Count the cells of each column whose values the first rows did not have.

        X (n, D) are the :meth:`inputs` of the chunk; :meth:`losses` says what becomes of them.
        """
        cells, nothing = {c.name: c for c in chunk.frame}, pl.Series([], dtype=pl.Null)
        parts = zip(self.kinds, np.split(X, self._ends[:-1], axis=1), strict=True)
        return np.array([kind.unseen(cells.get(kind.name, nothing), x) for kind, x in parts], int)

    def losses(self, unseen: np.ndarray) -> list[str]:
        """Say a sentence for each column with :meth:`unseen` cells, by their counts."""
        counted = zip(self.kinds, unseen.tolist(), strict=True)
        return [f"column {kind.name!r}: {n:,} cells {kind.lost}" for kind, n in counted if n]

    def targets(self, chunk: Chunk) -> np.ndarray:
        """Read the targets (n,): numbers, -1 and +1, or 0 to K - 1; NaN where missing."""
        assert self.target is not None
        name = self.target.name
        if name not in chunk.frame.columns:
            raise ValueError(f"{chunk.source}: has no column {name!r}, the target")
        _cells.flat(chunk.frame[name], chunk.cell(name))
        return self.target.encode(chunk.frame[name], chunk.cell(name))

    def known(self, chunk: Chunk) -> dict[str, list]:
        """The cells of a chunk by column, the target's left out, as numbers, words and None."""
        target, kinds = self.target and self.target.name, {kind.name: kind for kind in self.kinds}
        found: dict[str, list] = {}
        for name in chunk.frame.columns:
            kind = kinds.get(name)
            if isinstance(kind, _kinds.Number):
                numbers = kind.encode(chunk.frame[name], chunk.cell(name))[:, 0].tolist()
                found[name] = [None if math.isnan(number) else number for number in numbers]
            elif name != target:
                found[name] = _cells.known(chunk.frame[name]).to_list()
        return found

    def with_target(
        self, chunk: Chunk, name: str, task: str | None = None, classes: tuple[str, ...] = ()
    ) -> "Columns":
        """These columns with a target that may have few labels yet, or none.

        Args:
          chunk: rows, among which labels are looked for.
          name: of the target's column, which the chunk may lack.
          task: "regression" or "classification"; by default what the labels look like.
          classes: by their names; by default those that the labels have.

        Returns:
          The columns, without a target where nothing tells what it is.

        Raises:
          ValueError: as :meth:`decide`.
        """
        cells = chunk.frame[name] if name in chunk.frame.columns and not classes else None
        where, notes, target = chunk.cell(name), list(self.notes), None
        if cells is not None:
            _cells.flat(cells, where)
        if classes:
            target = Target(name, "classification", classes)
        elif cells is not None and _cells.known(cells).drop_nulls().n_unique() > 1:
            comma = any(_decide.has_decimal_comma(column) for column in chunk.frame)
            target = target_of(chunk.source, name, cells, where, task, notes, comma)
        elif task == "regression":
            target = Target(name, "regression")
        return dataclasses.replace(self, target=target, notes=tuple(notes))

    def to_json(self) -> str:
        """Write JSON, from which :meth:`from_json` makes an equal value."""
        kinds = [{"kind": kind.kind, **dataclasses.asdict(kind)} for kind in self.kinds]
        target = None if self.target is None else dataclasses.asdict(self.target)
        return json.dumps({"kinds": kinds, "target": target, "notes": self.notes})

    @classmethod
    def from_json(cls, text: str) -> "Columns":
        """Read what :meth:`to_json` wrote.

        Raises:
          ValueError: for any other JSON.

        >>> columns = Columns((_kinds.Number("length"), _kinds.Categories("colour", ("red",))))
        >>> Columns.from_json(columns.to_json()) == columns
        True
        """
        try:
            found = json.loads(text)
            kinds = tuple(_of_json(KINDS[kind.pop("kind")], kind) for kind in found["kinds"])
            target = None if found["target"] is None else _of_json(Target, found["target"])
            if target is not None and not _has_a_task(target):
                raise TypeError(f"no target: {target}")
            return cls(kinds, target, tuple(found["notes"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no columns of this version of jaxmkl: {error!r}") from None


def _too_large(cell: str) -> ValueError:
    text = f"the number is too large for a learner (above {BOUND:.1e}); mend or empty it"
    return ValueError(f"{cell}: {text}")


def _has_a_task(target: Target) -> bool:
    number = len(set(target.classes))
    fits = {"regression": number == 0, "classification": number > 1}
    return fits.get(target.task, False) and number == len(target.classes)


def _of_json(cls: type[T], fields: dict[str, Any]) -> T:
    value = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    for name, kind in get_type_hints(cls).items():
        if name in fields and not _is_a(kind, getattr(value, name)):
            raise TypeError(f"{cls.__name__}: {name} cannot be {fields[name]!r}")
    return value


def _is_a(kind: Any, value: object) -> bool:
    """Whether a value is of the type that a field is annotated with."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
