"""Active learning with multiple kernels: Tables II and III, Figures 2 and 3, Theorems 1 to 3."""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row, parameters_of, row, rows
from jaxmkl.kernels import Kernel
from jaxmkl.query import Disagreement

from .. import generate
from ..evaluate import (
    FAMILY,
    Measured,
    Stream,
    candidate,
    evaluate,
    keys_of,
    program,
    stacked,
    sweep,
    timed,
)
from ..hindsight import absolute_losses, hindsight_losses
from ..inside import kernels_of, with_step_size
from ..report import Panel
from . import amkl_learned, amkl_river
from .amkl_labels import labels
from .amkl_mixture import ABRUPT, drift, mixture
from .amkl_probabilities import DIGITS, probabilities
from .amkl_probabilities import TABLES as PROBABLE
from .amkl_runs import CLASSIFICATION, MSE, ONLINE_RANKS, REGRESSION, run_all, stream_of
from .paper import Job, Paper
from .printed import ADAPTIVE_RANDOM_FOREST, printed

STATIONARY = "stationary"

# The paper's four, and their factories.
LEARNERS = tuple(name for name in FAMILY if name != "expert_mkl")
TUNED = "amkl_aks (tuned)"
TABLES = {**{name: name for name in LEARNERS}, TUNED: "amkl_aks", "expert_mkl": "expert_mkl"}

# The kernels of the rows of one kernel with support vectors; σ² = .1, 1, 10.
ONE_KERNEL: dict[str, Kernel] = {
    **{f"kl_rbf_{v:g}": jaxmkl.Gaussian(math.sqrt(v)) for v in (0.1, 1, 10)},
    "poly2": jaxmkl.Polynomial(2),
    "poly3": jaxmkl.Polynomial(3),
    "linear": jaxmkl.Linear(),
}
BUDGET = 50
SUPPORT = {**dict.fromkeys(ONE_KERNEL, "kernel_ogd"), "omkl": "omkl", "omkl_b": "omkl_b"}
ALGORITHMS = {**TABLES, **SUPPORT}

# The tolerance of the tuned row, chosen on the data for at most as many labels as the paper's row.
TUNED_TOLERANCE = dict(zip(REGRESSION, (0.002, 0.005, 0.005, 0.002, 0.0005), strict=True))

NAVAL = "naval: X divided by its one largest entry, y raw; the file's order is a slow sweep of y"


def table_rows(job: Job, part: str) -> list[Row]:
    """Run the rows of the tables."""
    datasets, names = job.among(part, REGRESSION, tuple(TABLES))
    tuned = {(d, TUNED): {"tolerance": TUNED_TOLERANCE[d]} for d in datasets}
    return run_all(
        *(job, part, datasets, names),
        lambda stream, name: tuned.get((stream.name, name), {}),
        printed,
    )


def tables(job: Job) -> None:
    """Show Tables II and III: error and share of labels at the end of the stream."""
    found = table_rows(job, "tables")
    notes = ["file order; the seeds draw the random features and the kernels' subsets"]
    names = {row.algorithm for row in found}
    if TUNED in names:
        notes.append(f"{TUNED}: its tolerance was chosen on these data; printed: amkl_aks")
    if "expert_mkl" in names:
        own = "fixed and learned kernels, local rules, all labels"
        notes.append(f"expert_mkl is not the paper's: {own}")
    if any(row.dataset == "naval" for row in found):
        notes.append(NAVAL)
    title = "Tables II and III: mean squared error and share of labels asked for"
    job.report.table(title, found, units=MSE, notes=notes)


STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 1.0)
TUNED_ON = 2000
NORMED_ON = 500


def tuned_step(learner: jaxmkl.MKL, stream: Stream) -> float:
    """Return the step size with the least error over the stream's first examples.

    The grid is relative to 1 / k(x, x), the natural scale of a step on an example.
    """
    gram = kernels_of(learner).gram(jnp.asarray(stream.X[:NORMED_ON]))
    grid = np.array(STEP_SIZES) / float(jnp.diagonal(gram, axis1=1, axis2=2).mean())
    first = stream.X[:TUNED_ON], stream.y[:TUNED_ON]
    learners = stacked([with_step_size(learner, step) for step in grid.astype(np.float32)])
    errors = np.asarray(sweep(learners, keys_of(1), *first, permute=False).loss.mean(axis=(1, 2)))
    return float(grid[np.argmin(np.where(np.isfinite(errors), errors, np.inf))])


