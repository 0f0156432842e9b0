"""What all wrappers share: a learner around a learner hands through what it does not change."""

from operator import attrgetter
from typing import Any

from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Prediction, State


@pytree.dataclass
class WrapperState:
    """State of a wrapper, that of the learner ``inner``: base of those with more fields."""

    inner: Any

    key = property(attrgetter("inner.key"), doc="Typed PRNG key of the learner inside.")
    round = property(attrgetter("inner.round"), doc="Examples seen.")
    invalid = property(attrgetter("inner.invalid"), doc="Examples refused.")
    nonfinite = property(attrgetter("inner.nonfinite"), doc="Labelled rounds that diverged.")
    num_inputs = property(attrgetter("inner.num_inputs"), doc="D.")
    dtype = property(attrgetter("inner.dtype"), doc="Name of the floating dtype.")

    replace = State.replace


def _inside(name: str) -> Any:
    """What has this name in the learner inside: a property, or a method that takes no state."""
    return property(attrgetter(f"learner.{name}"), doc="As the learner inside.")


class Wrapper(Learner):
    """Base of learners around a learner: frozen pytree dataclasses with a field ``learner``.

    A wrapper defines ``init``, whose state is a :class:`WrapperState`, and of the inner methods
    those in which it does something of its own. All others are those of the learner inside.
    """

    learner: Learner

    task = _inside("task")
    preferred_block_size = _inside("preferred_block_size")
    leading_columns = _inside("leading_columns")
    fit_block_size = _inside("fit_block_size")
    loss_value = _inside("loss_value")
    check_inputs = _inside("check_inputs")

    def capacity(self, state: Any) -> int | None:
        return self.learner.capacity(state.inner)

    def num_supports(self, state: Any) -> Array:
        return self.learner.num_supports(state.inner)

    def info(self, state: Any) -> Any:
        return self.learner.info(state.inner)

    def encode_block(self, state: Any, X: Array, given: Array | None = None) -> Any:
        return self.learner.encode_block(state.inner, X, given)

    def decide(self, state: Any, code: Any) -> tuple[Prediction, Any]:
        return self.learner.decide(state.inner, code)

    def teach(
        self, state: Any, code: Any, forecast: Any, y: Array, asked: Array, present: Array
    ) -> Any:
        inner = self.learner.teach(state.inner, code, forecast, y, asked, present)
        return state.replace(inner=inner)

    def close_block(self, state: Any, codes: Any) -> Any:
        return state.replace(inner=self.learner.close_block(state.inner, codes))

    def enlarged(self, state: Any, capacity: int) -> Any:
        return state.replace(inner=self.learner.enlarged(state.inner, capacity))

    def await_label(self, state: Any, query: Array) -> Any:
        return state.replace(inner=self.learner.await_label(state.inner, query))

    def receive_label(self, state: Any) -> Any:
        return state.replace(inner=self.learner.receive_label(state.inner))
