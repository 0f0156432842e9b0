"""Scores of predicted distributions of numbers, and of intervals."""

import math
from types import ModuleType

import numpy as np

from jaxmkl._checks import refuse_unless
from jaxmkl._types import AnyArray, Data
from jaxmkl.distributions import special_of, within_any
from jaxmkl.metrics import _arrays as arrays


def coverage(lower: Data, upper: Data, y: Data) -> AnyArray:
    """Share (...) of the labels that lie between the ends of their intervals.

    Args:
      lower, upper: ends (..., T), such as those of :func:`jaxmkl.wrappers.intervals`; rounds in
        which an end or the label is NaN are left out.
      y: (T,), or the shape of the ends.

    Raises:
      ValueError: for shapes that do not fit.

    >>> float(coverage([0.0, 1.0], [1.0, 2.0], [0.5, 2.5]))
    0.5
    """
    xp, low, high, label = arrays.numeric(lower=lower, upper=upper, y=y)
    _, low, label = arrays.matched("coverage", xp, low, label, ("lower", "y"))
    _, _, high = arrays.matched("coverage", xp, low, high, ("lower", "upper"))
    known = ~(xp.isnan(low) | xp.isnan(high) | xp.isnan(label))
    return arrays.mean_of(xp, xp.where(known, (low <= label) & (label <= high), xp.nan))


def width(lower: Data, upper: Data) -> AnyArray:
    """Mean width (...) of intervals; at equal coverage, narrower intervals are better.

    Args:
      lower, upper: ends (..., T), as for :func:`coverage`; rounds with NaN are left out.

    Raises:
      ValueError: for shapes that do not fit.

    >>> float(width([0.0, 1.0, np.nan], [1.0, 4.0, 2.0]))
    2.0
    """
    xp, low, high = arrays.paired("width", lower, upper, ("lower", "upper"))
    return arrays.mean_of(xp, high - low)


def crps_normal(mean: Data, deviation: Data, y: Data) -> AnyArray:
    """Continuous ranked probability score (CRPS) of normal distributions (..., T).

        CRPS = σ (z (2 Φ(z) - 1) + 2 φ(z) - 1/√π),   z = (y - mean) / σ

    It is ∫ (F(x) - [y <= x])² dx with the distribution function F: the smaller the better, in
    units of the label, and |y - mean| for a deviation of 0. A round with a NaN is NaN, and the
    :func:`running_mean` leaves it out.

    Args:
      mean: (..., T).
      deviation: σ >= 0, a number, (T,) or the shape of the mean.
      y: (T,) or the shape of the mean.

    Raises:
      ValueError: for shapes that do not fit, or a negative deviation.

    References:
      Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.

    >>> crps_normal([0.0, 1.0], 1.0, [0.0, 3.0]).round(4)
    array([0.2337, 1.4528])
    """
    xp, mean, deviation, y = arrays.numeric(mean=mean, deviation=deviation, y=y)
    _, z, sigma, distance = _standardised("crps_normal", xp, mean, deviation, y, "deviation")
    with np.errstate(over="ignore", invalid="ignore"):
        inside = z * special_of(xp).erf(z / math.sqrt(2.0))
        inside += math.sqrt(2.0 / math.pi) * xp.exp(-xp.square(z) / 2.0) - 1 / math.sqrt(math.pi)
        return xp.where(sigma == 0, distance, sigma * inside)


def crps_student(mean: Data, scale: Data, degrees: Data, y: Data) -> AnyArray:
    """The score of :func:`crps_normal`, of Student's t distributions (..., T).

        CRPS = s (z (2 F(z) - 1) + 2 f(z) (ν + z²)/(ν - 1) - 2 √ν B(1/2, ν - 1/2)
                  / ((ν - 1) B(1/2, ν/2)²)),   z = (y - mean) / s

    with the density f and the distribution function F for s = 1, and the beta function B.

    Args:
      mean: (..., T).
      scale: s >= 0, a number, (T,) or the shape of the mean; the variance is s² ν/(ν - 2).
      degrees: ν > 1, the degrees of freedom, of the same shapes.
      y: (T,) or the shape of the mean.

    Raises:
      ValueError: for shapes that do not fit, a negative scale, or degrees of at most 1, where
        the score is infinite.

    References:
      Jordan, Krüger and Lerch (2019), Evaluating probabilistic forecasts with scoringRules.

    >>> crps_student([0.0, 1.0], 1.0, 4.0, [0.0, 3.0]).round(4)
    array([0.2637, 1.385 ])
    """
    caller = "crps_student"
    xp, mean, scale, degrees, y = arrays.numeric(mean=mean, scale=scale, degrees=degrees, y=y)
    _, z, s, distance = _standardised(caller, xp, mean, scale, y, "scale")
    nu = _like(caller, xp, degrees, z, "degrees")
    arrays.each_known(xp.isnan(nu) | (nu > 1), nu, f"{caller}: degrees must be above 1")
    special, nu = special_of(xp), xp.minimum(nu, 1e12)
    with np.errstate(over="ignore", invalid="ignore"):
        # kept above 0, where the square roots of u below have no derivative
        u = xp.maximum(xp.square(z / xp.sqrt(nu)), xp.finfo(z.dtype).tiny)
        log_beta = special.betaln(0.5, nu / 2)
        peak = xp.exp(-(nu - 1) / 2 * xp.log1p(u) - log_beta)
        least = xp.exp(special.betaln(0.5, nu - 0.5) - 2 * log_beta)
        inside = xp.abs(z) * within_any(u, nu) + 2 * xp.sqrt(nu) / (nu - 1) * (peak - least)
        return xp.where(s == 0, distance, s * inside)


