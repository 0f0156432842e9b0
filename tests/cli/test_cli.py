"""The command, by real small runs: tables, models, predictions, interruptions, what is refused."""

import csv
import datetime
import io
import json
import math
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
import sklearn.datasets
import sklearn.metrics
from numpy.testing import assert_array_equal

import jaxmkl
from jaxmkl.cli import main, prequential, show
from jaxmkl.tables import Columns, UnseenCells, _text, open_table
from jaxmkl.tables._bytes import zstd
from tests.common.marks import long
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
SMALL = ("--learner", "raker", "--set", "num_features=4")


TOLD = (
    *("mistakes", "kappa", "log loss", "Brier", "calibration", "majority so far", "last label"),
    *("300 rows of 5 inputs", "6 without a target: predicted", "column 'colour' holds words"),
)


@pytest.fixture
def plants(tmp_path):
    """A CSV file with a column of text, missing cells and labels of two words, some missing."""
    draws = random.Random(0)
    lines = ["height,colour,kind"]
    for i in range(300):
        tree = draws.random() < 0.5
        height = "" if i % 17 == 0 else f"{draws.gauss(20 if tree else 10, 3):.2f}"
        colour = draws.choice(["red", "blue"] if tree else ["blue", "dark green"])
        kind = "" if i % 50 == 49 else "big tree" if tree else "small bush"
        lines.append(f"{height},{colour},{kind}")
    path = tmp_path / "plants.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def figures(path):
    """Means by learner and metric of a JSON file."""
    content = json.loads(Path(path).read_text())
    return {(row["algorithm"], row["metric"]): row["mean"] for row in content["rows"]}, content


def rows_of(path):
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def run(*arguments):
    assert main(["run", *map(str, arguments)]) == 0


def test_from_a_file_to_a_table_a_model_and_predictions(plants, tmp_path, monkeypatch, capsys):
    pipeline, out, said = (tmp_path / name for name in ("model", "run.json", "said.csv"))
    more = ["--seeds", "2", "--save", pipeline, "--json", out, "--predictions", said]
    pushed, push = [], prequential.Stream.push
    monkeypatch.setattr(
        prequential.Stream, "push", lambda self, *a: (pushed.append(self), push(self, *a))[1]
    )
    run(plants, *SMALL, *more)
    # of two seeds; the first one's program is compiled before the time counts
    assert len(pushed) == 3
    assert len(set(pushed)) == 2
    shown = capsys.readouterr().out
    for text in TOLD:
        assert text in shown

    means, content = figures(out)
    predicted = rows_of(said)
    assert [row["line"] for row in predicted] == [str(line) for line in range(2, 302)]
    known = [row for row in predicted if row["kind"]]
    wrong = np.array([row["prediction"] != row["kind"] for row in known[1:]])
    assert len(known) == 294
    assert content["judged_from"] == 2
    assert "judged from row 2 on" in shown
    first, last = content["curves"]["error"]["raker"], content["curves"]["rows"]
    assert last == [64, 128, 192, 256, 300]
    per_window = np.array([sum(1 for i in range(a, b) if i % 50 != 49) for a, b in
                           zip([1, *last[:-1]], last, strict=True)])  # fmt: skip
    assert (np.array(first) * per_window).sum() == pytest.approx(wrong.sum())
    assert means["raker", "mistake_rate"] < 0.25
    assert means["raker", "label_rate"] == 1
    assert content["num_unlabelled"] == 6
    assert means["raker", "log_loss"] < np.log(2)
    assert means["raker", "brier"] < 0.25
    learner, *baselines = content["table"]
    sure = {name: np.array(values, float) for name, values in learner["calibration"].items()}
    assert sure["counts"].sum() == 293
    assert np.nansum(sure["counts"] * (1 - sure["accuracy"])) == pytest.approx(wrong.sum())
    assert not any(line["calibration"] or "brier" in line["metrics"] for line in baselines)
    assert sum(content["table"][0]["kernel_weights"].values()) == pytest.approx(1, abs=1e-5)
    assert {"jax", "jaxmkl", "numpy", "polars", "python"} == set(content["versions"])
    assert content["classes"] == ["big tree", "small bush"]
    assert content["command"].startswith(f"jaxmkl run {plants} --learner raker --set")

    # by hand: the label before, and the class that was most frequent
    kinds = [row["kind"] for row in known]
    counts = [
        kinds[:i].count("small bush") > kinds[:i].count("big tree") for i in range(1, len(kinds))
    ]
    majority = np.where(counts, "small bush", "big tree")
    errors = {"last label": np.array(kinds[:-1]), "majority so far": majority}
    for name, values in errors.items():
        assert means[name, "mistake_rate"] == pytest.approx((values != np.array(kinds[1:])).mean())

    assert main(["info", str(pipeline)]) == 0
    shown = capsys.readouterr().out
    assert "target: 'kind', classification of 2 classes: 'big tree', 'small bush'" in shown
    assert "'colour': categories (3 inputs)" in shown
    assert "Gaussian(bandwidth=0.01)" in shown
    assert "\\n" not in shown  # as it would be for the line ends in the repr of a long array

    # other columns, and what Python says of them
    frame = pl.read_csv(plants).select(pl.lit(1).alias("new"), "colour", "kind")
    frame = frame.with_columns(pl.lit("grey").alias("colour"))
    frame.write_csv(tmp_path / "other.csv")
    saved = jaxmkl.load_pipeline(pipeline)
    assert main(["predict", str(pipeline), str(tmp_path / "other.csv")]) == 0
    out, error = capsys.readouterr()
    assert "the pipeline's column 'height' is absent; its cells are missing" in error
    assert "the column 'new' is not used by the pipeline" in error
    assert "column 'colour': 300 cells hold no word that the first rows had" in error
    with pytest.warns(UserWarning, match="'height'"), pytest.warns(UnseenCells, match="'colour'"):
        expected = saved.predict(frame), saved.predict_proba(frame)
    found = list(csv.DictReader(out.splitlines()))
    assert [row["prediction"] for row in found] == expected[0].tolist()
    shares = np.array([float(row["probability"]) for row in found])
    np.testing.assert_allclose(shares, expected[1].max(axis=1), rtol=1e-5)

    # predictions appear once they are complete
    written, empty = tmp_path / "predictions.csv", tmp_path / "empty.csv"
    assert main(["predict", str(pipeline), str(plants), "--out", str(written)]) == 0
    before = written.read_bytes()
    assert len(rows_of(written)) == 300
    empty.write_text("colour,height\n")
    assert main(["predict", str(pipeline), str(empty), "--out", str(written)]) == 2
    assert written.read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
