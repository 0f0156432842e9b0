"""Scores of predictive densities of numbers, accumulated chunk by chunk.

They are worked out in NumPy and double precision, as those of :mod:`jaxmkl.distributions` would be
compiled anew for each length of a chunk.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

import numpy as np

from jaxmkl.distributions import StudentMixture, log_peaks, within
from jaxmkl.evaluate.scores import Curve

COVERAGE = 0.9  # of the intervals
PIT_BINS = 10  # of the probability integral transform
LATEST = 100  # rows whose intervals are kept, in columns
COLUMNS = "row", "label", "prediction", "low", "high"
_NODES, _SHARES = np.polynomial.legendre.leggauss(32)
_MOST_STEPS, _SETTLED = 200, 1e-9  # of Newton's method, and the change that ends it


class DensityScores(NamedTuple):
    """The scores of labels (n,), NaN for a row without a label or a density."""

    log_score: np.ndarray
    """Logarithms of the densities at the labels."""
    crps: np.ndarray
    """Continuous ranked probability scores, in units of the labels."""
    pit: np.ndarray
    """Probabilities of at most the label."""
    low: np.ndarray
    """Lower ends of the central intervals of :data:`COVERAGE`, also where there is no label."""
    high: np.ndarray
    """Upper ends."""
    mean: np.ndarray
    """The location of each density, NaN where there is none."""


class Densities(NamedTuple):
    """The score of the densities of a stream of numbers.

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
        """Return the score after the next rows: rows without a label or density are left out.

        Args:
          found: the scores of the rows, by :func:`density_scores`.
          y: labels (n,), NaN for none.
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
        """Return what a page shows, by name.

        ``pit`` counts the rows (10,), ``curves`` has the means over windows (W,) by metric, and
        ``latest`` the last rows: their ``row``, ``label``, ``prediction``, ``low`` and ``high``.
        """
        latest = self.latest[~np.isnan(self.latest[:, 0])]
        columns = zip(COLUMNS, latest.T.tolist(), strict=True)
        curves = {name: tuple(curve.means.tolist()) for name, curve in self._curves.items()}
        of_rows = {name: tuple(values) for name, values in columns}
        return {"pit": tuple(self.pit.tolist()), "curves": curves, "latest": of_rows}


def density_scores(
    distribution: StudentMixture, y: np.ndarray, start: float = 0.0
) -> DensityScores:
    """Score mixtures of t distributions (n,) of whole degrees of freedom at labels (n,).

    As :meth:`StudentMixture.log_prob`, ``crps``, ``cdf`` and ``interval``.

    Args:
      distribution: that of each row, of ``y - start``.
      y: labels, NaN for none.
      start: what is taken off the labels, so that single precision is enough for the distribution.
    """
    mean, usable, one = _usable(distribution)
    low, high = central_intervals(distribution, COVERAGE, start)
    known = usable & np.isfinite(y)
    one = _Mixture(one.degrees, one.scales[:, known], one.weights[:, known])
    error = (y - start)[known] - mean[known]
    distance = np.abs(error)
    log_score, crps, pit = np.full((3, len(y)), np.nan)
    log_score[known] = one.log_density(distance)
    crps[known] = one.mean_distance(distance) - one.mean_difference() / 2
    pit[known] = np.clip(0.5 + np.sign(error) * (0.5 - one.tail(distance)), 0.0, 1.0)
    return DensityScores(log_score, crps, pit, low, high, np.where(usable, start + mean, np.nan))


def central_intervals(
    distribution: StudentMixture, coverage: float = COVERAGE, start: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends (n,) between which labels lie with this probability.

    As :meth:`StudentMixture.interval`, for whole degrees of freedom, in double precision and
    without a compilation; NaN where a distribution is not finite.

    >>> one = StudentMixture(np.zeros(1), np.ones((1, 1)), np.ones((1, 1)), degrees=(3,))
    >>> [end.round(3).tolist() for end in central_intervals(one, 0.95, start=10.0)]
    [[6.818], [13.182]]
    """
    mean, usable, one = _usable(distribution)
    finite = _Mixture(one.degrees, one.scales[:, usable], one.weights[:, usable])
    half = np.full(mean.shape, np.nan)
    half[usable] = finite.half_width(coverage)
    return start + mean - half, start + mean + half


