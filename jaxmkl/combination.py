"""Combination: how kernels' values become one prediction, and how kernels are judged.

    value        Σ_p q_p f_p                q_p = 1/P (Uniform) or w_p / Σ w (Hedge)
    vote         Σ_p q_p s(f_p)             s(f) = 1 if f >= 0, else -1
    drawn        f_I of one kernel I, drawn by its weight (DrawOne)

Hedge discounts a kernel by what it did on the example, w_p <- w_p exp(-η_g c_p), where the cost
c_p is 1 for a mistake (y f_p <= 0) and 0 otherwise, or the component's loss of f_p. In the papers'
terms exp(-η_g) is the discount γ.

References:
  Hoi, Jin, Zhao and Yang (2013), Online multiple kernel classification; Lu, Hoi, Sahoo and Zhao,
  Budget online multiple kernel learning, Algorithm 1; Yang, Mahdavi, Jin, Yi and Hoi (2012),
  Online kernel selection: algorithms and evaluations.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import hedge, pytree
from jaxmkl.losses import LOSSES

__all__ = ["Combination", "DrawOne", "Hedge", "Uniform"]

OUTPUTS = ("value", "vote")
COSTS = ("mistake", "loss")


class Combination(Protocol):
    """A combination; a frozen pytree dataclass."""

    @property
    def output(self) -> str:
        """ "value" or "vote"."""
        ...

    @property
    def random(self) -> bool:
        """Whether it draws."""
        ...

    def draw(self, log_weights: jax.Array, lot: Any) -> jax.Array | None:
        """Which kernels (P,) take part in a round, by uniform numbers (P,); None for all."""
        ...

    def weights(self, log_weights: jax.Array) -> jax.Array:
        """Weights q (P,) of sum 1."""
        ...

    def judge(
        self, log_weights: jax.Array, f: jax.Array, y: jax.Array, loss: str, judged: jax.Array
    ) -> jax.Array:
        """Log-weights (P,) after an example, of the kernels that are ``judged`` (P,)."""
        ...


def combined(
    combination: Combination, log_weights: jax.Array, f: jax.Array, drawn: jax.Array | None = None
) -> jax.Array:
    """The prediction of values f (P,), of the kernels drawn."""
    q = combination.weights(log_weights) if drawn is None else drawn.astype(f.dtype)
    spoken = jnp.where(f >= 0, 1.0, -1.0).astype(f.dtype) if combination.output == "vote" else f
    # a kernel without weight must not speak, however large its value
    return jnp.sum(jnp.where(q > 0, q * spoken, 0.0))


def _require_output(combination: Any) -> None:
    output = combination.output
    pytree.require(output in OUTPUTS, combination, "output", output, "one of " + repr(OUTPUTS))


class _All:
    """Every kernel takes part in every round."""

    random = False

    def draw(self, log_weights: jax.Array, lot: Any) -> None:
        """All."""
        return None


def _as_rate(combination: Any) -> None:
    rate = pytree.as_leaf(
        combination, "rate", combination.rate, minimum=0.0, wanted="a finite number of at least 0"
    )
    object.__setattr__(combination, "rate", rate)


@pytree.dataclass
class Uniform(_All):
    """All kernels count alike.

    Args:
      output: "value" or "vote" (static).
    """

    output: str = pytree.static(default="value")

    def __post_init__(self) -> None:
        _require_output(self)

    def weights(self, log_weights: jax.Array) -> jax.Array:
        """Weights 1/P."""
        return jnp.full_like(log_weights, 1.0 / log_weights.shape[0])

    def judge(
        self, log_weights: jax.Array, f: jax.Array, y: jax.Array, loss: str, judged: jax.Array
    ) -> jax.Array:
        """No kernel is judged."""
        return log_weights


@pytree.dataclass
class Hedge(_All):
    """Kernels count by what they have done so far.

    Args:
      rate: η_g; -log γ for a discount γ.
      output: "value" or "vote" (static).
      cost: "mistake" or "loss" (static).

    >>> import jax.numpy as jnp
    >>> equal = jnp.zeros(2)
    >>> y, f = jnp.array(1.0), jnp.array([0.5, -0.5])
    >>> judged = jnp.array([True, True])
    >>> Hedge(0.7, cost="mistake").judge(equal, f, y, "hinge", judged)
    Array([ 0. , -0.7], dtype=float32)
    """

    rate: Any
    output: str = pytree.static(default="value")
    cost: str = pytree.static(default="loss")

    def __post_init__(self) -> None:
        _require_output(self)
        pytree.require(self.cost in COSTS, self, "cost", self.cost, "one of " + repr(COSTS))
        _as_rate(self)

    def weights(self, log_weights: jax.Array) -> jax.Array:
        """Weights w / Σ w."""
        return hedge.weights(log_weights)

    def judge(
        self, log_weights: jax.Array, f: jax.Array, y: jax.Array, loss: str, judged: jax.Array
    ) -> jax.Array:
        """Discount by mistake or by loss."""
        mistaken = self.cost == "mistake"
        cost = (y * f <= 0).astype(f.dtype) if mistaken else LOSSES[loss].value(f, y)
        rate = jnp.asarray(self.rate, f.dtype)
        return hedge.update(log_weights, jnp.where(judged, cost, 0.0), rate)


@pytree.dataclass
class DrawOne:
    """One kernel, drawn by its weight, predicts; it alone learns and is judged.

        I ~ p,    p_i = (1 - δ) w_i / Σ w + δ / P,    w_I <- w_I exp(-η_g c_I / p_I)

    The cost c is 1 for a mistake (y f_I <= 0): where f_I is 0, as when its values underflow, a
    vote of +1 may be right and yet costs the kernel some weight.

    Args:
      rate: η_g.
      smoothing: δ in (0, 1].
      output: "value" or "vote" (static).

    Raises:
      ValueError: for numbers outside their range, or another output.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2.

    >>> import jax.numpy as jnp
    >>> rule = DrawOne(0.1, 0.2)
    >>> rule.draw(jnp.zeros(4), jnp.array([0.6, 0.0, 0.0, 0.0]))
    Array([False, False,  True, False], dtype=bool)
    """

    rate: Any
    smoothing: Any = 0.2
    output: str = pytree.static(default="value")

    random = True

    def __post_init__(self) -> None:
        _require_output(self)
        _as_rate(self)
        smoothing = pytree.as_leaf(
            self,
            "smoothing",
            self.smoothing,
            minimum=0.0,
            exclusive=True,
            maximum=1.0,
            wanted="a number in (0, 1]",
        )
        object.__setattr__(self, "smoothing", smoothing)

    def weights(self, log_weights: jax.Array) -> jax.Array:
        """Probabilities p (P,)."""
        delta = jnp.asarray(self.smoothing, log_weights.dtype)
        return (1.0 - delta) * hedge.weights(log_weights) + delta / log_weights.shape[0]

    def draw(self, log_weights: jax.Array, lot: jax.Array) -> jax.Array:
        """One, by the first of the uniform numbers."""
        above = jnp.cumsum(self.weights(log_weights)) > lot[0]
        last = log_weights.shape[0] - 1
        drawn = jnp.where(jnp.any(above), jnp.argmax(above), last)
        return jnp.arange(log_weights.shape[0]) == drawn

    def judge(
        self, log_weights: jax.Array, f: jax.Array, y: jax.Array, loss: str, judged: jax.Array
    ) -> jax.Array:
        """Discount the one that was drawn, in inverse proportion to its probability."""
        cost = (y * f <= 0).astype(f.dtype) / self.weights(log_weights)
        rate = jnp.asarray(self.rate, f.dtype)
        return hedge.update(log_weights, jnp.where(judged, cost, 0.0), rate)
