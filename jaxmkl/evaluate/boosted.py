"""A baseline of trees: gradient boosting, fitted anew on past rows now and then."""

import functools
import importlib.util
import math
from typing import Any, NamedTuple, Self

import numpy as np

from jaxmkl.evaluate.baselines import MOST_INPUTS
from jaxmkl.evaluate.scores import Score

MOST_CLASSES = 32  # with more, whose trees would slow a run, there is no such baseline
FIRST = 256  # labels of the first fit
GROWTH = 1.5  # ratio of the labels of a fit to those of the fit before
MOST_ROWS = 20_000  # rows of a fit
MOST_NUMBERS = 2**19  # numbers that these may have
TREES = 50  # of a fit of numbers and of two or three classes
OF_CLASSES = 150  # of a fit of several classes, each of which has one tree an iteration


class Boosted(NamedTuple):
    """Gradient boosting (Friedman 2001) by scikit-learn, of numbers or of classes.

    It is fitted when 256 labels are known, and whenever they are half as many more, on the last
    20,000 labelled rows (fewer of more than 25 inputs), in one thread: 50 trees, each a fifth of a
    step. Of K > 3 classes there are 150 / K trees for each, and steps are larger, up to a third.
    Before the first fit it predicts the mean or the majority so far. Labels before the first row
    of the run are not known to it.
    """

    num_labels: int
    """The number of labels that are known."""
    fits_at: int
    """The number of labels at which it is fitted next."""
    latest: np.ndarray
    """Inputs and labels of the last labelled rows (R, D + 1), NaN before the first ones."""
    fitted: np.ndarray
    """Those of the last fit."""
    waiting: np.ndarray
    """Those of the last N rows (N, D + 1), whose labels are not known yet, NaN for none."""
    score: Score
    model: Any = None
    """The last fit; None before a row is predicted by it."""

    @classmethod
    def begin(cls, num_inputs: int, num_classes: int, delay: int) -> Self | None:
        """The state before the first row, of labels that are late by ``delay`` rounds.

        None without scikit-learn, and of more than 100 inputs or 32 classes (0 for numbers).
        """
        if num_inputs > MOST_INPUTS or num_classes > MOST_CLASSES:
            return None
        if importlib.util.find_spec("sklearn") is None:
            return None
        width = num_inputs + 1
        rows, late = (np.full((of, width), np.nan, np.float32)
                      for of in (min(MOST_ROWS, MOST_NUMBERS // width), delay))  # fmt: skip
        return cls(0, FIRST, rows, rows, late, Score.begin(num_classes))

    @property
    def is_fitted(self) -> bool:
        """Tell if it was ever fitted."""
        return self.fits_at > FIRST

    def after(
        self, X: np.ndarray, y: np.ndarray, judged: np.ndarray, mean: np.ndarray, start: float
    ) -> Self:
        """The state after further rows, each predicted before its label is known.

        ``mean`` has the mean or the majority so far (n,); the others are as of
        :meth:`jaxmkl.evaluate.Watched.after`.
        """
        start = 0.0 if math.isnan(start) else start
        n, now, said, begin = len(y), self, mean.astype(np.float64), 0
        rows = np.column_stack([X, y - start]).astype(np.float32)
        rows = np.concatenate([self.waiting, rows])
        rows, waiting = rows[:n], rows[n:]
        is_known = ~np.isnan(rows[:, -1])
        counts = self.num_labels + np.cumsum(is_known)  # as the next row is predicted
        while begin < n:
            at = int(np.searchsorted(counts, now.fits_at))
            end = min(at + 1, n)
            if now.is_fitted:
                now = now._replace(model=now.model or _fit(now.fitted, len(self.score.confusion)))
                with _threads().limit(limits=1):
                    said[begin:end] = start + now.model.predict(X[begin:end].astype(np.float32))
            latest = np.concatenate([now.latest, rows[begin:end][is_known[begin:end]]])
            now = now._replace(num_labels=int(counts[end - 1]), latest=latest[-len(now.latest) :])
            if at < n:
                at_next = math.ceil(GROWTH * now.num_labels)
                now = now._replace(fits_at=at_next, fitted=now.latest, model=None)
            begin = end
        return now._replace(waiting=waiting, score=self.score.after(said, judged))


def _fit(rows: np.ndarray, num_classes: int) -> Any:
    """A model of rows as of ``Boosted.fitted``."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    iterations = min(TREES, max(10, OF_CLASSES // max(1, num_classes)))
    make = HistGradientBoostingClassifier if num_classes else HistGradientBoostingRegressor
    rate = min(1 / 3, 10 / iterations)
    model = make(learning_rate=rate, max_iter=iterations, early_stopping=False, random_state=0)
    rows = rows[~np.isnan(rows[:, -1])]
    with _threads().limit(limits=1):
        return model.fit(rows[:, :-1], rows[:, -1])


@functools.cache
def _threads() -> Any:
    """The thread pools of scikit-learn."""
    import sklearn.ensemble  # noqa: F401, its pools are there from then on
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")