def support(job: Job) -> None:
    """Show the rows of Table II with support vectors: one kernel, 17 kernels, and a budget."""
    datasets, names = job.among("support", REGRESSION, tuple(SUPPORT))
    found: list[Row] = []
    for stream, name in job.each("support", datasets, names, stream_of):
        arguments: dict[str, object] = {"budget": BUDGET} if name == "omkl_b" else {}
        if name in ONE_KERNEL:
            arguments["kernel"] = ONE_KERNEL[name]
        settings = job.options.settings
        make = functools.partial(candidate, name, SUPPORT[name], stream.task, settings)
        built = make(**arguments)
        if "step_size" not in settings:
            built = make(**arguments, step_size=tuned_step(built.learner, stream))
        runs = evaluate(built.learner, stream, 1)
        found += runs.rows("amkl", stream.name, built, printed)
    steps = ", ".join(f"{step:g}" for step in STEP_SIZES)
    notes = [
        "file order, one run: nothing is random",
        f"step sizes: the best of {steps} (polynomials and linear: over the mean of k(x, x) of "
        f"the first {NORMED_ON}) on the first {TUNED_ON} examples, which the run then has too; "
        "the paper's rows are weak because of theirs; a step that is best there may be too large "
        "for later examples of a larger norm (polynomials on twitter and naval)",
    ]
    if "naval" in datasets:
        notes.append(NAVAL)
    title = "Table II, the rows with support vectors"
    job.report.table(title, found, units=MSE, hidden=("label_rate",), notes=notes)


def curves(job: Job) -> None:
    """Draw Figure 3: the mean squared error up to each round."""
    lines: dict[str, dict] = {}
    for dataset, name in dict.fromkeys(r.name[1:3] for r in table_rows(job, "curves")):
        _, runs = job.results[dataset, name]
        start = runs.times >= 10  # an earlier mean, of few examples, would hide the rest
        lines.setdefault(dataset, {})[name] = runs.times[start], runs.error[:, start]
    for dataset, of_dataset in lines.items():
        panel = Panel(dataset, "examples", "mean squared error so far", of_dataset, log_y=True)
        job.report.plot(f"amkl_curves_{dataset}", [panel])
    if lines and job.report.plots is None:
        job.report.say("curves: they are drawn into the folder given with --plots DIR")


def classification(job: Job) -> None:
    """Run expert_mkl as a classifier, on features standardised by the whole set or online."""
    datasets, names = job.among("classification", CLASSIFICATION, ("expert_mkl",))
    learners = *names, *ONLINE_RANKS
    found = run_all(job, "classification", datasets, learners, printed=printed)
    job.report.table(
        "expert_mkl in classification",
        found,
        hidden=("label_rate",),
        beside={"adaptive random forest": ADAPTIVE_RANDOM_FOREST},
        notes=(
            "an order of the examples for each seed; printed: the best of the five papers",
            "expert_mkl: features standardised by the whole set; online ranks: by the stream",
            "adaptive random forest: river's, features standardised, one order; not run here",
        ),
    )


