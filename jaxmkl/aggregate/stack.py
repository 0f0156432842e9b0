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
from jaxmkl.aggregate.mixture import Mixture, Regrets, Seen
from jaxmkl.losses import Loss
from jaxmkl.updates import RLS, Recursive


class StackState(NamedTuple):
    """State of :class:`Stack`."""

    base: Any
    """State of the aggregate below."""
    models: Recursive
    """State of the R least squares on E + 1 inputs."""
    regrets: Regrets
    """Regrets towards the aggregate and the stacks (1, 1 + R)."""
    seen: Seen
    """The range of the labels."""


class StackAux(NamedTuple):
    """A prediction's results that the update uses again."""

    base: PyTree
    """The results of the aggregate below."""
    value: jax.Array
    """The prediction."""
    x: jax.Array
    """Inputs of the stacks (E + 1,)."""
    residuals: jax.Array
    """θ·x (R,)."""
    predictions: jax.Array
    """Predictions of the aggregate below and of the stacks (1 + R,)."""


@pytree.dataclass
class Stack(Aggregate):
    """Least squares on the residuals of an aggregate, and a mixture of both.

    Let m be the prediction of the aggregate below. R models fit y - m on x = (f_1 - m, ..., f_E -
    m, m) by recursive least squares, from weights 0, and a mixture without forgetting
    (:class:`Mixture`) combines m and their predictions m + θ_r·x. These are clipped to the range
    of the labels so far, a tenth wider. So the weights of models need neither be positive nor sum
    to 1. A model that is not active counts as if its value were m.

    Args:
      base: the aggregate below.
      rule: recursive least squares, by default at (λ, φ) = (1, 1), (10, 1) and (10, .999); λ has
        squared units of the label.
      bound: predictions are clipped to [-bound, bound] instead.

    Raises:
      ValueError: if a part is of another kind.

    References:
      Wolpert (1992), Stacked generalization; Breiman (1996), Stacked regressions.

    >>> rule = Stack(Mixture((1.0, 0.99)), RLS((1.0, 10.0)))
    >>> state = rule.init(num_models=2, dtype=jnp.float32)
    >>> said, _ = jax.jit(rule.predict)(state, jnp.array([0.2, 0.6]), None, ())
    >>> float(said.value)                                               # equal weights
    0.4...
    """

    base: Aggregate = pytree.part(
        Aggregate, "an aggregate, as jaxmkl.aggregate.Mixture()", default=Mixture()
    )
    rule: RLS = pytree.part(
        RLS, "jaxmkl.updates.RLS(...)", default=RLS((1.0, 10.0, 10.0), (1.0, 1.0, 0.999))
    )
    bound: Number | None = pytree.positive(default=None, optional=True)

    @property
    def penalty(self) -> Number | None:  # type: ignore[override]
        """That of the aggregate below."""
        return self.base.penalty

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The largest number that divides the rule's period and that of the aggregate below."""
        return common_period((self.rule, self.base))

    def init(self, num_models: int, dtype: DTypeLike) -> StackState:
        return StackState(
            self.base.init(num_models, dtype),
            Recursive.start(self.rule, num_models + 1, dtype),
            Regrets.none(1, 1 + self.rule.num_rates, dtype),
            Seen.none(dtype),
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
        x = jnp.append(jnp.where(active, values - m, 0.0), m)
        residuals = state.models.predict(x)
        stacks = state.seen.clip(m + residuals, 0.1, self.bound)
        predictions = jnp.append(m, stacks)
        value = state.regrets.mixed(predictions)[0]
        aux = StackAux(of_base, value, x, residuals, predictions)
        return Combination(value, values, below.weights, below.drawn), aux

    def update(
        self,
        state: StackState,
        aux: StackAux,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> StackState:
        learns = jnp.any(judged)
        errors = (y - aux.predictions[0]) - aux.residuals
        return StackState(
            self.base.update(state.base, aux.base, y, loss, judged, round),
            state.models.after(self.rule, aux.x, errors, round, learns),
            state.regrets.after(aux.value[None], aux.predictions, y, loss, learns),
            state.seen.after(y, judged),
        )

    def close(self, state: StackState, size: int, round: jax.Array) -> StackState:
        return state._replace(
            base=self.base.close(state.base, size, round),
            models=state.models.close(self.rule, size, round),
        )


@abilities.noise.register
def _(aggregate: Stack, key: jax.Array, num_models: int, dtype: DTypeLike) -> PyTree:
    return abilities.noise(aggregate.base, key, num_models, dtype)
