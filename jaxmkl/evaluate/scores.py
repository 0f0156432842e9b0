"""How good predictions are, summed up chunk by chunk: errors, kappa, baselines, curves."""

import copy
import math
from typing import NamedTuple

import numpy as np

from jaxmkl.metrics import kappa_of

WINDOWS = 256  # of a curve, at most; then two become one
FIRST_WINDOW = 64  # rows


class Curve:
    """Means over windows of rows, of which there are at most :data:`WINDOWS`, all of one size."""

    def __init__(self) -> None:
        self.size, self._rows = FIRST_WINDOW, 0
        self._sums, self._counts = np.zeros((2, WINDOWS))

    def add(self, values: np.ndarray) -> None:
        """Add the next rows (n,); NaN where there is none."""
        while self._rows + len(values) > self.size * WINDOWS:
            self.size *= 2
            for sums in (self._sums, self._counts):
                sums[: WINDOWS // 2], sums[WINDOWS // 2 :] = sums[::2] + sums[1::2], 0
        places = (self._rows + np.arange(len(values))) // self.size
        known = ~np.isnan(values)
        self._sums += np.bincount(places[known], values[known], WINDOWS)
        self._counts += np.bincount(places[known], minlength=WINDOWS)
        self._rows += len(values)

    @property
    def means(self) -> np.ndarray:
        """Means of the windows so far, NaN for one without values; the last may be shorter."""
        used = -(-self._rows // self.size)
        sums, counts = self._sums[:used], self._counts[:used]
        return np.divide(sums, counts, out=np.full(used, np.nan), where=counts > 0)


class Score:
    """What predictions of a stream achieved, one number a row: a class from 0 on, or a value."""

    def __init__(self, num_classes: int) -> None:
        K = self.num_classes = num_classes  # 0 for numbers
        self.curve = Curve()
        self.num_judged, self._squares, self._distances = 0, 0.0, 0.0
        self._confusion = np.zeros((K, K))

    def add(self, predicted: np.ndarray, y: np.ndarray) -> None:
        """Judge predictions (n,) by labels (n,), NaN where there is none."""
        known = ~np.isnan(y)
        of, said = y[known], predicted[known]
        errors = np.full(len(y), np.nan)
        if self.num_classes:
            errors[known] = of != said
            K, seen = self.num_classes, ~np.isnan(said)
            pairs = (of[seen] * K + said[seen]).astype(int)
            self._confusion += np.bincount(pairs, minlength=K * K).reshape(K, K)
            self._squares += float(errors[known].sum())
        else:
            errors[known] = np.square(of - said)
            self._squares += float(errors[known].sum())
            self._distances += float(np.abs(of - said).sum())
        self.num_judged += int(known.sum())
        self.curve.add(errors)

    @property
    def error(self) -> float:
        """The mean squared error, or the share of mistakes."""
        return self._squares / self.num_judged if self.num_judged else float("nan")

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return self._distances / self.num_judged if self.num_judged else float("nan")

    @property
    def kappa(self) -> float:
        """Cohen's kappa: the agreement beyond that by chance; 0 where nothing varies."""
        return float(kappa_of(self._confusion)) if self._confusion.any() else 0.0

    def beyond(self, other: "Score") -> float:
        """The share of another's error that is not made: 1 - error / other's; NaN if that is 0.

        Of classes against the last label this is the kappa of Žliobaitė et al. (2015).
        """
        return 1 - self.error / other.error if other.error > 0 else float("nan")

    def metrics(self, baselines: dict[str, "Score"]) -> dict[str, float]:
        """The figures of a table, by name."""
        first, last = baselines.values()
        if self.num_classes:
            found = {"mistake_rate": self.error, "kappa": self.kappa}
            return found | {"kappa_last": self.beyond(last)}
        found = {"mse": self.error, "mae": self.mae}
        return found | {"skill": self.beyond(first), "skill_last": self.beyond(last)}


class Seen(NamedTuple):
    """Labels that a run has seen; by default nothing is known of them."""

    start: float = 0.0
    """Where numbers begin: the first label. It is taken off them in double precision, so that an
    offset far above their changes costs nothing where learners work in single precision."""
    counts: tuple[float, ...] = ()
    """Labels so far, of each class; of numbers of all. Zeros before the first."""
    total: float = 0.0
    """The sum of numbers."""
    last: float = 0.0
    """The last label, a number or the place of its class."""

    @classmethod
    def nothing(cls, num_classes: int) -> "Seen":
        """Before the first label, of so many classes or 0 for numbers."""
        return cls(counts=(0.0,) * max(1, num_classes))

    @property
    def is_nothing(self) -> bool:
        """Whether it is known that there was no label."""
        return bool(self.counts) and not any(self.counts)


class Baselines:
    """What one would say without a learner: the mean or majority so far, and the last label.

    They see every label, whether or not a learner asks for it. Before the first they say 0, or
    class 0.

    Args:
      num_classes: K; 0 for numbers.
      delay: rounds that labels come late.
      seen: labels before the first row.
    """

    def __init__(self, num_classes: int, delay: int, seen: Seen) -> None:
        self.num_classes = num_classes
        #: the row from which on they know a label
        self.known_from = 0.0 if any(seen.counts) else math.inf
        #: NaN until the first label of numbers
        self.start = math.nan if seen.is_nothing and not num_classes else seen.start
        self._waiting = np.full(delay, np.nan)
        self._counts = np.array(seen.counts or Seen.nothing(num_classes).counts)
        self._sum, self._last, self._rows = seen.total, seen.last, 0

    def starting(self, y: np.ndarray) -> float:
        """Where numbers begin: at the first label of all, or of these (n,); NaN without any."""
        known = y[~np.isnan(y)]
        return float(known[0]) if math.isnan(self.start) and len(known) else self.start

    def seen(self) -> Seen:
        """What is known once the labels that are due have come."""
        then = copy.copy(self)
        then.say(np.full(len(self._waiting), np.nan))
        if math.isnan(self.start):
            return Seen.nothing(self.num_classes)
        counts = tuple(then._counts.tolist()) if then._counts.any() else ()
        return Seen(self.start, counts, then._sum, then._last)

    @property
    def names(self) -> tuple[str, str]:
        """Their names."""
        return ("majority so far" if self.num_classes else "mean so far"), "last label"

    def say(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the two say of each row (n,), before its label, given all labels."""
        n, self.start = len(y), self.starting(y)
        came = np.concatenate([self._waiting, y])
        self._waiting, came = came[n:], came[:n]
        known = ~np.isnan(came)
        self.known_from = min(self.known_from, first_of(known, self._rows) + 1)
        self._rows += n
        values = np.where(known, came, 0.0)
        places = np.maximum.accumulate(np.where(known, np.arange(1, n + 1), 0))
        last = np.concatenate([[self._last], values])[np.concatenate([[0], places])]
        if self.num_classes:
            each = known[:, None] & (values[:, None] == np.arange(self.num_classes))
            counts = np.cumsum(np.concatenate([self._counts[None], each]), axis=0)
            first, self._counts = counts.argmax(axis=1).astype(float), counts[-1]
        else:
            counts = np.cumsum(np.concatenate([self._counts, known]))
            sums = np.cumsum(np.concatenate([[self._sum], values]))
            first = sums / np.maximum(counts, 1)
            self._counts, self._sum = counts[-1:], float(sums[-1])
        self._last = float(last[-1])
        return first[:n], last[:n]


def seen_after(seen: Seen, y: np.ndarray, num_classes: int) -> Seen:
    """What is seen once these labels (n,) came, too, places of classes or numbers."""
    baselines = Baselines(num_classes, 0, seen)
    baselines.say(y)
    return baselines.seen()


def first_of(known: np.ndarray, rows: int) -> float:
    """The first row with a label, of some (n,) after ``rows`` others; infinity without any."""
    return rows + float(known.argmax()) if known.any() else math.inf


def classes_of(prediction: np.ndarray, num_classes: int) -> np.ndarray:
    """What a learner says (n,) or (n, K), as a class from 0 on or a number; NaN stays."""
    prediction = np.asarray(prediction, np.float64)
    if not num_classes:
        return prediction
    if prediction.ndim == 2:
        lost = np.isnan(prediction).any(axis=1)
        return np.where(lost, np.nan, prediction.argmax(axis=1))
    return np.where(np.isnan(prediction), np.nan, prediction > 0)
