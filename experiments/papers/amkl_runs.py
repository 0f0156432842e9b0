"""Runs of active learning with multiple kernels: data sets, and learners on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import jaxmkl
from jaxmkl.aggregate import Aggregate, Hedge, Mixture
from jaxmkl.evaluate import Candidate, Row
from jaxmkl.evaluate.rows import Printed

from ..evaluate import Stream, candidate
from .paper import Job, as_published, is_published

REGRESSION = ("twitter", "tom", "air", "energy", "naval")
CLASSIFICATION = ("german", "svmguide3", "spambase", "magic04")

# Rows whose features are scaled online.
ONLINE_RANKS = ("expert_mkl (online ranks)",)

MSE = {"mse": (1e-3, "x 1e-3")}

# The aggregates of expert_mkl, from Hedge to its default.
AGGREGATES: dict[str, Callable[[float | None], Aggregate]] = {
    "expert_mkl (Hedge)": lambda bound: Hedge(1.0 if bound is None else 0.1, bound=bound),
    "expert_mkl (mixture, one memory)": lambda bound: Mixture((1.0,), bound),
    "expert_mkl (mixture)": lambda bound: Mixture(bound=bound),
}


def combined(task: str | None, name: str) -> dict[str, Aggregate]:
    """Return the arguments of a variant of expert_mkl: its aggregate.

    >>> combined("regression", "expert_mkl (mixture, one memory)")["aggregate"].memories
    array([1.])
    >>> combined("regression", "expert_mkl")
    {}
    """
    bound = 1.0 if task == "classification" else None
    return {"aggregate": AGGREGATES[name](bound)} if name in AGGREGATES else {}


def stream_of(job: Job, dataset: str, scale: str | None = "standard") -> Stream:
    """Read a data set: regression as in the paper, the features of classification scaled."""
    how = scale if dataset in CLASSIFICATION else "largest" if dataset == "naval" else None
    return job.stream(dataset, how)


def run_all(
    job: Job,
    part: str,
    datasets: Sequence[str],
    names: Sequence[str],
    arguments: Callable[[Stream, str], Mapping[str, object]] = lambda stream, name: {},
    printed: Printed | None = None,
) -> list[Row]:
    """Return the rows of learners on data sets, after running those that no part has run before.

    A learner's name is that of its factory, followed by words in brackets; for those in
    ONLINE_RANKS, features are scaled online by running ranks instead of by the whole set.
    ``arguments`` returns the factory's arguments for a stream and a name, which a learner as
    published does not take.
    """

    def read(dataset: str, name: str) -> Stream:
        return stream_of(job, dataset, None if name in ONLINE_RANKS else "standard")

    def built(stream: Stream, name: str) -> Candidate:
        if is_published(name):
            return as_published(name, stream)
        scaler = jaxmkl.wrappers.RunningRanks() if name in ONLINE_RANKS else None
        settings, chosen = job.options.settings, arguments(stream, name)
        return candidate(name, name.split(" ")[0], stream.task, settings, scaler, **chosen)

    pairs = [(dataset, name) for dataset in datasets for name in names]
    found = job.runs(part, pairs, read, built)
    return [r for d, made, runs in found for r in runs.rows("amkl", d, made, printed)]


def with_fixed_bank(job: Job) -> Job:
    """Return the job with the fixed bank in expert_mkl, the quickest, and results of its own."""
    options = replace(job.options, settings={"banks": "fixed", **job.options.settings})
    return replace(job, options=options, results=job.results.setdefault(("fixed bank",), {}))
