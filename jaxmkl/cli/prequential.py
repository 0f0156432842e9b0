"""Prequential evaluation of learners on one table: each row is predicted before it is learned."""

import itertools
import math
import time
import warnings
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import numpy as np

from jaxmkl import Learner
from jaxmkl._types import PyTree
from jaxmkl.distributions import StudentMixture, density_scores
from jaxmkl.evaluate.baselines import Baselines, first_of
from jaxmkl.evaluate.boosted import Boosted
from jaxmkl.evaluate.candidates import Candidate, predicts_densities, predicts_log_odds, shares
from jaxmkl.evaluate.scores import Certainty, Curve, Densities, Score, classes_of
from jaxmkl.evaluate.watched import Spaced, Watched
from jaxmkl.streaming import Stream
from jaxmkl.tables import Chunk, Columns, Fills, Pipeline, Readable, Seen, readable
from jaxmkl.wrappers import delayed

if TYPE_CHECKING:
    import polars as pl


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
    shares: Spaced | None = None  #: before some rows, the weights of what carries a prediction


class Written(NamedTuple):
    """A learner's predictions (n,) as they are written: classes, counted from 0, or numbers in
    the units of the target; NaN where there is none."""

    prediction: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None  #: the ends, if the learner predicts densities


class Runner:
    """One learner with one seed, and its progress.

    The first runner of a learner ``compiles`` the programs that all its runners call.
    """

    def __init__(
        self, learner: Learner, state: PyTree, delay: int, now: Achieved, *, compiles: bool
    ) -> None:
        self._late = delayed(learner, delay) if delay else None
        self.learner = self._late or learner
        state = self._late.around(state) if self._late else state
        #: the names of the weights that are kept
        self.carried = tuple(shares(self.learner, state)) if compiles else ()
        kept = Spaced.begin(SNAPSHOTS, len(self.carried), ALIGNED) if self.carried else None
        self.now = now._replace(
            state=state,
            certainty=Certainty.begin() if predicts_log_odds(learner) else None,
            densities=Densities.begin() if predicts_densities(learner) else None,
            shares=kept,
        )
        self._delay, self._compiles = delay, compiles
        self._stream = Stream(self.learner, gaps=True)

    def run(self, X: np.ndarray, y: np.ndarray) -> tuple[Achieved, np.ndarray, Any]:
        """Predict, then learn, row by row; return the progress, without scores, the predictions
        (n,), and their distribution or None."""
        now = self.now
        if not len(y):
            return now, y, None
        if self._compiles:  # before the clock starts
            self._stream.push(now.state, X, y)
            self._compiles = False
        began = time.perf_counter()
        state, outputs, kept = self._push(X, y)
        prediction, queried = np.asarray(outputs.prediction), np.asarray(outputs.queried)
        seconds, asked = time.perf_counter() - began, queried & ~np.isnan(y)
        then = now._replace(
            state=state,
            labels=now.labels.after(asked.astype(float)),
            known_from=min(now.known_from, first_of(asked, now.labels.rows) + self._delay + 1),
            num_labels=now.num_labels + int(asked.sum()),
            seconds=now.seconds + seconds,
            shares=kept,
        )
        return then, prediction, jax.tree.map(np.asarray, outputs.distribution)

    def _push(self, X: np.ndarray, y: np.ndarray) -> tuple[PyTree, Any, Spaced | None]:
        """Run rows, in pieces that end where weights are kept: the ends of blocks."""
        state, kept = self.now.state, self.now.shares
        if kept is None:
            return *self._stream.push(state, X, y), None
        values, parts = list[list[float]](), list[Any]()
        places = kept.wanted(len(y)).tolist()
        for begin, end in itertools.pairwise([*{0: None} | dict.fromkeys(places), len(y)]):
            if begin in places:
                values.append([*shares(self.learner, state).values()])
            state, outputs = self._stream.push(state, X[begin:end], y[begin:end])
            parts.append(outputs)
        outputs = jax.tree.map(lambda *each: np.concatenate(each), *parts)
        return state, outputs, kept.after(len(y), np.reshape(values, (-1, len(self.carried))))

    def settled(self) -> tuple[Learner, PyTree]:
        """The learner and its state after the labels that are due have arrived."""
        late, state = self._late, self.now.state
        return (late.learner, late.flushed(state).inner) if late else (self.learner, state)


