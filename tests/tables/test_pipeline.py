"""Pipelines in files: a loaded one predicts the same, by names of columns, and learns nothing."""

import json

import jax
import numpy as np
import polars as pl
import pytest
import sklearn.datasets
from numpy.testing import assert_array_equal

import jaxmkl
from jaxmkl.cli.pipelines import differences
from jaxmkl.tables import Columns, Pipeline, Seen, UnseenCells, _pipeline, open_table
from jaxmkl.wrappers import RunningMoments, probabilities, scaled_targets
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True
KERNEL = jaxmkl.Gaussian([1.0, 3.0])


def trained(frame, target, **options):
    """A pipeline of one pass over a table, made of the library's parts by hand."""
    chunk = next(open_table(frame).chunks(10_000))
    columns = Columns.decide(chunk, target)
    X, fills = columns.inputs(chunk, columns.init())
    y = columns.targets(chunk)
    K = len(columns.classes)
    if K:
        options = {"loss": "logistic", "num_classes": K if K > 2 else None}
    learner = jaxmkl.raker(KERNEL, num_features=20, step_size=0.02, **options)
    learner = jaxmkl.scaled(learner, RunningMoments())
    learner = probabilities(learner) if K else scaled_targets(learner)
    seen = Seen(0.0 if K else y[0])
    state = learner.init(jax.random.key(0), X.shape[1])
    state, _ = jaxmkl.run(learner, state, X, y - seen.start)
    return Pipeline(learner, state, columns, fills, len(y), "a table", seen=seen), X


def iris(K):
    data = sklearn.datasets.load_iris()
    names = [name.removesuffix(" (cm)") for name in data.feature_names]
    frame = pl.DataFrame(data.data, names)
    frame = frame.with_columns(
        pl.Series("flower", data.target_names[data.target]),
        pl.Series("soil", np.array(["sand", "clay", None])[np.arange(150) % 3]),
        pl.when(pl.arange(150) % 7 > 0).then("sepal width").alias("sepal width"),
    )
    return frame[: 50 * K].sample(fraction=1.0, shuffle=True, seed=0)


def values_of(pipeline, X):
    return pipeline.learner.predict_many(pipeline.state, X).value


@pytest.fixture(scope="module")
def two():
    return trained(iris(2), "flower")


def untrained():
    """A pipeline that has seen no row."""
    chunk, learner = next(open_table(iris(2)).chunks(100)), jaxmkl.raker(KERNEL, num_features=20)
    columns = Columns.decide(chunk, "flower")
    X, fills = columns.inputs(chunk, columns.init())
    return Pipeline(learner, learner.init(jax.random.key(0), X.shape[1]), columns, fills)


def test_columns_that_differ_are_said_in_one_sentence_each():
    pipeline = untrained()
    more = [f"more{i}" for i in range(5000)]
    absent, new = differences(pipeline, ["sepal length", "sepal width", "soil", *more])
    text = "the pipeline's columns 'petal length', 'petal width' are absent; their cells are"
    assert absent.startswith(text)
    assert new.startswith("the columns 'more0', 'more1', ")
    assert new.endswith(", ... are not used by the pipeline")
    assert len(new) < 400
    assert differences(pipeline, pipeline.columns.names) == []


@pytest.mark.slow
def test_classes_by_their_names(tmp_path):
    """Of three classes; two of them the command's tests count by hand."""
    frame = iris(3)
    pipeline, X = trained(frame, "flower")
    values = np.asarray(values_of(pipeline, X))
    jaxmkl.save_pipeline(tmp_path / "m", pipeline)
    again = jaxmkl.load_pipeline(tmp_path / "m")
    predicted, shares = again.predict(frame), again.predict_proba(frame)
    codes = values.argmax(axis=1)
    assert (predicted == frame["flower"].to_numpy()).mean() > 0.75
    assert set(predicted) <= set(frame["flower"])
    same = predicted == np.array(again.classes)[codes]
    # the inputs of a run are filled by what was known then
    assert same[frame["sepal width"].is_not_null()].all()
    assert shares.shape == (len(frame), len(again.classes))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(np.array(again.classes)[shares.argmax(axis=1)], predicted)


@pytest.mark.slow
def test_numbers_in_their_own_units(tmp_path):
    data = sklearn.datasets.load_diabetes(as_frame=True)
    frame = data.frame.assign(target=1e6 + data.target)
    pipeline, X = trained(frame, "target")
    jaxmkl.save_pipeline(tmp_path / "m", pipeline)
    again = jaxmkl.load_pipeline(tmp_path / "m")
    predicted = again.predict(frame)
    assert predicted.dtype == np.float64
    value = np.asarray(values_of(pipeline, X), np.float64)
    np.testing.assert_allclose(predicted, frame["target"][0] + value, rtol=1e-9)
    assert np.square(predicted - frame["target"]).mean() < 0.9 * frame["target"].var()
    with pytest.raises(ValueError, match=r"predict_proba: learner must be a classifier in"):
        again.predict_proba(frame)
    with pytest.raises(ValueError, match=r"predict_interval: learner must be a learner in"):
        again.predict_interval(frame)


