"""Rows of results: the mean and deviation of a metric over seeds, in JSON and as text."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

LOW_IS_BETTER = (
    *("mistake_rate", "log_loss", "brier", "calibration_error"),
    *("mse", "mae", "variance_share", "crps"),
)
# control characters, ends of lines and paragraphs, changes of direction, halves of surrogates
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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
    """Return the row of a metric's values over the seeds (S,), with the sample deviation.

    A single figure that several seeds share is given with their number.

    >>> row(("amkl", "tom", "raker", "mse"), [1.0, 3.0]).std
    1.4142135623730951
    """
    mean, std = spread(values)
    return Row(*name, mean=mean, std=std, seeds=seeds or len(values), **others)


Printed = Callable[[str, str, str, str], float | None]
"""A function of paper, data set, algorithm and metric that returns the printed figure."""


def rows(
    name: tuple[str, str, str],
    measured: Mapping[str, Any],
    printed: Printed | None = None,
    **others: Any,
) -> list[Row]:
    """Return a row for each metric, given its values over the seeds (S,).

    The name is paper, data set and algorithm; all rows share the other fields.
    """
    return [
        row((*name, metric), values, printed=printed and printed(*name, metric), **others)
        for metric, values in measured.items()
    ]


def spread(values: ArrayLike) -> tuple[float, float]:
    """Return the mean and the sample standard deviation over the seeds, 0 if all are equal.

    >>> spread([1.0, 3.0]), spread([0.5, 0.5, 0.5])
    ((2.0, 1.4142135623730951), (0.5, 0.0))
    """
    values = np.asarray(values, np.float64)
    differ = values.min() < values.max()
    return float(values.mean()), float(values.std(ddof=1)) if differ else 0.0


def lines(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """Return the lines of a table: rows by data set and algorithm, then by metric."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for one in rows:
        found.setdefault((one.dataset, one.algorithm), {})[one.metric] = one
    return found


def mean_and_std(one: Row | None) -> str:
    """Return a row's mean and its standard deviation, if it has one; empty for no row.

    >>> mean_and_std(row(("amkl", "tom", "raker", "mse"), [1.0, 3.0]))
    '2.000 ± 1'
    """
    if one is None:
        return ""
    return figure(one.mean) + (f" ± {one.std:.1g}" if one.std > 0 else "")


def figure(value: float | None, unit: float = 1.0) -> str:
    """Return a number, in a unit, with its significant digits; a hyphen for a missing one.

    >>> figure(0.00272), figure(0.00272, 1e-3), figure(12.345), figure(1.5e7), figure(None)
    ('0.0027', '2.720', '12.345', '1.50e+07', '-')
    """
    value = math.nan if value is None else value / unit
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.{decimals(value)}f}"


def two_digits(value: float) -> str:
    """Return a number rounded to two digits, without a power of ten unless it is huge or tiny.

    >>> two_digits(0.0752), two_digits(99.71), two_digits(168.2)
    ('0.075', '100', '170')
    """
    return f"{float(f'{value:.2g}'):g}"


def decimals(value: float) -> int:
    """Return the number of decimals with which a number of that size is shown."""
    return 4 if abs(value) < 1 else 3 if abs(value) < 100 else 1


def size(num_bytes: int) -> str:
    """Return a number of bytes as text, in bytes or MiB.

    >>> size(58_172), size(3 * 2**20)
    ('58,172 B', '3.0 MiB')
    """
    return f"{num_bytes / 2**20:.1f} MiB" if num_bytes > 1e5 else f"{num_bytes:,} B"


def settings(of: Mapping[str, object]) -> str:
    """Return names and values on one line.

    >>> settings({"step_size": 0.5, "loss": "hinge"})
    'step_size = 0.5, loss = hinge'
    """
    return ", ".join(f"{name} = {plain(value)}" for name, value in of.items())


def plain(value: object) -> Any:
    """Return a value that strict JSON can hold; numbers that are not finite become null.

    Named tuples become objects.

    >>> plain({"a": np.float32(0.5), "b": float("nan"), "c": (1, None)})
    {'a': 0.5, 'b': None, 'c': [1, None]}
    """
    value = value._asdict() if hasattr(value, "_asdict") else value
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


def printable(text: object, keep: str = "") -> str:
    r"""Text whose control characters are escaped, so that it cannot steer a terminal.

    Args:
      text: anything that :class:`str` takes, such as the name of a column, a class or a file.
      keep: characters that stay as they are.

    >>> printable("a\x1b[31mb"), printable("1\n2"), printable("1\n2", keep="\n")
    ('a\\x1b[31mb', '1\\n2', '1\n2')
    """
    return UNPRINTABLE.sub(
        lambda one: one[0] if one[0] in keep else one[0].encode("unicode_escape").decode(),
        str(text),
    )
