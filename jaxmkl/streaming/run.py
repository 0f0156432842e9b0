"""What drivers add to a scan of ``learner.step``: blocks, checks, a choice of what to keep."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._checks import refuse_masked, refuse_unless
from jaxmkl._devices import left_to_xla
from jaxmkl._learner import Learner, Output, require_learner
from jaxmkl._ranges import reported
from jaxmkl.streaming import _spread, checks
from jaxmkl.streaming.sparse import SparseRows
from jaxmkl.wrappers.delayed import delayed

Record = Callable[[Output], Any]


def without_info(output: Output) -> Output:
    """Keep prediction, loss and queried of a round: what :func:`run` records by default."""
    return output._replace(info=None)


def _scan(
    learner: Any,
    state: Any,
    X: Any,
    y: Any,
    order: Any,
    length: Any,
    *,
    block_size: int,
    record: Any,
    delay: int = 0,
    blocks: Any = None,
) -> tuple[Any, Any]:
    """Scan the first ``length`` rows of X (T, D), in the given order, in blocks.

    A block starts at a round that is a multiple of its size: of a state amid a block, the first
    block's leading rows are absent. With a ``length`` of None all rows are meant, and derivatives
    can be taken; else blocks behind it cost nothing, or those behind the first ``blocks``, where
    runs of several lengths advance side by side.
    """
    if delay:
        # rounds behind the last add nothing to how late labels are
        late = delayed(learner, min(delay, X.shape[0]))
        options: Any = {"block_size": block_size, "record": record, "blocks": blocks}
        after, recorded = _scan(late, late.around(state), X, y, order, length, **options)
        return reported(learner, state, late.flushed(after).inner), recorded
    B, T = block_size, X.shape[0]
    # two blocks at least: XLA unrolls a loop of one, which may round in another way
    num_blocks = max(2, -(-(T + B - 1) // B))
    offset, dtype, before = state.round % B, learner.dtype(state), state

    def one(state: Any, example: tuple) -> tuple[Any, Any]:
        code, y, present = example
        state, output = learner.advance(state, code, y, present)
        return state, record(output)

    def one_block(state: Any, number: Any) -> tuple[Any, Any]:
        positions = number * B + jnp.arange(B, dtype=jnp.int32) - offset
        present = (positions >= 0) & (positions < (T if length is None else length))
        rows = jnp.clip(positions, 0, T - 1)
        rows = rows if order is None else order[rows]
        codes = learner.encode_block(state, X[rows].astype(dtype))
        state, recorded = jax.lax.scan(one, state, (codes, y[rows].astype(dtype), present))
        return learner.close_block(state, codes), recorded

    if length is None:
        state, recorded = jax.lax.scan(one_block, state, jnp.arange(num_blocks, dtype=jnp.int32))
    else:
        number = _blocks_of(state, length, B) if blocks is None else blocks
        state, recorded = _scan_some(one_block, state, num_blocks, number)
    of_rounds = partial(jax.lax.dynamic_slice_in_dim, start_index=offset, slice_size=T)
    state = reported(learner, before, state)
    return state, jax.tree.map(lambda leaf: of_rounds(jax.lax.collapse(leaf, 0, 2)), recorded)


def _blocks_of(state: Any, length: Any, block_size: int) -> jax.Array:
    """How many blocks the next ``length`` examples of a state are in."""
    return (length + state.round % block_size + block_size - 1) // block_size


def _scan_some(body: Callable, state: Any, length: int, number: Any) -> tuple[Any, Any]:
    """As ``jax.lax.scan(body, state, arange(length))`` for the first ``number``; zeros behind."""

    def turn(i: Any, carry: tuple) -> tuple[Any, Any]:
        state, ys = carry
        state, y = body(state, i)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return state, jax.tree.map(put, ys, y)

    like = jax.eval_shape(body, state, 0)[1]
    ys = jax.tree.map(lambda y: jax.lax.full((length, *y.shape), 0, y.dtype), like)
    return jax.lax.fori_loop(0, number, turn, (state, ys))


_STATIC = "block_size", "record", "delay"
_run = jax.jit(_scan, static_argnames=_STATIC)


@partial(jax.jit, static_argnames=("permute", "sharding", *_STATIC))
def _run_many(
    given: tuple, keys: Any, *, permute: bool, sharding: Any, **options: Any
) -> tuple[Any, Any]:
    """Runs of all keys over the stream of ``given``: learner, X and y."""

    def play(given: tuple, keys: Any) -> tuple[Any, Any]:
        learner, X, y = given

        def begin(key: jax.Array) -> Any:
            return learner.init(jax.random.fold_in(key, 0), X.shape[1], X.dtype)

        def one(given: tuple) -> tuple[Any, Any]:
            key, order = given
            state = learner.enlarged(begin(key), X.shape[0])
            return _scan(learner, state, X, y, order, None, **options)

        def held() -> Any:
            state, rows = begin(keys[0]), jnp.zeros(options["block_size"], jnp.int32)
            return state, learner.encode_block(state, X[rows])

        size = _spread.at_once(held, len(keys), sharding is not None)
        orders = permutations(keys, X.shape[0]) if permute else None
        return _spread.in_groups(jax.vmap(one), (keys, orders), size)

    return _spread.shared_out(play, sharding)(given, keys)


def permutations(keys: jax.Array, num_examples: int) -> jax.Array:
    """The orders (S, T) in which :func:`run_many` with the same keys goes through a stream.

    >>> sorted(permutations(jax.random.split(jax.random.key(0), 2), 5)[1].tolist())
    [0, 1, 2, 3, 4]
    """
    keys = jax.vmap(partial(jax.random.fold_in, data=1))(keys)
    return jax.vmap(partial(jax.random.permutation, x=num_examples))(keys)


def _padded_length(length: int) -> int:
    """The next of few lengths, at most a quarter more: 64, 80, 96, 112, 128, 160, ..."""
    step = max(64, 1 << (length - 1).bit_length()) // 8 if length > 64 else 64
    return -(-length // step) * step


def _room_for(X: Any) -> int:
    """The length to which X is padded: its own where it lies on several devices."""
    arrays = (leaf for leaf in jax.tree.leaves(X) if isinstance(leaf, jax.Array))
    spread = any(len(array.devices()) > 1 for array in arrays)
    return X.shape[0] if spread else _padded_length(X.shape[0])


def _placed(array: Any, length: int, dtype: Any, fill: int = 0) -> Any:
    """The array in a dtype, filled up to a length, on the device where it is or will be."""
    if isinstance(array, SparseRows):
        indices = _placed(array.indices, length, np.int32, array.num_columns)
        return array._with(indices, _placed(array.values, length, dtype))
    missing, home = length - array.shape[0], None
    pad = ((0, missing), *((0, 0) for _ in array.shape[1:]))
    ready = missing == 0 and array.dtype == dtype
    if isinstance(array, jax.Array):
        if ready:
            return array
        if any(device.platform != "cpu" for device in array.devices()) or len(array.devices()) > 1:
            return jnp.pad(array.astype(dtype), pad, constant_values=fill)
        home = array.sharding if array.committed else None
    # in host memory: there no length needs a compilation of its own
    with np.errstate(over="ignore"):
        array = np.asarray(array, dtype)
    return jax.device_put(array if ready else np.pad(array, pad, constant_values=fill), home)


def _cut(leaf: jax.Array, length: int) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf[:length]
    return jax.device_put(np.asarray(leaf)[:length], leaf.sharding if leaf.committed else None)


def _play(
    driver: str,
    learner: Learner,
    state: Any,
    X: Any,
    y: Any,
    room: int,
    stacklevel: int = 4,
    **options: Any,
) -> tuple[Any, Any]:
    """A run outside of any trace, of X and y filled up to a length of ``room``."""
    length, dtype = X.shape[0], learner.dtype(state)
    before, capacity = checks.count_troubles(state), learner.capacity(state)
    if capacity is not None and not checks.is_traced(state):
        used = int(learner.num_supports(state))
        if used + length > capacity:
            # each size is compiled: what has grown before gets twice its room at least
            wanted = max(used + length, 2 * capacity if used else 0)
            state = learner.enlarged(state, _padded_length(wanted))
    X, y = _placed(X, room, dtype), _placed(y, room, dtype)
    state, X, y = left_to_xla((state, X, y))
    state, recorded = _run(learner, state, X, y, None, length, **options)
    checks.warn_of_troubles(driver, state, before, stacklevel)
    if room > length:
        recorded = jax.tree.map(partial(_cut, length=length), recorded)
    return state, recorded


def _options(
    driver: str, learner: Learner, block_size: int | None, record: Record, delay: int = 0
) -> dict[str, Any]:
    """What of a driver's arguments :func:`_scan` compiles in."""
    size = learner.preferred_block_size if block_size is None else block_size
    good = isinstance(size, int | np.integer) and size >= 1
    refuse_unless(good, f"block_size must be an integer of at least 1; got {size!r}")
    size = learner.fit_block_size(int(size))
    delay = pytree.as_count(driver, "delay", delay, minimum=0)
    return {"block_size": size, "record": record, "delay": delay}


