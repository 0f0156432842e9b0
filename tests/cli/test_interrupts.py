"""Interrupts of the command: each is noticed at any moment, and loses nothing."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from test_kept import assert_same, command, made, outcome

from jaxmkl.cli import main, predict, prequential, run, select

SMALL_PROGRAMS = True
pytestmark = pytest.mark.usefixtures("short_chunks")
SMALL = ["--learner", "raker", "--seeds", "1", "--delay", "0"]


@pytest.fixture(autouse=True)
def supervised():
    """Signals are noticed: what is begun in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def send(number=signal.SIGINT):
    """Send this process a signal; the main thread has received it when this returns."""
    os.kill(os.getpid(), number)
    time.sleep(0.3)


def amid(monkeypatch, number, act):
    """Have an act happen amid the learner that is given so many chunks."""
    calls, original = [], prequential.Runner.run

    def counted(self, X, y):
        calls.append(len(y))
        if len(calls) == number:
            act()
        return original(self, X, y)

    monkeypatch.setattr(prequential.Runner, "run", counted)


class Left:
    """An error raised where this is deleted is printed, and forgotten."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def in_a_callback_of_the_collector():
    """As JAX discards what is raised while garbage is collected."""

    def callback(phase, about):
        gc.callbacks.remove(callback)
        send()

    gc.callbacks.append(callback)
    gc.collect()


def endless():
    """A computation that does not end."""
    send()
    threading.Event().wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "status", "rows"),
    [
        (in_a_callback_of_the_collector, 130, 192),
        pytest.param(lambda: Left(send), 130, 192, marks=pytest.mark.endless),
        (lambda: send(signal.SIGTERM), 143, 192),
        (endless, 130, 128),
    ],
    ids=["collector", "deleted", "terminated", "endless"],
)
def test_an_interrupt_ends_a_run_and_loses_nothing(
    act, status, rows, flowers, tmp_path, monkeypatch, capsys
):
    parts, whole = ([*command(flowers, tmp_path / name), *SMALL] for name in ("parts", "whole"))
    parts += ["--checkpoint", str(tmp_path / "kept")]
    with monkeypatch.context() as patched:
        patched.setattr(run, "PATIENCE", 0.5 if act is endless else 600.0)
        amid(patched, 3, act)
        assert main(parts) == status
    said = capsys.readouterr()
    assert f"interrupted after {rows} rows; the same command continues" in said.err
    assert "raker" in said.out
    assert sorted(os.listdir(tmp_path / "parts")) == ["model", "run.json", "said.csv"]
    assert main(parts) == main(whole) == 0
    assert_same(outcome(tmp_path / "parts"), outcome(tmp_path / "whole"))


@pytest.mark.slow
def test_an_interrupt_while_files_are_closed(flowers, tmp_path, monkeypatch, capsys):
    line, close = [*command(flowers, tmp_path / "folder"), *SMALL], run.Run.close
    with monkeypatch.context() as patched:
        patched.setattr(run.Run, "close", lambda self: (send(), close(self)))
        assert main(line) == 130
    assert sorted(os.listdir(tmp_path / "folder")) == ["model", "run.json", "said.csv"]


# --- processes -----------------------------------------------------------------------------------

ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu"}


def started(line, **environment):
    said = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    line = [sys.executable, "-m", "jaxmkl", *line]
    return subprocess.Popen(line, env=ENVIRONMENT | environment, **said)


def test_an_interrupt_amid_the_imports(tmp_path):
    (tmp_path / "jax.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    process = started(["run", "table.csv"], PYTHONPATH=paths)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


def test_an_interrupt_while_rows_are_waited_for(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    process = started(["run", str(tmp_path / "rows.csv"), "--json", str(tmp_path / "run.json")])
    with open(tmp_path / "rows.csv", "w") as rows:  # once the command opens it, too
        rows.write("a,y\n1,2\n")
        rows.flush()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "jaxmkl: interrupted\n")
    assert os.listdir(tmp_path) == ["rows.csv"]


PATIENT = """
import threading
from jaxmkl.cli.interrupts import Interrupts
with Interrupts() as interrupts:
    interrupts.patience = float("inf")
    print("begun", flush=True)
    interrupts.supervise(threading.Event().wait)
