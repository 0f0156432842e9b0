"""Exported pipelines predict as they do, with NumPy alone."""

import dataclasses
import datetime
import importlib.util
import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import polars as pl
import pytest
import sklearn.datasets
from hypothesis import example, given
from hypothesis import strategies as st

import jaxmkl
from jaxmkl.cli import main
from jaxmkl.evaluate import candidates
from jaxmkl.export import export_predictor, predictor, program
from jaxmkl.tables import Columns, Pipeline, Seen, load_pipeline, open_table, save_pipeline
from jaxmkl.tables._kinds import Text, Time
from tests.common.marks import long, quick
from tests.export.drawn import SMALL, drawn, inputs

SMALL_PROGRAMS = True
INPUTS = 6  # as a time and an amount have: one program for all
FIXED = {"banks": "fixed", "kernels": jaxmkl.Gaussian([1.0, 3.0])} | SMALL


def trained(frame, name="raker", settings=SMALL, **options):
    """A pipeline of a learner as the command makes it, after one pass over a table."""
    chunk = next(open_table(frame).chunks(10_000))
    columns = Columns.decide(chunk)
    X, fills = columns.inputs(chunk, columns.init())
    y, K = columns.targets(chunk), len(columns.classes)
    of_table = {"num_inputs": X.shape[1], "words": columns.of_words, "flags": columns.flags}
    (one,), _ = candidates([name], columns.task, K, settings, **of_table, **options)
    seen = Seen(0.0 if K else y[0])
    state = one.learner.init(jax.random.key(0), X.shape[1])
    state, _ = jaxmkl.run(one.learner, state, X, y - seen.start)
    return Pipeline(one.learner, state, columns, fills, len(y), "a table", seen=seen)


def table(X, y, K=0):
    """200 rows of 4 inputs, in random order; the target is the last column."""
    order = np.random.default_rng(0).permutation(len(X))
    order = np.resize(order[y[order] < K] if K else order, 200)
    X, y = np.resize(X[order], (len(order), INPUTS)), y[order]
    y = np.array(["red", "green", "blue", "grey"])[y] if K else y
    return pl.DataFrame(X.astype(float), list("abcdef")).with_columns(pl.Series("y", y))


def of(load):
    data = load()
    return data.data[:, :INPUTS], data.target


TABLES = {
    "diabetes": lambda: table(*of(sklearn.datasets.load_diabetes)),
    "linnerud": lambda: table(*((a := of(sklearn.datasets.load_linnerud))[0], a[1][:, 0])),
    "friedman 1": lambda: table(*sklearn.datasets.make_friedman1(300, random_state=0)),
    "friedman 2": lambda: table(*sklearn.datasets.make_friedman2(300, random_state=0)),
    "friedman 3": lambda: table(*sklearn.datasets.make_friedman3(300, random_state=0)),
    "cancer": lambda: table(*of(sklearn.datasets.load_breast_cancer), 2),
    "moons": lambda: table(*sklearn.datasets.make_moons(300, noise=0.3, random_state=0), 2),
    "iris": lambda: table(*of(sklearn.datasets.load_iris), 3),
    "wine": lambda: table(*of(sklearn.datasets.load_wine), 3),
    "digits": lambda: table(*of(sklearn.datasets.load_digits), 3),
}

QUICK = "diabetes", "linnerud", "friedman 1", "moons"
OTHERS = long([], [name for name in TABLES if name not in (*QUICK, "iris")])


def loaded(pipeline, path):
    export_predictor(path / "model.npz", pipeline)
    return predictor.load(path / "model.npz")


def assert_same(pipeline, exported, frame):
    """Both predict a table alike, given in columns and in rows."""
    wanted = pipeline.predict(frame)
    for data in (frame.to_dict(as_series=False), frame.to_dicts()):
        found = exported.predict(data)
        if pipeline.classes:
            p = pipeline.predict_proba(frame)
            np.testing.assert_allclose(exported.predict_proba(data), p, rtol=0, atol=1e-5)
            # rounding may decide between classes of the same probability
            sure = np.sort(p)[:, -1] - np.sort(p)[:, -2] > 1e-4
            assert sure.any()
            assert (found == wanted)[sure].all()
        else:
            # raker's narrowest kernel has angles of hundreds, which the pipeline rounds to 1e-5
            bound = 1e-5 * max(frame["y"].std(), 1.0)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("name", [*quick(QUICK[:3], (*QUICK, "iris")), *OTHERS])
def test_raker_predicts_the_same(name, tmp_path):
    frame = TABLES[name]()
    pipeline = trained(frame)
    exported = loaded(pipeline, tmp_path)
    assert_same(pipeline, exported, frame)
    assert exported.header["format"] == 1  # the first that suffices: older modules read it


