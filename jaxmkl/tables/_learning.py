"""The work of a session: rows are predicted one at a time, labels learned as they come."""

import copy
import dataclasses
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, KeysView, Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._checks import refuse_unless, shown
from jaxmkl._learner import Learner, Prediction
from jaxmkl.checkpoint import arrays_of, tree_of
from jaxmkl.evaluate import central_intervals, predicts_log_odds
from jaxmkl.query import All
from jaxmkl.tables import _rounds
from jaxmkl.tables._given import Given, Refused
from jaxmkl.tables._rounds import Example
from jaxmkl.wrappers import LabelBudget, layers

MOST_WAITING = 10_000  #: examples that may wait for a label, by default
Id = str | int
Label = str | float


class Asked(NamedTuple):
    """The answer to a row."""

    id: Id
    """The row's id, by which its label is learned."""
    prediction: Label
    """The name of a class, or a number in the target's units."""
    wanted: bool
    """True if the learner wants the label."""
    probabilities: dict[str, float] | None = None
    """Probabilities by class, of learners in :func:`jaxmkl.wrappers.probabilities`."""
    interval: tuple[float, float] | None = None
    """The ends between which nine of ten labels lie, of learners that know them
    (:func:`jaxmkl.wrappers.predictive`, :func:`jaxmkl.wrappers.intervals`)."""
    importances: dict[str, float] | None = None
    """How much each column matters, of sum 1, if it was asked for and the learner knows it."""


