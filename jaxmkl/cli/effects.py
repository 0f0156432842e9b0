"""How a learner's predictions depend on the columns of a table, after a run."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import log_softmax, softmax

from jaxmkl import Learner, abilities
from jaxmkl._types import PyTree
from jaxmkl.cli.prequential import LATEST, Evaluation
from jaxmkl.evaluate import (
    Effect,
    WordEffect,
    advice,
    classes_of,
    effect,
    predicts_log_odds,
    words,
)
from jaxmkl.evaluate.effects import POINTS

EFFECTS = 6  # columns whose effect is told
TRIED = 16  # columns that are tried to find them, if a learner has no importances
PERMUTED = 32  # columns that may be found idle
AT_ONCE = POINTS * LATEST  # rows that are predicted together: one program for all

Predict = Callable[[np.ndarray], np.ndarray]


def predictor(learner: Learner, state: PyTree) -> Predict:
    """The function that predicts rows (n, D) as they come in no order: margins or differences."""
    state = abilities.out_of_order(learner, state)  # the last labels do not matter

    def values(X: np.ndarray) -> np.ndarray:
        parts = [np.asarray(X[i : i + AT_ONCE], np.float32) for i in range(0, len(X), AT_ONCE)]
        padded = (np.resize(part, (AT_ONCE, X.shape[1])) for part in parts)
        said = (np.asarray(learner.predict_many(state, one).value, np.float64) for one in padded)
        return np.concatenate([f[: len(part)] for f, part in zip(said, parts, strict=True)])

    return values


def effects_of(
    learner: Learner, values: Predict, evaluation: Evaluation, shares: Mapping[str, float]
) -> dict[str, Effect]:
    """The effects of the columns that matter most, over the last rows; texts have none.

    Their number is bounded, and so is the work: 16 columns, 8 values and 64 rows at most.
    """
    columns, X = evaluation.columns, evaluation.latest
    if not len(X):
        return {}
    number = _number_of(learner, evaluation, values(X))
    found, texts = dict[str, Effect](), {begin for begin, _ in columns.of_words}
    tried = [*(shares or columns.names)][: EFFECTS if shares else TRIED]
    for name, places in _places(evaluation).items():
        if name in tried and places[0] not in texts:
            names = [columns.features[place] for place in places]
            is_category = all(one.startswith(f"{name}=") for one in names)
            first = places[0]
            one = effect(lambda X: number(values(X)), X, first, names, is_category=is_category)
            if one is not None:
                start = 0.0 if is_category else float(columns.starts[first])
                found[name] = one._replace(at=tuple(start + at for at in one.at))
    of = shares or {name: one.range for name, one in found.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: -of[name])[:EFFECTS]}


def words_of(
    learner: Learner, values: Predict, evaluation: Evaluation
) -> dict[str, dict[str, WordEffect]]:
    """The words of each column of texts that change predictions most, in rows that were kept."""
    columns, watched = evaluation.columns, evaluation.now.watched
    X = np.zeros((0, 0)) if watched is None else watched.judged(len(evaluation.runners))[0]
    if not columns.of_words or not len(X):
        return {}
    number, places = _number_of(learner, evaluation, values(X)), _places(evaluation)
    return {
        name: words(
            lambda X: number(values(X)),
            X,
            of[0],
            [columns.features[place].removeprefix(f"{name}: ") for place in of],
        )
        for name, of in places.items()
        if any(begin == of[0] for begin, _ in columns.of_words)
    }


def idle_columns(
    learner: Learner, values: Predict, evaluation: Evaluation, shares: Mapping[str, float]
) -> dict[str, float]:
    """The columns that may be left out: see :func:`jaxmkl.evaluate.advice.idle`.

    Rows are those that were kept of the last half of the stream.
    """
    watched, K = evaluation.now.watched, len(evaluation.columns.classes)
    if watched is None:
        return {}
    X, y, _ = watched.judged(len(evaluation.runners))
    X, y = X[len(X) // 2 :], y[len(y) // 2 :]
    places = _places(evaluation)
    if len(X) < AT_ONCE // 8 or len(places) < 2:
        return {}
    start, sure, twice = evaluation.now.baselines.start, predicts_log_odds(learner), np.tile(y, 2)

    def losses(X: np.ndarray) -> np.ndarray:
        f = values(X)
        if not K:
            return np.square(start + f - twice)
        if not sure:
            return (classes_of(f, K) != twice).astype(float)
        if f.ndim == 1:
            f = np.stack([np.zeros_like(f), f], axis=1)
        return -np.take_along_axis(log_softmax(f, axis=1), twice[:, None].astype(int), 1)[:, 0]

    tried = [*(shares or places)][::-1][:PERMUTED]
    found = advice.idle(losses, X, {name: places[name] for name in tried})
    return found if len(found) < len(places) else {}


def single_numbers(evaluation: Evaluation, X: np.ndarray) -> dict[str, np.ndarray]:
    """A number for each row (n,) of each column but texts: its first input, or its category."""
    features, found = evaluation.columns.features, dict[str, np.ndarray]()
    texts = {begin for begin, _ in evaluation.columns.of_words}
    for name, places in _places(evaluation).items():
        if places[0] in texts:
            continue
        inputs = X[:, places]
        is_category = all(features[place].startswith(f"{name}=") for place in places)
        category = np.where(inputs.any(axis=1), inputs.argmax(axis=1), -1.0)
        found[name] = category if is_category else inputs[:, 0]
    return found


def _places(evaluation: Evaluation) -> dict[str, range]:
    """The places of the inputs of each column that has some, by its name."""
    found, first = dict[str, range](), 0
    for kind in evaluation.columns.kinds:
        if kind.features:
            found[kind.name] = range(first, first + len(kind.features))
        first += len(kind.features)
    return found


def _number_of(learner: Learner, evaluation: Evaluation, values: np.ndarray) -> Predict:
    """The function that makes numbers (n,) of predictions, given some: see ``Learned.effects``."""
    if not evaluation.columns.classes:
        start = evaluation.now.baselines.start
        return lambda f: start + f
    if values.ndim == 1:
        sure = predicts_log_odds(learner)
        return lambda f: np.exp(-np.logaddexp(0.0, -f)) if sure else f
    place = int(np.argmax(np.bincount(values.argmax(axis=1))))
    return lambda f: softmax(f, axis=1)[:, place]
