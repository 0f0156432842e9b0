"""The protocol of aggregates."""

import abc
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._types import Aux, Noise, Number, PyTree, State
from jaxmkl.kernels.scaled import VANISHED
from jaxmkl.losses import Loss

# The least log-weight: it stands for a weight of 0 and remains finite.
FLOOR = -1e30


class Combination(NamedTuple):
    """A prediction, and the values and weights from which it is computed."""

    value: jax.Array
    """The prediction, a number."""
    values: jax.Array
    """The models' values as they are combined and judged (E,)."""
    weights: jax.Array
    """Weights of all models, of sum 1 (E,)."""
    drawn: Any = None
    """Which models take part in the round (E,), if not all do; None for all."""


class Aggregate(abilities.NoMethods, abc.ABC, Generic[State, Aux, Noise]):
    """The base of all aggregates: frozen pytree dataclasses with a state of their own."""

    penalty: Number | None = None
    """λ of the penalty λ/2 |f_e|² that the loss of a model has on top where models are judged, so
    that the models must know their norms; None for none."""
    is_mean: bool = False
    """True if predictions are means of the values, or votes, by the weights: a learner of classes
    keeps the sign of means that are too small for their dtype (:func:`sign_kept`)."""
    period: int | None = None
    """Rounds after which :meth:`close` changes the state; blocks divide it. None for never."""

    @abc.abstractmethod
    def init(self, num_models: int, dtype: DTypeLike) -> State:
        """The state before the first round, a pytree."""

    @abc.abstractmethod
    def log_weights(self, state: State) -> jax.Array:
        """Logarithms of the weights (E,), up to a constant, as a selection reads them."""

    def weights(self, state: State) -> jax.Array:
        """Weights q (E,) of all models, of sum 1."""
        return jax.nn.softmax(self.log_weights(state))

    @abc.abstractmethod
    def predict(
        self, state: State, values: jax.Array, active: jax.Array | None, noise: Noise
    ) -> tuple[Combination, Aux]:
        """Combine the values (E,) of the models that are ``active`` (E,) into one prediction.

        The second result is what :meth:`update` uses again.
        """

    @abc.abstractmethod
    def update(
        self,
        state: State,
        aux: Aux,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> State:
        """The state after a label, by which those of the models in ``judged`` (E,) are judged.

        If none is judged, no bit changes. ``round`` is the number of the example.
        """

    def close(self, state: State, size: int, round: jax.Array) -> State:
        """The state after a block of ``size`` examples; rounds below ``round`` are over."""
        return state


class Penalized(Loss):
    """A loss with a penalty (E,) for each model, as an aggregate judges by within a round."""

    task = "regression"

    def __init__(self, loss: Loss, penalties: jax.Array):
        self.task, self.loss, self.penalties = loss.task, loss, penalties

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The losses of the models' values (E,)."""
        return self.loss.value(prediction, y) + self.penalties

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return self.loss.slope(prediction, y)


def combined_by(
    aggregate: Aggregate, state: PyTree, values: jax.Array, active: jax.Array | None, noise: PyTree
) -> tuple[Combination, PyTree]:
    """The results of :meth:`Aggregate.predict`, the prediction in the dtype of the values.

    Raises:
      ValueError: if they are no combination of a number and two arrays (E,), and one more result.
    """
    found: Any = aggregate.predict(state, values, active, noise)
    good = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Combination)
    wanted = "a pair: an aggregate.Combination, and what update uses again"
    pytree.require(good, aggregate, "the result of predict", type(found).__name__, wanted)
    combination, aux = found
    shapes, E = tuple(map(jnp.shape, combination[:3])), values.shape
    wanted = f"of the shapes {((), E, E)}, for the E models: a number and arrays (E,)"
    name = "value, values and weights of the Combination"
    pytree.require(shapes == ((), E, E), aggregate, name, shapes, wanted)
    return combination._replace(value=jnp.asarray(combination.value, values.dtype)), aux


def bounded(values: jax.Array, bound: Number | None) -> jax.Array:
    """Values clipped to [-bound, bound]."""
    bound = jnp.asarray(bound, values.dtype)
    return jnp.clip(values, -bound, bound)


def weighted(q: jax.Array, values: jax.Array) -> jax.Array:
    """Σ_e q_e f_e for weights (..., E); where a weight is 0, f_e may be any value."""
    return jnp.sum(jnp.where(q > 0, q * values, 0.0), axis=-1)


def sign_kept(
    value: jax.Array, log_weights: jax.Array, values: jax.Array, active: jax.Array | None
) -> jax.Array:
    """A mean of the values f_e (E,), with the right sign where it is too small for its dtype.

    In single precision a weight of exp(-100) is 0, and yet its model decides on the class if the
    others have no supports near an example. So terms are compared by their logarithms. A value f_e
    that was too small for its dtype is the smallest number of its sign
    (:mod:`jaxmkl.kernels.scaled`); here it is as small as it may be in double precision.

    >>> values, log_weights = jnp.array([0.0, -3.0, 2.0]), jnp.array([0.0, -120.0, -121.0])
    >>> weighted(jnp.exp(log_weights), values), sign_kept(jnp.zeros(()), log_weights, values, None)
    (Array(0., dtype=float32), Array(-1.1754944e-38, dtype=float32))
    """
    values, limits = jax.lax.stop_gradient(values), jnp.finfo(value.dtype)
    size = jnp.abs(values)
    counts = size > 0 if active is None else active & (size > 0)
    logs = log_weights + jnp.where(size > limits.tiny, jnp.log(size), -VANISHED)
    logs = jnp.where(counts, logs, FLOOR)
    terms = jnp.where(counts, jnp.sign(values) * jnp.exp(logs - jnp.max(logs)), 0.0)
    small = jnp.abs(value) < limits.tiny / limits.eps
    return jnp.where(small, jnp.sign(jnp.sum(terms)) * limits.tiny, value)
