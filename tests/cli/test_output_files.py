"""Files of runs: tried before the first row, kept from other processes, each on its own."""

import errno
import io
import json
import os
import pty
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import polars as pl
import pytest
from test_kept import command

import jaxmkl
from jaxmkl._files import kept_from_others
from jaxmkl.cli import info, kept, main, prequential, results
from jaxmkl.tables import Columns, open_table
from tests.common.marks import long, quick

SMALL_PROGRAMS = True
pytestmark = pytest.mark.usefixtures("short_chunks")
OPTIONS = ["--checkpoint", "--predictions", "--save", "--json", "--report"]
SMALL = ["--learner", "raker", "--set", "num_features=4", "--first", "60"]


@pytest.fixture
def nothing_is_run(monkeypatch):
    def refuse(*given):
        raise AssertionError("a row was predicted")

    monkeypatch.setattr(prequential.Runner, "run", refuse)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.usefixtures("nothing_is_run")
def test_files_are_tried_before_the_first_row(option, flowers, tmp_path, capsys):
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


@pytest.mark.parametrize("name", ["o.csv.gz", "o.parquet", "o.XLSX"])
@pytest.mark.usefixtures("nothing_is_run")
def test_text_is_not_written_to_a_name_that_promises_something_else(
    name, flowers, tmp_path, capsys
):
    before, out = sorted(os.listdir(tmp_path)), str(tmp_path / name)
    for line in (
        ["run", str(flowers), *SMALL, "--predictions", out],
        ["select", str(flowers), "--num", "2", "--out", out],
    ):
        assert main(line) == 2
        assert f"{out}: its name promises" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.usefixtures("nothing_is_run")
def test_two_options_name_two_files(flowers, tmp_path, capsys):
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
@pytest.mark.usefixtures("nothing_is_run")
def test_a_second_process_is_refused(flowers, tmp_path, capsys):
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
@pytest.mark.parametrize(
    "option", long(["--json", "--predictions"], ["--json", "--report", "--predictions"])
)
def test_one_that_fails_leaves_the_others(option, flowers, tmp_path, capsys):
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
def test_a_disk_that_takes_no_checkpoint(flowers, tmp_path, monkeypatch, capsys):
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


# --- files that are one --------------------------------------------------------------------------


