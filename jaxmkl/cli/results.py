"""The results of a run as plain values: for the screen, JSON and reports."""

import dataclasses
import importlib.metadata
import json
import math
import platform
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxmkl._version import __version__
from jaxmkl.cli import effects, options
from jaxmkl.cli.prequential import BOOSTING, LINEAR, BadRow, Evaluation, Runner, judged_from
from jaxmkl.evaluate import advice
from jaxmkl.evaluate.advice import Advice
from jaxmkl.evaluate.candidates import Candidate, has_linear_bank, importances, kernel_weights
from jaxmkl.evaluate.effects import Effect, WordEffect, by_column
from jaxmkl.evaluate.memory import held_bytes, state_bytes
from jaxmkl.evaluate.rows import Row, lines, plain, rows
from jaxmkl.evaluate.scores import Score
from jaxmkl.tables import SkippedRows

SORTED = 0.9  # a table looks sorted if the kappa of the last label is above this
WORSE = 1.02  # a learner is called worse if its error is more than this many times the baseline's
JUDGED = 100  # rows that must have been judged before it is called so


class Learned(NamedTuple):
    """The cost of a learner, and what its first seed learned; empty where it has no such thing."""

    microseconds: float = math.nan  #: per row of a run, without compilation
    state_bytes: int = 0  #: of its state at the end
    kernel_weights: Mapping[str, float] = {}  #: at the end, by the kernels' names
    importances: Mapping[str, float] = {}  #: of the inputs in its learned metric, by their names
    #: how often the predicted class was right, by its probability, in bins of equal width on
    #: [0, 1]: ``counts`` of rows, their mean ``confidence``, ``accuracy``
    calibration: Mapping[str, tuple[float, ...]] = {}
    #: the densities of numbers: ``pit``, rows by the probability integral transform in ten bins;
    #: ``curves``, means over the windows of ``Results.curves`` of ``log_score``, ``crps``,
    #: ``coverage`` and ``width``; ``latest``, of the last rows ``row``, ``label``,
    #: ``prediction``, ``low`` and ``high``
    density: Mapping[str, Any] = {}
    column_importances: Mapping[str, float] = {}  #: sums over the inputs of each column
    #: how much the error (of probabilities the log loss) grows if a column has the values of other
    #: rows, as a share of it, over some rows of the last half, the largest first; this, effects
    #: and words are told where a report or figures are written
    growth: Mapping[str, float] = {}
    #: partial dependence on the columns that matter most, by name, over the last rows: of the
    #: number in units of the target, of the probability (or the margin) of the second of two
    #: classes, or of the probability of the class predicted most often
    effects: Mapping[str, Effect] = {}
    told_class: str = ""  #: the class that effects and words are of; "" of numbers
    #: judged rows of class i that were taken for class j (K, K); () of numbers
    confusion: tuple[tuple[float, ...], ...] = ()
    #: of columns of texts, by name, the words that change ``effects``' numbers most
    words: Mapping[str, Mapping[str, WordEffect]] = {}
    #: of numbers, of rows spread over the run: ``row``, ``label`` and ``prediction``
    said: Mapping[str, tuple[float, ...]] = {}
    #: of numbers, over the windows of ``Results.curves``: the ``mean`` of labels minus predictions
    #: and their ``deviation`` from it
    residuals: Mapping[str, tuple[float, ...]] = {}
    #: weights of a mixture's memories and banks, and of a stack's parts, before each ``row``
    shares: Mapping[str, tuple[float, ...]] = {}


class Curves(NamedTuple):
    """Errors and labels over the rows: means over windows of equal size."""

    window: int  #: rows of a window; the last one may be shorter
    rows: tuple[int, ...]  #: the number of the last row of each window (W,)
    #: mean squared error or share of mistakes in each window (W,), by the rows' names, of the
    #: first seed; NaN for a window without labels
    error: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[float, ...]]  #: share of labels asked for, by learner (W,)