def test_a_run_is_that_of_the_library(tmp_path):
    X, y = sklearn.datasets.load_diabetes(return_X_y=True)
    frame = pl.DataFrame(X).with_columns(target=y)
    frame.write_parquet(tmp_path / "d.parquet")
    run(tmp_path / "d.parquet", *SMALL, "--json", tmp_path / "d.json", "--save", tmp_path / "m")
    means, content = figures(tmp_path / "d.json")
    chunk = next(open_table(frame).chunks(1000))
    columns = Columns.decide(chunk)
    inputs, _ = columns.inputs(chunk, columns.init())
    learner = jaxmkl.scaled(jaxmkl.raker(num_features=4), jaxmkl.wrappers.RunningMoments())
    learner = jaxmkl.wrappers.scaled_targets(learner)
    state = learner.init(jax.random.split(jax.random.key(0), 1)[0], inputs.shape[1])
    state, outputs = jaxmkl.run(learner, state, inputs, (y - y[0]).astype(np.float32))
    errors = (np.asarray(outputs.prediction, np.float64) - (y - y[0]))[1:]
    assert means["raker", "mse"] == pytest.approx(np.square(errors).mean(), rel=1e-6)
    assert means["raker", "mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-6)
    so_far = np.array([y[:i].mean() for i in range(1, len(y))])
    for name, of, skill in (
        ("mean so far", so_far, "skill"),
        ("last label", y[:-1], "skill_last"),
    ):
        mse = np.square(of - y[1:]).mean()
        assert means[name, "mse"] == pytest.approx(mse)
        assert means["raker", skill] == pytest.approx(1 - means["raker", "mse"] / mse)
    assert_equal(jaxmkl.load_pipeline(tmp_path / "m").state, state)
    assert content["num_inputs"] == 10
    assert math.isfinite(content["table"][0]["microseconds"])


@pytest.mark.endless
def test_what_is_written_of_large_numbers_has_their_digits(tmp_path):
    """Predictions and targets of which all but the last digits are the same."""
    draws = np.random.default_rng(0)
    x, start = draws.uniform(size=200), 1e10
    frame = pl.DataFrame({"x": x, "y": np.round(start + 3 * x + draws.normal(size=200), 3)})
    frame.write_csv(tmp_path / "t.csv")
    written, figures_at, pipeline = (tmp_path / name for name in ("p.csv", "f.json", "model"))
    more = ["--predictions", written, "--json", figures_at, "--save", pipeline]
    run(tmp_path / "t.csv", *SMALL, "--seeds", "1", *more)
    rows = pl.read_csv(written)
    assert_array_equal(rows["y"], frame["y"])
    means, _ = figures(figures_at)
    errors = (rows["prediction"] - rows["y"])[1:].to_numpy()
    assert means["raker", "mse"] == pytest.approx(np.square(errors).mean(), rel=1e-3)
    assert main(["predict", str(pipeline), str(tmp_path / "t.csv"), "--out", str(written)]) == 0
    expected = jaxmkl.load_pipeline(pipeline).predict(frame)
    np.testing.assert_allclose(pl.read_csv(written)["prediction"], expected, rtol=0, atol=1e-4)
    assert np.ptp(expected) > 1


def test_a_model_goes_on_where_it_stopped(plants, tmp_path, capsys):
    part, whole, saved = (tmp_path / name for name in ("part", "whole", "half.csv"))
    lines = plants.read_text().splitlines(keepends=True)
    saved.write_text("".join(lines[:151]))
    run(saved, *SMALL, "--save", part, "--first", "150")
    run(plants, "--from", part, "--skip", "150", "--save", part)
    run(plants, *SMALL, "--save", whole, "--first", "150")
    one, other = jaxmkl.load_pipeline(part), jaxmkl.load_pipeline(whole)
    assert one.rows == other.rows == 300
    assert_equal(one.state, other.state)
    np.testing.assert_array_equal(one.fills, other.fills)
    for more, text in (
        (
            ["--learner", "raker"],
            f"{part}: the pipeline has its own settings; leave out --learner",
        ),
        (["--seeds", "3"], "leave out --seeds"),
        (["--skip", "300"], "has no rows after these"),
    ):
        assert main(["run", str(plants), "--from", str(part), *more]) == 2
        assert text in capsys.readouterr().err


@pytest.fixture
def iris(tmp_path):
    """Eight times iris, in an order of its own."""
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(1200) % 150
    frame = pl.DataFrame(X).with_columns(flower=np.array(["a", "b", "c"])[y])[order]
    frame.write_ndjson(tmp_path / "iris.ndjson")
    return tmp_path / "iris.ndjson", frame["flower"].to_numpy()


@pytest.mark.endless
def test_several_classes_and_labels_at_a_rate(iris, tmp_path, capsys):
    path, labels = iris
    out, said = tmp_path / "iris.json", tmp_path / "said.csv"
    names, few = "amkl_aks,perceptron", ("--set", "num_features=4", "--labels", "0.3")
    run(path, "--learner", names, *few, "--json", out, "--predictions", said)
    means, content = figures(out)
    shown = capsys.readouterr().out
    assert "--labels does not apply to amkl_aks, which asks in its own way" in shown
    assert "--set num_features: not a parameter of perceptron, ignored there" in shown
    assert 0.28 < means["perceptron", "label_rate"] < 0.35
    assert means["amkl_aks", "label_rate"] < 1
    assert content["classes"] == ["a", "b", "c"]
    first = content["judged_from"] - 1
    predicted, labels, last = rows_of(said)[first:], labels[first:], labels[first - 1 : -1]
    for name in names.split(","):
        found = np.array([row[f"prediction {name}"] for row in predicted])
        assert means[name, "mistake_rate"] == pytest.approx((found != labels).mean())
        assert means[name, "mistake_rate"] < 0.3
        kappa = sklearn.metrics.cohen_kappa_score(labels, found)
        assert means[name, "kappa"] == pytest.approx(kappa)
        against = 1 - (found != labels).mean() / (last != labels).mean()
        assert means[name, "kappa_last"] == pytest.approx(against)


@pytest.mark.slow
def test_a_sorted_file_is_told_and_classifiers_want_classes(tmp_path, capsys):
    path = tmp_path / "sorted.csv"
    path.write_text("x,label\n" + "".join(f"{i % 7},{int(i >= 50)}\n" for i in range(100)))
    run(path, *SMALL)
    assert "the table looks sorted" in capsys.readouterr().out
    assert main(["run", str(path), "--learner", "spa", "--task", "regression"]) == 2
    assert "spa: is for classification, but the target needs regression" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", long(["random"], ["ted", "facility", "cted", "gmkal", "lmkal", "random"])
)
def test_select_ranks_rows(method, plants, capsys):
    arguments = ["select", str(plants), "--num", "7", "--method", method, "--target", "kind"]
    assert main(arguments) == 0
    out, error = capsys.readouterr()
    found = list(csv.DictReader(out.splitlines()))
    lines = plants.read_text().splitlines()
    assert [row["rank"] for row in found] == list("1234567")
    assert len({row["line"] for row in found}) == 7
    for row in found:
        assert lines[int(row["line"]) - 1] == f"{row['height']},{row['colour']},{row['kind']}"
    assert "column 'kind' left out, as it is the target" in error


