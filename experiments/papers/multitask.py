"""Online multi-task classification: the gain of sharing between tasks, and of queries.

The paper's tables are not available, so there are no printed figures.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse
import scipy.stats
import sklearn.datasets
from sklearn.metrics import roc_auc_score

import jaxmkl
from jaxmkl.evaluate import Candidate, Row, rows
from jaxmkl.query import Margin, Random, Uncertainty

from ..evaluate import Measured, Stream, candidate, evaluate, stacked, sweep
from ..report import Panel
from . import bounds as of_theorems
from .paper import Job, Paper, as_published, is_published

ASKED = ("landmine", "sentiment")  # the data sets of the part asking
DIGITS = "digits"
DATASETS = (*ASKED, "a9a", DIGITS)
COMPONENTS = ("mixed", "both", "local", "global")
# queries, made of h or of the share of labels that is asked for by chance
RULES: Mapping[str, type] = {"unsure": Uncertainty, "margin": Margin, "chance": Random}
ALGORITHMS = dict.fromkeys((*COMPONENTS, *RULES), "multitask")

OCCUPATIONS = slice(46, 60)  # columns of a9a
MOST_ROWS = 10_000  # of a9a, drawn at random

TERMS = 400  # of sentiment, the first ones
METRICS = ("mistake_rate", "balanced_error", "auc", "late_auc")
GAINS = ("auc", "late_auc")  # better is larger
PERCENT = dict.fromkeys((*METRICS, "label_rate"), (1e-2, "%"))


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tasks (T,), features (T, D) and labels (T,): is it this digit?

    Every image comes twice: to the task of its digit, and to that of another digit. So one task
    affirms what another denies, and a model of all tasks has nothing to learn.

    >>> task, X, y = digits()
    >>> X.shape, float(y.sum()), bool((task[:1797] == task[1797:]).any())
    ((3594, 64), 0.0, False)
    """
    X, digit = sklearn.datasets.load_digits(return_X_y=True)
    other = (digit + np.random.default_rng(0).integers(1, 10, size=len(digit))) % 10
    X = jaxmkl.tables.scale(X, "standard")
    return np.append(digit, other), np.tile(X, (2, 1)), np.repeat([1.0, -1.0], len(X))


