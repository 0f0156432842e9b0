"""Runs that are stopped and go on: the same in every bit, wherever and however they stopped."""

import dataclasses
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import sklearn.datasets

import jaxmkl
from jaxmkl.cli import main, prequential, run
from jaxmkl.cli.interrupts import Interrupts
from jaxmkl.cli.kept import Kept
from jaxmkl.cli.options import parser_of
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
pytestmark = pytest.mark.usefixtures("short_chunks")
TIMES = {"seconds", "peak_bytes", "command", "settings", "is_interrupted"}
SMALL = ["--learner", "raker", "--set", "num_features=4", "--seeds", "2"]
SEVERAL = ["--learner", "raker,amkl_aks"]


def command(table, folder, *more):
    folder.mkdir(exist_ok=True)
    outputs = {"--save": "model", "--json": "run.json", "--predictions": "said.csv"}
    paths = [text for name, file in outputs.items() for text in (name, str(folder / file))]
    return ["run", str(table), *SMALL, "--first", "60", *paths, *more]


def outcome(folder):
    """All that came out, but times."""
    content = json.loads((folder / "run.json").read_text())
    kept = {name: value for name, value in content.items() if name not in TIMES}
    for row in kept["table"] + kept["rows"]:
        for measured in ("microseconds", "seconds_per_run"):
            row.pop(measured, None)
    return kept, (folder / "said.csv").read_text(), jaxmkl.load_pipeline(folder / "model")


def assert_same(one, other):
    assert one[:2] == other[:2]
    assert one[2].rows == other[2].rows
    assert_equal(one[2].state, other[2].state)
    np.testing.assert_array_equal(one[2].fills, other[2].fills)


def stopped(monkeypatch, after):
    """Have the run interrupted amid the learner that is given so many chunks."""
    calls, original = [], prequential.Runner.run

    def interrupted(self, X, y):
        calls.append(len(y))
        if len(calls) == after:
            raise KeyboardInterrupt
        return original(self, X, y)

    monkeypatch.setattr(prequential.Runner, "run", interrupted)


def test_a_checkpoint_of_a_run_and_a_pipeline_are_told_apart(flowers, tmp_path, capsys):
    kept, data = tmp_path / "kept", tmp_path / "data.npz"
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("run.json", "{}")
    np.savez(data, X=np.eye(2))
    assert main(["info", str(kept)]) == 2
    assert "it is that of a run; name a pipeline, as its --save writes" in capsys.readouterr().err
    assert main(["info", str(data)]) == 2
    assert "is not a readable checkpoint: it has no header" in capsys.readouterr().err
    assert main(["run", str(flowers), "--checkpoint", str(data)]) == 2
    assert "it is not that of a run; name another file" in capsys.readouterr().err


@pytest.mark.slow
def test_checkpoints_are_as_near_to_each_other_as_is_asked(flowers, tmp_path, monkeypatch):
    """At the ends of blocks, though more rows are read at a time."""
    monkeypatch.setattr("jaxmkl.tables.source.ROWS", 8192)
    passed, write = [], Kept._write

    def written(self, evaluation, predictions):
        passed.append(evaluation.now.passed)
        write(self, evaluation, predictions)

    monkeypatch.setattr(Kept, "_write", written)
    kept = ["--checkpoint", str(tmp_path / "kept"), "--every", "200"]
    assert main(command(flowers, tmp_path / "parts", *kept)) == 0
    assert passed == [256, 512, 600]
    assert main(command(flowers, tmp_path / "whole")) == 0
    (_, said, model), (_, wanted, whole) = map(outcome, (tmp_path / "parts", tmp_path / "whole"))
    assert said == wanted
    assert_equal(model.state, whole.state)


