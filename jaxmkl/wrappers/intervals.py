"""Prediction intervals around any learner of numbers, with a coverage that holds over time."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Prediction
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState, followed, require_numbers


@pytree.dataclass
class IntervalsState(WrapperState):
    """State of :class:`Intervals`."""

    #: r, half the width of the next interval, a number or (K,); NaN before the first label
    radius: Array
    labels: Array  #: labels seen, int32


class IntervalsInfo(NamedTuple):
    """Diagnostics: the radius of the round's interval, and those of the learner inside."""

    radius: Array
    inner: Any


@pytree.dataclass
class Intervals(Wrapper):
    """A learner whose predictions have lower and upper ends; made by :func:`intervals`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    coverage: Any = pytree.share(0.9, exclusive=True)
    step_size: Any = pytree.positive(0.05)

    def __post_init__(self) -> None:
        require_numbers(self)

    def init(self, key: Array, num_inputs: int, dtype: Any = None) -> IntervalsState:
        inner = self.learner.init(key, num_inputs, dtype)
        shape = () if self.num_outputs is None else (self.num_outputs,)
        unknown = jnp.full(shape, jnp.nan, self.learner.dtype(inner))
        return IntervalsState(inner, unknown, jnp.zeros((), jnp.int32))

    def decide(self, state: IntervalsState, code: Any) -> tuple[Prediction, Any]:
        prediction, forecast = super().decide(state, code)
        return prediction, (prediction.value, forecast)

    def teach(
        self, state: Any, code: Any, forecast: Any, y: Array, asked: Array, present: Array
    ) -> IntervalsState:
        """The learner learns, and the radius grows or shrinks, if there is a label."""
        value, inside = forecast
        distance = jnp.abs(y - value)
        known = asked & present & jnp.all(jnp.isfinite(distance))
        dtype = distance.dtype
        step = jnp.maximum(jnp.asarray(self.step_size, dtype), 1.0 / (1.0 + state.labels))
        # a radius of 0 would stay there
        least = jnp.finfo(dtype).eps * jnp.maximum(jnp.abs(y), jnp.finfo(dtype).tiny)
        radius = jnp.maximum(followed(state.radius, distance, self.coverage, step), least)
        taught = super().teach(state, code, inside, y, asked, present)
        return taught.replace(
            radius=jnp.where(known, radius, state.radius),
            labels=state.labels + known.astype(jnp.int32),
        )

    def info(self, state: IntervalsState) -> IntervalsInfo:
        return IntervalsInfo(state.radius, super().info(state))

    def interval(self, state: IntervalsState, x: Array) -> tuple[Array, Array]:
        """Lower and upper end for the label of ``x`` (D,)."""
        value = self.predict(state, x).value
        return value - state.radius, value + state.radius


def intervals(learner: Learner, coverage: Any = 0.9, step_size: Any = 0.05) -> Intervals:
    """Give the predictions of a learner lower and upper ends f - r and f + r.

    The share of labels between them tends to ``coverage``, whatever the stream does:

        r <- r exp(η_t (miss - (1 - coverage))),      miss = 1 if |y - f| > r, else 0

    so over any T labels it is off by at most |log r_T - log r_0| / (η T). The first label makes
    r = |y - f|; η_t = max(η, 1/t). The radius of a round is ``outputs.info.radius``, which a run
    keeps with a ``record`` that asks for it; :meth:`Intervals.interval` has both ends for one x.

    Args:
      learner: any learner of numbers.
      coverage: the share of labels that are to lie between the ends, in (0, 1].
      step_size: η: larger ones keep the share more tightly, with ends that move more.

    Raises:
      ValueError: for a classifier, or a number outside its range.

    References:
      Gibbs and Candès (2021), Adaptive conformal inference under distribution shift; Angelopoulos,
      Candès and Tibshirani (2023), Conformal PID control for time series prediction. The step
      on the logarithm, which has no units, is ours.

    >>> import jax, jaxmkl
    >>> learner = intervals(jaxmkl.raker(), coverage=0.8)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> X, noise = jax.random.normal(jax.random.key(1), (2000, 3))[:, :2], 0.1
    >>> y = X[:, 0] + noise * jax.random.normal(jax.random.key(2), (2000,))
    >>> record = lambda output: (output.prediction, output.info.radius)
    >>> state, (f, r) = jaxmkl.run(learner, state, X, y, record=record)
    >>> round(float(jaxmkl.metrics.coverage(f - r, f + r, y)), 2)
    0.8
    """
    return Intervals(learner, coverage, step_size)
