"""Drivers of runs side by side: over one stream for many keys, and fleets of many streams.

On a CPU, runs advance in groups and segments of few shapes: a segment of a group is one program,
whatever the length of the streams and their number. So do runs of one stream on an accelerator.
Fleets on accelerators are one program, and so are runs on several devices and inside a trace.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import take
from jaxmkl._checks import refuse_unless
from jaxmkl._devices import made_on_host, on_accelerator
from jaxmkl._learner import Learner, require_learner
from jaxmkl._programs import LARGE, Kept
from jaxmkl._renewals import renewals_of
from jaxmkl._types import Inputs, Labels, PyTree, Records, State
from jaxmkl.streaming import _engine, _spread
from jaxmkl.streaming._engine import Plan, Record, Rows, plan_of, room_of, run_rows, without_info
from jaxmkl.streaming._warnings import refuse_and_warn, troubles, warn_of_examples, warned
from jaxmkl.streaming.examples import Examples, check_states
from jaxmkl.streaming.sparse import stored

# Rows of a group: more are no faster, and fewer need less padding. A run has 64 of them at most.
_MOST = 256 * 64
_BLOCK = 32  # of fleets


def permutations(keys: jax.Array, num_examples: int) -> jax.Array:
    """The orders (S, T) in which :func:`run_many` with the same keys takes the examples.

    Raises:
      ValueError: if ``keys`` are not as in :func:`run_many`, or ``num_examples`` is not a count.

    >>> sorted(permutations(jax.random.split(jax.random.key(0), 2), 5)[1].tolist())
    [0, 1, 2, 3, 4]
    """
    _require_keys(keys)
    number = pytree.as_count("permutations", "num_examples", num_examples, minimum=0)
    program = _permuted if on_accelerator(keys) else _permuted_on_host
    return program(keys, num_examples=number)


def _require_keys(keys: jax.Array) -> None:
    typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    given = f"shape {jnp.shape(keys)}, dtype {getattr(keys, 'dtype', type(keys).__name__)}"
    wanted = "a one-dimensional array of typed keys (jax.random.split of a jax.random.key)"
    refuse_unless(typed and keys.ndim == 1, f"keys must be {wanted}; got {given}")


def _permutations(keys: jax.Array, *, num_examples: int) -> jax.Array:
    def one(key: jax.Array) -> jax.Array:
        return jax.random.permutation(jax.random.fold_in(key, 1), num_examples)

    # the compiler for TPUs takes minutes for many sorts side by side
    one_by_one = partial(jax.lax.map, one)
    return jax.lax.platform_dependent(keys, tpu=one_by_one, default=jax.vmap(one))


_permuted, _permuted_on_host = Kept(_permutations), Kept(_permutations, on_host=True)


def run_many(
    learner: Learner[State, Any, Any],
    keys: jax.Array,
    X: Inputs,
    y: Labels,
    *,
    permute: bool = True,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
    mesh: Mesh | None = None,
) -> tuple[State, Records]:
    """Run a learner over a stream once for each key, in one call.

    As many runs advance side by side as the device's memory, or a CPU's cache, has room for; of
    more runs, each core of a CPU advances some.

    Each run has its own initialisation, ``learner.init(jax.random.fold_in(key, 0), D)``. Runs
    advance in groups of a power of two and in segments, as in :func:`jaxmkl.run`, so lengths of
    the same segments, and numbers of keys up to that power of two, share a program. On several
    devices and inside a trace, all runs are one program, which gathers rows by blocks.

    Args:
      learner: any learner.
      keys: typed PRNG keys (S,), such as those of ``jax.random.split``. If they lie on several
        devices in equal parts, the runs are distributed likewise.
      X, y, block_size, record, delay: as in :func:`jaxmkl.run`.
      permute: whether each run has its own order of the examples, that of :func:`permutations`.
      mesh: a ``jax.sharding.Mesh`` over whose devices the runs are distributed, whatever their
        number; the devices may be of several processes (:mod:`jaxmkl.guide.many_devices`). While
        they run, devices do not wait for each other. Inside a trace it is ignored.

    Returns:
      States and records with leading axis S; records are in each run's own order. On a mesh they
      stay distributed if the devices divide S; else every device has all of them.

    Raises:
      ValueError: as :func:`jaxmkl.run`, and for keys that are not a one-dimensional array of typed
        keys.

    >>> import jaxmkl
    >>> keys = jax.random.split(jax.random.key(1), 4)
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> run_many(jaxmkl.raker(), keys, X, X[:, 0])[1].loss.shape
    (4, 200)
    """
    require_learner("run_many", learner)
    _require_keys(keys)
    examples = Examples.of(learner, keys, X, y)
    T = examples.length
    plan = plan_of("run_many", learner, block_size, record, delay, T)
    sharding = _spread.sharding_of("run_many", mesh, keys)
    sharding = None if examples.traced else sharding
    given = learner, keys, examples.X.array, examples.y.array
    room = _spread.room_for(given, sharding)
    plan = plan.on(_spread.home_of(given, sharding))
    program = partial(_run_many, plan=plan, permute=permute, room=room)
    if examples.traced:
        return program((learner, *examples.cast()), keys, sharding=None)
    warn_of_examples("run_many", learner, examples)
    if room is not None and sharding is None and len(keys):
        runs = _many_in_segments(learner, keys, examples, permute, plan, room)
    else:
        some = (_engine.placed(one, examples.dtype, T) for one in (examples.X, examples.y))
        runs = _spread.distributed(program, sharding, (learner, *some), keys)
    refuse_and_warn("run_many", runs[0], examples)
    if not plan.delay and len(keys):
        warned("run_many", learner, examples, runs[1])
    return runs


def _many_in_segments(
    learner: Learner,
    keys: jax.Array,
    examples: Examples,
    permute: bool,
    plan: Plan,
    memory: _spread.Room,
) -> tuple[PyTree, Records]:
    """States and records of the runs of all keys, with leading axis S."""
    X, y, dtype = examples.X.array, examples.y.array, examples.dtype
    (T, D), S = X.shape, len(keys)
    kind: Any = {"num_inputs": D, "dtype": dtype.name}
    capacity = _engine.capacity_for(T)
    # a block uses only a part of a larger capacity, so a cache need not hold it all
    held = kind | {"capacity": 1 if memory.is_cache else capacity}
    like = _begin.eval_shape(learner, jax.ShapeDtypeStruct((), keys.dtype), **held)
    size = _size_of_groups(learner, like, S, T, plan.block_size, memory)
    room = room_of(T, size * stored(X).shape[1])
    orders = permutations(keys, T) if permute else np.broadcast_to(np.arange(T), (S, T))
    # compilers for accelerators take a minute for the first state of kernels that are learned
    on_host = memory.is_cache or renewals_of(learner) is not None
    begin = _begin if on_host else _begin_there

    def states(places: np.ndarray) -> PyTree:
        return begin(learner, rows_at(keys, places), capacity=capacity, **kind)

    if memory.is_cache:
        orders = np.asarray(orders)

        def rows(places: np.ndarray, start: int, stop: int) -> tuple:
            # after the last row, any row will do
            pad = (0, 0), (0, room - stop + start)
            found = np.pad(orders[places, start:stop], pad, mode="edge")
            some = (jax.tree.map(lambda leaf: np.asarray(leaf)[found], array) for array in (X, y))
            return *(array.astype(dtype) for array in some), stop - start
    else:
        there = [_engine.placed(one, dtype, T) for one in (examples.X, examples.y)]

        def rows(places: np.ndarray, start: int, stop: int) -> tuple:
            found = _engine.taken(orders[places], start, room=room, axis=1)
            return *_in_orders(there, found), stop - start

    return _in_groups(learner, states, rows, (S, T), size, room, 0, plan)


_in_orders = Kept(take)


@Kept
def _run_many(
    given: tuple, keys: Any, *, plan: Plan, permute: bool, room: Any, sharding: Any
) -> tuple[PyTree, Records]:
    """Runs of all keys over one stream; ``given`` holds learner, X and y."""

    def begin(given: tuple, key: jax.Array, capacity: int) -> PyTree:
        learner, X, _ = given
        return _begun(learner, key, num_inputs=X.shape[1], dtype=X.dtype, capacity=capacity)

    def group(given: tuple, keys: jax.Array) -> tuple[PyTree, Records]:
        learner, X, y = given

        def one(key: jax.Array, order: Any) -> tuple[PyTree, Records]:
            rounds = partial(_engine.scan_rows, rows=Rows(X, y, order), plan=plan)
            return _engine.with_late_labels(
                learner, begin(given, key, X.shape[0]), plan.delay, rounds
            )

        orders = permutations(keys, X.shape[0]) if permute else None
        if len(keys) == 1:  # conditions stay conditions, and this is traced in half of the time
            return jax.tree.map(lambda leaf: leaf[None], one(*take((keys, orders), 0)))
        return jax.vmap(one)(keys, orders)

    def held(given: tuple, keys: jax.Array) -> PyTree:
        # a block uses only a part of a larger capacity, so a cache need not hold it all
        state = begin(given, keys[0], 1 if room.is_cache else given[1].shape[0])
        return _held(given[0], state, block_size=plan.block_size)

    return _spread.in_one_program(group, held, given, keys, room, sharding)


def _begun(
    learner: Learner, keys: jax.Array, *, num_inputs: int, dtype: Any, capacity: int = 1
) -> PyTree:
    """The state before a run, or the states before several, with room for new supports."""

    def one(key: jax.Array) -> PyTree:
        state = learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        return abilities.enlarged(learner, state, capacity)

    return (jax.vmap(one) if keys.ndim else one)(keys)


_begin, _begin_there = Kept(_begun, on_host=True), Kept(_begun)


def run_fleet(
    learner: Learner,
    states: State,
    X: Inputs,
    y: Labels,
    *,
    lengths: Any = None,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
    mesh: Mesh | None = None,
) -> tuple[State, Records]:
    """Run many small learners, each over a stream of its own, side by side.

    With one learner for each customer, sensor or machine, M states of the same learner advance
    together, and each sees only its own examples. Each result equals :func:`jaxmkl.run` of that
    state and stream as closely as runs of two block sizes do. To continue the streams, call it
    again with the states it returned; :func:`jaxmkl.save` and :func:`jaxmkl.load` take them all.

    On a CPU they advance in groups and segments, as in :func:`jaxmkl.run_many`: another length
    compiles nothing if it has the same segments, or up to 64 rows the same next power of two; nor
    does another number of streams, if it has the same next power of two or fills groups.

    States begin as ``jax.vmap(lambda key: learner.init(key, D))(keys)``, with keys (M,). If all
    keys are equal, all have the same random features, else each has its own. A single state is
    ``jax.tree.map(lambda leaf: leaf[m], states)``, for :func:`jaxmkl.run` or ``learner.predict``.

    Args:
      learner: any learner.
      states: the states of the M streams, all leaves with the leading axis M.
      X: inputs (M, T, D), real numbers.
      y: targets (M, T), or several (M, T, K); labels as in :func:`jaxmkl.run`, of the same classes
        for all streams, and in words only at the first call.
      lengths: (M,) integers from 0 to T, the number of examples of each stream; by default T. Rows
        after these are ignored, and the state of a stream of length 0 does not change.
      block_size: examples per block, by default 32 or the learner's period, and at most the next
        power of two of T; it only changes speed. Set it to have the same bits wherever streams
        are cut.
      record, delay: as in :func:`jaxmkl.run`.
      mesh: as in :func:`jaxmkl.run_many`; by default streams are distributed as the states are.

    Returns:
      The states, and the records with leading axes M and T; after a stream's length these are
      NaN, or 0 if they are not floating-point numbers.

    Raises:
      ValueError: as :func:`jaxmkl.run`, and for leading axes or lengths that do not fit.

    Warns:
      RuntimeWarning: as :func:`jaxmkl.run`.

    >>> import jaxmkl
    >>> learner = jaxmkl.raker(jaxmkl.Gaussian([0.3, 1.0, 3.0]), num_features=20)
    >>> keys = jax.random.split(jax.random.key(0), 4)
    >>> states = jax.jit(jax.vmap(lambda key: learner.init(key, num_inputs=2)))(keys)
    >>> X = np.random.default_rng(0).normal(size=(4, 100, 2))
    >>> states, outputs = run_fleet(learner, states, X, X[..., 0], lengths=[100, 7, 0, 50])
    >>> states.round.tolist(), outputs.loss.shape
    ([100, 7, 0, 50], (4, 100))
    """
    require_learner("run_fleet", learner)
    state, M = check_states("run_fleet", learner, states)
    sharding = _spread.sharding_of("run_fleet", mesh, jax.tree.leaves(states)[0])
    examples = Examples.of_fleet(learner, states, state, X, y, lengths)
    X, y, lengths, dtype = examples.X, examples.y, examples.lengths, examples.dtype
    T, D = X.array.shape[1:]
    filled = 1 << (T - 1).bit_length()  # rows of padded streams
    if block_size is None:
        block_size = min(learner.period or _BLOCK, filled)
    plan = plan_of("run_fleet", learner, block_size, record, delay, T)
    sharding = None if examples.traced else sharding
    given = learner, states, X.array, y.array, lengths
    room = _spread.room_for(given, sharding)
    plan = plan.on(_spread.home_of(given, sharding))
    program = partial(_run_fleet, plan=plan, room=room)
    if examples.traced:
        streams = states, *examples.cast(), jnp.asarray(lengths, jnp.int32)
        return program(learner, streams, sharding=None)
    warn_of_examples("run_fleet", learner, examples)
    before, capacity = troubles(states), _engine.capacity_wanted(learner, states, lengths)
    if sharding is None and room == _spread.CACHE:
        size = _size_of_groups(learner, state, M, filled, plan.block_size, room)
        length = filled if T <= 64 else room_of(T, size * D)

        def begin(places: np.ndarray) -> PyTree:
            return _engine.with_room(learner, rows_at(states, places), capacity)

        def rows(places: np.ndarray, start: int, stop: int) -> tuple:
            pad = [(0, 0), (0, length - stop + start), (0, 0)]
            some = (np.asarray(np.asarray(one.array)[places, start:stop], dtype) for one in (X, y))
            some = (np.pad(array, pad[: array.ndim]) for array in some)
            return *some, np.clip(lengths[places] - start, 0, stop - start)

        # states may be in different rounds, so renewals stay within the rounds
        after, recorded = _in_groups(learner, begin, rows, (M, T), size, length, None, plan)
    else:
        some = (_engine.placed(one, dtype, filled, axis=1) for one in (X, y))
        parts = _engine.with_room(learner, states, capacity), *some, lengths
        after, recorded = _spread.distributed(program, sharding, learner, parts)
        recorded = recorded if filled == T else jax.tree.map(lambda leaf: leaf[:, :T], recorded)
    refuse_and_warn("run_fleet", after, examples, before)
    return after, recorded


@Kept
def _run_fleet(
    learner: Learner, streams: tuple, *, plan: Plan, room: Any, sharding: Any
) -> tuple[PyTree, Records]:
    """Run the streams; ``streams`` are states, X, y and lengths, each with leading axis M."""

    def group(learner: Learner, streams: tuple) -> tuple[PyTree, Records]:
        states, X, y, lengths = streams
        rounds = partial(side_by_side, X=X, y=y, lengths=lengths, plan=plan)
        return _engine.with_late_labels(learner, states, plan.delay, rounds)

    def held(learner: Learner, streams: tuple) -> PyTree:
        state, X = take(streams[:2], 0)
        return X, _held(learner, state, block_size=plan.block_size)

    return _spread.in_one_program(group, held, learner, streams, room, sharding)


# --- groups of runs ------------------------------------------------------------------------------


def _in_groups(
    learner: Learner,
    states: Callable[[np.ndarray], PyTree],
    rows: Callable[[np.ndarray, int, int], tuple],
    shape: tuple[int, int],
    size: int,
    room: int,
    begun: int | None,
    plan: Plan,
) -> tuple[PyTree, Records]:
    """States and records of many runs, in groups of one size; ``shape`` counts runs and rows.

    The last group is padded with copies of the last run. ``states`` takes places (S,) of runs, and
    returns their states before the first row; ``rows`` takes places, first and last row, and
    returns X, y, lengths of these runs; ``room`` and ``begun`` are as for :func:`in_segments`.
    """

    (number, T), alone = shape, size == 1 and begun is not None

    def group(go_on: Callable, places: np.ndarray) -> tuple[PyTree, Records]:
        def segment(learner: Any, states: PyTree, start: int, stop: int) -> tuple[PyTree, Records]:
            go_on()
            X, y, length = rows(places, start, stop)
            if not alone:
                return run_group(learner, states, X, y, length, plan=plan)
            # the only run of a group, by the programs of jaxmkl.run
            X, y = take((X, y), 0)
            return run_rows(learner, states, Rows(X, y, length=length), plan=plan)

        some = rows_at(states(places), 0) if alone else states(places)
        given = learner, some, T, room, begun, plan.delay
        found = _engine.in_segments(segment, *given, axis=0 if alone else 1)
        return rows_at(found, None) if alone else found

    firsts = range(0, number, size)
    each = [np.minimum(np.arange(size) + first, number - 1) for first in firsts]
    groups = _spread.on_all_cores(group, each, plan.platform)
    return _engine.behind(groups, [min(size, number - first) for first in firsts])


def _size_of_groups(
    learner: Learner, like: PyTree, number: int, length: int, block_size: int, memory: _spread.Room
) -> int:
    """The number of runs of a group, a power of two: as many as there is room for.

    There are ``number`` runs, of states ``like`` this one.
    """
    held = _held.eval_shape(learner, like, block_size=block_size)
    if memory.is_cache:
        number = min(number, max(1, _MOST // min(length, 64)))
    return 1 << (_spread.fitting(held, number, memory) - 1).bit_length()


@partial(jax.jit, static_argnames="block_size")
def _held(learner: Any, state: PyTree, *, block_size: int) -> tuple[PyTree, PyTree]:
    """The arrays that a run holds during a block: its state, and codes."""
    X = jnp.zeros((block_size, learner.num_inputs(state)), learner.dtype(state))
    return state, learner.encode(state, X)


def rows_at(tree: PyTree, places: Any) -> PyTree:
    """The rows of all arrays at some places, taken in host memory; with None, all as one row."""
    return jax.tree.map(lambda leaf: made_on_host(lambda array: array[places], leaf), tree)


def side_by_side(
    learner: Any, states: PyTree, X: Inputs, y: Labels, lengths: Any, *, plan: Plan
) -> tuple[PyTree, Records]:
    """Runs over rows of their own (S, R, ...), of which the first ``lengths`` are examples.

    If ``lengths`` are one number, all states are in the same round. If they are (S,), the records
    after them are NaN or zeros.
    """
    rounds, in_step = jax.vmap(lambda state: state.round)(states), jnp.ndim(lengths) == 0
    # one number for all: otherwise each iteration would select what to keep, for all states
    blocks = jnp.max(_engine.num_blocks(rounds, lengths, plan.block_size))

    def one(state: PyTree, X: Inputs, y: Labels, length: Any) -> tuple[PyTree, Records]:
        rows = Rows(X, y, length=length)
        if in_step:  # likewise one start of blocks for all
            own = state.round
            state = jax.tree.map(lambda leaf: rounds[0] if leaf is own else leaf, state)
        state, recorded = _engine.scan_rows(learner, state, rows, blocks, plan=plan)
        if in_step:
            return state, recorded

        def blanked(leaf: jax.Array) -> jax.Array:
            blank = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0
            present = jnp.arange(len(leaf), dtype=jnp.int32) < length
            present = present.reshape(-1, *(1,) * (leaf.ndim - 1))
            return jnp.where(present, leaf, jnp.asarray(blank, leaf.dtype))

        return state, jax.tree.map(blanked, recorded)

    return jax.vmap(one, in_axes=(0, 0, 0, None if in_step else 0))(states, X, y, lengths)


# side by side a round has more operations; compiled quickly, those of small learners run slower
run_group = Kept(side_by_side, quickly=LARGE + 200)
