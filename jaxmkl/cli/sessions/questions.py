"""Questions: which row of a table is asked for next, and how answers are learned and undone.

Everything that happens is one of four events, which the journal records before they take effect:

    {"ask": item}                       a question; null once the table is through
    {"answer": item, "label": label}    its answer, maybe after other questions
    {"skip": item}                      no answer will come
    {"undo": item}                      back to before the last answer, or skip, of item

The learning is that of :class:`jaxmkl.tables.Session`, as of ``jaxmkl serve``. The standing is a
value that is computed from the events one after the other, so it is the same however a session
ended.
"""

import csv
import dataclasses
import hashlib
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxmkl
from jaxmkl import Learner, abilities
from jaxmkl._checks import leaves_by_name, shown
from jaxmkl._files import written_whole
from jaxmkl._types import PyTree
from jaxmkl.cli.sessions.journal import Event, Journal
from jaxmkl.evaluate import UsageError, predicts_log_odds
from jaxmkl.query import Query, Rate
from jaxmkl.tables import Chunk, Columns, Fills, Pipeline, Refused, Session
from jaxmkl.wrappers import Intervals, OneVsRest, Wrapper, intervals, layers, probabilities

MOST = 4096  # rows of a pool that are judged for a question
UNDONE = 100  # answers that can be undone
SURE = 0.9  # the share of numbers within the radius that is shown
Label = str | float  # a class, or a number


class Rows:
    """All n rows of a table, counted from 0; an item is the number of a row in the file.

    Args:
      chunk: the rows.
      columns: how they are encoded; the target's column may be absent.
      fills: what fills missing numbers; by default the rows themselves fill theirs.

    Raises:
      ValueError: if a cell does not fit its column.
    """

    def __init__(self, chunk: Chunk, columns: Columns, fills: Fills | None = None) -> None:
        assert columns.target is not None
        self.chunk, self.columns = chunk, columns
        self.target = columns.target  #: the column to be predicted
        #: inputs (n, D), and what fills missing numbers
        self.X, self.fills = columns.inputs(chunk, fills or columns.init(), learn=fills is None)
        there = self.target.name in chunk.frame.columns
        #: labels in the table, as learners have them, else NaN (n,) float64
        self.y = columns.targets(chunk) if there else np.full(len(self.X), np.nan)
        self.has_label = ~np.isnan(self.y)  #: (n,)
        #: the cells as they are in the table, without the target
        self.frame = chunk.frame.drop(self.target.name, strict=False)
        self.items = [int(number) for number in chunk.numbers]  #: by row
        self.places = {item: row for row, item in enumerate(self.items)}  #: rows by item

    def place(self, item: object) -> int:
        """Return the row of an item, or raise ``Refused`` if the table has none."""
        row = self.places.get(item) if type(item) is int else None
        if row is None:
            raise Refused(f"the table has no {self.chunk.place} {item!r}")
        return row

    @property
    def about(self) -> dict[str, object]:
        """A description that distinguishes these rows and labels from others."""
        digest = hashlib.sha256(self.X.tobytes() + self.y.tobytes())
        of = f"{self.target.name}: {', '.join(self.target.classes) or 'numbers'}"
        return {"table": f"{len(self.X)} rows, {digest.hexdigest()[:16]}", "target": of}

    @cached_property
    def values(self) -> dict[str, list]:
        """The cells of each column but the target as they are read: numbers, text or None."""
        return self.columns.known(self.chunk)

    def write(self, path: Path, labels: Mapping[int, Label]) -> int:
        """Write the rows with a label, in the table or in ``labels`` by item, as CSV.

        The file appears whole or not at all. Returns the number of rows.
        """
        rows, classes = np.flatnonzero(self.has_label), self.target.classes
        known = self.target.places(self.y[rows]).tolist()
        known = [classes[int(place)] for place in known] if classes else known
        found = dict(zip(rows.tolist(), known, strict=True))
        found |= {self.places[item]: label for item, label in labels.items()}
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow([*self.frame.columns, self.target.name])
        writer.writerows([*self.frame.row(row), found[row]] for row in sorted(found))
        with written_whole(path) as file:
            file.write(text.getvalue().encode())
        return len(found)


class Standing(NamedTuple):
    """The standing of the questions between two events."""

    session: Session  #: where open items wait; it is copied before it is changed
    row: int = 0  #: the first row not yet passed, if rows are asked for in their order
    #: labels by item, in the order of the answers; None: skipped
    closed: Mapping[int, Label | None] = {}

    @property
    def open(self) -> list[Any]:
        """The items that wait for their answers, the oldest first."""
        return self.session.waiting

    @property
    def labels(self) -> dict[int, Label]:
        """The answers by item, without the skipped ones."""
        return {item: label for item, label in self.closed.items() if label is not None}


