"""Mixtures: second-order weights, which compete with the best convex combination of models.

Hedge at a fixed rate competes with the best single model, and its rate has the units of a loss.
The weights here follow regrets of the linearised loss ("gradient trick") in units that are
learned; there is no rate to choose.

References:
  Gaillard, Stoltz and van Erven (2014), A second-order bound with excess losses (ML-Poly);
  Cesa-Bianchi and Lugosi (2006), Prediction, Learning, and Games, 2.1 (polynomial potentials) and
  2.5 (the gradient trick).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._types import Number, Numbers
from jaxmkl.aggregate.base import FLOOR, Aggregate, Combination, bounded
from jaxmkl.losses import Loss


def _apart(one: jax.Array, other: jax.Array) -> jax.Array:
    """The difference, or 0 where it is only rounding, which must not count as a regret."""
    difference = one - other
    least = 16.0 * jnp.finfo(difference.dtype).eps * jnp.abs(other)
    return jnp.where(jnp.abs(difference) > least, difference, 0.0)


class Mixed(NamedTuple):
    """A mixture of N items at M memories."""

    values: jax.Array
    """The mixtures at each memory, and then the mixture of these (M + 1,)."""
    weights: jax.Array
    """The weights of the items in :attr:`value`, over all of them, active or not (N,)."""

    @property
    def value(self) -> jax.Array:
        """The mixture of the memories, a number."""
        return self.values[-1]


class Regrets(NamedTuple):
    """Regrets of mixtures of N items at M memories, and of the mixture of these.

    Row m < M has those of memory m towards the items, in the first N columns; the last row has
    those of the mixture of all memories towards each of them, in the last M. All others are 0.
    """

    table: jax.Array
    """R, their squares V, and in every column the unit B (3, M + 1, N + M): in one array, as each
    array of a state takes kernels of its own in a scan."""

    @classmethod
    def none(cls, num_memories: int, num_items: int, dtype: DTypeLike) -> "Regrets":
        """The regrets before the first round."""
        return cls(jnp.zeros((3, num_memories + 1, num_items + num_memories), dtype))

    def _unscaled(self) -> tuple[jax.Array, jax.Array]:
        """Weights (max(R, 0) / s)² / s, s² = V + B, which do not add up to 1.

        They are those of the items at each memory (M, N), and of the memories (1, M).
        """
        # a regret that is 0 up to rounding must not decide
        regret, squares, unit = self.table
        positive = regret * jnp.abs(regret) > (100.0 * jnp.finfo(regret.dtype).eps) ** 2 * squares
        inverse = jax.lax.rsqrt(jnp.where(positive, squares + unit, jnp.inf))
        w = (regret * inverse) ** 2 * inverse
        M = len(w) - 1
        return w[:M, :-M], w[M:, -M:]

    def weights(self) -> jax.Array:
        """Weights of the items (N,), of sum 1."""
        parts = self._unscaled()
        return _weighted(*parts, *(jnp.sum(w, axis=-1) for w in parts))

    def shares(self) -> jax.Array:
        """Weights of the memories (M,), of sum 1."""
        _, of_memories = self._unscaled()
        w = of_memories[0]
        return _shares(w, jnp.sum(w), 1.0 / len(w))

    def mixed(self, values: jax.Array, active: jax.Array) -> Mixed:
        """The mixture of the active values (N,)."""
        of_items, of_memories = self._unscaled()
        predictions, totals = _means(of_items, values, active)
        value, total = _means(of_memories, predictions, jnp.ones_like(predictions, bool))
        values = jnp.concatenate([predictions, value])
        return Mixed(values, _weighted(of_items, of_memories, totals, total))

    def after(
        self,
        mixed: Mixed,
        values: jax.Array,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        memories: Numbers,
        curvature: Number | None = None,
    ) -> "Regrets":
        """R <- ρ R + r, V <- ρ V + r², B <- max(ρ B, max r²) for the items in ``judged`` (N,).

        Here r = (1 - γ) L'(p, y) (p - f) + γ (L(p, y) - L(f, y)), from the mixtures p and the
        values f; γ is the curvature towards the items (None for 0), and 0 towards the memories.
        """
        p = mixed.values
        N, M = len(values), len(p) - 1
        own = np.arange(N + M) < N  # columns of items
        own = np.where(np.arange(M + 1)[:, None] < M, own, ~own)
        f = jnp.append(values, p[:-1])
        apart = _apart(p[:, None], f[None, :])
        gains = loss.slope(p, y)[:, None] * apart
        if curvature is not None:
            better = loss.value(p, y)[:, None] - loss.value(f, y)[None, :]
            curved = gains + jnp.asarray(curvature, f.dtype) * (better - gains)
            to_items = np.arange(M + 1)[:, None] < M
            gains = jnp.where(to_items & (apart != 0.0), curved, gains)
        rho = jnp.append(jnp.asarray(memories, f.dtype), jnp.ones((1,), f.dtype))[:, None]
        some = jnp.broadcast_to(jnp.any(judged), (M,))
        judged = jnp.append(judged & jnp.isfinite(values), some)[None, :] & own
        # selected before they are summed: XLA would fuse a product with a sum in some programs
        # and not in others, and these round differently
        gains = jnp.where(judged, gains, 0.0)
        largest = jnp.max(jnp.where(judged, gains**2, -1.0), axis=-1, keepdims=True)
        largest, gains, judged = largest[None], gains[None], judged[None]
        which, faded = np.arange(3)[:, None, None], rho[None] * self.table
        more = faded + jnp.where(which == 0, gains, gains**2)
        after = jnp.where(which == 2, jnp.maximum(faded, largest), more)
        return Regrets(jnp.where(jnp.where(which == 2, largest >= 0, judged), after, self.table))


def _shares(w: jax.Array, total: jax.Array, equal: Any) -> jax.Array:
    """Weights of sum 1 from unscaled ones and their total; equal ones where it is 0."""
    return jnp.where(total > 0, w / jnp.where(total > 0, total, 1.0), equal)


def _weighted(
    of_items: jax.Array, of_memories: jax.Array, totals: jax.Array, total: jax.Array
) -> jax.Array:
    """Weights of the items (N,): the mean, by those of the memories, of theirs at each memory."""
    M, N = of_items.shape
    within = _shares(of_items, totals[:, None], 1.0 / N)
    return jnp.sum(_shares(of_memories[0], total, 1.0 / M)[:, None] * within, axis=0)


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
    """Regrets of the M memories towards the E models, and of their mixture towards them."""
    seen: Seen
    """The range of the labels."""


class MixtureAux(NamedTuple):
    """A prediction's results that the update uses again."""

    mixed: Mixed
    """The mixture."""
    values: jax.Array
    """The models' values, clipped (E,)."""


