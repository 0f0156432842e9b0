"""Advice on streams whose right answer is known, and on such of which nothing may be said."""

import re
import shlex

import numpy as np
import pytest

from jaxmkl.command_line import names
from jaxmkl.evaluate import Curve, advice


def curve(errors, chunk=None):
    made = Curve.begin()
    for part in np.array_split(errors, chunk or 1):
        made = made.after(part)
    return made


def squares(rows, seed=0):
    """Squared errors of the variance 1."""
    return np.square(np.random.default_rng(seed).normal(size=rows))


BLIND = curve(squares(60_000, 10))
SHORT = curve(squares(10_000, 5))


def test_more_rows_help_while_the_error_falls():
    over = 1 + 20 * np.exp(-np.arange(10_000) / 4_000)
    falling = curve(squares(10_000) * over)
    said = advice.rows_that_help(falling, SHORT, "mean squared error")
    assert said.text.startswith("More rows would still help")
    assert said.figures["before"] == pytest.approx(over[5_000:7_500].mean(), rel=0.1)
    assert said.figures["after"] == pytest.approx(over[7_500:].mean(), rel=0.1)
    # a stream that became easier for a prediction without inputs, too, says nothing of learning
    easier = curve(squares(10_000, 1) * over)
    assert advice.rows_that_help(falling, easier, "mean squared error") is None


def test_more_rows_do_not_help_once_it_is_level():
    said = advice.rows_that_help(curve(squares(60_000, 3)), BLIND, "mean squared error")
    assert said.text.startswith("More rows alone would help little")
    bound = int(re.search(r"less than (\d+) %", said.text)[1])
    assert 0 < bound <= 10
    # too few rows to tell either
    assert advice.rows_that_help(curve(squares(2_000)), SHORT, "mean squared error") is None
    assert advice.rows_that_help(curve(squares(500)), SHORT, "mean squared error") is None


@pytest.mark.parametrize("lasts", [False, True])
def test_drift_is_found_where_it_began(lasts):
    after = np.arange(10_000) - 5_000
    more = np.where(after < 0, 0, 4.0 if lasts else 9 * np.exp(-after / 150))
    said = advice.drift(curve(squares(10_000) * (1 + more)), "mean squared error")
    assert abs(said.figures["row"] - 5_001) <= 64
    assert said.figures["before"] == pytest.approx(1, rel=0.2)
    assert said.figures["after"] > 2
    assert (", but is" in said.text) != lasts
    assert ("--skip" in said.text) == lasts


@pytest.mark.parametrize("share", [0.05, 0.15])
def test_drift_of_classes(share):
    draws = np.random.default_rng(0).random(10_000)
    wrong = draws < np.where(np.arange(10_000) < 5_000, 0.05, share)
    said = advice.drift(curve(wrong.astype(float)), "share of mistakes")
    assert (said is not None) == (share > 0.05)
    assert said is None or abs(said.figures["row"] - 5_001) <= 128


def test_noise_and_learning_are_no_drift():
    """Nor is a row far off, a stream that ends, or one without errors."""
    found = 0
    for seed in range(8):
        errors = squares(3_000, seed)
        far = np.where(np.arange(3_000) == 2_000, 1e4, errors)
        for each in (errors, far, errors * (1 + 30 / np.sqrt(1 + np.arange(3_000)))):
            found += advice.drift(curve(each), "mean squared error") is not None
    assert found <= 1
    for odd in (np.zeros(3_000), np.full(3_000, np.inf), np.full(3_000, np.nan), np.zeros(0)):
        assert advice.drift(curve(odd), "") is None
        assert advice.rows_that_help(curve(odd), SHORT, "") is None


def test_advice_is_the_same_in_whatever_chunks():
    errors = squares(10_000) * np.where(np.arange(10_000) < 5_000, 1, 5)
    one, other = (advice.drift(curve(errors, chunk), "") for chunk in (1, 37))
    assert one.text == other.text
    assert one.figures["row"] == other.figures["row"]


def columns(rng, rows=400):
    return {"a": rng.normal(size=rows), "b": rng.normal(size=rows)}


@pytest.mark.parametrize("K", [0, 3])
def test_a_column_that_gives_the_target_away_is_named(K):
    rng = np.random.default_rng(0)
    x = columns(rng)
    y = np.sin(2 * x["a"]) + x["b"] + 0.3 * rng.normal(size=400)
    y = np.digitize(y, [-0.5, 0.5]).astype(float) if K else y
    blind = (y != 1).mean() if K else y.var()
    leak = y * 3 + rng.random(400) if K else y**3 + y
    said = np.where(rng.random(400) < 0.1, 0, y) if K else y + 0.3 * rng.normal(size=400)
    found = advice.leaks(x | {"leak": leak}, y, said, K, blind)
    assert [*found.figures["columns"]] == ["leak"]
    assert "--drop leak" in found.text
    # a good column is none, nor one beside others that make a learner better than it alone
    assert advice.leaks(x, y, said, K, blind) is None
    good = y + (0.3 if K else 0.1) * rng.normal(size=400)
    assert advice.leaks(x | {"good": good}, y, y, K, blind) is None


