"""A file to which events are added, each of them on the disk before anybody is told."""

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

from jaxmkl._files import is_taken

FORMAT = 2  #: number of the format, in the first line
PLAIN = 1  #: the format before, without checksums
CHECKSUM = re.compile(rb', "crc": "([0-9a-f]{8})"}$')
ADVICE = "take away this line and those behind it"


class Journal:
    """JSON lines, the first of which says what they belong to; one process at a time.

    Each line ends with a checksum (CRC-32) of all lines so far: one that was changed, doubled,
    moved or taken out is noticed, but for the last ones taken away. A journal of format 1 had no
    checksums; it is gone on with, and what is added to it has them.

    A line that was being written when the process was killed is taken away: nobody was told that
    it was kept.

    Args:
      path: the file; it is made where there is none.
      about: what the events belong to, a flat JSON object; a file of something else is begun anew
        if it holds questions only, and is refused if it holds answers.

    Raises:
      ValueError: the file is in use, is no journal, is one of something else or is damaged; with
        the line, where there is one.

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
        self._checksum, self._is_plain = 0, False  # of all lines so far; whether none had one
        is_new = not path.exists()
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        try:
            self._lock()
            lines = self._lines()
            if lines and self._goes_on(lines, about):
                self.events = lines[1:]
            else:
                self._file.truncate(0)
                self._checksum = 0
                self.append({"journal": FORMAT, **about})
                self.events.clear()
                if is_new:
                    _keep_name(path)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        if is_taken(self._file) is False:
            text = "another process is asking for these labels; end it first, or give another"
            raise ValueError(f"{self.path}: {text} --out")

    def _lines(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            if not content.startswith(b'{"journal":'[: len(content)]):
                raise self._refusal(1, "is no journal of labels; move it away")
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        return [
            self._event(number, line)
            for number, line in enumerate(content[:whole].split(b"\n")[:-1], 1)
        ]

    def _refusal(self, number: int, reason: str) -> ValueError:
        return ValueError(f"{self.path}, line {number}: {reason}, or give another --out")

    def _event(self, number: int, line: bytes) -> dict[str, Any]:
        """The event of the line that comes next."""
        found = CHECKSUM.search(line)
        body = line[: found.start()] + b"}" if found else line
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise self._refusal(number, f"is no line of a journal, a JSON object; {ADVICE}")
        if number == 1 and event.get("journal") not in (PLAIN, FORMAT):
            raise self._refusal(
                number, f"is no beginning of a journal of format {FORMAT}; move it away"
            )
        self._is_plain = event["journal"] == PLAIN if number == 1 else self._is_plain and not found
        self._checksum = zlib.crc32(body, self._checksum)
        if not self._is_plain and (found is None or int(found[1], 16) != self._checksum):
            text = "by its checksum was changed, moved or doubled, or one before it taken out"
            raise self._refusal(number, f"{text if found else 'has no checksum'}; {ADVICE}")
        return event

    def _goes_on(self, lines: list[dict[str, Any]], about: dict[str, Any]) -> bool:
        """Whether the lines are of the same; of something else they may not hold answers."""
        first, *events = lines
        others = [name for name, value in about.items() if first.get(name) != value]
        if others and any("ask" not in event for event in events):
            found, now = first.get(others[0]), about[others[0]]
            raise self._refusal(
                1, f"belongs to another {others[0]} ({found!r}, now {now!r}); move it away"
            )
        return not others

    def append(self, event: dict[str, Any]) -> None:
        """Add an event; it is on the disk when this returns."""
        line = json.dumps(event, ensure_ascii=False, allow_nan=False).encode()
        self._checksum = zlib.crc32(line, self._checksum)
        line = line[:-1] + b', "crc": "%08x"}\n' % self._checksum
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