@pytest.mark.slow
@pytest.mark.parametrize("of_classes", [pytest.param(False, marks=pytest.mark.endless), True])
def test_texts_are_predicted_the_same(of_classes, tmp_path):
    """By linear models of words beside kernels of a number."""
    draws = np.random.default_rng(0)
    words, x = draws.choice([*"abcdefgh"], size=(200, 5)), draws.normal(size=200)
    has = (words == "a").any(axis=1)
    y = np.where(has, "red", "green") if of_classes else has + x
    frame = pl.DataFrame({"text": [" ".join(row) for row in words], "x": x, "y": y})
    pipeline = trained(frame, "expert_mkl", {"banks": "fixed"} | SMALL)
    assert [kind.kind for kind in pipeline.columns.kinds] == ["text", "number"]
    assert_same(pipeline, loaded(pipeline, tmp_path), frame)


@pytest.mark.slow
def test_numbers_that_were_0_or_1_are_predicted_the_same(tmp_path):
    """Beside words and a gap; far numbers come later, and are clipped."""
    draws = np.random.default_rng(0)
    x, flag, word = (
        draws.normal(size=200),
        draws.integers(2, size=200),
        draws.choice([*"abc"], 200),
    )
    frame = pl.DataFrame({"flag": flag, "x": x, "word": word, "y": flag * x + (word == "a")})
    gaps = frame.with_columns(pl.when(pl.int_range(pl.len()) % 7 > 0).then("x").alias("x"))
    pipeline = trained(gaps)
    assert pipeline.columns.flags == ((0, 1), (2, 6))
    exported = loaded(pipeline, tmp_path)
    assert_same(pipeline, exported, gaps)
    later = frame[:50].with_columns((pl.col("flag") * 300).alias("flag"))
    assert_same(pipeline, exported, later)
    assert exported.header["format"] == 1  # as of other numbers


def test_times_and_amounts_are_predicted_the_same(tmp_path):
    draws, start = np.random.default_rng(0), datetime.date(2024, 1, 1)
    days, amounts = draws.integers(0, 700, 200), draws.normal(size=200).round(2) * 2000
    frame = pl.DataFrame(
        {
            "day": [f"{start + datetime.timedelta(day):%d.%m.%Y}" for day in days.tolist()],
            "amount": [f"{x:,.2f} €".translate({44: ".", 46: ","}) for x in amounts],
            "y": np.sin(days / 60) + amounts / 4000,
        }
    )
    pipeline = trained(frame)
    assert [kind.kind for kind in pipeline.columns.kinds] == ["time", "number"]
    exported = loaded(pipeline, tmp_path)
    assert_same(pipeline, exported, frame)
    assert exported.header["format"] == 3


@pytest.mark.slow
def test_files_of_other_versions(plants, tmp_path):
    """Older ones do not tell which blanks are ignored, and newer ones are refused."""
    path, rows = tmp_path / "model.npz", [{"height": " 1.5 ", "colour": "red ", "note": " tree"}]
    export_predictor(path, plants[0])
    arrays = dict(np.load(path))
    header = json.loads(arrays["header"].tobytes())
    assert header["format"] == 2  # of texts
    del header["blanks"]
    with pytest.warns(UserWarning, match="count as missing"):
        wanted, found = plants[1].predict(rows), of_header(path, arrays, header).predict(rows)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="it has format 6; this module reads up to 5"):
        of_header(path, arrays, header | {"format": 6})


def of_header(path, arrays, header):
    """The predictor of a file with another header."""
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays | {"header": text})
    return predictor.load(path)


LEARNED = {"banks": ("full", "trees", "neighbours", "linear")} | SMALL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param("iris", FIXED, marks=pytest.mark.endless, id="fixed"),
        pytest.param("moons", LEARNED, marks=pytest.mark.endless, id="learned"),
        pytest.param("diabetes", {}, id="default"),
    ],
)
def test_expert_mkl_predicts_the_same(name, settings, tmp_path):
    pipeline = trained(TABLES[name](), "expert_mkl", settings)
    assert_same(pipeline, loaded(pipeline, tmp_path), TABLES[name]())


PLANTS = {
    "height": [1.5, None, 3.25, -8.0, 0.0] * 8,
    "count": [7, 1, 2, 3, 4] * 8,
    "colour": ["red", "light blue", None, "green", "red"] * 8,
    "code": [1.0, 20.0, 0.0, 20.0, 3.0] * 8,
    "grown": [True, False] * 20,
    "note": ["a tall tree of a park", None, "New York", "tree, tree", "12"] * 8,
    "constant": ["x"] * 40,
    "y": [0.5, 1.25, 3.0, 4.0] * 10,
}
AS = {"code": "categories", "note": "text"}


