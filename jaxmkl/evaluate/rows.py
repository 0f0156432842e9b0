"""Rows of results: the mean and deviation of a metric over seeds, in JSON and as text."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

LOW_IS_BETTER = ("mistake_rate", "mse", "mae")


class Row(NamedTuple):
    """One measured figure: the mean and standard deviation of a metric over the seeds."""

    paper: str
    dataset: str
    algorithm: str
    metric: str
    mean: float
    std: float
    seeds: int
    printed: float | None = None
    parameters: Mapping[str, object] = {}
    seconds_per_run: float | None = None

    @property
    def name(self) -> tuple[str, str, str, str]:
        """Paper, data set, algorithm and metric."""
        return self[:4]


def row(
    name: tuple[str, str, str, str], values: Any, *, seeds: int | None = None, **others: Any
) -> Row:
    """The row of a metric's values over the seeds (S,); the deviation is the sample's.

    A figure that several seeds have made together comes alone, with their number.

    >>> row(("amkl", "tom", "raker", "mse"), [1.0, 3.0]).std
    1.4142135623730951
    """
    mean, std = spread(values)
    return Row(*name, mean=mean, std=std, seeds=seeds or len(values), **others)


Printed = Callable[[str, str, str, str], float | None]
"""Tells what is printed of a paper, data set, algorithm and metric."""


def rows(
    name: tuple[str, str, str],
    measured: Mapping[str, Any],
    printed: Printed | None = None,
    **others: Any,
) -> list[Row]:
    """A row for each metric.

    Args:
      name: paper, data set and algorithm.
      measured: values over the seeds (S,) by metric.
      printed: tells the printed figure, if there are any.
      **others: fields that the rows have in common.
    """
    return [
        row((*name, metric), values, printed=printed and printed(*name, metric), **others)
        for metric, values in measured.items()
    ]


def spread(values: ArrayLike) -> tuple[float, float]:
    """The mean and the sample's standard deviation over the seeds, 0 where all are the same.

    >>> spread([1.0, 3.0]), spread([0.5, 0.5, 0.5])
    ((2.0, 1.4142135623730951), (0.5, 0.0))
    """
    values = np.asarray(values, np.float64)
    differ = values.min() < values.max()
    return float(values.mean()), float(values.std(ddof=1)) if differ else 0.0


def lines(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """The lines of a table: rows by data set and algorithm, and then by metric."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for one in rows:
        found.setdefault((one.dataset, one.algorithm), {})[one.metric] = one
    return found


def mean_and_std(one: Row | None) -> str:
    """A row's mean and, where there is one, its standard deviation; nothing for no row.

    >>> mean_and_std(row(("amkl", "tom", "raker", "mse"), [1.0, 3.0]))
    '2.000 ± 1'
    """
    if one is None:
        return ""
    return figure(one.mean) + (f" ± {one.std:.1g}" if one.std > 0 else "")


def figure(value: float | None, unit: float = 1.0) -> str:
    """A number, in a unit, with the digits that matter; a hyphen for one that is not there.

    >>> figure(0.00272), figure(0.00272, 1e-3), figure(12.345), figure(1.5e7), figure(None)
    ('0.0027', '2.720', '12.345', '1.50e+07', '-')
    """
    value = math.nan if value is None else value / unit
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.{decimals(value)}f}"


def decimals(value: float) -> int:
    """The number of decimals that a number of that size is shown with."""
    return 4 if abs(value) < 1 else 3 if abs(value) < 100 else 1


def size(num_bytes: int) -> str:
    """Bytes, or millions of them.

    >>> size(58_172), size(3 * 2**20)
    ('58,172 B', '3.0 MiB')
    """
    return f"{num_bytes / 2**20:.1f} MiB" if num_bytes > 1e5 else f"{num_bytes:,} B"


def settings(of: Mapping[str, object]) -> str:
    """Names and values on one line.

    >>> settings({"step_size": 0.5, "loss": "hinge"})
    'step_size = 0.5, loss = hinge'
    """
    return ", ".join(f"{name} = {plain(value)}" for name, value in of.items())


def plain(value: object) -> Any:
    """A value as strict JSON can hold it; a number that is not finite becomes null.

    >>> plain({"a": np.float32(0.5), "b": float("nan"), "c": (1, None)})
    {'a': 0.5, 'b': None, 'c': [1, None]}
    """
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
