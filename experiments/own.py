"""One's own data: read a file, find the task, scale online, run a few learners."""

import dataclasses

import numpy as np

import jaxmkl
from jaxmkl.learner import input_bound

from .evaluate import MAX_SKIPS, TOLERANCE, Stream, candidate, check_settings, evaluate, pausing
from .options import Options, UsageError, chosen, refused
from .report import Panel, Report, Row

__all__ = ["SCALINGS", "run"]

LEARNERS = ("raker", "amkl_aks", "expert_mkl")
SCALINGS = ("moments", "ranks", "none", "standard", "unit_interval", "symmetric")
SEEDS = 5


def read(options: Options) -> tuple[Stream, tuple[str, ...]]:
    """Read the file: the stream, and the lines to show about it.

    Raises:
        UsageError: the file cannot be read, or has more than two classes.
    """
    assert options.file is not None
    with refused():
        data = jaxmkl.data.read(options.file, target=options.target)
        X = data.X
        if options.scale not in ("moments", "ranks", "none"):
            X = jaxmkl.data.scale(X, options.scale)
    if data.task == "multiclass":
        raise UsageError(
            f"{options.file}: the target {data.target!r} has {len(data.classes)} classes; "
            "the learners take numbers or two classes"
        )
    y, unit = data.y, 1.0
    notes = [*data.notes, f"{len(y)} examples of {X.shape[1]} features, in the file's order"]
    if data.task == "regression":
        unit = float(np.var(y, dtype=np.float64))
        y = (y - np.mean(y, dtype=np.float64)) / np.sqrt(unit)
        notes += [
            f"the target {data.target!r} has variance {unit:.6g}; learners see it standardised by "
            "the whole file's mean and variance, errors are in its own units",
            "skill is 1 - mse / variance: 0 for the whole file's mean, 1 for no error",
        ]
    else:
        share = float(np.mean(y < 0))
        notes.append(f"always saying the larger class: mistake rate {min(share, 1 - share):.4f}")
        changes = int(np.count_nonzero(np.diff(y)))
        if changes < 0.2 * 2 * len(y) * share * (1 - share):
            notes.append(
                f"the labels change only {changes} times: the file looks sorted, and a learner "
                "that follows the last labels looks better than it is"
            )
    if options.scale in ("moments", "ranks"):
        X = X - X[0]  # these scalers do not see it, but float32 would lose a large common offset
    if np.abs(X).max() > input_bound(np.float32):
        raise UsageError(f"{options.file}: features of {np.abs(X).max():.3g} are too large")
    stream = Stream(options.file.name, X.astype(np.float32), y.astype(np.float32), data.task, unit)
    return stream, tuple(notes)


def run(options: Options, report: Report) -> None:
    """Play the file with the chosen learner, or with three of them."""
    wanted = None if options.learner is None else (options.learner,)
    names = chosen("learner", wanted, jaxmkl.LEARNERS, LEARNERS)
    for line in check_settings(options.settings, {name: name for name in names}):
        report.say(line)
    stream, notes = read(options)
    scalers = {"moments": jaxmkl.RunningMoments(), "ranks": jaxmkl.RunningRanks()}
    online = scalers.get(options.scale)
    built = [
        candidate(name, name, stream.task, options.settings, online, **pausing(name))
        for name in names
    ]
    seeds = SEEDS if options.seeds is None else options.seeds
    rows, errors, labels = [], {}, {}
    with report.progress("run", len(built)) as step:
        for learner in built:
            step(learner.name)
            runs = evaluate(learner.learner, stream, seeds, permute=False)
            of_learner = runs.rows("own", stream.name, learner)
            if stream.task == "regression":
                of_learner.append(skill(of_learner[0], stream.unit))
            rows += of_learner
            errors[learner.name] = runs.times, runs.error
            labels[learner.name] = runs.times, runs.labels
            metric = runs.metric.replace("_", " ")
    if options.scale != "none" and any("tolerance" in learner.parameters for learner in built):
        skips = f"up to {MAX_SKIPS} labels skipped in a row"
        notes = (*notes, f"learners that skip labels: tolerance {TOLERANCE:g}, {skips}")
    how = {"moments": "online by running moments", "ranks": "online by running ranks"}.get(
        options.scale,
        "not at all" if options.scale == "none" else f"by the whole file, {options.scale}",
    )
    report.table(
        f"{options.file}: every example predicted before its label is seen",
        rows,
        notes=(*notes, f"features scaled {how}; the seeds draw the random features"),
    )
    report.plot(
        f"run_{stream.name.split('.')[0]}",
        [
            Panel(stream.name, "examples", f"{metric} so far", errors),
            Panel(stream.name, "examples", "share of labels so far", labels),
        ],
    )


def skill(row: Row, variance: float) -> Row:
    """Return the share of the target's variance that an error leaves explained."""
    return dataclasses.replace(
        row, metric="skill", mean=1 - row.mean / variance, std=row.std / variance
    )