@pytest.fixture(scope="module")
def plants(tmp_path_factory):
    """A pipeline of cells of most kinds that are exported, and its predictor."""
    pipeline = drawn(PLANTS, AS)
    return pipeline, loaded(pipeline, tmp_path_factory.mktemp("plants"))


NUMBER = st.sampled_from([None, float("nan"), "", " NA ", "?", "1e3", "-2.5", " +7 ", ".5"])
CELLS = {
    "height": NUMBER | st.floats(-1e6, 1e6) | st.integers(-9, 9),
    "count": NUMBER | st.integers(-9, 9),
    "colour": st.sampled_from([None, "red", " red ", "Red", "light blue", "null", "blue", ""]),
    "code": st.sampled_from([1, 1.0, "1", "1.0", 20, 3.0, "3", 4, 1.5, None, float("nan")]),
    "grown": st.sampled_from([True, False, "true", "FALSE", "yes", None]),
    "note": st.sampled_from(
        [
            "A tree; the TREE",
            " new  york ",
            "Tall, of a tree",
            "york",
            12,
            12.0,
            "12.0",
            "!",
            "?",
            None,
        ]
    ),
}


@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5))
@example([dict.fromkeys(CELLS, -0.0)])
@example([dict.fromkeys(CELLS, np.float64(3.0)), dict.fromkeys(CELLS, np.float64(0.1))])
@example([dict.fromkeys(CELLS, np.int64(20))])
@example([dict.fromkeys(CELLS, "\u22125")])
def test_cells_are_read_as_by_the_pipeline(plants, rows):
    pipeline, exported = plants
    np.testing.assert_array_equal(exported.encode(rows), inputs(pipeline, rows))


@pytest.mark.parametrize("colour", ["red", "light blue", None])
@pytest.mark.filterwarnings("ignore:columns that count as missing")
def test_one_row_needs_no_list(plants, colour):
    """Words of as many letters are no columns of letters."""
    row = {
        "colour": colour,
        "note": "elm",
        "height": "1.5",
        "count": 7,
        "code": "3",
        "grown": True,
    }
    for one in (row, {name: row[name] for name in ("colour", "note", "height")}):
        np.testing.assert_array_equal(plants[1].encode(one), inputs(plants[0], [one]))


def test_columns_that_are_absent_count_as_missing(plants):
    pipeline, exported = plants
    with pytest.warns(UserWarning, match="'colour', 'count', 'grown', 'height'"):
        found = exported.predict([{"code": 1, "other": 2}, {}])
    with pytest.warns(UserWarning) as told:  # noqa: PT030 (the next line says more)
        wanted = pipeline.predict([{"code": 1, "other": 2}, {}])
    assert any("counted as missing" in str(one.message) for one in told)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "must have rows"),
        ({}, "must have rows"),
        ([{"other": 1}], "must have rows, with some of the columns"),
        ({"height": [1.0], "count": [1, 2]}, "must have rows"),
        ({"height": [1.0], "count": ["1_000"]}, "'count': '1_000' is no number"),
        ({"height": [1e30], "count": [1]}, "'height': 1e[+]30 is no number, or too large"),
        ({"height": ["tall"], "count": [1]}, "'height': 'tall' is no number"),
    ],
)
@pytest.mark.filterwarnings("ignore:columns that count as missing")
def test_what_cannot_be_predicted_is_refused(plants, data, says):
    with pytest.raises(ValueError, match=says):
        plants[1].predict(data)


def test_probabilities_of_numbers_are_refused(plants):
    with pytest.raises(ValueError, match="must predict probabilities of classes"):
        plants[1].predict_proba([{"height": 1.0}])


def replaced(pipeline, learner):
    """The pipeline with another learner."""
    D = len(pipeline.columns.features)
    state = jax.eval_shape(lambda: learner.init(jax.random.key(0), D))
    return Pipeline(**vars(pipeline) | {"learner": learner, "state": state})


def of_kind(pipeline, name, kind):
    """The pipeline with another kind of a column."""
    kinds = [kind if own.name == name else own for own in pipeline.columns.kinds]
    columns = dataclasses.replace(pipeline.columns, kinds=tuple(kinds))
    return Pipeline(**vars(pipeline) | {"columns": columns})


@pytest.mark.parametrize("form", ["%Y-%j", "%Y-%m-%d %H", "%d.%m.%d", "%m %B %Y"])
def test_times_of_rare_forms_are_refused(plants, form, tmp_path):
    pipeline = of_kind(plants[0], "height", Time("height", form=form))
    with pytest.raises(ValueError, match=f"'height' must hold times .*; it holds .* form {form},"):
        export_predictor(tmp_path / "model.npz", pipeline)
    assert not [*tmp_path.iterdir()]


