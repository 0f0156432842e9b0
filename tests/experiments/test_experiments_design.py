"""The experiments of pool selection: accuracies, wins, the command line, speed."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from experiment_rows import pictures, value
from sklearn.svm import SVC

import jaxmkl
from experiments import report
from experiments.__main__ import main
from experiments.bench import pools
from experiments.commands import IN_PARTS
from experiments.evaluate import keys_of
from experiments.options import Options
from experiments.papers import design as experiment
from experiments.papers import design_pools as choosing
from experiments.papers import design_rounds as rounds
from experiments.papers import design_selectors as selecting
from experiments.papers import design_wins as winning
from experiments.papers.paper import Job
from experiments.papers.printed import DESIGN_WINS, printed, table

SMALL_PROGRAMS = True


def few_points() -> tuple[np.ndarray, np.ndarray]:
    """Forty points of three classes."""
    draws = np.random.default_rng(0)
    y = np.arange(40) % 3
    return draws.normal(size=(40, 4)) + 2 * np.eye(3, 4)[y], y


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of data; a small set in the place of the wines."""
    monkeypatch.setattr(choosing, "BUNDLED", {**choosing.BUNDLED, "wine": few_points})
    monkeypatch.setattr(choosing, "MOST_LABELS", {**choosing.MOST_LABELS, "wine": 15})
    monkeypatch.setattr(winning, "RESAMPLES", 200)


def literal_accuracies(method: str, seeds: int) -> np.ndarray:
    """Accuracies (seeds, 3) with 5, 10 and 15 labels, one split and pool after the other."""
    X, y = few_points()
    low, high = X.min(0), X.max(0)
    X = 2 * (X - low) / (high - low) - 1
    found = np.empty((seeds, 3))
    for s, order in enumerate(np.asarray(jaxmkl.permutations(keys_of(seeds), 40))):
        pool, test = order[:28], order[28:]
        with jax.enable_x64(True):
            grams = jaxmkl.design.dictionary(X[pool])
            gram = grams if method == "gmkal" else sum(grams) / 9
            shared = {"share_of": "columns"} if method == "ted" else {}
            ranking = np.asarray(getattr(jaxmkl.design, method)(gram, 0.1, **shared).ranking)
        for i, k in enumerate((5, 10, 15)):
            rows = pool[ranking[:k]]
            model = SVC(C=winning.SVC_C, kernel="rbf").fit(X[rows], y[rows])
            found[s, i] = np.mean(model.predict(X[test]) == y[test])
    return found


@pytest.mark.endless
def test_tables_hold_what_one_split_after_the_other_gives(play, small, tmp_path, capsys):
    rows = play(
        "design --parts tables",
        "wine",
        "random,ted,gmkal",
        seeds=3,
        regularization=0.1,
        plots=True,
    )
    literal = {name: literal_accuracies(name, 3) for name in ("ted", "gmkal")}
    for name, accuracy in literal.items():
        (found,) = (r for r in rows if (r["algorithm"], r["metric"]) == (name, "accuracy"))
        assert found["mean"] == pytest.approx(accuracy.mean())
        assert found["std"] == pytest.approx(accuracy.mean(1).std(ddof=1))
        assert found["parameters"]["labels"] == [5, 10, 15]
        assert found["parameters"]["accuracies"] == pytest.approx(accuracy.mean(0))
        assert found["parameters"]["converged"] == 3
        assert found["seconds_per_run"] > 0
    gaps = literal["gmkal"].mean(0) - literal["ted"].mean(0)
    won = sum(1.0 if gap > 1e-9 else 0.5 if gap > -1e-9 else 0.0 for gap in gaps) / 3
    assert value(rows, "gmkal over ted", "win_rate") == pytest.approx(won)
    difference = value(rows, "gmkal over ted", "difference")
    assert difference == pytest.approx(gaps.mean(), abs=1e-12)
    low, high = (value(rows, "gmkal over ted", f"win_{end}") for end in ("low", "high"))
    assert 0 <= low <= won <= high <= 1
    assert {r["algorithm"] for r in rows if " over " in r["algorithm"]} == {
        "gmkal over random",
        "gmkal over ted",
    }
    assert {r["metric"] for r in rows if r["algorithm"] == "random"} == {"accuracy"}
    assert value(rows, "gmkal", "objective") > 0
    assert not jax.config.jax_enable_x64
    assert pictures(tmp_path / "plots") == {"design_wine.png"}
    shown = capsys.readouterr().out
    assert f"{100 * literal['gmkal'].mean():.3f}" in shown
    assert "Table I: how often gmkal wins" in shown
    assert "Table II" not in shown


