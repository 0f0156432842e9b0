"""The probabilities of expert_mkl, beside those of boosting that is fitted again and again."""

import jax
import numpy as np
import sklearn.datasets

import jaxmkl
from jaxmkl.evaluate import Candidate, Certainty, Row

from ..evaluate import Stream, candidate, in_sequence, keys_of
from ..refitted import EVERY, MODELS, log_odds
from .amkl_runs import CLASSIFICATION
from .paper import Job

ROWS = 6_000
SEEDS = 5
DIGITS = "digits"
TABLES = (*CLASSIFICATION, "a9a")
DATASETS = (*TABLES, DIGITS)
NAME = "expert_mkl"
PASSED = f"{NAME}, inputs passed"
BOOSTING = tuple(name for name in MODELS if "boosting" in name)


def stream_of(job: Job, dataset: str) -> Stream:
    """Read a data set of the papers, or images of digits, and number the classes from 0."""
    if dataset == DIGITS:
        X, y = sklearn.datasets.load_digits(return_X_y=True)
    else:
        data = job.read(dataset)
        X, y = data.X, data.y > 0
    X = jaxmkl.tables.scale(X, "standard").astype(np.float32)
    return Stream(dataset, X, np.asarray(y, np.int32), "classification")


def scored(said: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the figures of log-odds of classes, (T,) or (T, K), and the share of mistakes."""
    found = said > 0 if said.ndim == 1 else said.argmax(axis=1)
    figures = Certainty.begin().after(said, y.astype(float)).metrics()
    return figures | {"mistake_rate": float(np.mean(found != y))}


def of_learner(learner: jaxmkl.Learner, key: jax.Array, data: Stream) -> dict[str, float]:
    """Return the figures of a learner after the first EVERY rows."""
    state = learner.init(key, data.X.shape[1])
    y = data.y if data.num_classes else 2.0 * data.y - 1.0
    _, outputs = jaxmkl.run(learner, state, data.X, y)
    return scored(np.asarray(outputs.prediction)[EVERY:], data.y[EVERY:])


def of_boosting(name: str, data: Stream) -> dict[str, float]:
    """Return the figures of a batch model after the first EVERY rows, before it is fitted."""
    model = MODELS[name]["classification"](random_state=0)
    return scored(log_odds(model, data.X, data.y, EVERY), data.y[EVERY:])


def probabilities(job: Job) -> None:
    """Show probabilities of expert_mkl by log loss, Brier score and calibration, and boosting."""
    datasets, _ = job.among("probabilities", DATASETS, (NAME,))
    keys = keys_of(job.options.seeds or SEEDS)
    found: list[Row] = []
    with job.report.progress("probabilities", len(datasets) * (2 + len(BOOSTING))) as step:
        for dataset in datasets:
            whole = stream_of(job, dataset)
            orders = np.asarray(jaxmkl.permutations(keys, len(whole.y)))[:, :ROWS]
            parts = [whole.at(order) for order in orders]
            settings, K = job.options.settings, whole.num_classes
            made = candidate(NAME, NAME, "classification", settings, num_classes=K)
            learners = {
                name: jaxmkl.wrappers.probabilities(made.learner, passthrough=name == PASSED)
                for name in (NAME, PASSED)
            }
            for name in (*learners, *BOOSTING):
                step(f"{dataset} {name}")
                ours = learners.get(name)
                measured = in_sequence(
                    of_boosting(name, part) if ours is None else of_learner(ours, key, part)
                    for key, part in zip(keys, parts, strict=True)
                )
                parameters = {"refitted_every": EVERY} if ours is None else made.parameters
                found += measured.rows("amkl", dataset, Candidate(name, ours, parameters))
    notes = [
        f"an order for each seed, of at most {ROWS} rows, standardised by the whole set; of the "
        f"rows after the first {EVERY}",
        "expert_mkl in jaxmkl.wrappers.probabilities; inputs passed: with passthrough=True",
        "calibration error: expected, of 15 bins",
        f"refitted: scikit-learn's defaults, fitted every {EVERY} rounds on all examples so far",
    ]
    job.report.table("Probabilities of classes", found, notes=notes)
