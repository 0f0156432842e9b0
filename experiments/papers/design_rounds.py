"""From the pool to the stream: the first points without labels, the next ones by their margin."""

from collections.abc import Mapping

import jax
import numpy as np
from sklearn.svm import SVC

from jaxmkl import design
from jaxmkl.evaluate import Row, rows

from .design_selectors import BUNDLED, DRAWS, Labelled, Points, splits_of
from .paper import Job

POOLS = (
    *("german", "spambase", "magic04", "a9a", "cod_rna", "australian", "reuters_4class"),
    *("digits", "breast_cancer"),
)
MOST_POINTS = 1000  # of the pool, and of the test
EVERY, MOST_LABELS = 5, 200
EARLY = 50  # labels, up to which results are early
PLANS: Mapping[str, tuple[str, int]] = {  # the selector of the first points, and their number
    "random": ("random", MOST_LABELS),
    "ted": ("ted", MOST_LABELS),
    "random + margin": ("random", 5),
    "ted + margin": ("ted", 20),
    "facility + margin": ("facility", 20),
}
UNITS = {f"{what}_{time}": (1e-2, "%") for what in ("accuracy", "gain") for time in ("50", "200")}
NOTES = (
    f"accuracy 50: the mean over 10, 15, ..., {EARLY} labels of an RBF SVC (C = 10, gamma "
    f"'scale'); 200: over {EARLY + 10}, ..., {MOST_LABELS}; gain: over random points, the mean "
    f"of {DRAWS} draws in the same split; ± the deviation over splits",
    "ted + margin: 20 points by jaxmkl.design.from_points, then the five at a time that are "
    "closest to the boundary of the SVC, of several classes those whose two highest values are "
    "closest; random + margin: the same after five random points",
    f"pool and test: at most {MOST_POINTS:,} points each",
)


def margins(model: SVC, X: Points) -> np.ndarray:
    """Return for each point (n,) how far the two highest decision values are apart.

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = SVC(C=10.0).fit(X, [0, 0, 1, 1])
    >>> margins(model, np.array([[0.0], [2.0]])).round(1).tolist()
    [0.0, 1.0]
    """
    values = model.decision_function(X)
    if values.ndim == 1:
        return np.abs(values)
    highest = np.sort(values, axis=1)
    return highest[:, -1] - highest[:, -2]


def accuracies(pool: Labelled, test: Labelled, plan: str, key: jax.Array) -> np.ndarray:
    """Return the accuracies (N,) after 5, 10, ... labels, the points chosen by a plan."""
    X, y = pool
    n = X.shape[0]
    selector, number = PLANS[plan]
    found = design.from_points(X, min(number, n), method=selector, key=key)
    first = np.asarray(found.ranking).tolist()
    spare = np.asarray(design.random(key, n).ranking)  # where there is no margin yet
    labelled: list[int] = []
    model: SVC | None = None  # None while all labels are of one class
    scores = []
    for k in range(EVERY, min(MOST_LABELS, n) + 1, EVERY):
        if k <= len(first):
            labelled = first[:k]
        else:
            known = np.isin(np.arange(n), labelled)
            order = spare if model is None else np.argsort(margins(model, X), kind="stable")
            labelled = [*labelled, *order[~known[order]][:EVERY].tolist()]
        if (y[labelled] == y[labelled[0]]).all():
            scores.append((test[1] == y[labelled[0]]).mean())
            continue
        model = SVC(C=10.0).fit(X[labelled], y[labelled])
        scores.append(model.score(*test))
    return np.array(scores)


def early_and_late(what: str, curves: np.ndarray) -> dict[str, np.ndarray]:
    """Return the means (S,) of curves (S, N) from 10 labels to ``EARLY``, and after that."""
    parts = {"50": slice(1, EARLY // EVERY), "200": slice(EARLY // EVERY + 1, None)}
    return {f"{what}_{time}": curves[:, part].mean(axis=1) for time, part in parts.items()}


def rounds(job: Job) -> None:
    """Show the accuracy to 200 labels when the first points are chosen without labels."""
    datasets, _ = job.among("rounds", POOLS, tuple(job.algorithms))
    if job.options.datasets is None:
        bundled = [name for name in POOLS if name in BUNDLED]
        datasets = tuple(dict.fromkeys((*datasets, *bundled)))
    found: list[Row] = []
    for dataset in job.report.steps("rounds", datasets):
        curves = of_pool(job, dataset)
        for plan, accuracy in curves.items():
            values = early_and_late("accuracy", accuracy)
            if plan != "random":
                values |= early_and_late("gain", accuracy - curves["random"])
            labels = EVERY * np.arange(1, accuracy.shape[1] + 1)
            parameters = {"labels": labels, "accuracies": accuracy.mean(axis=0)}
            found += rows(("design", dataset, plan), values, parameters=parameters)
    title = f"Accuracy to {MOST_LABELS} labels: first the pool, then the margin"
    job.report.table(title, found, units=UNITS, notes=NOTES)


def of_pool(job: Job, dataset: str) -> dict[str, np.ndarray]:
    """Return the accuracies (S, N) of each plan, of random points the mean of several draws."""
    curves: dict[str, list[np.ndarray]] = {plan: [] for plan in PLANS}
    for s, split in enumerate(splits_of(job, dataset, MOST_POINTS, MOST_POINTS)):
        for plan in PLANS:
            keys = jax.random.split(jax.random.key(s), DRAWS if plan == "random" else 1)
            each = [accuracies(*split, plan, key) for key in keys]
            curves[plan].append(np.mean(each, axis=0))
    return {plan: np.stack(each) for plan, each in curves.items()}
