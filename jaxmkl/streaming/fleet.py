"""Fleets: many small learners side by side, each on a stream of its own."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike

from jaxmkl._devices import whole
from jaxmkl._learner import Learner, require_learner
from jaxmkl._programs import Kept
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.streaming import _spread, checks
from jaxmkl.streaming._engine import (
    Plan,
    Record,
    Rows,
    num_blocks,
    padded_length,
    plan_of,
    room_to_grow,
    scan_rows,
)
from jaxmkl.streaming.run import without_info

_BLOCK = 32


@Kept
def _run_fleet(
    learner: Learner, streams: tuple, *, plan: Plan, room: Any, sharding: Any
) -> tuple[PyTree, PyTree]:
    """Each of the ``streams``, states, X, y and lengths, with these as their leading axis."""
    B = plan.block_size

    def play(learner: Learner, streams: tuple) -> tuple[PyTree, PyTree]:
        def group(streams: tuple) -> tuple[PyTree, PyTree]:
            states, _, _, lengths = streams
            # a number that all share: else each turn would choose, for all states, what to keep
            blocks = jnp.max(jax.vmap(partial(num_blocks, block_size=B))(states, lengths))

            def one(state: PyTree, X: Inputs, y: Labels, length: Any) -> tuple[PyTree, PyTree]:
                rows = Rows(X, y, length=length)
                state, recorded = scan_rows(learner, state, rows, plan, blocks)
                present = jnp.arange(len(X), dtype=jnp.int32) < length
                return state, jax.tree.map(partial(_blanked, present), recorded)

            return jax.vmap(one)(*streams)

        def held() -> PyTree:
            state, X = jax.tree.map(lambda leaf: leaf[0], streams[:2])
            return state, X, learner.encode(state, X[jnp.zeros(B, jnp.int32)])

        number = len(streams[-1])
        size = _spread.at_once(held, number, room)
        return _spread.in_groups(group, streams, size)

    return _spread.shared_out(play, sharding)(learner, streams)


def _blanked(present: jax.Array, leaf: jax.Array) -> jax.Array:
    """Records of a stream, NaN or zeros where there was no round."""
    present = present.reshape(-1, *(1,) * (leaf.ndim - 1))
    blank = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0
    return jnp.where(present, leaf, jnp.asarray(blank, leaf.dtype))


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
    """Run many small learners, each over a stream of its own, in one compiled call.

    One learner a customer, a sensor, a machine: M states of the same learner advance together, and
    each sees its own examples alone. Each equals :func:`jaxmkl.run` of that state and stream as
    far as two runs with different block sizes do. Call it again with the states it returned, and
    the streams go on; :func:`jaxmkl.save` and :func:`jaxmkl.load` take them all at once.

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
      block_size: examples per block, by default 32 or the learner's period, and no more than T
        asks for; changes speed alone. Give one to have the same bits wherever streams are cut.
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
    T = X.shape[1]
    if block_size is None:
        block_size = min(learner.period or _BLOCK, _room_for(T))
    plan = plan_of("run_fleet", learner, block_size, record, delay)
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
    before = checks.troubles(states)
    states = _with_room(learner, state, states, lengths)
    filled = (_filled(array, _room_for(T), dtype) for array in (X, y))
    states, recorded = _spread.played(program, sharding, learner, (states, *filled, lengths))
    checks.refuse_and_warn("run_fleet", states, (X, y, dtype), before)
    if _room_for(T) > T:
        recorded = jax.tree.map(lambda leaf: leaf[:, :T], recorded)
    return states, recorded


def _room_for(length: int) -> int:
    """To which of few lengths streams are filled up: for few examples at a time a power of two."""
    return 1 << (length - 1).bit_length() if length <= 64 else padded_length(length)


def _filled(array: Any, length: int, dtype: DTypeLike) -> PyTree:
    """The array (M, T, ...) in a dtype, zeros behind T up to a length."""
    pad = ((0, 0), (0, length - array.shape[1]), *((0, 0),) * (array.ndim - 2))
    if isinstance(array, jax.Array):
        array = array.astype(dtype)
        return array if array.shape[1] == length else jnp.pad(array, pad)
    with np.errstate(over="ignore"):
        return np.pad(np.asarray(array, dtype), pad)


def _with_room(learner: Learner, state: PyTree, states: PyTree, lengths: np.ndarray) -> PyTree:
    """The states with room for the supports that may come; ``state`` is like one of them."""
    capacity = learner.capacity(state)
    if capacity is None:
        return states
    used = whole(jax.vmap(learner.num_supports)(states))
    wanted = int(np.max(used + lengths))
    if wanted <= capacity:
        return states
    room = room_to_grow(int(np.max(used)), wanted, capacity)
    return jax.jit(jax.vmap(partial(learner.enlarged, capacity=room)))(states)
