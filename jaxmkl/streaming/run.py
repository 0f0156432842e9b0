"""Drivers of one learner: over a stream, and over chunks of one."""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._checks import refuse_tracers
from jaxmkl._devices import device_of
from jaxmkl._learner import Learner
from jaxmkl._types import Inputs, Labels, PyTree, Records, State
from jaxmkl.streaming import _engine
from jaxmkl.streaming._engine import Record, Rows, without_info
from jaxmkl.streaming._warnings import ROWS_TO_JUDGE, START, Errors, warn_of_examples, warned
from jaxmkl.streaming.examples import Examples, Held, Reading, check_arguments
from jaxmkl.streaming.sparse import SparseRows

P = ParamSpec("P")
R = TypeVar("R")


def _names_a_missing_state(driver: Callable[P, R]) -> Callable[P, R]:
    """Make a driver that is called with learner, X and y say that the state is missing."""

    @wraps(driver)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) == 3 and not kwargs.keys() & {"state", "X", "y"}:
            check_arguments(driver.__name__, *args[:2])
        return driver(*args, **kwargs)

    return checked


@_names_a_missing_state
def run(
    learner: Learner,
    state: State,
    X: Inputs,
    y: Labels,
    *,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
) -> tuple[State, Records]:
    """Run a learner over a stream, one example after the other, in one compiled call.

    These are the rounds of ``jax.lax.scan(learner.step, state, (X, y))``, with the same random
    numbers, but blocks of examples are encoded by large matrix products. Streams are run in
    segments of 4,096 rows, or of 512 or 64 if they have no more, so that three programs serve all
    lengths. Inside ``jit``, ``vmap`` and ``grad`` values are not checked, and a state with support
    vectors keeps its capacity.

    Large products add numbers in another order, so results differ from those of the scan, and
    between block sizes, by rounding and its consequences. On one stream of 20,000 examples, in
    single precision and with targets of variance 1, predictions differed by at most 1e-6 with
    gradient steps on random features (``raker``); by 1e-4 with least squares and forests
    (``expert_mkl(banks=("fixed", "trees"))``); by .004 with learned metrics (``expert_mkl()``),
    where each renewal magnifies earlier differences; by 3e-4 with growing supports (``spa``, after
    3,000). The mean losses differed by less than 1e-4 of themselves. If rounding decides a draw or
    a split, the rest is another run, as likely as the first.

    Args:
      learner: any learner.
      state: from ``learner.init``, an earlier run or a checkpoint; at the same block size a run
        that is cut and continued equals the uninterrupted one bit for bit.
      X: inputs (T, D), real numbers, cast to the state's dtype: an array, a sparse one of SciPy or
        :class:`jaxmkl.streaming.SparseRows`.
      y: targets (T,) or (T, 1), or several (T, K); labels of two classes as
        :func:`jaxmkl.labels.labels` takes them, of K classes as
        :func:`jaxmkl.labels.class_numbers`. Words are for a new state alone, as a state does not
        keep them: to continue, convert words by these functions, with the ``classes`` that they
        returned for the first labels.
      block_size: examples per block, which only changes speed. A learner may take fewer.
      record: a function of the :class:`jaxmkl.Output` of a round, which returns what to keep of
        it. Another function object is another compilation.
      delay: N, the number of rounds after which a label is known, 0 or more: see
        :func:`jaxmkl.wrappers.delayed`. Labels that are due after the last round are
        learned at the end of the run, so the state is the learner's own.

    Returns:
      The state after the stream, and the records with leading axis T: by default an ``Output``
      with ``prediction`` (T,), or (T, K) for several outputs, ``loss`` and ``queried`` (T,) and no
      ``info``.

    Raises:
      ValueError: if ``learner`` is not a learner, the state is of another one, shapes do not fit,
        there is no example, values are NaN or infinite, labels are not the learner's classes or
        are words although a state is continued, or the delay is negative.

    Warns:
      RuntimeWarning: the learner diverges (``state.nonfinite`` counts the rounds): a model's value
        or the loss was infinite or NaN, a prediction was over 8 million times as large as any
        label, or the value of a classifier's model far larger than its steps can make it; for
        classes the last two only if k(x, x) = 1 is known. Or labels were more than a hundred times
        as large as all before, and refused (``state.outlying`` counts them). Or all inputs are
        constant, or those of a column differ by so little that their squares vanish, or that the
        state's dtype rounds them to few numbers. Or over a thousand rows or more, the first
        hundred left out, predictions with the squared loss err 1.05 times as much as the mean of
        the labels would; this is judged by the default's records on the host.

    >>> import jax, jaxmkl, numpy as np
    >>> learner, X = jaxmkl.raker(), np.random.default_rng(0).normal(size=(500, 2))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = run(learner, state, X, X[:, 0] * X[:, 1])
    >>> outputs.loss.shape, int(state.round)
    ((500,), 500)
    """
    check_arguments("run", learner, state)
    examples = Examples.of(learner, state, X, y)
    plan = _engine.plan_of("run", learner, block_size, record, delay, examples.length)
    if examples.traced:
        rows, plan = Rows(*examples.cast()), plan.on(device_of(state))

        def rounds(learner: Any, state: State) -> tuple[State, Records]:
            return _engine.run_rows(learner, state, rows, plan=plan)

        return _engine.with_late_labels(learner, state, plan.delay, rounds)
    warn_of_examples("run", learner, examples)
    state, recorded = _engine.run_segments(
        "run", learner, state, examples, _engine.room_for(examples), plan
    )
    if not plan.delay:
        warned("run", learner, examples, recorded)
    return state, recorded