def run(
    learner: Learner,
    state: Any,
    X: Any,
    y: Any = None,  # so that the checks can say so where it is the state that is missing
    *,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
) -> tuple[Any, Any]:
    """Run a learner over a stream, one example after the other, in one compiled call.

    Equal to ``jax.lax.scan(learner.step, state, (X, y))`` up to rounding, but blocks of examples
    are encoded by large matrix products. Streams are filled up to one of few lengths, so that most
    need no compilation. Inside ``jit``, ``vmap`` and ``grad`` values are not checked, and a state
    with support vectors keeps the room it has.

    Args:
      learner: any learner.
      state: from ``learner.init``, an earlier run or a checkpoint; at the same block size a run
        that is cut and continued equals the uninterrupted one bit for bit.
      X: inputs (T, D), real numbers, cast to the state's dtype: an array, SciPy's sparse ones or
        :class:`jaxmkl.streaming.SparseRows`.
      y: targets (T,) or (T, 1), several (T, K); labels of two classes as
        :func:`jaxmkl.labels.labels` takes them, of K classes as :func:`jaxmkl.labels.codes`.
      block_size: examples per block; changes speed alone. A learner may take a smaller one.
      record: what to keep of each round, a function of its :class:`jaxmkl.Output`. Another
        function object is another compilation.
      delay: N, rounds after which a label is known, an integer of at least 0: see
        :func:`jaxmkl.wrappers.delayed`. What is due after the last round is learned then,
        so the state is the learner's own.

    Returns:
      The state after the stream, and the records with leading axis T: by default an ``Output``
      with ``prediction`` (T,), of several outputs (T, K), ``loss`` and ``queried`` (T,) and no
      ``info``.

    Raises:
      ValueError: for what is no learner or not its state, shapes that do not fit, no example,
        NaN or infinite values, labels that are not the learner's classes, or a negative delay.

    Warns:
      RuntimeWarning: when a model's value or the loss was infinite or NaN: the learner diverges;
        or when labels were more than a hundred times as large as all before, which no learner of
        numbers believes at once (``state.outlying`` counts them among those refused).

    >>> import jaxmkl
    >>> learner, X = jaxmkl.raker(), jax.random.normal(jax.random.key(0), (500, 3))
    >>> state = learner.init(jax.random.key(1), num_inputs=3)
    >>> state, outputs = run(learner, state, X, X[:, 0] * X[:, 1])
    >>> outputs.loss.shape, int(state.round)
    ((500,), 500)
    """
    checks.check_arguments("run", learner, state)
    dtype = learner.dtype(state)
    X, y = checks.check_examples(learner, X, y, learner.num_inputs(state), dtype)
    options = _options("run", learner, block_size, record, delay)
    if checks.is_traced(learner, state, X, y):
        X, y = X.astype(dtype), y.astype(dtype)
        return _run(learner, state, X, y, None, None, **options)
    return _play("run", learner, state, X, y, _room_for(X), **options)


