"""Drivers: a learner over a stream, over many permutations of it, over chunks from anywhere.

A driver adds nothing to ``jax.lax.scan(learner.step, state, (X, y))`` but speed (blocks), checks
of the data, and the choice of what to keep of each round.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl.labels import labels
from jaxmkl.learner import Learner, Output, input_bound
from jaxmkl.sparse import SparseRows

__all__ = ["permutations", "run", "run_many", "stream", "without_info"]

Record = Callable[[Output], Any]


def without_info(output: Output) -> Output:
    """Keep prediction, loss and queried of a round: what :func:`run` records by default."""
    return output._replace(info=None)


def _scan(
    learner: Learner,
    state: Any,
    X: jax.Array | SparseRows,
    y: jax.Array,
    order: jax.Array | None,
    length: Any,
    block_size: int,
    record: Record,
) -> tuple[Any, Any]:
    """Scan the first ``length`` rows of X (T, D), in the given order, in blocks.

    Blocks are aligned with the rounds: a block starts at a multiple of its size. A state that
    stands amid a block gets a first block whose leading rows are absent.
    """
    B, T = block_size, X.shape[0]
    # two blocks at least: XLA unrolls a loop of one, which may round in another way
    num_blocks = max(2, -(-(T + B - 1) // B))
    offset = state.round % B
    positions = jnp.arange(num_blocks * B, dtype=jnp.int32) - offset
    present = (positions >= 0) & (positions < length)
    rows = jnp.clip(positions, 0, T - 1)
    if order is not None:
        rows = order[rows]
    dtype = learner.dtype(state)

    def one(state: Any, example: tuple) -> tuple[Any, Any]:
        code, y, present = example
        state, output = learner.advance(state, code, y, present)
        return state, record(output)

    def one_block(state: Any, block: tuple) -> tuple[Any, Any]:
        rows, present = block
        codes = learner.encode(state, X[rows].astype(dtype))
        state, recorded = jax.lax.scan(one, state, (codes, y[rows].astype(dtype), present))
        return learner.fold(state, codes), recorded

    blocks = (rows.reshape(num_blocks, B), present.reshape(num_blocks, B))
    state, recorded = jax.lax.scan(one_block, state, blocks)

    def unblock(leaf: jax.Array) -> jax.Array:
        flat = leaf.reshape((num_blocks * B, *leaf.shape[2:]))
        return jax.lax.dynamic_slice_in_dim(flat, offset, T)

    return state, jax.tree.map(unblock, recorded)


@partial(jax.jit, static_argnames=("block_size", "record"))
def _run(
    learner: Learner,
    state: Any,
    X: jax.Array | SparseRows,
    y: jax.Array,
    length: Any,
    *,
    block_size: int,
    record: Record,
) -> tuple[Any, Any]:
    return _scan(learner, state, X, y, None, length, block_size, record)


@partial(jax.jit, static_argnames=("permute", "block_size", "record"))
def _run_many(
    learner: Learner,
    keys: jax.Array,
    X: jax.Array | SparseRows,
    y: jax.Array,
    *,
    permute: bool,
    block_size: int,
    record: Record,
) -> tuple[Any, Any]:
    def one(key: jax.Array) -> tuple[Any, Any]:
        state = learner.enlarged(learner.init(_init_key(key), X.shape[1], X.dtype), X.shape[0])
        order = _order(key, X.shape[0]) if permute else None
        return _scan(learner, state, X, y, order, X.shape[0], block_size, record)

    return jax.vmap(one)(keys)


def _init_key(key: jax.Array) -> jax.Array:
    return jax.random.fold_in(key, 0)


def _order(key: jax.Array, num_examples: int) -> jax.Array:
    return jax.random.permutation(jax.random.fold_in(key, 1), num_examples)


def permutations(keys: jax.Array, num_examples: int) -> jax.Array:
    """The orders (S, T) in which :func:`run_many` with the same keys goes through a stream.

    >>> import jax
    >>> orders = permutations(jax.random.split(jax.random.key(0), 2), 5)
    >>> sorted(orders[1].tolist())
    [0, 1, 2, 3, 4]
    """
    return jax.vmap(lambda key: _order(key, num_examples))(keys)


def _block_size(learner: Learner, block_size: int | None) -> int:
    if block_size is None:
        block_size = learner.preferred_block_size
    if not isinstance(block_size, int | np.integer) or block_size < 1:
        raise ValueError(f"block_size must be an integer of at least 1; got {block_size!r}")
    return learner.fit_block_size(int(block_size))


def _with_room(learner: Learner, state: Any, examples: int) -> Any:
    """The state with room for all of so many examples as support vectors.

    A state that has grown before gets twice its room at least: another size is another
    compilation. Inside a caller's own jit the number in use is not known, and the state is left
    as it is.
    """
    capacity, used = learner.capacity(state), learner.num_supports(state)
    if capacity is None or isinstance(used, jax.core.Tracer) or jnp.ndim(used):
        return state
    wanted = int(used) + examples
    if wanted <= capacity:
        return state
    return learner.enlarged(state, max(wanted, 2 * capacity) if int(used) else wanted)


def _check(learner: Learner, X: Any, y: Any, num_inputs: int, dtype: Any) -> tuple[Any, Any]:
    """Refuse what cannot be learned from; return X (T, D), perhaps sparse, and y (T,) as arrays.

    Values are looked at where they are known; inside a caller's own jit only shapes are.
    """
    X, y = _as_inputs(X), _as_array(y)
    if X.ndim != 2:
        raise ValueError(f"X must have shape (T, D), examples by inputs; got shape {X.shape}")
    if X.shape[1] != num_inputs:
        raise ValueError(
            f"X must have {num_inputs} columns, as many as the state was made for; "
            f"got {X.shape[1]} (shape {X.shape})"
        )
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y must have shape (T,) or (T, 1); got shape {y.shape}")
    if X.shape[0] != y.shape[0]:
        raise ValueError(
            f"y must have one entry for each of the {X.shape[0]} rows of X; got {y.shape[0]}"
        )
    if X.shape[0] == 0:
        raise ValueError(f"X must hold at least one example; got shape {X.shape}")
    kinds = {"X": X.dtype} if learner.task == "classification" else {"X": X.dtype, "y": y.dtype}
    for name, kind in kinds.items():
        real = any(jnp.issubdtype(kind, k) for k in (jnp.floating, jnp.integer, jnp.bool_))
        if not real:
            raise ValueError(f"{name} must hold real numbers; got dtype {kind}")
    bound = input_bound(dtype)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(X)):
        _check_values("X", X, bound)
    if not isinstance(y, jax.core.Tracer):
        if learner.task == "classification":
            y = labels(np.asarray(y))[0]
        else:
            _check_values("y", y, bound)
    return _as_floating(X, dtype), _as_floating(y, dtype)


def _as_array(values: Any) -> Any:
    return values if isinstance(values, jax.Array) else np.asarray(values)


def _as_inputs(X: Any) -> Any:
    if isinstance(X, SparseRows):
        return X
    return SparseRows.from_csr(X) if hasattr(X, "tocsr") else _as_array(X)


def _as_floating(array: Any, dtype: Any) -> Any:
    """The array in the state's dtype, without a silent detour through a smaller one."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf),
        array.astype(dtype),
    )


