"""Drivers: the same run however it is cut, cast, spread or nested; and what they refuse."""

import collections
import functools
import itertools
import logging
import os
import re
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import streams

NUM_EXAMPLES, NUM_INPUTS, BLOCK = 21, 2, 4
KERNELS = jaxmkl.Gaussian((0.5, 2.0))
REGRESSION = jaxmkl.amkl_aks(KERNELS, num_features=4, tolerance=0.02, max_skips=2)
CLASSIFICATION = jaxmkl.raker(KERNELS, num_features=4, loss="hinge")


@functools.cache
def data():
    """X (T, D) and y (T,) of quarters, which are exact in every floating type."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(NUM_EXAMPLES, NUM_INPUTS)) / 4
    y = np.round(4 * np.sin(X.sum(axis=1))) / 4
    return X.astype(np.float32), y.astype(np.float32)


@functools.cache
def begin(learner=REGRESSION, dtype=None):
    return learner.init(jax.random.key(0), NUM_INPUTS, dtype)


def everything(output):
    return output


def run(learner=REGRESSION, X=None, y=None, state=None, **options):
    X, y = data()[0] if X is None else X, data()[1] if y is None else y
    options = {"block_size": BLOCK} | options
    return jaxmkl.run(learner, begin(learner) if state is None else state, X, y, **options)


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


def plain(tree):
    def numbers(leaf):
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(numbers, tree)


def assert_equal(one, other):
    """Bit for bit."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right) > 0
    for (path, a), b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def row_of(tree, row):
    return jax.tree.map(lambda leaf: leaf[row], tree)


# --- run: what it takes --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_floating_inputs_are_cast(dtype):
    X, y = (array.astype(jnp.dtype(dtype)) for array in data())
    assert_equal(run(X=X, y=y), run())
    if dtype != "float64":  # of which JAX has no arrays in single precision
        assert_equal(run(X=jnp.asarray(X), y=jnp.asarray(y)), run())


@pytest.mark.parametrize("module", [np, jnp], ids=["numpy", "jax"])
def test_single_precision_into_a_double_state(module):
    X, y = (module.asarray(array) for array in data())
    with jax.enable_x64(True):
        state = begin(dtype=np.float64)
        _, outputs = run(X=X, y=y, state=state)
        assert outputs.loss.dtype == np.float64
        assert_equal(run(X=np.float64(X), y=np.float64(y), state=state)[1], outputs)
        bad = module.asarray(spoiled(X, np.inf, (2, 0)))
        with pytest.raises(ValueError, match=r"X must be finite.*got X\[2, 0\] = inf and 1"):
            run(X=bad, y=y, state=state)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "uint64"])
def test_whole_inputs_are_cast(dtype):
    X, y = (np.abs(4 * array).astype(dtype) for array in data())
    assert_equal(run(X=X, y=y), run(X=X.astype(np.float32), y=y.astype(np.float32)))


def test_lists_columns_and_strides_are_taken():
    X, y = data()
    assert_equal(run(X=X.tolist(), y=y.tolist()), run())
    assert_equal(run(y=y[:, None]), run())
    wide = np.repeat(X, 3, axis=0)
    assert_equal(run(X=np.asfortranarray(wide)[::3], y=np.repeat(y, 3)[::3]), run())


@pytest.mark.parametrize("learner", [REGRESSION, CLASSIFICATION], ids=["regression", "classes"])
def test_double_precision_is_not_cut_short(learner):
    """Differences of 1e-9 in X, which single precision has not, change a double run."""
    X = data()[0] + 1e-9 * np.arange(1, NUM_INPUTS + 1)
    y = np.where(data()[1] > 0, 1.0, -1.0)
    with jax.enable_x64(True):
        state = begin(learner, np.float64)
        _, outputs = run(learner, X, y, state)
        _, expected = scan(learner, state, X, y)
        _, rounded = run(learner, X.astype(np.float32).astype(np.float64), y, state)
    assert outputs.prediction.dtype == np.float64
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-12, atol=1e-14)
    assert np.abs(outputs.prediction - rounded.prediction).max() > 1e-11


