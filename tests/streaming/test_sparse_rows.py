"""Sparse inputs: the same runs as with the dense array, bit for bit; and what is refused."""

import functools
import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sparse_stream import (
    BLOCK,
    KERNELS,
    LEARNER,
    NUM_EXAMPLES,
    NUM_INPUTS,
    begin,
    blocks,
    csr,
    data,
    run,
    with_entry,
)

import jaxmkl
from jaxmkl import streaming, wrappers
from jaxmkl.recipes.random_features import raker
from tests.common.trees import assert_equal, everything

SMALL_PROGRAMS = True


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=4)
@given(
    hnp.arrays(
        np.float32,
        st.sampled_from([(1, 1), (5, 3)]),
        elements=st.sampled_from([0.0, 0.0, 0.0, 1.5, -2.0, 1e-3]),
    )
)
def test_rows_are_the_matrix(X):
    rows = streaming.SparseRows.from_csr(scipy.sparse.csr_array(X))
    assert (rows.shape, rows.ndim, len(rows), rows.dtype) == (X.shape, 2, len(X), X.dtype)
    assert rows.values.shape == (len(X), (X != 0).sum(axis=1).max())
    assert rows.indices.dtype == np.int32
    np.testing.assert_array_equal(blocks(rows), X)


def test_rows_in_any_order_and_inside_jit():
    X = data()[0]
    rows = streaming.SparseRows.from_csr(csr())
    order = np.array([4, 0, 4, 22, -1])
    np.testing.assert_array_equal(rows[order], X[order])
    np.testing.assert_array_equal(jax.jit(lambda rows, r: rows[r])(rows, order), X[order])
    some = jax.tree.map(lambda leaf: leaf[order], rows)
    assert some.shape == (5, NUM_INPUTS)
    np.testing.assert_array_equal(blocks(some), X[order])


@pytest.mark.slow
def test_values_at_filled_up_places_are_not_looked_at():
    rows = streaming.SparseRows.from_csr(csr())
    filled = rows.indices == NUM_INPUTS
    assert filled.any()
    spoiled = np.where(filled, np.nan, rows.values)
    rows = streaming.SparseRows(rows.indices, spoiled, NUM_INPUTS)
    np.testing.assert_array_equal(blocks(rows), data()[0])
    assert_equal(run(rows), run(data()[0]))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_whole_numbers_become_floating(dtype):
    X = (4 * data()[0]).astype(dtype)
    rows = streaming.SparseRows.from_csr(csr(X))
    assert rows.dtype == X.dtype
    assert jnp.issubdtype(rows[np.arange(3)].dtype, jnp.floating)
    np.testing.assert_array_equal(blocks(rows), X.astype(np.float32))


def test_columns_far_out():
    """The last column that int32 can tell from the filling is kept, and no dense row is made."""
    D = 2**31 - 1
    X = scipy.sparse.coo_array(([1.0, 2.0], ([0, 1], [D - 1, 0])), shape=(3, D))
    rows = streaming.SparseRows.from_csr(X)
    assert rows.indices.tolist() == [[D - 1], [0], [D]]
    assert rows.shape == (3, D)


# --- the drivers ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_run():
    """A learner whose wrapper sees the inputs before they are encoded."""
    inner = raker(KERNELS, num_features=4)
    learner = wrappers.scaled(inner, wrappers.RunningRanks(capacity=5))
    expected = run(data()[0], learner=learner)
    assert_equal(run(csr(), learner=learner), expected)
    rows = streaming.SparseRows.from_csr(csr())
    assert_equal(run(rows, learner=learner), expected)
    assert_equal(run(jax.device_put(rows), learner=learner), expected)


@pytest.mark.endless
def test_run_many():
    keys = jax.random.split(jax.random.key(3), 3)
    sparse, dense = (
        streaming.run_many(LEARNER, keys, X, data()[1], block_size=BLOCK)
        for X in (csr(), data()[0])
    )
    assert_equal(sparse, dense)


