"""The journal: a file to which events are appended, each on the disk before it is acknowledged."""

import io
import json
import os
import re
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from jaxmkl._files import is_taken, named

Event = dict[str, Any]
FORMAT = 2  #: number of the format, in the first line
PLAIN = 1  #: the format of jaxmkl 0.2.0, which had no checksums
CHECKSUM = re.compile(rb', "crc": "([0-9a-f]{8})"}$')
REPLACES_OPEN = os.name != "nt"  # whether files that are open can be replaced
ADVICE = "remove this line and all after it"


class Journal(AbstractContextManager):
    """JSON lines, the first of which says what they belong to; one process at a time has them.

    Each line ends with a checksum (CRC-32) of all lines so far, so a line that was changed,
    duplicated, moved or removed is noticed, unless it was removed from the end. A journal of
    format 1 is continued, and the lines that are added have checksums. An incomplete line is
    removed: its writer was killed before it acknowledged the event.

    Args:
      path: the file; it is created if it does not exist.
      about: what the events belong to, a flat JSON object. A journal about something else is
        started afresh if it holds only questions, and is refused if it holds answers.
      option: the option of the command that names the file, for messages.

    Raises:
      ValueError: if the file is in use, is not a journal, is about something else or is damaged;
        the message names the file and the line.
    """

    def __init__(self, path: Path, about: dict[str, Any], option: str = "--out") -> None:
        self.path, self._option, is_new = path, option, not path.exists()
        self._checksum, self._has_checksums = 0, False  # of all lines so far; whether any has one
        self.size = 0  #: the bytes of the file
        self._file = self._opened()
        try:
            #: the first line, and the events that were there at the beginning
            self.first, *self.events = self._read() or [{}]
            if not self.first or self._is_about_else(about):
                self._file.truncate(0)
                self._checksum, self.size = 0, 0
                self.first, self.events = {"journal": FORMAT, **about}, []
                self.append(self.first)
            if is_new:
                self._name_is_kept()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> io.FileIO:
        """The file, locked by this process."""
        file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        if is_taken(file) is False:
            file.close()
            text = "another process writes this journal; end it first, or name another"
            raise ValueError(f"{self.path}: {text} {self._option}")
        return file

    def _name_is_kept(self) -> None:
        """Have the name of the file, too, on the disk; Windows opens no folder."""
        if os.name != "nt":
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def _read(self) -> list[Event]:
        self._file.seek(0)
        content = self._file.read()
        *lines, rest = content.split(b"\n")
        self.size = len(content) - len(rest)
        if rest:
            if not content.startswith(b'{"journal":'[: len(content)]):
                raise self._refusal(1, "is not a journal of labels; move it away")
            self._file.truncate(self.size)
            os.fsync(self._file.fileno())
        return [self._event(number, line) for number, line in enumerate(lines, 1)]

    def _event(self, number: int, line: bytes) -> Event:
        found = CHECKSUM.search(line)
        body = line[: found.start()] + b"}" if found else line
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise self._refusal(number, f"is not a line of a journal, a JSON object; {ADVICE}")
        form = event.get("journal")
        if number == 1 and form not in (PLAIN, FORMAT):
            text = f"is not the first line of a journal of format {FORMAT}; move it away"
            raise self._refusal(number, text)
        self._has_checksums |= found is not None or form == FORMAT
        self._checksum = zlib.crc32(body, self._checksum)
        if self._has_checksums and found is None:
            raise self._refusal(number, f"has no checksum; {ADVICE}")
        if found and int(found[1], 16) != self._checksum:
            text = "does not match its checksum, or a line before it was moved or removed"
            raise self._refusal(number, f"{text}; {ADVICE}")
        return event

    def _is_about_else(self, about: dict[str, Any]) -> bool:
        """Return whether the lines are about something else; if so, none may be an answer."""
        first = self.first
        others = [name for name, value in about.items() if first.get(name) != value]
        is_only_asked = "snapshot" not in first and all("ask" in event for event in self.events)
        if others and not is_only_asked:
            has_zeros = _without_zeros(first) == _without_zeros(about)
            name = "target" if has_zeros and "target" in others else others[0]
            of = "pipeline" if name == "model" else name  # the name in files
            text = f"belongs to another {of} ({first.get(name)!r}, now {about[name]!r})"
            if name == "target" and has_zeros:
                text += ", as classes now keep their leading zeros; write its answers into the"
                raise self._refusal(1, f"{text} table, spelled so, and move it away")
            raise self._refusal(1, f"{text}; move it away")
        return bool(others)

    def _refusal(self, number: int, reason: str) -> ValueError:
        """Return the error that names the file, the number of a line and the reason."""
        return ValueError(f"{self.path}, line {number}: {reason}, or name another {self._option}")

    def replay(self, again: Callable[[Event], object]) -> None:
        """Call ``again`` with each event; if it raises a ``ValueError``, name the line there."""
        for number, event in enumerate(self.events, 2):
            try:
                again(event)
            except ValueError as error:
                text = f"cannot have happened: {error}; {ADVICE}"
                raise self._refusal(number, text) from None

    def append(self, *events: Event, sync: bool = True) -> None:
        """Append events, which are on the disk when this returns; without ``sync``, after that.

        Raises:
          OSError: they could not be written; the journal is as it was before.
        """
        checksum, lines = self._checksum, list[bytes]()
        for event in events:
            body = json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass")
            self._checksum = zlib.crc32(body, self._checksum)
            lines.append(body[:-1] + b', "crc": "%08x"}\n' % self._checksum)
        left = memoryview(b"".join(lines))
        after = self.size + len(left)
        try:
            with named(self.path):
                while left:  # one write may take only a part
                    left = left[self._file.write(left) :]
            if sync:
                self.sync()
        except BaseException:
            self._checksum = checksum
            try:
                self._file.truncate(self.size)
            except OSError:
                self.close()  # nothing may follow half a line
            raise
        self.size = after

    def sync(self) -> None:
        """Have all events on the disk, or raise an ``OSError``; none knows then which are."""
        with named(self.path):
            os.fsync(self._file.fileno())

    def replace(self, about: dict[str, Any], start: int) -> None:
        """Replace the file, whole or not at all, by one of its last events alone.

        Args:
          about: what they belong to.
          start: the :attr:`size` that the file had before them.
        """
        self._file.seek(start)
        lines = self._file.read().splitlines()
        place = self.path.with_name(f"{self.path.name}.next")
        place.unlink(missing_ok=True)  # of a process that was killed
        other = Journal(place, about, self._option)
        try:
            other.append(*(json.loads(CHECKSUM.sub(b"}", line)) for line in lines))
            if not REPLACES_OPEN:  # elsewhere one of the two locks is always held
                other.close()
                self.close()
            os.replace(place, self.path)
            self.close()
            vars(self).update(vars(other), path=self.path)
        except BaseException:
            other.close()
            raise
        finally:
            if self._file.closed:
                self._file = self._opened()
                self._file.truncate(self.size)  # nothing may follow half a line
        self._name_is_kept()

    def close(self) -> None:
        """Close the file, and so give it up."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_zeros(about: dict[str, Any]) -> list[str]:
    """The words of a target without leading zeros, which classes did not have before."""
    return sorted(re.split(": |, ", re.sub(r"\b0+(?=\d)", "", str(about.get("target")))))
