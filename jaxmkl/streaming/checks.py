"""Checks of the drivers: they refuse wrong shapes, and values that cannot be learned from.

Values are checked where they are known: inside ``jit`` too, if they are data of an enclosing
scope. They are on the host, with NumPy. Those that lie on an accelerator are checked there, and
whether they are good comes back after the run with its counters, so a call waits for the device
once. Labels of classes are read on the host.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import (
    check_state,
    input_bound,
    is_real,
    refuse_listed,
    refuse_masked,
    refuse_unless,
    shown,
    warn_outside,
)
from jaxmkl._devices import on_accelerator, on_host, seen_whole, whole
from jaxmkl._learner import Learner, require_learner
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.labels import are_words, class_numbers, labels, where_known
from jaxmkl.streaming.sparse import SparseRows


def is_tracer(*trees: PyTree) -> bool:
    """Whether some leaf is a tracer, whose values are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def is_traced(*trees: PyTree) -> bool:
    """Whether we are inside a trace: some leaf is a tracer, or new arrays would be."""
    return is_tracer(jnp.zeros(()), *trees)


def check_arguments(driver: str, learner: Any, state: PyTree) -> None:
    """Refuse what is no learner, and a state of another one."""
    given = type(state).__name__
    if isinstance(state, Learner):
        given = f"{type(learner).__name__}, and the learner in its place"
    wanted = f"the state, from learner.init: the order is {driver}(learner, state, ...)"
    good = not isinstance(state, Learner | np.ndarray | jax.Array)
    pytree.require(good, driver, "the second argument", given, wanted)
    require_learner(driver, learner)
    check_state(learner, state)


def as_inputs(X: Inputs) -> PyTree:
    """X as an array of NumPy or JAX, or as sparse rows."""
    _require_whole("X", X)
    if isinstance(X, SparseRows | jax.Array):
        return X
    return SparseRows.from_csr(X) if hasattr(X, "tocsr") else np.asarray(X)


def _require_whole(name: str, array: Any) -> None:
    """Refuse what is masked, and parts of an array that lie on devices of other processes."""
    refuse_masked(name, array)
    refuse_listed(name, array)
    here = is_tracer(array) or seen_whole(array)
    refuse_unless(here, f"{name} must be whole in each process; got parts (jax.distributed)")


def check_examples(
    learner: Learner,
    X: Inputs,
    y: Labels,
    num_inputs: int,
    dtype: DTypeLike,
    gaps: bool = False,
    later: bool = False,
    round: Any = 0,
) -> tuple:
    """Refuse what cannot be learned from; X (T, D), perhaps sparse, and y in their dtypes.

    Targets are (T,), several (T, K). Labels of classes that can be seen come back as -1 and +1, of
    K classes as 0 to K - 1. With ``gaps`` NaN in y stays, where a label is not there. With
    ``later`` values on an accelerator are left to :func:`refuse_and_warn`. Labels in words are
    for a state whose ``round`` is 0.
    """
    _require_whole("y", y)
    classify, K = learner.task == "classification", learner.num_outputs
    stays = is_tracer(y) or (on_accelerator(y) and not classify and not gaps)
    X, y = as_inputs(X), y if stays else np.asarray(y)
    text = "X must have shape (T, D), examples by inputs"
    refuse_unless(X.ndim == 2, f"{text}; got shape {X.shape}")
    T, D = X.shape
    text = f"X must have {num_inputs} columns, as many as the state was made for"
    refuse_unless(num_inputs == D, f"{text}; got {D} (shape {X.shape})")
    if classify or K is None:
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        refuse_unless(y.ndim == 1, f"y must have shape (T,) or (T, 1); got shape {y.shape}")
    else:
        text = f"y must have shape (T, {K}), a column for each target; got shape {y.shape}"
        refuse_unless(y.ndim == 2 and y.shape[1] == K, text)
    text = f"y must have one entry for each of the {T} rows of X; got {len(y)}"
    refuse_unless(len(y) == T, text)
    refuse_unless(T > 0, f"X must hold at least one example; got shape {X.shape}")
    known = None
    if classify and are_words(y):
        refuse_words(learner, round)
    if gaps and not is_tracer(y) and jnp.issubdtype(y.dtype, jnp.floating):
        known = ~np.isnan(y)
    return X, _check_content(learner, X, y, dtype, known, later)


