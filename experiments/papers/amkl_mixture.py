"""The aggregates of expert_mkl: on the data sets of the papers, and after abrupt changes."""

import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row

from .. import generate
from ..evaluate import Measured, Runs, Stream, candidate, evaluate, keys_of
from ..refitted import EVERY, MODELS, refitted
from .amkl_runs import (
    AGGREGATES,
    CLASSIFICATION,
    MSE,
    REGRESSION,
    combined,
    run_all,
    stream_of,
    with_fixed_bank,
)
from .paper import Job

VARIANTS = (*AGGREGATES, "expert_mkl")

BATCH_SEEDS = 2  # orders of a batch model; in file order there is one run, as nothing is random


def mixture(job: Job) -> None:
    """Run expert_mkl with different aggregates, beside refitted batch models."""
    job = with_fixed_bank(job)
    datasets, _ = job.among("mixture", (*REGRESSION, *CLASSIFICATION), ("expert_mkl",))
    run_all(job, "mixture", datasets, VARIANTS, lambda stream, name: combined(stream.task, name))
    for stream, name in job.each("refitted", datasets, [*MODELS], stream_of):
        orders = np.arange(len(stream.y))[None]
        if stream.task == "classification":  # the same orders as of the learners
            keys = keys_of(job.seeds)[:BATCH_SEEDS]
            orders = np.asarray(jaxmkl.permutations(keys, len(stream.y)))
        job.results[stream.name, name] = refitted(name, stream, orders)
    found: list[Row] = []
    for dataset in datasets:
        for name in (*VARIANTS, *MODELS):
            made, runs = job.results[dataset, name]
            found += runs.rows("amkl", dataset, made, metrics=runs.metrics() | later(runs))
    notes = [
        "expert_mkl: with its default, a stack on the mixture; all rows have the fixed bank",
        f"refitted: scikit-learn's defaults, fitted every {EVERY} rounds on all examples so far",
        f"later: after the first {EVERY} rounds, in which those predict the mean, or the larger "
        "class, so far",
    ]
    title = "What stands on the models of expert_mkl"
    units = {**MSE, "later_mse": MSE["mse"]}
    job.report.table(title, found, units=units, hidden=("label_rate",), notes=notes)


def later(runs: Runs) -> dict[str, np.ndarray]:
    """Return the error after the first EVERY rounds, or nothing if the stream is not longer."""
    error, rounds = runs.error, runs.error.shape[1]
    if rounds <= EVERY:
        return {}
    total = error[:, -1] * rounds - error[:, EVERY - 1] * EVERY
    return {f"later_{runs.metric}": total / (rounds - EVERY)}


ABRUPT = "abrupt"
DRAWS = 5
SEGMENTS = 4
PERIOD = generate.PERIOD
RESTARTED = "expert_mkl (begun anew at each change)"
LEARNED = "expert_mkl (kernels learned)"


def drift(job: Job) -> None:
    """Run expert_mkl where two functions, a rough and a smooth one, alternate abruptly."""
    job.among("drift", (ABRUPT,), ("expert_mkl",))
    draws = job.options.seeds or DRAWS
    settings = job.options.settings
    errors: dict[str, np.ndarray] = {}
    found: list[Row] = []
    variants = *VARIANTS, RESTARTED, LEARNED
    drawn = [generate.abrupt(draw, 0, SEGMENTS * PERIOD, period=PERIOD) for draw in range(draws)]
    with job.report.progress("drift", len(variants)) as step:
        for name in variants:
            step(f"{name}, {draws} streams")
            banks = {} if name == LEARNED else {"banks": "fixed"}
            chosen = combined("regression", name) | banks
            made = candidate(name, "expert_mkl", "regression", settings, **chosen)
            runs = []
            for X, y in drawn:
                for part in np.split(np.arange(len(y)), SEGMENTS if name == RESTARTED else 1):
                    stream = Stream(ABRUPT, X[part], y[part], "regression")
                    runs.append(evaluate(made.learner, stream, 1))
            squares = [np.square(run.prediction[0] - run.stream.y) for run in runs]
            errors[name] = np.reshape(squares, (draws, SEGMENTS, PERIOD)).mean(axis=2)
            seconds = sum(run.seconds_per_run for run in runs) / draws
            measured = of_segments(errors[name], errors[VARIANTS[0]])
            found += Measured(measured, seconds).rows("amkl", ABRUPT, made)
    notes = [
        f"{draws} streams, each of functions and inputs of its own; {SEGMENTS} segments of "
        f"{PERIOD} rounds: the rough function, the smooth one, the same two again",
        "the variance of y is near 1 where it is rough, near 0.25 where it is smooth; that of its "
        f"noise is {generate.NOISE**2:g}",
        "begun anew: it knows of each change, unlike all others",
        "kernels learned: the default banks; all others have the fixed one",
        "of hedge: the error over that of Hedge on the same stream; after: segments 2 and on",
    ]
    job.report.table("Abrupt changes", found, notes=notes)


def of_segments(errors: np.ndarray, of_hedge: np.ndarray) -> dict[str, np.ndarray]:
    """Return the metrics (S,) of errors by segments (S, N), relative to those of Hedge.

    >>> measured = of_segments(np.array([[4.0, 1.0, 3.0]]), np.array([[4.0, 4.0, 4.0]]))
    >>> {name: values.tolist() for name, values in measured.items() if "of_hedge" in name}
    {'segment_2_of_hedge': [0.25], 'after_of_hedge': [0.5]}
    """
    return {
        "mse": errors.mean(axis=1),
        **{f"segment_{i + 1}": values for i, values in enumerate(errors.T)},
        "segment_2_of_hedge": errors[:, 1] / of_hedge[:, 1],
        "after_of_hedge": errors[:, 1:].mean(axis=1) / of_hedge[:, 1:].mean(axis=1),
    }