def test_a_column_that_follows_a_trend_gives_nothing_away():
    """The last label would do as well."""
    rows = np.arange(400.0)
    y = np.sin(rows / 60) + 0.05 * np.random.default_rng(0).normal(size=400)
    x = {"time": rows, "noise": np.random.default_rng(1).normal(size=400)}
    last = np.square(np.diff(y)).mean()
    assert advice.leaks(x, y, y + 0.05, 0, last) is None


def test_a_single_number_predicts_by_its_neighbours():
    x, y = np.array([0.0, 1.0, 4.0, 2.0, 2.0]), np.array([[0.0], [1.0], [4.0], [2.0], [4.0]])
    said = advice.alone(x, y)[:, 0].tolist()
    assert said == [1.0, 1.5, 3.0, 4.0, 2.0]


def test_columns_that_change_nothing_are_named():
    """The third hardly does, the fourth not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))

    def predict(X):
        return np.sin(X[:, 0]) + X[:, 1] + 0.002 * X[:, 2] + 0.15 * (X[:, 4] + X[:, 5])

    y = predict(X) + 0.5 * rng.normal(size=200)

    def losses(of):
        return np.square(predict(of) - np.tile(y, 2))

    of = {name: [place] for place, name in enumerate("abcdef")}
    permuted = advice.Permuted(losses, X)
    found = permuted.idle(of)
    assert {*found} == {"c", "d"}
    assert found["d"] == 0
    text = advice.of_idle(found, "raker").text
    assert "'d', 'c' change the error of raker by less than 1 %" in text
    assert advice.of_idle({}, "raker") is None
    without_errors = advice.Permuted(lambda X: np.zeros(len(X)), X)
    assert without_errors.idle(of) == {}
    more = permuted.growth(of)
    assert [*more][:2] == ["b", "a"]
    assert more["b"] == pytest.approx(2 / 0.25, rel=0.3)  # twice the variance, by that of noise
    assert more["d"] == 0
    assert without_errors.growth(of) == {}


def test_a_learner_that_is_as_good_for_less_is_named():
    errors = squares(60_000)
    about = 0.96 + 0.1 * np.random.default_rng(1).random(60_000)
    best, same = curve(errors), curve(errors * about)
    worse = curve(errors * 1.1)
    assert advice.as_good(same, best)
    assert not advice.as_good(worse, best)
    assert not advice.as_good(curve(squares(500)), curve(squares(500)))
    cost = {"slow": 10, "fast": 4}
    found = advice.cheaper("slow", ["fast"], cost, {"slow": 2.0, "fast": 1.9})
    assert [(one.about, one.figures["share"]) for one in found] == [("labels", 0.4)]
    assert found[0].text.startswith("fast needs 40 % of its labels and errs no more than slow")
    assert advice.cheaper("slow", [], cost, cost) == []


def test_the_baseline_is_named_that_certainly_errs_less():
    worse, less = curve(squares(10_000, 1)), curve(0.7 * squares(10_000, 2))

    def said(curve, others, blind=SHORT):
        return advice.better_baseline(curve, others, blind, "raker")

    found = said(worse, {"linear": worse, "boosting": less})
    assert found.about == "boosting"
    assert found.figures["share"] == pytest.approx(0.3, abs=0.05)
    assert 0.05 < found.figures["least"] < found.figures["share"]
    assert "less than raker" in found.text
    assert said(worse, {"linear": less}).text.startswith("Linear regression")
    assert " errs 100 % (± " in said(worse, {"linear": curve(1e-4 * squares(10_000, 2))}).text
    both = {"linear": curve(0.5 * squares(10_000, 4)), "boosting": less}
    assert said(worse, both).about == "linear"
    for other in (curve(0.97 * squares(10_000, 2)), curve(0.7 * squares(600, 2)), worse):
        assert said(worse, {"boosting": other}) is None
    assert said(less, {"boosting": worse}) is None
    assert said(worse, {}) is None
    # of noise, where the mean errs as little
    assert said(worse, {"linear": less}, curve(0.7 * squares(10_000, 3))) is None


def test_columns_are_dropped_as_a_shell_reads_it():
    text = advice.of_idle({"snow (cm)": 0.0, "day's end": 0.0}, "raker").text
    option = text[text.index("--drop") :].removesuffix(").")
    assert shlex.split(option) == ["--drop", "snow (cm),day's end"]
    columns = ("weight, kg", 'the "best"', "plain")
    text = advice.of_idle(dict.fromkeys(columns, 0.0), "raker").text
    _, given = shlex.split(text[text.index("--drop") :].removesuffix(")."))
    assert names(given) == columns