def test_labels_of_classifiers():
    positive = data()[1] > 0
    expected = run(CLASSIFICATION, y=np.where(positive, 1.0, -1.0))
    given = {
        "signs": np.where(positive, 1, -1),
        "zero and one": positive.astype(np.int64),
        "floats": positive.astype(np.float64),
        "booleans": positive,
        "strings": np.where(positive, "spam", "ham"),
        "objects": np.where(positive, "spam", "ham").astype(object),
        "list": ["yes" if p else "no" for p in positive],
        "column": positive[:, None],
        "jax": jnp.asarray(positive),
    }
    for labels in given.values():
        assert_equal(run(CLASSIFICATION, y=labels), expected)


# --- run: what it refuses ------------------------------------------------------------------------


def spoiled(array, value, place):
    array = np.array(array)
    array[place] = value
    return array


X0, y0 = data()
REFUSALS = {
    "X without columns": ({"X": X0[:, 0]}, r"X must have shape \(T, D\).*got shape \(21,\)"),
    "X of rank 3": ({"X": X0[None]}, r"X must have shape \(T, D\).*got shape \(1, 21, 2\)"),
    "X too wide": ({"X": np.ones((21, 3))}, r"X must have 2 columns.*got 3 \(shape \(21, 3\)\)"),
    "X empty": ({"X": X0[:0], "y": y0[:0]}, r"X must hold at least one.*got shape \(0, 2\)"),
    "X complex": ({"X": X0 + np.complex64(0j)}, "X must hold real numbers; got dtype complex"),
    "X text": ({"X": X0.astype(str)}, "X must hold real numbers; got dtype <U"),
    "X NaN": ({"X": spoiled(X0, np.nan, (3, 1))}, r"X must be finite.*got X\[3, 1\] = nan and 1"),
    "X infinite": ({"X": spoiled(X0, -np.inf, 5)}, r"X must be finite.*X\[5, 0\] = -inf and 2"),
    "X huge": (
        {"X": spoiled(X0, 1e20, (0, 0))},
        r"X must.*at most 4\.61e\+18.*X\[0, 0\] = 1[.0-9]*e\+20",
    ),
    "X infinite in half precision": (
        {"X": spoiled(X0, np.inf, (2, 0)).astype(np.float16)},
        r"X must be finite.*got X\[2, 0\] = inf and 1",
    ),
    "y of two columns": ({"y": X0}, r"y must have shape \(T,\) or \(T, 1\); got shape \(21, 2\)"),
    "y scalar": ({"y": 1.0}, r"y must have shape \(T,\) or \(T, 1\); got shape \(\)"),
    "y short": ({"y": y0[:20]}, "y must have one entry for each of the 21 rows of X; got 20"),
    "y complex": ({"y": y0 + 0j}, "y must hold real numbers; got dtype complex"),
    "y text": ({"y": y0.astype(str)}, "y must hold real numbers; got dtype <U"),
    "y NaN": ({"y": spoiled(y0, np.nan, 7)}, r"y must be finite.*got y\[7\] = nan and 1"),
    "y huge": (
        {"y": spoiled(y0, -1e25, 7)},
        r"y must be finite.*got y\[7\] = -[.0-9]+e\+2[45] and 1",
    ),
    "block of 0": ({"block_size": 0}, "block_size must be an integer of at least 1; got 0"),
    "block of -3": ({"block_size": -3}, "block_size must be an integer of at least 1; got -3"),
    "block of 2.0": ({"block_size": 2.0}, r"block_size must be an integer.*got 2\.0"),
    "block of text": ({"block_size": "8"}, "block_size must be an integer of at least 1; got '8'"),
    "three classes": ({"learner": CLASSIFICATION, "y": np.arange(21)}, "labels: y must be {0, 1}"),
    "regression targets": ({"learner": CLASSIFICATION}, "labels: y must be {0, 1}"),
    "NaN labels": (
        {"learner": CLASSIFICATION, "y": spoiled(y0 > 0, 0, 0) * np.nan},
        "labels: y must be {0, 1}.*nan",
    ),
}


@pytest.mark.parametrize("module", ["numpy", "jax"])
@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(name, module):
    """The message names the argument, what was given and what is wanted; by run and run_many."""
    arguments, message = REFUSALS[name]
    arguments = {"learner": REGRESSION, "X": X0, "y": y0, "block_size": BLOCK} | arguments
    if module == "jax":
        for array in ("X", "y"):
            given = np.asarray(arguments[array])
            arguments[array] = given if given.dtype.kind in "US" else jnp.asarray(given)
    message = re.compile(message, re.DOTALL)
    learner, X, y = (arguments.pop(key) for key in ("learner", "X", "y"))
    with pytest.raises(ValueError, match=message):
        jaxmkl.run(learner, begin(learner), X, y, **arguments)
    if name != "X too wide":  # without a state, X itself says how wide it is
        with pytest.raises(ValueError, match=message):
            jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 2), X, y, **arguments)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("name", ["X", "y"])