"""


def test_the_second_interrupt_ends_at_once():
    line = [sys.executable, "-c", PATIENT]
    with subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


LATE = """
import os, signal, sys
from jaxmkl import cli

class Late:
    flush = staticmethod(lambda: os.kill(os.getpid(), signal.SIGINT))

cli.main, sys.stdout = lambda: 0, Late()
sys.exit(cli.entry())
"""


def test_an_interrupt_once_all_is_done():
    process = subprocess.run([sys.executable, "-c", LATE], env=ENVIRONMENT, timeout=60)
    assert process.returncode == 130


BEFORE = """
import gc, os, signal, sys
from jaxmkl import cli
from jaxmkl.cli import show

def callback(phase, about):  # as JAX's, in which what is raised is printed and forgotten
    gc.callbacks.remove(callback)
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(10**6))

def needs(*names):
    gc.callbacks.append(callback)
    gc.collect()

show.needs_rich = needs
sys.argv = ["jaxmkl", *sys.argv[1:]]
sys.exit(cli.entry())
"""


@pytest.mark.parametrize("name", ["select", pytest.param("run", marks=pytest.mark.slow)])
def test_an_interrupt_amid_a_collection_before_the_work_begins(name, tmp_path):
    """Whichever program calls ``entry``: nothing is raised where it would be lost."""
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,5\n4,4\n")
    line = [sys.executable, "-c", BEFORE, name, "t.csv", *["--num", "2"] * (name == "select")]
    found = subprocess.run(line, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, timeout=100)
    assert (found.returncode, found.stdout) == (130, b"")
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["predict", "select"])
def test_an_interrupt_amid_a_file_leaves_nothing_beside_it(
    name, flowers, tmp_path, monkeypatch, capsys
):
    """Neither a part of the file nor its lock, and the old file stands."""
    line, out = [*command(flowers, tmp_path / "folder"), *SMALL], tmp_path / "folder" / "out"
    assert main(line) == 0
    out.write_text("old")
    before = sorted(os.listdir(tmp_path / "folder"))
    given = {"predict": [str(tmp_path / "folder" / "model"), str(flowers)]}
    given["select"] = [str(flowers), "--num", "2"]
    module = {"predict": predict, "select": select}[name]
    monkeypatch.setattr(module, f"_{name}", lambda *given: endless())
    assert main([name, *given[name], "--out", str(out)]) == 130
    assert capsys.readouterr().err.endswith("jaxmkl: interrupted\n")
    assert (sorted(os.listdir(tmp_path / "folder")), out.read_text()) == (before, "old")


@pytest.mark.endless
def test_interrupts_at_every_moment_of_a_start(tmp_path):
    """A run never reaches its end, from the first of its moments to the last."""
    made(tmp_path / "long.svm", 300_000, 5, 5_000)
    for i in range(60):
        with started(["run", str(tmp_path / "long.svm"), "--learner", "raker"]) as process:
            time.sleep(0.5 + 0.1 * i)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 130 or "init_import_site" in errors, (i, errors)


@pytest.mark.endless
@pytest.mark.parametrize(("number", "most"), [(1, 8), (200, 10)])
def test_interrupted_at_random_moments(number, most, tmp_path):
    """Interrupt a run so often, each time within so many seconds, and compare where it ends."""
    made(tmp_path / "long.svm", 300_000, 5, 5_000)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    draws, came = random.Random(0), 0

    def ended(folder, seconds=None):
        """True if the run came to its end, uninterrupted."""
        kept = ["--checkpoint", str(folder / "kept")]
        with started([*command(tmp_path / "long.svm", folder), *SMALL, *kept]) as process:
            try:
                assert process.wait(seconds) == 0
                return True
            except subprocess.TimeoutExpired:
                began = time.monotonic()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate()
        assert time.monotonic() - began < 3
        # Python itself has not begun, or is about to
        too_early = process.returncode == -signal.SIGINT or "init_import_site" in errors
        assert process.returncode == 130 or too_early
        return False

    assert ended(whole)
    while came < number:
        if not ended(parts, draws.uniform(0, most)):
            came += 1
            continue
        assert_same(outcome(parts), outcome(whole))
        for file in parts.iterdir():
            file.unlink()
    assert ended(parts)
    assert_same(outcome(parts), outcome(whole))
