"""Pool selection for users: what learners gain from points that were chosen, on 21 pools.

The selectors are those of :func:`jaxmkl.design.from_points`, with its defaults, and the points
nearest to the centres of k-means.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import jax
import numpy as np
import scipy.sparse
import sklearn.datasets
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import jaxmkl
from jaxmkl import design
from jaxmkl.evaluate import Row, rows

from ..options import refused
from .design_pools import TEXTS, Points, split_at_random, tf_idf
from .design_wins import apart, score_of
from .paper import Job

Labelled: TypeAlias = tuple[Points, np.ndarray]  # points and their classes
SELECTORS: Mapping[str, Mapping[str, object]] = {  # arguments of from_points
    "random": {"method": "random"},
    "ted": {"method": "ted"},
    "facility": {"method": "facility"},
    "kmeans": {},
    "ted_columns": {"method": "ted", "share_of": "columns"},
}
BUNDLED: Mapping[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    name: functools.partial(getattr(sklearn.datasets, f"load_{name}"), return_X_y=True)
    for name in ("digits", "breast_cancer", "wine", "iris")
}
DENSE = (
    *("sonar", "heart", "segmentation", "australian", "orl", "german", "svmguide3", "spambase"),
    *("magic04", "mushrooms", "madelon", "a9a", "cod_rna", "susy"),
)
COUNTS = tuple(range(5, 51, 5))
DRAWS = 5  # of random points, a split
MOST_POINTS, MOST_TESTS = 2000, 1000
LEARNERS: Mapping[str, Callable[[], SVC | KNeighborsClassifier]] = {
    "c10": lambda: SVC(C=10.0),
    "c1": lambda: SVC(C=1.0),
    "neighbour": lambda: KNeighborsClassifier(1),
}
UNITS = {f"{what}_{name}": (1e-2, "%") for what in ("accuracy", "gain") for name in LEARNERS}
NOTES = (
    "accuracy: mean over 5, 10, ..., 50 labels, of an RBF SVC (C = 10 or 1, gamma 'scale') or the "
    "nearest neighbour; gain: over random points, the mean of five draws in the same split; ± the "
    "deviation over splits, for the standard error divide by the root of the seeds",
    f"a split: 70 % of the points are the pool, at most {MOST_POINTS:,}, and the others the test, "
    f"at most {MOST_TESTS:,}; columns are standardised by the pool, texts are tf-idf in rows of "
    "length 1",
    "ted, facility: the defaults of jaxmkl.design.from_points; ted_columns: the same kernel with "
    "the papers' ridge, a tenth of lambda_max; kmeans: the points nearest to k centres",
)


def points_of(job: Job, name: str) -> tuple[Points, np.ndarray]:
    """Return the points (n, D) of a data set as they stand, texts as tf-idf, and classes (n,)."""
    if name in BUNDLED:
        return BUNDLED[name]()
    with refused(), np.load(job.path(name), allow_pickle=False) as file:
        y = file["y"]
        if "indptr" not in file:
            return file["X"].astype(np.float64), y
        parts = file["data"].astype(np.float64), file["indices"], file["indptr"]
        X = scipy.sparse.csr_matrix(parts, tuple(file["shape"]))
    return tf_idf(X) if name in TEXTS else X.toarray(), y


def standardised(X: Points, pool: np.ndarray, test: np.ndarray) -> tuple[Points, Points]:
    """Return the points of the pool and the test, columns standardised by the pool if dense."""
    if scipy.sparse.issparse(X):
        return X[pool], X[test]
    mean, deviation = X[pool].mean(axis=0), X[pool].std(axis=0)
    constant = deviation <= 1e-12 * np.abs(mean)
    scaled = np.where(constant, 0.0, (X - mean) / np.where(constant, 1.0, deviation))
    return scaled[pool], scaled[test]


def splits_of(
    job: Job, dataset: str, most_points: int, most_tests: int
) -> Iterator[tuple[Labelled, Labelled]]:
    """Yield the pool and the test of each split of a data set."""
    X, y = points_of(job, dataset)
    for pool, test in zip(*split_at_random(len(y), job.seeds), strict=True):
        pool, test = pool[:most_points], test[:most_tests]
        points, others = standardised(X, pool, test)
        yield (points, y[pool]), (others, y[test])


def nearest_to_centres(X: Points, number: int, seed: int) -> np.ndarray:
    """Return the points (number,) nearest to the centres of k-means.

    >>> sorted(nearest_to_centres(np.array([[0.0], [0.2], [0.4], [9.0]]), 2, seed=0).tolist())
    [1, 3]
    """
    means = KMeans(number, n_init=1, max_iter=50, random_state=seed).fit(X)
    distances = means.transform(X)
    others = np.arange(number)[None] != means.labels_[:, None]
    return np.where(others, np.inf, distances).argmin(axis=0)


def chosen(name: str, X: Points, seed: int) -> list[np.ndarray]:
    """Return the points (k,) of a pool to label, for each of the ``COUNTS``."""
    counts = [min(k, X.shape[0]) for k in COUNTS]
    if name == "kmeans":
        return [nearest_to_centres(X, k, seed) for k in counts]
    key = jax.random.fold_in(jax.random.key(seed), 1)
    found = design.from_points(X, counts[-1], key=key, **SELECTORS[name])  # type: ignore[arg-type]
    return [np.asarray(found.ranking)[:k] for k in counts]


def accuracies(pool: Labelled, test: Labelled, labelled: Sequence) -> np.ndarray:
    """Return the accuracies (L,) of the learners, means over sets of labelled points."""
    known = [tuple(part[points] for part in pool) for points in labelled]
    found = [[score_of(make(), given, test) for make in LEARNERS.values()] for given in known]
    return np.mean(found, axis=0)


def measured(job: Job, dataset: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the accuracies (S, L) of each selector; random ones are means of several draws."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for s, (pool, test) in enumerate(splits_of(job, dataset, MOST_POINTS, MOST_TESTS)):
        for name in names:
            seeds = range(DRAWS * s, DRAWS * s + (DRAWS if name == "random" else 1))
            each = [accuracies(pool, test, chosen(name, pool[0], seed)) for seed in seeds]
            found[name].append(np.mean(each, axis=0))
    return {name: np.stack(each) for name, each in found.items()}


def verdicts(measured: Sequence[Row]) -> list[str]:
    """Return a line for each selector: on how many pools it is apart from random points.

    >>> gains = {"gain_c10": [0.1, 0.11, 0.12], "gain_c1": [-0.2, -0.21, -0.22]}
    >>> verdicts(rows(("design", "wine", "ted"), gains))
    ['ted: pools better / worse by two standard errors: c10 1 / 0, c1 0 / 1, of 1']
    """
    gains: dict[str, dict[str, list[Row]]] = {}
    for one in measured:
        if one.metric.startswith("gain_"):
            gains.setdefault(one.algorithm, {}).setdefault(one.metric[5:], []).append(one)
    text, lines = "pools better / worse by two standard errors", []
    for name, of_name in gains.items():
        parts = [f"{what} {' / '.join(map(str, apart(some)))}" for what, some in of_name.items()]
        lines.append(f"{name}: {text}: {', '.join(parts)}, of {len(next(iter(of_name.values())))}")
    return lines


def selectors(job: Job) -> None:
    """Show what learners gain from chosen points over random ones."""
    datasets, names = job.among("selectors", (*DENSE, *TEXTS, *BUNDLED), tuple(SELECTORS))
    if job.options.datasets is None:
        datasets = tuple(dict.fromkeys((*datasets, *BUNDLED)))
    names = tuple(dict.fromkeys(("random", *names)))
    found: list[Row] = []
    for dataset in job.report.steps("selectors", datasets):
        scores = measured(job, dataset, names)
        for name, accuracy in scores.items():
            figures = {"accuracy": accuracy}
            if name != "random":
                figures["gain"] = accuracy - scores["random"]
            values = {
                f"{figure}_{learner}": of_learner
                for figure, of_learners in figures.items()
                for learner, of_learner in zip(LEARNERS, of_learners.T, strict=True)
            }
            parameters = {"labels": COUNTS, "draws": DRAWS if name == "random" else None}
            found += rows(("design", dataset, name), values, parameters=parameters)
    notes = [*NOTES, *verdicts(found)]
    title = "Accuracy with 5 to 50 labels, and the gain over random points"
    job.report.table(title, found, units=UNITS, notes=notes)


RARE, RARE_POINTS, RARE_INPUTS, RARE_CLUSTERS, RARE_FEATURES = "rare", 100_000, 10, 20, 200
SHARES = (100, 1000)  # one point in so many belongs to the rare cluster
FINDERS = ("random", "ted", "facility", "ted_features")


def with_rare_cluster(seed: int, one_in: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, D) around twenty centres and a rare one, and who belongs to that (n,).

    >>> int(with_rare_cluster(0, 100)[1].sum())
    1000
    """
    draws = np.random.default_rng(seed)
    centres = draws.normal(scale=2.0, size=(RARE_CLUSTERS + 1, RARE_INPUTS))
    which = draws.integers(RARE_CLUSTERS, size=RARE_POINTS)
    which[draws.permutation(RARE_POINTS)[: RARE_POINTS // one_in]] = RARE_CLUSTERS
    return centres[which] + draws.normal(size=(RARE_POINTS, RARE_INPUTS)), which == RARE_CLUSTERS


def ranked_by(name: str, X: np.ndarray, seed: int) -> np.ndarray:
    """Return the first points (50,) of a pool by a selector, or by random features of all."""
    if name != "ted_features":
        return chosen(name, X, seed)[-1]
    X = jaxmkl.tables.scale(X, "standard")
    draws = np.random.default_rng(seed).normal(size=(RARE_INPUTS, RARE_FEATURES // 2))
    angles = X @ (draws / jaxmkl.kernels.median_distance(X))
    features = np.hstack([np.cos(angles), np.sin(angles)]) / (RARE_FEATURES / 2) ** 0.5
    return np.asarray(design.ted(features=features, num_points=COUNTS[-1]).ranking)


def rare(job: Job) -> None:
    """Show how soon a rare cluster of a large pool is found."""
    datasets, names = job.among("rare", (RARE,), FINDERS)
    found: list[Row] = []
    with job.report.progress("rare", len(SHARES) * len(datasets)) as step:
        for one_in in SHARES:
            step(f"one in {one_in}")
            pools = [with_rare_cluster(seed, one_in) for seed in range(job.seeds)]
            for name in names:
                first = [
                    int(np.append(np.flatnonzero(is_rare[ranked_by(name, X, seed)]), 50)[0]) + 1
                    for seed, (X, is_rare) in enumerate(pools)
                ]
                values = {"found_rate": np.array(first) <= COUNTS[-1], "first": first}
                found += rows(("design", f"{RARE} {one_in}", name), values)
    notes = (
        f"{RARE_POINTS:,} points around {RARE_CLUSTERS} centres, one in 100 or 1,000 around "
        "another; found rate: pools in which one of the first 50 points is of that cluster; "
        "first: its place, 51 if there is none",
        "ted, facility: from 4,000 points that are drawn; ted_features: from all points, by "
        f"{RARE_FEATURES} random features of the same kernel",
    )
    units = {"found_rate": (1e-2, "%")}
    job.report.table("A rare cluster in a large pool", found, units=units, notes=notes)
