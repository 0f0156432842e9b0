"""Events are applied in order: at once, or where they take long, in a thread while answers go on.

A renewal of learned kernels takes about a second. The labels after it are in the journal by then,
and acknowledged; the rows that come meanwhile are answered from the latest finished state.

Whether a row is asked for changes the session too: it waits for its label, and a query that keeps
a rate counts it. So the journal holds rows as well as labels, in the order in which the one
writing thread accepted them, and nothing else than these events, in this order, touches the
session. Its state is a function of the journal alone, bit for bit, whatever the speed of the
machine, the number of clients, and the processes that were killed.

An answer that cannot wait for its turn is a prediction by another session, made from the pipeline
of the latest finished state and thrown away. It may differ from the prediction in its turn, and
so may ``wanted``; what is learned does not depend on it. That a label will be accepted in its turn
is checked before it is acknowledged, by what no event changes: that its row waits, as the server
counts, or can be read, and that it is a label, as the columns say.
"""

import collections
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import jax

from jaxmkl._threads import leave_cores
from jaxmkl.cli.sessions.journal import Event
from jaxmkl.tables import Pipeline, Session

WAITING = 1000  # events to be applied, beyond which clients wait for their answers
SLOW = 0.005  # seconds for which answers wait for what comes before them
RECENT = 0.1  # the weight of the latest time of a label among all of them
REFUSALS = ValueError, TypeError, OverflowError  # by the session, which is as it was before


def apply(session: Session, event: Event, answers: Sequence[Any] | None = None) -> Any:
    """Call the session as an event says, and return its result, or its refusal.

    The events are ``{"ids", "rows"}``, ``{"labels"}`` with pairs of an id and a label,
    ``{"row", "label"}``, ``{"forget"}`` and ``{"waiting"}``, how many rows may. The first two have
    a result for each row or pair. Rows that were answered by ``answers`` only wait, if they can.
    """
    if "ids" in event and answers and not any(isinstance(one, Exception) for one in answers):
        with contextlib.suppress(*REFUSALS):
            session.expect(event["rows"], event["ids"])
            return answers
    try:
        match event:
            case {"ids": ids, "rows": rows}:
                return _each(session.ask, rows, ids)
            case {"labels": pairs}:
                return _each(session.learn_many, pairs)
            case {"row": row, "label": label}:
                return session.learn_row(row, label)
            case {"forget": own}:
                return session.forget(own)
            case {"waiting": most}:
                session.most_waiting = most
                return None
    except REFUSALS as error:
        return error
    raise ValueError(f"{', '.join(map(repr, event))} is not an event")


def _each(call: Callable, *given: Sequence) -> list[Any]:
    """The result for each of several, or its refusal, which keeps no other one from its own."""
    try:
        return call(*given)
    except REFUSALS as error:
        if len(given[0]) == 1:
            return [error]
    return [_each(call, *([part] for part in one))[0] for one in zip(*given, strict=True)]


def prepare(pipeline: Pipeline) -> Session:
    """Compile the programs that answer rows, and return a session that may be thrown away."""
    session, row = Session(pipeline), dict.fromkeys(pipeline.columns.names)  # of missing cells
    session.ask(row, ["asked"])
    session.expect(row, ["expected"])
    return session


class Learning:
    """A session that its own thread works on or, while that rests, whoever calls.

    Args:
      session: a session, which nothing else may touch from now on.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.finished = session.pipeline  #: the pipeline of the latest finished state
        self.begun: float | None = None  #: the time at which the present event began
        self._thread = ThreadPoolExecutor(1, "learning", leave_cores)
        self._waits = collections.deque[Event]()  # for the thread
        self._failure: BaseException | None = None
        self._last: Future = Future()  # the latest work of the thread
        self._last.set_result(None)
        self._each = 1e-6  # seconds of a label, lately

    def put(self, event: Event, began: float) -> Any:
        """Apply an event after all others, and return its result; labels by an id have none.

        Rows whose turn does not come soon after the time ``began`` are answered without effect.

        Raises:
          BaseException: an event before could not be applied, or this one, if it was quick.
        """
        if "ids" not in event and "row" not in event:
            self._put(event)
            return None
        left = max(0.0, began + SLOW - time.monotonic())
        if not self._rests(left):
            answers = self._viewed(event)
            self._put(event, answers)
            return answers
        try:
            return self._put(event).result(left)
        except TimeoutError:
            return self._viewed(event)

    def _put(self, event: Event, answers: Any = None) -> Future:
        if self._failure is not None:
            raise self._failure
        if self._rests(0.0) and self._labels(event) * self._each <= SLOW:
            applied = Future[Any]()
            applied.set_result(self._apply(event, answers))
            return applied
        self._waits.append(event)
        self._last = self._thread.submit(self._apply, event, answers)
        self._last.add_done_callback(lambda _: self._waits.popleft())
        return self._last

    @property
    def is_full(self) -> bool:
        """Whether more events should wait for some of those that were put to be applied."""
        return len(self._waits) >= WAITING

    def _rests(self, seconds: float) -> bool:
        """Whether all that was put is applied and saved, or will be within so many seconds."""
        return self._last.done() or not wait([self._last], seconds).not_done

    def _labels(self, event: Event) -> float:
        """The labels of an event, which take time, unlike rows; infinite if they take long.

        That is where a renewal is due, or more support vectors need programs of their own.
        """
        rounds = len(event.get("rows") or event.get("labels") or (0,))
        if rounds >= self.session.until_renewal:
            return math.inf
        if "rows" in event:
            return 0
        return rounds if self.session.has_room(rounds) else math.inf

    def _viewed(self, event: Event) -> Any:
        """The result of rows whose turn has not come, by a session that is thrown away."""
        view = Session(self.finished)
        if "ids" in event:
            return apply(view, event)
        (asked,) = apply(view, {"ids": [0], "rows": [event["row"]]})
        return asked if isinstance(asked, Exception) else None

    def save(self, path: Path) -> Future:
        """Save the session as it is after all events so far."""
        self._last = self._thread.submit(self._saved, path)
        return self._last

    def close(self) -> None:
        """Wait until all events are applied, and end the thread."""
        self._thread.shutdown()

    def _saved(self, path: Path) -> None:
        if self._failure is not None:
            raise self._failure
        self.begun = time.monotonic()
        try:
            self.session.save(path)
        finally:
            self.begun = None

    def _apply(self, event: Event, answers: Any) -> Any:
        self.begun = began = time.monotonic()
        labels = self._labels(event)
        try:
            if self._failure is not None:
                raise self._failure
            result = apply(self.session, event, answers)
            pipeline = self.session.pipeline
            if labels == math.inf:
                prepare(pipeline)
            if labels:
                jax.block_until_ready(pipeline.state)  # a renewal may still run
            self.finished = pipeline
            if 0 < labels < math.inf:
                self._each += RECENT * ((time.monotonic() - began) / labels - self._each)
        except BaseException as error:
            self._failure = error  # nothing may be learned after an event that was not
            raise
        finally:
            self.begun = None
        return result