class Learning:
    """A session (:class:`jaxmkl.tables.Session`) without files.

    Args:
      pipeline: a pipeline.
      most_waiting: how many rows may have no label yet.
    """

    def __init__(self, pipeline: Any, most_waiting: int = MOST_WAITING) -> None:
        target = pipeline.columns.target
        wanted = "one whose table has a target"
        pytree.require(target is not None, "Session", "pipeline", pipeline.source, wanted)
        assert target is not None
        self.dropped = 0  #: rows that were forgotten because too many waited
        self._pipeline, self._target = pipeline, target
        self._learner, self._columns = pipeline.learner, pipeline.columns
        self._state, self._fills = pipeline.state, pipeline.fills
        self._seen, self._rows = pipeline.seen, pipeline.rows
        self._unlabelled = OrderedDict[Id, Example | None]()  # None: the learner skipped it
        self.most_waiting = most_waiting
        self._next = 0  # the next id that is made
        self._given = Given(self._columns)
        self._is_odds = predicts_log_odds(self._learner)
        self._wants_all = _wants_all(self._learner)
        self._free = 0.0  # support vectors for which there is room, at least

    @property
    def standing(self) -> dict[str, Any]:
        """The fields of the pipeline that change as it learns."""
        now = {"state": self._state, "fills": self._fills}
        return now | {"seen": self._seen, "rows": self._rows}

    @property
    def pipeline(self) -> Any:
        """The pipeline as it is now: a value that learns nothing of what comes later."""
        return dataclasses.replace(self._pipeline, **self.standing)

    @property
    def waiting(self) -> list[Id]:
        """The ids of the rows that wait for labels, the oldest first."""
        return [own for own, example in self._unlabelled.items() if example is not None]

    @property
    def unlabelled(self) -> KeysView[Id]:
        """The ids of the rows without labels, which wait or were skipped; the oldest first."""
        return self._unlabelled.keys()

    @property
    def until_renewal(self) -> float:
        """Rounds before the next renewal of what is learned from the memory, which takes long."""
        return _rounds.until_renewal(self._learner, self._state)

    @property
    def most_waiting(self) -> int:
        """How many rows may have no label yet."""
        return self._most

    @most_waiting.setter
    def most_waiting(self, most: int) -> None:
        self._most = pytree.as_count("Session", "most_waiting", most, minimum=1)
        self._drop()

    # rows

    def ask(
        self, rows: Any, ids: Iterable[Id] | None = None, *, importances: bool = False
    ) -> list[Asked]:
        """Predict rows, which then wait for their labels.

        Several rows are as if each was asked for by itself, in less time.

        Args:
          rows: the cells of a row by column, several such mappings, or a DataFrame of polars.
            Columns that the pipeline does not know are ignored, the target among them; cells that
            are not there count as missing.
          ids: an id for each row, text or an integer; by default the next numbers.
          importances: whether to return the importances of the columns.

        Raises:
          Refused: a row cannot be read, ids are not as many as rows, or an id waits already.

        Warns:
          UserWarning: a column is not there, once for each column.
        """
        own, X, fills = self._read(rows, ids)
        said, examples, state = _rounds.asked(self._learner, self._state, X, self._wants_all)
        answers = self._answers(own, said, importances)
        self._state, self._fills = state, fills
        self._keep(own, examples)
        return answers

    def expect(self, rows: Any, ids: Iterable[Id]) -> None:
        """Let rows that somebody else predicted wait for their labels, as :meth:`ask` does.

        Only a learner that does not want every label predicts them once more, to decide.

        Raises:
          Refused: as :meth:`ask`.
        """
        if not self._wants_all:
            self.ask(rows, ids)
            return
        own, X, self._fills = self._read(rows, ids)
        examples, self._state = _rounds.awaited(self._learner, self._state, X)
        self._keep(own, examples)

    def _read(self, rows: Any, ids: Iterable[Id] | None) -> tuple[list[Id], np.ndarray, Any]:
        """The ids and inputs (n, D) of rows, and the fills after them."""
        given = self._given.rows(rows)
        own = self._ids(len(given), ids)
        return own, *self._given.inputs(given, self._fills, None if ids is None else own)

    def _keep(self, own: Sequence[Id], examples: Sequence[Example | None]) -> None:
        """Let rows wait, and forget the oldest ones where too many do."""
        self._next = max([self._next, *(one + 1 for one in own if isinstance(one, int))])
        for one, example in zip(own, examples, strict=True):
            self._unlabelled.pop(one, None)
            self._unlabelled[one] = example
            self._rows += example is None
        self._drop()

    def _drop(self) -> None:
        excess = max(0, len(self._unlabelled) - self._most)
        self.dropped += self._forgotten([*itertools.islice(self._unlabelled, excess)])

    # labels

    def learn(self, id: Id, label: object) -> bool:
        """Learn the label of a row that was asked for, in any order.

        Returns:
          False if the learner did not want the label, and so did not learn it.

        Raises:
          Refused: no such row waits for a label, or the label is no class and no number.
        """
        return self.learn_many([(id, label)])[0]

    def learn_many(self, labels: Iterable[tuple[Id, object]]) -> list[bool]:
        """Learn the labels of several rows, as if each was learned by itself, in less time.

        Args:
          labels: pairs of a row's id and its label.

        Returns:
          For each pair what :meth:`learn` returns.

        Raises:
          Refused: as :meth:`learn`, for any of the pairs, or an id comes twice; no label is
            learned then.
        """
        pairs = [*labels]
        found = [(own, self._example(own), self._given.number(label)) for own, label in pairs]
        if len({own for own, *_ in found}) < len(found):
            raise Refused(f"ids must differ; got {shown([own for own, *_ in found], 20)}")
        taken = self._learned([(example, number) for _, example, number in found])
        for own, *_ in found:
            self._settled(own)
        return taken

    def learn_row(self, row: Mapping[str, Any], label: object) -> bool:
        """Learn a row whose label is known, the next one of the stream.

        Returns:
          False if the learner did not want the label, and so skipped the row.

        Raises:
          Refused: the row cannot be read, or the label is no class and no number.
        """
        number = self._given.number(label)
        if not isinstance(row, Mapping):
            raise Refused(f"row must be cells by column; got {type(row).__name__}")
        X, fills = self._given.inputs([row], self._fills)
        _, (example,), self._state = _rounds.asked(self._learner, self._state, X, self._wants_all)
        self._fills = fills
        self._rows += 1
        return self._learned([(example, number)])[0]

    def _learned(self, labelled: Sequence[tuple[Example | None, float]]) -> list[bool]:
        """Learn the numbers of examples; those of None, which the learner skips, only count."""
        known, seen = list[tuple[Example, float, bool]](), self._seen
        for example, number in labelled:
            if example is not None:
                known.append((example, self._centred(number, seen), True))
            seen = seen.after_one(number, len(self._target.classes))
        self._make_room(len(known))
        self._state, self._seen = _rounds.learned(self._learner, self._state, known), seen
        return [example is not None for example, _ in labelled]

    def forget(self, id: Id) -> None:
        """Stop waiting for a label that will never come.

        Raises:
          Refused: no such row waits for a label.
        """
        self._forgotten([id])

    def _forgotten(self, ids: Sequence[Id]) -> int:
        """Forget rows, one after the other, and return how many of them waited."""
        examples = [example for own in ids if (example := self._example(own)) is not None]
        none = [(example, np.nan, True) for example in examples]
        self._state = _rounds.learned(self._learner, self._state, none)
        for own in ids:
            self._settled(own)
        return len(examples)

    def label(self, label: object) -> Label:
        """The class, by its name, or the number that a label is; nothing is learned.

        Raises:
          Refused: it is no class and no number.
        """
        number = self._given.number(label)
        return self._target.classes[int(number)] if self._target.classes else number

    def check(self, row: Mapping[str, Any]) -> None:
        """Raise :class:`Refused` if a row cannot be read; nothing is asked or learned."""
        self._given.inputs(self._given.rows(row), self._fills)

    def _example(self, own: object) -> Example | None:
        """The example of a row without its label, None if it is unwanted."""
        known = isinstance(own, str | int) and not isinstance(own, bool)
        if not known or own not in self._unlabelled:
            why = "it was never asked for, or its label came before, or it was forgotten"
            raise Refused(f"no row with the id {own!r} waits for a label: {why}")
        return self._unlabelled[own]  # type: ignore[index]

    def _settled(self, own: Id) -> None:
        """Wait no longer for a row, which counts unless it did when it was skipped."""
        self._rows += self._unlabelled.pop(own) is not None

    def _centred(self, number: float, seen: Any) -> float:
        """The label as the learner has it, after what was seen."""
        if self._target.classes:
            return self._target.numbered(number)
        return 0.0 if seen.is_nothing else number - seen.start

    # files

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The rows that wait, as JSON and arrays, from which :meth:`restore` makes them again."""
        waits = [example is not None for example in self._unlabelled.values()]
        about: dict[str, Any] = {"ids": [*self._unlabelled], "wait": waits, "next": self._next}
        about |= {"most": self.most_waiting, "dropped": self.dropped}
        if not any(waits):
            return about, {}
        examples = [example for example in self._unlabelled.values() if example is not None]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *examples)
        return about, {f"waiting{name}": array for name, array in arrays_of(stacked).items()}

    def restore(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Let wait what :meth:`to_arrays` returned.

        Raises:
          ValueError, KeyError, TypeError: it did not.
        """
        self.most_waiting = about["most"]
        self.dropped, self._next = int(about["dropped"]), int(about["next"])
        own = self._ids(len(about["wait"]), about["ids"])
        self._unlabelled.update(dict.fromkeys(own))
        if own := [one for one, waits in zip(own, about["wait"], strict=True) if waits]:
            context = abilities.context(self._learner, self._state)
            like = Example(np.zeros(len(self._columns.features), np.float32), context)
            like = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * len(own)), like)
            prefix = len("waiting")
            found = tree_of({name[prefix:]: array for name, array in arrays.items()}, like)
            refuse_unless(np.isfinite(found.x).all(), "inputs of rows that wait are not finite")
            examples = _rounds.unstacked(found.x, found.context)
            self._unlabelled.update(zip(own, examples, strict=True))

    def _ids(self, length: int, ids: Iterable[Any] | None) -> list[Id]:
        if ids is None:
            free = (one for one in itertools.count(self._next) if one not in self._unlabelled)
            return [*itertools.islice(free, length)]
        own, found = [*ids], set[Id]()
        if len(own) != length:
            raise Refused(f"ids must be one for each of the {length} rows; got {len(own)}")
        for one in own:
            if not isinstance(one, str | int) or isinstance(one, bool):
                raise Refused(f"ids must be text or integers; got {one!r}")
            if self._unlabelled.get(one) is not None:
                raise Refused(f"a row with the id {one!r} waits for its label already")
            if one in found:
                raise Refused(f"ids must differ; got {one!r} twice")
            found.add(one)
        return own

    # answers

    def _answers(
        self, ids: Sequence[Id], said: Prediction, importances: bool = False
    ) -> list[Asked]:
        target, seen, values = self._target, self._seen, np.asarray(said.value)
        known = bool(target.classes) or not seen.is_nothing
        named = target.named(values if known else np.zeros(len(values)), seen.start).tolist()
        shares: list[Any] = [None] * len(ids)
        ends: list[Any] = shares
        if self._is_odds and target.classes:
            each = self._pipeline.probabilities(values).tolist()
            shares = [dict(zip(target.classes, own, strict=True)) for own in each]
        if known and not target.classes:
            ends = _intervals(said, seen.start) or ends
        wanted = np.asarray(said.query).tolist()
        rest = zip(ids, named, wanted, shares, ends, strict=True)
        matters: Any = abilities.importances(self._learner, self._state) if importances else None
        if matters is not None:
            each = np.asarray(matters, np.float64)
            matters = {name: float(each[of].sum()) for name, of in self._columns.places.items()}
        return [Asked(*one, matters) for one in rest]

    def has_room(self, number: int) -> bool:
        """Whether so many labels need no more support vectors, whose programs are compiled."""
        if number > self._free:
            capacity = abilities.capacity(self._learner, self._state)
            used = 0 if capacity is None else abilities.num_supports(self._learner, self._state)
            self._free = math.inf if capacity is None else capacity - int(np.max(used))
        return number <= self._free

    def _make_room(self, number: int) -> None:
        """Have room for so many more support vectors, where a learner keeps all of them."""
        if not self.has_room(number):  # each capacity is compiled, so there are few
            capacity: Any = abilities.capacity(self._learner, self._state)
            used = capacity - int(self._free)
            capacity = max(2 * capacity, used + number)
            self._state = abilities.enlarged(self._learner, self._state, capacity)
            self._free = capacity - used
        self._free -= number

    # rows that somebody else chooses, by their inputs (D,)

    def copy(self) -> Self:
        """A session that begins where this one is; what either does, the other does not know."""
        other = copy.copy(self)
        other._unlabelled = self._unlabelled.copy()
        return other

    def look(self, id: Id, x: np.ndarray) -> Asked:
        """Predict a row as :meth:`ask` does, which changes nothing."""
        said, _, _ = _rounds.asked(self._learner, self._state, x[None], self._wants_all)
        return self._answers([id], said)[0]

    def wait(self, id: Id, x: np.ndarray) -> None:
        """Let a row wait for its label, whether the learner wants it or not.

        Raises:
          Refused: the id waits already.
        """
        own = self._ids(1, [id])
        examples, self._state = _rounds.awaited(self._learner, self._state, x[None])
        self._keep(own, examples)

    def skip(self, x: np.ndarray) -> None:
        """Pass a row without asking for its label, whether the learner wants it or not."""
        example = Example(x, abilities.context(self._learner, self._state))
        self._state = _rounds.learned(self._learner, self._state, [(example, 0.0, False)])
        self._rows += 1


def _intervals(said: Prediction, start: float) -> list[tuple[float, float] | None]:
    """The ends of each prediction's interval, None unless they are finite; [] without any."""
    if said.distribution is not None:
        low, high = central_intervals(said.distribution, start=start)
    elif said.interval is not None:
        low, high = (start + np.asarray(end, np.float64) for end in said.interval)
    else:
        return []
    finite = (np.isfinite(low) & np.isfinite(high)).tolist()
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return [both if good else None for both, good in zip(ends, finite, strict=True)]


def _wants_all(learner: Learner) -> bool:
    """True if a learner certainly wants every label, and its predictions do not depend on it."""
    each = [*layers(learner)]
    asks_for_all = isinstance(getattr(each[-1], "query", None), All)
    return asks_for_all and not any(isinstance(layer, LabelBudget) for layer in each)