def _check_values(name: str, array: Any, bound: float) -> None:
    if array.dtype == bool:
        return
    sparse = isinstance(array, SparseRows)
    values = array.values if sparse else array
    limits = jnp.finfo if jnp.issubdtype(array.dtype, jnp.floating) else jnp.iinfo
    bound = min(bound, float(limits(array.dtype).max))
    usable = (-bound <= values) & (values <= bound)
    if sparse:
        usable = usable | (array.indices == array.num_columns)
    if bool(usable.all()):
        return
    where = tuple(int(i[0]) for i in np.nonzero(~np.asarray(usable)))
    stands = (where[0], int(array.indices[where])) if sparse else where
    place = f"{name}[{', '.join(map(str, stands))}]"
    raise ValueError(
        f"{name} must be finite and of magnitude at most {bound:.3g} (drop or fill such values "
        f"first, or scan learner.step, which skips and counts them); got {place} = "
        f"{np.asarray(values)[where]} and {int((~np.asarray(usable)).sum())} such value(s) in all"
    )


def run(
    learner: Learner,
    state: Any,
    X: Any,
    y: Any,
    *,
    block_size: int | None = None,
    record: Record = without_info,
) -> tuple[Any, Any]:
    """Run a learner over a stream, one example after the other, in one compiled call.

    Equal to ``jax.lax.scan(learner.step, state, (X, y))`` up to rounding, but blocks of examples
    are encoded by large matrix products. May be called inside ``jit``, ``vmap`` and ``grad``;
    values are then not checked.

    Args:
      learner: any learner.
      state: from ``learner.init``, an earlier run or a checkpoint; a run continued from a state
        equals the uninterrupted one bit for bit (at the same block size).
      X: inputs (T, D), real numbers of any dtype; they are cast to the state's. Or sparse: a
        SciPy matrix or array, or :class:`~jaxmkl.SparseRows`; the run is the same.
      y: targets (T,) or (T, 1). For classifiers -1 and +1, 0 and 1, booleans, or two strings
        (the second in sorted order is +1).
      block_size: examples per block; changes speed and nothing else. A learner may take the
        largest smaller one that fits it.
      record: what to keep of each round, a function of its :class:`~jaxmkl.Output`. Pass the
        same function object each time: another one is another compilation.

    Returns:
      The state after the stream, and what was recorded, with leading axis T: by default an
      ``Output`` with ``prediction``, ``loss`` and ``queried`` (T,) and no ``info``.

    Raises:
      ValueError: for shapes that do not fit, no example, NaN or infinite values, or labels that
        are not two classes. The message names the argument, what was given and what is wanted.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 3))
    >>> learner = jaxmkl.raker()
    >>> state = learner.init(jax.random.key(1), num_inputs=3)
    >>> state, outputs = run(learner, state, X, X[:, 0] * X[:, 1])
    >>> outputs.loss.shape, int(state.round)
    ((500,), 500)
    """
    X, y = _check(learner, X, y, learner.num_inputs(state), learner.dtype(state))
    size = _block_size(learner, block_size)
    state = _with_room(learner, state, X.shape[0])
    return _run(learner, state, X, y, X.shape[0], block_size=size, record=record)


