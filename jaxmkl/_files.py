"""Files that appear whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import signal
import threading
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which is at ``path`` once all is on the disk.

    After an error all is as before, with nothing beside it. An interrupt waits for the end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(f"{folder}/it") as file:
    ...         number = file.write(b"12")
    ...     os.listdir(folder)
    ['it']
    """
    partial = f"{os.fspath(path)}.{secrets.token_hex(4)}.partial"
    with interrupts_later():
        try:
            with open(partial, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            pathlib.Path(partial).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Have an interrupt raise at the end, not amid a clean-up, or where Python only prints it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *signalled: came.append(signalled))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[-1])
