"""The command line, by real small runs: tables, JSON, plots, errors and exit statuses."""

import dataclasses
import doctest
import importlib
import json
import math
import random
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from experiments import __main__ as command_line
from experiments import amkl, bench, bomkl, evaluate, generate, oks, report, tour
from experiments.__main__ import main
from experiments.options import Options, UsageError
from experiments.paper import Job
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
    labels = np.where(X[:, 0] > 0.4, 1, -1).astype(np.int8)
    for name in ("german", "magic04", "a9a", "susy"):
        np.savez(folder / f"{name}.npz", X=X, y=labels)
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


def test_support_vectors_of_table_2(data_folder, tmp_path, capsys):
    out = tmp_path / "amkl.json"
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "tom", "--parts", "support"]
    arguments += ["--algorithms", "kl_rbf_0.1,linear,omkl_b"]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert {r["seeds"] for r in rows} == {1}
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mse"} == {
        "kl_rbf_0.1": 0.01436,
        "linear": 0.01952,
        "omkl_b": 0.0394,
    }
    assert value(rows, "kl_rbf_0.1", "support") == 300
    assert value(rows, "omkl_b", "support") == 17 * 50
    X = np.load(data_folder / "tom.npz")["X"].astype(np.float64)
    norm = np.square(X).sum(axis=1).mean()
    steps = {r["algorithm"]: r["parameters"]["step_size"] for r in rows}
    assert any(steps["kl_rbf_0.1"] == pytest.approx(s, rel=1e-6) for s in amkl.STEP_SIZES)
    assert any(steps["linear"] == pytest.approx(s / norm, rel=1e-6) for s in amkl.STEP_SIZES)
    assert "label rate" not in capsys.readouterr().out
    assert main([*arguments[:-1], "linear", "--set", "step_size=0.125", "--json", str(out)]) == 0
    assert rows_of(out)[0]["parameters"]["step_size"] == 0.125


def test_the_tuned_step_is_the_best_of_the_grid():
    draws = np.random.default_rng(1)
    X = draws.uniform(size=(200, 2)).astype(np.float32)
    stream = evaluate.Stream("made", X, X[:, 0], "regression")
    tuned = amkl.tuned_step(jaxmkl.kernel_ogd(jaxmkl.Gaussian(0.5)), stream)
    errors = {}
    for step in amkl.STEP_SIZES:
        learner = jaxmkl.kernel_ogd(jaxmkl.Gaussian(0.5), step_size=step)
        errors[step] = evaluate.evaluate(learner, stream, 1, permute=False).error[0, -1]
    assert tuned == pytest.approx(min(errors, key=errors.__getitem__))
    assert max(errors.values()) > 2 * min(errors.values())


def test_tables_of_budgets(data_folder, tmp_path, capsys):
    out = tmp_path / "bomkl.json"
    arguments = ["bomkl", "--data", str(data_folder), "--datasets", "magic04", "--seeds", "2"]
    arguments += ["--algorithms", "omkc_sd,bpas,spa", "--set", "budget=3"]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mistake_rate"} == {
        "omkc_sd": 0.2239,
        "bpas": 0.2273,
        "spa": 0.1981,
    }
    assert value(rows, "bpas", "support") == 16 * 3
    shown = capsys.readouterr().out
    assert "mistake rate (%)" in shown
    assert "73433.4" in shown
    assert shown.count("magic04 spa") == 2
    assert "--set budget: no parameter of omkc_sd, spa, left out there" in shown