def _check_content(
    learner: Learner,
    X: Inputs,
    y: Labels,
    dtype: DTypeLike,
    known: Any = None,
    later: bool = False,
) -> PyTree:
    """Refuse values that cannot be learned from; the targets, of classes in numbers.

    Only targets that are ``known`` are checked, by default all.
    """
    classify = learner.task == "classification"
    for name, array in [("X", X)] if classify else [("X", X), ("y", y)]:
        real = is_real(array.dtype)
        refuse_unless(real, f"{name} must hold real numbers; got dtype {array.dtype}")
        if not is_tracer(array) and not (later and on_accelerator(_stored(array))):
            some = array if name == "X" or known is None else np.where(known, array, 0.0)
            _check_values(name, some, input_bound(dtype))
    if not is_tracer(X):
        rows = on_host(X) if isinstance(X, jax.Array) else X
        learner.check_inputs(rows.reshape(-1, rows.shape[-1]) if rows.ndim > 2 else rows)
    if classify and not is_tracer(y):
        known = np.ones(y.shape, bool) if known is None else known
        y = where_known(lambda y: read_labels(learner, y)[0], y, known)
    return y


def check_states(driver: str, learner: Learner, states: PyTree) -> tuple[Any, int]:
    """Refuse what are no states of a learner along a leading axis; what one is like, and M."""
    leaves = jax.tree.leaves(states)
    axes = {np.shape(leaf)[:1] for leaf in leaves}
    wanted = "states of one learner, stacked: all leaves with the same leading axis, of at least 1"
    given = f"leaves of leading axes {sorted(axes)}" if leaves else type(states).__name__
    good = len(axes) == 1 and axes not in ({()}, {(0,)})
    pytree.require(good, driver, "states", given, wanted)
    (number,) = axes.pop()

    def row(leaf: PyTree) -> PyTree:
        return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)

    state = jax.tree.map(row, states)
    check_state(learner, state)
    return state, number


def check_streams(
    learner: Learner,
    X: Inputs,
    y: Labels,
    lengths: Any,
    shape: tuple[int, int],
    dtype: DTypeLike,
    rounds: Any,
) -> tuple:
    """Refuse streams that cannot be learned from: X (M, T, D), of ``shape`` (M, D), y and lengths.

    Labels in words are for states whose ``rounds`` are all 0. What comes back is 0 behind the
    lengths, where X and y can be seen.
    """
    _require_whole("y", y)
    X, y = as_inputs(X), y if isinstance(y, jax.Array) else np.asarray(y)
    M, D, K = *shape, learner.num_outputs
    text = f"X must have shape ({M}, T, {D}), streams by examples by inputs, as there are states"
    good = X.ndim == 3 and (X.shape[0], X.shape[2]) == shape
    refuse_unless(good, f"{text}; got shape {X.shape}")
    refuse_unless(X.shape[1] > 0, f"X must hold at least one example; got shape {X.shape}")
    wanted = X.shape[:2] if learner.task == "classification" or K is None else (*X.shape[:2], K)
    refuse_unless(y.shape == wanted, f"y must have shape {wanted}; got shape {y.shape}")
    if learner.task == "classification" and are_words(y):
        refuse_words(learner, rounds)
    T = X.shape[1]
    if is_tracer(X, y, lengths):
        return X, y, jnp.full(M, T) if lengths is None else lengths
    lengths = np.full(M, T) if lengths is None else np.asarray(lengths)
    good = lengths.shape == (M,) and lengths.dtype.kind in "iu"
    good = bool(good and np.all((lengths >= 0) & (lengths <= T)))
    given = lengths.tolist() if lengths.size < 20 else f"{lengths.dtype} {lengths.shape}"
    refuse_unless(good, f"lengths must be {M} integers from 0 to {T}; got {given}")
    lengths = lengths.astype(np.int32)
    y = np.asarray(y)
    if np.all(lengths == T):
        return X, _check_content(learner, X, y, dtype, later=not is_traced()), lengths
    known = np.arange(T) < lengths[:, None]
    X = np.where(known[..., None], np.asarray(X), np.zeros((), X.dtype))
    known = known.reshape(*known.shape, *(1,) * (y.ndim - 2))
    y = _check_content(learner, X, y, dtype, np.broadcast_to(known, y.shape))
    return X, np.where(known, y, np.zeros((), y.dtype)), lengths


def _stored(array: Any) -> Any:
    """The array, or the values of sparse rows."""
    return array.values if isinstance(array, SparseRows) else array