@pytest.mark.endless
def test_double_precision(x64):
    """Differences of 1e-9 in X, which single precision has not, reach the learner."""
    X = data()[0].astype(np.float64) * (1.0 + 1e-9)
    _, outputs = run(csr(X), dtype=np.float64)
    assert outputs.prediction.dtype == np.float64
    assert_equal(outputs, run(X, dtype=np.float64)[1])
    _, rounded = run(csr(X.astype(np.float32)), dtype=np.float64)
    assert np.any(outputs.prediction != rounded.prediction)
    keys = jax.random.split(jax.random.key(3), 2)
    _, many = jax.eval_shape(
        lambda keys: streaming.run_many(LEARNER, keys, csr(X), data()[1]), keys
    )
    assert many.prediction.dtype == np.float64


def odd_matrices():
    X = data()[0].astype(np.float64)
    twice = scipy.sparse.coo_array(
        ([1.0, 2.0, 0.5, 4.0], ([2, 2, 2, 9], [3, 0, 3, 6])), shape=X.shape
    )
    duplicates = scipy.sparse.csr_array(
        (np.array([0.5, 1.0, 0.25, 2.0]), np.array([3, 1, 3, 0]), [0] * 4 + [3] * 19 + [4]),
        shape=X.shape,
    )
    zeros = csr(X)
    zeros.data[::2] = 0.0
    zeros.data[1] = -0.0
    roomy = csr(X)
    roomy.data, roomy.indices = (np.append(part, 1) for part in (roomy.data, roomy.indices))
    return {
        "csr_matrix": scipy.sparse.csr_matrix(X),
        "dok": scipy.sparse.dok_array(X),
        "lil": scipy.sparse.lil_matrix(X),
        "duplicates in coo": twice,
        "duplicates in csr": duplicates,
        "unsorted": csr(X)[:, ::-1],
        "explicit zeros": zeros,
        "room behind": roomy,
        "long indices": scipy.sparse.csr_array(
            (csr(X).data, csr(X).indices.astype(np.int64), csr(X).indptr.astype(np.int64))
        ),
        "long double": csr(X.astype(np.longdouble)),
        "int8": csr((4 * X).astype(np.int8)),
        "uint64": csr(np.abs(4 * X).astype(np.uint64)),
        "bool": csr(X != 0),
        "nothing stored": scipy.sparse.csr_array(X.shape),
        "one full row": csr(np.where(np.arange(NUM_EXAMPLES)[:, None] == 5, 1.0, X * 0)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", odd_matrices())
def test_odd_matrices(name):
    X = odd_matrices()[name]
    before = X.copy()
    dense = X.toarray()
    assert_equal(run(X), run(dense))
    assert X.nnz == before.nnz
    np.testing.assert_array_equal(X.toarray(), dense)


@pytest.mark.slow
def test_the_callers_matrix_stays_as_it_is():
    X = odd_matrices()["duplicates in csr"]
    run(X)
    assert X.indices.tolist() == [3, 1, 3, 0]
    assert X.data.tolist() == [0.5, 1.0, 0.25, 2.0]


@pytest.mark.slow
def test_inside_jit():
    """Values are not seen there: a bad row is passed over and counted."""
    inside = jax.jit(functools.partial(streaming.run, block_size=BLOCK, record=everything))
    rows = streaming.SparseRows.from_csr(csr())
    assert_equal(inside(LEARNER, begin(), rows, data()[1]), run(data()[0]))
    bad = csr()
    row = int(np.flatnonzero(np.diff(bad.indptr))[3])
    bad.data[bad.indptr[row]] = np.nan
    rows = streaming.SparseRows.from_csr(bad)
    state, outputs = inside(LEARNER, begin(), rows, data()[1])
    assert np.flatnonzero(np.isnan(outputs.loss)).tolist() == [row]
    assert int(state.invalid) == 1

    state = begin()  # drawn outside: another program may round a draw otherwise

    def built(indices, values, y):
        rows = streaming.SparseRows(indices, values, NUM_INPUTS)
        return streaming.run(LEARNER, state, rows, y, block_size=BLOCK, record=everything)

    rows = streaming.SparseRows.from_csr(csr())
    assert_equal(jax.jit(built)(rows.indices, rows.values, data()[1]), run(data()[0]))


@pytest.mark.endless
def test_inside_grad():
    """The derivative by an entry is that of the dense run; filled-up places have none."""
    learner = raker(KERNELS, num_features=4)
    rows = streaming.SparseRows.from_csr(csr())

    @jax.jit
    def total(X, y):
        return streaming.run(learner, begin(learner), X, y, block_size=BLOCK)[1].loss.sum()

    def by_values(values):
        return total(streaming.SparseRows(rows.indices, values, NUM_INPUTS), data()[1])

    by_entry = np.asarray(jax.grad(by_values)(jnp.asarray(rows.values)))
    dense = np.asarray(jax.grad(total)(jnp.asarray(data()[0]), data()[1]))
    dense = np.pad(dense, ((0, 0), (0, 1)))  # the column of the filling
    expected = np.take_along_axis(dense, rows.indices, axis=1)
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(by_entry, expected, rtol=1e-4, atol=1e-6)


# --- stream --------------------------------------------------------------------------------------


def streamed(chunks, record=everything):
    return list(streaming.stream(LEARNER, begin(), chunks, block_size=BLOCK, record=record))


@pytest.mark.slow
def test_uneven_chunks():
    """Other lengths, other numbers of entries, an empty chunk, and dense ones between."""
    X, y = data()
    X = X.copy()
    X[4:9] = 0.0
    X[15] = 1.0
    edges = [0, 4, 9, 9, 14, 20, NUM_EXAMPLES]
    pieces = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    chunks = [
        (part if number % 3 == 1 else csr(part), targets)
        for number, (part, targets) in enumerate(pieces)
    ]
    parts = streamed(chunks)
    state, outputs = run(X, y)
    assert [len(part.loss) for _, part in parts] == [4, 5, 5, 6, 3]
    assert_equal(jax.tree.map(lambda *v: np.concatenate(v), *[part for _, part in parts]), outputs)
    assert_equal(parts[-1][0], state)


@pytest.mark.endless
def test_few_numbers_of_entries_are_compiled():
    """Rows have K entries at most; a compilation for the first power of two that holds them."""
    calls, seen = [], []

    def record(output):
        calls.append(output)
        return output.loss

    entries = [0, 2, 1, 3, 4, 2]
    y = data()[1][:8]
    X = [csr(np.tile(np.arange(NUM_INPUTS) < K, (8, 1)).astype(np.float32)) for K in entries]
    chunks = ((part, y) for part in X)
    for _ in streaming.stream(LEARNER, begin(), chunks, block_size=BLOCK, record=record):
        seen.append(len(calls))
    grown = [b > a for a, b in itertools.pairwise([0, *seen])]
    assert [K for K, more in zip(entries, grown, strict=True) if more] == [0, 2, 3]


def test_rows_are_chunks_too():
    rows = jax.device_put(streaming.SparseRows.from_csr(csr()))
    ((state, outputs),) = streamed([(rows, data()[1])])
    assert_equal((state, outputs), run(data()[0]))


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (with_entry(np.nan), r"X must be finite.*got X\[6, 5\] = nan and 1 such"),
        (with_entry(-np.inf), r"X must be finite.*got X\[6, 5\] = -inf and 1 such"),
        (with_entry(2.0**64), r"at most 4\.61e\+18.*got X\[6, 5\] = 1\.844.*e\+19 and 1 such"),
        (with_entry(1e300, np.float64), r"at most 4\.61e\+18.*got X\[6, 5\] = 1e\+300 and 1"),
        (with_entry(2**63 - 1, np.int64), r"at most 4\.61e\+18.*got X\[6, 5\] = 9223372036854775"),
        (with_entry(1j, np.complex64), "X must hold real numbers; got dtype complex64"),
        (csr(np.ones((NUM_EXAMPLES, 8))), r"X must have 7 columns.*got 8 \(shape \(23, 8\)\)"),
        (csr()[:20], "y must have one entry for each of the 20 rows of X; got 23"),
        (scipy.sparse.coo_array(np.ones(7)), r"X must have shape \(T, D\).*got shape \(7,\)"),
    ],
    ids=["NaN", "infinite", "huge", "double", "whole", "complex", "columns", "rows", "one axis"],
)
def test_what_is_refused(X, message):
    """The messages are those for dense inputs; by run, run_many and stream."""
    y = data()[1]
    with pytest.raises(ValueError, match=message):
        run(X)
    with pytest.raises(ValueError, match=f"chunk 1: .*{message}"):
        streamed([(csr(), y), (X, y)])
    if "7 columns" not in message:  # without a state, X itself says how wide it is
        with pytest.raises(ValueError, match=message):
            streaming.run_many(LEARNER, jax.random.split(jax.random.key(0), 2), X, y)


