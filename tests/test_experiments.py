"""The command line, by real small runs: tables, JSON, plots, errors and exit statuses."""

import doctest
import importlib
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from experiments import __main__ as command_line
from experiments import amkl, bench, generate, report, tour
from experiments.__main__ import main
from experiments.printed import printed

ROW = {
    "paper",
    "dataset",
    "algorithm",
    "metric",
    "mean",
    "std",
    "seeds",
    "printed",
    "parameters",
    "seconds_per_run",
}
SMALL = ("--set", "num_features=4")


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def rows_of(path: Path) -> list[dict]:
    """The rows of a JSON file, each checked against the contract."""
    content = json.loads(path.read_text(), parse_constant=refuse_constant)
    assert set(content) == {"command", "rows"}
    assert content["command"].startswith("python -m experiments")
    for row in content["rows"]:
        assert set(row) == ROW
        assert isinstance(row["parameters"], dict)
        assert row["seeds"] >= 1
        if row["metric"].endswith("_rate"):
            assert 0 <= row["mean"] <= 1
    names = [
        (row["paper"], row["dataset"], row["algorithm"], row["metric"]) for row in content["rows"]
    ]
    assert len(set(names)) == len(names)
    return content["rows"]


def value(rows: list[dict], algorithm: str, metric: str) -> float:
    (row,) = (r for r in rows if (r["algorithm"], r["metric"]) == (algorithm, metric))
    return row["mean"]


def pictures(folder: Path) -> set[str]:
    """The names of a folder's files, all of which must be PNG."""
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small stand-ins for some of the papers' files."""
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    draws = np.random.default_rng(0)
    X = draws.uniform(size=(300, 3)).astype(np.float32)
    y = 0.5 * X[:, 0] * X[:, 1]
    for name in ("air", "tom"):
        np.savez(folder / f"{name}.npz", X=X, y=y)
    np.savez(folder / "naval.npz", X=1000 * X, y=y)
    np.savez(folder / "german.npz", X=X, y=np.where(X[:, 0] > 0.4, 1, -1).astype(np.int8))
    return folder


@pytest.fixture
def plants(tmp_path: Path) -> Path:
    """A CSV file with a column of text, missing cells and labels of two words."""
    draws = random.Random(0)
    lines = ["height,colour,kind"]
    for i in range(200):
        tree = draws.random() < 0.5
        height = "" if i % 17 == 0 else f"{draws.gauss(20 if tree else 10, 3):.2f}"
        colour = draws.choice(["red", "blue"] if tree else ["blue", "dark green"])
        lines.append(f"{height},{colour},{'big tree' if tree else 'small bush'}")
    path = tmp_path / "plants.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_main_job_plays_real_data_and_shows_table_json_and_plots(tmp_path, capsys):
    out, plots = tmp_path / "deep" / "tour.json", tmp_path / "plots"
    arguments = ["--datasets", "diabetes", "--algorithms", "raker,amkl", "--seeds", "3"]
    assert main([*arguments, *SMALL, "--json", str(out), "--plots", str(plots)]) == 0

    rows = rows_of(out)
    assert {(r["algorithm"], r["metric"]) for r in rows} == {
        (a, m) for a in ("raker", "amkl") for m in ("mse", "label_rate")
    }
    assert {r["seeds"] for r in rows} == {3}
    assert {r["parameters"]["num_features"] for r in rows} == {4}
    assert all(r["parameters"]["scaler"] == "RunningMoments()" for r in rows)
    assert all(r["seconds_per_run"] > 0 for r in rows)
    assert value(rows, "raker", "label_rate") == 1
    assert 1 / 3 <= value(rows, "amkl", "label_rate") < 0.9
    assert value(rows, "raker", "mse") < 1  # that of the mean
    assert pictures(plots) == {"tour_diabetes.png"}

    shown = capsys.readouterr().out
    assert f"{value(rows, 'raker', 'mse'):.4f}" in shown
    assert "seconds a run" in shown
    assert "printed" not in shown
    assert "[tour 2/2" in shown


def test_the_main_job_plays_the_drift(tmp_path, monkeypatch):
    monkeypatch.setattr(tour, "DRIFT_LENGTH", 1500)
    out = tmp_path / "tour.json"
    arguments = ["tour", "--datasets", "drift", "--algorithms", "raker", "--seeds", "2"]
    assert main([*arguments, "--json", str(out), "--plots", str(tmp_path / "plots")]) == 0
    assert 0.01 < value(rows_of(out), "raker", "mse") < 0.6
    assert pictures(tmp_path / "plots") == {"tour_drift.png"}


