"""run_many and stream: the same runs, however spread or cut."""

import concurrent.futures.thread
import contextlib
import functools
import importlib
import itertools
import signal
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_stream import (
    BLOCK,
    CLASSIFICATION,
    NUM_EXAMPLES,
    NUM_INPUTS,
    REGRESSION,
    begin,
    data,
    run,
    spoiled,
)

from jaxmkl import _threads, streaming
from tests.common.trees import assert_equal, everything, plain, row_of

SMALL_PROGRAMS = True
X0, y0 = data()

# --- run_many ------------------------------------------------------------------------------------


@pytest.mark.endless
@pytest.mark.parametrize(("traced", "sizes"), [(True, [3]), (False, [4, 4])])
def test_runs_in_turn_are_runs_side_by_side(traced, sizes, monkeypatch):
    """As many at once as a cache holds: also what has no elements.

    There is room for four of six runs. In a trace, where one program has them all, three at a time
    need no padding; else all groups have a power of two.
    """
    module = importlib.import_module("jaxmkl.streaming.many")
    X, y = data()
    keys, groups = jax.random.split(jax.random.key(5), 6), []

    def runs(keys):
        options = {"block_size": BLOCK, "record": lambda output: (output, jnp.zeros((0, 2)))}
        return streaming.run_many(REGRESSION, keys, X, y, permute=False, **options)

    def outcome():
        return jax.jit(lambda keys: runs(keys))(keys) if traced else runs(keys)

    def counted(learner, states, *rows, of=module.run_group, **options):
        groups.append(len(jax.tree.leaves(states)[0]))
        return of(learner, states, *rows, **options)

    def mapped(function, parts, of=jax.lax.map):
        groups.append(jax.tree.leaves(parts)[0].shape[1])
        return of(function, parts)

    together = outcome()
    held = begin(), REGRESSION.encode(begin(), X[:BLOCK])
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(held))
    monkeypatch.setattr(module._spread, "CACHE", module._spread.Room(4 * size, True))
    monkeypatch.setattr(module, "run_group", counted)
    monkeypatch.setattr(jax.lax, "map", mapped)
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(outcome()), strict=True):
        np.testing.assert_allclose(plain(one), plain(other), rtol=1e-4, atol=1e-5)
    assert groups == sizes


@pytest.fixture
def alone(monkeypatch):
    """Each run has the cache to itself, and a thread of three cores."""
    module = importlib.import_module("jaxmkl.streaming.many")
    monkeypatch.setattr(module._spread, "CACHE", module._spread.Room(1, True))
    monkeypatch.setattr(_threads, "num_cores", lambda: 3)
    return module


def test_an_interrupted_call_waits_for_no_run(alone, monkeypatch):
    """Each of them ends before its next segment."""
    after, interrupted, of = [], threading.Event(), alone.run_rows
    main, (X, y) = threading.main_thread(), data()

    def slow(learner, state, rows, **options):
        if threading.current_thread() is not main:
            if not interrupted.is_set():
                interrupted.set()
                signal.pthread_kill(main.ident, signal.SIGINT)
            after.append(rows)
            time.sleep(0.1)
        return of(learner, state, rows, **options)

    monkeypatch.setattr(alone, "run_rows", slow)
    monkeypatch.setattr(alone, "room_of", lambda *_: 1)
    keys = jax.random.split(jax.random.key(5), 3)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            streaming.run_many(REGRESSION, keys, X, y, block_size=BLOCK)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(after) < NUM_EXAMPLES


def test_no_thread_is_needed_when_the_interpreter_ends(alone, monkeypatch):
    """As in a function of ``atexit``, or a thread that outlives the main one."""
    keys, (X, y) = jax.random.split(jax.random.key(5), 4), data()
    wanted = streaming.run_many(REGRESSION, keys, X, y, block_size=BLOCK)
    monkeypatch.setattr(concurrent.futures.thread, "_shutdown", True)
    assert_equal(streaming.run_many(REGRESSION, keys, X, y, block_size=BLOCK), wanted)


@pytest.mark.parametrize("x64", [False, True])
def test_runs_that_have_the_cache_to_themselves_are_those_of_run(x64, alone, monkeypatch):
    """Each by a thread of its own, unless JAX's settings are those of this thread alone."""
    threads, of = set(), alone.run_rows

    def seen(*given, **options):
        threads.add(threading.current_thread())
        return of(*given, **options)

    monkeypatch.setattr(alone, "run_rows", seen)
    X, y = data()
    with jax.enable_x64(True) if x64 else contextlib.nullcontext():
        keys = jax.random.split(jax.random.key(5), 5)
        states, outputs = streaming.run_many(REGRESSION, keys, X, y, block_size=BLOCK)
        for row, order in enumerate(np.asarray(streaming.permutations(keys, NUM_EXAMPLES))):
            start = REGRESSION.init(jax.random.fold_in(keys[row], 0), NUM_INPUTS, X.dtype)
            end = streaming.run(REGRESSION, start, X[order], y[order], block_size=BLOCK)
            assert_equal(row_of((states, outputs), row), end)
    assert (threads == {threading.current_thread()}) == x64


def frequencies(state):
    return state.models[0].features