def versions() -> dict[str, str]:
    """The versions of the packages in use."""
    found = {"jaxmkl": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("jax", "numpy", "polars")}


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of a run, as a table, a JSON file or a page shows them."""

    command: str  #: as it was given
    #: a row for each figure, of learners in the order asked for, then of baselines. Of classes
    #: ``mistake_rate``, ``kappa``, ``kappa_last`` (against the last label), of learners with
    #: probabilities ``log_loss``, ``brier`` and ``calibration_error`` too; of numbers ``mse``,
    #: ``mae``, ``skill`` (1 - mse / that of the mean so far), ``skill_last``, of learners
    #: with densities ``log_score``, ``crps``, and of intervals of 90 % ``coverage`` and ``width``;
    #: of learners ``label_rate``, the share of rows whose label was asked for and was there
    rows: tuple[Row, ...]
    source: str  #: name of the table
    target: str
    task: str  #: "regression" or "classification"
    classes: tuple[str, ...]  #: by name, in order; () of numbers
    num_rows: int  #: the number of rows that were evaluated
    num_unlabelled: int  #: those of them without a target: they are predicted, not learned
    #: the first row, counted from 1, at which all learners and baselines know a label: metrics and
    #: errors are of the rows from there on; None if there was none
    judged_from: int | None
    num_inputs: int  #: the number of inputs of the learners
    learners: Mapping[str, Learned]  #: by name; all others are baselines
    curves: Curves
    columns: tuple[str, ...]  #: what each column became, a sentence each
    notes: tuple[str, ...]  #: further notes, a sentence each
    settings: Mapping[str, object]  #: of the command, by option
    seconds: float  #: from the beginning to the end, compilation and reading included
    peak_bytes: int  #: the largest memory of the process
    #: what to do next, in the order of worth; () if nothing is certain
    advice: tuple[Advice, ...] = ()
    is_interrupted: bool = False  #: whether it was stopped before the table's end
    ended_by: str = ""  #: the sentence on what stopped it, if that was no interrupt
    bad_rows: tuple[BadRow, ...] = ()  #: those that were skipped
    versions: Mapping[str, str] = dataclasses.field(default_factory=versions)

    @property
    def lines(self) -> dict[str, dict[str, Row]]:
        """The rows of each learner and baseline, by metric."""
        return {name: line for (_, name), line in lines(self.rows).items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics, in the order of the table."""
        return tuple(dict.fromkeys(row.metric for row in self.rows))

    @property
    def error(self) -> str:
        """The name of the metric by which learners are compared."""
        return "mistake_rate" if self.classes else "mse"

    @property
    def seeds(self) -> int:
        """The number of runs of each learner."""
        return max(row.seeds for row in self.rows)

    def to_json(self) -> str:
        """Strict JSON: all fields by their names, with ``rows`` as experiments write them.

        ``table`` has all figures of a learner or baseline beside its cost.
        """
        table = []
        for name, line in self.lines.items():
            some = next(iter(line.values()))
            of_line = {"name": name, "is_baseline": name not in self.learners}
            of_line["metrics"] = {metric: (row.mean, row.std) for metric, row in line.items()}
            of_line |= {"parameters": some.parameters, "seeds": some.seeds}
            table.append(of_line | self.learners.get(name, Learned())._asdict())
        content = {**vars(self), "table": table}
        del content["learners"]
        return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


# --- of a run that has ended ---------------------------------------------------------------------


def results_of(
    given: Namespace,
    evaluation: Evaluation,
    made: Sequence[Candidate],
    notes: Sequence[str],
    is_interrupted: bool,
    ended_by: str,
) -> Results:
    """The results of a run with the options given, up to the last row that was evaluated."""
    columns, now, target = evaluation.columns, evaluation.now, evaluation.columns.target
    assert target is not None
    notes, is_written = [*notes], not (given.json is given.report is None)
    if columns.classes and now.scores[1].kappa > SORTED:
        notes.append("the last label is nearly always right: the table looks sorted, and "
                     "learners that follow the last label look better than they are")  # fmt: skip
    notes += _of_worse(made, evaluation)
    if evaluation.bad:
        notes.append(str(SkippedRows([row.number for row in evaluation.bad])))
    notes += columns.losses(now.unseen)
    begin = judged_from(now.baselines, (runner.now for runner in evaluation.everyone))
    learned, moved = dict[str, Learned](), dict[str, advice.Permuted]()
    for place, (name, runners) in enumerate(evaluation.runners.items()):
        learned[name] = found = _learned(place, runners, evaluation)
        if is_written:  # what takes predictions
            told, moved[name] = effects.told(runners[0], evaluation, found.column_importances)
            learned[name] = found._replace(**told)
    return Results(
        command=given.line,
        rows=_rows(Path(given.file).name, made, evaluation),
        source=given.file,
        target=target.name,
        task=columns.task,
        classes=columns.classes,
        num_rows=now.num_rows,
        num_unlabelled=now.num_unlabelled,
        judged_from=None if begin == math.inf else 1 + int(begin),
        num_inputs=len(columns.features),
        learners=learned,
        curves=_curves(evaluation),
        columns=columns.notes,
        advice=_advice(learned, evaluation, moved),
        notes=(*notes, *evaluation.warned),
        bad_rows=evaluation.bad,
        settings=options.plain(given, options.OF_THE_LINE),
        seconds=now.seconds,
        peak_bytes=held_bytes(),
        is_interrupted=is_interrupted,
        ended_by=ended_by,
    )


