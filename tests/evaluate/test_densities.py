"""Scores of densities of numbers, against integrals, other packages and all rows at once."""

import csv
import json

import jax
import numpy as np
import polars as pl
import pytest
import scipy.integrate
import scipy.stats
import scoringrules
from hypothesis import given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import metrics
from jaxmkl.cli import main
from jaxmkl.distributions import StudentMixture, within
from jaxmkl.evaluate import Densities, central_intervals, density_scores
from jaxmkl.evaluate.scores import LATEST
from jaxmkl.tables import Columns, open_table, source

SMALL_PROGRAMS = True
DEGREES = 3, 5, 10, 50
COLUMNS = "prediction", "low", "high"
SMALL = ("--learner", "raker", "--set", "num_features=4", "--density")


def mixtures(number, spread=0.5):
    draws = np.random.default_rng(0)
    scales = np.exp(spread * draws.normal(size=(number, 4)))
    weights = draws.dirichlet(np.ones(4), number)
    y = StudentMixture(draws.normal(size=number), scales, weights, DEGREES)
    return y, y.mean + 2 * draws.normal(size=number)


@given(st.integers(3, 60), st.floats(0, 1e200))
def test_the_distribution_function_of_whole_degrees(degrees, z):
    wanted = 1 - 2 * scipy.stats.t.sf(z, degrees)
    square = np.array([min(z, 1e15) ** 2 / degrees])
    assert within(square, degrees)[0] == pytest.approx(wanted, abs=1e-14)


def test_mixtures_against_their_integrals():
    one, y = mixtures(5)
    found = density_scores(one, y)
    for i, label in enumerate(y):
        parts = scipy.stats.t(DEGREES, one.mean[i], one.scales[i])

        def cdf(x, i=i, parts=parts):
            return float(one.weights[i] @ parts.cdf(x))

        below = scipy.integrate.quad(lambda x: cdf(x) ** 2, -np.inf, label)[0]
        above = scipy.integrate.quad(lambda x: (1 - cdf(x)) ** 2, label, np.inf)[0]
        assert found.crps[i] == pytest.approx(below + above, rel=1e-6)
        assert found.log_score[i] == pytest.approx(np.log(one.weights[i] @ parts.pdf(label)))
        assert found.pit[i] == pytest.approx(cdf(label))
        assert [cdf(found.low[i]), cdf(found.high[i])] == pytest.approx([0.05, 0.95])
        for coverage in (0.01, 0.5, 0.999):
            low, high = central_intervals(one, coverage, start=7.0)
            ends = [cdf(low[i] - 7), cdf(high[i] - 7)]
            assert ends == pytest.approx([(1 - coverage) / 2, (1 + coverage) / 2])


@pytest.mark.parametrize("coverage", [0.9, 0.9999, 0.999999])
def test_intervals_that_hardly_a_label_leaves(coverage):
    """The chance beyond an end, which the distribution function near 1 does not show."""
    one, _ = mixtures(5)
    _, high = central_intervals(one, coverage)
    tails = scipy.stats.t.sf(high[:, None], DEGREES, one.mean[:, None], one.scales)
    np.testing.assert_allclose((one.weights * tails).sum(axis=1), (1 - coverage) / 2, rtol=1e-6)


def test_one_part_against_scoringrules():
    draws = np.random.default_rng(1)
    mean, scale, y = draws.normal(size=50), draws.exponential(size=50), draws.normal(size=50)
    one = StudentMixture(mean, scale[:, None], np.ones((50, 1)), (5,))
    found = density_scores(one, y)
    np.testing.assert_allclose(found.crps, scoringrules.crps_t(y, 5.0, mean, scale), rtol=1e-6)
    wanted = scipy.stats.t(5, mean, scale)
    np.testing.assert_allclose(found.log_score, wanted.logpdf(y))
    np.testing.assert_allclose(found.high, wanted.ppf(0.95))


def test_parts_as_different_as_they_can_be():
    """A narrow part beside one a million times as wide, each with nearly all of the weight."""
    scales = np.array([[1.0, 1e6], [1.0, 1e6], [1e-19, 1e-19]])
    weights = np.array([[0.9975, 0.0025], [0.0025, 0.9975], [0.5, 0.5]])
    one = StudentMixture(np.zeros(3), scales, weights, (3, 50))
    found = density_scores(one, np.array([1e9, 0.0, 1.0]))
    for i in range(3):
        tail = weights[i] @ scipy.stats.t.sf(found.high[i] / scales[i], [3, 50])
        assert tail == pytest.approx(0.05, rel=1e-9)
    assert np.isfinite(found).all()


