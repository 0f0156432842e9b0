"""Batch models of scikit-learn, refitted at intervals on all examples so far."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn import ensemble

from jaxmkl.evaluate import Candidate

from .evaluate import Runs, Stream

EVERY = 500

# The library's defaults, for numbers and for classes.
MODELS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    f"{name}, refitted": {
        "regression": getattr(ensemble, f"{of}Regressor"),
        "classification": getattr(ensemble, f"{of}Classifier"),
    }
    for name, of in (
        ("gradient boosting", "GradientBoosting"),
        ("boosting by histograms", "HistGradientBoosting"),
        ("extra trees", "ExtraTrees"),
    )
}


def predictions(model: Any, X: np.ndarray, y: np.ndarray, task: str, every: int) -> np.ndarray:
    """Return the predictions (T,) of a batch model that is fitted on earlier examples.

    It is fitted on the first ``every`` examples, on the first twice as many, and so on, and then
    predicts the next ones. Before the first fit the prediction is the mean of the labels so far,
    or the larger class.

    >>> from sklearn.dummy import DummyRegressor
    >>> y = np.array([2.0, 4.0, 0.0, 6.0, 0.0])
    >>> predictions(DummyRegressor(), np.zeros((5, 1)), y, "regression", 2).tolist()
    [0.0, 2.0, 3.0, 3.0, 3.0]
    """
    total = np.concatenate([[0.0], np.cumsum(y[: every - 1], dtype=np.float64)])[: len(y)]
    first = total / np.maximum(1, range(len(total)))
    if task == "classification":
        first = np.where(total >= 0, 1.0, -1.0)
    return np.concatenate([first, *said(model, "predict", X, y, every)])


def log_odds(model: Any, X: np.ndarray, y: np.ndarray, every: int) -> np.ndarray:
    """Return log-odds by a batch classifier, fitted as for :func:`predictions`, from ``every`` on.

    They are those (T - every,) of the second of two classes, or the logarithms (T - every, K) of
    the probabilities of K classes up to a constant.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[-1.0], [1.0], [-2.0], [2.0], [3.0]]), np.array([0, 1, 0, 1, 1])
    >>> (log_odds(LogisticRegression(), X, y, 2) > 0).tolist()
    [False, True, True]
    """
    return np.concatenate(list(said(model, "decision_function", X, y, every)))


def said(
    model: Any, method: str, X: np.ndarray, y: np.ndarray, every: int, first: int | None = None
) -> Iterator[np.ndarray]:
    """Fit a batch model every ``every`` examples, and yield its outputs for the next ones.

    It is fitted on the ``first`` ones, by default ``every``, then on ``every`` more, and so on.
    """
    for start in range(first or every, len(y), every):
        fitted = model.fit(X[:start], y[:start])
        yield getattr(fitted, method)(X[start : start + every])


def refitted(name: str, stream: Stream, orders: np.ndarray) -> tuple[Candidate, Runs]:
    """Run one of MODELS on a stream in each of the orders (S, T), always with random state 0.

    The runs can be compared with those of learners; all labels are used.
    """
    began = time.perf_counter()
    model = MODELS[name][stream.task](random_state=0)
    prediction = np.stack(
        [predictions(model, stream.X[o], stream.y[o], stream.task, EVERY) for o in orders]
    )
    seconds = (time.perf_counter() - began) / len(orders)
    queried = np.ones(prediction.shape, bool)
    runs = Runs(stream, orders, prediction, queried, None, None, seconds)
    return Candidate(name, None, {**model.get_params(), "refitted_every": EVERY}), runs
