"""The engine of all drivers: a scan over blocks of rows, and streams padded to few lengths."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, subjaxprs
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import refuse_unless
from jaxmkl._devices import device_of, is_spread, left_to_xla, on_accelerator
from jaxmkl._learner import Learner, Output
from jaxmkl._programs import Kept
from jaxmkl._ranges import reported
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.streaming import checks
from jaxmkl.streaming._carry import FewArrays, scan_in_few_arrays
from jaxmkl.streaming._renewals import Renewals
from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.wrappers.delayed import delayed

Record = Callable[[Output], PyTree]
# Rounds that a turn of the loop has on accelerators, and operations that it has, at most.
_TOGETHER, _OPERATIONS = 8, 3200
# Rows of a segment, and numbers that it has at most if it is not one of the shortest.
_ROOMS, _NUMBERS = (64, 512, 4096), 2**24


class Plan(NamedTuple):
    """The arguments of a driver that are compiled in."""

    block_size: int
    record: Record
    delay: int = 0
    platform: str = "cpu"
    """That of the device. On others than a CPU each kernel takes a while to begin."""

    def on(self, device: jax.Device) -> "Plan":
        """The plan on a device."""
        return self._replace(platform=device.platform)


def plan_of(
    driver: str,
    learner: Learner,
    block_size: int | None,
    record: Record,
    delay: int = 0,
) -> Plan:
    """Check these arguments of a driver; the learner may take smaller blocks.

    Raises:
      ValueError: for a block size below 1, a negative delay, or a ``record`` that is no function.
    """
    size = learner.preferred_block_size if block_size is None else block_size
    good = isinstance(size, int | np.integer) and size >= 1
    refuse_unless(good, f"block_size must be an integer of at least 1; got {size!r}")
    delay = pytree.as_count(driver, "delay", delay, minimum=0)
    text = f"record must be a function of a round's jaxmkl.Output; got {record!r}"
    refuse_unless(callable(record), text)
    return Plan(learner.fit_block_size(int(size)), record, delay)


class Rows(NamedTuple):
    """Examples X (T, D) and y in an order (T,), by default their own, of which some are run.

    With a ``length`` these are the first so many. Without one they are all, and the run can be
    differentiated.
    """

    X: Inputs
    y: Labels
    order: Any = None
    length: Any = None

    def at(self, positions: jax.Array, dtype: DTypeLike) -> tuple[jax.Array, jax.Array, jax.Array]:
        """X and y at some positions (B,), any row where there is none, and where there is one."""
        T = self.X.shape[0]
        present = (positions >= 0) & (positions < (T if self.length is None else self.length))
        rows = jnp.clip(positions, 0, T - 1)
        rows = rows if self.order is None else self.order[rows]
        return self.X[rows].astype(dtype), self.y[rows].astype(dtype), present


def scan_rows(
    learner: Any, state: PyTree, rows: Rows, plan: Plan, blocks: Any = None
) -> tuple[PyTree, PyTree]:
    """Run a learner over rows in blocks, and return its state and the records (T, ...).

    A block starts at a round that is a multiple of its size: of a state amid a block, the first
    block's leading rows are absent. With a length, blocks behind it cost nothing; ``blocks`` is
    their number where it is given, as runs of several lengths that advance side by side share it.
    """
    B, T = plan.block_size, rows.X.shape[0]
    if plan.delay:
        # rounds behind the last add nothing to how late labels are
        late = delayed(learner, min(plan.delay, T))
        begun, plan = late.around(state), plan._replace(delay=0)
        after, recorded = scan_rows(late, begun, rows, plan, blocks)
        return reported(learner, state, late.flushed(after).inner), recorded
    # two blocks at least: XLA unrolls a loop of one, which may round in another way
    most = max(2, -(-(T + B - 1) // B))
    offset, dtype = state.round % B, learner.dtype(state)

    def one(state: PyTree, example: tuple) -> tuple[PyTree, PyTree]:
        state, output = learner.advance(state, *example)
        return state, plan.record(output)

    def block_of(state: PyTree, number: Any) -> tuple:
        """Codes, labels and presence of the rows of a block."""
        positions = number * B + jnp.arange(B, dtype=jnp.int32) - offset
        X, y, present = rows.at(positions, dtype)
        return learner.encode(state, X), y, present

    def one_of(number: Any) -> PyTree:
        return one(state, jax.tree.map(lambda leaf: leaf[0], block_of(state, number)))[1]

    here, like = plan.platform == "cpu", jax.eval_shape(one_of, 0)
    # what is recorded of a round, in one array of each dtype
    together = FewArrays(like, here)

    def apart(state: PyTree, example: tuple) -> tuple[PyTree, PyTree]:
        state, recorded = one(state, example)
        return state, together.apart(recorded)

    def played(state: PyTree, number: Any) -> tuple[PyTree, PyTree, PyTree]:
        examples = block_of(state, number)
        codes, y, _ = examples
        if here:
            state, recorded = jax.lax.scan(apart, state, examples)
            return state, codes, recorded

        def unjudged(state: PyTree, example: tuple) -> tuple[PyTree, PyTree]:
            return learner.advance_unjudged(state, *example)

        def judged(state: PyTree, left: PyTree) -> tuple[PyTree, PyTree]:
            state, outputs = learner.judge(state, left, y)
            return state, jax.vmap(plan.record)(outputs)

        then, turns = partial(judged, state), _rounds_a_turn(one, state, examples)
        state, left = scan_in_few_arrays(unjudged, state, examples, then, turns)
        state, recorded = judged(state, left)
        return state, codes, together.apart(recorded)

    def block(state: PyTree, number: Any) -> tuple[PyTree, PyTree]:
        state, codes, recorded = played(state, number)
        return learner.close(state, codes), recorded

    if rows.length is None:
        after, recorded = jax.lax.scan(block, state, jnp.arange(most, dtype=jnp.int32))
    else:
        blocks = num_blocks(state, rows.length, B) if blocks is None else blocks
        of_block = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((B, *leaf.shape), leaf.dtype), like
        )
        like = jax.eval_shape(jax.vmap(together.apart), of_block)
        after, recorded = _scan_first(block, state, like, most, blocks)
    of_rounds = partial(jax.lax.dynamic_slice_in_dim, start_index=offset, slice_size=T)
    after = reported(learner, state, after)
    recorded = jax.tree.map(lambda leaf: of_rounds(jax.lax.collapse(leaf, 0, 2)), recorded)
    return after, jax.vmap(together.back)(recorded)


def _rounds_a_turn(one: Callable, state: PyTree, examples: PyTree) -> int:
    """How many rounds a turn of the loop over a block has on an accelerator.

    There a round takes as long as its kernels take to begin, and of several rounds together the
    compiler makes fewer. Where a round is a large program, several take minutes to compile.
    """
    first = jax.tree.map(lambda leaf: leaf[0], examples)
    number = _num_operations(jax.make_jaxpr(one)(state, first).jaxpr)
    together = max(1, min(_TOGETHER, _OPERATIONS // number))
    # a power of two, as blocks are
    return 1 << (together.bit_length() - 1)


def _num_operations(jaxpr: Jaxpr) -> int:
    """The operations of a program, those of programs inside it among them."""
    return len(jaxpr.eqns) + sum(map(_num_operations, subjaxprs(jaxpr)))


@Kept
def run_rows(learner: Any, state: PyTree, rows: Rows, *, plan: Plan) -> tuple[PyTree, PyTree]:
    """:func:`scan_rows`, compiled."""
    return scan_rows(learner, state, rows, plan)


def num_blocks(state: PyTree, length: Any, block_size: int) -> jax.Array:
    """How many blocks the next ``length`` examples of a state are in."""
    return (length + state.round % block_size + block_size - 1) // block_size


def _scan_first(
    body: Callable, state: PyTree, like: PyTree, length: int, number: Any
) -> tuple[PyTree, PyTree]:
    """As ``jax.lax.scan(body, state, arange(length))`` for the first ``number``; zeros behind.

    ``like`` has the shapes and dtypes of what the body returns beside the state.
    """

    def turn(i: Any, carry: tuple) -> tuple[PyTree, PyTree]:
        state, ys = carry
        state, y = body(state, i)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return state, jax.tree.map(put, ys, y)

    ys = jax.tree.map(lambda y: jax.lax.full((length, *y.shape), 0, y.dtype), like)
    return jax.lax.fori_loop(0, number, turn, (state, ys))


def run_padded(
    driver: str,
    learner: Learner,
    state: PyTree,
    X: Inputs,
    y: Labels,
    room: int,
    plan: Plan,
    stacklevel: int = 4,
) -> tuple[PyTree, PyTree]:
    """Run outside of any trace over X and y, in segments padded to a length of ``room``."""
    length, dtype = X.shape[0], learner.dtype(state)
    before, capacity = checks.troubles(state), learner.capacity(state)
    if capacity is not None and not checks.is_traced(state):
        used = int(learner.num_supports(state))
        if used + length > capacity:
            state = learner.enlarged(state, room_to_grow(used, used + length, capacity))
    at_once = bool(plan.delay) or is_spread(X)
    renewals = None if at_once else Renewals.of(learner)
    round, at, parts, lengths = int(state.round), 0, [], []
    while at < length:
        stop = length if at_once else min(length, at + until(round, length, room, renewals))
        some = [_segment(array, at, stop, room, dtype) for array in (X, y)]
        state, rows = left_to_xla((state, Rows(some[0], some[1], length=stop - at)))
        plan = plan.on(device_of((state, rows)))
        playing = learner if renewals is None else renewals.rounds
        state, recorded = run_rows(playing, state, rows, plan=plan)
        round = round + stop - at
        if renewals is not None:
            state = renewals.renewed(state, round)
        parts.append(recorded)
        lengths.append(stop - at)
        at = stop
    checks.refuse_and_warn(driver, state, (X, y, dtype), before, stacklevel)
    return state, behind(parts, lengths)


def until(round: int, length: int, room: int, renewals: Renewals | None) -> int:
    """How many rounds from one on are in a segment: to the next renewal, if it has room.

    Of a stream of several segments these end in multiples of the room, where blocks end: so they
    are the same wherever the stream is cut.
    """
    to_renewal = length if renewals is None else renewals.after(round) - round
    return min(to_renewal, room if length <= room else room - round % room)


def _segment(array: Any, start: int, stop: int, room: int, dtype: DTypeLike) -> PyTree:
    """Some rows of an array, padded to a length (:func:`placed`)."""
    if isinstance(array, SparseRows):
        indices, values = (leaf[start:stop] for leaf in (array.indices, array.values))
        return placed(array._with(indices, values), room, dtype)
    if start == 0 and stop == array.shape[0]:
        return placed(array, room, dtype)
    if on_accelerator(array):
        return _taken(array, start, room=room).astype(dtype)
    home = array.sharding if isinstance(array, jax.Array) and array.committed else None
    part = placed(np.asarray(array)[start:stop], room, dtype)
    return part if home is None else jax.device_put(part, home)


@Kept
def _taken(array: jax.Array, start: int, *, room: int) -> jax.Array:
    """So many rows from one on; those behind the last are any."""
    return jnp.take(array, start + jnp.arange(room, dtype=jnp.int32), axis=0, mode="clip")


def behind(trees: Sequence[PyTree], lengths: Sequence[int], axis: int = 0) -> PyTree:
    """The arrays of some trees behind each other along an axis, so much of each."""

    def joined(*leaves: jax.Array) -> jax.Array:
        first, cuts = leaves[0], [(slice(None),) * axis + (slice(n),) for n in lengths]
        if len(leaves) == 1 and first.shape[axis] == lengths[0]:
            return first
        if on_accelerator(first):
            parts = [leaf[cut] for leaf, cut in zip(leaves, cuts, strict=True)]
            return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis)
        # in host memory: there no length needs a compilation of its own
        is_key = jnp.issubdtype(first.dtype, jax.dtypes.prng_key)
        words = [jax.random.key_data(leaf) for leaf in leaves] if is_key else leaves
        host = [np.asarray(leaf)[cut] for leaf, cut in zip(words, cuts, strict=True)]
        home = first.sharding if first.committed else None
        whole = jax.device_put(np.concatenate(host, axis), home)
        impl = jax.random.key_impl(first) if is_key else None
        return jax.random.wrap_key_data(whole, impl=impl) if is_key else whole

    return jax.tree.map(joined, *trees)


def room_to_grow(used: int, wanted: int, capacity: int) -> int:
    """The next capacity of a state with supports.

    Each size is compiled: what has grown before gets twice its room at least.
    """
    return padded_length(max(wanted, 2 * capacity if used else 0))


def padded_length(length: int) -> int:
    """The next of few lengths, at most a quarter more: 64, 80, 96, 112, 128, 160, ..."""
    step = max(64, 1 << (length - 1).bit_length()) // 8 if length > 64 else 64
    return -(-length // step) * step


def room_for(X: Inputs, delay: int = 0, runs: int = 1) -> int:
    """The length to which segments of X are padded: 64, 512 or 4,096, or less of many columns.

    What lies on several devices, or whose labels come late, is one segment. Of several runs side
    by side each has rows of its own.
    """
    if is_spread(X):
        return X.shape[0]
    if delay:
        return padded_length(X.shape[0])
    columns = runs * (X.values if isinstance(X, SparseRows) else X).shape[1]
    rooms = [room for room in _ROOMS if room == _ROOMS[0] or room * columns <= _NUMBERS]
    return next((room for room in rooms if room >= X.shape[0]), rooms[-1])


def placed(array: Any, length: int, dtype: DTypeLike, fill: int = 0) -> PyTree:
    """The array in a dtype, padded to a length, on the device where it is or will be."""
    if isinstance(array, SparseRows):
        indices = placed(array.indices, length, np.int32, array.num_columns)
        return array._with(indices, placed(array.values, length, dtype))
    missing, home = length - array.shape[0], None
    pad = ((0, missing), *((0, 0) for _ in array.shape[1:]))
    ready = missing == 0 and array.dtype == dtype
    if isinstance(array, jax.Array):
        if ready:
            return array
        if on_accelerator(array) or len(array.devices()) > 1:
            return jnp.pad(array.astype(dtype), pad, constant_values=fill)
        home = array.sharding if array.committed else None
    # in host memory: there no length needs a compilation of its own
    with np.errstate(over="ignore"):
        array = np.asarray(array, dtype)
    return jax.device_put(array if ready else np.pad(array, pad, constant_values=fill), home)