@pytest.mark.slow
def test_each_seed_is_a_run_of_its_own():
    """From its own start, in the order that ``permutations`` tells; lists are taken."""
    X, y = data()
    keys = jax.random.split(jax.random.key(5), 3)
    states, outputs = streaming.run_many(
        REGRESSION, keys, X.tolist(), y.tolist(), block_size=BLOCK, record=everything
    )
    orders = np.asarray(streaming.permutations(keys, NUM_EXAMPLES))
    np.testing.assert_array_equal(np.sort(orders, axis=1), [np.arange(NUM_EXAMPLES)] * 3)
    assert len({tuple(order) for order in orders}) == 3
    for row, order in enumerate(orders):
        state = row_of(states, row)
        start = REGRESSION.init(jax.random.fold_in(keys[row], 0), NUM_INPUTS)
        end, alone = run(X=X[order], y=y[order], state=start, record=everything)
        assert_equal(state.key, start.key)
        np.testing.assert_allclose(frequencies(state), frequencies(start), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(outputs.loss[row], alone.loss, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(outputs.queried[row], alone.queried)
        np.testing.assert_allclose(
            state.aggregate.log_weights, end.aggregate.log_weights, rtol=1e-4, atol=1e-5
        )
        assert int(state.round) == NUM_EXAMPLES


@pytest.mark.parametrize(
    ("given", "x64", "made"),
    [("float64", True, "float64"), ("int64", True, "float32"), ("float64", False, "float32")],
)
def test_states_are_made_in_the_dtype_of_the_data(given, x64, made):
    X, y = data()
    with jax.enable_x64(x64):
        keys = jax.random.split(jax.random.key(0), 2)
        states, outputs = jax.eval_shape(
            functools.partial(streaming.run_many, CLASSIFICATION, keys, X.astype(given)), y > 0
        )
        assert frequencies(states).dtype == outputs.loss.dtype == made


# --- stream --------------------------------------------------------------------------------------


def chunked(cuts, learner=REGRESSION, X=None, y=None):
    """The outputs of a stream that is cut at these places."""
    X, y = data()[0] if X is None else X, data()[1] if y is None else y
    edges = [0, *cuts, len(X)]
    chunks = ((X[a:b], y[a:b]) for a, b in itertools.pairwise(edges))
    return list(
        streaming.stream(learner, begin(learner), chunks, block_size=BLOCK, record=everything)
    )


@functools.cache
def whole():
    return run(record=everything)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(st.sampled_from([0, 1, 5, 18, NUM_EXAMPLES]), max_size=5).map(sorted))
def test_cutting_changes_no_bit(cuts):
    """Chunks of any lengths, empty ones among them."""
    streamed = chunked(cuts)
    lengths = [b - a for a, b in itertools.pairwise([0, *cuts, NUM_EXAMPLES])]
    assert [len(outputs.loss) for _, outputs in streamed] == [n for n in lengths if n]
    assert_equal(jax.tree.map(lambda *v: np.concatenate(v), *[o for _, o in streamed]), whole()[1])
    assert_equal(streamed[-1][0], whole()[0])
    rounds = [int(state.round) for state, _ in streamed]
    assert rounds == np.cumsum([n for n in lengths if n]).tolist()


def test_chunks_are_taken_one_by_one():
    """A stream without end can be left at any time; nothing is read ahead."""
    taken = []

    def chunks():
        for number in itertools.count():
            taken.append(number)
            yield data()

    stream = streaming.stream(REGRESSION, begin(), chunks(), block_size=BLOCK)
    assert taken == []
    for expected in range(1, 4):
        state, _ = next(stream)
        assert taken == list(range(expected))
        assert int(state.round) == expected * NUM_EXAMPLES
    stream.close()


def test_a_shorter_chunk_compiles_nothing(compiled):
    """Not even to pad it and to cut its records."""
    X, y = data()
    chunks = [(X, y), (X[:17], y[:17])]
    streamed = streaming.stream(REGRESSION, begin(), chunks, block_size=BLOCK)
    assert len(next(streamed)[1].loss) == NUM_EXAMPLES
    assert compiled(lambda: next(streamed)[1].loss) == []


def test_streams_take_what_run_takes():
    X, y = data()
    positive = y > 0
    expected = run(CLASSIFICATION, y=positive)
    chunks = [(X[:9], positive[:9]), (jnp.asarray(X[9:15]), positive[9:15, None].astype(int))]
    chunks.append((X[15:], np.where(positive[15:], 1.0, -1.0)))
    *_, (state, _) = streaming.stream(
        CLASSIFICATION, begin(CLASSIFICATION), chunks, block_size=BLOCK
    )
    assert_equal(state, expected[0])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((X0[:, :1], y0), "chunk 2: X must have 2 columns"),
        ((X0, y0[1:]), "chunk 2: y must have one entry for each of the 21 rows of X; got 20"),
        ((X0, spoiled(y0, np.inf, 4)), r"chunk 2: y must be finite.*got y\[4\] = inf"),
        ((X0[:0], y0), "chunk 2: y must have one entry for each of the 0 rows of X; got 21"),
        ((np.ones((0, 5)), y0[:0]), "chunk 2: X must have 2 columns"),
    ],
    ids=["columns", "lengths", "infinite", "labels without inputs", "empty and too wide"],
)
def test_a_bad_chunk_is_named(bad, message):
    """Empty chunks count; those before the bad one have been learned from."""
    rounds = []
    chunks = [(X0[:8], y0[:8]), (X0[:0], y0[:0]), bad, (X0, y0)]
    stream = streaming.stream(REGRESSION, begin(), chunks, block_size=BLOCK)
    with pytest.raises(ValueError, match=message):
        rounds.extend(int(state.round) for state, _ in stream)
    assert rounds == [8]


def test_block_sizes_are_checked_before_the_first_chunk():
    with pytest.raises(ValueError, match="block_size must be an integer of at least 1; got 0"):
        next(streaming.stream(REGRESSION, begin(), iter([]), block_size=0))
    assert list(streaming.stream(REGRESSION, begin(), iter([]))) == []