def test_the_best_perceptron_of_the_first_order_is_taken(data_folder, tmp_path):
    out = tmp_path / "bomkl.json"
    arguments = ["bomkl", "--data", str(data_folder), "--datasets", "german", "--seeds", "1"]
    assert main([*arguments, "--algorithms", "perceptron*", "--json", str(out)]) == 0
    rows = rows_of(out)
    # every mistake of a perceptron is a support vector, and no other example is
    (best,) = (r for r in rows if r["metric"] == "support")
    assert best["mean"] == pytest.approx(300 * value(rows, "perceptron*", "mistake_rate"))
    data = jaxmkl.data.read(data_folder / "german.npz")
    X = jaxmkl.data.scale(data.X, "symmetric")
    order = np.asarray(jaxmkl.permutations(evaluate.keys_of(1), 300)[0])
    X, y = np.asarray(X, np.float64)[order], np.asarray(data.y, np.float64)[order]
    squares = ((X[:, None] - X) ** 2).sum(2)
    grams = [np.exp(-squares / (2 * 4.0**k)) for k in range(-6, 7)]
    grams += [(X @ X.T) ** q for q in (1, 2, 3)]
    mistakes = {}
    for kernel, gram in zip(bomkl.kernels_one_by_one(), grams, strict=True):
        coefficients = np.zeros(300)
        for t in range(300):
            if y[t] * (gram[t] @ coefficients) <= 0:
                coefficients[t] = y[t]
        mistakes[repr(kernel)] = np.count_nonzero(coefficients)
    assert best["mean"] == min(mistakes.values()) < max(mistakes.values())
    assert mistakes[best["parameters"]["kernel"]] == best["mean"]


