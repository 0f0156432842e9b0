"""The rounds of a block as one kernel, by Pallas: for GPUs (Triton) and TPUs (Mosaic).

A scan begins several kernels a round, each of which takes longer to begin than to compute. Here
one kernel has the loop over the rounds inside, with the state in registers or VMEM. Its body is
the learner's own round: the program that JAX traces of it, played operation by operation on arrays
that both compilers take. So there is no second form of any learner, and refusals, counters,
queries and selections are those of the scan, to the rounding of sums. Random numbers are in the
codes of a block, which are made before.

The compilers take less than XLA does: no booleans in memory, no shapes of one axis, no gathers,
and Triton only sizes that are powers of two. Hence in the kernel every array has two axes. The
axes of a learner's array that are longer than 1, at most two, lie along them (:class:`_Value`);
along the others nothing is stored. Padding may hold anything, as reductions leave it out.

    a number                    (1, 1)      in a block (B, 1)
    (n,), (1, n, 1), ...        (n, 1)      in a block (B, n), as a column of each would be a tile
    (n, m), (n, 1, 1, m), ...   (n, m)      in a block (B, n, m)

Operations that have no such form (products of matrices, gathers, branches) are refused by name.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.extend import core

from jaxmkl._types import PyTree

# what acts on each number alone, as it stands
_ELEMENTWISE = set(
    "abs add add_any and atan2 ceil clamp convert_element_type copy cos div eq erf exp exp2 expm1 "
    "floor ge gt integer_pow le log log1p logistic lt max min mul ne neg not or pow rem rsqrt "
    "select_n sign sin sqrt square stop_gradient sub tanh xor".split()
)
_RESHAPES = {"reshape", "squeeze", "expand_dims"}
_REDUCTIONS: dict[str, tuple[Callable, Callable]] = {
    "reduce_sum": (jnp.sum, lambda dtype: 0),
    "reduce_max": (jnp.max, lambda dtype: _extreme(dtype, -1)),
    "reduce_min": (jnp.min, lambda dtype: _extreme(dtype, 1)),
}
# of booleans, which are counted as numbers
_QUANTIFIERS = {"reduce_and": "reduce_min", "reduce_or": "reduce_max"}
_POWERS_OF_TWO = {"gpu", "cuda", "rocm"}
# of the 128 MiB of a TPU v5e; by default a kernel has 16
_VMEM = 100 * 2**20


class Unsupported(ValueError):
    """An operation of a round that has no form in the kernel."""


class _Value(NamedTuple):
    """An array of a round as it lies in the kernel."""

    array: jax.Array
    """With two axes."""
    shape: tuple[int, ...]
    """Its shape to the learner."""
    axes: tuple[int | None, ...]
    """The axis of the kernel's array that each of its own lies along; None if it is the same along
    all of it."""


def scan_in_kernel(
    step: Callable, state: PyTree, examples: PyTree, wanted: Callable, platform: str
) -> tuple[PyTree, PyTree]:
    """As ``jax.lax.scan(step, state, examples)``, in one kernel.

    Args:
      step, state, examples: as ``jax.lax.scan`` takes them.
      wanted: what becomes of the results, ``wanted(state, outputs)``. Outputs that it does not
        read are zeros.
      platform: "gpu" or "tpu"; on "cpu" JAX interprets the kernel.

    Raises:
      Unsupported: for an operation that has no form in the kernel.
    """
    leaves, form = jax.tree.flatten((state, examples))
    number, B = len(jax.tree.leaves(state)), leaves[-1].shape[0]
    first = jax.tree.map(lambda leaf: leaf[0], examples)
    program, shapes = jax.make_jaxpr(step, return_shape=True)(state, first)
    outputs = jax.tree.map(lambda s: jax.ShapeDtypeStruct((B, *s.shape), s.dtype), shapes[1])
    after = jax.make_jaxpr(wanted)(shapes[0], outputs).jaxpr
    read, _ = _alive(after, after.outvars)
    round = program.jaxpr
    results = round.outvars[:number], round.outvars[number:]
    # leaves of the state that a round changes, and outputs that are read
    changed = [i for i, v in enumerate(results[0]) if v is not round.invars[i]]
    told = [i for i, alive in enumerate(read[number:]) if alive]
    goals = [results[0][i] for i in changed] + [results[1][i] for i in told]
    alive, operations = _alive(round, goals)
    rows = [i for i in range(number, len(leaves)) if alive[i]]
    fixed = [i for i in range(number) if alive[i] and i not in changed]
    pad = _power_of_two if platform in _POWERS_OF_TWO else int
    play = _Player(pad)

    constants = [jnp.asarray(constant) for constant in program.consts]
    kept = [*constants, *(leaves[i] for i in fixed)]
    of_kept = [*round.constvars, *(round.invars[i] for i in fixed)]
    carried, of_carried = [leaves[i] for i in changed], [round.invars[i] for i in changed]
    of_rows, of_told = [round.invars[i] for i in rows], [results[1][i] for i in told]
    given = [*(_stored(leaf, pad) for leaf in kept + carried)]
    given += [_stored(leaves[i], pad, 1) for i in rows]
    made = [_like(leaf.shape, leaf.dtype, pad) for leaf in carried]
    made += [_like(v.aval.shape, v.aval.dtype, pad, B) for v in of_told]

    def kernel(*refs: Any) -> None:
        ends = np.cumsum([len(kept), len(carried), len(rows), len(carried)])
        of_kept_, begun, examples, ended, written = (
            refs[a:b] for a, b in zip([0, *ends], [*ends, None], strict=True)
        )
        values = {v: play.read(v, ref[...]) for v, ref in zip(of_kept, of_kept_, strict=True)}

        def turn(t: Any, carry: tuple) -> tuple:
            known = dict(values)
            known |= {v: play.read(v, a) for v, a in zip(of_carried, carry, strict=True)}
            for v, ref in zip(of_rows, examples, strict=True):
                known[v] = play.read(v, play.row(ref, t, len(_long(v.aval.shape))))
            play.run(operations, known)
            for v, ref in zip(of_told, written, strict=True):
                play.write(ref, t, play.settled(play.value(known, v)))
            return tuple(play.settled(play.value(known, results[0][i])) for i in changed)

        begin = tuple(ref[...] for ref in begun)
        for ref, array in zip(ended, jax.lax.fori_loop(0, B, turn, begin), strict=True):
            ref[...] = array

    found = pl.pallas_call(kernel, out_shape=made, name="rounds", **_options(platform))(*given)
    for i, array in zip(changed, found, strict=False):
        leaves[i] = _restored(array, leaves[i].shape, leaves[i].dtype)
    ends = [jnp.zeros((B, *v.aval.shape), v.aval.dtype) for v in results[1]]
    for i, array in zip(told, found[len(changed) :], strict=True):
        ends[i] = _restored(array, ends[i].shape, ends[i].dtype, 1)
    return jax.tree.unflatten(form, leaves)[0], jax.tree.unflatten(
        jax.tree.structure(shapes[1]), ends
    )


def _options(platform: str) -> dict[str, Any]:
    """What the compiler of a platform is told."""
    if platform in _POWERS_OF_TWO:
        from jax.experimental.pallas import triton

        return {"compiler_params": triton.CompilerParams(num_warps=4)}
    if platform == "tpu":
        from jax.experimental.pallas import tpu

        return {"compiler_params": tpu.CompilerParams(vmem_limit_bytes=_VMEM)}
    return {"interpret": True}


def _alive(jaxpr: core.Jaxpr, goals: Sequence[Any]) -> tuple[list[bool], list[core.JaxprEqn]]:
    """Which arguments of a program some results depend on, and the operations between them."""
    needed = {v for v in goals if isinstance(v, core.Var)}
    operations = []
    for operation in reversed(jaxpr.eqns):
        if needed.intersection(operation.outvars):
            operations.append(operation)
            needed |= {v for v in operation.invars if isinstance(v, core.Var)}
    return [v in needed for v in jaxpr.invars], operations[::-1]


# --- how arrays lie in the kernel -----------------------------------------------------------------


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _extreme(dtype: Any, sign: int) -> Any:
    """The largest number of a dtype, or the least."""
    if jnp.issubdtype(dtype, jnp.floating):
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _long(shape: Sequence[int]) -> list[int]:
    """The axes of a shape that are longer than 1."""
    found = [axis for axis, size in enumerate(shape) if size != 1]
    if len(found) > 2:
        raise Unsupported(f"an array of shape {tuple(shape)}")
    return found


def _placed(shape: Sequence[int]) -> tuple[int | None, ...]:
    """Axes (of a :class:`_Value`) of an array as it is stored."""
    long = _long(shape)
    return tuple(long.index(axis) if axis in long else None for axis in range(len(shape)))


def _dtype(dtype: Any) -> Any:
    return jnp.dtype(jnp.int32) if dtype == bool else dtype


def _like(shape: Sequence[int], dtype: Any, pad: Callable, B: int | None = None) -> Any:
    """The shape and dtype of a leaf, or of B of them, in memory."""
    sizes = [pad(shape[axis]) for axis in _long(shape)]
    sizes = sizes + [1] * (2 - len(sizes)) if B is None else [B, *(sizes or [1])]
    return jax.ShapeDtypeStruct(tuple(sizes), _dtype(dtype))


def _stored(leaf: jax.Array, pad: Callable, leading: int = 0) -> jax.Array:
    """A leaf as it is in memory, one of a state or, with one ``leading`` axis, of a block."""
    like = _like(leaf.shape[leading:], leaf.dtype, pad, *leaf.shape[:leading])
    sizes = [*leaf.shape[:leading], *(leaf.shape[leading + a] for a in _long(leaf.shape[leading:]))]
    array = leaf.astype(like.dtype).reshape(sizes + [1] * (len(like.shape) - len(sizes)))
    return jnp.pad(array, [(0, most - n) for most, n in zip(like.shape, array.shape, strict=True)])


def _restored(array: jax.Array, shape: Sequence[int], dtype: Any, leading: int = 0) -> jax.Array:
    """The leaf that is in memory as this array."""
    sizes = [*shape[:leading], *(shape[leading + axis] for axis in _long(shape[leading:]))]
    sizes += [1] * (array.ndim - len(sizes))
    return array[tuple(map(slice, sizes))].reshape(shape).astype(dtype)


def _broadcast(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The array in a larger shape; booleans are not broadcast by all compilers."""
    if array.shape == shape:
        return array
    if array.dtype == bool:
        return jnp.broadcast_to(array.astype(jnp.int32), shape) != 0
    return jnp.broadcast_to(array, shape)


