"""Heavy tails of columns and targets are said, and learners that are worse than the mean."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from jaxmkl._tails import heavy_entries, heavy_tailed
from jaxmkl.cli import main
from jaxmkl.tables import Columns, open_table, read
from tests.common.marks import long, quick

SMALL_PROGRAMS = True
T = 400
SMALL = ("--learner", "raker", "--set", "num_features=4")


def by_hand(cells):
    """The rule, by a list of numbers."""
    known = sorted(float(x) for x in cells if np.isfinite(x))
    for value, number in Counter(known).most_common(1):
        known = [x for x in known if x != value] if 4 * number > len(known) else known
    if len(known) < 100:
        return False

    def spread(cut):
        low = int(np.ceil((len(known) - 1) * cut / 2))
        return known[len(known) - 1 - low] - known[low]

    half, most, nearly_all = spread(0.5), spread(1 - 0.9), spread(1 - 0.99)
    return half > 0 and nearly_all > 20 * half and nearly_all > 3 * most


def drawn(seed=0, rows=T):
    """Columns by name, of which those are heavy whose names say so."""
    draws = np.random.default_rng(seed)
    normal = draws.normal(size=rows)
    cauchy, rare = draws.standard_cauchy(rows), draws.random(rows) < 0.4
    absurd = normal.copy()
    absurd[rows // 2] = 1e15
    return {
        "heavy cauchy": cauchy,
        "heavy lognormal": np.exp(3 * normal),
        "heavy counts": np.floor(50 * cauchy**2) * rare,
        "heavy gaps": np.where(normal > 1.2, np.nan, cauchy),
        "normal": normal,
        "exponential": draws.exponential(size=rows),
        "lognormal": np.exp(0.7 * normal),
        "absurd": absurd,
        "binary": rare.astype(float),
        "poisson": draws.poisson(0.3, rows).astype(float),
        "two groups": np.where(rare, 1e3 * normal, 1e-3 * normal),
        "ten": np.floor(draws.uniform(0, 10, rows)),
        "mostly constant": np.where(draws.random(rows) < 0.95, 7.0, cauchy),
        "huge": 1e300 * normal,
    }


@pytest.mark.parametrize("seed", range(5))
def test_which_columns_are_heavy(seed):
    columns = drawn(seed, 600)
    table = np.stack(list(columns.values()), axis=1)
    wanted = [name.startswith("heavy") for name in columns]
    assert_array_equal(heavy_tailed(table), wanted)
    assert [by_hand(column) for column in table.T] == wanted
    assert not heavy_tailed(table[:99]).any()
    with np.errstate(over="ignore"):  # neither units nor the sign matter
        assert_array_equal(heavy_tailed(-1e-7 * table), wanted)


CELLS = st.sampled_from([0.0, 1.0, 1.5, -2.0, 3.0, 90.0, 5e3, -1e6, np.nan, np.inf])


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, st.tuples(st.integers(0, 260), st.integers(1, 4)), elements=CELLS),
       st.integers(0, 9))  # fmt: skip
def test_the_rule_is_that_of_each_column_by_hand(table, seed):
    noise = np.random.default_rng(seed).normal(size=table.shape)
    table = table * (1 + seed % 2 * 1e-3 * noise)
    assert_array_equal(heavy_tailed(table), [by_hand(column) for column in table.T])


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "digits", "iris", "wine"])
def test_ordinary_tables_are_not(name):
    bundle = getattr(sklearn.datasets, f"load_{name}")()
    assert not heavy_tailed(np.column_stack([bundle.data, bundle.target])).any()


def test_columns_and_targets_are_named():
    columns = drawn() | {"y": np.random.default_rng(9).standard_cauchy(T)}
    chunk = next(open_table(pl.DataFrame(columns).fill_nan(None)).chunks(T))
    notes = Columns.decide(chunk, "y").notes
    (said,) = [note for note in notes if note.startswith("heavy tails")]
    named = said.removeprefix("heavy tails: ").split("; ")[0]
    assert named == ", ".join(repr(name) for name in columns if name.startswith("heavy"))
    assert sum(note.startswith("the target has heavy tails") for note in notes) == 1

    light = Columns.decide(chunk, "normal", drop=[name for name in columns if "heavy" in name])
    assert [note for note in light.notes if "heavy" in note and "'y'" not in note] == [
        note for note in light.notes if note.endswith("left out, as asked")
    ]
    classes = Columns.decide(chunk, "binary", "classification")
    assert not any(note.startswith("the target has heavy") for note in classes.notes)


def written(tmp_path, of, X, y):
    """A file of X and y, and the name of its first column."""
    path = tmp_path / f"table.{of}"
    if of == "csv":
        frame = pl.DataFrame({f"a{i}": x for i, x in enumerate(X.T)} | {"y": y})
        # amounts of money, with gaps
        amount = pl.format("${}", pl.col("a0")).str.replace(r"^\$-", "-$")
        frame.with_columns(a0=pl.when(pl.col("a1") < 2).then(amount)).write_csv(path)
    elif of == "npz":
        np.savez(path, X=X, y=y)
    elif of == "csr.npz":
        csr = scipy.sparse.csr_array(X)
        parts = {name: getattr(csr, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(path, **parts, y=y)
    else:
        rows = (" ".join(f"{i + 1}:{x}" for i, x in enumerate(row) if x) for row in X)
        path.write_text("".join(f"{label} {row}\n" for label, row in zip(y, rows, strict=True)))
    return path, {"csv": "a0", "svm": "1"}.get(of, "x0")


@pytest.mark.parametrize("of", ["csv", "npz", "csr.npz", "svm"])
def test_files_of_all_kinds(of, tmp_path):
    draws = np.random.default_rng(3)
    X, y = draws.normal(size=(T, 3)), draws.standard_cauchy(T)
    X[:, 0] = draws.standard_cauchy(T) * (draws.random(T) < 0.7)
    path, name = written(tmp_path, of, X, y)
    ways = [{}, {"sparse": True}] if of in ("csr.npz", "svm") else [{}]
    for how in ways:
        notes = read(path, **how).notes
        assert sum(note.startswith(f"heavy tails: {name!r};") for note in notes) == 1
        assert sum(note.startswith("the target has heavy tails") for note in notes) == 1
    path, _ = written(tmp_path, of, X[:, 1:] * [1, 0], X[:, 2])
    for how in ways:
        assert not any("heavy" in note for note in read(path, **how).notes)


def test_entries_are_judged_without_the_zeros():
    draws = np.random.default_rng(0)
    X = scipy.sparse.random_array((900, 5), density=0.2, rng=draws, format="csr")
    X.data = np.exp(5 * draws.normal(size=len(X.data)))
    X = scipy.sparse.csr_array(X.toarray() * [1, 1, 0, 1, 1])
    assert_array_equal(heavy_entries(X), np.flatnonzero(heavy_tailed(X.toarray())))
    assert_array_equal(heavy_entries(X), [0, 1, 3, 4])
    assert len(heavy_entries(scipy.sparse.csr_array((900, 2**31 - 2)))) == 0


@pytest.mark.slow
def test_a_run_says_so_everywhere(tmp_path, capsys):
    """On the screen, in JSON, in the report and in what a pipeline is made of."""
    draws = np.random.default_rng(4)
    x = draws.normal(size=T)
    frame = pl.DataFrame({"x": x, "far": np.exp(3 * x), "y": draws.standard_cauchy(T)})
    path, out, page, kept = (tmp_path / name for name in ("t.csv", "o.json", "o.html", "p"))
    frame.write_csv(path)
    files = [f"--json={out}", f"--report={page}", f"--save={kept}"]
    assert main(["run", str(path), *SMALL, *files]) == 0
    shown, content = capsys.readouterr().out, json.loads(out.read_text())
    said = [note for note in content["columns"] if "heavy tails" in note]
    assert [note.split(":")[0] for note in said] == ["the target has heavy tails", "heavy tails"]
    assert main(["info", str(kept)]) == 0
    told = capsys.readouterr().out
    for note in said:
        assert note in shown
        assert note in told
        assert note.split("'")[0] in page.read_text()

    (worse,) = [note for note in content["notes"] if note.startswith("worse than the mean so far")]
    errors = {row["algorithm"]: row["mean"] for row in content["rows"] if row["metric"] == "mse"}
    ratio = errors["raker"] / errors["mean so far"]
    assert ratio > 1.02
    assert f": raker ({ratio:.2f} times); " in worse
    assert worse in shown
    assert "worse than the mean so far" in page.read_text()


@pytest.mark.parametrize("kind", [*quick([], ["learned", "short"]), *long([], ["classes"])])
def test_whether_learners_are_worse_than_the_mean(kind, tmp_path, capsys):
    draws = np.random.default_rng(5)
    x, noise = draws.normal(size=(2, T))
    y = {"learned": x, "short": noise, "classes": draws.random(T) < 0.2}[kind]
    path = tmp_path / "t.csv"
    pl.DataFrame({"x": x, "y": y})[: 60 if kind == "short" else T].write_csv(path)
    more = ["--set", "step_size=1.9"] if kind == "classes" else []
    assert main(["run", str(path), *SMALL, *more]) == 0
    shown = capsys.readouterr().out
    text = "worse than the most frequent class so far, by its mistakes: raker (1."
    assert (text in shown) == (kind == "classes")
    assert ("worse than" in shown) == (kind == "classes")
