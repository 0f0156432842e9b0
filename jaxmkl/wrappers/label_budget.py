"""A hard budget on labels, around any learner.

What counts is that a label was asked for, not that it came. Where answers come late, ``predict``
cannot count, as it changes no state: :meth:`jaxmkl.Learner.ask` does.

    prediction, state = learner.ask(state, x)       charged at once where prediction.query
    state = learner.update(state, x, y)             when the answer is there: not charged again

``update`` charges a label for which nobody asked before. One that comes when nothing is left is
learned from all the same, for it is there; it is counted in ``overdrawn``.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Output, Prediction
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState

WANTED = "a number of labels from 0 to 2**31 - 1, whole"


@pytree.dataclass
class LabelBudgetState(WrapperState):
    """State of :class:`LabelBudget`; all counts are int32.

    Attributes:
      remaining: labels that may still be asked for.
      outstanding: labels that were asked for and have not come yet.
      overdrawn: labels that came though none was left and none outstanding.
    """

    remaining: Array
    outstanding: Array
    overdrawn: Array


@pytree.dataclass
class LabelBudget(Wrapper):
    """A learner that asks for a limited number of labels; made by :func:`label_budget`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    budget: Any = pytree.number(minimum=0, maximum=2.0**31 - 1, discrete=True, wanted=WANTED)

    def __post_init__(self) -> None:
        whole = not isinstance(self.budget, float) or self.budget.is_integer()
        pytree.require(whole, self, "budget", self.budget, WANTED)

    def init(self, key: Array, num_inputs: int, dtype: Any = None) -> LabelBudgetState:
        # a Python number is exact; traced, it is a float of JAX's default precision
        budget = int(self.budget) if isinstance(self.budget, float) else self.budget
        remaining = jnp.asarray(budget).astype(jnp.int32)
        inner = self.learner.init(key, num_inputs, dtype)
        return LabelBudgetState(inner, remaining, *jnp.zeros((2,), jnp.int32))

    def decide(self, state: LabelBudgetState, code: Any) -> tuple[Prediction, Any]:
        """Ask if the learner wants the label and one is left."""
        prediction, forecast = super().decide(state, code)
        return prediction._replace(query=prediction.query & (state.remaining > 0)), forecast

    def teach(
        self, state: Any, code: Any, forecast: Any, y: Array, asked: Array, present: Array
    ) -> LabelBudgetState:
        taught = super().teach(state, code, forecast, y, asked, present)
        spent, left = asked & present, state.remaining > 0
        remaining = state.remaining - (spent & left).astype(jnp.int32)
        overdrawn = state.overdrawn + (spent & ~left).astype(jnp.int32)
        return taught.replace(remaining=remaining, overdrawn=overdrawn)

    def await_label(self, state: LabelBudgetState, query: Array) -> LabelBudgetState:
        """Charge what is asked for now and answered later."""
        return _charged(super().await_label(state, query), query.astype(jnp.int32))

    def receive_label(self, state: LabelBudgetState, asked: Array) -> LabelBudgetState:
        """Give back what was charged for this label, which :meth:`teach` charges now."""
        given_back = (asked & (state.outstanding > 0)).astype(jnp.int32)
        return _charged(super().receive_label(state, asked), -given_back)

    def round(self, state: Any, examples: Any, most: Any = None) -> tuple[Any, Output]:
        """As :meth:`jaxmkl.models.MultiTask.round`, and as it says where labels are short.

        Args:
          state, examples, most: as there; ``most`` of None means all that are left.

        Raises:
          ValueError: for a learner inside without rounds of many examples.
        """
        play = getattr(self.learner, "round", None)
        wanted = "a learner with rounds, as jaxmkl.multitask(...)"
        pytree.require(callable(play), self, "learner", self.learner, wanted)
        most = state.remaining if most is None else jnp.minimum(most, state.remaining)
        inner, output = play(state.inner, examples, most)  # type: ignore[misc]
        spent = jnp.sum(output.queried, dtype=jnp.int32)
        return state.replace(inner=inner, remaining=state.remaining - spent), output


def _charged(state: LabelBudgetState, number: Array) -> LabelBudgetState:
    """Labels asked for that have not come; a negative number: that came."""
    remaining, outstanding = state.remaining - number, state.outstanding + number
    return state.replace(remaining=remaining, outstanding=outstanding)


def label_budget(learner: Learner, budget: Any) -> LabelBudget:
    """Stop asking for labels after ``budget`` of them.

    A learner that wants every label gets the first ones; one that asks when unsure makes them
    last longer. Predictions go on.

    Args:
      learner: any learner.
      budget: the number of labels, whole and at least 0.

    Raises:
      ValueError: for another learner or budget.

    >>> import jax, jaxmkl
    >>> learner, key = label_budget(jaxmkl.raker(), 10), jax.random.key(0)
    >>> state, X = learner.init(key, num_inputs=2), jax.random.normal(key, (30, 2))
    >>> int(jaxmkl.run(learner, state, X, X[:, 0])[1].queried.sum())
    10
    """
    return LabelBudget(learner, budget)
