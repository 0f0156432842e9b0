"""Optimizers, which move a kernel in its space, or weights on features, down a gradient."""

import abc
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number, PyTree

__all__ = ["FromOptax", "InverseTime", "Optimizer", "as_optimizer"]


class Optimizer(abc.ABC):
    """Base of all optimizers: frozen pytree dataclasses."""

    def init(self, coordinates: PyTree) -> PyTree:
        """The optimizer's state, a pytree."""
        return ()

    @abc.abstractmethod
    def update(
        self, gradient: PyTree, state: PyTree, coordinates: PyTree, round: Any
    ) -> tuple[PyTree, PyTree]:
        """The step to add to the coordinates, and the next state; rounds are counted from 0."""


@pytree.dataclass
class InverseTime(Optimizer):
    """Gradient descent with the step ρ / t in round t = 1, 2, ... (Zhang and Liao, 2020).

    Args:
      rate: ρ; with 0 the kernel does not move.

    Raises:
      ValueError: if the rate is negative or not finite.

    >>> InverseTime(2.0).update(jnp.array(0.5), (), jnp.array(1.0), round=jnp.array(3))[0]
    Array(-0.25, dtype=float32)
    """

    rate: Number = pytree.nonnegative(default=1.0)

    def update(
        self, gradient: PyTree, state: PyTree, coordinates: PyTree, round: Any
    ) -> tuple[PyTree, PyTree]:
        def step(g: jax.Array) -> jax.Array:
            return -jnp.asarray(self.rate, g.dtype) / (round + 1).astype(g.dtype) * g

        return jax.tree.map(step, gradient), state


def _as_method(owner: object, name: str, value: object) -> Any:
    if isinstance(value, str):
        make = getattr(optax, value, None)
        good = callable(make) and [*inspect.signature(make).parameters][:1] == ["learning_rate"]
        text = "the name of an optimiser of optax that takes a learning rate first"
    else:
        good = isinstance(value, optax.GradientTransformation)
        text = "the name of an optimiser or a GradientTransformation"
    pytree.require(good, owner, name, value, text)
    return value


@pytree.dataclass
class FromOptax(Optimizer):
    """An optimizer of optax.

    Adam and the like have no derivative at a gradient of 0; to differentiate a run, use another,
    such as "adabelief" or "sgd".

    Args:
      method: the name of an optimizer whose first argument is a learning rate, such as "adam"; or
        any ``optax.GradientTransformation`` (static: another object is another compilation, and
        :func:`jaxmkl.save` cannot write it).
      learning_rate: the learning rate, if a name is given.

    Raises:
      ValueError: for an unknown name, that of an optimizer that needs more than gradients and
        weights, as values of the loss ("lbfgs"), or a learning rate that is missing or not needed.

    >>> FromOptax("adam", 0.01)
    FromOptax(method='adam', learning_rate=0.01)
    >>> clipped = FromOptax(optax.chain(optax.clip(1.0), optax.sgd(0.1)))
    """

    method: Any = pytree.static(convert=_as_method)
    learning_rate: Number | None = pytree.nonnegative(default=None, optional=True)

    def __post_init__(self) -> None:
        named = isinstance(self.method, str)
        text = "a finite number of at least 0" if named else "None beside a GradientTransformation"
        good = (self.learning_rate is not None) == named
        pytree.require(good, self, "learning_rate", self.learning_rate, text)
        if named:  # others may ask for weights of a structure of their own
            require_gradients_alone(self, "method", self)

    def _made(self, coordinates: PyTree) -> optax.GradientTransformation:
        if not isinstance(self.method, str):
            return self.method
        dtype = jax.tree.leaves(coordinates)[0].dtype
        return getattr(optax, self.method)(jnp.asarray(self.learning_rate, dtype))

    def init(self, coordinates: PyTree) -> PyTree:
        return self._made(coordinates).init(coordinates)

    def update(
        self, gradient: PyTree, state: PyTree, coordinates: PyTree, round: Any
    ) -> tuple[PyTree, PyTree]:
        with jax.numpy_dtype_promotion("standard"):  # optax relies on it
            step, after = self._made(coordinates).update(gradient, state, coordinates)
        return step, optax.tree.cast_like(after, state)


_WEIGHTS, _ROUND = jax.ShapeDtypeStruct((2,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)


def require_gradients_alone(
    owner: object, name: str, optimizer: Optimizer, weights: PyTree = _WEIGHTS
) -> None:
    """Raise unless an optimizer takes steps by gradients and weights alone."""

    def moved(weights: PyTree, round: jax.Array) -> PyTree:
        return optimizer.update(weights, optimizer.init(weights), weights, round)

    try:
        jax.eval_shape(moved, weights, _ROUND)
    except Exception as error:  # whatever a transformation raises without what it needs
        wanted = f"one that needs gradients and weights alone ({error})"
        pytree.require(False, owner, name, optimizer, wanted)


def as_optimizer(optimizer: PyTree) -> Optimizer:
    """An optimizer: :class:`InverseTime` for None, and one of optax by its transformation.

    >>> as_optimizer(None)
    InverseTime(rate=1.0)
    """
    if optimizer is None:
        return InverseTime()
    if isinstance(optimizer, optax.GradientTransformation):
        return FromOptax(optimizer)
    return optimizer
