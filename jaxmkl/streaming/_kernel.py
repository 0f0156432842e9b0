"""The rounds of a block as one kernel, by Pallas: for GPUs (Triton) and TPUs (Mosaic).

A scan begins several kernels a round, each of which takes longer to begin than to compute. Here
one kernel has the loop over the rounds inside, and the state in registers or VMEM. Its body is the
learner's own round: the program that JAX traces of it, played operation by operation on arrays
that both compilers take. So no learner is written twice, and refusals, counters, queries and
selections are those of the scan, to the rounding of sums. Random numbers are in the codes of a
block, which are made before.

The compilers take less than XLA does: no booleans in memory, no gathers, hardly an array without
two axes, and Triton only sizes that are powers of two. Hence every array in the kernel has two
axes. At most two of the axes of a learner's array may be longer than 1, and these lie along them
(:class:`_Value`):

    shape                       in the kernel    in the codes and records of a block
    (), (1, 1), ...             (1, 1)           (B, 1)
    (n,), (1, n, 1), ...        (n, 1)           (B, n), as a TPU fills up (B, n, 1) to (B, n, 128)
    (n, m), (n, 1, 1, m), ...   (n, m)           (B, n, m)

Padding may hold anything, as reductions leave it out. What has no such form, as gathers, branches
and products of two matrices, is refused.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.extend import core

from jaxmkl._types import PyTree
from jaxmkl.streaming._spread import bytes_of

Atom = Any  # a variable or a constant of a program
Refs = Sequence[Any]  # memory of the kernel
Shaped = Any  # what has a shape and a dtype
Parameter = Any  # of an operation
# Operations that act on each number alone, and are the same in the kernel.
_ELEMENTWISE = (
    *("abs", "neg", "floor", "ceil", "add", "add_any", "sub", "mul", "div", "rem"),
    *("square", "sqrt", "rsqrt", "integer_pow", "pow", "exp", "exp2", "expm1", "log", "log1p"),
    *("sin", "cos", "tanh", "logistic", "erf", "max", "min", "clamp", "select_n"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not"),
    *("convert_element_type", "copy", "stop_gradient"),
)
# Those that not all compilers know, or only where the device is.
_REPLACED: dict[str, Callable] = {
    "is_finite": lambda x: jnp.abs(x) < jnp.inf,
    "sign": lambda x: jnp.where(x > 0, 1, jnp.where(x < 0, -1, x)).astype(x.dtype),
}
_PROGRAMS = "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"
_RESHAPES = "reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim"


def _sum(array: jax.Array, axis: int, keepdims: bool) -> jax.Array:
    """As ``jnp.sum``; whole numbers by floats, exactly: Triton adds 17 booleans up wrongly."""
    if not jnp.issubdtype(array.dtype, jnp.integer):
        return jnp.sum(array, axis, keepdims=keepdims)
    high, low = (
        jnp.sum(part.astype(jnp.float32), axis, keepdims=keepdims).astype(array.dtype)
        for part in (array >> 15, array & 0x7FFF)
    )
    return (high << 15) + low


# Each reduction, and the number that changes none; booleans are reduced as 0 and 1.
_REDUCTIONS: dict[str, tuple[Callable, float]] = {
    "reduce_sum": (_sum, 0),
    "reduce_max": (jnp.max, -np.inf),
    "reduce_min": (jnp.min, np.inf),
    "reduce_or": (jnp.max, -np.inf),
    "reduce_and": (jnp.min, np.inf),
}
_GPUS = {"gpu", "cuda", "rocm"}
_MOST = 512  # numbers of a row that becomes a column, by way of a square
_VMEM = 16 * 2**20  # bytes that a kernel has by default


class NotInOneKernel(ValueError):
    """A learner's rounds have an operation that has no form in the kernel."""


