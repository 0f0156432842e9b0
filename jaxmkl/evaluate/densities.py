"""Scores of predictive densities of numbers, accumulated chunk by chunk."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from jaxmkl.distributions import COVERAGE, DensityScores
from jaxmkl.evaluate.scores import Curve

PIT_BINS = 10  # bins of the probability integral transform
LATEST = 100  # the last rows, whose intervals are kept
COLUMNS = "row", "label", "prediction", "low", "high"


class Densities(NamedTuple):
    """The score of the densities of a stream of numbers.

    >>> from jaxmkl.distributions import StudentMixture, density_scores
    >>> one = StudentMixture(np.zeros(2), np.ones((2, 1)), np.ones((2, 1)), degrees=(3,))
    >>> y = np.array([0.5, np.nan])
    >>> score = Densities.begin().after(density_scores(one, y), y)
    >>> {name: round(value, 4) for name, value in score.metrics().items()}
    {'log_score': -1.161, 'crps': 0.3651, 'coverage': 1.0, 'width': 4.7067}
    """

    log_score: Curve
    crps: Curve
    covered: Curve
    width: Curve
    pit: np.ndarray
    """Rows by their probability integral transform, in bins of equal width."""
    latest: np.ndarray
    """Number, label, prediction and both ends of the interval of the last :data:`LATEST` rows,
    (LATEST, 5); NaN for those that have not come."""

    @classmethod
    def begin(cls) -> Self:
        """The score before the first row."""
        none, latest = Curve.begin(), np.full((LATEST, 5), np.nan)
        return cls(none, none, none, none, np.zeros(PIT_BINS), latest)

    def after(self, found: DensityScores, y: np.ndarray) -> Self:
        """Return the score after the next rows, with labels y (n,), by their scores.

        Rows without a label, which is NaN, or without a density are left out.
        """
        known = ~np.isnan(found.pit)
        inside = np.abs(found.pit - 0.5) <= COVERAGE / 2
        numbers = self.log_score.rows + 1.0 + np.arange(len(y))
        latest = np.stack([numbers, y, found.mean, found.low, found.high], axis=1)
        counts, _ = np.histogram(found.pit[known], PIT_BINS, (0.0, 1.0))
        return self._replace(
            log_score=self.log_score.after(found.log_score),
            crps=self.crps.after(found.crps),
            covered=self.covered.after(np.where(known, inside, np.nan)),
            width=self.width.after(np.where(known, found.high - found.low, np.nan)),
            pit=self.pit + counts,
            latest=np.concatenate([self.latest, latest[known]])[-LATEST:],
        )

    @property
    def _curves(self) -> dict[str, Curve]:
        return {"log_score": self.log_score, "crps": self.crps,
                "coverage": self.covered, "width": self.width}  # fmt: skip

    def metrics(self) -> dict[str, float]:
        """Return the figures of a table by name, means over the rows; NaN before the first one."""
        return {name: curve.mean for name, curve in self._curves.items()}

    def calibration(self) -> dict[str, Mapping | tuple[float, ...]]:
        """Return the values that a page shows, by name.

        ``pit`` has counts of rows (10,), ``curves`` means over windows (W,) by metric, and
        ``latest`` the last rows: their ``row``, ``label``, ``prediction``, ``low`` and ``high``.
        """
        latest = self.latest[~np.isnan(self.latest[:, 0])]
        columns = zip(COLUMNS, latest.T.tolist(), strict=True)
        curves = {name: tuple(curve.means.tolist()) for name, curve in self._curves.items()}
        of_rows = {name: tuple(values) for name, values in columns}
        return {"pit": tuple(self.pit.tolist()), "curves": curves, "latest": of_rows}