def test_huge_whole_numbers_are_refused(name, dtype):
    X, y = (np.abs(array).astype(dtype) for array in data())
    huge = (X, y)[name == "y"]
    huge[3] = np.iinfo(dtype).max
    with pytest.raises(ValueError, match=rf"{name} must be finite and of magnitude at most"):
        run(X=X, y=y)


@pytest.mark.parametrize(
    ("keys", "given"),
    [
        (jax.random.key(0), r"shape \(\), dtype key<fry>"),
        (jax.random.split(jax.random.key(0), (2, 2)), r"shape \(2, 2\), dtype key<fry>"),
        (jax.random.key_data(jax.random.split(jax.random.key(0), 3)), r"shape \(3, 2\), dtype ui"),
        (np.arange(3), r"shape \(3,\), dtype int64"),
        (7, r"shape \(\), dtype int"),
    ],
    ids=["one key", "matrix of keys", "raw", "numbers", "seed"],
)
def test_keys_are_checked(keys, given):
    with pytest.raises(ValueError, match=f"keys must be a one-dimensional.*got {given}"):
        jaxmkl.run_many(REGRESSION, keys, *data())


# --- run inside transformations ------------------------------------------------------------------


def test_inside_jit():
    """Values are not seen there: a bad row is passed over and counted, as in a scan of step."""
    inside = jax.jit(functools.partial(jaxmkl.run, block_size=BLOCK, record=everything))
    X, y = (array.astype(np.float32) for array in data())
    assert_equal(inside(REGRESSION, begin(), X, y), run(record=everything))
    state, outputs = inside(REGRESSION, begin(), spoiled(X, np.nan, (6, 1)), y)
    assert np.flatnonzero(np.isnan(outputs.loss)).tolist() == [6]
    assert int(state.invalid) == 1
    with pytest.raises(ValueError, match="X must have 2 columns"):
        inside(REGRESSION, begin(), X[:, :1], y)


