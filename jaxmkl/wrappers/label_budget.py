"""A hard budget on labels, around any learner.

A label is charged when it is asked for, not when it arrives. ``predict`` changes no state, so if
labels arrive late, ask by :meth:`jaxmkl.Learner.ask`:

    prediction, state = learner.ask(state, x)       charged at once where prediction.query
    state = learner.update(state, x, y)             when the label arrives: not charged again

A label that arrives when the budget is spent is still learned from; ``overdrawn`` counts it.
"""

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._learner import Learner, Output, Prediction
from jaxmkl._types import Aux, Code, Number, PyTree
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState

WANTED = "a whole number of labels, from 0 to 2**31 - 1"


@pytree.dataclass
class LabelBudgetState(WrapperState):
    """State of :class:`LabelBudget`; all counts are int32.

    Attributes:
      remaining: labels that may still be asked for.
      outstanding: labels that were asked for and have not arrived yet.
      overdrawn: labels that arrived though none was left and none outstanding.
    """

    remaining: Array
    outstanding: Array
    overdrawn: Array


@pytree.dataclass
class LabelBudget(OnBlocks[LabelBudgetState, Code, Aux]):
    """A learner that asks for a limited number of labels; made by :func:`label_budget`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    budget: Number = pytree.number(minimum=0, maximum=2.0**31 - 1, discrete=True, wanted=WANTED)

    def __post_init__(self) -> None:
        whole = not isinstance(self.budget, float) or self.budget.is_integer()
        pytree.require(whole, self, "budget", self.budget, WANTED)

    def init(
        self, key: Array, num_inputs: int, dtype: DTypeLike | None = None
    ) -> LabelBudgetState:
        # a Python number is exact; a traced one is a float of JAX's default precision
        budget = int(self.budget) if isinstance(self.budget, float) else self.budget
        remaining = jnp.asarray(budget).astype(jnp.int32)
        inner = self.learner.init(key, num_inputs, dtype)
        return LabelBudgetState(inner, remaining, *jnp.zeros((2,), jnp.int32))

    def predict_code(self, state: LabelBudgetState, code: Code) -> tuple[Prediction, Aux]:
        """Ask if the inner learner wants the label and the budget is not spent."""
        prediction, aux = super().predict_code(state, code)
        return prediction._replace(query=prediction.query & (state.remaining > 0)), aux

    def update_code(
        self, state: LabelBudgetState, code: Code, aux: Aux, y: Array, asked: Array, present: Array
    ) -> tuple[LabelBudgetState, Array]:
        updated, learned = super().update_code(state, code, aux, y, asked, present)
        spent, left = asked & present, state.remaining > 0
        remaining = state.remaining - (spent & left).astype(jnp.int32)
        overdrawn = state.overdrawn + (spent & ~left).astype(jnp.int32)
        return updated.replace(remaining=remaining, overdrawn=overdrawn), learned

    def round(
        self,
        state: LabelBudgetState,
        examples: tuple[Array, Array],
        most: Array | int | None = None,
    ) -> tuple[LabelBudgetState, Output]:
        """Do as :meth:`jaxmkl.learners.MultiTask.round`, with at most as many labels as are left.

        Args:
          state, examples: as for that method.
          most: as for that method; by default the rest of the budget.

        Raises:
          ValueError: if the inner learner has no rounds of many examples.
        """
        run_round = getattr(self.learner, "round", None)
        wanted = "a learner with rounds, as jaxmkl.multitask(...)"
        pytree.require(callable(run_round), self, "learner", self.learner, wanted)
        most = state.remaining if most is None else jnp.minimum(most, state.remaining)
        inner, output = run_round(state.inner, examples, most)  # type: ignore[misc]
        spent = jnp.sum(output.queried, dtype=jnp.int32)
        return state.replace(inner=inner, remaining=state.remaining - spent), output


@abilities.awaiting.register
def _(learner: LabelBudget, state: LabelBudgetState, query: Array) -> LabelBudgetState:
    """Charge a label that is asked for now and arrives later."""
    return _charged(
        abilities.changed(abilities.awaiting, learner, state, query), query.astype(jnp.int32)
    )


@abilities.receiving.register
def _(learner: LabelBudget, state: LabelBudgetState, asked: Array) -> LabelBudgetState:
    """Refund a label charged when it was asked for, as :meth:`update_code` charges it now."""
    given_back = (asked & (state.outstanding > 0)).astype(jnp.int32)
    return _charged(abilities.changed(abilities.receiving, learner, state, asked), -given_back)


def has_labels_left(state: PyTree) -> Array:
    """True unless a budget in the state of a learner, or inside it, is spent."""
    left = jnp.ones((), bool)
    while isinstance(state, WrapperState):
        if isinstance(state, LabelBudgetState):
            left &= state.remaining > 0
        state = state.inner
    return left


def _charged(state: LabelBudgetState, number: Array) -> LabelBudgetState:
    """The state after ``number`` labels are asked for; a negative number refunds labels."""
    remaining, outstanding = state.remaining - number, state.outstanding + number
    return state.replace(remaining=remaining, outstanding=outstanding)


def label_budget(learner: Learner, budget: Number) -> LabelBudget:
    """Stop asking for labels after ``budget`` of them.

    A learner that wants every label gets the first ones; one that asks when it is uncertain makes
    them last longer. Predictions continue when the budget is spent.

    Args:
      learner: any learner.
      budget: the number of labels, whole and at least 0.

    Raises:
      ValueError: if ``learner`` is not a learner, or the budget is not such a number.

    >>> import jax, jaxmkl, numpy as np
    >>> learner, key = label_budget(jaxmkl.raker(), 10), jax.random.key(0)
    >>> state, X = learner.init(key, num_inputs=2), np.random.default_rng(0).normal(size=(30, 2))
    >>> int(jaxmkl.run(learner, state, X, X[:, 0])[1].queried.sum())
    10
    """
    return LabelBudget(learner, budget)
