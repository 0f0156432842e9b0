"""Questions: which row is asked for next, and how answers are learned and undone.

Everything that happens is one of four events, which the journal records before they take effect:

    {"ask": item}                       a question; null once the table is through
    {"answer": item, "label": label}    its answer, maybe after other questions
    {"skip": item}                      no answer will come
    {"undo": item}                      back to before the last answer, or skip, of item

The learning is that of :class:`jaxmkl.tables.Session`, as of ``jaxmkl serve``. The standing is a
value that is computed from the events one after the other, so it is the same however a session
ended.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmkl import abilities
from jaxmkl._checks import shown
from jaxmkl.cli.labelling.journal import Journal
from jaxmkl.cli.labelling.rows import Label, Rows
from jaxmkl.tables import Pipeline, Refused, Session

MOST = 4096  # rows of a pool that are judged for a question
UNDONE = 100  # answers that can be undone


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
      pipeline: the pipeline before the first question, as :func:`.learner.asking` makes it.
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
        begin = Standing(Session(pipeline, max(1, len(rows.X))))
        # the last one is now, those before it are from before each answer
        self._history: tuple[Standing, ...] = (begin,)
        journal.replay(self._again)

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

    def _again(self, event: Mapping[str, Any]) -> None:
        self._history = self._after(event)

    def _happen(self, event: dict[str, object]) -> None:
        after = self._after(event)
        self.journal.append(event)
        self.journal.events.append(event)
        self._history = after

    def _after(self, event: Mapping[str, Any]) -> tuple[Standing, ...]:
        """The history after this event; nothing is changed."""
        *before, now = self._history
        match event:
            case {"ask": item, **more} if not more:
                return (*before, self._asked(now, item))
            case {"answer": item, "label": answer, **more} if not more:
                return (*self._history[-UNDONE:], self._closed(now, item, self.label(answer)))
            case {"skip": item, **more} if not more:
                return (*self._history[-UNDONE:], self._closed(now, item, None))
            case {"undo": item, **more} if not more and item == self._last():
                return tuple(before)
            case {"undo": item, **more} if not more:
                raise Refused(f"{item!r} is not the last one answered or skipped")
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
