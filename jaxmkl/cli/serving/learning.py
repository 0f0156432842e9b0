"""Events are applied in order: at once, or where they take long, in a thread while answers go on.

A renewal of learned kernels takes about a second. The labels after it are in the journal by then,
and acknowledged; the rows that come meanwhile are answered from the latest finished state.

**The order.** Whether a row is asked for changes the session too: it waits for its label, and a
query that keeps a rate counts it. So the journal holds rows as well as labels, in the order in
which the one writing thread accepted them, and each line of it is one call of the session, or one
for each of its labels. These calls are made in that order and with these arguments, by this thread
or, while it rests, by the writing one, and nothing else ever touches the session. Hence its state
is a function of the journal alone: neither the speed of the machine, nor the number of clients,
nor a process that was killed and replayed its journal can make a bit of difference.

An answer that cannot wait for its turn is a prediction by another session, made from the pipeline
of the latest finished state and thrown away. It may differ from the prediction that the session
would make in its turn, and so may ``wanted``; what is learned does not depend on it. Where a
learner wants every label, the session does not predict such a row again, and only lets it wait.
That a label will be accepted in its turn is checked before it is acknowledged, by what no event
changes: that its row waits, as the server counts, or can be read, and that it is a label, as the
columns say.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import jax

Event = dict[str, Any]
WAITING = 1000  # groups of events that may wait to be applied
SLOW = 0.005  # seconds for which answers wait for what comes before them
RECENT = 0.1  # the weight of the latest time of a label among all of them
REFUSALS = ValueError, TypeError, OverflowError  # by the session, which is as it was before


def apply(session: Any, event: Event) -> Any:
    """Call the session as an event says, and return its result, or its refusal.

    The events are ``{"ids", "rows"}``, ``{"labels"}`` with pairs of an id and a label,
    ``{"row", "label"}``, ``{"forget"}`` and ``{"waiting"}``, how many rows may. The first two have
    a result for each row or pair.
    """
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


def _rounds(event: Event) -> int:
    """The rounds of an event, at most."""
    return max(1, len(event.get("rows") or event.get("labels") or ()))


def _labels(events: Sequence[Event]) -> int:
    """The labels of events, which take time; rows take none that is worth a thread."""
    return sum(_rounds(event) for event in events if "rows" not in event)


def _expected(session: Any, event: Event, answers: Sequence[Any]) -> bool:
    """Let the rows of an event wait that were answered; False if the session has to say more."""
    if any(isinstance(one, Exception) for one in answers):
        return False
    try:
        session.expect(event["rows"], event["ids"])
    except REFUSALS:
        return False
    return True


class Learning:
    """A session that its own thread works on or, while that rests, whoever calls.

    Args:
      session: a session, which nothing else may touch from now on.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._thread = ThreadPoolExecutor(1, "learning")
        self._room = threading.BoundedSemaphore(WAITING)
        self.finished = session.pipeline  #: the pipeline of the latest finished state
        self.label = session.label  #: reads a label, which no event changes
        self.check = session.check  #: refuses a row that cannot be read, likewise
        self._failure: BaseException | None = None
        self._last: Future = Future()  # the latest work of the thread
        self._last.set_result([])
        self._each = 0.0  # seconds of a label, lately
        self.begun: float | None = None  #: the time at which the present event began

    def put(self, events: Sequence[Event], given: Sequence[Any] = ()) -> "Future[list[Any]]":
        """Apply events after all others; the result holds that of each.

        Args:
          events: the events.
          given: the answers to the rows of each event that somebody else gave; none for none.

        Raises:
          BaseException: an event before could not be applied, or one of these, if it was quick.
        """
        if self._failure is not None:
            raise self._failure
        if self.rests(0.0) and self._is_quick(events):
            applied = Future[list[Any]]()
            applied.set_result(self._apply(events, given))
            return applied
        self._room.acquire()
        self._last = self._thread.submit(self._apply, events, given)
        self._last.add_done_callback(lambda _: self._room.release())
        return self._last

    def rests(self, seconds: float) -> bool:
        """Whether all that was put is applied and saved, or will be within so many seconds."""
        return self._last.done() or not wait([self._last], seconds).not_done

    def _is_quick(self, events: Sequence[Event]) -> bool:
        return _labels(events) * self._each <= SLOW and not self._renews(events)

    def _renews(self, events: Sequence[Event]) -> bool:
        return sum(map(_rounds, events)) >= self._session.until_renewal

    @property
    def dropped(self) -> int:
        """Rows that were forgotten because too many had no label."""
        return self._session.dropped

    def save(self, path: Any) -> Future:
        """Save the session as it is after all events so far."""
        self._last = self._thread.submit(self._saved, path)
        return self._last

    def close(self) -> None:
        """Wait until all events are applied, and end the thread."""
        self._thread.shutdown()

    def _saved(self, path: Any) -> None:
        self.begun = time.monotonic()
        try:
            self._session.save(path)
        finally:
            self.begun = None

    def _apply(self, events: Sequence[Event], given: Sequence[Any] = ()) -> list[Any]:
        results, began = [], time.monotonic()
        labels = 0 if self._renews(events) else _labels(events)
        try:
            if self._failure is not None:
                raise self._failure
            for event, answers in itertools.zip_longest(events, given):
                self.begun = time.monotonic()
                result = answers
                if not (answers and _expected(self._session, event, answers)):
                    result = apply(self._session, event)
                results.append(result)
            pipeline = self._session.pipeline
            jax.block_until_ready(pipeline.state)  # a renewal may still run
            self.finished = pipeline
            if labels:
                self._each += RECENT * ((time.monotonic() - began) / labels - self._each)
        except BaseException as error:
            self._failure = error  # nothing may be learned after an event that was not
            raise
        finally:
            self.begun = None
        return results
