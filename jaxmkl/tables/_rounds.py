"""The rounds of a session: rows are predicted, and labels learned later, as many as there are.

One program predicts any number of rows one after the other, and one learns any number of labels.
So neither an answer nor a state depends on how rows and labels are grouped.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import abilities
from jaxmkl._blocks import scan_first
from jaxmkl._learner import Learner, Prediction, learned_late, reported
from jaxmkl._programs import LARGE, Kept
from jaxmkl._renewals import renewals_of
from jaxmkl._types import PyTree

TOGETHER = 64  # rows, or labels, for which one program is called


class Example(NamedTuple):
    """An example that waits for its label."""

    x: np.ndarray
    """Its inputs (D,), with gaps filled by what was known when it was asked for."""
    context: PyTree
    """What belonged to it in the state then (:func:`jaxmkl.abilities.context`)."""


def asked(
    learner: Learner, state: PyTree, X: np.ndarray, wants_all: bool
) -> tuple[Prediction, list[Example | None], PyTree]:
    """The predictions of inputs (n, D), what waits of each, and the state after them.

    A row that the learner does not want waits for nothing; it is skipped, and is a round.
    """
    apart = None if wants_all else renewals_of(learner)  # rows that are skipped are rounds
    rounds = learner if apart is None else apart.rounds
    each, first = list[tuple[Prediction, PyTree]](), 0
    while first < len(X):
        number = int(min(TOGETHER, len(X) - first, _until(apart, state)))
        rows = _filled_up(*X[first : first + number])
        made, state = _predict(rounds, state, rows, np.int32(number), wants_all=wants_all)
        each.append(jax.tree.map(lambda leaf, n=number: np.asarray(leaf)[:n], made))
        state = state if apart is None else apart.renewed(state, int(state.round))
        first += number
    said, contexts = each[0]
    if len(each) > 1:
        said, contexts = jax.tree.map(lambda *leaves: np.concatenate(leaves), *each)
    each_one = zip(unstacked(X, contexts), said.query.tolist(), strict=True)
    return said, [one if waits else None for one, waits in each_one], state


def unstacked(X: np.ndarray, contexts: PyTree) -> list[Example]:
    """Examples of inputs (n, D) and contexts, stacked."""
    leaves, structure = jax.tree.flatten(contexts)
    each = ([leaf[at] for leaf in leaves] for at in range(len(X)))
    return [Example(x, jax.tree.unflatten(structure, own)) for x, own in zip(X, each, strict=True)]


def awaited(learner: Learner, state: PyTree, X: np.ndarray) -> tuple[list[Example], PyTree]:
    """The inputs (n, D) as examples that wait, wanted or not, and the state that awaits them."""
    examples = list[Example]()
    for first in range(0, len(X), TOGETHER):
        some = X[first : first + TOGETHER]
        contexts, state = _await(learner, state, np.int32(len(some)))
        examples += unstacked(some, jax.tree.map(np.asarray, contexts))
    return examples, state


def learned(
    learner: Learner, state: PyTree, known: Sequence[tuple[Example, float, bool]]
) -> PyTree:
    """The state after labels of examples, one after the other; True: the label was asked for."""
    apart = renewals_of(learner)
    rounds, first = learner if apart is None else apart.rounds, 0
    while first < len(known):
        number = int(min(TOGETHER, len(known) - first, _until(apart, state)))
        some = known[first : first + number]
        each = [(example, np.float32(y), np.bool_(asked)) for example, y, asked in some]
        after = _learn(rounds, state, *jax.tree.map(_filled_up, *each), np.int32(number))
        # the round is that of the state before, for which nothing needs to be waited
        state = after if apart is None else apart.renewed(after, int(state.round) + number)
        first += number
    return state


def until_renewal(learner: Learner, state: PyTree) -> float:
    """The number of rounds before the next renewal; infinite without any."""
    return _until(renewals_of(learner), state)


def _until(apart: Any, state: PyTree) -> float:
    return math.inf if apart is None else apart.after(now := int(state.round)) - now


def _filled_up(*leaves: Any) -> np.ndarray:
    """Leaves as the first rows of an array of ``TOGETHER`` rows, the others zero."""
    array = np.zeros((TOGETHER, *np.shape(leaves[0])), leaves[0].dtype)
    for at, leaf in enumerate(leaves):
        array[at] = leaf
    return array


def _predicted(
    learner: Learner, state: PyTree, X: Any, number: Any, *, wants_all: bool
) -> tuple[tuple[Prediction, PyTree], PyTree]:
    """The predictions and contexts of the first ``number`` of ``TOGETHER`` rows, and the state."""

    def one(state: PyTree, at: Any) -> tuple[PyTree, tuple[Prediction, PyTree]]:
        context = abilities.context(learner, state)
        prediction, asked = learner.ask(state, X[at])
        if not wants_all:
            none = learner._label(state, jnp.zeros(learner._label_shape))
            skipped = functools.partial(_late, learner, asked, context, X[at], none, False)
            asked = jax.lax.cond(prediction.query, lambda: asked, skipped)
        return asked, (prediction, context)

    return _turns(one, state, number)


def _received(
    learner: Learner, state: PyTree, examples: Example, labels: Any, asked: Any, number: Any
) -> PyTree:
    """The state after the first ``number`` of ``TOGETHER`` labels."""

    def turn(at: Any, state: PyTree) -> PyTree:
        (x, context), y, wanted = jax.tree.map(lambda leaf: leaf[at], (examples, labels, asked))
        return _late(learner, state, context, x, learner._label(state, y), wanted)

    return jax.lax.fori_loop(0, number, turn, state)


def _late(learner: Learner, state: PyTree, context: PyTree, x: Any, y: Any, asked: Any) -> PyTree:
    """The state after one label of an example with an earlier context."""
    then = abilities.with_context(learner, state, context)
    return reported(learner, state, learned_late(learner, state, then, x, y, asked))


def _awaiting(learner: Learner, state: PyTree, number: Any) -> tuple[PyTree, PyTree]:
    """The contexts of the first ``number`` of ``TOGETHER`` examples, and the state after them."""

    def one(state: PyTree, at: Any) -> tuple[PyTree, PyTree]:
        context = abilities.context(learner, state)
        return abilities.awaiting(learner, state, jnp.asarray(True)), context

    return _turns(one, state, number)


def _turns(one: Callable[[PyTree, Any], Any], state: PyTree, number: Any) -> tuple[Any, PyTree]:
    """The stacked results of ``number`` turns of ``TOGETHER``, and the state after them."""
    like = jax.eval_shape(one, state, 0)[1]
    none = jax.tree.map(lambda leaf: jnp.zeros((TOGETHER, *leaf.shape), leaf.dtype), like)
    after, found = scan_first(one, state, none, number)
    return found, after


_await = Kept(_awaiting)
_predict, _learn = Kept(_predicted, quickly=LARGE), Kept(_received, quickly=LARGE)
