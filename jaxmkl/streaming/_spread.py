"""Runs side by side: the room for them in memory, and where they go: to cores, to devices."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmkl import _pytree as pytree
from jaxmkl._checks import is_tracer
from jaxmkl._devices import by_xla, device_of, is_spread, place
from jaxmkl._threads import mapping
from jaxmkl._types import PyTree

# The share of an accelerator's memory that runs side by side may hold. A program needs several
# times as much besides, for copies and intermediate results.
_SHARE = 1 / 8
# Sizes of the tiles of a TPU, along the last axis and the one before it.
TILES = 128, 8


class Room(NamedTuple):
    """Memory of a device for runs that advance side by side."""

    bytes: int
    is_cache: bool
    """True if it is a CPU's cache, from which rarely used data may be evicted."""


CACHE = Room(8 * 2**20, True)


def room_in(memory: int) -> Room:
    """The room on an accelerator with ``memory`` bytes.

    It is a power of two, the same for devices that differ little, and so in all processes.
    """
    return Room(2 ** int(math.log2(memory * _SHARE)), False)


def home_of(given: PyTree, sharding: NamedSharding | None) -> jax.Device:
    """The device, or one of the devices, on which runs made from these arrays advance."""
    return device_of(given) if sharding is None else sharding.mesh.local_devices[0]


def room_for(given: PyTree, sharding: NamedSharding | None) -> Room | None:
    """The room for these runs on each device, or None if all are to advance side by side.

    If arrays lie on several devices, or may do so inside a trace, JAX distributes the runs, and
    cannot take them in turn.
    """
    unknown = is_tracer(given) and jax.device_count() > 1
    if sharding is None and (unknown or is_spread(given)):
        return None
    device = home_of(given, sharding)
    if device.platform == "cpu":
        return CACHE
    memory = (device.memory_stats() or {}).get("bytes_limit")
    return None if memory is None else room_in(memory)


def at_once(held: Callable[[], PyTree], number: int, room: Room | None) -> int:
    """The number of runs that advance side by side: as many as there is room for, or all."""
    return number if not number or room is None else fitting(jax.eval_shape(held), number, room)


