"""Advice on the next step: sentences on a run, each borne out by a test on its figures.

Noise is told from the spread of means over windows, which need not be independent of row to row,
or over rows where single ones are known. A sentence is said only if the limit of an interval of
confidence :data:`SURE` allows it; otherwise nothing is.
"""

import csv
import io
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from jaxmkl.evaluate.rows import figure, two_digits
from jaxmkl.evaluate.scores import Curve

SURE = 0.99  # confidence of each limit, one-sided; of a rise, over all places where it may be
BATCHES = 8  # means of a quarter of the rows, at most, from which its error is told
FEWEST = 4  # windows of a quarter, at least
LITTLE = 0.1  # share of the error below which a change over a quarter is said to be little
EQUAL = 0.05  # share of the error by which a learner that is called as good may be worse
MEDIAN = math.pi / 2  # the variance of a median over that of a mean
RISEN = 1.2  # ratio of the errors, each with a quarter of their mean, from which a rise is told
LEFT = 0.05  # share of a baseline's error that a column which tells the target may leave
IDLE = 0.01  # share of the error that an idle column may explain
SAVED = 0.9  # share of the labels of the best learner from which another is named for it
FASTER = 0.5  # share of its time
INSTEAD = {  # of a baseline that reads inputs: what it is, and what it suggests
    "linear": (
        "Linear regression that learns row by row",
        "labels are nearly linear in the inputs, which a linear bank is made for "
        "(--learner expert_mkl --set \"banks=('fixed','linear')\")",
    ),
    "boosting": (
        "Gradient boosting, refitted now and then on past rows,",
        "where a model need not learn each row at once, scikit-learn's HistGradientBoosting suits "
        "this table better",
    ),
}
SEED = 20_261  # of permutations: one that no data were drawn with


class Advice(NamedTuple):
    """A sentence on what to do next, with what it is about and the figures behind it."""

    about: str  #: "rows", "drift", "leak", "linear", "boosting", "idle", "labels" or "speed"
    text: str
    figures: Mapping[str, Any]


def quarters(curve: Curve) -> np.ndarray | None:
    """The means of the last two quarters of the rows in batches (2, B); None of too few rows."""
    means = _full(curve)[1]
    windows = len(means) // 4
    if windows < FEWEST or not np.isfinite(means).all():
        return None
    each = np.split(means[-2 * windows :], 2)
    batches = [np.array_split(half, min(BATCHES, windows)) for half in each]
    return np.array([[float(batch.mean()) for batch in half] for half in batches])