def test_chunks_are_as_all_rows_at_once():
    one, y = mixtures(200)
    y[5], one.mean[3], one.scales[7, 1] = np.nan, np.nan, np.inf
    start = 1e6
    found = Densities.begin()
    for rows in np.split(np.arange(200), [0, 3, 4, 6, 90]):
        part = StudentMixture(one.mean[rows], one.scales[rows], one.weights[rows], DEGREES)
        found = found.after(density_scores(part, start + y[rows], start), start + y[rows])
    known = np.setdiff1d(np.arange(200), [3, 5, 7])
    each = density_scores(one, y)
    assert np.flatnonzero(np.isnan(each.log_score)).tolist() == [3, 5, 7]
    ends = each.low[known], each.high[known]
    wanted = {"log_score": each.log_score[known].mean(), "crps": each.crps[known].mean()}
    wanted["coverage"] = metrics.coverage(*ends, y[known])
    wanted["width"] = metrics.width(*ends)
    assert found.metrics() == pytest.approx(wanted, rel=1e-6)
    shown = found.calibration()
    np.testing.assert_allclose(shown["pit"], 197 * metrics.pit_histogram(each.pit))
    assert len(shown["curves"]["crps"]) == 4
    assert shown["curves"]["crps"][1] == pytest.approx(each.crps[64:128].mean(), rel=1e-6)
    latest = {name: np.array(values) for name, values in shown["latest"].items()}
    last = known[-LATEST:]
    np.testing.assert_array_equal(latest["row"], last + 1)
    np.testing.assert_allclose(latest["label"], start + y[last])
    np.testing.assert_allclose(latest["high"], start + each.high[last])


def test_nothing_is_known_before_the_first_row():
    begun = Densities.begin()
    assert all(np.isnan(value) for value in begun.metrics().values())
    shown = begun.calibration()
    assert sum(shown["pit"]) == 0
    assert shown["latest"]["row"] == ()


