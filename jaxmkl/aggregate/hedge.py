"""Aggregates: how the values of E models become one prediction, and how models are judged.

    value        Σ_e q_e f_e                q_e = 1/E (Uniform) or w_e / Σ w (Hedge)
    vote         Σ_e q_e s(f_e)             s(f) = 1 if f >= 0, else -1
    drawn        f_I of one model I, drawn by its weight (DrawOne)

Hedge discounts a model by its cost on the example, w_e <- w_e exp(-η_g c_e), where the cost c_e is
1 for a mistake (y f_e <= 0) and 0 otherwise, or the loss of f_e, perhaps with a penalty on its
norm. In the papers' terms exp(-η_g) is the discount γ. The field ``output``, "value" or "vote",
says whether the values or their signs are combined, and ``cost``, "loss" or "mistake", which cost
is meant; both are static. An argument outside its range raises a ``ValueError``.

References:
  Freund and Schapire (1997); Hoi, Jin, Zhao and Yang (2013), Online multiple kernel
  classification; Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Algorithm 1;
  Yang, Mahdavi, Jin, Yi and Hoi (2012), Online kernel selection: algorithms and evaluations; Hong
  and Chae, equations (21), (22), (31), (32), (38), (39), (43), (44).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import uniform
from jaxmkl._shards import added
from jaxmkl._types import Noise, Number
from jaxmkl.aggregate.base import FLOOR, Aggregate, Combination, bounded, weighted
from jaxmkl.losses import Loss

OUTPUTS = ("value", "vote")
COSTS = ("loss", "mistake")


def _votes(output: str, values: jax.Array) -> jax.Array:
    return jnp.where(values >= 0, 1.0, -1.0).astype(values.dtype) if output == "vote" else values


@pytree.dataclass
class Uniform(Aggregate[jax.Array, tuple, tuple]):
    """All models have the same weight.

    Args:
      output: "value", or for classifiers "vote": what is combined, values or their signs (static).
    """

    output: str = pytree.choice(*OUTPUTS, default="value")
    is_mean = True

    def init(self, num_models: int, dtype: DTypeLike) -> jax.Array:
        return jnp.zeros((num_models,), dtype)

    def log_weights(self, state: jax.Array) -> jax.Array:
        return state

    def predict(
        self, state: jax.Array, values: jax.Array, active: jax.Array | None, noise: tuple
    ) -> tuple[Combination, tuple]:
        q = jax.nn.softmax(state, where=active)
        value = weighted(q, _votes(self.output, values))
        return Combination(value, values, self.weights(state)), ()

    def update(
        self,
        state: jax.Array,
        aux: tuple,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> jax.Array:
        return state


@abilities.merged.register
def _(aggregate: Uniform, states: jax.Array, start: jax.Array | None) -> jax.Array:
    return states[0]


class HedgeState(NamedTuple):
    """Log-weights (E,), the largest of which is 0."""

    log_weights: jax.Array


class _Weighing(Aggregate[HedgeState, Combination, Noise]):
    """The base of aggregates whose state is the models' log-weights, discounted at a rate."""

    rate: Any
    output: str
    cost: str

    def init(self, num_models: int, dtype: DTypeLike) -> HedgeState:
        return HedgeState(jnp.zeros((num_models,), dtype))

    def log_weights(self, state: HedgeState) -> jax.Array:
        return state.log_weights

    def update(
        self,
        state: HedgeState,
        aux: Combination,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> HedgeState:
        """Discount the judged models; the cost of a drawn one is divided by its probability."""
        values = aux.values
        if self.cost == "mistake":
            # a value that is not a number is a mistake too
            cost = (~(y * values > 0)).astype(values.dtype)
        else:
            cost = loss.value(values, y)
        if aux.drawn is not None:
            judged = judged & aux.drawn
            cost = cost / jnp.where(judged, aux.weights, 1.0)
        costs = jnp.where(judged, cost, 0.0)
        log_weights = state.log_weights - jnp.asarray(self.rate, costs.dtype) * costs
        # a model with an infinite or undefined loss has weight 0
        log_weights = jnp.where(log_weights > FLOOR, log_weights, FLOOR)
        return HedgeState(log_weights - jax.lax.stop_gradient(jnp.max(log_weights)))


@abilities.signs.register
def _(aggregate: Uniform | _Weighing) -> set[str]:
    return {aggregate.output, getattr(aggregate, "cost", "loss")} & {"vote", "mistake"}


@abilities.merged.register
def _(aggregate: _Weighing, states: HedgeState, start: HedgeState | None) -> HedgeState:
    """Merge by the losses in all shards."""
    log_weights = added(states.log_weights, 0 if start is None else start.log_weights)
    log_weights = jnp.maximum(log_weights, FLOOR)
    return HedgeState(log_weights - jnp.max(log_weights, axis=-1, keepdims=True))


@pytree.dataclass
class Hedge(_Weighing[tuple]):
    """Weigh models by their losses so far.

    Weights are read through softmax, so that no number of rounds makes them underflow together.

    Args:
      rate: η_g; -log γ for a discount γ.
      output: as for :class:`Uniform`.
      cost: by what a model is judged, its "loss" or, for classifiers, its "mistake" (static).
      bound: values are clipped to [-bound, bound] before they are combined and judged; None for no
        bound.
      penalty: λ, for models judged by L(f_e, y) + λ/2 |f_e|², the loss that gradient descent with
        that ``regularization`` descends; before the update, and |f| = |θ| on features. None judges
        them by L(f_e, y) alone, at no cost. Models with supports and those of second order do not
        know their norms. Hong and Chae have the penalty, without which errors are no larger (mean
        squared errors x 1e-3 of ``raker``, in file order, means of 3 seeds):

                                          none       λ = 0.02
            tom, rates T^(-1/2)           10.59      10.87
            twitter, rates T^(-1/2)       11.83      12.15
            tom, by default               0.954      0.962
            twitter, by default           2.412      2.424

    Raises:
      ValueError: if an argument is outside its range, or a penalty is to be on mistakes.

    >>> import jaxmkl
    >>> rule, values = Hedge(0.7, cost="mistake"), jnp.array([0.5, -0.5])
    >>> state = rule.init(2, jnp.float32)
    >>> combination, aux = rule.predict(state, values, None, ())
    >>> loss, judged = jaxmkl.losses.Hinge(), jnp.array([True, True])
    >>> rule.update(state, aux, jnp.array(1.0), loss, judged).log_weights
    Array([ 0. , -0.7], dtype=float32)
    """

    rate: Number = pytree.nonnegative(default=1.0)
    output: str = pytree.choice(*OUTPUTS, default="value")
    cost: str = pytree.choice(*COSTS, default="loss")
    bound: Number | None = pytree.positive(default=None, optional=True)
    penalty: Number | None = pytree.nonnegative(default=None, optional=True)
    is_mean = True

    def __post_init__(self) -> None:
        good = self.penalty is None or self.cost == "loss"
        pytree.require(good, self, "penalty", self.penalty, "None where mistakes are counted")

    def predict(
        self, state: HedgeState, values: jax.Array, active: jax.Array | None, noise: tuple
    ) -> tuple[Combination, Combination]:
        """The weighted mean, with weights renormalised among the active models."""
        if self.bound is not None:
            values = bounded(values, self.bound)
        p = jax.nn.softmax(state.log_weights)
        q = p if active is None else jax.nn.softmax(state.log_weights, where=active)
        combination = Combination(weighted(q, _votes(self.output, values)), values, p)
        return combination, combination


@pytree.dataclass
class DrawOne(_Weighing[jax.Array]):
    """Draw one model by its weight; it predicts, and only it learns and is judged.

        I ~ p,    p_i = (1 - δ) w_i / Σ w + δ / P,    w_I <- w_I exp(-η_g c_I / p_I)

    The cost c is 1 for a mistake (y f_I <= 0): where f_I is 0, for instance because its values
    underflow, a vote of +1 may be right and still costs the model some weight. If only some models
    are active, I is drawn among these, with p renormalised.

    Args:
      rate: η_g.
      smoothing: δ in (0, 1].
      output, cost: as for :class:`Hedge`, but by default mistakes, which classifiers make.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2.

    >>> rule = DrawOne(0.1, 0.2)
    >>> state = rule.init(4, jnp.float32)
    >>> rule.predict(state, jnp.arange(4.0), None, jnp.array(0.6))[0].drawn
    Array([False, False,  True, False], dtype=bool)
    """

    rate: Number = pytree.nonnegative()
    smoothing: Number = pytree.share(default=0.2, exclusive=True)
    output: str = pytree.choice(*OUTPUTS, default="value")
    cost: str = pytree.choice(*COSTS, default="mistake")

    def weights(self, state: HedgeState) -> jax.Array:
        delta = jnp.asarray(self.smoothing, state.log_weights.dtype)
        w = jax.nn.softmax(state.log_weights)
        return (1.0 - delta) * w + delta / w.shape[0]

    def predict(
        self, state: HedgeState, values: jax.Array, active: jax.Array | None, noise: jax.Array
    ) -> tuple[Combination, Combination]:
        p = self.weights(state)
        if active is not None:
            p = jnp.where(active, p, 0.0)
            p = p / jnp.sum(p)
        total = jnp.cumsum(p)
        # in a short dtype the number may round to 1: then the last one with a probability is drawn
        reached = (total > noise * total[-1]) | (total == total[-1])
        drawn = jnp.arange(p.shape[0]) == jnp.argmax(reached)
        value = weighted(drawn.astype(values.dtype), _votes(self.output, values))
        combination = Combination(value, values, p, drawn)
        return combination, combination


@abilities.noise.register
def _(aggregate: DrawOne, key: jax.Array, num_models: int, dtype: DTypeLike) -> jax.Array:
    return uniform(key, (), dtype)
