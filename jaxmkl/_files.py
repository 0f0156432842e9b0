"""Files that appear whole or not at all, and files that one process at a time may have."""

import contextlib
import errno
import glob
import os
import pathlib
import secrets
import signal
import threading
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

FAR = 2**31 - 2  # a byte that no file here has, which Windows locks


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str], keep: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which is at ``path`` once all is on the disk.

    After an error all is as before, with nothing beside it, and the error names ``path``. An
    interrupt waits for the end. What a killed process left beside the file goes. A device or a
    pipe is written to as it is.

    Args:
      path: the file.
      keep: whether the file that was there stays, as ``path`` + ``.before``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(f"{folder}/it") as file:
    ...         number = file.write(b"12")
    ...     os.listdir(folder)
    ['it']
    """
    place = os.path.realpath(path)
    with interrupts_later(), named(path):
        if is_special(place):
            with open(place, "wb") as device:
                yield device
            return
        _sweep(place)
        partial, file = _partial(place)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":  # where nothing is moved that is open
                    file.close()
                if keep:
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(place, f"{place}.before")
                os.replace(partial, place)
        except BaseException:
            pathlib.Path(partial).unlink(missing_ok=True)
            raise


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether something is at the path that is neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have an error of the system name the file that the caller gave."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = os.fspath(path)
        if error.filename2 is not None:
            del error.filename2
        raise


def _partial(place: str) -> tuple[str, BinaryIO]:
    """A new file beside another, held by this process."""
    while True:
        name = f"{place}.{secrets.token_hex(4)}.partial"
        file = open(name, "xb")  # noqa: SIM115 (closed by the caller)
        if is_taken(file) is not False and _is_at(name, file):
            return name, file
        file.close()  # a sweep came between


def _sweep(place: str) -> None:
    """Remove what killed processes left beside a file; what another is writing stays."""
    for name in glob.glob(f"{glob.escape(place)}.*.partial"):
        with contextlib.suppress(OSError):
            file = open(name, "r+b")  # noqa: SIM115 (closed below)
            if is_taken(file):
                _remove(name, file)
            file.close()


def is_taken(file: IO[Any]) -> bool | None:
    """Whether this process now has a file, open for writing, to itself.

    The system lets go of it when the file is closed or the process ends, however it does. False
    if another has it, None where the file system has no locks.
    """
    number = file.fileno()
    try:
        try:
            import fcntl
        except ImportError:
            _take_on_windows(number)
        else:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def _take_on_windows(number: int) -> None:
    import msvcrt

    system: Any = msvcrt
    stands = os.lseek(number, 0, os.SEEK_CUR)
    os.lseek(number, FAR, os.SEEK_SET)  # others may read what is before
    try:
        system.locking(number, system.LK_NBLCK, 1)
    finally:
        os.lseek(number, stands, os.SEEK_SET)


def _is_at(name: str, file: IO[Any]) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove(name: str, file: IO[Any]) -> None:
    """Remove and close a file that this process has taken: so that no other takes it between."""
    if os.name == "nt":  # where nothing is removed that is open
        file.close()
    with contextlib.suppress(OSError):
        os.unlink(name)
    file.close()


@contextlib.contextmanager
def kept_from_others(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a file to this process, whether it exists or not, by a lock beside it.

    ``path`` + ``.lock`` holds the number of the process; it is removed at the end. One that a
    killed process left behind keeps nobody out.

    Raises:
      OSError: another process has the file, or nothing can be written beside it.
    """
    name = f"{os.path.realpath(path)}.lock"
    with named(path):
        while True:
            file = open(name, "a+b", buffering=0)  # noqa: SIM115 (closed by _remove)
            if is_taken(file) is False:
                file.seek(0)
                holder = file.read().decode()
                file.close()
                text = f"another process{f', {holder},' if holder else ''} writes it"
                raise BlockingIOError(errno.EAGAIN, f"{text}; end that one, or name another file")
            if _is_at(name, file):
                break
            file.close()  # whoever had it has just removed it
    try:
        with named(path):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield
    finally:
        _remove(name, file)


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
