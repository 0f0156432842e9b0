"""LIBSVM text as a table: by chunks what it is whole, and as scikit-learn reads it."""

import gzip
import io
import sys
from contextlib import closing

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

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
@pytest.mark.parametrize("packed", [False, True])
def test_chunks_are_the_whole(zero_based, packed, tmp_path):
    path = tmp_path / ("t.svm.gz" if packed else "t.svm")
    with gzip.open(path, "wb") if packed else open(path, "wb") as file:
        sklearn.datasets.dump_svmlight_file(X, Y, file, zero_based=zero_based, comment="rows")
    table = open_table(path)
    assert table.names == [str(i + (not zero_based)) for i in range(4)] + ["label"]
    found, chunks = whole(table, 40)
    assert [len(chunk.frame) for chunk in chunks] == [40, 40, 40, 30]
    assert_array_equal(found, np.c_[X, Y])
    assert_array_equal(read(path, task="regression").X, X)
    # the writer begins with three lines of comments
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    first = next(i for i, line in enumerate(text.splitlines(), 1) if not line.startswith(b"#"))
    assert [chunk.numbers[0] for chunk in chunks] == [first, first + 40, first + 80, first + 120]


ROWS = st.lists(
    st.tuples(
        st.floats(-1e300, 1e300),
        st.dictionaries(st.integers(0, 9), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    min_size=1,
    max_size=12,
)


@given(rows=ROWS)
def test_rows_come_back(rows):
    texts = [
        " ".join([repr(label), *(f"{i}:{cell!r}" for i, cell in sorted(row.items()))]) + "\n"
        for label, row in rows
    ]
    (found,) = _libsvm.entries("t", iter(enumerate(texts, 1)))
    entries = [(i, *entry) for i, (_, row) in enumerate(rows) for entry in sorted(row.items())]
    assert_array_equal(found.labels, [label for label, _ in rows])
    read_back = zip(found.rows, found.indices, found.values, strict=True)
    assert [*map(tuple, read_back)] == entries


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
        "the first 100 rows tell the features, up to 4; entries above are left out"
    )
    found, _ = whole(table, 64)
    assert_array_equal(found[-1], [2, 0, 0, 0, 1])
    assert_array_equal(found[:-1], np.c_[X, Y])


def test_an_index_of_zero_that_comes_late_in_a_stream(iris, monkeypatch):
    text = iris.read_text() + "1 0:2\n"
    monkeypatch.setattr(_libsvm, "AT_ONCE", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(ValueError, match=r"standard input, line 151: an index of 0, where"):
        whole(open_table("-"), 64)


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("1 1:2 1:3", r"line 151, column 1: the index follows 1; indices must increase"),
        ("1 1:x", r"line 151, column 1: 'x' is not a finite number"),
        ("1 1:1e999", r"line 151, column 1: '1e999' is not a finite number"),
        ("one 1:2", r"line 151: the label 'one' is not a finite number"),
        ("1 1:2,5", r"line 151, column 1: '2,5' is not a finite number"),
        ("1 2", r"line 151: index:value wanted; got '2'"),
        ("1 ２:2", r"line 151: index:value wanted; got '２:2'"),
        ("1 40000000:1", r"the largest index is 40000000, and a table has at most 100,000"),
    ],
)
def test_rows_that_are_refused(late, message, iris):
    iris.write_text(iris.read_text() + f"{late}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        whole(open_table(iris), 64)


@pytest.mark.parametrize(
    ("text", "message"), [("# only this\n", "no example"), ("1\n-1\n", "has no features")]
)
def test_files_without_anything(text, message, tmp_path):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path / "t.svm")


@pytest.mark.slow
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
