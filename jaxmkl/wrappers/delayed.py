"""Labels that arrive late: each is learned a number of rounds after its example."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import count_on, of_each, take
from jaxmkl._learner import Learner, Prediction, learned_late
from jaxmkl._programs import Kept
from jaxmkl._types import PyTree
from jaxmkl.wrappers.wrapper import OneByOne, Row, WrapperState


class Waiting(NamedTuple):
    """Buffer of the examples whose labels are due; round t is stored at t mod R.

    R is the next power of two from N + 1 on, so that it divides the jump of a full counter.
    """

    x: Array
    """Inputs (R, D)."""
    y: Array
    """Labels (R,) or (R, K); 0 where none was asked for."""
    asked: Array
    """True if the label was asked for (R,)."""
    context: PyTree
    """The parts of the state that belong to each example (:func:`jaxmkl.abilities.context`)."""


@pytree.dataclass
class DelayedState(WrapperState):
    """State of :class:`Delayed`."""

    waiting: Waiting
    due: Array
    """Examples that are still to be learned, at most N between rounds, int32."""
    awaited: Array
    """Labels asked for by ``ask`` that no ``update`` has brought yet, int32; with a minus sign
    while ``update`` learns one of them."""

    round = property(lambda self: count_on(self.inner.round, self.due), doc="Examples seen.")


@pytree.dataclass
class Delayed(OneByOne[DelayedState, tuple]):
    """A learner whose labels arrive late; made by :func:`delayed`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    delay: int = pytree.count(minimum=0)

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> DelayedState:
        return self.around(self.learner.init(key, num_inputs, dtype))

    def around(self, inner: PyTree) -> DelayedState:
        """The state around one of the inner learner, or around several, with nothing due."""
        return _around(self, inner)

    def _around(self, inner: PyTree) -> DelayedState:
        D, dtype = self.learner.num_inputs(inner), self.learner.dtype(inner)
        label = () if self.num_outputs is None else (self.num_outputs,)
        of_one = jnp.zeros((D,), dtype), jnp.zeros(label, dtype), jnp.zeros((), bool)
        example = Waiting(*of_one, abilities.context(self.learner, inner))
        room = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (self._room, *leaf.shape)), example
        )
        return DelayedState(inner, room, *jnp.zeros((2,), jnp.int32))

    def predict_code(self, state: DelayedState, code: Row) -> tuple[Prediction, tuple]:
        """The inner learner's prediction; it has learned all but the last N examples."""
        prediction = self.predict_inside(state, *code)[1]
        return prediction, (prediction.value,)

    def update_code(
        self, state: DelayedState, code: Row, aux: tuple, y: Array, asked: Array, present: Array
    ) -> tuple[DelayedState, Array]:
        """The example waits for its label, and the one of N rounds ago is learned."""
        sound = ~jnp.any(jnp.isnan(aux[0])) & jnp.all(jnp.isfinite(y))
        asked, context = asked & present, abilities.context(self.learner, state.inner)
        example = Waiting(code.x, jnp.where(asked, y, jnp.zeros_like(y)), asked, context)
        place = jnp.where(present, self._place(state.round), self._room)
        counted = state.awaited < 0  # when it was asked for
        state = state.replace(
            inner=abilities.awaiting(self.learner, state.inner, asked & ~counted),
            awaited=jnp.where(counted, -state.awaited - 1, state.awaited),
            waiting=jax.tree.map(
                lambda room, new: room.at[place].set(new, mode="drop"), state.waiting, example
            ),
            due=state.due + present.astype(jnp.int32),
        )
        return self._learned(state, state.due > self.delay), asked & sound

    @property
    def _room(self) -> int:
        return 1 << self.delay.bit_length()

    def _place(self, round: Array) -> Array:
        return round % self._room

    def _learned(self, state: DelayedState, now: Array) -> DelayedState:
        """The state after the oldest example due is learned; unchanged unless ``now``."""
        inner = state.inner
        x, y, asked, context = take(state.waiting, self._place(inner.round))
        then = abilities.with_context(self.learner, inner, context)
        inner = learned_late(self.learner, inner, then, x, y, asked & now, now)
        return state.replace(inner=inner, due=state.due - now.astype(jnp.int32))

    def flushed(self, state: DelayedState) -> DelayedState:
        """The state, or several, after all labels due have arrived and are learned, in order."""
        return _flushed(self, state)

    def _emptied(self, state: DelayedState) -> DelayedState:
        return jax.lax.fori_loop(0, self.delay, lambda _, s: self._learned(s, s.due > 0), state)


@abilities.num_supports.register
def _(learner: Delayed, state: DelayedState) -> Array:
    """Support vectors, and the examples due, as each may become a support vector."""
    return abilities.num_supports(learner.learner, state.inner) + state.due


@abilities.awaiting.register
def _(learner: Delayed, state: DelayedState, query: Array) -> DelayedState:
    inner = abilities.awaiting(learner.learner, state.inner, query)
    return state.replace(inner=inner, awaited=state.awaited + query.astype(jnp.int32))


@abilities.receiving.register
def _(learner: Delayed, state: DelayedState, asked: Array) -> DelayedState:
    """The state after a label arrived, which counts only if ``ask`` had asked for it."""
    known = asked & (state.awaited > 0)
    return state.replace(awaited=jnp.where(known, -state.awaited, state.awaited))


@Kept
def _around(learner: Delayed, inner: PyTree) -> DelayedState:
    return of_each(learner._around, inner.round, inner)


@Kept
def _flushed(learner: Delayed, state: DelayedState) -> DelayedState:
    return of_each(learner._emptied, state.round, state)


def delayed(learner: Learner, delay: int) -> Delayed:
    """Let labels arrive late: the label of round t is learned in round t + N, after predicting.

        round t:  predict x_t, and ask or not, knowing the labels of rounds up to t - N - 1
                  then learn (x, y) of round t - N, if its label was asked for

    So a loss belongs to a prediction made N rounds before its label is known. A query counts when
    it is made, against a :func:`jaxmkl.label_budget` and for :class:`jaxmkl.query.Rate` and
    :class:`jaxmkl.query.Disagreement`. All else follows the examples learned so far: the count of
    refused examples, running scales inside, and the rounds without a query, so that up to N more
    in a row may be skipped than ``max_skips``, and a rate is low for the first N rounds.

    A wrapper around a delayed learner learns its labels at once: put this one around wrappers that
    read labels, as :func:`intervals`, :func:`lagged` and :func:`scaled_targets`. Each example is
    encoded by itself, twice, so a round costs more than without a delay; blocks of any size give
    the same run, bit for bit.

    Args:
      learner: any learner.
      delay: N, an integer of at least 0 (static). With 0 the learner behaves as without a wrapper.

    Raises:
      ValueError: if ``learner`` is not a learner, or the delay is not such an integer.

    >>> import jaxmkl, numpy as np
    >>> learner, X = delayed(jaxmkl.raker(), 10), np.random.default_rng(0).normal(size=(30, 2))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> (np.asarray(outputs.prediction[10:12]) == 0).tolist()  # a label is known after round 10
    [True, False]
    >>> int(state.due), int(learner.flushed(state).due)
    (10, 0)
    """
    return Delayed(learner, delay)
