"""Which experts predict, and which kernels learn: all, or some drawn by their weights.

Experts predict until the next draw (:class:`AllKernels`, :class:`AdaptiveKernelSelection`);
kernels are chosen to learn from one example (:class:`LearnAll`, :class:`LearnSampled`). A rule
draws from noise that depends on the key and the round alone, so that the noise of a whole block
can be made at once.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree

__all__ = [
    "AdaptiveKernelSelection",
    "AllKernels",
    "LearnAll",
    "LearnSampled",
    "Learning",
    "Selection",
]


class Selection(Protocol):
    """A rule that draws a subset of the experts."""

    def noise(self, key: jax.Array, num_experts: int, dtype: Any) -> Any:
        """The random numbers of one round."""

    def draw(self, noise: Any, log_weights: jax.Array) -> jax.Array:
        """A boolean mask (E,) of the experts that predict until the next draw."""


@pytree.dataclass
class AllKernels:
    """Every expert takes part (Raker, AMKL)."""

    def noise(self, key: jax.Array, num_experts: int, dtype: Any) -> tuple:
        """None is needed."""
        return ()

    def draw(self, noise: Any, log_weights: jax.Array) -> jax.Array:
        """The full set."""
        return jnp.ones(log_weights.shape, bool)


class Noise(NamedTuple):
    """Random numbers of one round, each (E,)."""

    gumbel: jax.Array
    uniform: jax.Array


@pytree.dataclass
class AdaptiveKernelSelection:
    """Adaptive kernel selection (AKS).

    With p the Hedge weights and K = #{i : p_i / max p > threshold}, the paper fills a collection
    of N = γP bins so that each kernel lies in J = γK of them, γ = min(C(P, K)/P, 2), and draws
    a bin with probability proportional to the weights in it. The drawn subset has this law, which
    is drawn directly in O(P): one kernel i with probability p_i; every other one belongs to the
    subset independently with probability J/N = K/P.

    Args:
      threshold: δ in [0, 1]: kernels whose weight exceeds this share of the largest count in K.

    Raises:
      ValueError: when the threshold is outside [0, 1].

    References:
      Hong and Chae, equations (23) to (30), (40) to (42) and (58).

    >>> import jax, jax.numpy as jnp
    >>> rule = AdaptiveKernelSelection(threshold=0.8)
    >>> noise = rule.noise(jax.random.key(0), 4, jnp.float32)
    >>> int(rule.draw(noise, jnp.zeros(4)).sum())  # equal weights: K = P, all take part
    4
    """

    threshold: Any = 0.8

    def __post_init__(self) -> None:
        threshold = pytree.as_leaf(
            self,
            "threshold",
            self.threshold,
            minimum=0.0,
            maximum=1.0,
            wanted="a number in [0, 1]",
        )
        object.__setattr__(self, "threshold", threshold)

    def noise(self, key: jax.Array, num_experts: int, dtype: Any) -> Noise:
        """Gumbel noise for the first kernel, uniform noise for the others."""
        smallest = jnp.finfo(dtype).tiny
        uniform = jax.random.uniform(key, (2 * num_experts,), dtype, minval=smallest)
        first, others = jnp.split(uniform, 2)
        return Noise(-jnp.log(-jnp.log(first)), others)

    def draw(self, noise: Noise, log_weights: jax.Array) -> jax.Array:
        """A boolean mask (E,) of the drawn subset, never empty."""
        E = log_weights.shape[0]
        relative = jnp.exp(log_weights - jnp.max(log_weights))
        K = jnp.sum(relative > jnp.asarray(self.threshold, relative.dtype))
        first = jnp.arange(E) == jnp.argmax(log_weights + noise.gumbel)
        return first | (noise.uniform < K.astype(relative.dtype) / E)


class Learning(Protocol):
    """A rule for which kernels learn from an example; a frozen pytree dataclass."""

    @property
    def random(self) -> bool:
        """Whether it draws."""
        ...

    @property
    def judge_sampled(self) -> bool:
        """Whether only kernels that were drawn are judged."""
        ...

    def probabilities(self, log_weights: jax.Array) -> jax.Array | None:
        """Probability (P,) with which a kernel learns; None for always."""
        ...


@pytree.dataclass
class LearnAll:
    """Every kernel learns from every example."""

    random = False
    judge_sampled = False

    def probabilities(self, log_weights: jax.Array) -> None:
        """Always."""
        return None


@pytree.dataclass
class LearnSampled:
    """A kernel learns with probability p = (1 - δ) w / max w + δ.

    Args:
      smoothing: δ in [0, 1].
      judge_sampled: whether only kernels that were drawn are discounted, as in OMKC(SD) (static).

    Raises:
      ValueError: when the smoothing is outside [0, 1].

    References:
      Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Algorithm 1.

    >>> import jax.numpy as jnp
    >>> LearnSampled(0.5).probabilities(jnp.log(jnp.array([1.0, 0.5])))
    Array([1.  , 0.75], dtype=float32)
    """

    smoothing: Any = 0.001
    judge_sampled: bool = pytree.static(default=False)
    random = True

    def __post_init__(self) -> None:
        smoothing = pytree.as_leaf(
            self,
            "smoothing",
            self.smoothing,
            minimum=0.0,
            maximum=1.0,
            wanted="a number in [0, 1]",
        )
        object.__setattr__(self, "smoothing", smoothing)

    def probabilities(self, log_weights: jax.Array) -> jax.Array:
        """p (P,)."""
        delta = jnp.asarray(self.smoothing, log_weights.dtype)
        return (1.0 - delta) * jnp.exp(log_weights - jnp.max(log_weights)) + delta
