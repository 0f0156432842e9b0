"""Accuracies of an SVC on points that were chosen, and how often one method's are higher.

The part "tuned" shows where wins of several kernels may come from: penalties tuned on labels, of
one method or both.

The papers tune the penalty of their method, and do not say how on what labels. Here a tuned
penalty is that of each split with the highest mean accuracy on its test points, which no one who
chooses points has: it shows what tuning can give at most. The largest penalties let all
coefficients vanish. Then all scores are 0, and the ranking is the order of the pool, which is
random: so a method that is tuned may win as one of several random draws.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.svm import SVC

from jaxmkl.evaluate import Row, rows

from ..options import Settings
from . import design_pools as pools
from .paper import Job

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


def score_of(model: Any, labelled: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray]) -> float:
    """Return the accuracy on test points of a model that is fitted on labelled ones, X and y each.

    If all labelled points are of one class, that class is predicted.
    """
    X, y = labelled
    if (y == y[0]).all():
        return float((test[1] == y[0]).mean())
    return float(model.fit(X, y).score(*test))


def accuracies(splits: pools.Splits, ranking: np.ndarray) -> np.ndarray:
    """Return accuracies (S, N) of an SVC on the first points of rankings (S, p) of the pools."""
    X, y, counts = splits.X, splits.y, splits.counts
    found = []
    for pool, test, order in zip(splits.pools, splits.tests, ranking, strict=True):
        first = (pool[order[:k]] for k in counts)
        found.append([score_of(SVC(C=SVC_C), (X[p], y[p]), (X[test], y[test])) for p in first])
    return np.array(found)


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

    >>> apart(rows(("design", "wine", "ted"), {"one": [0.1, 0.11], "other": [-0.2, 0.2]}))
    (1, 0)
    """
    limits = [2 * r.std / r.seeds**0.5 if r.seeds > 1 else np.inf for r in differences]
    pairs = list(zip(differences, limits, strict=True))
    better = sum(r.mean > limit for r, limit in pairs)
    return better, sum(r.mean < -limit for r, limit in pairs)


GRID = tuple(10.0**k for k in range(-3, 4))  # the paper's penalties themselves
OF_RRSS = 0.01  # at which the paper leaves it
UNTUNED = 0.1  # share of the largest penalty
LABELLED = ("sonar", "heart", "segmentation", "australian", *pools.BUNDLED)
METHODS = ("cted", "rrss", "gmkal")
#: Against what gmkal stands, and whether that is tuned too.
READINGS = {
    "gmkal tuned over rrss": ("rrss", False),
    "gmkal tuned over rrss tuned": ("rrss", True),
    "gmkal tuned over cted": ("cted", False),
    "gmkal tuned over cted tuned": ("cted", True),
    "gmkal tuned over random": ("random", False),
}
NOTES = (
    "tuned: in each split the penalty of 0.001, 0.01, ..., 1000 with the highest mean accuracy on "
    f"the test points; not tuned: rrss has {OF_RRSS:g}, cted {UNTUNED:g} of its largest penalty; "
    "cted and rrss on the average kernel",
    *ABOUT_WINS,
    "vanished: the share of splits whose tuned penalty leaves no coefficient of gmkal, so that "
    "its points are the first of the pool, in random order",
)


def tuned(job: Job) -> None:
    """Show how often gmkal wins if its own penalty, or those of both methods, know the labels."""
    datasets, _ = job.among("tuned", LABELLED, METHODS)
    found: list[Row] = []
    with job.report.progress("tuned", len(datasets) * len(METHODS)) as step:
        for dataset in datasets:
            found += of_dataset(job, dataset, step)
    job.report.table("Wins by penalties tuned on labels", found, units=PERCENT, notes=NOTES)


def of_dataset(job: Job, dataset: str, step: Callable[[str], None]) -> list[Row]:
    """Return the rows of a data set: each reading, and how often nothing was left."""
    splits = pools.splits_of(job, dataset)
    most = int(splits.counts[-1])
    nobody = pools.random_points(job.seeds, splits.pools.shape[1], most)
    known = {"random": accuracies(splits, nobody.ranking)}
    others: dict[str, Settings] = {
        "rrss": {"regularization": OF_RRSS, "absolute": True},
        "cted": {"regularization": UNTUNED, "absolute": False},
    }
    best, left = dict[str, np.ndarray](), dict[str, np.ndarray]()
    with jax.enable_x64(True):
        grams = pools.grams_of(splits.inner, splits.pools)
        for name in METHODS:
            step(f"{dataset} {name}")
            of_method = grams if name in pools.CONSENSUS else grams.mean(axis=1)
            choice = functools.partial(pools.chosen_points, name, of_method, most)
            on_grid = [choice({"regularization": one, "absolute": True}) for one in GRID]
            accuracy = np.stack([accuracies(splits, one.ranking) for one in on_grid])
            # of each split the penalty with the highest mean accuracy, of equal ones the smallest
            places = accuracy.mean(axis=2).argmax(axis=0), np.arange(job.seeds)
            best[name] = accuracy[places]
            left[name] = np.stack([one.active for one in on_grid])[places]
            if name in others:
                known[name] = accuracies(splits, choice(others[name]).ranking)
    found: list[Row] = []
    for reading, (theirs, both) in READINGS.items():
        measured = compare(best["gmkal"], (best if both else known)[theirs])
        found += rows(("design", dataset, reading), measured, seeds=job.seeds)
    return found + rows(("design", dataset, "gmkal tuned"), {"vanished": left["gmkal"] == 0})
