"""Programs evaluated with NumPy, if they are called once and would take seconds to compile.

The state before the first round is mostly zeros beside a few random numbers. XLA makes it by some
hundred small kernels, each of which takes 15 ms to compile, for 3 s of the default learner. NumPy
makes the same state in some milliseconds: the same random bits, and numbers that are the same to
rounding. Operations without a rule here are left to JAX, one by one.
"""

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    get_opaque_trace_state,
    jaxpr_as_fun,
)

Values = Sequence[Any]
_INSIDE = "jaxpr", "call_jaxpr", "call", "fun_jaxpr"  # where programs keep those they call
_THREEFRY = "threefry2x32"
_QUIET = threading.Lock()  # as filters of warnings are those of the process
_outside: Any = None  # what JAX last traced where operations were not part of a program


class Evaluated:
    """A pure function of arrays and numbers, evaluated with NumPy on the host.

    The results are put where the arguments are, as by ``jax.jit``.

    >>> import jax.numpy as jnp
    >>> three = Evaluated(lambda key: jax.random.normal(key, (3,)) + jnp.zeros(3))
    >>> numbers = three(jax.random.key(0))
    >>> np.testing.assert_allclose(numbers, jax.random.normal(jax.random.key(0), (3,)), rtol=1e-6)
    """

    def __init__(self, function: Callable) -> None:
        self._function, self._jitted = function, jax.jit(function)
        self._program: ClosedJaxpr | None = None
        self._structure: Any = None

    def __call__(self, *leaves: Any) -> Any:
        homes = {leaf.sharding for leaf in leaves if getattr(leaf, "committed", False)}
        spread = any(len(home.device_set) > 1 for home in homes) or len(homes) > 1
        if spread or is_inside_a_trace() or not all(map(_readable, leaves)):
            return self._jitted(*leaves)
        program = self._program
        if program is None:
            program, shapes = jax.make_jaxpr(self._function, return_shape=True)(*leaves)
            # the program last, for other threads that find it
            self._structure, self._program = jax.tree.structure(shapes), program
        try:
            found = _outputs(program, [_read(leaf) for leaf in leaves])
        except (AttributeError, KeyError):  # a later JAX may write programs in another way
            return self._jitted(*leaves)
        arrays = [_written(one, aval) for one, aval in zip(found, program.out_avals, strict=True)]
        return jax.tree.unflatten(self._structure, jax.device_put(arrays, next(iter(homes), None)))


def is_inside_a_trace() -> bool:
    """True if operations now become part of a program, as inside ``jax.eval_shape``."""
    global _outside
    now = get_opaque_trace_state()
    if now == _outside:  # to ask by an operation takes as long as the round of a small learner
        return False
    is_inside = isinstance(jax.lax.full((), 0), jax.core.Tracer)
    if not is_inside:
        _outside = now
    return is_inside


def _is_key(aval: Any) -> bool:
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def _readable(leaf: Any) -> bool:
    """True unless a leaf is a key whose random bits have no rule here."""
    if not isinstance(leaf, jax.Array) or not _is_key(leaf):
        return True
    each_its_own = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    return str(jax.random.key_impl(leaf)) == _THREEFRY and bool(each_its_own)


def _read(leaf: Any) -> Any:
    """The array of a leaf; a key is one number of 64 bits."""
    if isinstance(leaf, jax.Array) and _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf)).view(np.uint64)[..., 0]
    return leaf


def _written(value: Any, aval: Any) -> Any:
    """JAX's array for a value, a typed key for a key."""
    if not _is_key(aval):
        return value
    words = np.asarray(value, order="C")[..., None].view(np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl=_THREEFRY)