def test_no_example_is_refused():
    with pytest.raises(ValueError, match=r"X must hold at least one example; got shape \(0, 7\)"):
        run(csr()[:0], data()[1][:0])


INDICES, VALUES = np.array([[0, 2], [1, 3]]), np.array([[1.0, 2.0], [3.0, 0.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((INDICES, VALUES, 2.0), "num_columns must be an integer of at least 0.*got 2.0"),
        ((INDICES, VALUES, 2**31), "num_columns must be.*below 2.31; got 2147483648"),
        ((INDICES[0], VALUES[0], 3), r"values must be of shape \(T, K\); got \(2,\)"),
        ((INDICES[:1], VALUES, 3), r"indices must be integers of shape \(2, 2\).*\(1, 2\)"),
        ((INDICES * 1.0, VALUES, 3), "indices must be integers of shape.*got 'float64"),
        (([[0, 2], [-1, 3]], VALUES, 3), r"indices\[1\] must be.*from 0 to 2.*got \[-1, 3\]"),
        (([[0, 2], [1, 4]], VALUES, 3), r"indices\[1\] must be.*up with 3; got \[1, 4\]"),
        (([[2, 0], [1, 3]], VALUES, 3), r"indices\[0\] must be increasing.*got \[2, 0\]"),
        (([[0, 2], [1, 1]], VALUES, 3), r"indices\[1\] must be increasing.*got \[1, 1\]"),
        (([[0, 2], [3, 1]], VALUES, 3), r"indices\[1\] must be increasing.*got \[3, 1\]"),
        ((np.uint8([[2, 0], [1, 3]]), VALUES, 3), r"indices\[0\] must be increasing"),
        ((jnp.array([[0, 2], [-1, 3]]), VALUES, 3), r"indices\[1\] must be.*got \[-1, 3\]"),
    ],
)
def test_rows_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=f"SparseRows: {message}"):
        streaming.SparseRows(*arguments)


