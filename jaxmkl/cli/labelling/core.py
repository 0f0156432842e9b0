"""Which row is asked for next, what is learned of the answers, and how the last is undone.

All that happens is one of four events, which the journal keeps before they count:

    {"ask": item}                       a question; null once the table is through
    {"answer": item, "label": label}    its answer, maybe after other questions
    {"skip": item}                      no answer will come
    {"undo": item}                      back to what was before the last answer, or skip, of item

Where things stand is a value, which the journal's events make again from the beginning: so a
session goes on after any end.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmkl.cli.labelling.journal import ADVICE, Journal
from jaxmkl.cli.labelling.rows import Refused, Rows

AT_ONCE = 1024  # rows of a pool that are judged together
MOST = 4096  # rows of a pool that are judged for a question
UNDONE = 100  # answers that can be undone


class Standing(NamedTuple):
    """Where things stand between two events."""

    state: Any  #: of the learner
    row: int = 0  #: of a table asked in its order: the first row that was not looked at
    open: tuple[int, ...] = ()  #: rows asked for that were not answered
    labels: Mapping[int, Any] = {}
    skipped: frozenset[int] = frozenset()  #: rows asked for that will not be answered

    def closed(self, row: int) -> "Standing":
        """Without this question."""
        return self._replace(open=tuple(other for other in self.open if other != row))


class Said(NamedTuple):
    """What the learner says of a row."""

    prediction: Any  #: the class, or the number
    #: probabilities by class; None for numbers, or a learner that has none
    probabilities: Mapping[str, float] | None
    radius: float | None  #: of numbers: nine of ten lie that near; None before the first label


class Labelling:
    """A session: questions, answers, and what is learned of them.

    Args:
      rows: the table; rows with a label are not asked for.
      learner, state: a :class:`jaxmkl.wrappers.LabelBudget` as before the first question.
      journal: what happened so far is made again from it.
      is_pool: whether the row asked for is the one whose label is worth most; else rows come in
        their order, and the learner says whether it wants the label.
      ranking: rows of a pool to be asked for before all others.

    Raises:
      ValueError: the journal's events cannot have happened.
    """

    def __init__(
        self,
        rows: Rows,
        learner: Any,
        state: Any,
        journal: Journal,
        *,
        is_pool: bool = False,
        ranking: Sequence[int] = (),
    ) -> None:
        self.rows, self.learner, self.journal = rows, learner, journal
        self._is_pool, self._ranking = is_pool, ranking
        self.standing = Standing(state)
        self._before: deque[tuple[int, Standing]] = deque(maxlen=UNDONE)
        for number, event in enumerate(journal.events, 2):
            try:
                self._apply(event)
            except Refused as reason:
                text = f"{journal.path}, line {number}: cannot have happened: {reason}"
                raise ValueError(f"{text}; {ADVICE}, or give another --out") from None

    # what a front end asks

    @property
    def open(self) -> list[int]:
        """Items asked for that were not answered, the oldest first."""
        return [self.rows.items[row] for row in self.standing.open]

    @property
    def remaining(self) -> int:
        """Questions that may still be asked."""
        return max(0, int(self.standing.state.remaining))

    def said(self, item: int) -> Said:
        """What the learner says of an item now."""
        row, target = self.rows.places[item], self.rows.target
        state = self.standing.state
        value = np.asarray(_predicted(self.learner, state, self.rows.X[row]).value, np.float64)
        start = self.rows.start(self.standing.labels)
        prediction = target.named(value[None], start)[0].item()
        if not target.classes:
            radius = float(getattr(state.inner, "radius", np.nan))
            return Said(prediction, None, radius if np.isfinite(radius) else None)
        odds = np.stack([np.zeros(()), value]) if value.ndim == 0 else value
        shares = np.exp(odds - odds.max())
        shares = (shares / shares.sum()).tolist()
        return Said(prediction, dict(zip(target.classes, shares, strict=True)), None)

    # what a front end does

    def ask(self) -> int | None:
        """Choose the next item and ask for it; None where none is left, or wanted."""
        if not self.remaining:
            return None
        row = self._most_wanted() if self._is_pool else self._next_wanted()
        if row is not None:
            self._happen({"ask": self.rows.items[row]})
            return self.rows.items[row]
        if not self._is_pool and self.journal.events[-1:] != [{"ask": None}]:
            self._happen({"ask": None})
        return None

    def answer(self, item: Any, answer: Any) -> Any:
        """Learn an answer and return the label that it names.

        Raises:
          Refused: the item is none that waits for an answer, or the answer is no label.
        """
        self._asked(item)
        label = self.rows.label(answer)
        self._happen({"answer": item, "label": label})
        return label

    def skip(self, item: Any) -> None:
        """Do without an answer; the question was asked, and counts.

        Raises:
          Refused: the item is none that waits for an answer.
        """
        self._asked(item)
        self._happen({"skip": item})

    def undo(self) -> int:
        """Take back the last answer, or skip, and return its item, which waits again.

        Questions after it are taken back, too.

        Raises:
          Refused: there is none, or it is too long ago.
        """
        item = self._last()
        self._happen({"undo": item})
        return item

    def _last(self) -> int:
        """The item that was answered, or skipped, last."""
        if not self._before:
            raise Refused(f"nothing to undo, or no more than the last {UNDONE} answers")
        return self.rows.items[self._before[-1][0]]

    # events

    def _happen(self, event: dict[str, Any]) -> None:
        self.journal.append(event)
        self._apply(event)

    def _apply(self, event: Mapping[str, Any]) -> None:
        now = self.standing
        if event.keys() == {"ask"}:
            self._asks(event["ask"])
        elif event.keys() == {"undo"}:
            if self._last() != event["undo"]:
                raise Refused(f"{event['undo']!r} is not the last one answered, or skipped")
            self.standing = self._before.pop()[1]
        elif event.keys() == {"skip"}:
            row = self._asked(event["skip"])
            self._before.append((row, now))
            self.standing = now.closed(row)._replace(skipped=now.skipped | {row})
        elif event.keys() == {"answer", "label"}:
            row, label = self._asked(event["answer"]), self.rows.label(event["label"])
            self._before.append((row, now))
            labels = {**now.labels, row: label}
            y = np.float32(self.rows.code(label) - self.rows.start(labels))
            state = _updated(self.learner, now.state, self.rows.X[row], y)
            self.standing = now.closed(row)._replace(state=state, labels=labels)
        else:
            raise Refused(f"{', '.join(map(repr, event))} is no question, answer, skip or undo")

    def _asks(self, item: Any) -> None:
        now, end = self.standing, len(self.rows.X)
        row = end if item is None else self._row(item)
        if row < (0 if self._is_pool else now.row) or row in {
            *now.open,
            *now.labels,
            *now.skipped,
        }:
            raise Refused(f"{self.rows.chunk.place} {item} was asked for before")
        if row < end and self.rows.has_label[row]:
            raise Refused(f"{self.rows.chunk.place} {item} has a label in the table")
        self._pass_over(row)
        if row < end:
            self._ask(row)

    def _ask(self, row: int) -> None:
        now = self.standing
        state = _awaited(self.learner, now.state)
        after = now.row if self._is_pool else row + 1
        self.standing = now._replace(state=state, open=(*now.open, row), row=after)

    def _pass_over(self, end: int) -> None:
        """Have the learner know of the rows before ``end`` for which it was not asked."""
        while not self._is_pool and self.standing.row < end:
            self._pass_one()

    def _pass_one(self) -> None:
        now = self.standing
        state = now.state
        if not self.rows.has_label[now.row]:  # what has one was learned before
            state = _skipped(self.learner, state, self.rows.X[now.row])
        self.standing = now._replace(state=state, row=now.row + 1)

    def _row(self, item: Any) -> int:
        known = isinstance(item, int) and not isinstance(item, bool)
        row = self.rows.places.get(item) if known else None
        if row is None:
            raise Refused(f"the table has no {self.rows.chunk.place} {item!r}")
        return row

    def _asked(self, item: Any) -> int:
        """The row of an item that waits for its answer."""
        row, now = self._row(item), self.standing
        if row in now.labels:
            raise Refused(f"answered before, as {now.labels[row]!r}")
        if row in now.skipped:
            raise Refused("skipped before")
        if row not in now.open:
            raise Refused("was not asked for")
        return row

    # choices

    def _next_wanted(self) -> int | None:
        """The next row, in the table's order, whose label the learner wants."""
        while self.standing.row < len(self.rows.X):
            row, now = self.standing.row, self.standing
            wanted = _predicted(self.learner, now.state, self.rows.X[row]).query
            if not self.rows.has_label[row] and bool(wanted):
                return row
            self._pass_one()
        return None

    def _most_wanted(self) -> int | None:
        """The row of the ranking that comes next; after these, of many drawn, that worth most."""
        now = self.standing
        left = ~self.rows.has_label
        left[[*now.open, *now.labels, *now.skipped]] = False
        for row in self._ranking:
            if left[row]:
                return row
        if not left.any():
            return None
        rows = np.flatnonzero(left)
        if len(rows) > MOST:
            draws = np.random.default_rng(len(left) - len(rows))
            rows = np.sort(draws.choice(rows, MOST, replace=False))
        return int(rows[np.argmax(self._worth(rows))])

    def _worth(self, rows: np.ndarray) -> np.ndarray:
        """How much the labels of some rows are worth now, in blocks of one size."""
        size = min(AT_ONCE, len(self.rows.X))
        X = np.pad(self.rows.X[rows], ((0, -len(rows) % size), (0, 0)))
        blocks = X.reshape(-1, size, X.shape[1])
        scores = [_scores(self.learner, self.standing.state, block) for block in blocks]
        return np.nan_to_num(np.concatenate(scores)[: len(rows)], nan=np.inf)


@jax.jit
def _predicted(learner: Any, state: Any, x: Any) -> Any:
    return learner.predict(state, x)


@jax.jit
def _awaited(learner: Any, state: Any) -> Any:
    return learner.await_label(state, jax.numpy.asarray(True))


@jax.jit
def _skipped(learner: Any, state: Any, x: Any) -> Any:
    return learner.skip(state, x)


@jax.jit
def _updated(learner: Any, state: Any, x: Any, y: Any) -> Any:
    return learner.update(state, x, y)


@jax.jit
def _scores(learner: Any, state: Any, X: Any) -> Any:
    return learner.predict_many(state, X).score
