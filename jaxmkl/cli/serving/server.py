"""The requests of all clients are answered by one thread, one group after the other.

A group is whatever came while the one before was answered; clients who only ask come first in it,
as they wait for a prediction. Its events are written to the journal together, they are applied,
or begin to be, and its answers are given after one ``fsync`` for all. So nothing that was answered
is lost, however the process ends. If the journal cannot be written, the group is refused, and none
of it is learned; if ``fsync`` fails, nothing is certain about the file any more, and the server
ends.
"""

import collections
import contextlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, TimeoutError
from typing import Any, NamedTuple

from jaxmkl.cli import show
from jaxmkl.cli.serving.events import Events
from jaxmkl.cli.serving.learning import REFUSALS, SLOW, Event, Learning, apply
from jaxmkl.cli.serving.metrics import Metrics, renewed
from jaxmkl.cli.serving.requests import Request, read
from jaxmkl.evaluate import plain
from jaxmkl.tables import Refused, Session

MERGED = 64  # rows, or labels, of several lines that become one event, at most
Answer = dict[str, Any]


class Job(NamedTuple):
    """Lines of a client, and when they came."""

    lines: Sequence[bytes]
    came: float


class Server:
    """A session that many clients share, for the calls of one thread.

    Args:
      events: the session and its journal, which is replayed.
      metrics: the counts and errors.
      most: the rows that may have no label; beyond, the oldest one is forgotten. None: as before.
    """

    def __init__(self, events: Events, metrics: Metrics, most: int | None = None) -> None:
        events.replay(metrics.see)
        self._events, self._metrics = events, metrics
        self._learning = Learning(events.session)
        self._saving: Future | None = None
        self.failure: BaseException | None = None  #: the error that ended it
        bounds = [] if most in (None, events.most) else [{"waiting": most}]
        events.append(*bounds)
        events.sync()
        self._applied: Future = self._learning.put([])
        self._results(bounds)

    def answer(self, *jobs: Job) -> list[list[Any]]:
        """Answer the lines of several clients, those of each in their order.

        Raises:
          RuntimeError: the server has ended.
        """
        if self.failure is None:
            try:
                answers = self._answered(jobs)
                self._rotate()
                return answers
            except BaseException as error:
                self.failure = error
        raise RuntimeError("the server has ended") from self.failure

    def close(self) -> None:
        """Learn all that was answered, make a snapshot and end.

        Raises:
          OSError: the snapshot cannot be written; the journal holds everything.
        """
        try:
            if self.failure is not None:
                raise self.failure
            self._applied.result()
            self._rotate(wait=True)
            self._learning.save(self._events.snapshot()).result()
            self._events.rotate()
        finally:
            self._learning.close()
            self._events.close()

    def _answered(self, jobs: Sequence[Job]) -> list[list[Any]]:
        each = [[read(line) for line in job.lines] for job in jobs]
        learns = [any(request.kind != "ask" for request in one) for one in each]
        order = sorted(range(len(jobs)), key=learns.__getitem__)
        requests = [request for at in order for request in each[at]]
        said = list[Any]()
        while len(said) < len(requests):
            said += self._of_group(requests[len(said) :])
        rest, answers = iter(said), [list[Any]() for _ in jobs]
        for at in order:
            answers[at] = [next(rest) for _ in each[at]]
            took = time.monotonic() - jobs[at].came
            self._metrics.seconds.extend([took] * len(each[at]))
        return answers

    def _of_group(self, requests: Sequence[Request]) -> list[Any]:
        """The answers to the first requests, to all that do not depend on others' results."""
        group, taken = _Group(self._events, self._learning), list[_Taken]()
        with contextlib.suppress(_Unsettled):
            for request in requests:
                if taken and "metrics" in (request.kind, taken[-1].request.kind):
                    break  # figures are of all lines before them, and of no later one
                taken.append(group.take(request))
        try:
            self._events.append(*group.events)
        except OSError as error:
            text = f"the journal cannot be written, so nothing was learned: {error.strerror}"
            refusal = OSError(text)
            results = [[refusal] * len(event.get("ids", ())) or refusal for event in group.events]
        else:
            results = self._results(group.events)
            if group.events:
                self._events.sync()
        return [self._said(one, results) for one in taken]

    def _results(self, events: Sequence[Event]) -> list[Any]:
        """The results of events that are in the journal; labels after the last row have none."""
        of_rows = [at for at, event in enumerate(events, 1) if "rows" in event or "row" in event]
        number = max(of_rows, default=0)
        results = self._awaited(events[:number]) if number else []
        if later := events[number:]:
            self._applied = self._learning.put(later)
            results = [*results, *[None] * len(later)]
        for event, result in zip(events, results, strict=True):
            self._metrics.see(event, result, self._events.settle(event, result))
        return results

    def _awaited(self, events: Sequence[Event]) -> list[Any]:
        """The results of events in their turn, or if it does not come soon, without effect."""
        of_rows = all("rows" in event for event in events)
        answers = [] if not of_rows or self._learning.rests(SLOW) else self._viewed(events)
        self._applied = self._learning.put(events, answers)
        if answers:
            return answers
        try:
            return self._applied.result(SLOW)
        except TimeoutError:
            return self._viewed(events)

    def _viewed(self, events: Sequence[Event]) -> list[Any]:
        """The answers to events whose turn has not come, by a session that is thrown away."""
        return [_viewed(Session(self._learning.finished), event) for event in events]

    def _said(self, one: "_Taken", results: Sequence[Any]) -> Any:
        """The answer to a request."""
        request, event, first = one
        of_ids = [{"id": own} for own in request.ids]
        if request.refusal:
            own = {} if request.is_list or not of_ids else of_ids[0]
            return self._refused(request.kind, request.refusal) | own
        if request.kind == "metrics":
            return self.figures()
        if request.kind == "ask":
            found = results[event][first : first + len(request.rows)]
            said = [
                self._refused("row", asked) | own if isinstance(asked, Exception)
                else _answer(asked) for own, asked in zip(of_ids, found, strict=True)
            ]  # fmt: skip
            return said if request.is_list else said[0]
        own, result = [*of_ids, {}][0], results[event]
        result = result[first] if isinstance(result, list) else result
        if isinstance(result, Exception):
            return self._refused(request.kind, result) | own
        return own | ({"forgotten": True} if request.kind == "forget" else {"learned": True})

    def _refused(self, reason: str, error: Exception | str) -> Answer:
        self._metrics.refused["journal" if isinstance(error, OSError) else reason] += 1
        return {"error": str(error)}

    # figures and snapshots

    def figures(self) -> dict[str, Any]:
        """All figures by their names."""
        begun = self._learning.begun
        more = {
            "waiting": len(self._events.unlabelled),
            "dropped": self._learning.dropped,
            "behind": 0.0 if begun is None else time.monotonic() - begun,
        }
        return self._metrics.figures(**more, **renewed(self._learning.finished))

    def _rotate(self, wait: bool = False) -> None:
        """Begin a snapshot if it is time for one, or end the one that is on the disk by now."""
        if self._saving is None:
            if self._events.is_long and not wait:
                self._saving = self._learning.save(self._events.snapshot())
            return
        if not (wait or self._saving.done()):
            return
        saving, self._saving = self._saving, None
        try:
            saving.result()
            self._events.rotate()
        except OSError as error:
            self._events.give_up()
            show.aside(f"jaxmkl: a snapshot cannot be written: {error}; the journal goes on")