def test_select_reads_all_columns_of_arrays(tmp_path, capsys):
    lines = [f"0 1:{i % 5}" for i in range(20)] + [f"0 1:{i % 5} 2:{10 + i}" for i in range(9)]
    (tmp_path / "pool.svm").write_text("\n".join(lines) + "\n")
    # the first rows do not have the second column
    assert main(["select", str(tmp_path / "pool.svm"), "--num", "6", "--first", "20"]) == 0
    out, error = capsys.readouterr()
    assert "numbers as they stand: '1', '2'" in error
    assert "left out" not in error.replace("column 'label' left out, as it is the target", "")
    assert {int(row["line"]) > 20 for row in csv.DictReader(out.splitlines())} == {False, True}


BAD = [
    (["nonsense"], "invalid choice: 'nonsense'"),
    (["run"], "the following arguments are required: FILE"),
    (["run", "no.csv"], "no.csv: No such file or directory"),
    (["run", "t.csv", "--seeds", "0"], "at least 1; got '0'"),
    (["run", "t.csv", "--labels", "2"], "a share above 0 and at most 1; got '2'"),
    (["run", "t.csv", "--set", "rate"], "expected NAME=VALUE; got 'rate'"),
    (["run", "t.csv", "--as", "a"], "expected COLUMN=KIND; got 'a'"),
    (["run", "t.csv", "--as", "a=word"], "the kind must be one of number"),
    (["run", "t.csv", "--learner", "svm"], "unknown learner 'svm'; there are: raker, "),
    (["run", "t.csv", "--set", "colour=1"], "--set colour: not a parameter of raker, amkl_aks"),
    (["run", "t.csv", "--learner", "raker", "--set", "num_features=-3"], "raker: FourierFeatures"),
    (["run", "t.csv", "--learner", "amkl", "--labels", ".1"], "amkl asks in its own way"),
    (["run", "t.csv", "--delay", "-1"], "expected a whole number of at least 0; got '-1'"),
    (["run", "t.csv", "--target", "z"], "t.csv: has no column 'z'; its columns are 'a', 'y'"),
    (["run", "t.csv", "--drop", "a"], "t.csv: has no inputs"),
    (["run", "t.csv", "--from", "t.csv"], "t.csv is not a readable checkpoint"),
    (["run", "h.csv"], "h.csv, line 1: a header and no rows below it"),
    (["predict", "t.csv", "t.csv"], "is not a readable checkpoint"),
    (["predict", "no.npz", "t.csv", "--out", "o.csv"], "no.npz: No such file or directory"),
    (["select", "no.csv", "--num", "1", "--out", "o.csv"], "no.csv: No such file or directory"),
    (["select", "t.csv", "--num", "9"], "--num 9: t.csv has too few rows, 3 different ones"),
    (["select", "t.csv", "--num", "1", "--target", "z"], "--target: t.csv has no column 'z'"),
    (["select", "r.csv", "--num", "1"], "r.csv has a column 'rank', as the output of select has"),
    (["run", "t.csv", "--target", "y", "--drop", "y"], "'y': is the target, to which --drop and"),
    (["run", "t.csv", "--as", "y=categories"], "'y': is the target, to which --drop and --as"),
    (["ask", "late.csv", "--classes", "u,v", "--jsonl"], "'y': has the labels 'w' beside the"),
    (["info", "t.csv"], "is not a readable checkpoint"),
    pytest.param(
        ["run", "late.csv", *SMALL],
        "late.csv, line 1402, column 'y': 'w' is not one of the",
        marks=pytest.mark.slow,
    ),
    (["run", "t.csv", "h.csv", "-", "--target", "y"], "run takes one FILE; got 'h.csv', '-' as"),
    (["select", "t.csv", "h.csv", "--num", "1"], "select takes one FILE; got 'h.csv' as well"),
    (["serve", "a.npz", "b.npz"], "serve takes one PIPELINE at a time; got 'b.npz' as well"),
    (["run", "t.csv", "h.csv", "--nonsense"], "unrecognized arguments: h.csv --nonsense"),
]


