"""Losses L(f, y) of a prediction f, and their slopes by f. A loss is a value, as a kernel is.

    Squared()                   (f - y)²                                           regression
    Huber(threshold)            r² where |r| <= δ, else δ (2 |r| - δ); r = f - y   regression
    EpsilonInsensitive(epsilon) max(0, |f - y| - ε)                                regression
    Pinball(quantile)           q (y - f) where f < y, else (1 - q) (f - y)        regression
    Logistic()                  log(1 + exp(-y f))                                 classification
    Hinge()                     max(0, 1 - y f)                                    classification

Labels of classifiers are -1 and +1. Wherever a loss is an argument, one of these with its default
parameters may be named by a string, as in ``OGD(0.1, loss="huber")``: see :data:`LOSSES`.

A loss of your own defines ``task`` and ``value``, elementwise. Its slope is found by automatic
differentiation; define ``slope``, too, if that has no answer or an unwanted one, as at a kink. It
then works in every rule, aggregate and learner:

>>> from jaxmkl import pytree, updates
>>> @pytree.dataclass
... class Quartic(Loss):
...     task = "regression"
...     def value(self, prediction, y):
...         return (prediction - y) ** 4
>>> updates.OGD(0.1, loss=Quartic())
OGD(step_sizes=0.1, regularization=0.0, loss=Quartic())
>>> Quartic().slope(jnp.array([1.0, 3.0]), 1.0)
Array([ 0., 32.], dtype=float32)
"""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number

__all__ = [
    "LOSSES",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Pinball",
    "Squared",
    "as_loss",
]