def crps_quantiles(quantiles: Data, levels: Data, y: Data) -> AnyArray:
    """The score of :func:`crps_normal`, of distributions given by Q quantiles (..., T).

        CRPS ≈ 2/Q Σ_q (y - quantile_q) (level_q - [y < quantile_q])

    This is twice the mean pinball loss: an approximation for evenly spaced levels. With the levels
    (q - 1/2)/Q it is the score of the distribution with mass 1/Q at each quantile, such as a
    sorted sample.

    Args:
      quantiles: (..., T, Q).
      levels: (Q,), each above 0 and below 1.
      y: (T,), or the shape (..., T).

    Raises:
      ValueError: for shapes that do not fit, or other levels.

    >>> crps_quantiles([[-1.0, 0.0, 1.0]], [0.25, 0.5, 0.75], [0.5])
    array([0.5])
    """
    caller = "crps_quantiles"
    xp, each, level, label = arrays.numeric(quantiles=quantiles, levels=levels, y=y)
    shape, num_levels = each.shape, len(level) if level.ndim == 1 else 0
    good = len(shape) > 1 and shape[-1] == num_levels > 0
    text = f"{caller}: quantiles must have the shape (..., T, Q), and levels (Q,) with Q >= 1"
    refuse_unless(good, f"{text}; got {shape} and {level.shape}")
    within = (level > 0) & (level < 1)
    arrays.each_known(within, level, f"{caller}: levels must be above 0 and below 1")
    text = f"{caller}: y must have the shape (..., T) or (T,); got {label.shape} for {shape}"
    refuse_unless(label.shape in (shape[:-1], shape[-2:-1]), text)
    label, level = (xp.broadcast_to(a, shape) for a in (label[..., None], level))
    each = arrays.unknown_where(xp, label, each)
    with np.errstate(invalid="ignore"):
        errors = label - each
        return 2.0 * xp.mean(errors * (level - xp.where(errors < 0, 1.0, 0.0)), axis=-1)


def pit_histogram(pit: Data, bins: int = 10) -> AnyArray:
    """Shares (..., B) of the probability integral transform in bins of equal width on [0, 1].

    The transform of a round is F(y), the predicted probability of a label of at most y. If the
    densities are right it is uniform, and each share is about 1/B: a calibration plot shows these.
    If they are too narrow, the outer bins are high; if they are too wide, the middle ones.

    Args:
      pit: (..., T), from 0 to 1; NaN is left out.
      bins: B; a value between two bins counts in the upper one.

    Raises:
      ValueError: for values outside [0, 1], or no bins.

    References:
      Dawid (1984), Present position and potential developments: the prequential approach.

    >>> pit_histogram([0.1, 0.3, 0.35, 1.0, np.nan], bins=4)
    array([0.25, 0.5 , 0.  , 0.25])
    """
    xp, each = arrays.numeric(pit=pit)
    refuse_unless(each.ndim, "pit_histogram: pit must have the shape (..., T); got a number")
    arrays.between_0_and_1("pit_histogram", "pit", xp, each)
    (count,) = arrays.sums_by_bin("pit_histogram", xp, each, bins, xp.ones_like(each))
    total = count.sum(axis=-1, keepdims=True)
    return xp.where(total > 0, count / xp.maximum(total, 1.0), xp.nan)


def _standardised(
    caller: str, xp: ModuleType, mean: AnyArray, scale: AnyArray, y: AnyArray, name: str
) -> tuple:
    """The library, labels in units of the scale, the scale and the distances |y - mean|."""
    _, centre, label = arrays.matched(caller, xp, mean, y, ("mean", "y"))
    scales = arrays.unknown_where(xp, label, _like(caller, xp, scale, centre, name))
    good = xp.isnan(scales) | (scales >= 0)
    arrays.each_known(good, scales, f"{caller}: {name} must not be negative")
    with np.errstate(over="ignore", invalid="ignore"):
        distance = xp.abs(label - centre)
        # a scale that is lost beside the distance is 0, or squares of z would overflow
        scales = xp.where(1e17 * scales <= distance, 0.0, scales)
        z = xp.where(scales == 0, 0.0, label - centre) / xp.where(scales == 0, 1.0, scales)
        return xp, z, scales, distance


def _like(caller: str, xp: ModuleType, value: Data, like: AnyArray, name: str) -> AnyArray:
    """Broadcast a number, or numbers (T,), to the shape (..., T) of others."""
    array, shape = xp.asarray(value, like.dtype), like.shape
    text = f"{caller}: {name} must be a number, or have the shape of mean (..., T) or (T,)"
    refuse_unless(array.shape in ((), shape, shape[-1:]), f"{text}; got {array.shape} for {shape}")
    return xp.broadcast_to(array, shape)