def others(folder, table):
    """Files that stand for an input, by a description: each is the table, or leads to it."""
    os.link(table, folder / "hard")
    os.symlink(table, folder / "link")
    os.symlink(folder, folder / "round")
    (folder / "sub").mkdir()
    return {
        "itself": table,
        "a hard link": folder / "hard",
        "a symbolic link": folder / "link",
        "through a folder": folder / "sub" / ".." / "round" / table.name,
    }


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline of a few rows, in a folder of its own."""
    (tmp_path / "saved").mkdir()
    frame = pl.DataFrame({"a": range(8), "y": [float(i % 3) for i in range(8)]})
    chunk = next(open_table(frame).chunks(8))
    columns = Columns.decide(chunk, task="regression")
    learner = jaxmkl.raker(num_features=2)
    state = learner.init(jax.random.key(0), 1)
    path = tmp_path / "saved" / "p.npz"
    jaxmkl.save_pipeline(path, jaxmkl.Pipeline(learner, state, columns, columns.init()))
    return path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("nothing_is_run")
def test_no_command_writes_what_it_reads(flowers, pipeline, tmp_path, capsys):
    """By none of a file's names, whatever the command and the option."""
    table, model, free = str(flowers), str(pipeline), str(tmp_path / "free")
    lines = [
        *((["run", table, *SMALL, option], flowers) for option in OPTIONS),
        *((["run", table, "--from", model, option], pipeline) for option in OPTIONS[:2]),
        *((["run", table, "--from", model, option], pipeline) for option in OPTIONS[3:]),
        (["predict", model, table, "--out"], flowers),
        (["predict", model, table, "--out"], pipeline),
        (["select", table, "--num", "2", "--out"], flowers),
        (["ask", table, "--jsonl", "--out"], flowers),
        (["ask", table, "--jsonl", "--out", free, "--save"], flowers),
        (["ask", model, "--pool", table, "--jsonl", "--out"], flowers),
        (["ask", model, "--pool", table, "--jsonl", "--out"], pipeline),
        (["ask", model, "--pool", table, "--jsonl", "--out", free, "--save"], pipeline),
    ]
    names = {flowers: others(tmp_path, flowers), pipeline: others(pipeline.parent, pipeline)}
    before = contents(tmp_path)
    for line, read in lines:
        for how, path in names[read].items():
            assert main([*line, str(path)]) == 2, (line, how)
            said = capsys.readouterr().err
            assert said.startswith(f"jaxmkl: {line[-1]}: {path} is also named by "), (line, how)
            assert said.count("\n") == 1
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("nothing_is_run")
def test_no_file_is_named_like_one_that_stands_beside_another(flowers, pipeline, tmp_path, capsys):
    """Locks, journals, checkpoints before the last, files that are being written."""
    here, table, model = str(tmp_path), str(flowers), str(pipeline)
    run, ask = ["run", table, *SMALL], ["ask", table, "--jsonl", "--target", "kind"]
    lines = [
        [*run, "--save", f"{here}/x", "--json", f"{here}/x.lock"],
        [*run, "--predictions", f"{here}/x.lock", "--report", f"{here}/x"],
        [*run, "--checkpoint", f"{here}/x", "--predictions", f"{here}/x.before"],
        [*run, "--checkpoint", f"{here}/sub/../x", "--save", f"{here}/x.before"],
        [*run, "--json", f"{here}/x", "--save", f"{here}/x.0123abcd.partial"],
        [*ask, "--out", f"{here}/x", "--save", f"{here}/x.journal"],
        [*ask, "--out", f"{here}/x", "--save", f"{here}/x.lock"],
        [*ask, "--out", f"{here}/x", "--save", f"{here}/sub/../x"],
        ["predict", model, table, "--out", table.removesuffix(".csv")],
        ["select", table, "--num", "2", "--out", table.removesuffix(".csv")],
    ]
    (tmp_path / "sub").mkdir()
    before = contents(tmp_path)
    for line in lines[:-2]:
        assert main(line) == 2, line
        assert "name another file" in capsys.readouterr().err, line
    for ending in (".lock", ".0123abcd.partial"):
        other = str(tmp_path / f"flowers{ending}")
        os.rename(table, other)
        for line in lines[-2:]:
            assert main([other if part == table else part for part in line]) == 2, line
            said = capsys.readouterr().err
            assert f"needs flowers{ending} beside it, which FILE names" in said
        os.rename(other, table)
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_somebodys_own_files_beside_an_output_stay(flowers, tmp_path, capsys):
    """A lock file of another program, and a download that has not ended."""
    own = {"yarn.lock": b"# yarn lockfile v1\n", "yarn.dl.partial": b"half"}
    for name, content in own.items():
        (tmp_path / name).write_bytes(content)
    line = ["select", str(flowers), "--num", "2", "--out", str(tmp_path / "yarn")]
    assert main(line) == 2
    assert "yarn.lock, which holds something else; name another" in capsys.readouterr().err
    assert (tmp_path / "yarn.lock").read_bytes() == own["yarn.lock"]
    (tmp_path / "yarn.lock").unlink()
    assert main(line) == 0
    assert (tmp_path / "yarn.dl.partial").read_bytes() == b"half"


@pytest.mark.usefixtures("nothing_is_run")
def test_links_in_a_circle_are_a_sentence(flowers, pipeline, tmp_path, capsys):
    ring, table, model = str(tmp_path / "ring"), str(flowers), str(pipeline)
    os.symlink(ring, ring)
    for line in (
        *(["run", table, *SMALL, option, ring] for option in OPTIONS),
        ["run", ring], ["predict", model, ring], ["predict", ring, table],
        ["predict", model, table, "--out", ring], ["select", ring, "--num", "2"],
        ["select", table, "--num", "2", "--out", ring], ["ask", ring, "--jsonl"],
        ["ask", table, "--jsonl", "--out", ring], ["info", ring],
    ):  # fmt: skip
        assert main(line) == 2, line
        assert "symbolic links" in capsys.readouterr().err, line
    assert os.path.islink(ring)


def test_standard_output_is_no_input(flowers, tmp_path):
    """``>> FILE`` would have the rows that are written read again, without an end."""
    before = flowers.read_bytes()
    line = [sys.executable, "-m", "jaxmkl", "select", str(flowers), "--num", "2"]
    with open(flowers, "ab") as out:
        found = subprocess.run(line, stdout=out, stderr=subprocess.PIPE, text=True)
    text = f"jaxmkl: standard output: {flowers} is also named by FILE; name another file\n"
    assert (found.returncode, found.stderr) == (2, text)
    assert flowers.read_bytes() == before


@pytest.mark.parametrize(("closed", "said"), [("2>&-", ""), (">&-", "jaxmkl: no.npz: No such")])
def test_a_closed_standard_file_is_the_null_device(closed, said):
    """Python has none then, prints errors to the other one, and gives its number to files."""
    line = f'exec "{sys.executable}" -m jaxmkl info no.npz {closed}'
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(said)
    assert "Traceback" not in found.stderr


