"""The experiments of active learning, by real small runs."""

import math

import numpy as np
import pytest
import scipy.special
import sklearn.metrics
from experiment_rows import pictures, value
from sklearn.datasets import make_friedman1

import jaxmkl
from experiments import evaluate
from experiments.__main__ import main
from experiments.options import Options
from experiments.papers import (
    amkl,
    amkl_labels,
    amkl_learned,
    amkl_mixture,
    amkl_probabilities,
    amkl_runs,
)
from experiments.papers.paper import Job
from experiments.refitted import MODELS
from experiments.report import Report

SMALL_PROGRAMS = True


@pytest.mark.slow
def test_tables_stand_beside_the_printed_figures(data_folder, play, tmp_path, capsys):
    rows = play(
        "amkl --parts curves,tables", "naval", "raker,amkl_aks (tuned)", seeds=2, plots=True
    )
    assert {(r["algorithm"], r["metric"]): r["printed"] for r in rows} == {
        ("raker", "mse"): 0.00025,
        ("raker", "label_rate"): 1.0,
        ("amkl_aks (tuned)", "mse"): 0.0002,
        ("amkl_aks (tuned)", "label_rate"): 0.54,
    }
    assert all(r["paper"] == "amkl" for r in rows)
    assert value(rows, "raker", "mse") < 0.02  # the variance of y
    assert pictures(tmp_path / "plots") == {"amkl_curves_naval.png"}
    shown = capsys.readouterr().out
    assert "mse (x 1e-3)" in shown
    assert f"{1e3 * value(rows, 'raker', 'mse'):.3f}" in shown
    assert "slow sweep of y" in shown
    assert shown.count("naval raker") == 1  # the curves' runs serve the tables


def raker(name, factory, *given, **named):
    """A small learner in the place of another one."""
    return evaluate.candidate(name, "raker", *given, **named)


@pytest.mark.endless
def test_some_of_the_labels(data_folder, play, monkeypatch):
    monkeypatch.setattr(amkl_labels, "LABEL_RATES", (0.2,))
    monkeypatch.setattr(amkl_runs, "candidate", raker)
    rows = play("amkl --parts labels", "german", "expert_mkl", seeds=2, num_features=4)
    assert value(rows, "expert_mkl", "label_rate") == 1
    assert abs(value(rows, "expert_mkl (every 5th)", "label_rate") - 0.2) < 0.005
    # of 300 examples: a classifier has its head start
    due = 0.2 * (300 + 400 * (1 - 300 / 1000))
    number = 300 * value(rows, "expert_mkl (rate 0.2)", "label_rate")
    assert abs(number - due) <= 2 + due / 40 + 1
    assert abs(value(rows, "expert_mkl (chance 0.2)", "label_rate") - 0.2) < 0.1


@pytest.mark.slow
def test_parts_whose_learners_have_other_banks_share_no_runs(monkeypatch):
    asked = []

    def made(name, factory, task, settings, *given, **named):
        asked.append(settings.get("banks"))
        return raker(name, factory, task, settings, *given, **named)

    draws = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    stream = evaluate.Stream("german", draws, np.sign(draws[:, 0]), "classification")
    monkeypatch.setattr(amkl_runs, "stream_of", lambda *given: stream)
    monkeypatch.setattr(amkl_runs, "candidate", made)
    monkeypatch.setattr(amkl_labels, "LABEL_RATES", ())
    monkeypatch.setattr(amkl_labels, "find_spec", lambda name: None)
    options = Options("amkl", settings={"num_features": 2})
    job = Job(amkl.PAPER, options, Report("amkl"), ("german",), ("expert_mkl",), 1)
    amkl.classification(job)
    assert asked == [None, None]  # as it is, and on ranks
    amkl_labels.labels(job)
    assert asked == [None, None, "fixed"]


@pytest.mark.endless
def test_classification(data_folder, play, capsys):
    ranks = "expert_mkl (online ranks)"
    rows = play(
        "amkl --parts classification",
        "german",
        "expert_mkl",
        seeds=2,
        banks="fixed",
        num_features=4,
    )
    assert {r["algorithm"] for r in rows} == {"expert_mkl", ranks}
    for name in ("expert_mkl", ranks):
        assert value(rows, name, "mistake_rate") < 0.3
        assert value(rows, name, "label_rate") == 1
    assert {r["printed"] for r in rows if r["algorithm"] == ranks} == {0.296, None}
    shown = capsys.readouterr().out
    assert "adaptive random forest" in shown
    assert "0.2680" in shown


