"""Learners around learners: online scaling of the inputs, a hard budget on labels.

A wrapper is a learner like any other: it may be scanned, vmapped, differentiated, saved, and
wrapped again.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import pytree
from jaxmkl.learner import Learner, Output, Prediction, usable_rows
from jaxmkl.scaling import Scaler

__all__ = ["LabelBudget", "Scaled", "Wrapper", "label_budget", "scaled"]


def _require_learner(owner: Any, learner: Any) -> None:
    pytree.require(isinstance(learner, Learner), owner, "learner", learner, "a learner")


class Wrapper(Learner):
    """What wrappers hand through to the learner inside."""

    learner: Learner

    @property
    def task(self) -> str:  # type: ignore[override]
        """The task of the learner inside."""
        return self.learner.task

    @property
    def preferred_block_size(self) -> int:
        """That of the learner inside."""
        return self.learner.preferred_block_size

    @property
    def leading_columns(self) -> int:
        """Those of the learner inside."""
        return self.learner.leading_columns

    def fit_block_size(self, block_size: int) -> int:
        """As the learner inside."""
        return self.learner.fit_block_size(block_size)

    def num_inputs(self, state: Any) -> int:
        """D."""
        return self.learner.num_inputs(state.inner)

    def dtype(self, state: Any) -> Any:
        """Floating dtype of the state."""
        return self.learner.dtype(state.inner)

    def capacity(self, state: Any) -> int | None:
        """That of the learner inside."""
        return self.learner.capacity(state.inner)

    def num_supports(self, state: Any) -> jax.Array:
        """Those of the learner inside."""
        return self.learner.num_supports(state.inner)

    def enlarged(self, state: Any, capacity: int) -> Any:
        """As the learner inside."""
        return state._replace(inner=self.learner.enlarged(state.inner, capacity))

    def encode(self, state: Any, X: jax.Array) -> Any:
        """As the learner inside."""
        return self.learner.encode(state.inner, X)

    def decide(self, state: Any, code: Any) -> Prediction:
        """As the learner inside."""
        return self.learner.decide(state.inner, code)

    def fold(self, state: Any, codes: Any) -> Any:
        """As the learner inside."""
        return state._replace(inner=self.learner.fold(state.inner, codes))

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """As the learner inside."""
        return self.learner.loss_value(prediction, y)

    def info(self, state: Any) -> Any:
        """Diagnostics of the learner inside."""
        return self.learner.info(state.inner)


class ScaledState(NamedTuple):
    """State of :class:`Scaled`: the learner's and the scaler's."""

    inner: Any
    scaler: Any

    @property
    def round(self) -> jax.Array:
        """Examples seen."""
        return self.inner.round


class ScaledCode(NamedTuple):
    """The learner's code of the scaled input, the scaler's change, whether the input is usable."""

    inner: Any
    change: Any
    usable: jax.Array


@pytree.dataclass
class Scaled(Wrapper):
    """A learner that sees its inputs through an online scaler; made by :func:`scaled`."""

    learner: Learner
    scaler: Scaler

    def __post_init__(self) -> None:
        _require_learner(self, self.learner)
        parts = ("init", "observe", "accept")
        good = not isinstance(self.scaler, type)
        good = good and all(callable(getattr(self.scaler, part, None)) for part in parts)
        pytree.require(good, self, "scaler", self.scaler, "a scaler, as jaxmkl.RunningMoments()")

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> ScaledState:
        """The states of the learner and of the scaler."""
        inner = self.learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        scaler_key = jax.random.fold_in(key, 1)
        scaler = self.scaler.init(scaler_key, num_inputs, self.learner.dtype(inner))
        return ScaledState(inner, scaler)

    def encode(self, state: ScaledState, X: jax.Array) -> ScaledCode:
        """Scale the rows one after the other, then encode them together."""
        B = X.shape[0]
        usable = usable_rows(X)
        ahead = jnp.arange(B) >= state.round % B

        def one(scaler: Any, row: tuple) -> tuple[Any, tuple]:
            x, seen = row
            change, z = self.scaler.observe(scaler, x)
            return self.scaler.accept(scaler, change, seen), (change, z)

        filled = jnp.where(usable[:, None], X, 0.0)
        _, (changes, Z) = jax.lax.scan(one, state.scaler, (filled, usable & ahead))
        n = self.leading_columns
        Z = jnp.concatenate([filled[:, :n], Z[:, n:]], axis=1) if n else Z
        # what the learner gets for an unusable row must be refused there too
        Z = jnp.where(usable[:, None], Z, jnp.nan)
        return ScaledCode(self.learner.encode(state.inner, Z), changes, usable)

    def decide(self, state: ScaledState, code: ScaledCode) -> Prediction:
        """As the learner inside."""
        return self.learner.decide(state.inner, code.inner)

    def fold(self, state: ScaledState, codes: ScaledCode) -> ScaledState:
        """As the learner inside."""
        return state._replace(inner=self.learner.fold(state.inner, codes.inner))

    def learn(
        self,
        state: ScaledState,
        code: ScaledCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> ScaledState:
        """The learner learns if asked; the scaler sees every usable input."""
        scaler = self.scaler.accept(state.scaler, code.change, code.usable & present)
        return ScaledState(self.learner.learn(state.inner, code.inner, y, asked, present), scaler)


class LabelBudgetState(NamedTuple):
    """State of :class:`LabelBudget`: the learner's, and the labels that are left, int32."""

    inner: Any
    remaining: jax.Array

    @property
    def round(self) -> jax.Array:
        """Examples seen."""
        return self.inner.round


