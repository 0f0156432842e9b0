"""Learners side by side over one table, chunk by chunk, each row predicted before its label."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from jaxmkl import Learner
from jaxmkl._types import PyTree
from jaxmkl.distributions import StudentMixture
from jaxmkl.evaluate import (
    Baselines,
    Candidate,
    Certainty,
    Curve,
    Densities,
    Score,
    classes_of,
    density_scores,
    first_of,
    predicts_densities,
    predicts_log_odds,
)
from jaxmkl.streaming import Stream
from jaxmkl.tables import Chunk, Columns, Fills, Pipeline, Seen
from jaxmkl.wrappers import delayed


class Achieved(NamedTuple):
    """The progress of one learner with one seed."""

    state: PyTree
    score: Score
    labels: Curve  #: those asked for
    known_from: float  #: the first row at which it knows a label
    certainty: Certainty | None = None  #: of its probabilities, if it has any
    num_labels: int = 0
    seconds: float = 0.0
    densities: Densities | None = None  #: of numbers, if it predicts any


class Said(NamedTuple):
    """What a learner predicted for the rows of a chunk (n,)."""

    prediction: np.ndarray
    distribution: StudentMixture | None


class Written(NamedTuple):
    """What is written of a learner's predictions (n,): classes, counted from 0, or numbers in the
    units of the target; NaN where there is none."""

    prediction: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None  #: its ends, if the learner predicts densities


class Player:
    """One learner with one seed, and its progress.

    The first player of a learner ``compiles`` the programs that all players of it call.
    """

    def __init__(
        self, learner: Learner, state: PyTree, delay: int, now: Achieved, *, compiles: bool
    ) -> None:
        self._late = delayed(learner, delay) if delay else None
        self.learner = self._late or learner
        self.now = now._replace(
            state=self._late.around(state) if self._late else state,
            certainty=Certainty.begin() if predicts_log_odds(learner) else None,
            densities=Densities.begin() if predicts_densities(learner) else None,
        )
        self._delay, self._compiles = delay, compiles
        self._stream = Stream(self.learner, gaps=True)

    def play(self, X: np.ndarray, y: np.ndarray) -> tuple[Achieved, Said]:
        """Play a chunk; return the progress after it, without scores, and the predictions."""
        now = self.now
        if self._compiles:  # before the clock starts
            self._stream.push(now.state, X, y)
            self._compiles = False
        began = time.perf_counter()
        state, outputs = self._stream.push(now.state, X, y)
        prediction, queried = np.asarray(outputs.prediction), np.asarray(outputs.queried)
        seconds, asked = time.perf_counter() - began, queried & ~np.isnan(y)
        then = now._replace(
            state=state,
            labels=now.labels.after(asked.astype(float)),
            known_from=min(now.known_from, first_of(asked, now.labels.rows) + self._delay + 1),
            num_labels=now.num_labels + int(asked.sum()),
            seconds=now.seconds + seconds,
        )
        return then, Said(prediction, jax.tree.map(np.asarray, outputs.distribution))

    def settled(self) -> tuple[Learner, PyTree]:
        """The learner and its state after the labels that are due have arrived."""
        late, state = self._late, self.now.state
        return (late.learner, late.flushed(state).inner) if late else (self.learner, state)


class Progress(NamedTuple):
    """The progress of a run, without its players: a tree of numbers and arrays."""

    fills: Fills
    unseen: np.ndarray  #: cells of each column that were lost
    baselines: Baselines
    scores: tuple[Score, Score]  #: of the baselines
    num_rows: int = 0
    num_unlabelled: int = 0
    seconds: float = 0.0  #: those of all parts, if it was stopped and resumed; the run counts them


class Played(NamedTuple):
    """The outcome of a chunk. Labels are like the predictions of :class:`Written`."""

    now: Progress
    achieved: dict[str, list[Achieved]]
    said: dict[str, Written]  #: by each learner's first seed
    labels: np.ndarray


class Play:
    """A run in progress: its players, and how far it is.

    Args:
      columns: the columns of the table.
      candidates: the learners to play.
      seeds: the number of runs of each of them.
      delay: the number of rounds by which labels arrive late.
      pipeline: the state to begin with; by default that before the first row.
    """

    def __init__(
        self,
        columns: Columns,
        candidates: list[Candidate],
        seeds: int,
        delay: int,
        pipeline: Pipeline | None = None,
    ) -> None:
        K, keys = len(columns.classes), jax.random.split(jax.random.key(0), seeds)
        seen = Seen.nothing(K) if pipeline is None else pipeline.seen
        baselines, score = Baselines.begin(K, delay, seen), Score.begin(K)
        known_from = math.inf if seen.is_nothing else 0.0
        begun = Achieved(None, score, Curve.begin(), known_from)
        self.columns = columns
        self.players: dict[str, list[Player]] = {}  #: by the learner's name, one for each seed
        for one in candidates:
            if pipeline is None:
                states = [one.learner.init(key, len(columns.features)) for key in keys]
            else:
                states = [pipeline.state]
            self.players[one.name] = [
                Player(one.learner, state, delay, begun, compiles=not i)
                for i, state in enumerate(states)
            ]
        #: that the pipeline had played
        self.rows_before = 0 if pipeline is None else pipeline.rows
        self.warned: dict[str, None] = {}
        fills, unseen = columns.init() if pipeline is None else pipeline.fills, len(columns.kinds)
        self.now = Progress(fills, np.zeros(unseen, int), baselines, (score, score))

    def play(self, chunk: Chunk) -> Played:
        """Play a chunk without a change of the run, until :meth:`take` accepts the outcome.

        Raises:
          ValueError: if a cell does not fit its column.
        """
        now, target = self.now, cast(Any, self.columns.target)
        X, fills = self.columns.inputs(chunk, now.fills)
        y = self.columns.labels(chunk)
        given = (y - now.baselines.starting(y)).astype(np.float32)
        played = {name: [self._played(name, player, X, given) for player in each]
                  for name, each in self.players.items()}  # fmt: skip
        labels = target.places(y)
        rows = now.num_rows + np.arange(len(labels))
        baselines, by_baselines = now.baselines.after(labels)
        everyone = (one for each in played.values() for one, _ in each)
        judged = np.where(rows >= judged_from(baselines, everyone), labels, np.nan)
        scored = {name: [_scored(*one, rows, judged, baselines) for one in each]
                  for name, each in played.items()}  # fmt: skip
        first, last = (score.after(values, judged) for score, values in
                       zip(now.scores, by_baselines, strict=True))  # fmt: skip
        then = Progress(
            fills,
            now.unseen + self.columns.unseen(chunk, X),
            baselines,
            (first, last),
            now.num_rows + len(labels),
            now.num_unlabelled + int(np.isnan(labels).sum()),
            now.seconds,
        )
        achieved = {name: [progress for progress, _ in each] for name, each in scored.items()}
        return Played(then, achieved, {name: each[0][1] for name, each in scored.items()}, labels)

    def take(self, played: Played) -> None:
        """Accept the outcome of a chunk; no interrupt may come before all players have it."""
        self.now = played.now
        for name, each in self.players.items():
            for player, achieved in zip(each, played.achieved[name], strict=True):
                player.now = achieved

    @property
    def judged_from(self) -> float:
        """The number of rows that are not judged: see :func:`judged_from`."""
        players = (player.now for each in self.players.values() for player in each)
        return judged_from(self.now.baselines, players)

    def _played(
        self, name: str, player: Player, X: np.ndarray, y: np.ndarray
    ) -> tuple[Achieved, Said]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", RuntimeWarning)
            result = player.play(X, y)
        self.warned |= dict.fromkeys(f"{name}: {warning.message}" for warning in found)
        return result


def judged_from(baselines: Baselines, players: Iterable[Achieved]) -> float:
    """The number of rows before all learners and baselines predict with a label known.

    These rows are not judged, as nobody can know yet where the target lies; infinity while all
    rows are such.
    """
    return max(baselines.known_from, *(player.known_from for player in players))


def _scored(
    now: Achieved, said: Said, rows: np.ndarray, labels: np.ndarray, baselines: Baselines
) -> tuple[Achieved, Written]:
    """The progress with the scores after rows (n,), and what is written of their predictions.

    Labels are NaN for rows that do not count. While the learner knows no label, 0 is taken for its
    prediction of a number, and ends of intervals are NaN.
    """
    values = classes_of(said.prediction, baselines.num_classes)
    known = rows >= now.known_from
    if not baselines.num_classes:
        values = np.where(known, baselines.start + values, 0.0)
    now, interval = now._replace(score=now.score.after(values, labels)), None
    if now.certainty is not None:
        now = now._replace(certainty=now.certainty.after(said.prediction, labels))
    if now.densities is not None and said.distribution is not None:
        found = density_scores(said.distribution, labels, baselines.start)
        now = now._replace(densities=now.densities.after(found, labels))
        interval = np.where(known, found.low, np.nan), np.where(known, found.high, np.nan)
    return now, Written(values, interval)


def chunks_of(
    first: Chunk, rest: Iterator[Chunk], skip: int, on: Callable[[Chunk], object]
) -> Iterator[Chunk]:
    """The chunks after the first ``skip`` rows; ``on`` is called with each."""
    chunk: Chunk | None = first
    while chunk is not None:
        passed, skip = min(skip, len(chunk.frame)), max(0, skip - len(chunk.frame))
        if passed < len(chunk.frame):
            numbers = chunk.numbers[passed:]
            yield chunk._replace(frame=chunk.frame[passed:], numbers=numbers)
        on(chunk)
        chunk = next(rest, None)
