"""The bytes of a file or of standard input, unpacked where they are packed."""

import contextlib
import gzip
import importlib
import io
import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

SNIFFED = 2**16  # bytes by which a format is found out
UNPACKERS = "backports", "compression", "_lzma"
GZIP, ZSTD, BZIP2, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"


class Peeked(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self.start, self.rest = start, rest

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self.start[: len(buffer)] or self.rest.read(len(buffer)) or b""
        self.start = self.start[len(data) :]
        buffer[: len(data)] = data
        return len(data)


class Bytes:
    """A stream of bytes that is read once, with its beginning and the share of it that was read.

    Args:
      path: a file, or "-" for standard input.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: for a folder, an empty file, or one that is packed and damaged.
      ImportError: for what zstd packed, where the extra ``cli`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        if os.path.isdir(self.name):
            raise ValueError(f"{self.name}: is a folder; a file is wanted")
        self.is_file = self.name != "-"
        self.name = self.name if self.is_file else "standard input"
        raw: Any = open(path, "rb") if self.is_file else sys.stdin.buffer  # noqa: SIM115
        self._raw, self._size = raw, os.fstat(raw.fileno()).st_size if self.is_file else 0
        try:
            with self.whole():
                self._begin()
            if not self.start.removeprefix(b"\xef\xbb\xbf").strip():
                raise ValueError(f"{self.name}: is empty")
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        start = self._raw.read(SNIFFED)
        self.is_packed = any(start.startswith(magic) for magic in (GZIP, ZSTD, BZIP2, XZ))
        stream = io.BufferedReader(Peeked(start, self._raw))
        if self.is_packed:
            unpacked = self._unpacked(start, stream)
            start = unpacked.read(SNIFFED)
            stream = io.BufferedReader(Peeked(start, unpacked))
        self.start, self.stream = start, stream

    def __enter__(self) -> "Bytes":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self.is_file:
            self._raw.close()

    def _unpacked(self, start: bytes, stream: BinaryIO) -> Any:
        if start.startswith(GZIP):
            return gzip.GzipFile(fileobj=stream)
        if start.startswith(BZIP2):
            import bz2

            return bz2.BZ2File(stream)
        if start.startswith(XZ):
            import lzma

            return lzma.LZMAFile(stream)
        return zstd(self.name).ZstdFile(stream)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Turn what a damaged file raises while it is read into a ``ValueError``."""
        try:
            yield
        except (EOFError, zlib.error) as error:
            raise ValueError(f"{self.name}: is damaged: {error}") from None
        except Exception as error:
            unpacking = type(error).__module__.partition(".")[0] in UNPACKERS
            # what bz2 and gzip raise of their own has no number, unlike the system's errors
            if not unpacking and not (isinstance(error, OSError) and error.errno is None):
                raise
            raise ValueError(f"{self.name}: is damaged: {error}") from None

    def share_read(self) -> float | None:
        """The share of the file that was read; None where its size is not known."""
        if not self._size or self._raw.closed:
            return None
        return min(1.0, self._raw.tell() / self._size)

    def text(self) -> io.TextIOWrapper:
        """The stream as text in UTF-8, line ends as they stand."""
        return io.TextIOWrapper(self.stream, "utf-8-sig", newline="")


def zstd(name: str) -> Any:
    """The module that unpacks what zstd packed."""
    try:
        module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(f'{name}: is packed by zstd: pip install "jaxmkl[cli]"') from None


def not_text(name: str, lines_before: int, error: UnicodeDecodeError) -> ValueError:
    """The refusal of a line that is not UTF-8."""
    broken = error.object[: error.start]
    line = lines_before + max(broken.count(b"\n"), broken.count(b"\r")) + 1
    advice = "save it as UTF-8 (of latin-1: iconv -f latin1 -t utf-8)"
    return ValueError(f"{name}, line {line}: is not text in UTF-8; {advice}")
