"""Sums of kernels in tiles: their values, their range, their derivatives, and bad arguments."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jaxmkl
from jaxmkl import support
from jaxmkl.support import Entries, Sums, dense_sums, entry_sums, total

NUM_TERMS = 6
GAUSSIANS = jaxmkl.Gaussian((1.0, 2.0))


@jax.jit
def total_of(codes, coefficients, value, exponent):
    return total(GAUSSIANS, Sums(value, exponent), codes, coefficients)


def exact(codes, coefficients):
    """Of one kernel: sign and logarithm of the sum of coefficients exp(-codes), or a doubt."""
    nearest = codes[coefficients != 0].min()
    terms = [a * math.exp(nearest - u) for u, a in zip(codes, coefficients, strict=True) if a]
    s = math.fsum(terms)
    assume(abs(s) > 1e-3 * sum(map(abs, terms)))  # rounding may decide on less
    return np.sign(s), math.log(abs(s)) - nearest


@given(
    hnp.arrays(np.float32, (2, NUM_TERMS), elements=st.floats(0, 700, width=32)),
    hnp.arrays(
        np.float32,
        (2, NUM_TERMS),
        elements=st.sampled_from([-2.0, -1.0, -0.125, 0.0, 0.5, 1.0, 3.0]),
    ),
    st.integers(0, NUM_TERMS),
)
def test_sums_keep_their_sign_from_0_to_700(codes, coefficients, num_settled):
    """The first of the terms as a settled sum, the others as the period's."""
    assume((coefficients[:, 0] != 0).all())
    value, exponent = np.zeros(2, np.float32), np.full(2, 1e30, np.float32)
    fresh = coefficients.copy()
    for p in range(2):
        for j in range(num_settled):
            if coefficients[p, j]:
                lower = min(exponent[p], codes[p, j])
                value[p] = value[p] * np.exp(lower - exponent[p])
                value[p] += coefficients[p, j] * np.exp(lower - codes[p, j])
                exponent[p] = lower
        fresh[p, :num_settled] = 0
    f = np.asarray(total_of(codes, fresh, value, exponent))
    assert f.dtype == np.float32
    tiny = np.finfo(np.float32).tiny
    for p in range(2):
        sign, log = exact(codes[p].astype(float), coefficients[p].astype(float))
        assert np.sign(f[p]) == sign
        if log > math.log(tiny) + 0.01:
            np.testing.assert_allclose(f[p], sign * math.exp(log), rtol=1e-3)
        elif log < math.log(tiny) - 0.01:
            assert abs(f[p]) == tiny


def test_terms_that_vanish_in_double_precision_are_zero():
    codes = np.full((2, NUM_TERMS), 746.0, np.float32)
    empty = np.zeros(2, np.float32), np.full(2, 1e30, np.float32)
    np.testing.assert_array_equal(total_of(codes, np.ones_like(codes), *empty), [0, 0])
    codes[0, 3] = 745.0
    f = np.asarray(total_of(codes, -np.ones_like(codes), *empty))
    np.testing.assert_array_equal(f, [-np.finfo(np.float32).tiny, 0])
    # no support at all
    np.testing.assert_array_equal(total_of(codes, np.zeros_like(codes), *empty), [0, 0])


# --- tiles ---------------------------------------------------------------------------------------

SIZE, USED, LENGTH = 4, 8, 12  # of a tile, of the supports, of the room


def mixed(bandwidth, offset):
    return jaxmkl.KernelDictionary(
        (
            jaxmkl.Gaussian(bandwidth),
            jaxmkl.Polynomial((1, 3), offset=offset),
            jaxmkl.Laplacian(bandwidth[0]),
            jaxmkl.Cauchy(bandwidth[1]),
        )
    )


def plain_values(bandwidth, offset, X, rows):
    """Kernel values (P, B, C) of :func:`mixed`, written out."""
    squared = jnp.sum((X[:, None, :] - rows[None, :, :]) ** 2, axis=2)
    inner = jnp.sum(X[:, None, :] * rows[None, :, :], axis=2)
    return jnp.stack(
        [
            jnp.exp(-squared / (2 * bandwidth[0] ** 2)),
            jnp.exp(-squared / (2 * bandwidth[1] ** 2)),
            inner + offset,
            (inner + offset) ** 3,
            jnp.exp(-jnp.sqrt(squared) / bandwidth[0]),
            1 / (1 + squared / bandwidth[1] ** 2),
        ]
    )


def inputs_of_sums():
    rng = np.random.default_rng(0)
    bandwidth, offset = jnp.array([0.6, 1.7]), jnp.array(0.5)
    X, rows = jnp.asarray(rng.normal(size=(5, 3))), jnp.asarray(rng.normal(size=(LENGTH, 3)))
    weight = jnp.asarray(rng.normal(size=(6, 5)))
    coefficients = jnp.asarray(rng.normal(size=(6, LENGTH)))
    return weight, (bandwidth, offset, X, rows, coefficients)