def test_words_by_their_hashes_are_refused(plants, tmp_path):
    """Which files of older versions have."""
    pipeline = of_kind(plants[0], "note", Text("note"))
    with pytest.raises(ValueError, match=r"'note' must hold .*; it holds words by their hashes"):
        export_predictor(tmp_path / "model.npz", pipeline)


@pytest.mark.parametrize(
    ("learner", "says"),
    [
        (jaxmkl.kernel_ogd(jaxmkl.Gaussian(1.0)), "SupportModels"),
        (jaxmkl.oks_sil(), "HypothesisSketch"),
        (jaxmkl.wrappers.lagged(jaxmkl.raker(**SMALL), 2), "Lagged"),
    ],
)
def test_parts_that_only_jax_plays_are_refused(plants, learner, says, tmp_path):
    with pytest.raises(ValueError, match=f"a part of the learner must be .*{says}"):
        export_predictor(tmp_path / "model.npz", replaced(plants[0], learner))


def said(path, rows):
    """What a file predicts, or why it is refused."""
    try:
        return predictor.load(path).predict(rows)
    except ValueError as error:
        return str(error)


def test_a_damaged_file_is_refused(plants, tmp_path):
    """Every byte counts but those of times and the like, with which it predicts the same."""
    path = tmp_path / "model.npz"
    export_predictor(path, plants[0])
    whole, rows = path.read_bytes(), [{name: values[0] for name, values in PLANTS.items()}]
    found, wanted = [], plants[1].predict(rows)
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        found.append(said(path, rows))
    refused = [answer for answer in found if isinstance(answer, str)]
    assert all("is no exported predictor, or damaged" in answer for answer in refused)
    assert all((answer == wanted).all() for answer in found if not isinstance(answer, str))
    assert len(refused) > 0.6 * len(found)
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="damaged"):
        predictor.load(path)
    save_pipeline(path, plants[0])
    with pytest.raises(ValueError, match="is no exported predictor"):
        predictor.load(path)
    with pytest.raises(FileNotFoundError):
        predictor.load(tmp_path / "none.npz")


def test_the_loader_runs_alone(plants, tmp_path, capfd):
    """In another folder, in a process that imports neither JAX nor jaxmkl."""
    save_pipeline(tmp_path / "pipeline.npz", plants[0])
    given = str(tmp_path / "pipeline.npz"), str(tmp_path / "model.npz")
    assert main(["export", *given]) == 0
    said = capfd.readouterr().out
    assert predictor.__file__ in "".join(said.split())
    shutil.copy(predictor.__file__, tmp_path / "loader.py")
    rows = [{"height": 2.0, "count": 3, "colour": "red", "code": 1, "grown": True}]
    rows[0]["note"] = "a tree of New York"
    script = f"import sys, json, loader; said = loader.load('model.npz').predict({rows})\n"
    script += "print(json.dumps([said.tolist(), sorted(sys.modules)]))"
    alone = [sys.executable, "-c", script]
    out = subprocess.run(alone, cwd=tmp_path, check=True, capture_output=True, env={}).stdout
    said, modules = json.loads(out)
    np.testing.assert_allclose(said, plants[0].predict(rows), rtol=1e-5)
    assert not {name.partition(".")[0] for name in modules} & {"jax", "jaxlib", "jaxmkl", "polars"}


def test_the_program_predicts_the_same(plants, tmp_path, capfd):
    save_pipeline(tmp_path / "pipeline.npz", plants[0])
    given = ["export", str(tmp_path / "pipeline.npz"), str(tmp_path / "program")]
    assert main(given) == 2
    assert "a name that ends in .npz or .stablehlo" in capfd.readouterr().err
    played = program(plants[0])
    if importlib.util.find_spec("flatbuffers"):
        assert main([*given, "--format", "stablehlo"]) == 0
        played = jax.export.deserialize(bytearray((tmp_path / "program").read_bytes()))
    X = np.random.default_rng(0).normal(size=(3, len(plants[0].columns.features)))
    X = X.astype(np.float32)
    for rows in (X, X[:1]):
        wanted = plants[0].learner.predict_many(plants[0].state, rows).value
        np.testing.assert_allclose(played.call(rows), wanted, atol=1e-5)


def test_a_predictor_is_no_pipeline_and_says_so(plants, tmp_path):
    path = tmp_path / "exported.npz"
    export_predictor(path, plants[0])
    with pytest.raises(ValueError, match="it was written by jaxmkl export; name the pipe"):
        load_pipeline(path)
