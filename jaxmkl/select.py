"""Selections, which decide for each round which models are active, and which learn.

    All                        all are active, all learn
    AdaptiveKernelSelection    a subset, drawn by weight after each label, is active; all learn
    Sampled                    models are drawn by their weights, to learn, to predict, or both

An active model takes part in the prediction. A selection draws from noise that depends on the key
and the round alone, so that the noise of a whole block can be made at once.
"""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import EMPTY, Noise, Number, State

__all__ = ["AdaptiveKernelSelection", "All", "Sampled", "Select"]


class Select(Generic[State, Noise]):
    """Base of all selections: frozen pytree dataclasses; here all models are active and learn."""

    random = False
    """True if models learn at random, so that :meth:`probabilities` is not None."""
    judge_sampled: bool = False
    """True if only models that were drawn to learn are discounted."""

    def init(self, num_models: int) -> State:
        """The selection's own state before the first round, a pytree."""
        return EMPTY

    def noise(self, key: jax.Array, num_models: int, dtype: DTypeLike) -> Noise:
        """The random numbers of one round."""
        return EMPTY

    def active(self, state: State) -> jax.Array | None:
        """Mask (E,) of the active models; None for all."""
        return None

    def combined(
        self, state: State, log_weights: jax.Array, chance: jax.Array
    ) -> jax.Array | None:
        """Mask (E,) of the models that a round's prediction combines; None for all.

        By default these are the active ones. It is called only if the selection is ``random``;
        ``chance`` are the round's uniform numbers (E,), which also draw the models to learn.
        """
        return self.active(state)

    def probabilities(self, state: State, log_weights: jax.Array) -> jax.Array | None:
        """Probabilities (E,) with which the models learn; None if all always learn."""
        return None

    def update(
        self, state: State, log_weights: jax.Array, noise: Noise, learns: jax.Array
    ) -> State:
        """The state after a round; unchanged unless a label was learned."""
        return state


@pytree.dataclass
class All(Select[tuple, tuple]):
    """Every model is active and learns."""


class AdaptiveState(NamedTuple):
    """State of :class:`AdaptiveKernelSelection`."""

    selected: jax.Array
    """Mask (E,) of the models that are active until the next label."""


@pytree.dataclass
class AdaptiveKernelSelection(Select[AdaptiveState, tuple[jax.Array, jax.Array]]):
    """Adaptive kernel selection (AKS).

    With p the Hedge weights of P models and K = #{i : p_i / max p > threshold}, the paper tosses
    each model into J = γK different bins out of N = γP, γ = min(C(P, K)/P, 2), and draws a bin
    with probability proportional to the weights in it. Here no bin is filled: a subset with the
    same law is drawn directly in O(P). One model i is drawn with probability p_i; every other
    model lies in the same bin, independently, with probability J/N = K/P. Before the first label
    all models are active.

    So K is the mean number of models in a bin, and not the size of a subset, whose mean is
    1 + (P - 1) K/P. If one weight stands out, K = 1: of 17 models, 1.94 are active on average, and
    one alone in 38 % of the rounds. If K = P, there is one bin, and all models are active.

    Args:
      threshold: δ in [0, 1], otherwise a ``ValueError`` is raised: K counts the models whose
        weight exceeds this share of the largest.

    References:
      Hong and Chae, equations (23) to (30), (40) to (42) and (58).

    >>> rule = AdaptiveKernelSelection(threshold=0.8)
    >>> noise = rule.noise(jax.random.key(0), 4, jnp.float32)
    >>> int(rule.draw(jnp.zeros(4), noise).sum())  # equal weights: K = P, all are active
    4
    """

    threshold: Number = pytree.share(default=0.8)

    def init(self, num_models: int) -> AdaptiveState:
        return AdaptiveState(jnp.ones((num_models,), bool))

    def noise(
        self, key: jax.Array, num_models: int, dtype: DTypeLike
    ) -> tuple[jax.Array, jax.Array]:
        """Gumbel noise (E,) for the first model, uniform noise (E,) for the others."""
        smallest = jnp.finfo(dtype).tiny
        uniform = jax.random.uniform(key, (2 * num_models,), dtype, minval=smallest)
        first, others = jnp.split(uniform, 2)
        return -jnp.log(-jnp.log(first)), others

    def draw(self, log_weights: jax.Array, noise: tuple[jax.Array, jax.Array]) -> jax.Array:
        """A boolean mask (E,) of the drawn subset, never empty."""
        E, (gumbel, uniform) = log_weights.shape[0], noise
        relative = jnp.exp(log_weights - jnp.max(log_weights))
        K = jnp.sum(relative > jnp.asarray(self.threshold, relative.dtype))
        first = jnp.arange(E) == jnp.argmax(log_weights + gumbel)
        return first | (uniform < K.astype(relative.dtype) / E)

    def active(self, state: AdaptiveState) -> jax.Array:
        return state.selected

    def update(
        self, state: AdaptiveState, log_weights: jax.Array, noise: tuple, learns: jax.Array
    ) -> AdaptiveState:
        return AdaptiveState(jnp.where(learns, self.draw(log_weights, noise), state.selected))


@pytree.dataclass
class Sampled(Select[tuple, tuple]):
    """In each round, each model is drawn with probability p = (1 - δ) w / max w + δ.

    The drawn models learn, or make the prediction, or both, by one draw per round. With
    perceptrons and a vote by Hedge these are the variants of OMKC; DD is :class:`All`.

                         all are combined             those drawn are combined
        all learn        DD                           DS, sampled="combination"
        those drawn      SD, sampled="update"         SS, sampled="both"

    The model of the largest weight has p = 1, so there is always a prediction. Weights of the
    combined models are renormalised.

    Args:
      smoothing: δ in [0, 1], otherwise a ``ValueError`` is raised.
      judge_sampled: whether only models that were drawn to learn are discounted, as in OMKC(SD);
        without effect if all learn (static).
      sampled: the purpose of the draw, "update", "combination" or "both" (static).

    References:
      Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Algorithm 1; Hoi, Jin, Zhao
      and Yang (2013), Online multiple kernel classification, for stochastic combinations.

    >>> Sampled(0.5).probabilities((), jnp.log(jnp.array([1.0, 0.5])))
    Array([1.  , 0.75], dtype=float32)
    >>> drawn = Sampled(0.5, sampled="both")
    >>> drawn.combined((), jnp.log(jnp.array([1.0, 0.5])), jnp.array([0.9, 0.8]))
    Array([ True, False], dtype=bool)
    """

    smoothing: Number = pytree.share(default=0.001)
    judge_sampled: bool = pytree.flag(default=False)
    sampled: str = pytree.choice("update", "combination", "both", default="update")
    random = True

    def combined(
        self, state: tuple, log_weights: jax.Array, chance: jax.Array
    ) -> jax.Array | None:
        if self.sampled == "update":
            return None
        # if p = 1 is rounded down, the model of the largest weight still takes part
        return (chance < self._drawn_with(log_weights)) | (log_weights >= jnp.max(log_weights))

    def probabilities(self, state: tuple, log_weights: jax.Array) -> jax.Array | None:
        return None if self.sampled == "combination" else self._drawn_with(log_weights)

    def _drawn_with(self, log_weights: jax.Array) -> jax.Array:
        delta = jnp.asarray(self.smoothing, log_weights.dtype)
        return (1.0 - delta) * jnp.exp(log_weights - jnp.max(log_weights)) + delta
