"""Stacks: what a linear model learns from the residuals of an aggregate."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl.aggregate.base import Aggregate, Combination, weighted
from jaxmkl.aggregate.mixture import Mixture, Regrets, Seen
from jaxmkl.losses import LOSSES
from jaxmkl.updates import RLS


class StackState(NamedTuple):
    """State of :class:`Stack`.

    Attributes:
      base: of the aggregate below.
      rule: of the least squares (R, 1, E + 1).
      regrets: towards the aggregate and the stacks (1, 1 + R).
      seen: the range of the labels.
    """

    base: Any
    rule: Any
    regrets: Regrets
    seen: Seen


class Worked(NamedTuple):
    """Of one example: the combination below, of the rule code and rest, stacks (1 + R,)."""

    base: Combination
    codes: Any
    rule: Any
    values: jax.Array
    stacks: jax.Array


@pytree.dataclass
class Stack(Aggregate):
    """Least squares on what an aggregate leaves over, and a mixture of both.

    With the prediction m of the aggregate below, R models by recursive least squares fit y - m on
    x = (f_1 - m, ..., f_E - m, m), from weights 0, and a mixture without forgetting
    (:class:`Mixture`) goes over m and their predictions m + θ_r·x. These are clipped to the range
    of the labels so far, a tenth wider. So the weights of models need be neither positive nor of
    sum 1. Models that do not speak count as if they said m.

    Args:
      base: the aggregate below.
      rule: recursive least squares at (λ, φ) = (1, 1), (10, 1) and (10, .999); λ has squared units
        of the label.
      bound: predictions are clipped to [-bound, bound] instead.

    Raises:
      ValueError: for a part that is none.

    References:
      Wolpert (1992), Stacked generalization; Breiman (1996), Stacked regressions.

    >>> import jaxmkl
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]))
    """

    base: Any = pytree.part(
        Aggregate, "an aggregate, as jaxmkl.aggregate.Mixture()", Mixture()
    )
    rule: Any = pytree.part(
        RLS, "jaxmkl.updates.RLS(...)", RLS((1.0, 10.0, 10.0), (1.0, 1.0, 0.999))
    )
    bound: Any = pytree.positive(None, optional=True)

    @property
    def period(self) -> int:  # type: ignore[override]
        """That of the rule."""
        return self.rule.period

    def init(self, num_models: int, dtype: Any) -> StackState:
        return StackState(
            self.base.init(num_models, dtype),
            self.rule.init(1, num_models + 1, dtype),
            Regrets.none(1, 1 + self.rule.num_rates, dtype),
            Seen.none(dtype),
        )

    def noise(self, key: jax.Array, num_models: int, dtype: Any) -> Any:
        return self.base.noise(key, num_models, dtype)

    def weights(self, state: StackState) -> jax.Array:
        return self.base.weights(state.base)

    def log_weights(self, state: StackState) -> jax.Array:
        return self.base.log_weights(state.base)

    def combine(
        self,
        state: StackState,
        values: jax.Array,
        speaking: jax.Array | None,
        noise: Any,
        round: Any = 0,
    ) -> Combination:
        below = self.base.combine(state.base, values, speaking, noise, round)
        m, values = below.value, below.values
        heard = jnp.isfinite(values) if speaking is None else speaking & jnp.isfinite(values)
        x = jnp.append(jnp.where(heard, values - m, 0.0), m)
        codes = self.rule.encode(state.rule, jnp.asarray(round, jnp.int32), x[None, None])
        residuals, again = self.rule.predict(state.rule, jax.tree.map(lambda leaf: leaf[0], codes))
        stacks = jnp.append(m, state.seen.clip(m + residuals[:, 0], 0.1, self.bound))
        value = weighted(state.regrets.weights(), stacks)[0]
        worked = Worked(below, codes, again, residuals, stacks)
        return Combination(value, values, below.weights, below.drawn, worked)

    def update(
        self, state: StackState, combined: Combination, y: jax.Array, loss: str, judged: jax.Array
    ) -> StackState:
        worked: Worked = combined.worked
        learns = jnp.any(judged)
        m = worked.base.value
        errors = (y - m) - worked.values
        code = jax.tree.map(lambda leaf: leaf[0], worked.codes)
        rule = self.rule.learn(state.rule, code, worked.rule, errors, learns)
        gains = LOSSES[loss].slope(combined.value, y) * (combined.value - worked.stacks)
        return StackState(
            self.base.update(state.base, worked.base, y, loss, judged),
            self.rule.keep(rule, worked.codes),
            state.regrets.after(gains[None], (1.0,), learns),
            state.seen.after(y, judged),
        )

    def close(self, state: StackState, size: int, round: jax.Array) -> StackState:
        return state._replace(
            base=self.base.close(state.base, size, round),
            rule=self.rule.renew(state.rule, size, round),
        )