@pytree.dataclass
class Mixture(Aggregate[MixtureState, MixtureAux, tuple]):
    """A second-order mixture with the gradient trick and a share of the loss, at several memories.

    For each memory ρ, with regrets R, their squares V and the unit B, all 0 at the start:

        w_e ∝ (max(R_e, 0) / s_e)² / s_e,   s_e² = V_e + B        equal where all are 0
        p   = Σ_e w_e f_e
        r_e = (1 - γ) L'(p, y) (p - f_e) + γ (L(p, y) - L(f_e, y))
        R <- ρ R + r,   V <- ρ V + r²,   B <- max(ρ B, max_e r_e²)

    For the squared loss r_e = 2 (p - y) (p - f_e) - γ (p - f_e)². The predictions of the memories
    are mixed by the same rule with ρ = 1 and γ = 0. A memory below 1 forgets old regrets, and so
    follows abrupt changes without a detector. The curvature γ costs a model that differs much from
    the mixture: where p is right, the linearised regret of a bad model is 0 only in the mean, and
    without γ a short memory gives it weight at times, and single predictions err by far more than
    all others. Values are clipped before they are combined and judged; otherwise a single model
    that explodes would set the unit B of all others.

    Args:
      memories: ρ in (0, 1], one value or several.
      bound: values are clipped to [-bound, bound] (a hinge loss needs more than 1, as rounding
        would decide the slope at its kink); by default to the range of the labels so far, one
        range wider on either side.
      curvature: γ in [0, 1], the share of the loss itself in the regrets; from .03 to .1 it
        matters little.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Gaillard, Stoltz and van Erven (2014), section 3, for regrets in units of their squares, with
      weights R / (V + B); the polynomial potential of degree 3, the curvature, the memories and
      the mixture of them are ours.

    >>> import jaxmkl
    >>> rule, values = Mixture(), jnp.array([0.0, 1.0])
    >>> state = rule.init(2, jnp.float32)
    >>> _, aux = jax.jit(rule.predict)(state, values, None, ())      # .5, for a label of .2
    >>> loss, judged = jaxmkl.losses.Squared(), jnp.array([True, True])
    >>> after = jax.jit(rule.update)(state, aux, jnp.array(0.2), loss, judged)
    >>> jax.jit(rule.weights)(after)
    Array([1., 0.], dtype=float32)
    """

    memories: Numbers = pytree.share(default=(1.0, 0.999, 0.99), exclusive=True, ndim=1)
    bound: Number | None = pytree.positive(default=None, optional=True)
    curvature: Number = pytree.share(default=0.05)

    def init(self, num_models: int, dtype: DTypeLike) -> MixtureState:
        return MixtureState(
            Regrets.none(int(np.size(self.memories)), num_models, dtype), Seen.none(dtype)
        )

    def weights(self, state: MixtureState) -> jax.Array:
        return state.regrets.weights()

    def log_weights(self, state: MixtureState) -> jax.Array:
        w = self.weights(state)
        return jnp.where(w > 0, jnp.log(jnp.where(w > 0, w, 1.0)), FLOOR)

    def predict(
        self,
        state: MixtureState,
        values: jax.Array,
        active: jax.Array | None,
        noise: tuple,
    ) -> tuple[Combination, MixtureAux]:
        values = state.seen.clip(values, 1.0, self.bound)
        # a value that is not a number is neither combined nor judged
        finite = jnp.isfinite(values)
        mixed = state.regrets.mixed(values, finite if active is None else active & finite)
        return Combination(mixed.value, values, mixed.weights), MixtureAux(mixed, values)

    def update(
        self,
        state: MixtureState,
        aux: MixtureAux,
        y: jax.Array,
        loss: Loss,
        judged: jax.Array,
        round: jax.Array | int = 0,
    ) -> MixtureState:
        regrets = state.regrets.after(
            aux.mixed, aux.values, y, loss, judged, self.memories, self.curvature
        )
        return MixtureState(regrets, state.seen.after(y, judged))


@abilities.shares.register
def _(aggregate: Mixture, state: MixtureState) -> abilities.Shares:
    return abilities.Shares(state.regrets.shares())