@pytest.mark.endless
def test_what_stands_on_the_models(data_folder, play, monkeypatch):
    variants = "expert_mkl (Hedge)", "expert_mkl"
    monkeypatch.setattr(amkl_mixture, "VARIANTS", variants)
    rows = play(
        "amkl --parts mixture", "german", "expert_mkl", seeds=2, banks="fixed", num_features=4
    )
    assert {r["algorithm"] for r in rows} == {*variants, *MODELS}
    assert value(rows, "expert_mkl", "mistake_rate") < 0.3


@pytest.mark.endless
def test_banks_of_learned_kernels_stand_beside_refitted_models(play, monkeypatch):
    X, y = make_friedman1(800, 8, noise=0.1, random_state=0)
    monkeypatch.setitem(amkl_learned.GENERATED, "friedman1", lambda: (X, y))
    monkeypatch.setattr(amkl_learned, "FIRST", 300)
    name = "expert_mkl (diagonal)"
    monkeypatch.setattr(amkl_learned, "BANKS", {name: amkl_learned.BANKS[name]})
    rows = play("amkl --parts learned", "friedman1", seeds=1, num_features=20)
    assert {row["algorithm"] for row in rows} == {name, *amkl_learned.BATCH}
    of_mean = float(np.mean((y[300:] - y[:300].mean()) ** 2) / y[300:].var())
    assert max(value(rows, one, "nmse") for one in (name, *amkl_learned.BATCH)) < of_mean