def run_many(
    learner: Learner,
    keys: jax.Array,
    X: Any,
    y: Any,
    *,
    permute: bool = True,
    block_size: int | None = None,
    record: Record = without_info,
) -> tuple[Any, Any]:
    """Run a learner over a stream once for each key, all at once.

    Each run has its own initialisation, ``learner.init(jax.random.fold_in(key, 0), D)``, and, if
    ``permute``, its own order of the examples (:func:`permutations` tells which). Rows are
    gathered block by block, so the data is in memory once, whatever the number of runs.

    Args:
      learner: any learner.
      keys: typed PRNG keys (S,), as from ``jax.random.split``. Place them on several devices to
        have the runs shared out among these.
      X: inputs (T, D), as in :func:`run`.
      y: targets (T,), as in :func:`run`.
      permute: whether each run goes through the examples in an order of its own.
      block_size: as in :func:`run`.
      record: as in :func:`run`.

    Returns:
      States and records with leading axis S; records are in the order in which a run met the
      examples.

    Raises:
      ValueError: as :func:`run`, and for keys that are not a one-dimensional array of typed keys.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (200, 3))
    >>> keys = jax.random.split(jax.random.key(1), 4)
    >>> states, outputs = run_many(jaxmkl.raker(), keys, X, X[:, 0])
    >>> outputs.loss.shape
    (4, 200)
    """
    typed = isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    if not typed or keys.ndim != 1:
        given = f"shape {jnp.shape(keys)}, dtype {getattr(keys, 'dtype', type(keys).__name__)}"
        raise ValueError(
            f"keys must be a one-dimensional array of typed keys (jax.random.split of a "
            f"jax.random.key); got {given}"
        )
    X = _as_inputs(X)
    dtype = _floating_dtype(X)
    columns = X.shape[1] if X.ndim == 2 else 0
    X, y = _check(learner, X, y, columns, dtype)
    size = _block_size(learner, block_size)
    return _run_many(learner, keys, X, y, permute=permute, block_size=size, record=record)


