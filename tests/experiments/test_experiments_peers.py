"""Rows beside the library's own: batch models, others' strategies, others' data."""

import math
import sys
import types
from typing import ClassVar

import numpy as np
import pytest
from experiment_rows import stand_in, value
from sklearn.linear_model import LogisticRegression, Ridge

import jaxmkl
from experiments import evaluate, generate, refitted, report
from experiments.__main__ import main
from experiments.options import Options
from experiments.papers import amkl, amkl_labels, amkl_mixture, amkl_river
from experiments.papers.paper import Job

SMALL_PROGRAMS = True


@pytest.fixture
def stream() -> evaluate.Stream:
    X = np.random.default_rng(0).normal(size=(47, 3)).astype(np.float32)
    return evaluate.Stream("made", X, np.sign(X[:, 0] + 0.1), "classification")


def test_a_batch_model_predicts_what_comes_after_its_fit(stream):
    X, y = stream.X, stream.X[:, 0] * stream.X[:, 1]
    found = refitted.predictions(Ridge(), X, y, "regression", 20)
    assert found[0] == 0
    np.testing.assert_allclose(found[1:20], [y[:t].mean(dtype=float) for t in range(1, 20)])
    np.testing.assert_array_equal(found[20:40], Ridge().fit(X[:20], y[:20]).predict(X[20:40]))
    np.testing.assert_array_equal(found[40:], Ridge().fit(X[:40], y[:40]).predict(X[40:]))


def test_a_batch_model_of_classes_begins_with_the_larger_class(stream):
    y = np.array([-1.0, -1.0, 1.0, 1.0, 1.0, *stream.y[5:]])
    found = refitted.predictions(LogisticRegression(), stream.X, y, "classification", 5)
    assert found[:5].tolist() == [1, -1, -1, -1, 1]
    assert set(found[5:]) == {-1, 1}


@pytest.mark.slow
def test_batch_models_are_refitted_in_every_order(stream, monkeypatch):
    monkeypatch.setattr(refitted, "EVERY", 20)
    orders = np.stack([np.arange(47), np.arange(47)[::-1]])
    for name in refitted.MODELS:
        made, runs = refitted.refitted(name, stream, orders)
        assert made.parameters["random_state"] == 0
        assert made.parameters["refitted_every"] == 20
        assert runs.prediction.shape == (2, 47)
        assert (runs.prediction[0] != runs.prediction[1, ::-1]).any()
        assert (runs.labels == 1).all()


@pytest.mark.slow
def test_two_functions_change_places():
    X, y = generate.abrupt(3, 0, 8000, period=2000)
    once = generate.abrupt(3, 2500, 4500, period=2000)
    np.testing.assert_array_equal(once[0], X[2500:4500])
    np.testing.assert_array_equal(once[1], y[2500:4500])
    assert 0.6 < np.var(y[:2000]) < 1.4  # a smooth function varies less where inputs are
    # the smooth one is nearly a polynomial of the inputs, the rough one is not, of either segment
    pairs = X[:, :, None] * X[:, None]
    Z = np.concatenate([np.ones((8000, 1)), X, pairs.reshape(8000, -1)], axis=1)
    left = []
    for start in range(0, 8000, 2000):
        part = slice(start, start + 2000)
        best = np.linalg.lstsq(Z[part], y[part])[0]
        left.append(np.var(y[part] - Z[part] @ best) / np.var(y[part]))
    assert min(left[::2]) > 0.6
    assert max(left[1::2]) < 0.3
    # the same function comes back: what was fitted to one segment of it fits the other
    best = np.linalg.lstsq(Z[2000:4000], y[2000:4000])[0]
    assert np.var(y[6000:] - Z[6000:] @ best) < 1.3 * left[3] * np.var(y[6000:])


