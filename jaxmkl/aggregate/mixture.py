"""Mixtures: second-order weights, which compete with the best convex combination of models.

Hedge at a fixed rate competes with the best single model, and its rate has the units of a loss.
The weights here follow regrets of the linearised loss ("gradient trick") in units that are
learned; there is no rate to choose.

References:
  Gaillard, Stoltz and van Erven (2014), A second-order bound with excess losses (ML-Poly);
  Cesa-Bianchi and Lugosi (2006), Prediction, Learning, and Games, 2.5 (the gradient trick).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number, Numbers, PyTree
from jaxmkl.aggregate.base import FLOOR, Aggregate, Combination, bounded
from jaxmkl.losses import Loss


def _apart(one: jax.Array, other: jax.Array) -> jax.Array:
    """The difference, or 0 where it is only rounding, which must not count as a regret."""
    difference = one - other
    least = 16.0 * jnp.finfo(difference.dtype).eps * jnp.abs(other)
    return jnp.where(jnp.abs(difference) > least, difference, 0.0)


class Regrets(NamedTuple):
    """Regrets of N predictions, each a mixture of up to n items, towards these items."""

    regret: jax.Array
    """R (N, n)."""
    squares: jax.Array
    """V (N, n)."""
    unit: jax.Array
    """B (N, 1)."""

    @classmethod
    def none(cls, num_predictions: int, num_items: int, dtype: DTypeLike) -> "Regrets":
        """The regrets before the first round."""
        sizes = (num_items, num_items, 1)
        return cls(*(jnp.zeros((num_predictions, size), dtype) for size in sizes))

    def unscaled(self) -> jax.Array:
        """Weights max(R, 0) / (V + B) (N, n), which do not add up to 1."""
        # a regret that is 0 up to rounding must not decide
        least = (100.0 * jnp.finfo(self.regret.dtype).eps) ** 2 * self.squares
        heard = self.regret * jnp.abs(self.regret) > least
        scale = self.squares + self.unit
        return jnp.where(heard, self.regret / jnp.where(heard, scale, 1.0), 0.0)

    def mixed(self, values: jax.Array) -> jax.Array:
        """The predictions (N,) from the values (n,) of the items, of those that are finite."""
        return _means(self.unscaled(), values, jnp.isfinite(values))[0]

    def after(
        self,
        mixed: jax.Array,
        values: jax.Array,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        memories: Any = 1.0,
    ) -> "Regrets":
        """R <- ρ R + r, V <- ρ V + r², B <- max(ρ B, max r²) where ``judged``, as (N, n).

        Here r = L'(p, y) (p - f), from the predictions p (N,) and the values f (n,).
        """
        gains = loss.slope(mixed, y)[:, None] * _apart(mixed[:, None], values[None, :])
        memories = jnp.atleast_1d(jnp.asarray(memories, gains.dtype))[:, None]
        judged = jnp.broadcast_to(judged, gains.shape)
        # selected before they are summed: XLA would fuse a product with a sum in some programs
        # and not in others, and these round differently
        gains = jnp.where(judged, gains, 0.0)
        largest = jnp.max(jnp.where(judged, gains**2, -1.0), axis=-1, keepdims=True)
        unit = jnp.maximum(memories * self.unit, largest)
        return type(self)(
            jnp.where(judged, memories * self.regret + gains, self.regret),
            jnp.where(judged, memories * self.squares + gains**2, self.squares),
            jnp.where(largest >= 0, unit, self.unit),
        )


def _shares(w: jax.Array, total: jax.Array, equal: Any) -> jax.Array:
    """Weights of sum 1 from unscaled ones and their total; equal ones where it is 0."""
    return jnp.where(total > 0, w / jnp.where(total > 0, total, 1.0), equal)


def _means(w: jax.Array, values: jax.Array, active: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Means (N,) of the active values (n,) by unscaled weights (N, n), and the sums of these (N,).

    Where no active value has any weight, all active ones have the same. All sums are one kernel:
    Σ w f and Σ w over the active values, and Σ w over all.
    """
    equal = jnp.ones_like(w[:1])
    summed = jnp.stack([jnp.where(active, values, 0.0), active.astype(w.dtype), equal[0]])
    sums = jnp.sum(jnp.concatenate([w, equal])[:, None] * summed[None], axis=-1)
    totals = jnp.where(sums[:-1, 1:2] > 0, sums[:-1], sums[-1:])
    return totals[:, 0] / jnp.where(totals[:, 1] > 0, totals[:, 1], 1.0), sums[:-1, 2]


class Seen(NamedTuple):
    """The smallest and the largest label so far."""

    extent: jax.Array
    """[-smallest, largest] (2,), both -infinite before the first."""

    @classmethod
    def none(cls, dtype: DTypeLike) -> "Seen":
        """The range before the first label."""
        return cls(jnp.full(2, -jnp.inf, dtype))

    def after(self, y: jax.Array, judged: jax.Array) -> "Seen":
        """The range with the label ``y``, if any model is judged."""
        extent = jnp.maximum(self.extent, np.array([-1, 1], y.dtype) * y)
        return Seen(jnp.where(jnp.any(judged), extent, self.extent))

    def clip(self, values: jax.Array, margin: float, bound: Number | None) -> jax.Array:
        """Clip values to [-bound, bound], or without a bound to the range, widened by a margin."""
        if bound is not None:
            return bounded(values, bound)
        known = jnp.isfinite(self.extent[0])
        room = margin * jnp.where(known, self.extent[0] + self.extent[1], 0.0)
        low, high = jnp.where(known, room + self.extent, jnp.inf)
        return jnp.clip(values, -low, high)


