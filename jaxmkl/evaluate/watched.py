"""What a run keeps of its rows beside the scores, for drawings and advice."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from jaxmkl.evaluate.baselines import Seen
from jaxmkl.evaluate.linear import MOST_INPUTS, Linear
from jaxmkl.evaluate.scores import Curve, Score
from jaxmkl.evaluate.spaced import Spaced

ROWS = 512  # rows that are kept, at most
NUMBERS = 2**19  # numbers that these may have


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
