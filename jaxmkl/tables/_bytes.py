"""The bytes of a file or of standard input, decompressed where they are compressed."""

import contextlib
import importlib
import io
import lzma
import os
import select
import sys
import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, BinaryIO

from jaxmkl._archive import ALWAYS, TIMES, most_expanded
from jaxmkl._checks import refuse_unless
from jaxmkl.tables._words import number_in

SNIFFED = 2**16  # the first bytes, by which the format is recognised
AT_ONCE = 2**20  # bytes that are read at a time, of a file that is read whole
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
# the bytes with which compressed files begin, and the modules that decompress them
DECODERS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "lzma"),
    (b"\x28\xb5\x2f\xfd", ZSTD),
)


def suffices(start: bytes) -> bool:
    r"""Tell whether these first bytes have a line by which the format is recognised.

    It is a whole line that holds more than one number or a comment.

    >>> suffices(b"# plants\n1\n"), suffices(b"1\na,"), suffices(b"1\na,b\n")
    (False, False, True)
    """
    whole = start[: start.rfind(b"\n") + 1].decode("utf-8-sig", errors="replace")
    lines = (line.partition("#")[0].partition("%")[0].split() for line in whole.splitlines())
    return any(len(words) > 1 or (words and number_in(words[0]) is None) for words in lines)


class Peeked(io.RawIOBase):
    """A stream whose first bytes are known before it is read.

    A pipe is not waited for once bytes have come: the first ones end where they suffice.
    """

    def __init__(self, stream: Any) -> None:
        self.start, self._rest = stream.read1(SNIFFED), stream
        while len(self.start) < SNIFFED and not suffices(self.start):
            if not (more := stream.read1(SNIFFED - len(self.start))):
                break
            self.start += more
        self.left, self.taken = self.start, len(self.start)  # to be read again; of the stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.left[: len(buffer)]
        self.left = self.left[len(data) :]
        if not data:
            data = self._rest.read1(len(buffer))
            self.taken += len(data)
        buffer[: len(data)] = data
        return len(data)


class Bytes:
    """A stream of bytes that is read once; its beginning and the share read are known.

    Args:
      path: a file, or "-" for standard input.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: for a folder, an empty file, or a compressed file that is damaged.
      ImportError: for a file compressed by zstd, where the extra ``cli`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.is_file = os.fspath(path) != "-"
        self.name = os.fspath(path) if self.is_file else "standard input"
        refuse_unless(not os.path.isdir(path), f"{self.name}: is a folder; a file is wanted")
        self._raw: Any = open(path, "rb") if self.is_file else sys.stdin.buffer  # noqa: SIM115
        # a file in a folder can be opened again and sought in; a pipe cannot
        self.is_at_rest = self.is_seekable = self.is_file and os.path.isfile(path)
        self._size = os.fstat(self._raw.fileno()).st_size if self.is_seekable else 0
        try:
            with self.whole():
                self._bytes = peeked = Peeked(self._raw)
                found = [module for magic, module in DECODERS if peeked.start.startswith(magic)]
                self.is_compressed = bool(found)
                self.is_seekable &= not found
                for module in found:
                    decoder: Any = zstd(self.name, module)
                    peeked = Peeked(decoder.open(io.BufferedReader(peeked)))
            self.start, self.stream = peeked.start, io.BufferedReader(peeked)
            if not self.start.removeprefix(b"\xef\xbb\xbf").strip():
                raise ValueError(f"{self.name}: is empty")
        except BaseException:
            self.close()
            raise

    def has_come(self, seconds: float) -> bool:
        """Tell whether more of a pipe, or its end, comes within so many seconds.

        It does for files, what is compressed, and where the system cannot tell.
        """
        if self.is_at_rest or self.is_compressed or self._bytes.left:
            return True
        try:
            return bool(select.select([self._raw], [], [], max(0.0, seconds))[0])
        except (OSError, ValueError):  # no file of the system, or a pipe of Windows
            return True

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
            is_damage = isinstance(error, EOFError | zlib.error | lzma.LZMAError)
            is_damage |= isinstance(error, OSError) and error.errno is None
            if not is_damage and type(error).__name__ != "ZstdError":
                raise
            raise ValueError(f"{self.name}: is damaged: {error}") from None

    def whole_content(self) -> bytes:
        """Read all bytes; a compressed file must not hold more than :func:`most_expanded`."""
        with self.whole():
            if not self.is_compressed:
                return self.stream.read()
            parts, size = list[bytes](), 0
            while part := self.stream.read(AT_ONCE):
                parts.append(part)
                size += len(part)
                if size > most_expanded(self._bytes.taken):
                    text = f"expands to more than {ALWAYS >> 20} MiB and {TIMES} times its bytes"
                    raise ValueError(f"{self.name}: {text}; decompress it before")
            return b"".join(parts)

    def sought(self) -> BinaryIO:
        """The file itself, or its bytes in memory if it is a pipe or compressed."""
        return open(self.name, "rb") if self.is_seekable else io.BytesIO(self.whole_content())

    def share_read(self) -> float | None:
        """The share of the file that was read; None where its size is not known."""
        if not self._size or self._raw.closed:
            return None
        return min(1.0, self._raw.tell() / self._size)


def zstd(name: str, module: str = ZSTD) -> ModuleType:
    """Import the module that decompresses a file; its name is for the message."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(f'{name}: is compressed by zstd: pip install "jaxmkl[cli]"') from None


def is_text(text: str) -> bool:
    """Tell whether a text was UTF-8: other bytes have become surrogates."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def not_text(file: Bytes, line: int, text: str) -> str:
    """Say why a line of a file is not text; "" if it is."""
    if is_text(text):
        return ""
    old = "utf-16" if file.start.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin1"
    advice = f"save it as UTF-8 (of {old}: iconv -f {old} -t utf-8)"
    return f"{file.name}, line {line}: is not text in UTF-8; {advice}"