class MixtureState(NamedTuple):
    """State of :class:`Mixture`."""

    regrets: Regrets
    """Of the M memories towards the E models and, in the last row, of their mixture towards them,
    at (M + 1, E + M); all others are 0."""
    seen: Seen
    """The range of the labels."""


class MixtureAux(NamedTuple):
    """A prediction's results that the update uses again."""

    value: jax.Array
    """The prediction."""
    of_memories: jax.Array
    """The predictions p of the memories (M,)."""
    values: jax.Array
    """The models' values, clipped (E,)."""


@pytree.dataclass
class Mixture(Aggregate):
    """A second-order mixture with the gradient trick (ML-Poly), at several memories.

    For each memory ρ, with regrets R, their squares V and the unit B, all 0 at the start:

        w_e ∝ max(R_e, 0) / (V_e + B)                equal where all are 0
        p   = Σ_e w_e f_e
        r_e = L'(p, y) (p - f_e)                     squared loss: 2 (p - y) (p - f_e)
        R <- ρ R + r,   V <- ρ V + r²,   B <- max(ρ B, max_e r_e²)

    The predictions of the memories are mixed by the same rule with ρ = 1. A memory below 1 forgets
    old regrets, and so follows abrupt changes without a detector. Values are clipped before they
    are combined and judged; otherwise a single model that explodes would set the unit B of all
    others.

    Args:
      memories: ρ in (0, 1], one value or several.
      bound: values are clipped to [-bound, bound] (a hinge loss needs more than 1, as rounding
        would decide the slope at its kink); by default to the range of the labels so far, one
        range wider on either side.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Gaillard, Stoltz and van Erven (2014), section 3; memories and the mixture of them are ours.

    >>> import jaxmkl
    >>> rule, values = Mixture(), jnp.array([0.0, 1.0])
    >>> state = rule.init(2, jnp.float32)
    >>> _, aux = jax.jit(rule.predict)(state, values, None, ())      # .5, for a label of .2
    >>> loss, judged = jaxmkl.losses.Squared(), jnp.array([True, True])
    >>> rule.weights(jax.jit(rule.update)(state, aux, jnp.array(0.2), loss, judged))
    Array([1., 0.], dtype=float32)
    """

    memories: Numbers = pytree.share(default=(1.0, 0.9999, 0.999, 0.99), exclusive=True, ndim=1)
    bound: Number | None = pytree.positive(default=None, optional=True)

    def init(self, num_models: int, dtype: DTypeLike) -> MixtureState:
        M = int(np.size(self.memories))
        return MixtureState(Regrets.none(M + 1, num_models + M, dtype), Seen.none(dtype))

    @staticmethod
    def _split(state: MixtureState) -> tuple[jax.Array, jax.Array]:
        """Unscaled weights of the models at each memory (M, E), and of the memories (1, M)."""
        w = state.regrets.unscaled()
        M = len(w) - 1
        return w[:M, :-M], w[M:, -M:]

    def weights(self, state: MixtureState) -> jax.Array:
        of_models, of_memories = self._split(state)
        totals = (jnp.sum(w, axis=-1) for w in (of_models, of_memories))
        return _weighted(of_models, of_memories, *totals)

    def log_weights(self, state: MixtureState) -> jax.Array:
        w = self.weights(state)
        return jnp.where(w > 0, jnp.log(jnp.where(w > 0, w, 1.0)), FLOOR)

    def predict(
        self,
        state: MixtureState,
        values: jax.Array,
        active: jax.Array | None,
        noise: PyTree,
    ) -> tuple[Combination, MixtureAux]:
        values = state.seen.clip(values, 1.0, self.bound)
        # a value that is not a number is neither combined nor judged
        finite = jnp.isfinite(values)
        active = finite if active is None else active & finite
        of_models, of_memories = self._split(state)
        predictions, totals = _means(of_models, values, active)
        value, total = _means(of_memories, predictions, jnp.ones_like(predictions, bool))
        weights = _weighted(of_models, of_memories, totals, total)
        return Combination(value[0], values, weights), MixtureAux(value[0], predictions, values)

    def update(
        self,
        state: MixtureState,
        aux: MixtureAux,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> MixtureState:
        value, of_memories, values = aux
        E, M = len(values), len(of_memories)
        any_judged = jnp.broadcast_to(jnp.any(judged), (M,))
        towards = np.arange(E + M) < E  # models, not memories
        own = np.where(np.arange(M + 1)[:, None] < M, towards, ~towards)
        items, good = jnp.append(values, of_memories), judged & jnp.isfinite(values)
        regrets = state.regrets.after(
            jnp.append(of_memories, value),
            items,
            y,
            loss,
            jnp.append(good, any_judged)[None] & own,
            jnp.append(jnp.asarray(self.memories, values.dtype), jnp.ones((1,), values.dtype)),
        )
        return MixtureState(regrets, state.seen.after(y, judged))


def _weighted(
    of_models: jax.Array, of_memories: jax.Array, totals: jax.Array, total: jax.Array
) -> jax.Array:
    """Weights of the models (E,): the mean, by those of the memories, of theirs at each memory."""
    M, E = of_models.shape
    within = _shares(of_models, totals[:, None], 1.0 / E)
    return jnp.sum(_shares(of_memories[0], total, 1.0 / M)[:, None] * within, axis=0)
