"""The experiment of many tasks, by real small runs, and its parts by their definitions."""

import numpy as np
import pytest
from experiment_rows import pictures, value
from scipy.stats import ttest_rel
from sklearn.metrics import roc_auc_score

import jaxmkl
from experiments import evaluate, report
from experiments.bench import supports
from experiments.options import Options
from experiments.papers import multitask
from experiments.papers.paper import Job
from jaxmkl.evaluate import UsageError

SMALL_PROGRAMS = True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small stand-ins: landmine of 3 tasks, few positives; sentiment of 2, sparse counts."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("JAXMKL_DATA", str(folder))
    draws = np.random.default_rng(0)
    task = np.sort(draws.integers(3, size=240)).astype(np.int16)
    X = draws.normal(size=(240, 4)).astype(np.float32)
    y = np.where(X[:, 0] + 0.3 * task > 0.9, 1, -1).astype(np.int8)
    np.savez(folder / "landmine.npz", X=X, y=y, task=task)
    task = np.repeat([0, 1], 120).astype(np.int16)
    counts = draws.poisson(0.8, size=(240, 12)).astype(np.float32)
    counts[3] = 0
    y = np.where(counts[:, 0] + task > counts[:, 1], 1, -1).astype(np.int8)
    row, column = np.nonzero(counts)
    np.savez(
        folder / "sentiment.npz",
        data=counts[row, column],
        indices=column.astype(np.int32),
        indptr=np.searchsorted(row, np.arange(241)).astype(np.int32),
        shape=np.array([240, 12]),
        y=y,
        task=task,
    )
    return folder


def job_of(folder, seeds=2, settings=None):
    options = Options(command="multitask", data=folder, settings=settings or {"size": 12})
    shown = report.Report("python -m experiments multitask")
    names = tuple(multitask.ALGORITHMS)
    return Job(multitask.PAPER, options, shown, multitask.DATASETS, names, seeds)


@pytest.mark.endless
def test_components_stand_beside_each_other(play, folder, monkeypatch, capsys):
    mode = {"h": 0.2}, "{} (h = 0.2)", multitask.COMPONENTS
    monkeypatch.setattr(multitask, "MODES", (mode,))
    rows = play("multitask --parts components", "landmine", seeds=3, size=12)
    names = {f"{name} (h = 0.2)" for name in multitask.COMPONENTS}
    apart = "mixed (h = 0.2) less the better"
    assert {r["algorithm"] for r in rows} == {*names, apart}
    metrics = {"mistake_rate", "balanced_error", "auc", "late_auc", "label_rate", "support"}
    assert {r["metric"] for r in rows} == metrics
    assert {r["seeds"] for r in rows} == {3}
    for metric, best in (("mistake_rate", min), ("auc", max)):
        of = {name: value(rows, f"{name} (h = 0.2)", metric) for name in multitask.COMPONENTS}
        wanted = of["mixed"] - best(of["both"], of["local"])
        assert value(rows, apart, metric) == pytest.approx(wanted)
    for name in names:
        assert 0 < value(rows, name, "label_rate") < 1
        assert value(rows, name, "support") == 12
        assert value(rows, name, "auc") > 0.6
    parameters = {r["algorithm"]: r["parameters"] for r in rows}
    assert parameters["local (h = 0.2)"]["components"] == "local"
    assert parameters[apart] == {}
    shown = capsys.readouterr().out
    assert shown.count("landmine, mixed (h = 0.2) less ") == 4


def test_a_learner_without_support_vectors_has_no_number_of_them(folder):
    learner = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=4, loss="logistic")
    job = job_of(folder)
    found = multitask.run_stream(job, learner, multitask.stream_of(job, "landmine"))
    assert {*found.metrics} == {*multitask.METRICS, "label_rate"}


