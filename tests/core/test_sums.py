"""Sums over rows, at once and in pieces, and moments far from 0."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmkl import _blocks
from jaxmkl._blocks import (
    by_halves,
    factor_and_inverse,
    moments_of,
    sum_over_rows,
    sums_of,
)
from tests.common.marks import quick


@pytest.mark.parametrize("used", ["none", "first ones", "all", "a mask"])
def test_pieces_add_up_to_the_sum_at_once(monkeypatch, used):
    rows = np.random.default_rng(0).normal(size=(700, 3)).astype(np.float32)
    number = {"none": 0, "first ones": 520, "all": 700, "a mask": 300}[used]
    rows[number:] = 0
    given = jnp.asarray(number) if used != "a mask" else jnp.arange(700) < number

    def product(part):
        return {"products": part.T @ part, "largest piece": jnp.ones(()) * (len(part) < 700)}

    found = []
    for most in (rows.size, rows.size - 1):
        monkeypatch.setattr(_blocks, "_AT_ONCE", most)
        found.append(jax.jit(lambda r: sum_over_rows(product, r, given))(rows))
    at_once, in_pieces = found
    np.testing.assert_allclose(at_once["products"], in_pieces["products"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(at_once["products"], rows.T @ rows, rtol=1e-4, atol=1e-4)
    # pieces of 234 rows, up to the last that is used
    assert float(in_pieces["largest piece"]) == -(-number // 234)
    assert float(at_once["largest piece"]) == 0


def test_what_a_row_makes_counts_too(monkeypatch):
    monkeypatch.setattr(_blocks, "_AT_ONCE", 4000)
    rows, number = jnp.ones((600, 2)), jnp.asarray(600)
    for width, pieces in ((0, 1), (6, 1), (7, 3)):
        calls = sum_over_rows(lambda part: jnp.ones(()), rows, number, width)
        assert float(calls) == pieces


@pytest.mark.parametrize("first", [0.0, 300.0])
def test_moments_lose_no_digits_far_from_zero(first):
    """Also where the first row, which is taken off, is far from the others."""
    X = np.random.default_rng(1).normal(size=(2000, 2)).astype(np.float32) + np.float32(1e4)
    X[0] += np.float32(first)
    mean, variance = jax.jit(moments_of)(X, 1500)
    exact = X[:1500].astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(axis=0), rtol=1e-3 if first else 1e-5)
    np.testing.assert_array_equal(moments_of(jnp.asarray(X), jnp.asarray(0))[1], [0, 0])


@pytest.mark.parametrize("size", quick([31], [5, 31, 62, 70, 257, 600]))
def test_a_factor_and_the_inverse(x64, size):
    """Of one block of rows, of two, of three of which the last is not full; of halves, of fourths.

    A matrix that is not definite is found, wherever that shows.
    """
    draws = np.random.default_rng(2).normal(size=(size, 2 * size))
    matrix = draws @ draws.T
    factor, inverse = factor_and_inverse(jnp.asarray(np.tril(matrix)))  # the rest is not read
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-9 if size > 100 else 1e-11)
    np.testing.assert_allclose(np.triu(factor, 1), 0)
    np.testing.assert_allclose(inverse @ matrix, np.eye(size), atol=1e-9)
    for first in (0, size - 1):
        other = np.where(np.arange(size) < first, matrix, -matrix)
        assert np.isnan(factor_and_inverse(jnp.asarray(np.tril(other)))[1]).all()
    np.testing.assert_allclose(sums_of(jnp.asarray(draws)), draws.sum(axis=0), atol=1e-12)


def test_no_factor_and_no_solve_on_a_cpu_is_divided_among_threads():
    """That is, none of 256 rows, and none of 1,024 numbers."""
    program = jax.make_jaxpr(by_halves)(np.eye(600, dtype=np.float32)).jaxpr
    found = [(str(eqn.primitive), eqn.outvars[0].aval.shape) for eqn in program.eqns]
    rows = [shape[-1] for name, shape in found if name == "cholesky"]
    sizes = [math.prod(shape[-2:]) for name, shape in found if "triangular" in name]
    assert len(rows) == 4
    assert max(rows) < 256
    assert max(sizes) < 1024