@pytree.dataclass
class LabelBudget(Wrapper):
    """A learner that asks for a limited number of labels; made by :func:`label_budget`."""

    learner: Learner
    budget: Any

    def __post_init__(self) -> None:
        _require_learner(self, self.learner)
        wanted = "a number of labels from 0 to 2**31 - 1, whole"
        budget = pytree.as_leaf(
            self, "budget", self.budget, minimum=0.0, maximum=2.0**31 - 1, wanted=wanted
        )
        whole = not isinstance(budget, float) or budget.is_integer()
        pytree.require(whole, self, "budget", self.budget, wanted)
        object.__setattr__(self, "budget", budget)

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> LabelBudgetState:
        """The learner's state, and the whole budget."""
        # a Python number is exact; traced, it is a float of JAX's default precision
        known = isinstance(self.budget, float)
        remaining = jnp.asarray(int(self.budget) if known else self.budget).astype(jnp.int32)
        return LabelBudgetState(self.learner.init(key, num_inputs, dtype), remaining)

    def decide(self, state: LabelBudgetState, code: Any) -> Prediction:
        """Ask if the learner wants the label and one is left."""
        prediction = self.learner.decide(state.inner, code)
        return prediction._replace(query=prediction.query & (state.remaining > 0))

    def learn(
        self,
        state: LabelBudgetState,
        code: Any,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> LabelBudgetState:
        """Learn, and count the label."""
        spent = (asked & present).astype(jnp.int32)
        return LabelBudgetState(
            self.learner.learn(state.inner, code, y, asked, present), state.remaining - spent
        )

    def round(
        self, state: LabelBudgetState, examples: Any, most: Any = None
    ) -> tuple[LabelBudgetState, Output]:
        """One round of a learner that has rounds of many examples, :meth:`jaxmkl.MultiTask.round`.

        Where more labels are wanted than are left, the first tasks get them.

        Args:
          state: the state.
          examples: as the learner inside takes them.
          most: how many labels may be asked for in this round; None for all that are left.

        Raises:
          ValueError: for a learner inside without such rounds.
        """
        play = getattr(self.learner, "round", None)
        wanted = "a learner with rounds, as jaxmkl.multitask(...)"
        pytree.require(callable(play), self, "learner", self.learner, wanted)
        most = state.remaining if most is None else jnp.minimum(most, state.remaining)
        inner, output = play(state.inner, examples, most)  # type: ignore[misc]
        spent = jnp.sum(output.queried, dtype=jnp.int32)
        return LabelBudgetState(inner, state.remaining - spent), output


def scaled(learner: Learner, scaler: Scaler) -> Scaled:
    """Let a learner see its inputs through an online scaler, inside the same scan.

    Args:
      learner: any learner.
      scaler: :class:`jaxmkl.RunningMoments` or :class:`jaxmkl.RunningRanks`.

    >>> import jax, jaxmkl
    >>> learner = scaled(jaxmkl.raker(), jaxmkl.RunningMoments())
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> X = 1e6 + 1e5 * jax.random.normal(jax.random.key(1), (300, 2))
    >>> state, outputs = jaxmkl.run(learner, state, X, (X[:, 0] - 1e6) / 1e5)
    >>> bool(outputs.loss[-100:].mean() < outputs.loss[:100].mean())
    True
    """
    return Scaled(learner, scaler)


def label_budget(learner: Learner, budget: Any) -> LabelBudget:
    """Stop asking for labels after ``budget`` of them.

    A learner that wants every label gets the first ones; one that asks when unsure makes them
    last longer. Predictions go on.

    Args:
      learner: any learner.
      budget: the number of labels, at least 0.

    Raises:
      ValueError: for a negative budget.

    >>> import jax, jaxmkl
    >>> learner = label_budget(jaxmkl.raker(), 10)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> X = jax.random.normal(jax.random.key(1), (300, 2))
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> int(outputs.queried.sum()), int(state.remaining)
    (10, 0)
    """
    return LabelBudget(learner, budget)
