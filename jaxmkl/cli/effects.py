"""How a learner's predictions depend on the columns of a table, after a run."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from jaxmkl import Learner, abilities
from jaxmkl._types import PyTree
from jaxmkl.cli.prequential import LATEST, Evaluation, Runner
from jaxmkl.evaluate import advice, classes_of, predicts_log_odds
from jaxmkl.evaluate.effects import POINTS, Effect, WordEffect, effect, words
from jaxmkl.tables import Columns

EFFECTS = 6  # columns whose effect is told
TRIED = 16  # columns that are tried to find them, if none is known to matter
PERMUTED = 32  # columns that may be found idle
MEASURED = 128  # columns whose worth is measured: of more, those that matter, or the first ones
AT_ONCE = POINTS * LATEST  # rows that are predicted together: one program for all

Predict = Callable[[np.ndarray], np.ndarray]


def told(
    runner: Runner, evaluation: Evaluation, shares: Mapping[str, float]
) -> tuple[dict[str, Any], advice.Permuted]:
    """Findings on a learner from its predictions of the rows kept, and their losses.

    These are fields of :class:`jaxmkl.cli.results.Learned`. ``shares`` are those of the columns in
    a learned metric, the largest first, if it has learned one.
    """
    learner, state = runner.settled()
    values, places = _predictor(learner, state), evaluation.columns.places
    moved = _permuted(learner, values, evaluation)
    growth = moved.growth({name: places[name] for name in [*(shares or places)][:MEASURED]})
    found: dict[str, Any] = {"growth": growth}
    if len(evaluation.latest):
        number, found["told_class"] = _number(learner, values, evaluation)
        found["effects"] = _effects(number, evaluation, growth or shares)
        found["words"] = _words(number, evaluation)
    return found, moved


def _predictor(learner: Learner, state: PyTree) -> Predict:
    """The function that predicts rows (n, D) as they come in no order: margins or differences."""
    state = abilities.out_of_order(learner, state)  # the last labels do not matter

    def values(X: np.ndarray) -> np.ndarray:
        parts = [np.asarray(X[i : i + AT_ONCE], np.float32) for i in range(0, len(X), AT_ONCE)]
        padded = (np.resize(part, (AT_ONCE, X.shape[1])) for part in parts)
        said = (np.asarray(learner.predict_many(state, one).value, np.float64) for one in padded)
        return np.concatenate([f[: len(part)] for f, part in zip(said, parts, strict=True)])

    return values


def _permuted(learner: Learner, values: Predict, evaluation: Evaluation) -> advice.Permuted:
    """The losses of rows that were kept of the last half of the stream, if columns are permuted.

    There are no rows if they are too few to tell anything.
    """
    K, (X, y, _) = len(evaluation.columns.classes), evaluation.judged
    first = len(X) // 2 if len(X) >= AT_ONCE // 4 else len(X)
    X, twice = X[first:], np.tile(y[first:], 2)
    start, sure = evaluation.now.baselines.start, predicts_log_odds(learner)

    def losses(X: np.ndarray) -> np.ndarray:
        f = values(X)
        if not K:
            return np.square(start + f - twice)
        if not sure:
            return (classes_of(f, K) != twice).astype(float)
        if f.ndim == 1:
            f = np.stack([np.zeros_like(f), f], axis=1)
        return -np.take_along_axis(log_softmax(f, axis=1), twice[:, None].astype(int), 1)[:, 0]

    return advice.Permuted(losses, X)


def _number(learner: Learner, values: Predict, evaluation: Evaluation) -> tuple[Predict, str]:
    """The function that predicts the number of rows (n, D) that effects are of, and its class.

    See ``Learned.effects``. The class is "" of numbers. There is at least one of the last rows.
    """
    names, of_latest = evaluation.columns.classes, values(evaluation.latest)
    if not names:
        start = evaluation.now.baselines.start
        return lambda X: start + values(X), ""
    if of_latest.ndim == 1:
        sure = predicts_log_odds(learner)
        return lambda X: np.exp(-np.logaddexp(0.0, -values(X))) if sure else values(X), names[1]
    place = int(np.argmax(np.bincount(of_latest.argmax(axis=1))))
    return lambda X: softmax(values(X), axis=1)[:, place], names[place]


def _without_texts(columns: Columns) -> dict[str, tuple[range, bool]]:
    """The places of the inputs of each column but texts, and whether these are categories."""
    texts = {range(*of) for of in columns.of_words}
    return {name: (of, all(columns.features[at].startswith(f"{name}=") for at in of))
            for name, of in columns.places.items() if of not in texts}  # fmt: skip


def _effects(
    number: Predict, evaluation: Evaluation, shares: Mapping[str, float]
) -> dict[str, Effect]:
    """The effects of the columns with the largest shares, over the last rows; texts have none.

    Their number is bounded, and so is the work: 16 columns, 8 values and 64 rows at most.
    """
    columns, of = evaluation.columns, _without_texts(evaluation.columns)
    found, tried = dict[str, Effect](), [name for name in shares or of if name in of]
    for name in tried[: EFFECTS if shares else TRIED]:
        places, is_category = of[name]
        names = [columns.features[at] for at in places]
        one = effect(number, evaluation.latest, places[0], names, is_category=is_category)
        if one is not None:
            start = 0.0 if is_category else float(columns.starts[places[0]])
            found[name] = one._replace(at=tuple(start + at for at in one.at))
    worth = shares or {name: one.range for name, one in found.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: -worth[name])[:EFFECTS]}


def _words(number: Predict, evaluation: Evaluation) -> dict[str, dict[str, WordEffect]]:
    """The words of each column of texts that change predictions most, in rows that were kept."""
    columns, (X, *_) = evaluation.columns, evaluation.judged
    texts = {range(*of) for of in columns.of_words if len(X)}
    return {name: words(number, X, of[0],
                        [columns.features[at].removeprefix(f"{name}: ") for at in of])
            for name, of in columns.places.items() if of in texts}  # fmt: skip


def idle_columns(
    moved: advice.Permuted, columns: Columns, shares: Mapping[str, float]
) -> dict[str, float]:
    """The columns that may be left out: see :meth:`jaxmkl.evaluate.advice.Permuted.idle`."""
    places = columns.places
    tried = [*(shares or places)][::-1][:PERMUTED]
    found = moved.idle({name: places[name] for name in tried}) if len(places) > 1 else {}
    return found if len(found) < len(places) else {}


def single_numbers(columns: Columns, X: np.ndarray) -> dict[str, np.ndarray]:
    """A number for each row (n,) of each column but texts: its first input, or its category."""
    found = dict[str, np.ndarray]()
    for name, (places, is_category) in _without_texts(columns).items():
        inputs = X[:, places]
        category = np.where(inputs.any(axis=1), inputs.argmax(axis=1), -1.0)
        found[name] = category if is_category else inputs[:, 0]
    return found
