"""Errors of a run over time, its confusion of classes, its share of labels, and its regret."""

import jax
import numpy as np

from jaxmkl._checks import refuse_unless
from jaxmkl._types import AnyArray, Data
from jaxmkl.metrics import _arrays as arrays


def running_mean(values: Data) -> AnyArray:
    """Mean of the values so far, 1/t Σ_{τ <= t} value_τ (..., T), with NaN left out.

    It is NaN before the first value that counts; its last value is the mean of all.

    Args:
      values: (..., T), a score of each round, such as ``outputs.info.log_score``.

    Raises:
      ValueError: for a single number.

    >>> running_mean([1.0, 3.0, np.nan, 2.0])
    array([1., 2., 2., 2.])
    """
    xp, each = arrays.numeric(values=values)
    refuse_unless(each.ndim, "running_mean: values must have the shape (..., T); got a number")
    return arrays.mean_so_far(xp, each)


def running_mse(prediction: Data, y: Data) -> AnyArray:
    """Mean squared error so far, 1/t Σ_{τ <= t} (prediction_τ - y_τ)² (..., T), equation (54).

    Args:
      prediction: (..., T).
      y: (T,), or the shape of ``prediction`` if every seed has its own order.

    Raises:
      ValueError: for shapes that do not fit.

    >>> running_mse([1.0, 2.0, 4.0], [1.0, 1.0, 2.0])
    array([0.        , 0.5       , 1.66666667])
    """
    xp, predicted, label = arrays.paired("running_mse", prediction, y)
    return arrays.mean_so_far(xp, xp.square(predicted - label))


def running_mistake_rate(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Share of mistakes so far, 1/t Σ_{τ <= t} [y_τ prediction_τ <= 0] (..., T).

    With K classes, a round is a mistake if another class has the largest value.

    Args:
      prediction: margins (..., T); with K classes, values (..., T, K).
      y: labels (T,), or of the shape (..., T), read as by :func:`jaxmkl.labels.labels`; NaN where
        an example was refused. Inside ``jit``, all labels above 0 are +1. K classes are numbers
        from 0 to K - 1.
      num_classes: K, or None for two classes by their margin.

    Raises:
      ValueError: for shapes that do not fit, or other labels.

    >>> running_mistake_rate([0.3, -0.2, 0.0, 2.0], [1, 1, -1, 1])
    array([0.  , 0.5 , 0.66666667, 0.5 ])
    >>> running_mistake_rate([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [1, 2], num_classes=3)
    array([0. , 0.5])
    """
    if num_classes is None:
        xp, f, sign = arrays.paired("running_mistake_rate", prediction, arrays.signs_of(y))
        margin = sign * f
        return arrays.mean_so_far(xp, xp.where(xp.isnan(margin), margin, margin <= 0))
    xp, predicted, true = arrays.classes("running_mistake_rate", prediction, y, num_classes)
    return arrays.mean_so_far(xp, xp.where(xp.isnan(predicted + true), xp.nan, predicted != true))


def confusion(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Number of examples of class i predicted as class j (..., K, K); of two, -1 is the first.

    Arguments and errors are as for :func:`running_mistake_rate`; rounds with NaN are left out.

    >>> confusion([0.3, -0.2, 0.1, 2.0], [1, 1, -1, 1])
    array([[0., 1.],
           [1., 2.]])
    """
    xp, predicted, true = arrays.classes("confusion", prediction, y, num_classes)
    K = 2 if num_classes is None else num_classes
    counts = arrays.counts(xp, true * K + predicted, K * K)
    return counts.astype(true.dtype).reshape(*true.shape[:-1], K, K)


def recall(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Share of right predictions among the examples of each class (..., K); NaN without examples.

    Arguments and errors are as for :func:`confusion`.

    >>> recall([0.3, -0.2, -0.1, 2.0], [1, 1, -1, 1])
    array([1.        , 0.66666667])
    """
    counts = confusion(prediction, y, num_classes)
    xp, total = arrays.numeric(counts=counts.sum(axis=-1))
    right = xp.diagonal(counts, axis1=-2, axis2=-1)
    return xp.where(total > 0, right / xp.maximum(total, 1.0), xp.nan)


def kappa(prediction: Data, y: Data, num_classes: int | None = None) -> AnyArray:
    """Cohen's kappa (...), (a - e)/(1 - e), of the agreement a and the agreement e by chance.

    It is 0 if all examples and all predictions are of one class, and NaN without examples.

    Arguments and errors are as for :func:`confusion`.

    References:
      Cohen (1960), A coefficient of agreement for nominal scales.

    >>> float(kappa([1.0, 1.0, -1.0, -1.0], [1, -1, -1, -1]))
    0.5
    """
    return kappa_of(confusion(prediction, y, num_classes))


def kappa_of(counts: AnyArray) -> AnyArray:
    """Cohen's :func:`kappa` (...), given the counts of :func:`confusion` (..., K, K)."""
    xp, counts = arrays.numeric(counts=counts)
    total = counts.sum(axis=(-2, -1))
    shares = counts / xp.maximum(total, 1.0)[..., None, None]
    agreed = xp.diagonal(shares, axis1=-2, axis2=-1).sum(axis=-1)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    varied = chance < 1.0
    beyond = xp.where(varied, (agreed - chance) / xp.where(varied, 1.0 - chance, 1.0), 0.0)
    return xp.where(total > 0, beyond, xp.nan)


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
    return arrays.mean_so_far(*_indicators("running_label_rate", queried))


def regret(losses: Data, hindsight: Data) -> AnyArray:
    """Regret Σ_t loss_t - min_p hindsight_p (...) against the best kernel, equation (15).

    It is a small difference of large sums: of long runs in single precision, pass NumPy arrays.

    Args:
      losses: the learner's losses (..., T); NaN where an example was refused.
      hindsight: total loss (..., P) of the best fixed function of each kernel.

    Raises:
      ValueError: for shapes that do not fit, or a hindsight that is not finite.

    >>> float(regret([1.0, 0.5, 0.25], [1.5, 1.25]))
    0.5
    """
    xp, each, totals = arrays.numeric(losses=losses, hindsight=hindsight)
    text = "regret: hindsight must be finite totals (..., P) of P >= 1 kernels"
    good = totals.shape[-1:] not in [(), (0,)]
    refuse_unless(good, f"{text}; got the shape {totals.shape}")
    arrays.each_known(xp.isfinite(totals), totals, text)
    refuse_unless(each.ndim, "regret: losses must have the shape (..., T); got a single number")
    return xp.nansum(each, axis=-1) - totals.min(axis=-1)


def _indicators(caller: str, queried: Data) -> tuple:
    xp, values = arrays.numeric(queried=queried)
    text = f"{caller}: queried must have the shape (..., T); got a single value"
    refuse_unless(values.ndim, text)
    known = np.zeros(0) if isinstance(values, jax.core.Tracer) else np.asarray(values)
    for other in known[~np.isin(known, (0, 1))][:1]:
        raise ValueError(f"{caller}: queried must be booleans, or 0 and 1; got {other}")
    return xp, values
