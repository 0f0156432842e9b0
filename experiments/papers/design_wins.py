"""Accuracies of an SVC on points that were chosen, and how often one method's are higher."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.svm import SVC

from jaxmkl.evaluate import Row

from . import design_pools as pools

SVC_C = 10.0
RESAMPLES = 10_000
SHARES = "win_rate", "win_low", "win_high", "splits_low", "splits_high", "difference"
PERCENT = dict.fromkeys((*SHARES, "accuracy", "vanished"), (1e-2, "%"))
ABOUT_WINS = (
    "win rate: the share of the numbers of labels at which the mean accuracy over splits is "
    "higher; equal ones count half",
    "win low, high: the middle 95 % if the numbers of labels are drawn anew; splits low, high: if "
    "the splits are. difference: of the mean accuracies, split by split, ± its deviation over "
    "splits; for the standard error divide by the root of the seeds",
)


def accuracy_of(
    X: np.ndarray | scipy.sparse.csr_matrix, y: np.ndarray, labelled: np.ndarray, test: np.ndarray
) -> float:
    """Return the accuracy on test points (m,) of an RBF SVC that is fitted on labelled ones (k,).

    If all labelled points are of one class, that class is predicted. X has features (n, D), y has
    classes (n,).
    """
    points, others = (X[labelled], y[labelled]), (X[test], y[test])
    return score_of(SVC(C=SVC_C), points, others)


def score_of(model: Any, labelled: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray]) -> float:
    """Return the accuracy on test points of a model that is fitted on labelled ones, X and y each.

    If all labelled points are of one class, that class is predicted.
    """
    X, y = labelled
    if (y == y[0]).all():
        return float((test[1] == y[0]).mean())
    return float(model.fit(X, y).score(*test))


def accuracies(splits: pools.Splits, ranking: np.ndarray) -> np.ndarray:
    """Return accuracies (S, N) of the first points of rankings (S, p) of the pools."""
    return np.array(
        [
            [accuracy_of(splits.X, splits.y, pool[order[:k]], test) for k in splits.counts]
            for pool, test, order in zip(splits.pools, splits.tests, ranking, strict=True)
        ]
    )


def wins(gaps: np.ndarray) -> np.ndarray:
    """Return the share of points (..., N) with a positive gap; a gap of zero is half a win.

    >>> float(wins(np.array([0.1, 0.2, -0.1, 0.0])))
    0.625
    """
    gaps = np.where(np.abs(gaps) < 1e-12, 0.0, gaps)
    return (np.sign(gaps) / 2 + 0.5).mean(axis=-1)


def compare(ours: np.ndarray, theirs: np.ndarray) -> dict[str, np.ndarray]:
    """Compare the accuracies (S, N) of two methods over S splits and N numbers of labels.

    Returns:
        by metric, the share of the numbers of labels at which the mean over splits is higher; the
        ends of the middle 95 % of such shares if the numbers of labels, or the splits, are drawn
        anew; and the differences of the accuracies, means over numbers of labels (S,).
    """
    gaps = ours - theirs
    S, N = gaps.shape
    draws = np.random.default_rng(0)
    over_points = wins(gaps.mean(axis=0)[draws.integers(N, size=(RESAMPLES, N))])
    times = draws.multinomial(S, np.full(S, 1 / S), size=RESAMPLES)
    found = {"win_rate": wins(gaps.mean(axis=0))[None]}
    for name, values in {"win": over_points, "splits": wins(times @ gaps / S)}.items():
        ends = np.quantile(values, [[0.025], [0.975]])
        found |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return {**found, "difference": gaps.mean(axis=1)}


def apart(differences: Sequence[Row]) -> tuple[int, int]:
    """Return how many mean differences are above two standard errors, and how many below.

    >>> from jaxmkl.evaluate import rows
    >>> apart(rows(("design", "wine", "ted"), {"one": [0.1, 0.11], "other": [-0.2, 0.2]}))
    (1, 0)
    """
    limits = [2 * r.std / r.seeds**0.5 if r.seeds > 1 else np.inf for r in differences]
    pairs = list(zip(differences, limits, strict=True))
    better = sum(r.mean > limit for r, limit in pairs)
    return better, sum(r.mean < -limit for r, limit in pairs)