def scan_in_kernel(
    step: Callable, state: PyTree, examples: PyTree, then: Callable, platform: str
) -> tuple[PyTree, PyTree]:
    """As ``jax.lax.scan(step, state, examples)``, in one kernel.

    Args:
      step, state, examples: as ``jax.lax.scan`` takes them.
      then: a function of the results, the state and the outputs, that is called next. Outputs
        that it does not read are zeros.
      platform: "gpu" or "tpu", or "cpu", where JAX interprets the kernel.

    Raises:
      NotInOneKernel: for a step with an operation that has no form in the kernel.
    """
    leaves, form = jax.tree.flatten(state)
    number, leaves = len(leaves), [*leaves, *jax.tree.leaves(examples)]
    B = len(leaves[-1])
    first = jax.tree.map(lambda leaf: leaf[0], examples)
    program, (after, output) = jax.make_jaxpr(step, return_shape=True)(state, first)
    if program.effects:
        raise _refusal("what is seen outside of them, as what is printed")
    outputs = jax.tree.map(lambda like: jax.ShapeDtypeStruct((B, *like.shape), like.dtype), output)
    rest = jax.make_jaxpr(then)(after, outputs).jaxpr
    needed, _ = _between(rest, rest.outvars)
    read = [v in needed for v in rest.invars[number:]]

    round = program.jaxpr
    given = dict(zip(round.constvars, map(jnp.asarray, program.consts), strict=True))
    given |= dict(zip(round.invars, leaves, strict=True))
    ends, told = round.outvars[:number], round.outvars[number:]
    moves = [v is not end for v, end in zip(round.invars, ends, strict=False)]
    ends = [end for end, moved in zip(ends, moves, strict=True) if moved]
    told = [v for v, wanted in zip(told, read, strict=True) if wanted]
    needed, operations = _between(round, [*ends, *told])
    carried = [v for v, moved in zip(round.invars, moves, strict=False) if moved]
    rows = [v for v in round.invars[number:] if v in needed]
    fixed = [v for v in given if v in needed and v not in (*carried, *rows)]

    play = _Player(_power_of_two if platform in _GPUS else int)

    def kernel(constant: Refs, before: Refs, of_rows: Refs, behind: Refs, written: Refs) -> None:
        known = {v: play.read(v, ref[...]) for v, ref in zip(fixed, constant, strict=True)}

        def turn(t: jax.Array, state: tuple) -> tuple:
            now = {v: play.read(v, array) for v, array in zip(carried, state, strict=True)}
            now |= {v: play.read_row(v, ref, t) for v, ref in zip(rows, of_rows, strict=True)}
            values = play.run(operations, known | now, [*ends, *told])
            for ref, value in zip(written, values[len(ends) :], strict=True):
                play.write_row(ref, t, value)
            return tuple(map(play.settled, values[: len(ends)]))

        begin, end = np.int32(0), np.int32(B)  # of 32 bits also where JAX has 64
        after = jax.lax.fori_loop(begin, end, turn, tuple(ref[...] for ref in before))
        for ref, array in zip(behind, after, strict=True):
            ref[...] = array

    likes, form_of_outputs = jax.tree.flatten(outputs)
    states = [play.like(v.aval) for v in carried]
    records = [play.like(like, 1) for like, wanted in zip(likes, read, strict=True) if wanted]
    stored = [[play.stored(given[v]) for v in each] for each in (fixed, carried)]
    stored.append([play.stored(given[v], 1) for v in rows])
    options = _options(platform, [*states, *records, *jax.tree.leaves(stored)])
    call = pl.pallas_call(kernel, (states, records), name="rounds", **options)
    behind, written = map(iter, call(*stored))
    leaves = [
        _restored(next(behind), leaf) if moved else leaf
        for leaf, moved in zip(leaves[:number], moves, strict=True)
    ]
    recorded = [
        _restored(next(written), like, 1) if wanted else jnp.zeros(like.shape, like.dtype)
        for like, wanted in zip(likes, read, strict=True)
    ]
    return jax.tree.unflatten(form, leaves), jax.tree.unflatten(form_of_outputs, recorded)


