"""The experiments of online kernel selection, by real small runs."""

from pathlib import Path

import jax
import numpy as np
import pytest
from experiment_rows import pictures, value

import jaxmkl
from experiments import evaluate, report
from experiments.options import Options
from experiments.papers import oks, oks_runs
from experiments.papers.paper import Job

SMALL_PROGRAMS = True


def job_of(folder: Path, seeds: int = 2, **settings: object) -> Job:
    """A job of the experiments with the moving kernel."""
    options = Options(command="oks", data=folder, settings=settings)
    shown = report.Report("python -m experiments oks")
    return Job(oks.PAPER, options, shown, oks.DATASETS, tuple(oks_runs.ALGORITHMS), seeds)


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


@pytest.mark.endless
def test_the_table_of_online_kernel_selection(data_folder, play, capsys):
    rows = play("oks", "german", "oks_sil,proj_ka", seeds=2, budget=40, step_size=1)
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mistake_rate"} == {
        "oks_sil": 0.2961,
        "proj_ka": 0.3828,
        "majority": None,
    }
    data = jaxmkl.tables.read(data_folder / "german.npz")
    share = np.mean(data.y > 0)
    assert value(rows, "majority", "mistake_rate") == pytest.approx(min(share, 1 - share))
    assert value(rows, "oks_sil", "support") == 40
    assert value(rows, "oks_sil", "zero_rate") == pytest.approx(1 / 300)  # the first score
    assert {r["seeds"] for r in rows if r["algorithm"] != "majority"} == {2}
    width = best_width(data.X, data.y)
    (widths,) = {tuple(r["parameters"].get("bandwidth", ())) for r in rows} - {()}
    assert widths == pytest.approx((width, width))
    with jax.enable_x64(True):
        X, y = data.X.astype(np.float64), data.y.astype(np.float64)
        stream = evaluate.Stream("german", X, y, "classification")
        f, labels = by_hand(jaxmkl.projectron(jaxmkl.Gaussian(width), budget=40), stream, 2)
        # a vote; a score of 0, as the first one is, votes +1
        found = value(rows, "proj_ka", "mistake_rate")
        assert found == pytest.approx((f * labels <= 0).mean(), abs=1.01 / 300)
    shown = capsys.readouterr().out
    assert "majority (%)" in shown
    assert f"{100 * min(share, 1 - share):.3f}" in shown
    assert "warning" not in shown


