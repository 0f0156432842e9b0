"""Prediction intervals around any regression learner, with a coverage that holds over time."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on, or_zero
from jaxmkl._learner import Learner, Prediction
from jaxmkl._types import Code, Number, PyTree
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState, followed, require_numbers, stretched

FIRST = 1.0, 10.0  # bounds of the first quantile, if the scale of labels is known


@pytree.dataclass
class IntervalsState(WrapperState):
    """State of :class:`Intervals`."""

    quantile: Array
    """The running quantile q of |y - f| / u, a number or (K,); NaN before the first label that is
    not predicted exactly."""
    excess: Array
    """The number D of intervals that missed their label so far, minus the number allowed."""
    radius: Array
    """Half the width r of the next interval, divided by u; NaN where q is."""
    labels: Array
    """Labels seen, int32."""


class IntervalsInfo(NamedTuple):
    """Diagnostics: the radius r of the round, and the inner learner's diagnostics."""

    radius: Array
    inner: PyTree


@pytree.dataclass
class Intervals(OnBlocks[IntervalsState, Code, tuple]):
    """A learner whose predictions come with intervals; made by :func:`intervals`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    coverage: Number = pytree.share(default=0.9, exclusive=True)
    step_size: Number = pytree.positive(default=0.05)

    def __post_init__(self) -> None:
        require_numbers(self)

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> IntervalsState:
        inner = self.learner.init(key, num_inputs, dtype)
        shape, dtype = self._label_shape, self.learner.dtype(inner)
        # a buffer for each, as states may be donated
        quantile, radius = (jnp.full(shape, jnp.nan, dtype) for _ in range(2))
        none = jnp.zeros((), jnp.int32)
        return IntervalsState(inner, quantile, jnp.zeros(shape, dtype), radius, none)

    def predict_code(self, state: IntervalsState, code: Code) -> tuple[Prediction, tuple]:
        """The prediction, and the interval around its value."""
        prediction, aux = super().predict_code(state, code)
        value, scale = prediction.value, _scale(prediction)
        radius = state.radius if scale is None else stretched(scale, state.radius)
        return prediction._replace(interval=(value - radius, value + radius)), (value, scale, aux)

    def update_code(
        self, state: IntervalsState, code: Code, aux: tuple, y: Array, asked: Array, present: Array
    ) -> tuple[IntervalsState, Array]:
        """The inner learner learns, and the radius grows or shrinks, if there is a label."""
        value, scale, inside = aux
        updated, learned = super().update_code(state, code, inside, y, asked, present)
        finite, limits, dtype = jnp.isfinite(y - value), jnp.finfo(value.dtype), value.dtype
        known = learned & jnp.all(finite)
        y, value = or_zero(finite, y), or_zero(finite, value)
        distance = jnp.abs(y - value)
        # a first error of 0, as while labels do not vary yet, says nothing about later ones
        begun = state.quantile > 0
        informative = begun | (distance > 0)
        # a quantile of 0 would never change again
        least = limits.eps * jnp.maximum(jnp.minimum(jnp.abs(y), jnp.abs(value)), limits.tiny)
        if scale is not None:
            # a scale that vanishes beside the error is that of a learner which knows no noise yet
            visible = scale > limits.eps * distance
            informative, scale = informative & visible, jnp.where(visible, scale, 1.0)
            distance, least = distance / scale, jnp.asarray(limits.eps, dtype)
        rate = jnp.asarray(self.step_size, dtype)
        moved = followed(state.quantile, distance, self.coverage, rate, state.labels)
        if scale is not None:
            moved = jnp.where(begun, moved, jnp.clip(moved, *FIRST))
        quantile = jnp.maximum(moved, least)
        # before the first label there is no interval that could miss it
        allowed = 1.0 - jnp.asarray(self.coverage, dtype)
        missed = (distance > state.radius).astype(dtype) - allowed
        excess = state.excess + jnp.where(begun, missed, 0.0)
        excess = jnp.clip(excess, -5.0 / rate, 5.0 / rate)
        radius = quantile * jnp.exp(rate * excess / 5.0)
        learns = known & informative
        after = updated.replace(
            quantile=jnp.where(learns, quantile, state.quantile),
            excess=jnp.where(learns, excess, state.excess),
            radius=jnp.where(learns, radius, state.radius),
            labels=count_on(state.labels, jnp.any(learns)),
        )
        return after, learned

    def info(self, state: IntervalsState) -> IntervalsInfo:
        return IntervalsInfo(state.radius, super().info(state))

    def interval(self, state: IntervalsState, x: Array) -> tuple[Array, Array]:
        """Lower and upper end of the interval for the label of ``x`` (D,)."""
        interval = self.predict(state, x).interval
        assert interval is not None  # predict_code has made it
        return interval


def _scale(prediction: Prediction) -> Array | None:
    """The scale u of the label, at least the rounding error of the value; None if not known."""
    size, limits = jnp.abs(prediction.value), jnp.finfo(prediction.value.dtype)
    size = or_zero(~jnp.isnan(size), size)
    if prediction.distribution is not None:
        scale = prediction.distribution.absolute_deviation
    elif prediction.variance is not None:
        scale = jnp.sqrt(jnp.clip(prediction.variance, limits.tiny, limits.max))
    else:
        return None
    return jnp.clip(scale, jnp.maximum(limits.eps * size, limits.tiny), limits.max)


def intervals(learner: Learner, coverage: Number = 0.9, step_size: Number = 0.05) -> Intervals:
    """Give the predictions of a learner intervals, from f - r u to f + r u.

    The scale u makes widths follow x: it is the mean absolute deviation of the prediction's
    distribution, where there is one (:func:`predictive`), or else the root of its variance, where
    that is known (:func:`jaxmkl.expert_mkl`), or else 1. The share of labels inside tends to
    ``coverage``, whatever the stream does: a running quantile q of |y - f| / u follows its scale,
    and wider intervals compensate for the excess D of misses over those allowed. With d = |y - f|
    / u,

        q <- q exp(η_t ([d > q] - (1 - coverage))),      η_t = max(η, 1/sqrt(t))
        D <- D + [d > r] - (1 - coverage),               |D| <= 5/η
        r = q exp(η D / 5)

    While D is within its bounds, the share over any T labels is off by |D_T - D_0| / T: 10/(η T)
    at most, and far less where q is near. The first label that is not predicted exactly makes q =
    d, within 1 and 10 where u is known; those before do not count, as labels that do not vary yet
    say nothing about later ones. Nor do labels that the learner refuses, or one beside whose error
    u vanishes, as for a learner that has not seen two labels differ. A run records both ends as
    ``outputs.interval``, NaN before there is a q; :meth:`Intervals.interval` returns them for one
    x. With several outputs each has its own q, D and r.

    Args:
      learner: any regression learner.
      coverage: the share of labels that should lie inside their intervals, in (0, 1].
      step_size: η; larger values follow the scale faster, with a radius that varies more.

    Raises:
      ValueError: if the learner is a classifier, or a number is outside its range.

    References:
      Gibbs and Candès (2021), Adaptive conformal inference under distribution shift; Angelopoulos,
      Candès and Tibshirani (2023), Conformal PID control for time series prediction. Steps on
      the logarithm, which do not depend on the labels' scale, are ours.

    >>> import jax, jaxmkl, numpy as np
    >>> learner = intervals(jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0, 2.0])), coverage=0.8)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> X, noise = np.random.default_rng(0).normal(size=(2, 2000, 2))
    >>> y = X[:, 0] + 0.1 * noise[:, 0]
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> round(float(jax.jit(jaxmkl.metrics.coverage)(*outputs.interval, y)), 2)
    0.8
    """
    return Intervals(learner, coverage, step_size)