def _floating_dtype(X: Any) -> Any:
    """The dtype of states made for an array X: float64 if X and JAX have it, float32 otherwise."""
    double = X.dtype == jnp.float64
    return jax.dtypes.canonicalize_dtype(jnp.float64 if double else jnp.float32)


def stream(
    learner: Learner,
    state: Any,
    chunks: Iterable[tuple[Any, Any]],
    *,
    block_size: int | None = None,
    record: Record = without_info,
) -> Iterator[tuple[Any, Any]]:
    """Run a learner over chunks that come from anywhere, in constant memory.

    A generator: after each chunk it yields the state and the chunk's records, so that the caller
    shows progress, sums up metrics or saves a checkpoint, and stops when it likes. Chunks may
    have any lengths; a shorter one than the longest so far is padded and needs no compilation.
    Rows of sparse chunks are padded alike, to a power of two of entries. Empty chunks are passed
    over. Cutting a stream otherwise changes nothing. Labels in words keep the meaning that the
    first chunk gave them; it has to hold both.

    Args:
      learner: any learner.
      state: where to begin.
      chunks: pairs (X, y), as in :func:`run`.
      block_size: as in :func:`run`.
      record: as in :func:`run`.

    Yields:
      ``(state, records)`` after each chunk.

    Raises:
      ValueError: as :func:`run`, with the number of the chunk.

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.raker()
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> def chunks():
    ...     for i in range(3):
    ...         X = jax.random.normal(jax.random.key(i), (100 - i, 2))
    ...         yield X, X.sum(axis=1)
    >>> for state, outputs in stream(learner, state, chunks()):
    ...     print(int(state.round), outputs.loss.shape)
    100 (100,)
    199 (99,)
    297 (98,)
    """
    size = _block_size(learner, block_size)
    longest = fullest = 0
    classes: tuple | None = None
    for number, (X, y) in enumerate(chunks):
        num_inputs = learner.num_inputs(state)
        try:
            X, y = jax.tree.map(np.asarray, _as_inputs(X)), np.asarray(y)
            if X.shape == (0, num_inputs) and y.size == 0:
                continue
            if learner.task == "classification" and y.dtype.kind in "OSTU":
                y, classes = _signs(y, classes)
            X, y = _check(learner, X, y, num_inputs, learner.dtype(state))
        except ValueError as error:
            raise ValueError(f"chunk {number}: {error}") from None
        # padded and cut on the host: there no length needs a compilation of its own
        length = X.shape[0]
        longest = max(longest, length)
        padding = longest - length
        state = _with_room(learner, state, length)
        if isinstance(X, SparseRows):
            fullest = max(fullest, 1, X.values.shape[1])
            X = X.padded(longest, 2 ** (fullest - 1).bit_length())
        else:
            X = np.pad(np.asarray(X), ((0, padding), (0, 0)))
        X, y = jax.device_put((X, np.pad(np.asarray(y), (0, padding))))
        state, recorded = _run(learner, state, X, y, length, block_size=size, record=record)
        if padding:
            recorded = jax.tree.map(partial(_cut, length=length), recorded)
        yield state, recorded


def _cut(leaf: jax.Array, length: int) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf[:length]
    return jax.device_put(np.asarray(leaf)[:length])


def _signs(y: np.ndarray, classes: tuple | None) -> tuple[np.ndarray, tuple]:
    """Labels in words as -1 and +1: by the classes of earlier chunks, if there were any."""
    if classes is None:
        return labels(y)
    unknown = sorted({str(value) for value in y.ravel()} - {str(value) for value in classes})
    if unknown:
        raise ValueError(
            f"y must hold the classes of the chunks before, {classes[0]!r} and {classes[1]!r}; "
            f"got {', '.join(map(repr, unknown))}"
        )
    return np.where(y == classes[1], np.float32(1), np.float32(-1)), classes
