"""Update rules of first order: what one model does with a labelled example.

A rule (:class:`Update`) serves models on features and models with supports alike. From the value f
of a model, the label y and the squared norm k(x, x) of the example, |z|² on features, comes a
:class:`Step`:

    f <- decay · f + coefficient · k(x, ·)        on supports: x becomes a support vector
    θ <- decay · θ + coefficient · z(x)           on features

Below, l = max(0, 1 - y f) is the hinge loss and k = k(x, x). With ``normalized_step=False``
(static) a passive aggressive rule takes k to be 1.

References:
  Rosenblatt (1958), The perceptron; Crammer et al. (2006), Online passive-aggressive algorithms;
  Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning, Proposition 1 (sparse passive
  aggressive); Kivinen, Smola and Williamson (2001), Online learning with kernels, and Hong and
  Chae, equations (17), (18) and (37) (gradient descent); Nagumo and Noda (1967), A learning method
  for system identification (normalised steps).
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._checks import warn_outside
from jaxmkl._feedback import Feedback
from jaxmkl._types import Number, Numbers
from jaxmkl.losses import Hinge, Loss, loss_field
from jaxmkl.updates.rule import WeightsRule, beside_weights

_HINGE = Hinge()


class Step(NamedTuple):
    """The step that a rule of first order would take, for models (R, P)."""

    coefficient: jax.Array
    """The coefficient of the example; 0 leaves it out."""
    decay: jax.Array | None = None
    """The factor of the model as it was, to go with (R, P); None for 1."""
    probability: jax.Array | None = None
    """The probability with which the step is taken; None for always."""


class FirstOrderState(NamedTuple):
    """State of the models of a rule of first order on features."""

    weights: jax.Array
    """θ (P, K, R, M): models on the same features lie together."""


class Update(WeightsRule[FirstOrderState]):
    """Base of rules of first order: frozen pytree dataclasses that define :meth:`step`.

    This class applies the step on features; each output is a model of its own.
    """

    @abc.abstractmethod
    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        """The step on an example.

        Args:
          f: the models' values (R, P).
          y: the label, a number.
          norm: k(x, x) of the kernels (1, P).
        """

    @property
    def largest_step(self) -> ArrayLike | None:
        """A bound on a step's coefficient c and on c f, if k(x, x) = 1 and labels are ±1.

        Values that no such steps can reach are detected by it. None if no bound is known.
        """
        return None

    @property
    def random(self) -> bool:
        return shapes_of_step(self).probability is not None

    def check(self) -> None:
        shapes_of_step(self)

    def init(
        self, num_kernels: int, num_coordinates: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> FirstOrderState:
        shape = num_kernels, num_outputs, self.num_rates, num_coordinates
        return FirstOrderState(jnp.zeros(shape, dtype))

    def update(
        self, state: FirstOrderState, code: tuple, aux: tuple, feedback: Feedback
    ) -> FirstOrderState:
        (z, values), y = aux, jnp.atleast_1d(feedback.y)
        step = jax.vmap(self.step, in_axes=(0, 0, None))(values, y, feedback.norm)
        taken, weights = feedback.taken(step.probability), state.weights
        if step.decay is not None:
            weights = beside_weights(jnp.where(taken, step.decay, 1.0)) * weights
        move = beside_weights(jnp.where(taken, step.coefficient, 0.0))
        return FirstOrderState(weights + move * z[:, None, None])


def shapes_of_step(update: Update) -> Step:
    """The shapes of a rule's steps for one kernel, whatever the example; nothing is computed.

    They show whether steps ever decay, and whether they are ever random.

    Raises:
      ValueError: if there is no :class:`Step`, or not one coefficient for each value, as for rates
        without an axis.
    """
    shapes = (update.num_rates, 1), (), (1, 1)
    step = jax.eval_shape(update.step, *(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes))
    good, wanted = isinstance(step, Step), "an updates.Step, as Step(coefficient)"
    pytree.require(good, update, "the result of step", step, wanted)
    wanted = f"of the shape (R, P) of the values, {shapes[0]} for one kernel (a rule at R rates "
    wanted += "says num_rates, and has them in the shape (R, 1))"
    given = step.coefficient.shape
    pytree.require(given == shapes[0], update, "coefficient of step", given, wanted)
    return step


_SLACK = 1e-4
"""The share by which rounding may take a step size beyond the largest."""


def warn_of_step_size(
    owner: str,
    step_size: Numbers,
    loss: Loss,
    norm: float,
    penalty: Number = 0.0,
    divisor: Number = 1.0,
) -> None:
    """Warn of step sizes with which gradient descent moves away from the minimum of a loss.

    Where all examples have k(x, x) = k, and L'' is the curvature of the loss at its minimum, a
    step η on an example multiplies its distance from the minimum by 1 - η L'' k, and with a
    penalty λ, or normalised by ε + k, by

        1 - η (λ + L'' k)      or      1 - η L'' k / (ε + k)

    Below -1 each step is larger than the one before. There is no warning if numbers are not known
    yet, as inside a trace, or if the curvature of the loss is not known.

    Args:
      owner: the class and the name of the argument.
      step_size: η, or several, of which the largest counts.
      norm: k.
      penalty: λ.
      divisor: ε + k where steps are normalised.
    """
    numbers = step_size, penalty, divisor
    if loss.curvature is None or any(isinstance(n, jax.core.Tracer) for n in numbers):
        return
    pull = (penalty + loss.curvature * norm) / divisor
    eta, most = float(np.max(np.asarray(step_size, float))), 2.0 / float(pull)
    if eta > most * (1.0 + _SLACK):
        text = f"{owner} = {eta:.6g} cannot converge: with |z|² = k(x, x) = {norm:.6g} and the "
        text += f"curvature {loss.curvature:.6g} of {type(loss).__name__}, each step near the "
        text += f"minimum is larger than the one before; take {most:.6g} at most"
        warn_outside(text)


def _passive(loss: jax.Array, norm: jax.Array, normalized: bool) -> jax.Array:
    """The step l / k that makes the loss zero; l where steps are not normalised."""
    # a zero input has k = 0 by polynomials: no step helps, and the aggressiveness bounds it
    return loss / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny) if normalized else loss


@pytree.dataclass
class Perceptron(Update):
    """The perceptron: every mistake, y f <= 0, adds y k(x, ·).

    >>> f, norm = jnp.array([[0.5, -0.5]]), jnp.ones((1, 2))
    >>> Perceptron().step(f, jnp.array(1.0), norm).coefficient
    Array([[0., 1.]], dtype=float32)
    """

    largest_step = 1.0

    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        return Step(jnp.where(y * f <= 0, y, jnp.zeros_like(f)))


@pytree.dataclass
class PassiveAggressive(Update):
    """Passive aggressive (PA-I): the least change that gives the example a margin of 1.

    With the hinge loss l and k = k(x, x), if l > 0 it adds τ y k(x, ·), τ = min(C, l / k).

    Args:
      aggressiveness: C.
      normalized_step: whether l is divided by k (static).

    >>> f, norm = jnp.array([[0.5, 2.0]]), jnp.ones((1, 2))
    >>> PassiveAggressive(0.1).step(f, jnp.array(1.0), norm).coefficient
    Array([[0.1, 0. ]], dtype=float32)
    """

    aggressiveness: Number = pytree.positive()
    normalized_step: bool = pytree.flag(default=True)

    @property
    def largest_step(self) -> ArrayLike:
        return self.aggressiveness

    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        loss = _HINGE.value(f, y)
        most = jnp.asarray(self.aggressiveness, f.dtype)
        return Step(y * jnp.minimum(most, _passive(loss, norm, self.normalized_step)))


@pytree.dataclass
class SparsePassiveAggressive(Update):
    """Sparse passive aggressive: random passive aggressive steps, which are larger in return.

    With probability ρ = min(α, l) / β it adds τ y k(x, ·), τ = min(η / ρ, l / k).

    Args:
      step_size: η.
      alpha: α, the loss above which the probability no longer grows.
      beta: β >= α; the probability is at most α / β.
      normalized_step: as for :class:`PassiveAggressive`; by default False in :func:`jaxmkl.spa`.
    """

    step_size: Number = pytree.positive(default=0.1)
    alpha: Number = pytree.positive(default=1.0)
    beta: Number = pytree.positive(default=3.0)
    normalized_step: bool = pytree.flag(default=True)

    def __post_init__(self) -> None:
        known = isinstance(self.alpha, float) and isinstance(self.beta, float)
        good = not known or bool(self.beta >= self.alpha)
        pytree.require(good, self, "beta", self.beta, "at least alpha")

    @property
    def largest_step(self) -> ArrayLike:
        """The bound on min(η / ρ, l): η β / α where l >= α; elsewhere √(η β), where both meet."""
        product = jnp.asarray(self.step_size) * self.beta
        return jnp.maximum(product / self.alpha, jnp.sqrt(product))

    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        loss = _HINGE.value(f, y)
        numbers = self.step_size, self.alpha, self.beta
        eta, alpha, beta = (jnp.asarray(number, f.dtype) for number in numbers)
        probability = jnp.minimum(alpha, loss) / beta
        bound = eta / jnp.where(loss > 0, probability, 1.0)
        step = jnp.minimum(bound, _passive(loss, norm, self.normalized_step))
        return Step(y * step, None, probability)


@pytree.dataclass
class OGD(Update):
    """Online gradient descent on a loss with the penalty λ/2 |f|².

        f <- (1 - η λ) f - η L'(f, y) k(x, ·)

    Steps converge while η (λ + L'' k(x, x)) <= 2, with the curvature L'' of the loss: 2 for the
    squared loss and Huber's, 1/4 for the logistic one. A learner made with larger steps warns, if
    k(x, x), or |z|² on features, is known to be the same for all inputs. With the squared loss
    larger steps diverge; with the others, whose slopes are bounded, they never settle.

    Args:
      step_sizes: η, a number or, on features, several (R,): models for each.
      regularization: λ, with η λ < 1. (The papers on random features write λ |θ|²: their λ is
        half of this one.)
      loss: L, a value of :mod:`jaxmkl.losses`, or one of its names.

    >>> OGD([0.1, 0.5]).num_rates
    2
    """

    step_sizes: Numbers = pytree.nonnegative(default=0.1, ndim=1)
    regularization: Number = pytree.nonnegative(default=0.0)
    loss: Any = loss_field(default="squared")

    def __post_init__(self) -> None:
        known = not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(self))
        good = not known or bool(np.all(np.multiply(self.step_sizes, self.regularization) < 1))
        pytree.require(good, self, "regularization", self.regularization, "below 1 / step_sizes")

    @property
    def num_rates(self) -> int:
        return int(np.size(self.step_sizes))

    @property
    def largest_step(self) -> ArrayLike | None:
        steepest = self.loss.steepest
        return None if steepest is None else steepest * jnp.max(jnp.asarray(self.step_sizes))

    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        eta = jnp.atleast_1d(jnp.asarray(self.step_sizes, f.dtype))[:, None]
        decay = 1.0 - eta * jnp.asarray(self.regularization, f.dtype)
        return Step(-eta * self.loss.slope(f, y), decay)


@abilities.warn_of_steps.register
def _(rule: OGD, norm: float) -> None:
    given = rule.step_sizes, rule.loss, norm
    warn_of_step_size("OGD: step_sizes", *given, penalty=rule.regularization)


@pytree.dataclass
class NormalizedOGD(Update):
    """Gradient descent whose steps do not depend on the example's norm (normalised LMS).

        f <- f - η / (ε + k(x, x)) L'(f, y) k(x, ·)

    Args:
      step_size: η; for the squared loss stable below 1, whatever the norms. A learner warns of
        larger ones as for :class:`OGD`.
      epsilon: ε, which keeps steps on small examples small.
      loss: as for :class:`OGD`.

    >>> f, norm = jnp.array([[0.0, 0.0]]), jnp.array([[1.0, 3.0]])
    >>> NormalizedOGD(0.5, epsilon=1.0).step(f, jnp.array(1.0), norm).coefficient
    Array([[0.5 , 0.25]], dtype=float32)
    """

    step_size: Number = pytree.positive(default=0.5)
    epsilon: Number = pytree.nonnegative(default=1e-3)
    loss: Any = loss_field(default="squared")

    @property
    def largest_step(self) -> ArrayLike | None:
        steepest = self.loss.steepest
        return None if steepest is None else steepest * self.step_size / (1.0 + self.epsilon)

    def step(self, f: jax.Array, y: jax.Array, norm: jax.Array) -> Step:
        eta = jnp.asarray(self.step_size, f.dtype)
        scale = jnp.asarray(self.epsilon, f.dtype) + norm
        return Step(-eta / scale * self.loss.slope(f, y))


@abilities.warn_of_steps.register
def _(rule: NormalizedOGD, norm: float) -> None:
    given = rule.step_size, rule.loss, norm
    warn_of_step_size("NormalizedOGD: step_size", *given, divisor=rule.epsilon + norm)
