"""Banks of models, which a learner combines.

A bank has E models (kernels times rates times rules), each a function f_e that a labelled example
changes. It encodes a block of examples at once, predicts from one code, updates its models, and
closes the block: whatever a finished block leaves behind becomes part of the state. A bank that
learns its kernels is renewed in some rounds, from the memory of the learner.
"""

import abc
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.reservoir import Renewal, is_doubling
from jaxmkl.updates import Rule


class Bank(abc.ABC):
    """The base of all banks: frozen pytree dataclasses."""

    period: int | None = None
    """Rounds after which :meth:`close` changes the state; blocks divide it. None for never."""
    small_values = False
    """Whether values may be too small for their dtype, and then are the smallest of their sign."""
    many_outputs = False
    """Whether its models can have several outputs."""
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
    def has_variance(self) -> bool:
        """Whether some of its models know how uncertain they are, as :meth:`variances` says."""
        return any(rule.has_variance for rule in self.all_rules)

    @property
    def has_norms(self) -> bool:
        """Whether its models know their norms, as :meth:`squared_norms` says."""
        return False

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
        """Whether steps are random, so that learning needs uniform numbers."""
        return False

    @abc.abstractmethod
    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> PyTree:
        """The state before the first round, a pytree; K outputs only if ``many_outputs``."""

    @abc.abstractmethod
    def encode(self, state: PyTree, X: jax.Array, round: jax.Array, keys: jax.Array) -> PyTree:
        """Codes of the rows of ``X`` (B, D), with leading axis B.

        Args:
          state: the state at the start of the block, or within it.
          X: the rows, all finite.
          round: the round of the next example; row j belongs to round ``round // B * B + j``.
          keys: a typed key for each row (B,).
        """

    @abc.abstractmethod
    def predict(self, state: PyTree, code: PyTree) -> tuple[jax.Array, PyTree]:
        """The values (E,) or (K, E) of one example, and results that :meth:`update` reuses."""

    def variances(self, state: PyTree, code: PyTree, aux: PyTree) -> jax.Array:
        """Variances (E,) of the models' values, as multiples of that of the labels' noise.

        Those of a bank that ``has_variance``, from what :meth:`predict` returned; 0 for models
        that do not know theirs.
        """
        raise NotImplementedError(f"{type(self).__name__} must define variances")

    def warn_of_steps(self) -> None:
        """Warn of step sizes that cannot converge, where it is known how large examples are."""
        return

    def reach(self, rounds: jax.Array) -> jax.Array | None:
        """How large values of classifiers can be after so many rounds, (E,) or a number.

        This is in exact arithmetic. It is infinite for models of which it is not known, and None
        where none is known.
        """
        return None

    def squared_norms(self, state: PyTree) -> jax.Array:
        """|f_e|² (E,) or (K, E) of the models, those of a bank that ``has_norms``."""
        raise NotImplementedError(f"{type(self).__name__} must define squared_norms")

    @abc.abstractmethod
    def update(self, state: PyTree, code: PyTree, aux: PyTree, feedback: Feedback) -> PyTree:
        """The state after an example."""

    def close(self, state: PyTree, codes: PyTree, round: jax.Array) -> PyTree:
        """The state after a block; rounds below ``round`` are over."""
        return state

    def renews(self, round: Any) -> Any:
        """Whether it is renewed when a round begins: at ``first``, twice, four times that.

        A round is an integer, or an array inside a trace. It may be any that is ``first`` or 3/2
        of it times a power of two.
        """
        return False if self.first is None else is_doubling(round, self.first)

    def renewed(self, state: PyTree, renewal: Renewal) -> PyTree:
        """The state with kernels learned anew from the memory.

        No derivative goes through it, and any loops in it may have a dynamic length.
        """
        return state

    def merged(self, states: PyTree, start: PyTree | None) -> PyTree:
        """One state from those of shards, whose leaves have a leading axis (:func:`jaxmkl.merge`).

        ``start`` is the state with which they began; None for one of :meth:`init`.
        """
        wanted = "models on features by least squares, or under learned metrics, or forests: "
        wanted += "the states of others cannot be added"
        pytree.require(False, "merge", "a bank of learner.models", self, wanted)

    def capacity(self, state: PyTree) -> int | None:
        """The number of support vectors that a state has room for; None if it is not limited."""
        return None

    def num_supports(self, state: PyTree) -> jax.Array:
        """The number of support vectors that fill this room."""
        return jnp.zeros((), jnp.int32)

    def enlarged(self, state: PyTree, capacity: int) -> PyTree:
        """The state with room for ``capacity`` support vectors, at least."""
        return state

    def importances(self, state: PyTree) -> jax.Array | None:
        """How much each input matters (D,), of sum 1; None for a bank that does not learn it."""
        return None

    def supports(self, state: PyTree) -> tuple[jax.Array, jax.Array] | None:
        """Support vectors of each kernel (P,) and examples without room; None without any."""
        return None