def _check_values(name: str, array: Any, bound: float) -> None:
    if array.dtype == bool:
        return
    sparse = isinstance(array, SparseRows)
    values = on_host(_stored(array))
    bound = _own_bound(values, bound)
    if on_accelerator(values):
        with jax.ensure_compile_time_eval():  # for we may be inside a trace
            if _all_within(values, bound):
                return
        values = np.asarray(values)  # to say where
    with np.errstate(invalid="ignore"):
        # no array as large as X is made; NaN fails the comparison
        if -bound <= values.min(initial=0) and values.max(initial=0) <= bound:
            return
    usable = (-bound <= values) & (values <= bound)
    if sparse:
        usable |= np.asarray(array.indices) == array.num_columns
    for where in np.argwhere(~usable)[:1].tolist():
        value, row = values[tuple(where)], where[:1]
        stands = [*row, int(array.indices[tuple(where)])] if sparse else where
        raise ValueError(
            f"{name} must be finite and of magnitude at most {bound:.3g} (drop or fill such "
            "values first, or scan learner.step, which skips and counts them); got "
            f"{name}{stands} = {value} and {int((~usable).sum())} such value(s) in all"
        )


def _own_bound(values: Any, bound: float) -> float:
    """The bound, or the largest number of the values' dtype."""
    limits = jnp.finfo if jnp.issubdtype(values.dtype, jnp.floating) else jnp.iinfo
    return min(bound, float(limits(values.dtype).max))


