"""Which rows of a pool the selector and the command choose, and whether that helps."""

import csv

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import jaxmkl
from jaxmkl import design
from jaxmkl.cli import main
from jaxmkl.design import rows
from jaxmkl.sklearn import PoolSelector
from jaxmkl.streaming import SparseRows
from tests.oracles import design as oracle

SMALL_PROGRAMS = True


def pool(n=40):
    """Rows of columns that differ in size by a thousand times; one size is compiled for once."""
    draws = np.random.default_rng(4)
    centres = draws.normal(scale=2.0, size=(5, 4))
    return (centres[draws.integers(5, size=n)] + draws.normal(size=(n, 4))) * [1, 10, 100, 1000]


def gaussian(X):
    """The Gram matrix of the Gaussian as wide as the median distance, literally."""
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * np.median(squares[np.triu_indices(len(X), 1)])))


# --- does it help --------------------------------------------------------------------------------

COUNTS = range(5, 51, 5)
BUNDLED = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}
SETS = ["breast_cancer", "wine", pytest.param("digits", marks=pytest.mark.endless)]
SETS += [pytest.param("australian", marks=[pytest.mark.data, pytest.mark.endless])]


def accuracy(X, y, labelled, test, truth):
    """The mean accuracy of an SVC after 5, 10, ..., 50 of the labelled rows."""

    def after(rows):
        if (y[rows] == y[rows[0]]).all():
            return (truth == y[rows[0]]).mean()
        return SVC(C=10).fit(X[rows], y[rows]).score(test, truth)

    return np.mean([after(labelled[:count]) for count in COUNTS])


@pytest.mark.endless
@pytest.mark.parametrize("name", SETS)
def test_the_default_is_better_than_random_rows_by_two_standard_errors(name, request):
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        data = jaxmkl.tables.read(request.getfixturevalue("data_dir") / f"{name}.npz")
        X, y = np.asarray(data.X, np.float64), data.y
    m, gains = int(0.7 * len(X)), []
    for split in range(8):
        draws = np.random.default_rng(split)
        order = draws.permutation(len(X))
        scaler = StandardScaler().fit(X[order[:m]])
        parts = scaler.transform(X[order[:m]]), y[order[:m]]
        test = scaler.transform(X[order[m:]]), y[order[m:]]
        chosen = PoolSelector(max(COUNTS)).fit(X[order[:m]]).indices_
        others = [accuracy(*parts, draws.permutation(m), *test) for _ in range(5)]
        gains.append(accuracy(*parts, chosen, *test) - np.mean(others))
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / np.sqrt(len(gains))


# --- what is chosen ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_default_is_greedy_on_a_gaussian_of_standardised_columns():
    X = pool()
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    order, _ = oracle.ted(gaussian(standard), 0.1, 6)
    found = PoolSelector(6).fit(X)
    assert found.indices_.tolist() == found.ranking_.tolist() == order
    assert found.pool_.tolist() == list(range(40))
    assert np.isfinite(found.scores_).all()
    with jax.enable_x64(True):
        assert PoolSelector(6).fit(X).indices_.tolist() == order
    wide = np.hstack([X, np.full((40, 1), 0.1)])  # a constant says nothing
    assert PoolSelector(6, method="ted").fit(wide).indices_.tolist() == order
    order, _ = oracle.ted(X @ X.T, 0.3 * np.mean((X**2).sum(axis=1)), 6)
    own = PoolSelector(6, kernels=jaxmkl.Linear(), regularization=0.3)
    assert own.fit(X).indices_.tolist() == order


@pytest.mark.slow
def test_of_rows_alike_the_first_is_chosen_once():
    X = pool()
    found = PoolSelector(6).fit(np.repeat(X, 3, axis=0))
    alone = PoolSelector(6).fit(X)
    assert found.indices_.tolist() == (3 * alone.indices_).tolist()
    assert np.isnan(found.scores_).tolist() == [False, True, True] * 40
    assert PoolSelector(1).fit(np.ones((4, 2))).indices_.tolist() == [0]
    assert PoolSelector().fit(np.ones((1, 2))).indices_.tolist() == [0]
    with pytest.raises(ValueError, match="from 1 to 40, the number of distinct rows; got 41"):
        PoolSelector(41).fit(np.repeat(X, 3, axis=0))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        PoolSelector(3).fit(X)