@pytest.mark.slow
def test_a_run_goes_on_from_where_it_was(flowers, tmp_path, monkeypatch, capsys):
    assert main(command(flowers, tmp_path / "whole", *SEVERAL)) == 0
    kept = [*SEVERAL, "--checkpoint", str(tmp_path / "kept"), "--every", "100"]
    parts = command(flowers, tmp_path / "parts", *kept)
    for after, rows in ((10, 128), (15, 320)):
        with monkeypatch.context() as patched:
            stopped(patched, after)
            assert main(parts) == 130
        said = capsys.readouterr().err
        assert f"interrupted after {rows} rows; the same command continues" in said
    assert main(parts) == 0
    wanted = outcome(tmp_path / "whole")
    assert_same(outcome(tmp_path / "parts"), wanted)
    # a run that is over has nothing to add
    assert main(parts) == 0
    assert_same(outcome(tmp_path / "parts"), wanted)
    assert wanted[0]["num_rows"] == 600


@pytest.mark.slow
def test_what_was_written_behind_the_checkpoint_is_written_again(
    flowers, tmp_path, monkeypatch, capsys
):
    kept = tmp_path / "kept"
    parts = command(flowers, tmp_path / "parts", "--checkpoint", str(kept), "--every", "200")
    copies = []
    original = prequential.Evaluation.take

    def copied(self, outcome):
        copies.append(kept.read_bytes() if kept.exists() else None)
        return original(self, outcome)

    with monkeypatch.context() as patched:
        patched.setattr(prequential.Evaluation, "take", copied)
        assert main(parts) == 0
    wanted = outcome(tmp_path / "parts")
    # as if it had been killed before the sixth chunk was taken over
    kept.write_bytes(copies[5])
    assert main(parts) == 0
    assert_same(outcome(tmp_path / "parts"), wanted)
    said = tmp_path / "parts" / "said.csv"
    # what is gone stays so, and the run goes on, and says it
    said.write_text(said.read_text()[:50])
    kept.write_bytes(copies[5])
    capsys.readouterr()
    assert main(parts) == 0
    assert "bytes that an earlier part of this run wrote are gone" in capsys.readouterr().err
    assert outcome(tmp_path / "parts")[0] == wanted[0]
    assert wanted[1].startswith(lines := "".join(said.read_text().splitlines(keepends=True)[:2]))
    assert lines.count("\n") == 2


@pytest.mark.slow
def test_a_checkpoint_without_the_last_rows_and_figures_goes_on(flowers, tmp_path):
    kept = tmp_path / "kept"
    parts = command(flowers, tmp_path / "parts", "--checkpoint", str(kept))
    assert main(parts) == 0
    content = outcome(tmp_path / "parts")[0]
    whole, names = content["table"][0], [row["name"] for row in content["table"]]
    assert whole["effects"]
    assert names[-1] == "boosting so far"
    with zipfile.ZipFile(io.BytesIO(kept.read_bytes())) as old, zipfile.ZipFile(kept, "w") as new:
        for name in set(old.namelist()) - {"latest.npz", "figures.npz", "boosted.npz"}:
            new.writestr(name, old.read(name))
    assert main(parts) == 0
    content = outcome(tmp_path / "parts")[0]
    nothing = {"effects": {}, "growth": {}, "told_class": ""}
    assert content["table"][0] == whole | nothing
    assert [row["name"] for row in content["table"]] == names[:3]  # those without its rows
    assert "'boosting so far' is left out, as a part of the run was without it" in content["notes"]


def test_a_checkpoint_is_of_one_run(flowers, tmp_path, capsys):
    kept = tmp_path / "kept"
    parts = command(flowers, tmp_path / "parts", "--checkpoint", str(kept))
    assert main(parts) == 0
    assert main([*parts, "--seeds", "3"]) == 2
    assert "belongs to a run with --seeds 2, and now it is 3" in capsys.readouterr().err
    text = flowers.read_text()
    flowers.write_text(text.replace(",x\n", ",w\n"))
    assert main(parts) == 2
    assert "belongs to a file whose first rows were different" in capsys.readouterr().err
    flowers.write_text(text)
    # damaged, and there is none before it
    for content, message in (
        (kept.read_bytes()[:-100], "is not a readable checkpoint"),
        (b"", "is not a readable checkpoint"),
    ):
        kept.write_bytes(content)
        assert main(parts) == 2
        assert message in capsys.readouterr().err
    assert main([*command(flowers, tmp_path / "parts"), "--every", "5m"]) == 2
    assert "--every needs a checkpoint; name its file" in capsys.readouterr().err
    assert main([*parts, "--every", "soon"]) == 2
    assert (
        "expected rows such as 100000 or minutes such as 5m; got 'soon'" in capsys.readouterr().err
    )


