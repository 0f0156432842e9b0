"""Which columns matter to a learner, and how its predictions change with them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

POINTS = 8  # values of a column at which predictions are made, at most
SPREAD = 0.1, 0.9  # quantiles of the curves of single rows
WORDS = 10  # words that are told, at most
PAIRS = 4096  # rows with a word left out that are predicted, at most


class Effect(NamedTuple):
    """The partial dependence of predictions on a column: a mean and quantiles over rows."""

    at: tuple[float, ...]  #: values of the column's first input, in order, or 0, 1, ... (G,)
    names: tuple[str, ...]  #: the categories there (G,), or ()
    mean: tuple[float, ...]
    low: tuple[float, ...]  #: the quantile .1 over the rows, each moved to the mean of all
    high: tuple[float, ...]  #: the quantile .9

    @property
    def range(self) -> float:
        """The largest mean minus the smallest."""
        return max(self.mean) - min(self.mean)


def by_column(
    importances: Mapping[str, float], inputs: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """The importance of each column with inputs, the sum over them, the largest first.

    >>> by_column({"age": 0.5, "of=a": 0.3, "of=b": 0.3}, {"age": ["age"], "of": ["of=a", "of=b"]})
    {'of': 0.6, 'age': 0.5}
    """
    if not importances:
        return {}
    sums = {name: sum(importances[one] for one in of) for name, of in inputs.items() if of}
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def effect(
    predict: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    first: int,
    names: Sequence[str],
    *,
    is_category: bool = False,
    points: int = POINTS,
) -> Effect | None:
    """Predict rows with a column's inputs replaced together by those of some of the rows.

    Inputs of one column never part, so that no row is of two categories at once. Rows are
    predicted once for each value, in a single call.

    Args:
      predict: maps rows (n, D) to numbers (n,).
      X: rows (N, D), at least one.
      first: the place of the column's first input.
      names: the names of its inputs, which lie side by side.
      is_category: whether its inputs are 0 or 1, each for the category of that name.
      points: the number of values, at most; of more, quantiles are taken.

    Returns:
      None if the column has only one value in these rows.

    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 8.0]])
    >>> effect(lambda X: 2 * X[:, 0] + X[:, 1], X, 0, ["size"]).mean
    (6.0, 8.0, 10.0)
    """
    places = np.arange(first, first + len(names))
    values = np.unique(X[:, places], axis=0)  # in the order of the first input
    if len(values) == 1:
        return None
    if is_category:  # in the order of the names, and "other" last
        values = values[np.argsort(np.where(values.any(1), values.argmax(1), len(names)))]
    values = values[np.unique(np.linspace(0, len(values) - 1, points).round().astype(int))]
    moved = np.repeat(X[None], len(values), axis=0)
    moved[..., places] = values[:, None]
    curves = np.asarray(predict(moved.reshape(-1, X.shape[1])), np.float64)
    curves = curves.reshape(len(values), len(X))
    mean = curves.mean(axis=1)
    # rows differ by more than this column: what is drawn is the spread of the change
    low, high = np.quantile(curves - curves.mean(axis=0) + mean.mean(), SPREAD, axis=1)
    at, said = values[:, 0].astype(float), tuple[str, ...]()
    if is_category:
        at = np.arange(len(values), dtype=float)
        said = tuple(names[one.argmax()] if one.any() else "other" for one in values)
    return Effect(tuple(at.tolist()), said, *(tuple(of.tolist()) for of in (mean, low, high)))


class WordEffect(NamedTuple):
    """How predictions change with a word of a text."""

    change: float  #: the mean prediction of the rows that have it, minus that without it
    rows: int  #: the number of these rows


def words(
    predict: Callable[[np.ndarray], np.ndarray], X: np.ndarray, first: int, names: Sequence[str]
) -> dict[str, WordEffect]:
    """Predict rows with one of their words left out, and find the words that matter most.

    Args:
      predict: maps rows (n, D) to numbers (n,).
      X: rows (N, D), at least one; a word is where its input is not zero.
      first: the place of the first word's input.
      names: the words, whose inputs lie side by side.

    Returns:
      The words of at least two rows with the largest sums of changes, the largest first; the most
      frequent ones are tried.

    >>> X = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    >>> words(lambda X: 3 * X[:, 1], X, 1, ["good", "the"])
    {'good': WordEffect(change=3.0, rows=2), 'the': WordEffect(change=0.0, rows=2)}
    """
    cells = X[:, first : first + len(names)] != 0
    counts = cells.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    tried = order[(np.cumsum(counts[order]) <= PAIRS) & (counts[order] > 1)]
    places, rows = np.nonzero(cells.T[tried])
    without = X[rows]
    without[np.arange(len(rows)), first + tried[places]] = 0.0
    if not len(rows):
        return {}
    changes = np.bincount(places, predict(X)[rows] - predict(without), len(tried))
    most = np.argsort(-np.abs(changes), kind="stable")[:WORDS]
    found = ((tried[i], float(changes[i])) for i in most)
    return {names[at]: WordEffect(sum_ / int(counts[at]), int(counts[at])) for at, sum_ in found}


def recalls(confusion: np.ndarray) -> np.ndarray:
    """The share of each class (K,) that was predicted right; NaN for one that never came.

    >>> recalls(np.array([[3.0, 1.0], [0.0, 0.0]])).tolist()
    [0.75, nan]
    """
    counts = np.asarray(confusion).sum(axis=1)
    none = np.full(len(counts), np.nan)
    return np.divide(np.diag(confusion), counts, out=none, where=counts > 0)
