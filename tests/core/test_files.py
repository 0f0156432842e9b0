"""Files appear whole or not at all, whatever comes meanwhile; and an interrupt is never lost."""

import contextlib
import errno
import itertools
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading

import pytest

from jaxmkl import _files
from jaxmkl._files import _partial, written_whole

CONTENT = bytes(range(256)) * 20


@pytest.fixture(params=[None, b"what was there"], ids=["no file", "old file"])
def path(request, tmp_path):
    path = tmp_path / "it"
    if request.param is not None:
        path.write_bytes(request.param)
    return path


@pytest.fixture(autouse=True)
def listening():
    """Interrupts are noticed: what is begun in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def contents(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def write(path, *amid):
    with written_whole(path) as file:
        file.write(CONTENT[:1000])
        for event in amid:
            event()
        file.write(CONTENT[1000:])


def interrupt():
    signal.raise_signal(signal.SIGINT)


def no_space():
    raise OSError(errno.ENOSPC, "no space left")


def test_the_file_is_there_at_the_end(path):
    before = contents(path)
    write(path, lambda: None)
    assert contents(path) == before | {"it": CONTENT}


def test_a_disk_that_takes_no_more(path):
    before, (soft, hard) = contents(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # bytes of a file
    try:
        with pytest.raises(OSError, match="File too large"):
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(path) == before


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt("now")])
def test_an_error_amid_the_writing(path, error):
    def fail():
        raise error

    before = contents(path)
    with pytest.raises(type(error)) as raised:
        write(path, fail)
    assert raised.value is error
    assert contents(path) == before


def test_an_error_names_the_file(path):
    with pytest.raises(OSError, match=r"No space left on device: '.*it'$"), written_whole(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError) as raised, written_whole(path.parent / "gone" / "it"):
        pass
    assert raised.value.filename == str(path.parent / "gone" / "it")
    with pytest.raises(IsADirectoryError) as raised, written_whole(path.parent):
        pass
    assert str(raised.value).endswith(f"Is a directory: '{path.parent}'")


@pytest.mark.parametrize("name", ["other", "it.other"])
def test_an_error_about_another_file_names_that_one(path, name):
    other, before = path.parent / name, contents(path)
    with pytest.raises(FileNotFoundError) as raised:
        write(path, lambda: other.read_bytes())
    assert raised.value.filename == str(other)
    assert contents(path) == before


def test_a_device_is_written_to_as_it_is(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write(pathlib.Path("/dev/full"))
    assert pathlib.Path("/dev/full").is_char_device()


def test_what_a_killed_process_left_goes(path):
    before = contents(path)
    name, file = _partial(str(path))
    write(path)
    assert contents(path) == before | {"it": CONTENT, pathlib.Path(name).name: b""}
    file.close()  # as the system does for one that is killed
    write(path)
    assert contents(path) == before | {"it": CONTENT}


def test_the_file_before_is_kept(path):
    before = contents(path)
    with written_whole(path, keep=True) as file:
        file.write(b"1")
    kept = {"it.before": before["it"]} if before else {}
    assert contents(path) == {"it": b"1"} | kept


def test_an_interrupt_waits_for_the_file(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, interrupt)
    assert contents(path) == {"it": CONTENT}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_is_not_lost_where_an_exception_would_be(path):
    class Left:
        def __del__(self):  # what is raised here is printed, and forgotten
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        write(path, Left)
    assert contents(path) == {"it": CONTENT}


def test_an_interrupt_before_an_error(path):
    before = contents(path)
    with pytest.raises(KeyboardInterrupt) as raised:
        write(path, interrupt, no_space)
    assert isinstance(raised.value.__context__, OSError)
    assert contents(path) == before


@pytest.mark.parametrize("amid", [(), (no_space,)], ids=["whole", "full disk"])
def test_an_interrupt_at_any_instruction(path, amid):
    """At each in turn, contextlib's among them: it is raised, and no part of a file stays."""
    places = {_files.__file__, contextlib.__file__}
    before = contents(path)
    ends = [before] if amid else [before, before | {"it": CONTENT}]
    for number in itertools.count():
        counted = 0

        def trace(frame, event, argument, number=number):
            nonlocal counted
            if frame.f_code.co_filename not in places:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                counted += 1
                if counted == number + 1:
                    interrupt()
            return trace

        error = None
        tracing = sys.gettrace()
        sys.settrace(trace)
        try:
            write(path, *amid)
        except BaseException as raised:
            error = type(raised)
        finally:
            sys.settrace(tracing)
        found = contents(path)
        if counted <= number:
            break
        assert error is KeyboardInterrupt, number
        assert found in ends, number
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert number > 100
    assert error is (OSError if amid else None)


def test_in_a_thread_that_takes_no_signals(path):
    thread = threading.Thread(target=write, args=(path,))
    thread.start()
    thread.join()
    assert contents(path) == {"it": CONTENT}


OF_WINDOWS = """
import os, sys
from types import SimpleNamespace
sys.modules |= dict.fromkeys(("fcntl", "resource", "termios", "tty"))
import jaxmkl
from jaxmkl._files import kept_from_others
from jaxmkl.cli import main

taken = set()

def locking(number, mode, count):
    at = os.fstat(number).st_ino, os.lseek(number, 0, os.SEEK_CUR)
    if at in taken:
        raise PermissionError(13, "Permission denied")
    taken.add(at)

sys.modules["msvcrt"] = SimpleNamespace(LK_NBLCK=2, locking=locking)
with kept_from_others("it"):
    try:
        with kept_from_others("it"):
            print("twice")
    except BlockingIOError as error:
        print(str(os.getpid()) in str(error))
print(main(["info", "gone"]), os.listdir())
"""


@pytest.mark.slow
def test_what_windows_lacks_is_not_wanted(tmp_path):
    """Its own lock stands in for that of other systems; it is one of a byte of an open file."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    # JAX warns that its own files have no lock
    quiet = ["-W", "ignore:only soft file lock is available"]
    line = [sys.executable, *quiet, "-c", OF_WINDOWS]
    found = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.stdout == "True\n2 []\n", found.stderr
    assert found.stderr == "jaxmkl: gone: No such file or directory\n"
