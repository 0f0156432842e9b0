"""Banks of models: what a learner combines.

A bank has E models (kernels times rates times rules), each a function f_e that a labelled example
changes. It encodes a block of examples at once, predicts from one code, learns, and settles what a
finished block leaves behind.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl.updates import Rule


class Lesson(NamedTuple):
    """What a bank is told of a round."""

    y: jax.Array
    """The label, a number or (K,); 0 where there is none to learn from."""
    learns: jax.Array
    """Which models take part in learning (E,); none where there is no label."""
    probability: jax.Array | None
    """With which each takes its step (E,), or None for always."""
    chance: Any
    """Uniform numbers (E,) that decide on steps taken by chance, or None."""
    seen: jax.Array
    """Whether there is an example at all, label or not."""
    present: jax.Array
    """Whether there is a round at all. Without it no bit may change."""

    def taken(self, probability: jax.Array | None = None) -> jax.Array:
        """Which models (E,) take their step, whose own probability is that of the argument."""
        if self.probability is not None:
            own = self.probability
            probability = own if probability is None else own * probability
        return self.learns if probability is None else self.learns & (self.chance < probability)

    def cut(self, start: int, end: int, shape: tuple[int, ...] = (-1,)) -> "Lesson":
        """The lesson of the models from ``start`` to ``end``, in a shape of their own."""
        parts = self.learns, self.probability, self.chance
        learns, probability, chance = jax.tree.map(lambda a: a[start:end].reshape(shape), parts)
        return self._replace(learns=learns, probability=probability, chance=chance)


class Bank:
    """Base of all banks: frozen pytree dataclasses."""

    period: Any = None
    """Rounds between two settlings; blocks divide it. None where there are none."""
    many_outputs = False
    """Whether its models can have several outputs."""

    @property
    def num_models(self) -> int:
        """E."""
        pytree.abstract(self, "num_models")

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The update rules of its models."""
        pytree.abstract(self, "all_rules")

    @property
    def random(self) -> bool:
        """Whether steps are taken by chance: learning needs uniform numbers."""
        return False

    def init(
        self, key: jax.Array, num_inputs: int, dtype: Any, num_outputs: int | None = None
    ) -> Any:
        """The state before the first round, a pytree; of K outputs only if ``many_outputs``."""
        pytree.abstract(self, "init")

    def encode(self, state: Any, X: jax.Array, round: jax.Array, keys: jax.Array) -> Any:
        """Codes of the rows of ``X`` (B, D), with leading axis B.

        Args:
          state: at the block's start, or amid it.
          X: finite.
          round: of the next example; row j belongs to round ``round // B * B + j``.
          keys: a typed key for each row (B,).
        """
        pytree.abstract(self, "encode")

    def predict(self, state: Any, code: Any) -> tuple[jax.Array, Any]:
        """Values (E,) or (K, E) of one example, and what :meth:`learn` uses again."""
        pytree.abstract(self, "predict")

    def learn(self, state: Any, code: Any, worked: Any, lesson: Lesson) -> Any:
        """The state after an example."""
        pytree.abstract(self, "learn")

    def close(self, state: Any, codes: Any, round: jax.Array) -> Any:
        """The state after a block; rounds below ``round`` are over."""
        return state

    def merged(self, states: Any, start: Any) -> Any:
        """One state of those of shards, all leaves with a leading axis (:func:`jaxmkl.merge`).

        ``start`` is the state that they began with; None for one of :meth:`init`.
        """
        wanted = "models on features by least squares: what others learned does not add up"
        pytree.require(False, "merge", "a bank of learner.models", self, wanted)

    def capacity(self, state: Any) -> int | None:
        """Support vectors a state has room for; None where it cannot run short."""
        return None

    def num_supports(self, state: Any) -> jax.Array:
        """Support vectors that fill that room, a number."""
        return jnp.zeros((), jnp.int32)

    def enlarged(self, state: Any, capacity: int) -> Any:
        """The state with room for ``capacity`` support vectors, at least."""
        return state

    def supports(self, state: Any) -> tuple[jax.Array, jax.Array] | None:
        """Support vectors of each kernel (P,) and examples that found no room; None without."""
        return None
