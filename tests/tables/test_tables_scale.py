"""jaxmkl.tables.scale against scikit-learn and by its properties."""

import jax
import numpy as np
import pytest
import sklearn.preprocessing
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from jaxmkl.tables import scale

quick = settings(max_examples=40, deadline=None)
TABLES = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements={"allow_nan": False, "allow_infinity": False},
)


@quick
@given(X=TABLES)
def test_ranges(X):
    constant = np.array([len(set(column)) == 1 for column in X.T.tolist()])
    for how, low in (("unit_interval", 0), ("symmetric", -1)):
        scaled = scale(X, how)
        assert scaled.dtype == X.dtype
        assert (scaled[:, constant] == 0).all()
        assert (scaled[:, ~constant].min(axis=0, initial=low) == low).all()
        assert (scaled[:, ~constant].max(axis=0, initial=1) == 1).all()
        assert ((scaled >= low) & (scaled <= 1)).all()
        order = np.argsort(X, axis=0, kind="stable")
        assert (np.diff(np.take_along_axis(scaled, order, axis=0), axis=0) >= 0).all()


@quick
@given(X=TABLES)
def test_standard(X):
    scaled = scale(X, "standard")
    varied = np.array([len(set(column)) > 1 for column in X.T.tolist()])
    tolerance = 100 * np.finfo(X.dtype).eps
    assert scaled.dtype == X.dtype
    assert (scaled[:, ~varied] == 0).all()
    assert_allclose(scaled.mean(axis=0, dtype=np.float64), 0, atol=tolerance)
    assert_allclose(scaled[:, varied].var(axis=0, dtype=np.float64), 1, atol=tolerance)


def test_standard_of_columns_whose_mean_is_not_a_number_of_theirs():
    step = np.finfo(np.float64).eps
    assert_array_equal(scale([[1.0], [1.0 + step]], "standard"), [[-1], [1]])
    for length in range(1, 60):
        constant = scale(np.full((length, 2), [0.1, 1e8 / 3]), "standard")
        assert_array_equal(constant, np.zeros((length, 2)))


@quick
@given(X=TABLES)
def test_rows_and_largest(X):
    zero = (X == 0).all(axis=1)
    rows = scale(X, "unit_rows")
    assert rows.dtype == X.dtype
    assert (rows[zero] == 0).all()
    lengths = np.linalg.norm(rows[~zero].astype(np.float64), axis=1)
    assert_allclose(lengths, 1, atol=20 * np.finfo(X.dtype).eps)
    assert (np.sign(rows) * np.sign(X) >= 0).all()

    largest = scale(X, "largest")
    assert largest.dtype == X.dtype
    assert np.abs(largest).max() == (0 if zero.all() else 1)
    ratio = (X.astype(np.longdouble) / (np.abs(X).max() or 1)).astype(X.dtype)
    assert_allclose(largest, ratio, rtol=4 * np.finfo(X.dtype).eps, atol=np.finfo(X.dtype).tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.float16, bool])
def test_scaling_as_scikit_learn_does(dtype):
    X = np.random.default_rng(0).normal(1, 3, (50, 4)).astype(dtype)
    if dtype is bool:
        X[0] = ~X[1]  # scikit-learn maps a constant column elsewhere
    wide = X.astype(np.float64)
    expected = {
        "unit_interval": sklearn.preprocessing.minmax_scale(wide),
        "symmetric": sklearn.preprocessing.minmax_scale(wide, (-1, 1)),
        "standard": sklearn.preprocessing.scale(wide),
        "unit_rows": sklearn.preprocessing.normalize(wide),
        "largest": wide / np.abs(wide).max(),
    }
    result_dtype = np.float32 if dtype in (np.float32, np.float16) else np.float64
    for how, reference in expected.items():
        scaled = scale(X, how)
        assert scaled.dtype == result_dtype
        tolerance = 10 * np.finfo(result_dtype).eps
        assert_allclose(scaled, reference, rtol=tolerance, atol=tolerance)
        scaled[:] = 7
        assert_array_equal(X, wide)  # is left alone


@pytest.mark.parametrize(
    ("X", "how", "message"),
    [
        ([[1.0, np.nan]], "standard", r"X must be finite; got X\[0, 1\] = nan"),
        ([[1.0], [-np.inf]], "largest", r"X must be finite; got X\[1, 0\] = -inf"),
        ([1.0, 2.0], "standard", r"X must have the shape \(n, D\) with n, D >= 1; got \(2,\)"),
        (np.zeros((0, 2)), "standard", r"X must .* \(n, D\) with n, D >= 1; got \(0, 2\)"),
        ([["a"]], "standard", "X must hold real numbers; got the dtype <U1"),
        ([[1.0]], "minmax", "how must be one of unit_interval, .*; got 'minmax'"),
    ],
)
def test_scale_refuses(X, how, message):
    with pytest.raises(ValueError, match=f"scale: {message}"):
        scale(X, how)


def test_tracers_and_masked_arrays_are_refused_by_name():
    X = np.ones((2, 2))
    with pytest.raises(
        ValueError, match=r"scale: X must be an array outside of jit, .*; got 'a tracer'"
    ):
        jax.jit(lambda X: scale(X, "largest"))(X)
    with pytest.raises(ValueError, match="X must not be masked"):
        scale(np.ma.masked_array(X, X < 2), "largest")
