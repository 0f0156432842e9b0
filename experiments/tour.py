"""The main job: the whole family on real data of scikit-learn and on a drifting stream."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

import numpy as np
import sklearn.datasets
from joblib import cpu_count

import jaxmkl
from jaxmkl.evaluate import PAUSES, Row, check_settings, parameters_of, pausing

from . import generate
from .evaluate import FAMILY, Runs, Stream, candidate, prepare, recent
from .names import known_algorithms
from .options import Options, chosen
from .report import Panel, Report

SEEDS = 3
DRIFT_LENGTH = 10_000
WINDOW = 500


def diabetes() -> Stream:
    """Return the disease progression of 442 patients, with a standardised target."""
    X, y = sklearn.datasets.load_diabetes(return_X_y=True, scaled=False)
    return Stream("diabetes", X, (y - y.mean()) / y.std(), "regression")


def breast_cancer() -> Stream:
    """Return 569 tumours, malignant or benign."""
    X, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    return Stream("breast_cancer", X, np.where(y, 1, -1), "classification")


def digits() -> Stream:
    """Return 1797 images of handwritten digits, even or odd."""
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return Stream("digits", X, np.where(y % 2, -1, 1), "classification")


def drift() -> Stream:
    """Return the generated drifting regression stream."""
    return Stream("drift", *generate.examples(0, 0, DRIFT_LENGTH), "regression")


STREAMS: dict[str, Callable[[], Stream]] = {
    make.__name__: make for make in (diabetes, breast_cancer, digits, drift)
}

# With the digits the tour takes half a minute on two cores, and half of that the second time.
DEFAULT = ("diabetes", "breast_cancer", "drift")


def panels(name: str, results: dict[str, Runs]) -> list[Panel]:
    """Return the error, share of labels and kernel weights of a stream's learners over time."""
    metric = next(iter(results.values())).metric.replace("_", " ")
    errors = {a: (runs.times, runs.error) for a, runs in results.items()}
    labels = {a: (runs.times, runs.labels) for a, runs in results.items()}
    drawn = [Panel(name, "examples", f"{metric} so far", errors)]
    if name == "drift":
        last = {a: (times, recent(error, WINDOW)) for a, (times, error) in errors.items()}
        drawn.append(Panel(name, "examples", f"{metric} last {WINDOW}", last, log_y=True))
    drawn.append(Panel(name, "examples", "share of labels so far", labels))
    for learner in ("amkl_aks", "expert_mkl"):
        weights = results[learner].weights if learner in results else None
        if weights is not None:
            weights = weights.mean(axis=0)
            drawn.append(Panel(f"{learner}: weights", "examples", "kernel", weights=weights))
    return drawn


def run(options: Options, report: Report) -> None:
    """Run every stream with every learner, all seeds at once, and show the results."""
    datasets = chosen("data set", options.datasets, STREAMS, DEFAULT)
    known = known_algorithms("tour", FAMILY, (), jaxmkl.LEARNERS)
    names = chosen("algorithm", options.algorithms, known, FAMILY)
    for line in check_settings(options.settings, {name: parameters_of(name) for name in names}):
        report.say(line)
    seeds = SEEDS if options.seeds is None else options.seeds
    streams = [STREAMS[name]().astype(np.float32) for name in datasets]
    work = []
    for stream in streams:  # bundled sets are scaled online, inside the scan
        scaler = None if stream.name == "drift" else jaxmkl.wrappers.RunningMoments()
        settings = options.settings, scaler
        work += [(stream, candidate(n, n, stream.task, *settings, **pausing(n))) for n in names]
    found: dict[tuple[str, str], Runs] = {}
    with (
        ThreadPoolExecutor(max_workers=cpu_count()) as pool,
        report.progress("tour", len(work)) as step,
    ):
        one = partial(prepare, weights=True, brief=True)
        # in reverse, so that the longest is not left over when all others are done. Compiled ones
        # are run here, one at a time, while others compile
        compiling = {}
        for stream, built in reversed(work):
            given = built.learner, stream, seeds
            future = pool.submit(one, *given, permute=stream.name != "drift")
            compiling[future] = stream.name, built.name
        for future in as_completed(compiling):
            step(" ".join(compiling[future]))
            found[compiling[future]] = future.result()()
    rows: list[Row] = []
    results: dict[str, dict[str, Runs]] = {}
    for stream, built in work:
        runs = found[stream.name, built.name]
        rows += runs.rows("tour", stream.name, built)
        results.setdefault(stream.name, {})[built.name] = runs
    report.table(
        "One pass, every example predicted before its label is seen",
        rows,
        notes=(
            "diabetes: the target is standardised by all rows, so the mean has an error of 1",
            "bundled sets: an order for each seed, features scaled online by running moments",
            f"drift: generated, {DRIFT_LENGTH} examples, an abrupt change every {generate.PERIOD} "
            "and a slow turn throughout; the variance of y is near 1, that of its noise "
            f"{generate.NOISE**2:g}",
            f"amkl, amkl_aks: tolerance {PAUSES['tolerance']:g}, up to {PAUSES['max_skips']} "
            "labels skipped in a row",
            "seconds a run: without compilation, but beside that of others; bench tells the speed",
        ),
    )
    for name, of_stream in results.items():
        report.plot(f"tour_{name}", panels(name, of_stream))
