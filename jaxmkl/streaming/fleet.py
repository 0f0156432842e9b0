"""Fleets: many small learners side by side, each on a stream of its own."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike

from jaxmkl._learner import Learner, require_learner
from jaxmkl._programs import Kept
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.streaming import _spread, checks
from jaxmkl.streaming._engine import (
    Plan,
    Record,
    capacity_wanted,
    plan_of,
    room_of,
    with_late_labels,
    with_room,
)
from jaxmkl.streaming._many import Streams, in_groups, rows_at, side_by_side, size_of_groups
from jaxmkl.streaming.run import without_info

_BLOCK = 32


@Kept
def _run_fleet(
    learner: Learner, streams: tuple, *, plan: Plan, room: Any, sharding: Any
) -> tuple[PyTree, PyTree]:
    """Each of the ``streams``, states, X, y and lengths, with these as their leading axis."""

    def play(learner: Learner, streams: tuple) -> tuple[PyTree, PyTree]:
        def group(streams: tuple) -> tuple[PyTree, PyTree]:
            states, X, y, lengths = streams

            def whole(learner: Any, states: PyTree) -> tuple[PyTree, PyTree]:
                return side_by_side(learner, states, X, y, lengths, plan)

            return with_late_labels(learner, states, plan.delay, whole)

        def held() -> PyTree:
            state, X = jax.tree.map(lambda leaf: leaf[0], streams[:2])
            return state, X, learner.encode(state, X[jnp.zeros(plan.block_size, jnp.int32)])

        size = _spread.at_once(held, len(streams[-1]), room)
        return _spread.in_groups(group, streams, size)

    return _spread.shared_out(play, sharding)(learner, streams)


def run_fleet(
    learner: Learner,
    states: PyTree,
    X: Inputs,
    y: Labels,
    *,
    lengths: Any = None,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
    mesh: Mesh | None = None,
) -> tuple[PyTree, PyTree]:
    """Run many small learners, each over a stream of its own, side by side.

    One learner a customer, a sensor, a machine: M states of the same learner advance together, and
    each sees its own examples alone. Each equals :func:`jaxmkl.run` of that state and stream as
    far as two runs with different block sizes do. Call it again with the states it returned, and
    the streams go on; :func:`jaxmkl.save` and :func:`jaxmkl.load` take them all at once.

    On a CPU they are played in groups and segments, as by :func:`jaxmkl.run_many`: another length
    compiles nothing above 64 rows, or up to its power of two, and neither does another number of
    streams up to its own, or where it fills groups.

    States begin as ``jax.vmap(lambda key: learner.init(key, D))(keys)``, with keys (M,); that
    learner's features may be the same for all (one key M times) or each state's own. One of them
    is ``jax.tree.map(lambda leaf: leaf[m], states)``, and goes into :func:`jaxmkl.run` or
    ``learner.predict``.

    Args:
      learner: any learner.
      states: of the M streams, all leaves with the leading axis M.
      X: inputs (M, T, D), real numbers.
      y: targets (M, T), several (M, T, K); labels as in :func:`jaxmkl.run`, of the same classes
        for all streams, and in words at the first call alone.
      lengths: (M,) integers from 0 to T: how many of a stream's rows are examples. What stands
        behind these is ignored, and the state of a stream of length 0 stays as it is. By
        default T.
      block_size: examples per block, by default 32 or the learner's period, and no more than the
        next power of two of T; changes speed alone. Give one to have the same bits wherever
        streams are cut.
      record, delay: as in :func:`jaxmkl.run`.
      mesh: as in :func:`jaxmkl.run_many`; without one, streams are shared out as the states are.

    Returns:
      The states, and the records with leading axes M and T; behind a stream's length these are
      NaN, or 0 where they are no floating-point numbers.

    Raises:
      ValueError: as :func:`jaxmkl.run`, and for leading axes or lengths that do not fit.

    Warns:
      RuntimeWarning: as :func:`jaxmkl.run`.

    >>> import jaxmkl
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.3, 1.0, 3.0]), num_features=20)
    >>> keys = jax.random.split(jax.random.key(0), 4)
    >>> states = jax.vmap(lambda key: learner.init(key, num_inputs=2))(keys)
    >>> X = jax.random.normal(jax.random.key(1), (4, 100, 2))
    >>> states, outputs = run_fleet(learner, states, X, X[..., 0], lengths=[100, 7, 0, 50])
    >>> states.round.tolist(), outputs.loss.shape
    ([100, 7, 0, 50], (4, 100))
    """
    require_learner("run_fleet", learner)
    state, number = checks.check_states("run_fleet", learner, states)
    dtype = learner.dtype(state)
    sharding = _spread.sharding_of("run_fleet", mesh, jax.tree.leaves(states)[0])
    X, y, lengths = checks.check_streams(
        learner, X, y, lengths, (number, learner.num_inputs(state)), dtype, states.round
    )
    T, D = X.shape[1:]
    filled = 1 << (T - 1).bit_length()  # rows of streams that are filled up
    if block_size is None:
        block_size = min(learner.period or _BLOCK, filled)
    plan = plan_of("run_fleet", learner, block_size, record, delay, T)
    traced = checks.is_traced(learner, states, X, y, lengths)
    sharding = None if traced else sharding
    given = learner, states, X, y, lengths
    room = _spread.room_for(given, sharding)
    plan = plan.on(_spread.home_of(given, sharding))
    program = partial(_run_fleet, plan=plan, room=room)
    if traced:
        streams = states, X.astype(dtype), y.astype(dtype), jnp.asarray(lengths, jnp.int32)
        return program(learner, streams, sharding=None)
    checks.warn_of_examples("run_fleet", learner, (X, y), dtype, number=int(np.sum(lengths)))
    before, capacity = checks.troubles(states), capacity_wanted(learner, states, lengths)
    examples = X, y
    if sharding is None and room == _spread.CACHE:
        size = size_of_groups(learner, state, number, filled, plan.block_size)
        length = filled if T <= 64 else room_of(T, size * D)
        X, y = map(np.asarray, examples)

        def rows(places: np.ndarray, start: int, stop: int) -> tuple:
            some = (_filled(array[places, start:stop], length, dtype) for array in (X, y))
            return *some, np.clip(lengths[places] - start, 0, stop - start)

        def begin(places: np.ndarray) -> PyTree:
            return with_room(learner, rows_at(states, places), capacity)

        # states may be in rounds of their own: renewals stay amid these
        runs = Streams(None, begin, rows)
        after, recorded = in_groups(learner, runs, number, size, T, length, plan)
    else:
        some = (_filled(array, filled, dtype) for array in examples)
        parts = with_room(learner, states, capacity), *some, lengths
        after, recorded = _spread.played(program, sharding, learner, parts)
        recorded = recorded if filled == T else jax.tree.map(lambda leaf: leaf[:, :T], recorded)
    checks.refuse_and_warn("run_fleet", after, (*examples, dtype), before)
    return after, recorded


def _filled(array: Any, length: int, dtype: DTypeLike) -> PyTree:
    """The array (M, T, ...) in a dtype, zeros behind T up to a length."""
    pad = ((0, 0), (0, length - array.shape[1]), *((0, 0),) * (array.ndim - 2))
    if isinstance(array, jax.Array):
        return jnp.pad(array.astype(dtype), pad)
    with np.errstate(over="ignore"):
        return np.pad(np.asarray(array, dtype), pad)
