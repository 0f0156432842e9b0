"""Baselines: the mean or majority so far, the last label, and least squares over past rows."""

import math
from typing import NamedTuple, Self

import numpy as np

MOST_INPUTS = 100  # with more, which would slow a run, there is no such baseline
BLOCK = 16  # rows whose labels are learned together
SINGLE = 64  # rows before which each is learned by itself
FAR = 10.0  # standard deviations from the mean at which inputs are clipped


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


class Linear(NamedTuple):
    """Ridge regression on standardised inputs, of numbers or of indicators of K classes.

    Each row is predicted by the solution for the labels known before it (recursive least squares,
    penalty 1 and none on the intercept), its inputs standardised by the moments up to it. After
    the first 64 rows, labels are learned whenever the number of rows is a multiple of 16.

    >>> X = np.arange(6.0)[:, None]
    >>> _, said = Linear.begin(1, 0, 0, Seen.nothing(0)).after(X, 3 * X[:, 0])
    >>> said.round(1).tolist()
    [0.0, 0.0, 2.2, 4.2, 6.1, 7.9]
    """

    num_classes: int
    """K; 0 for numbers."""
    rows: int
    sums: np.ndarray
    """The sums of the inputs, and of their squares (2, D)."""
    covariance: np.ndarray
    """The inverse of the penalties plus the Gram matrix of inputs and intercept (D + 1, D + 1)."""
    weights: np.ndarray
    """(D + 1, max(K, 1)), for labels that count from the first one."""
    waiting: np.ndarray
    """The inputs, then the labels, of the last N + 16 rows (N + 16, D + 1 + max(K, 1)), those of N
    rows not known yet among them; labels are NaN where there are none."""

    @classmethod
    def begin(cls, num_inputs: int, num_classes: int, delay: int, seen: Seen) -> Self:
        """The state before the first row, as of :meth:`Baselines.begin`; of the labels before it
        only their mean is known."""
        D, K, counts = num_inputs, max(1, num_classes), np.array(seen.counts or [0.0])
        covariance, weights, number = np.eye(D + 1), np.zeros((D + 1, K)), float(counts.sum())
        covariance[-1, -1] = 1 / max(number, 1e-6)  # infinite, nearly
        if number:
            mean = seen.total / number - seen.start
            weights[-1] = counts / number if num_classes else mean
        late = np.full((delay + BLOCK, D + 1 + K), np.nan)
        return cls(num_classes, 0, np.zeros((2, D)), covariance, weights, late)

    def after(self, X: np.ndarray, y: np.ndarray) -> tuple[Self, np.ndarray]:
        """Predict rows (n, D), which are finite, each before its label (n,) is learned.

        Labels and predictions (n,) are numbers minus the first label, or classes from 0 on; a
        label that is not there is NaN.
        """
        labels, rows = y[:, None], self.rows
        if self.num_classes:
            labels = np.where(np.isnan(labels), np.nan, labels == np.arange(self.num_classes))
        sums, Z = self._standardised(X.astype(np.float64))
        kept = np.concatenate([self.waiting, np.hstack([Z, labels])])
        P, weights, said = self.covariance, self.weights, np.empty_like(labels)
        after = np.arange(rows + 1, rows + len(Z) + 1)
        ends = after[(after <= SINGLE) | (after % BLOCK == 0)].tolist()
        at, learned = 0, rows if rows <= SINGLE else rows // BLOCK * BLOCK
        for end in ends:
            said[at : end - rows] = Z[at : end - rows] @ weights
            # the labels that became known since the last time; BLOCK rows lie before those waiting
            P, weights = _learned(P, weights, kept[learned - rows + BLOCK : end - rows + BLOCK])
            at, learned = end - rows, end
        said[at:] = Z[at:] @ weights
        found = said.argmax(axis=1).astype(float) if self.num_classes else said[:, 0]
        waiting = kept[len(Z) :]
        return self._replace(rows=rows + len(Z), sums=sums, covariance=P, weights=weights,
                             waiting=waiting), found  # fmt: skip

    def _standardised(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums after these rows, and the rows standardised, with a one behind (n, D + 1)."""
        # the sums so far come first, so that rows are added one by one in whatever chunks
        both = np.concatenate([self.sums[None], np.stack([X, np.square(X)], axis=1)])
        sums = np.cumsum(both, axis=0)[1:]
        counts = self.rows + np.arange(1.0, len(X) + 1)
        means, squares = np.moveaxis(sums / counts[:, None, None], 1, 0)
        variances = squares - np.square(means)
        varies = variances > 1e-12 * squares  # else it is rounding
        Z = np.where(varies, (X - means) / np.sqrt(np.where(varies, variances, 1.0)), 0.0)
        Z = np.hstack([np.clip(Z, -FAR, FAR), np.ones((len(X), 1))])
        return sums[-1] if len(X) else self.sums, Z


def _learned(
    P: np.ndarray, weights: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The covariance and the weights after these rows, as of ``Linear.waiting``."""
    rows = rows[~np.isnan(rows[:, -1])]
    if not len(rows):
        return P, weights
    Z, labels = np.hsplit(rows, [len(P)])
    PZ = P @ Z.T
    gains = np.linalg.solve(Z @ PZ + np.eye(len(Z)), PZ.T)
    return P - PZ @ gains, weights + gains.T @ (labels - Z @ weights)
