"""The bytes of a file or of standard input, unpacked where they are packed."""

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

SNIFFED = 2**16  # bytes that tell the format


class Peeked(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, start: bytes, rest: io.BufferedIOBase) -> None:
        self.start, self.rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.start[: len(buffer)] or self.rest.read(len(buffer)) or b""
        self.start = self.start[len(data) :]
        buffer[: len(data)] = data
        return len(data)


class Bytes:
    """A stream of bytes that is read once; its beginning and the share read are known.

    Args:
      path: a file, or "-" for standard input.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: for a folder, an empty file, or a packed file that is damaged.
      ImportError: for a file packed by zstd, where the extra ``cli`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.is_file = os.fspath(path) != "-"
        self.name = os.fspath(path) if self.is_file else "standard input"
        if os.path.isdir(path):
            raise ValueError(f"{self.name}: is a folder; a file is wanted")
        raw: Any = open(path, "rb") if self.is_file else sys.stdin.buffer  # noqa: SIM115
        self._raw, self._size = raw, os.fstat(raw.fileno()).st_size if self.is_file else 0
        try:
            with self.whole():
                self.start, self.stream = _peeked(raw)
                unpackers = (open_ for magic, open_ in UNPACKERS if self.start.startswith(magic))
                unpacker = next(unpackers, None)
                self.is_packed = unpacker is not None
                if unpacker is not None:
                    self.start, self.stream = _peeked(unpacker(self.name, self.stream))
            if not self.start.removeprefix(b"\xef\xbb\xbf").strip():
                raise ValueError(f"{self.name}: is empty")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Bytes":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self.is_file:
            self._raw.close()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Raise a ``ValueError`` if the file turns out to be damaged while it is read."""
        try:
            yield
        except Exception as error:
            # errors of bz2 and gzip have no number, unlike the system's; zstd has its own
            of_unpacker = isinstance(error, EOFError | zlib.error | lzma.LZMAError) or (
                type(error).__name__ == "ZstdError"
            )
            if not of_unpacker and not (isinstance(error, OSError) and error.errno is None):
                raise
            raise ValueError(f"{self.name}: is damaged: {error}") from None

    def share_read(self) -> float | None:
        """The share of the file that was read; None where its size is not known."""
        if not self._size or self._raw.closed:
            return None
        return min(1.0, self._raw.tell() / self._size)

    def text(self) -> io.TextIOWrapper:
        """Read the stream as text in UTF-8, line ends as they stand."""
        return io.TextIOWrapper(self.stream, "utf-8-sig", newline="")


def _peeked(stream: io.BufferedIOBase) -> tuple[bytes, io.BufferedReader]:
    """The first bytes of a stream, and the whole of it."""
    start = stream.read(SNIFFED)
    return start, io.BufferedReader(Peeked(start, stream))


def zstd(name: str) -> ModuleType:
    """Import the module that unpacks zstd."""
    try:
        module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(f'{name}: is packed by zstd: pip install "jaxmkl[cli]"') from None


UNPACKERS: tuple[tuple[bytes, Callable[[str, io.BufferedReader], io.BufferedIOBase]], ...] = (
    (b"\x1f\x8b", lambda name, stream: gzip.GzipFile(fileobj=stream)),
    (b"\x28\xb5\x2f\xfd", lambda name, stream: zstd(name).ZstdFile(stream)),
    (b"BZh", lambda name, stream: bz2.BZ2File(stream)),
    (b"\xfd7zXZ\x00", lambda name, stream: lzma.LZMAFile(stream)),  # noqa: SIM115
)


def not_text(name: str, lines_before: int, error: UnicodeDecodeError) -> ValueError:
    """Refuse a line that is not UTF-8."""
    broken = error.object[: error.start]
    line = lines_before + max(broken.count(b"\n"), broken.count(b"\r")) + 1
    advice = "save it as UTF-8 (of latin-1: iconv -f latin1 -t utf-8)"
    return ValueError(f"{name}, line {line}: is not text in UTF-8; {advice}")