@pytest.mark.endless
def test_distributions_stand_beside_a_value_alone(play, monkeypatch):
    """On noise that grows with an input, the distribution scores better and is narrower."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(1500, 3))
    y = X[:, 1] + 0.1 * np.exp(1.5 * X[:, 0]) * draws.normal(size=1500)
    monkeypatch.setitem(amkl_learned.GENERATED, "friedman1", lambda: (X, y))
    monkeypatch.setattr(amkl_learned, "FIRST", 500)
    rows = play("amkl --parts densities", "friedman1", seeds=1, num_features=20, banks="fixed")
    ours, alone = "expert_mkl", "expert_mkl (no distribution)"
    score = value(rows, ours, "log_score")
    assert score > value(rows, alone, "log_score") + 0.1
    assert score > value(rows, alone, "log_score_of_t") + 0.1
    assert value(rows, ours, "width") < 0.9 * value(rows, alone, "width")
    for name in (ours, alone):
        assert 0.87 < value(rows, name, "coverage") < 0.93


def test_log_odds_are_scored_as_scikit_learn_scores_probabilities():
    draws = np.random.default_rng(0)
    for K in (2, 3):
        said, y = draws.normal(size=(60, K)), draws.integers(K, size=60)
        p = scipy.special.softmax(said, axis=1)
        found = amkl_probabilities.scored(said[:, 1] - said[:, 0] if K == 2 else said, y)
        assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(y, p))
        of_both = np.square(p - np.eye(K)[y]).sum(axis=1).mean()
        assert found["brier"] == pytest.approx(of_both / 2 if K == 2 else of_both)
        assert found["mistake_rate"] == pytest.approx((p.argmax(axis=1) != y).mean())


@pytest.mark.endless
def test_probabilities_stand_beside_those_of_boosting(data_folder, play, monkeypatch):
    monkeypatch.setattr(amkl_probabilities, "candidate", raker)
    monkeypatch.setattr(amkl_probabilities, "EVERY", 100)
    rows = play("amkl --parts probabilities", "german", seeds=2, num_features=4)
    ours = amkl_probabilities.NAME, amkl_probabilities.PASSED
    assert {row["algorithm"] for row in rows} == {*ours, *amkl_probabilities.BOOSTING}
    labels = np.load(data_folder / "german.npz")["y"]
    share = (labels > 0).mean()
    of_share = -share * np.log(share) - (1 - share) * np.log(1 - share)
    for name in (*ours, *amkl_probabilities.BOOSTING):
        assert value(rows, name, "log_loss") < of_share  # knowing no input
        assert value(rows, name, "brier") < share * (1 - share)
        assert 0 < value(rows, name, "calibration_error") < 0.3


@pytest.mark.endless
def test_the_sweep_of_figure_2(data_folder, play, tmp_path, monkeypatch):
    monkeypatch.setattr(amkl, "TOLERANCES", (0.0, 1e9))
    monkeypatch.setattr(amkl, "LONGEST_PAUSES", (1, 4))
    rows = play("amkl --parts tradeoff", "tom", "amkl", seeds=2, num_features=4, plots=True)
    # a tolerance beyond all skips as often as it may; with none every label is asked for
    assert value(rows, "amkl (η_c = 1e+09, M = 1)", "label_rate") == 0.5
    assert value(rows, "amkl (η_c = 1e+09, M = 4)", "label_rate") == pytest.approx(0.2)
    assert value(rows, "amkl (η_c = 0, M = 1)", "label_rate") == 1
    assert len(rows) == 8
    assert pictures(tmp_path / "plots") == {"amkl_tradeoff.png"}


@pytest.mark.endless
def test_regret_of_a_stationary_stream(play, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(amkl, "LENGTHS", (100, 200))
    monkeypatch.setattr(amkl, "ABSOLUTE_LENGTHS", (100, 200))
    rows = play(
        "amkl --parts regret",
        "stationary",
        "raker",
        seeds=2,
        step_size=0.005,
        num_features=20,
        plots=True,
    )
    regrets = {r["dataset"]: r["mean"] for r in rows if r["metric"] == "regret"}
    errors = {r["dataset"]: r["mean"] for r in rows if r["metric"] == "mse"}
    for length in (100, 200):
        name = f"stationary, T = {length}"
        assert 0 < regrets[name] < length * errors[name]  # the best function is not perfect
    (exponent,) = (r["mean"] for r in rows if r["metric"] == "regret_exponent")
    assert 0 < exponent < 1
    assert pictures(tmp_path / "plots") == {"amkl_regret.png"}
    assert "regret exponent" in capsys.readouterr().out


@pytest.mark.endless
def test_regret_by_the_absolute_loss_has_its_own_condition(play, monkeypatch):
    """Theorems 2 and 3 assume the triangle inequality; learner and query are by that loss."""
    monkeypatch.setattr(amkl, "ABSOLUTE_LENGTHS", (64, 128))
    built, evaluated = [], amkl.evaluate

    def kept(learner, *arguments, **named):
        built.append(learner)
        return evaluated(learner, *arguments, **named)

    monkeypatch.setattr(amkl, "evaluate", kept)
    both = "amkl,raker"
    rows = play("amkl --parts regret", "stationary_absolute", both, seeds=2, num_features=10)
    regrets = {(r["dataset"], r["algorithm"]) for r in rows if r["metric"] == "regret"}
    assert regrets == {
        (f"stationary_absolute, T = {length}", name)
        for length in (64, 128)
        for name in ("amkl", "raker")
    }
    absolute = jaxmkl.losses.EpsilonInsensitive(0.0)
    assert len(built) == 4
    assert all(repr(one.models[0].rules[0].loss) == repr(absolute) for one in built)
    assert [repr(one.query.loss) for one in built[::2]] == [repr(absolute)] * 2


def test_an_exponent_is_not_fitted_through_a_negative_regret():
    slopes = amkl.exponent(np.array([1, 4, 16]), np.array([[1.0, 2.0, 4.0], [1.0, -2.0, 4.0]]))
    assert slopes[0] == pytest.approx(0.5)
    assert math.isnan(slopes[1])


@pytest.mark.endless
def test_support_vectors_of_table_2(data_folder, play, capsys):
    rows = play("amkl --parts support", "tom", "linear,omkl_b")
    assert {r["seeds"] for r in rows} == {1}
    assert {r["algorithm"]: r["printed"] for r in rows if r["metric"] == "mse"} == {
        "linear": 0.01952,
        "omkl_b": 0.0394,
    }
    assert value(rows, "linear", "support") == 300
    assert value(rows, "omkl_b", "support") == 17 * 50
    X = np.load(data_folder / "tom.npz")["X"].astype(np.float64)
    norm = np.square(X).sum(axis=1).mean()
    steps = {r["algorithm"]: r["parameters"]["step_size"] for r in rows}
    assert any(steps["linear"] == pytest.approx(s / norm, rel=1e-6) for s in amkl.STEP_SIZES)
    assert "label rate" not in capsys.readouterr().out
    rows = play("amkl --parts support", "tom", "linear", step_size=0.125)
    assert rows[0]["parameters"]["step_size"] == 0.125


@pytest.mark.endless
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


def test_parts_without_their_data_say_so(data_folder, capsys):
    arguments = ["amkl", "--data", str(data_folder), "--datasets", "german"]
    arguments += ["--json", str(data_folder / "no.json")]
    assert main([*arguments, "--algorithms", "raker", "--parts", "all"]) == 2
    shown, error = capsys.readouterr()
    parts = "tables support classification mixture labels drift river tradeoff curves regret"
    for part in parts.split():
        assert shown.count(f"{part}: none of its data sets and algorithms was requested") == 1
    assert "nothing was run; amkl has the parts tables, support, " in error
    assert not (data_folder / "no.json").exists()


def test_a_missing_file_of_the_paper_is_named(data_folder, capsys):
    assert main(["amkl", "--data", str(data_folder), "--datasets", "air,energy"]) == 2
    assert f"{data_folder} has no energy.npz" in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.endless
def test_raker_on_real_data_errs_less_than_printed(data_dir, play):
    rows = play("amkl --parts tables", "air", "raker", seeds=2)
    (row,) = (r for r in rows if r["metric"] == "mse")
    assert row["mean"] < row["printed"] == 0.00213