def compare_with_gradients(ours, plain, arguments):
    """The same value, and the same gradient by every argument."""
    by = tuple(range(len(arguments)))
    value, gradients = jax.jit(jax.value_and_grad(ours, argnums=by))(*arguments)
    wanted, wanted_gradients = jax.jit(jax.value_and_grad(plain, argnums=by))(*arguments)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        assert np.any(np.asarray(other) != 0)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_sums_over_rows_and_their_gradients(x64):
    weight, arguments = inputs_of_sums()

    def ours(bandwidth, offset, X, rows, coefficients):
        kernels = mixed(bandwidth, offset)
        sums = dense_sums(SIZE, kernels, X, rows, coefficients, jnp.asarray(USED))
        assert sums.value.shape == (6, 5)
        exponent = jax.lax.stop_gradient(sums.exponent)
        return jnp.sum(weight * sums.value * jnp.exp(-exponent))

    def plain(bandwidth, offset, X, rows, coefficients):
        K = plain_values(bandwidth, offset, X, rows[:USED])
        return jnp.sum(weight * jnp.sum(K * coefficients[:, None, :USED], axis=2))

    compare_with_gradients(ours, plain, arguments)


def test_sums_over_entries_and_their_gradients(x64):
    weight, (bandwidth, offset, X, rows, coefficients) = inputs_of_sums()
    row = np.array([0, 0, 1, 3, 3, 3, 7, 11, 0, 0, 0, 0])
    kernel = np.array([1, 2, 0, 0, 4, 5, 3, 2, 0, 0, 0, 0])

    def ours(bandwidth, offset, X, rows, a):
        entries = Entries(jnp.asarray(row), jnp.asarray(kernel), a, jnp.asarray(USED))
        sums = entry_sums(SIZE, mixed(bandwidth, offset), X, rows, entries)
        return jnp.sum(weight * sums)

    def plain(bandwidth, offset, X, rows, a):
        K = plain_values(bandwidth, offset, X, rows)
        return sum(
            a[e] * jnp.sum(weight[kernel[e]] * K[kernel[e], :, row[e]]) for e in range(USED)
        )

    compare_with_gradients(ours, plain, (bandwidth, offset, X, rows, coefficients[0]))


def test_nothing_stored_sums_to_zero():
    _, (bandwidth, offset, X, rows, coefficients) = inputs_of_sums()
    kernels = mixed(bandwidth, offset)
    sums = dense_sums(SIZE, kernels, X, rows, coefficients, jnp.asarray(0))
    np.testing.assert_array_equal(sums.value, np.zeros((6, 5)))
    nothing = jnp.zeros(8, int)
    entries = Entries(nothing, nothing, coefficients[0, :8], jnp.asarray(0))
    np.testing.assert_array_equal(entry_sums(SIZE, kernels, X, rows, entries), np.zeros((6, 5)))


def test_values_beyond_all_bounds_are_bounded():
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(True):
            codes = jnp.asarray([np.nan, np.inf, -np.inf, 3.0, -1e30], dtype)
            bounded = np.asarray(support.bounded(codes))
        assert bounded.dtype == dtype
        largest = np.finfo(dtype).max
        assert np.isfinite(bounded.sum() * dtype(1e5))
        assert bounded[0] == 0
        assert bounded[1] == -bounded[2] > 1e-7 * largest
        np.testing.assert_array_equal(bounded[3:], codes[3:])


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [jaxmkl.DenseSupport, jaxmkl.SparseSupport])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("capacity", 0),
        ("capacity", 1.5),
        ("capacity", None),
        ("tile", 0),
        ("tile", "large"),
        ("period", 0),
        ("period", 48),
        ("period", 8192),
        ("period", 16.0),
    ],
)
def test_bad_arguments_are_named(store, name, given):
    with pytest.raises(ValueError, match=f"{store.__name__}: {name} must be"):
        store(**{name: given})


@pytest.mark.parametrize("store", [jaxmkl.DenseSupport, jaxmkl.SparseSupport])
def test_room(store):
    """At least the capacity, and what a period adds, in whole tiles; enlarging keeps what is."""
    one = store(capacity=20, tile=16, period=8)
    state = one.init(GAUSSIANS, 3, jnp.float32)
    assert state.rows.shape == (32, 3)
    assert one.capacity_of(state) == 24
    assert one.enlarged(state, 24) is state
    larger = one.enlarged(state._replace(rows=state.rows + 1), 25)
    assert larger.rows.shape == (48, 3)
    np.testing.assert_array_equal(larger.rows, np.pad(np.ones((32, 3)), ((0, 16), (0, 0))))
    assert one.capacity_of(larger) == 40