LATEST = 64  # rows that are kept, to see there how predictions change with inputs
ALIGNED = 256  # rows: a multiple of those of a block, so that a run continues bit for bit
LINEAR, BOOSTING = "linear so far", "boosting so far"  # names of baselines that read inputs
SNAPSHOTS = 64  # rows, at most, before which the weights of what carries a prediction are kept


class BadRow(NamedTuple):
    """A row that was skipped because it, or one of its cells, cannot be read."""

    number: int  #: of its line or row in the table
    reason: str


class Fingerprint(NamedTuple):
    """Checksums (CRC-32) of all rows so far, whatever chunks they came in."""

    numbers: int = 0
    text: int = 0

    def after(self, rows: "pl.DataFrame") -> "Fingerprint":
        """The fingerprint after more rows, by their cells as they were read."""
        import polars as pl
        import polars.selectors as cs

        numbers, others = rows.select(cs.numeric()), rows.select(~cs.numeric())
        nested = [cells for cells in others if cells.dtype.is_nested() or cells.dtype == pl.Object]
        texts = (pl.Series(cells.name, [*map(repr, cells)]) for cells in nested)
        values = numbers.cast(pl.Float64).to_numpy(order="c").tobytes()
        text = others.with_columns(texts).write_csv(include_header=False).encode()
        return Fingerprint(zlib.crc32(values, self.numbers), zlib.crc32(text, self.text))


class Progress(NamedTuple):
    """The progress of an evaluation, without its runners: a tree of numbers and arrays."""

    fills: Fills
    unseen: np.ndarray  #: cells of each column that were lost
    baselines: Baselines
    scores: tuple[Score, Score]  #: of the baselines
    num_rows: int = 0
    num_unlabelled: int = 0
    seconds: float = 0.0  #: those of all parts, if it was stopped and resumed; the run counts them
    num_bad: int = 0  #: rows that were skipped; ``num_rows`` does not count them
    fingerprint: Fingerprint = Fingerprint()  #: of both, if it is kept
    watched: Watched | None = None  #: of the learners' first seeds
    boosted: Boosted | None = None  #: where scikit-learn is, see :class:`jaxmkl.evaluate.Boosted`

    @property
    def of_baselines(self) -> dict[str, Score]:
        """The score of each baseline, by its name."""
        found = dict(zip(self.baselines.names, self.scores, strict=True))
        if self.watched is not None and self.watched.linear is not None:
            found[LINEAR] = self.watched.score
        if self.boosted is not None and self.boosted.is_fitted:
            found[BOOSTING] = self.boosted.score
        return found

    @property
    def passed(self) -> int:
        """The number of rows that were evaluated or skipped."""
        return self.num_rows + self.num_bad


class Outcome(NamedTuple):
    """The outcome of a chunk. Labels are like the predictions of :class:`Written`."""

    now: Progress
    achieved: list[Achieved]  #: by each runner
    said: dict[str, Written]  #: by each learner's first seed
    labels: np.ndarray
    latest: np.ndarray  #: inputs of the last rows, with those of earlier chunks
    chunk: Chunk  #: the rows that were evaluated
    bad: tuple[BadRow, ...]  #: those that were skipped
    refusal: str  #: why the next row ends the run, if it does


