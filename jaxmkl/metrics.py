"""Metrics of a run: errors and labels over time, and regret against the best kernel.

The metrics take NumPy or JAX arrays and return the same kind (NumPy in float64). The last axis is
time; axes before it (seeds, say) are kept. A refused example, whose loss or prediction is NaN, is
left out (``state.invalid`` counts it). What is running has a value an example, NaN until the first
that counts. Equations are those of Hong and Chae, Active learning with multiple kernels.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._checks import refuse_unless
from jaxmkl.labels import labels, signs, where_known

__all__ = [
    "confusion",
    "coverage",
    "kappa",
    "label_rate",
    "log_loss",
    "recall",
    "regret",
    "running_label_rate",
    "running_mistake_rate",
    "running_mse",
    "width",
]


def running_mse(prediction: Any, y: Any) -> Any:
    """Mean squared error so far, 1/t Σ_{τ <= t} (prediction_τ - y_τ)² (..., T), equation (54).

    Args:
      prediction: (..., T).
      y: (T,), or the shape of ``prediction`` where every seed has its own order.

    Raises:
      ValueError: for shapes that do not fit.

    >>> running_mse([1.0, 2.0, 4.0], [1.0, 1.0, 2.0])
    array([0.        , 0.5       , 1.66666667])
    """
    xp, prediction, y = _paired("running_mse", prediction, y)
    return _running_mean(xp, xp.square(prediction - y))


def running_mistake_rate(prediction: Any, y: Any, num_classes: int | None = None) -> Any:
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
        xp, prediction, y = _paired("running_mistake_rate", prediction, _signs(y))
        margin = y * prediction
        return _running_mean(xp, xp.where(xp.isnan(margin), margin, margin <= 0))
    xp, predicted, y = _classes("running_mistake_rate", prediction, y, num_classes)
    return _running_mean(xp, xp.where(xp.isnan(predicted + y), xp.nan, predicted != y))


def confusion(prediction: Any, y: Any, num_classes: int | None = None) -> Any:
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
    xp, predicted, y = _classes("confusion", prediction, y, num_classes)
    known = ~xp.isnan(predicted + y)
    K = 2 if num_classes is None else num_classes
    of, taken_for = (_one_hot(xp, xp.where(known, a, xp.nan), K) for a in (y, predicted))
    return xp.einsum("...ti,...tj->...ij", of, taken_for)


def recall(prediction: Any, y: Any, num_classes: int | None = None) -> Any:
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


def kappa(prediction: Any, y: Any, num_classes: int | None = None) -> Any:
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


def kappa_of(counts: Any) -> Any:
    """The same (...), given what :func:`confusion` counts (..., K, K)."""
    xp, shares = _arrays(counts / counts.sum(axis=(-2, -1), keepdims=True))
    agreed = xp.diagonal(shares, axis1=-2, axis2=-1).sum(axis=-1)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    varied = chance < 1.0
    return xp.where(varied, (agreed - chance) / xp.where(varied, 1.0 - chance, 1.0), 0.0)


def log_loss(log_odds: Any, y: Any, num_classes: int | None = None) -> Any:
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
    if num_classes is None:
        xp, f, y = _paired("log_loss", log_odds, _signs(y))
        return xp.nanmean(xp.logaddexp(0.0, -y * f), axis=-1)
    xp, _, y = _classes("log_loss", log_odds, y, num_classes)
    f = _arrays(log_odds)[1]
    own = (_one_hot(xp, y, num_classes) * f).sum(axis=-1)
    highest = f.max(axis=-1)
    total = highest + xp.log(xp.exp(f - highest[..., None]).sum(axis=-1))
    return xp.nanmean(xp.where(xp.isnan(y), xp.nan, total - own), axis=-1)


def label_rate(queried: Any) -> Any:
    """Share (...) of the examples whose label was asked for, 1/T Σ_t a_t, equation (55) (AL_eff).

    Args:
      queried: (..., T) booleans a_t, T >= 1.

    Raises:
      ValueError: for no examples, or values other than booleans, 0 and 1.

    >>> float(label_rate([True, False, True, True]))
    0.75
    """
    xp, queried = _indicators("label_rate", queried)
    text = f"label_rate: queried must hold an example; got the shape {queried.shape}"
    refuse_unless(queried.shape[-1] > 0, text)
    return xp.mean(queried, axis=-1)


def running_label_rate(queried: Any) -> Any:
    """The :func:`label_rate` of the examples so far, 1/t Σ_{τ <= t} a_τ (..., T).

    >>> running_label_rate([True, False, True, True])
    array([1.  , 0.5 , 0.66666667, 0.75 ])
    """
    return _running_mean(*_indicators("running_label_rate", queried))


def coverage(lower: Any, upper: Any, y: Any) -> Any:
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
    xp, low, y = _paired("coverage", lower, y)
    _, high, _ = _paired("coverage", upper, y)
    known = ~xp.isnan(low + high + y)
    inside = xp.where(known, (low <= y) & (y <= high), False)
    return xp.sum(inside, axis=-1) / xp.sum(known, axis=-1)


def width(lower: Any, upper: Any) -> Any:
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
    known = ~xp.isnan(high - low)
    return xp.sum(xp.where(known, high - low, 0), axis=-1) / xp.sum(known, axis=-1)


def regret(losses: Any, hindsight: Any) -> np.ndarray:
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


def _arrays(*values: Any) -> tuple:
    """The library of some arrays, JAX if one is of JAX, and they in numbers (NumPy's float64)."""
    if not any(isinstance(value, jax.Array) for value in values):
        return np, *(np.asarray(value, np.float64) for value in values)
    return jnp, *(a.astype(jnp.result_type(a, float)) for a in map(jnp.asarray, values))


def _paired(caller: str, prediction: Any, y: Any, names: tuple = ("prediction", "y")) -> tuple:
    xp, prediction, y = _arrays(prediction, y)
    shape, good = prediction.shape, y.shape in (prediction.shape, prediction.shape[-1:])
    text = f"{caller}: {names[1]} must have the shape of {names[0]} (..., T) or (T,)"
    refuse_unless(shape and good, f"{text}; got {y.shape} for {shape}")
    return xp, prediction, xp.broadcast_to(y, shape)


def _signs(y: Any) -> Any:
    """Labels of any usual kind as -1 and +1, NaN kept."""
    if isinstance(y, jax.core.Tracer):
        return signs(y)
    read = where_known(lambda known: labels(known)[0], np.asarray(y))
    return jnp.asarray(read) if isinstance(y, jax.Array) else read


def _classes(caller: str, prediction: Any, y: Any, num_classes: int | None) -> tuple:
    """The classes predicted and those that were (..., T), numbers from 0 on, NaN kept."""
    if num_classes is None:
        xp, f, y = _paired(caller, prediction, _signs(y))
        return xp, xp.where(xp.isnan(f), f, f > 0), (y + 1.0) / 2.0
    xp, f, y = _arrays(prediction, y)
    text = f"{caller}: prediction must have the shape (..., T, {num_classes}); got {f.shape}"
    refuse_unless(f.ndim > 1 and f.shape[-1] == num_classes, text)
    known = xp.isnan(y) | ((y >= 0) & (y < num_classes) & (y == xp.floor(y)))
    text = f"{caller}: y must be whole numbers from 0 to {num_classes - 1}"
    refuse_unless(isinstance(known, jax.core.Tracer) or bool(known.all()), text)
    predicted = xp.where(xp.isnan(f).any(axis=-1), xp.nan, xp.argmax(f, axis=-1))
    return _paired(caller, predicted, y)


def _one_hot(xp: Any, y: Any, num_classes: int) -> Any:
    """Classes (...) as rows (..., K) of zeros and a one; zeros for NaN."""
    each = xp.arange(num_classes).reshape((1,) * y.ndim + (num_classes,))
    return xp.where(y[..., None] == each, 1.0, 0.0)


def _indicators(caller: str, queried: Any) -> tuple:
    xp, values = _arrays(queried)
    text = f"{caller}: queried must have the shape (..., T); got a single value"
    refuse_unless(values.ndim, text)
    known = np.zeros(0) if isinstance(values, jax.core.Tracer) else np.asarray(values)
    for other in known[~np.isin(known, (0, 1))][:1]:
        raise ValueError(f"{caller}: queried must be booleans, or 0 and 1; got {other}")
    return xp, values


def _running_mean(xp: Any, values: Any) -> Any:
    """Means of the first 1, ..., T values that are not NaN, along the last axis."""
    counts = ~xp.isnan(values)
    total = xp.cumsum(xp.where(counts, values, 0), axis=-1)
    number = xp.cumsum(counts, axis=-1)
    return xp.where(number > 0, total / xp.maximum(number, 1), xp.nan)
