"""A file to which events are added, each of them on the disk before anybody is told."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

FORMAT = 1  #: number of the format, in the first line


class Journal:
    """JSON lines, the first of which says what they belong to; one process at a time.

    A line that was being written when the process was killed is taken away: nobody was told that
    it was kept.

    Args:
      path: the file; it is made where there is none.
      about: what the events belong to, a flat JSON object; a file of something else is begun anew
        if it holds questions only, and is refused if it holds answers.

    Raises:
      ValueError: the file is in use, is no journal, is one of something else or is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for event in ({"ask": 2}, {"answer": 2, "label": "oak"}):
    ...         with Journal(Path(folder, "it"), {"table": "trees.csv"}) as journal:
    ...             journal.append(event)
    ...     with Journal(Path(folder, "it"), {"table": "trees.csv"}) as journal:
    ...         journal.events
    [{'ask': 2}, {'answer': 2, 'label': 'oak'}]
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.events = path, list[dict[str, Any]]()
        is_new = not path.exists()
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        try:
            self._lock()
            lines = self._lines()
            if lines and self._goes_on(lines, about):
                self.events = lines[1:]
            else:
                self._file.truncate(0)
                self.append({"journal": FORMAT, **about})
                self.events.clear()
                if is_new:
                    _keep_name(path)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = "another process is asking for these labels; end it first, or give another"
            raise ValueError(f"{self.path}: {text} --out") from None

    def _lines(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            if not content.startswith(b'{"journal":'[: len(content)]):
                raise ValueError(f"{self.path}: is no journal of labels; give another --out")
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        found = []
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict):
                text = "is no line of a journal; mend it, or give another --out"
                raise ValueError(f"{self.path}, line {number}: {text}")
            found.append(event)
        return found

    def _goes_on(self, lines: list[dict[str, Any]], about: dict[str, Any]) -> bool:
        """Whether the lines are of the same; of something else they may not hold answers."""
        first, *events = lines
        if first.get("journal") != FORMAT:
            text = f"is no journal of format {FORMAT}; give another --out"
            raise ValueError(f"{self.path}: {text}")
        others = [name for name, value in about.items() if first.get(name) != value]
        if others and any("ask" not in event for event in events):
            found, now = first.get(others[0]), about[others[0]]
            text = f"belongs to another {others[0]} ({found!r}, now {now!r})"
            raise ValueError(f"{self.path}: {text}; give another --out")
        return not others

    def append(self, event: dict[str, Any]) -> None:
        """Add an event; it is on the disk when this returns."""
        line = json.dumps(event, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        while line:  # a raw file may take a part
            line = line[self._file.write(line) :]
        os.fsync(self._file.fileno())
        self.events.append(event)

    def close(self) -> None:
        """Close the file, and let others have it."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keep_name(path: Path) -> None:
    """Have the name of a new file on the disk, too."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