def run_many(
    learner: Learner,
    keys: jax.Array,
    X: Any,
    y: Any,
    *,
    permute: bool = True,
    block_size: int | None = None,
    record: Record = without_info,
    delay: int = 0,
    mesh: Any = None,
) -> tuple[Any, Any]:
    """Run a learner over a stream once for each key, in one call.

    Runs advance side by side: all of them, or on one CPU as many as its cache holds.

    Each run has its own initialisation, ``learner.init(jax.random.fold_in(key, 0), D)``. Rows are
    gathered block by block, so the data is in memory once, whatever the number of runs.

    Args:
      learner: any learner.
      keys: typed PRNG keys (S,), as from ``jax.random.split``. Where they lie on several devices
        in equal parts, the runs are shared out likewise.
      X, y, block_size, record, delay: as in :func:`run`.
      permute: whether each run has its own order of the examples, that of :func:`permutations`.
      mesh: a ``jax.sharding.Mesh`` among whose devices the runs are shared out, whatever their
        number, also those of several processes (:mod:`jaxmkl.guide.many_devices`). While they
        run, devices do not wait for each other. Inside a trace it is not looked at.

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
    typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    given = f"shape {jnp.shape(keys)}, dtype {getattr(keys, 'dtype', type(keys).__name__)}"
    wanted = "a one-dimensional array of typed keys (jax.random.split of a jax.random.key)"
    refuse_unless(typed and keys.ndim == 1, f"keys must be {wanted}; got {given}")
    X = checks.as_inputs(X)
    # states are made for X: in double precision if X and JAX have it
    dtype = jax.dtypes.canonicalize_dtype(X.dtype if X.dtype == jnp.float64 else jnp.float32)
    X, y = checks.check_examples(learner, X, y, X.shape[1] if X.ndim == 2 else 0, dtype)
    options = _options("run_many", learner, block_size, record, delay)
    program = partial(_run_many, permute=permute, **options)
    sharding = _spread.sharding_of("run_many", mesh, keys)
    if checks.is_traced(learner, keys, X, y):
        return program((learner, X.astype(dtype), y.astype(dtype)), keys, sharding=None)
    X, y = _placed(X, X.shape[0], dtype), _placed(y, X.shape[0], dtype)
    runs = _spread.played(program, sharding, (learner, X, y), keys)
    checks.warn_of_troubles("run_many", runs[0])
    return runs


def stream(
    learner: Learner,
    state: Any,
    chunks: Iterable[tuple[Any, Any]],
    *,
    block_size: int | None = None,
    record: Record = without_info,
    gaps: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Run a learner over chunks that come from anywhere, in constant memory.

    A generator, so that the caller sums up metrics or saves a checkpoint after each chunk, and
    stops when it likes. Cutting a stream otherwise changes nothing; a chunk no longer than all
    before needs no compilation. Rows of sparse chunks are padded alike, to a power of two of
    entries. Empty chunks are passed over. Labels in words keep the meaning that the first chunk
    gave them; it has to hold all classes. Where labels come late, play
    :func:`jaxmkl.wrappers.delayed`: its state, in a checkpoint too, keeps what is due from one
    chunk to the next.

    Args:
      learner, state, block_size, record: as in :func:`run`.
      chunks: pairs (X, y), as in :func:`run`.
      gaps: whether labels may be missing, as NaN or masked: such an example is predicted and
        counted among the invalid ones, not learned.

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
    length that chunks are padded to, and the meaning of labels in words.

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
        self._options, self._gaps = _options("stream", learner, block_size, record), gaps
        self._chunks = self._room = self._fullest = 0
        self._classes: tuple | None = None

    def push(self, state: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """Run the next chunk and return the state after it and its records, None of an empty one.

        Raises:
          ValueError: as :func:`stream`.
        """
        if not self._chunks:
            checks.check_arguments("stream", self.learner, state)
        return self._push(state, X, y)

    def _push(self, state: Any, X: Any, y: Any) -> tuple[Any, Any]:
        try:
            X, y = self._checked(state, X, y)
        except ValueError as error:
            raise ValueError(f"chunk {self._chunks}: {error}") from None
        self._chunks += 1
        if not len(X):
            return state, None
        self._room = max(self._room, _room_for(X))
        if isinstance(X, SparseRows):
            self._fullest = max(self._fullest, 1, X.values.shape[1])
            X = X.padded(len(X), 2 ** (self._fullest - 1).bit_length())
        # a warning is for whoever called the function that called this one
        return _play("stream", self.learner, state, X, y, self._room, 5, **self._options)

    def _checked(self, state: Any, X: Any, y: Any) -> tuple[Any, Any]:
        learner, num_inputs = self.learner, self.learner.num_inputs(state)
        if self._gaps and isinstance(y, np.ma.MaskedArray) and y.dtype.kind in "biuf":
            y = np.ma.filled(y.astype(float), np.nan)
        refuse_masked("y", y)
        X, y = jax.tree.map(np.asarray, checks.as_inputs(X)), np.asarray(y)
        if X.shape == (0, num_inputs) and y.size == 0:
            return X, y
        if learner.task == "classification" and y.dtype.kind in "OSTU":
            y, self._classes = checks.labels_in_words(learner, y, self._classes)
        dtype = learner.dtype(state)
        return checks.check_examples(learner, X, y, num_inputs, dtype, self._gaps)
