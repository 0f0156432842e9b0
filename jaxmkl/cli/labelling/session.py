"""A session: which row is asked for next, and how answers are learned and undone.

Everything that happens is one of four events, which the journal records before they take effect:

    {"ask": item}                       a question; null once the table is through
    {"answer": item, "label": label}    its answer, maybe after other questions
    {"skip": item}                      no answer will come
    {"undo": item}                      back to before the last answer, or skip, of item

The standing of a session is a value that is computed from the events one after the other, so a
session continues however it ended.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmkl import Learner, abilities
from jaxmkl._programs import Kept
from jaxmkl._types import PyTree
from jaxmkl.cli.labelling.journal import ADVICE, Journal
from jaxmkl.cli.labelling.rows import Label, Refused, Rows
from jaxmkl.tables import Seen
from jaxmkl.wrappers import Wrapper

EVENTS = {"ask"}, {"answer", "label"}, {"skip"}, {"undo"}
MOST = 4096  # rows of a pool that are judged for a question
UNDONE = 100  # answers that can be undone


class Standing(NamedTuple):
    """The standing of a session between two events."""

    state: PyTree  #: of the learner
    seen: Seen  #: all labels so far, those of the table included
    row: int = 0  #: the first row not yet passed, if rows are asked for in their order
    open: tuple[int, ...] = ()  #: items that wait for their answers, the oldest first
    #: labels by item, in the order of the answers; None: skipped
    closed: Mapping[int, Label | None] = {}

    @property
    def labels(self) -> dict[int, Label]:
        """The answers by item, without the skipped ones."""
        return {item: label for item, label in self.closed.items() if label is not None}


class Labelling:
    """A session of questions and answers, from which a learner learns.

    An item that does not wait for an answer, and an answer that is not a label, raise
    :class:`~jaxmkl.cli.labelling.rows.Refused`.

    Args:
      rows: the table; its rows with a label are not asked for.
      learner, state: a :class:`jaxmkl.wrappers.LabelBudget`, and its state before the first
        question.
      journal: the session continues after its events.
      is_pool: whether to ask for the row whose label is worth most; otherwise rows come in their
        order, and the learner decides whether it wants each label.
      ranking: the items of a pool to ask for before all others.

    Raises:
      ValueError: if the events of the journal cannot have happened.
    """

    def __init__(
        self,
        rows: Rows,
        learner: Wrapper,
        state: PyTree,
        journal: Journal,
        *,
        is_pool: bool = False,
        ranking: Sequence[int] = (),
    ) -> None:
        self.rows, self.learner, self.journal = rows, learner, journal
        self._is_pool, self._ranking = is_pool, ranking
        # the last one is now, those before it are from before each answer
        self._history: tuple[Standing, ...] = (Standing(state, rows.seen),)
        for number, event in enumerate(journal.events, 2):
            try:
                self._history = self._after(event)
            except Refused as reason:
                text = f"cannot have happened: {reason}; {ADVICE}"
                raise journal.refusal(number, text) from None

    @property
    def standing(self) -> Standing:
        """The present standing."""
        return self._history[-1]

    @property
    def remaining(self) -> int:
        """The number of questions that may still be asked."""
        return max(0, int(self.standing.state.remaining))

    def said(self, item: int) -> dict[str, object]:
        """Return the present prediction of the learner for an item.

        It has the "prediction", a class or a number, and its certainty: "probabilities" by class,
        or for numbers the "radius" within which nine of ten labels lie, None before the first.
        """
        target, now, x = self.rows.target, self.standing, self.rows.X[self.rows.place(item)]
        found = self.learner.predict(now.state, x)
        value = np.asarray(found.value, np.float64)
        prediction = target.named(value[None], now.seen.start)[0].item()
        if not target.classes:
            assert found.interval is not None  # the learner has intervals
            radius = float(found.interval[1] - found.interval[0]) / 2.0
            return {"prediction": prediction, "radius": radius if np.isfinite(radius) else None}
        odds = np.stack([np.zeros(()), value]) if value.ndim == 0 else value
        shares = np.exp(odds - np.max(odds))
        by_class = dict(zip(target.classes, (shares / np.sum(shares)).tolist(), strict=True))
        return {"prediction": prediction, "probabilities": by_class}

    def ask(self) -> int | None:
        """Choose the next item and ask for it; None if none is left or wanted."""
        if not self.remaining:
            return None
        item = self._most_wanted() if self._is_pool else self._next_wanted()
        is_known = self._is_pool or self.journal.events[-1:] == [{"ask": None}]
        if item is not None or not is_known:
            self._happen({"ask": item})
        return item

    def answer(self, item: object, answer: object) -> Label:
        """Learn an answer and return the label that it names."""
        label = self.rows.label(answer)
        self._happen({"answer": item, "label": label})
        return label

    def skip(self, item: object) -> None:
        """Give up on an answer; its question still counts."""
        self._happen({"skip": item})

    def undo(self) -> None:
        """Undo the last answer or skip, and all questions after it; its item waits again."""
        self._happen({"undo": self._last()})

    # events

    def _happen(self, event: dict[str, object]) -> None:
        after = self._after(event)
        self.journal.append(event)
        self._history = after

    def _after(self, event: Mapping[str, Any]) -> tuple[Standing, ...]:
        """The history after this event; nothing is changed."""
        *before, now = self._history
        if event.keys() not in EVENTS:
            raise Refused(f"{', '.join(map(repr, event))} is not a question, answer, skip or undo")
        if "ask" in event:
            return (*before, self._asked(now, event["ask"]))
        if "skip" in event:
            now = self._closed(now, event["skip"], None)
        elif "answer" in event:
            now = self._closed(now, event["answer"], self.rows.label(event["label"]))
        elif event["undo"] == self._last():
            return tuple(before)
        else:
            raise Refused(f"{event['undo']!r} is not the last one answered or skipped")
        return (*self._history[-UNDONE:], now)

    def _asked(self, now: Standing, item: Any) -> Standing:
        end = len(self.rows.X)
        row = end if item is None else self.rows.place(item)
        if row < now.row or item in now.open or item in now.closed:
            raise Refused(f"{self.rows.chunk.place} {item} was asked for before")
        if row < end and self.rows.has_label[row]:
            raise Refused(f"{self.rows.chunk.place} {item} has a label in the table")
        if not self._is_pool:
            now = self._passed(now, row)
        if item is None:
            return now
        state = _awaiting(self.learner, now.state)
        next_row = now.row if self._is_pool else row + 1
        return now._replace(state=state, open=(*now.open, item), row=next_row)

    def _passed(self, now: Standing, end: int) -> Standing:
        """Have the learner skip the rows before ``end`` whose labels were not asked for."""
        state = now.state
        for row in range(now.row, end):
            if not self.rows.has_label[row]:  # a label of the table was learned before
                state = self.learner.skip(state, self.rows.X[row])
        return now._replace(state=state, row=end)

    def _closed(self, now: Standing, item: Any, label: Label | None) -> Standing:
        row, target = self.rows.place(item), self.rows.target
        if item in now.closed:
            known = now.closed[item]
            raise Refused("skipped before" if known is None else f"answered before, as {known!r}")
        if item not in now.open:
            raise Refused("was not asked for")
        waiting = tuple(other for other in now.open if other != item)
        now = now._replace(open=waiting, closed={**now.closed, item: label})
        if label is None:
            return now
        number = self.rows.number(label)
        seen = now.seen.after(np.array([target.places(number)]), len(target.classes))
        y = np.float32(number - seen.start)
        state = self.learner.update(now.state, self.rows.X[row], y)
        return now._replace(state=state, seen=seen)

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
            said = self.learner.predict(now.state, rows.X[now.row])
            if not rows.has_label[now.row] and bool(said.query):
                return rows.items[now.row]
            self._history = (*self._history[:-1], self._passed(now, now.row + 1))
        return None

    def _most_wanted(self) -> int | None:
        """The next item of the ranking; after those, the best item of a random sample."""
        now, X, left = self.standing, self.rows.X, ~self.rows.has_label
        left[[self.rows.places[item] for item in (*now.open, *now.closed)]] = False
        for item in self._ranking:
            if left[self.rows.places[item]]:
                return item
        rows = np.flatnonzero(left)
        if len(rows) > MOST:
            draws = np.random.default_rng(len(left) - len(rows))
            rows = np.sort(draws.choice(rows, MOST, replace=False))
        elif not len(rows):
            return None
        state = abilities.out_of_order(self.learner, now.state)
        scores = np.asarray(self.learner.predict_many(state, X[rows]).score)
        return self.rows.items[rows[np.argmax(np.nan_to_num(scores, nan=np.inf))]]


@Kept
def _awaiting(learner: Learner, state: PyTree) -> PyTree:
    return abilities.awaiting(learner, state, jnp.asarray(True))
