"""Numbers too small for their dtype: sums and products of them, and their range."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxmkl.kernels import Scaled, scaled

NUM_TERMS = 6


@jax.jit
def total_of(codes, coefficients, value, exponent):
    return Scaled(None, codes).weighted_sum(coefficients, Scaled(value, exponent)).value()


def exact(codes, coefficients):
    """For one kernel: sign and logarithm of the sum of coefficients exp(-codes), or a doubt."""
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
            np.testing.assert_allclose(f[p], sign * math.exp(log), rtol=1e-4)
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


def test_values_beyond_all_bounds_are_bounded():
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(True):
            codes = jnp.asarray([np.nan, np.inf, -np.inf, 3.0, -1e30], dtype)
            bounded = np.asarray(scaled.bounded(codes))
        assert bounded.dtype == dtype
        largest = np.finfo(dtype).max
        assert np.isfinite(bounded.sum() * dtype(1e5))
        assert bounded[0] == 0
        assert bounded[1] == -bounded[2] > 1e-7 * largest
        np.testing.assert_array_equal(bounded[3:], codes[3:])


def test_products_multiply_and_add():
    """Also where one of the parts is 1 or 0 everywhere, and is not there."""
    numbers = [
        Scaled(jnp.array([2.0, -3.0]), jnp.array([1.0, 200.0])),
        Scaled(None, jnp.array([2.0, 300.0])),
        Scaled(jnp.array([0.5, 4.0]), None),
    ]
    mantissas = np.array([[2.0, -3.0], [1.0, 1.0], [0.5, 4.0]])
    exponents = np.array([[1.0, 200.0], [2.0, 300.0], [0.0, 0.0]])
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            both = a * b
            m = 1.0 if both.mantissa is None else both.mantissa
            u = 0.0 if both.exponent is None else both.exponent
            np.testing.assert_allclose(np.broadcast_to(m, 2), mantissas[i] * mantissas[j])
            np.testing.assert_allclose(np.broadcast_to(u, 2), exponents[i] + exponents[j])
    # each is too small, times e^599 it is not
    small = numbers[1] * numbers[1]
    assert small.plain()[1] == 0
    assert small.value()[1] == np.finfo(np.float32).tiny
    np.testing.assert_allclose(small.times_exp(jnp.array([4.0, 599.0])), np.exp([0.0, -1.0]), 1e-5)


def test_codes_are_unpacked_by_kernel():
    codes = jnp.array([[1.0, 2.0], [3.0, -4.0]])
    for marks in ((True, True), (False, False), (True, False)):
        both = scaled.unpacked(codes, marks)
        wanted = np.where(np.array(marks)[:, None], np.exp(-codes), codes)
        np.testing.assert_allclose(both.plain(), wanted, rtol=1e-6)
        np.testing.assert_allclose(scaled.plain(codes, marks), wanted, rtol=1e-6)
        np.testing.assert_allclose(scaled.plain(codes.T, marks, axis=1), wanted.T, rtol=1e-6)
        total = both.weighted_sum(jnp.array([[1.0, 0.5], [2.0, 1.0]]))
        np.testing.assert_allclose(
            total.value(), [wanted[0] @ [1, 0.5], wanted[1] @ [2, 1]], rtol=1e-6
        )
