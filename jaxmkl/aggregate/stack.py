"""Stacks: linear models that learn from the residuals of an aggregate."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import common_period
from jaxmkl._types import Number, PyTree
from jaxmkl.aggregate.base import Aggregate, Combination
from jaxmkl.aggregate.mixture import Mixed, Mixture, Regrets, Seen
from jaxmkl.losses import Loss
from jaxmkl.updates import RLS, Recursive

# The memories at which the aggregate below and the stacks are mixed.
_MEMORIES = (1.0, 0.999)


class StackState(NamedTuple):
    """State of :class:`Stack`."""

    base: Any
    """State of the aggregate below."""
    models: Recursive
    """State of the R least squares on E + 1 + 2 L inputs."""
    regrets: Regrets
    """Regrets towards the aggregate and the stacks, 1 + R items at two memories."""
    seen: Seen
    """The range of the labels."""
    last: jax.Array
    """The last labels, and their errors y - m (2, L), the latest first; infinite where there is
    none yet."""


class StackAux(NamedTuple):
    """A prediction's results that the update uses again."""

    base: PyTree
    """The results of the aggregate below."""
    mixed: Mixed
    """The prediction, a mixture of the next."""
    predictions: jax.Array
    """Predictions of the aggregate below and of the stacks (1 + R,)."""
    x: jax.Array
    """Inputs of the stacks (E + 1 + 2 L,)."""
    residuals: jax.Array
    """θ·x (R,)."""