def test_of_a_damaged_checkpoint_the_one_before_goes_on(flowers, tmp_path):
    kept = tmp_path / "kept"
    parts = command(flowers, tmp_path / "parts", "--checkpoint", str(kept), "--every", "64")
    assert main(parts) == 0
    wanted = outcome(tmp_path / "parts")
    kept.write_bytes(kept.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="going on from the one before"):
        assert main(parts) == 0
    assert_same(outcome(tmp_path / "parts"), wanted)


def test_standard_input_goes_on_as_it_comes(flowers, tmp_path, monkeypatch):
    lines = flowers.read_text().splitlines(keepends=True)
    assert main(command(flowers, tmp_path / "whole")) == 0
    parts = command("-", tmp_path / "parts", "--checkpoint", str(tmp_path / "kept"))
    for rows in (lines[1:321], lines[321:]):
        text = "".join([lines[0], *rows]).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert main(parts) == 0
    found, wanted = (outcome(tmp_path / name) for name in ("parts", "whole"))
    assert found[0]["table"] == wanted[0]["table"]
    assert found[0]["curves"] == wanted[0]["curves"]
    assert_equal(found[2].state, wanted[2].state)


def test_a_file_that_lost_rows_is_refused(flowers, tmp_path, capsys):
    parts = [*command(flowers, tmp_path / "parts"), "--checkpoint", str(tmp_path / "kept")]
    assert main(parts) == 0
    capsys.readouterr()
    flowers.write_text("".join(flowers.read_text().splitlines(keepends=True)[:301]))
    assert main(parts) == 2
    text = f"belongs to a run past row 600, and {flowers} has only 300 rows"
    assert text in capsys.readouterr().err