@pytest.mark.endless
def test_errors_by_segments_stand_beside_those_of_hedge(play, monkeypatch, capsys):
    hedge = "expert_mkl (Hedge)"
    monkeypatch.setattr(amkl_mixture, "PERIOD", 300)
    monkeypatch.setattr(amkl_mixture, "VARIANTS", (hedge, "expert_mkl"))
    rows = play("amkl --parts drift", seeds=2, num_features=4)
    assert {r["dataset"] for r in rows} == {"abrupt"}
    for name in amkl_mixture.VARIANTS:
        segments = [value(rows, name, f"segment_{i}") for i in (1, 2, 3, 4)]
        assert value(rows, name, "mse") == pytest.approx(np.mean(segments))
    assert value(rows, hedge, "segment_2_of_hedge") == value(rows, hedge, "after_of_hedge") == 1
    assert 0 < value(rows, "expert_mkl", "segment_2_of_hedge") < 3
    first = value(rows, amkl_mixture.RESTARTED, "segment_1")
    assert first == pytest.approx(value(rows, "expert_mkl", "segment_1"), rel=1e-4)
    assert "2 streams" in capsys.readouterr().out


class EverySecond:
    """A strategy that asks for every second label, and remembers what it was asked."""

    made: ClassVar[list["EverySecond"]] = []

    def __init__(self, budget: float, random_state: int, **parameters: object) -> None:
        self.budget, self.random_state, self.rounds = budget, random_state, 0
        self.probabilities: list[float] = []
        vars(self).update(parameters)
        self.made.append(self)

    def query(self, candidates, clf, return_utilities, X=None, y=None):
        assert return_utilities
        (probabilities,) = clf.predict_proba(candidates)
        assert probabilities.sum() == pytest.approx(1)
        self.probabilities.append(probabilities[1])
        if hasattr(self, "metric"):
            assert len(X) == len(y) == (self.rounds + 1) // 2 + 1
            assert np.isnan(y[-1])
            assert set(y[:-1]) <= {-1, 1}
            np.testing.assert_array_equal(X[-1:], candidates.astype(np.float32))
        self.rounds += 1
        return np.arange(self.rounds % 2), np.array([probabilities.max()])

    def update(self, candidates, queried_indices, budget_manager_param_dict):
        assert len(budget_manager_param_dict["utilities"]) == len(candidates) == 1


@pytest.fixture
def strategies(monkeypatch):
    """A stand-in for scikit-activeml."""

    class Classifier:
        def __init__(self, classes):
            self.classes = classes

    stream = dict.fromkeys(amkl_labels.STRATEGIES, EverySecond)
    parts = {"stream": stream, "base": {"SkactivemlClassifier": Classifier}}
    made = {part: stand_in(monkeypatch, f"skactiveml.{part}", **of) for part, of in parts.items()}
    stand_in(monkeypatch, "skactiveml", **made)
    monkeypatch.setattr(EverySecond, "made", [])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["Split", "StreamProbabilisticAL"])
def test_a_strategy_asks_and_the_learner_learns(stream, strategies, how):
    learner = jaxmkl.raker(num_features=4, loss="logistic")
    runs = amkl_labels.asked_by(how, 0.5, learner, stream, 2)
    query = jaxmkl.query.Disagreement(math.inf, 1)  # every second label, from the first on
    same = jaxmkl.raker(num_features=4, loss="logistic", query=query)
    ours = evaluate.evaluate(same, stream, 2, permute=True)
    np.testing.assert_array_equal(runs.order, ours.order)
    np.testing.assert_array_equal(runs.queried, ours.queried)
    clipped = np.clip(ours.prediction, -1, 1)
    np.testing.assert_allclose(runs.prediction, clipped, atol=1e-5)
    assert [strategy.random_state for strategy in EverySecond.made] == [0, 1]
    for strategy, told in zip(EverySecond.made, clipped, strict=True):
        np.testing.assert_allclose(strategy.probabilities, (1 + told) / 2, atol=1e-5)


