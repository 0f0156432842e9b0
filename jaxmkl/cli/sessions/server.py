"""The requests of all clients are answered by one thread, one group after the other.

A group is whatever came while the one before was answered; clients who only ask come first in it,
as they wait for a prediction. Its events are written to the journal together, they are applied,
or begin to be, and its answers are given after one ``fsync`` for all. So nothing that was answered
is lost, however the process ends. If the journal cannot be written, the group is refused, and none
of it is learned; if ``fsync`` fails, nothing is certain about the file any more, and the server
ends.

A snapshot is a file beside the journal, JOURNAL.N.npz, of the session after N events; the first
line of the journal names N, and its other lines are the events after it. Each of the two appears
whole or not at all, the snapshot first, so whenever the process is killed one of them belongs to
the other.
"""

import collections
import contextlib
import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from jaxmkl._renewals import renewals_of
from jaxmkl.cli import show
from jaxmkl.cli.sessions.journal import Event, Journal
from jaxmkl.cli.sessions.learning import Learning, apply
from jaxmkl.cli.sessions.metrics import Metrics
from jaxmkl.cli.sessions.requests import Request, read
from jaxmkl.evaluate import plain
from jaxmkl.tables import Pipeline, Refused, Session

MERGED = 64  # rows, or labels, of several lines that become one event, at most
MOST = 2**22  # bytes of a journal after which a snapshot is made


