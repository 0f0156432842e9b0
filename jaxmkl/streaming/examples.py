"""The doorway of the drivers, where X and y are examined once.

Data take one way through this package:

    Examples.of, of_fleet    where X and y lie, their shapes, dtypes and values; labels as numbers
    _warnings                of uninformative data
    _engine, many            rows in segments, padded to few lengths, each run in turn; or all as
                             one program: inside a trace and on several devices
    _warnings                of what the rounds counted, and of predictions worse than the mean

Values are checked if they are known, even inside ``jit`` if they belong to an enclosing scope.
They are checked on the host, with NumPy. Those on an accelerator are checked there, and the answer
comes back after the run with its counters, so a call waits for the device once. Labels of classes
are read on the host.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import (
    check_state,
    input_bound,
    is_real,
    is_tracer,
    on_host,
    refuse_listed,
    refuse_masked,
    refuse_unless,
    unmasked,
)
from jaxmkl._devices import is_spread, on_accelerator, seen_whole, whole
from jaxmkl._host import is_inside_a_trace
from jaxmkl._learner import Learner, require_learner
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.labels import are_words, class_numbers, floats, given, labels, where_known
from jaxmkl.streaming.sparse import SparseRows, stored


def is_traced(*trees: PyTree) -> bool:
    """True if we are inside a trace: some leaf is a tracer, or new arrays would be."""
    return is_tracer(*trees) or is_inside_a_trace()


def check_arguments(driver: str, learner: Any, state: PyTree) -> None:
    """Refuse an argument that is not a learner, and a state of another learner."""
    given = type(state).__name__
    if isinstance(state, Learner):
        given = f"{type(learner).__name__}, and the learner in its place"
    wanted = f"the state, from learner.init: the order is {driver}(learner, state, ...)"
    good = not isinstance(state, Learner | np.ndarray | jax.Array)
    pytree.require(good, driver, "the second argument", given, wanted)
    require_learner(driver, learner)
    check_state(learner, state)


def check_states(driver: str, learner: Learner, states: PyTree) -> tuple[Any, int]:
    """Check stacked states of a learner; return what a single one is like, and their number M."""
    leaves = jax.tree.leaves(states)
    axes = {np.shape(leaf)[:1] for leaf in leaves}
    wanted = "states of one learner, stacked: all leaves with the same leading axis, of at least 1"
    tree = bool(leaves) and not jax.tree_util.all_leaves([states])
    given = f"leaves of leading axes {sorted(axes)}" if tree else type(states).__name__
    good = tree and len(axes) == 1 and axes not in ({()}, {(0,)})
    pytree.require(good, driver, "states", given, wanted)
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), states)
    check_state(learner, like)
    return like, *axes.pop()


class Reading:
    """The reading of the labels of a run, or of all chunks of a stream.

    Labels in words keep the meaning that the first ones gave them. A state does not keep it: two
    words are -1 and +1 in sorted order, so for one learner "dog" could be +1 beside "cat", and -1
    beside "eel" in the next run. So words are refused if other labels came before.
    """

    def __init__(self, round: Any = 0, *, in_chunks: bool = False, gaps: bool = False) -> None:
        self.round, self.in_chunks, self.gaps = round, in_chunks, gaps
        self.classes: tuple | None = None
        self.after_numbers = False

    def numbers(self, learner: Learner, y: np.ndarray) -> np.ndarray:
        """Labels of classes in numbers: -1 and +1, or 0 to K - 1."""
        words, K = are_words(y), learner.num_outputs
        if words and self.classes is None:
            self.refuse_words(learner)
        classes = self.classes if words else None
        found, read = labels(y, classes) if K is None else class_numbers(y, K, classes)
        self.classes = read if words else self.classes
        self.after_numbers |= not words
        return found

    def refuse_words(self, learner: Learner) -> None:
        """Refuse labels in words if a round is known to have come before."""
        known, K = not is_tracer(self.round), learner.num_outputs
        call = "labels(y, classes)[0]" if K is None else f"class_numbers(y, {K}, classes)[0]"
        text = "y must hold numbers or booleans where a state is continued"
        text += "" if known else ", or may be, as inside a trace"
        text += "; got words, and a state does not keep which of its classes had which word: pass "
        text += f"jaxmkl.labels.{call}, with the classes in order"
        refuse_unless(known and not self.after_numbers and not np.any(whole(self.round)), text)


class Held(NamedTuple):
    """X or y, and its place in memory."""

    name: str
    array: Any
    """The array of NumPy or JAX, or sparse rows."""
    seen: np.ndarray | None
    """Its numbers on the host, of sparse rows those stored; None if they cannot be seen."""
    stays: bool = False
    """True if it stays where it is: on an accelerator, or on several devices."""

    @classmethod
    def of(
        cls, name: str, array: Any, *, brought: bool = False, in_chunks: bool = False
    ) -> "Held":
        """An argument of a driver, perhaps ``brought`` to the host from any device.

        That of a stream ``in_chunks``, which runs on its state's device, is brought from CPUs.

        Raises:
          ValueError: if entries are masked, or parts lie on devices of other processes.
        """
        refuse_masked(name, array)
        refuse_listed(name, array)
        array = array if isinstance(array, jax.Array | SparseRows) else on_host(array)
        dtype = stored(array).dtype
        text = f"{name} must hold numbers or labels; got dtype {dtype}"
        refuse_unless(not jnp.issubdtype(dtype, jax.dtypes.extended), text)
        if is_tracer(array):
            return cls(name, array, None)
        text = f"{name} must be whole in each process; got parts (jax.distributed)"
        refuse_unless(seen_whole(array), text)
        there = on_accelerator(stored(array)) and not brought
        if brought or (in_chunks and not there):
            array = jax.tree.map(np.asarray, array)
        seen = None if there else np.asarray(stored(array))
        return cls(name, array, seen, there or is_spread(array))

    @classmethod
    def here(cls, name: str, array: np.ndarray) -> "Held":
        """An array on the host."""
        return cls(name, array, array)

    @property
    def traced(self) -> bool:
        """True if its values are not known."""
        return self.seen is None and not self.stays

    @property
    def is_sparse(self) -> bool:
        """True if these are sparse rows."""
        return isinstance(self.array, SparseRows)

    def is_good(self, dtype: DTypeLike) -> jax.Array | None:
        """True if all numbers on an accelerator can be learned from; None if there are none."""
        numbers = stored(self.array)
        if self.seen is not None or self.traced or numbers.dtype == bool:
            return None
        return _all_within(numbers, _bound(numbers, dtype))

    def refuse(self, dtype: DTypeLike, known: np.ndarray | None = None) -> None:
        """Raise for the first ``known`` number that cannot be learned from in a dtype."""
        if self.seen is None:
            with jax.ensure_compile_time_eval():  # as we may be inside a trace
                good = self.is_good(dtype)
                if good is None or good:
                    return
        numbers = np.asarray(stored(self.array)) if self.seen is None else self.seen
        if numbers.dtype == bool:
            return
        numbers = numbers if known is None else np.where(known, numbers, 0.0)
        bound = _bound(numbers, dtype)
        with np.errstate(invalid="ignore"):
            # no array as large as X is made; NaN fails the comparison
            if -bound <= numbers.min(initial=0) and numbers.max(initial=0) <= bound:
                return
        usable = (-bound <= numbers) & (numbers <= bound)
        if self.is_sparse:
            usable |= np.asarray(self.array.indices) == self.array.num_columns
        for where in np.argwhere(~usable)[:1].tolist():
            value, place = numbers[tuple(where)], where
            if self.is_sparse:
                place = [where[0], int(self.array.indices[tuple(where)])]
            raise ValueError(
                f"{self.name} must be finite and of magnitude at most {bound:.3g} (drop or fill "
                "such values first, or scan learner.step, which skips and counts them); got "
                f"{self.name}{place} = {value} and {int((~usable).sum())} such value(s) in all"
            )


def _bound(numbers: Any, dtype: DTypeLike) -> float:
    """The largest magnitude that can be learned, or the largest number of the numbers' dtype."""
    limits = jnp.finfo if jnp.issubdtype(numbers.dtype, jnp.floating) else jnp.iinfo
    return min(input_bound(dtype), float(limits(numbers.dtype).max))


