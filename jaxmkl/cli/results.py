"""The results of a run as plain values: for the screen, JSON and reports."""

import dataclasses
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxmkl._version import __version__
from jaxmkl.evaluate import Row, lines, plain


class Learned(NamedTuple):
    """The cost of a learner, and what it learned."""

    microseconds: float = math.nan  #: per row, without compilation
    state_bytes: int = 0  #: of its state at the end
    #: of the kernels at the end, by their names, of the first seed; empty without any
    kernel_weights: Mapping[str, float] = {}
    #: how much each input matters, by its name, of the first seed; empty without a learned metric
    importances: Mapping[str, float] = {}
    #: how often the predicted class was right, by its probability, in bins of equal width on
    #: [0, 1], of the first seed: ``counts`` of rows, their mean ``confidence``, ``accuracy``;
    #: empty without probabilities
    calibration: Mapping[str, tuple[float, ...]] = {}
    #: the densities of numbers, of the first seed: ``pit``, rows by the probability integral
    #: transform in ten bins; ``curves``, means over the windows of ``Results.curves`` of
    #: ``log_score``, ``crps``, ``coverage`` and ``width``; ``latest``, of the last rows ``row``,
    #: ``label``, ``prediction``, ``low`` and ``high``; empty without densities
    density: Mapping[str, Any] = {}


class Curves(NamedTuple):
    """Errors and labels over the rows: means over windows of equal size."""

    window: int  #: rows of a window; the last one may be shorter
    rows: tuple[int, ...]  #: the number of the last row of each window (W,)
    #: mean squared error or share of mistakes in each window (W,), by the rows' names, of the
    #: first seed; NaN for a window without labels
    error: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[float, ...]]  #: share of labels asked for, by learner (W,)


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
    num_rows: int  #: that were played
    num_unlabelled: int  #: of those, without a target: predicted, not learned
    #: the first row, from 1 on, that learners and baselines all predict knowing a label: metrics
    #: and errors are of the rows from there on; None if there was none
    judged_from: int | None
    num_inputs: int  #: features that learners saw
    learners: Mapping[str, Learned]  #: by name; all others are baselines
    curves: Curves
    columns: tuple[str, ...]  #: what each column became, a sentence each
    notes: tuple[str, ...]  #: further notes, a sentence each
    settings: Mapping[str, object]  #: of the command, by option
    seconds: float  #: from the beginning to the end, compilation and reading included
    peak_bytes: int  #: the largest memory of the process
    is_interrupted: bool = False  #: whether it was stopped before the table's end
    ended_by: str = ""  #: the sentence on what stopped it, if that was no interrupt
    #: rows that were skipped as they cannot be read: the ``number`` of each, and the ``reason``
    bad_rows: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: versions())

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
        """Strict JSON: ``rows`` as experiments write them, and all fields by their names.

        ``table`` has all figures of a learner or baseline beside its cost.
        """
        table = []
        for name, line in self.lines.items():
            some = next(iter(line.values()))
            of_line = {"name": name, "is_baseline": name not in self.learners}
            of_line["metrics"] = {metric: (row.mean, row.std) for metric, row in line.items()}
            of_line |= {"parameters": some.parameters, "seeds": some.seeds}
            table.append(of_line | self.learners.get(name, Learned())._asdict())
        content = {**vars(self), "table": table, "curves": self.curves._asdict()}
        content["rows"] = [row._asdict() for row in self.rows]
        del content["learners"]
        return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def versions() -> dict[str, str]:
    """The versions of the packages in use."""
    found = {"jaxmkl": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("jax", "numpy", "polars")}