def test_everything_the_main_job_offers_is_there():
    sizes = {name: make().X.shape for name, make in tour.STREAMS.items()}
    assert sizes == {
        "diabetes": (442, 10),
        "breast_cancer": (569, 30),
        "digits": (1797, 64),
        "drift": (20_000, 10),
    }
    for name in ("breast_cancer", "digits"):
        assert set(np.unique(tour.STREAMS[name]().y)) == {-1, 1}


def test_tables_stand_beside_the_printed_figures(data_folder, tmp_path, capsys):
    out = tmp_path / "amkl.json"
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "naval", "--seeds", "2"]
    arguments += ["--algorithms", "raker,amkl_aks (tuned)", "--parts", "curves,tables"]
    plots = tmp_path / "plots"
    assert main([*arguments, "--json", str(out), "--plots", str(plots)]) == 0
    rows = rows_of(out)
    assert {(r["algorithm"], r["metric"]): r["printed"] for r in rows} == {
        ("raker", "mse"): 0.00025,
        ("raker", "label_rate"): 1.0,
        ("amkl_aks (tuned)", "mse"): 0.0002,
        ("amkl_aks (tuned)", "label_rate"): 0.54,
    }
    assert all(r["paper"] == "amkl" for r in rows)
    assert value(rows, "raker", "mse") < 0.02  # the variance of y
    assert pictures(plots) == {"amkl_curves_naval.png"}
    shown = capsys.readouterr().out
    assert "mse (x 1e-3)" in shown
    assert f"{1e3 * value(rows, 'raker', 'mse'):.3f}" in shown
    assert "slow sweep of y" in shown
    assert shown.count("naval raker") == 1  # the curves' runs serve the tables


