"""Sparse formats know their columns from the pipeline, and what a row does not name is zero."""

import dataclasses
import io
import sys
from contextlib import closing

import jax
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file

import jaxmkl
from jaxmkl.cli import main
from jaxmkl.streaming import SparseRows
from jaxmkl.tables import Columns, Pipeline, _libsvm, open_table

SMALL_PROGRAMS = True
DRAWS = np.random.default_rng(0)
TRAIN = DRAWS.normal(size=(90, 7)).round(3) * (DRAWS.random((90, 7)) < 0.6)
TRAIN[0] = 1.0  # all indices are named
LABELS = np.where(TRAIN[:, 0] + TRAIN[:, 6] > 0, 1, -1)
NARROW = TRAIN[:20].copy()
NARROW[:, 4:] = 0.0


def dumped(path, X, y, zero_based=False):
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return path


def pipeline_of(table):
    """A pipeline that knows columns; its learner is not asked."""
    with closing(table):
        columns = Columns.decide(next(table.chunks(100)), "label", keep=True)
    learner = jaxmkl.raker(jaxmkl.Gaussian(1.0), num_features=2)
    return Pipeline(learner, None, columns, columns.init())


def inputs(pipeline, source, **how):
    with closing(pipeline.open(source, **how)) as table:
        chunks = list(table.chunks(64))
        assert pipeline.differences(table.names)[0] == []
    found = [pipeline.columns.encode(chunk, pipeline.fills, False)[0] for chunk in chunks]
    return np.concatenate(found)


def piped(monkeypatch, path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    return "-"


@pytest.mark.parametrize("zero_based", [False, True])
def test_fewer_indices_than_the_pipeline_knows(zero_based, tmp_path, monkeypatch):
    pipeline = pipeline_of(open_table(dumped(tmp_path / "a", TRAIN, LABELS, zero_based)))
    narrow = dumped(tmp_path / "b", NARROW, LABELS[:20], zero_based)
    assert_array_equal(inputs(pipeline, narrow), NARROW)
    assert_array_equal(inputs(pipeline, piped(monkeypatch, narrow)), NARROW)
    assert_array_equal(inputs(pipeline, narrow, whole=True), NARROW)
    for made in (scipy.sparse.csr_array, scipy.sparse.coo_matrix, SparseRows.from_csr):
        matrix = scipy.sparse.csr_array(NARROW[:, :4])
        assert_array_equal(inputs(pipeline, made(matrix)), NARROW)
    # none at all
    (tmp_path / "none.svm").write_text("1\n-1 # nothing\n")
    assert_array_equal(inputs(pipeline, tmp_path / "none.svm"), np.zeros((2, 7)))


def test_indices_that_come_late_in_a_pipe(tmp_path, monkeypatch):
    pipeline = pipeline_of(open_table(dumped(tmp_path / "a", TRAIN, LABELS)))
    late = dumped(tmp_path / "b", np.r_[NARROW, TRAIN], np.r_[LABELS[:20], LABELS])
    monkeypatch.setattr(_libsvm, "AT_ONCE", 10)
    state = pipeline.learner.init(jax.random.key(0), 7)
    known = dataclasses.replace(pipeline, state=state)
    assert known.predict(piped(monkeypatch, late)).tolist() == known.predict(late).tolist()
    wanted = np.r_[NARROW, TRAIN]
    assert_array_equal(inputs(pipeline, piped(monkeypatch, late)), wanted)
    assert_array_equal(inputs(pipeline, late), wanted)
    # without a pipeline they are there if all rows are taken at once
    with closing(open_table(piped(monkeypatch, late), whole=True)) as table:
        assert table.names == [*"1234567", "label"]
        assert_array_equal(next(table.chunks(200)).frame.to_numpy()[:, :7], wanted)


def test_csr_matrices_in_npz_files(tmp_path):
    def saved(name, X):
        csr = scipy.sparse.csr_array(X)
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        np.savez(
            tmp_path / name, **parts, shape=X.shape, label=LABELS[: len(X)], y=LABELS[: len(X)]
        )
        return tmp_path / name

    table = open_table(saved("a.npz", TRAIN))
    columns = Columns.decide(next(table.chunks(100)), "y", keep=True)
    pipeline = Pipeline(jaxmkl.raker(), None, columns, columns.init())
    assert columns.features == tuple(f"x{i}" for i in range(7))
    assert_array_equal(inputs(pipeline, saved("b.npz", NARROW[:, :4])), NARROW)
    assert_array_equal(inputs(pipeline, scipy.sparse.csc_matrix(NARROW[:, :4])), NARROW)


def test_what_begins_elsewhere_is_refused(tmp_path):
    pipeline = pipeline_of(open_table(dumped(tmp_path / "a", TRAIN, LABELS)))
    shifted = dumped(tmp_path / "b", TRAIN, LABELS, zero_based=True)
    with pytest.raises(ValueError, match="an index of 0, where the columns of the pipeline begin"):
        pipeline.open(shifted)
    with pytest.raises(ValueError, match="the csr_array: has 200,000 columns, and a table has"):
        pipeline.open(scipy.sparse.csr_array((2, 200_000)))


@pytest.mark.endless
def test_every_command_takes_absent_for_zero(tmp_path, monkeypatch, capsys):
    """Files with fewer indices say what those say that name every zero."""
    train = dumped(tmp_path / "a", TRAIN, LABELS)
    narrow = dumped(tmp_path / "b", NARROW, LABELS[:20])
    full = tmp_path / "c"
    full.write_text("".join(
        f"{y} " + " ".join(f"{i}:{x:.17g}" for i, x in enumerate(row, 1)) + "\n"
        for row, y in zip(NARROW, LABELS, strict=False)
    ))  # fmt: skip
    model = str(tmp_path / "model")
    small = ["--learner", "raker", "--set", "num_features=4", "--set", "step_size=.1"]
    assert main(["run", str(train), *small, "--save", model]) == 0
    capsys.readouterr()
    said = {}
    for name, path in (("narrow", narrow), ("full", full)):
        assert main(["predict", model, str(path)]) == 0
        said[name] = [capsys.readouterr().out]
        assert main(["predict", model, piped(monkeypatch, path)]) == 0
        said[name].append(capsys.readouterr().out)
        for source in (str(path), piped(monkeypatch, path)):
            out = tmp_path / f"{name}.csv"
            argument = ["run", source, "--from", model, "--predictions", str(out)]
            assert main(argument) == 0
            said[name].append(out.read_text())
        capsys.readouterr()
        answers = io.TextIOWrapper(io.BytesIO(b""))
        monkeypatch.setattr(sys, "stdin", answers)
        ask = ["ask", model, "--pool", str(path), "--jsonl", "--out", str(tmp_path / f"{name}.l")]
        assert main([*ask, "--budget", "3"]) == 0
        said[name].append(capsys.readouterr().out)
        chosen = ["select", str(path), "--num", "3"]
        assert main(chosen) == 0
        ranking = [line.split(",")[:2] for line in capsys.readouterr().out.splitlines()]
        said[name].append(ranking)
    assert said["narrow"][:4] == said["full"][:4]
    assert said["narrow"][5] == said["full"][5]
    pipeline = jaxmkl.load_pipeline(model)
    matrix = scipy.sparse.csr_array(NARROW[:, :4])
    assert pipeline.predict(matrix).tolist() == pipeline.predict(full).tolist()
    assert_array_equal(pipeline.predict_proba(matrix), pipeline.predict_proba(full))
    assert (
        pipeline.predict(SparseRows.from_csr(matrix)).tolist() == pipeline.predict(narrow).tolist()
    )
