"""The engine of all drivers: a scan over blocks of rows, and streams padded to few lengths."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import of_each, scan_first
from jaxmkl._checks import refuse_unless
from jaxmkl._devices import device_of, is_spread, left_to_xla, made_on_host, on_accelerator, whole
from jaxmkl._learner import Learner, Output, reported
from jaxmkl._programs import LARGE, Kept, num_operations
from jaxmkl._renewals import renewals_of
from jaxmkl._types import Inputs, Labels, PyTree, Records
from jaxmkl.streaming._carry import few_arrays, scan_in_few_arrays
from jaxmkl.streaming._warnings import refuse_and_warn, troubles
from jaxmkl.streaming.examples import Examples, Held, is_traced
from jaxmkl.streaming.sparse import stored
from jaxmkl.wrappers.delayed import delayed

Record = Callable[[Output], PyTree]
# The most rounds, and the most operations, of one iteration of the loop on accelerators.
_TOGETHER, _OPERATIONS = 8, 3200
# Rows of a segment, and the most numbers in one that is not of the shortest kind.
_ROOMS, _NUMBERS = (64, 512, 4096), 2**24


def without_info(output: Output) -> Output:
    """Keep prediction, loss and queried of a round, the default record of :func:`jaxmkl.run`."""
    return output._replace(info=None)


class Plan(NamedTuple):
    """The arguments of a driver that are part of the compiled program."""

    block_size: int
    record: Record
    delay: int = 0
    platform: str = "cpu"  # on all others starting a kernel takes long

    def on(self, device: jax.Device) -> "Plan":
        """The plan on a device."""
        return self._replace(platform=device.platform)


def plan_of(
    driver: str,
    learner: Learner,
    block_size: int | None,
    record: Record,
    delay: int = 0,
    length: int = _ROOMS[-1],
) -> Plan:
    """Check these arguments of a driver; the learner may take smaller blocks.

    A block or a delay longer than the stream is shortened, as later rounds do not matter, and so
    is a block longer than the longest segment.

    Raises:
      ValueError: for a block size below 1, a negative delay, or a ``record`` that is not callable.
    """
    size = learner.preferred_block_size if block_size is None else block_size
    good = isinstance(size, int | np.integer) and size >= 1
    refuse_unless(good, f"block_size must be an integer of at least 1; got {size!r}")
    delay = pytree.as_count(driver, "delay", delay, minimum=0)
    text = f"record must be a function of a round's jaxmkl.Output; got {record!r}"
    refuse_unless(callable(record), text)
    # few lengths, so that few are compiled
    bound = 1 << length.bit_length()
    # where nothing is compiled, rounds of a block that no row fills would take as long as others
    is_compiled = not jax.config.jax_disable_jit  # type: ignore[attr-defined]
    least = learner.preferred_block_size if is_compiled else 1
    size = min(size, max(min(bound, _ROOMS[-1]), least))
    return Plan(learner.fit_block_size(int(size)), record, min(delay, bound - 1))


class Rows(NamedTuple):
    """Examples X (T, D) and y, in their own order or a given one (T,), some of which are run.

    With a ``length`` the first ``length`` rows are run. Without one all rows are, and the run can
    be differentiated.
    """

    X: Inputs
    y: Labels
    order: Any = None
    length: Any = None


def scan_rows(
    learner: Any, state: PyTree, rows: Rows, blocks: Any = None, *, plan: Plan
) -> tuple[PyTree, Records]:
    """Run a learner over rows in blocks, and return its state and the records (T, ...).

    A block starts at a round that is a multiple of its size: if the state is in the middle of a
    block, the first block's leading rows are absent. With a length, blocks after it cost nothing;
    ``blocks`` is the number of blocks to run, which runs of several lengths side by side share.
    """
    B, T = plan.block_size, rows.X.shape[0]
    # two blocks at least: XLA unrolls a loop of one, which may round in another way
    most = max(2, -(-(T + B - 1) // B))
    offset, dtype = state.round % B, learner.dtype(state)

    def one(state: PyTree, example: tuple) -> tuple[PyTree, Records]:
        state, output = learner.advance(state, *example)
        return state, plan.record(output)

    def block_of(state: PyTree, number: Any) -> tuple:
        """Codes and labels of the rows of a block, arbitrary outside the stream; those inside."""
        positions = number * B + jnp.arange(B, dtype=jnp.int32) - offset
        present = (positions >= 0) & (positions < (T if rows.length is None else rows.length))
        places = jnp.clip(positions, 0, T - 1)
        places = places if rows.order is None else rows.order[places]
        X, y = (array[places].astype(dtype) for array in (rows.X, rows.y))
        return learner.encode(state, X), y, present

    def one_of(number: Any) -> PyTree:
        return one(state, jax.tree.map(lambda leaf: leaf[0], block_of(state, number)))[1]

    here, like = plan.platform == "cpu", jax.eval_shape(one_of, 0)
    # what is recorded of a round, in one array of each dtype
    together = [here and leaf.size == 1 for leaf in jax.tree.leaves(like)]
    apart, back = few_arrays(like, together)

    def one_apart(state: PyTree, example: tuple) -> tuple[PyTree, Records]:
        state, recorded = one(state, example)
        return state, apart(recorded)

    def unjudged(state: PyTree, example: tuple) -> tuple[PyTree, PyTree]:
        return abilities.advance_unjudged(learner, state, *example)

    def block(state: PyTree, number: Any) -> tuple[PyTree, Records]:
        examples = block_of(state, number)
        codes, y, _ = examples
        if here:
            state, recorded = jax.lax.scan(one_apart, state, examples)
            return learner.close(state, codes), recorded

        def judged(state: PyTree, left: PyTree) -> tuple[PyTree, Records]:
            state, outputs = abilities.judge(learner, state, left, y)
            return state, jax.vmap(plan.record)(outputs)

        then, turns = partial(judged, state), _rounds_a_turn(one, state, examples)
        state, left = scan_in_few_arrays(unjudged, state, examples, then, turns)
        state, recorded = judged(state, left)
        return learner.close(state, codes), apart(recorded)

    if rows.length is None:
        after, recorded = jax.lax.scan(block, state, jnp.arange(most, dtype=jnp.int32))
    else:
        blocks = num_blocks(state.round, rows.length, B) if blocks is None else blocks
        like = jax.eval_shape(apart, like)
        none = jax.tree.map(lambda y: jnp.zeros((most, B, *y.shape), y.dtype), like)
        after, recorded = scan_first(block, state, none, blocks)
    of_rounds = partial(jax.lax.dynamic_slice_in_dim, start_index=offset, slice_size=T)
    after = reported(learner, state, after)
    recorded = jax.tree.map(lambda leaf: of_rounds(jax.lax.collapse(leaf, 0, 2)), recorded)
    return after, jax.vmap(back, axis_size=T)(recorded)


def _rounds_a_turn(one: Callable, state: PyTree, examples: PyTree) -> int:
    """The number of rounds in one iteration of the loop over a block, on an accelerator.

    There a round takes as long as starting its kernels, and the compiler makes fewer of several
    rounds together. If a round is a large program, several take minutes to compile.
    """
    first = jax.tree.map(lambda leaf: leaf[0], examples)
    number = num_operations(jax.make_jaxpr(one)(state, first).jaxpr)
    together = max(1, min(_TOGETHER, _OPERATIONS // number))
    # a power of two, as blocks are
    return 1 << (together.bit_length() - 1)


run_rows = Kept(scan_rows, quickly=LARGE)


def num_blocks(round: jax.Array, length: Any, block_size: int) -> jax.Array:
    """The number of blocks that contain ``length`` examples from a round on."""
    return (length + round % block_size + block_size - 1) // block_size


def with_late_labels(
    learner: Any, state: PyTree, delay: int, run_all: Callable[[Any, PyTree], tuple]
) -> tuple[PyTree, Records]:
    """Return ``run_all(learner, state)`` with late labels, all of which are learned in the end.

    There may be several states side by side.
    """
    if not delay:
        return run_all(learner, state)
    late = delayed(learner, delay)
    after, recorded = run_all(late, late.around(state))
    ended = late.flushed(after).inner
    if not is_traced(learner, ended):
        return ended, recorded  # numbers out of their range were refused
    return of_each(partial(reported, learner), state.round, state, ended), recorded


def in_segments(
    run_part: Callable[[Any, PyTree, int, int], tuple[PyTree, Records]],
    learner: Any,
    state: PyTree,
    length: int,
    room: int,
    begun: int | None,
    delay: int,
    axis: int = 0,
) -> tuple[PyTree, Records]:
    """Run rows segment by segment, and return the state and the records.

    If all states are in the same round, ``begun``, renewals take place between segments, each a
    program of its own; otherwise (None) they take place within the rounds. If a stream has several
    segments, they end at multiples of the room, where blocks end, so they are the same wherever
    the stream is cut. ``run_part(learner, state, start, stop)`` runs at most ``room`` rows, of
    which there are ``length``; the records have rounds along the ``axis``.
    """

    def segments(learner: Any, state: PyTree) -> tuple[PyTree, Records]:
        renewals = None if begun is None else renewals_of(learner)
        inner, round = renewals.rounds if renewals else learner, begun or 0
        at, parts, lengths = 0, [], []
        while at < length:
            now = round + at
            stop = min(length, at + (room if length <= room else room - now % room))
            if renewals is not None:
                stop = min(stop, renewals.after(now) - round)
            state, recorded = run_part(inner, state, at, stop)
            if renewals is not None:
                state = renewals.renewed(state, round + stop)
            parts.append(recorded)
            lengths.append(stop - at)
            at = stop
        return state, behind(parts, lengths, axis)

    return with_late_labels(learner, state, delay, segments)


def run_segments(
    driver: str, learner: Learner, state: PyTree, examples: Examples, room: int, plan: Plan
) -> tuple[PyTree, Records]:
    """Run over examples outside of any trace, in segments padded to a length of ``room``."""
    X, y, length = examples.X, examples.y, examples.length
    before = troubles(state)
    state = with_room(learner, state, capacity_wanted(learner, state, length))
    plan = plan.on(device_of((state, X.array, y.array)))

    def run_part(learner: Any, state: PyTree, start: int, stop: int) -> tuple[PyTree, Records]:
        some = [placed(one, examples.dtype, room, start, stop) for one in (X, y)]
        given = left_to_xla((state, Rows(some[0], some[1], length=stop - start)))
        return run_rows(learner, *given, plan=plan)

    begun = None if is_spread(X.array) else int(state.round)
    state, recorded = in_segments(run_part, learner, state, length, room, begun, plan.delay)
    refuse_and_warn(driver, state, examples, before)
    return state, recorded


def placed(
    held: Held, dtype: DTypeLike, room: int, start: int = 0, stop: int | None = None, axis: int = 0
) -> PyTree:
    """Some rows in a dtype, on the device that has or uses them, padded with arbitrary rows."""
    rows = held.array.shape[axis]
    number, is_ready = (rows if stop is None else stop) - start, start == 0 and room == rows

    def one(array: Any, dtype: DTypeLike, fill: int = 0) -> jax.Array:
        if is_ready and isinstance(array, jax.Array) and array.dtype == dtype:
            return array
        if held.stays:
            found = array if is_ready else taken(array, start, room=room, axis=axis)
            return found.astype(dtype)
        # in host memory, where no length needs a compilation of its own
        home = array.sharding if isinstance(array, jax.Array) and array.committed else None
        some = np.asarray(array)[(slice(None),) * axis + (slice(start, start + number),)]
        pad = [(0, (room - number) * (i == axis)) for i in range(array.ndim)]
        with np.errstate(over="ignore"):
            some = np.asarray(some, dtype)
        some = np.pad(some, pad, constant_values=fill) if room > number else some
        return jax.device_put(some, home)

    if not held.is_sparse:
        return one(held.array, dtype)
    indices = one(held.array.indices, np.int32, held.array.num_columns)
    return held.array._with(indices, one(held.array.values, dtype))


@Kept
def taken(array: jax.Array, start: int, *, room: int, axis: int) -> jax.Array:
    """``room`` rows from ``start`` on; those after the last are arbitrary."""
    places = start + jnp.arange(room, dtype=jnp.int32)
    return jnp.take(array, places, axis=axis, mode="clip")


def behind(trees: Sequence[PyTree], lengths: Sequence[int], axis: int = 0) -> PyTree:
    """Join the arrays of several trees along an axis, the first ``lengths`` of each."""
    cuts = [(slice(None),) * axis + (slice(length),) for length in lengths]

    def of_arrays(*arrays: Any, library: Any = np) -> Any:
        parts = [array[cut] for array, cut in zip(arrays, cuts, strict=True)]
        return parts[0] if len(parts) == 1 else library.concatenate(parts, axis)

    def joined(*leaves: jax.Array) -> jax.Array:
        if len(leaves) == 1 and leaves[0].shape[axis] == lengths[0]:
            return leaves[0]
        if on_accelerator(leaves[0]):
            return of_arrays(*leaves, library=jnp)
        return made_on_host(of_arrays, *leaves)

    return jax.tree.map(joined, *trees)


def capacity_wanted(learner: Any, states: PyTree, more: Any) -> int | None:
    """The capacity that states need for ``more`` supports; None if they have it already.

    Each capacity is compiled, so there are few: stores that have grown before get twice the room.
    """
    capacity = abilities.capacity(learner, states)
    if capacity is None:
        return None
    used = whole(_num_supports(learner, states))
    wanted = int(np.max(used + more))
    if wanted <= capacity:
        return None
    return capacity_for(max(wanted, 2 * capacity if np.any(used) else 0))


def with_room(learner: Any, states: PyTree, capacity: int | None) -> PyTree:
    """A state, or several, with room for ``capacity`` supports; unchanged if it is None."""
    return states if capacity is None else _enlarged(learner, states, capacity=capacity)


@partial(Kept, on_host=True)
def _num_supports(learner: Any, states: PyTree) -> jax.Array:
    return of_each(partial(abilities.num_supports, learner), states.round, states)


@Kept
def _enlarged(learner: Any, states: PyTree, *, capacity: int) -> PyTree:
    return of_each(partial(abilities.enlarged, learner, capacity=capacity), states.round, states)


def capacity_for(supports: int) -> int:
    """The next of a few capacities: 64, 512, 4,096, and powers of two from there on."""
    rooms = (room for room in _ROOMS if room >= supports)
    return next(rooms, 1 << (supports - 1).bit_length())


def room_for(examples: Examples) -> int:
    """The length to which segments are padded (:func:`room_of`); all rows on several devices."""
    X, length = examples.X, examples.length
    return length if is_spread(X.array) else room_of(length, stored(X.array).shape[-1])


def room_of(length: int, columns: int) -> int:
    """The rows of a segment: 64, 512 or 4,096, or fewer if rows have many numbers."""
    rooms = [room for room in _ROOMS if room == _ROOMS[0] or room * columns <= _NUMBERS]
    return next((room for room in rooms if room >= length), rooms[-1])
