"""A baseline that reads the inputs: least squares over all rows so far."""

from typing import NamedTuple, Self

import numpy as np

from jaxmkl.evaluate.baselines import Seen

MOST_INPUTS = 100  # with more, which would slow a run, there is no such baseline
FAR = 10.0  # standard deviations from the mean at which inputs are clipped


class Linear(NamedTuple):
    """Ridge regression on standardised inputs, of numbers or of indicators of K classes.

    Each row is predicted by the solution for all labels known before it (recursive least squares,
    penalty 1 and none on the intercept), its inputs standardised by the moments up to it.

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
    """The inputs, then the labels, of the N rows that are not known yet (N, D + 1 + max(K, 1));
    labels are NaN where there are none."""

    @classmethod
    def begin(cls, num_inputs: int, num_classes: int, delay: int, seen: Seen) -> Self:
        """The state before the first row, as of :meth:`Baselines.begin`; of the labels before it
        only their mean is known."""
        D, K, counts = num_inputs, max(1, num_classes), np.array(seen.counts or [0.0])
        covariance, weights, number = np.eye(D + 1), np.zeros((D + 1, K)), counts.sum()
        covariance[-1, -1] = 1 / max(number, 1e-6)  # infinite, nearly
        if number:
            mean = seen.total / number - seen.start
            weights[-1] = counts / number if num_classes else mean
        late = np.hstack([np.zeros((delay, D + 1)), np.full((delay, K), np.nan)])
        return cls(num_classes, 0, np.zeros((2, D)), covariance, weights, late)

    def after(self, X: np.ndarray, y: np.ndarray) -> tuple[Self, np.ndarray]:
        """Predict rows (n, D), then learn their labels (n,), one after the other.

        Args:
          X: the inputs, finite.
          y: numbers minus the first label, or classes from 0 on; NaN where there is none.

        Returns:
          The state and the predictions (n,), numbers minus the first label or classes.
        """
        labels, width = y[:, None], len(self.weights)
        if self.num_classes:
            labels = np.where(np.isnan(labels), np.nan, labels == np.arange(self.num_classes))
        sums, Z = self._standardised(X.astype(np.float64))
        rows = np.concatenate([self.waiting, np.hstack([Z, labels])])
        due = rows[: len(Z)]  # the row that becomes known after each one
        is_known = ~np.isnan(due[:, -1])
        P, weights, said = self.covariance.copy(), self.weights.copy(), np.empty_like(labels)
        for i, (z, known) in enumerate(zip(Z, is_known.tolist(), strict=True)):
            said[i] = z @ weights
            if known:
                z, label = due[i, :width], due[i, width:]
                Pz = P @ z
                gain = Pz / (1.0 + z @ Pz)
                P -= Pz[:, None] * gain
                weights += gain[:, None] * (label - z @ weights)
        after = self._replace(rows=self.rows + len(Z), sums=sums, covariance=P, weights=weights)
        found = said.argmax(axis=1).astype(float) if self.num_classes else said[:, 0]
        return after._replace(waiting=rows[len(Z) :]), found

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