@jax.jit
def _all_within(numbers: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.all((-bound <= numbers) & (numbers <= bound))


class Examples(NamedTuple):
    """X and y of a driver, with all that it needs to know about them."""

    X: Held
    y: Held
    """Labels of classes, if they can be seen, are -1 and +1, or 0 to K - 1."""
    dtype: np.dtype
    """The dtype of the state."""
    traced: bool
    """True if the driver is called inside a trace."""
    lengths: Any = None
    """For a fleet, the number of examples of each stream (M,)."""

    @classmethod
    def of(
        cls, learner: Learner, state: PyTree, X: Inputs, y: Labels, reading: Reading | None = None
    ) -> "Examples":
        """Examples of one stream: X (T, D), perhaps sparse, and y (T,), or several targets (T, K).

        In the place of a state there may be the keys of states that will be made for X. Chunks,
        whose labels are read by a stream's ``reading``, may be empty.

        Raises:
          ValueError: for shapes, dtypes, values or labels from which the learner cannot learn.
        """
        is_new = isinstance(state, jax.Array)
        reading = reading or Reading(0 if is_new else state.round)
        X, y = _held(learner, X, y, reading)
        shape, K = X.array.shape, learner.num_outputs
        if is_new:  # in double precision if X and JAX have it
            double = X.array.dtype == jnp.float64
            dtype = jax.dtypes.canonicalize_dtype(jnp.float64 if double else jnp.float32)
        else:
            dtype = learner.dtype(state)
        num_inputs = shape[-1:] if is_new else (learner.num_inputs(state),)
        # chunks are never traced
        traced = not reading.in_chunks and is_traced(learner, state, X.array, y.array)
        found = cls(X, y, dtype, traced)
        if reading.in_chunks and shape == (0, *num_inputs) and y.array.size == 0:
            return found
        text = "X must have shape (T, D), examples by inputs"
        refuse_unless(len(shape) == 2, f"{text}; got shape {shape}")
        text = f"X must have {num_inputs[0]} columns, as many as the state was made for"
        refuse_unless(shape[1:] == num_inputs, f"{text}; got {shape[1]} (shape {shape})")
        if _is_column(learner):
            if y.array.ndim == 2 and y.array.shape[1] == 1:
                seen = None if y.seen is None else y.seen[:, 0]
                y = y._replace(array=y.array[:, 0], seen=seen)
            text = f"y must have shape (T,) or (T, 1); got shape {y.array.shape}"
            refuse_unless(y.array.ndim == 1, text)
        else:
            text = f"y must have shape (T, {K}), a column for each target"
            good = y.array.ndim == 2 and y.array.shape[1] == K
            refuse_unless(good, f"{text}; got shape {y.array.shape}")
        text = f"y must have one entry for each of the {shape[0]} rows of X; got {len(y.array)}"
        refuse_unless(len(y.array) == shape[0], text)
        refuse_unless(shape[0] > 0, f"X must hold at least one example; got shape {shape}")
        refuse_unless(shape[1] > 0, f"X must have at least one column; got shape {shape}")
        known = given(y.array) if reading.gaps else None
        return found._replace(y=y)._checked(learner, reading, known)

    @classmethod
    def of_fleet(
        cls, learner: Learner, states: PyTree, like: PyTree, X: Inputs, y: Labels, lengths: Any
    ) -> "Examples":
        """Examples of streams side by side: X (M, T, D) and y (M, T), or (M, T, K).

        If they can be seen, X and y become 0 after the lengths (M,), by default T. The states of
        the M streams are each ``like`` one of these shapes and dtypes.

        Raises:
          ValueError: as :meth:`of`, and for lengths that do not fit.
        """
        reading = Reading(states.round)
        X, y = _held(learner, X, y, reading)
        shape, (M, *_), D = X.array.shape, np.shape(states.round), learner.num_inputs(like)
        text = (
            f"X must have shape ({M}, T, {D}), streams by examples by inputs, as there are states"
        )
        good = len(shape) == 3 and (shape[0], shape[2]) == (M, D)
        refuse_unless(good, f"{text}; got shape {shape}")
        refuse_unless(shape[1] > 0, f"X must hold at least one example; got shape {shape}")
        wanted = shape[:2] if _is_column(learner) else (*shape[:2], learner.num_outputs)
        text = f"y must have shape {wanted}; got shape {y.array.shape}"
        refuse_unless(y.array.shape == wanted, text)
        traced = is_traced(learner, states, X.array, y.array, lengths)
        lengths, T = np.full(M, shape[1]) if lengths is None else lengths, shape[1]
        found = cls(X, y, learner.dtype(like), traced, lengths)
        if X.traced or y.traced or is_tracer(lengths):
            if learner.task == "classification" and not y.traced and are_words(y.array):
                reading.refuse_words(learner)
            return found
        lengths = np.asarray(lengths)
        good = lengths.shape == (M,) and lengths.dtype.kind in "iu"
        good = bool(good and np.all((lengths >= 0) & (lengths <= T)))
        shown = lengths.tolist() if lengths.size < 20 else f"{lengths.dtype} {lengths.shape}"
        refuse_unless(good, f"lengths must be {M} integers from 0 to {T}; got {shown}")
        found = found._replace(lengths=lengths.astype(np.int32))
        if np.all(lengths == T):
            return found._checked(learner, reading)
        known = np.arange(T) < lengths[:, None]
        inputs, targets = np.asarray(X.array), np.asarray(y.array)
        inputs = np.where(known[..., None], inputs, np.zeros((), inputs.dtype))
        known = np.broadcast_to(known.reshape(M, T, *(1,) * (len(wanted) - 2)), wanted)
        found = found._replace(X=Held.here("X", inputs), y=Held.here("y", targets))
        found = found._checked(learner, reading, known)
        targets = np.where(known, found.y.array, np.zeros((), found.y.array.dtype))
        return found._replace(y=Held.here("y", targets))

    @property
    def length(self) -> int:
        """The number of rows T, for a fleet in each stream."""
        return self.X.array.shape[-2]

    def cast(self) -> tuple[PyTree, Any]:
        """X and y in the dtype, inside a trace."""
        return self.X.array.astype(self.dtype), self.y.array.astype(self.dtype)

    def _checked(
        self, learner: Learner, reading: Reading, known: np.ndarray | None = None
    ) -> "Examples":
        """Refuse values that cannot be learned from, and read labels of classes.

        Only labels that are ``known`` are checked and read; by default all are.
        """
        X, y, classify = self.X, self.y, learner.task == "classification"
        for one in (X,) if classify else (X, y):
            text = f"{one.name} must hold real numbers; got dtype {one.array.dtype}"
            refuse_unless(is_real(one.array.dtype), text)
            # values on an accelerator are judged after the run, unless there is a trace
            if one.seen is not None or (self.traced and not one.traced):
                one.refuse(self.dtype, known if one is y else None)
        if not X.traced:
            rows = X.array if X.seen is None or X.is_sparse else X.seen
            learner.check_inputs(rows.reshape(-1, rows.shape[-1]) if rows.ndim > 2 else rows)
        if not classify or y.traced:
            return self
        known = np.ones(y.array.shape, bool) if known is None else known
        read = where_known(partial(reading.numbers, learner), y.array, known)
        return self._replace(y=Held.here("y", read))


def _held(learner: Learner, X: Inputs, y: Labels, reading: Reading) -> tuple[Held, Held]:
    """X and y as given; labels of classes, and labels with gaps, are brought to the host."""
    classify, chunks = learner.task == "classification", reading.in_chunks
    y = unmasked(y) if reading.gaps else y
    y = Held.of("y", y, brought=classify or reading.gaps, in_chunks=chunks)
    if reading.gaps and not classify:
        y = Held.here("y", floats(y.array))
    X = SparseRows.from_csr(X) if hasattr(X, "tocsr") else X
    return Held.of("X", X, in_chunks=chunks), y


def _is_column(learner: Learner) -> bool:
    """True if a label is one number: a class, or a single target."""
    return learner.task == "classification" or learner.num_outputs is None