@pytest.mark.slow
def test_what_comes_back_is_what_was_saved(two, tmp_path):
    pipeline, _ = two
    jaxmkl.save_pipeline(tmp_path / "m", pipeline)
    again = jaxmkl.load_pipeline(tmp_path / "m")
    for name in ("columns", "rows", "source", "version", "seen"):
        assert getattr(again, name) == getattr(pipeline, name)
    assert repr(again.learner) == repr(pipeline.learner)
    assert_equal(again.state, pipeline.state)
    assert_array_equal(again.fills, pipeline.fills)
    learner, state = jaxmkl.load(tmp_path / "m")
    assert_equal(state, pipeline.state)
    assert repr(learner) == repr(pipeline.learner)


@pytest.mark.slow
def test_other_columns(two, tmp_path):
    pipeline, _ = two
    frame = iris(2)
    expected = pipeline.predict(frame)
    fills = [part.copy() for part in pipeline.fills]
    other = frame.select(pl.lit("new").alias("more"), *reversed(frame.columns[:4]), "soil")
    assert_array_equal(pipeline.predict(other), expected)
    other.write_csv(tmp_path / "other.csv")
    assert_array_equal(pipeline.predict(tmp_path / "other.csv"), expected)
    assert pipeline.differences(other.columns) == ([], ["more"])

    unseen = frame.with_columns(pl.lit("rock").alias("soil"))
    gap = frame.with_columns(pl.lit(None).alias("petal width"))
    with pytest.warns(UserWarning, match="counted as missing cells: 'petal width'"):
        without = pipeline.predict(frame.drop("petal width"))
    assert_array_equal(without, pipeline.predict(gap))
    predict, predict_proba = pipeline.predict, pipeline.predict_proba
    for ask in (predict, predict_proba, lambda data: next(pipeline.predictions(data))):
        with pytest.warns(UserWarning, match="counted as missing") as warned:
            ask(frame.drop("petal width"))
        assert [warning.filename for warning in warned] == [__file__]
    zeros, _ = pipeline.columns.encode(next(open_table(unseen).chunks(200)), pipeline.fills, False)
    assert not zeros[:, [name.startswith("soil=") for name in pipeline.columns.features]].any()
    text = "column 'soil': 100 cells hold no word that the first rows had"
    for ask in (predict, predict_proba, lambda data: [*pipeline.predictions(data)]):
        with pytest.warns(UnseenCells, match=text) as warned:
            found = ask(unseen)
        assert [warning.filename for warning in warned] == [__file__]
        if ask is predict:
            assert set(found) <= set(pipeline.classes)
    assert_array_equal(pipeline.fills, fills)  # nothing was learned

    with pytest.raises(ValueError, match=r"the pipeline knows 'sepal length', .* none is among"):
        pipeline.predict({"a": [1]})
    wrong = frame[:2].with_columns(pl.Series("petal width", ["1", "x"]))
    with pytest.raises(ValueError, match="row 2, column 'petal width': 'x' is not a number"):
        pipeline.predict(wrong)
    with pytest.raises(ValueError, match="data must hold a row"):
        pipeline.predict(frame[:0])


def test_files_that_are_no_pipelines(tmp_path, monkeypatch):
    pipeline, path = untrained(), tmp_path / "m"
    jaxmkl.save(path, pipeline.learner, pipeline.state)
    with pytest.raises(ValueError, match=r"load_pipeline: .*m holds a learner and its state, but"):
        jaxmkl.load_pipeline(path)
    monkeypatch.setattr(_pipeline, "FORMAT", 7)
    jaxmkl.save_pipeline(path, pipeline)
    monkeypatch.undo()
    text = (
        r"m is a pipeline of format 7, written by jaxmkl .*, which reads format 2: make it again"
    )
    with pytest.raises(ValueError, match=text):
        jaxmkl.load_pipeline(path)
    extra = {"model": 2, "columns": json.dumps({"kinds": [{"kind": "z"}]}), "fills": [[], []]}
    jaxmkl.save(path, pipeline.learner, pipeline.state, extra=extra)
    with pytest.raises(ValueError, match=r"load_pipeline: .*no columns of this version"):
        jaxmkl.load_pipeline(path)
    path.write_text("nothing")
    with pytest.raises(ValueError, match="is not a readable checkpoint"):
        jaxmkl.load_pipeline(path)
