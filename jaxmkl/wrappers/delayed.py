"""Labels that come late: each is learned a number of rounds after its example came."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import take
from jaxmkl._learner import Learner, Prediction
from jaxmkl.wrappers.wrapper import OneByOne, Row, WrapperState


class Waiting(NamedTuple):
    """Examples whose labels are due; that of round t stands at place t mod (N + 1)."""

    x: Array
    """(N + 1, D)."""
    y: Array
    """Labels (N + 1,) or (N + 1, K); 0 where none was asked for."""
    asked: Array
    """Whether the label was asked for (N + 1,)."""
    context: Any
    """What of the state belongs to them (:meth:`jaxmkl.Learner.context`)."""


@pytree.dataclass
class DelayedState(WrapperState):
    """State of :class:`Delayed`."""

    waiting: Waiting
    due: Array
    """Examples that are still to be learned, at most N between rounds, int32."""
    awaited: Array
    """Labels asked for by ``ask`` for which no ``update`` came yet, int32."""

    round = property(lambda self: self.inner.round + self.due, doc="Examples seen.")


@pytree.dataclass
class Delayed(OneByOne):
    """A learner whose labels come late; made by :func:`delayed`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    delay: int = pytree.count(minimum=0)

    def init(self, key: Array, num_inputs: int, dtype: Any = None) -> DelayedState:
        return self.around(self.learner.init(key, num_inputs, dtype))

    def around(self, inner: Any) -> DelayedState:
        """The state with this one of the learner inside, and nothing due."""
        D, dtype = self.learner.num_inputs(inner), self.learner.dtype(inner)
        label = () if self.num_outputs is None else (self.num_outputs,)
        of_one = jnp.zeros((D,), dtype), jnp.zeros(label, dtype), jnp.zeros((), bool)
        example = Waiting(*of_one, self.learner.context(inner))
        room = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (self.delay + 1, *leaf.shape)), example
        )
        return DelayedState(inner, room, *jnp.zeros((2,), jnp.int32))

    def num_supports(self, state: DelayedState) -> Array:
        """Support vectors, and the examples due, as they may become some."""
        return super().num_supports(state) + state.due

    def await_label(self, state: DelayedState, query: Array) -> DelayedState:
        state = super().await_label(state, query)
        return state.replace(awaited=state.awaited + query.astype(jnp.int32))

    def receive_label(self, state: DelayedState, asked: Array) -> DelayedState:
        """Labels that the learner inside waits for are others: those of the examples due."""
        known = asked & (state.awaited > 0)
        state = super().receive_label(state, known)
        return state.replace(awaited=state.awaited - known.astype(jnp.int32))

    def decide(self, state: DelayedState, code: Row) -> tuple[Prediction, Any]:
        """What the learner inside says, taught all examples but the N before this one."""
        return self.decide_inside(state, *code)[1], ()

    def teach(
        self, state: Any, code: Row, forecast: Any, y: Array, asked: Array, present: Array
    ) -> DelayedState:
        """The example waits for its label, and the one of N rounds ago is learned."""
        asked, context = asked & present, self.learner.context(state.inner)
        example = Waiting(code.x, jnp.where(asked, y, jnp.zeros_like(y)), asked, context)
        place = jnp.where(present, self._place(state.round), self.delay + 1)
        state = state.replace(
            inner=self.learner.await_label(state.inner, asked),
            waiting=jax.tree.map(
                lambda room, new: room.at[place].set(new, mode="drop"), state.waiting, example
            ),
            due=state.due + present.astype(jnp.int32),
        )
        return self._learned(state, state.due > self.delay)

    def _place(self, round: Array) -> Array:
        return round % (self.delay + 1)

    def _learned(self, state: DelayedState, now: Array) -> DelayedState:
        """The state after the oldest example due was learned, or as it is unless ``now``."""
        inner = state.inner
        x, y, asked, context = take(state.waiting, self._place(inner.round))
        inner = self.learner._taught(inner, x, y, asked & now, now, context)
        return state.replace(inner=inner, due=state.due - now.astype(jnp.int32))

    def flushed(self, state: DelayedState) -> DelayedState:
        """The state after all labels that are due came and were learned, in their order."""
        return _flushed(self, state)


@jax.jit
def _flushed(learner: Delayed, state: DelayedState) -> DelayedState:
    def one(_: Any, state: DelayedState) -> DelayedState:
        return learner._learned(state, state.due > 0)

    return jax.lax.fori_loop(0, learner.delay, one, state)


def delayed(learner: Learner, delay: int) -> Delayed:
    """Have labels come late: that of round t is learned in round t + N, after its prediction.

        round t:  predict x_t, and ask or not, knowing the labels of rounds up to t - N - 1
                  then learn (x, y) of round t - N, if its label was asked for

    So losses are those of predictions made N rounds before their label is known. A question counts
    when it is asked, against a :func:`jaxmkl.label_budget` and for :class:`jaxmkl.query.Rate`.
    All else is as the examples learned so far left it: the count of refused ones, scales inside,
    and rounds without a question, so that :class:`jaxmkl.query.Disagreement` may skip N more in
    a row than it is told, and a rate is low for the first N rounds.

    What stands around a delayed learner learns at once: put this around wrappers that look at
    labels, as :func:`intervals`, :func:`lagged` and :func:`scaled_targets`. Examples are encoded
    one by one, twice each, so a round costs more than without; blocks of any size give the same
    run, bit for bit.

    Args:
      learner: any learner.
      delay: N, an integer of at least 0 (static). With 0 it is the learner itself.

    Raises:
      ValueError: for what is no learner, or another delay.

    >>> import jaxmkl
    >>> learner, X = delayed(jaxmkl.raker(), 10), jax.random.normal(jax.random.key(0), (30, 2))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> outputs.prediction[10:12] == 0  # the first label is known after round 10
    Array([ True, False], dtype=bool)
    >>> int(state.due), int(learner.flushed(state).due)
    (10, 0)
    """
    return Delayed(learner, delay)