@pytest.mark.slow
def test_texts_are_taken_as_they_stand():
    words = [
        "oak leaf",
        "oak tree leaf",
        "car road",
        "car wheel road",
        "sea wave",
        "sea salt wave",
    ]
    X = TfidfVectorizer().fit_transform([*words, words[0], "oak sea", "road sea"])
    order, _ = oracle.ted(gaussian(np.delete(X.toarray(), 6, axis=0)), 0.1, 5)
    places = np.delete(np.arange(9), 6)  # the text that occurs twice
    for form in (X, scipy.sparse.coo_array(X)):
        assert PoolSelector(5).fit(form).indices_.tolist() == places[order].tolist()
    several = PoolSelector(method="gmkal", regularization=0.01)
    dense = several.fit(X.toarray()).indices_.tolist()
    assert several.fit(X).indices_.tolist() == dense
    with pytest.raises(ValueError, match="kernels must be None where X is sparse"):
        PoolSelector(2, kernels=jaxmkl.Gaussian(1.0)).fit(X)


@pytest.mark.slow
def test_rows_that_are_not_active_are_not_chosen(tmp_path, capsys):
    X, path = StandardScaler().fit_transform(pool()), tmp_path / "pool.csv"
    wanted = PoolSelector(method="gmkal").fit(X).indices_
    number = len(wanted)
    assert 0 < number < 30
    text = f"gmkal: num_points is 30, but only {number} points are active: the others are unranked"
    with pytest.warns(UserWarning, match=text) as warned:
        found = PoolSelector(30, method="gmkal").fit(X)
    assert {one.filename for one in warned} == {__file__}  # not the estimator's own file
    assert found.indices_.tolist() == wanted.tolist()
    assert len(found.ranking_) == 30
    np.savetxt(path, X, delimiter=",", header="a,b,c,d", comments="")
    assert main(["select", str(path), "--num", "30", "--method", "gmkal"]) == 0
    out, error = capsys.readouterr()
    assert text in error
    lines = [int(row["line"]) for row in csv.DictReader(out.splitlines())]
    assert lines == [row + 2 for row in wanted]


# --- points as they are --------------------------------------------------------------------------


def test_facility_has_a_wider_gaussian():
    X = pool()
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    wide = gaussian(standard) ** (1 / 1.4**2)
    order, _ = oracle.facility(wide, 6)
    assert PoolSelector(6, method="facility").fit(X).indices_.tolist() == order
    assert design.from_points(X, 6, method="facility").ranking.tolist() == order
    exact = jaxmkl.Gaussian(1.0)
    order, _ = oracle.facility(np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2), 6)
    assert design.from_points(X, 6, method="facility", kernels=exact).ranking.tolist() == order


def test_from_points_is_what_the_selector_does():
    X = np.repeat(pool(), 2, axis=0)
    wanted = PoolSelector(6).fit(X)
    found = design.from_points(X, 6)
    assert found.ranking.tolist() == wanted.indices_.tolist()
    np.testing.assert_array_equal(found.scores, wanted.scores_)
    assert np.isnan(found.scores[1::2]).all()
    drawn = design.from_points(X, 6, method="random", key=jax.random.key(3)).ranking.tolist()
    assert drawn == design.random(jax.random.key(3), 80, num_points=6).ranking.tolist()
    # of columns that differ in place and size, an affine change changes nothing
    again = design.from_points(X * [1e-3, 1.0, 1e4, 7.0] + [0.0, 5.0, -3.0, 1.0], 6)
    assert again.ranking.tolist() == found.ranking.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_sparse_rows_are_taken_as_they_stand(dtype):
    dense = np.random.default_rng(2).poisson(0.3, size=(40, 30)).astype(dtype)
    dense[7] = dense[3]
    dense[9] = 0
    order, _ = oracle.ted(gaussian(np.delete(dense.astype(float), 7, axis=0)), 0.1, 5)
    wanted = np.delete(np.arange(40), 7)[order].tolist()
    csr = scipy.sparse.csr_array(dense)
    for given in (csr, csr.tocoo(), jaxmkl.streaming.SparseRows.from_csr(csr)):
        found = design.from_points(given, 5)
        assert found.ranking.tolist() == wanted
        assert np.flatnonzero(np.isnan(found.scores)).tolist() == [7]


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_distinct_rows_are_the_first_of_each(make):
    draws = np.random.default_rng(0)
    X = draws.integers(3, size=(2000, 4)).astype(float)
    X[X == 0] *= draws.choice([-1.0, 1.0], size=(X == 0).sum())  # -0.0 is 0.0
    wanted = np.sort(np.unique(X + 0.0, axis=0, return_index=True)[1])
    assert len(wanted) == 81
    assert rows.distinct(make(X)).tolist() == wanted.tolist()
    swapped = make(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [2.0, 2.0]]))
    assert rows.distinct(swapped).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (np.ones(3), {}, r"X must be an array \(n, D\); got .*shape \(3,\)"),
        (np.ones((0, 3)), {}, r"X must be an array \(n, D\)"),
        (np.array([["a"]]), {}, "X must hold real numbers; got dtype <U1"),
        (np.array([[1.0], [np.inf]]), {}, "X must be finite"),
        (scipy.sparse.csr_array([[1.0, np.nan]]), {}, "X must be finite; got .*NaN"),
        (np.eye(3), {"method": "some"}, "method must be one of random, ted, facility, cted"),
        (np.eye(3), {"num_points": 4}, "num_points must be an integer from 1 to 3, the number of"),
        (scipy.sparse.eye_array(3), {"kernels": jaxmkl.Linear()}, "kernels must be None where X"),
    ],
)
def test_points_that_are_none_are_refused(X, settings, message):
    with pytest.raises(ValueError, match=f"^from_points: {message}"):
        design.from_points(X, **settings)