def _outputs(program: ClosedJaxpr, arguments: Values) -> list[Any]:
    """The results of a program, whose operations are evaluated in turn."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = {}
    known.update(zip(jaxpr.constvars, map(_read, program.consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def of(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for operation in jaxpr.eqns:
        results = _results(operation, [of(variable) for variable in operation.invars])
        known.update(zip(operation.outvars, results, strict=True))
    return [of(variable) for variable in jaxpr.outvars]


def _results(operation: JaxprEqn, values: Values) -> Values:
    """The results of one operation."""
    name, given, made = operation.primitive.name, operation.params, operation.outvars
    programs = [given[key] for key in _INSIDE if isinstance(given.get(key), ClosedJaxpr)]
    if name == "cond":
        index = min(max(int(values[0]), 0), len(given["branches"]) - 1)
        return _outputs(given["branches"][index], values[1:])
    if name == "scan":
        return _scanned(operation, values)
    if programs and name != "while":
        return _outputs(programs[0], values)
    if (name not in _PLAIN and name not in _RULES) or _is_special(operation):
        return _left_to_jax(operation, values)
    rule = _PLAIN.get(name) or partial(_RULES[name], given)
    found = rule(*map(np.asarray, values))
    found = found if operation.primitive.multiple_results else (found,)
    avals: list[Any] = [variable.aval for variable in made]
    kinds = [np.uint64 if _is_key(aval) else aval.dtype for aval in avals]
    return [np.asarray(one, kind) for one, kind in zip(found, kinds, strict=True)]


def _is_special(operation: JaxprEqn) -> bool:
    """True if an operation has a form that its rule does not cover."""
    name, given = operation.primitive.name, operation.params
    made: Any = operation.outvars[0].aval
    if name == "div":  # of integers, whose fractions are cut off
        return not jax.dtypes.issubdtype(made.dtype, np.floating)
    if name == "pad":  # by less than nothing, or between the numbers
        return any(min(sides) < 0 or sides[2] for sides in given["padding_config"])
    return given.get("num_keys", 1) > 1


def _scanned(operation: JaxprEqn, values: Values) -> list[Any]:
    """The results of a loop."""
    given, inside = operation.params, operation.params["jaxpr"].jaxpr
    # versions of JAX mark carried variables in different ways; others have a leading axis outside
    carried = _same_rank(operation.outvars, inside.outvars)
    fixed = _same_rank(operation.invars, inside.invars) - carried
    constants, carry = values[:fixed], list(values[fixed : fixed + carried])
    rows, each = [np.asarray(of) for of in values[fixed + carried :]], []
    turns = range(given["length"])
    for turn in reversed(turns) if given["reverse"] else turns:
        found = _outputs(given["jaxpr"], [*constants, *carry, *(row[turn] for row in rows)])
        carry = found[:carried]
        each.append(found[carried:])
    each = each[::-1] if given["reverse"] else each
    return [*carry, *(np.stack(of) for of in zip(*each, strict=True))]


def _same_rank(outer: Sequence[Any], inner: Sequence[Any]) -> int:
    """The number of variables of a loop that have as many axes outside as inside."""
    return sum(a.aval.ndim == b.aval.ndim for a, b in zip(outer, inner, strict=True))


def _left_to_jax(operation: JaxprEqn, values: Values) -> Values:
    """The results of an operation without a rule, which JAX compiles."""
    pairs = zip(operation.invars, values, strict=True)
    given = {v: _written(np.asarray(x), v.aval) for v, x in pairs if not isinstance(v, Literal)}
    with _QUIET, warnings.catch_warnings():  # about names of arguments, which it lacks
        warnings.simplefilter("ignore", DeprecationWarning)
        alone = Jaxpr((), tuple(given), operation.outvars, [operation])
    found = jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())
    return [_read(one) if _is_key(one) else np.asarray(one) for one in found]


def _threefry(key: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Threefry-2x32 with 20 rounds, of pairs of words in numbers of 64 bits, the first one low.

    Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    low = np.uint64(0xFFFFFFFF)
    keys = [(part & low).astype(np.uint32) for part in (key, key >> np.uint64(32))]
    x, y = ((part & low).astype(np.uint32) for part in (counts, counts >> np.uint64(32)))
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x, y = x + keys[0], y + keys[1]
        for group in range(5):
            for by in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
                x = x + y
                y = x ^ ((y << np.uint32(by)) | (y >> np.uint32(32 - by)))
            x = x + keys[(group + 1) % 3]
            y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32)


def _counters(shape: Sequence[int]) -> np.ndarray:
    """Counters 0, 1, 2, ... of 64 bits, with the high word first."""
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return counts >> np.uint64(32) | counts << np.uint64(32)


def _drawn(key: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Pairs of random words (..., *shape) by keys (...)."""
    return _threefry(key.reshape((*key.shape, *(1,) * len(shape))), _counters(shape))


def _bits(key: np.ndarray, width: int, shape: Sequence[int]) -> np.ndarray:
    pairs = _drawn(key, shape)
    high, low = pairs & np.uint64(0xFFFFFFFF), pairs >> np.uint64(32)
    bits = high << np.uint64(32) | low if width == 64 else high ^ low
    return bits.astype(f"uint{width}")


def _erf_inv(x: np.ndarray) -> np.ndarray:
    """JAX's own erf_inv, compiled for few sizes."""
    padded = np.zeros(max(1024, 1 << (x.size - 1).bit_length()), x.dtype)
    padded[: x.size] = x.reshape(-1)
    found = np.asarray(jax.lax.erf_inv(jax.device_put(padded)))
    return found[: x.size].reshape(x.shape)


