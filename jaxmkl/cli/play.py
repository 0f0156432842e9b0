"""Learners side by side over one table, chunk by chunk, each row predicted before its label."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmkl.evaluate import Baselines, Candidate, Curve, Score, classes_of, first_of
from jaxmkl.streaming import stream
from jaxmkl.tables import Chunk, Columns, Fills, Model, Seen
from jaxmkl.wrappers import delayed


class Player:
    """One learner with one seed: its state, its scores, the time it took.

    Of players of one learner the first ``compiles`` what all of them call.
    """

    def __init__(
        self,
        learner: Any,
        state: Any,
        num_classes: int,
        delay: int,
        *,
        compiles: bool,
        known_from: float = math.inf,
    ) -> None:
        self.learner = delayed(learner, delay) if delay else learner
        self.state = self.learner.around(state) if delay else state
        self._num_classes, self._delay, self._compiles = num_classes, delay, compiles
        self.score, self.labels = Score(num_classes), Curve()
        self.num_labels, self.seconds = 0, 0.0
        #: the row from which on it knows a label
        self.known_from = known_from
        self._given: tuple[np.ndarray, np.ndarray] | None = None
        self._stream: Iterator | None = None

    def _chunks(self) -> Iterator:
        while True:
            yield self._given

    def play(self, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        """Play a chunk; the state afterwards and the outputs, which are not taken over yet."""
        self._given = (X, y)
        if self._stream is None:
            if self._compiles:  # before the time counts
                next(stream(self.learner, self.state, [(X, y)], gaps=True))
            self._stream = stream(self.learner, self.state, self._chunks(), gaps=True)
        began = time.perf_counter()
        state, outputs = next(self._stream)
        prediction, queried = np.asarray(outputs.prediction), np.asarray(outputs.queried)
        self.seconds += time.perf_counter() - began
        return state, (prediction, queried)

    def take(self, state: Any, outputs: Any, y: np.ndarray, start: float, rows: int) -> np.ndarray:
        """Take a chunk over; what was said of its rows, as classes from 0 on or numbers.

        Numbers begin at ``start``, or are 0 while no label is known; there were ``rows`` before.
        """
        prediction, queried = outputs
        asked = queried & ~np.isnan(y)
        self.known_from = min(self.known_from, first_of(asked, rows) + self._delay + 1)
        said = classes_of(prediction, self._num_classes)
        if not self._num_classes:
            known = rows + np.arange(len(y)) >= self.known_from
            said = np.where(known, start + said, 0.0)
        self.state = state
        self.labels.add(asked.astype(float))
        self.num_labels += int(asked.sum())
        return said

    def settled(self) -> tuple[Any, Any]:
        """The learner and its state, once the labels that are due have come."""
        learner, state = self.learner, self.state
        return (learner.learner, learner.flushed(state).inner) if self._delay else (learner, state)


class Played(NamedTuple):
    """What came of a chunk: targets, fills, cells lost, and each player's state and outputs."""

    y: np.ndarray
    fills: Fills
    unseen: np.ndarray
    outputs: dict[str, list[tuple[Any, Any]]]


@dataclasses.dataclass(eq=False)
class Play:
    """A run that is going on: players, baselines, and how far they are."""

    columns: Columns
    fills: Fills
    players: dict[str, list[Player]]  #: by the learner's name, one for each seed
    baselines: Baselines
    scores: dict[str, Score]  #: of the baselines
    unseen: np.ndarray  #: cells of each column that were lost
    rows_before: int = 0  #: that the model had played
    num_rows: int = 0
    num_unlabelled: int = 0
    seconds: float = 0.0  #: of all parts, if it was stopped and went on
    warned: dict[str, None] = dataclasses.field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        columns: Columns,
        candidates: list[Candidate],
        seeds: int,
        delay: int,
        model: Model | None = None,
    ) -> "Play":
        """Before the first row; with a ``model`` from where it stands."""
        K, keys = len(columns.classes), jax.random.split(jax.random.key(0), seeds)
        seen = Seen.nothing(K) if model is None else model.seen
        known_from = math.inf if seen.is_nothing else 0.0
        players = {}
        for one in candidates:
            if model is None:
                states = [one.learner.init(key, len(columns.features)) for key in keys]
            else:
                states = [model.state]
            players[one.name] = [
                Player(one.learner, state, K, delay, compiles=not i, known_from=known_from)
                for i, state in enumerate(states)
            ]
        baselines = Baselines(K, delay, seen)
        scores = {name: Score(K) for name in baselines.names}
        fills, before = (columns.init(), 0) if model is None else (model.fills, model.rows)
        unseen = np.zeros(len(columns.kinds), int)
        return cls(columns, fills, players, baselines, scores, unseen, before)

    def play(self, chunk: Chunk) -> Played:
        """Play a chunk, which :meth:`take` takes over; until then all stand before it.

        Raises:
          ValueError: for a cell that is not what its column held.
        """
        X, fills = self.columns.inputs(chunk, self.fills)
        y = self.columns.labels(chunk)
        given = (y - self.baselines.starting(y)).astype(np.float32)
        outputs = {name: [self._played(name, p, X, given) for p in each]
                   for name, each in self.players.items()}  # fmt: skip
        return Played(y, fills, self.columns.unseen(chunk, X), outputs)

    def take(self, played: Played) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Take a chunk over: what each learner's first seed says of the rows, and their labels.

        Both as places of classes, from 0 on, or in the target's units; NaN where there is none.
        It takes next to no time: hold interrupts back, and all stand at the end of one chunk.
        """
        y, fills, unseen, _ = played
        target: Any = self.columns.target
        labels, rows = target.places(y), self.num_rows
        by_baselines = self.baselines.say(labels)
        judged = list(zip(self.scores.values(), by_baselines, strict=True))
        said: dict[str, np.ndarray] = {}
        for name, each in self.players.items():
            for player, (state, outputs) in zip(each, played.outputs[name], strict=True):
                found = player.take(state, outputs, labels, self.baselines.start, rows)
                judged.append((player.score, found))
                said.setdefault(name, found)
        comparable = rows + np.arange(len(y)) >= self.judged_from
        for score, values in judged:
            score.add(values, np.where(comparable, labels, np.nan))
        self.fills, self.num_rows = fills, rows + len(y)
        self.num_unlabelled += int(np.isnan(y).sum())
        self.unseen = self.unseen + unseen
        return said, labels

    @property
    def judged_from(self) -> float:
        """Rows before the first one that learners and baselines all predict knowing a label.

        Those are not judged: nobody knows where the target lies. Infinity until there is such one.
        """
        players = [player.known_from for each in self.players.values() for player in each]
        return max(self.baselines.known_from, *players)

    def _played(self, name: str, player: Player, X: np.ndarray, y: np.ndarray) -> tuple:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", RuntimeWarning)
            result = player.play(X, y)
        self.warned |= dict.fromkeys(f"{name}: {warning.message}" for warning in found)
        return result


def chunks_of(
    first: Chunk, rest: Iterator[Chunk], skip: int, on: Callable[[Chunk], Any]
) -> Iterator[Chunk]:
    """The chunks behind the first ``skip`` rows; ``on`` is told of each."""
    chunk: Chunk | None = first
    while chunk is not None:
        passed, skip = min(skip, len(chunk.frame)), max(0, skip - len(chunk.frame))
        if passed < len(chunk.frame):
            numbers = chunk.numbers[passed:]
            yield chunk._replace(frame=chunk.frame[passed:], numbers=numbers)
        on(chunk)
        chunk = next(rest, None)
