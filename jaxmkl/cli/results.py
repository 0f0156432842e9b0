"""The results of a run as plain values: for the screen, JSON, and whatever reports on it."""

import dataclasses
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxmkl._version import __version__
from jaxmkl.evaluate import Row, plain


class Line(NamedTuple):
    """A line of the table: one learner or baseline, with all its figures and what it took."""

    name: str  #: as on the command line, or that of the baseline
    is_baseline: bool
    #: mean and standard deviation over the seeds, by metric. Of classes ``mistake_rate``,
    #: ``kappa``, ``kappa_last`` (against the last label); of numbers ``mse``, ``mae``, ``skill``
    #: (1 - mse / that of the mean so far), ``skill_last``; of learners ``label_rate``, the share
    #: of rows whose label was asked for and was there
    metrics: Mapping[str, tuple[float, float]]
    parameters: Mapping[str, Any] = {}  #: of the recipe
    seeds: int = 1  #: runs that the metrics are means of
    microseconds: float = math.nan  #: for one row, compilation apart; NaN of a baseline
    state_bytes: int = 0  #: of the learner's state at the end
    #: of the kernels at the end, by their names, of the first seed; empty without any
    kernel_weights: Mapping[str, float] = {}


class Curves(NamedTuple):
    """Errors and labels over the rows, as means over windows of equal size."""

    window: int  #: rows of a window; the last one may be shorter
    rows: tuple[int, ...]  #: the number of the last row of each window (W,)
    #: mean squared error or share of mistakes in each window (W,), by the rows' names, of the
    #: first seed; NaN for a window without labels
    error: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[float, ...]]  #: share of labels asked for, by learner (W,)


@dataclasses.dataclass(frozen=True)
class Results:
    """A run: all that a table, a JSON file or a page shows of it."""

    command: str  #: as it was given
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
    table: tuple[Line, ...]  #: learners in the order asked for, then baselines
    curves: Curves
    columns: tuple[str, ...]  #: what each column became, a sentence each
    notes: tuple[str, ...]  #: what else is to be said, a sentence each
    settings: Mapping[str, Any]  #: of the command, by option
    seconds: float  #: from the beginning to the end, compilation and reading included
    peak_bytes: int  #: the most memory the process held
    is_interrupted: bool = False  #: whether it was stopped before the table's end
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: versions())

    def rows(self) -> list[Row]:
        """A row for each figure of the table, as experiments have theirs."""
        dataset = Path(self.source).name
        return [
            Row(
                *("own", dataset, line.name, metric, mean, std, line.seeds),
                parameters=line.parameters,
                seconds_per_run=line.microseconds * 1e-6 * self.num_rows,
            )
            for line in self.table
            for metric, (mean, std) in line.metrics.items()
        ]

    def to_json(self) -> str:
        """Strict JSON: ``rows`` as experiments write them, and all fields by their names."""
        rows, table = ([part._asdict() for part in of] for of in (self.rows(), self.table))
        content = {"command": self.command, "rows": rows, **vars(self)}
        content |= {"table": table, "curves": self.curves._asdict()}
        return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {"jaxmkl": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("jax", "numpy", "polars")}