@pytest.mark.endless
def test_proj_ka_as_published_plays_its_first_examples_twice():
    draws = np.random.default_rng(3)
    X = draws.normal(size=(80, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.float32)
    stream = evaluate.Stream("made", X, y, "classification")
    learner = jaxmkl.proj_ka(budget=10, num_aligned=30, two_passes=True)
    keys = evaluate.keys_of(2)
    found = oks_runs.run_learner(learner, stream, keys, "proj_ka (as published)")
    for seed, order in enumerate(np.asarray(jaxmkl.permutations(keys, 80))):
        rows = np.concatenate([order[:30], order])
        state = learner.init(jax.random.fold_in(keys[seed], 0), 2)
        state, outputs = jaxmkl.run(learner, state, X[rows], y[rows])
        f = np.asarray(outputs.prediction)[30:]
        assert found.metrics["mistake_rate"][seed] == np.mean(f * y[order] <= 0)
        assert found.metrics["support"][seed] == learner.info(state).support.sum()
    assert 0 < found.metrics["mistake_rate"].mean() < 0.5


@pytest.mark.slow
def test_step_sizes_as_published_are_those_of_the_papers_grid(data_folder):
    job = job_of(data_folder)
    stream = oks_runs.stream_of(job, ("german", None))
    made = oks_runs.tuned(job, stream, "okl_gd (as published)")
    assert made.parameters["step_size"] in [10.0**k for k in range(-5, 1)]
    assert float(made.learner.step_size) == np.float32(made.parameters["step_size"])
    assert "hinge" in made.parameters["loss"]


@pytest.mark.slow
def test_scores_of_zero_are_told(data_folder, play, capsys):
    archive = np.load(data_folder / "german.npz")
    far = (1e9 * archive["X"]).astype(np.float32)
    np.savez(data_folder / "mushrooms.npz", X=far, y=archive["y"])
    rows = play("oks", "mushrooms", "oks_sil", seeds=2, step_size=0.5, budget=40)
    raw = [r for r in rows if r["dataset"] == "mushrooms"]
    assert value(raw, "oks_sil", "zero_rate") == value(raw, "oks_sil", "mistake_rate") == 1
    unit = [r for r in rows if r["dataset"] == "mushrooms (unit rows)"]
    assert value(unit, "oks_sil", "zero_rate") < 0.1
    assert value(unit, "oks_sil", "mistake_rate") < 0.4
    assert {r["printed"] for r in unit if r["algorithm"] == "oks_sil"} == {0.00351, None}
    shown = capsys.readouterr().out
    assert "warning: mushrooms, oks_sil: 100 % of all scores are exactly 0" in shown
    assert "unit rows), oks_sil:" not in shown


@pytest.mark.endless
def test_long_streams_are_tuned_on_their_first_rounds(data_folder, monkeypatch):
    monkeypatch.setattr(oks_runs, "LARGE", 120)
    monkeypatch.setattr(oks_runs, "SLOW_ROUNDS", {"okl_gd": 200})
    monkeypatch.setattr(oks_runs, "SLOW_SEEDS", {"okl_gd": 2})
    monkeypatch.setattr(oks_runs, "STEP_SIZES", (1e-3, 0.1, 10.0))
    job = job_of(data_folder, seeds=4, budget=50)
    stream = oks_runs.stream_of(job, ("german", None))
    made, scores = oks_runs.run_tuned(job, stream, "okl_gd")
    wrong = {}
    for size in oks_runs.STEP_SIZES:
        learner = jaxmkl.okl_gd(step_size=size, budget=50)
        wrong[size] = np.multiply(*by_hand(learner, stream, oks_runs.TUNING_SEEDS)) <= 0
    errors = {size: of_size[:, :120].mean() for size, of_size in wrong.items()}
    assert min(errors.values()) < max(errors.values())
    best = made.parameters["step_size"]
    assert errors[best] == min(errors.values())
    expected = wrong[best][:2, :200].mean(axis=1)
    np.testing.assert_allclose(scores.metrics["mistake_rate"], expected, atol=1e-6)


@pytest.mark.slow
def test_widths_are_aligned_on_the_first_rounds_of_an_order(data_folder):
    stream = oks_runs.stream_of(job_of(data_folder), ("german", None))
    keys = evaluate.keys_of(3)
    widths = oks_runs.aligned_widths(stream, keys, 20)
    for width, order in zip(widths, np.asarray(jaxmkl.permutations(keys, 300)), strict=True):
        assert width == best_width(stream.X[order[:20]], stream.y[order[:20]])
    assert len(set(widths)) > 1
    (width,) = set(oks_runs.aligned_widths(stream, keys, 300))
    assert width == best_width(stream.X, stream.y)


@pytest.mark.endless
def test_budget_sampling_size_and_threshold(data_folder, play, tmp_path, monkeypatch):
    monkeypatch.setattr(oks, "FIGURE_1", {"budget": (40,), "threshold": (0.5,)})
    np.savez(data_folder / "spambase.npz", **np.load(data_folder / "german.npz"))
    rows = play("oks --parts figure1", "spambase", seeds=2, step_size=0.5, plots=True)
    assert value(rows, "oks_sil (B = 40)", "support") == 40
    assert 40 < value(rows, "oks_sil (ν = 0.5)", "support") <= 150
    assert value(rows, "oks_sil (B = 40)", "mistake_rate") < 0.4
    assert {r["parameters"]["step_size"] for r in rows} == {0.5}
    assert pictures(tmp_path / "plots") == {"oks_budget.png", "oks_threshold.png"}


@pytest.mark.endless
def test_a_width_that_moves_and_one_that_is_held(data_folder, play, tmp_path, monkeypatch):
    monkeypatch.setattr(oks, "STARTS", (2.0, 8.0))
    monkeypatch.setattr(oks_runs, "STEP_SIZES", (0.01, 1.0))
    np.savez(data_folder / "svmguide3.npz", **np.load(data_folder / "german.npz"))
    rows = play("oks --parts width", "svmguide3", seeds=2, plots=True)
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
    assert pictures(tmp_path / "plots") == {
        "oks_width_svmguide3.png",
        "oks_width_svmguide3_scaled.png",
    }


@pytest.mark.endless
def test_a_width_for_every_input(play, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(oks, "ROUNDS", 500)
    monkeypatch.setattr(oks, "LEARNING_RATE", 0.05)
    kinds = {"one width": (False, False), "a width an input, adam": (True, True)}
    monkeypatch.setattr(oks, "KINDS", kinds)
    rows = play("oks --parts anisotropic", seeds=2, step_size=1.0, plots=True)
    one, each = (value(rows, f"oks_sil ({words})", "mistake_rate") for words in kinds)
    difference = value(rows, "oks_sil (a width an input, adam)", "difference")
    assert difference == pytest.approx(each - one)
    assert value(rows, "oks_sil (a width an input, adam)", "width_ratio") > 1
    assert pictures(tmp_path / "plots") == {"oks_anisotropic.png"}
    assert "(a standard error)" in capsys.readouterr().out


@pytest.mark.endless
def test_learned_kernels_stand_beside_a_moving_width(data_folder, play, monkeypatch):
    monkeypatch.setattr(oks, "MOST_ROWS", 120)
    monkeypatch.setattr(oks, "MOST_SEEDS", 2)
    rows = play("oks --parts learned", "german", step_size=1.0)
    names = {"german, 120 rows", "german (scaled), 120 rows"}
    assert {r["dataset"] for r in rows} == names
    assert {r["seeds"] for r in rows} == {2}
    assert {r["printed"] for r in rows} == {None}
    for name in names:
        some = [r for r in rows if r["dataset"] == name]
        assert {r["algorithm"] for r in some} == set(oks.LEARNED)
        assert all(0 < value(some, one, "mistake_rate") < 0.5 for one in oks.LEARNED)
        scaler = {"scaler" in r["parameters"] for r in some if r["algorithm"] == "expert_mkl"}
        assert scaler == {"(scaled)" not in name}
    stream = oks_runs.stream_of(job_of(data_folder), ("german", None))
    some = oks.some_rows(stream)
    drawn = {tuple(x) for x in some.X.tolist()}
    assert len(drawn) == 120
    assert drawn < {tuple(x) for x in stream.X.tolist()}


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


@pytest.mark.endless
@pytest.mark.data
def test_a_moving_width_errs_less_than_printed(data_dir, play):
    rows = play("oks", "svmguide3", "oks_sil", step_size=1.0)
    (row,) = (r for r in rows if r["printed"] is not None)
    assert row["mean"] < row["printed"] == 0.2148
    assert row["seeds"] == 20
