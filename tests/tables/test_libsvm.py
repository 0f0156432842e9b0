"""LIBSVM text as a table: by chunks what it is whole, and as scikit-learn reads it."""

import gzip
import io
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from jaxmkl.tables import Columns, _libsvm, open_table, read

X, Y = sklearn.datasets.load_iris(return_X_y=True)
X = np.where(X < 1.5, 0.0, X)  # some entries are not there


@pytest.fixture
def iris(tmp_path):
    path = tmp_path / "iris.svm"
    sklearn.datasets.dump_svmlight_file(X, Y, str(path), zero_based=False)
    return path


def whole(table, size):
    with closing(table):
        chunks = list(table.chunks(size))
    return np.concatenate([chunk.frame.to_numpy() for chunk in chunks]), chunks


@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_chunks_are_the_whole(zero_based, compressed, tmp_path):
    path = tmp_path / ("t.svm.gz" if compressed else "t.svm")
    with gzip.open(path, "wb") if compressed else open(path, "wb") as file:
        sklearn.datasets.dump_svmlight_file(X, Y, file, zero_based=zero_based, comment="rows")
    table = open_table(path)
    assert table.names == [str(i + (not zero_based)) for i in range(4)] + ["label"]
    found, chunks = whole(table, 40)
    assert [len(chunk.frame) for chunk in chunks] == [40, 40, 40, 30]
    assert_array_equal(found, np.c_[X, Y])
    assert_array_equal(read(path, task="regression").X, X)
    # the writer begins with three lines of comments
    text = gzip.decompress(path.read_bytes()) if compressed else path.read_bytes()
    first = next(i for i, line in enumerate(text.splitlines(), 1) if not line.startswith(b"#"))
    assert [chunk.numbers[0] for chunk in chunks] == [first, first + 40, first + 80, first + 120]


