"""The requests of all clients are answered by one thread, one group after the other.

A group is whatever came while the one before was answered; clients who only ask come first in it,
as they wait for a prediction. Rows, or labels, that follow each other become one event. It is
written to the journal, and applied, or begins to be; the answers of a group are given after one
``fsync``. So nothing that was answered is lost, however the process ends. If the journal cannot be
written, the event is refused, and nothing of it is learned; if ``fsync`` fails, nothing is certain
about the file any more, and the server ends.

A snapshot is a file beside the journal, JOURNAL.N.npz, of the session after N events; the first
line of the journal names N, and its other lines are the events after it. Each of the two appears
whole or not at all, the snapshot first, so whenever the process is killed one of them belongs to
the other.
"""

import collections
import contextlib
import itertools
import json
import os
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
from jaxmkl.cli.sessions.requests import Request, brief, read
from jaxmkl.evaluate import plain
from jaxmkl.tables import Pipeline, Refused, Session

PARTS = {"ask": "ids", "learn": "labels"}  # of which an event may have several, by request
MERGED = 64  # rows, or labels, of several lines that become one event, at most
# numbers of clients from here on are followed by those of the server, which clients may read in
# double precision, only if they are near
FAR, NEAR = 2**52, 2**20
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
        self._event, self._taken = Event(), list[Request]()  # what happens next, by which requests
        self._said, self._began = list[Any](), 0.0  # the answers so far, since a time
        with contextlib.ExitStack() as stack:
            path = Path(os.path.realpath(path))  # which is replaced, unlike a link to it
            self.journal = stack.enter_context(Journal(path, about, "--journal"))
            first = self.journal.first
            number, self.next_id = int(first.get("snapshot", 0)), int(first.get("next", 0))
            if not number and not self.journal.events:
                self._refuse_snapshots()
            session = Session.load(self._snapshot(number)) if number else Session(pipeline)
            self.most = session.most_waiting  #: rows without a label
            #: the prediction and interval of each by its id, the oldest first; None: not known
            self.unlabelled = collections.OrderedDict[Any, Any]()
            self.unlabelled.update(dict.fromkeys(session.unlabelled))
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
        before, self._began = self.number, time.monotonic()
        learns = [any(request.kind != "ask" for request in of_one) for of_one in clients]
        order = sorted(range(len(clients)), key=learns.__getitem__)
        for at in order:
            for request in clients[at]:
                self._take(request)
        self._happen()
        if self.number > before:
            self.journal.sync()
        said, self._said = iter(self._said), []
        answers = {at: [next(said) for _ in clients[at]] for at in order}
        return [answers[at] for at in range(len(clients))]

    def _take(self, request: Request) -> None:
        """Take a request; rows, or labels, of several in a row are one event."""
        part = PARTS.get(request.kind, "")
        if request.kind != "line" and not 0 < len(self._event.get(part, ())) < MERGED:
            self._happen()
        if request.kind == "metrics":
            self._said.append(self.figures())
            return
        try:
            event = self._event_of(request)
        except ValueError as error:
            if self._event:  # once it has happened, the request may be right
                self._happen()
                self._take(request)
                return
            event, request = {}, request._replace(refusal=str(error))
        first = len(self._event.get(part, ()))
        for name, value in event.items():
            self._event[name] = self._event[name] + value if first else value
        self._taken.append(request._replace(first=first))

    def _event_of(self, request: Request) -> Event:
        """The event of a request, or raise a ``ValueError`` that says why it cannot be."""
        kind, rows, ids, label = request[:4]
        if kind == "line":
            return {}
        if kind == "ask":
            there = self._event.get("ids", ())
            free = (one for one in itertools.count(self.next_id)
                    if one not in self.unlabelled and one not in there)  # fmt: skip
            ids = ids or tuple(itertools.islice(free, len(rows)))
            for own, number in collections.Counter(ids).items():
                if number > 1 or own in self.unlabelled or own in there:
                    raise Refused(f"a row with the id {own!r} waits for its label already")
            self._note(ids)
            return {"ids": [*ids], "rows": [*rows]}
        if kind != "learn_row":
            known = [own for own, _ in self._event.get("labels", ())]
            if ids[0] not in self.unlabelled or ids[0] in known:
                raise Refused(f"no row with the id {ids[0]!r} waits for a label")
        if kind == "forget":
            return {"forget": ids[0]}
        label = self.learning.session.label(label)
        return {"row": rows[0], "label": label} if rows else {"labels": [(ids[0], label)]}

    def _happen(self) -> None:
        """Have the event happen of the requests that were taken, and answer these."""
        event, taken, result = self._event, self._taken, None
        self._event, self._taken = {}, []
        if event:
            try:
                self.journal.append(event, sync=False)
            except OSError as error:
                text = f"the journal cannot be written, so nothing was learned: {error.strerror}"
                result = [OSError(text)] * len(event.get("ids", ())) or OSError(text)
            else:
                self.number += 1
                result = self.learning.put(event, self._began)
                self._settle(event, result)
        self._said += [self._answer_to(request, event, result) for request in taken]

    def _settle(self, event: Event, result: Any) -> None:
        """Note what an event changes: rows without labels, as the session has them, and figures.

        A label has been checked, so it is learned; rows may turn out to be refused.
        """
        self._note(event.get("ids", ()))
        for own, asked in zip(event["ids"], result, strict=True) if "ids" in event else ():
            if not isinstance(asked, Exception):
                self.unlabelled.pop(own, None)  # the latest is last
                self.unlabelled[own] = asked.prediction, asked.interval
                self.metrics.rows += 1
        for own, label in event.get("labels", ()):
            self.metrics.learned(label, self.unlabelled.pop(own, None))
        if "row" in event and not isinstance(result, Exception):
            self.metrics.learned(event["label"])
        self.unlabelled.pop(event.get("forget"), None)
        self.most = event.get("waiting", self.most)
        while len(self.unlabelled) > self.most:
            self.unlabelled.popitem(last=False)

    def _note(self, ids: Sequence[Any]) -> None:
        """Give no id that somebody else has given, unless it is so large that none is near."""
        for own in ids:
            if isinstance(own, int) and own < max(FAR, self.next_id + NEAR):
                self.next_id = max(self.next_id, own + 1)

    def _answer_to(self, request: Request, event: Event, result: Any) -> Any:
        """The answer to a request, by the result of its event."""
        own = {"id": request.ids[0]} if request.ids and not request.is_list else {}
        if request.refusal:
            return self._refused(request.kind, request.refusal) | own
        if request.kind == "ask":
            part = slice(request.first, request.first + len(request.rows))
            said = [
                self._refused("row", asked) | {"id": one} if isinstance(asked, Exception)
                else {name: value for name, value in asked._asdict().items() if value is not None}
                for one, asked in zip(event["ids"][part], result[part], strict=True)
            ]  # fmt: skip
            return said if request.is_list else said[0]
        if isinstance(result, Exception):
            return self._refused(request.kind, result) | own
        return own | ({"forgotten": True} if request.kind == "forget" else {"learned": True})

    def _refused(self, reason: str, error: Exception | str) -> dict[str, Any]:
        self.metrics.refused["journal" if isinstance(error, OSError) else reason] += 1
        return {"error": brief(error)}

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

    def _snapshots(self) -> dict[int, Path]:
        """The snapshots beside the journal, by their numbers of events."""
        path = self.journal.path
        names = {other: re.fullmatch(re.escape(path.name) + r"\.(\d+)\.npz", other.name)
                 for other in path.parent.glob("*.npz")}  # fmt: skip
        return {int(found[1]): other for other, found in names.items() if found}

    def _refuse_snapshots(self) -> None:
        """Refuse a journal without events beside a snapshot, which it would remove."""
        for number, path in self._snapshots().items():
            if number:
                text = f"it has no events, and {path} is a snapshot of {number:,}"
                advice = "restore it, begin with the snapshot as PIPELINE, or move that away"
                raise ValueError(f"{self.journal.path}: {text}; {advice}")

    def _sweep(self) -> None:
        """Remove all snapshots but the one that the journal names."""
        kept = int(self.journal.first.get("snapshot", 0))
        for number, path in self._snapshots().items():
            if number != kept:
                path.unlink(missing_ok=True)


def spelled(answers: Sequence[Any]) -> bytes:
    """A line for each answer."""
    lines = (json.dumps(plain(answer), allow_nan=False) for answer in answers)
    return "".join(f"{line}\n" for line in lines).encode()