def stream(
    learner: Learner,
    state: State,
    chunks: Iterable[tuple[Inputs, Labels]],
    *,
    block_size: int | None = None,
    record: Record = without_info,
    gaps: bool = False,
) -> Iterator[tuple[State, Records]]:
    """Run a learner over chunks that come from anywhere, in constant memory.

    It is a generator: after each chunk, the caller may sum up metrics, save a checkpoint, or stop.
    Where a stream is cut changes nothing; a chunk needs a compilation if it is the first of more
    than 64 rows, or of more than 512. Rows of sparse chunks are padded likewise, to a power of two
    of entries. Empty chunks are skipped. Labels in words keep the meaning that the first chunk
    gave them; it must have all classes, and the state must be new. If labels come late, use
    :func:`jaxmkl.wrappers.delayed`: its state, and so a checkpoint, keeps what is due from one
    chunk to the next.

    Args:
      learner, state, block_size, record: as in :func:`run`.
      chunks: pairs (X, y), as in :func:`run`.
      gaps: whether labels may be missing: NaN, None or masked. Such an example is predicted, not
        learned, and counted among the invalid ones if its label was asked for.

    Yields:
      ``(state, records)`` after each chunk.

    Raises:
      ValueError: as :func:`run`, with the number of the chunk.

    >>> import jax, jaxmkl
    >>> learner, X = jaxmkl.raker(), np.random.default_rng(0).normal(size=(110, 2))
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> for state, outputs in stream(learner, state, [(X[:90], X[:90, 0]), (X[90:], X[90:, 0])]):
    ...     print(int(state.round), outputs.loss.shape)
    90 (90,)
    110 (20,)
    """
    check_arguments("stream", learner, state)
    pushed = Stream(learner, block_size=block_size, record=record, gaps=gaps)
    pushed._errors = START
    for chunk in chunks:
        if not isinstance(chunk, tuple | list) or len(chunk) != 2:
            given = f"{type(chunk).__name__} of shape {np.shape(chunk)}"
            wanted = "pairs (X, y), one after the other, as [(X, y)]"
            pytree.require(False, "stream", "chunks", given, wanted)
        state, recorded = pushed.push(state, *chunk)
        if recorded is not None:
            yield state, recorded


class Stream:
    """Run a learner over chunks that are pushed one after the other, as :func:`stream` does.

    The learner's state goes in and comes out. An instance keeps the length to which segments are
    padded, which saves compilations, and the meaning of labels in words.

    Args:
      learner, block_size, record, gaps: as in :func:`stream`.

    >>> import jax, jaxmkl
    >>> learner, X = jaxmkl.raker(), np.random.default_rng(0).normal(size=(110, 2))
    >>> pushed = Stream(learner)
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> state, outputs = pushed.push(state, X[:90], X[:90, 0])
    >>> state, outputs = pushed.push(state, X[90:], X[90:, 0])
    >>> int(state.round), outputs.loss.shape
    (110, (20,))
    """

    def __init__(
        self,
        learner: Learner,
        *,
        block_size: int | None = None,
        record: Record = without_info,
        gaps: bool = False,
    ) -> None:
        self.learner = learner
        self._plan = _engine.plan_of("stream", learner, block_size, record)
        self._reading = Reading(in_chunks=True, gaps=gaps)
        self._chunks = self._room = self._fullest = 0
        self._first: list[Examples] | None = []  # until there are enough of them to be judged
        self._errors: Errors | None = None  # the errors so far, if they are judged

    def push(self, state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, Records]:
        """Run the next chunk, and return the state after it and its records, None if it is empty.

        Raises:
          ValueError: as :func:`stream`.
        """
        reading = self._reading
        # lists, which have many leaves, are looked through when they are read
        known = [one for one in (X, y) if not isinstance(one, list | tuple)]
        inside = " (inside, jaxmkl.run)"
        refuse_tracers("stream", "state or chunks", (state, *known), inside)
        if not self._chunks:
            check_arguments("stream", self.learner, state)
            reading.round = state.round
        before = reading.classes, reading.after_numbers
        try:
            examples = Examples.of(self.learner, state, X, y, reading)
            pushed = self._run(state, examples) if examples.length else (state, None)
        except ValueError as error:
            reading.classes, reading.after_numbers = before
            raise ValueError(f"chunk {self._chunks}: {error}") from None
        self._chunks += 1
        return pushed

    def _run(self, state: State, examples: Examples) -> tuple[State, Records]:
        self._judge_first(examples)
        self._room = max(self._room, _engine.room_for(examples))
        X = examples.X.array
        if isinstance(X, SparseRows):
            self._fullest = max(self._fullest, 1, X.values.shape[1])
            padded = X.padded(len(X), 2 ** (self._fullest - 1).bit_length())
            examples = examples._replace(X=examples.X._replace(array=padded, seen=padded.values))
        given = self.learner, state, examples, self._room, self._plan
        after, recorded = _engine.run_segments("stream", *given)
        if self._errors is not None:
            self._errors = warned("stream", self.learner, examples, recorded, self._errors)
        return after, recorded

    def _judge_first(self, examples: Examples) -> None:
        """Warn of examples from which nothing can be learned, once the first rows have come."""
        X, y = examples.X, examples.y
        if self._first is None or X.is_sparse or X.seen is None or y.seen is None:
            self._first = None
            return
        self._first.append(examples)
        if sum(one.length for one in self._first) >= ROWS_TO_JUDGE:
            rows = np.concatenate([one.X.seen for one in self._first])
            labels = np.concatenate([one.y.seen for one in self._first])
            self._first = None
            some = examples._replace(X=Held.here("X", rows), y=Held.here("y", labels))
            warn_of_examples("stream", self.learner, some)