class Server:
    """A session that many clients share, for the calls of one thread.

    Args:
      path: the journal, which is replayed.
      about: what it belongs to.
      pipeline: the pipeline before its first event.
      most: the rows that may have no label; beyond, the oldest one is forgotten. None: as before.

    Raises:
      ValueError: the journal is another's, in use or damaged, or its snapshot is not there.
    """

    def __init__(
        self, path: Path, about: dict[str, Any], pipeline: Pipeline, most: int | None = None
    ) -> None:
        self.failure: BaseException | None = None  #: the error that ended it
        self.metrics = Metrics(bool(pipeline.classes))
        self._about, self._missed = about, 0  # bytes of the journal without a snapshot that failed
        self._saving: tuple[Future, dict[str, Any], int] | None = None  # as _begun returns it
        with contextlib.ExitStack() as stack:
            self.journal = stack.enter_context(Journal(path, about, "--journal"))
            first = self.journal.first
            number, self.next_id = int(first.get("snapshot", 0)), int(first.get("next", 0))
            session = Session.load(self._snapshot(number)) if number else Session(pipeline)
            self.most = session.most_waiting  #: rows without a label
            #: the prediction and interval of each by its id, the oldest first; None: not known
            self.unlabelled: dict[Any, Any] = dict.fromkeys(session.unlabelled)
            self._sweep()
            self.journal.replay(lambda event: self._settle(event, apply(session, event)))
            self.number = number + len(self.journal.events)  #: of events
            self.journal.events.clear()
            if most not in (None, self.most):
                bound = {"waiting": most}
                self.journal.append(bound)
                self.number += 1
                self._settle(bound, apply(session, bound))
            self.learning = Learning(session)
            stack.pop_all()  # all went well: the journal stays open

    def answer(self, *clients: Sequence[bytes]) -> list[list[Any]]:
        """Answer the lines of several clients, those of each in their order.

        Raises:
          RuntimeError: the server has ended.
        """
        if self.failure is None:
            try:
                answers = self._answered([[read(line) for line in lines] for lines in clients])
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
            self._rotate(wait=True)
            self._take_up(*self._begun())
        finally:
            self.learning.close()
            self.journal.close()

    def figures(self) -> dict[str, Any]:
        """All figures by their names."""
        begun, now = self.learning.begun, self.learning.finished
        more: dict[str, float] = {
            "waiting": len(self.unlabelled),
            "dropped": self.learning.session.dropped,
            "behind": 0.0 if begun is None else time.monotonic() - begun,
        }
        if (renewals := renewals_of(now.learner)) is not None:
            at, end, more["renewals"] = 0, int(now.state.round), 0
            while (at := renewals.after(at)) <= end:
                more["renewals"] += 1
        return self.metrics.figures(**more)

    def _answered(self, clients: Sequence[Sequence[Request]]) -> list[list[Any]]:
        learns = [any(request.kind != "ask" for request in of_one) for of_one in clients]
        order = sorted(range(len(clients)), key=learns.__getitem__)
        requests = [request for at in order for request in clients[at]]
        said = list[Any]()
        while len(said) < len(requests):
            said += self._of_group(requests[len(said) :])
        rest, answers = iter(said), [list[Any]() for _ in clients]
        for at in order:
            answers[at] = [next(rest) for _ in clients[at]]
        return answers

    def _of_group(self, requests: Sequence[Request]) -> list[Any]:
        """The answers to the first requests, to all that do not depend on others' results."""
        group, taken = _Group(self), list[Request]()
        with contextlib.suppress(_Unsettled):
            for request in requests:
                if taken and "metrics" in (request.kind, taken[-1].kind):
                    break  # figures are of all lines before them, and of no later one
                taken.append(group.take(request))
        try:
            self.journal.append(*group.events, sync=False)
        except OSError as error:
            text = f"the journal cannot be written, so nothing was learned: {error.strerror}"
            refusal = OSError(text)
            results = [[refusal] * len(event.get("ids", ())) or refusal for event in group.events]
        else:
            self.number += len(group.events)
            results = self.learning.put(group.events)
            for event, result in zip(group.events, results, strict=True):
                self._settle(event, result)
            if group.events:
                self.journal.sync()
        return [self._said(request, results) for request in taken]

    def _settle(self, event: Event, result: Any) -> None:
        """Note what an event changes: rows without labels, as the session has them, and figures.

        A label has been checked, so it is learned; rows may turn out to be refused.
        """
        if "ids" in event:
            for own, asked in zip(event["ids"], result, strict=True):
                if not isinstance(asked, Exception):
                    self.unlabelled.pop(own, None)  # the latest is last
                    self.unlabelled[own] = asked.prediction, asked.interval
                    self.metrics.rows += 1
                if isinstance(own, int):
                    self.next_id = max(self.next_id, own + 1)
        for own, label in event.get("labels", ()):
            self.metrics.learned(label, self.unlabelled.pop(own, None))
        if "row" in event and not isinstance(result, Exception):
            self.metrics.learned(event["label"])
        self.unlabelled.pop(event.get("forget"), None)
        self.most = event.get("waiting", self.most)
        while len(self.unlabelled) > self.most:
            del self.unlabelled[next(iter(self.unlabelled))]

    def _said(self, request: Request, results: Sequence[Any]) -> Any:
        """The answer to a request that was taken."""
        of_ids = [{"id": own} for own in request.ids]
        own = {} if request.is_list or not of_ids else of_ids[0]
        if request.refusal:
            return self._refused(request.kind, request.refusal) | own
        if request.kind == "metrics":
            return self.figures()
        result = results[request.event]
        if request.kind == "ask":
            found = result[request.first : request.first + len(of_ids)]
            said = [
                self._refused("row", asked) | own if isinstance(asked, Exception)
                else _answer(asked) for own, asked in zip(of_ids, found, strict=True)
            ]  # fmt: skip
            return said if request.is_list else said[0]
        result = result[request.first] if isinstance(result, list) else result
        if isinstance(result, Exception):
            return self._refused(request.kind, result) | own
        return own | ({"forgotten": True} if request.kind == "forget" else {"learned": True})

    def _refused(self, reason: str, error: Exception | str) -> dict[str, Any]:
        self.metrics.refused["journal" if isinstance(error, OSError) else reason] += 1
        return {"error": str(error)}

    # snapshots

    def _rotate(self, wait: bool = False) -> None:
        """Begin a snapshot if it is time for one, or take up the one that is on the disk."""
        if self._saving is None:
            if self.journal.size > self._missed + MOST and not wait:
                self._saving = self._begun()
        elif wait or self._saving[0].done():
            saving, self._saving = self._saving, None
            try:
                self._take_up(*saving)
            except OSError as error:
                self._missed = self.journal.size  # until as many bytes more
                show.aside(f"jaxmkl: a snapshot cannot be written: {error}; the journal goes on")

    def _begun(self) -> tuple[Future, dict[str, Any], int]:
        """A snapshot that is being written, and what of the journal will belong to it."""
        about = {**self._about, "snapshot": self.number, "next": self.next_id}
        return self.learning.save(self._snapshot(self.number)), about, self.journal.size

    def _take_up(self, saved: Future, about: dict[str, Any], size: int) -> None:
        """Keep only the events after a snapshot, once it is on the disk."""
        saved.result()
        if about["snapshot"]:
            self.journal.replace(about, size)
        self._missed = 0
        self._sweep()

    def _snapshot(self, number: int) -> Path:
        return self.journal.path.with_name(f"{self.journal.path.name}.{number}.npz")

    def _sweep(self) -> None:
        """Remove all snapshots but the one that the journal names."""
        path, kept = self.journal.path, int(self.journal.first.get("snapshot", 0))
        for other in path.parent.glob("*.npz"):
            found = re.fullmatch(re.escape(path.name) + r"\.(\d+)\.npz", other.name)
            if found and int(found[1]) != kept:
                other.unlink(missing_ok=True)


