"""Files that appear complete or not at all, and locks that keep a file to one process."""

import contextlib
import errno
import glob
import os
import pathlib
import re
import secrets
import threading
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

LONGEST = 32  # characters in a lock file, at most
FAR = 2**31 - 2  # the byte that Windows locks, beyond the end of all files here


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str], keep: bool = False) -> Iterator[BinaryIO]:
    """Do as :func:`replaced`, for what is written at once: an interrupt waits for the end."""
    with interrupts_later(), replaced(path, keep) as file:
        yield file


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str], keep: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at ``path`` once it is complete and on the disk.

    After an error or an interrupt the old file is unchanged, no other file is left, and an error
    about this file names ``path``. Files left behind by killed processes are removed. A device or
    a pipe is written to directly.

    Args:
      path: the file.
      keep: whether the old file is kept, as ``path`` + ``.before``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced(f"{folder}/it") as file:
    ...         number = file.write(b"12")
    ...     os.listdir(folder)
    ['it']
    """
    place = os.path.realpath(path)
    with named(path):
        if is_special(path):  # /dev/stdout leads to a name that is no path
            with open(path, "wb") as device:
                yield device
            return
        _sweep(place)
        partial, file = _partial(place)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":  # Windows cannot move an open file
                    file.close()
                if keep:
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(place, f"{place}.before")
                os.replace(partial, place)
        except BaseException:
            pathlib.Path(partial).unlink(missing_ok=True)
            raise


def is_special(path: str | os.PathLike[str]) -> bool:
    """True if something at the path is neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let a system error name the file that the caller gave, unless it is about another file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and _is_about(error, path):
            error.filename = os.fspath(path)
            if error.filename2 is not None:
                del error.filename2
        raise


def _is_about(error: OSError, path: str | os.PathLike[str]) -> bool:
    """True if an error names no file, the one at the path, or one that is written beside it."""
    if not isinstance(error.filename, str | os.PathLike):
        return True
    place, name = os.path.realpath(path), os.path.realpath(error.filename)
    return re.fullmatch(rf"{re.escape(place)}(\.lock|\.[0-9a-f]{{8}}\.partial)?", name) is not None


def _partial(place: str) -> tuple[str, BinaryIO]:
    """A new file beside another, locked by this process."""
    while True:
        name = f"{place}.{secrets.token_hex(4)}.partial"
        file = open(name, "xb")  # noqa: SIM115 (closed by the caller)
        if is_taken(file) is not False and _is_at(name, file):
            return name, file
        file.close()  # another process has just removed it


def _sweep(place: str) -> None:
    """Remove files that killed processes left beside a file, but none that is being written."""
    for name in glob.glob(f"{glob.escape(place)}.{'[0-9a-f]' * 8}.partial"):
        with contextlib.suppress(OSError):
            file = open(name, "r+b")  # noqa: SIM115 (closed below)
            if is_taken(file):
                _remove(name, file)
            file.close()


def is_taken(file: IO[Any]) -> bool | None:
    """Try to lock a file, open for writing; return whether this process now has the lock.

    The lock ends when the file is closed, or with the process. The answer is False if another
    process has it, and None if the file system has no locks.
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
    os.lseek(number, FAR, os.SEEK_SET)  # other processes may read the bytes before
    try:
        system.locking(number, system.LK_NBLCK, 1)
    finally:
        os.lseek(number, stands, os.SEEK_SET)


def _is_at(name: str, file: IO[Any]) -> bool:
    """True if the open file is still the one at that path."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove(name: str, file: IO[Any]) -> None:
    """Remove and close a file that this process has locked; no other can lock it in between."""
    if os.name == "nt":  # Windows cannot remove an open file
        file.close()
    with contextlib.suppress(OSError):
        os.unlink(name)
    file.close()


@contextlib.contextmanager
def kept_from_others(path: str | os.PathLike[str]) -> Iterator[None]:
    """Reserve a file, whether it exists or not, for this process by a lock file beside it.

    ``path`` + ``.lock`` holds the number of the process, and is removed at the end. A lock file
    that a killed process left behind is ignored. A file of that name with anything else in it is
    somebody's own, and stays as it is.

    Raises:
      OSError: another process has the file, nothing can be written beside it, or the name of the
        lock file is taken.
    """
    name = f"{os.path.realpath(path)}.lock"
    with named(path):
        while True:
            file = open(name, "a+b", buffering=0)  # noqa: SIM115 (closed by _remove)
            is_ours = is_taken(file)
            file.seek(0)
            holder = file.read(LONGEST).decode(errors="replace")
            if not re.fullmatch("[0-9]*", holder) or len(holder) == LONGEST:
                file.close()
                text = f"its lock file would be {name}, which holds something else"
                raise FileExistsError(errno.EEXIST, f"{text}; name another file")
            if is_ours is False:
                file.close()
                text = f"another process{f', {holder},' if holder else ''} writes it; end that one"
                if holder == str(os.getpid()):  # by a name in other letter case
                    text = f"this process, {holder}, writes it already; give it up"
                raise BlockingIOError(errno.EAGAIN, f"{text}, or name another file")
            if _is_at(name, file):
                break
            file.close()  # its owner has just removed it
    try:
        with named(path):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield
    finally:
        _remove(name, file)


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Delay interrupts to the end, so that none strikes amid a clean-up or is merely printed."""
    import signal  # which only what is saved needs

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
