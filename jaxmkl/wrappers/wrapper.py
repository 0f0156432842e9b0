"""What all wrappers share: a learner around a learner hands through what it does not change."""

from typing import Any

import jax

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Prediction, State

__all__ = ["Wrapper", "WrapperState"]


@pytree.dataclass
class WrapperState:
    """State of a wrapper: base of those with more fields.

    Attributes:
      inner: state of the learner inside.
    """

    inner: Any

    @property
    def key(self) -> jax.Array:
        """Typed PRNG key of the learner inside."""
        return self.inner.key

    @property
    def round(self) -> jax.Array:
        """Examples seen."""
        return self.inner.round

    @property
    def invalid(self) -> jax.Array:
        """Examples refused."""
        return self.inner.invalid

    @property
    def nonfinite(self) -> jax.Array:
        """Labelled rounds in which a model's value was infinite or NaN."""
        return self.inner.nonfinite

    @property
    def num_inputs(self) -> int:
        """D."""
        return self.inner.num_inputs

    @property
    def dtype(self) -> str:
        """Name of the floating dtype."""
        return self.inner.dtype

    replace = State.replace


class Wrapper(Learner):
    """Base of learners around a learner: frozen pytree dataclasses with a field ``learner``.

    A wrapper defines ``init``, whose state is a :class:`WrapperState`, and of the inner methods
    those in which it does something of its own.
    """

    learner: Learner

    @property
    def task(self) -> str:  # type: ignore[override]
        """That of the learner inside."""
        return self.learner.task

    @property
    def preferred_block_size(self) -> int:  # type: ignore[override]
        """That of the learner inside."""
        return self.learner.preferred_block_size

    @property
    def leading_columns(self) -> int:  # type: ignore[override]
        """Those of the learner inside."""
        return self.learner.leading_columns

    def fit_block_size(self, block_size: int) -> int:
        """As the learner inside."""
        return self.learner.fit_block_size(block_size)

    def capacity(self, state: Any) -> int | None:
        """That of the learner inside."""
        return self.learner.capacity(state.inner)

    def num_supports(self, state: Any) -> jax.Array:
        """Those of the learner inside."""
        return self.learner.num_supports(state.inner)

    def enlarged(self, state: Any, capacity: int) -> Any:
        """As the learner inside."""
        return state.replace(inner=self.learner.enlarged(state.inner, capacity))

    def encode_block(self, state: Any, X: jax.Array, given: jax.Array | None = None) -> Any:
        """As the learner inside."""
        return self.learner.encode_block(state.inner, X, given)

    def decide(self, state: Any, code: Any) -> tuple[Prediction, Any]:
        """As the learner inside."""
        return self.learner.decide(state.inner, code)

    def teach(
        self,
        state: Any,
        code: Any,
        forecast: Any,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> Any:
        """As the learner inside."""
        inner = self.learner.teach(state.inner, code, forecast, y, asked, present)
        return state.replace(inner=inner)

    def close_block(self, state: Any, codes: Any) -> Any:
        """As the learner inside."""
        return state.replace(inner=self.learner.close_block(state.inner, codes))

    def await_label(self, state: Any, query: jax.Array) -> Any:
        """As the learner inside."""
        return state.replace(inner=self.learner.await_label(state.inner, query))

    def receive_label(self, state: Any) -> Any:
        """As the learner inside."""
        return state.replace(inner=self.learner.receive_label(state.inner))

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """As the learner inside."""
        return self.learner.loss_value(prediction, y)

    def info(self, state: Any) -> Any:
        """Diagnostics of the learner inside."""
        return self.learner.info(state.inner)

    def check_inputs(self, X: Any) -> None:
        """As the learner inside."""
        self.learner.check_inputs(X)
