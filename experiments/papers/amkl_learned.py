"""Kernels that expert_mkl learns, and its predictive distributions.

Inputs and target are standardised by the first 1,000 rows; 12,000 rows of a stream are run, in
file order. The figure is the mean squared error after the first 1,000 rows as a share of the
variance of the target there ("nmse"), and that of the second half of all rows.

Distributions are judged by log scores, CRPS, and the coverage of intervals, up to row 6,000. They
are compared, around the same predictions, with a normal distribution of the variance that the
learner itself knows, and a t with 4 degrees of freedom and the variance of the last 200 errors.
The intervals of both lines are conformal: as wide as the distribution says, or the same for all x.
The latter are measured around fixed kernels, too.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from scipy import stats
from sklearn.datasets import make_friedman1, make_friedman2

import jaxmkl
from jaxmkl.evaluate import Candidate, Row
from jaxmkl.metrics import coverage, width
from jaxmkl.wrappers import intervals, predictive

from .. import generate
from ..evaluate import Runs, Stream, candidate, in_sequence, keys_of
from ..refitted import EVERY, MODELS, refitted
from .amkl_runs import REGRESSION
from .paper import Job

FIRST = 1_000
ROWS = 12_000
SEEDS = 3

TABLES = ("kin40k", "elevators", "pol", "sml")
GENERATED: Mapping[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "friedman1": lambda: make_friedman1(ROWS, 10, noise=0.1, random_state=0),
    "friedman2": lambda: make_friedman2(ROWS, noise=0.1, random_state=0),
    "few_of_32": lambda: generate.few_of_many(0, 8_000),
    "ridges_of_32": lambda: generate.ridges(0, 8_000),
}
DATASETS = (*GENERATED, *TABLES, *(name for name in REGRESSION if name != "naval"))

LIKELIHOOD = "likelihood_diagonal", "likelihood_full"
DEFAULT = "fixed", "full", "likelihood_diagonal", "trees"
BANKS: Mapping[str, tuple[str, ...]] = {
    "expert_mkl (fixed)": ("fixed",),
    "expert_mkl (diagonal)": ("diagonal",),
    "expert_mkl (full)": ("full",),
    "expert_mkl (likelihood)": LIKELIHOOD,
    "expert_mkl (trees)": ("trees",),
    f"expert_mkl ({', '.join(DEFAULT)})": DEFAULT,
    "expert_mkl (fixed, metrics, trees)": ("fixed", "diagonal", "full", "trees"),
    "expert_mkl (fixed, likelihood, trees)": ("fixed", *LIKELIHOOD, "trees"),
}
BATCH = tuple(name for name in MODELS if not name.startswith("gradient"))


def stream_of(job: Job, dataset: str) -> Stream:
    """Read or generate a stream, standardised."""
    if dataset in GENERATED:
        X, y = GENERATED[dataset]()
    else:
        data = job.read(dataset)
        X, y = data.X, data.y
    return Stream(dataset, X[:ROWS], y[:ROWS], "regression").standardised(FIRST)


def measured(runs: Runs) -> dict[str, np.ndarray]:
    """Return the errors (S,) as shares of the variance: after the first rows, and of one half."""
    y = np.asarray(runs.stream.y, np.float64)
    square = np.square(runs.prediction - y[runs.order])
    half = len(y) // 2
    return {
        "nmse": square[:, FIRST:].mean(axis=1) / y[FIRST:].var(),
        "nmse_second_half": square[:, half:].mean(axis=1) / y[half:].var(),
    }


def learned(job: Job) -> None:
    """Run expert_mkl with banks whose kernels are learned, beside refitted batch models."""
    datasets, _ = job.among("learned", DATASETS, ("expert_mkl",))
    streams = {dataset: stream_of(job, dataset) for dataset in datasets}
    job = dataclasses.replace(job, seeds=job.options.seeds or SEEDS)

    def built(stream: Stream, name: str) -> Candidate:
        arguments: dict[str, Any] = {"banks": BANKS[name]}
        return candidate(name, "expert_mkl", stream.task, job.options.settings, **arguments)

    pairs = [(dataset, name) for dataset in datasets for name in BANKS]
    found = job.runs("learned", pairs, lambda d, _: streams[d], built)
    for stream, name in job.each("refitted", datasets, BATCH, lambda _, name: streams[name]):
        found.append((stream.name, *refitted(name, stream, np.arange(len(stream.y))[None])))
    rows: list[Row] = []
    for dataset, made, runs in sorted(found, key=lambda one: datasets.index(one[0])):
        rows += runs.rows("amkl", dataset, made, metrics=measured(runs))
    notes = [
        f"standardised by the first {FIRST} rows, at most {ROWS} rows in file order",
        f"nmse: the error after the first {FIRST} rows as a share of the variance there",
        f"refitted: scikit-learn's defaults, fitted every {EVERY} rounds on all examples so far",
    ]
    job.report.table("Kernels that are learned", rows, notes=notes)


LAST = 6_000
SHARE = 0.9
DEGREES, MEMORY = 4, 200
# Waxman and Djurić (2024), the better of their dynamic and static ensembles of Fourier features
PRINTED = {"friedman1": 0.773, "friedman2": 2.267, "elevators": -0.629, "kin40k": -1.079,
           "pol": -0.35}  # fmt: skip
DENSITIES = tuple(name for name in DATASETS if not name.endswith("of_32"))


def _kept(output: jaxmkl.Output) -> tuple:
    return output.prediction, output.interval, output.distribution


def _of_intervals(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> dict[str, float]:
    shares = [part.mean() for part in np.array_split((low <= y) & (y <= high), 10)]
    return {
        "coverage": float(coverage(low, high, y)),
        "coverage_least": min(shares),
        "coverage_most": max(shares),
        "width": float(width(low, high)),
    }


def of_distribution(learner: jaxmkl.Learner, stream: Stream, key: jax.Array) -> dict[str, float]:
    """Return the figures of distributions, and of intervals as wide as they say."""
    state = learner.init(key, stream.X.shape[1])
    _, kept = jaxmkl.run(learner, state, stream.X, stream.y, record=_kept)
    f, (low, high), found = jax.tree.map(lambda leaf: leaf[FIRST:], kept)
    y = np.asarray(stream.y[FIRST:])
    square = np.square(np.asarray(f, np.float64) - y).mean()
    return {
        "nmse": float(square / np.var(stream.y[FIRST:])),
        "log_score": float(np.mean(np.asarray(found.log_prob(y), np.float64))),
        "crps": float(np.mean(np.asarray(found.crps(y), np.float64))),
        **_of_intervals(np.asarray(low), np.asarray(high), y),
    }


def of_value(learner: jaxmkl.Learner, stream: Stream, key: jax.Array) -> dict[str, float]:
    """Return the figures around the same predictions without them."""
    state = learner.init(key, stream.X.shape[1])
    _, outputs = jaxmkl.run(learner, state, stream.X, stream.y)
    y, f = np.asarray(stream.y, np.float64), np.asarray(outputs.prediction, np.float64)
    known = np.asarray(outputs.variance, np.float64)
    # around a learner that stays at 0 and knows no variance, the errors have one width for all x
    still = intervals(jaxmkl.raker(jaxmkl.Gaussian(1.0), step_size=0.0, num_features=1), SHARE)
    around = still.init(key, 1)
    _, of_errors = jaxmkl.run(still, around, stream.X[:, :1], (y - f).astype(np.float32))
    low, high = (f + np.asarray(end, np.float64) for end in of_errors.interval)
    late = slice(FIRST, None)
    square, running = np.square(y - f), np.empty(len(y))
    running[0] = square[0]
    for t in range(1, len(y)):
        rate = max(1 / t, 1 / MEMORY)
        running[t] = running[t - 1] + rate * (square[t - 1] - running[t - 1])
    scale = np.sqrt(running * (DEGREES - 2) / DEGREES)
    log_t = stats.t.logpdf(y - f, DEGREES, scale=np.maximum(scale, 1e-12))
    return {
        "log_score": float(stats.norm.logpdf(y - f, scale=np.sqrt(known))[late].mean()),
        "log_score_of_t": float(log_t[late].mean()),
        **_of_intervals(low[late], high[late], y[late]),
    }


def printed(_: str, dataset: str, name: str, metric: str) -> float | None:
    """Return the log score of DOEBE that RESULTS.md has for a data set."""
    is_one = name == "expert_mkl" and metric == "log_score"
    return PRINTED.get(dataset) if is_one else None


def densities(job: Job) -> None:
    """Show distributions of expert_mkl by log score and CRPS, and intervals that follow x."""
    datasets, _ = job.among("densities", DENSITIES, ("expert_mkl",))
    keys = keys_of(job.options.seeds or 1)
    found: list[Row] = []
    for dataset in job.report.steps("densities", datasets):
        stream, settings = stream_of(job, dataset).at(slice(LAST)), job.options.settings
        made, fixed = (
            candidate("expert_mkl", "expert_mkl", "regression", given)
            for given in (settings, {**settings, "banks": "fixed"})
        )
        around = made._replace(learner=intervals(predictive(made.learner), SHARE))
        for name, (_, learner, parameters), figures in (
            ("expert_mkl", around, of_distribution),
            ("expert_mkl (no distribution)", made, of_value),
            ("fixed kernels (no distribution)", fixed, of_value),
        ):
            of_name = in_sequence(figures(learner, stream, key) for key in keys)
            one = Candidate(name, learner, parameters)
            found += of_name.rows("amkl", dataset, one, printed)
    notes = [
        f"standardised by the first {FIRST} rows; figures of rows {FIRST} to {LAST}",
        "log score: mean log density of the labels; CRPS in standardised units",
        f"coverage, width: of conformal intervals of {SHARE:.0%}; least and most: of its tenths",
        "printed: ensembles of Fourier features (DOEBE), not run here but for RESULTS.md",
        "no distribution: log score of a normal of the learner's own variance, and of a t with "
        f"{DEGREES} degrees of freedom and the variance of the last {MEMORY} errors; intervals "
        "of one width for all x",
    ]
    job.report.table("Predictive distributions", found, notes=notes)