def fitting(like: PyTree, number: int, room: Room) -> int:
    """The number of runs for which there is room, if each holds a state and codes ``like`` these.

    On accelerators arrays are counted in tiles of (8, 128), as TPUs lay them out.
    """
    tiles = () if room.is_cache else TILES
    return max(
        1, min(number, room.bytes // sum(bytes_of(x, tiles) for x in jax.tree.leaves(like)))
    )


def bytes_of(like: jax.ShapeDtypeStruct, tiles: tuple[int, ...] = TILES) -> int:
    """The bytes of an array of this shape and dtype, whose last axes are padded to tiles."""
    shape = list(like.shape)
    for axis, tile in zip(range(-1, -1 - len(shape), -1), tiles, strict=False):
        shape[axis] = -(-shape[axis] // tile) * tile
    return math.prod(shape) * like.dtype.itemsize


def in_groups(function: Callable[[PyTree], PyTree], given: PyTree, size: int) -> PyTree:
    """Apply a function to ``given``, to at most ``size`` of its leading axis at a time.

    All groups have one size, to which the last one is padded, so that one program serves all.

    >>> in_groups(lambda runs: 0 * runs + len(runs), jax.numpy.arange(10), 3).tolist()
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    number = _number(given)
    if number <= size:
        return function(given)
    # of the larger half of sizes, the one that needs the least padding
    size = min(range(size, size // 2, -1), key=lambda n: -(-number // n) * n)
    groups = -(-number // size)
    # lax.map has a batch_size, but cannot put leaves without elements together again
    filled = _repeated(given, groups * size)
    parts = jax.tree.map(lambda leaf: leaf.reshape(groups, size, *leaf.shape[1:]), filled)
    results = jax.lax.map(function, parts)
    return jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2)[:number], results)


def on_all_cores(
    of_group: Callable[[Callable[[], None], np.ndarray], PyTree],
    each: Sequence[np.ndarray],
    platform: str,
) -> list[PyTree]:
    """The results of groups of runs, on a CPU of as many at a time as there are cores.

    ``of_group`` takes the places of a group, after a function that it calls before each segment,
    and which ends it when the call is interrupted.
    """
    stopped = Event()

    def go_on() -> None:
        if stopped.is_set():
            raise CancelledError

    with mapping(len(each), platform) as apply:
        try:
            return [*apply(partial(of_group, go_on), each)]
        except BaseException:
            stopped.set()
            raise


def _number(tree: PyTree) -> int:
    """The length of the leading axis that all leaves have."""
    return jax.tree.leaves(tree)[0].shape[0]


def _repeated(tree: PyTree, number: int) -> PyTree:
    """Pad the leading axis of leaves to ``number`` by copies of the last row."""
    had = _number(tree)
    if had == number:
        return tree
    rows = np.minimum(np.arange(number), had - 1)
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def sharding_of(driver: str, mesh: Mesh | None, array: Any) -> NamedSharding | None:
    """The distribution of runs: over all of a mesh, or as the array's leading axis is, or None."""
    if mesh is not None:
        pytree.require(isinstance(mesh, Mesh), driver, "mesh", mesh, "a jax.sharding.Mesh or None")
        axes: Any = mesh.axis_names
    else:
        found = getattr(array, "sharding", None)
        if not isinstance(found, NamedSharding) or not isinstance(found.mesh, Mesh):
            return None
        mesh, axes = found.mesh, (*found.spec, None)[0]
        if axes is None:
            return None
    return by_xla(NamedSharding(mesh, PartitionSpec(axes)))


def in_one_program(
    group: Callable[[PyTree, PyTree], PyTree],
    held: Callable[[PyTree, PyTree], PyTree],
    same: PyTree,
    parts: PyTree,
    room: Room | None,
    sharding: NamedSharding | None,
) -> PyTree:
    """``group(same, parts)`` on each device, for its part of the runs, without communication.

    All runs share ``same``, whole on each device; the leading axis of ``parts`` is that of the
    runs, as it is in the result. ``group`` advances as many runs side by side as there is room
    for; ``held`` returns the arrays that one of them holds.
    """

    def on_device(same: PyTree, parts: PyTree) -> PyTree:
        size = at_once(partial(held, same, parts), _number(parts), room)
        return in_groups(partial(group, same), parts, size)

    if sharding is None:
        return on_device(same, parts)
    specs = PartitionSpec(), sharding.spec
    options: Any = {"mesh": sharding.mesh, "in_specs": specs, "out_specs": sharding.spec}
    return jax.shard_map(on_device, check_vma=False, **options)(same, parts)


def distributed(
    program: Callable, sharding: NamedSharding | None, same: PyTree, parts: PyTree
) -> PyTree:
    """``program(same, parts)``, distributed if there is a sharding.

    If its devices do not divide the number of runs, copies of the last run are added and removed.
    """
    if sharding is None:
        return program(same, parts, sharding=None)
    mesh: Any = sharding.mesh
    everywhere, number = NamedSharding(mesh, PartitionSpec()), _number(parts)
    shards = math.prod(mesh.shape[name] for name in jax.tree.leaves(sharding.spec[0]))
    parts = _repeated(parts, -(-number // shards) * shards)

    def put(leaf: PyTree, sharding: NamedSharding) -> PyTree:
        # numbers of a learner go where its arrays are
        return place(leaf, sharding) if isinstance(leaf, jax.Array | np.ndarray) else leaf

    around: Any = jax.sharding.get_mesh()  # of the caller's jax.set_mesh
    with jax.set_mesh(mesh):
        same = jax.tree.map(partial(put, sharding=everywhere), same)
        parts = jax.tree.map(partial(put, sharding=sharding), parts)
        runs = program(same, parts, sharding=sharding)
        runs = runs if number % shards == 0 else _first(runs, number, everywhere)
    if by_xla(NamedSharding(around, PartitionSpec())).mesh != mesh:
        return runs
    # where the caller's mesh has explicit axes, JAX takes no arrays of other axes
    return jax.tree.map(lambda leaf: place(leaf, NamedSharding(around, leaf.sharding.spec)), runs)


@partial(jax.jit, static_argnums=(1, 2))
def _first(tree: PyTree, number: int, sharding: NamedSharding) -> PyTree:
    """The first ``number`` rows, on every device."""

    def cut(leaf: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(leaf, sharding)[:number]

    return jax.tree.map(cut, tree)