class Loss(abc.ABC):
    """Base of all losses: frozen pytree dataclasses with a ``task`` that define :meth:`value`."""

    task: str
    """"regression" or "classification"; labels of the latter are -1 and +1."""
    curvature: float | None = None
    """The largest second derivative L'' by the prediction: from it follows the largest step size
    that converges. None if there is none, as at a kink, or it is not known."""
    steepest: float | None = None
    """A bound of |L'| and of -L' f for all f, with labels of classes: it limits what steps of
    gradient descent can make of f, so that values beyond that are noticed. None if there is none,
    or it is not known."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        task = getattr(cls, "task", None)
        good = task in ("regression", "classification")
        pytree.require(good, cls.__name__, "task", task, "'regression' or 'classification'")

    @abc.abstractmethod
    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The losses of predictions of any shape, elementwise; ``y`` has the same shape or ()."""

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The derivatives of :meth:`value` by the predictions, in their shape."""
        return jax.grad(lambda f: jnp.sum(self.value(f, y)))(prediction)


@pytree.dataclass
class Squared(Loss):
    """The squared loss (f - y)², of slope 2 (f - y).

    >>> Squared().value(3.0, 1.0), Squared().slope(3.0, 1.0)
    (4.0, 4.0)
    """

    task = "regression"
    curvature = 2.0

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return (prediction - y) ** 2

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return 2.0 * (prediction - y)


@pytree.dataclass
class Huber(Loss):
    """Huber's loss: squared within the threshold δ, and linear beyond.

        r² where |r| <= δ, else δ (2 |r| - δ),    with r = f - y

    No label moves a first-order model further than one at distance δ does. Recursive least
    squares minimise the squared loss, whatever the loss by which a learner is judged.

    Args:
      threshold: δ, in units of the target. With :func:`jaxmkl.wrappers.scaled_targets`, 1 is one
        standard deviation; its docstring says when to use it.

    Raises:
      ValueError: if the threshold is not positive and finite.

    References:
      Huber (1964), Robust estimation of a location parameter,
      https://doi.org/10.1214/aoms/1177703732.

    >>> Huber(2.0).slope(jnp.array([-9.0, 0.5, 9.0]), 0.0)
    Array([-4.,  1.,  4.], dtype=float32)
    """

    threshold: Number = pytree.positive(default=1.0)
    task = "regression"
    curvature = 2.0

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        residual = prediction - y
        within = _within(residual, self.threshold)
        return within * (2.0 * residual - within)

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return 2.0 * _within(prediction - y, self.threshold)


@pytree.dataclass
class EpsilonInsensitive(Loss):
    """The absolute loss beyond a tube: max(0, |f - y| - ε), of slope 0 inside and at its edge.

    Args:
      epsilon: ε, in units of the target; 0 for the absolute loss.

    Raises:
      ValueError: if ε is negative or not finite.

    References:
      Vapnik (1995), The nature of statistical learning theory, chapter 6,
      https://doi.org/10.1007/978-1-4757-3264-1.

    >>> EpsilonInsensitive(0.5).value(jnp.array([0.2, 2.0]), 0.0)
    Array([0. , 1.5], dtype=float32)
    """

    epsilon: Number = pytree.nonnegative(default=0.1)
    task = "regression"

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        residual = prediction - y
        return jnp.maximum(jnp.abs(residual) - _like(residual, self.epsilon), 0.0)

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        residual = prediction - y
        outside = jnp.abs(residual) > _like(residual, self.epsilon)
        return jnp.where(outside, jnp.sign(residual), jnp.zeros_like(residual))


@pytree.dataclass
class Pinball(Loss):
    """The pinball loss, which the q-quantile of the labels minimises.

        q (y - f) where f < y, else (1 - q) (f - y)

    Its slope is -q below the label, 1 - q above it, and 0 where f = y.

    Args:
      quantile: q in [0, 1]; 0.5 for half the absolute loss, which the median minimises.

    Raises:
      ValueError: if the quantile is not in [0, 1].

    References:
      Koenker and Bassett (1978), Regression quantiles, https://doi.org/10.2307/1913643.

    >>> Pinball(0.75).value(jnp.array([-2.0, 2.0]), 0.0)
    Array([1.5, 0.5], dtype=float32)
    """

    quantile: Number = pytree.share(default=0.9)
    task = "regression"

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        residual = prediction - y
        q = _like(residual, self.quantile)
        return jnp.maximum((1.0 - q) * residual, -q * residual)

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        residual = prediction - y
        q = _like(residual, self.quantile)
        return jnp.where(residual > 0, 1.0 - q, jnp.where(residual < 0, -q, jnp.zeros_like(q)))


@pytree.dataclass
class Logistic(Loss):
    """The logistic loss log(1 + exp(-y f)), of slope -y / (1 + exp(y f)).

    >>> Logistic().slope(jnp.array([-9.0, 0.0, 9.0]), 1.0).round(3)
    Array([-1. , -0.5, -0. ], dtype=float32)
    """

    task = "classification"
    curvature = 0.25
    steepest = 1.0

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return jax.nn.softplus(-y * prediction)

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return -y * jax.nn.sigmoid(-y * prediction)


@pytree.dataclass
class Hinge(Loss):
    """The hinge loss max(0, 1 - y f), of slope -y where y f < 1, and 0 at the kink and beyond.

    >>> Hinge().slope(jnp.array([0.5, 1.0, 2.0]), 1.0)
    Array([-1.,  0.,  0.], dtype=float32)
    """

    task = "classification"
    steepest = 1.0

    def value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(1.0 - y * prediction, 0.0)

    def slope(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(y * prediction < 1.0, -y, jnp.zeros_like(prediction))


def _like(residual: jax.Array, number: Any) -> jax.Array:
    """A parameter in the dtype of the residuals."""
    return jnp.asarray(number, jnp.result_type(residual))


def _within(residual: jax.Array, threshold: Any) -> jax.Array:
    """The residual within [-threshold, threshold]."""
    threshold = _like(residual, threshold)
    return jnp.clip(residual, -threshold, threshold)


LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "huber": Huber(),
    "epsilon_insensitive": EpsilonInsensitive(),
    "pinball": Pinball(),
    "logistic": Logistic(),
    "hinge": Hinge(),
}
"""The losses that may be named by a string."""

_WANTED = "a loss, as jaxmkl.losses.Huber(0.5), or one of " + ", ".join(map(repr, LOSSES))


def _named(value: object) -> Any:
    return LOSSES.get(value, value) if isinstance(value, str) else value


def loss_field(
    *, default: Any = pytree.MISSING, derived: Callable[[Any], Any] | None = None
) -> Any:
    """Declare a field that holds a loss and also takes the name of one."""
    return pytree.part(Loss, _WANTED, default=default, read=_named, derived=derived)


def as_loss(owner: object, argument: str, value: object) -> Loss:
    """The loss that an argument is or names.

    Args:
      owner, argument: the class or function with the argument, and its name, for the message.
      value: a loss or a name in :data:`LOSSES`.

    Raises:
      ValueError: if it is neither.

    >>> as_loss("mine", "loss", "huber")
    Huber(threshold=1.0)
    """
    return pytree.as_part(owner, argument, value, base=Loss, wanted=_WANTED, read=_named)


class HasLoss:
    """Base of classes with an attribute ``loss``, which subclasses may set by a name."""

    loss: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isinstance(vars(cls).get("loss"), str):
            cls.loss = as_loss(cls.__name__, "loss", cls.loss)