def _rows(dataset: str, made: Sequence[Candidate], evaluation: Evaluation) -> tuple[Row, ...]:
    """A row for each figure of the learners, then of the baselines."""
    found, now = list[Row](), evaluation.now
    for one in made:
        runners = evaluation.runners[one.name]
        found += rows(
            ("own", dataset, one.name),
            _metrics(runners, evaluation),
            parameters=one.parameters,
            seconds_per_run=_seconds(runners),
        )
    for name, score in now.of_baselines.items():
        measured = {metric: [value] for metric, value in score.metrics(*now.scores).items()}
        found += rows(("own", dataset, name), measured)
    return tuple(found)


def _metrics(runners: Sequence[Runner], evaluation: Evaluation) -> dict[str, list[float]]:
    """The metrics of a learner over the seeds, by name."""
    labelled = max(1, evaluation.now.num_rows - evaluation.now.num_unlabelled)
    each = list[dict[str, float]]()
    for runner in runners:
        found = runner.now.score.metrics(*evaluation.now.scores)
        for sure in (runner.now.certainty, runner.now.densities):
            found |= {} if sure is None else sure.metrics()
        each.append(found | {"label_rate": runner.now.num_labels / labelled})
    return {name: [of[name] for of in each] for name in each[0]}


def _seconds(runners: Sequence[Runner]) -> float:
    return sum(runner.now.seconds for runner in runners) / len(runners)


def _learned(place: int, runners: Sequence[Runner], evaluation: Evaluation) -> Learned:
    """The cost of a learner over its seeds, and what the first of them learned."""
    columns, learner, first = evaluation.columns, runners[0].learner, runners[0].now
    shares = importances(learner, first.state, columns.features)
    return Learned(
        microseconds=1e6 * _seconds(runners) / evaluation.now.num_rows,
        state_bytes=state_bytes(first.state),
        kernel_weights=kernel_weights(learner, first.state),
        importances=shares,
        calibration={} if first.certainty is None else first.certainty.calibration(),
        density={} if first.densities is None else first.densities.calibration(),
        column_importances=by_column(shares, {of.name: of.features for of in columns.kinds}),
        confusion=tuple(map(tuple, first.score.confusion.tolist())),
        shares=_shares(runners[0]),
        **_residuals(place, first.score, evaluation),
    )


def _shares(runner: Runner) -> dict[str, tuple[float, ...]]:
    """The weights of what carries the predictions of a learner, before some rows."""
    kept = runner.now.shares
    if kept is None:
        return {}
    columns = zip(("row", *runner.carried), (1 + kept.numbers, *kept.found.T), strict=True)
    return {name: tuple(values.tolist()) for name, values in columns}


def _residuals(place: int, score: Score, evaluation: Evaluation) -> dict[str, Any]:
    """The predictions of some rows beside their labels, and the residuals of all by windows."""
    watched = evaluation.now.watched
    if watched is None or evaluation.columns.classes:
        return {}
    _, labels, said = evaluation.judged
    rows = watched.rows.numbers[~np.isnan(watched.rows.found[:, -1 - len(said)])]
    columns = {"row": 1 + rows, "label": labels, "prediction": said[place]}
    means = watched.residuals[place].means
    deviations = np.sqrt(np.maximum(score.curve.means - np.square(means), 0.0))
    windows = {"mean": tuple(means.tolist()), "deviation": tuple(deviations.tolist())}
    return {"said": {name: tuple(values.tolist()) for name, values in columns.items()},
            "residuals": windows}  # fmt: skip