@pytest.mark.usefixtures("nothing_is_run")
def test_predict_and_ask_lock_what_they_write(flowers, pipeline, tmp_path, capsys):
    table, out = str(flowers), str(tmp_path / "out")
    with kept_from_others(out):
        for line in (
            ["predict", str(pipeline), table, "--out", out],
            ["select", table, "--num", "2", "--out", out],
            ["ask", table, "--jsonl", "--out", out],
            ["ask", table, "--jsonl", "--out", f"{out}.csv", "--save", out],
        ):
            assert main(line) == 2, line
            assert f"{line[-2]}: {out}: this process, {os.getpid()}, writes it already" in (
                capsys.readouterr().err
            )
    assert not (tmp_path / "out").exists()
    assert sorted(os.listdir(tmp_path)) == ["flowers.csv", "saved"]


# --- standard output -----------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "begins"), [
    ("--predictions", "line,prediction,kind\r\n2,"),
    ("--json", '{\n "command": "jaxmkl run'),
])  # fmt: skip
def test_a_file_goes_to_standard_output(option, begins, flowers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(flowers), *SMALL, option, "-"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith(begins)
    assert "mistakes" not in out
    assert "majority so far" in error
    assert os.listdir(tmp_path) == ["flowers.csv"]


@pytest.mark.usefixtures("nothing_is_run")
def test_standard_output_takes_one_file_of_text(flowers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = str(flowers)
    for line, said in (
        (["run", table, "--save", "-"], "--save: - is standard output, which takes text alone"),
        (["run", table, "--checkpoint", "-"], "--checkpoint: - is standard output, which takes"),
        (["run", table, "--json", "-", "--report", "-"], "--report: - is also named by --json"),
        (["ask", table, "--jsonl", "--out", "-"], "--out: - is standard output, which takes"),
        (["ask", table, "--jsonl", "--save", "-"], "--save: - is standard output, which takes"),
        # its journal would lie among the devices
        (["ask", table, "--jsonl", "--out", os.devnull], f"--out: {os.devnull} is not a file"),
    ):
        assert main(line) == 2
        assert capsys.readouterr().err.startswith(f"jaxmkl: {said}"), line
    assert os.listdir(tmp_path) == ["flowers.csv"]


@pytest.mark.slow
def test_a_minus_is_standard_output_for_select(flowers, tmp_path, monkeypatch, capsysbinary):
    monkeypatch.chdir(tmp_path)
    line = ["select", str(flowers), "--num", "3"]
    found = []
    for more in ([], ["--out", "-"], ["--out", "it.csv"]):
        assert main([*line, *more]) == 0
        found.append(capsysbinary.readouterr().out)
    assert found == [(tmp_path / "it.csv").read_bytes()] * 2 + [b""]


class Narrow(io.TextIOWrapper):
    """A standard output whose encoding lacks most letters."""

    def __init__(self):
        super().__init__(io.BytesIO(), "ascii")


@pytest.mark.slow
def test_standard_output_that_lacks_letters(tmp_path, monkeypatch):
    """Tables escape them; data are in UTF-8, as in files."""
    rows = "\n".join(f"{i * i % 7},{i % 5},{'größe' if i % 2 else '木'}" for i in range(80))
    (tmp_path / "t.csv").write_text(f"höhe,b,kind\n{rows}\n", "utf-8")
    line = ["run", str(tmp_path / "t.csv"), *SMALL, "--save", str(tmp_path / "p")]

    def said(*line):
        monkeypatch.setattr(sys, "stdout", out := Narrow())
        assert main(line) == 0
        out.flush()
        assert out.errors == "strict"
        return out.buffer.getvalue()

    assert rb"'gr\xf6\xdfe' is -1 and '\u6728' is +1" in said(*line)
    assert rb"h\xf6he" in said("info", str(tmp_path / "p"))
    data = said("predict", str(tmp_path / "p"), str(tmp_path / "t.csv")).decode("utf-8")
    assert {row.split(",")[1] for row in data.splitlines()[1:]} <= {"größe", "木"}
    ranked = said("select", str(tmp_path / "t.csv"), "--num", "2").decode("utf-8")
    assert ranked.splitlines()[0] == "rank,line,höhe,b,kind"


# --- predictions that something else touches -----------------------------------------------------


HOW = ["truncated", "replaced"]


@pytest.mark.parametrize(
    "how", [*quick(["truncated"], HOW), *long([], ["removed", "moved", "longer"])]
)
def test_predictions_that_are_touched_are_noticed(how, flowers, tmp_path, monkeypatch, capsys):
    said, away, calls = tmp_path / "said.csv", tmp_path / "away", []
    whole = [*command(flowers, tmp_path / "whole"), "--seeds", "1"]
    line = ["run", str(flowers), *SMALL, "--predictions", str(said), "--every", "100"]
    line += ["--checkpoint", str(tmp_path / "kept"), "--json", str(tmp_path / "run.json")]
    original = prequential.Runner.run

    def counted(self, X, y):
        calls.append(0)
        if len(calls) == 6:
            acts = {"removed": said.unlink, "moved": lambda: said.rename(away)}
            acts["truncated"] = lambda: os.truncate(said, 0)
            acts["replaced"] = lambda: (said.rename(away), said.write_bytes(away.read_bytes()))
            acts["longer"] = lambda: said.write_bytes(said.read_bytes() + b"more\n")
            acts[how]()
        return original(self, X, y)

    with monkeypatch.context() as patched:
        patched.setattr(prequential.Runner, "run", counted)
        assert main(line) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jaxmkl: --predictions: {said}: ")
    assert error.endswith(" while it was written; no more is written to it\n")
    assert error.count("\n") == 1
    assert json.loads((tmp_path / "run.json").read_text())["num_rows"] == 600
    if how == "moved":
        away.rename(said)
    assert main(line) == 0
    found, error = said.read_text(), capsys.readouterr().err
    assert "\0" not in found
    assert found.startswith("line,prediction,kind\n")
    assert main(whole) == 0
    wanted = (tmp_path / "whole" / "said.csv").read_text()
    if how in ("moved", "replaced", "longer"):
        assert (found, error) == (wanted, "")
        return
    assert "bytes that an earlier part of this run wrote are gone" in error
    lines = found.splitlines()
    assert 1 < len(lines) < 601
    assert lines[1:] == wanted.splitlines()[1 - len(lines) :]


# --- characters that steer a terminal ------------------------------------------------------------

ESCAPE = "\x1b[31m\u202e"


@pytest.mark.slow
def test_no_name_steers_a_terminal(tmp_path, monkeypatch, capsys):
    """Names of columns, classes, files and pipelines, in tables, importances, notes, refusals."""
    monkeypatch.chdir(tmp_path)
    table, pipeline = f"t{ESCAPE}.csv", f"p{ESCAPE}"
    draws = np.random.default_rng(0).integers(0, 9, (120, 2))
    rows = "".join(f"{a},{b},{'u' if a > b else ESCAPE + 'v'}\n" for a, b in draws)
    (tmp_path / table).write_text(f"a{ESCAPE},b,kind\n{rows}", "utf-8")
    report = ["--report", "page.html", "--json", "run.json", "--predictions", "said.csv"]
    lines = [
        ["run", table, *SMALL, "--save", pipeline],
        ["info", pipeline],
        ["predict", pipeline, "said.csv"],
        ["run", table, "--from", pipeline, "--learner", "raker"],
        ["run", f"gone{ESCAPE}"],
        ["info", f"gone{ESCAPE}"],
        ["select", table, "--num", f"x{ESCAPE}"],
    ]
    lines[0] += report
    for module in (info, results):  # as of a learner with a learned metric
        monkeypatch.setattr(module, "importances", lambda *given: {f"a{ESCAPE}": 0.75, "b": 0.25})
    for line in lines:
        main(line)
        said = capsys.readouterr()
        for text in (said.out, said.err):
            if line[0] != "predict" or text is said.err:
                assert "\x1b" not in text, line
                assert "\u202e" not in text, line
    assert "\x1b" not in (tmp_path / "page.html").read_text("utf-8")
    assert r"a\x1b[31m" in (tmp_path / "page.html").read_text("utf-8")


def test_a_table_on_a_terminal_does_not_steer_it(tmp_path, monkeypatch):
    """In a file and a pipe its cells are what they were."""
    cells = [f"a{ESCAPE}", "b", f"u{ESCAPE}"]
    rows = "".join(f"{i},{cells[2]}\n" for i in range(9))
    (tmp_path / "t.csv").write_text(f"{cells[0]},{cells[1]}\n{rows}", "utf-8")
    line = ["select", str(tmp_path / "t.csv"), "--num", "2", "--method", "random"]
    line += ["--as", "b=text:4"]
    assert main([*line, "--out", str(tmp_path / "out.csv")]) == 0
    written = (tmp_path / "out.csv").read_text("utf-8")
    assert all(cell in written for cell in cells)
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(line) == 0
        terminal.flush()
        shown = os.read(ours, 2**16).decode()
    os.close(ours)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    wanted = [row.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
              for row in written.splitlines()]  # fmt: skip
    assert shown.split() == " ".join(wanted).split()
