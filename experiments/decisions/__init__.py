"""Decisions by a learner's own uncertainty: which arm, which point, which label.

A tenth of the labels of regression is asked for by variance, by disagreement, or by chance. The
streams of Hong and Chae are run as in their tables, the others standardised by their first 1,000
rows; all in file order. The seeds draw the features and the queries, so that runs of one seed make
pairs.
"""

import math

import numpy as np

from jaxmkl.evaluate import Candidate, Row
from jaxmkl.query import Query, Random, Rate

from ..evaluate import Stream, candidate
from ..papers import amkl_learned, amkl_runs
from ..papers.paper import Job, Paper
from .arms import BANDITS, bandits
from .search import FUNCTIONS, optimisation

SHARE = 0.1
OF_PAPER = ("tom", "air", "twitter", "energy")
STREAMS = (*OF_PAPER, "friedman1", "elevators", "kin40k")
CHANCE = "chance"
QUERIES: dict[str, Query] = {
    CHANCE: Random(SHARE),
    "rate, by disagreement": Rate(SHARE),
    "rate, by variance": Rate(SHARE, by="variance"),
}


def stream_of(job: Job, dataset: str) -> Stream:
    """Read or generate a stream."""
    return (amkl_runs if dataset in OF_PAPER else amkl_learned).stream_of(job, dataset)


def in_errors(differences: np.ndarray) -> float:
    """Return the mean of paired differences (S,) divided by its standard error.

    >>> round(in_errors(np.array([1.0, 2.0, 3.0])), 3)
    3.464
    """
    if len(differences) < 2:
        return math.nan
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return float(differences.mean() / error) if error > 0 else math.nan


def active(job: Job) -> None:
    """Run expert_mkl with a tenth of the labels, chosen in several ways."""
    datasets, _ = job.among("active", STREAMS, ("expert_mkl",))

    def built(stream: Stream, name: str) -> Candidate:
        settings, query = job.options.settings, QUERIES[name]
        return candidate(name, "expert_mkl", stream.task, settings, banks="fixed", query=query)

    pairs = [(dataset, name) for dataset in datasets for name in QUERIES]
    streams = {dataset: stream_of(job, dataset) for dataset in datasets}
    found: list[Row] = []
    lines: list[str] = []
    by_chance: dict[str, np.ndarray] = {}
    for dataset, made, runs in job.runs("active", pairs, lambda name, _: streams[name], built):
        errors = runs.error[:, -1]
        by_chance.setdefault(dataset, errors)  # chance is the first
        shares = runs.metrics()
        if made.name != CHANCE:
            shares["mse_over_chance"] = errors / by_chance[dataset].mean()
            shares["difference"] = errors - by_chance[dataset]
            errors_apart = in_errors(shares["difference"])
            lines.append(f"{dataset}, {made.name}: {errors_apart:+.1f} standard errors")
        found += runs.rows("decisions", dataset, made, metrics=shares)
    notes = [
        "expert_mkl(banks='fixed'), file order; the seeds draw features and queries",
        "paired differences of the error from that by chance:",
        *lines,
    ]
    title = "Regression with a tenth of the labels"
    job.report.table(title, found, units=amkl_runs.MSE, notes=notes)


DECISIONS = Paper(
    name="decisions",
    title="decisions by what a learner does not know: bandits, optimisation, labels",
    datasets=(*BANDITS, *FUNCTIONS, *STREAMS),
    algorithms={"expert_mkl": "expert_mkl"},
    parts=(bandits, optimisation, active),
    default_parts=("bandits", "optimisation", "active"),
    task="regression",
    generated=(*BANDITS, *FUNCTIONS, "friedman1"),
    parts_without_files=("bandits", "optimisation"),
    optional_files=True,
)
