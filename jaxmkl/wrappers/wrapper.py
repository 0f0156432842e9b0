"""What all wrappers share: a learner around a learner hands through what it does not change."""

from collections.abc import Iterator
from functools import wraps
from operator import attrgetter
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import State
from jaxmkl._blocks import take
from jaxmkl._learner import Learner, Prediction


@pytree.dataclass
class WrapperState:
    """State of a wrapper, that of the learner ``inner``: base of those with more fields."""

    inner: Any

    key = property(attrgetter("inner.key"), doc="Typed PRNG key of the learner inside.")
    round = property(attrgetter("inner.round"), doc="Examples seen.")
    invalid = property(attrgetter("inner.invalid"), doc="Examples refused.")
    outlying = property(attrgetter("inner.outlying"), doc="Labels too large to be believed.")
    nonfinite = property(attrgetter("inner.nonfinite"), doc="Labelled rounds that diverged.")
    num_inputs = property(attrgetter("inner.num_inputs"), doc="D.")
    dtype = property(attrgetter("inner.dtype"), doc="Name of the floating dtype.")

    replace = State.replace


def _inside(name: str) -> Any:
    """What has this name in the learner inside: a property, or a method that takes no state."""
    return property(attrgetter(f"learner.{name}"), doc="As the learner inside.")


def _asking(name: str) -> Any:
    """The method of this name of the learner inside, of that learner's state."""

    @wraps(getattr(Learner, name))
    def asking(self: Any, state: Any, *given: Any, **named: Any) -> Any:
        return getattr(self.learner, name)(state.inner, *given, **named)

    asking.__isabstractmethod__ = False  # type: ignore[attr-defined] # which was copied, too
    return asking


def _changing(name: str) -> Any:
    """The same where the method returns the next state."""
    asked = _asking(name)

    @wraps(asked)
    def changing(self: Any, state: Any, *given: Any, **named: Any) -> Any:
        return state.replace(inner=asked(self, state, *given, **named))

    return changing


class Wrapper(Learner):
    """Base of learners around a learner: frozen pytree dataclasses with a field ``learner``.

    A wrapper defines ``init``, whose state is a :class:`WrapperState`, and of the inner methods
    those in which it does something of its own. All others are those of the learner inside.
    """

    learner: Learner

    task = _inside("task")
    num_outputs = _inside("num_outputs")
    preferred_block_size = _inside("preferred_block_size")
    leading_columns = _inside("leading_columns")
    fit_block_size = _inside("fit_block_size")
    loss_value = _inside("loss_value")
    check_inputs = _inside("check_inputs")
    capacity = _asking("capacity")
    num_supports = _asking("num_supports")
    info = _asking("info")
    encode_block = _asking("encode_block")
    decide = _asking("decide")
    teach = _changing("teach")
    close_block = _changing("close_block")
    enlarged = _changing("enlarged")
    await_label = _changing("await_label")
    receive_label = _changing("receive_label")
    context = _asking("context")
    with_context = _changing("with_context")


def layers(learner: Any) -> Iterator[Any]:
    """The learner, and those inside of it, from the outermost on.

    >>> import jaxmkl
    >>> [type(layer).__name__ for layer in layers(jaxmkl.label_budget(jaxmkl.raker(), 3))]
    ['LabelBudget', 'MKL']
    """
    yield learner
    while isinstance(learner, Wrapper):
        learner = learner.learner
        yield learner


class Row(NamedTuple):
    """One example, not encoded yet."""

    x: Array
    """(D,)."""
    given: Array
    """By which its random numbers go, before any scaling (D,)."""


class OneByOne(Wrapper):
    """Base of wrappers whose learner inside encodes each example in its turn.

    An example's code is the example, so that the size of blocks does not change a bit.
    """

    preferred_block_size = 32
    fit_block_size = Learner.fit_block_size

    def encode_block(self, state: Any, X: Array, given: Array | None = None) -> Row:
        return Row(X, X if given is None else given)

    def close_block(self, state: Any, codes: Row) -> Any:
        return state

    def decide_inside(self, state: Any, x: Array, given: Array) -> tuple[Any, Prediction, Any]:
        """What the learner inside says of an example: codes of a block, prediction, forecast."""
        codes = self.learner.encode_block(state.inner, x[None], given[None])
        return codes, *self.learner.decide(state.inner, take(codes, 0))


def require_numbers(owner: Any) -> None:
    """Raise unless a wrapper stands around a learner of numbers."""
    wanted = "a learner of numbers, as jaxmkl.raker()"
    pytree.require(owner.task == "regression", owner, "learner", owner.task, wanted)


def followed(quantile: Array, distance: Array, share: Any, step_size: Array) -> Array:
    """The running quantile r of distances after one more; the distance where r is not above 0.

    r <- r exp(η ([distance > r] - (1 - share)))
    """
    larger = (distance > quantile).astype(distance.dtype)
    moved = quantile * jnp.exp(step_size * (larger - (1.0 - jnp.asarray(share, distance.dtype))))
    return jnp.where(quantile > 0, moved, distance)
