"""Reading untrusted archives of arrays (npz): arrays are complete, and no code is run."""

import math
import os
import sys
import zipfile
from collections import Counter
from typing import BinaryIO

import numpy as np

from jaxmkl._checks import refuse_unless


class Archive:
    """An open npz file; no memory is allocated for sizes that a file merely declares.

    Args:
      file: a seekable file.
      most: the largest number of bytes of all arrays together, if more than the size of the file.

    Raises:
      ValueError: if two members have one name, or an array holds Python objects, has another
        length than it declares, or takes too much. Damaged bytes also raise a dozen other kinds
        of errors, of zipfile, zlib and NumPy.

    >>> import io
    >>> np.savez(file := io.BytesIO(), x=np.arange(3))
    >>> Archive(file).keys, Archive(file).read("x")
    (['x'], array([0, 1, 2]))
    """

    def __init__(self, file: BinaryIO, most: int = 0) -> None:
        self._left = max(most, file.seek(0, os.SEEK_END))
        self._zip = zipfile.ZipFile(file)
        names = self._zip.namelist()
        self._names = {name.removesuffix(".npy"): name for name in names}
        twice = [key for key, n in Counter(n.removesuffix(".npy") for n in names).items() if n > 1]
        refuse_unless(not twice, f"it holds {', '.join(twice)} more than once")
        self.keys = sorted(self._names)

    def read(self, key: str) -> np.ndarray:
        """The array with this key."""
        name = self._names[key]
        size = self._zip.getinfo(name).file_size
        self._left -= size
        refuse_unless(
            self._left >= 0, f"unpacked {key} would take {size} bytes, which is too much"
        )
        with self._zip.open(name) as member:
            version = np.lib.format.read_magic(member)
            one = version == (1, 0)
            header = "read_array_header_1_0" if one else "read_array_header_2_0"
            shape, _, dtype = getattr(np.lib.format, header)(member)
            text = f"{key} holds Python objects, which could run code"
            refuse_unless(not dtype.hasobject, text)
            wanted, there = math.prod(shape) * dtype.itemsize, size - member.tell()
            text = f"{key} says it is {dtype} of shape {shape}, {wanted} bytes; it has {there}"
            refuse_unless(wanted == there and min(shape, default=0) >= 0, text)
        with self._zip.open(name) as member:
            array = np.lib.format.read_array(member, allow_pickle=False)
        if dtype.kind == "U" and array.size and dtype.itemsize:
            letters = array.astype(dtype.newbyteorder("=")).ravel().view(np.uint32)
            refuse_unless(np.max(letters) <= sys.maxunicode, f"{key} holds invalid text")
        return array
