"""Predictions without a learner: the mean or majority so far, and the last label."""

import math
from typing import NamedTuple, Self

import numpy as np


class Seen(NamedTuple):
    """A summary of the labels that a run has seen; by default nothing is known about them."""

    start: float = 0.0
    """The origin of numbers, which is the first label. It is subtracted in double precision, so
    that an offset far above their changes does no harm to learners in single precision."""
    counts: tuple[float, ...] = ()
    """The number of labels so far, of each class, or of all if they are numbers."""
    total: float = 0.0
    """The sum of numbers."""
    last: float = 0.0
    """The last label, a number or the place of its class."""

    @classmethod
    def nothing(cls, num_classes: int) -> "Seen":
        """The state before the first label, for so many classes, or 0 for numbers."""
        return cls(counts=(0.0,) * max(1, num_classes))

    @property
    def is_nothing(self) -> bool:
        """True if there was certainly no label."""
        return bool(self.counts) and not any(self.counts)

    def after(self, y: np.ndarray, num_classes: int) -> "Seen":
        """The state after these labels (n,), too: class numbers, or numbers."""
        return Baselines.begin(num_classes, 0, self).after(y)[0].seen

    def after_one(self, y: float, num_classes: int) -> "Seen":
        """The state after one label, as :meth:`after` has it, in far less time.

        >>> Seen.nothing(0).after_one(3.0, 0) == Seen.nothing(0).after(np.array([3.0]), 0)
        True
        """
        counts = [*(self.counts or Seen.nothing(num_classes).counts)]
        counts[int(y) if num_classes else 0] += 1.0
        if num_classes:
            return self._replace(counts=tuple(counts), last=y)
        start = y if self.is_nothing else self.start
        return Seen(start, tuple(counts), self.total + y, y)


class Baselines(NamedTuple):
    """Two predictions without a learner: the mean or majority so far, and the last label.

    They see every label, whether or not a learner asks for it. Before the first one they predict
    0, or class 0.

    >>> baselines = Baselines.begin(0, 0, Seen.nothing(0))
    >>> baselines, (mean, last) = baselines.after(np.array([1.0, 3.0, np.nan, 5.0]))
    >>> mean.tolist(), last.tolist(), baselines.seen.total
    ([0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 3.0, 3.0], 9.0)
    """

    num_classes: int
    """K; 0 for numbers."""
    known_from: float
    """The first row at which they know a label."""
    start: float
    """The origin of numbers; NaN before the first label."""
    waiting: np.ndarray
    """The labels (N,) that are N rounds late and not known yet."""
    counts: np.ndarray
    """As in :class:`Seen`, and so are the next two."""
    total: float
    last: float
    rows: int = 0

    @classmethod
    def begin(cls, num_classes: int, delay: int, seen: Seen) -> Self:
        """The state after the labels ``seen``; those to come are late by ``delay`` rounds."""
        known_from = 0.0 if any(seen.counts) else math.inf
        start = math.nan if seen.is_nothing and not num_classes else seen.start
        counts = np.array(seen.counts or Seen.nothing(num_classes).counts)
        waiting = np.full(delay, np.nan)
        return cls(num_classes, known_from, start, waiting, counts, seen.total, seen.last)

    def starting(self, y: np.ndarray) -> float:
        """The origin of numbers: the first label of all, or of these (n,); NaN without any."""
        known = y[~np.isnan(y)]
        return float(known[0]) if math.isnan(self.start) and len(known) else self.start

    @property
    def seen(self) -> Seen:
        """The labels seen, after those that are due have arrived."""
        if math.isnan(self.start):
            return Seen.nothing(self.num_classes)
        then, _ = self.after(np.full(len(self.waiting), np.nan))
        counts = tuple(then.counts.tolist()) if then.counts.any() else ()
        return Seen(self.start, counts, then.total, then.last)

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two baselines."""
        return ("majority so far" if self.num_classes else "mean so far"), "last label"

    def after(self, y: np.ndarray) -> tuple[Self, tuple[np.ndarray, np.ndarray]]:
        """Learn the labels (n,) of the next rows, and return the two predictions of each."""
        n = len(y)
        came = np.concatenate([self.waiting, y])
        waiting, came = came[n:], came[:n]
        known = ~np.isnan(came)
        values = np.where(known, came, 0.0)
        places = np.maximum.accumulate(np.where(known, np.arange(1, n + 1), 0))
        last = np.concatenate([[self.last], values])[np.concatenate([[0], places])]
        if self.num_classes:
            each = known[:, None] & (values[:, None] == np.arange(self.num_classes))
            counts = np.cumsum(np.concatenate([self.counts[None], each]), axis=0)
            first, total = counts.argmax(axis=1).astype(float), self.total
        else:
            counts = np.cumsum(np.concatenate([self.counts, known]))[:, None]
            sums = np.cumsum(np.concatenate([[self.total], values]))
            first, total = sums / np.maximum(counts[:, 0], 1), float(sums[-1])
        after = self._replace(
            known_from=min(self.known_from, first_of(known, self.rows) + 1),
            start=self.starting(y),
            waiting=waiting,
            counts=counts[-1],
            total=total,
            last=float(last[-1]),
            rows=self.rows + n,
        )
        return after, (first[:n], last[:n])


def first_of(known: np.ndarray, rows: int) -> float:
    """The first row with a label among these (n,), which follow ``rows`` others, or infinity."""
    return rows + float(np.argmax(known)) if known.any() else math.inf
