"""Methods of learners that are called outside of any trace: compiled, for few shapes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl._blocks import scan_first
from jaxmkl._checks import real_array
from jaxmkl._devices import is_spread, made_on_host, on_accelerator
from jaxmkl._programs import Kept
from jaxmkl._renewals import renewals_of
from jaxmkl._types import PyTree

# Rows that are predicted together, always the same number, so that none depends on the others: on
# a CPU, and on accelerators, where starting a kernel takes long.
_TILE, _TILE_THERE = 16, 1024


M = TypeVar("M", bound=Callable)


def compiled(method: M, is_round: bool = False) -> M:
    """Compile a pure method of learners, once for all learners that differ in numbers alone.

    Examples are converted to arrays of the state's dtype. If an argument is traced, or is neither
    an array nor a number, the method itself is called.

    A method that runs one round is compiled without renewals of kernels, which are programs of
    their own, called after the rounds in which they are due (:mod:`jaxmkl._renewals`). So if a
    learner has any, each round waits for the one before.
    """
    program, given_to = Kept(method, inside=lambda *_: None, quickly=0), _given_to(method)

    @functools.wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        self, state, *examples = given_to(given, named)
        apart = renewals_of(self) if is_round else None
        result = program(self if apart is None else apart.rounds, state, *examples)
        if result is None:  # something is traced
            return method(self, state, *examples)
        if apart is None:
            return result
        after, *output = result if isinstance(result, tuple) else (result,)
        after = apart.renewed(after, int(state.round) + 1)
        return (after, *output) if output else after

    return cast(M, called)


compiled_round = functools.partial(compiled, is_round=True)


def _given_to(method: Callable) -> Callable[[tuple, dict], tuple]:
    """Make a function that puts a method's arguments in order, converted by :func:`as_known`."""
    signature = inspect.signature(method)
    names = list(signature.parameters)[2:]

    def given_to(given: tuple, named: dict[str, Any]) -> tuple:
        if named or len(given) != len(names) + 2:
            given = signature.bind(*given, **named).args
        self, state, *examples = given
        ready = (as_known(self, state, *one) for one in zip(names, examples, strict=True))
        return self, state, *ready

    return given_to


def as_known(learner: Any, state: PyTree, name: str, value: Any) -> Any:
    """An input or label as an array of the state's dtype, or a pair of both.

    Values that are traced, or do not fit, are returned as they are.

    Raises:
      ValueError: if it is sparse, or an entry is masked or not a real number.
    """
    if name == "example":
        x, y = value
        return as_known(learner, state, "x", x), as_known(learner, state, "y", y)
    array, shape = real_array(name, value), learner._label_shape
    if isinstance(array, jax.core.Tracer):
        return array
    dtype = _of_state(learner.dtype, state)
    if dtype is None:
        return array
    if array.dtype != dtype:
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    fits = name == "y" and array.shape != shape and array.size == np.prod(shape, dtype=int)
    return array.reshape(shape) if fits else array


def _of_state(method: Callable, state: PyTree) -> Any:
    """The result of a learner's method for a state; None for a state of another learner."""
    try:
        return method(state)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def in_tiles(predict_many: M) -> M:
    """Compile :meth:`jaxmkl.Learner.predict_many` for numbers of rows that are powers of two.

    Rows are predicted in tiles of one size, in a loop over the tiles in use, so the bits of a
    prediction depend on its own row alone.
    """

    def tiles(learner: Any, state: PyTree, X: jax.Array, number: jax.Array) -> PyTree:
        """The predictions of the first ``number`` tiles of X (N, R, D), zeros behind them."""

        like = jax.eval_shape(predict_many, learner, state, X[0])
        none = jax.tree.map(lambda leaf: jnp.zeros((len(X), *leaf.shape), leaf.dtype), like)

        def one(_: tuple, i: jax.Array) -> tuple[tuple, PyTree]:
            return (), predict_many(learner, state, X[i])

        return scan_first(one, (), none, number)[1]

    tiles.__name__ = predict_many.__name__
    of_tiles, of_all = Kept(tiles), Kept(predict_many, inside=predict_many)

    @functools.wraps(predict_many)
    def called(self: Any, state: PyTree, X: Any) -> Any:
        X = as_known(self, state, "X", X)
        leaves = jax.tree.leaves((self, state, X))
        fits = X.ndim == 2 and len(X) > 0 and X.shape[1] == _of_state(self.num_inputs, state)
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if not fits or traced or is_spread(leaves):
            return of_all(self, state, X)
        there = any(map(on_accelerator, leaves))
        T, R = len(X), _TILE_THERE if there else _TILE
        R = min(R, 1 << (T - 1).bit_length()) if there else R
        N = 1 << (-(-T // R) - 1).bit_length()
        pad = (0, N * R - T), (0, 0)
        X = jnp.pad(X, pad) if on_accelerator(X) else np.pad(X, pad)
        found = of_tiles(self, state, X.reshape(N, R, -1), np.int32(-(-T // R)))
        return jax.tree.map(functools.partial(_first, number=T), found)

    return cast(M, called)


def _first(leaf: jax.Array, number: int) -> jax.Array:
    """The first rows (number, ...) of tiles (N, R, ...); on a host without a compilation."""

    def rows(leaf: Any) -> Any:
        return leaf.reshape(-1, *leaf.shape[2:])[:number]

    return rows(leaf) if on_accelerator(leaf) else made_on_host(rows, leaf)