def _options(platform: str, arrays: Sequence[Shaped]) -> dict[str, Parameter]:
    """The arguments of ``pallas_call`` for a platform and all arrays that the kernel has."""
    if platform in _GPUS:
        from jax.experimental.pallas import triton

        # some 32 numbers for each thread; within a warp, sums need no memory
        sizes = [math.prod(array.shape[1:]) for array in arrays if len(array.shape) == 3]
        warps = min(16, -(-max(sizes, default=1) // 1024))
        return {"compiler_params": triton.CompilerParams(num_warps=warps)}
    if platform == "tpu":
        from jax.experimental.pallas import tpu

        # of runs side by side there are those of the next one, too
        needed = 2 * sum(map(bytes_of, arrays)) + _VMEM // 4
        return {"compiler_params": tpu.CompilerParams(vmem_limit_bytes=max(needed, _VMEM))}
    return {"interpret": True}


def _between(jaxpr: core.Jaxpr, goals: Sequence[Atom]) -> tuple[set, list[core.JaxprEqn]]:
    """What some results of a program depend on, and the operations that lead to them."""
    needed = {v for v in goals if isinstance(v, core.Var)}
    operations = []
    for operation in reversed(jaxpr.eqns):
        if needed.intersection(operation.outvars):
            operations.append(operation)
            needed |= {v for v in operation.invars if isinstance(v, core.Var)}
    return needed, operations[::-1]


def _refusal(what: str) -> NotInOneKernel:
    wanted = "fused must be False for a learner whose rounds are not for one kernel"
    return NotInOneKernel(f"{wanted}; got True, and rounds with {what}")


# --- arrays in the kernel ------------------------------------------------------------------------


class _Value(NamedTuple):
    """An array of a round as it is in the kernel."""

    array: jax.Array
    """The array, with two axes."""
    shape: tuple[int, ...]
    """Its shape to the learner."""
    axes: tuple[int | None, ...]
    """The axis of the array along which each of the learner's lies, or None for one number."""


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _long(shape: Sequence[int]) -> list[int]:
    """The axes of a shape that are longer than 1."""
    found = [axis for axis, size in enumerate(shape) if size != 1]
    if len(found) > 2:
        raise _refusal(f"an array of shape {tuple(shape)}")
    return found


def _places(shape: Sequence[int]) -> tuple[int | None, ...]:
    """The axes, as in :class:`_Value`, of an array in a state."""
    long = _long(shape)
    return tuple(long.index(axis) if axis in long else None for axis in range(len(shape)))


def _only(axis: int, shape: Sequence[int]) -> tuple[int | None, ...]:
    """The axes, as in :class:`_Value`, of an array (n, 1) along one axis of a shape."""
    return tuple(0 if a == axis and n != 1 else None for a, n in enumerate(shape))


def _old_axes(
    name: str, old: Sequence[int], new: Sequence[int], params: Parameter
) -> list[int | None]:
    """The axes before a reshape, transposition or broadcast from which those after it come."""
    if name == "transpose":
        return list(params["permutation"])
    if name == "broadcast_in_dim":
        pairs = zip(params["broadcast_dimensions"], range(len(old)), strict=True)
    else:
        before, after = ([a for a, n in enumerate(shape) if n != 1] for shape in (old, new))
        if [old[axis] for axis in before] != [new[axis] for axis in after]:
            raise _refusal(f"a reshape from {tuple(old)} to {tuple(new)}")
        pairs = zip(after, before, strict=True)
    places = dict(pairs)
    return [places.get(axis) for axis in range(len(new))]


def _along(axis: int, size: int, dtype: jax.typing.DTypeLike = jnp.int32) -> jax.Array:
    """The numbers 0, 1, 2, ... along an axis of the kernel."""
    return jax.lax.broadcasted_iota(dtype, (size, 1) if axis == 0 else (1, size), axis)


def _broadcast(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The array in a larger shape, booleans by way of numbers."""
    if array.shape == shape:
        return array
    if array.dtype == jnp.bool:
        return jnp.broadcast_to(array.astype(jnp.int32), shape) != 0
    return jnp.broadcast_to(array, shape)


def _dtype(array: Shaped) -> jax.typing.DTypeLike:
    """The dtype of an array as numbers: booleans are 0 and 1."""
    return jnp.int32 if array.dtype == jnp.bool else array.dtype


def _number(array: jax.Array) -> jax.Array:
    return array.astype(_dtype(array))


def _picked(where: jax.Array, array: jax.Array, axis: int) -> jax.Array:
    """Along an axis the one number where it is true, and (n, 1) or (1, n) are left."""
    shape = np.broadcast_shapes(where.shape, array.shape)
    chosen = jnp.where(_broadcast(where, shape), _number(array), 0)
    found = _sum(chosen, axis, keepdims=True)
    return found != 0 if array.dtype == jnp.bool else found


def _turned(array: jax.Array, axis: int) -> jax.Array:
    """Of a row (1, n) the column, for ``axis`` 1, or of a column (n, 1) the row, for 0."""
    n = max(array.shape)
    if n > _MOST:
        raise _refusal(f"{n} models, of at most {_MOST}")
    return _picked(_broadcast(_along(0, n), (n, n)) == _along(1, n), array, axis)


def _restored(array: jax.Array, like: Shaped, leading: int = 0) -> jax.Array:
    """The array in the kernel's memory as that of a learner, ``like`` in shape and dtype."""
    sizes = *like.shape[:leading], *(n for n in like.shape[leading:] if n != 1)
    cut = array[tuple(map(slice, sizes))]
    return cut.reshape(like.shape).astype(like.dtype)


class _Player(NamedTuple):
    """Plays operations of a program on arrays in the kernel."""

    pad: Callable[[int], int]
    """The size, with its padding, of an axis in the kernel."""

    def like(self, array: Shaped, leading: int = 0) -> jax.ShapeDtypeStruct:
        """How an array is in memory, of a state, or of a block with ``leading`` 1."""
        own = array.shape[leading:]
        sizes = [*array.shape[:leading], *(self.pad(own[axis]) for axis in _long(own))]
        sizes += [1] * (2 - len(sizes))
        return jax.ShapeDtypeStruct(tuple(sizes), _dtype(array))

    def stored(self, array: jax.Array, leading: int = 0) -> jax.Array:
        """The array as it is in memory."""
        like = self.like(array, leading)
        sizes = [*array.shape[:leading], *(n for n in array.shape[leading:] if n != 1)]
        array = array.astype(like.dtype).reshape(sizes + [1] * (len(like.shape) - len(sizes)))
        missing = np.subtract(like.shape, array.shape)
        return jnp.pad(array, [(0, number) for number in missing]) if any(missing) else array

    def read(self, v: Atom, array: jax.Array) -> _Value:
        """The value of a variable, of which this is in memory."""
        shape = v.aval.shape
        return _Value(array != 0 if v.aval.dtype == jnp.bool else array, shape, _places(shape))

    def read_row(self, v: Atom, ref: Any, t: jax.Array) -> _Value:
        """The value of a variable in the round t of a block."""
        if len(ref.shape) == 3:
            return self.read(v, ref[t])
        row = ref[pl.ds(t, 1), :]
        return self.read(v, _turned(row, 1) if _long(v.aval.shape) else row)

    def write_row(self, ref: Any, t: jax.Array, value: _Value) -> None:
        array = self.settled(value)
        if len(ref.shape) == 3:
            ref[t] = array
        else:
            ref[pl.ds(t, 1), :] = _turned(array, 0) if _long(value.shape) else array

    def settled(self, value: _Value) -> jax.Array:
        """The array of a value as it is in memory, of a state."""
        array, places = _number(value.array), _places(value.shape)
        if any(a not in (None, b) for a, b in zip(value.axes, places, strict=True)):
            if len(_long(value.shape)) > 1:
                raise _refusal(f"a transposition of shape {value.shape}")
            array = _turned(array, 1)
        sizes = [self.pad(value.shape[axis]) for axis in _long(value.shape)]
        return _broadcast(array, (*sizes, 1, 1)[:2])

    def run(
        self, operations: Sequence[core.JaxprEqn], known: dict, goals: Sequence[Atom]
    ) -> list[_Value]:
        """Play operations, given the values of variables, and return those of the ``goals``."""

        def value(v: Atom) -> _Value:
            if not isinstance(v, core.Literal):
                return known[v]
            aval: Shaped = v.aval
            shape, dtype = np.shape(v.val), aval.dtype
            number = jnp.full((1, 1), np.asarray(v.val).item(), dtype)
            return _Value(number, shape, (None,) * len(shape))

        known = dict(known)
        for operation in operations:
            results = self._play(operation, *map(value, operation.invars))
            known |= dict(zip(operation.outvars, results, strict=True))
        return list(map(value, goals))

    def _play(self, operation: core.JaxprEqn, *values: _Value) -> list[_Value]:
        name, params = operation.primitive.name, operation.params
        if name in _PROGRAMS:
            inner = params["jaxpr" if "jaxpr" in params else "call_jaxpr"]
            inner = getattr(inner, "jaxpr", inner)
            if not inner.constvars:
                known = dict(zip(inner.invars, values, strict=True))
                return self.run(_between(inner, inner.outvars)[1], known, inner.outvars)
        result: Shaped = operation.outvars[0].aval
        if name == "select_n" and result.dtype == jnp.bool:
            # Mosaic chooses between numbers alone
            numbers = [case._replace(array=_number(case.array)) for case in values[1:]]
            chosen = self._elementwise(jax.lax.select_n, values[0], *numbers)
            return [chosen._replace(array=chosen.array != 0)]
        if name in _ELEMENTWISE:
            return [self._elementwise(partial(operation.primitive.bind, **params), *values)]
        if name in _REPLACED:
            return [self._elementwise(_REPLACED[name], *values)]
        if name in _RESHAPES:
            places = _old_axes(name, values[0].shape, result.shape, params)
            axes = dict(enumerate(values[0].axes)) | {None: None}
            return [_Value(values[0].array, result.shape, tuple(axes[old] for old in places))]
        if name in _REDUCTIONS:
            return [self._reduced(name, values[0], params["axes"])]
        played = getattr(self, f"_{name}", None)
        if played is None:
            shapes = ", ".join(str(value.shape) for value in values)
            raise _refusal(f"the operation {name} on arrays of shape {shapes}")
        found = played(*values, result=result, **params)
        return found if isinstance(found, list) else [found]

    def _elementwise(self, function: Callable, *values: _Value) -> _Value:
        shape = np.broadcast_shapes(*(value.shape for value in values))
        axes: list[int | None] = []
        for found in zip(*(value.axes for value in values if value.shape), strict=True):
            places = set(found) - {None}
            if len(places) > 1 or places.intersection(axes):
                raise _refusal(f"a transposition of shape {shape}")
            axes += places or [None]
        common = np.broadcast_shapes(*(value.array.shape for value in values))
        return _Value(function(*(_broadcast(v.array, common) for v in values)), shape, tuple(axes))

    def _spread(self, value: _Value, axis: int) -> tuple[_Value, int]:
        """The value with numbers along an axis of the learner's, and the kernel's axis of it."""
        place = value.axes[axis]
        if place is not None:
            return value, place
        free = [place for place in (0, 1) if place not in value.axes]
        if not free:
            raise _refusal(f"an array of shape {value.shape}")
        sizes = list(value.array.shape)
        sizes[free[0]] = self.pad(value.shape[axis])
        axes = *value.axes[:axis], free[0], *value.axes[axis + 1 :]
        return _Value(_broadcast(value.array, tuple(sizes)), value.shape, axes), free[0]

    def _reduced(self, name: str, value: _Value, axes: Sequence[int]) -> _Value:
        (function, neutral), dtype = _REDUCTIONS[name], value.array.dtype
        value = value._replace(array=_number(value.array))
        for axis in (axis for axis in axes if value.shape[axis] != 1):
            value, place = self._spread(value, axis)
            array, size = value.array, value.shape[axis]
            if array.shape[place] != size:
                inside = _broadcast(_along(place, array.shape[place]) < size, array.shape)
                if neutral and not jnp.issubdtype(array.dtype, jnp.floating):
                    limits = jnp.iinfo(array.dtype)
                    neutral = limits.max if neutral > 0 else limits.min
                array = jnp.where(inside, array, jnp.asarray(neutral, array.dtype))
            array = function(array, place, keepdims=True).astype(array.dtype)
            value = value._replace(array=array)
        left = [axis for axis in range(len(value.shape)) if axis not in axes]
        shape, places = tuple(value.shape[a] for a in left), tuple(value.axes[a] for a in left)
        return _Value(value.array != 0 if dtype == jnp.bool else value.array, shape, places)

    # These are called by the names of operations.

    def _iota(self, *, result: Shaped, dimension: int, **_: Parameter) -> _Value:
        numbers = _along(0, self.pad(result.shape[dimension]), result.dtype)
        return _Value(numbers, result.shape, _only(dimension, result.shape))

    def _slice(
        self, value: _Value, *, result: Shaped, start_indices: Parameter, **_: Parameter
    ) -> _Value:
        for axis, size in enumerate(result.shape):
            if size != value.shape[axis]:
                if size != 1:
                    raise _refusal(f"a slice from {value.shape} to {result.shape}")
                value, place = self._spread(value, axis)
                here = _along(place, value.array.shape[place]) == start_indices[axis]
                axes = *value.axes[:axis], None, *value.axes[axis + 1 :]
                value = _Value(_picked(here, value.array, place), value.shape, axes)
        return value._replace(shape=result.shape)

    def _stack(self, *values: _Value, result: Shaped, axis: int, **_: Parameter) -> _Value:
        if any(size != 1 for value in values for size in value.shape):
            raise _refusal(f"a stack of arrays of shape {values[0].shape}")
        size, array = self.pad(len(values)), values[0].array
        for i, value in enumerate(values[1:], 1):
            array = jnp.where(_along(0, size) < i, array, value.array)
        return _Value(_broadcast(array, (size, 1)), result.shape, _only(axis, result.shape))

    def _concatenate(self, *values: _Value, result: Shaped, dimension: int) -> _Value:
        """By which older versions of JAX stack."""
        return self._stack(*values, result=result, axis=dimension)

    def _unstack(self, value: _Value, *, axis: int, **_: Parameter) -> list[_Value]:
        """By which newer versions of JAX take arrays apart."""
        sizes = (*value.shape[:axis], 1, *value.shape[axis + 1 :])
        like = jax.ShapeDtypeStruct(sizes, value.array.dtype)
        found = []
        for start in range(value.shape[axis]):
            starts = [start if a == axis else 0 for a in range(len(sizes))]
            one = self._slice(value, result=like, start_indices=starts)
            axes = one.axes[:axis] + one.axes[axis + 1 :]
            found.append(_Value(one.array, sizes[:axis] + sizes[axis + 1 :], axes))
        return found

    def _argmax(
        self, value: _Value, *, result: Shaped, axes: tuple[int], **_: Parameter
    ) -> _Value:
        value, place = self._spread(value, axes[0])
        x, n = value.array, value.array.shape[place]
        top = self._reduced("reduce_max", value, axes).array
        number = _broadcast(_along(place, n, result.dtype), x.shape)
        # the first where there are several, and NaN before all numbers
        found = jnp.where((x == top) | (x != x), number, n)
        return self._reduced("reduce_min", value._replace(array=found), axes)

    def _dot_general(
        self, a: _Value, b: _Value, *, result: Shaped, dimension_numbers: Parameter, **_: Parameter
    ) -> _Value:
        ((axis,), _of_b), batch = dimension_numbers
        if any(batch) or len(a.shape) > 2 or len(b.shape) > 1:
            raise _refusal(f"a product of arrays of shape {a.shape} and {b.shape}")
        axes = tuple(b.axes[0] if i == axis else None for i in range(len(a.shape)))
        products = self._elementwise(jnp.multiply, a, _Value(b.array, a.shape, axes))
        return self._reduced("reduce_sum", products, (axis,))
