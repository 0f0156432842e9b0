"""Reading untrusted archives (zip and npz): whole members, within a limit, and no code is run.

One rule holds for all that is compressed and read as a whole: it may expand to 100 times the bytes
of its file, and always to 256 MiB (:func:`most_expanded`).
"""

import contextlib
import errno
import math
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from jaxmkl._checks import refuse_unless

ALWAYS, TIMES = 2**28, 100


def most_expanded(compressed: int) -> int:
    """Return the number of bytes to which a file of ``compressed`` bytes may expand.

    >>> most_expanded(10), most_expanded(10**9)
    (268435456, 100000000000)
    """
    return max(ALWAYS, TIMES * compressed)


def is_archive_of(path: str | os.PathLike[str], member: str) -> bool:
    """True if the file is a zip archive with a member of this name; damaged ones are not."""
    try:
        with zipfile.ZipFile(path) as archive:
            return member in archive.namelist()
    except Exception:  # zipfile raises several kinds
        return False


@contextlib.contextmanager
def damage(what: str) -> Iterator[None]:
    """Raise what damaged bytes raise as a ``ValueError``; errors of the system stay as they are.

    >>> with damage("load: m.npz is not a readable checkpoint"):
    ...     raise zipfile.BadZipFile("no zip file")
    Traceback (most recent call last):
    ValueError: load: m.npz is not a readable checkpoint: no zip file
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds
        # damaged offsets make zipfile seek to where no byte can be
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{what}: {error}") from None


class Header(NamedTuple):
    """The shape and the dtype that an array of an archive declares."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Archive:
    """An open zip or npz file; no memory is allocated for sizes that a file merely declares.

    Args:
      file: a seekable file.
      is_compressed: whether members may be compressed, and expand together to
        :func:`most_expanded` bytes; otherwise, as in this library's files, to those of the file.

    Raises:
      ValueError: if two members have one name, one is compressed as NumPy does not, or an array
        holds Python objects, has another length than it declares, or takes too much. Damaged bytes
        also raise a dozen other kinds of errors, of zipfile, zlib and NumPy (:func:`damage`).

    >>> import io
    >>> np.savez(file := io.BytesIO(), x=np.arange(3))
    >>> Archive(file).keys, Archive(file).read("x")
    (['x'], array([0, 1, 2]))
    """

    def __init__(self, file: BinaryIO, is_compressed: bool = False) -> None:
        size = file.seek(0, os.SEEK_END)
        self._left = most_expanded(size) if is_compressed else size
        self._advice = "; numpy.savez writes arrays uncompressed, of any size" * is_compressed
        self._zip = zipfile.ZipFile(file)
        names = self._zip.namelist()
        self._names = {name.removesuffix(".npy"): name for name in names}
        twice = [key for key, n in Counter(n.removesuffix(".npy") for n in names).items() if n > 1]
        refuse_unless(not twice, f"it holds {', '.join(twice)} more than once")
        self.keys = sorted(self._names)

    def _take(self, key: str) -> zipfile.ZipInfo:
        """Find a member, and count its bytes."""
        member = self._zip.getinfo(self._names[key])
        kinds = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED  # others expand without a limit
        refuse_unless(member.compress_type in kinds, f"{key} is compressed in an unknown way")
        self._left -= member.file_size
        text = f"{key} would expand to {member.file_size} bytes, which is too much"
        refuse_unless(self._left >= 0, f"{text}{self._advice}")
        return member

    def content(self, key: str) -> bytes:
        """The bytes of this member."""
        return self._zip.read(self._take(key))

    def header(self, key: str) -> Header:
        """The declared shape and dtype of the array with this key."""
        member = self._zip.getinfo(self._names[key])
        with self._zip.open(member) as file:
            version = np.lib.format.read_magic(file)
            one = version == (1, 0)
            name = "read_array_header_1_0" if one else "read_array_header_2_0"
            shape, _, dtype = getattr(np.lib.format, name)(file)
            text = f"{key} holds Python objects, which could run code"
            refuse_unless(not dtype.hasobject, text)
            wanted, there = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
            text = f"{key} says it is {dtype} of shape {shape}, {wanted} bytes; it has {there}"
            refuse_unless(wanted == there and min(shape, default=0) >= 0, text)
        return Header(shape, dtype)

    def read(self, key: str) -> np.ndarray:
        """The array with this key."""
        member = self._take(key)
        dtype = self.header(key).dtype
        with self._zip.open(member) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        if dtype.kind == "U" and array.size and dtype.itemsize:
            letters = array.astype(dtype.newbyteorder("=")).ravel().view(np.uint32)
            refuse_unless(np.max(letters) <= sys.maxunicode, f"{key} holds invalid text")
        return array