def spelled(answers: Sequence[Any]) -> bytes:
    """A line for each answer."""
    lines = (json.dumps(plain(answer), allow_nan=False) for answer in answers)
    return "".join(f"{line}\n" for line in lines).encode()


def _answer(asked: Any) -> Answer:
    return {name: value for name, value in asked._asdict().items() if value is not None}


def _viewed(view: Any, event: Event) -> Any:
    """The answer to an event whose turn has not come, by a session that is thrown away."""
    if "ids" in event:
        return apply(view, event)
    if "row" in event:
        (asked,) = apply(view, {"ids": [0], "rows": [event["row"]]})
        return asked if isinstance(asked, Exception) else None
    return None


class _Taken(NamedTuple):
    """A request, its event among those of the group, and the place of its rows there."""

    request: Request
    event: int
    first: int


class _Unsettled(Exception):
    """A request depends on which rows the events before it make the session forget."""


class _Group:
    """The events of some requests; nothing has happened yet."""

    def __init__(self, events: Events, learning: Learning) -> None:
        self.events = list[Event]()
        self._before, self._learning, self._next = events.unlabelled, learning, events.next_id
        # the rows of this group without labels, which may be unreadable; None: no longer without
        self._changed = dict[Any, dict[str, Any] | None]()
        self._room = events.most - len(self._before)  # for rows, before any is forgotten

    def take(self, request: Request) -> _Taken:
        """Add the event of a request, or raise :class:`_Unsettled`."""
        try:
            return self._added(request)
        except ValueError as error:
            return _Taken(request._replace(refusal=str(error)), 0, 0)

    def _added(self, request: Request) -> _Taken:
        match request.kind:
            case "ask":
                return self._asked(request)
            case "metrics" | "line":
                return _Taken(request, 0, 0)
            case "learn_row":
                event = {"row": request.rows[0], "label": self._learning.label(request.label)}
            case kind:
                (own,) = request.ids
                if not self._waits(own):
                    raise Refused(f"no row with the id {own!r} waits for a label")
                label = self._learning.label(request.label) if kind == "learn" else None
                self._changed[own] = None
                self._room += 1
                if kind == "learn":
                    return _Taken(request, *self._merged(labels=[(own, label)]))
                event = {"forget": own}
        self.events.append(event)
        return _Taken(request, len(self.events) - 1, 0)

    def _asked(self, request: Request) -> _Taken:
        ids = request.ids or range(self._next, self._next + len(request.rows))
        twice = [own for own, n in collections.Counter(ids).items() if n > 1 or self._waits(own)]
        if twice:
            raise Refused(f"a row with the id {twice[0]!r} waits for its label already")
        self._changed.update(zip(ids, request.rows, strict=True))
        self._next = max([self._next, *(own + 1 for own in ids if isinstance(own, int))])
        self._room -= len(ids)
        return _Taken(request._replace(ids=tuple(ids)), *self._merged(ids=ids, rows=request.rows))

    def _merged(self, **parts: Sequence) -> tuple[int, int]:
        """Add to the last event, or as one more; return its place and that in its parts."""
        key = next(iter(parts))
        if not self.events or len(self.events[-1].get(key, ())) not in range(1, MERGED):
            self.events.append({name: [] for name in parts})
        event = self.events[-1]
        first = len(event[key])
        for name, part in parts.items():
            event[name] += part
        return len(self.events) - 1, first

    def _waits(self, own: Any) -> bool:
        waits, row = own in self._before, self._changed.get(own)
        if own in self._changed:
            waits = row is not None and self._is_readable(row)
        if waits and self._room < 0:
            raise _Unsettled
        return waits

    def _is_readable(self, row: dict[str, Any]) -> bool:
        try:
            self._learning.check(row)
        except REFUSALS:
            return False
        return True
