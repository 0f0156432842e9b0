"""Metrics of a run: errors, probabilities, densities and labels over time, and regret.

The metrics take NumPy or JAX arrays and return the same kind (NumPy in float64). The last axis is
time; axes before it (seeds, say) are kept. A refused example, whose loss or prediction is NaN, is
left out (``state.invalid`` counts it). What is running has a value an example, NaN until the first
that counts. Equations are those of Hong and Chae, Active learning with multiple kernels.

Scores of densities have a value an example too, as ``outputs.info.log_score`` does: their
:func:`running_mean` is what a curve shows, and its last value is the mean of all.
"""

import math
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import refuse_unless
from jaxmkl._types import AnyArray, Data
from jaxmkl.labels import labels, signs, where_known

__all__ = [
    "Reliability",
    "brier",
    "confusion",
    "coverage",
    "crps_normal",
    "crps_quantiles",
    "crps_student",
    "expected_calibration_error",
    "kappa",
    "label_rate",
    "log_loss",
    "pit_histogram",
    "recall",
    "regret",
    "reliability",
    "running_brier",
    "running_label_rate",
    "running_log_loss",
    "running_mean",
    "running_mistake_rate",
    "running_mse",
    "width",
]

# degrees of freedom from which an approximation of Student's distribution is right to all digits,
# where the incomplete beta function loses some in single precision
MANY_DEGREES = 100.0


def running_mean(values: Data) -> AnyArray:
    """Mean of the values so far, 1/t Σ_{τ <= t} value_τ (..., T), the NaN among them left out.

    It is NaN until the first value that counts; its last one is the mean of all.

    Args:
      values: (..., T), a score of each round, such as ``outputs.info.log_score``.

    Raises:
      ValueError: for a single number.

    >>> running_mean([1.0, 3.0, np.nan, 2.0])
    array([1., 2., 2., 2.])
    """
    xp, each = _arrays(values)
    refuse_unless(each.ndim, "running_mean: values must have the shape (..., T); got a number")
    return _running_mean(xp, each)


def running_mse(prediction: Data, y: Data) -> AnyArray:
    """Mean squared error so far, 1/t Σ_{τ <= t} (prediction_τ - y_τ)² (..., T), equation (54).

    Args:
      prediction: (..., T).
      y: (T,), or the shape of ``prediction`` where every seed has its own order.

    Raises:
      ValueError: for shapes that do not fit.

    >>> running_mse([1.0, 2.0, 4.0], [1.0, 1.0, 2.0])
    array([0.        , 0.5       , 1.66666667])
    """
    xp, predicted, label = _paired("running_mse", prediction, y)
    return _running_mean(xp, xp.square(predicted - label))


