"""The protocol of aggregates."""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number, PyTree
from jaxmkl.losses import Loss

# No log-weight falls below: the logarithm of a weight of 0, harmless.
FLOOR = -1e30


class Combination(NamedTuple):
    """A prediction, and the values and weights that it is made of."""

    value: jax.Array
    """The prediction, a number."""
    values: jax.Array
    """The models' values as they are combined and judged (E,)."""
    weights: jax.Array
    """Weights of all models, of sum 1 (E,)."""
    drawn: Any = None
    """Which models alone take part in the round (E,); None for all."""


class Aggregate(abc.ABC):
    """Base of all aggregates: frozen pytree dataclasses with a state of their own."""

    output: str = "value"
    """"value", or "vote" of signs, which classifiers only can have."""
    cost: str = "loss"
    """"loss", or "mistake", which classifiers only can make."""
    period: int | None = None
    """Rounds after which :meth:`close` changes the state; blocks divide it. None for never."""

    @abc.abstractmethod
    def init(self, num_models: int, dtype: DTypeLike) -> PyTree:
        """The state before the first round, a pytree."""

    def noise(self, key: jax.Array, num_models: int, dtype: DTypeLike) -> PyTree:
        """The random numbers of one round."""
        return ()

    @abc.abstractmethod
    def log_weights(self, state: PyTree) -> jax.Array:
        """Logarithms of the weights (E,), up to a constant: what a selection looks at."""

    def weights(self, state: PyTree) -> jax.Array:
        """Weights q (E,) of all models, of sum 1."""
        return jax.nn.softmax(self.log_weights(state))

    @abc.abstractmethod
    def predict(
        self, state: PyTree, values: jax.Array, active: jax.Array | None, noise: PyTree
    ) -> tuple[Combination, PyTree]:
        """One prediction from the values (E,) of the models that are ``active`` (E,).

        The second result is what :meth:`update` uses again.
        """

    @abc.abstractmethod
    def update(
        self,
        state: PyTree,
        aux: PyTree,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> PyTree:
        """The state after a label by which the models ``judged`` (E,) are judged.

        Where none is judged, no bit changes. ``round`` is the number of the example.
        """

    def merged(self, states: PyTree, start: PyTree | None) -> PyTree:
        """One state of those of shards, all leaves with a leading axis (:func:`jaxmkl.merge`).

        ``start`` is the state that they began with; None for one of :meth:`init`.
        """
        wanted = "Uniform, Hedge or DrawOne: what others keep does not add up"
        pytree.require(False, "merge", "learner.aggregate", self, wanted)

    def close(self, state: PyTree, size: int, round: jax.Array) -> PyTree:
        """The state after a block of ``size`` examples; rounds below ``round`` are over."""
        return state


def bounded(values: jax.Array, bound: Number | None) -> jax.Array:
    """Values clipped to [-bound, bound]."""
    bound = jnp.asarray(bound, values.dtype)
    return jnp.clip(values, -bound, bound)


def weighted(q: jax.Array, values: jax.Array) -> jax.Array:
    """Σ_e q_e f_e for weights (..., E); a model without weight has no part in it, whatever f_e."""
    return jnp.sum(jnp.where(q > 0, q * values, 0.0), axis=-1)
