"""Targets that are centred and scaled by what the stream has shown so far."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Prediction
from jaxmkl.wrappers.scaled import RunningMoments, RunningMomentsState
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState, followed, require_numbers

# one label may be absurd; bursts of some ten deviations are no error, and believed
MOMENTS = RunningMoments(100.0)


@pytree.dataclass
class ScaledTargetsState(WrapperState):
    """State of :class:`ScaledTargets`."""

    moments: RunningMomentsState
    """Of the labels: their number, m and v, (1,) or (K,)."""
    residual: Array
    """u, the running 90 % quantile of |y - f|, a number or (K,), in units of y; 0 until there is
    a prediction that knows a label."""
    awaited: Array
    """Labels asked for by ``ask`` for which no ``update`` came yet, int32."""


@pytree.dataclass
class ScaledTargets(Wrapper):
    """A learner whose targets are scaled online; made by :func:`scaled_targets`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    clip: Any = pytree.positive(None, optional=True)

    def __post_init__(self) -> None:
        require_numbers(self)

    def init(self, key: Array, num_inputs: int, dtype: Any = None) -> ScaledTargetsState:
        inner = self.learner.init(key, num_inputs, dtype)
        dtype = self.learner.dtype(inner)
        K = self.num_outputs
        residual = jnp.zeros(() if K is None else (K,), dtype)
        moments = MOMENTS.init(key, residual.size, dtype)
        return ScaledTargetsState(inner, moments, residual, jnp.zeros((), jnp.int32))

    def await_label(self, state: ScaledTargetsState, query: Array) -> ScaledTargetsState:
        state = super().await_label(state, query)
        return state.replace(awaited=state.awaited + query.astype(jnp.int32))

    def receive_label(self, state: ScaledTargetsState, asked: Array) -> ScaledTargetsState:
        state, known = super().receive_label(state, asked), asked & (state.awaited > 0)
        return state.replace(awaited=state.awaited - known.astype(jnp.int32))

    def decide(self, state: ScaledTargetsState, code: Any) -> tuple[Prediction, Any]:
        """The prediction in the target's own units; before any label one is asked for."""
        prediction, forecast = super().decide(state, code)
        shape = prediction.value.shape
        mean, variance = (a.reshape(shape) for a in state.moments.of_all[:2])
        value = mean + jnp.sqrt(variance) * prediction.value
        first = (state.moments.num_seen == 0) & (state.awaited == 0)
        return prediction._replace(value=value, query=prediction.query | first), (value, forecast)

    def teach(
        self, state: Any, code: Any, forecast: Any, y: Array, asked: Array, present: Array
    ) -> ScaledTargetsState:
        """The learner gets the label in units of the labels so far, itself among them."""
        (value, inside), given = forecast, y
        known = asked & present & jnp.all(jnp.isfinite(y) & jnp.isfinite(value))
        y, residual = (y, state.residual) if self.clip is None else self._clipped(state, value, y)
        change, z = MOMENTS.observe(state.moments, jnp.atleast_1d(y))
        # what is refused is refused by the learner inside
        z = jnp.where(jnp.isfinite(given), z.reshape(y.shape), given)
        taught = super().teach(state, code, inside, z, asked, present)
        return taught.replace(
            moments=MOMENTS.accept(state.moments, change, known),
            residual=jnp.where(known, residual, state.residual),
        )

    def _clipped(self, state: Any, value: Array, y: Array) -> tuple[Array, Array]:
        """The label within ``clip`` times u of the prediction, and the next u."""
        distance = jnp.abs(y - value)
        bound = jnp.asarray(self.clip, value.dtype) * state.residual
        step = jnp.maximum(0.05, 1.0 / jnp.sqrt(1.0 + state.moments.num_seen)).astype(value.dtype)
        known = state.residual > 0
        clipped = jnp.where(known, jnp.clip(y, value - bound, value + bound), y)
        after = followed(state.residual, distance, 0.9, step)
        # the first prediction knows nothing of where labels lie
        return clipped, jnp.where(state.moments.num_seen > 0, after, state.residual)


def scaled_targets(learner: Learner, clip: Any = None) -> ScaledTargets:
    """Centre and scale targets by what was seen, inside the same scan.

    With the mean m and variance v of the labels so far (:class:`RunningMoments`), the learner
    predicts f and learns z, and what is said has the target's own units:

        prediction = m + sqrt(v) f,      z = (y - m) / sqrt(v)   (with y among those of m and v)

    Nothing looks ahead; y -> a y + b changes the units of predictions and nothing else. Step
    sizes, tolerances and penalties in units of the target then mean the same on any data. Before
    the first label the prediction is 0, and whatever the learner's query says a label is asked
    for: without one nobody knows where the target lies.

    A label counts as at most 100 deviations off (the moments' ``clip``), so one absurd label costs
    little and is forgotten. Where there are more, have a ``clip`` of your own: 5 with
    :func:`jaxmkl.expert_mkl`, 10 with ``raker(loss="huber")``. With 1 % of labels off by 1e6
    deviations, errors on three of the papers' streams and a made one then are 1.1 to 1.4 times
    those on clean labels without a clip. On clean labels it costs nothing, or up to .45 of the
    error where the target comes in bursts. Huber's loss alone is enough for outliers of some ten
    deviations; recursive least squares, as in ``expert_mkl``, take no notice of it.

    Args:
      learner: any learner of numbers.
      clip: labels further from the prediction than ``clip`` times u count as if they were at that
        distance, u being the running 90 % quantile of |y - prediction|. None for labels as they
        are.

    Raises:
      ValueError: for a classifier, or a clip that is not positive.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (1000, 2))
    >>> learner = scaled_targets(jaxmkl.raker())
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> one, other = (
    ...     jaxmkl.run(learner, state, X, y)[1].prediction for y in (X[:, 0], 1e4 + 1e3 * X[:, 0])
    ... )
    >>> bool(abs(1e4 + 1e3 * one - other)[1:].max() < 1.0)
    True
    """
    return ScaledTargets(learner, clip)
