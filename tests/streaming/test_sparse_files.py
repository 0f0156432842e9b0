"""Files read sparse: the same table as read dense, and the same runs."""

import re

import jax
import numpy as np
import pytest
import scipy.sparse
from sparse_stream import KERNELS, NUM_EXAMPLES, blocks, csr, data, run, with_entry

from jaxmkl import streaming
from jaxmkl.recipes.random_features import raker
from jaxmkl.tables import _table, read
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True


# --- files ---------------------------------------------------------------------------------------


def save(path, X, **others):
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(path, **parts | others)
    return path


def assert_same_set(path, **options):
    """Read sparse and read dense."""
    sparse, dense = read(path, sparse=True, **options), read(path, **options)
    assert isinstance(sparse.X, streaming.SparseRows)
    assert sparse.X.dtype == dense.X.dtype
    assert sparse.X.shape == dense.X.shape
    np.testing.assert_array_equal(sparse.y, dense.y)
    assert sparse.y.dtype == dense.y.dtype
    for field in ("task", "feature_names", "classes", "notes", "target"):
        assert getattr(sparse, field) == getattr(dense, field)
    return sparse, dense


def constants():
    """Columns of zeros, of ones, of ones and a zero, of an entry; constant ones are noted."""
    X = data()[0].copy()
    X[:, 0], X[:, 1], X[:, 2] = 0, 1, 1
    X[3, 2] = 0
    X[:, 3] = np.where(np.arange(NUM_EXAMPLES) == 4, -2, 0)
    return X


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_npz_kept_sparse(tmp_path, dtype):
    X = csr(constants().astype(dtype))
    path = save(tmp_path / "t.npz", X, y=data()[1])
    sparse, dense = assert_same_set(path)
    if dtype != np.int8:
        assert sparse.notes == ("constant, and kept: 'x0', 'x1'",)
        np.testing.assert_array_equal(blocks(sparse.X), dense.X.astype(np.float32))
    assert_equal(run(sparse.X, sparse.y), run(dense.X, dense.y))


def test_npz_unsorted_without_some_targets_and_of_nothing(tmp_path):
    X = csr(constants())
    part = slice(*X.indptr[:2])
    X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
    y = data()[1].copy()
    y[[2, 9]] = np.nan
    sparse, dense = assert_same_set(save(tmp_path / "t.npz", X, y=y))
    assert len(sparse.X) == NUM_EXAMPLES - 2
    np.testing.assert_array_equal(blocks(sparse.X), dense.X)
    empty = scipy.sparse.csr_array((NUM_EXAMPLES, 3))
    sparse, _ = assert_same_set(save(tmp_path / "e.npz", empty, y=data()[1]))
    assert sparse.X.values.shape == (NUM_EXAMPLES, 0)


def test_libsvm_kept_sparse(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("1 1:0.5 3:-2 6:1\n-1\n-1 6:1 # no more\n1 2:0 3:4\n")
    sparse, dense = assert_same_set(path)
    assert sparse.X.indices.tolist() == [[0, 2, 5], [6, 6, 6], [5, 6, 6], [1, 2, 6]]
    np.testing.assert_array_equal(blocks(sparse.X), dense.X)


def test_files_too_large_to_be_dense(tmp_path):
    path = tmp_path / "t.svm"
    lines = [f"{row % 2} {row % 9 + 1}:1 {10**6 - row % 7}:2\n" for row in range(700)]
    path.write_text("".join(lines))
    with pytest.raises(ValueError, match=r"700 x 1000000 inputs would take 5\.2 GiB"):
        read(path)
    rows = read(path, sparse=True).X
    assert rows.shape == (700, 10**6)
    assert rows.values.shape == (700, 2)


def test_nothing_is_made_of_columns_that_nobody_named(tmp_path):
    """A name for each of 2^31 - 2 columns would take some hundred GiB."""
    path = tmp_path / "t.svm"
    path.write_text("1 1:0.5 3:2 2147483646:2\n-1 1:.5 5:0\n")
    table = read(path, sparse=True)
    assert table.X.shape == (2, 2**31 - 2)
    assert table.X.indices.tolist() == [[0, 2, 2**31 - 3], [0, 4, 2**31 - 2]]
    assert table.notes[1] == "constant, and kept: '1', '2', '4', '5', '6', ..."
    names = table.feature_names
    assert (len(names), names[2], names[-1]) == (2**31 - 2, "3", "2147483646")
    path.write_text("1 1:0.5 3000000000:2\n-1 1:2\n")
    with pytest.raises(ValueError, match=r"t\.svm: 3000000000 inputs are too many; below 2\^31"):
        read(path, sparse=True)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_sparse_files_are_complete(tmp_path, value):
    path = save(tmp_path / "t.npz", with_entry(value), y=data()[1])
    message = re.escape(f"{path}: X[6, 5] = {value} is not finite")
    with pytest.raises(ValueError, match=message):
        read(path, sparse=True)


def test_files_that_are_not_sparse(tmp_path):
    table, archive = tmp_path / "t.csv", tmp_path / "t.npz"
    table.write_text("a,y\n1,2\n2,3\n")
    np.savez(archive, X=np.eye(2), y=[0, 1])
    for path, what in ((table, "a table"), (archive, "an npz file with a dense X")):
        with pytest.raises(ValueError, match=rf"{path.name}: sparse must be False.*got {what}"):
            read(path, sparse=True)


def test_one_full_row_can_be_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(_table, "MAX_DENSE_BYTES", 2**16)
    X = np.zeros((1000, 50), np.float32)
    X[:, 0] = 1
    read(save(tmp_path / "thin.npz", csr(X), y=np.arange(1000.0)), sparse=True)
    X[7] = 1
    path = save(tmp_path / "full.npz", csr(X), y=np.arange(1000.0))
    with pytest.raises(ValueError, match=r"1000 x 50 inputs.*with 50 entries a row"):
        read(path, sparse=True)


@pytest.mark.endless
@pytest.mark.data
def test_a9a_sparse_is_a9a(data_dir):
    sparse, dense = assert_same_set(data_dir / "a9a.npz")
    assert sparse.X.values.shape == (48842, 14)
    np.testing.assert_array_equal(blocks(sparse.X), dense.X)
    learner = raker(KERNELS, num_features=4, loss="hinge")
    state = learner.init(jax.random.key(0), dense.X.shape[1])
    first = jax.tree.map(lambda leaf: leaf[:2000], sparse.X)
    one = streaming.run(learner, state, first, sparse.y[:2000])
    assert_equal(one, streaming.run(learner, state, dense.X[:2000], dense.y[:2000]))


@pytest.mark.data
def test_reuters_sparse_is_reuters(data_dir):
    path = data_dir / "reuters_4class.npz"
    table = read(path, sparse=True)
    assert table.X.shape == (2919, 18933)
    with np.load(path) as parts:
        names = ("data", "indices", "indptr")
        X = scipy.sparse.csr_array(tuple(parts[name] for name in names), shape=parts["shape"])
        np.testing.assert_array_equal(table.y, parts["y"])
    for start in (0, 1500, 2919 - 64):
        r = np.arange(start, start + 64)
        np.testing.assert_array_equal(table.X[r], X[r].toarray())
