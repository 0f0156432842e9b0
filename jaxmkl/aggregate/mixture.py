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
    """State of a polynomially weighted mixture of n items, at M memories."""

    regret: jax.Array
    """R (M, n)."""
    squares: jax.Array
    """V (M, n)."""
    unit: jax.Array
    """B (M, 1)."""

    @classmethod
    def none(cls, num_memories: int, num_items: int, dtype: DTypeLike) -> "Regrets":
        """The regrets before the first round."""
        sizes = (num_items, num_items, 1)
        return cls(*(jnp.zeros((num_memories, size), dtype) for size in sizes))

    def unscaled(self, active: jax.Array) -> jax.Array:
        """max(R, 0) / (V + B) (M, n) of the active items (1, n), 0 for others."""
        # a regret that is 0 up to rounding must not decide
        least = (100.0 * jnp.finfo(self.regret.dtype).eps) ** 2 * self.squares
        heard = self.regret * jnp.abs(self.regret) > least
        scale = self.squares + self.unit
        heard = heard & active
        return jnp.where(heard, self.regret / jnp.where(heard, scale, 1.0), 0.0)

    def weights(self, active: jax.Array | None = None) -> jax.Array:
        """w ∝ max(R, 0) / (V + B) (M, n) among the active items; equal where all are 0."""
        each = self._each(active)
        total = jnp.sum(each, axis=-1, keepdims=True)
        heard = total[:-1] > 0
        total = jnp.where(heard, total[:-1], total[-1:])
        return jnp.where(heard, each[:-1], each[-1:]) / jnp.where(total > 0, total, 1.0)

    def _each(self, active: jax.Array | None) -> jax.Array:
        """Unscaled weights (M, n), and below them equal ones of the active items: (M + 1, n)."""
        active = self._active(active)
        w = self.unscaled(active)
        return jnp.concatenate([w, active.astype(w.dtype)])

    def _active(self, active: jax.Array | None) -> jax.Array:
        """Which items are active (1, n)."""
        return jnp.ones_like(self.regret[:1], bool) if active is None else active[None, :]

    def mean(self, of_items: jax.Array) -> jax.Array:
        """The mean of arrays (n, ...) by the weights of the first memory."""
        return jnp.dot(self.weights()[0], of_items, precision=jax.lax.Precision.HIGHEST)

    def mixed(self, values: jax.Array, active: jax.Array | None = None) -> jax.Array:
        """Predictions p (M,) from the items' values (n,), finite where they are active."""
        values = values if active is None else jnp.where(active, values, 0.0)
        each = self._each(active)
        total, sums = jnp.sum(each, axis=-1), jnp.sum(each * values[None], axis=-1)
        heard = total[:-1] > 0
        total, sums = (jnp.where(heard, a[:-1], a[-1:]) for a in (total, sums))
        return sums / jnp.where(total > 0, total, 1.0)

    def after(
        self,
        mixed: jax.Array,
        values: jax.Array,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        memories: Any = 1.0,
    ) -> "Regrets":
        """R <- ρ R + r, V <- ρ V + r², B <- max(ρ B, max r²) where ``judged`` (n,).

        Here r = L'(p, y) (p - f), from the predictions p (M,) and the values f (n,).
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
        extent = jnp.maximum(self.extent, jnp.stack([-y, y]))
        return Seen(jnp.where(jnp.any(judged), extent, self.extent))

    def clip(self, values: jax.Array, margin: float, bound: Number | None) -> jax.Array:
        """Clip values to [-bound, bound], or without a bound to the range, widened by a margin."""
        if bound is not None:
            return bounded(values, bound)
        known = jnp.isfinite(self.extent[0])
        room = margin * jnp.where(known, jnp.sum(self.extent), 0.0)
        low, high = jnp.where(known, room + self.extent, jnp.inf)
        return jnp.clip(values, -low, high)


class MixtureState(NamedTuple):
    """State of :class:`Mixture`."""

    models: Regrets
    """Regrets towards the models at each memory (M, E)."""
    memories: Regrets
    """Regrets towards the memories (1, M)."""
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
        return MixtureState(
            Regrets.none(M, num_models, dtype), Regrets.none(1, M, dtype), Seen.none(dtype)
        )

    def weights(self, state: MixtureState) -> jax.Array:
        return state.memories.mean(state.models.weights())

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
        of_memories = state.models.mixed(values, active)
        value = state.memories.mixed(of_memories)[0]
        aux = MixtureAux(value, of_memories, values)
        return Combination(value, values, self.weights(state)), aux

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
        finite, any_judged = jnp.isfinite(values), jnp.any(judged)
        return MixtureState(
            state.models.after(of_memories, values, y, loss, judged & finite, self.memories),
            state.memories.after(value[None], of_memories, y, loss, any_judged),
            state.seen.after(y, judged),
        )
