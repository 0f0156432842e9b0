"""Runs side by side: how many a cache holds, and how they are shared out among devices."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmkl import _pytree as pytree
from jaxmkl._devices import by_xla, place
from jaxmkl._types import PyTree

_CACHE = 10 * 2**20  # bytes


def at_once(held: Callable[[], Any], number: int, shared_out: bool) -> int:
    """How many of so many runs advance side by side: of a CPU what its cache holds, else all.

    What a run holds are states as they begin, for of more room a block uses little, and the codes
    of a block. Where several devices may be meant, and the program is not that of one of them, it
    is all: what JAX shares out itself it cannot take in turn.
    """
    one_device = shared_out or jax.device_count() == 1
    if number == 0 or jax.default_backend() != "cpu" or not one_device:
        return number
    leaves = jax.tree.leaves(jax.eval_shape(held))
    return max(1, min(number, _CACHE // sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)))


def in_groups(play: Callable[[Any], Any], given: Any, size: int) -> Any:
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


def _repeated(tree: PyTree, number: int) -> Any:
    """Leaves with a leading axis of ``number``, the last row as often as that takes."""
    had = _number(tree)
    if had == number:
        return tree
    rows = np.minimum(np.arange(number), had - 1)
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def sharding_of(driver: str, mesh: Any, array: Any) -> NamedSharding | None:
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


def shared_out(play: Callable[[Any, Any], Any], sharding: NamedSharding | None) -> Callable:
    """``play(same, parts)`` on each device, for its part of the runs, without communication.

    What is the ``same`` for all runs is there whole; ``parts`` have the runs as leading axis, as
    has what comes back.
    """
    if sharding is None:
        return play
    specs = PartitionSpec(), sharding.spec
    options: Any = {"mesh": sharding.mesh, "in_specs": specs, "out_specs": sharding.spec}
    return jax.shard_map(play, check_vma=False, **options)


def played(program: Callable, sharding: NamedSharding | None, same: Any, parts: Any) -> Any:
    """``program(same, parts)``, shared out if there is a sharding.

    Where its devices do not divide the number of runs, some are played twice and left out again.
    """
    if sharding is None:
        return program(same, parts, sharding=None)
    mesh: Any = sharding.mesh
    everywhere, number = NamedSharding(mesh, PartitionSpec()), _number(parts)
    shards = _shards(sharding)
    parts = _repeated(parts, -(-number // shards) * shards)
    with jax.set_mesh(mesh):
        runs = program(_placed(same, everywhere), _placed(parts, sharding), sharding=sharding)
        return runs if number % shards == 0 else _first(runs, number, everywhere)


def _shards(sharding: NamedSharding) -> int:
    """Among how many parts the leading axis is shared out."""
    axes = sharding.spec[0]
    names = axes if isinstance(axes, tuple) else (axes,)
    return math.prod(sharding.mesh.shape[name] for name in names)


def _placed(tree: PyTree, sharding: NamedSharding) -> Any:
    """The tree with its arrays in this sharding; numbers of a learner go where these are."""

    def one(leaf: Any) -> Any:
        return place(leaf, sharding) if isinstance(leaf, jax.Array | np.ndarray) else leaf

    return jax.tree.map(one, tree)


@partial(jax.jit, static_argnums=(1, 2))
def _first(tree: PyTree, number: int, sharding: NamedSharding) -> Any:
    """The first ``number`` rows, on every device."""

    def cut(leaf: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(leaf, sharding)[:number]

    return jax.tree.map(cut, tree)
