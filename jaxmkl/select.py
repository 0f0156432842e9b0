"""Selection: which of the models speak, and which learn.

    All                        all speak, all learn
    AdaptiveKernelSelection    some, drawn by their weights after each label, speak; all learn
    Sampled                    all speak; each learns with a probability that grows with its weight

A selection draws from noise that depends on the key and the round alone, so that the noise of a
whole block can be made at once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree

__all__ = ["AdaptiveKernelSelection", "All", "Sampled", "Select"]


class Select:
    """Base of all selections: frozen pytree dataclasses; by default all speak and all learn."""

    random = False
    """Whether learning is by chance: :meth:`probabilities` is not None."""
    judge_sampled: Any = False
    """Whether only models that were drawn to learn are judged."""

    def init(self, num_models: int) -> Any:
        """The selection's own state before the first round, a pytree."""
        return ()

    def noise(self, key: jax.Array, num_models: int, dtype: Any) -> Any:
        """The random numbers of one round."""
        return ()

    def speaking(self, state: Any) -> jax.Array | None:
        """Which models (E,) speak; None for all."""
        return None

    def probabilities(self, state: Any, log_weights: jax.Array) -> jax.Array | None:
        """Probability (E,) with which a model learns; None for always."""
        return None

    def update(self, state: Any, log_weights: jax.Array, noise: Any, learns: jax.Array) -> Any:
        """The state after a round; unless a label was learned, as it was."""
        return state


@pytree.dataclass
class All(Select):
    """Every model speaks and learns."""


class AdaptiveState(NamedTuple):
    """Which models speak until the next label, boolean (E,)."""

    selected: jax.Array


@pytree.dataclass
class AdaptiveKernelSelection(Select):
    """Adaptive kernel selection (AKS).

    With p the Hedge weights of P models and K = #{i : p_i / max p > threshold}, the paper fills a
    collection of N = γP bins so that each model lies in J = γK of them, γ = min(C(P, K)/P, 2), and
    draws a bin with probability proportional to the weights in it. The drawn subset has this law,
    which is drawn directly in O(P): one model i with probability p_i; every other one belongs to
    the subset independently with probability J/N = K/P. Before the first label all speak.

    Args:
      threshold: δ in [0, 1], else a ``ValueError``: models whose weight exceeds this share of the
        largest count in K.

    References:
      Hong and Chae, equations (23) to (30), (40) to (42) and (58).

    >>> rule = AdaptiveKernelSelection(threshold=0.8)
    >>> noise = rule.noise(jax.random.key(0), 4, jnp.float32)
    >>> int(rule.draw(jnp.zeros(4), noise).sum())  # equal weights: K = P, all take part
    4
    """

    threshold: Any = pytree.share(0.8)

    def init(self, num_models: int) -> AdaptiveState:
        return AdaptiveState(jnp.ones((num_models,), bool))

    def noise(self, key: jax.Array, num_models: int, dtype: Any) -> tuple[jax.Array, jax.Array]:
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

    def speaking(self, state: AdaptiveState) -> jax.Array:
        return state.selected

    def update(self, state: Any, log_weights: jax.Array, noise: Any, learns: jax.Array) -> Any:
        return AdaptiveState(jnp.where(learns, self.draw(log_weights, noise), state.selected))


@pytree.dataclass
class Sampled(Select):
    """A model learns with probability p = (1 - δ) w / max w + δ.

    Args:
      smoothing: δ in [0, 1], else a ``ValueError``.
      judge_sampled: whether only models that were drawn are discounted, as in OMKC(SD) (static).

    References:
      Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Algorithm 1.

    >>> Sampled(0.5).probabilities((), jnp.log(jnp.array([1.0, 0.5])))
    Array([1.  , 0.75], dtype=float32)
    """

    smoothing: Any = pytree.share(0.001)
    judge_sampled: bool = pytree.flag(False)
    random = True

    def probabilities(self, state: tuple, log_weights: jax.Array) -> jax.Array:
        delta = jnp.asarray(self.smoothing, log_weights.dtype)
        return (1.0 - delta) * jnp.exp(log_weights - jnp.max(log_weights)) + delta
