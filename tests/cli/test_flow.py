"""Rows that are piped in are answered as they come, with the figures of the file."""

import contextlib
import io
import json
import os
import random
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl.cli import main
from jaxmkl.tables import Columns, Pipeline, load_pipeline, open_table, save_pipeline
from jaxmkl.tables._bytes import Bytes
from tests.common.pieces import Pieces

SMALL_PROGRAMS = True
ROWS = 300


@pytest.fixture(scope="module")
def plants(tmp_path_factory):
    """A table of three classes, and a pipeline of it."""
    jax.clear_caches()  # what is compiled is counted, also if a module before ran it
    folder, rng = tmp_path_factory.mktemp("plants"), np.random.default_rng(0)
    kinds = rng.integers(0, 3, ROWS)
    sizes = rng.normal(size=(ROWS, 2)) + kinds[:, None]
    lines = [f'{a:.4g},"{"xyz"[k]}\n{i % 2}",{b:.4g},{"uvw"[k]}\n'
             for i, (k, (a, b)) in enumerate(zip(kinds, sizes, strict=True))]  # fmt: skip
    path = folder / "plants.csv"
    path.write_text("".join(["size,word,depth,kind\n", *lines])[:-1])
    with contextlib.closing(open_table(path)) as table:
        rows = next(table.chunks(ROWS))
    columns = Columns.decide(rows, "kind")
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=4, loss="logistic",
                           num_classes=3)  # fmt: skip
    learner = jaxmkl.wrappers.probabilities(learner)
    state = learner.init(jax.random.key(0), len(columns.features))
    save_pipeline(folder / "pipeline", Pipeline(learner, state, columns, columns.init()))
    return path, folder / "pipeline"


SIZES = [1, 9, 20, 30, 300]  # of the pieces in which bytes come


@pytest.fixture
def piped(plants, monkeypatch):
    """Run the command with the table on standard input, in pieces that are late or not."""

    def played(seed, *line):
        draws = random.Random(seed)
        monkeypatch.setattr(Bytes, "has_come", lambda self, seconds: draws.random() < 0.5)
        pieces = io.BufferedReader(Pieces(plants[0].read_bytes(), draws, SIZES))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pieces))
        assert main([*map(str, line)]) == 0

    return played


@pytest.mark.slow
def test_predictions_are_those_of_the_file(plants, piped, compiled, capsys):
    path, pipeline = plants
    assert compiled(main, ["predict", str(pipeline), str(path)])  # so the log tells
    wanted = capsys.readouterr().out
    assert wanted.count("\n") == ROWS + 1
    for seed in range(3):
        found = compiled(piped, seed, "predict", pipeline, "-")
        assert capsys.readouterr().out == wanted
        assert not (seed and found)


def figures(path):
    rows = json.loads(path.read_text())["rows"]
    return {(row["algorithm"], row["metric"]): row["mean"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["anew", pytest.param("from", marks=pytest.mark.endless)])
def test_figures_are_those_of_the_file(way, plants, piped, compiled, tmp_path):
    path, pipeline = plants
    own = ["--learner", "raker", "--set", "num_features=4", "--first", "50", "--target", "kind"]
    own = own if way == "anew" else ["--from", str(pipeline)]
    found = {}
    for name in ("file", 1, 2):
        outputs = {"--json": "json", "--predictions": "csv", "--save": "model"}
        paths = [
            x for option, end in outputs.items() for x in (option, tmp_path / f"{name}.{end}")
        ]
        if name == "file":
            assert main([*map(str, ["run", path, *own, *paths])]) == 0
        else:
            programs = compiled(piped, name, "run", "-", *own, *paths)
        model = load_pipeline(tmp_path / f"{name}.model")
        said = (tmp_path / f"{name}.csv").read_text()
        found[name] = figures(tmp_path / f"{name}.json"), said, model
    assert not programs  # of the last one
    wanted, said, model = found.pop("file")
    for each, text, other in found.values():
        assert each.keys() == wanted.keys()
        np.testing.assert_allclose([each[key] for key in wanted], [*wanted.values()], rtol=1e-12)
        assert text == said
        assert other.columns == model.columns
        assert other.rows == model.rows == ROWS
        leaves = zip(jax.tree.leaves(model.state), jax.tree.leaves(other.state), strict=True)
        for one, same in leaves:
            if not jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
                np.testing.assert_allclose(one, same, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param("predict", marks=pytest.mark.endless), "run"])
def test_each_row_is_answered_before_the_next_is_written(command, plants):
    path, pipeline = plants
    lines = path.read_bytes().split(b"\n")
    line = {"predict": ["predict", pipeline, "-"]}
    line["run"] = ["run", "-", "--from", pipeline, "--predictions", "-"]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    small = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    ends["env"] = {**os.environ, **small}
    with subprocess.Popen([sys.executable, "-m", "jaxmkl", *line[command]], **ends) as process:
        process.stdin.write(lines[0] + b"\n")
        for row in range(6):
            process.stdin.write(b"\n".join(lines[2 * row + 1 : 2 * row + 3]) + b"\n")
            process.stdin.flush()
            if not row:
                assert process.stdout.readline().startswith(b"line,prediction")
            # this would wait for ever if the next row were waited for
            assert process.stdout.readline().startswith(b"%d," % (2 * row + 2))
        rest, said = process.communicate()
    assert (rest, process.returncode) == (b"", 0), said