@pytest.mark.slow
def test_kernels_alone_are_not_mixed_up(monkeypatch):
    monkeypatch.setitem(choosing.ALGORITHMS, "ted*", "ted")
    X, _ = few_points()
    with jax.enable_x64(True):
        grams = np.stack([jaxmkl.design.dictionary(X[:20]), jaxmkl.design.dictionary(X[20:])])
        found = choosing.choices("ted*", grams, 20, {"regularization": 0.05})
        assert list(found) == list(choosing.KERNELS)
        for t, kernel in ((0, "Gaussian 1e0"), (6, "polynomial 2"), (8, "linear")):
            for s in range(2):
                alone = jaxmkl.design.ted(grams[s, t], 0.05, share_of="columns")
                np.testing.assert_array_equal(found[kernel].ranking[s], alone.ranking)
                last = np.nanmin(np.asarray(alone.objective))
                assert found[kernel].objective[s] == pytest.approx(last, rel=1e-9)
                assert found[kernel].active[s] == alone.num_active


@pytest.mark.slow
def test_pools_in_groups_are_chosen_from_as_all_at_once(monkeypatch):
    X, _ = few_points()
    pool = [X[s : s + 10] @ X[s : s + 10].T for s in range(0, 40, 10)]
    grams = np.stack(pool).astype(np.float32)
    at_once = choosing.chosen_points("ted", grams, 10, {})
    monkeypatch.setattr(choosing, "AT_ONCE", 2 * grams[0].nbytes)
    in_groups = choosing.chosen_points("ted", grams, 10, {})
    np.testing.assert_array_equal(in_groups.ranking, at_once.ranking)
    for s in range(4):
        alone = jaxmkl.design.ted(grams[s], share_of="columns")
        np.testing.assert_array_equal(at_once.ranking[s], alone.ranking)


@pytest.mark.endless
def test_the_penalty_falls_until_enough_points_are_active(monkeypatch):
    X, _ = few_points()
    with jax.enable_x64(True):
        grams = np.stack([jaxmkl.design.dictionary(X[s : s + 20])[8] for s in (0, 20)])
        monkeypatch.setattr(choosing, "SHARES", (0.9, 0.3, 0.001))
        active = np.array(
            [[jaxmkl.design.cted(gram, s).num_active for gram in grams] for s in (0.9, 0.3)]
        ).min(axis=1)
        assert active[0] < active[1]
        found = choosing.chosen_points("cted", grams, int(active[1]), {})
        assert found.regularization == 0.3
        assert found.active.min() == active[1]
        monkeypatch.setattr(choosing, "SHARES", (0.9, 0.3, 5.0))
        found = choosing.chosen_points("cted", grams, 20, {})  # as many as there are
        assert found.regularization == 0.3
        found = choosing.chosen_points("cted", grams, int(active[1]), {"regularization": 0.9})
        assert found.regularization == 0.9
        assert found.active.min() == active[0]


