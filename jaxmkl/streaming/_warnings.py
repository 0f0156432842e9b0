"""Warnings of the drivers: of uninformative data, of refused examples, and of poor predictions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _tails, abilities
from jaxmkl._checks import is_tracer, shown, warn_outside
from jaxmkl._devices import on_accelerator
from jaxmkl._learner import Learner, Output
from jaxmkl._types import PyTree
from jaxmkl.losses import Squared
from jaxmkl.streaming.examples import Examples, Held
from jaxmkl.wrappers.wrapper import layers

ROWS_TO_JUDGE = 100
"""The least number of rows for a warning that all inputs are equal."""
JUDGED = 1000
"""The least number of rows by which predictions are judged."""
FIRST = 100
"""The first rows, whose errors do not count: those of a target far from 0 are large at first."""
STEPS = 32
"""The least number of steps of a dtype over which numbers have to range."""
WORSE = 1.05
"""The ratio to the errors of the mean of the labels from which on predictions are worse."""
LOOKED_AT = 2**18
"""The most numbers of X that are searched for heavy tails."""
TROUBLES = {
    "nonfinite": "update(s) met a value or a loss that was infinite or NaN, or far larger than "
    "labels and steps can make it: the learner diverges; take a smaller step size, bring inputs "
    "and targets to the order of 1 (jaxmkl.scaled), or compute in double precision "
    "(JAX_ENABLE_X64=1)",
    "outlying": "label(s) were more than a hundred times as large as all before, and were not "
    "learned; mend them, or let jaxmkl.wrappers.scaled_targets(learner, clip=5.0) tame them",
}
"""Counters of a state of which drivers warn."""


# --- uninformative data --------------------------------------------------------------------------


def warn_of_examples(driver: str, learner: Learner, examples: Examples) -> None:
    """Warn of examples from which nothing can be learned, in the name of a driver.

    These are inputs that are all the same, and columns of inputs, or numbers to predict, whose
    differences vanish or are rounded away. Examples on an accelerator are not judged.
    """
    y, K = examples.y.seen, learner.num_outputs
    texts = [_about_inputs(learner, examples)]
    if y is not None and learner.task == "regression":
        first = None if K is None else 0
        texts.append(_spans("targets", y.reshape(-1, K or 1), examples.dtype, first)[1])
    for text in filter(None, texts):
        warn_outside(f"{driver}: {text}")


def _about_inputs(learner: Learner, examples: Examples) -> str:
    """A warning that inputs are uninformative; "" if they are not.

    Sparse inputs are uninformative only if all are zero. A learner with further inputs, such as
    the last labels, may have constant ones.
    """
    X = examples.X
    if X.seen is None:
        return ""
    rows = X.seen.reshape(-1, 1 if X.is_sparse else X.seen.shape[-1])
    first = None if X.is_sparse else learner.leading_columns
    rows = rows if first is None else rows[:, first:]
    spans, text = _spans("inputs", rows, examples.dtype, first, not X.is_sparse)
    number = len(rows) if examples.lengths is None else int(np.sum(examples.lengths))
    if text or number < ROWS_TO_JUDGE or X.is_sparse or not spans.size or spans.any():
        return text
    start = jax.eval_shape(lambda: learner.init(jax.random.key(0), X.array.shape[-1]))
    if jax.tree.leaves(jax.eval_shape(lambda own: abilities.context(learner, own), start)):
        return ""
    text = f"all {number} rows have the same inputs, on which no prediction can depend: "
    text += "steps of a fixed size only add noise to the mean of the labels "
    return f"{text}(jaxmkl.guide.troubleshooting)"


def _named(what: str, columns: np.ndarray, first: int | None) -> str:
    return what if first is None else f"{what} in column(s) {shown((columns + first).tolist())}"


def _spans(
    what: str, columns: np.ndarray, dtype: DTypeLike, first: int | None, rounds: bool = True
) -> tuple[np.ndarray, str]:
    """Ranges (D,) of columns (n, D) in a dtype, and a text if some of them vanish.

    The text may also be that the dtype ``rounds`` some columns to few numbers; nothing is said of
    half precision. The first rows decide if they differ by enough in all columns; NaN is ignored.
    Columns are named by their numbers from ``first`` on, unless it is None.
    """
    if not columns.size:
        return np.zeros(0), ""
    least, name = input_least(dtype), jnp.dtype(dtype).name
    rounds = rounds and bool(least) and not np.can_cast(columns.dtype, dtype)
    step = float(jnp.finfo(dtype).eps) if rounds else 0.0
    functions: tuple[Any, Any] = np.fmin, np.fmax
    for rows in columns[:64], columns:
        ends = [np.asarray(function.reduce(rows)) for function in functions]
        with np.errstate(over="ignore"):
            low, high = (end.astype(dtype).astype(float) for end in ends)
        spans = high - low
        low, high = (end.astype(float) for end in ends)
        exact, steps = high - low, step * np.fmax(abs(low), abs(high))
        if np.all(spans >= max(least, 1e-300)) and np.all(exact >= STEPS * steps):
            return spans, ""
    vanishing = np.flatnonzero((spans > 0) & (spans < least))
    if len(vanishing):
        largest = spans[vanishing].max()
        text = f"{_named(what, vanishing, first)} differ by at most {largest:.1e}, whose square "
        text += f"vanishes in {name}, so they count as constant; multiply them by a power of two "
        return spans, f"{text}first, as 2.0**{-int(np.floor(np.log2(largest)))}"
    few = (exact > 0) & (exact < STEPS * steps)
    for column in np.flatnonzero(few):  # whole numbers may be exact
        values = columns[:, column].astype(float)
        few[column] = np.nanmax(abs(values - values.astype(dtype))) > 0
    found = np.flatnonzero(few)
    if not len(found):
        return spans, ""
    text = f"{_named(what, found, first)} differ by at most {exact[found].max():.3g}, which "
    text += f"{name} rounds to steps of about {steps[found].max():.2g}: subtract "
    return spans, f"{text}the first value of a column from all of it first, in double precision"


def input_least(dtype: DTypeLike) -> float:
    """The least difference of inputs whose square survives in running moments, 6.9e-18 in float32.

    It is 64 times the square root of the dtype's least normal number; 0 for half precision, in
    which inputs of the order of 1 are not far from it.
    """
    least = 64.0 * float(np.sqrt(float(jnp.finfo(dtype).tiny)))
    return least if least < 1e-9 else 0.0


# --- what the rounds counted ---------------------------------------------------------------------


def troubles(state: PyTree) -> dict[str, jax.Array]:
    """The counters of a state, and of all its runs, that are known."""
    found = {name: getattr(state, name, None) for name in TROUBLES}
    return {n: c for n, c in found.items() if isinstance(c, jax.Array) and not is_tracer(c)}


def refuse_and_warn(
    driver: str, state: PyTree, examples: Examples, before: dict[str, jax.Array] | None = None
) -> None:
    """After a run: refuse values on an accelerator, and warn in the name of a driver.

    It warns of what the state has counted since the counters ``before``.

    Raises:
      ValueError: for a value on an accelerator that cannot be learned from.
    """
    held, dtype = (examples.X, examples.y), examples.dtype
    good = [one.is_good(dtype) for one in held]
    parts = jax.tree.map(_parts, (troubles(state), before or {}))
    parts, good = jax.device_get((parts, good))  # at once, so that one wait is enough
    for one, is_good in zip(held, good, strict=True):
        if is_good is not None and not is_good:
            one.refuse(dtype)
    now, then = ({name: sum(map(np.sum, of)) for name, of in each.items()} for each in parts)
    for name, number in now.items():
        added = int(number - then.get(name, 0))
        if added > 0:
            warn_outside(f"{driver}: {added} {TROUBLES[name]}")


def _parts(count: jax.Array) -> list[jax.Array]:
    """The parts of a counter that this process reports: those on its own devices."""
    if count.is_fully_addressable:
        return [count]
    return [part.data for part in count.addressable_shards if part.replica_id == 0]


# --- predictions worse than the mean -------------------------------------------------------------


class Errors(NamedTuple):
    """Sums over rows after the first ones, of squared errors and for those of the mean."""

    number: int = 0
    """The number of rows, the first ones among them."""
    squared: float = 0.0
    origin: Any = 0.0
    """The first labels, which are subtracted: sums of squares far from 0 lose their digits."""
    labels: Any = 0.0
    labels_squared: Any = 0.0

    def after(self, losses: np.ndarray, y: np.ndarray) -> "Errors":
        """The sums after rows with losses (n,) and labels (n,) or (n, K); NaN is not a label.

        >>> Errors().after(np.full(1500, 4.0), np.arange(1500.0) % 2).ratio  # variance .25
        16.0
        """
        known = ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y).any(axis=1)
        losses, y = losses[known].astype(float), y[known].astype(float)
        if not len(y):
            return self
        origin = self.origin if self.number else y[0]
        late = slice(max(FIRST - self.number, 0), None)
        of_late = y[late] - origin
        return Errors(
            self.number + len(y),
            self.squared + float(losses[late].sum()),
            origin,
            self.labels + of_late.sum(axis=0),
            self.labels_squared + (of_late**2).sum(axis=0),
        )

    @property
    def ratio(self) -> float:
        """Errors of the predictions divided by those of the mean; 0 if they are not judged."""
        if self.number < JUDGED:
            return 0.0
        mean_square = np.square(self.labels) / (self.number - FIRST)
        of_mean = float(np.sum(self.labels_squared - mean_square))
        return self.squared / of_mean if of_mean > 0 else 0.0


START = Errors()


def warned(
    driver: str, learner: Learner, examples: Examples, recorded: PyTree, errors: Errors = START
) -> Errors | None:
    """Warn in the name of a driver if predictions so far err more than the mean of labels would.

    Only squared losses are judged, if records are the default's and lie on the host, as labels do:
    once there are enough rows, and whenever their number has doubled. The records are of one run,
    or of several along the leading axis. Given the errors of earlier rows, it returns those so
    far, or None if nothing is to be judged any more.
    """
    y = examples.y.seen
    squared = any(isinstance(getattr(layer, "loss", None), Squared) for layer in layers(learner))
    if y is None or not squared or not isinstance(recorded, Output):
        return None
    losses = recorded.loss
    if on_accelerator(losses) or not losses.is_fully_addressable:
        return None
    before, each = errors.number, np.asarray(losses)
    errors = errors.after(each.mean(axis=0) if each.ndim == 2 else each, y)
    is_due = (errors.number // JUDGED).bit_length() > (before // JUDGED).bit_length()
    if not is_due or errors.ratio <= WORSE:
        return errors
    text = f"{driver}: predictions err {errors.ratio:.2f} times as much as the mean of the labels "
    text += f"would, by squares over the last {errors.number - FIRST} rows"
    columns = y if y.ndim == 2 else y[:, None]
    reasons = next(filter(None, map(_tails.of_target, columns.T)), []) + _of_inputs(examples.X)
    advice = "where inputs tell little, steps of a fixed size only add noise: take smaller ones"
    text = "; ".join([text, *reasons, advice])
    warn_outside(f"{text} (jaxmkl.guide.troubleshooting)")
    return None


def _of_inputs(X: Held) -> list[str]:
    if X.seen is None or X.is_sparse:
        return []
    rows = X.seen[: LOOKED_AT // max(X.seen.shape[1], 1)].astype(float)
    return _tails.of_inputs([f"column {i}" for i in np.flatnonzero(_tails.heavy_tailed(rows))])
