"""Online kernel selection beside kernels that are learned by the rows of all columns."""

import dataclasses

import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row

from ..evaluate import Stream, candidate, evaluate
from . import oks_runs as runs
from .paper import Job

ALGORITHMS = ("oks_sil", "expert_mkl")
MOST_ROWS, MOST_SEEDS = 10_000, 5
WAYS = (None, "symmetric")  # how features are scaled

NOTES = (
    f"the same rows, at most {MOST_ROWS:,}, drawn once, in an order for each of at most "
    f"{MOST_SEEDS} seeds; scaled: features on [-1, 1], else as they are",
    "oks_sil: the step size with the fewest mistakes on these orders, "
    f"{runs.budget_of(0)} support vectors, of {runs.LARGE:,} rows {runs.budget_of(runs.LARGE)}; "
    "expert_mkl: its defaults, nothing tuned; features that are not scaled are standardised by "
    "the stream (RunningMoments)",
    "seconds a run: those of all orders at once, shared out evenly, without the search for a step "
    "size and without compilation",
)


def some_rows(stream: Stream) -> Stream:
    """Return at most ``MOST_ROWS`` rows of a stream, drawn at random, under a name that says so.

    >>> X, y = np.zeros((MOST_ROWS + 1, 1)), np.zeros(MOST_ROWS + 1)
    >>> some = some_rows(Stream("long", X, y, "classification"))
    >>> some.name, len(some.y)
    ('long, 10,000 rows', 10000)
    """
    if len(stream.y) <= MOST_ROWS:
        return stream
    drawn = np.random.default_rng(0).permutation(len(stream.y))[:MOST_ROWS]
    name = f"{stream.name}, {MOST_ROWS:,} rows"
    return Stream(name, stream.X[drawn], stream.y[drawn], stream.task)


def learned(job: Job, datasets: tuple[str, ...]) -> None:
    """Show OKS-SIL and expert_mkl on the same orders, features as they are and on [-1, 1]."""
    datasets, names = job.among("learned", datasets, ALGORITHMS)
    few = dataclasses.replace(job, seeds=min(job.seeds, MOST_SEEDS), results={})
    pairs = [(dataset, how) for dataset in datasets for how in WAYS]
    found: list[Row] = []
    for stream, name in few.each("learned", pairs, names, lambda *of: some_rows(runs.read(*of))):
        found += rows_of(few, stream, name)
    job.report.table(
        "A moving width, and kernels that are learned",
        found,
        units=runs.PERCENT,
        parameters=("step_size",),
        hidden=("label_rate",),
        notes=NOTES,
    )


def rows_of(job: Job, stream: Stream, name: str) -> list[Row]:
    """Return the rows of a learner; expert_mkl standardises what is not scaled by the stream."""
    if name == "oks_sil":
        made, scores = runs.run_tuned(job, stream, name)
        return scores.rows("oks", stream.name, made)
    scaled = runs.SCALED["symmetric"] in stream.name
    scaler = None if scaled else jaxmkl.wrappers.RunningMoments()
    made = candidate(name, name, "classification", job.options.settings, scaler=scaler)
    found = evaluate(made.learner, stream, job.seeds, permute=True)
    return found.rows("oks", stream.name, made)
