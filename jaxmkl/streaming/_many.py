"""Runs of one stream for many keys, on a CPU: in groups and segments of few shapes.

A segment of a group is one program, whatever the length of the stream and the number of keys, and
renewals are programs of their own, as in :func:`jaxmkl.run`. Elsewhere all runs are one program.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._learner import Learner
from jaxmkl._programs import Kept
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.streaming import _spread
from jaxmkl.streaming._engine import (
    Plan,
    Rows,
    behind,
    num_blocks,
    padded_length,
    room_for,
    scan_rows,
    until,
)
from jaxmkl.streaming._renewals import Renewals

_WASTE = 4 / 3  # runs that are played, in units of those that are wanted


def many_in_segments(
    learner: Learner,
    keys: jax.Array,
    examples: tuple[Inputs, Labels],
    orders: np.ndarray | None,
    plan: Plan,
) -> tuple[PyTree, PyTree]:
    """States and records of the runs of all keys, with leading axis S.

    ``examples`` are in the dtype of the states, and ``orders`` (S, T), or None, are the rows.
    """
    X, S = examples[0], len(keys)
    T, D = X.shape

    def held() -> PyTree:
        # of more room in a state a block uses little, which a cache need not hold
        state = learner.init(jax.random.key(0), D, X.dtype)
        return state, learner.encode(state, jnp.zeros((plan.block_size, D), X.dtype))

    size = _size_of_groups(S, _spread.at_once(held, S, _spread.CACHE))
    orders = np.broadcast_to(np.arange(T), (S, T)) if orders is None else orders
    begin = partial(_begun, learner, num_inputs=D, dtype=np.dtype(X.dtype).name)
    groups, renewals = [], Renewals.of(learner)
    words, impl = np.asarray(jax.random.key_data(keys)), jax.random.key_impl(keys)
    for first in range(0, S, size):
        places = np.minimum(np.arange(first, first + size), S - 1)
        # in host memory, where no number of keys is compiled
        own = jax.random.wrap_key_data(jax.device_put(words[places]), impl=impl)
        states = begin(own, capacity=padded_length(T))
        groups.append(_played(learner, renewals, states, examples, orders[places], plan))
    return behind(groups, [min(size, S - first) for first in range(0, S, size)])


def _size_of_groups(number: int, most: int) -> int:
    """How many runs a group has: a power of two, so that few sizes are compiled.

    >>> [_size_of_groups(number, 8) for number in (1, 3, 5, 8, 10, 32)]
    [1, 4, 2, 8, 4, 8]
    """
    sizes = [1 << k for k in range((2 * most).bit_length()) if 1 << k < 2 * most]
    return max(size for size in sizes if -(-number // size) * size <= _WASTE * number)


@partial(Kept, on_host=True)
def _begun(
    learner: Learner, keys: jax.Array, *, num_inputs: int, dtype: str, capacity: int
) -> PyTree:
    """The states of runs before the first round, with room for the supports that may come."""

    def one(key: jax.Array) -> PyTree:
        state = learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        return learner.enlarged(state, capacity)

    return jax.vmap(one)(keys)


def _played(
    learner: Learner,
    renewals: Renewals | None,
    states: PyTree,
    examples: tuple[Inputs, Labels],
    orders: np.ndarray,
    plan: Plan,
) -> tuple[PyTree, PyTree]:
    """States after, and records of, the runs of one group, in orders (S, T) of the rows."""
    number, length = orders.shape
    room, at, parts, lengths = room_for(examples[0], runs=number), 0, [], []
    playing = learner if renewals is None else renewals.rounds
    while at < length:
        stop = min(length, at + until(at, length, room, renewals))
        # behind the last row any will do
        rows = np.pad(orders[:, at:stop], ((0, 0), (0, room - (stop - at))), mode="edge")
        X, y = jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], examples)
        states, recorded = _run_group(playing, states, X, y, stop - at, plan=plan)
        if renewals is not None:
            states = renewals.renewed(states, stop)
        parts.append(recorded)
        lengths.append(stop - at)
        at = stop
    return states, behind(parts, lengths, axis=1)


@Kept
def _run_group(
    learner: Any, states: PyTree, X: Inputs, y: Labels, length: Any, *, plan: Plan
) -> tuple[PyTree, PyTree]:
    """Runs of states that are in the same round, over rows of their own (S, R, ...)."""
    round = jax.vmap(lambda state: state.round)(states)[0]
    blocks = num_blocks(jax.tree.map(lambda leaf: leaf[0], states), length, plan.block_size)

    def one(state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, PyTree]:
        # a number that all share: else where blocks begin would be a choice for each
        leaves, structure = jax.tree.flatten(state)
        shared = [round if leaf is state.round else leaf for leaf in leaves]
        state = jax.tree.unflatten(structure, shared)
        return scan_rows(learner, state, Rows(X, y, length=length), plan, blocks)

    return jax.vmap(one)(states, X, y)