def test_the_best_kernels_and_the_median_one():
    blank = np.zeros(1)
    choice = choosing.Choice(blank, blank, blank, blank, blank, 0.0)
    means = dict(zip(choosing.KERNELS, (3, 9, 1, 7, 5, 2, 8, 4, 6), strict=True))
    found = {
        k: choice._replace(accuracy=np.full((2, 4), m / 10), kernel=k) for k, m in means.items()
    }
    chosen = experiment.best_and_median(found, "rrss*")
    assert {name: means[scored.kernel] for name, scored in chosen.items()} == {
        "rrss_1": 9,
        "rrss_2": 8,
        "rrss_3": 7,
        "rrss_m": 5,
    }


def ends(made: dict[str, np.ndarray], name: str) -> tuple[float, float]:
    """The range of a share of wins."""
    return made[f"{name}_low"].item(), made[f"{name}_high"].item()


def test_wins_and_their_ranges():
    draws = np.random.default_rng(1)
    theirs = draws.uniform(0.5, 0.7, size=(10, 8))
    made = winning.compare(theirs + 0.01, theirs)
    assert made["win_rate"] == 1
    assert ends(made, "win") == ends(made, "splits") == (1, 1)
    np.testing.assert_allclose(made["difference"], 0.01)
    assert winning.compare(theirs, theirs)["win_rate"] == 0.5
    # four points of eight are won on every split: no split matters, but points do
    gain = np.where(np.arange(8) < 4, 0.02, -0.02)
    made = winning.compare(theirs + gain, theirs)
    assert made["win_rate"] == 1 / 2
    assert ends(made, "splits") == (1 / 2, 1 / 2)
    assert ends(made, "win") == (1 / 8, 7 / 8)  # the middle of the binomial law of 8 draws
    # won on one split of ten by much, lost on the others by little: a matter of that split
    gain = np.where(np.arange(10) == 0, 0.2, -0.01)[:, None]
    made = winning.compare(theirs + gain, theirs)
    assert made["win_rate"] == 1
    assert ends(made, "splits") == (0, 1)
    assert ends(made, "win") == (1, 1)


def accuracy_of(X, y, labelled, test):
    points, others = (X[labelled], y[labelled]), (X[test], y[test])
    return winning.score_of(SVC(C=winning.SVC_C), points, others)


def test_labels_of_one_class_name_that_class():
    X, y = few_points()
    same = np.flatnonzero(y == 1)[:4]
    test = np.arange(30, 40)
    assert accuracy_of(X, y, same, test) == np.mean(y[test] == 1)
    with_another = np.append(same, np.flatnonzero(y == 2)[:4])
    right = SVC(C=winning.SVC_C).fit(X[with_another], y[with_another]).predict(X[test])
    found = accuracy_of(X, y, with_another, test)
    assert found == np.mean(right == y[test]) != np.mean(y[test] == 1)


def test_printed_wins_are_multiples_of_one_over_the_evaluation_points():
    assert printed("design", "segmentation", "gmkal over cted_m", "win_rate") == 0.27
    assert printed("design", "reuters_4class", "gmkal over rrss", "win_rate") == 0.9
    assert printed("design", "heart", "lmkal over cted_1", "win_rate") == 0.4
    assert printed("design", "australian", "lmkal over rrss_m", "win_rate") == 1.0
    assert printed("design", "wine", "gmkal over cted", "win_rate") is None
    for of_method in DESIGN_WINS.values():
        for (dataset, _), won in table(of_method).items():
            points = choosing.MOST_LABELS[dataset] // choosing.EVERY
            # they are cut or rounded to whole percent
            assert min(abs(won - 100 * k / points) for k in range(points + 1)) < 0.6


@pytest.mark.endless
def test_large_pools_leave_slow_methods_out(play, small, monkeypatch, capsys):
    monkeypatch.setattr(experiment, "LARGE", 28)
    slow = tuple(name for name in choosing.ALGORITHMS if name != "random")
    monkeypatch.setattr(experiment, "SLOW", slow)
    rows = play("design --parts tables", "wine")
    assert {r["algorithm"] for r in rows} == {"random"}
    assert {r["seeds"] for r in rows} == {10}
    shown = " ".join(capsys.readouterr().out.split())
    assert "take long on 28 points and are played if asked for" in shown
    rows = play("design --parts tables", "wine", "random", seeds=4)
    assert {r["seeds"] for r in rows} == {4}


