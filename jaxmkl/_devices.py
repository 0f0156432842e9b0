"""Arrays that lie on several devices, of one process or of several (``jax.distributed``).

Functions that gather arrays, or wait, must be called by all processes.
"""

import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, Sharding
from jax.typing import ArrayLike

from jaxmkl._types import PyTree

T = TypeVar("T")


def by_xla(sharding: Any) -> PyTree:
    """The sharding with automatic axes: XLA chooses the sharding of what is computed from it."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return sharding
    auto = (AxisType.Auto,) * len(sharding.mesh.axis_names)
    return NamedSharding(sharding.mesh.update(axis_types=auto), sharding.spec)


def left_to_xla(tree: T) -> T:
    """The arrays on the same devices, with automatic axes (:func:`by_xla`).

    If none is partitioned, they stay as they are: in a context of explicit axes
    (``jax.set_mesh``) JAX puts all arrays on its mesh, and takes no others.
    """
    if not any(any(getattr(leaf.sharding, "spec", ())) for leaf in _known(tree)):
        return tree

    def one(leaf: PyTree) -> PyTree:
        found = getattr(leaf, "sharding", None)
        wanted = by_xla(found)
        return leaf if wanted == found else jax.device_put(leaf, wanted)

    return jax.tree.map(one, tree)


def device_of(tree: PyTree) -> jax.Device:
    """The device on which a computation from these arrays runs, one of them if they are several.

    It is the default device if no array is committed to another.
    """
    for leaf in _known(tree):
        if leaf.committed:
            devices = leaf.sharding.addressable_devices or leaf.sharding.device_set
            return min(devices, key=attrgetter("id"))
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    return default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]


def _known(tree: PyTree) -> Iterator[jax.Array]:
    """The arrays of a tree, without tracers, of which nothing says where they will lie."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            yield leaf


def on_accelerator(array: Any) -> bool:
    """True if an array lies on a device other than a CPU, where it stays."""
    known = isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
    return known and any(device.platform != "cpu" for device in array.devices())


def is_shared(tree: PyTree) -> bool:
    """True if some leaf has parts, or copies, on devices of other processes."""
    return any(not leaf.is_fully_addressable for leaf in _known(tree))


def is_spread(tree: PyTree) -> bool:
    """True if some leaf has parts, or copies, on several devices."""
    return any(len(leaf.sharding.device_set) > 1 for leaf in _known(tree))


def seen_whole(array: PyTree) -> bool:
    """True if this process can read all of an array."""
    return not is_shared(array) or array.is_fully_replicated


def whole(array: ArrayLike) -> np.ndarray:
    """The whole array in NumPy, gathered from all processes if parts are elsewhere."""
    if seen_whole(array):
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def place(array: Any, sharding: Sharding) -> jax.Array:
    """Put an array into a sharding; every process must pass the same array."""
    if getattr(array, "sharding", None) == sharding:
        return array
    if is_shared(array) or sharding.is_fully_addressable:
        return jax.device_put(array, sharding)

    def placed(numbers: ArrayLike) -> jax.Array:
        host = np.asarray(numbers)
        return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])

    return by_words(placed, array)


def local(array: jax.Array) -> jax.Array:
    """The array on this process alone."""
    if not is_shared(array):
        return array
    return by_words(lambda numbers: jnp.asarray(whole(numbers)), array)


def by_words(make: Callable[..., jax.Array], *arrays: Any) -> jax.Array:
    """The array that a function makes of others; of keys it gets the words, and makes those."""
    first = arrays[0]
    if not jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
        return make(*arrays)
    words = make(*map(jax.random.key_data, arrays))
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(first))


def made_on_host(make: Callable[..., np.ndarray], *arrays: Any) -> jax.Array:
    """An array, or keys, that NumPy makes of others, so that no length needs a compilation."""
    home = arrays[0].sharding if getattr(arrays[0], "committed", False) else None
    return by_words(lambda *all: jax.device_put(make(*map(np.asarray, all)), home), *arrays)


def by_one_process(action: str, act: Callable[[], None]) -> None:
    """Let the first process act while the others wait; they raise ``OSError`` if it fails."""
    failure: Exception | None = None
    if jax.process_index() == 0:
        try:
            act()
        except Exception as error:
            failure = error
    failed = multihost_utils.broadcast_one_to_all(np.asarray(failure is not None))
    if failure is not None:
        raise failure
    if failed:
        raise OSError(f"{action}: the first process could not write the file; it says why")


def failure(error: BaseException) -> str:
    """The sentence on an error of the device or of memory; "" if it tells of something else.

    >>> failure(MemoryError()), failure(ValueError("an argument"))
    ('memory is too small', '')
    """
    if isinstance(error, MemoryError):
        return f"memory is too small{f': {error}' if str(error) else ''}"
    try:
        jax.local_devices()
    except Exception as cause:  # JAX raises several kinds, of which some say nothing
        asked = os.environ.get("JAX_PLATFORMS")
        of = f" for JAX_PLATFORMS={asked}" if asked else ""
        return f"JAX has no device{of}{f': {cause}' if str(cause) else ''}"
    return f"the device failed: {error}" if isinstance(error, jax.errors.JaxRuntimeError) else ""
