"""Checks of rows, dtypes and states."""

import inspect
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._types import PyTree

A = TypeVar("A", np.ndarray, jax.Array)

MOST_SHOWN = 5  # values of a message
_OF_JAX = np.float16, np.float32, np.float64  # in the order of bytes of the machine


def refuse_unless(condition: object, text: str) -> None:
    """Raise a ``ValueError`` with this text unless the condition holds."""
    if not condition:
        raise ValueError(text)


def warn_outside(text: str | Warning, category: type[Warning] = RuntimeWarning) -> None:
    """Give a warning that names the line outside of this package that led to it."""
    level, frame = 1, inspect.currentframe()
    ours = "jaxmkl.", "functools"  # where functions of one name are chosen by class
    while frame is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level if frame else 2)


def refuse_masked(name: str, array: object) -> None:
    """Refuse a masked array of NumPy that masks anything, as masked entries have no value."""
    masked = isinstance(array, np.ma.MaskedArray) and bool(np.ma.getmaskarray(array).any())
    text = f"{name} must not be masked: drop what is missing, or fill it ({name}.filled(...)) and "
    text += "mark it in one more column; labels may be missing in jaxmkl.stream(..., gaps=True)"
    refuse_unless(not masked, text)


def is_tracer(*trees: PyTree) -> bool:
    """True if some leaf is a tracer, whose values are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def refuse_listed(name: str, value: object) -> None:
    """Refuse a list of tracers, which NumPy cannot read and JAX stacks."""
    found = isinstance(value, list | tuple) and is_tracer(value)
    text = f"{name} must be an array inside a trace; got a {type(value).__name__} of tracers"
    refuse_unless(not found, f"{text}: pass jax.numpy.stack({name})")


def refuse_tracers(owner: str, name: str, value: PyTree, instead: str = "") -> None:
    """Refuse tracers where the numbers are needed on the host."""
    wanted = f"an array outside of jit, vmap and grad{instead}"
    pytree.require(not is_tracer(value), owner, name, "a tracer", wanted)


def unmasked(values: Any) -> Any:
    """The values, in place of masked ones NaN among numbers and None among words: not known."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(float), np.nan)
    words = np.array(values.data, object)
    words[np.ma.getmaskarray(values)] = None
    return words


def on_host(value: Any) -> np.ndarray:
    """The value as an array of NumPy: of floats if it is a DataFrame of pandas of numbers.

    NumPy makes objects of such a DataFrame if its columns differ in dtype, or have missing values.
    """
    array = np.asarray(value)
    is_frame = array.dtype == object and array.ndim == 2 and hasattr(value, "dtypes")
    if is_frame and all(getattr(one, "kind", "O") in "biuf" for one in value.dtypes):
        array = value.to_numpy(float, na_value=np.nan)
    return array


def as_array(name: str, value: ArrayLike) -> jax.Array:
    """The value as a JAX array; raise if it is sparse, an entry is masked or no real number."""
    return jnp.asarray(real_array(name, value))


def as_floats(name: str, value: ArrayLike) -> jax.Array:
    """The value as a JAX array of floats, in which numbers of moderate size have squares.

    Integers and booleans are of JAX's default dtype; float16 becomes float32.
    """
    array = as_array(name, value)
    dtype = jnp.result_type(array, float)
    return array.astype(jnp.float32 if dtype == jnp.float16 else dtype)


def real_array(name: str, value: ArrayLike, owner: str = "") -> Any:
    """The value as an array of NumPy or JAX that JAX takes without loss; raise as above."""
    of = f"{owner}: " * bool(owner)
    text = f"must be dense, as {name}.toarray(); jaxmkl.run and the others take it sparse"
    refuse_unless(not hasattr(value, "toarray"), f"{of}{name} {text}")
    refuse_masked(name, value)
    array: Any
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
        array = jnp.asarray(value)
    else:
        array = on_host(value)
        # JAX would keep the last 32 bits of an integer of 64, and knows no other order of bytes
        if array.dtype.kind in "iuf" and array.dtype not in _OF_JAX:
            array = array.astype(float)
    text = f"{of}{name} must hold real numbers; got dtype {array.dtype}"
    refuse_unless(is_real(array.dtype), text)
    return array


def known_array(owner: str, name: str, value: Any) -> np.ndarray:
    """The value as an array of NumPy, in a dtype of NumPy; raise as above, or for a tracer."""
    refuse_tracers(owner, name, value)
    array = np.asarray(real_array(name, value, owner))
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)  # bfloat16


def is_real(dtype: Any) -> bool:
    """True if a dtype is of real numbers or booleans; durations are integers to NumPy."""
    kinds = jnp.floating, jnp.integer, jnp.bool_
    good = any(jnp.issubdtype(dtype, kind) for kind in kinds)  # not a key's, which has no kind
    return good and dtype.kind != "m"


def input_bound(dtype: DTypeLike) -> float:
    """The largest magnitude of an input that is learned from, 4.6e18 in float32.

    It is a quarter of the square root of the dtype's largest number: beyond it, squares of
    differences may overflow, so such an input is refused like an infinite one.
    """
    return 0.25 * float(np.sqrt(float(jnp.finfo(dtype).max)))


