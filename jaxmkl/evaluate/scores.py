"""Scores of predictions, accumulated chunk by chunk: errors, probabilities, densities, curves."""

import math
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from jaxmkl.distributions import COVERAGE, DensityScores
from jaxmkl.metrics import brier, log_loss, reliability
from jaxmkl.metrics.errors import kappa_of
from jaxmkl.metrics.probabilities import calibration_error_of

WINDOWS = 256  # windows of a curve, at most; then every two become one
FIRST_WINDOW = 64  # rows of a window at first
BINS = 15  # bins of the probability of the predicted class
PIT_BINS = 10  # bins of the probability integral transform
LATEST = 100  # the last rows, whose intervals are kept
COLUMNS = "row", "label", "prediction", "low", "high"


class Curve(NamedTuple):
    """Means over at most :data:`WINDOWS` windows of rows, all of one size.

    >>> Curve.begin().after(np.arange(100.0)).means.tolist()
    [31.5, 81.5]
    """

    size: int
    """The number of rows of a window."""
    rows: int
    sums: np.ndarray
    counts: np.ndarray

    @classmethod
    def begin(cls) -> Self:
        """The curve before the first row."""
        return cls(FIRST_WINDOW, 0, *np.zeros((2, WINDOWS)))

    def after(self, values: np.ndarray) -> Self:
        """Return the curve after the values of the next rows (n,), NaN where there is none."""
        size, rows, sums, counts = self
        while rows + len(values) > size * WINDOWS:
            size *= 2
            sums, counts = (np.pad(a[::2] + a[1::2], (0, WINDOWS // 2)) for a in (sums, counts))
        places = (rows + np.arange(len(values))) // size
        known = ~np.isnan(values)
        sums = sums + np.bincount(places[known], values[known], WINDOWS)
        counts = counts + np.bincount(places[known], minlength=WINDOWS)
        return self._replace(size=size, rows=rows + len(values), sums=sums, counts=counts)

    @property
    def means(self) -> np.ndarray:
        """The mean of each window, NaN for one without values; the last one may be shorter."""
        used = -(-self.rows // self.size)
        sums, counts = self.sums[:used], self.counts[:used]
        return np.divide(sums, counts, out=np.full(used, np.nan), where=counts > 0)

    @property
    def mean(self) -> float:
        """The mean of all values so far, NaN for none."""
        return float(self.sums.sum()) / (float(self.counts.sum()) or math.nan)


class Score(NamedTuple):
    """The score of the predictions of a stream, each a class counted from 0, or a number.

    >>> score = Score.begin(0).after(np.array([1.0, 2.0, 0.0]), np.array([1.0, 4.0, np.nan]))
    >>> score.error, score.mae, score.num_judged
    (2.0, 1.0, 2)
    """

    curve: Curve
    """Squared errors, or mistakes."""
    confusion: np.ndarray
    """Rows of class i that were taken for class j (K, K); of numbers (0, 0)."""
    num_judged: int = 0
    total: float = 0.0
    """The sum of the squared errors, or of the mistakes, over all rows."""
    distances: float = 0.0
    """The sum of the absolute errors."""

    @classmethod
    def begin(cls, num_classes: int) -> Self:
        """The score before the first row, for so many classes, or 0 for numbers."""
        return cls(Curve.begin(), np.zeros((num_classes, num_classes)))

    def after(self, predicted: np.ndarray, y: np.ndarray) -> Self:
        """Return the score after predictions and labels (n,) of the next rows, NaN for none."""
        known, K = ~np.isnan(y), len(self.confusion)
        of, said = y[known], predicted[known]
        errors, confusion, distances = np.full(len(y), np.nan), self.confusion, self.distances
        if K:
            errors[known] = of != said
            seen = ~np.isnan(said)
            pairs = (of[seen] * K + said[seen]).astype(int)
            confusion = confusion + np.bincount(pairs, minlength=K * K).reshape(K, K)
        else:
            errors[known] = np.square(of - said)
            distances += float(np.abs(of - said).sum())
        judged, total = self.num_judged + int(known.sum()), self.total + float(errors[known].sum())
        return type(self)(self.curve.after(errors), confusion, judged, total, distances)

    @property
    def error(self) -> float:
        """The mean squared error, or the share of mistakes."""
        return self.total / self.num_judged if self.num_judged else math.nan

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return self.distances / self.num_judged if self.num_judged else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa: the agreement beyond chance; 0 if nothing varies."""
        return float(kappa_of(self.confusion)) if self.confusion.any() else 0.0

    def beyond(self, other: "Score") -> float:
        """The share of another's error that is avoided, 1 - error / other's; NaN if that is 0.

        For classes and the last label, this is the kappa of Žliobaitė et al. (2015).
        """
        return 1 - self.error / other.error if other.error > 0 else math.nan

    def metrics(self, first: "Score", last: "Score") -> dict[str, float]:
        """Return the figures of a table by name, given the scores of the two baselines."""
        if len(self.confusion):
            found = {"mistake_rate": self.error, "kappa": self.kappa}
            return found | {"kappa_last": self.beyond(last)}
        found = {"mse": self.error, "mae": self.mae}
        return found | {"skill": self.beyond(first), "skill_last": self.beyond(last)}


class Certainty(NamedTuple):
    """The score of the probabilities of classes of a stream, which come as log-odds.

    >>> certainty = Certainty.begin().after(np.array([0.0, 50.0]), np.array([1.0, 1.0]))
    >>> {name: round(value, 4) for name, value in certainty.metrics().items()}
    {'log_loss': 0.3466, 'brier': 0.125, 'calibration_error': 0.25}
    """

    counts: np.ndarray
    """Rows by the probability of the predicted class, in :data:`BINS` bins of equal width."""
    confidence: np.ndarray
    """The sums of these probabilities."""
    right: np.ndarray
    """The rows of each bin whose class was predicted right."""
    log_loss: float = 0.0
    """The sum over the rows, as of :func:`jaxmkl.metrics.log_loss`."""
    brier: float = 0.0
    """The sum over the rows, as of :func:`jaxmkl.metrics.brier`."""

    @classmethod
    def begin(cls) -> Self:
        """The score before the first row."""
        return cls(*np.zeros((3, BINS)))

    def after(self, log_odds: np.ndarray, y: np.ndarray) -> Self:
        """Return the score after the next rows; rows without log-odds or label are left out.

        Log-odds are (n,) for the class 1 of two, or (n, K); labels (n,) classes from 0 on.
        """
        K = log_odds.shape[1] if log_odds.ndim == 2 else None
        finite = np.isfinite(log_odds if K is None else log_odds.sum(axis=1))
        known = finite & ~np.isnan(y)
        if not known.any():
            return self
        f, of = log_odds[known].astype(np.float64), y[known]
        if K is None:
            of = 2.0 * of - 1.0
            p = np.exp(-np.logaddexp(0.0, -f))
        else:
            p = np.exp(f - np.logaddexp.reduce(f, axis=1, keepdims=True))
        count, confidence, accuracy = (np.nan_to_num(a) for a in reliability(p, of, K, BINS))
        return self._replace(
            counts=self.counts + count,
            confidence=self.confidence + count * confidence,
            right=self.right + count * accuracy,
            log_loss=self.log_loss + len(of) * float(log_loss(f, of, K)),
            brier=self.brier + len(of) * float(brier(p, of, K)),
        )

    def metrics(self) -> dict[str, float]:
        """Return the figures of a table by name, NaN before the first row."""
        number = float(self.counts.sum()) or math.nan
        error = float(calibration_error_of(self.counts, self.confidence, self.right))
        means = {"log_loss": self.log_loss / number, "brier": self.brier / number}
        return means | {"calibration_error": error}

    def calibration(self) -> dict[str, tuple[float, ...]]:
        """Return for each bin the rows, the mean probability and the share right; NaN for none."""
        of_row = np.where(self.counts > 0, 1.0 / np.maximum(self.counts, 1.0), np.nan)
        found = {"counts": self.counts, "confidence": self.confidence * of_row}
        found["accuracy"] = self.right * of_row
        return {name: tuple(values.tolist()) for name, values in found.items()}


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


def classes_of(prediction: np.ndarray, num_classes: int) -> np.ndarray:
    """Return predictions (n,) or (n, K) as classes from 0 on, or as numbers; NaN stays.

    >>> classes_of(np.array([-0.5, np.nan, 2.0]), 2).tolist()
    [0.0, nan, 1.0]
    """
    prediction = np.asarray(prediction, np.float64)
    if not num_classes:
        return prediction
    if prediction.ndim == 2:
        lost = np.isnan(prediction).any(axis=1)
        return np.where(lost, np.nan, prediction.argmax(axis=1))
    return np.where(np.isnan(prediction), np.nan, prediction > 0)