def spelled(answers: Sequence[Any]) -> bytes:
    """A line for each answer."""
    lines = (json.dumps(plain(answer), allow_nan=False) for answer in answers)
    return "".join(f"{line}\n" for line in lines).encode()


def _answer(asked: Any) -> dict[str, Any]:
    return {name: value for name, value in asked._asdict().items() if value is not None}


class _Unsettled(Exception):
    """A request depends on which rows the events before it make the session forget."""


class _Group:
    """The events of some requests; nothing has happened yet."""

    def __init__(self, server: Server) -> None:
        self.events = list[Event]()
        self._server, self._next = server, server.next_id
        # the rows of this group without labels, which may be unreadable; None: no longer without
        self._changed = dict[Any, dict[str, Any] | None]()
        self._room = server.most - len(server.unlabelled)  # for rows, before any is forgotten

    def take(self, request: Request) -> Request:
        """The request with its place in the events or its refusal; or raise ``_Unsettled``."""
        try:
            return self._added(request)
        except ValueError as error:
            return request._replace(refusal=str(error))

    def _added(self, request: Request) -> Request:
        kind, rows, ids, label = request[:4]
        if kind in ("metrics", "line"):
            return request
        if kind == "ask":
            ids = ids or tuple(range(self._next, self._next + len(rows)))
            counts = collections.Counter(ids).items()
            if twice := [own for own, number in counts if number > 1 or self._waits(own)]:
                raise Refused(f"a row with the id {twice[0]!r} waits for its label already")
            self._changed.update(zip(ids, rows, strict=True))
            self._next = max([self._next, *(own + 1 for own in ids if isinstance(own, int))])
            self._room -= len(ids)
            return self._put(request._replace(ids=ids), ids=[*ids], rows=[*rows])
        if kind != "learn_row" and not self._waits(ids[0]):
            raise Refused(f"no row with the id {ids[0]!r} waits for a label")
        if kind != "forget":
            label = self._server.learning.session.label(label)
        if kind == "learn_row":
            return self._put(request, row=rows[0], label=label)
        self._changed[ids[0]] = None
        self._room += 1
        if kind == "forget":
            return self._put(request, forget=ids[0])
        return self._put(request, labels=[(ids[0], label)])

    def _put(self, request: Request, **event: Any) -> Request:
        """Add an event, or rows or labels to the last one; return the request with its place."""
        key = next(iter(event))
        last = self.events[-1] if self.events and key in ("ids", "labels") else {}
        first = len(last.get(key, ()))
        if 0 < first < MERGED:
            for name, part in event.items():
                last[name] += part
        else:
            first = 0
            self.events.append(event)
        return request._replace(event=len(self.events) - 1, first=first)

    def _waits(self, own: Any) -> bool:
        waits = own in self._server.unlabelled
        if own in self._changed:
            row = self._changed[own]
            waits = row is not None and self._server.learning.refusal(row) is None
        if waits and self._room < 0:
            raise _Unsettled
        return waits