def usable_rows(X: jax.Array) -> jax.Array:
    """Mask (B,) of the rows of ``X`` (B, D) that are learned from: finite and within the bound."""
    return jnp.all(jnp.abs(X) <= input_bound(X.dtype), axis=1)  # NaN fails the comparison


def require_key(owner: object, key: Any) -> None:
    """Raise unless this is one typed key."""
    typed = jnp.issubdtype(getattr(key, "dtype", object), jax.dtypes.prng_key)
    wanted = "a typed key, as jax.random.key(0), and one (jax.vmap makes several states)"
    pytree.require(typed and key.ndim == 0, owner, "key", key, wanted)


def floating_dtype(owner: object, dtype: DTypeLike | None) -> np.dtype:
    """The checked dtype of a state, which JAX must have switched on."""
    text = "a floating dtype; float64 needs jax.config.update('jax_enable_x64', True), and "
    text += "float16 has too small numbers (bfloat16 has not)"
    try:
        wanted = jnp.dtype(jax.dtypes.canonicalize_dtype(float) if dtype is None else dtype)
    except (TypeError, ValueError):
        pytree.require(False, owner, "dtype", dtype, text)
    wanted = wanted.newbyteorder("=")  # JAX has that of the machine
    good = jnp.issubdtype(wanted, jnp.floating) and jax.dtypes.canonicalize_dtype(wanted) == wanted
    # bounds on values are shares of the largest number, 65,504 in float16
    good &= wanted != jnp.float16
    pytree.require(good, owner, "dtype", wanted.name, text)
    return wanted


def fingerprints(X: jax.Array) -> jax.Array:
    """A number for each row (B,), so that in one state different examples draw different numbers.

    Rows are read in single precision, so that float32 and float64 runs ask alike. The numbers are
    at least 2^31, as smaller ones make an algorithm's own subkeys.
    """
    bits = jax.lax.bitcast_convert_type(X.astype(jnp.float32) + 0.0, jnp.uint32)
    places = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint32) * np.uint32(2654435769))
    total = jnp.sum(_mixed(bits ^ places[None, :]), axis=1, dtype=jnp.uint32)
    return total | np.uint32(2**31)


def _mixed(bits: A) -> A:
    """Mix the bits of integers, as small whole numbers differ in few bits of their floats."""
    bits = (bits ^ (bits >> 16)) * np.uint32(0x7FEB352D)
    return bits ^ (bits >> 15)


@lru_cache(maxsize=256)
def _abstract_state(
    structure: jax.tree_util.PyTreeDef,
    shapes: tuple,
    num_inputs: int,
    dtype: str,
    room: int | None,
) -> PyTree:
    def start(key: jax.Array, leaves: list) -> PyTree:
        learner = jax.tree.unflatten(structure, leaves)
        state = learner.init(key, num_inputs, dtype)
        return state if room is None else abilities.enlarged(learner, state, room)

    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.eval_shape(start, key, [jax.ShapeDtypeStruct(*shape) for shape in shapes])


def abstract_state(
    learner: Any, num_inputs: int, dtype: str, capacity: int | None = None
) -> PyTree:
    """Shapes and dtypes of a learner's state, in a tree like the state."""
    leaves, structure = jax.tree.flatten(learner)
    # with the dtypes that these leaves have as JAX arrays
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    return _abstract_state(structure, shapes, num_inputs, dtype, capacity)


def leaves_by_name(tree: PyTree, prefix: str = "state") -> dict[str, Any]:
    """The leaves of a tree by their paths."""
    named = jax.tree.leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in named}


def kind_of(learner: Any, state: PyTree, *refusal: Any) -> tuple[int, str, int | None]:
    """Number of inputs, dtype and capacity of a state, or this refusal by ``pytree.require``."""
    try:
        return (
            learner.num_inputs(state),
            learner.dtype(state).name,
            abilities.capacity(learner, state),
        )
    except (AttributeError, IndexError, KeyError, TypeError):
        pytree.require(False, *refusal)
        raise


def check_state(learner: Any, state: PyTree) -> None:
    """Raise unless ``state`` could have been made by ``learner``."""
    name = type(state).__name__
    kind = kind_of(learner, state, learner, "state", name, "one of learner.init(...)")
    expected, structure = jax.tree.flatten(abstract_state(learner, *kind))
    text = "one that this very learner made (learner.init)"
    given: Any = jax.tree.structure(state)
    pytree.require(given == structure, learner, "state", f"{name}, another tree", text)
    for (name, leaf), wanted in zip(leaves_by_name(state).items(), expected, strict=True):
        shape = jnp.shape(leaf)
        text = f"of shape {wanted.shape}, as this learner has it"
        pytree.require(shape == wanted.shape, learner, name, shape, text)
        if jnp.issubdtype(wanted.dtype, jnp.floating):
            given = jnp.result_type(leaf)
            pytree.require(given == wanted.dtype, learner, name, given.name, wanted.dtype.name)


def shown(values: Sequence[Any], most: int = MOST_SHOWN) -> str:
    """The first values, for messages."""
    return ", ".join(map(repr, values[:most])) + ", ..." * (len(values) > most)
