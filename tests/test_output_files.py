"""What runs write: tried before the first row, kept from other processes, each on its own."""

import errno
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_kept import flowers  # noqa: F401 (a fixture)

from jaxmkl._files import kept_from_others
from jaxmkl.cli import kept, main, play
from jaxmkl.tables import source

SMALL_PROGRAMS = True
OPTIONS = ["--checkpoint", "--predictions", "--save", "--json", "--report"]
SMALL = ["--learner", "raker", "--set", "num_features=4", "--first", "60"]


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(source, "ROWS", 64)


@pytest.fixture
def nothing_is_played(monkeypatch):
    def refuse(*given):
        raise AssertionError("a row was played")

    monkeypatch.setattr(play.Player, "play", refuse)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.usefixtures("nothing_is_played")
def test_files_are_tried_before_the_first_row(option, flowers, tmp_path, capsys):  # noqa: F811
    (tmp_path / "folder").mkdir()
    before, table = sorted(os.listdir(tmp_path)), flowers.read_bytes()
    tries = {
        "gone/it": "does not exist",
        "flowers.csv/it": "does not exist",
        "folder": "is not a file",
        "flowers.csv": "is also named by FILE",
        "n" * 300: "File name too long",
    }
    for name, message in tries.items():
        line = ["run", str(flowers), *SMALL, option, str(tmp_path / name)]
        assert main(line) == 2, name
        said = capsys.readouterr().err
        assert said.startswith(f"jaxmkl: {option}: {tmp_path / name}"), name
        assert message in said
    assert (sorted(os.listdir(tmp_path)), flowers.read_bytes()) == (before, table)


@pytest.mark.usefixtures("nothing_is_played")
def test_two_options_name_two_files(flowers, tmp_path, capsys):  # noqa: F811
    line = ["run", str(flowers), "--save", str(tmp_path / "it")]
    assert main([*line, "--json", str(tmp_path / "folder" / ".." / "it")]) == 2
    assert "is also named by --save" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["flowers.csv"]


# --- other processes -----------------------------------------------------------------------------

HOLD = """
import sys, threading
from jaxmkl._files import kept_from_others
with kept_from_others(sys.argv[1]):
    print("kept", flush=True)
    sys.stdin.read()
"""


def holding(path):
    line = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"kept\n"
    return process


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_played")
def test_a_second_process_is_refused(flowers, tmp_path, capsys):  # noqa: F811
    (tmp_path / "predictions").write_text("of the first\n")
    with holding(tmp_path / "predictions") as process:
        for option in OPTIONS * 2:
            line = ["run", str(flowers), *SMALL, option, str(tmp_path / "predictions")]
            assert main(line) == 2
            text = f"another process, {process.pid}, writes it; end that one, or name another file"
            wanted = f"jaxmkl: {option}: {tmp_path / 'predictions'}: {text}\n"
            assert capsys.readouterr().err == wanted
        assert (tmp_path / "predictions").read_text() == "of the first\n"
        process.communicate()
    assert sorted(os.listdir(tmp_path)) == ["flowers.csv", "predictions"]


def test_a_killed_process_keeps_nobody_out(tmp_path):
    with holding(tmp_path / "it") as process:
        process.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == ["it.lock"]
    with kept_from_others(tmp_path / "it"):
        assert (tmp_path / "it.lock").read_text() == str(os.getpid())
    assert os.listdir(tmp_path) == []


def test_of_many_one_at_a_time_has_a_file(tmp_path):
    """Locks come and go: nobody takes one that another has removed."""
    inside, most, got = [], [], []

    def one(_):
        for _ in range(200):
            try:
                with kept_from_others(tmp_path / "it"):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
                    got.append(1)
            except BlockingIOError:
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    assert max(most) == 1
    assert len(got) >= 200 // 8
    assert os.listdir(tmp_path) == []


# --- each on its own -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--report", "--predictions"])
def test_one_that_fails_leaves_the_others(option, flowers, tmp_path, capsys):  # noqa: F811
    names = {"--save": "model", "--json": "run.json", "--predictions": "said.csv"}
    names |= {"--checkpoint": "kept", "--report": "page.html"}
    del names[option]
    paths = [text for name, file in names.items() for text in (name, str(tmp_path / file))]
    line = ["run", str(flowers), *SMALL, *paths, option, "/dev/full", "--every", "100"]
    assert main(line) == 1
    said = capsys.readouterr()
    assert said.err == f"jaxmkl: {option}: /dev/full: No space left on device\n"
    assert "600 rows" in said.out
    wanted = set(names.values()) - ({"kept"} if option == "--predictions" else set())
    found = set(os.listdir(tmp_path)) - {"flowers.csv", "kept.before"}
    assert found == wanted
    if option != "--json":
        assert json.loads((tmp_path / "run.json").read_text())["num_rows"] == 600


@pytest.mark.slow
def test_a_disk_that_takes_no_checkpoint(flowers, tmp_path, monkeypatch, capsys):  # noqa: F811
    """The run goes on, and what else it writes is written; later the disk may take one."""
    line = ["run", str(flowers), *SMALL, "--checkpoint", str(tmp_path / "kept"), "--every", "100"]
    line += ["--json", str(tmp_path / "run.json"), "--predictions", str(tmp_path / "said.csv")]
    tried, write = [], kept._write

    def full(path, *given):
        tried.append(path)
        if len(tried) <= most:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        write(path, *given)

    monkeypatch.setattr(kept, "_write", full)
    for most, status in ((100, 1), (2, 0)):  # noqa: B007 (read above)
        tried.clear()
        assert main(line) == status
        wanted = f"jaxmkl: --checkpoint: {tmp_path / 'kept'}: No space left on device\n"
        assert capsys.readouterr().err == wanted
        assert (tmp_path / "kept").exists() == (status == 0)
        assert json.loads((tmp_path / "run.json").read_text())["num_rows"] == 600
        assert len((tmp_path / "said.csv").read_text().splitlines()) == 601