def _along(axis: int, size: int, dtype: Any = jnp.int32) -> jax.Array:
    """0, 1, 2, ... along an axis of the kernel."""
    return jax.lax.broadcasted_iota(dtype, (size, 1) if axis == 0 else (1, size), axis)


class _Player(NamedTuple):
    """Plays the operations of a round inside the kernel."""

    pad: Callable[[int], int]
    """The size in memory of an axis."""

    def value(self, known: dict, v: Any) -> _Value:
        """The value of a variable of the program, or of a constant in it."""
        if isinstance(v, core.Literal):
            shape = np.shape(v.val)
            array = jnp.full((1, 1), np.asarray(v.val).item(), v.aval.dtype)
            return _Value(array, shape, (None,) * len(shape))
        return known[v]

    def read(self, v: Any, array: jax.Array) -> _Value:
        """The value of a variable from what is in memory."""
        shape = v.aval.shape
        return _Value(array != 0 if v.aval.dtype == bool else array, shape, _placed(shape))

    def row(self, ref: Any, t: Any, long: int) -> jax.Array:
        """What a block has in memory for the round t, as :meth:`read` takes it."""
        if long == 2:
            return ref[t]
        row = ref[pl.ds(t, 1), :]
        return self._turned(row, 1) if long else row

    def write(self, ref: Any, t: Any, array: jax.Array) -> None:
        """Write what :meth:`settled` returned into the row t of a block."""
        if len(ref.shape) == 3:
            ref[t] = array
        else:
            ref[pl.ds(t, 1), :] = self._turned(array, 0) if array.shape[0] > 1 else array

    def _turned(self, array: jax.Array, axis: int) -> jax.Array:
        """A column of the row that lies along axis 1, or the row of a column along axis 0."""
        n = array.shape[axis]
        square = _along(0, n) == _along(1, n)
        return jnp.sum(jnp.where(square, array, 0), axis=axis, keepdims=True, dtype=array.dtype)

    def settled(self, value: _Value) -> jax.Array:
        """The array of a value as it is in memory."""
        array, wanted = value.array, _placed(value.shape)
        if array.dtype == bool:
            array = array.astype(jnp.int32)
        if any(a is not None and a != b for a, b in zip(value.axes, wanted, strict=True)):
            if len(_long(value.shape)) > 1:
                raise Unsupported(f"a transposition of shape {value.shape}")
            array = self._turned(array, 1)
        return _broadcast(array, _like(value.shape, array.dtype, self.pad).shape)

    def run(self, operations: Sequence[core.JaxprEqn], known: dict) -> None:
        """Play operations; ``known`` has the values of the program's variables."""
        for operation in operations:
            values = [self.value(known, v) for v in operation.invars]
            results = self._played(operation, values)
            known |= dict(zip(operation.outvars, results, strict=True))

    def _played(self, operation: core.JaxprEqn, values: list[_Value]) -> list[_Value]:
        name, params = operation.primitive.name, operation.params
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        if name in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"):
            program = inner.jaxpr if isinstance(inner, core.ClosedJaxpr) else inner
            alive = _alive(program, program.outvars)[1]
            known = dict(zip(program.invars, values, strict=True))
            self.run(alive, known)
            return [self.value(known, v) for v in program.outvars]
        (out,) = operation.outvars
        if name == "select_n" and out.aval.dtype == bool:
            # not of booleans, for Mosaic
            which, *cases = values
            numbers = [case._replace(array=case.array.astype(jnp.int32)) for case in cases]
            chosen = self._elementwise(jax.lax.select_n, which, *numbers)
            return [chosen._replace(array=chosen.array != 0)]
        if name in _ELEMENTWISE:
            return [self._elementwise(partial(operation.primitive.bind, **params), *values)]
        if name == "is_finite":
            return [self._elementwise(lambda x: jnp.abs(x) < jnp.inf, *values)]
        if name in _RESHAPES:
            return [self._reshaped(values[0], out.aval.shape)]
        if name in _REDUCTIONS or name in _QUANTIFIERS:
            return [self._reduced(name, values[0], params["axes"])]
        played = getattr(self, f"_{name}", None)
        if played is None:
            shapes = ", ".join(str(value.shape) for value in values)
            raise Unsupported(f"{name} of {shapes}")
        return [played(*values, shape=out.aval.shape, dtype=out.aval.dtype, params=params)]

    def _elementwise(self, function: Callable, *values: _Value) -> _Value:
        shape = np.broadcast_shapes(*(value.shape for value in values))
        axes: list[int | None] = []
        for found in zip(*(value.axes for value in values if value.shape), strict=True):
            several = {axis for axis in found if axis is not None}
            if len(several) > 1 or several.intersection(axes):
                raise Unsupported(f"a transposition of shape {shape}")
            axes.append(several.pop() if several else None)
        sizes = np.broadcast_shapes(*(value.array.shape for value in values))
        arrays = [_broadcast(value.array, sizes) for value in values]
        return _Value(function(*arrays), shape, tuple(axes))

    def _reshaped(self, value: _Value, shape: tuple[int, ...]) -> _Value:
        before = [axis for axis, size in enumerate(value.shape) if size != 1]
        after = [axis for axis, size in enumerate(shape) if size != 1]
        if [value.shape[axis] for axis in before] != [shape[axis] for axis in after]:
            raise Unsupported(f"reshape from {value.shape} to {shape}")
        axes: list[int | None] = [None] * len(shape)
        for old, new in zip(before, after, strict=True):
            axes[new] = value.axes[old]
        return value._replace(shape=shape, axes=tuple(axes))

    def _axis(self, value: _Value, axis: int) -> tuple[_Value, int]:
        """The value stored along an axis of the learner's array, and the kernel's axis."""
        place = value.axes[axis]
        if place is None:
            (place, *_) = [k for k in (0, 1) if k not in value.axes] or [None]
            if place is None:
                raise Unsupported(f"an array of shape {value.shape}")
            axes = *value.axes[:axis], place, *value.axes[axis + 1 :]
            sizes = list(value.array.shape)
            sizes[place] = self.pad(value.shape[axis])
            value = value._replace(array=_broadcast(value.array, tuple(sizes)), axes=axes)
        return value, place

    def _reduced(self, name: str, value: _Value, axes: Sequence[int]) -> _Value:
        boolean = name in _QUANTIFIERS
        if boolean:
            name = _QUANTIFIERS[name]
            value = value._replace(array=value.array.astype(jnp.int32))
        function, neutral = _REDUCTIONS[name]
        for axis in axes:
            n = value.shape[axis]
            if n == 1:
                continue
            value, place = self._axis(value, axis)
            array = value.array
            if array.shape[place] != n:
                inside = _broadcast(_along(place, array.shape[place]) < n, array.shape)
                array = jnp.where(inside, array, jnp.asarray(neutral(array.dtype), array.dtype))
            options = {"dtype": array.dtype} if function is jnp.sum else {}
            value = value._replace(array=function(array, axis=place, keepdims=True, **options))
        if boolean:
            value = value._replace(array=value.array != 0)
        left = [axis for axis in range(len(value.shape)) if axis not in axes]
        shape, places = (tuple(of[a] for a in left) for of in (value.shape, value.axes))
        return value._replace(shape=shape, axes=places)

    # The rest are operations by their names.

    def _broadcast_in_dim(self, value: _Value, *, shape: Any, params: Any, **_: Any) -> _Value:
        axes: list[int | None] = [None] * len(shape)
        for axis, new in zip(value.axes, params["broadcast_dimensions"], strict=True):
            axes[new] = axis
        return value._replace(shape=shape, axes=tuple(axes))

    def _transpose(self, value: _Value, *, shape: Any, params: Any, **_: Any) -> _Value:
        axes = tuple(value.axes[axis] for axis in params["permutation"])
        return value._replace(shape=shape, axes=axes)

    def _slice(self, value: _Value, *, shape: Any, params: Any, **_: Any) -> _Value:
        for axis, (n, size) in enumerate(zip(value.shape, shape, strict=True)):
            if n == size:
                continue
            if size != 1:
                raise Unsupported(f"slice of {value.shape} to {shape}")
            value, place = self._axis(value, axis)
            chosen = _along(place, value.array.shape[place]) == params["start_indices"][axis]
            array = jnp.where(_broadcast(chosen, value.array.shape), value.array, 0)
            array = jnp.sum(array, axis=place, keepdims=True, dtype=value.array.dtype)
            axes = *value.axes[:axis], None, *value.axes[axis + 1 :]
            value = _Value(array, value.shape, axes)
        return value._replace(shape=shape)

    def _stack(self, *values: _Value, shape: Any, params: Any, **_: Any) -> _Value:
        if any(size != 1 for value in values for size in value.shape):
            raise Unsupported(f"stack of {values[0].shape}")
        size, array = self.pad(len(values)), values[0].array
        for i, value in enumerate(values[1:], 1):
            array = jnp.where(_along(0, size) < i, array, value.array)
        array = _broadcast(array, (size, 1))
        return _Value(array, shape, tuple(0 if n != 1 else None for n in shape))

    def _iota(self, *, shape: Any, dtype: Any, params: Any) -> _Value:
        axes = tuple(0 if axis == params["dimension"] else None for axis in range(len(shape)))
        return _Value(_along(0, self.pad(shape[params["dimension"]]), dtype), shape, axes)

    def _argmax(self, value: _Value, *, dtype: Any, params: Any, **_: Any) -> _Value:
        (axis,), n = params["axes"], value.shape[params["axes"][0]]
        value, place = self._axis(value, axis)
        top = self._reduced("reduce_max", value, (axis,)).array
        x, number = value.array, _along(place, value.array.shape[place], dtype)
        number = _broadcast(number, x.shape)
        # of several the first; NaN is the largest
        first = jnp.where((x == top) | (x != x), number, n)
        return self._reduced("reduce_min", value._replace(array=first), (axis,))

    def _dot_general(self, a: _Value, b: _Value, *, params: Any, **_: Any) -> _Value:
        ((of_a,), (of_b,)), batch = params["dimension_numbers"][0], params["dimension_numbers"][1]
        if batch != ((), ()) or len(b.shape) != 1 or len(a.shape) > 2:
            raise Unsupported(f"dot_general of {a.shape}, {b.shape}")
        axes: list[int | None] = [None] * len(a.shape)
        axes[of_a] = b.axes[of_b]
        products = self._elementwise(jnp.multiply, a, _Value(b.array, a.shape, tuple(axes)))
        return self._reduced("reduce_sum", products, (of_a,))
