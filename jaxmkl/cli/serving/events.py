"""The journal of a server and the snapshots of its session, from which the same command goes on.

A snapshot is a file beside the journal, JOURNAL.N.npz, of the session after N events; the first
line of the journal names N, and its other lines are the events after it. Each of the two appears
whole or not at all, the snapshot first, so whenever the process is killed one of them belongs to
the other.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxmkl.cli.labelling.journal import Journal
from jaxmkl.cli.serving.learning import Event, apply
from jaxmkl.tables import Pipeline, Session

MOST = 2**22  # bytes of a journal after which a snapshot is made


class Events:
    """All that happened to a session.

    Args:
      path: the journal.
      about: what it belongs to.
      pipeline: the pipeline before its first event.

    Raises:
      ValueError: the journal is another's, in use or damaged, or its snapshot is not there.
    """

    def __init__(self, path: Path, about: dict[str, Any], pipeline: Pipeline) -> None:
        self._journal, self._about = Journal(path, about, "--journal"), about
        # what the journal is about once the present snapshot is made, and its size before that
        self._begun: tuple[dict[str, Any], int] | None = None
        self._missed = 0  # bytes of the journal when a snapshot could not be written
        try:
            first = self._journal.first
            self.number = int(first.get("snapshot", 0))  #: of events
            self.next_id = int(first.get("next", 0))  #: the next id that the server gives
            begun = Session.load(self._snapshot(self.number)) if self.number else Session(pipeline)
            self.session = begun  #: after all events that were replayed
            self.most = self.session.most_waiting  #: rows without a label
            #: the prediction and interval of each by its id, the oldest first; None: not known
            self.unlabelled: dict[Any, Any] = dict.fromkeys(self.session.unlabelled)
            self._sweep()
        except BaseException:
            self._journal.__exit__()
            raise

    def replay(self, seen: Callable[[Event, Any, list], object]) -> None:
        """Apply the events of the journal; ``seen`` is called as :meth:`settle` says."""

        def again(event: Event) -> None:
            result = apply(self.session, event)
            seen(event, result, self.settle(event, result))

        self._journal.replay(again)
        self.number += len(self._journal.events)
        self._journal.events.clear()

    def append(self, *events: Event) -> None:
        """Write events, or raise an ``OSError``; nothing happened then."""
        if events:
            self._journal.append(*events, sync=False)
            self.number += len(events)

    def sync(self) -> None:
        """Have all events on the disk, or raise an ``OSError``; nobody knows then which are."""
        self._journal.sync()

    def settle(self, event: Event, result: Any) -> list[Any]:
        """Note which rows the session has without labels after an event, by its own rule.

        Returns:
          For each label of the event, what :attr:`unlabelled` had of its row.
        """
        for own, asked in zip(event["ids"], result, strict=True) if "ids" in event else ():
            if not isinstance(asked, Exception):
                self.unlabelled.pop(own, None)  # the latest is last
                self.unlabelled[own] = asked.prediction, asked.interval
            if isinstance(own, int):
                self.next_id = max(self.next_id, own + 1)
        of_labels = [self.unlabelled.pop(own, None) for own, _ in event.get("labels", ())]
        self.unlabelled.pop(event.get("forget"), None)
        self.most = event.get("waiting", self.most)
        while len(self.unlabelled) > self.most:
            del self.unlabelled[next(iter(self.unlabelled))]
        return of_labels

    # snapshots

    @property
    def is_long(self) -> bool:
        """True if it is time for a snapshot."""
        return self._begun is None and self._journal.size > self._missed + MOST

    def snapshot(self) -> Path:
        """Begin a snapshot of the session after all events so far; return its place."""
        about = {**self._about, "snapshot": self.number, "next": self.next_id}
        self._begun = about, self._journal.size
        return self._snapshot(self.number)

    def rotate(self) -> None:
        """Keep only the events after the snapshot, which is on the disk."""
        assert self._begun is not None
        if self._begun[0]["snapshot"]:
            self._journal.replace(*self._begun)
        self._begun, self._missed = None, 0
        self._sweep()

    def give_up(self) -> None:
        """Go on without the snapshot, which could not be written, until it is time again."""
        self._begun, self._missed = None, self._journal.size

    def _snapshot(self, number: int) -> Path:
        path = self._journal.path
        return path.with_name(f"{path.name}.{number}.npz")

    def _sweep(self) -> None:
        """Remove all snapshots but the one that the journal names."""
        path, kept = self._journal.path, int(self._journal.first.get("snapshot", 0))
        for other in path.parent.glob("*.npz"):
            found = re.fullmatch(re.escape(path.name) + r"\.(\d+)\.npz", other.name)
            if found and int(found[1]) != kept:
                other.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the journal."""
        self._journal.__exit__()