TOLERANCES = (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
LONGEST_PAUSES = (1, 2, 4)


def tradeoff(job: Job) -> None:
    """Show Figure 2: error and labels by tolerance and longest pause, in one vmapped sweep."""
    datasets, names = job.among("tradeoff", ("tom",), ("amkl", "amkl_aks"))
    grid = np.array([(c, m) for m in LONGEST_PAUSES for c in TOLERANCES], np.float32)
    stream = stream_of(job, *datasets)
    panels: list[Panel] = []
    found: list[Row] = []
    about = f"{len(grid)} settings and {job.seeds} seeds at once"
    for name, _ in job.report.steps("tradeoff", [(name, about) for name in names]):
        built = candidate(name, ALGORITHMS[name], "regression", job.options.settings)
        swept = [replace(built.learner, query=Disagreement(c, m)) for c, m in grid]
        arguments = stacked(swept), keys_of(job.seeds), stream.X, stream.y
        outputs, seconds = timed(program(sweep, *arguments, permute=False), *arguments)
        mse, rate = (np.asarray(v).mean(axis=2) for v in (outputs.loss, outputs.queried))
        lines = {}
        for m in LONGEST_PAUSES:
            of_m = grid[:, 1] == m
            lines[f"M = {m}"] = rate[of_m].mean(1), mse[of_m].T
        panels.append(
            Panel(f"{name}, tom", "share of labels", "mean squared error", lines, marks=True)
        )
        for (c, m), of_mse, of_rate in zip(grid, mse, rate, strict=True):
            found += rows(
                ("amkl", "tom", f"{name} (η_c = {c:g}, M = {m:g})"),
                {"mse": of_mse, "label_rate": of_rate},
                parameters={**built.parameters, "tolerance": float(c), "max_skips": int(m)},
                seconds_per_run=seconds / len(grid) / job.seeds,
            )
    job.report.table("Figure 2: tolerance and longest pause", found, units=MSE)
    job.report.plot("amkl_tradeoff", panels)


ABSOLUTE = "stationary_absolute"
# The losses by which regret is measured. The first has no triangle inequality, which the theorems
# assume, but is that of the paper's experiments.
LOSSES: dict[str, jaxmkl.losses.Loss] = {
    STATIONARY: jaxmkl.losses.Squared(),
    ABSOLUTE: jaxmkl.losses.EpsilonInsensitive(0.0),
}
LENGTHS = tuple(2**k for k in range(10, 17))
ABSOLUTE_LENGTHS = LENGTHS[:4]  # in hindsight the absolute loss takes many systems
# λ of (18) and (57): the best function in hindsight is the ridge solution with λ an example. The
# theorems compare with functions of bounded norm; without a penalty its norm grows with T.
PENALTY = 0.01


def rates(name: str, length: int) -> dict[str, float]:
    """Return the rates of the theorems for a stream of known length, all of order 1/sqrt(T)."""
    root = math.sqrt(length)
    arguments = {"step_size": 0.3 / root, "hedge_rate": 32 / root, "regularization": 0.0}
    if "tolerance" in parameters_of(ALGORITHMS[name]):
        arguments["tolerance"] = 30 / root
    return arguments


def regret(job: Job) -> None:
    """Measure the regret of Theorems 1 to 3, against the best fixed function in hindsight."""
    datasets, names = job.among("regret", tuple(LOSSES), LEARNERS)
    for dataset in datasets:
        regret_by(job, dataset, names)


def regret_by(job: Job, dataset: str, names: Sequence[str]) -> None:
    """Measure the regret by a data set's loss, which learners and their queries use too."""
    squared, loss = dataset == STATIONARY, LOSSES[dataset]
    lengths = LENGTHS if squared else ABSOLUTE_LENGTHS
    X, y = generate.examples(1, 0, lengths[-1], drift=False)
    keys = keys_of(job.seeds)
    measured: list[Row] = []
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    with job.report.progress("regret", len(lengths) * (len(names) + 1)) as step:
        for length in lengths:
            step(f"{dataset}, {length} examples, the best functions in hindsight")
            stream = Stream(dataset, X[:length], y[:length], "regression")
            hindsight = best_in_hindsight(job, keys, stream, squared)
            for name in names:
                step(f"{dataset}, {length} examples, {name}")
                arguments: dict[str, Any] = rates(name, length) | (
                    {} if squared else {"loss": loss}
                )
                built = candidate(name, name, "regression", job.options.settings, **arguments)
                runs = evaluate(by_loss(built.learner, loss), stream, job.seeds)
                total = runs.error[:, -1] * length
                if not squared:
                    total = np.abs(runs.prediction - stream.y).sum(axis=1)
                found[name].append(total - hindsight)
                name_and_made = "amkl", f"{dataset}, T = {length}", built
                of_regret = Measured({"regret": found[name][-1]}, runs.seconds_per_run)
                measured += [*of_regret.rows(*name_and_made), *runs.rows(*name_and_made)]
    by = "squared" if squared else "absolute"
    job.report.table(
        f"Theorems 1 to 3, by the {by} loss: regret against the best function of any one kernel "
        "in hindsight",
        measured,
        notes=(
            "step size, hedge rate and tolerance are in proportion to 1/sqrt(T), λ = 0; best in "
            f"hindsight: a kernel's best function, penalty {PENALTY:g} an example",
            "Theorems 2 and 3 assume a loss with the triangle inequality: the absolute one has it",
        ),
    )
    exponents, notes = [], ["the theorems' bound has the exponent 0.5"]
    for name, values in found.items():
        slopes = exponent(np.array(lengths), np.array(values).T)
        exponents.append(row(("amkl", dataset, name, "regret_exponent"), slopes))
        below = [str(t) for t, v in zip(lengths, values, strict=True) if v.min() <= 0]
        if below:
            notes.append(f"{name}: negative regret at T = {', '.join(below)}, no exponent")
    title = "Exponent of T in the regret, fitted over all lengths"
    job.report.table(title, exponents, notes=notes)
    lines = {name: (np.array(lengths), np.array(values).T) for name, values in found.items()}
    guide = np.sqrt(np.array(lengths) / lengths[0]) * max(v[0].mean() for v in found.values())
    lines["sqrt(T)"] = np.array(lengths), guide[None]
    panel = Panel(dataset, "T", "regret", lines, log_x=True, log_y=True, marks=True)
    job.report.plot("amkl_regret" if squared else "amkl_regret_absolute", [panel])


def by_loss(learner: jaxmkl.MKL, loss: jaxmkl.losses.Loss) -> jaxmkl.MKL:
    """Return a learner whose query measures disagreement by the loss, as in (33).

    >>> by_loss(jaxmkl.amkl(), LOSSES[ABSOLUTE]).query.loss
    EpsilonInsensitive(epsilon=0.0)
    >>> by_loss(jaxmkl.raker(), LOSSES[ABSOLUTE]).query
    All()
    """
    if not isinstance(learner.query, Disagreement):
        return learner
    return replace(learner, query=replace(learner.query, loss=loss))


def best_in_hindsight(job: Job, keys: jax.Array, stream: Stream, squared: bool) -> np.ndarray:
    """Return the least total loss (S,) of a fixed function of any one kernel, for every seed.

    The random features are those of the learners, which draw them from the key alone.
    """
    learner = candidate("raker", "raker", "regression", job.options.settings).learner
    # only those parts of the states are used that learning does not change
    states, _ = jaxmkl.run_many(learner, keys, stream.X[:1], stream.y[:1], permute=False)
    losses = hindsight_losses if squared else functools.partial(absolute_losses, near=1.1)
    totals = []
    for seed in range(len(keys)):
        state = jax.tree.map(lambda leaf, seed=seed: leaf[seed], states)
        totals.append(losses(learner, state, stream.X, stream.y, PENALTY * len(stream.y)))
    return np.min(totals, axis=1)


def exponent(lengths: np.ndarray, regrets: np.ndarray) -> np.ndarray:
    """Return the slope (S,) of log regret (S, T) against log T; NaN where one is not positive.

    >>> exponent(np.array([1, 10, 100]), np.array([[2.0, 20.0, 200.0]])).round(3)
    array([1.])
    """
    logs = np.log(np.where(regrets > 0, regrets, np.nan))
    centred = np.log(lengths) - np.log(lengths).mean()
    return logs @ centred / (centred @ centred)


GENERATED = (STATIONARY, ABSOLUTE, ABRUPT, *amkl_learned.GENERATED, *amkl_river.DATASETS, DIGITS)
PAPER = Paper(
    name="amkl",
    title="Active learning with multiple kernels (Hong and Chae)",
    datasets=(
        *REGRESSION,
        *CLASSIFICATION,
        *amkl_learned.TABLES,
        *(name for name in PROBABLE if name not in CLASSIFICATION),
        *GENERATED,
    ),
    algorithms=ALGORITHMS,
    parts=(
        *(tables, support, classification, mixture, labels, drift, amkl_learned.learned),
        *(amkl_learned.densities, probabilities, amkl_river.river, tradeoff, curves, regret),
    ),
    default_parts=("tables", "classification"),
    task="regression",
    generated=GENERATED,
    parts_without_files=("drift", "river", "regret"),
    published=LEARNERS,
    open_parts=("tables", "curves"),
)