def _usable(distribution: StudentMixture) -> tuple[np.ndarray, np.ndarray, "_Mixture"]:
    """The locations (n,), which distributions are finite (n,), and all of them around 0."""
    parts = (distribution.mean, distribution.scales, distribution.weights)
    mean, scales, weights = (np.asarray(part, np.float64) for part in parts)
    usable = np.isfinite(mean) & np.isfinite(scales * weights).all(axis=-1)
    return mean, usable, _Mixture(distribution.degrees, scales.T, weights.T)


class _Mixture(NamedTuple):
    """Mixtures around 0, with the J parts first: contiguous for operations on n rows."""

    degrees: tuple[float, ...]
    scales: np.ndarray
    """(J, n)"""
    weights: np.ndarray
    """(J, n)"""

    def _log_densities(self, distance: np.ndarray) -> np.ndarray:
        each, peaks = np.empty_like(self.scales), log_peaks(self.degrees)
        parts = zip(self.degrees, peaks, self.scales, strict=True)
        for j, (nu, peak, scale) in enumerate(parts):
            tail = (nu + 1) / 2 * np.log1p(np.square(distance / scale) / nu)
            each[j] = peak - np.log(scale) - tail
        return each

    def _within(self, distance: np.ndarray) -> Iterator[np.ndarray]:
        """The probability (n,) of at most a distance, part by part."""
        for nu, scale in zip(self.degrees, self.scales, strict=True):
            yield within(np.square(np.minimum(distance / scale, 1e15)) / nu, int(nu))

    def log_density(self, distance: np.ndarray) -> np.ndarray:
        """The logarithm of the density (n,)."""
        each = self._log_densities(distance)
        most = each.max(axis=0)
        return most + np.log((self.weights * np.exp(each - most)).sum(axis=0))

    def tail(self, distance: np.ndarray) -> np.ndarray:
        """The probability of more than a distance of at least 0 (n,), to one part in 10^16."""
        total = np.zeros_like(distance)
        for weight, inside in zip(self.weights, self._within(distance), strict=True):
            total += weight * (1.0 - inside) / 2
        return total

    def mean_distance(self, distance: np.ndarray) -> np.ndarray:
        """E|Y - y| (n,) for a label of that distance."""
        total, densities = np.zeros_like(distance), np.exp(self._log_densities(distance))
        parts = self.degrees, self.scales, self.weights, densities, self._within(distance)
        for nu, scale, weight, density, inside in zip(*parts, strict=True):
            beyond = 2 * scale**2 * density * (nu + (distance / scale) ** 2) / (nu - 1)
            total += weight * (distance * inside + beyond)
        return total

    def mean_difference(self) -> np.ndarray:
        """E|Y - Y'| = 4 ∫_0^∞ F (1 - F) (n,), by z = s tan(u) and 32 points."""
        scale = np.exp((self.weights * np.log(self.scales)).sum(axis=0))
        total = np.zeros_like(scale)
        for node, share in zip(np.pi / 4 * (_NODES + 1), np.pi / 4 * _SHARES, strict=True):
            tail = self.tail(scale * np.tan(node))
            total += share * (1 + np.tan(node) ** 2) * tail * (1 - tail)
        return 4 * scale * total

    def half_width(self, coverage: float) -> np.ndarray:
        """The distance (n,) within which a label lies with this probability.

        The tail is convex, so Newton's steps from a point before it do not pass it. There are
        the more of them, the closer the probability is to 1.
        """
        wanted = (1 - coverage) / 2
        distance = np.zeros(self.scales.shape[1:])
        for _ in range(_MOST_STEPS):
            density = np.exp(self.log_density(distance))
            step = (self.tail(distance) - wanted) / density
            distance = distance + step
            if np.all(np.abs(step) <= _SETTLED * distance):
                break
        return distance