COMMANDS = ["run", "predict", "ask", "serve", "select", "info", "export"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_for_readers_of_a_terminal(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert f"``jaxmkl {command}``: " in said
    assert not re.findall(r":[a-z]+:`", said)  # references, which pdoc follows


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"jaxmkl {jaxmkl.__version__}\n"


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_what_cannot_be_met_is_one_line_and_status_2(
    arguments, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,y\n1,0.5\n2,1.5\n3,7.5\n")
    Path("h.csv").write_text("a,y\n")
    Path("r.csv").write_text("rank,a\n1,2\n2,4\n3,9\n")
    rows = [f"{i % 7},{'uv'[i % 2]}" for i in range(1400)]
    Path("late.csv").write_text("\n".join(["a,y", *rows, "1,w"]) + "\n")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("jaxmkl: ")
    assert error.count("\n") == 1
    assert said in error


def test_progress_at_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for patience, seen in ((60.0, False), (0.0, True)):
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setattr(show, "PATIENCE", patience)
        with show.progress("t.csv") as say:
            while seen and not sys.stderr.getvalue():
                time.sleep(0.01)
            say(20, 0.5)
        assert ("20 rows" in sys.stderr.getvalue()) == seen


@pytest.mark.slow
def test_without_what_the_command_needs():
    program = "import sys; from jaxmkl.cli import main\n"
    program += "for name in ('polars', 'rich'):\n"
    program += (
        "    sys.modules[name] = None; print(main(['run', 'no.csv'])); del sys.modules[name]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2\n2\n", done.stderr
    assert done.stderr.count('pip install "jaxmkl[cli]"') == done.stderr.count("\n") == 2


@pytest.mark.slow
def test_a_table_with_everything_in_it(tmp_path, capsys):
    draws, n = np.random.default_rng(0), 2000
    days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=5 * i) for i in range(n)]
    words = draws.integers(0, 5000, n)
    code = words % 40
    cells = {
        "number": [f"{value:.3f}".replace(".", ",") for value in draws.normal(size=n)],
        "first; day": [f"{day:%Y-%m-%d}" for day in days],
        "second day": [f"{day:%d.%m.%Y %H:%M}" for day in days],
        "third day": [f"{day:%d %b %Y}" for day in days],
        "large": (10**17 + draws.integers(0, 10**16, n)).tolist(),
        "share": [f"{value:.1f}%".replace(".", ",") for value in draws.random(n)],
        "item": [f"item {word}" for word in words],
        "row": range(n),
        "kind": [f"kind {c}" if i % 2 else "" for i, c in enumerate(code)],
    }
    text = pl.DataFrame(cells).write_csv(separator=";", quote_style="necessary").encode()
    compressed = zstd("it").compress(b"\xef\xbb\xbf" + text)
    (tmp_path / "all.csv.zst").write_bytes(compressed)
    out = tmp_path / "all.json"
    run(tmp_path / "all.csv.zst", *SMALL, "--target", "kind", "--json", out)
    shown = capsys.readouterr().out
    for said in (
        "column 'number': numbers, with decimal commas",
        "column 'first; day' holds times of the form %Y-%m-%d: days since the first",
        "column 'second day' holds times of the form %d.%m.%Y %H:%M: days since the first",
        "column 'third day' holds times of the form %d %B %Y: days since the first",
        "numbers as they stand: 'large'",
        "column 'share': numbers, with decimal commas, with percent signs, in hundredths",
        "column 'item' holds text of",
        "column 'row' counts the rows: left out",
        "the target has 40 classes: 'kind 0', 'kind 1', 'kind 10'",
        "2,000 rows of 276 inputs, 1,000 without a target: predicted, not learned",
    ):
        assert said in shown
    means, content = figures(out)
    assert len(content["classes"]) == 40
    assert means["raker", "label_rate"] == 1
    assert 0 < means["raker", "mistake_rate"] < 1


@pytest.mark.endless
def test_what_a_metric_learned_is_told(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.sin(2 * X[:, 1])
    table, out, page, pipeline = (tmp_path / n for n in ("a.csv", "a.json", "a.html", "a.model"))
    lines = [",".join(map(str, row)) for row in np.column_stack([X, y])]
    table.write_text("\n".join(["wind,sun,rain,yield", *lines]) + "\n")
    given = ["--target", "yield", "--learner", "expert_mkl", "--set", "banks=diagonal"]
    given += ["--set", "num_features=20", "--json", out, "--report", page, "--save", pipeline]
    run(table, *given)
    shown = capsys.readouterr().out
    assert "columns that matter most to expert_mkl: sun " in shown
    learner, *baselines = json.loads(out.read_text())["table"]
    shares = learner["importances"]
    assert shares["sun"] > 0.8
    assert set(shares) == {"wind", "sun", "rain"}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert not any(line["importances"] for line in baselines)
    assert "Columns that matter" in page.read_text()
    assert main(["info", str(pipeline)]) == 0
    told = capsys.readouterr().out.split("importance of inputs\n")[1].split("\n")
    assert [line.split()[1] for line in told[:3]] == list(shares)


@pytest.mark.slow
def test_a_column_of_ndjson_may_come_late(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_text, "NAMED_BY", 10)
    draws, names, lines = random.Random(0), ("a", "b", "y"), list[dict]()
    for _ in range(40):
        a, b = draws.random(), draws.random()
        lines.append(dict(zip(names, (a, b, a + 10 * b), strict=True)))

    def file(name, rows):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)) + "\n")
        return str(tmp_path / name)

    pipeline = str(tmp_path / "sums.npz")
    assert main(["run", file("sums.ndjson", lines), *SMALL, "--save", pipeline]) == 0
    late = [{n: v for n, v in row.items() if n == "a" or i > 20} for i, row in enumerate(lines)]
    capsys.readouterr()
    told = "column 'b' is absent from the first 10 rows; its cells are missing there"
    assert main(["predict", pipeline, file("late.ndjson", late)]) == 0
    assert told in capsys.readouterr().err
    assert main(["run", file("late.ndjson", late), "--from", pipeline]) == 0
    assert told in " ".join(capsys.readouterr().out.split())
    saved = jaxmkl.load_pipeline(pipeline)
    with pytest.warns(UserWarning, match=r"columns of the first 10 rows, .* missing cells: 'b'"):
        found = saved.predict(tmp_path / "late.ndjson")
    np.testing.assert_array_equal(found[21:], saved.predict(tmp_path / "sums.ndjson")[21:])
    assert main(["predict", pipeline, file("few.ndjson", late[:9])]) == 0  # all rows
    assert "column 'b' is absent; its cells are missing" in capsys.readouterr().err


@pytest.mark.slow
def test_no_column_of_the_predictions_is_named_as_another(tmp_path):
    rows = [f"{i % 7},{i % 3}" for i in range(20)]
    (tmp_path / "own.csv").write_text("\n".join(["x,prediction", *rows]) + "\n")
    said = tmp_path / "said.csv"
    line = ["run", str(tmp_path / "own.csv"), *SMALL, "--task", "regression"]
    assert main([*line, "--predictions", str(said)]) == 0
    assert said.read_text().splitlines()[0] == "line,prediction,target"