def _broadcast(given: dict[str, Any], x: np.ndarray) -> np.ndarray:
    shape, own = given["shape"], given["broadcast_dimensions"]
    new = tuple(axis for axis in range(len(shape)) if axis not in own)
    return np.broadcast_to(np.expand_dims(x, new), shape)


def _iota(given: dict[str, Any]) -> np.ndarray:
    shape = given["shape"]
    return np.broadcast_to(np.indices(shape, sparse=True)[given["dimension"]], shape)


def _at(given: dict[str, Any], x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    sizes = given["slice_sizes"]
    each = zip(starts, x.shape, sizes, strict=True)
    begins = [int(np.clip(start, 0, room - size)) for start, room, size in each]
    return x[tuple(slice(at, at + size) for at, size in zip(begins, sizes, strict=True))]


def _product(given: dict[str, Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (of_a, of_b), (batch_a, batch_b) = given["dimension_numbers"]
    axes = [*range(a.ndim + b.ndim)]
    first, second = axes[: a.ndim], axes[a.ndim :]
    for i, j in zip((*of_a, *batch_a), (*of_b, *batch_b), strict=True):
        second[j] = i
    left = [i for i in first if i not in (*of_a, *batch_a)]
    right = [j for j in second if j >= a.ndim]
    # NumPy multiplies no bfloat16
    one, other = (x.astype(np.float32) if x.dtype.kind == "V" else x for x in (a, b))
    found = np.einsum(one, first, other, second, [*batch_a, *left, *right])
    return found.astype(a.dtype, copy=False)


def _padded(given: dict[str, Any], x: np.ndarray, value: np.ndarray) -> np.ndarray:
    sides = [(low, high) for low, high, _ in given["padding_config"]]
    return np.pad(x, sides, constant_values=value)


def _sorted(given: dict[str, Any], key: np.ndarray, *others: np.ndarray) -> tuple:
    order = np.argsort(key, given["dimension"], kind="stable")
    return tuple(np.take_along_axis(x, order, given["dimension"]) for x in (key, *others))


def _slice(given: dict[str, Any], x: np.ndarray) -> np.ndarray:
    steps = given["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, given["start_indices"], given["limit_indices"], steps))]


def _matching(given: dict[str, Any]) -> int:
    """The index of the branch for any platform, as one for CPUs is for what JAX compiles there."""
    branches = given["platforms"]
    if None in branches:
        return int(branches.index(None))
    return next(i for i, names in enumerate(branches) if "cpu" in names)


_PLAIN: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rem": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": np.left_shift,
    "shift_right_logical": np.right_shift,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "log": np.log,
    "exp": np.exp,
    "log1p": np.log1p,
    "floor": np.floor,
    "erf_inv": _erf_inv,
    "copy": np.asarray,
    "copy_p": np.asarray,
    "stop_gradient": np.asarray,
}


_RULES: dict[str, Callable] = {
    "integer_pow": lambda given, x: x ** given["y"],
    "convert_element_type": lambda given, x: x.astype(given["new_dtype"]),
    "bitcast_convert_type": lambda given, x: np.asarray(x, order="C").view(given["new_dtype"]),
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "dynamic_slice": _at,
    "dot_general": _product,
    "reshape": lambda given, x: x.reshape(given["new_sizes"]),
    "squeeze": lambda given, x: np.squeeze(x, given["dimensions"]),
    "transpose": lambda given, x: np.transpose(x, given["permutation"]),
    "concatenate": lambda given, *all: np.concatenate(all, given["dimension"]),
    "stack": lambda given, *all: np.stack(all, given["axis"]),
    "unstack": lambda given, x: tuple(np.moveaxis(x, given["axis"], 0)),
    "tile": lambda given, x: np.tile(x, given["reps"]),
    "reduce_max": lambda given, x: np.max(x, given["axes"]),
    "reduce_or": lambda given, x: np.any(x, given["axes"]),
    "reduce_sum": lambda given, x: np.sum(x, given["axes"]),
    "select_n": lambda given, which, *cases: np.select(
        [which == i for i in range(len(cases))], cases
    ),
    "pad": _padded,
    "sort": _sorted,
    "qr": lambda given, x: tuple(np.linalg.qr(x)),
    "platform_index": _matching,
    "random_wrap": lambda given, words: words.view(np.uint64)[..., 0],
    "random_unwrap": lambda given, key: key[..., None].view(np.uint32),
    # the words of a number that is folded in are its high and its low word
    "random_fold_in": lambda given, key, number: _threefry(
        key, number.astype(np.uint64) << np.uint64(32)
    ),
    "random_split": lambda given, key: _drawn(key, given["shape"]),
    "random_bits": lambda given, key: _bits(key, given["bit_width"], given["shape"]),
}
