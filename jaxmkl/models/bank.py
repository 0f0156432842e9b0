"""Banks of models, which a learner combines.

A bank has E models (kernels times rates times rules), each a function f_e that a labelled example
changes. It encodes a block of examples at once, predicts from one code, updates its models, and
closes the block: whatever a finished block leaves behind becomes part of the state. A bank that
learns its kernels is renewed in some rounds, from the memory of the learner.
"""

import abc
from typing import Any, Generic, Self

import jax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._feedback import Feedback
from jaxmkl._types import Aux, Code, State
from jaxmkl.updates import Rule


class Bank(abilities.NoMethods, abc.ABC, Generic[State, Code, Aux]):
    """The base of all banks: frozen pytree dataclasses."""

    period: int | None = None
    """Rounds after which :meth:`close` changes the state; blocks divide it. None for never."""
    small_values = False
    """True if values may be too small for their dtype, and then are the smallest of their sign."""
    many_outputs = False
    """True if its models can have several outputs."""
    first: int | None = None
    """The round of its first renewal; None for a bank that learns no kernels. Blocks divide it, or
    half of it if it is even."""
    sample: int = 2000
    """How many examples of the memory a renewal looks at."""

    def __new__(cls, *args: Any, **fields: Any) -> Self:
        """Refuse the reservoir that banks had until there was one memory for all."""
        wanted = "left out: the memory is the learner's, as MKL(..., memory=Reservoir(500)), and "
        wanted += "sample=500 says how many of its examples the bank looks at"
        given = fields.get("reservoir")
        pytree.require("reservoir" not in fields, cls.__name__, "reservoir", given, wanted)
        return super().__new__(cls)

    @property
    @abc.abstractmethod
    def num_models(self) -> int:
        """E."""

    @property
    def num_kernels(self) -> int:
        """P: models are numbered kernel by kernel within a rate, so that P divides E; by default
        every model has a kernel of its own. A kernel under two metrics counts as two."""
        return self.num_models

    @property
    @abc.abstractmethod
    def all_rules(self) -> tuple[Rule, ...]:
        """The update rules of the models."""

    @property
    def random(self) -> bool:
        """True if steps are random, so that learning needs uniform numbers."""
        return any(rule.random for rule in self.all_rules)

    @abc.abstractmethod
    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> State:
        """The state before the first round, a pytree; K outputs only if ``many_outputs``."""

    @abc.abstractmethod
    def encode(self, state: State, X: jax.Array, round: jax.Array, keys: jax.Array) -> Code:
        """Codes of the rows of ``X`` (B, D), with leading axis B.

        Args:
          state: the state at the start of the block, or within it.
          X: the rows, all finite.
          round: the round of the next example; row j belongs to round ``round // B * B + j``.
          keys: a typed key for each row (B,).
        """

    @abc.abstractmethod
    def predict(self, state: State, code: Code) -> tuple[jax.Array, Aux]:
        """The values (E,) or (K, E) of one example, and results that :meth:`update` reuses."""

    @abc.abstractmethod
    def update(self, state: State, code: Code, aux: Aux, feedback: Feedback) -> State:
        """The state after an example."""

    def close(self, state: State, codes: Code, round: jax.Array) -> State:
        """The state after a block; rounds below ``round`` are over."""
        return state