def test_an_index_that_comes_late(iris, monkeypatch):
    text = iris.read_text() + "1 1:2 7:3\n"
    iris.write_text(text)
    # a file is passed through before
    found, _ = whole(open_table(iris), 64)
    assert found.shape == (151, 8)
    assert_array_equal(found[-1], [2, 0, 0, 0, 0, 0, 3, 1])
    # a stream is known by its first rows
    monkeypatch.setattr(_libsvm, "AT_ONCE", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    table = open_table("-")
    assert table.notes[-1] == (
        "the first 100 rows decide the inputs, up to 4; entries above are left out"
    )
    found, _ = whole(table, 64)
    assert_array_equal(found[-1], [2, 0, 0, 0, 1])
    assert_array_equal(found[:-1], np.c_[X, Y])
    # an index of zero comes too late there
    text += "1 0:2\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(ValueError, match=r"standard input, line 152: an index of 0, where"):
        whole(open_table("-"), 64)


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("1 1:2 1:3", r", line 151, column 1: the index follows 1; indices must increase"),
        ("1 3:1 2:2", r", line 151, column 2: the index follows 3; indices must increase"),
        ("1 1:x", r", line 151, column 1: 'x' is not a finite number"),
        ("1 1:nan", r", line 151, column 1: 'nan' is not a finite number"),
        ("1 1:inf", r", line 151, column 1: 'inf' is not a finite number"),
        ("1 1:1e999", r", line 151, column 1: '1e999' is not a finite number"),
        ("1 1:", r", line 151, column 1: '' is not a finite number"),
        ("1 1:2,5", r", line 151, column 1: '2,5' is not a finite number"),
        ("one 1:2", r", line 151: the label 'one' is not a finite number"),
        ("1,3 1:2", r", line 151: the label '1,3' is not a finite number"),
        ("nan 1:2", r", line 151: the label 'nan' is not a finite number"),
        ("1 2", r", line 151: index:value wanted; got '2'"),
        ("1 -1:2", r", line 151: index:value wanted; got '-1:2'"),
        ("1 ２:2", r", line 151: index:value wanted; got '２:2'"),
    ],
)
def test_rows_that_are_refused(late, message, iris):
    iris.write_text(iris.read_text() + f"{late}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"iris\.svm{message}"):
        read(iris)
    with closing(open_table(iris)) as table:
        chunks = table.chunks(8192)
        assert len(next(chunks).frame) == 150
        with pytest.raises(ValueError, match=rf"iris\.svm{message}"):
            next(chunks)


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "t.libsvm"
    for text, message in (("# only this\n", "holds no example"), ("1\n-1\n", "has no inputs")):
        path.write_text(text)
        for ask in (read, open_table):
            with pytest.raises(ValueError, match=rf"t\.libsvm: {message}"):
                ask(path)
    path.write_text("1 1:2\n1 1:3\n")
    with pytest.raises(ValueError, match="column 'label': the target is '1' in every row"):
        read(path)
    with pytest.raises(ValueError, match="target must be None, since the label is what"):
        read(path, target="y")
    path.write_text("1 1:2\n1 40000000:1\n")
    with pytest.raises(ValueError, match="largest index is 40000000, and a table has at most 1"):
        open_table(path)


SHAPES = st.tuples(st.integers(2, 6), st.integers(3, 7))
FLOATS = st.just(0.0) | st.floats(-1e300, 1e300)


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float64, SHAPES, elements=FLOATS), st.booleans())
def test_files_as_scikit_learn_reads_and_writes_them(rows, zero_based):
    X, y = rows[:, 1:], rows[:, 0]
    assume(X.any() and (not zero_based or X[:, 0].any()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.txt")
        sklearn.datasets.dump_svmlight_file(X, y, str(path), zero_based=zero_based)
        sparse, target = sklearn.datasets.load_svmlight_file(str(path))
        assume(len(np.unique(target)) > 1)
        result = read(path, task="regression")
    assert_array_equal(result.X, sparse.toarray())
    assert_array_equal(result.y, target)
    # the writer keeps 16 digits
    assert_allclose(result.X, X[:, : result.X.shape[1]], rtol=1e-15)
    assert result.feature_names[0] == ("0" if zero_based else "1")


def test_rows_by_hand(tmp_path):
    path = tmp_path / "t"
    path.write_text("# a comment\n+1 1:0.5 3:-2e0 # the first\n\n-1\n+1 qid:7 2:1 4:.25\n")
    table = read(path)
    assert_array_equal(table.X, [[0.5, 0, -2, 0], [0, 0, 0, 0], [0, 1, 0, 0.25]])
    assert_array_equal(table.y, [1, -1, 1])
    assert (table.task, table.classes, table.target) == ("classification", ("-1", "1"), "label")
    assert table.feature_names == ("1", "2", "3", "4")
    assert table.notes == ("inputs are numbered from 1", "query numbers (qid) are ignored")


def test_labels_that_are_not_known(tmp_path):
    (tmp_path / "t").write_text("? 1:1 2:3\n-1 1:1\n1 2:2\n" * 20)
    with closing(open_table(tmp_path / "t")) as table:
        first = next(table.chunks(100))
    columns = Columns.decide(first, table.target, keep=True)
    assert columns.classes == ("-1", "1")
    assert_array_equal(columns.targets(first), [np.nan, -1, 1] * 20)
    found = read(tmp_path / "t")
    assert_array_equal(found.X, [[1, 0], [0, 2]] * 20)
    assert_array_equal(found.y, [-1, 1] * 20)
    assert any(note.startswith("20 rows without a target dropped") for note in found.notes)


@pytest.mark.endless
def test_very_wide_rows_come_in_smaller_chunks(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 90000:2\n-1 2:1\n" * 150)
    found, chunks = whole(open_table(tmp_path / "t.svm"), 8192)
    assert [len(chunk.frame) for chunk in chunks] == [186, 114]
    assert found.sum() == 150 * (1 + 2 + 1)


def test_constant_columns_stay(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 2:3\n-1 1:1\n" * 20)
    with closing(open_table(tmp_path / "t.svm")) as table:
        first = next(table.chunks(100))
        columns = Columns.decide(first, table.target, keep=True)
    assert columns.features == ("1", "2")
    assert columns.classes == ("-1", "1")
    assert_array_equal(columns.targets(first)[:2], [1, -1])