class Evaluation:
    """An evaluation in progress: its runners, and how far it has come.

    There are ``seeds`` runs of each candidate, from the state of the ``pipeline`` or else from the
    one before the first row. Labels arrive ``delay`` rounds late. At most ``most_bad`` rows are
    skipped because they cannot be read. Checksums of the rows, if they are kept, take a while.
    """

    def __init__(
        self,
        columns: Columns,
        candidates: list[Candidate],
        seeds: int,
        delay: int,
        pipeline: Pipeline | None = None,
        most_bad: int = 0,
        keeps_fingerprint: bool = False,
    ) -> None:
        K, D = len(columns.classes), len(columns.features)
        #: the rows that the pipeline had learned from
        self.rows_before, seen, fills = 0, Seen.nothing(K), columns.init()
        if pipeline is not None:
            self.rows_before, seen, fills = pipeline.rows, pipeline.seen, pipeline.fills
        self.columns, self._most_bad = columns, most_bad
        self._keeps_fingerprint = keeps_fingerprint
        self.warned: dict[str, None] = {}
        self.bad: tuple[BadRow, ...] = ()  #: the rows that were skipped
        self.latest = np.zeros((0, D), np.float32)  #: inputs of the last rows, LATEST at most
        baselines, score = Baselines.begin(K, delay, seen), Score.begin(K)
        begun = Achieved(None, score, Curve.begin(), math.inf if seen.is_nothing else 0.0)
        keys = jax.random.split(jax.random.key(0), seeds)
        self.runners: dict[str, list[Runner]] = {}  #: by the learner's name, one for each seed
        for one in candidates:
            states = [pipeline.state] if pipeline else [one.learner.init(key, D) for key in keys]
            self.runners[one.name] = [
                Runner(one.learner, state, delay, begun, compiles=not i)
                for i, state in enumerate(states)
            ]
        self.now = Progress(
            fills,
            unseen=np.zeros(len(columns.kinds), int),
            baselines=baselines,
            scores=(score, score),
            watched=Watched.begin(D, K, len(candidates), delay, seen),
            boosted=Boosted.begin(D, K, delay),
        )

    def evaluate(self, chunk: Chunk) -> Outcome:
        """Evaluate a chunk; nothing changes here before :meth:`take` accepts the outcome.

        Rows that cannot be read, or have a cell that does not fit its column, are skipped. Once
        there are too many of them, the chunk is evaluated up to there.

        Raises:
          ValueError: if there are too many before any row was evaluated.
        """
        found = self._readable(chunk)
        X, fills, y = found.found
        bad = tuple(BadRow(int(chunk.numbers[row]), reason)
                    for row, reason in found.reasons.items() if row < found.passed)  # fmt: skip
        if found.refusal and not self.now.num_rows + len(y):
            raise ValueError(found.refusal)
        now, target, K = self.now, cast(Any, self.columns.target), len(self.columns.classes)
        given = (y - now.baselines.starting(y)).astype(np.float32)
        runs = [self._run(name, runner, X, given)
                for name, each in self.runners.items() for runner in each]  # fmt: skip
        labels = target.places(y)
        rows = now.num_rows + np.arange(len(labels))
        baselines, by_baselines = now.baselines.after(labels)
        first_judged = judged_from(baselines, (achieved for achieved, *_ in runs))
        judged = np.where(rows >= first_judged, labels, np.nan)
        scored = [_scored(*one, rows, judged, baselines) for one in runs]
        first, last = (score.after(values, judged) for score, values in
                       zip(now.scores, by_baselines, strict=True))  # fmt: skip
        firsts = (written for _, written in scored[:: len(scored) // len(self.runners)])
        said = dict(zip(self.runners, firsts, strict=True))
        watched, boosted, start = now.watched, now.boosted, 0.0 if K else baselines.start
        if watched is not None:
            each = [one.prediction for one in said.values()]
            watched = watched.after(X, labels, judged, each, start)
        if boosted is not None:
            boosted = boosted.after(X, labels, judged, by_baselines[0], start)
        then = now._replace(
            fills=fills,
            unseen=now.unseen
            + self.columns.unseen(found.chunk, X)
            + self.columns.late_gaps(len(X), now.fills, fills),
            baselines=baselines,
            scores=(first, last),
            num_rows=now.num_rows + len(labels),
            num_unlabelled=now.num_unlabelled + int(np.isnan(labels).sum()),
            num_bad=now.num_bad + len(bad),
            watched=watched,
            boosted=boosted,
        )
        if self._keeps_fingerprint:
            rows_of_chunk = chunk.frame[: found.passed]
            then = then._replace(fingerprint=now.fingerprint.after(rows_of_chunk))
        progress = [achieved for achieved, _ in scored]
        latest = np.concatenate([self.latest, X])[-LATEST:]
        return Outcome(then, progress, said, labels, latest, found.chunk, bad, found.refusal)

    def _readable(self, chunk: Chunk) -> Readable:
        """Read the inputs and labels of the rows that can be read, and the fills after them."""

        def read(rows: Chunk) -> tuple[np.ndarray, Fills, np.ndarray]:
            return *self.columns.inputs(rows, self.now.fills), self.columns.labels(rows)

        def aligned(rows: list[int]) -> list[int]:
            """The rows up to the end of a block, or all where the first one is not complete."""
            total = self.now.num_rows + len(rows)
            return rows if total < ALIGNED else rows[: max(0, len(rows) - total % ALIGNED)]

        return readable(chunk, max(0, self._most_bad - self.now.num_bad), read, aligned)

    def take(self, outcome: Outcome) -> None:
        """Accept the outcome of a chunk; no interrupt may come before all runners have it."""
        self.now, self.bad = outcome.now, (*self.bad, *outcome.bad)
        self.latest = outcome.latest
        for runner, achieved in zip(self.everyone, outcome.achieved, strict=True):
            runner.now = achieved

    @property
    def everyone(self) -> list[Runner]:
        """The runners of all learners and seeds."""
        return [runner for each in self.runners.values() for runner in each]

    @property
    def judged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs (n, D), labels (n,) and predictions (L, n) of the rows that are kept and judged.

        The predictions are those of the learners' first seeds. There are none of a run that an
        older checkpoint without such rows continued.
        """
        if self.now.watched is not None:
            return self.now.watched.judged(len(self.runners))
        shape = 0, len(self.columns.features)
        return np.zeros(shape), np.zeros(0), np.zeros((len(self.runners), 0))

    def _run(
        self, name: str, runner: Runner, X: np.ndarray, y: np.ndarray
    ) -> tuple[Achieved, np.ndarray, Any]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", RuntimeWarning)
            result = runner.run(X, y)
        self.warned |= dict.fromkeys(f"{name}: {warning.message}" for warning in found)
        return result


def judged_from(baselines: Baselines, runners: Iterable[Achieved]) -> float:
    """The number of rows before every learner and every baseline knows a label.

    These rows are not judged, as nobody can know yet where the target lies; infinity at first.
    """
    return max(baselines.known_from, *(runner.known_from for runner in runners))


def _scored(
    now: Achieved,
    prediction: np.ndarray,
    distribution: StudentMixture | None,
    rows: np.ndarray,
    labels: np.ndarray,
    baselines: Baselines,
) -> tuple[Achieved, Written]:
    """The progress with the scores after rows (n,), and the predictions as they are written.

    Labels are NaN for rows that do not count. While the learner knows no label, 0 stands for its
    prediction of a number, and the ends of its intervals are NaN.
    """
    values = classes_of(prediction, baselines.num_classes)
    known = rows >= now.known_from
    if not baselines.num_classes:
        values = np.where(known, baselines.start + values, 0.0)
    now, interval = now._replace(score=now.score.after(values, labels)), None
    if now.certainty is not None:
        now = now._replace(certainty=now.certainty.after(prediction, labels))
    if now.densities is not None and distribution is not None:
        found = density_scores(distribution, labels, baselines.start)
        now = now._replace(densities=now.densities.after(found, labels))
        interval = np.where(known, found.low, np.nan), np.where(known, found.high, np.nan)
    return now, Written(values, interval)