def running_mistake_rate(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Share of mistakes so far, 1/t Σ_{τ <= t} [y_τ prediction_τ <= 0] (..., T).

    Of K classes it is a mistake where another class has the largest value.

    Args:
      prediction: margins (..., T), of K classes (..., T, K).
      y: labels (T,), or of the shape (..., T), read as by :func:`jaxmkl.labels.labels`; NaN where
        an example was refused. Inside ``jit`` all that is above 0 is +1. Of K classes numbers from
        0 to K - 1.
      num_classes: K, or None for two classes by their margin.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> running_mistake_rate([0.3, -0.2, 0.0, 2.0], [1, 1, -1, 1])
    array([0.  , 0.5 , 0.66666667, 0.5 ])
    >>> running_mistake_rate([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [1, 2], num_classes=3)
    array([0. , 0.5])
    """
    if num_classes is None:
        xp, f, sign = _paired("running_mistake_rate", prediction, _signs(y))
        margin = sign * f
        return _running_mean(xp, xp.where(xp.isnan(margin), margin, margin <= 0))
    xp, predicted, true = _classes("running_mistake_rate", prediction, y, num_classes)
    return _running_mean(xp, xp.where(xp.isnan(predicted + true), xp.nan, predicted != true))


def confusion(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """How many examples of class i were taken for class j (..., K, K); of two classes -1 is first.

    Args:
      prediction, y, num_classes: as for :func:`running_mistake_rate`; rounds in which one is NaN
        are left out.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> confusion([0.3, -0.2, 0.1, 2.0], [1, 1, -1, 1])
    array([[0., 1.],
           [1., 2.]])
    """
    xp, predicted, true = _classes("confusion", prediction, y, num_classes)
    known = ~xp.isnan(predicted + true)
    K = 2 if num_classes is None else num_classes
    of, taken_for = (_one_hot(xp, xp.where(known, a, xp.nan), K) for a in (true, predicted))
    return xp.einsum("...ti,...tj->...ij", of, taken_for)


def recall(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Share of each class's examples that were predicted right (..., K); NaN for a class unseen.

    Args:
      prediction, y, num_classes: as for :func:`confusion`.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> recall([0.3, -0.2, -0.1, 2.0], [1, 1, -1, 1])
    array([1.        , 0.66666667])
    """
    counts = confusion(prediction, y, num_classes)
    xp, total = _arrays(counts.sum(axis=-1))
    right = xp.diagonal(counts, axis1=-2, axis2=-1)
    return xp.where(total > 0, right / xp.maximum(total, 1.0), xp.nan)


def kappa(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Cohen's kappa (...), (a - e)/(1 - e): agreement a beyond that by chance, e.

    Args:
      prediction, y, num_classes: as for :func:`confusion`.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    References:
      Cohen (1960), A coefficient of agreement for nominal scales.

    >>> float(kappa([1.0, 1.0, -1.0, -1.0], [1, -1, -1, -1]))
    0.5
    """
    return kappa_of(confusion(prediction, y, num_classes))


def kappa_of(counts: AnyArray) -> AnyArray:
    """The same (...), given what :func:`confusion` counts (..., K, K)."""
    xp, shares = _arrays(counts / counts.sum(axis=(-2, -1), keepdims=True))
    agreed = xp.diagonal(shares, axis1=-2, axis2=-1).sum(axis=-1)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    varied = chance < 1.0
    return xp.where(varied, (agreed - chance) / xp.where(varied, 1.0 - chance, 1.0), 0.0)


def log_loss(log_odds: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Mean of -log p of the class that it was (...).

    With p = σ(y f) of two classes, and the softmax of the K values of several; NaN is left out.

    Args:
      log_odds: as ``prediction`` of :func:`running_mistake_rate`, from
        :func:`jaxmkl.wrappers.probabilities`.
      y, num_classes: as there.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> round(float(log_loss([[0.0, 0.0], [0.0, 0.0]], [0, 1], num_classes=2)), 4)
    0.6931
    """
    return _mean(*_log_losses("log_loss", log_odds, y, num_classes))


def running_log_loss(log_odds: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """The :func:`log_loss` of the examples so far (..., T).

    Args:
      log_odds, y, num_classes: as for :func:`log_loss`.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> running_log_loss([0.0, 50.0], [1, 1]).round(4)
    array([0.6931, 0.3466])
    """
    return _running_mean(*_log_losses("running_log_loss", log_odds, y, num_classes))


def brier(probabilities: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Brier score (...), the mean squared error of probabilities.

        two classes   (p - [y = +1])²          from 0 to 1: 1/4 at p = 1/2
        K classes     Σ_k (p_k - [y = k])²     from 0 to 2, as Brier defined it

    That of two classes given as ``num_classes=2`` is thus twice that of one probability.

    Args:
      probabilities: of two classes p of the positive one (..., T), of K classes (..., T, K):
        ``jax.nn.sigmoid`` or ``softmax`` of the log-odds of
        :func:`jaxmkl.wrappers.probabilities`; rounds in which one is NaN, or the label, are left
        out.
      y, num_classes: as for :func:`running_mistake_rate`.

    Raises:
      ValueError: for shapes that do not fit, other labels, or values outside [0, 1].

    References:
      Brier (1950), Verification of forecasts expressed in terms of probability.

    >>> float(brier([0.5, 0.0], [1, -1]))
    0.125
    >>> float(brier([[0.5, 0.5], [1.0, 0.0]], [1, 0], num_classes=2))
    0.25
    """
    return _mean(*_brier_scores("brier", probabilities, y, num_classes))


def running_brier(probabilities: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """The :func:`brier` score of the examples so far (..., T).

    Args:
      probabilities, y, num_classes: as for :func:`brier`.

    Raises:
      ValueError: for shapes that do not fit, other labels, or values outside [0, 1].

    >>> running_brier([0.5, 0.0], [1, -1])
    array([0.25 , 0.125])
    """
    return _running_mean(*_brier_scores("running_brier", probabilities, y, num_classes))


class Reliability(NamedTuple):
    """What :func:`reliability` finds of the examples in each bin of their confidence (..., B)."""

    counts: AnyArray
    """The number of examples."""
    confidence: AnyArray
    """The mean probability of the predicted class; NaN in an empty bin."""
    accuracy: AnyArray
    """The share of examples whose class was predicted right; NaN in an empty bin."""


def reliability(
    probabilities: Data, y: Data, num_classes: int | None = None, bins: int = 15
) -> Reliability:
    """How often the predicted class was right, by how probable it was said to be.

    The confidence of an example is the probability of its predicted class, the largest one. Bin b
    of B has those in [b/B, (b + 1)/B), the last bin 1 too; with K classes none is below 1/K. A
    calibration plot draws the accuracy over the confidence: on the diagonal, 80 % sure is right
    in 80 % of the cases.

    Args:
      probabilities, y, num_classes: as for :func:`brier`; the predicted class of two is the
        positive one where its probability is above 1/2.
      bins: B, the number of bins of equal width on [0, 1].

    Raises:
      ValueError: as :func:`brier`, or for no bins.

    >>> reliability([0.9, 0.2, 0.3, 0.5], [1, 1, -1, -1], bins=2).accuracy
    array([ nan, 0.75])
    """
    xp, count, sure, right = _binned("reliability", probabilities, y, num_classes, bins)
    shares = (xp.where(count > 0, a / xp.maximum(count, 1.0), xp.nan) for a in (sure, right))
    return Reliability(count, *shares)


def expected_calibration_error(
    probabilities: Data, y: Data, num_classes: int | None = None, bins: int = 15
) -> AnyArray:
    """Mean distance (...) of confidence and accuracy, Σ_b count_b |confidence_b - accuracy_b| / T.

    Args:
      probabilities, y, num_classes, bins: as for :func:`reliability`, whose bins these are.

    Raises:
      ValueError: as :func:`reliability`.

    References:
      Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks.

    >>> round(float(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [1, 1, 1, -1])), 4)
    0.15
    """
    binned = _binned("expected_calibration_error", probabilities, y, num_classes, bins)
    return calibration_error_of(*binned[1:])


def calibration_error_of(counts: Data, confidence: Data, accuracy: Data) -> AnyArray:
    """The same (...), given by bin (..., B) the number of examples, and sums in place of means."""
    xp, count, sure, right = _arrays(counts, confidence, accuracy)
    total = count.sum(axis=-1)
    error = xp.abs(sure - right).sum(axis=-1) / xp.maximum(total, 1.0)
    return xp.where(total > 0, error, xp.nan)[()]  # a number, not an array without axes


def label_rate(queried: Data) -> AnyArray:
    """Share (...) of the examples whose label was asked for, 1/T Σ_t a_t, equation (55) (AL_eff).

    Args:
      queried: (..., T) booleans a_t, T >= 1.

    Raises:
      ValueError: for no examples, or values other than booleans, 0 and 1.

    >>> float(label_rate([True, False, True, True]))
    0.75
    """
    xp, asked = _indicators("label_rate", queried)
    text = f"label_rate: queried must hold an example; got the shape {asked.shape}"
    refuse_unless(asked.shape[-1] > 0, text)
    return xp.mean(asked, axis=-1)


def running_label_rate(queried: Data) -> AnyArray:
    """The :func:`label_rate` of the examples so far, 1/t Σ_{τ <= t} a_τ (..., T).

    >>> running_label_rate([True, False, True, True])
    array([1.  , 0.5 , 0.66666667, 0.75 ])
    """
    return _running_mean(*_indicators("running_label_rate", queried))


def coverage(lower: Data, upper: Data, y: Data) -> AnyArray:
    """Share (...) of the labels that lie between the ends of their intervals.

    Args:
      lower, upper: ends (..., T), as of :func:`jaxmkl.wrappers.intervals`; rounds in which one is
        NaN, or the label, are left out.
      y: (T,), or the shape of the ends.

    Raises:
      ValueError: for shapes that do not fit.

    >>> float(coverage([0.0, 1.0], [1.0, 2.0], [0.5, 2.5]))
    0.5
    """
    xp, low, label = _paired("coverage", lower, y)
    _, high, _ = _paired("coverage", upper, y)
    known = ~xp.isnan(low + high + label)
    return _mean(xp, xp.where(known, (low <= label) & (label <= high), xp.nan))


def width(lower: Data, upper: Data) -> AnyArray:
    """Mean width (...) of intervals; of two that cover as much, the narrower are better.

    Args:
      lower, upper: ends (..., T), as for :func:`coverage`; rounds in which one is NaN are left
        out.

    Raises:
      ValueError: for shapes that do not fit.

    >>> float(width([0.0, 1.0, np.nan], [1.0, 4.0, 2.0]))
    2.0
    """
    xp, low, high = _paired("width", lower, upper, ("lower", "upper"))
    return _mean(xp, high - low)


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
    xp, z, sigma, distance = _standardised("crps_normal", mean, deviation, y, "deviation")
    with np.errstate(over="ignore", invalid="ignore"):
        inside = z * _special(xp).erf(z / math.sqrt(2.0))
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
    xp, z, s, distance = _standardised(caller, mean, scale, y, "scale")
    nu = _like(caller, xp, degrees, z, "degrees")
    _each_known(xp.isnan(nu) | (nu > 1), f"{caller}: degrees must be above 1")
    special, nu = _special(xp), xp.minimum(nu, 1e12)
    with np.errstate(over="ignore", invalid="ignore"):
        u = xp.square(z / xp.sqrt(nu))
        small, large = xp.minimum(u, 1.0), xp.maximum(u, 1.0)  # no quotient of infinities
        share = xp.where(u < 1, small / (1 + small), 1 / (1 + 1 / large))  # z²/(ν + z²)
        within = special.betainc(0.5, nu / 2, share)  # 2 F(|z|) - 1
        of_many = special.erf(_normal_of(xp, u, nu) / math.sqrt(2.0))
        within = xp.where(nu > MANY_DEGREES, of_many, within)
        log_beta = special.betaln(0.5, nu / 2)
        peak = xp.exp(-(nu - 1) / 2 * xp.log1p(u) - log_beta)
        least = xp.exp(special.betaln(0.5, nu - 0.5) - 2 * log_beta)
        inside = xp.abs(z) * within + 2 * xp.sqrt(nu) / (nu - 1) * (peak - least)
        return xp.where(s == 0, distance, s * inside)


def crps_quantiles(quantiles: Data, levels: Data, y: Data) -> AnyArray:
    """The score of :func:`crps_normal`, of distributions given by Q quantiles (..., T).

        CRPS ≈ 2/Q Σ_q (y - quantile_q) (level_q - [y < quantile_q])

    Twice the mean pinball loss: an approximation for levels that are evenly spaced. With levels
    (q - 1/2)/Q it is the score of the distribution with a Q-th at each quantile, such as a
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
    xp, each, level, label = _arrays(quantiles, levels, y)
    shape, num_levels = each.shape, len(level) if level.ndim == 1 else 0
    good = len(shape) > 1 and shape[-1] == num_levels > 0
    text = f"{caller}: quantiles must have the shape (..., T, Q), and levels (Q,) with Q >= 1"
    refuse_unless(good, f"{text}; got {shape} and {level.shape}")
    _each_known((level > 0) & (level < 1), f"{caller}: levels must be above 0 and below 1")
    text = f"{caller}: y must have the shape (..., T) or (T,); got {label.shape} for {shape}"
    refuse_unless(label.shape in (shape[:-1], shape[-2:-1]), text)
    label, level = (xp.broadcast_to(a, shape) for a in (label[..., None], level))
    with np.errstate(invalid="ignore"):
        errors = label - each
        return 2.0 * xp.mean(errors * (level - xp.where(errors < 0, 1.0, 0.0)), axis=-1)


def pit_histogram(pit: Data, bins: int = 10) -> AnyArray:
    """Shares (..., B) of the probability integral transform in bins of equal width on [0, 1].

    The transform of a round is F(y), the predicted probability of a label of at most y. Of right
    densities it is uniform, and each share about 1/B: a calibration plot shows these. Much in the
    outer bins tells of densities that are too narrow, in the middle of such that are too wide.

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
    xp, each = _arrays(pit)
    refuse_unless(each.ndim, "pit_histogram: pit must have the shape (..., T); got a number")
    _between_0_and_1("pit_histogram", "pit", xp, each)
    (count,) = _sums_by_bin("pit_histogram", xp, each, bins, xp.ones_like(each))
    total = count.sum(axis=-1, keepdims=True)
    return xp.where(total > 0, count / xp.maximum(total, 1.0), xp.nan)


def regret(losses: Data, hindsight: Data) -> np.ndarray:
    """Regret Σ_t loss_t - min_p hindsight_p (...) against the best kernel, float64, equation (15).

    Args:
      losses: the learner's losses (..., T); NaN where an example was refused.
      hindsight: total loss (..., P) of the best fixed function of each kernel.

    Raises:
      ValueError: for a hindsight that is empty or not finite.

    >>> float(regret([1.0, 0.5, 0.25], [1.5, 1.25]))
    0.5
    """
    totals, each = np.asarray(hindsight, np.float64), np.asarray(losses, np.float64)
    good = totals.shape[-1:] not in [(), (0,)] and np.isfinite(totals).all()
    text = f"regret: hindsight must be finite totals (..., P) of P >= 1 kernels; got {totals}"
    refuse_unless(good, text)
    refuse_unless(each.ndim, "regret: losses must have the shape (..., T); got a single number")
    return np.nansum(each, axis=-1) - totals.min(axis=-1)


def _arrays(*values: Data) -> tuple:
    """The library of some arrays, JAX if one is of JAX, and they in numbers (NumPy's float64)."""
    if not any(isinstance(value, jax.Array) for value in values):
        return np, *(np.asarray(value, np.float64) for value in values)
    return jnp, *(a.astype(jnp.result_type(a, float)) for a in map(jnp.asarray, values))


def _paired(caller: str, first: Data, second: Data, names: tuple = ("prediction", "y")) -> tuple:
    xp, one, other = _arrays(first, second)
    shape, good = one.shape, other.shape in (one.shape, one.shape[-1:])
    text = f"{caller}: {names[1]} must have the shape of {names[0]} (..., T) or (T,)"
    refuse_unless(shape and good, f"{text}; got {other.shape} for {shape}")
    return xp, one, xp.broadcast_to(other, shape)


def _signs(y: Data) -> AnyArray:
    """Labels of any usual kind as -1 and +1, NaN kept."""
    if isinstance(y, jax.core.Tracer):
        return signs(y)
    read = where_known(lambda known: labels(known)[0], np.asarray(y))
    return jnp.asarray(read) if isinstance(y, jax.Array) else read


def _classes(
    caller: str, prediction: Data, y: Data, num_classes: int | None, name: str = "prediction"
) -> tuple:
    """The classes predicted and those that were (..., T), numbers from 0 on, NaN kept."""
    if num_classes is None:
        xp, f, sign = _paired(caller, prediction, _signs(y), (name, "y"))
        return xp, xp.where(xp.isnan(f), f, f > 0), (sign + 1.0) / 2.0
    xp, f, true = _arrays(prediction, y)
    text = f"{caller}: {name} must have the shape (..., T, {num_classes}); got {f.shape}"
    refuse_unless(f.ndim > 1 and f.shape[-1] == num_classes, text)
    known = xp.isnan(true) | ((true >= 0) & (true < num_classes) & (true == xp.floor(true)))
    _each_known(known, f"{caller}: y must be whole numbers from 0 to {num_classes - 1}")
    predicted = xp.where(xp.isnan(f).any(axis=-1), xp.nan, xp.argmax(f, axis=-1))
    return _paired(caller, predicted, true)


def _one_hot(xp: ModuleType, y: AnyArray, num_classes: int) -> AnyArray:
    """Classes (...) as rows (..., K) of zeros and a one; zeros for NaN."""
    each = xp.arange(num_classes).reshape((1,) * y.ndim + (num_classes,))
    return xp.where(y[..., None] == each, 1.0, 0.0)


def _log_losses(caller: str, log_odds: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, and -log p of the class of each example (..., T), NaN kept."""
    if num_classes is None:
        xp, f, sign = _paired(caller, log_odds, _signs(y), ("log_odds", "y"))
        with np.errstate(invalid="ignore"):  # NumPy warns of NaN here
            return xp, xp.logaddexp(0.0, -sign * f)
    xp, _, true = _classes(caller, log_odds, y, num_classes, "log_odds")
    f = _arrays(log_odds)[1]
    own = (_one_hot(xp, true, num_classes) * f).sum(axis=-1)
    highest = f.max(axis=-1)
    total = highest + xp.log(xp.exp(f - highest[..., None]).sum(axis=-1))
    return xp, xp.where(xp.isnan(true), xp.nan, total - own)


def _probabilities(caller: str, probabilities: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, the probabilities, and the classes predicted and those that were (..., T)."""
    name = "probabilities"
    own, p = _arrays(probabilities)
    _between_0_and_1(caller, name, own, p)
    margin_or_rows = p if num_classes is not None else p - 0.5
    xp, predicted, true = _classes(caller, margin_or_rows, y, num_classes, name)
    return xp, xp.asarray(p), predicted, true


def _brier_scores(caller: str, probabilities: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, and the squared errors of each example's probabilities (..., T), NaN kept."""
    xp, p, _, true = _probabilities(caller, probabilities, y, num_classes)
    if num_classes is None:
        return xp, xp.square(p - true)
    errors = xp.square(p - _one_hot(xp, true, num_classes)).sum(axis=-1)
    return xp, xp.where(xp.isnan(true), xp.nan, errors)


def _binned(
    caller: str, probabilities: Data, y: Data, num_classes: int | None, bins: int
) -> tuple:
    """The library, and by bin (..., B) the examples, the sum of their confidences, those right."""
    xp, p, predicted, true = _probabilities(caller, probabilities, y, num_classes)
    confidence = xp.maximum(p, 1.0 - p) if num_classes is None else p.max(axis=-1)
    confidence = xp.where(xp.isnan(predicted + true), xp.nan, confidence)
    right = xp.where(predicted == true, xp.ones_like(confidence), 0.0)
    values = xp.ones_like(right), confidence, right
    return xp, *_sums_by_bin(caller, xp, confidence, bins, *values)


def _sums_by_bin(
    caller: str, xp: ModuleType, places: AnyArray, bins: int, *values: AnyArray
) -> tuple:
    """Sums (..., B) of values (..., T) by bin of their place in [0, 1]; in none if it is NaN."""
    good = isinstance(bins, int) and not isinstance(bins, bool) and bins > 0
    refuse_unless(good, f"{caller}: bins must be an integer of at least 1; got {bins!r}")
    bin_of = xp.minimum(xp.floor(places * bins), bins - 1)

    def sums(b: int | jax.Array) -> tuple:
        return tuple(xp.where(bin_of == b, each, 0.0).sum(axis=-1) for each in values)

    if xp is jnp:
        return jax.vmap(sums, out_axes=-1)(jnp.arange(bins))
    # a pass for each bin needs no memory of T times B
    return tuple(
        np.stack(of_bins, axis=-1) for of_bins in zip(*map(sums, range(bins)), strict=True)
    )


def _standardised(caller: str, mean: Data, scale: Data, y: Data, name: str) -> tuple:
    """The library, labels in units of the scale, the scale and the distances |y - mean|."""
    xp, means, scales, label = _arrays(mean, scale, y)
    _, centre, label = _paired(caller, means, label, ("mean", "y"))
    scales = _like(caller, xp, scales, centre, name)
    _each_known(xp.isnan(scales) | (scales >= 0), f"{caller}: {name} must not be negative")
    with np.errstate(over="ignore", invalid="ignore"):
        z = (label - centre) / xp.where(scales == 0, 1.0, scales)
        return xp, z, scales, xp.abs(label - centre)


def _normal_of(xp: ModuleType, u: AnyArray, degrees: AnyArray) -> AnyArray:
    """The normal quantile at the level of a t quantile, by u = t²/ν; for many degrees ν.

    Hill (1970), Algorithm 395: Student's t-distribution.
    """
    w, b = (degrees - 0.5) * xp.log1p(u), 48 * xp.square(degrees - 0.5)
    inside = ((-0.4 * w - 3.3) * w - 24.0) * w - 85.5
    inside = (inside / (0.8 * xp.square(w) + 100.0 + b) + w + 3.0) / b
    return xp.where(w < 1e3, (1 + inside) * xp.sqrt(w), xp.inf)


def _like(caller: str, xp: ModuleType, value: Data, like: AnyArray, name: str) -> AnyArray:
    """A number, or numbers (T,), in the shape (..., T) of others."""
    array, shape = xp.asarray(value, like.dtype), like.shape
    text = f"{caller}: {name} must be a number, or have the shape of mean (..., T) or (T,)"
    refuse_unless(array.shape in ((), shape, shape[-1:]), f"{text}; got {array.shape} for {shape}")
    return xp.broadcast_to(array, shape)


def _special(xp: ModuleType) -> ModuleType:
    """The special functions of a library; NumPy has those of SciPy, which JAX depends on."""
    if xp is jnp:
        return jax.scipy.special
    import scipy.special

    return scipy.special


def _between_0_and_1(caller: str, name: str, xp: ModuleType, values: AnyArray) -> None:
    known = xp.isnan(values) | ((values >= 0) & (values <= 1))
    _each_known(known, f"{caller}: {name} must lie between 0 and 1")


def _each_known(good: AnyArray, text: str) -> None:
    """Refuse values that are not good; inside a trace they are unknown."""
    refuse_unless(isinstance(good, jax.core.Tracer) or bool(good.all()), text)


def _indicators(caller: str, queried: Data) -> tuple:
    xp, values = _arrays(queried)
    text = f"{caller}: queried must have the shape (..., T); got a single value"
    refuse_unless(values.ndim, text)
    known = np.zeros(0) if isinstance(values, jax.core.Tracer) else np.asarray(values)
    for other in known[~np.isin(known, (0, 1))][:1]:
        raise ValueError(f"{caller}: queried must be booleans, or 0 and 1; got {other}")
    return xp, values


def _mean(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Mean (...) of the values that are not NaN; NaN if there are none."""
    known = ~xp.isnan(values)
    number, total = known.sum(axis=-1), xp.where(known, values, 0).sum(axis=-1)
    return xp.where(number > 0, total / xp.maximum(number, 1), xp.nan)[()]


def _running_mean(xp: ModuleType, values: AnyArray) -> AnyArray:
    """Means of the first 1, ..., T values that are not NaN, along the last axis."""
    counts = ~xp.isnan(values)
    total = xp.cumsum(xp.where(counts, values, 0), axis=-1)
    number = xp.cumsum(counts, axis=-1)
    return xp.where(number > 0, total / xp.maximum(number, 1), xp.nan)