@pytree.dataclass
class Stack(Aggregate[StackState, StackAux, PyTree]):
    """Least squares on the residuals of an aggregate, and a mixture of both.

    Let m_t be the prediction of the aggregate below in round t. R models fit y_t - m_t by
    recursive least squares, from weights 0, on

        x = (f_1 - m_t, ..., f_E - m_t,  m_t,  y_{t-1} - m_t, ..., y_{t-L} - m_t,
             y_{t-1} - m_{t-1}, ..., y_{t-L} - m_{t-L})

    So the weights of models need neither be positive nor sum to 1, and what the last labels and
    the last errors say of the next label is used; where labels are independent, that costs next to
    nothing. A mixture (:class:`Mixture`, at the memories 1 and .999 and without curvature)
    combines m and the predictions m + θ_r·x, clipped to the range of the labels so far, a tenth
    wider. A model that is not active counts as if its value were m.

    Only labels that are known count as the last ones: if labels are late or are not asked for,
    they are those that came last. An unknown label counts as if it were m, with an error of 0.
    Each output of several has labels and errors of its own.

    Args:
      base: the aggregate below.
      rule: recursive least squares, by default at (λ, φ) = (10, 1), (10, .999) and (10, .99); λ
        has squared units of the label.
      bound: predictions are clipped to [-bound, bound] instead.
      lags: L, how many of the last labels and errors are inputs, at least 0 (static).

    Raises:
      ValueError: if a part is of another kind, or an argument outside its range.

    References:
      Wolpert (1992), Stacked generalization; Breiman (1996), Stacked regressions; Box and Jenkins
      (1970), Time series analysis, for the last labels and errors (ARMAX).

    >>> rule = Stack(Mixture((1.0, 0.99)), RLS((1.0, 10.0)))
    >>> @jax.jit
    ... def first(values):
    ...     state = rule.init(num_models=2, dtype=values.dtype)
    ...     return rule.predict(state, values, None, ())[0].value
    >>> float(first(jnp.array([0.2, 0.6])))                             # equal weights
    0.4...
    """

    base: Aggregate = pytree.part(
        Aggregate, "an aggregate, as jaxmkl.aggregate.Mixture()", default=Mixture()
    )
    rule: RLS = pytree.part(
        RLS, "jaxmkl.updates.RLS(...)", default=RLS((10.0, 10.0, 10.0), (1.0, 0.999, 0.99))
    )
    bound: Number | None = pytree.positive(default=None, optional=True)
    lags: int = pytree.count(default=3, minimum=0)

    @property
    def penalty(self) -> Number | None:  # type: ignore[override]
        """The penalty of the aggregate below."""
        return self.base.penalty

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The largest number that divides the rule's period and that of the aggregate below."""
        return common_period((self.rule, self.base))

    def init(self, num_models: int, dtype: DTypeLike) -> StackState:
        return StackState(
            self.base.init(num_models, dtype),
            Recursive.start(self.rule, num_models + 1 + 2 * self.lags, dtype),
            Regrets.none(len(_MEMORIES), 1 + self.rule.num_rates, dtype),
            Seen.none(dtype),
            jnp.full((2, self.lags), jnp.inf, dtype),
        )

    def weights(self, state: StackState) -> jax.Array:
        return self.base.weights(state.base)

    def log_weights(self, state: StackState) -> jax.Array:
        return self.base.log_weights(state.base)

    def predict(
        self,
        state: StackState,
        values: jax.Array,
        active: jax.Array | None,
        noise: PyTree,
    ) -> tuple[Combination, StackAux]:
        below, of_base = self.base.predict(state.base, values, active, noise)
        m, values = below.value, below.values
        finite = jnp.isfinite(values)
        active = finite if active is None else active & finite
        unknown = jnp.stack([m, jnp.zeros_like(m)])[:, None]
        last = jnp.where(jnp.isfinite(state.last), state.last - unknown, 0.0)
        x = jnp.concatenate([jnp.where(active, values - m, 0.0), m[None], last.reshape(-1)])
        residuals = state.models.predict(self.rule, x)
        stacks = state.seen.clip(m + residuals, 0.1, self.bound)
        predictions = jnp.append(m, stacks)
        mixed = state.regrets.mixed(predictions, jnp.isfinite(predictions))
        aux = StackAux(of_base, mixed, predictions, x, residuals)
        return Combination(mixed.value, values, below.weights, below.drawn), aux

    def update(
        self,
        state: StackState,
        aux: StackAux,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> StackState:
        learns, predictions = jnp.any(judged), aux.predictions
        error = y - predictions[0]
        everyone = jnp.broadcast_to(learns, predictions.shape)
        latest = jnp.concatenate([jnp.stack([y, error])[:, None], state.last], axis=1)
        return StackState(
            self.base.update(state.base, aux.base, y, loss, judged, round),
            state.models.after(self.rule, aux.x, error - aux.residuals, round, learns),
            state.regrets.after(aux.mixed, predictions, y, loss, everyone, _MEMORIES),
            state.seen.after(y, judged),
            jnp.where(learns, latest[:, : self.lags], state.last),
        )

    def close(self, state: StackState, size: int, round: jax.Array) -> StackState:
        return state._replace(
            base=self.base.close(state.base, size, round),
            models=state.models.close(self.rule, size, round),
        )


@abilities.noise.register
def _(aggregate: Stack, key: jax.Array, num_models: int, dtype: DTypeLike) -> PyTree:
    return abilities.noise(aggregate.base, key, num_models, dtype)


@abilities.context.register
def _(aggregate: Stack, state: StackState) -> tuple[jax.Array, PyTree]:
    return state.last, abilities.context(aggregate.base, state.base)


@abilities.with_context.register
def _(aggregate: Stack, state: StackState, context: tuple[jax.Array, PyTree]) -> StackState:
    last, of_base = context
    base = abilities.with_context(aggregate.base, state.base, of_base)
    return state._replace(base=base, last=last)


@abilities.out_of_order.register
def _(aggregate: Stack, state: StackState) -> StackState:
    base = abilities.out_of_order(aggregate.base, state.base)
    return state._replace(base=base, last=jnp.full_like(state.last, jnp.inf))


@abilities.shares.register
def _(aggregate: Stack, state: StackState) -> abilities.Shares:
    below = abilities.shares(aggregate.base, state.base)
    return abilities.Shares(None if below is None else below.memories, state.regrets.weights())
