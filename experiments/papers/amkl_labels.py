"""Runs of expert_mkl with some of the labels, also those that scikit-activeml asks for."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from jaxmkl.evaluate import Row
from jaxmkl.query import Disagreement, Query, Random, Rate

from ..asked import STRATEGIES, asked_by, installed
from ..evaluate import Stream, candidate, evaluate
from .amkl_runs import CLASSIFICATION, MSE, of_both_tasks, stream_of, with_fixed_bank
from .paper import Job

LABEL_RATES = (0.02, 0.05, 0.1, 0.2, 0.5)

# Strategies of other packages see one example at a time, so there are fewer orders and examples.
PEER_RATES = (0.05, 0.1, 0.2, 0.5)
PEER_SEEDS = 4
PEER_ROUNDS = 2000


def labels(job: Job) -> None:
    """Run expert_mkl with several shares of labels: the most useful, random, every k-th."""
    queries: dict[str, Query] = {}
    for share in LABEL_RATES:
        queries[f"expert_mkl (rate {share:g})"] = Rate(share)
        queries[f"expert_mkl (chance {share:g})"] = Random(share)
        queries[f"expert_mkl (every {1 / share:g}th)"] = Disagreement(math.inf, 1 / share - 1)

    def query_of(dataset: str, name: str) -> dict[str, Query]:
        return {"query": queries[name]} if name in queries else {}

    job = with_fixed_bank(job)
    found = of_both_tasks(job, "labels", (*queries, "expert_mkl"), query_of)
    notes = ["rate: jaxmkl.query.Rate; every kth: regardless of the models; banks: fixed"]
    job.report.table("expert_mkl with some of the labels", found, units=MSE, notes=notes)
    datasets = [name for name in dict.fromkeys(r.dataset for r in found) if name in CLASSIFICATION]
    if datasets and installed():
        strategies(job, datasets)
    elif datasets:
        job.report.say("labels: scikit-activeml is not installed, its strategies are left out")


def some(job: Job, dataset: str) -> Stream:
    """Read a stream; of a longer one draw PEER_ROUNDS examples, always the same."""
    stream = stream_of(job, dataset)
    chosen = np.random.default_rng(0).permutation(len(stream.y))[:PEER_ROUNDS]
    name = f"{stream.name}, {len(chosen)} examples"
    return dataclasses.replace(stream, name=name, X=stream.X[chosen], y=stream.y[chosen])


def strategies(job: Job, datasets: Sequence[str]) -> None:
    """Run the same learner with the strategies of scikit-activeml, on shorter streams."""
    asking: dict[str, tuple[str, float]] = {
        f"expert_mkl ({how} {share:g})": (how, share)
        for share in PEER_RATES
        for how in ("rate", "chance", *STRATEGIES)
    }
    make = functools.partial(candidate, factory="expert_mkl", task="classification", banks="fixed")
    ours, seeds = {"rate": Rate, "chance": Random}, min(job.seeds, PEER_SEEDS)
    found: list[Row] = []
    for stream, name in job.each("strategies", datasets, [*asking], some):
        how, share = asking[name]
        query = {"query": ours[how](share)} if how in ours else {}
        made = make(name, settings=job.options.settings, **query)
        if how in ours:
            runs = evaluate(made.learner, stream, seeds, permute=True)
        else:
            runs = asked_by(how, share, made.learner, stream, seeds)
        found += runs.rows("amkl", stream.name, made)
    title = "The same learner, its labels asked for by rate, by chance, by scikit-activeml"
    notes = [f"{PEER_ROUNDS} examples at most, as a strategy is asked one after the other"]
    job.report.table(title, found, notes=notes)
