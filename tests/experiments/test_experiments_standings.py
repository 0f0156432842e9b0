"""Errors on streams and tables under one protocol: what is seen, judged, fitted and drawn."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from experiment_rows import rows_of, value
from sklearn.linear_model import RidgeClassifier

from experiments import refitted
from experiments.__main__ import main
from experiments.bench import peer_models, standings
from experiments.bench.peer_models import Model
from experiments.evaluate import Stream
from experiments.results import plan
from jaxmkl.evaluate import row

SMALL_PROGRAMS = True


def drawn(length: int, classes: int = 0) -> Stream:
    draws = np.random.default_rng(0)
    X = draws.normal(size=(length, 3)).astype(np.float32)
    y = 2 * X[:, 0] + draws.normal(size=length)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
        y = 2 * y - 1 if classes == 2 else y
    task = "classification" if classes else "regression"
    return Stream("made", X, y.astype(np.float32), task)


@pytest.mark.parametrize(("length", "head"), [(6000, 1000), (300, 60)])
def test_the_head_standardises_inputs_and_numbers(length, head):
    draws = np.random.default_rng(1)
    X, y = draws.normal(5, 3, (length, 2)), draws.normal(-2, 9, length)
    X[:head, 1] = 7.0  # constant at first
    made = Stream("a", X, y, "regression").standardised(head)
    assert standings.head_of(length) == head
    assert made.X.dtype == made.y.dtype == np.float32
    of = lambda z: (z - z[:head].mean()) / z[:head].std()  # noqa: E731
    np.testing.assert_allclose(made.X, np.stack([of(X[:, 0]), X[:, 1] - 7], 1), atol=1e-4)
    np.testing.assert_allclose(made.y, of(y), atol=1e-4)
    classes = np.sign(y)
    np.testing.assert_array_equal(
        Stream("a", X, classes, "classification").standardised(head).y, classes
    )


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_the_last_labels_stand_beside_the_inputs(classes):
    stream = drawn(40, classes)
    seen, y = standings.lagged(stream), stream.y
    np.testing.assert_array_equal(seen.X[:, :3], stream.X)
    np.testing.assert_array_equal(seen.y, y)
    for t in range(40):
        if classes == 4:
            expected = [float(t > 0 and y[t - 1] == k) for k in range(4)]
        else:
            expected = [y[t - lag] if t >= lag else 0.0 for lag in (1, 2, 3)]
        np.testing.assert_array_equal(seen.X[t, 3:], expected)


def test_errors_are_shares_after_the_head():
    numbers, two = drawn(50), drawn(50, 2)
    said = numbers.y + np.where(np.arange(50) < 10, 100.0, 0.5)
    expected = 0.25 / np.var(numbers.y[10:].astype(float))
    assert standings.error_of(said, numbers) == pytest.approx(expected, rel=1e-5)
    wrong = np.where(np.isin(np.arange(50), [3, 20, 31]), -two.y, two.y)
    assert standings.error_of(wrong, two) == 2 / 40
    assert standings.error_of(standings.last_label(None, two).one_pass(), two) == np.mean(
        two.y[9:-1] != two.y[10:]
    )


def test_batch_models_are_fitted_on_the_head_and_then_anew(monkeypatch):
    monkeypatch.setattr(refitted, "EVERY", 30)
    stream = drawn(100, 3)
    path = "linear_model.RidgeClassifier"
    made = standings.batch(Model("ridge", "sklearn", None, path, {"alpha": 2.0}), stream)
    said = made.one_pass()
    assert len(said) == 100
    for start, stop in itertools.pairwise([20, 50, 80, 100]):
        fitted = RidgeClassifier(alpha=2.0).fit(stream.X[:start], stream.y[:start])
        np.testing.assert_array_equal(said[start:stop], fitted.predict(stream.X[start:stop]))
    assert made.settings["alpha"] == 2.0
    assert made.settings["refitted_every"] == 30


@pytest.mark.parametrize("classes", [0, 2])
def test_a_model_that_chooses_is_given_every_fifth_row(classes):
    stream = drawn(20, classes)
    told = SimpleNamespace()

    def fit(*given):
        told.rows = given

    chooser = SimpleNamespace(fit=fit, predict=lambda X: np.ones((len(X), 1), int)[:, 0])
    model = standings.HeldOut(chooser, stream.task).fit(stream.X, stream.y)
    labels = (stream.y > 0).astype(int) if classes else stream.y
    held = [4, 9, 14, 19]
    rest = np.setdiff1d(np.arange(20), held)
    expected = stream.X[rest], labels[rest], stream.X[held], labels[held]
    for one, other in zip(told.rows, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.predict(stream.X[:3]), [1.0] * 3)


@pytest.fixture
def folder(tmp_path):
    """Stand-ins for a stream of four classes and a table of numbers."""
    for name, classes in {"keystroke": 4, "abalone": 0}.items():
        made = drawn(80, classes)
        labels = made.y.astype(np.int16) if classes else made.y
        np.savez(tmp_path / f"{name}.npz", X=made.X, y=labels)
    return tmp_path


ASKED = "bench", "--peers", "--datasets", "abalone,keystroke,metro", "--rounds", "60"


def test_models_stand_in_two_tables(folder, monkeypatch, capsys):
    monkeypatch.setattr(refitted, "EVERY", 30)
    monkeypatch.setattr(
        peer_models, "missing", lambda package: "lent" if package == "lightgbm" else None
    )
    names = "last label,extra trees,extra trees with lags,LightGBM"
    out = folder / "rows.json"
    data = ["--data", str(folder), "--json", str(out)]
    assert main([*ASKED, "--algorithms", names, "--seeds", "2", *data]) == 0
    told = capsys.readouterr().out
    assert "lightgbm: lent, its models are left out" in told
    assert "metro: not available, left out" in told
    assert told.index("Streams in time") < told.index("Tables, in file order")
    rows = rows_of(out)
    trees = ("extra trees", "extra trees with lags")
    assert {(r["dataset"], r["algorithm"]): r["seeds"] for r in rows} == {
        ("keystroke", "last label"): 1,
        **{("keystroke", name): 2 for name in trees},
        ("abalone", "last label"): 1,
        ("abalone", "extra trees"): 2,
    }
    y = drawn(80, 4).y[:60]
    (mistakes,) = (r for r in rows if r["metric"] == "mistake_rate" and r["seeds"] == 1)
    assert mistakes["mean"] == pytest.approx(np.mean(y[11:-1] != y[12:]))
    abalone = [r for r in rows if r["dataset"] == "abalone"]
    assert 0.2 < value(abalone, "extra trees", "variance_share") < 1.0
    assert all(r["mean"] >= 0 for r in rows if r["metric"] == standings.SECONDS)
    assert {r["parameters"]["examples"] for r in rows} == {60}


@pytest.mark.endless
def test_ours_has_its_settings_and_seeds_of_its_own(folder):
    out = folder / "rows.json"
    given = ["--set", "num_features=4", "--seeds", "2", "--data", str(folder), "--json", str(out)]
    assert main([*ASKED, "--algorithms", "raker,raker with lags", *given]) == 0
    rows = {(r["dataset"], r["algorithm"], r["metric"]): r for r in rows_of(out)}
    errors = [r for key, r in rows.items() if key[2] in standings.ERROR.values()]
    assert len(errors) == 3
    assert {r["seeds"] for r in errors} == {2}
    assert all(r["parameters"]["num_features"] == 4 for r in errors)
    assert rows["abalone", "raker", "variance_share"]["std"] > 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            ["--peers", "--datasets", "metro", "--algorithms", "nobody"],
            "unknown algorithm 'nobody'",
        ),
        (["--peers", "--parts", "standings"], "bench needs the papers' data sets"),
        (["--peers", "--parts", "errors", "--seeds", "2"], "are of the part standings"),
        (["--long", "--seeds", "2"], "--seeds is of --peers"),
    ],
)
def test_what_the_standings_do_not_know_is_refused(given, why, capsys):
    assert main(["bench", *given]) == 2
    assert why in capsys.readouterr().err


def test_the_picture_has_errors_relative_to_ours():
    errors = {
        ("metro", "variance_share"): (0.2, 0.3, 0.2),
        ("ozone", "mistake_rate"): (0.1, 0.3, 0.2),
    }
    names = "expert_mkl", "boosting", "boosting with lags"
    found = [
        row(("bench", dataset, name, metric), [error])
        for (dataset, metric), each in errors.items()
        for name, error in zip(names, each, strict=True)
    ]
    found.append(row(("bench", "metro", "expert_mkl", standings.SECONDS), [9.0]))
    figure = standings.picture(found)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["metro", "ozone"]
    lines = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata())]
    places = [line.get_xydata() for line in lines]
    np.testing.assert_allclose(places, [[[0, 1], [1, 1]], [[0, 1.5], [1, 3]], [[0, 1], [1, 2]]])
    assert lines[1].get_color() == lines[2].get_color()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["expert_mkl", "boosting"]


def test_every_model_looks_different_and_is_planned():
    found = peer_models.looks_of(standings.MODELS)
    shapes = {(look["color"], look["marker"]) for look in found.values()}
    assert len(shapes) == len(found) == len(standings.MODELS)
    planned = {
        play.algorithms[0]: play for play in plan.PLAN if play.name.startswith("bench.peers.")
    }
    names = [name for play in planned.values() for name in play.algorithms]
    assert {*found} <= {*names}
    assert len({*names}) == len(names) == len(found) + len(standings.REFITTED)
