"""Runs of expert_mkl on the data sets of the package river: in file order, without tuning."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec

import numpy as np

import jaxmkl
from jaxmkl.evaluate import Candidate, Row

from ..evaluate import Runs, Stream, candidate
from .amkl_runs import ONLINE_RANKS, combined
from .paper import Job
from .printed import RIVER_BEST, printed

DATASETS = tuple(RIVER_BEST)

# With the last three labels among the inputs; not for several classes.
LAST_LABELS = "expert_mkl (last labels)"
VARIANTS = ("expert_mkl", *ONLINE_RANKS, LAST_LABELS, "expert_mkl (mixture)", "expert_mkl (Hedge)")

# The inputs of an example by name, and its label, as river yields them.
Example = tuple[Mapping[str, float], bool | float | str]


def bundled(name: str) -> Callable[[], Iterable[Example]] | None:
    """Return river's data set of that name, or None where river is not installed."""
    if find_spec("river") is None:
        return None
    from river import datasets

    return getattr(datasets, name)


def read(name: str, examples: Iterable[Example]) -> Stream:
    """Return a stream from pairs of a dict of numbers and a label, as river yields them.

    Two classes become -1 and +1, several become 0, 1, ... in the order of their names.

    >>> read("a", [({"x": 1}, True), ({"x": 3, "z": 2}, False)]).X.tolist()
    [[1.0, 0.0], [3.0, 2.0]]
    """
    inputs, y = zip(*examples, strict=True)
    columns = dict.fromkeys(column for x in inputs for column in x)
    X = np.array([[x.get(column, 0.0) for column in columns] for x in inputs], np.float64)
    labels = np.array(y)
    task = "regression" if labels.dtype.kind in "if" else "classification"
    if task == "classification":
        classes, labels = np.unique(labels, return_inverse=True)
        labels = 2 * labels - 1 if len(classes) == 2 else labels
    return Stream(name, X, labels, task)


def single(stream: Stream) -> Stream:
    """Return a stream in single precision, the first example subtracted from all.

    Scalers are not affected, but single precision would lose a large common offset.
    """
    return dataclasses.replace(stream, X=stream.X - stream.X[0]).astype(np.float32)


def learner_of(job: Job, stream: Stream, name: str) -> Candidate:
    """Return a variant of expert_mkl that scales inputs, and targets that are numbers, online."""
    wrappers = jaxmkl.wrappers
    scaler = wrappers.RunningRanks() if name in ONLINE_RANKS else wrappers.RunningMoments()
    arguments = {"num_classes": stream.num_classes, **combined(stream.task, name)}
    made = candidate(name, "expert_mkl", stream.task, job.options.settings, scaler, **arguments)
    learner = wrappers.lagged(made.learner) if name == LAST_LABELS else made.learner
    if stream.task == "regression":
        learner = wrappers.scaled_targets(learner)
    return made._replace(learner=learner)


def measured(runs: Runs) -> dict[str, np.ndarray]:
    """Return the metric (S,) of river's tables: accuracy, or the mean absolute error."""
    prediction, y = runs.prediction, runs.stream.y[runs.order]
    if runs.stream.task == "regression":
        return {"mae": np.abs(prediction - y).mean(axis=1)}
    said = prediction.argmax(axis=-1) if prediction.ndim == 3 else np.sign(prediction)
    return {"accuracy": (said == y).mean(axis=1)}


def river(job: Job) -> None:
    """Run expert_mkl on river's bundled data sets, beside the best of river's models."""
    datasets, _ = job.among("river", DATASETS, ("expert_mkl",))
    if bundled(datasets[0]) is None:
        job.report.say("river: the package river is not installed, its data sets are left out")
        return
    streams = {name: single(read(name, bundled(name)())) for name in datasets}  # type: ignore[misc]
    pairs = [
        (dataset, name)
        for dataset in datasets
        for name in VARIANTS
        if not (name == LAST_LABELS and streams[dataset].num_classes)
    ]
    make = functools.partial(learner_of, job)
    found = job.runs("river", pairs, lambda name, _: streams[name], make, permute=False)
    rows: list[Row] = []
    for name, made, runs in found:
        rows += runs.rows("amkl", name, made, printed, metrics=measured(runs))
    notes = [
        "file order; inputs scaled by running moments (or ranks), targets by running moments",
        "printed: the best of river's 15 to 20 models in its own benchmark",
    ]
    job.report.table("expert_mkl on river's data sets", rows, notes=notes)
