"""The encoding of a table as inputs and targets: decided on its first rows, applied to all."""

import dataclasses
import json
import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

from jaxmkl._checks import input_bound, shown
from jaxmkl._flags import ranges_of
from jaxmkl.tables import _kinds
from jaxmkl.tables._cells import BLANKS, RefusedRows
from jaxmkl.tables._decide import Decision, kind_of, plainly_numbers, sentences
from jaxmkl.tables._kinds import KINDS, Kind
from jaxmkl.tables._rows import Chunk
from jaxmkl.tables._target import Target, target_name, target_of
from jaxmkl.tables._words import missing_cells

BOUND = input_bound(np.float32)
T = TypeVar("T")


class Fills(NamedTuple):
    """Counts and sums of numbers, whose ratio fills in the missing numbers of D inputs."""

    counts: np.ndarray
    """The count of the numbers of each input so far (D,), float64."""
    sums: np.ndarray
    """Their sums (D,), float64."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """The encoding of the columns of a table: a value that JSON can hold.

    :meth:`decide` makes it from the first rows of a table. Every later row, and every other file
    with columns of these names, is encoded in the same way.
    """

    kinds: tuple[Kind, ...]
    """The kind of each column but the target."""
    target: Target | None = None
    """None for a table of inputs alone."""
    notes: tuple[str, ...] = ()
    """A sentence on each decision."""
    missing: tuple[str, ...] = ()
    """Words for missing cells, beside the usual ones, in these rows and all later ones."""
    blanks: ClassVar[str] = BLANKS
    """The characters that are ignored around a cell."""

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
        numbers               as they are; a missing one is the mean of those before, and
                              another input tells which are missing
        true/false, yes/no    1 and 0
        up to 50 words        ``categories``: a 0/1 input for each; others are zeros
        more, or free text    ``text``: TF-IDF of the 512 words that most of these rows have
                              (of 2,048 words: ``text:2048``)
        dates and times       time since the first; turns of day, week and year
        ====================  ===============================================================

        Inputs that are 0 or 1 (:attr:`flags`) are not scaled by the command; others are. Columns
        that are constant or empty in these rows are left out, as are those that name or count the
        rows. Numbers may have decimal commas, percent signs, a unit ($5, CHF 5, 5 kg), a minus
        behind them, parentheses for a minus, and commas (1,000 or 1,00,000), blanks or apostrophes
        between thousands. Times may have months as numbers or English words, years of two digits,
        and clocks of 12 or 24 hours, with or without a date. Clocks beyond 24 hours, or with days,
        are durations (26:30, 26:30:00, 1 days 02:30:00); as a target, these are seconds. Numbers
        with heavy tails are named in the notes.

        Args:
          first: the first rows.
          target: the column to predict; by default the one named target, y, label or class, else
            the last one.
          task: "regression" or "classification"; by default numbers of more than two values are
            regression.
          drop: columns to leave out.
          as_: kinds by the names of columns: "number", "boolean", "categories", "text", "text:N"
            of N words, "time", or a form of time such as ``%d/%m/%Y``.
          keep: whether to keep numbers that are constant or name the rows.
          supervised: False where there is no target, or it is among the columns to leave out.
          notes: notes to put before those on the columns.

        Raises:
          ValueError: a column does not exist or can be read in two ways, the target cannot be
            learned, or there are no inputs.

        >>> from jaxmkl.tables import open_table
        >>> rows = {"colour": ["red", "blue", "red"], "length": [1.0, None, 3.0], "y": [1, 0, 0]}
        >>> columns = Columns.decide(next(open_table(rows).chunks(3)))
        >>> columns.features
        ('colour=blue', 'colour=red', 'length', 'length is missing')
        """
        said, wanted, of = list(notes), dict(as_ or {}), None
        names, drop = first.frame.columns, {*drop}
        first.require(*drop, *wanted)
        free = [name for name in names if name not in drop and name not in wanted]
        plain = plainly_numbers(first, free, keep)
        rest = [first.frame.get_column(name) for name in names if name not in plain]
        if comma := first._replace(frame=pl.DataFrame(rest)).has_decimal_commas:
            plain = {name: one for name, one in plain.items() if not first.has_sign(".", name)}
        if supervised:
            label = target_name(
                [name for name in names if name not in drop] or names, target, said
            )
            first.require(label)
            if label in drop or label in wanted:
                text = "is the target, to which --drop and --as do not apply"
                advice = "--target names another, --task says how it is read"
                raise ValueError(f"{first.source}, column {label!r}: {text}; {advice}")
            of = target_of(first.source, first.column(label, comma), task, said)
            names.remove(label)
        why = dict.fromkeys(drop, "asked") | {target: "it is the target"}
        found = [
            Decision(_kinds.LeftOut(name), f"column {name!r} left out, as {why[name]}")
            if name in drop
            else plain.get(name) or kind_of(first.column(name, comma), wanted.get(name), keep)
            for name in names
        ]
        said += sentences(found)
        kinds = tuple(decision.kind for decision in found)
        columns = cls(kinds, of, tuple(said), tuple(first.missing))
        if not columns.features:
            left = f" ({'; '.join(decision.note for decision in found[:5])})" if found else ""
            raise ValueError(f"{first.source}: has no inputs{left}")
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
        return tuple(self.places)

    def _absent(self, given: Collection[str]) -> list[str]:
        """List the columns that are not among those given, of which one must be."""
        absent = [name for name in self.places if name not in given]
        if len(absent) == len(self.places):
            known, found = shown(self.names, 20), shown([*map(str, given)], 20)
            text = "of which none is among the columns"
            raise ValueError(f"the pipeline knows {known}, {text} {found}")
        return absent

    @property
    def missing_cells(self) -> tuple[list[str], list[float]]:
        """Words, in small letters, and numbers that stand for missing cells."""
        return missing_cells(self.missing)

    @cached_property
    def _spans(self) -> list[tuple[Kind, int, int]]:
        """Each kind, with the place of its first input and the place after its last."""
        ends = np.cumsum([0, *(len(kind.features) for kind in self.kinds)]).tolist()
        return list(zip(self.kinds, ends, ends[1:], strict=False))

    @cached_property
    def places(self) -> dict[str, range]:
        """The places of the inputs of each column that has some, by its name."""
        return {kind.name: range(first, end) for kind, first, end in self._spans if first < end}

    @cached_property
    def _plain(self) -> dict[str, int]:
        """The place of each column of plain numbers, by its name."""
        return {kind.name: at for kind, at, _ in self._spans
                if isinstance(kind, _kinds.Number) and kind.is_plain}  # fmt: skip

    @cached_property
    def _filled(self) -> np.ndarray:
        """The places of the inputs that may have gaps (D,)."""
        return np.array([first for kind, first, _ in self._spans if kind.filled], int)

    @cached_property
    def of_words(self) -> tuple[tuple[int, int], ...]:
        """The ranges of inputs that are words of texts, which need no scaling."""
        return tuple((first, end) for kind, first, end in self._spans
                     if isinstance(kind, _kinds.Text) and kind.words)  # fmt: skip

    @cached_property
    def flags(self) -> tuple[tuple[int, int], ...]:
        """The ranges of inputs that are 0 or 1, or were so in the first rows, and not scaled."""
        mask = np.zeros(len(self.features), bool)
        for kind, _, end in self._spans:
            mask[end - kind.flags : end] = True
        return ranges_of(mask)

    @cached_property
    def starts(self) -> np.ndarray:
        """A number near those of each input (D,), which :meth:`inputs` subtracts."""
        return np.array([start for kind in self.kinds for start in kind.starts], float)

    def _own(self, chunk: Chunk) -> Chunk:
        """The chunk, with the words that stand for missing cells in these columns."""
        return chunk._replace(missing=tuple(dict.fromkeys((*self.missing, *chunk.missing))))

    def init(self) -> Fills:
        """Return the fills before the first row."""
        return Fills(*np.zeros((2, len(self._filled))))

    def encode(self, chunk: Chunk, fills: Fills, learn: bool = True) -> tuple[np.ndarray, Fills]:
        """Encode rows as inputs (n, D), float64 and finite, and return the fills after them.

        Columns are found by their names; one that is not there is missing in all rows. Without
        ``learn`` the fills stay as they are.

        Raises:
          ValueError: a cell is not of its column's kind.
        """
        chunk = self._own(chunk)
        X = np.empty((len(chunk.frame), len(self.features)))
        plain, found = chunk.plain_numbers([*self._plain])
        X[:, [self._plain[name] for name in plain]] = found
        done = {*plain}
        for kind, first, end in self._spans:
            if first < end and kind.name not in done:
                X[:, first:end] = kind.encode(chunk.column(kind.name))
        return self.filled(X, fills, learn)

    def filled(self, X: np.ndarray, fills: Fills, learn: bool = True) -> tuple[np.ndarray, Fills]:
        """Fill in the missing numbers of encoded rows X (n, D), which are NaN, in their place."""
        numbers, known = X[:, self._filled], np.stack(fills)[:, None]  # (2, 1, F)
        gaps = np.isnan(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            if learn:
                steps = np.stack([~gaps, np.where(gaps, 0.0, numbers)])
                # one after the other, so that the sums do not depend on the chunks
                known = np.cumsum(np.concatenate([known, steps], axis=1), axis=1)
            count, total = known[:, :-1] if learn else known
            means = total / np.maximum(count, 1)
        means = np.where((count > 0) & np.isfinite(means), means, self.starts[self._filled])
        X[:, self._filled] = np.where(gaps, means, numbers)
        return X, Fills(*known[:, -1]) if learn else fills

    def centred(self, X: np.ndarray) -> np.ndarray | None:
        """X (n, D) minus :attr:`starts` in single precision; None if a number is too large."""
        X = X - self.starts
        return X.astype(np.float32) if (np.abs(X) <= BOUND).all() else None

    def inputs(self, chunk: Chunk, fills: Fills, learn: bool = True) -> tuple[np.ndarray, Fills]:
        """Encode rows for learners: :meth:`encode` minus :attr:`starts`, in single precision.

        Raises:
          ValueError: as :meth:`encode`, or a number is too large for single precision.
        """
        X, fills = self.encode(chunk, fills, learn)
        X -= self.starts
        names = [kind.name for kind in self.kinds for _ in kind.features]
        _refuse_large(chunk, X, BOUND, names)
        return X.astype(np.float32), fills

    def labels(self, chunk: Chunk) -> np.ndarray:
        """Read :meth:`targets` whose differences fit into single precision.

        Raises:
          ValueError: as :meth:`targets`, or a number is too large.
        """
        y = self.targets(chunk)
        assert self.target is not None
        _refuse_large(chunk, y[:, None], BOUND / 2, [self.target.name])
        return y

    def unseen(self, chunk: Chunk, X: np.ndarray) -> np.ndarray:
        """Count the cells of each column whose values did not occur in the first rows.

        X (n, D) are the :meth:`inputs` of the chunk; :meth:`losses` says how cells are encoded.
        """
        chunk, found = self._own(chunk), np.zeros(len(self.kinds), int)
        for at, (kind, first, end) in enumerate(self._spans):
            if type(kind).unseen is not Kind.unseen:
                found[at] = kind.unseen(chunk.column(kind.name), X[:, first:end])
        return found

    def losses(self, unseen: np.ndarray) -> list[str]:
        """A sentence for each column with :meth:`unseen` cells, given their counts."""
        lost = [(kind, n) for kind, n in zip(self.kinds, unseen.tolist(), strict=True) if n > 0]
        of = [vars(kind) | {"name": shlex.quote(kind.name)} for kind, _ in lost]
        return [f"column {kind.name!r}: {n:,} cells {kind.lost.format(**own)}"
                for (kind, n), own in zip(lost, of, strict=True)]  # fmt: skip

    def late_gaps(self, rows: int, before: Fills, after: Fills) -> np.ndarray:
        """Count the missing cells of each column of numbers whose first rows had none.

        The fills are those before and after so many rows; :meth:`losses` tells what they are.
        """
        found = np.zeros(len(self.kinds), int)
        filled = [at for at, kind in enumerate(self.kinds) if kind.filled]
        found[filled] = rows - (after.counts - before.counts)
        return np.where([getattr(kind, "missing", True) for kind in self.kinds], 0, found)

    def targets(self, chunk: Chunk) -> np.ndarray:
        """Read the targets (n,): numbers, -1 and +1, or 0 to K - 1; NaN where missing."""
        assert self.target is not None
        name = self.target.name
        chunk.require(name)
        return self.target.encode(self._own(chunk).column(name))

    def known(self, chunk: Chunk) -> dict[str, list]:
        """The cells of a chunk by column, without the target's, as numbers, words and None."""
        chunk, kinds = self._own(chunk), {kind.name: kind for kind in self.kinds}
        found: dict[str, list] = {}
        for name in chunk.frame.columns:
            cells, kind = chunk.column(name), kinds.get(name)
            if isinstance(kind, _kinds.Number):
                found[name] = pl.Series(kind.encode(cells)[:, 0]).fill_nan(None).to_list()
            elif self.target is None or name != self.target.name:
                found[name] = cells.values.to_list()
        return found

    def with_target(
        self, chunk: Chunk, name: str, task: str | None = None, classes: tuple[str, ...] = ()
    ) -> "Columns":
        """These columns with a target that may have few labels yet, or none.

        Args:
          chunk: rows, among which labels are looked for.
          name: the name of the target's column, which the chunk may lack.
          task: "regression" or "classification"; by default the labels decide.
          classes: the names of the classes; by default those of the labels.

        Returns:
          The columns, without a target where neither the labels nor the arguments tell the task.

        Raises:
          ValueError: as :meth:`decide`.
        """
        chunk, notes, target = self._own(chunk), [*self.notes], None
        cells = chunk.column(name, chunk.has_decimal_commas)
        if classes:
            target = Target(name, "classification", classes)
            others = set(target.words(cells).drop_nulls()) - {*classes}
            if others:
                text = (
                    f"has the labels {shown(sorted(others))} beside the classes {shown(classes)}"
                )
                advice = "name all classes (--classes), or none"
                raise ValueError(f"{chunk.source}, column {name!r}: {text}; {advice}")
        elif cells.flat.drop_nulls().n_unique() > 1:
            target = target_of(chunk.source, cells, task, notes)
        elif task == "regression":
            target = Target(name, "regression")
        return dataclasses.replace(self, target=target, notes=tuple(notes))

    def to_json(self) -> str:
        """Write JSON, from which :meth:`from_json` makes an equal value."""
        kinds = [{"kind": kind.kind, **dataclasses.asdict(kind)} for kind in self.kinds]
        target = None if self.target is None else dataclasses.asdict(self.target)
        if target is not None and not target["form"]:
            del target["form"]  # as older versions wrote it, whose journals go on
        others = {"notes": self.notes, "missing": self.missing}
        return json.dumps({"kinds": kinds, "target": target, **others})

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
            return cls(kinds, target, tuple(found["notes"]), tuple(found.get("missing", ())))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no columns of this version of jaxmkl: {error!r}") from None


def _refuse_large(chunk: Chunk, X: np.ndarray, bound: float, names: Sequence[str]) -> None:
    """Refuse the rows of X (n, k) that have a number above a bound, by the columns' names."""
    found = [(row, names[place]) for row, place in np.argwhere(np.abs(X) > bound)]
    reasons = dict[int, str]()
    # a mean that fills in a missing cell is large because of an earlier row
    known = {name: chunk.column(name).values.is_not_null() for name in {name for _, name in found}}
    for row, name in [(row, name) for row, name in found if known[name][int(row)]] or found[:1]:
        text = f"the number is too large for a learner (above {bound:.1e}); mend or empty it"
        reasons.setdefault(int(row), f"{chunk.column(name).where(row)}: {text}")
    if reasons:
        raise RefusedRows(reasons)


def _of_json(cls: type[T], fields: dict[str, Any]) -> T:
    value = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    for name, kind in _hints(cls).items():  # type: ignore[arg-type]
        if name in fields and not _is_a(kind, getattr(value, name)):
            raise TypeError(f"{cls.__name__}: {name} cannot be {fields[name]!r}")
    return value


_hints = cache(get_type_hints)


def _is_a(kind: Any, value: object) -> bool:
    """Check a value against the type that a field is annotated with."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_a(get_args(kind)[0], item) for item in value)
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
