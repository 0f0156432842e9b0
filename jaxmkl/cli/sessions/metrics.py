"""The work of a server and its errors, as numbers and in Prometheus' text form."""

import collections
import math
import time
from typing import Any

import numpy as np

DISCOUNT = 0.99  # of the error now, by label
TIMES = 4096  # latest answers whose times are kept
QUANTILES = 0.5, 0.9, 0.99
HELP = {
    "rows": "rows answered",
    "labels": "labels accepted",
    "waiting": "rows without a label",
    "dropped": "rows forgotten because too many had no label",
    "refused": "requests refused, by reason",
    "judged": "labels of rows that were predicted before",
    "error": "mean squared error, or share of mistakes, of predictions before their labels",
    "error_now": f"the same, with older labels discounted by {DISCOUNT} for each later one",
    "drift": "error_now divided by error: far above 1 after a change",
    "coverage": "share of the labels within their intervals",
    "renewals": "renewals of learned kernels since the learner's first round",
    "behind": "seconds since the event began that is being applied",
    "seconds": "seconds until an answer, by quantile, of the latest 4,096",
}
LABELS = {"refused": "reason", "error": "of", "seconds": "quantile"}
COUNTERS = "rows", "labels", "dropped", "judged", "refused", "renewals"


class Metrics:
    """Counts since the start of the process; ``has_classes`` if labels are classes."""

    def __init__(self, has_classes: bool) -> None:
        self.rows = self.labels = self.judged = self.inside = self.bounded = 0
        self.refused = collections.Counter[str]()
        self.seconds = collections.deque[float](maxlen=TIMES)
        self._has_classes = has_classes
        self._errors = dict.fromkeys(("learner", "mean or majority", "last label"), 0.0)
        self._now = self._weight = 0.0
        self._counts = collections.Counter[Any]()
        self._total, self._last = 0.0, None

    def took(self, began: float, number: int) -> None:
        """Note that so many answers came just now, to lines that came then."""
        self.seconds.extend([time.monotonic() - began] * number)

    def learned(self, label: Any, said: tuple[Any, Any] | None = None) -> None:
        """Note a label, and the prediction and interval of its row, if they are known."""
        if said is not None and self.labels:  # else the baselines know nothing
            self._judge(*said, label)
        self.labels += 1
        self._last = label
        if self._has_classes:
            self._counts[label] += 1
        else:
            self._total += label

    def _judge(self, prediction: Any, interval: Any, label: Any) -> None:
        mean = self._total / self.labels
        first = max(self._counts, key=self._counts.__getitem__) if self._has_classes else mean
        of = [self._error(one, label) for one in (prediction, first, self._last)]
        for name, error in zip(self._errors, of, strict=True):
            self._errors[name] += error
        self.judged += 1
        self._now, self._weight = DISCOUNT * self._now + of[0], DISCOUNT * self._weight + 1
        if interval is not None:
            self.bounded += 1
            self.inside += interval[0] <= label <= interval[1]

    def _error(self, prediction: Any, label: Any) -> float:
        return float(prediction != label) if self._has_classes else (prediction - label) ** 2

    def figures(self, **more: float) -> dict[str, Any]:
        """All figures by their names; those with a label of their own are dictionaries."""
        errors = {name: _share(total, self.judged) for name, total in self._errors.items()}
        now, times = _share(self._now, self._weight), [*self.seconds] or [math.nan]
        return {
            "rows": self.rows,
            "labels": self.labels,
            "judged": self.judged,
            "refused": dict(self.refused),
            "error": errors,
            "error_now": now,
            "drift": _share(now, errors["learner"]),
            "coverage": _share(self.inside, self.bounded),
            "seconds": {str(q): float(np.quantile(times, q)) for q in QUANTILES},
            **more,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def prometheus(figures: dict[str, Any]) -> str:
    """Return figures in Prometheus' text form.

    >>> print(prometheus({"waiting": 3, "refused": {"label": 1}}), end="")
    # HELP jaxmkl_waiting rows without a label
    # TYPE jaxmkl_waiting gauge
    jaxmkl_waiting 3
    # HELP jaxmkl_refused_total requests refused, by reason
    # TYPE jaxmkl_refused_total counter
    jaxmkl_refused_total{reason="label"} 1
    """
    lines = []
    for key, value in figures.items():
        is_counter = key in COUNTERS
        name = f"jaxmkl_{key}" + "_total" * is_counter
        lines.append(f"# HELP {name} {HELP[key]}")
        lines.append(f"# TYPE {name} {'counter' if is_counter else 'gauge'}")
        for of, number in value.items() if isinstance(value, dict) else [(None, value)]:
            label = "" if of is None else f'{{{LABELS[key]}="{of}"}}'
            lines.append(f"{name}{label} {'NaN' if math.isnan(number) else number}")
    return "".join(f"{line}\n" for line in lines)