@pytest.mark.endless
def test_who_gets_a_label_at_the_same_rates(play, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(multitask, "SHARES", (0.0001, 0.5))
    monkeypatch.setattr(multitask, "GRID", 10.0 ** np.arange(-2, 1.1, 0.5))
    monkeypatch.setattr(multitask, "TRIAL_ORDERS", 2)
    rows = play(
        "multitask --parts asking", "sentiment", "unsure,chance", seeds=3, size=12, plots=True
    )
    names, apart = ("unsure (50%)", "chance (50%)"), "unsure less chance (50%)"
    assert {r["algorithm"] for r in rows} == {*names, apart, "all labels", "chance (0%)"}
    one, other = (value(rows, name, "mistake_rate") for name in names)
    assert value(rows, apart, "mistake_rate") == pytest.approx(one - other)
    assert value(rows, "all labels", "label_rate") == 1
    rates = [value(rows, name, "label_rate") for name in names]
    np.testing.assert_allclose(rates, 0.5, atol=0.08)
    # chance asks as often as the unsure learner did
    (chance,) = {r["parameters"]["query"] for r in rows if r["algorithm"] == "chance (50%)"}
    rate = value(rows, "unsure (50%)", "label_rate")
    assert float(chance.removeprefix("Random(rate=").rstrip(")")) == pytest.approx(rate)
    assert {r["parameters"]["update_on"] for r in rows if r["algorithm"] != apart} == {"unsure"}
    assert pictures(tmp_path / "plots") == {"multitask_asking_sentiment.png"}
    shown = capsys.readouterr().out
    assert shown.count("sentiment, unsure less chance") == 4
    assert "sentiment, unsure: no h asks for 0% of the labels" in shown


@pytest.mark.endless
def test_labels_by_chance(play, folder, monkeypatch, capsys):
    monkeypatch.setattr(multitask, "SHARES", (0.5,))
    rows = play("multitask --parts asking", "sentiment", "chance", seeds=3, size=12)
    assert value(rows, "chance (50%)", "label_rate") == pytest.approx(0.5, abs=0.12)
    assert value(rows, "all labels", "label_rate") == 1
    assert {r["parameters"]["update_on"] for r in rows} == {"unsure"}
    assert "small margin, or any" in capsys.readouterr().out


def test_sentiment_is_the_first_terms_at_length_1(folder, monkeypatch):
    monkeypatch.setattr(multitask, "TERMS", 5)
    stream = multitask.stream_of(job_of(folder), "sentiment")
    archive = np.load(folder / "sentiment.npz")
    dense = np.zeros((240, 12))
    row = np.repeat(np.arange(240), np.diff(archive["indptr"]))
    dense[row, archive["indices"]] = archive["data"]
    some = np.log(1 + dense[:, :5])
    lengths = np.sqrt((some**2).sum(1))
    assert (lengths == 0).any()
    wanted = some / np.where(lengths == 0, 1, lengths)[:, None]
    np.testing.assert_allclose(stream.X[:, 1:], wanted, rtol=1e-6)
    np.testing.assert_array_equal(stream.X[:, 0], archive["task"])
    np.savez(folder / "sentiment.npz", **{k: v for k, v in archive.items() if k != "task"})
    with pytest.raises(UsageError, match=r"sentiment\.npz: has no 'task'"):
        multitask.stream_of(job_of(folder), "sentiment")


def test_tasks_of_digits_and_of_occupations(folder):
    """One digit's task affirms what another's denies; an occupation is no input of its task."""
    stream = multitask.stream_of(job_of(folder), "digits")
    task, X, y = stream.X[:, 0], stream.X[:, 1:], stream.y
    assert (y[:1797] == 1).all()
    assert (y[1797:] == -1).all()
    np.testing.assert_array_equal(X[:1797], X[1797:])
    assert np.bincount(task[:1797].astype(int)).min() == 174
    draws = np.random.default_rng(2)
    X = (draws.random((20_000, 123)) < 0.1).astype(np.float32)
    X[:, 46:60] = 0
    of = draws.integers(15, size=len(X))
    X[of < 14, 46 + of[of < 14]] = 1
    y = np.where(of % 2, 1, -1).astype(np.int8)
    row, column = np.nonzero(X)
    indptr = np.searchsorted(row, np.arange(len(X) + 1))
    parts = {"data": X[row, column], "indices": column, "indptr": indptr, "shape": X.shape}
    np.savez(folder / "a9a.npz", y=y, **parts)
    stream = multitask.stream_of(job_of(folder), "a9a")
    assert stream.X.shape == (multitask.MOST_ROWS, 1 + 123 - 14)
    np.testing.assert_array_equal(stream.y > 0, stream.X[:, 0] % 2 == 1)
    assert len(np.unique(stream.X[:, 0])) == 15


@pytest.mark.endless
def test_every_order_is_a_run_of_its_own(folder):
    """All at once are the runs one by one, each scored against the labels it met."""
    job = job_of(folder, seeds=3)
    stream = multitask.stream_of(job, "landmine")
    made = multitask.built(job, stream, "both", h=0.3)
    together = multitask.run_stream(job, made.learner, stream)
    keys = evaluate.keys_of(3)
    for s, order in enumerate(np.asarray(jaxmkl.permutations(keys, 240))):
        _, outputs = jaxmkl.run_many(
            made.learner, keys[s : s + 1], stream.X, stream.y, permute=True
        )
        f, y, task = np.asarray(outputs.prediction[0]), stream.y[order], stream.X[order, 0]
        wrong = y * f <= 0
        areas, late_areas = (
            [roc_auc_score(y[n:][task[n:] == k], f[n:][task[n:] == k]) for k in range(3)]
            for n in (0, 120)
        )
        rates = wrong[y > 0].mean(), wrong[y < 0].mean()
        assert together.metrics["mistake_rate"][s] == pytest.approx(wrong.mean())
        assert together.metrics["balanced_error"][s] == pytest.approx(np.mean(rates))
        assert together.metrics["auc"][s] == pytest.approx(np.mean(areas), abs=1e-3)
        late = together.metrics["late_auc"][s]
        assert late == pytest.approx(np.mean(late_areas), abs=1e-3)
        assert together.metrics["label_rate"][s] == np.asarray(outputs.queried).mean()
    # another h is the same program
    programs = dict(evaluate._programs)
    again = multitask.built(job, stream, "both", h=0.7)
    multitask.run_stream(job, again.learner, stream)
    assert evaluate._programs == programs


def test_differences_are_paired():
    draws = np.random.default_rng(3)
    one = draws.normal(size=10)
    other = one + 0.1 + 0.1 * draws.normal(size=10)
    found = multitask.difference(one - other)
    apart = one - other
    assert found.mean == pytest.approx(apart.mean())
    assert found.error == pytest.approx(apart.std(ddof=1) / np.sqrt(10))
    assert found.p == pytest.approx(ttest_rel(one, other).pvalue, rel=1e-4)
    assert np.isnan(multitask.difference(np.zeros(10)).p)
    assert np.isnan(multitask.difference(apart[:1]).p)
    # 2.262 is the border of 5 % with nine degrees of freedom
    level = np.array([1.0, -1.0] * 5)
    step = 2.262 * level.std(ddof=1) / np.sqrt(10)
    assert multitask.difference(level + step).p == pytest.approx(0.05, abs=1e-4)


def test_both_are_held_against_the_better_alone():
    def measured(mistakes, area):
        metrics = {"mistake_rate": mistakes, "balanced_error": mistakes}
        metrics |= {"auc": area, "late_auc": area[::-1]}
        return multitask.Measured({k: np.array(v) for k, v in metrics.items()}, 1.0)

    found = {
        "both": measured([0.1, 0.2, 0.3], [0.8, 0.8, 0.7]),
        "local": measured([0.2, 0.3, 0.5], [0.5, 0.6, 0.6]),
        "global": measured([0.2, 0.3, 0.6], [0.8, 0.9, 0.9]),
    }
    (mistakes, balanced, area, late), rows = multitask.against_the_better("landmine", "{}", found)
    assert mistakes.startswith("landmine, both less local: mistake rate -13.33 ± 3.33 points")
    assert mistakes.endswith("p = 0.057; no difference at p < .05")
    assert balanced.endswith("; no difference at p < .05")
    assert area.startswith("landmine, both less global: auc -10.00 ± 5.77 points")
    assert area.endswith("p = 0.23; no difference at p < .05")
    assert late.startswith("landmine, both less global: late auc -10.00 ± 5.77 points")
    assert [row.metric for row in rows] == ["mistake_rate", "balanced_error", "auc", "late_auc"]
    assert {row.algorithm for row in rows} == {"both less the better"}
    assert rows[2].mean == pytest.approx(-0.1)
    assert rows[2].std / 3**0.5 == pytest.approx(0.0577, abs=1e-4)
    found["mixed"] = measured([0.1, 0.2, 0.25], [0.5, 0.8, 0.6])
    (mistakes, _, area, _), _ = multitask.against_the_better("landmine", "{}", found)
    assert mistakes.startswith("landmine, mixed less both: mistake rate -1.67 ± 1.67 points")
    assert area.startswith("landmine, mixed less both: auc -13.33 ± 8.82 points")
    assert area.endswith("; no difference at p < .05")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_verdict_needs_a_difference_that_chance_seldom_makes(sign):
    def of(*apart):
        return multitask.verdict(multitask.difference(sign * np.array(apart)), sign)

    # more than a standard error apart, yet p = .12, .1 and .06
    assert (
        of(0.3, 0.1, 0.1, -0.05) == of(0.0, 0.1, 0.2) == of(0.1, 0.3) == "no difference at p < .05"
    )
    assert of(-0.3, -0.1, -0.1, 0.05) == "no difference at p < .05"
    assert of(0.3, 0.2, 0.25, 0.3) == of(0.2, 0.2, 0.2) == "worse"
    assert of(-0.3, -0.2, -0.25, -0.3) == of(-0.2, -0.2) == "better"
    assert of(0.0, 0.0, 0.0) == "no difference at p < .05"
    assert of(0.5) == of(-0.5) == "not tested: one order"


def test_the_loss_of_a_classifier_is_its_own():
    """Only squared losses, which are for regression, give way to logistic ones."""
    for settings, loss in (({}, "squared_hinge"), ({"loss": "hinge"}, "hinge")):
        made = evaluate.candidate("m", "multitask", "classification", settings)
        assert made.learner.loss == loss
        assert made.parameters.get("loss", "squared_hinge") == loss
    raker = evaluate.candidate("raker", "raker", "classification", {"num_features": 4})
    assert raker.parameters["loss"] == "logistic"
    with pytest.raises(UsageError, match="size must be an integer"):
        evaluate.candidate("m", "multitask", "classification", {"size": 0})


def test_the_benchmark_plays_landmine_where_it_is(folder):
    real = supports.stream_of_tasks(Options(command="bench", data=folder))
    assert real.name == "landmine"
    assert len(real.y) == 240