@jax.jit
def _all_within(values: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.all((-bound <= values) & (values <= bound))


def refuse_words(learner: Learner, round: Any) -> None:
    """Refuse labels in words, unless a state is known to have had no round yet.

    A state does not keep which words its classes had. Two words are -1 and +1 in sorted order, so
    of the same learner "dog" could be +1 beside "cat", and -1 beside "eel" in the next run.
    """
    known = not is_tracer(round)
    K, owner = learner.num_outputs, "jaxmkl.labels."
    call = f"{owner}labels(y, classes)[0]" if K is None else ""
    call = call or f"{owner}class_numbers(y, {K}, classes)[0]"
    text = "y must hold numbers or booleans where a state is continued"
    text += "" if known else ", or may be, as inside a trace"
    text += "; got words, and a state does not keep which of its classes had which word: pass "
    refuse_unless(known and not np.any(whole(round)), f"{text}{call}, with the classes in order")


def read_labels(
    learner: Learner, y: np.ndarray, classes: Sequence[Any] | None = None
) -> tuple[np.ndarray, tuple]:
    """Labels in numbers, of two classes or several, and the classes."""
    K = learner.num_outputs
    return labels(y, classes) if K is None else class_numbers(y, K, classes)


ROWS_TO_JUDGE = 100
"""Rows of equal inputs that drivers warn of, at least."""


def input_least(dtype: DTypeLike) -> float:
    """The least difference of inputs whose square survives in running moments, 6.9e-18 in float32.

    It is 64 times the square root of the dtype's least normal number; 0 for half precision, where
    inputs of the order of 1 are not far from it.
    """
    least = 64.0 * float(np.sqrt(float(jnp.finfo(dtype).tiny)))
    return least if least < 1e-9 else 0.0


def warn_of_examples(
    driver: str,
    learner: Learner,
    examples: tuple[Inputs, Labels],
    dtype: DTypeLike,
    number: int | None = None,
) -> None:
    """Warn of examples from which nothing can be learned, in the name of a driver.

    These are inputs that are all the same, and columns of inputs, or numbers to predict, whose
    differences vanish. Examples on an accelerator are not judged. Of the rows ``number`` are
    examples, by default all, and the others are 0.
    """
    X, y = examples
    for text in (_about_inputs(learner, X, dtype, number), _about_targets(learner, y, dtype)):
        if text:
            warn_outside(f"{driver}: {text}")


def _spans(columns: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """The differences (D,) between the ends of columns (n, D) in a dtype; NaN is no end."""
    if not len(columns):
        return np.zeros(columns.shape[1])
    functions: tuple[Any, Any] = np.fmin, np.fmax
    with np.errstate(over="ignore"):
        ends = (function.reduce(columns) for function in functions)
        low, high = (np.asarray(found, dtype).astype(float) for found in ends)
    return high - low


def _vanishing(spans: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """The columns that differ by less than what survives squaring."""
    return np.flatnonzero((spans > 0) & (spans < input_least(dtype)))


def _of_vanishing(what: str, largest: float, dtype: DTypeLike) -> str:
    text = f"{what} differ by at most {largest:.1e}, whose square vanishes in "
    text += f"{jnp.dtype(dtype).name}, so they count as constant; multiply them by a power of "
    return f"{text}two first, as 2.0**{-int(np.floor(np.log2(largest)))}"


def _about_inputs(learner: Learner, X: Inputs, dtype: DTypeLike, number: int | None) -> str:
    """Say that inputs tell nothing; "" if they tell something.

    Sparse ones are only judged by whether they vanish. A learner that has other inputs besides, as
    the last labels, may have constant ones.
    """
    values = _stored(X)
    if is_tracer(X) or on_accelerator(values):
        return ""
    values, sparse = np.asarray(values), isinstance(X, SparseRows)
    rows = values.reshape(-1, 1 if sparse else values.shape[-1])
    rows = rows if sparse else rows[:, learner.leading_columns :]
    if not rows.size or np.all(_spans(rows[:64], dtype) >= max(input_least(dtype), 1e-300)):
        return ""
    found = _spans(rows, dtype)
    if len(vanishing := _vanishing(found, dtype)):
        columns = "" if sparse else f" in column(s) {shown(vanishing.tolist())}"
        return _of_vanishing(f"inputs{columns}", found[vanishing].max(), dtype)
    number = len(rows) if number is None else number
    constant = number >= ROWS_TO_JUDGE and not sparse and not found.any()
    if not constant or _has_context(learner, X.shape[-1]):
        return ""
    text = f"all {number} rows have the same inputs, on which no prediction can depend: "
    text += "steps of a fixed size only add noise to the mean of the labels "
    return f"{text}(jaxmkl.guide.troubleshooting)"


def _about_targets(learner: Learner, y: Labels, dtype: DTypeLike) -> str:
    """Say that numbers to predict vanish; "" if they do not, or labels are classes."""
    if learner.task == "classification" or is_tracer(y) or on_accelerator(y):
        return ""
    columns = np.asarray(y).reshape(-1, learner.num_outputs or 1)
    if np.all(_spans(columns[:64], dtype) >= max(input_least(dtype), 1e-300)):
        return ""
    found = _spans(columns, dtype)
    if not len(vanishing := _vanishing(found, dtype)):
        return ""
    of = f" in column(s) {shown(vanishing.tolist())}" if learner.num_outputs else ""
    return _of_vanishing(f"targets{of}", found[vanishing].max(), dtype)


def _has_context(learner: Learner, num_inputs: int) -> bool:
    """Whether the learner predicts from more than the inputs (:meth:`jaxmkl.Learner.context`)."""
    start = jax.eval_shape(lambda: learner.init(jax.random.key(0), num_inputs))
    return bool(jax.tree.leaves(jax.eval_shape(learner.context, start)))


TROUBLES = {
    "nonfinite": "update(s) met a value or a loss that was infinite or NaN, or far larger than "
    "labels and steps can make it: the learner diverges; take a smaller step size, bring inputs "
    "and targets to the order of 1 (jaxmkl.scaled), or compute in double precision "
    "(JAX_ENABLE_X64=1)",
    "outlying": "label(s) were more than a hundred times as large as all before, and were not "
    "learned; mend them, or let jaxmkl.wrappers.scaled_targets(learner, clip=5.0) tame them",
}
"""Counters of a state that drivers warn of."""


def troubles(state: PyTree) -> dict[str, jax.Array]:
    """The counters of a state that are known, of all its runs."""
    found = {name: getattr(state, name, None) for name in TROUBLES}
    return {
        name: count
        for name, count in found.items()
        if isinstance(count, jax.Array) and not is_tracer(count)
    }


def refuse_and_warn(
    driver: str,
    state: PyTree,
    examples: tuple[Inputs, Labels, DTypeLike],
    before: dict[str, jax.Array] | None = None,
    stacklevel: int = 3,
) -> None:
    """After a run: refuse values on an accelerator, and warn in the name of a driver.

    Warnings are of what the state counts more than its counters did before.

    Args:
      examples: X and y that were run, and the dtype in which.

    Raises:
      ValueError: for a value that lies on an accelerator and cannot be learned from.
    """
    X, y, dtype = examples
    given, bound = {"X": X, "y": y}, input_bound(dtype)
    stored = {name: _stored(array) for name, array in given.items()}
    good = {
        name: _all_within(values, _own_bound(values, bound))
        for name, values in stored.items()
        if on_accelerator(values) and values.dtype != bool
    }
    parts = jax.tree.map(_parts, (troubles(state), before or {}))
    parts, good = jax.device_get((parts, good))  # at once, so that one wait is enough
    for name, is_good in good.items():
        if not is_good:
            _check_values(name, given[name], bound)
    totals = [{name: sum(map(np.sum, of)) for name, of in each.items()} for each in parts]
    for name, number in totals[0].items():
        added = int(number - totals[1].get(name, 0))
        if added > 0:
            text = f"{driver}: {added} {TROUBLES[name]}"
            warnings.warn(text, RuntimeWarning, stacklevel)


def _parts(count: jax.Array) -> list[jax.Array]:
    """The parts of a counter that this process reports, those on its own devices."""
    if count.is_fully_addressable:
        return [count]
    return [part.data for part in count.addressable_shards if part.replica_id == 0]
