"""Combination: how kernels' values become one prediction, and how kernels are judged.

    value        Σ_p q_p f_p                q_p = 1/P (Uniform) or w_p / Σ w (Hedge)
    vote         Σ_p q_p s(f_p)             s(f) = 1 if f >= 0, else -1

Hedge discounts a kernel by what it did on the example, w_p <- w_p exp(-η_g c_p), where the cost
c_p is 1 for a mistake (y f_p <= 0) and 0 otherwise, or the component's loss of f_p. In the papers'
terms exp(-η_g) is the discount γ.

References:
  Hoi, Jin, Zhao and Yang (2013), Online multiple kernel classification; Lu, Hoi, Sahoo and Zhao,
  Budget online multiple kernel learning, Algorithm 1.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import hedge, pytree
from jaxmkl.losses import LOSSES

__all__ = ["Combination", "Hedge", "Uniform"]

OUTPUTS = ("value", "vote")
COSTS = ("mistake", "loss")


class Combination(Protocol):
    """A combination; a frozen pytree dataclass."""

    @property
    def output(self) -> str:
        """ "value" or "vote"."""
        ...

    def weights(self, log_weights: jax.Array) -> jax.Array:
        """Weights q (P,) of sum 1."""
        ...

    def judge(
        self, log_weights: jax.Array, f: jax.Array, y: jax.Array, loss: str, judged: jax.Array
    ) -> jax.Array:
        """Log-weights (P,) after an example, of the kernels that are ``judged`` (P,)."""
        ...


def combined(combination: Combination, log_weights: jax.Array, f: jax.Array) -> jax.Array:
    """The prediction of values f (P,)."""
    q = combination.weights(log_weights)
    spoken = jnp.where(f >= 0, 1.0, -1.0).astype(f.dtype) if combination.output == "vote" else f
    # a kernel without weight must not speak, however large its value
    return jnp.sum(jnp.where(q > 0, q * spoken, 0.0))


def _require_output(combination: Any) -> None:
    output = combination.output
    pytree.require(output in OUTPUTS, combination, "output", output, "one of " + repr(OUTPUTS))


@pytree.dataclass
class Uniform:
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
class Hedge:
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
        rate = pytree.as_leaf(
            self, "rate", self.rate, minimum=0.0, wanted="a finite number of at least 0"
        )
        object.__setattr__(self, "rate", rate)

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