def by_occupation(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tasks (T,), features (T, D) and labels (T,) of a9a: a task for each occupation.

    Those whose occupation is not known are one more task. At most ``MOST_ROWS`` rows are drawn.

    >>> X, y = np.zeros((3, 123)), np.array([1.0, -1.0, 1.0])
    >>> X[[0, 1], [46, 59]] = 1
    >>> task, rest, y = by_occupation(X, y)
    >>> sorted(zip(task.tolist(), y.tolist())), rest.shape
    ([(0, 1.0), (13, -1.0), (14, 1.0)], (3, 109))
    """
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    X, y = X[rows], y[rows]
    of = X[:, OCCUPATIONS]
    task = np.where(of.any(axis=1), of.argmax(axis=1), of.shape[1])
    return task, np.delete(X, OCCUPATIONS, axis=1), y


def stream_of(job: Job, name: str) -> Stream:
    """Read a data set, or make that of digits; column 0 of the features is the task index."""
    if name == DIGITS:
        task, X, y = digits()
    elif name == "a9a":
        data = job.read(name)
        task, X, y = by_occupation(data.X, data.y)
    elif name == "sentiment":
        task, y, shape, *parts = (
            job.array(name, key) for key in ("task", "y", "shape", "data", "indices", "indptr")
        )
        counts = scipy.sparse.csr_matrix(tuple(parts), tuple(shape))[:, :TERMS].toarray()
        X = jaxmkl.tables.scale(np.log1p(counts), "unit_rows")
    else:
        data = job.read(name)
        X = jaxmkl.tables.scale(data.X, "standard")
        task, y = job.array(name, "task"), data.y
    X = jaxmkl.tables.with_tasks(task, X.astype(np.float32))
    return Stream(name, X, y.astype(np.float32), "classification")


def built(job: Job, stream: Stream, name: str, **arguments: Any) -> Candidate:
    """Build a learner, by default with the median distance as its bandwidth."""
    arguments = of_stream(stream) | arguments
    return candidate(name, "multitask", "classification", job.options.settings, **arguments)


def of_stream(stream: Stream) -> dict[str, Any]:
    """Return the arguments of ``multitask`` that follow from a stream: its tasks, its kernel."""
    return {
        "num_tasks": int(stream.X[:, 0].max()) + 1,
        "kernel": jaxmkl.Gaussian(jaxmkl.kernels.median_distance(stream.X[:, 1:])),
    }


def other(job: Job, stream: Stream, name: str) -> Candidate:
    """Build the learner as published, or another one by its name in LEARNERS.

    The paper states neither the number of tasks nor a kernel, which are those of the stream here,
    too. To a learner that knows of no tasks, the index of the task is one of the inputs.
    """
    if is_published(name):
        made, chosen = as_published(name, stream, stream.X.shape[1] - 1), of_stream(stream)
        learner = replace(made.learner, **chosen)
        return made._replace(learner=learner, parameters={**made.parameters, **chosen})
    arguments = of_stream(stream) if name == "multitask" else {}
    return candidate(name, name, "classification", job.options.settings, **arguments)


def run_stream(job: Job, learner: jaxmkl.Learner, stream: Stream) -> Measured:
    """Run a learner over a stream, each seed in an order of its own, all at once."""
    runs = evaluate(learner, stream, job.seeds)
    task = stream.X[:, 0].astype(int)
    each = [
        scores(f, stream.y[o], task[o]) for f, o in zip(runs.prediction, runs.order, strict=True)
    ]
    metrics = {name: np.array([one[name] for one in each]) for name in each[0]}
    metrics["label_rate"] = runs.labels[:, -1]
    if runs.support is not None:
        metrics["support"] = runs.support
    return Measured(metrics, runs.seconds_per_run)


def scores(prediction: np.ndarray, y: np.ndarray, task: np.ndarray) -> dict[str, float]:
    """Return scores of the predictions (T,) of one run, each made before its label.

    A prediction of 0 is a mistake. The balanced error is the mean of both classes' shares of
    mistakes; the area under the curve is the mean over the tasks that have both classes, over the
    stream and over its second half.

    >>> task = np.array([0, 0, 1, 1])
    >>> scores(np.array([2.0, 1.0, -1.0, 0.0]), np.array([1, -1, -1, 1]), task)
    {'mistake_rate': 0.5, 'balanced_error': 0.5, 'auc': 1.0, 'late_auc': 1.0}
    """
    wrong = y * prediction <= 0
    classes = [wrong[y == sign].mean() for sign in (-1, 1) if (y == sign).any()]
    late = slice(len(y) // 2, None)
    return {
        "mistake_rate": float(wrong.mean()),
        "balanced_error": float(np.mean(classes)),
        "auc": area(prediction, y, task),
        "late_auc": area(prediction[late], y[late], task[late]),
    }


def area(prediction: np.ndarray, y: np.ndarray, task: np.ndarray) -> float:
    """Return the mean area under the curve of tasks that have both classes; NaN without any."""
    areas = [
        roc_auc_score(y[task == k], prediction[task == k])
        for k in np.unique(task)
        if np.ptp(y[task == k]) > 0
    ]
    return float(np.mean(areas)) if areas else float("nan")


LEVEL = 0.05  # of the t-test of a verdict, two-sided


class Difference(NamedTuple):
    """The paired difference of two learners over the same orders."""

    mean: float
    error: float
    p: float


def difference(apart: np.ndarray) -> Difference:
    """Return the mean of paired differences (S,), with a t test, two-sided, of whether it is zero.

    Its p is NaN for a single order, or if no order differs.
    """
    mean, error, p = float(apart.mean()), np.nan, np.nan
    if len(apart) > 1:
        error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
        if np.ptp(apart) > 0:
            p = float(scipy.stats.ttest_1samp(apart, 0.0).pvalue)
        elif mean != 0:  # the same in all orders
            p = 0.0
    return Difference(mean, error, p)


def verdict(found: Difference, sign: int) -> str:
    """Return whether the first of two learners is better or worse, or neither at p < .05.

    ``sign`` is 1 where less is better, and -1 where more is.
    """
    if np.isnan(found.error):
        return "not tested: one order"
    if not found.p < LEVEL:
        return "no difference at p < .05"
    return "worse" if sign * found.mean > 0 else "better"


def sentence(what: str, metric: str, found: Difference) -> str:
    """Return a line for a difference of rates, in percentage points."""
    words = metric.replace("_", " ")
    tested = not np.isnan(found.p) and found.error > 0
    test = f", t = {found.mean / found.error:.2f}, p = {found.p:.2g}" if tested else ""
    return f"{what}: {words} {100 * found.mean:+.2f} ± {100 * found.error:.2f} points{test}"


HS = (1.0, 0.1, 0.01)
PUBLISHED: Mapping[str, object] = {"loss": "hinge"}
ALONE = COMPONENTS[1:]  # what the paper knows
# The arguments of each learner, its name in the table, and the components it is run with.
MODES: tuple[tuple[Mapping[str, object], str, tuple[str, ...]], ...] = (
    ({}, "{}", COMPONENTS),
    *(({"h": h}, f"{{}} (h = {h:g})", COMPONENTS) for h in HS),
    (PUBLISHED, "{} (paper)", ALONE),
    ({**PUBLISHED, "update_on": "unsure"}, "{} (paper, also where unsure)", ALONE),
    ({**PUBLISHED, "h": 0.1}, "{} (paper, h = 0.1)", ALONE),
)


def components(job: Job) -> None:
    """Compare models of all tasks and of each, and mixtures, with either alone."""
    datasets, names = job.among("components", DATASETS, COMPONENTS)
    rows: list[Row] = []
    lines: list[str] = []
    others = [name for name in names if name not in COMPONENTS]
    counts = [sum(name in known for name in names) for *_, known in MODES]
    with job.report.progress("components", len(datasets) * (sum(counts) + len(others))) as step:
        for dataset in datasets:
            stream = stream_of(job, dataset)
            for name in others:
                step(f"{dataset} {name}")
                made = other(job, stream, name)
                rows += run_stream(job, made.learner, stream).rows("multitask", dataset, made)
            for arguments, label, known in MODES:
                found: dict[str, Measured] = {}
                for name in (name for name in names if name in known):
                    made = built(job, stream, label.format(name), components=name, **arguments)
                    step(f"{dataset} {made.name}")
                    found[name] = run_stream(job, made.learner, stream)
                    rows += found[name].rows("multitask", dataset, made)
                if set(found) == set(known):
                    said, apart = against_the_better(dataset, label, found)
                    lines += said
                    job.report.add(apart)
    notes = [*NOTES, "(paper): the hinge; others: the squared hinge, steps on every loss"]
    if lines:
        what = "mixed less the better of both and local; both less the better of local and global"
        notes += [f"{what}; ± the standard error:", *lines]
    title = "A model of all tasks, one of each, their sum, or a mixture"
    job.report.table(title, rows, units=PERCENT, notes=notes)


NOTES = (
    "an order of the examples for each seed; every example predicted before its label is seen",
    "auc: the area under the curve, a mean over the tasks; late auc: that of the second half of "
    "the stream; landmine has 6 % positives, so that saying no to all errs in 6 %",
    f"sentiment: the first {TERMS} terms, log(1 + count) at length 1; landmine standardized; a "
    "Gaussian of the median distance of the inputs",
    f"a9a: {MOST_ROWS:,} rows, a task for each of 14 occupations and one where it is not known; "
    "digits: is it this digit, each image once in the task of its digit and once in another",
)


def against_the_better(
    dataset: str, label: str, found: Mapping[str, Measured]
) -> tuple[list[str], list[Row]]:
    """Compare the first of some components with the better one of others: lines and rows."""
    lines = []
    apart: dict[str, np.ndarray] = {}
    ours, others = ("mixed", ("both", "local")), ("both", ("local", "global"))
    one, among = ours if "mixed" in found else others
    for metric in METRICS:
        of = {name: result.metrics[metric] for name, result in found.items()}
        sign = -1 if metric in GAINS else 1
        _, better = min((sign * of[name].mean(), name) for name in among)
        what = f"{dataset}, {label.format(one)} less {better}"
        apart[metric] = of[one] - of[better]
        compared = difference(apart[metric])
        lines.append(f"{sentence(what, metric, compared)}; {verdict(compared, sign)}")
    return lines, rows(("multitask", dataset, f"{label.format(one)} less the better"), apart)


SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
HALF = 0.5
GRID = 10.0 ** np.arange(-4, 1.51, 0.5)
TRIAL_ORDERS = 4
OF_ASKING = {**PUBLISHED, "components": "both", "update_on": "unsure"}


def asking(job: Job) -> None:
    """Compare queries for the same learner and updates, at several shares of labels."""
    datasets, names = job.among("asking", ASKED, tuple(RULES))
    steps = len(datasets) * (len(SHARES) * len(names) + 1)
    rows: list[Row] = []
    lines: list[str] = []
    with job.report.progress("asking", steps) as step:
        for dataset in datasets:
            stream = stream_of(job, dataset)
            found: dict[tuple[str, float], Measured] = {}

            def run_one(label: str, stream: Stream = stream, **arguments: Any) -> Measured:
                made = built(job, stream, label, **OF_ASKING, **arguments)
                step(f"{stream.name} {label}")
                result = run_stream(job, made.learner, stream)
                rows.extend(result.rows("multitask", stream.name, made))
                return result

            rates = {name: label_rates(job, stream, name) for name in names if name != "chance"}
            for share in SHARES:
                for name in names:
                    value: float | None = share
                    if name in rates:
                        value = h_of(share, rates[name])
                    elif ("unsure", share) in found:
                        value = float(found["unsure", share].metrics["label_rate"].mean())
                    if value is None:
                        lines.append(f"{dataset}, {name}: no h asks for {share:.0%} of the labels")
                        continue
                    label = f"{name} ({share:.0%})"
                    found[name, share] = run_one(label, query=RULES[name](value))
            everything = run_one("all labels")
            said, apart = against_chance(dataset, found)
            lines += said
            job.report.add(apart)
            draw(job, dataset, found, everything)
    title = "Who gets a label: the unsure, those of small margin, or any"
    notes = [
        *NOTES,
        "the paper's learner, the same updates in all rows: on mistakes, and if unsure on losses",
        f"h by the share of labels in {TRIAL_ORDERS} other orders; chance asks as often as the "
        "unsure did; differences over the same orders:",
        *lines,
    ]
    job.report.table(title, rows, units=PERCENT, notes=notes)


def label_rates(job: Job, stream: Stream, name: str) -> np.ndarray:
    """Return the shares of labels (G,) for which a query asks with each h of the grid."""
    learner = built(job, stream, name, **OF_ASKING).learner
    learners = stacked([replace(learner, query=RULES[name](float(h))) for h in GRID])
    # orders that are not in the table
    keys = jax.random.split(jax.random.key(1), TRIAL_ORDERS)
    rates = sweep(learners, keys, stream.X, stream.y).queried.mean(axis=(1, 2))
    return np.maximum.accumulate(np.asarray(rates, np.float64))


def h_of(share: float, rates: np.ndarray) -> float | None:
    """Return the h that asks for a share of the labels, None outside the range of the rates.

    >>> rates = np.linspace(0.2, 0.75, len(GRID))
    >>> round(h_of(0.225, rates), 8), h_of(0.1, rates), h_of(0.9, rates)
    (0.00017783, None, None)
    """
    if not rates[0] <= share <= rates[-1]:
        return None
    return float(10.0 ** np.interp(share, rates, np.log10(GRID)))


def against_chance(
    dataset: str, found: Mapping[tuple[str, float], Measured]
) -> tuple[list[str], list[Row]]:
    """Compare the rules at half of the labels, order by order: lines and rows."""
    lines: list[str] = []
    measured: list[Row] = []
    for other in ("chance", "margin"):
        if ("unsure", HALF) not in found or (other, HALF) not in found:
            continue
        one, two = found["unsure", HALF].metrics, found[other, HALF].metrics
        rates = f"{one['label_rate'].mean():.1%} and {two['label_rate'].mean():.1%} of the labels"
        what = f"{dataset}, unsure less {other}, with {rates}"
        apart = {metric: one[metric] - two[metric] for metric in METRICS}
        lines += [sentence(what, metric, difference(of)) for metric, of in apart.items()]
        measured += rows(("multitask", dataset, f"unsure less {other} ({HALF:.0%})"), apart)
    return lines, measured


def draw(
    job: Job, dataset: str, found: Mapping[tuple[str, float], Measured], everything: Measured
) -> None:
    """Draw errors against the share of labels."""
    panels = []
    for metric in METRICS:
        lines = {}
        for name in dict.fromkeys(name for name, _ in found):
            of_name = [result for (rule, _), result in found.items() if rule == name]
            of_name.append(everything)
            x = np.array([result.metrics["label_rate"].mean() for result in of_name])
            lines[name] = x, np.array([result.metrics[metric] for result in of_name]).T
        words = metric.replace("_", " ")
        panels.append(Panel(dataset, "share of labels", words, lines, marks=True))
    job.report.plot(f"multitask_asking_{dataset}", panels)


def bounds(job: Job) -> None:
    """Show the losses and mistakes of one Gaussian beside the bounds of Theorems 1 and 2."""
    job.among("bounds", (of_theorems.GENERATED,), ("global",))
    title = "Theorems 1 and 2: losses and mistakes of one Gaussian"
    of_theorems.show(job, title, of_theorems.of_tasks(job))


PAPER = Paper(
    name="multitask",
    title="Kernel sampling for online multi-task classification",
    datasets=(*DATASETS, of_theorems.GENERATED),
    algorithms=ALGORITHMS,
    parts=(components, asking, bounds),
    default_parts=("components", "asking"),
    generated=(DIGITS, of_theorems.GENERATED),
    parts_without_files=("bounds",),
    published=("multitask",),
    open_parts=("components",),
)