def test_without_a_folder_the_sets_of_scikit_learn_are_run(small, monkeypatch, capsys):
    calls = []

    def tables(job):
        calls.append(job.datasets)

    paper = dataclasses.replace(experiment.PAPER, parts=(tables,), default_parts=("tables",))
    monkeypatch.setitem(IN_PARTS, "design", paper)
    assert main(["design", "--parts", "tables"]) == 0
    assert calls == [("digits", "breast_cancer", "wine", "iris", "plane", "rare")]
    assert "scikit-learn's digits, breast_cancer, wine, iris are used" in capsys.readouterr().out


def test_a_set_of_another_size_than_the_papers_is_told(tmp_path, capsys):
    X, y = few_points()
    np.savez(tmp_path / "sonar.npz", X=X.astype(np.float32), y=y.astype(np.int16))
    options = Options(command="design", data=tmp_path, seeds=2)
    shown = report.Report("python -m experiments design")
    job = Job(experiment.PAPER, options, shown, ("sonar",), ("random",), 2)
    splits = choosing.splits_of(job, "sonar")
    said = "sonar: 40 points, 4 features, 3 classes; in the paper's Table III: 208 points, 60"
    assert said in capsys.readouterr().out
    assert splits.counts.tolist() == [5, 10, 15, 20, 25]
    both = np.concatenate([splits.pools, splits.tests], axis=1)
    assert (np.sort(both, axis=1) == np.arange(40)).all()
    assert splits.X.min(0).tolist() == [-1] * 4
    assert splits.X.max(0).tolist() == [1] * 4


def test_texts_become_rows_of_length_1(tmp_path):
    draws = np.random.default_rng(2)
    counts = draws.poisson(0.5, size=(20, 30)).astype(np.float32)
    counts[:, 0] = 1.0  # in every text
    counts[:, 1] = np.arange(20) == 3  # in one
    np.savez(tmp_path / "reuters_4class.npz", X=counts, y=np.arange(20) % 4)
    options = Options(command="design", data=tmp_path)
    shown = report.Report("python -m experiments design")
    job = Job(experiment.PAPER, options, shown, ("reuters_4class",), ("random",), 1)
    splits = choosing.splits_of(job, "reuters_4class")
    rare = np.log(21 / (1 + (counts > 0).sum(0))) + 1
    literal = counts * rare
    literal /= np.linalg.norm(literal, axis=1, keepdims=True)
    np.testing.assert_allclose(splits.X.toarray(), literal, rtol=1e-6)
    np.testing.assert_allclose(splits.inner, literal @ literal.T, rtol=1e-6)


@pytest.mark.endless
def test_the_picture(play, tmp_path):
    rows = play("design --parts picture", algorithms="random,ted", seeds=2, plots=True)
    assert {r["algorithm"] for r in rows} == {"random", "ted"}
    assert pictures(tmp_path / "plots") == {"design_plane.png"}
    found = []
    for seed in range(2):
        X = experiment.plane(seed)
        with jax.enable_x64(True):
            gram = jaxmkl.design.dictionary(X).mean(axis=0)
            chosen = np.asarray(jaxmkl.design.ted(gram, num_points=12, share_of="columns").ranking)
        found.append(np.mean([min(np.hypot(*(x - X[i])) for i in chosen) for x in X]))
    assert value(rows, "ted", "distance") == pytest.approx(np.mean(found))