def _advice(
    learned: Mapping[str, Learned], evaluation: Evaluation, moved: Mapping[str, advice.Permuted]
) -> tuple[Advice, ...]:
    """Advice on the next step, by the learner that errs least."""
    now, K, runners = evaluation.now, len(evaluation.columns.classes), evaluation.runners
    metric = "share of mistakes" if K else "mean squared error"
    best = next(iter(mean_errors(evaluation)))
    curves = {name: of[0].now.score.curve for name, of in runners.items()}
    X, y, said = evaluation.judged
    columns, by_best = effects.single_numbers(evaluation.columns, X), said[[*runners].index(best)]
    blind = min(now.scores, key=lambda score: score.error)
    found = [advice.leaks(columns, y, by_best, K, blind.error)]
    found.append(drift := advice.drift(curves[best], metric))
    others = {about: now.of_baselines[name].curve
              for about, name in (("linear", LINEAR), ("boosting", BOOSTING))
              if name in now.of_baselines}  # fmt: skip
    if has_linear_bank(runners[best][0].learner):  # what is advised is there
        others.pop("linear", None)
    found.append(advice.better_baseline(curves[best], others, blind.curve, best))
    if drift is None or drift.figures["row"] < now.num_rows / 2:
        found.append(advice.rows_that_help(curves[best], now.scores[0].curve, metric))
    if best in moved:
        idle = effects.idle_columns(moved[best], evaluation.columns, learned[best].growth)
        found.append(advice.of_idle(idle, best))
    as_good = [name for name, curve in curves.items()
               if name != best and advice.as_good(curve, curves[best])]  # fmt: skip
    labels = {name: each[0].now.num_labels for name, each in runners.items()}
    seconds = {name: _seconds(each) for name, each in runners.items()}
    found += advice.cheaper(best, as_good, labels, seconds)
    return tuple(one for one in found if one is not None)


def mean_errors(evaluation: Evaluation) -> dict[str, float]:
    """The errors of the learners so far, each the mean of its seeds, the least first."""
    found = {name: float(np.mean([one.now.score.error for one in each]))
             for name, each in evaluation.runners.items()}  # fmt: skip
    return dict(sorted(found.items(), key=lambda item: np.nan_to_num(item[1], nan=np.inf)))


def _curves(evaluation: Evaluation) -> Curves:
    """Errors of the first seeds and of the baselines, and labels that the learners asked for."""
    now, firsts = evaluation.now, {name: each[0].now for name, each in evaluation.runners.items()}
    size, windows = now.scores[0].curve.size, len(now.scores[0].curve.means)
    scores = {name: one.score for name, one in firsts.items()}
    scores |= now.of_baselines
    return Curves(
        window=size,
        rows=tuple(min((i + 1) * size, now.num_rows) for i in range(windows)),
        error={name: tuple(score.curve.means.tolist()) for name, score in scores.items()},
        labels={name: tuple(one.labels.means.tolist()) for name, one in firsts.items()},
    )


def _of_worse(made: Sequence[Candidate], evaluation: Evaluation) -> list[str]:
    """A sentence on the learners that are worse than the mean of the labels, if there are any."""
    baseline, classes = evaluation.now.scores[0], evaluation.columns.classes
    if baseline.num_judged < JUDGED or not baseline.error:
        return []
    errors = mean_errors(evaluation)
    worse = {one.name: ratio for one in made
             if (ratio := errors[one.name] / baseline.error) > WORSE}  # fmt: skip
    if not worse:
        return []
    of, unit = ("most frequent class", "mistakes") if classes else ("mean", "squared error")
    named = ", ".join(f"{name} ({ratio:.2f} times)" for name, ratio in worse.items())
    text = f"worse than the {of} so far, by its {unit}: {named}"
    stepping = [one.name for one in made if one.name in worse and "step_size" in one.parameters]
    if stepping and not classes:
        text += "; where inputs tell little, or labels have heavy tails, a step of size η only "
        text += "adds noise, about 1/(1 - η |z|²) times: take a tenth of it (--set step_size=...)"
    return [text]
