"""Where wins of several kernels may come from: penalties tuned on labels, of one method or both.

The papers tune the penalty of their method, and do not say how on what labels. Here a tuned
penalty is that of each split with the highest mean accuracy on its test points, which no one who
chooses points has: it shows what tuning can give at most. The largest penalties let all
coefficients vanish. Then all scores are 0, and the ranking is the order of the pool, which is
random: so a method that is tuned may win as one of several random draws.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from jaxmkl.evaluate import Row, rows

from . import design_pools as pools
from .design_wins import ABOUT_WINS, PERCENT, accuracies, compare
from .paper import Job

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


def best_of(accuracy: np.ndarray) -> np.ndarray:
    """Return for each split the penalty with the highest mean accuracy, of (P, S, N).

    Of equal ones it is the smallest.

    >>> best_of(np.array([[[0.5, 0.6]], [[0.7, 0.8]], [[0.75, 0.75]]])).tolist()
    [1]
    """
    return accuracy.mean(axis=2).argmax(axis=0)


def tuned(job: Job) -> None:
    """Show how often gmkal wins if its own penalty, or those of both methods, know the labels."""
    datasets, _ = job.among("tuned", LABELLED, METHODS)
    found: list[Row] = []
    with job.report.progress("tuned", len(datasets) * len(METHODS)) as step:
        for dataset in datasets:
            found += of_dataset(job, dataset, step)
    job.report.table("Wins by penalties tuned on labels", found, units=PERCENT, notes=NOTES)


def chosen(
    name: str, grams: np.ndarray, num_points: int, penalty: float, absolute: bool
) -> pools.Choice:
    """Choose points with a penalty, or with a share of the largest one."""
    settings = {"regularization": penalty, "absolute": absolute}
    return pools.chosen_points(name, grams, num_points, settings)


def of_dataset(job: Job, dataset: str, step: Callable[[str], None]) -> list[Row]:
    """Return the rows of a data set: each reading, and how often nothing was left."""
    splits = pools.splits_of(job, dataset)
    most = int(splits.counts[-1])
    nobody = pools.random_points(job.seeds, splits.pools.shape[1], most)
    known = {"random": accuracies(splits, nobody.ranking)}
    others = {"rrss": (OF_RRSS, True), "cted": (UNTUNED, False)}
    best, left = dict[str, np.ndarray](), dict[str, np.ndarray]()
    with jax.enable_x64(True):
        grams = pools.grams_of(splits.inner, splits.pools)
        for name in METHODS:
            step(f"{dataset} {name}")
            of_method = grams if name in pools.CONSENSUS else grams.mean(axis=1)
            choice = functools.partial(chosen, name, of_method, most)
            on_grid = [choice(penalty, True) for penalty in GRID]
            accuracy = np.stack([accuracies(splits, one.ranking) for one in on_grid])
            places = best_of(accuracy), np.arange(job.seeds)
            best[name] = accuracy[places]
            left[name] = np.stack([one.active for one in on_grid])[places]
            if name in others:
                known[name] = accuracies(splits, choice(*others[name]).ranking)
    found: list[Row] = []
    for reading, (theirs, both) in READINGS.items():
        measured = compare(best["gmkal"], (best if both else known)[theirs])
        found += rows(("design", dataset, reading), measured, seeds=job.seeds)
    return found + rows(("design", dataset, "gmkal tuned"), {"vanished": left["gmkal"] == 0})
