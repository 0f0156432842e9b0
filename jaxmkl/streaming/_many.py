"""Runs side by side on a CPU: in groups and segments of few shapes.

A segment of a group is one program, whatever the length of the streams and their number. On
accelerators, and among several devices, all runs are one program.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._learner import Learner
from jaxmkl._programs import LARGE, Kept
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.streaming import _spread
from jaxmkl.streaming._engine import (
    Plan,
    Rows,
    behind,
    capacity_for,
    in_segments,
    made_on_host,
    num_blocks,
    room_of,
    scan_rows,
    with_late_labels,
)
from jaxmkl.streaming.sparse import SparseRows

# Rows of a group, of which a run has 64 at most: more are no faster, fewer leave less to fill up.
_MOST = 256 * 64


def size_of_groups(
    learner: Learner, like: PyTree, number: int, length: int, block_size: int
) -> int:
    """How many of so many runs, of states like this one, are a group: a power of two.

    It is as many as a CPU's cache has room for.
    """
    held = _held.eval_shape(learner, like, block_size=block_size)
    number = min(number, max(1, _MOST // min(length, 64)))
    return 1 << (_spread.fitting(held, number, _spread.CACHE) - 1).bit_length()


@partial(jax.jit, static_argnames="block_size")
def _held(learner: Any, state: PyTree, *, block_size: int) -> tuple[PyTree, PyTree]:
    X = jnp.zeros((block_size, learner.num_inputs(state)), learner.dtype(state))
    return state, learner.encode(state, X)


class Streams(NamedTuple):
    """Runs that are played in groups, by the places (S,) of those of a group."""

    begun: int | None
    """The round in which all begin, or None if each has its own."""
    states: Callable[[np.ndarray], PyTree]
    """Of places: states before the first row."""
    rows: Callable[[np.ndarray, int, int], tuple]
    """Of places, from where to where, X, y and the lengths as :func:`side_by_side` has them."""


def in_groups(
    learner: Learner, streams: Streams, number: int, size: int, length: int, room: int, plan: Plan
) -> tuple[PyTree, PyTree]:
    """States and records of so many runs, in groups of one size and segments of so much room.

    The last group is filled up with the last run.
    """

    def group(places: np.ndarray) -> tuple[PyTree, PyTree]:
        def play(learner: Any, states: PyTree, start: int, stop: int) -> tuple[PyTree, PyTree]:
            return run_group(learner, states, *streams.rows(places, start, stop), plan=plan)

        segments = partial(in_segments, play, length, room, streams.begun, axis=1)
        return with_late_labels(learner, streams.states(places), plan.delay, segments)

    firsts = range(0, number, size)
    groups = [group(np.minimum(np.arange(size) + first, number - 1)) for first in firsts]
    return behind(groups, [min(size, number - first) for first in firsts])


def rows_at(tree: PyTree, places: np.ndarray) -> PyTree:
    """The rows of all arrays at some places, taken in host memory."""
    return jax.tree.map(lambda leaf: made_on_host(lambda array: array[places], leaf), tree)


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
    (T, D), dtype = X.shape, np.dtype(X.dtype)
    begin = partial(_begun, learner, num_inputs=D, dtype=dtype.name, capacity=capacity_for(T))
    # of more room in a state than it begins with a block uses little
    key, options = jax.ShapeDtypeStruct((), keys.dtype), begin.keywords | {"capacity": 1}
    like = _begun.eval_shape(learner, key, **options)
    size = size_of_groups(learner, like, S, T, plan.block_size)
    numbers = (X.values if isinstance(X, SparseRows) else X).shape[1]
    room = room_of(T, size * numbers)
    orders = np.broadcast_to(np.arange(T), (S, T)) if orders is None else orders

    def rows(places: np.ndarray, start: int, stop: int) -> tuple:
        # behind the last row any will do
        found = np.pad(orders[places, start:stop], ((0, 0), (0, room - stop + start)), mode="edge")
        return *jax.tree.map(lambda leaf: np.asarray(leaf)[found], examples), stop - start

    streams = Streams(0, lambda places: begin(rows_at(keys, places)), rows)
    return in_groups(learner, streams, S, size, T, room, plan)


@partial(Kept, on_host=True)
def _begun(
    learner: Learner, keys: jax.Array, *, num_inputs: int, dtype: str, capacity: int
) -> PyTree:
    """The state of a run, or of several, before it, with room for supports that may come."""

    def one(key: jax.Array) -> PyTree:
        state = learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        return learner.enlarged(state, capacity)

    return (jax.vmap(one) if keys.ndim else one)(keys)


def side_by_side(
    learner: Any, states: PyTree, X: Inputs, y: Labels, lengths: Any, plan: Plan
) -> tuple[PyTree, PyTree]:
    """Runs over rows of their own (S, R, ...), of which the first so many are examples.

    Where ``lengths`` are one number, all states are in the same round. Where they are (S,),
    records are NaN or zeros behind them.
    """
    rounds, in_step = jax.vmap(lambda state: state.round)(states), jnp.ndim(lengths) == 0
    # a number that all share: else each turn would choose, for all states, what to keep
    blocks = jnp.max(num_blocks(rounds, lengths, plan.block_size))

    def one(state: PyTree, X: Inputs, y: Labels, length: Any) -> tuple[PyTree, PyTree]:
        rows = Rows(X, y, length=length)
        if in_step:  # likewise, where blocks begin
            leaves, structure = jax.tree.flatten(state)
            shared = [rounds[0] if leaf is state.round else leaf for leaf in leaves]
            state = jax.tree.unflatten(structure, shared)
        state, recorded = scan_rows(learner, state, rows, plan, blocks)
        if in_step:
            return state, recorded
        present = jnp.arange(X.shape[0], dtype=jnp.int32) < length
        return state, jax.tree.map(partial(_blanked, present), recorded)

    return jax.vmap(one, in_axes=(0, 0, 0, None if in_step else 0))(states, X, y, lengths)


def _blanked(present: jax.Array, leaf: jax.Array) -> jax.Array:
    """Records of a stream, NaN or zeros where there was no round."""
    present = present.reshape(-1, *(1,) * (leaf.ndim - 1))
    blank = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0
    return jnp.where(present, leaf, jnp.asarray(blank, leaf.dtype))


@partial(Kept, quickly=LARGE)
def run_group(
    learner: Any, states: PyTree, X: Inputs, y: Labels, lengths: Any, *, plan: Plan
) -> tuple[PyTree, PyTree]:
    """:func:`side_by_side`, compiled."""
    return side_by_side(learner, states, X, y, lengths, plan)