class Labelling:
    """Questions and answers, from which a pipeline learns.

    An item that does not wait for an answer, and an answer that is not a label, raise
    :class:`jaxmkl.tables.Refused`.

    Args:
      rows: the table; its rows with a label are not asked for.
      pipeline: the pipeline before the first question, as :func:`asking` makes it.
      journal: all goes on after its events.
      budget: the number of questions.
      ranking: the items of a pool to ask for before all others, of which the one whose label is
        worth most is next. None: rows come in their order, and the learner decides whether it
        wants each label.

    Raises:
      ValueError: if the events of the journal cannot have happened.
    """

    def __init__(
        self,
        rows: Rows,
        pipeline: Pipeline,
        journal: Journal,
        budget: int,
        ranking: Sequence[int] | None = None,
    ) -> None:
        self.rows, self.journal = rows, journal
        self._budget, self._ranking = budget, ranking
        # the last one is now, those before it are from before each answer
        self._history: tuple[Standing, ...] = (Standing(Session(pipeline, max(1, len(rows.X)))),)
        journal.replay(lambda event: self._happen(event, is_new=False))

    @property
    def standing(self) -> Standing:
        """The present standing."""
        return self._history[-1]

    @property
    def remaining(self) -> int:
        """The number of questions that may still be asked."""
        return max(0, self._budget - len(self.standing.open) - len(self.standing.closed))

    def said(self, item: int) -> dict[str, object]:
        """Return the present prediction of the learner for an item.

        It has the "prediction", a class or a number, and its certainty: "probabilities" by class,
        or for numbers the "radius" within which nine of ten labels lie, None before the first.
        """
        found = self.standing.session.look(item, self.rows.X[self.rows.place(item)])
        if found.probabilities is not None:
            return {"prediction": found.prediction, "probabilities": found.probabilities}
        ends = found.interval
        radius = None if ends is None else (ends[1] - ends[0]) / 2.0
        return {"prediction": found.prediction, "radius": radius}

    def ask(self) -> int | None:
        """Choose the next item and ask for it; None if none is left or wanted."""
        if not self.remaining:
            return None
        is_pool = self._ranking is not None
        item = self._most_wanted() if is_pool else self._next_wanted()
        is_known = is_pool or self.journal.events[-1:] == [{"ask": None}]
        if item is not None or not is_known:
            self._happen({"ask": item})
        return item

    def label(self, answer: object) -> Label:
        """Read an answer as a class or a number, as cells are."""
        try:
            return self.standing.session.label(answer)
        except Refused:
            wanted = "a number that can be learned"
            if classes := self.rows.target.classes:
                wanted = f"one of the classes {shown(classes, 20)}"
            raise Refused(f"{answer!r} is not {wanted}") from None

    def answer(self, item: object, answer: object) -> Label:
        """Learn an answer and return the label that it names."""
        label = self.label(answer)
        self._happen({"answer": item, "label": label})
        return label

    def skip(self, item: object) -> None:
        """Give up on an answer; its question still counts."""
        self._happen({"skip": item})

    def undo(self) -> None:
        """Undo the last answer or skip, and all questions after it; its item waits again."""
        self._happen({"undo": self._last()})

    # events

    def _happen(self, event: Event, is_new: bool = True) -> None:
        after = self._after(event)
        if is_new:
            self.journal.append(event)
            self.journal.events.append(event)
        self._history = after

    def _after(self, event: Event) -> tuple[Standing, ...]:
        """The history after this event; nothing is changed."""
        *before, now = self._history
        match event:
            case {"ask": item, **more} if not more:
                return (*before, self._asked(now, item))
            case {"answer": item, "label": answer, **more} if not more:
                return (*self._history[-UNDONE:], self._closed(now, item, self.label(answer)))
            case {"skip": item, **more} if not more:
                return (*self._history[-UNDONE:], self._closed(now, item, None))
            case {"undo": item, **more} if not more:
                if item != self._last():
                    raise Refused(f"{item!r} is not the last one answered or skipped")
                return tuple(before)
        raise Refused(f"{', '.join(map(repr, event))} is not a question, answer, skip or undo")

    def _asked(self, now: Standing, item: Any) -> Standing:
        rows, is_pool = self.rows, self._ranking is not None
        row = len(rows.X) if item is None else rows.place(item)
        if row < now.row or item in now.open or item in now.closed:
            raise Refused(f"{rows.chunk.place} {item} was asked for before")
        if item is not None and rows.has_label[row]:
            raise Refused(f"{rows.chunk.place} {item} has a label in the table")
        if not is_pool:
            now = self._passed(now, row)
        if item is None:
            return now
        session = now.session.copy()
        session.wait(item, rows.X[row])
        return now._replace(session=session, row=now.row if is_pool else row + 1)

    def _passed(self, now: Standing, end: int) -> Standing:
        """Have the learner skip the rows before ``end`` whose labels were not asked for."""
        session = now.session.copy()
        for row in range(now.row, end):
            if not self.rows.has_label[row]:  # a label of the table was learned before
                session.skip(self.rows.X[row])
        return now._replace(session=session, row=end)

    def _closed(self, now: Standing, item: Any, label: Label | None) -> Standing:
        self.rows.place(item)
        if item in now.closed:
            known = now.closed[item]
            raise Refused("skipped before" if known is None else f"answered before, as {known!r}")
        if item not in now.open:
            raise Refused("was not asked for")
        session = now.session.copy()
        if label is None:
            session.forget(item)
        else:
            session.learn(item, label)
        return now._replace(session=session, closed={**now.closed, item: label})

    def _last(self) -> int:
        """The item that was answered or skipped last."""
        if len(self._history) == 1:
            raise Refused(f"nothing is left to undo; only the last {UNDONE} answers can be undone")
        return list(self.standing.closed)[-1]

    # choices

    def _next_wanted(self) -> int | None:
        """The next item, in the table's order, whose label the learner wants."""
        rows = self.rows
        while (now := self.standing).row < len(rows.X):
            item = rows.items[now.row]
            if not rows.has_label[now.row] and now.session.look(item, rows.X[now.row]).wanted:
                return item
            self._history = (*self._history[:-1], self._passed(now, now.row + 1))
        return None

    def _most_wanted(self) -> int | None:
        """The next item of the ranking; after those, the best item of a random sample."""
        now, X, left = self.standing, self.rows.X, ~self.rows.has_label
        left[[self.rows.places[item] for item in (*now.open, *now.closed)]] = False
        for item in self._ranking or ():
            if left[self.rows.places[item]]:
                return item
        rows = np.flatnonzero(left)
        if len(rows) > MOST:
            draws = np.random.default_rng(len(left) - len(rows))
            rows = np.sort(draws.choice(rows, MOST, replace=False))
        elif not len(rows):
            return None
        pipeline = now.session.pipeline
        state = abilities.out_of_order(pipeline.learner, pipeline.state)
        scores = np.asarray(pipeline.learner.predict_many(state, X[rows]).score)
        return self.rows.items[rows[np.argmax(np.nan_to_num(scores, nan=np.inf))]]