def test_bars_are_standard_errors_and_points_are_drawn():
    y = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    bars = report.Panel("", "", "", {"a": (np.array([5, 10]), y)}, errors=True, marks=True)
    (drawn,) = report.drawing([bars]).axes[0].containers
    (segments,) = drawn.lines[2]
    ends = [segment[:, 1].tolist() for segment in segments.get_segments()]
    error = 2 / 3**0.5
    assert ends[0] == pytest.approx([2 - error, 2 + error])
    assert ends[1] == [1, 1]
    pool, chosen = np.arange(8.0).reshape(4, 2), np.array([[0.0, 1.0]])
    plane = report.Panel("", "", "", points={"pool": pool, "chosen": chosen})
    figure = report.drawing([plane] * 4)
    assert len(figure.axes) == 6  # in lines of three
    first, second = figure.axes[3].collections
    assert first.get_offsets().tolist() == pool.tolist()
    assert second.get_offsets().tolist() == chosen.tolist()


@pytest.mark.endless
def test_the_benchmark_of_pools(play, monkeypatch, capsys):
    case = pools.Case("ted, 300 points", "ted", 300, features=8, kernels=1, repeats=2)
    monkeypatch.setattr(pools, "SMALL_CASES", (case,))
    rows = play("bench --pools")
    (seconds,) = (r for r in rows if r["metric"] == "seconds")
    assert seconds["parameters"]["repeats"] == 2
    assert seconds["parameters"]["features"] == 8
    assert 0 < seconds["mean"] < value(rows, case.name, "compile_seconds")
    before, peak = (value(rows, case.name, m) for m in ("memory_before_mib", "peak_memory_mib"))
    assert 10 < before < peak
    assert value(rows, case.name, "iterations") == 50  # as many points
    assert value(rows, case.name, "converged_share") == 1
    assert "Choosing points" in capsys.readouterr().out


def test_pools_of_the_benchmark():
    several = pools.Case("gmkal, 2 pools", "gmkal", 30, "sonar", pools=2)
    with jax.enable_x64(True):
        name, call = pools.call_of(several, Options(command="bench"))
    assert name == "generated"
    (grams,) = call.args
    X = pools.generated(60).astype(np.float64)
    order = np.asarray(jaxmkl.permutations(keys_of(2), 60))[1, :30]
    np.testing.assert_allclose(grams[1], jaxmkl.design.dictionary(X[order]), atol=1e-12)
    features = pools.fourier_features(pools.Case("x", "gmkal", 50, features=400, kernels=2))
    X = pools.generated(50)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    for F, width in zip(np.asarray(features), pools.WIDTHS[:2], strict=True):
        np.testing.assert_allclose(F @ F.T, np.exp(-squares / (2 * width**2)), atol=0.35)


@pytest.mark.endless
def test_a_tuned_penalty_is_the_best_of_the_grid_on_the_test_points(play, small, monkeypatch):
    monkeypatch.setattr(winning, "GRID", (0.1, 1000.0))
    rows = play("design --parts tuned", "wine", seeds=2)
    X, y = few_points()
    X = 2 * (X - X.min(0)) / np.ptp(X, axis=0) - 1
    gaps, vanished = [], []
    for order in np.asarray(jaxmkl.permutations(keys_of(2), 40)):
        pool, test = order[:28], order[28:]
        with jax.enable_x64(True):
            grams = jaxmkl.design.dictionary(X[pool])
            found = [
                getattr(jaxmkl.design, method)(gram, penalty, absolute=absolute).ranking
                for method, gram, penalty, absolute in (
                    ("gmkal", grams, 0.1, True),
                    ("cted", sum(grams) / 9, 0.1, False),
                )
            ]
        accuracies = [
            np.mean([accuracy_of(X, y, pool[np.asarray(r)[:k]], test) for k in (5, 10, 15)])
            for r in (found[0], np.arange(28), found[1])
        ]
        gaps.append(max(accuracies[:2]) - accuracies[2])
        vanished.append(accuracies[1] > accuracies[0])
    assert value(rows, "gmkal tuned over cted", "difference") == pytest.approx(np.mean(gaps))
    assert value(rows, "gmkal tuned", "vanished") == np.mean(vanished)