def test_polynomials_of_the_printed_slip_never_learn():
    draws = np.random.default_rng(2)
    X = draws.normal(size=(60, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.float32)
    kernels = jaxmkl.KernelDictionary(
        (jaxmkl.Gaussian([0.25, 0.5, 1.0, 2.0]), jaxmkl.Polynomial((1, 2, 3)))
    )
    learner = jaxmkl.omkc_dd(kernels, capacity=60)
    slipped = dataclasses.replace(learner, support=bomkl.SlippedSupport(capacity=60))
    state = slipped.init(jax.random.key(0), 2)
    state, outputs = jaxmkl.run(slipped, state, X, y, record=lambda output: output)

    # the same by hand: models of four Gaussians; polynomials err whatever happens
    widths = np.array([0.25, 0.5, 1.0, 2.0])
    coefficients = np.zeros((4, 60))
    weights, votes, supports = np.ones(7), [], 0
    for t in range(60):
        squares = ((X[t].astype(np.float64) - X) ** 2).sum(1)
        f = (coefficients * np.exp(-squares / (2 * widths[:, None] ** 2))).sum(1)
        f = np.concatenate([f, np.zeros(3)])
        votes.append((weights / weights.sum()) @ np.where(f >= 0, 1, -1))
        wrong = y[t] * f <= 0
        weights = np.where(wrong, 0.99, 1.0) * weights
        supports += wrong.sum()
        coefficients[:, t] = y[t] * (wrong[:4] + np.append(wrong[4:], 0.0))
    np.testing.assert_allclose(outputs.prediction, votes, atol=1e-5)
    assert int(state.support.number.sum()) == supports
    assert float(jnp.abs(state.support.coefficients[4:]).max()) == 0
    assert float(jnp.abs(state.support.recent[4:]).max()) == 0
    repaired = jaxmkl.run(learner, learner.init(jax.random.key(0), 2), X, y)[1]
    assert np.abs(np.asarray(repaired.prediction) - votes).max() > 0.1


def test_alpha_and_beta(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(bomkl, "ALPHAS", (0.25, 1.0))
    monkeypatch.setattr(bomkl, "BETAS", (3.0, 10.0))
    monkeypatch.setattr(bomkl, "SAMPLE", 200)
    out, plots = tmp_path / "bomkl.json", tmp_path / "plots"
    arguments = ["bomkl", "--data", str(data_folder), "--datasets", "a9a", "--seeds", "2"]
    arguments += ["--algorithms", "spa,bogd", "--parts", "sensitivity", "--plots", str(plots)]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert {r["dataset"] for r in rows} == {"a9a, T = 200"}
    most = value(rows, "spa (α = 1, β = 3)", "support")
    least = value(rows, "spa (α = 1, β = 10)", "support")
    assert least < most
    assert value(rows, "spa (α = 0.25, β = 3)", "support") < most
    assert value(rows, "bogd (as spa, β = 3)", "support") == 16 * max(1, round(most / 16))
    assert len({r["algorithm"] for r in rows}) == 5
    assert pictures(plots) == {"bomkl_alpha.png", "bomkl_beta.png"}


def test_precision_compares_the_same_orders(data_folder, tmp_path):
    out = tmp_path / "bomkl.json"
    arguments = ["bomkl", "--data", str(data_folder), "--datasets", "german", "--seeds", "2"]
    arguments += ["--algorithms", "omkc_dd", "--parts", "precision"]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    for metric in ("mistake_rate", "support"):
        single = value(rows, "omkc_dd (float32)", metric)
        double = value(rows, "omkc_dd (float64)", metric)
        found = value(rows, "omkc_dd (float64)", f"{metric}_difference")
        assert found == pytest.approx(single - double, abs=1e-9)
        # other orders differ by far more
        assert abs(found) < 0.02 * double
    assert not jax.config.jax_enable_x64


def test_runs_tell_their_support_vectors_through_wrappers():
    X = np.random.default_rng(3).normal(size=(100, 2)).astype(np.float32)
    stream = evaluate.Stream("made", X, np.sign(X[:, 0]), "classification")
    learner = jaxmkl.scaled(jaxmkl.perceptron(), jaxmkl.RunningMoments())
    runs = evaluate.evaluate(learner, stream, 2, permute=True)
    # every mistake of a perceptron is a support vector, and no other example is
    np.testing.assert_allclose(runs.support, 100 * runs.error[:, -1])
    assert (runs.support > 0).all()
    built = evaluate.Candidate("perceptron", learner, {})
    assert [row.metric for row in runs.rows("own", "made", built)][-1] == "support"
    rows = runs._replace(support=None).rows("own", "made", built)
    assert "support" not in [row.metric for row in rows]


def test_only_the_test_rows_of_cod_rna_are_played(data_folder):
    X = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    y = np.array([1, -1, 1, -1, 1, -1], np.int8)
    np.savez(data_folder / "cod_rna.npz", X=X, y=y, n_train=np.int64(4))
    options = Options(command="bomkl", data=data_folder)
    job = Job(bomkl.PAPER, options, report.Report("python -m experiments"), (), (), 1)
    stream = bomkl.stream_of(job, "cod_rna")
    np.testing.assert_array_equal(stream.X, [[-1, -1], [1, 1]])
    np.testing.assert_array_equal(stream.y, y[4:])
    np.savez(data_folder / "cod_rna.npz", X=X, y=y)
    with pytest.raises(UsageError, match=r"cod_rna\.npz: has no 'n_train'"):
        bomkl.stream_of(job, "cod_rna")


def job_of(folder: Path, seeds: int = 2, **settings: object) -> Job:
    """A job of the experiments with the moving kernel."""
    options = Options(command="oks", data=folder, settings=settings)
    shown = report.Report("python -m experiments oks")
    return Job(oks.PAPER, options, shown, oks.DATASETS, tuple(oks.ALGORITHMS), seeds)


def by_hand(learner, stream: evaluate.Stream, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels (S, T) of a learner."""
    keys = evaluate.keys_of(seeds)
    _, outputs = jaxmkl.run_many(learner, keys, stream.X, stream.y)
    orders = np.asarray(jaxmkl.permutations(keys, len(stream.y)))
    return np.asarray(outputs.prediction), stream.y[orders]


def best_width(X: np.ndarray, y: np.ndarray) -> float:
    """The width best aligned with the labels."""
    X, y = X.astype(np.float64), y.astype(np.float64)
    widths = 2.0 ** (-(np.arange(-12, 13) + 1) / 2)
    grams = np.exp(-((X[:, None] - X) ** 2).sum(2) / (2 * widths[:, None, None] ** 2))
    return widths[np.argmax((y @ grams @ y) / np.sqrt((grams**2).sum((1, 2))))]


def test_the_table_of_online_kernel_selection(data_folder, tmp_path, capsys):
    out = tmp_path / "oks.json"
    arguments = ["oks", "--data", str(data_folder), "--datasets", "german", "--seeds", "2"]
    arguments += ["--algorithms", "oks_sil,proj_ka", "--set", "budget=30", "--set", "step_size=1"]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mistake_rate"} == {
        "oks_sil": 0.2961,
        "proj_ka": 0.3828,
        "majority": None,
    }
    data = jaxmkl.data.read(data_folder / "german.npz")
    share = np.mean(data.y > 0)
    assert value(rows, "majority", "mistake_rate") == pytest.approx(min(share, 1 - share))
    assert value(rows, "oks_sil", "support") == 30
    assert value(rows, "oks_sil", "zero_rate") == pytest.approx(1 / 300)  # the first score
    assert {r["seeds"] for r in rows if r["algorithm"] != "majority"} == {2}
    width = best_width(data.X, data.y)
    (widths,) = {tuple(r["parameters"].get("bandwidth", ())) for r in rows} - {()}
    assert widths == pytest.approx((width, width))
    with jax.enable_x64(True):
        X, y = data.X.astype(np.float64), data.y.astype(np.float64)
        stream = evaluate.Stream("german", X, y, "classification")
        f, labels = by_hand(jaxmkl.projectron(jaxmkl.Gaussian(width), budget=30), stream, 2)
        # a vote; a score of 0, as the first one is, votes +1
        found = value(rows, "proj_ka", "mistake_rate")
        assert found == pytest.approx((f * labels <= 0).mean(), abs=1.01 / 300)
    shown = capsys.readouterr().out
    assert "larger class (%)" in shown
    assert f"{100 * min(share, 1 - share):.3f}" in shown
    assert "warning" not in shown


def test_scores_of_zero_are_told(data_folder, tmp_path, capsys):
    archive = np.load(data_folder / "german.npz")
    far = (1e9 * archive["X"]).astype(np.float32)
    np.savez(data_folder / "mushrooms.npz", X=far, y=archive["y"])
    out = tmp_path / "oks.json"
    arguments = ["oks", "--data", str(data_folder), "--datasets", "mushrooms", "--seeds", "2"]
    arguments += ["--algorithms", "oks_sil", "--set", "step_size=0.5", "--json", str(out)]
    assert main(arguments) == 0
    rows = rows_of(out)
    raw = [r for r in rows if r["dataset"] == "mushrooms"]
    assert value(raw, "oks_sil", "zero_rate") == value(raw, "oks_sil", "mistake_rate") == 1
    unit = [r for r in rows if r["dataset"] == "mushrooms (unit rows)"]
    assert value(unit, "oks_sil", "zero_rate") < 0.1
    assert value(unit, "oks_sil", "mistake_rate") < 0.4
    assert {r["printed"] for r in unit if r["algorithm"] == "oks_sil"} == {0.00351, None}
    shown = capsys.readouterr().out
    assert "warning: mushrooms, oks_sil: 100 % of all scores are exactly 0" in shown
    assert "unit rows), oks_sil:" not in shown


def test_long_streams_are_tuned_on_their_first_rounds(data_folder, monkeypatch):
    monkeypatch.setattr(oks, "LARGE", 120)
    monkeypatch.setattr(oks, "SLOW_ROUNDS", {"okl_gd": 200})
    monkeypatch.setattr(oks, "SLOW_SEEDS", {"okl_gd": 2})
    monkeypatch.setattr(oks, "STEP_SIZES", (1e-3, 0.1, 10.0))
    job = job_of(data_folder, seeds=4, budget=50)
    stream = oks.stream_of(job, "german")
    made, scores = oks.played(job, stream, "okl_gd")
    wrong = {}
    for size in oks.STEP_SIZES:
        learner = jaxmkl.okl_gd(step_size=size, budget=50)
        wrong[size] = np.multiply(*by_hand(learner, stream, oks.TUNING_SEEDS)) <= 0
    errors = {size: of_size[:, :120].mean() for size, of_size in wrong.items()}
    assert min(errors.values()) < max(errors.values())
    best = made.parameters["step_size"]
    assert errors[best] == min(errors.values())
    expected = wrong[best][:2, :200].mean(axis=1)
    np.testing.assert_allclose(scores.mistakes, expected, atol=1e-6)


def test_widths_are_aligned_on_the_first_rounds_of_an_order(data_folder):
    stream = oks.stream_of(job_of(data_folder), "german")
    keys = evaluate.keys_of(3)
    widths = oks.aligned_widths(stream, keys, 20)
    for width, order in zip(widths, np.asarray(jaxmkl.permutations(keys, 300)), strict=True):
        assert width == best_width(stream.X[order[:20]], stream.y[order[:20]])
    assert len(set(widths)) > 1
    (width,) = set(oks.aligned_widths(stream, keys, 300))
    assert width == best_width(stream.X, stream.y)


def test_budget_sampling_size_and_threshold(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(oks, "FIGURE_1", {"budget": (40,), "threshold": (0.5,)})
    np.savez(data_folder / "spambase.npz", **np.load(data_folder / "german.npz"))
    out, plots = tmp_path / "oks.json", tmp_path / "plots"
    arguments = ["oks", "--data", str(data_folder), "--datasets", "spambase", "--seeds", "2"]
    arguments += ["--parts", "figure1", "--set", "step_size=0.5", "--plots", str(plots)]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    assert value(rows, "oks_sil (B = 40)", "support") == 40
    assert 40 < value(rows, "oks_sil (ν = 0.5)", "support") <= 150
    assert value(rows, "oks_sil (B = 40)", "mistake_rate") < 0.4
    assert {r["parameters"]["step_size"] for r in rows} == {0.5}
    assert pictures(plots) == {"oks_budget.png", "oks_threshold.png"}


def test_a_width_that_moves_and_one_that_is_held(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(oks, "STARTS", (2.0, 8.0))
    monkeypatch.setattr(oks, "STEP_SIZES", (0.01, 1.0))
    np.savez(data_folder / "svmguide3.npz", **np.load(data_folder / "german.npz"))
    out, plots = tmp_path / "oks.json", tmp_path / "plots"
    arguments = ["oks", "--data", str(data_folder), "--datasets", "svmguide3", "--seeds", "2"]
    arguments += ["--parts", "width", "--plots", str(plots)]
    assert main([*arguments, "--json", str(out)]) == 0
    rows = rows_of(out)
    raw = [r for r in rows if r["dataset"] == "svmguide3"]
    for start in (2.0, 8.0):
        assert value(raw, f"oks_sil (start {start:g}, held)", "width") == pytest.approx(start)
        assert value(raw, f"oks_sil (start {start:g}, moves)", "width") < 0.9 * start
        rates = [
            value(raw, f"oks_sil (start {start:g}, {w})", "mistake_rate")
            for w in ("held", "moves")
        ]
        assert rates[0] != rates[1]
    assert {r["dataset"] for r in rows} == {"svmguide3", "svmguide3 (scaled)"}
    assert pictures(plots) == {"oks_width_svmguide3.png", "oks_width_svmguide3_scaled.png"}


def test_a_width_for_every_input(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    monkeypatch.setattr(oks, "ROUNDS", 1000)
    monkeypatch.setattr(oks, "LEARNING_RATE", 0.03)
    kinds = {"one width": (False, False), "a width an input, adam": (True, True)}
    monkeypatch.setattr(oks, "KINDS", kinds)
    out, plots = tmp_path / "oks.json", tmp_path / "plots"
    arguments = ["oks", "--parts", "anisotropic", "--seeds", "3", "--set", "step_size=1.0"]
    assert main([*arguments, "--json", str(out), "--plots", str(plots)]) == 0
    rows = rows_of(out)
    one, each = (value(rows, f"oks_sil ({words})", "mistake_rate") for words in kinds)
    difference = value(rows, "oks_sil (a width an input, adam)", "difference")
    assert difference == pytest.approx(each - one)
    assert value(rows, "oks_sil (a width an input, adam)", "width_ratio") > 1
    assert pictures(plots) == {"oks_anisotropic.png"}
    assert "(a standard error)" in capsys.readouterr().out


def test_figures_of_widths_by_hand():
    wrong = {"one": np.array([[1, 1, 0, 0], [1, 1, 1, 1]]), "each": np.array([[1, 0, 0, 0]] * 2)}
    widths = {"one": np.ones((2, 4)), "each": np.ones((2, 4, 10))}
    widths["each"][0, -1] = [1, 2, 6, 8, 8, 8, 8, 8, 8, 8]
    made = {words: evaluate.Candidate("oks_sil", None, {}) for words in wrong}
    rows = {(r.algorithm, r.metric): r for r in oks.anisotropic_rows(made, wrong, widths)}
    assert rows["oks_sil (one)", "mistake_rate"].mean == 0.75
    assert rows["oks_sil (each)", "width_ratio"].mean == (3 + 1) / 2
    difference = rows["oks_sil (each)", "difference"]
    assert difference.mean == (-0.25 - 0.75) / 2
    assert difference.std == pytest.approx(0.5 / 2**0.5)


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
        (
            ["nonsense"],
            "choose from 'tour', 'amkl', 'bomkl', 'oks', 'design', 'multitask', 'run', 'bench'",
        ),
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
        (["bomkl", "--parts", "table3"], "there are: table1, table2, sensitivity, precision"),
        (["bomkl", "--set", "discount=2"], "omkc_dd: discount: discount must be in (0, 1]"),
        (["oks", "--parts", "table1"], "there are: table2, scaled, figure1, width, anisotropic"),
        (["oks", "--algorithms", "spa"], "there are: oks_sil, okl_gd, oks, proj_ka"),
        (["oks", "--set", "num_sampled=0"], "oks_sil: HypothesisSketch: num_sampled"),
        (["bench", "--long", "--memory"], "not allowed with argument --long"),
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
    parts = ("tables", "support", "classification", "labelling", "tradeoff", "curves", "regret")
    for part in parts:
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
    monkeypatch.setattr(bench, "SUPPORT_REPEATS", 2)
    cases = (
        bench.Case("a9a", "spa", 2, length=300),
        bench.Case("magic04", "rbp", 1, {"budget": 5}, length=300),
    )
    monkeypatch.setattr(bench, "CASES", cases)
    monkeypatch.setattr(bench, "SHAPES", {**bench.SHAPES, "cod_rna": (1005, 8)})
    monkeypatch.setattr(bench, "LANDMINE", (150, 4, 5))
    monkeypatch.setattr(bench, "TASK_ORDERS", 2)
    monkeypatch.setattr(bench, "TASK_RUNS", {"multitask": 0.1})
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
    for name in ("spa, 2 orders", "rbp", "multitask"):
        assert value(rows, name, "seconds_per_pass") < value(rows, name, "compile_seconds")
    assert value(rows, "rbp", "support") == 16 * 5
    assert {r["dataset"] for r in rows} == {
        "generated",
        "generated, as a9a",
        "generated, as magic04",
        "generated, as cod_rna",
        "generated, as landmine",
    }
    covariances = (5 + 1) * 100**2 * 4  # bytes
    assert 1 < value(rows, "multitask", "state_mib") * 2**20 / covariances < 1.6
    (tenths,) = (r for r in rows if r["metric"] == "last_over_first")
    assert tenths["parameters"]["examples"] == 1000
    first, last = (value(rows, "oks_sil", f"seconds_{end}_tenth") for end in ("first", "last"))
    assert tenths["mean"] == pytest.approx(last / first, rel=0.9)
    assert "expert_mkl" in capsys.readouterr().out


def test_the_long_stream_is_never_in_memory(capsys):
    shown = report.Report("python -m experiments bench --long")
    bench.long_stream(shown, total=2500, chunk=500)
    rows = {row.metric: row.mean for row in shown.rows}
    assert rows["last_over_first"] > 0
    assert rows["peak_memory_mib"] > rows["memory_growth_mib"] >= 0
    assert 0.01 < rows["mse"] < 0.6
    assert "[long stream 5/5" in capsys.readouterr().out


def test_memory_is_measured_in_a_process_of_its_own(monkeypatch, capsys):
    monkeypatch.delenv("JAXMKL_DATA", raising=False)
    shown = report.Report("python -m experiments bench --memory")
    case = bench.Case("magic04", "rbp", 2, {"budget": 5}, length=300)
    assert np.ones(2**26).all()  # takes 512 MiB that are not the measured process's
    bench.memory(Options(), shown, case)
    rows = {row.metric: row for row in shown.rows}
    before = rows["memory_before_mib"].mean
    assert 10 < before < rows["peak_memory_mib"].mean
    assert before < bench.peak_memory() - 512
    assert rows["support"].mean == 16 * 5
    assert rows["support"].parameters["seeds"] == 2
    assert "generated, as magic04" in capsys.readouterr().out


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


def test_only_two_inputs_of_ten_matter():
    X, y = generate.two_that_matter(3, 0, 5000)
    np.testing.assert_array_equal(generate.two_that_matter(3, 100, 200)[0], X[100:200])
    assert X.shape == (5000, 10)
    assert -1 <= X.min() < -0.99
    assert 0.99 < X.max() <= 1
    assert abs(y.mean()) < 0.05
    same = (X[:, 0] > 0) == (X[:, 1] > 0)
    near = np.abs(X[:, 0]) < np.pi / 4  # there the sine has the sign of its argument
    np.testing.assert_array_equal(y[near] > 0, same[near])
    np.testing.assert_array_equal(y[~near] > 0, ~same[~near])
    assert np.abs(generate.two_that_matter(4, 0, 5000)[0] - X).max() > 1


def test_lines_are_drawn_as_they_are_summed_up():
    lines = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    assert [float(part[0]) for part in report.spread(lines, True)] == [2.0, 1.0, 3.0]
    assert [float(part[0]) for part in report.spread(lines, False)] == [21.2, 0.0, 100.0]


def test_figures_printed_in_the_paper():
    assert printed("amkl", "twitter", "amkl_aks", "mse") == 0.00285
    assert printed("amkl", "naval", "omkl_b", "mse") == 0.81874
    assert printed("amkl", "tom", "amkl", "label_rate") == 0.88
    assert printed("amkl", "german", "raker", "mse") is None
    assert printed("bomkl", "a9a", "omkc_sd", "mistake_rate") == 0.1893
    assert printed("bomkl", "magic04", "perceptron*", "support") == 4620.9
    assert printed("bomkl", "cod_rna", "bpas", "mistake_rate") == 0.0562
    assert printed("bomkl", "susy", "spa", "support") == 1978.8
    assert printed("bomkl", "susy", "omkc_u", "support") is None
    assert printed("oks", "mushrooms", "oks_sil", "mistake_rate") == 0.00351
    assert printed("oks", "cod_rna", "oks", "mistake_rate") == 0.12927
    assert printed("oks", "ijcnn1", "proj_ka", "mistake_rate") == 0.1194
    assert printed("oks", "w7a", "okl_gd", "zero_rate") is None


def test_budgets_are_those_of_table_2():
    for dataset, row in {"a9a": 7088, "magic04": 4064, "cod_rna": 12624, "susy": 1984}.items():
        for name in bomkl.BUDGETED:
            assert (
                printed("bomkl", dataset, name, "support") == row == 16 * bomkl.budget_of(dataset)
            )


def test_examples_in_docstrings():
    for name in ("evaluate", "report", "generate", "amkl", "bomkl", "oks", "bench", "printed"):
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


@pytest.mark.data
def test_spa_on_real_data_errs_as_printed(data_dir, tmp_path):
    out = tmp_path / "bomkl.json"
    arguments = ["bomkl", "--data", str(data_dir), "--datasets", "german", "--parts", "table1"]
    arguments += ["--algorithms", "omkc_sd (printed slip),spa", "--json", str(out)]
    assert main(arguments) == 0
    for row in rows_of(out):
        # three standard errors of the difference of two means of ten orders, about
        if row["printed"] is not None:
            assert abs(row["mean"] - row["printed"]) < 3 * (2 / 10) ** 0.5 * row["std"]


@pytest.mark.data
def test_a_moving_width_errs_less_than_printed(data_dir, tmp_path):
    out = tmp_path / "oks.json"
    arguments = ["oks", "--data", str(data_dir), "--datasets", "svmguide3", "--json", str(out)]
    assert main([*arguments, "--algorithms", "oks_sil", "--set", "step_size=1.0"]) == 0
    (row,) = (r for r in rows_of(out) if r["printed"] is not None)
    assert row["mean"] < row["printed"] == 0.2148
    assert row["seeds"] == 20