# --- large pools ---------------------------------------------------------------------------------


def test_of_a_large_pool_some_rows_are_looked_at(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(rows.MOST, "ted", 40)
    X = pool(300)
    found = PoolSelector(6, random_state=2).fit(X)
    assert len(set(found.pool_)) == 40
    assert found.pool_.tolist() == np.flatnonzero(np.isfinite(found.scores_)).tolist()
    some = StandardScaler().fit_transform(X)[found.pool_]
    order, _ = oracle.ted(gaussian(some), 0.1, 6)
    assert found.indices_.tolist() == found.pool_[order].tolist()
    again = PoolSelector(6, random_state=2).fit(X)
    assert again.indices_.tolist() == found.indices_.tolist()
    with pytest.raises(ValueError, match="from 1 to 40, the number of rows that ted considers"):
        PoolSelector(41).fit(X)
    path = tmp_path / "pool.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c,d", comments="")
    assert main(["select", str(path), "--num", "6"]) == 0
    out, error = capsys.readouterr()
    assert len(out.splitlines()) == 7
    assert "40 of 300 different rows, drawn at random, were considered" in error


@pytest.mark.endless
def test_of_a_very_large_pool_nothing_square_is_made(monkeypatch):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(50_000, 5))
    shapes = []
    made = rows._grams

    def grams(*given):
        shapes.append(made(*given).shape)
        return made(*given)

    monkeypatch.setattr(rows, "_grams", grams)
    found = PoolSelector(20).fit(X)
    assert shapes == [(4000, 4000)]
    assert len(set(found.indices_)) == 20


# --- what the command takes as inputs ------------------------------------------------------------


@pytest.mark.parametrize("name", ["Label", "kind"])
def test_labels_are_no_inputs(name, tmp_path, capsys):
    """The column that ``run`` takes by its name, or what is named; else a note tells of it."""
    X, path = pool(), tmp_path / "pool.csv"
    labels = [f"{float(place % 2)}" for place in range(40)]
    with open(path, "w") as file:
        rows = csv.writer(file)
        rows.writerow([*"abcd", name])
        rows.writerows([*x, label] for x, label in zip(X.tolist(), labels, strict=True))
    wanted = [row + 2 for row in PoolSelector(6).fit(X).indices_]

    def lines(*more):
        assert main(["select", str(path), "--num", "6", *more]) == 0
        out, error = capsys.readouterr()
        return [int(row["line"]) for row in csv.DictReader(out.splitlines())], error

    assert lines("--target", name)[0] == wanted
    found, error = lines()
    if name == "Label":
        assert found == wanted
        assert f"column '{name}' left out, as it is the target" in error
    else:
        assert "no column is named target, y, label or class, so all are inputs" in error
        assert "if one holds labels, name it (--target)" in error


# --- what kinds of arrays ------------------------------------------------------------------------


@pytest.mark.slow
def test_points_in_any_dtype_are_chosen_alike():
    X = np.random.default_rng(0).integers(-4, 5, (30, 3))
    wanted = design.from_points(X.astype(float), 6).ranking.tolist()
    bfloat16 = jax.numpy.bfloat16
    kinds = (np.int8, ">i8", np.float16, ">f4", ">f8", bfloat16)
    given = [X.tolist(), pd.DataFrame(X), pl.DataFrame(X), jax.numpy.asarray(X, bfloat16)]
    for one in (*given, *map(X.astype, kinds)):
        assert design.from_points(one, 6).ranking.tolist() == wanted


@pytest.mark.slow
def test_from_points_is_traced_but_for_the_points():
    X = np.random.default_rng(0).normal(size=(30, 3))

    def chosen(regularization):
        return design.from_points(X, 4, regularization=regularization)

    found = jax.vmap(chosen)(np.array([0.1, 0.5]))
    for i, one in enumerate((chosen(0.1), chosen(0.5))):
        np.testing.assert_array_equal(found.ranking[i], one.ranking)
        np.testing.assert_allclose(found.scores[i], one.scores, rtol=1e-3)
    rows = SparseRows.from_csr(scipy.sparse.csr_array(X))
    for points in (jax.numpy.asarray(X), rows):
        with pytest.raises(ValueError, match=r"^from_points: X must be an array outside of j"):
            jax.jit(lambda points: design.from_points(points, 4).ranking)(points)
