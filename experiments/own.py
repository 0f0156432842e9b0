"""One's own data: read a file, find the task, scale online, run a few learners."""

import dataclasses

import numpy as np

import jaxmkl
from jaxmkl._checks import input_bound

from .evaluate import PAUSES, Runs, Stream, candidate, check_settings, evaluate, over_time, pausing
from .options import Options, UsageError, chosen, refused
from .report import Report, Row

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
    y = data.y
    notes = [*data.notes, f"{len(y)} examples of {X.shape[1]} features, in the file's order"]
    if data.task == "regression":
        y = y - y[0]  # learners scale targets as they come, but float32 would lose a large offset
        notes += [
            f"the target {data.target!r} has variance {np.var(y, dtype=np.float64):.6g}",
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
    stream = Stream(options.file.name, X.astype(np.float32), y.astype(np.float32), data.task)
    return stream, tuple(notes)


def run(options: Options, report: Report) -> None:
    """Play the file with the chosen learner, or with three of them."""
    wanted = None if options.learner is None else (options.learner,)
    names = chosen("learner", wanted, jaxmkl.LEARNERS, LEARNERS)
    for line in check_settings(options.settings, {name: name for name in names}):
        report.say(line)
    stream, notes = read(options)
    scalers = {
        "moments": jaxmkl.wrappers.RunningMoments(),
        "ranks": jaxmkl.wrappers.RunningRanks(),
    }
    online = scalers.get(options.scale)
    built = [
        candidate(name, name, stream.task, options.settings, online, **pausing(name))
        for name in names
    ]
    if stream.task == "regression":
        targets = jaxmkl.wrappers.scaled_targets
        built = [dataclasses.replace(one, learner=targets(one.learner)) for one in built]
    seeds = SEEDS if options.seeds is None else options.seeds
    rows: list[Row] = []
    results: dict[str, Runs] = {}
    with report.progress("run", len(built)) as step:
        for learner in built:
            step(learner.name)
            runs = evaluate(learner.learner, stream, seeds, permute=False)
            of_learner = runs.rows("own", stream.name, learner)
            if stream.task == "regression":
                mse = of_learner[0]  # skill: the share of the variance that is explained
                variance = float(np.var(stream.y, dtype=np.float64))
                mean, std = 1 - mse.mean / variance, mse.std / variance
                of_learner.append(dataclasses.replace(mse, metric="skill", mean=mean, std=std))
            rows += of_learner
            results[learner.name] = runs
    if options.scale != "none" and any("tolerance" in learner.parameters for learner in built):
        notes = (*notes, f"learners that skip labels: {PAUSES}")
    how = {"moments": "online by running moments", "ranks": "online by running ranks"}.get(
        options.scale,
        "not at all" if options.scale == "none" else f"by the whole file, {options.scale}",
    )
    report.table(
        f"{options.file}: every example predicted before its label is seen",
        rows,
        notes=(*notes, f"features scaled {how}; the seeds draw the random features"),
    )
    report.plot(f"run_{stream.name.split('.')[0]}", over_time(stream.name, results))
