"""Compiled programs, of which a process keeps a bounded number.

JAX keeps a compiled program for as long as the function exists. Each kernel of a program has
memory maps of its own for its machine code, and Linux gives a process 65,530 of them. So a process
that compiles for many lengths of stream would die.
"""

import dataclasses
import functools
import inspect
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.backend import backends
from jax.extend.core import Jaxpr, Var, jaxpr_as_fun, subjaxprs
from jax.sharding import SingleDeviceSharding

from jaxmkl import _pytree as pytree
from jaxmkl._host import Evaluated, is_inside_a_trace
from jaxmkl._types import PyTree

_MAPS = Path("/proc/self/maps")
# With these options, XLA gives all kernels of a program to LLVM at once. It then takes half as
# long to compile, and a third of the memory maps. Renewals run as fast as otherwise, and rounds of
# large programs take 1.06 times as long; those of small ones, which have more work in an
# operation, take up to twice as long (forgetron), and so are compiled as usual. JAX 0.12 has no
# such option.
_QUICKLY = {"xla_cpu_use_fusion_emitters": False}
LARGE = 1650  # operations from which on a program takes seconds to compile
_USUAL = 1000  # memory maps assumed for a program if the system does not report them


@dataclasses.dataclass(eq=False)
class _Program:
    """A program that is kept."""

    call: Callable
    used: int
    """The time of the last call."""
    maps: int = 0
    """The memory maps that it takes; 0 until it is compiled."""


class _Table:
    """The programs of a process, by the kind of arguments that they are compiled for."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._programs: dict[tuple, _Program] = {}
        self._making: dict[tuple, threading.RLock] = {}
        self._times = itertools.count()
        self._lock = threading.Lock()

    def called(self, kind: tuple, make: Callable[[], Callable], leaves: list) -> PyTree:
        """Call the program of a kind, which is made first if there is none."""
        program = self._programs.get(kind)
        if program is None:
            with self._lock:
                making = self._making.setdefault(kind, threading.RLock())
            with making:  # others that want the same program wait for the first one
                program = self._programs.get(kind)
                if program is None:
                    return self._made(kind, make, leaves)
        program.used = next(self._times)
        return program.call(*leaves)

    def _made(self, kind: tuple, make: Callable[[], Callable], leaves: list) -> PyTree:
        """The result of the first call of a program, which compiles it."""
        before = num_maps()
        try:
            program = _Program(make(), next(self._times))
            result = program.call(*leaves)
            program.maps = max(0, num_maps() - before) if before else _USUAL
            with self._lock:
                self._programs[kind] = program
        except Exception as error:
            # refusals are in the library's words, without JAX's note on its own frames
            notes = getattr(error, "__notes__", [])
            notes[:] = [note for note in notes if "JAX has removed its internal" not in note]
            raise
        finally:
            with self._lock:
                self._making.pop(kind, None)
        self.trim(program)
        return result

    def trim(self, newest: _Program | None = None) -> None:
        """Drop the programs whose last call is longest ago, but never the newest.

        A program that is running stays until it is done.
        """
        with self._lock:
            total = sum(program.maps for program in self._programs.values())
            for kind, program in sorted(self._programs.items(), key=lambda one: one[1].used):
                if total <= self.most:
                    return
                if program is not newest:
                    total -= self._programs.pop(kind).maps

    def drop(self, owner: object) -> None:
        """Drop all programs of a function."""
        with self._lock:
            for kind in [kind for kind in self._programs if kind[0] is owner]:
                del self._programs[kind]

    def number(self, owner: object) -> int:
        """The number of programs of a function."""
        return sum(kind[0] is owner for kind in list(self._programs))


_TABLE = _Table(8_192)


def num_operations(jaxpr: Jaxpr) -> int:
    """The number of operations of a program, including programs inside it."""
    return len(jaxpr.eqns) + sum(map(num_operations, subjaxprs(jaxpr)))


def num_maps() -> int:
    """The number of memory maps of this process, on Linux; 0 elsewhere."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def keep_programs(memory_maps: int) -> int:
    """Bound the compiled programs that this library keeps in this process; return the old bound.

    Beyond the bound, the programs whose last call is longest ago are dropped, and compiled again
    when they are called. The default is 8,192 of the 65,530 memory maps that Linux gives a
    process: the run of a default :func:`jaxmkl.expert_mkl` takes up to 1,400, that of
    :func:`jaxmkl.raker` 130; on other systems each program counts as 1,000. Programs that you
    compile yourself, by a ``jax.jit`` around anything of this library, are not affected.

    Args:
      memory_maps: the bound, for the process; 0 keeps only the program called last.

    Raises:
      ValueError: unless it is an integer of at least 0.

    >>> former = keep_programs(30_000)
    >>> keep_programs(former)
    30000
    """
    given = pytree.as_count("keep_programs", "memory_maps", memory_maps, minimum=0)
    former, _TABLE.most = _TABLE.most, given
    _TABLE.trim()
    return former


@functools.cache
def _options_to_compile_quickly() -> dict[str, Any] | None:
    """XLA's options for CPU programs that take long to compile, if it has them."""
    if jax.default_backend() != "cpu":
        return None
    try:
        with jax.ensure_compile_time_eval():  # for we may be inside a trace
            jax.jit(lambda: np.float32(0), compiler_options=_QUICKLY)()
    except jax.errors.JaxRuntimeError:
        return None
    return _QUICKLY