def test_inside_vmap():
    """Over learners, and over streams."""
    X, y = (array.astype(np.float32) for array in data())
    learners = [
        jaxmkl.amkl_aks(KERNELS, num_features=4, tolerance=tolerance, step_size=step_size)
        for tolerance, step_size in ((0.02, 0.01), (0.5, 0.05))
    ]
    stack = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves), jnp.float32), *learners)
    driver = functools.partial(jaxmkl.run, block_size=BLOCK)
    _, outputs = jax.vmap(driver, in_axes=(0, None, None, None))(stack, begin(), X, y)
    assert outputs.loss.shape == (2, NUM_EXAMPLES)
    for row, learner in enumerate(learners):
        _, alone = run(learner)
        np.testing.assert_allclose(outputs.loss[row], alone.loss, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(outputs.queried[row], alone.queried)
    flipped = np.stack([X, X[::-1]])
    _, outputs = jax.vmap(driver, in_axes=(None, None, 0, None))(REGRESSION, begin(), flipped, y)
    for row in range(2):
        _, alone = run(X=flipped[row])
        np.testing.assert_allclose(outputs.loss[row], alone.loss, rtol=1e-4, atol=1e-5)


def test_inside_grad():
    """The derivative by each number of the learner is that of the scan, and of differences."""
    X, y = (array.astype(np.float64) for array in data())
    learner = jaxmkl.raker(KERNELS, num_features=4)

    @functools.partial(jax.jit, static_argnames="driver")
    def total(learner, driver):
        state = learner.init(jax.random.key(0), NUM_INPUTS, np.float64)
        return driver(learner, state, X, y)[1].loss.sum()

    def blocks(learner, state, X, y):
        return jaxmkl.run(learner, state, X, y, block_size=BLOCK)

    with jax.enable_x64(True):
        by_blocks, by_scan = (
            jax.tree.leaves(jax.grad(total)(learner, driver)) for driver in (blocks, scan)
        )
        leaves, structure = jax.tree.flatten(learner)
        for place, (a, b) in enumerate(zip(by_blocks, by_scan, strict=True)):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
            ends = []
            for sign in (1, -1):
                moved = [leaf + sign * 1e-6 * (i == place) for i, leaf in enumerate(leaves)]
                ends.append(total(jax.tree.unflatten(structure, moved), blocks))
            np.testing.assert_allclose(np.sum(a), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)
        assert all(np.any(np.asarray(a) != 0) for a in by_blocks)


# --- what is recorded ----------------------------------------------------------------------------


def test_record_chooses():
    _, full = run(record=everything)
    _, kept = run(record=lambda o: {"w": o.info.weights, "n": o.info.num_selected, "t": o.queried})
    assert_equal(kept, {"w": full.info.weights, "n": full.info.num_selected, "t": full.queried})
    assert kept["w"].shape == (NUM_EXAMPLES, 2)
    _, default = run()
    assert default.info is None
    assert_equal(default, full._replace(info=None))
    output = jaxmkl.Output(1, 2, 3, 4)
    assert jaxmkl.without_info(output) == jaxmkl.Output(1, 2, 3, None)
    states, nothing = jaxmkl.run_many(
        REGRESSION, jax.random.split(jax.random.key(0), 3), *data(), record=lambda o: ()
    )
    assert nothing == ()
    assert states.round.tolist() == [NUM_EXAMPLES] * 3


class Counting:
    """A record function that counts how often it is traced."""

    def __init__(self):
        self.calls = 0

    def __call__(self, output):
        self.calls += 1
        return output.loss


def test_numbers_do_not_compile_again():
    count = Counting()
    run(record=count)
    once = count.calls
    assert once > 0
    for step_size in (0.01, 0.02):
        other = jaxmkl.amkl_aks(KERNELS, num_features=4, tolerance=0.1, step_size=step_size)
        run(other, record=count)
    run(X=-data()[0], record=count)
    assert count.calls == once
    run(record=count, block_size=3)
    assert count.calls > once


def test_a_learner_may_take_a_smaller_block():
    """Least squares in periods of 6: the largest divisor of at most 4 is 3."""
    rules = (jaxmkl.RLS(0.5, period=6),)
    features = jaxmkl.FourierFeatures(3, scale="mean")
    learner = jaxmkl.FeatureMKL(
        KERNELS, features, rules, jaxmkl.AllKernels(), jaxmkl.Always(), hedge_rate=1.0
    )
    count = Counting()
    _, three = run(learner, block_size=3, record=count)
    calls = count.calls
    for size in (4, 5, np.int64(3)):
        assert_equal(run(learner, block_size=size, record=count)[1], three)
    assert count.calls == calls
    _, six = run(learner, block_size=500, record=count)
    np.testing.assert_allclose(six, three, rtol=1e-4, atol=1e-5)


# --- run_many ------------------------------------------------------------------------------------


@functools.cache
def many(permute=True):
    X, y = data()
    keys = jax.random.split(jax.random.key(5), 3)
    return jaxmkl.run_many(
        REGRESSION, keys, X, y, permute=permute, block_size=BLOCK, record=everything
    )


def start_of(state):
    """The state that a run began with: its key and frequencies never change."""
    return begin()._replace(key=state.key, frequencies=state.frequencies)


@pytest.mark.parametrize("permute", [True, False])
def test_each_seed_is_a_run_of_its_own(permute):
    """From its own start, in the order that ``permutations`` tells."""
    X, y = data()
    states, outputs = many(permute)
    orders = np.asarray(jaxmkl.permutations(jax.random.split(jax.random.key(5), 3), NUM_EXAMPLES))
    np.testing.assert_array_equal(np.sort(orders, axis=1), [np.arange(NUM_EXAMPLES)] * 3)
    assert len({tuple(order) for order in orders}) == 3
    for row, order in enumerate(orders):
        order = order if permute else np.arange(NUM_EXAMPLES)
        state = row_of(states, row)
        end, alone = run(X=X[order], y=y[order], state=start_of(state), record=everything)
        np.testing.assert_allclose(outputs.loss[row], alone.loss, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(outputs.queried[row], alone.queried)
        np.testing.assert_allclose(state.log_weights, end.log_weights, rtol=1e-4, atol=1e-5)
        assert int(state.round) == NUM_EXAMPLES


def test_starts_differ_by_seed_alone():
    """Neither the order nor the company changes a start; each seed has another."""
    one, other = many(True)[0], many(False)[0]
    assert_equal([one.key, one.frequencies], [other.key, other.frequencies])
    for a, b in itertools.combinations(range(3), 2):
        assert not np.array_equal(one.frequencies[a], one.frequencies[b])
        assert not np.array_equal(*plain([one.key[a], one.key[b]]))
    keys = jax.random.split(jax.random.key(5), 3)[1:2]
    alone, _ = jaxmkl.run_many(REGRESSION, keys, *data(), block_size=BLOCK, record=everything)
    assert_equal([alone.key, alone.frequencies], [one.key[1:2], one.frequencies[1:2]])
    # the key that orders the examples draws neither frequencies nor subsets
    used = {plain(key).tobytes() for key in (*keys, *one.key)}
    assert len(used) == 4


@pytest.mark.parametrize(
    ("given", "x64", "made"),
    [
        ("float64", True, "float64"),
        ("float32", True, "float32"),
        ("int64", True, "float32"),
        ("float64", False, "float32"),
        ("bool", False, "float32"),
    ],
)
def test_states_are_made_in_the_dtype_of_the_data(given, x64, made):
    X, y = data()
    with jax.enable_x64(x64):
        keys = jax.random.split(jax.random.key(0), 2)
        states, outputs = jax.eval_shape(
            functools.partial(jaxmkl.run_many, CLASSIFICATION, keys, X.astype(given)), y > 0
        )
        assert states.frequencies.dtype == outputs.loss.dtype == made


def test_run_many_takes_lists():
    X, y = data()
    keys = jax.random.split(jax.random.key(5), 3)
    listed = jaxmkl.run_many(
        REGRESSION, keys, X.tolist(), y.tolist(), block_size=BLOCK, record=everything
    )
    assert_equal(listed, many())


SHARDED = """
    import functools
    import jax, jaxmkl, numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    assert jax.device_count() == 2
    X = np.random.default_rng(0).normal(size=(25, 2)).astype(np.float32)
    learner = jaxmkl.omkl_aks(jaxmkl.Gaussian((0.5, 2.0)), num_features=4)
    keys = jax.random.split(jax.random.key(1), 4)
    drive = functools.partial(jaxmkl.run_many, learner, X=X, y=X[:, 0], block_size=8)
    mesh = jax.make_mesh((2,), ("seed",), axis_types=(jax.sharding.AxisType.Auto,))
    shared = jax.device_put(keys, NamedSharding(mesh, PartitionSpec("seed")))
    states, outputs = drive(keys=shared)
    for array in (outputs.loss, states.log_weights):
        assert len(array.sharding.device_set) == 2, array.sharding
        assert not array.sharding.is_fully_replicated
    expected_states, expected = drive(keys=keys)
    assert len(expected.loss.sharding.device_set) == 1
    np.testing.assert_allclose(outputs.loss, expected.loss, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(states.frequencies, expected_states.frequencies)
    print("shared out")
"""


def test_keys_on_two_devices():
    """In another process: the number of devices is fixed when JAX starts."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.stdout == "shared out\n", process.stderr


# --- stream --------------------------------------------------------------------------------------


def chunked(cuts, learner=REGRESSION, X=None, y=None):
    """What a stream yields when it is cut at these places."""
    X, y = data()[0] if X is None else X, data()[1] if y is None else y
    edges = [0, *cuts, len(X)]
    chunks = ((X[a:b], y[a:b]) for a, b in itertools.pairwise(edges))
    return list(
        jaxmkl.stream(learner, begin(learner), chunks, block_size=BLOCK, record=everything)
    )


@functools.cache
def whole():
    return run(record=everything)


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


def test_states_stay_small():
    """A state after a thousand chunks is as large as the first."""
    X, y = (array[:2] for array in data())
    chunks = itertools.repeat((X, y), 1000)
    before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), begin())
    chunks = jaxmkl.stream(REGRESSION, begin(), chunks, block_size=2)
    state, outputs = collections.deque(chunks, maxlen=1)[0]
    assert outputs.loss.shape == (2,)
    assert int(state.round) == 2000
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == before


def test_chunks_are_taken_one_by_one():
    """A stream without end can be left at any time; nothing is read ahead."""
    taken = []

    def chunks():
        for number in itertools.count():
            taken.append(number)
            yield data()

    stream = jaxmkl.stream(REGRESSION, begin(), chunks(), block_size=BLOCK)
    assert taken == []
    for expected in range(1, 4):
        state, _ = next(stream)
        assert taken == list(range(expected))
        assert int(state.round) == expected * NUM_EXAMPLES
    stream.close()


def test_each_longest_length_is_compiled_once():
    X, y = np.tile(data()[0], (2, 1)), np.tile(data()[1], 2)
    count = Counting()
    lengths = [10, 7, 10, 30, 12, 30, 31, 10]
    seen = []
    chunks = ((X[:n], y[:n]) for n in lengths)
    for _, losses in jaxmkl.stream(REGRESSION, begin(), chunks, block_size=BLOCK, record=count):
        seen.append((len(losses), count.calls))
    assert [n for n, _ in seen] == lengths
    calls = [0, *[calls for _, calls in seen]]
    compiled = [n for n, (a, b) in zip(lengths, itertools.pairwise(calls), strict=True) if b > a]
    assert compiled == [10, 30, 31]


def test_a_shorter_chunk_compiles_nothing(caplog):
    """Not even to pad it and to cut its records."""
    X, y = data()

    def chunks():
        yield X, y
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            yield X[:17], y[:17]

    streamed = list(jaxmkl.stream(REGRESSION, begin(), chunks(), block_size=BLOCK))
    assert [len(outputs.loss) for _, outputs in streamed] == [NUM_EXAMPLES, 17]
    compiled = [r.getMessage() for r in caplog.records if "XLA compilation" in r.getMessage()]
    assert compiled == []


def test_streams_take_what_run_takes():
    X, y = data()
    positive = y > 0
    expected = run(CLASSIFICATION, y=positive)
    chunks = [(X[:9], positive[:9]), (jnp.asarray(X[9:15]), positive[9:15, None].astype(int))]
    chunks.append((X[15:], np.where(positive[15:], 1.0, -1.0)))
    *_, (state, _) = jaxmkl.stream(CLASSIFICATION, begin(CLASSIFICATION), chunks, block_size=BLOCK)
    assert_equal(state, expected[0])


def test_streams_take_lists():
    X, y = data()
    ((state, _),) = jaxmkl.stream(
        REGRESSION, begin(), [(X.tolist(), y.tolist())], block_size=BLOCK
    )
    assert_equal(state, whole()[0])


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
    stream = jaxmkl.stream(REGRESSION, begin(), chunks, block_size=BLOCK)
    with pytest.raises(ValueError, match=message):
        rounds.extend(int(state.round) for state, _ in stream)
    assert rounds == [8]


def test_classes_do_not_change_their_sign_between_chunks():
    X, _ = data()
    chunks = [(X[:2], ["a", "b"]), (X[2:4], ["b", "c"])]
    with pytest.raises(ValueError, match="chunk 1"):
        list(jaxmkl.stream(CLASSIFICATION, begin(CLASSIFICATION), chunks))


def test_a_chunk_may_have_one_class():
    X, y = data()
    names = np.where(y > 0, "spam", "ham")
    order = np.argsort(names, kind="stable")
    order = np.concatenate([order[-1:], order[:-1]])
    _, expected = run(CLASSIFICATION, X[order], names[order])
    chunks = [(X[order[:5]], names[order[:5]]), (X[order[-5:]], names[order[-5:]])]
    first, (_, last) = chunks[0], chunks[1]
    assert len(set(last)) == 1
    assert len(set(first[1])) == 2
    streamed = list(jaxmkl.stream(CLASSIFICATION, begin(CLASSIFICATION), chunks, block_size=BLOCK))
    assert len(streamed) == 2
    np.testing.assert_array_equal(streamed[0][1].loss, expected.loss[:5])


def test_block_sizes_are_checked_before_the_first_chunk():
    with pytest.raises(ValueError, match="block_size must be an integer of at least 1; got 0"):
        next(jaxmkl.stream(REGRESSION, begin(), iter([]), block_size=0))
    assert list(jaxmkl.stream(REGRESSION, begin(), iter([]))) == []


def test_public_names():
    for name in ("permutations", "run", "run_many", "stream", "without_info"):
        assert getattr(jaxmkl, name) is getattr(streams, name)
