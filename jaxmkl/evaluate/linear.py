"""A baseline that reads the inputs: least squares over all rows so far."""

from typing import NamedTuple, Self

import numpy as np

from jaxmkl.evaluate.baselines import Seen

MOST_INPUTS = 100  # with more, which would slow a run, there is no such baseline
BLOCK = 16  # rows whose labels are learned together
SINGLE = 64  # rows before which each is learned by itself
FAR = 10.0  # standard deviations from the mean at which inputs are clipped


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