def _forwarding(traced: Any, name: str, options: dict[str, Any] | None) -> Callable:
    """Compile a traced program so that results which are arguments are not copied.

    An update leaves much of a state unchanged, and XLA would write all of it again.
    """
    arguments, results = traced.jaxpr.jaxpr.invars, traced.jaxpr.jaxpr.outvars
    places = {variable: place for place, variable in enumerate(arguments)}
    given = [places.get(one) if isinstance(one, Var) else None for one in results]
    whole = jaxpr_as_fun(traced.jaxpr)

    def rest(*leaves: Any) -> list:
        return [one for one, place in zip(whole(*leaves), given, strict=True) if place is None]

    rest.__name__ = name  # for jax.log_compiles
    program, usual = jax.jit(rest, compiler_options=options), jax.jit(rest)
    structure = jax.tree.structure(traced.out_info)
    new = [at for at, place in enumerate(given) if place is None]
    one_device = sum(one.device_count() for one in backends().values()) == 1

    def call(*leaves: Any) -> PyTree:
        # options are for whole programs, not for a part of another one
        is_part = options is not None and is_inside_a_trace()
        made = (usual if is_part else program)(*leaves)
        # inside another trace, even if all arguments are known, results belong to that trace
        known = made and not isinstance(made[0], jax.core.Tracer)
        home = made[0].sharding if known and not one_device else None
        found = [None if place is None else _at_home(leaves[place], home) for place in given]
        for at, one in zip(new, made, strict=True):
            found[at] = one
        return jax.tree.unflatten(structure, found)

    return call


def _at_home(leaf: Any, home: Any) -> jax.Array:
    """An argument as a result: an array on the device of the others, if they are on one."""
    array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
    if not isinstance(home, SingleDeviceSharding):
        return array
    # by devices, as the sharding of keys takes ten times as long to find
    return array if array.devices() == home.device_set else jax.device_put(array, home)


class Kept:
    """A pure function, compiled for each kind of arguments and kept within the process's bound.

    Args:
      function: a function of pytrees, which are traced, and of keywords that are static.
      inside: the function that is called instead inside a trace, by default the jitted function.
      on_host: whether it is evaluated with NumPy rather than compiled (:mod:`jaxmkl._host`).
      quickly: the number of operations from which on a program is compiled quickly, rather than
        optimized fully; None for never.
    """

    def __init__(
        self,
        function: Callable,
        inside: Callable | None = None,
        *,
        on_host: bool = False,
        quickly: int | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        parameters = inspect.signature(function).parameters.values()
        static = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self._function = function
        self._jitted: Any = jax.jit(function, static_argnames=static)
        self._inside = self._jitted if inside is None else inside
        self._on_host, self._quickly = on_host, quickly
        self.lower, self.trace = self._jitted.lower, self._jitted.trace
        self.eval_shape = self._jitted.eval_shape

    def __call__(self, *args: PyTree, **static: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        kinds = tuple(map(_kind_of, leaves))
        if None in kinds or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return self._inside(*args, **static)
        kind = (self, structure, kinds, *_of_process(), *sorted(static.items()))
        return _TABLE.called(kind, lambda: self._compiled(structure, static, leaves), leaves)

    def _compiled(self, structure: Any, static: dict[str, Any], leaves: list) -> Callable:
        """A jitted function of leaves that shares no program with another one."""
        function = self._function

        def of_leaves(*leaves: Any) -> Any:
            return function(*jax.tree.unflatten(structure, leaves), **static)

        of_leaves.__name__ = function.__name__  # for jax.log_compiles
        if self._on_host:
            return Evaluated(of_leaves)
        options = _options_to_compile_quickly() if self._quickly is not None else None
        traced = jax.jit(of_leaves).trace(*leaves)
        if self._quickly and num_operations(traced.jaxpr.jaxpr) < self._quickly:
            options = None
        return _forwarding(traced, function.__name__, options)

    def clear_cache(self) -> None:
        """Drop the function's programs."""
        self._jitted.clear_cache()
        _TABLE.drop(self)

    def num_programs(self) -> int:
        """The number of programs of the function that are kept."""
        return _TABLE.number(self)


def _of_process() -> tuple:
    """JAX's settings, such as double precision, on which a program depends when it is traced."""
    config: Any = jax.config
    return (
        config.jax_enable_x64,
        config.jax_default_matmul_precision,
        config.jax_numpy_dtype_promotion,
        config.jax_threefry_partitionable,
    )


def _kind_of(leaf: Any) -> Any:
    """The kind of a leaf on which a program depends; None if it is no known array or number."""
    of: Any = type(leaf)
    sort = _sort_of(of)
    return (leaf.shape, leaf.dtype) if sort == "array" else sort


@functools.cache
def _sort_of(of: Any) -> Any:
    """ "array", the type itself of a number, or None."""
    if issubclass(of, jax.core.Tracer):
        return None
    if issubclass(of, jax.Array | np.ndarray | np.generic):
        return "array"
    return of if issubclass(of, int | float) else None
