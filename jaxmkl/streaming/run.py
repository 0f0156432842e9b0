"""Drivers of one learner: over a stream, over it once for each of many keys, over chunks."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import refuse_masked, refuse_unless, unmasked
from jaxmkl._devices import device_of, on_accelerator, on_host
from jaxmkl._learner import Learner, Output, require_learner
from jaxmkl._programs import Kept
from jaxmkl._types import Inputs, Labels, PyTree
from jaxmkl.labels import are_words, floats, given, where_known
from jaxmkl.streaming import _spread, checks
from jaxmkl.streaming._against_mean import START, Errors, warned
from jaxmkl.streaming._engine import (
    Plan,
    Record,
    Rows,
    placed,
    plan_of,
    room_for,
    run_padded,
    run_rows,
    scan_rows,
    with_late_labels,
)
from jaxmkl.streaming._many import many_in_segments
from jaxmkl.streaming.sparse import SparseRows

P = ParamSpec("P")
R = TypeVar("R")


def without_info(output: Output) -> Output:
    """Keep prediction, loss and queried of a round: what :func:`run` records by default."""
    return output._replace(info=None)


@Kept
def _run_many(
    given: tuple, keys: Any, *, plan: Plan, permute: bool, room: Any, sharding: Any
) -> tuple[PyTree, PyTree]:
    """Runs of all keys over the stream of ``given``: learner, X and y."""

    def play(given: tuple, keys: jax.Array) -> tuple[PyTree, PyTree]:
        learner, X, y = given

        def begin(key: jax.Array, enlarged: bool = True) -> PyTree:
            state = learner.init(jax.random.fold_in(key, 0), X.shape[1], X.dtype)
            return learner.enlarged(state, X.shape[0]) if enlarged else state

        def one(given: tuple) -> tuple[PyTree, PyTree]:
            key, order = given
            play = partial(scan_rows, rows=Rows(X, y, order), plan=plan)
            return with_late_labels(learner, begin(key), plan.delay, play)

        def held() -> PyTree:
            # of more room in a state a block uses little, which a cache need not hold
            state = begin(keys[0], enlarged=not room.is_cache)
            return state, learner.encode(state, X[jnp.zeros(plan.block_size, jnp.int32)])

        size = _spread.at_once(held, len(keys), room)
        orders = permutations(keys, X.shape[0]) if permute else None
        return _spread.in_groups(jax.vmap(one), (keys, orders), size)

    return _spread.shared_out(play, sharding)(given, keys)


def permutations(keys: jax.Array, num_examples: int) -> jax.Array:
    """The orders (S, T) in which :func:`run_many` with the same keys goes through a stream.

    Raises:
      ValueError: if ``keys`` are not as in :func:`run_many`, or ``num_examples`` is no count.

    >>> sorted(permutations(jax.random.split(jax.random.key(0), 2), 5)[1].tolist())
    [0, 1, 2, 3, 4]
    """
    _require_keys(keys)
    number = pytree.as_count("permutations", "num_examples", num_examples, minimum=0)
    program = _permuted if on_accelerator(keys) else _permuted_on_host
    return program(keys, num_examples=number)


def _require_keys(keys: jax.Array) -> None:
    typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    given = f"shape {jnp.shape(keys)}, dtype {getattr(keys, 'dtype', type(keys).__name__)}"
    wanted = "a one-dimensional array of typed keys (jax.random.split of a jax.random.key)"
    refuse_unless(typed and keys.ndim == 1, f"keys must be {wanted}; got {given}")


def _permutations(keys: jax.Array, *, num_examples: int) -> jax.Array:
    def one(key: jax.Array) -> jax.Array:
        return jax.random.permutation(jax.random.fold_in(key, 1), num_examples)

    # the compiler for TPUs takes minutes for many sorts side by side
    one_by_one = partial(jax.lax.map, one)
    return jax.lax.platform_dependent(keys, tpu=one_by_one, default=jax.vmap(one))


_permuted, _permuted_on_host = Kept(_permutations), Kept(_permutations, on_host=True)


def _names_a_missing_state(driver: Callable[P, R]) -> Callable[P, R]:
    """Say that the state is missing where a driver is called with learner, X and y."""

    @wraps(driver)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) == 3 and not kwargs.keys() & {"state", "X", "y"}:
            checks.check_arguments(driver.__name__, *args[:2])
        return driver(*args, **kwargs)

    return checked


@_names_a_missing_state
def run(
    learner: Learner,
    state: PyTree,
    X: Inputs,
    y: Labels,
    *,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
) -> tuple[PyTree, PyTree]:
    """Run a learner over a stream, one example after the other, in one compiled call.

    These are the rounds of ``jax.lax.scan(learner.step, state, (X, y))``, with the same random
    numbers, but blocks of examples are encoded by large matrix products. Streams are run in
    segments of 4,096 rows, or of 512 or 64 if they are shorter, so that another length compiles
    nothing. Inside ``jit``, ``vmap`` and ``grad`` values are not checked, and a state with support
    vectors keeps the room it has.

    Large products add numbers in another order, so results differ from the scan's, and between
    block sizes, by rounding and by what a learner makes of it. On one stream of 20,000 examples,
    in single precision and with targets of variance 1, predictions differed by 1e-6 at most with
    gradient steps on random features (``raker``); by 1e-4 with least squares and forests
    (``expert_mkl(banks="fixed")``); by .004 with learned metrics (``expert_mkl()``), where each
    renewal magnifies what came before; and by 3e-4 with growing supports (``spa``, after 3,000).
    The mean losses differed by less than 1e-4 of themselves. Where rounding decides a draw or a
    split, what follows is another run, as likely as the first.

    Args:
      learner: any learner.
      state: from ``learner.init``, an earlier run or a checkpoint; at the same block size a run
        that is cut and continued equals the uninterrupted one bit for bit.
      X: inputs (T, D), real numbers, cast to the state's dtype: an array, SciPy's sparse ones or
        :class:`jaxmkl.streaming.SparseRows`.
      y: targets (T,) or (T, 1), several (T, K); labels of two classes as
        :func:`jaxmkl.labels.labels` takes them, of K classes as
        :func:`jaxmkl.labels.class_numbers`. Words are for a new state alone: a state does not
        keep them, so where it is continued these functions turn words into numbers by the
        ``classes`` that they returned for the first labels.
      block_size: examples per block; changes speed alone. A learner may take a smaller one.
      record: what to keep of each round, a function of its :class:`jaxmkl.Output`. Another
        function object is another compilation.
      delay: N, rounds after which a label is known, an integer of at least 0: see
        :func:`jaxmkl.wrappers.delayed`. Labels that are due after the last round are
        learned at the end of the run, so the state is the learner's own.

    Returns:
      The state after the stream, and the records with leading axis T: by default an ``Output``
      with ``prediction`` (T,), of several outputs (T, K), ``loss`` and ``queried`` (T,) and no
      ``info``.

    Raises:
      ValueError: for what is no learner or not its state, shapes that do not fit, no example,
        NaN or infinite values, labels that are not the learner's classes, words where a state is
        continued, or a negative delay.

    Warns:
      RuntimeWarning: when the learner diverges (``state.nonfinite`` counts the rounds): a model's
        value or the loss was infinite or NaN, a prediction more than 8 million times as large as
        any label, or the value of a classifier's model far larger than its steps can make it; the
        last two of classes only where k(x, x) = 1 is known. Or when labels were more than a
        hundred times as large as all before, which no learner of numbers believes at once
        (``state.outlying`` counts them among those refused); or when all inputs are constant, or
        those of a column differ by so little that their squares vanish; or when over a thousand
        rows or more predictions with the squared loss err 1.05 times as much as the mean of the
        labels would, where the default's records are on the host.

    >>> import jaxmkl
    >>> learner, X = jaxmkl.raker(), jax.random.normal(jax.random.key(0), (500, 3))
    >>> state = learner.init(jax.random.key(1), num_inputs=3)
    >>> state, outputs = run(learner, state, X, X[:, 0] * X[:, 1])
    >>> outputs.loss.shape, int(state.round)
    ((500,), 500)
    """
    checks.check_arguments("run", learner, state)
    dtype = learner.dtype(state)
    traced = checks.is_traced(learner, state, X, y)
    D = learner.num_inputs(state)
    X, y = checks.check_examples(learner, X, y, D, dtype, later=not traced, round=state.round)
    plan = plan_of("run", learner, block_size, record, delay, X.shape[0])
    if traced:
        X, y = X.astype(dtype), y.astype(dtype)

        def play(learner: Any, state: PyTree) -> tuple[PyTree, PyTree]:
            return run_rows(learner, state, Rows(X, y), plan=plan.on(device_of(state)))

        return with_late_labels(learner, state, plan.delay, play)
    checks.warn_of_examples("run", learner, (X, y), dtype)
    state, recorded = run_padded("run", learner, state, X, y, room_for(X), plan, stacklevel=5)
    if not plan.delay:
        warned("run", learner, (X, y), recorded)
    return state, recorded


def run_many(
    learner: Learner,
    keys: jax.Array,
    X: Inputs,
    y: Labels,
    *,
    permute: bool = True,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
    mesh: Mesh | None = None,
) -> tuple[PyTree, PyTree]:
    """Run a learner over a stream once for each key, in one call.

    Runs advance side by side, as many as the device's memory has room for, or a CPU's cache.

    Each run has its own initialisation, ``learner.init(jax.random.fold_in(key, 0), D)``. On a CPU
    runs are played in groups of a power of two and in segments, as in :func:`run`, so that another
    length, and another number of keys up to that power of two, compiles nothing. On accelerators,
    among several devices and inside a trace all runs are one program, which gathers rows block by
    block.

    Args:
      learner: any learner.
      keys: typed PRNG keys (S,), as from ``jax.random.split``. Where they lie on several devices
        in equal parts, the runs are shared out likewise.
      X, y, block_size, record, delay: as in :func:`run`.
      permute: whether each run has its own order of the examples, that of :func:`permutations`.
      mesh: a ``jax.sharding.Mesh`` among whose devices the runs are shared out, whatever their
        number, also those of several processes (:mod:`jaxmkl.guide.many_devices`). While they
        run, devices do not wait for each other. Inside a trace it is ignored.

    Returns:
      States and records with leading axis S; records are in a run's own order. On a mesh they
      stay in parts where the devices divide S; else every device has all of them.

    Raises:
      ValueError: as :func:`run`, and for keys that are not a one-dimensional array of typed keys.

    >>> import jaxmkl
    >>> keys = jax.random.split(jax.random.key(1), 4)
    >>> X = jax.random.normal(keys[0], (200, 3))
    >>> run_many(jaxmkl.raker(), keys, X, X[:, 0])[1].loss.shape
    (4, 200)
    """
    require_learner("run_many", learner)
    _require_keys(keys)
    X = checks.as_inputs(X)
    # states are made for X: in double precision if X and JAX have it
    dtype = jax.dtypes.canonicalize_dtype(X.dtype if X.dtype == jnp.float64 else jnp.float32)
    traced, D = checks.is_traced(learner, keys, X, y), X.shape[1] if X.ndim == 2 else 0
    X, y = checks.check_examples(learner, X, y, D, dtype, later=not traced)
    plan = plan_of("run_many", learner, block_size, record, delay, X.shape[0])
    sharding = _spread.sharding_of("run_many", mesh, keys)
    examples = X, y, dtype
    if traced:
        sharding, X, y = None, X.astype(dtype), y.astype(dtype)
    else:
        checks.warn_of_examples("run_many", learner, (X, y), dtype)
        X, y = placed(X, X.shape[0], dtype), placed(y, X.shape[0], dtype)
    shared = learner, X, y
    room = _spread.room_for((shared, keys), sharding)
    plan = plan.on(_spread.home_of((shared, keys), sharding))
    program = partial(_run_many, plan=plan, permute=permute, room=room)
    if traced:
        return program(shared, keys, sharding=None)
    if sharding is not None or room != _spread.CACHE or not len(keys):
        runs = _spread.played(program, sharding, shared, keys)
    else:
        orders = np.asarray(permutations(keys, X.shape[0])) if permute else None
        runs = many_in_segments(learner, keys, (X, y), orders, plan)
    checks.refuse_and_warn("run_many", runs[0], examples)
    if not plan.delay and len(keys):
        warned("run_many", learner, examples[:2], runs[1])
    return runs


def stream(
    learner: Learner,
    state: PyTree,
    chunks: Iterable[tuple[Inputs, Labels]],
    *,
    block_size: int | None = None,
    record: Record = without_info,
    gaps: bool = False,
) -> Iterator[tuple[PyTree, PyTree]]:
    """Run a learner over chunks that come from anywhere, in constant memory.

    A generator, so that the caller sums up metrics or saves a checkpoint after each chunk, and
    stops when it likes. Cutting a stream otherwise changes nothing; a chunk needs a compilation if
    it is the first of more than 64 rows, or of more than 512. Rows of sparse chunks are padded
    alike, to a power of two of entries. Empty chunks are passed over. Labels in words keep the
    meaning that the first chunk gave them; it has to hold all classes, and the state has to be
    new. Where labels come late, play :func:`jaxmkl.wrappers.delayed`: its state, in a checkpoint
    too, keeps what is due from one chunk to the next.

    Args:
      learner, state, block_size, record: as in :func:`run`.
      chunks: pairs (X, y), as in :func:`run`.
      gaps: whether labels may be missing, as NaN, None or masked: such an example is predicted
        and not learned, and counted among the invalid ones if its label was asked for.

    Yields:
      ``(state, records)`` after each chunk.

    Raises:
      ValueError: as :func:`run`, with the number of the chunk.

    >>> import jaxmkl
    >>> learner, X = jaxmkl.raker(), jax.random.normal(jax.random.key(1), (110, 2))
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> for state, outputs in stream(learner, state, [(X[:90], X[:90, 0]), (X[90:], X[90:, 0])]):
    ...     print(int(state.round), outputs.loss.shape)
    90 (90,)
    110 (20,)
    """
    checks.check_arguments("stream", learner, state)
    pushed = Stream(learner, block_size=block_size, record=record, gaps=gaps)
    pushed._errors = START
    for chunk in chunks:
        if not isinstance(chunk, tuple | list) or len(chunk) != 2:
            given = f"{type(chunk).__name__} of shape {np.shape(chunk)}"
            wanted = "pairs (X, y), one after the other, as [(X, y)]"
            pytree.require(False, "stream", "chunks", given, wanted)
        state, recorded = pushed._push(state, *chunk)
        if recorded is not None:
            yield state, recorded


class Stream:
    """Runs a learner over chunks that are pushed in one after the other, as :func:`stream` does.

    The learner's state goes in and comes out. What stays here is what saves compilations, the
    length that segments are padded to, and the meaning of labels in words.

    Args:
      learner, block_size, record, gaps: as in :func:`stream`.

    >>> import jaxmkl
    >>> learner, X = jaxmkl.raker(), jax.random.normal(jax.random.key(1), (110, 2))
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
        self._plan = plan_of("stream", learner, block_size, record)
        self._gaps = gaps
        self._chunks = self._room = self._fullest = 0
        self._classes: tuple | None = None
        self._first_rows: list | None = []  # until there are enough of them to be judged
        self._begun: Any = 0  # the round of the state that came first
        self._has_numbers = False  # whether labels came in numbers
        self._errors: Errors | None = None  # those so far, where they are to be judged

    def push(self, state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, PyTree]:
        """Run the next chunk and return the state after it and its records, None of an empty one.

        Raises:
          ValueError: as :func:`stream`.
        """
        if not self._chunks:
            checks.check_arguments("stream", self.learner, state)
        return self._push(state, X, y)

    def _push(self, state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, PyTree]:
        if not self._chunks:
            self._begun = state.round
        before = self._classes, self._has_numbers
        try:
            after, recorded = self._pushed(state, X, y)
        except ValueError as error:
            self._classes, self._has_numbers = before
            raise ValueError(f"chunk {self._chunks}: {error}") from None
        self._chunks += 1
        return after, recorded

    def _pushed(self, state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, PyTree]:
        X, y = self._checked(state, X, y)
        if not len(X):
            return state, None
        self._judge(X, y, self.learner.dtype(state))
        self._room = max(self._room, room_for(X))
        if isinstance(X, SparseRows):
            self._fullest = max(self._fullest, 1, X.values.shape[1])
            X = X.padded(len(X), 2 ** (self._fullest - 1).bit_length())
        # a warning is for whoever called the function that called that which called this one
        after, recorded = run_padded(
            "stream", self.learner, state, X, y, self._room, self._plan, 6
        )
        if self._errors is not None:
            self._errors = warned("stream", self.learner, (X, y), recorded, self._errors)
        return after, recorded

    def _judge(self, X: Inputs, y: Labels, dtype: DTypeLike) -> None:
        """Warn of examples from which nothing can be learned, once the first rows are there."""
        there = on_accelerator(X) or on_accelerator(y)
        if self._first_rows is None or isinstance(X, SparseRows) or there:
            self._first_rows = None
            return
        self._first_rows.append((X, y))
        if sum(len(rows) for rows, _ in self._first_rows) >= checks.ROWS_TO_JUDGE:
            rows, labels = map(np.concatenate, zip(*self._first_rows, strict=True))
            self._first_rows = None
            checks.warn_of_examples("stream", self.learner, (rows, labels), dtype)

    def _checked(self, state: PyTree, X: Inputs, y: Labels) -> tuple[PyTree, PyTree]:
        learner, num_inputs = self.learner, self.learner.num_inputs(state)
        y = unmasked(y) if self._gaps else y
        refuse_masked("y", y)
        X, y = jax.tree.map(on_host, checks.as_inputs(X)), on_host(y)
        if X.shape == (0, num_inputs) and y.size == 0:
            return X, y
        if learner.task == "regression" and self._gaps:
            y = floats(y)
        elif learner.task == "classification" and y.dtype.kind in "OSTU":
            y = where_known(self._read, y) if self._gaps else self._read(y)
        elif learner.task == "classification" and not self._has_numbers:
            self._has_numbers = bool(np.any(given(y)))
        dtype = learner.dtype(state)
        return checks.check_examples(learner, X, y, num_inputs, dtype, self._gaps, later=True)

    def _read(self, y: np.ndarray) -> np.ndarray:
        """Labels in words in numbers, by the meaning that the first ones had; others as they are.

        Words have none where other labels came before, which the state has learned.
        """
        if not are_words(y):
            self._has_numbers = True
            return checks.read_labels(self.learner, y)[0]
        if self._classes is None:
            checks.refuse_words(self.learner, 1 if self._has_numbers else self._begun)
        found, self._classes = checks.read_labels(self.learner, y, self._classes)
        return found