def test_what_is_not_sparse():
    with pytest.raises(ValueError, match=r"from_csr: X must be sparse.*got <class 'numpy\.nd"):
        streaming.SparseRows.from_csr(data()[0])
    beyond = scipy.sparse.csr_array(([1.0, 2.0], [2, 0], [0, 1, 2]), shape=(2, 2))
    with pytest.raises(ValueError, match="from_csr: X must have columns below 2; got 2"):
        streaming.SparseRows.from_csr(beyond)
    learner = jaxmkl.raker()
    with pytest.raises(ValueError, match=r"X must be dense, as X\.toarray"):
        learner.predict_many(learner.init(jax.random.key(0), 2), scipy.sparse.csr_array((3, 2)))


@pytest.mark.parametrize("r", [0, slice(2), np.array(3), np.ones(23, bool), np.ones((2, 2), int)])
def test_rows_are_taken_by_integers(r):
    rows = streaming.SparseRows.from_csr(csr())
    with pytest.raises(ValueError, match=r"rows\[r\] must be an array \(B,\) of integers"):
        rows[r]


@pytest.mark.slow
def test_scipy_is_not_needed():
    """Where it cannot be imported, rows made by hand are learned from."""
    program = """
        import sys
        sys.modules["scipy.sparse"] = None
        import jax
        from jaxmkl import streaming
        from jaxmkl.recipes.random_features import raker
        rows = streaming.SparseRows([[0], [1], [2]], [[1.0], [2.0], [0.0]], 2)
        learner = raker(num_features=2)
        state = learner.init(jax.random.key(0), 2)
        state, _ = streaming.run(learner, state, rows, [1.0, 2.0, 3.0])
        print(int(state.round))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=Path(jaxmkl.__file__).parents[1],
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "3\n", done.stderr