def test_half_of_the_labels(data_folder, tmp_path):
    out = tmp_path / "amkl.json"
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "tom", "--seeds", "2"]
    arguments += ["--parts", "labelling", "--algorithms", "expert_mkl"]
    assert main([*arguments, *SMALL, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert value(rows, "expert_mkl", "label_rate") == 1
    assert value(rows, "expert_mkl (every second)", "label_rate") == 0.5
    assert 1 / 6 <= value(rows, "expert_mkl (confidence)", "label_rate") <= 1


def test_classification(data_folder, tmp_path, capsys):
    out = tmp_path / "amkl.json"
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "german", "--seeds", "2"]
    arguments += ["--parts", "classification", "--algorithms", "expert_mkl"]
    assert main([*arguments, *SMALL, "--json", str(out)]) == 0
    rows = rows_of(out)
    names = ("expert_mkl", "expert_mkl (online ranks)")
    assert {r["algorithm"] for r in rows} == set(names)
    for name in names:
        assert value(rows, name, "mistake_rate") < 0.3
        assert value(rows, name, "label_rate") == 1
    printed_rates = {r["printed"] for r in rows if r["algorithm"] in names[1:]}
    assert printed_rates == {0.296, None}
    shown = capsys.readouterr().out
    assert "adaptive random forest" in shown
    assert "0.2680" in shown


def test_the_sweep_of_figure_2(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(amkl, "TOLERANCES", (0.0, 1e9))
    monkeypatch.setattr(amkl, "LONGEST_PAUSES", (1, 4))
    out, plots = tmp_path / "amkl.json", tmp_path / "plots"
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "tom", "--seeds", "2"]
    arguments += ["--algorithms", "amkl", "--parts", "tradeoff"]
    assert main([*arguments, *SMALL, "--json", str(out), "--plots", str(plots)]) == 0
    rows = rows_of(out)
    # a tolerance beyond all skips as often as it may; with none the first label alone is skipped,
    # before which the kernels agree on zero
    assert value(rows, "amkl (η_c = 1e+09, M = 1)", "label_rate") == 0.5
    assert value(rows, "amkl (η_c = 1e+09, M = 4)", "label_rate") == pytest.approx(0.2)
    assert value(rows, "amkl (η_c = 0, M = 1)", "label_rate") == pytest.approx(299 / 300)
    assert len(rows) == 8
    assert pictures(plots) == {"amkl_tradeoff.png"}


def test_regret_of_a_stationary_stream(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    monkeypatch.setattr(amkl, "LENGTHS", (500, 1000))
    out, plots = tmp_path / "amkl.json", tmp_path / "plots"
    arguments = ["amkl", "--parts", "regret", "--seeds", "2"]
    arguments += ["--algorithms", "raker", "--json", str(out), "--plots", str(plots)]
    assert main([*arguments, "--set", "step_size=0.005", "--set", "num_features=20"]) == 0
    rows = rows_of(out)
    regrets = {r["dataset"]: r["mean"] for r in rows if r["metric"] == "regret"}
    errors = {r["dataset"]: r["mean"] for r in rows if r["metric"] == "mse"}
    for length in (500, 1000):
        name = f"stationary, T = {length}"
        assert 0 < regrets[name] < length * errors[name]  # the best function is not perfect
    (exponent,) = (r["mean"] for r in rows if r["metric"] == "regret_exponent")
    assert 0 < exponent < 1
    assert pictures(plots) == {"amkl_regret.png"}
    assert "regret exponent" in capsys.readouterr().out


def test_an_exponent_is_not_fitted_through_a_negative_regret():
    slopes = amkl.exponent(np.array([1, 4, 16]), np.array([[1.0, 2.0, 4.0], [1.0, -2.0, 4.0]]))
    assert slopes[0] == pytest.approx(0.5)
    assert math.isnan(slopes[1])


def test_own_classes_of_two_words(plants, tmp_path, capsys):
    out, plots = tmp_path / "own.json", tmp_path / "plots"
    arguments = ["run", str(plants), "--learner", "expert_mkl", "--seeds", "2", *SMALL]
    assert main([*arguments, "--json", str(out), "--plots", str(plots)]) == 0
    rows = rows_of(out)
    assert {(r["paper"], r["dataset"]) for r in rows} == {("own", "plants.csv")}
    assert value(rows, "expert_mkl", "mistake_rate") < 0.2
    assert pictures(plots) == {"run_plants.png"}
    shown = capsys.readouterr().out
    assert "'big tree' is -1 and 'small bush' is +1" in shown
    assert "'colour' holds text" in shown
    assert "12 missing cells" in shown
    assert "online by running moments" in shown


def test_own_numbers_are_judged_in_their_own_units(plants, tmp_path, capsys):
    found = {}
    text = plants.read_text()
    header, *lines = text.splitlines()
    for factor in (1, 1000):
        scaled = [
            ",".join([f"{factor * float(h):.2f}" if h else "", *rest])
            for h, *rest in (line.split(",") for line in lines)
        ]
        plants.write_text("\n".join([header, *scaled]) + "\n")
        out = tmp_path / f"{factor}.json"
        arguments = ["run", str(plants), "--target", "height", "--learner", "amkl_aks"]
        assert main([*arguments, "--scale", "ranks", "--seeds", "2", "--json", str(out)]) == 0
        found[factor] = rows_of(out)
    for rows in found.values():
        assert 0 < value(rows, "amkl_aks", "skill") < 1
    small, large = (value(rows, "amkl_aks", "mse") for rows in found.values())
    assert large == pytest.approx(1e6 * small, rel=1e-3)
    heights = np.array([float(line.split(",")[0]) for line in lines if line[0] != ","])
    assert 1 - small / heights.var() == pytest.approx(value(found[1], "amkl_aks", "skill"))
    shown = capsys.readouterr().out
    assert "12 rows without a target dropped" in shown
    assert f"variance {heights.var():.6g}" in shown


def test_a_sorted_file_is_told(tmp_path, capsys):
    path = tmp_path / "sorted.csv"
    path.write_text("x,label\n" + "".join(f"{i % 7},{int(i >= 50)}\n" for i in range(100)))
    assert main(["run", str(path), "--learner", "raker", "--seeds", "1"]) == 0
    assert "the file looks sorted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "choose from 'tour', 'amkl', 'run', 'bench'"),
        (["--datasets", "iris"], "unknown data set 'iris'; there are: diabetes, "),
        (["--algorithms", "svm"], "unknown algorithm 'svm'; there are: raker, "),
        (["--seeds", "0"], "at least 1 is wanted; got '0'"),
        (["--set", "num_features"], "NAME=VALUE is wanted; got 'num_features'"),
        (["--set", "colour=1"], "--set colour: no parameter of raker, "),
        (["--set", "num_features=-3"], "raker: FourierFeatures: num_features must be an integer"),
        (["--algorithms", "raker", "--set", "loss='logistic'"], "it does classification, not"),
        (["--unheard-of"], "unrecognized arguments: --unheard-of"),
        (["amkl"], "name their folder with --data DIR or in JAXMKL_DATA"),
        (["amkl", "--data", "/no/such/folder"], "there is no folder /no/such/folder"),
        (["amkl", "--datasets", "mnist"], "unknown data set 'mnist'; there are: twitter, tom"),
        (["amkl", "--algorithms", "spa"], "unknown algorithm 'spa'; there are: raker, "),
        (["amkl", "--parts", "plots"], "unknown part 'plots'; there are: tables, "),
        (["amkl", "--algorithms", "raker", "--set", "tolerance=1"], "no parameter of raker"),
        (["run"], "the following arguments are required: FILE"),
        (["run", "/no/such.csv"], "/no/such.csv: No such file or directory"),
        (["run", "/no/such.csv", "--learner", "svm"], "unknown learner 'svm'; there are: raker, "),
        (["run", "/no/such.csv", "--scale", "logs"], "invalid choice: 'logs'"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line_and_status_2(
    arguments, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("python -m experiments: ")
    assert error.count("\n") == 1
    assert said in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("x,kind\n1,red\n2,green\n3,blue\n", "has 3 classes"),
        ("x,y\n1,2\n3\n", "line 3"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_status_2(content, said, tmp_path, capsys):
    path = tmp_path / "file.csv"
    path.write_text(content)
    assert main(["run", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error
    assert said in error
    assert main(["run", str(path), "--target", "z"]) == 2


def test_a_missing_file_of_the_paper_is_named(data_folder, capsys):
    assert main(["amkl", "--data", str(data_folder), "--datasets", "air,energy"]) == 2
    assert f"{data_folder} has no energy.npz" in capsys.readouterr().err


def test_parts_without_their_data_say_so(data_folder, capsys):
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "german"]
    assert main([*arguments, "--algorithms", "raker", "--parts", "all"]) == 0
    shown = capsys.readouterr().out
    for part in ("tables", "classification", "labelling", "tradeoff", "curves", "regret"):
        assert f"{part}: none of its data sets and algorithms was asked for" in shown


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("tour", "run", "bench", *command_line.PAPERS))


def test_the_benchmark(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    monkeypatch.setattr(bench, "LENGTH", 300)
    monkeypatch.setattr(bench, "REPEATS", 2)
    monkeypatch.setattr(bench, "FIRST", {"scikit-learn": 20, "expert_mkl": 300})
    out = tmp_path / "bench.json"
    assert main(["bench", "--json", str(out)]) == 0
    rows = rows_of(out)
    assert all(r["mean"] > 0 for r in rows)
    for name in ("raker", "raker, 32 seeds", "expert_mkl", "scikit-learn"):
        assert value(rows, name, "microseconds_per_example") > 0
    faster = value(rows, "scikit-learn", "times_raker")
    each = [value(rows, name, "microseconds_per_example") for name in ("scikit-learn", "raker")]
    assert faster == pytest.approx(each[0] / each[1], rel=0.9)
    assert value(rows, "raker", "encoding_share") < 2
    assert "expert_mkl" in capsys.readouterr().out


def test_the_long_stream_is_never_in_memory(capsys):
    shown = report.Report("python -m experiments bench --long")
    bench.long_stream(shown, total=2500, chunk=500)
    rows = {row.metric: row.mean for row in shown.rows}
    assert rows["last_over_first"] > 0
    assert rows["peak_memory_mib"] > rows["memory_growth_mib"] >= 0
    assert 0.01 < rows["mse"] < 0.6
    assert "[long stream 5/5" in capsys.readouterr().out


def test_generated_examples_depend_on_key_and_index_alone():
    X, y = generate.examples(3, 0, 600)
    chunks = list(generate.chunks(3, 600, 250))
    assert [len(c[1]) for c in chunks] == [250, 250, 100]
    np.testing.assert_array_equal(np.concatenate([c[0] for c in chunks]), X)
    np.testing.assert_array_equal(np.concatenate([c[1] for c in chunks]), y)
    assert np.abs(generate.examples(4, 0, 600)[0] - X).max() > 1


def test_the_drifting_stream_drifts_and_the_stationary_one_does_not():
    X, moving = generate.examples(3, 0, 12_000)
    same_X, resting = generate.examples(3, 0, 12_000, drift=False)
    np.testing.assert_array_equal(X, same_X)
    assert np.isfinite(moving).all()
    assert 0.3 < moving.var() < 2
    apart = np.abs(moving - resting)
    assert apart[:20].max() < 0.1  # the same target at first
    assert apart[5000:5500].mean() > 0.3  # another one after the abrupt change


def test_figures_printed_in_the_paper():
    assert printed("amkl", "twitter", "amkl_aks", "mse") == 0.00285
    assert printed("amkl", "naval", "omkl_b", "mse") == 0.81874
    assert printed("amkl", "tom", "amkl", "label_rate") == 0.88
    assert printed("amkl", "german", "raker", "mse") is None


def test_examples_in_docstrings():
    for name in ("evaluate", "report", "generate", "amkl", "bench", "printed"):
        result = doctest.testmod(importlib.import_module(f"experiments.{name}"))
        assert result.attempted > 0
        assert result.failed == 0


@pytest.mark.data
def test_raker_on_real_data_errs_less_than_printed(data_dir, tmp_path):
    out = tmp_path / "amkl.json"
    arguments = ["amkl", "--data", str(data_dir), "--datasets", "air", "--algorithms", "raker"]
    assert main([*arguments, "--seeds", "2", "--parts", "tables", "--json", str(out)]) == 0
    (row,) = (r for r in rows_of(out) if r["metric"] == "mse")
    assert row["mean"] < row["printed"] == 0.00213
