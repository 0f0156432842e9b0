"""What a run leaves behind, as plain values: for the screen, JSON, and whatever reports on it."""

import dataclasses
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxmkl._version import __version__


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table: one learner or baseline."""

    name: str  #: as on the command line, or that of the baseline
    is_baseline: bool
    #: mean and standard deviation over the seeds, by metric. Of classes ``mistake_rate``,
    #: ``kappa``, ``kappa_last`` (against the last label); of numbers ``mse``, ``mae``, ``skill``
    #: (1 - mse / that of the mean so far), ``skill_last``; of learners ``label_rate``, the share
    #: of rows whose label was asked for and was there
    metrics: Mapping[str, tuple[float, float]]
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: of the recipe
    seeds: int = 1  #: runs that the metrics are means of
    microseconds: float = math.nan  #: for one row, compilation apart; NaN of a baseline
    state_bytes: int = 0  #: of the learner's state at the end
    #: of the kernels at the end, by their names, of the first seed; empty without any
    kernel_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Curves:
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
    table: tuple[Row, ...]  #: learners in the order asked for, then baselines
    curves: Curves
    columns: tuple[str, ...]  #: what each column became, a sentence each
    notes: tuple[str, ...]  #: what else is to be said, a sentence each
    settings: Mapping[str, Any]  #: of the command, by option
    seconds: float  #: from the beginning to the end, compilation and reading included
    peak_bytes: int  #: the most memory the process held
    is_interrupted: bool = False  #: whether it was stopped before the table's end
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: versions())

    def json_rows(self) -> list[dict[str, Any]]:
        """A row for each metric, as experiments write theirs."""
        same = {"paper": "own", "dataset": Path(self.source).name, "printed": None}
        found = []
        for row in self.table:
            seconds = row.microseconds * 1e-6 * self.num_rows
            for metric, (mean, std) in row.metrics.items():
                of = {"algorithm": row.name, "metric": metric, "mean": mean, "std": std}
                more = {"seeds": row.seeds, "parameters": row.parameters}
                found.append(same | of | more | {"seconds_per_run": seconds})
        return found

    def to_json(self) -> str:
        """Strict JSON: ``rows`` as experiments write them, and all fields by their names."""
        content = {"command": self.command, "rows": self.json_rows(), **_fields(self)}
        return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass; what they hold, as a learner's parameters, stays as it is."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {"jaxmkl": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in ("jax", "numpy", "polars")}


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it; a number that is not finite becomes null.

    >>> plain({"a": np.float32(0.5), "b": float("nan"), "c": (1, None)})
    {'a': 0.5, 'b': None, 'c': [1, None]}
    """
    if isinstance(value, Row | Curves):
        value = _fields(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float | np.number):
        number = value.item() if isinstance(value, np.number) else value
        return number if math.isfinite(number) else None
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(np.asarray(value).tolist())
    return " ".join(repr(value).split())