@pytest.mark.endless
def test_cells_unlike_the_first_rows_are_counted(tmp_path, monkeypatch, capsys):
    """The same where a run is stopped and goes on."""
    lines = ["word,same,none,answer,height,gone,y"]
    for i in range(400):
        now = i % 2 if i < 100 else 2 + i % 3
        word, same = ("a", "b", f"new {i}", "a", "b")[now], ("2", "2", "2", "2.00", "3")[now]
        none, answer = ("", "", "", "x", "")[now], ("no", "yes", "yes", "maybe", "no")[now]
        numbers = f"{i * i % 97},{i * i % 83 if i < 300 else ''},{i * i % 89}"
        lines.append(f"{word},{same},{none},{answer},{numbers}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    line = ["run", str(tmp_path / "t.csv"), "--first", "100", "--learner", "raker"]
    line += ["--json", str(tmp_path / "run.json"), "--checkpoint", str(tmp_path / "kept")]
    with monkeypatch.context() as patched:
        stopped(patched, 3)
        assert main(line) == 130
    assert "100 cells" not in capsys.readouterr().out
    assert main(line) == 0
    found = json.loads((tmp_path / "run.json").read_text())["notes"]
    for column, text in {
        "word": "100 cells hold no word that the first rows had: all zeros; look at more rows",
        "same": "100 cells differ from the first rows, by which it was left out",
        "none": "100 cells differ from the first rows, by which it was left out",
        "answer": "100 cells hold neither no nor yes: 1/2",
        "gone": "100 cells are missing, and none of the first rows was: the mean so far;",
    }.items():
        assert [note for note in found if note.startswith(f"column {column!r}: {text}")], column
    assert "column 'word': 100 cells" in capsys.readouterr().out


def made(path, rows, columns, block):
    """A LIBSVM file of so many rows, a block of them again and again."""
    X = np.random.default_rng(0).normal(size=(block, columns)).round(4)
    y = (X[:, 0] * X[:, 1] + X[:, 2]).round(4)
    sklearn.datasets.dump_svmlight_file(X, y, str(path), zero_based=False)
    text = path.read_bytes()
    with open(path, "ab") as file:
        for _ in range(rows // block - 1):
            file.write(text)


def written_at(path):
    """When the file was written; 0 where it is not there, as for a moment amid a replacement."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.endless
@pytest.mark.parametrize(
    ("rows", "columns", "block", "every", "wait", "kills"),
    [(150_000, 5, 5_000, 8192, 0.3, 1), (10**7, 20, 10**5, 500_000, 60, 3)],
)
def test_killed_at_random_moments(rows, columns, block, every, wait, kills, tmp_path):
    """A run killed so often, and one that was not: equal, and within a gibibyte."""
    made(tmp_path / "long.svm", rows, columns, block)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    outcomes, draws = [], random.Random(0)
    for folder in (tmp_path / "whole", tmp_path / "parts"):
        kept = folder / "kept"
        line = [*command(tmp_path / "long.svm", folder), *SEVERAL, "--delay", "3"]
        line += ["--checkpoint", str(kept), "--every", str(every)]
        line = [sys.executable, "-m", "jaxmkl", *line]
        for _ in range(kills if folder.name == "parts" else 0):
            before = written_at(kept)
            with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE) as process:
                while process.poll() is None:
                    if written_at(kept) > before:
                        time.sleep(wait * draws.random())
                        process.send_signal(signal.SIGKILL)
                        break
                    time.sleep(0.01)
            assert process.returncode == -signal.SIGKILL
        subprocess.run(line, env=environment, check=True, capture_output=True)
        outcomes.append(outcome(folder))
    assert_same(*outcomes)
    for name in ("whole", "parts"):
        assert json.loads((tmp_path / name / "run.json").read_text())["peak_bytes"] < 2**30


@pytest.mark.slow
def test_a_checkpoint_that_would_fill_the_memory_is_refused(flowers, tmp_path, capsys):
    """Members that unpack to far more than the file: by the size declared, and by another one."""
    kept = tmp_path / "kept"
    parts = command(flowers, tmp_path / "parts", "--checkpoint", str(kept))
    assert main(parts) == 0
    with zipfile.ZipFile(kept) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, method in itertools.product(members, (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)):
        with zipfile.ZipFile(kept, "w") as archive:
            for other, content in members.items():
                if other == name:
                    archive.writestr(other, content + bytes(2**22), method)
                else:
                    archive.writestr(other, content)
        capsys.readouterr()
        tracemalloc.start()
        assert main(parts) == 2
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        said = capsys.readouterr().err
        assert "is not a readable checkpoint" in said
        assert most < 2**21 + 4 * sum(map(len, members.values()))


def test_a_run_is_a_value_that_ends_in_one_of_its_states(flowers, tmp_path):
    """Begun, it is complete; evaluated, it says how it ended; finished, it has written files."""
    rows = flowers.read_text().splitlines(keepends=True)
    flowers.write_text("".join([*rows[:131], "1,2\n", *rows[131:150]]))
    parser, commands = parser_of("")
    run.add_to(commands)
    given = parser.parse_args(command(flowers, tmp_path / "parts", "--seeds", "1"))
    given.line = ""
    with Interrupts() as interrupts:
        begun = run.begun(given, interrupts)
        assert begun.evaluation.now.num_rows == 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            begun.evaluation = None
        ending = begun.evaluated(lambda rows, share: None)
        assert ending.status == 2
        assert "line 132: 2 cells where the header has 5 columns" in ending.why
        assert sorted(os.listdir(tmp_path / "parts")) == ["said.csv"]
        begun.finished(ending)
    kept = outcome(tmp_path / "parts")[0]
    assert (kept["num_rows"], kept["ended_by"]) == (130, ending.why)
