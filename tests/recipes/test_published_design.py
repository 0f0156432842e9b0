"""Experimental design as published, step by step, against the literal algorithms in float64."""

from typing import Any

import numpy as np
import pytest

from jaxmkl import design
from tests.common.marks import long
from tests.oracles import design as oracle

SMALL_PROGRAMS = FEW_ROWS = True

pytestmark = pytest.mark.usefixtures("x64")

EPS, N = 1e-16, 30
# what the paper does: plain steps, an absolute penalty; the tolerance never ends them
PLAIN: dict[str, Any] = {"absolute": True, "accelerate": False, "tolerance": 0.0}
LITERAL = {"centre": False, "normalise": "max_abs"}
CENTRINGS = pytest.mark.parametrize("centre", [True, False])


def grams_of(centre: bool) -> np.ndarray:
    """The nine kernels over a pool, centred as by default, or not, with entries up to 1."""
    X = np.random.default_rng(5).normal(size=(N, 4)) * [3, 2, 1, 1]
    return design.dictionary(X) if centre else design.dictionary(X, **LITERAL)


def scores_of(A: np.ndarray) -> np.ndarray:
    return np.abs(A).sum(axis=1)


def smoothed(A: np.ndarray) -> float:
    """The change that eps makes to the sum of the rows' norms."""
    return float((np.sqrt(oracle.rows(A) ** 2 + EPS) - np.sqrt(EPS) - oracle.rows(A)).sum())


def assert_same(found: design.Design, A: np.ndarray) -> None:
    """The scores, and the ranking of points whose scores differ."""
    scores = scores_of(A)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-9, atol=1e-9 * scores.max())
    best = np.argsort(-scores, kind="stable")[:5]
    np.testing.assert_array_equal(np.asarray(found.ranking)[:5], best)


@pytest.mark.slow
@CENTRINGS
def test_cted_takes_the_papers_steps(centre: bool) -> None:
    K = grams_of(centre).mean(axis=0)
    for turns in (2, 20):
        found = design.cted(K, 0.1, max_iterations=turns, smoothing=EPS, **PLAIN)
        assert_same(found, oracle.cted(K, 0.1, EPS, turns))
        assert int(np.isfinite(found.objective).sum()) == turns


@pytest.mark.slow
@CENTRINGS
@pytest.mark.parametrize(
    ("penalty", "turns"), long([(0.01, 4), (0.1, 10)], [(0.01, 1), (0.01, 4), (0.1, 10)])
)
def test_rrss_takes_the_steps_of_its_paper(centre: bool, penalty: float, turns: int) -> None:
    """With .01, as section VII-C has it: errors of rounding then grow tenfold in a step or two.

    It is conditioning, and no tolerance, that ends agreement. The largest condition number of the
    systems K + c_j V, scaled by the rows' sizes, is 3e6 in the fourth step on centred kernels, 7e8
    in the sixth and 5e10 in the tenth, as the smallest r_j² / K_jj is 7e-9, 2e-13 and 0 to all
    digits. The two loops then differ by 6e-12, 2e-9 and 3e-7 of the largest score.
    """
    K = grams_of(centre).mean(axis=0)
    found = design.rrss(K, penalty, max_iterations=turns, smoothing=EPS, **PLAIN)
    assert_same(found, oracle.rrss(K, penalty, EPS, turns))


@pytest.mark.slow
@CENTRINGS
@pytest.mark.parametrize("steps", [1, 12])
def test_gmkal_takes_the_papers_turns(centre: bool, steps: int) -> None:
    """One step for the coefficients before each one for the weights, or several (Algorithm 2)."""
    grams, weights = grams_of(centre), np.full(9, 1 / 9)
    how = {"max_iterations": 4, "steps": steps, "smoothing": EPS}
    found = design.gmkal(grams, 0.01, **how, **PLAIN)
    A, w, value = oracle.gmkal(grams, weights, 0.01, EPS, turns=4, steps=steps)
    assert_same(found, A)
    np.testing.assert_allclose(found.kernel_weights, w, rtol=1e-9)
    np.testing.assert_allclose(found.objective[3], value + 0.01 * smoothed(A), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("centre", "steps"), long([(True, 5)], [(True, 1), (True, 5), (False, 1), (False, 5)])
)
def test_lmkal_takes_the_papers_turns(centre: bool, steps: int) -> None:
    """Algorithm 5, from equal weights: coefficients, the objective, and the weights.

    Where the kernels are not centred, and nearly constant, the quadratic form of the weights has a
    condition number of up to 8e4, and its minimum takes more than 4,000 steps.
    """
    n, turns, wanted = 12, 2, {"smoothing": EPS, "steps": steps}
    grams, Z = grams_of(centre)[:, :n, :n], np.full((n, 9), 1 / 9)
    found = design.lmkal(grams, 0.01, max_iterations=turns, initial_weights=Z, **wanted, **PLAIN)
    A, Z = oracle.lmkal(grams, Z, 0.01, EPS, turns=turns, steps=steps)
    value = oracle.localized_form(grams, A, Z) + 0.01 * (oracle.rows(A).sum() + smoothed(A))
    np.testing.assert_allclose(found.objective[turns - 1], value, rtol=1e-9)
    np.testing.assert_allclose(found.kernel_weights, Z, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.scores, scores_of(A), rtol=1e-9)
