"""Runs side by side: how many there is room for, and how devices share them out."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmkl import _pytree as pytree
from jaxmkl._devices import by_xla, device_of, is_spread, place
from jaxmkl._types import PyTree
from jaxmkl.streaming.examples import is_tracer

# Of the memory of an accelerator the part that runs side by side may hold. What a program needs
# beside them, for copies and for what is between two results, is several times as much.
_SHARE = 1 / 8
# Sizes of the tiles of a TPU, along the last axis and that before it.
TILES = 128, 8


class Room(NamedTuple):
    """Memory of a device for runs that advance side by side."""

    bytes: int
    is_cache: bool
    """Whether it is a CPU's cache, which what is seldom used may leave."""


CACHE = Room(4 * 2**20, True)


def room_in(memory: int) -> Room:
    """The room on an accelerator with so many bytes of memory.

    It is a power of two, the same for devices that differ little, and so in all processes.
    """
    return Room(2 ** int(math.log2(memory * _SHARE)), False)


def home_of(given: PyTree, sharding: NamedSharding | None) -> jax.Device:
    """The device, or one of those, where runs that are made from these arrays advance."""
    return device_of(given) if sharding is None else sharding.mesh.local_devices[0]


def room_for(given: PyTree, sharding: NamedSharding | None) -> Room | None:
    """The room for these runs on each device, or None if all are to advance side by side.

    Where arrays lie on several devices, or may do so inside a trace, JAX shares the runs out, and
    cannot take in turn what it shares out.
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
    """How many of so many runs advance side by side: as many as there is room for, or all."""
    return number if not number or room is None else fitting(jax.eval_shape(held), number, room)


def fitting(like: PyTree, number: int, room: Room) -> int:
    """How many of so many runs there is room for, of what each holds: state and codes of a block.

    On accelerators arrays are counted in tiles of (8, 128), as TPUs lay them out.
    """
    tiles = () if room.is_cache else TILES
    return max(
        1, min(number, room.bytes // sum(bytes_of(x, tiles) for x in jax.tree.leaves(like)))
    )


def bytes_of(like: jax.ShapeDtypeStruct, tiles: tuple[int, ...] = TILES) -> int:
    """The bytes of an array of this shape and dtype, whose last axes are filled up to tiles."""
    shape = list(like.shape)
    for axis, tile in zip(range(-1, -1 - len(shape), -1), tiles, strict=False):
        shape[axis] = -(-shape[axis] // tile) * tile
    return math.prod(shape) * like.dtype.itemsize


def in_groups(play: Callable[[PyTree], PyTree], given: PyTree, size: int) -> PyTree:
    """Apply ``play`` to ``given``, to at most ``size`` of its leading axis at a time.

    Groups are of one size, the last one filled up, so that one program plays all.

    >>> in_groups(lambda runs: 0 * runs + len(runs), jax.numpy.arange(10), 3).tolist()
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    number = _number(given)
    if number <= size:
        return play(given)
    # of the larger half of sizes that which leaves the least to fill up
    size = min(range(size, size // 2, -1), key=lambda n: -(-number // n) * n)
    groups = -(-number // size)
    # lax.map has a batch_size, but cannot put leaves without elements together again
    filled = _repeated(given, groups * size)
    parts = jax.tree.map(lambda leaf: leaf.reshape(groups, size, *leaf.shape[1:]), filled)
    played = jax.lax.map(play, parts)
    return jax.tree.map(lambda leaf: jax.lax.collapse(leaf, 0, 2)[:number], played)


def _number(tree: PyTree) -> int:
    """The length of the leading axis that all leaves have."""
    return jax.tree.leaves(tree)[0].shape[0]


def _repeated(tree: PyTree, number: int) -> PyTree:
    """Leaves with a leading axis of ``number``, the last row as often as that takes."""
    had = _number(tree)
    if had == number:
        return tree
    rows = np.minimum(np.arange(number), had - 1)
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def sharding_of(driver: str, mesh: Mesh | None, array: Any) -> NamedSharding | None:
    """How runs are shared out: over all of a mesh, or as the array's leading axis is, or None."""
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

    Args:
      group: plays runs side by side, as many at a time as there is room for.
      held: what one of the runs holds.
      same: what is the same for all runs, and there whole.
      parts: what has the runs as leading axis, as has what comes back.
    """

    def play(same: PyTree, parts: PyTree) -> PyTree:
        size = at_once(partial(held, same, parts), _number(parts), room)
        return in_groups(partial(group, same), parts, size)

    if sharding is None:
        return play(same, parts)
    specs = PartitionSpec(), sharding.spec
    options: Any = {"mesh": sharding.mesh, "in_specs": specs, "out_specs": sharding.spec}
    return jax.shard_map(play, check_vma=False, **options)(same, parts)


def played(
    program: Callable, sharding: NamedSharding | None, same: PyTree, parts: PyTree
) -> PyTree:
    """``program(same, parts)``, shared out if there is a sharding.

    Where its devices do not divide the number of runs, some are played twice and left out again.
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

    with jax.set_mesh(mesh):
        same = jax.tree.map(partial(put, sharding=everywhere), same)
        parts = jax.tree.map(partial(put, sharding=sharding), parts)
        runs = program(same, parts, sharding=sharding)
        return runs if number % shards == 0 else _first(runs, number, everywhere)


@partial(jax.jit, static_argnums=(1, 2))
def _first(tree: PyTree, number: int, sharding: NamedSharding) -> PyTree:
    """The first ``number`` rows, on every device."""

    def cut(leaf: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(leaf, sharding)[:number]

    return jax.tree.map(cut, tree)