@pytest.mark.data
def test_sizes_are_those_of_the_papers_table_3(data_dir: Path):
    for name, size in choosing.SIZES.items():
        with np.load(data_dir / f"{name}.npz", allow_pickle=False) as archive:
            shape = archive["X"].shape if "X" in archive else tuple(archive["shape"])
            classes = 7 if name == "segmentation" else size[2]
            assert (*shape, len(np.unique(archive["y"]))) == (*size[:2], classes)


# --- selectors, rounds and rare clusters ---------------------------------------------------------


def three_and_rest() -> tuple[np.ndarray, np.ndarray]:
    """Sixty points of three classes, in columns of different sizes."""
    draws = np.random.default_rng(1)
    y = np.arange(60) % 3
    return (draws.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y]) * [1, 10, 100, 1000], y


@pytest.fixture
def iris(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty points in the place of the irises, and few labels."""
    monkeypatch.setattr(selecting, "BUNDLED", {**selecting.BUNDLED, "iris": three_and_rest})
    monkeypatch.setattr(selecting, "COUNTS", (5, 10))


@pytest.mark.endless
def test_selectors_are_measured_as_one_split_after_the_other(play, iris, capsys):
    measured = play("design --parts selectors", "iris", "ted,kmeans", seeds=2)
    X, y = three_and_rest()
    literal = {name: np.zeros((2, 2)) for name in ("random", "ted")}  # by split: C = 10, 1-NN
    for s, order in enumerate(np.asarray(jaxmkl.permutations(keys_of(2), 60))):
        pool, test = order[:42], order[42:]
        Z = (X - X[pool].mean(0)) / X[pool].std(0)
        for name, draws in (("random", 5), ("ted", 1)):
            for draw in range(draws):
                key = jax.random.fold_in(jax.random.key(5 * s + draw), 1)
                found = jaxmkl.design.from_points(Z[pool], 10, method=name, key=key)
                for k in (5, 10):
                    rows = pool[np.asarray(found.ranking)[:k]]
                    guess = SVC(C=10).fit(Z[rows], y[rows]).predict(Z[test])
                    apart = np.linalg.norm(Z[test][:, None] - Z[rows], axis=2)
                    near = y[rows][apart.argmin(axis=1)]
                    right = [np.mean(guess == y[test]), np.mean(near == y[test])]
                    literal[name][s] += np.array(right) / (2 * draws)
    for place, learner in ((0, "c10"), (1, "neighbour")):
        for name in literal:
            wanted = literal[name][:, place].mean()
            assert value(measured, name, f"accuracy_{learner}") == pytest.approx(wanted)
        gains = (literal["ted"] - literal["random"])[:, place]
        assert value(measured, "ted", f"gain_{learner}") == pytest.approx(gains.mean())
    assert {r["algorithm"] for r in measured} == {"random", "ted", "kmeans"}
    assert "kmeans: pools better / worse by two standard errors" in capsys.readouterr().out


def test_centres_are_points_of_their_clusters():
    X = np.vstack([np.random.default_rng(0).normal(size=(20, 2)) + 9 * k for k in range(3)])
    for points in (X, scipy.sparse.csr_matrix(X)):
        found = selecting.nearest_to_centres(points, 3, seed=0)
        assert sorted(found // 20) == [0, 1, 2]
        for i in found:
            cluster = X[20 * (i // 20) :][:20]
            apart = np.linalg.norm(cluster - cluster.mean(axis=0), axis=1)
            assert apart.argmin() == i % 20


def test_sets_of_selectors_are_read_as_they_should_be(tmp_path):
    draws = np.random.default_rng(3)
    counts = scipy.sparse.csr_matrix(draws.poisson(0.5, size=(30, 12)).astype(np.float32) + 0.0)
    parts = {name: getattr(counts, name) for name in ("data", "indices", "indptr", "shape")}
    for name in ("sentiment", "a9a"):
        np.savez(tmp_path / f"{name}.npz", y=np.arange(30) % 2, **parts)
    options = Options(command="design", data=tmp_path)
    job = Job(experiment.PAPER, options, report.Report("design"), (), (), 1)
    dense, _ = selecting.points_of(job, "a9a")
    np.testing.assert_array_equal(dense, counts.toarray())
    texts, y = selecting.points_of(job, "sentiment")
    assert y.tolist() == (np.arange(30) % 2).tolist()
    filled = counts.getnnz(axis=1) > 0
    np.testing.assert_allclose(scipy.sparse.linalg.norm(texts, axis=1)[filled], 1.0)
    dense[:, 2] = 7.0
    pool, test = selecting.standardised(dense, np.arange(20), np.arange(20, 30))
    others = np.delete(np.arange(12), 2)
    np.testing.assert_allclose(pool[:, others].std(axis=0), 1.0)
    assert not pool[:, 2].any()
    assert not test[:, 2].any()


def test_margins_of_several_classes_are_between_the_two_best():
    X, y = three_and_rest()
    model = SVC(C=10.0).fit(X / X.std(0), y)
    found = rounds.margins(model, X / X.std(0))
    for x, margin in zip(X / X.std(0), found, strict=True):
        one, two, _ = sorted(model.decision_function([x])[0], reverse=True)
        assert margin == pytest.approx(one - two)


@pytest.mark.slow
def test_after_the_first_points_come_the_closest(play, iris, monkeypatch):
    monkeypatch.setattr(rounds, "POOLS", ("iris",))
    monkeypatch.setattr(rounds, "BUNDLED", selecting.BUNDLED)
    monkeypatch.setattr(rounds, "MOST_LABELS", 30)
    monkeypatch.setattr(rounds, "EARLY", 20)
    plans = {"random": ("random", 30), "ted + margin": ("ted", 10)}
    monkeypatch.setattr(rounds, "PLANS", plans)
    measured = play("design --parts rounds", "iris", seeds=1)
    X, y = three_and_rest()
    (order,) = np.asarray(jaxmkl.permutations(keys_of(1), 60))
    pool, test = order[:42], order[42:]
    Z = (X - X[pool].mean(0)) / X[pool].std(0)
    known = pool[np.asarray(jaxmkl.design.from_points(Z[pool], 10).ranking)].tolist()
    scores, model = [], SVC(C=10.0)
    for number in range(5, 31, 5):
        if number > 10:
            left = [i for i in pool.tolist() if i not in known]
            values = np.sort(model.decision_function(Z[left]), axis=1)
            closest = np.argsort(values[:, -1] - values[:, -2], kind="stable")[:5]
            known += [left[i] for i in closest]
        model = SVC(C=10.0).fit(Z[known[:number]], y[known[:number]])
        scores.append(model.score(Z[test], y[test]))
    (row,) = (
        r for r in measured if (r["algorithm"], r["metric"]) == ("ted + margin", "accuracy_50")
    )
    assert row["parameters"]["accuracies"] == pytest.approx(scores)
    assert row["mean"] == pytest.approx(np.mean(scores[1:4]))
    late = value(measured, "ted + margin", "accuracy_200")
    assert late == pytest.approx(np.mean(scores[5:]))


@pytest.mark.endless
def test_a_rare_cluster_is_found_where_it_is(play, monkeypatch):
    monkeypatch.setattr(selecting, "RARE_POINTS", 1000)
    monkeypatch.setattr(selecting, "SHARES", (10,))
    measured = play("design --parts rare", algorithms="random,ted", seeds=2)
    first = []
    for seed in range(2):
        X, is_rare = selecting.with_rare_cluster(seed, 10)
        assert is_rare.sum() == 100
        places = np.flatnonzero(is_rare[jaxmkl.design.from_points(X, 50).ranking])
        first.append(places[0] + 1 if len(places) else 51)
    assert value(measured, "ted", "first") == np.mean(first)
    assert value(measured, "ted", "found_rate") == np.mean(np.array(first) < 51)