@pytest.fixture
def rain(tmp_path):
    """A table whose noise depends on an input, with missing labels, far from 0."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(300, 2))
    y = 1e4 + X[:, 0] + np.where(X[:, 1] > 0, 1.0, 0.1) * draws.normal(size=300)
    y[draws.random(300) < 0.1] = np.nan
    frame = pl.DataFrame(X, ["a", "b"]).with_columns(y=pl.Series(y, nan_to_null=True))
    frame.write_parquet(tmp_path / "rain.parquet")
    return tmp_path / "rain.parquet", frame, y


def run(*arguments):
    assert main(["run", *map(str, arguments)]) == 0


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def table_of(path):
    learner, *_ = json.loads(path.read_text())["table"]
    return learner


@pytest.mark.endless
def test_the_command_scores_what_the_library_predicts(rain, tmp_path, capsys):
    path, frame, y = rain
    names = "a.json", "a.html", "a.model", "a.csv"
    out, page, saved, said = (tmp_path / name for name in names)
    files = "--json", out, "--report", page, "--save", saved, "--predictions", said
    run(path, *SMALL, *files)
    shown = capsys.readouterr().out
    assert "CRPS" in shown
    assert "How sure it is" in page.read_text()
    chunk = next(open_table(frame).chunks(1000))
    columns = Columns.decide(chunk)
    inputs, _ = columns.inputs(chunk, columns.init())
    first = int(np.flatnonzero(~np.isnan(y))[0])
    learner = jaxmkl.scaled(jaxmkl.raker(num_features=4), jaxmkl.wrappers.RunningMoments())
    learner = jaxmkl.wrappers.predictive(jaxmkl.wrappers.scaled_targets(learner))
    begin = jax.jit(lambda key: learner.init(jax.random.split(key, 1)[0], inputs.shape[1]))
    state = begin(jax.random.key(0))
    given = (y - y[first]).astype(np.float32)
    ((state, outputs),) = jaxmkl.stream(learner, state, [(inputs, given)], gaps=True)
    second = int(np.flatnonzero(~np.isnan(y))[1])  # no density before two labels are known
    judged = ~np.isnan(y) & (np.arange(300) > second)
    whole, label = outputs.distribution, given[judged]
    found = table_of(out)
    means = {name: mean for name, (mean, _) in found["metrics"].items()}
    interval = jax.jit(lambda one, coverage: one.interval(coverage), static_argnums=1)
    all_ends = interval(whole, 0.9)
    low, high = (np.asarray(end)[judged] for end in all_ends)
    of_labels = jax.jit(lambda one, y: (one.log_prob(y), one.crps(y), one.cdf(y)))
    log_scores, crps, cdf = (np.asarray(a)[judged] for a in of_labels(whole, given))
    wanted = {
        "log_score": log_scores.mean(),
        "crps": crps.mean(),
        "coverage": metrics.coverage(low, high, label),
        "width": metrics.width(low, high),
    }
    for name, value in wanted.items():
        assert means[name] == pytest.approx(float(value), rel=1e-4)
    shares = metrics.pit_histogram(cdf)
    np.testing.assert_allclose(found["density"]["pit"], judged.sum() * shares, atol=1e-3)
    ends = [found["density"]["latest"][name] for name in ("row", "label", "high")]
    assert ends[0] == (1 + np.flatnonzero(judged)[-LATEST:]).tolist()
    np.testing.assert_allclose(ends[1], y[judged][-LATEST:])
    np.testing.assert_allclose(ends[2], y[first] + np.asarray(high)[-LATEST:], rtol=1e-6)

    # the ends of the intervals are written, and a pipeline predicts them
    written = rows_of(said)
    assert [*written[0]] == ["row", *COLUMNS, "y"]
    assert {row["low"] for row in written[: second + 1]} == {""}
    both = np.array([[row["low"], row["high"]] for row in written[second + 1 :]], float)
    wanted = y[first] + np.transpose(all_ends)[second + 1 :]
    np.testing.assert_allclose(both, wanted, rtol=1e-6)
    others = tmp_path / "others.csv"
    assert main(["predict", str(saved), str(path), "--out", str(others)]) == 0
    predicted = rows_of(others)
    assert [*predicted[0]] == ["row", *COLUMNS]
    pipeline = jaxmkl.load_pipeline(saved)
    after = jax.jit(learner.predict_many)(state, inputs).distribution
    for coverage in (0.5, 0.9):
        ends = y[first] + np.asarray(interval(after, coverage), np.float64)
        np.testing.assert_allclose(pipeline.predict_interval(frame, coverage), ends, rtol=1e-6)
    found_ends = [[row[name] for row in predicted] for name in ("low", "high")]
    np.testing.assert_allclose(np.array(found_ends, float), ends, rtol=1e-6)
    with pytest.raises(ValueError, match=r"coverage must be a number above 0 and below 1; got 1"):
        pipeline.predict_interval(frame, 1)

    # the predictions are those without densities, and a pipeline keeps its densities
    several = tmp_path / "several.csv"
    run(path, "--learner", "raker,amkl", *SMALL[2:], "--predictions", several)
    columns = [f"{what} {name}" for name in ("raker", "amkl") for what in COLUMNS]
    assert [*rows_of(several)[0]] == ["row", *columns, "y"]
    run(path, *SMALL[:-1], "--json", out)
    assert table_of(out)["metrics"]["mse"][0] == means["mse"]
    assert "crps" not in table_of(out)["metrics"]
    run(path, "--from", saved, "--json", out)
    again = {name: mean for name, (mean, _) in table_of(out)["metrics"].items()}
    assert again["log_score"] > means["log_score"]
    assert main(["run", str(path), "--from", str(saved), "--density"]) == 2
    assert "leave out --density" in capsys.readouterr().err


@pytest.mark.endless
def test_densities_go_on_from_a_checkpoint(rain, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "ROWS", 64)
    path, *_ = rain
    more = *SMALL, "--delay", "3", "--first", "60", "--seeds", "2"
    whole, parts, kept = (tmp_path / name for name in ("whole.json", "parts.json", "kept"))
    run(path, *more, "--json", whole)
    resumed = *more, "--json", parts, "--checkpoint", kept, "--every", "64"
    original, taken = jaxmkl.cli.prequential.Evaluation.take, []

    def stopped(self, state):
        original(self, state)
        taken.append(state)
        if len(taken) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(jaxmkl.cli.prequential.Evaluation, "take", stopped)
        assert main(["run", *map(str, (path, *resumed))]) == 130
    run(path, *resumed)
    one, other = table_of(whole), table_of(parts)
    assert one["density"] == other["density"]
    assert one["metrics"] == other["metrics"]
    assert sum(one["density"]["pit"]) > 200


def test_densities_are_of_numbers(tmp_path, capsys):
    path = tmp_path / "words.csv"
    path.write_text("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(9)))
    assert main(["run", str(path), *SMALL]) == 2
    assert "--density is for numbers; classes have" in capsys.readouterr().err