# --- the learner ---------------------------------------------------------------------------------


def asking(pipeline: Pipeline, rows: Rows, rate: float) -> Pipeline:
    """Return the pipeline with a learner that asks at a rate, with probabilities or intervals.

    A learner before its first round learns the labels in the table; a later one is assumed to know
    them.

    Raises:
      UsageError: if the query of the learner cannot be replaced.
    """
    learner, state, inside = pipeline.learner, pipeline.state, [*layers(pipeline.learner)]
    if rate < 1.0 and any(isinstance(layer, OneVsRest) for layer in inside):
        text = "the learner asks for each class separately and cannot keep a rate"
        raise UsageError(f"--learner: {text}; choose another, such as raker")
    if not isinstance(inside[-1], jaxmkl.MKL):
        name = type(inside[-1]).__name__
        raise UsageError(f"--learner: {name} asks in its own way; choose another, such as raker")
    classes, known = rows.target.classes, rows.has_label
    if not (classes and predicts_log_odds(learner)):
        sure = probabilities(learner) if classes else intervals(learner, SURE)
        begun = sure.init(state.key, learner.num_inputs(state), learner.dtype(state))
        learner, state = sure, begun.replace(inner=state)
    number, seen = pipeline.rows, pipeline.seen
    if known.any() and int(state.round) == 0:
        learner, state = with_query(learner, state, Rate(1.0))
        y, number = rows.y[known], int(known.sum())
        seen = seen.after(rows.target.places(y), len(classes))
        state, _ = jaxmkl.run(learner, state, rows.X[known], (y - seen.start).astype(np.float32))
    learner, state = with_query(learner, state, Rate(rate))
    now: dict[str, Any] = {"rows": number, "seen": seen, "source": rows.chunk.source}
    return dataclasses.replace(pipeline, learner=learner, state=state, fills=rows.fills, **now)


def to_be_saved(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without the intervals of :func:`asking`."""
    if not isinstance(pipeline.learner, Intervals):
        return pipeline
    inside, state = pipeline.learner.learner, pipeline.state.inner
    return dataclasses.replace(pipeline, learner=inside, state=state)


def with_query(learner: Learner, state: PyTree, query: Query) -> tuple[Learner, PyTree]:
    """Replace the query of the learner, which begins anew; the rest of the state stays.

    >>> learner = jaxmkl.label_budget(jaxmkl.raker(), 3)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> learner, state = with_query(learner, state, Rate(0.5))
    >>> learner.learner.query, int(state.inner.query.asked)
    (Rate(rate=0.5, epsilon=0.001, by='disagreement'), 0)
    """

    def changed(layer: Learner) -> Learner:
        inside: Any = layer
        if isinstance(layer, Wrapper):
            return dataclasses.replace(inside, learner=changed(inside.learner))
        return dataclasses.replace(inside, query=query)

    learner = changed(learner)
    fresh = learner.init(state.key, learner.num_inputs(state), learner.dtype(state))
    kept = leaves_by_name(state)
    leaves = [kept[k] if ".query." not in k else v for k, v in leaves_by_name(fresh).items()]
    return learner, jax.tree.unflatten(jax.tree.structure(fresh), leaves)
