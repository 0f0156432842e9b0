"""Components: what one kernel's model does with a labelled example.

With f the kernel's value before the round, l = max(0, 1 - y f) its hinge loss and k = k(x, x):

    Perceptron                 if y f <= 0:   coefficient y
    PassiveAggressive          if l > 0:      τ y,   τ = min(C, l / k)
    SparsePassiveAggressive    if l > 0:      τ y,   τ = min(η / ρ, l / k), with probability
                                              ρ = min(α, l) / β
    GradientDescent            f <- (1 - η λ) f - η L'(f, y) k(x, ·)

References:
  Crammer et al. (2006), Online passive-aggressive algorithms; Kivinen, Smola and Williamson
  (2001), Online learning with kernels; Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel
  learning, Proposition 1.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree
from jaxmkl.losses import LOSSES

__all__ = [
    "Component",
    "GradientDescent",
    "PassiveAggressive",
    "Perceptron",
    "SparsePassiveAggressive",
    "Update",
]


class Update(NamedTuple):
    """What a component would do: per kernel (P,).

    Attributes:
      wanted: whether the example is to become a support vector.
      coefficient: its coefficient.
      probability: with which probability it does, or None for always.
      shrink: what earlier coefficients are multiplied by first, a number, or None for 1.
    """

    wanted: jax.Array
    coefficient: jax.Array
    probability: jax.Array | None = None
    shrink: jax.Array | None = None


class Component(Protocol):
    """A component; a frozen pytree dataclass."""

    @property
    def shrinks(self) -> bool:
        """Whether it shrinks earlier coefficients."""
        ...

    @property
    def random(self) -> bool:
        """Whether it learns by chance."""
        ...

    @property
    def loss(self) -> str:
        """The name of its loss."""
        ...

    def update(self, f: jax.Array, y: jax.Array, own: jax.Array) -> Update:
        """What to do on an example with values f (P,), label y and k(x, x) ``own`` (P,)."""
        ...


def _step(name: str, owner: Any, *, exclusive: bool = True) -> None:
    value = pytree.as_leaf(
        owner,
        name,
        getattr(owner, name),
        minimum=0.0,
        exclusive=exclusive,
        wanted="a positive finite number" if exclusive else "a finite number of at least 0",
    )
    object.__setattr__(owner, name, value)


def _passive(loss: jax.Array, own: jax.Array, normalized: bool) -> jax.Array:
    """The step l / k that makes the loss zero; l where steps are not normalised."""
    # a zero input has k = 0 by polynomials: no step helps, and the aggressiveness bounds it
    return loss / jnp.maximum(own, jnp.finfo(own.dtype).tiny) if normalized else loss


@pytree.dataclass
class Perceptron:
    """The perceptron: every mistake becomes a support vector with the coefficient y.

    >>> Perceptron().update(jnp.array([0.5, -0.5]), jnp.array(1.0), jnp.ones(2)).wanted
    Array([False,  True], dtype=bool)
    """

    loss = "hinge"
    shrinks = False
    random = False

    def update(self, f: jax.Array, y: jax.Array, own: jax.Array) -> Update:
        """A mistake is y f <= 0."""
        return Update(y * f <= 0, jnp.broadcast_to(y, f.shape))


@pytree.dataclass
class PassiveAggressive:
    """Passive aggressive (PA-I): the least change that gives the example a margin of 1.

    Args:
      aggressiveness: C.
      normalized_step: divide by k(x, x); False for the form that takes it to be 1 (static).

    >>> PassiveAggressive(0.1).update(jnp.array([0.5, 2.0]), jnp.array(1.0), jnp.ones(2)).wanted
    Array([ True, False], dtype=bool)
    """

    aggressiveness: Any
    normalized_step: bool = pytree.static(default=True)
    loss = "hinge"
    shrinks = False
    random = False

    def __post_init__(self) -> None:
        _step("aggressiveness", self)

    def update(self, f: jax.Array, y: jax.Array, own: jax.Array) -> Update:
        """τ = min(C, l / k)."""
        loss = LOSSES["hinge"].value(f, y)
        step = jnp.minimum(
            jnp.asarray(self.aggressiveness, f.dtype), _passive(loss, own, self.normalized_step)
        )
        return Update(loss > 0, y * step)


@pytree.dataclass
class SparsePassiveAggressive:
    """Sparse passive aggressive: a passive aggressive step now and then, larger in return.

    Args:
      step_size: η.
      alpha: α, the loss above which the probability grows no more.
      beta: β >= α; the probability is at most α / β.
      normalized_step: divide by k(x, x); False for the form that takes it to be 1 (static).

    Raises:
      ValueError: for numbers that are not positive, or β < α.
    """

    step_size: Any = 0.1
    alpha: Any = 1.0
    beta: Any = 3.0
    normalized_step: bool = pytree.static(default=True)
    loss = "hinge"
    shrinks = False
    random = True

    def __post_init__(self) -> None:
        for name in ("step_size", "alpha", "beta"):
            _step(name, self)
        known = isinstance(self.alpha, float) and isinstance(self.beta, float)
        pytree.require(
            not known or self.beta >= self.alpha, self, "beta", self.beta, "at least alpha"
        )

    def update(self, f: jax.Array, y: jax.Array, own: jax.Array) -> Update:
        """τ = min(η / ρ, l / k) with probability ρ = min(α, l) / β."""
        loss = LOSSES["hinge"].value(f, y)
        eta, alpha, beta = (
            jnp.asarray(v, f.dtype) for v in (self.step_size, self.alpha, self.beta)
        )
        probability = jnp.minimum(alpha, loss) / beta
        bound = eta / jnp.where(loss > 0, probability, 1.0)
        step = jnp.minimum(bound, _passive(loss, own, self.normalized_step))
        return Update(loss > 0, y * step, probability)


@pytree.dataclass
class GradientDescent:
    """Kernel online gradient descent on a loss with a penalty λ/2 |f|².

    Args:
      step_size: η.
      regularization: λ, with η λ < 1.
      loss: "hinge", "logistic" or "squared" (static).

    Raises:
      ValueError: for an unknown loss, numbers outside their range, or η λ >= 1.
    """

    step_size: Any = 0.1
    regularization: Any = 0.0
    loss: str = pytree.static(default="squared")
    shrinks = True
    random = False

    def __post_init__(self) -> None:
        pytree.require(
            self.loss in LOSSES, self, "loss", self.loss, "one of " + ", ".join(map(repr, LOSSES))
        )
        _step("step_size", self)
        _step("regularization", self, exclusive=False)
        known = isinstance(self.step_size, float) and isinstance(self.regularization, float)
        good = not known or self.step_size * self.regularization < 1
        pytree.require(good, self, "regularization", self.regularization, "below 1 / step_size")

    def update(self, f: jax.Array, y: jax.Array, own: jax.Array) -> Update:
        """Coefficient -η L'(f, y) after shrinking by 1 - η λ."""
        eta = jnp.asarray(self.step_size, f.dtype)
        slope = LOSSES[self.loss].slope(f, y)
        shrink = 1.0 - eta * jnp.asarray(self.regularization, f.dtype)
        return Update(slope != 0, -eta * slope, None, shrink)