@pytest.mark.endless
def test_strategies_stand_beside_the_rate(data_folder, strategies, monkeypatch):
    def raker(name, factory, **given):
        return evaluate.candidate(name, "raker", **given)

    monkeypatch.setattr(amkl_labels, "candidate", raker)
    monkeypatch.setattr(amkl_labels, "PEER_RATES", (0.5,))
    monkeypatch.setattr(amkl_labels, "PEER_ROUNDS", 60)
    monkeypatch.setattr(amkl_labels, "PEER_SEEDS", 2)
    options = Options(command="amkl", data=data_folder, settings={"num_features": 4})
    shown = report.Report("python -m experiments amkl")
    job = Job(amkl.PAPER, options, shown, ("german",), ("expert_mkl",), 3)
    amkl_labels.strategies(job, ["german"])
    names = {f"expert_mkl ({how} 0.5)" for how in ("rate", "chance", *amkl_labels.STRATEGIES)}
    assert {(r.dataset, r.algorithm) for r in shown.rows} == {
        ("german, 60 examples", name) for name in names
    }
    assert {r.seeds for r in shown.rows} == {2}
    found = {(r.algorithm, r.metric): r.mean for r in shown.rows}
    assert found["expert_mkl (Split 0.5)", "label_rate"] == 0.5
    # a classifier's head start is longer than 60 rounds
    assert found["expert_mkl (rate 0.5)", "label_rate"] == pytest.approx(1.0, abs=0.05)
    one, other = (f"expert_mkl ({how} 0.5)" for how in ("Split", "VariableUncertainty"))
    assert 0 < found[one, "mistake_rate"] == found[other, "mistake_rate"] < 0.6


@pytest.fixture
def rivers(monkeypatch):
    """A stand-in for river."""
    draws = np.random.default_rng(1).normal(size=(80, 2))
    numbers = [({"time": 7e5 + i, "diet": float(z)}, 3 * z + 50) for i, (z, _) in enumerate(draws)]
    names = np.array(["grass", "path", "sky"])[np.digitize(draws[:, 0], [-0.5, 0.5])]
    several = [({"a": a, "b": b}, str(name)) for (a, b), name in zip(draws, names, strict=True)]
    datasets = types.SimpleNamespace(
        ChickWeights=lambda: iter(numbers), ImageSegments=lambda: iter(several)
    )
    stand_in(monkeypatch, "river", datasets=datasets)


@pytest.mark.endless
def test_data_of_river_are_scaled_online(play, rivers, monkeypatch):
    variants = ("expert_mkl (Hedge)", amkl_river.LAST_LABELS)
    monkeypatch.setattr(amkl_river, "VARIANTS", variants)
    made = play(
        "amkl --parts river",
        "ChickWeights,ImageSegments",
        seeds=2,
        step_sizes=(0.5,),
        num_features=4,
    )
    rows = {(r["dataset"], r["algorithm"]): r for r in made}
    assert set(rows) == {*(("ChickWeights", v) for v in variants), ("ImageSegments", variants[0])}
    numbers = rows["ChickWeights", variants[0]]
    assert (numbers["metric"], numbers["printed"]) == ("mae", 23.1)
    assert 0 < numbers["mean"] < 2.4 + 50 / 80  # that of the mean, and the first of all
    segments = rows["ImageSegments", variants[0]]
    assert segments["parameters"]["num_classes"] == 3
    assert segments["parameters"]["scaler"] == "RunningMoments(clip=10.0)"
    assert segments["metric"] == "accuracy"
    assert 0.45 < segments["mean"] <= 1


def test_labels_of_several_classes_are_numbered():
    examples = [({"x": 7 + i}, name) for i, name in enumerate(["sky", "grass", "path", "sky"])]
    stream = amkl_river.single(amkl_river.read("segments", examples))
    assert stream.task == "classification"
    assert stream.X.tolist() == [[0], [1], [2], [3]]
    assert stream.X.dtype == stream.y.dtype == np.float32
    assert stream.y.tolist() == [2, 0, 1, 2]
    prediction = np.eye(3)[[[2, 0, 1, 1]]]
    order = np.arange(4)[None]
    runs = evaluate.Runs(stream, order, prediction, order == order, None, None, 0.0)
    assert amkl_river.measured(runs)["accuracy"].tolist() == [0.75]


def test_peers_that_are_not_installed_are_left_out(data_folder, monkeypatch, capsys):
    for package in ("river", "skactiveml", "skactiveml.stream"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["amkl", "--parts", "river", "--datasets", "Bananas"]) == 0
    assert "river: the package river is not installed" in capsys.readouterr().out
    assert amkl_labels.find_spec("skactiveml") is None