def _full(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """The windows that have at least half of their rows, and their means: a last one may not."""
    full = np.flatnonzero(curve.counts >= curve.size / 2)
    return full, curve.sums[full] / curve.counts[full]


def difference(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """The mean of ``before`` (n,) minus that of ``after`` (n,), and half of its interval."""
    parts = [of.var(ddof=1) / len(of) for of in (before, after)]
    total, mean = sum(parts), float(before.mean() - after.mean())
    if total == 0:
        return mean, 0.0
    degrees = total**2 / sum(part**2 / (len(before) - 1) for part in parts)  # Welch's
    return mean, float(special.stdtrit(degrees, SURE) * math.sqrt(total))


def rows_that_help(curve: Curve, blind: Curve, metric: str) -> Advice | None:
    """Tell if more rows would help, by the errors of the last two quarters of the rows.

    Nothing is told if a baseline that reads no inputs fared differently there, too: then the
    target, and not the learner, may have changed.
    """
    both, of_target = quarters(curve), quarters(blind)
    if both is None or of_target is None:
        return None
    changed, noise = difference(*of_target)
    fell, within = difference(*both)
    before, error = both.mean(axis=1).tolist()
    if abs(changed) > noise or not before > 0:
        return None
    figures = {"before": before, "after": error, "fell": fell, "within": within}
    share, limit = fell / before, within / before
    told = f"the {metric} of the last quarter of the rows is {figure(error)}"
    if fell > within:
        text = f"More rows would still help: {told}, {_percent(share)} % (± {_percent(limit)}) "
        return Advice("rows", f"{text}less than that of the quarter before.", figures)
    if -within <= fell <= LITTLE * before - within:
        text = f"More rows alone would help little: {told}, that of the quarter before "
        most = math.ceil(100 * (share + limit))
        text += f"{figure(before)}, so that it falls by less than {most} %."
        return Advice("rows", text, figures)
    return None


def rise_of(curve: Curve) -> dict[str, Any]:
    """The most significant rise of the error, or nothing if there is none.

    Its first ``row``, counted from 1, is known to the length of a window. ``before`` is the mean
    error over the last half of the rows before, ``after`` that over the next ``rows``.

    The median of a few windows in a row, 4, 8, 16 and so on, is compared with the last half of all
    windows before, which holds what is usual there: by a t-test on logarithms (of the errors plus
    a quarter of their mean, as windows may have none), whose noise is that of the usual windows
    and of their autocorrelation (as of an AR(1) process), with Bonferroni's bound on all places
    and lengths. One window that is far off is no rise.
    """
    full, means = _full(curve)
    if not (means > 0).any() or not np.isfinite(means).all():
        return {}
    logs, W = np.log(means + means.mean() / 4), len(means)
    places, lengths = range(4 * FEWEST, W), [FEWEST * 2**i for i in range(7)]
    least, found = ((1 - SURE) / max(1, len(places) * len(lengths)), 0.0), None
    for at in places:
        usual = logs[at // 2 : at]
        mean, deviation, kept = usual.mean(), usual.std(ddof=1), _independent(usual)
        number = len(usual) * kept
        for length in lengths:
            later = float(np.median(logs[at : at + length]))
            if at + length > W or later <= mean + math.log(RISEN):
                continue
            noise = deviation * math.sqrt(MEDIAN / (length * kept) + 1 / number)
            ratio = (later - mean) / noise if noise > 0 else math.inf
            p = float(special.stdtr(number - 1, -ratio)) if number > 2 else 1.0
            if (p, -ratio) < least:
                least, found = (p, -ratio), (at, length)
    if found is None:
        return {}
    at, length = found
    usual, later = logs[at // 2 : at], logs[at : at + length]
    # it begins where the error is nearer to what it is then
    first = at + int(np.argmax(later > (usual.mean() + np.median(later)) / 2))
    return {
        "row": int(full[first]) * curve.size + 1,
        "before": float(means[at // 2 : at].mean()),
        "after": float(means[first : at + length].mean()),
        "rows": (at + length - first) * curve.size,
    }


def _independent(values: np.ndarray) -> float:
    """The share of values that would tell as much if they were independent of each other."""
    of = values - values.mean()
    square = float(of @ of)
    lag = max(0.0, float(of[1:] @ of[:-1]) / square) if square > 0 else 0.0
    return (1 - lag) / (1 + lag)


def drift(curve: Curve, metric: str) -> Advice | None:
    """Tell of a rise of the error, and if it is over."""
    if not (rise := rise_of(curve)):
        return None
    row, before, after, rows = rise.values()
    both = quarters(curve)
    last = after if both is None else float(both[1].mean())
    text = f"At about row {row:,} the {metric} rose from {figure(before)} to "
    text += f"{figure(after)} over the next {rows:,} rows"
    if last < (before + after) / 2:
        text += f", but is {figure(last)} over the last quarter of the rows."
    else:
        text += f", and is {figure(last)} over the last quarter: if what is recorded changed "
        text += f"there, begin there (--skip {row - 1})."
    return Advice("drift", text, rise | {"last": last})


def as_good(curve: Curve, best: Curve) -> bool:
    """Tell if an error is certainly less than :data:`EQUAL` above another, in the last half."""
    both = quarters(curve), quarters(best)
    if both[0] is None or both[1] is None:
        return False
    return bool(-_lowest((both[1] - both[0]).ravel()) <= EQUAL * both[1].mean())


def better_baseline(
    curve: Curve, others: Mapping[str, Curve], blind: Curve, best: str
) -> Advice | None:
    """Name the baseline that certainly errs less, by more than :data:`EQUAL`, in the last half.

    The curve is that of the ``best`` learner, ``others`` are those of baselines that read inputs,
    "linear" or "boosting". Nothing is told if the better baseline that reads no inputs, ``blind``,
    errs as little. Of two that err less, the better one is named.
    """
    found, own, by_blind = list[Advice](), quarters(curve), quarters(blind)
    if own is None or by_blind is None or not min(own.mean(), by_blind.mean()) > 0:
        return None
    for name, other in others.items():
        if (by_other := quarters(other)) is None:
            continue
        shares, over_blind = ((of - by_other).ravel() / of.mean() for of in (own, by_blind))
        share, least = float(shares.mean()), _lowest(shares)
        if min(least, _lowest(over_blind)) > EQUAL:
            what, advice = INSTEAD[name]
            text = f"{what} errs {_percent(share)} % (± {_percent(share - least)}) less than "
            text += f"{best} over the last half of the rows: {advice}."
            found.append(Advice(name, text, {"share": share, "least": least}))
    return max(found, key=lambda one: one.figures["share"], default=None)


def alone(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predict labels, or indicators of classes (n, K), each from a single number x (n,).

    A prediction (n, K) is the mean of the other rows with the same number, and where there are
    none, the line between the means of both neighbours.

    >>> alone(np.array([3.0, 1.0, 2.0, 2.0]), np.array([[6.0], [2.0], [5.0], [3.0]])).tolist()
    [[4.0], [4.0], [3.0], [5.0]]
    """
    at, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    sums = np.zeros((len(at), y.shape[1]))
    np.add.at(sums, places, y)
    if len(at) == 1:
        return (sums[places] - y) / max(1, len(y) - 1)
    means = sums / counts[:, None]
    below, above = np.arange(len(at)) - 1, np.arange(len(at)) + 1
    below[0], above[-1] = above[0], below[-1]
    gaps = at[above] - at[below]
    share = np.where(gaps > 0, (at - at[below]) / np.where(gaps > 0, gaps, 1.0), 0.0)[:, None]
    between = means[below] + share * (means[above] - means[below])
    others = (sums[places] - y) / np.maximum(counts[places] - 1, 1)[:, None]
    return np.where(counts[places, None] > 1, others, between[places])


def leaks(
    columns: Mapping[str, np.ndarray],
    y: np.ndarray,
    said: np.ndarray,
    num_classes: int,
    blind: float,
) -> Advice | None:
    """Tell of columns each of which alone predicts the target, while others add nothing to it.

    Columns (n,) are numbers by name, labels y (n,) numbers or classes from 0 on, of rows spread
    over the stream; ``said`` has the predictions of the best learner (n,), before each label.
    ``blind`` is the error of the better baseline that reads no inputs.
    """
    if len(columns) < 2 or len(y) < 2 * BATCHES or not blind > 0:
        return None
    labels = np.eye(num_classes)[y.astype(int)] if num_classes else y[:, None]
    losses = (said != y).astype(float) if num_classes else np.square(said - y)
    later, found = slice(len(y) // 2, None), dict[str, float]()
    for name, x in columns.items():
        own = alone(x, labels)
        wrong = (own.argmax(1) != y).astype(float) if num_classes else np.square(own[:, 0] - y)
        is_near = _limit(wrong, num_classes) <= LEFT * blind
        if is_near and _lowest(wrong[later] - losses[later]) <= 0:
            found[name] = float(wrong.mean()) / blind
    if not found or len(found) == len(columns):
        return None
    named = " and ".join(repr(name) for name in [*found][:2])
    more = f" (and {len(found) - 2} more)" if len(found) > 2 else ""
    share, each = _percent(max(found.values())), ", each" if len(found) > 1 else ""
    text = f"{named}{more} alone{each} predicts the target nearly perfectly, to {share} % of "
    text += "the error without inputs, and other columns add nothing. Unless it is known before "
    text += f"the target, it gives the answer away: leave it out ({_drop(found)})."
    return Advice("leak", text, {"columns": found})


def _limit(losses: np.ndarray, num_classes: int) -> float:
    """The upper limit of a mean loss: of a share of mistakes the exact one."""
    if not num_classes:
        return -_lowest(-losses)
    n, total = len(losses), float(losses.sum())
    return float(special.betaincinv(total + 1, n - total, SURE)) if total < n else 1.0


def _lowest(values: np.ndarray) -> float:
    """The lower limit of a mean."""
    n = len(values)
    return float(values.mean() - special.stdtrit(n - 1, SURE) * values.std(ddof=1) / math.sqrt(n))


class Permuted:
    """The losses of rows if columns have the values of other rows, means over two permutations.

    Each column is permuted once, whatever is asked of it.

    Args:
      losses: maps rows, those of X twice in their order (2 n, D), to losses (2 n,).
      X: rows (n, D); of none, nothing is told.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
    >>> y = np.tile(X[:, 0], 2)
    >>> permuted = Permuted(lambda X: 1 + (X[:, 0] - y) ** 2, X)
    >>> found = permuted.growth({"a": [0], "b": [1]})
    >>> [*found], found["a"] > 1, found["b"]
    (['a', 'b'], True, 0.0)
    """

    def __init__(self, losses: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> None:
        rng, n = np.random.default_rng(SEED), len(X)
        self._losses, self._twice = losses, np.concatenate([X, X])
        self._moved = np.concatenate([X[rng.permutation(n)], X[rng.permutation(n)]])
        self._usual = losses(self._twice) if n else np.zeros(0)
        self._error = float(self._usual.mean()) if n else 0.0
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def _more(self, places: Iterable[int]) -> np.ndarray:
        """The increases of the losses (n,) if the inputs at these places move together."""
        key = tuple(places)
        if key not in self._known:
            changed = self._twice.copy()
            changed[:, key] = self._moved[:, key]
            more = self._losses(changed) - self._usual
            self._known[key] = np.asarray(more.reshape(2, -1).mean(axis=0))
        return self._known[key]

    def growth(self, columns: Mapping[str, Sequence[int]]) -> dict[str, float]:
        """The increase of the mean loss by each column, as a share of it, the largest first.

        It is the permutation importance of Breiman (2001), Random forests, Machine Learning 45,
        https://doi.org/10.1023/A:1010933404324. ``columns`` has the places of the inputs of each.
        """
        if not 0 < self._error < math.inf:
            return {}
        found = {name: float(self._more(of).mean()) / self._error for name, of in columns.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def idle(self, columns: Mapping[str, Sequence[int]]) -> dict[str, float]:
        """Find columns that may have the values of other rows, all together, at no cost.

        Returns:
          The upper limits of :meth:`growth` by column; the limit of all of them together is at
          most :data:`IDLE`, too.
        """
        if not self._error > 0:
            return {}

        def limit(places: Iterable[int]) -> float:
            return _limit(self._more(places), 0) / self._error

        found = {name: limit(places) for name, places in columns.items()}
        named = sorted((name for name in found if found[name] <= IDLE), key=found.__getitem__)
        while len(named) > 1 and limit(at for name in named for at in columns[name]) > IDLE:
            named = named[: len(named) // 2]
        return {name: found[name] for name in named}


def of_idle(found: Mapping[str, float], learner: str) -> Advice | None:
    """The sentence on idle columns of a learner, if there are any."""
    if not found:
        return None
    names, several = ", ".join(map(repr, found)), len(found) > 1
    text = f"{names} {'change' if several else 'changes'} the error of {learner} by less than "
    text += f"{100 * IDLE:.0f} %{', all together' if several else ''}: "
    text += f"{learner} learns as much without {'them' if several else 'it'} ({_drop(found)})."
    return Advice("idle", text, {"columns": found})


def _drop(names: Iterable[str]) -> str:
    """The option that leaves columns out, as a shell reads it."""
    csv.writer(text := io.StringIO(), lineterminator="").writerow(names)
    return f"--drop {shlex.quote(text.getvalue())}"


def _percent(share: float) -> str:
    return two_digits(100 * share)


def cheaper(
    best: str, as_good: Sequence[str], labels: Mapping[str, int], seconds: Mapping[str, float]
) -> list[Advice]:
    """Sentences on learners that are :func:`as_good` as the best, for fewer labels or less time.

    ``labels`` and ``seconds`` are those that each learner asked for, and took, by name.
    """
    found = list[Advice]()
    for about, of, least, what in (
        ("labels", labels, SAVED, "of its labels"),
        ("speed", seconds, FASTER, "of its time"),
    ):
        name = min(as_good, key=of.__getitem__, default=best)
        if of[best] > 0 and of[name] <= least * of[best]:
            share = of[name] / of[best]
            text = f"{name} needs {_percent(share)} % {what} and errs no more than {best}, to "
            text += f"within {100 * EQUAL:.0f} % over the last half of the rows."
            found.append(Advice(about, text, {"learner": name, "share": share}))
    return found
