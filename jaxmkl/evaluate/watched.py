"""Parts of the rows that a run keeps beside the scores, for drawings and advice."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from jaxmkl.evaluate.baselines import MOST_INPUTS, Linear, Seen
from jaxmkl.evaluate.scores import Curve, Score

ROWS = 512  # rows that are kept, at most
NUMBERS = 2**19  # numbers that these may have


class Spaced(NamedTuple):
    """Values of every s-th row of a stream, where s doubles whenever there is no more room.

    >>> kept = Spaced.begin(4, 1)
    >>> for rows in (3, 8):
    ...     places = kept.wanted(rows)
    ...     kept = kept.after(rows, (kept.rows + places)[:, None])
    >>> kept.numbers.tolist(), kept.found.ravel().tolist()
    ([0, 4, 8], [0.0, 4.0, 8.0])
    """

    stride: int
    rows: int
    values: np.ndarray
    """Those of the rows 0, s, 2 s, ..., zeros behind them (room, W)."""

    @classmethod
    def begin(cls, room: int, width: int, stride: int = 1) -> Self:
        """The state before the first row, with room for an even number of rows."""
        return cls(stride, 0, np.zeros((room, width)))

    def wanted(self, rows: int) -> np.ndarray:
        """The places, among so many further rows, of those whose values are wanted."""
        return np.arange(-self.rows % self.stride, rows, self.stride)

    def after(self, rows: int, values: np.ndarray) -> Self:
        """The state after so many further rows, with the values of those that are wanted."""
        stride, kept = self.stride, np.concatenate([self.found, values])
        while len(kept) > len(self.values):
            stride, kept = 2 * stride, kept[::2]
        full = np.zeros_like(self.values)
        full[: len(kept)] = kept
        return self._replace(stride=stride, rows=self.rows + rows, values=full)

    @property
    def numbers(self) -> np.ndarray:
        """The rows that are kept, counted from 0."""
        return np.arange(0, self.rows, self.stride)

    @property
    def found(self) -> np.ndarray:
        """The values of these rows."""
        return self.values[: len(self.numbers)]


class Watched(NamedTuple):
    """Some rows of a stream with their predictions, the residuals, and a linear baseline."""

    rows: Spaced
    """Inputs, label (NaN if it is not judged) and predictions of L learners (ROWS, D + 1 + L)."""
    residuals: tuple[Curve, ...]
    """Labels minus predictions of each learner; () of classes."""
    linear: Linear | None
    """None of too many inputs."""
    score: Score
    """That of the linear baseline."""

    @classmethod
    def begin(
        cls, num_inputs: int, num_classes: int, num_learners: int, delay: int, seen: Seen
    ) -> Self:
        """The state before the first row; the arguments are those of :meth:`Linear.begin`."""
        width = num_inputs + 1 + num_learners
        rows = Spaced.begin(min(ROWS, max(2, NUMBERS // width // 2 * 2)), width)
        residuals = () if num_classes else (Curve.begin(),) * num_learners
        is_linear = num_inputs <= MOST_INPUTS
        linear = Linear.begin(num_inputs, num_classes, delay, seen) if is_linear else None
        return cls(rows, residuals, linear, Score.begin(num_classes))

    def after(
        self,
        X: np.ndarray,
        y: np.ndarray,
        judged: np.ndarray,
        said: Sequence[np.ndarray],
        start: float,
    ) -> Self:
        """The state after further rows.

        Args:
          X: inputs (n, D).
          y: labels (n,), numbers or classes from 0 on; NaN for none.
          judged: the same, NaN also for rows that are not judged.
          said: the predictions (n,) of each learner.
          start: the first number of all labels, NaN before there is one; 0 for classes.
        """
        places = self.rows.wanted(len(y))
        columns = [one[places, None] for one in (judged, *said)]
        rows = self.rows.after(len(y), np.concatenate([X[places], *columns], axis=1))
        pairs = zip(self.residuals, said, strict=False)
        residuals = tuple(curve.after(judged - of) for curve, of in pairs)
        found = self._replace(rows=rows, residuals=residuals)
        if self.linear is None:
            return found
        start = 0.0 if np.isnan(start) else start
        linear, by_linear = self.linear.after(X, y - start)
        return found._replace(linear=linear, score=self.score.after(start + by_linear, judged))

    def judged(self, num_learners: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The inputs (n, D), labels (n,) and predictions (L, n) of the rows that are judged."""
        found = self.rows.found
        found = found[~np.isnan(found[:, -1 - num_learners])]
        D = found.shape[1] - 1 - num_learners
        return found[:, :D], found[:, D], found[:, D + 1 :].T
