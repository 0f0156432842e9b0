"""Scores of probabilities, and their calibration."""

from typing import NamedTuple

import numpy as np

from jaxmkl._types import AnyArray, Data
from jaxmkl.metrics import _arrays as arrays


def log_loss(log_odds: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Mean of -log p (...), with the predicted probability p of the true class.

    It is σ(y f) for two classes, and a softmax of the K values for several; NaN is left out.

    Args:
      log_odds: as ``prediction`` of :func:`running_mistake_rate`, from
        :func:`jaxmkl.wrappers.probabilities`.
      y, num_classes: as there.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> round(float(log_loss([[0.0, 0.0], [0.0, 0.0]], [0, 1], num_classes=2)), 4)
    0.6931
    """
    return arrays.mean_of(*_log_losses("log_loss", log_odds, y, num_classes))


def running_log_loss(log_odds: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """The :func:`log_loss` of the examples so far (..., T).

    Arguments and errors are as for :func:`log_loss`.

    >>> running_log_loss([0.0, 50.0], [1, 1]).round(4)
    array([0.6931, 0.3466])
    """
    return arrays.mean_so_far(*_log_losses("running_log_loss", log_odds, y, num_classes))


def brier(probabilities: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Brier score (...), the mean squared error of probabilities.

        two classes   (p - [y = +1])²          from 0 to 1: 1/4 at p = 1/2
        K classes     Σ_k (p_k - [y = k])²     from 0 to 2, as Brier defined it

    So two classes given as ``num_classes=2`` have twice the score of one probability.

    Args:
      probabilities: of two classes, p of the positive one (..., T); of K classes, (..., T, K):
        ``jax.nn.sigmoid`` or ``softmax`` of the log-odds of
        :func:`jaxmkl.wrappers.probabilities`. Rounds in which a probability or the label is NaN
        are left out.
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
    return arrays.mean_of(*_brier_scores("brier", probabilities, y, num_classes))


def running_brier(probabilities: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """The :func:`brier` score of the examples so far (..., T).

    Arguments and errors are as for :func:`brier`.

    >>> running_brier([0.5, 0.0], [1, -1])
    array([0.25 , 0.125])
    """
    return arrays.mean_so_far(*_brier_scores("running_brier", probabilities, y, num_classes))


class Reliability(NamedTuple):
    """The result of :func:`reliability`, for the examples in each bin of confidence (..., B)."""

    counts: AnyArray
    """The number of examples."""
    confidence: AnyArray
    """The mean probability of the predicted class; NaN in an empty bin."""
    accuracy: AnyArray
    """The share of examples whose class was predicted right; NaN in an empty bin."""


def reliability(
    probabilities: Data, y: Data, num_classes: int | None = None, bins: int = 15
) -> Reliability:
    """Accuracy of the predicted class, by the probability that was predicted for it.

    The confidence of an example is the probability of its predicted class, the largest one. Bin b
    of B has those in [b/B, (b + 1)/B), and the last bin has 1, too; with K classes none is below
    1/K. A calibration plot draws the accuracy over the confidence: on the diagonal, predictions
    made with 80 % confidence are right in 80 % of the cases.

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

    Arguments, errors and bins are as for :func:`reliability`.

    References:
      Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks.

    >>> round(float(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [1, 1, 1, -1])), 4)
    0.15
    """
    binned = _binned("expected_calibration_error", probabilities, y, num_classes, bins)
    return calibration_error_of(*binned[1:])


def calibration_error_of(counts: Data, confidence: Data, accuracy: Data) -> AnyArray:
    """The error (...), given for each bin (..., B) the examples, and sums in place of means."""
    xp, n, sure, right = arrays.numeric(counts=counts, confidence=confidence, accuracy=accuracy)
    total = n.sum(axis=-1)
    error = xp.abs(sure - right).sum(axis=-1) / xp.maximum(total, 1.0)
    return xp.where(total > 0, error, xp.nan)[()]  # a number, not an array without axes


def _log_losses(caller: str, log_odds: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, and -log p of the class of each example (..., T), NaN kept."""
    if num_classes is None:
        xp, f, sign = arrays.paired(caller, log_odds, arrays.signs_of(y), ("log_odds", "y"))
        with np.errstate(invalid="ignore"):  # NumPy warns of NaN here
            return xp, xp.logaddexp(0.0, -sign * f)
    xp, _, true = arrays.classes(caller, log_odds, y, num_classes, "log_odds")
    f = arrays.numeric(log_odds=log_odds)[1]
    # a class of infinite log-odds is certain, and the loss of any other class is infinite
    is_certain = f == xp.inf
    certain = xp.where(is_certain, 0.0, -xp.inf)
    f = xp.where(is_certain.any(axis=-1, keepdims=True), certain, f)
    own = xp.where(arrays.one_hot(xp, true, num_classes) > 0, f, 0.0).sum(axis=-1)
    highest = f.max(axis=-1)
    total = highest + xp.log(xp.exp(f - highest[..., None]).sum(axis=-1))
    return xp, xp.where(xp.isnan(true), xp.nan, total - own)


def _probabilities(caller: str, probabilities: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, the probabilities, and the predicted and the true classes (..., T)."""
    name = "probabilities"
    own, p = arrays.numeric(probabilities=probabilities)
    arrays.between_0_and_1(caller, name, own, p)
    margin_or_rows = p if num_classes is not None else p - 0.5
    xp, predicted, true = arrays.classes(caller, margin_or_rows, y, num_classes, name)
    return xp, xp.asarray(p), predicted, true


def _brier_scores(caller: str, probabilities: Data, y: Data, num_classes: int | None) -> tuple:
    """The library, and the squared errors of each example's probabilities (..., T), NaN kept."""
    xp, p, _, true = _probabilities(caller, probabilities, y, num_classes)
    if num_classes is None:
        return xp, xp.square(arrays.unknown_where(xp, true, p) - true)
    errors = xp.square(p - arrays.one_hot(xp, true, num_classes)).sum(axis=-1)
    return xp, xp.where(xp.isnan(true), xp.nan, errors)


def _binned(
    caller: str, probabilities: Data, y: Data, num_classes: int | None, bins: int
) -> tuple:
    """The library, and for each bin (..., B) the examples, their confidences' sum, those right."""
    xp, p, predicted, true = _probabilities(caller, probabilities, y, num_classes)
    confidence = xp.maximum(p, 1.0 - p) if num_classes is None else p.max(axis=-1)
    confidence = xp.where(xp.isnan(predicted + true), xp.nan, confidence)
    right = xp.where(predicted == true, xp.ones_like(confidence), 0.0)
    values = xp.ones_like(right), confidence, right
    return xp, *arrays.sums_by_bin(caller, xp, confidence, bins, *values)
