"""Experimental design where digits run out: very large or small numbers, and far from 0."""

from fractions import Fraction

import numpy as np
import pytest

from jaxmkl import design
from tests.common.marks import quick

SMALL_PROGRAMS = True
METHODS = ("ted", "facility", "cted", "rrss", "gmkal", "lmkal")


def points(n: int = 20) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def found(method: str, scale: float, **settings: float) -> design.Design:
    """The design of a linear kernel times the scale, with a wide Gaussian where two are wanted."""
    X = points()
    gram = X @ X.T
    if method in ("gmkal", "lmkal"):
        gram = np.stack([gram, design.dictionary(X)[1]])
    return getattr(design, method)((gram * scale).astype(np.float32), **settings)


@pytest.mark.parametrize("method", quick(("ted",), METHODS))
@pytest.mark.parametrize("scale", [2.0**54, 2.0**-66])
def test_kernels_of_any_size_have_one_design(method: str, scale: float) -> None:
    """Products of three numbers of 1e16 are beyond those of float32."""
    one, other = found(method, 1.0), found(method, scale)
    factor = np.sqrt(scale) if method == "rrss" else scale
    chosen = slice(min(3, int(one.num_active)))
    np.testing.assert_array_equal(other.ranking[chosen], one.ranking[chosen])
    last = [np.asarray(of.objective)[np.isfinite(of.objective)][-1] for of in (one, other)]
    np.testing.assert_allclose(last[1], last[0] * factor, rtol=1e-4)
    unit = factor if method in ("ted", "facility") else 1.0
    np.testing.assert_allclose(other.scores, one.scores * unit, rtol=1e-2, atol=1e-2 * unit)
    if method != "facility":
        largest = 0.3 * factor
        absolute = [found(method, 1.0, regularization=0.3, absolute=True)]
        absolute.append(found(method, scale, regularization=largest, absolute=True))
        assert absolute[0].num_active == absolute[1].num_active


@pytest.mark.slow
def test_weights_of_each_point_keep_their_digits_from_features() -> None:
    """The error of what is left is a sum of squares, not a difference of larger numbers."""
    features = np.random.default_rng(0).normal(size=(2, 40, 4)).astype(np.float32)
    objective = np.asarray(design.lmkal(features=features, regularization=1e-6).objective)
    objective = objective[np.isfinite(objective)]
    by_one = np.asarray(design.gmkal(features=features, regularization=1e-6).objective)
    assert 0.9 < objective[-1] / by_one[np.isfinite(by_one)][-1] < 1.001


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_rounding_is_not_taken_for_a_minimum() -> None:
    X = np.random.default_rng(9).normal(size=(30, 3))
    grams = design.dictionary(X, centre=False, normalise="max_abs").astype(np.float32)
    assert design.lmkal(grams, 1e-2).converged
    assert not design.lmkal(grams, 1e-6).converged


@pytest.mark.slow
def test_a_penalty_lost_in_rounding_is_refused() -> None:
    X = points(60)
    gram = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / 1e4).astype(np.float32)
    with pytest.raises(ValueError, match="cted: regularization must be larger, as float32 has"):
        design.cted(gram, 1e-7)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e9])
def test_the_papers_kernels_far_from_the_origin(offset: float) -> None:
    X = points(8) + offset
    exact = [[Fraction(x) for x in row] for row in X.tolist()]
    inner = np.array(
        [[sum(a * b for a, b in zip(x, y, strict=True)) for y in exact] for x in exact]
    )
    grams = design.dictionary(X, normalise="none")
    for gram, degree in zip(grams[6:], (2, 4, 1), strict=True):
        power = inner**degree
        means = power.sum(axis=0) / 8
        wanted = (power - means[:, None] - means[None, :] + means.sum() / 8).astype(float)
        np.testing.assert_allclose(gram, wanted, atol=1e-14 * np.abs(wanted).max())
    near = np.array(
        [
            [float(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for y in exact]
            for x in exact
        ]
    )
    wanted = design.centred(np.exp(-near / (2 * near.max())))
    np.testing.assert_allclose(grams[0], wanted, atol=1e-14)
