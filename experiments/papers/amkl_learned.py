"""The banks of models of expert_mkl: kernels that are fixed, and kernels that it learns.

Inputs and target are standardised by the first 1,000 rows; 12,000 rows of a stream are run, in
file order. The figure is the mean squared error after the first 1,000 rows as a share of the
variance of the target there ("nmse"), and that of the second half of all rows.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1, make_friedman2

from jaxmkl.evaluate import Candidate, Row

from .. import generate
from ..evaluate import Measured, Runs, Stream, candidate
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
    found = job.runs("learned", pairs, lambda d, _: streams[d], built, permute=False)
    for stream, name in job.each("refitted", datasets, BATCH, lambda _, name: streams[name]):
        found.append((stream.name, *refitted(name, stream, np.arange(len(stream.y))[None])))
    rows: list[Row] = []
    for dataset, made, runs in sorted(found, key=lambda one: datasets.index(one[0])):
        rows += Measured(measured(runs), runs.seconds_per_run).rows("amkl", dataset, made)
    notes = [
        f"standardised by the first {FIRST} rows, at most {ROWS} rows in file order",
        f"nmse: the error after the first {FIRST} rows as a share of the variance there",
        f"refitted: scikit-learn's defaults, fitted every {EVERY} rounds on all examples so far",
    ]
    job.report.table("Kernels that are learned", rows, notes=notes)
