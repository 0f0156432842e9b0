"""run: the same however it is cast, padded or nested; and what it refuses."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from small_stream import (
    BLOCK,
    CLASSIFICATION,
    KERNELS,
    NUM_EXAMPLES,
    NUM_INPUTS,
    REGRESSION,
    Counting,
    begin,
    data,
    run,
    spoiled,
)

import jaxmkl
from jaxmkl import _learner, streaming, updates, wrappers
from jaxmkl.features import FourierFeatures
from jaxmkl.mkl import MKL
from jaxmkl.models import FeatureModels
from jaxmkl.recipes.random_features import amkl, raker
from jaxmkl.streaming import _engine
from tests.common.trees import assert_close, assert_equal, everything, scan

# --- run: what it takes --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_floating_inputs_are_cast(dtype):
    X, y = (array.astype(jnp.dtype(dtype)) for array in data())
    assert_equal(run(X=X, y=y), run())
    if dtype != "float64":  # of which JAX has no arrays in single precision
        assert_equal(run(X=jnp.asarray(X), y=jnp.asarray(y)), run())


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_whole_inputs_are_cast(dtype):
    X, y = (np.abs(4 * array).astype(dtype) for array in data())
    assert_equal(run(X=X, y=y), run(X=X.astype(np.float32), y=y.astype(np.float32)))


def test_lists_columns_and_strides_are_taken():
    X, y = data()
    before = X.copy(), y.copy()
    assert_equal(run(X=X.tolist(), y=y.tolist()), run())
    assert_equal(run(y=y[:, None]), run())
    wide = np.repeat(X, 3, axis=0)
    assert_equal(run(X=np.asfortranarray(wide)[::3], y=np.repeat(y, 3)[::3]), run())
    assert_equal((X, y), before)


@pytest.mark.slow
def test_frames_of_numbers_of_several_dtypes_are_taken():
    X, y = data()
    frame = pd.DataFrame(X)
    flags = frame.assign(flag=X[:, 0] > 0)
    learner = raker(num_features=2)
    state = learner.init(jax.random.key(0), X.shape[1] + 1)
    of_flags, of_numbers = (
        (streaming.run(learner, state, table, y), learner.predict_many(state, table))
        for table in (flags, flags.astype(np.float32))
    )
    assert_equal(of_flags, of_numbers)
    assert_equal(run(X=frame.astype("Float32")), run())
    for bad, message in ((frame.astype(str), "real numbers"), (frame.mask(X > 1), "finite")):
        with pytest.raises(ValueError, match=f"X must .*{message}"):
            run(X=bad.convert_dtypes())


# --- run: what it refuses ------------------------------------------------------------------------


SMALL_PROGRAMS = True
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
    "X durations": ({"X": X0.astype("m8[s]")}, "X must hold real numbers; got dtype timedelta64"),
    "y durations": ({"y": y0.astype("m8[s]")}, "y must hold real numbers; got dtype timedelta64"),
    "y complex": ({"y": y0 + 0j}, "y must hold real numbers; got dtype complex"),
    "y text": ({"y": y0.astype(str)}, "y must hold real numbers; got dtype <U"),
    "y NaN": ({"y": spoiled(y0, np.nan, 7)}, r"y must be finite.*got y\[7\] = nan and 1"),
    "y huge": (
        {"y": spoiled(y0, -1e25, 7)},
        r"y must be finite.*got y\[7\] = -[.0-9]+e\+2[45] and 1",
    ),
    "record of nothing": ({"record": None}, "record must be a function of .*; got None"),
    "block of 0": ({"block_size": 0}, "block_size must be an integer of at least 1; got 0"),
    "block of -3": ({"block_size": -3}, "block_size must be an integer of at least 1; got -3"),
    "block of 2.0": ({"block_size": 2.0}, r"block_size must be an integer.*got 2\.0"),
    "block of text": ({"block_size": "8"}, "block_size must be an integer of at least 1; got '8'"),
    "three classes": ({"learner": CLASSIFICATION, "y": np.arange(21)}, "labels: y must be {0, 1}"),
    "regression targets": (
        {"learner": CLASSIFICATION},
        r"labels: y must be {0, 1}.*for regression take a learner such as jaxmkl\.raker\(\)",
    ),
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
            arguments[array] = given if given.dtype.kind in "USm" else jnp.asarray(given)
    message = re.compile(message, re.DOTALL)
    learner, X, y = (arguments.pop(key) for key in ("learner", "X", "y"))
    with pytest.raises(ValueError, match=message):
        streaming.run(learner, begin(learner), X, y, **arguments)
    if name != "X too wide":  # without a state, X itself says how wide it is
        with pytest.raises(ValueError, match=message):
            streaming.run_many(learner, jax.random.split(jax.random.key(0), 2), X, y, **arguments)


def test_what_is_missing_is_said():
    """The state, which is easily forgotten, and the key of a state."""
    wanted = r"run: the second argument must be the state, from learner\.init: .*state, \.\.\.\)"
    for array in (X0, jnp.asarray(X0)):
        with pytest.raises(ValueError, match=wanted):
            streaming.run(REGRESSION, array, y0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        streaming.run(REGRESSION, begin(REGRESSION), X0)
    around = wrappers.one_vs_rest(CLASSIFICATION, 3)
    around = wrappers.scaled(around, wrappers.RunningMoments()), around  # both draw more keys
    for key in (0, None, np.zeros(2, np.uint32), jax.random.split(jax.random.key(0))):
        for learner in (REGRESSION, *around):
            with pytest.raises(ValueError, match=r"key must be a typed key, as jax\.random\.key"):
                learner.init(key, NUM_INPUTS)


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
        streaming.run_many(REGRESSION, keys, *data())
    with pytest.raises(ValueError, match=f"keys must be a one-dimensional.*got {given}"):
        streaming.permutations(keys, NUM_EXAMPLES)


def test_an_order_has_a_number_of_examples():
    with pytest.raises(ValueError, match="num_examples must be an integer of at least 0; got -1"):
        streaming.permutations(jax.random.split(jax.random.key(0), 2), -1)


# --- run inside transformations ------------------------------------------------------------------


@pytest.mark.slow
def test_inside_jit():
    """Values are not seen there: a bad row is passed over and counted, as in a scan of step."""
    inside = jax.jit(functools.partial(streaming.run, block_size=BLOCK, record=everything))
    X, y = (array.astype(np.float32) for array in data())
    assert_equal(inside(REGRESSION, begin(), X, y), run(record=everything))
    state, outputs = inside(REGRESSION, begin(), spoiled(X, np.nan, (6, 1)), y)
    assert np.flatnonzero(np.isnan(outputs.loss)).tolist() == [6]
    assert int(state.invalid) == 1
    with pytest.raises(ValueError, match="X must have 2 columns"):
        inside(REGRESSION, begin(), X[:, :1], y)


@pytest.mark.slow
def test_inside_vmap():
    """Over learners, and over streams."""
    X, y = (array.astype(np.float32) for array in data())
    learners = [
        amkl(KERNELS, num_features=4, tolerance=tolerance, step_size=step_size)
        for tolerance, step_size in ((0.02, 0.01), (0.5, 0.05))
    ]
    stack = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves), jnp.float32), *learners)
    driver = functools.partial(streaming.run, block_size=BLOCK)
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


@pytest.mark.endless
def test_inside_grad():
    """The derivative by each number of the learner is that of the scan."""
    X, y = (array.astype(np.float64) for array in data())
    learner = raker(KERNELS, num_features=4)

    @functools.partial(jax.jit, static_argnames="driver")
    def total(learner, driver):
        state = learner.init(jax.random.key(0), NUM_INPUTS, np.float64)
        return driver(learner, state, X, y)[1].loss.sum()

    def blocks(learner, state, X, y):
        return streaming.run(learner, state, X, y, block_size=BLOCK)

    with jax.enable_x64(True):
        by_blocks, by_scan = (
            jax.tree.leaves(jax.grad(total)(learner, driver)) for driver in (blocks, scan)
        )
    for a, b in zip(by_blocks, by_scan, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
        assert np.any(np.asarray(a) != 0)


# --- what is recorded ----------------------------------------------------------------------------


@pytest.mark.endless
def test_record_chooses():
    _, full = run(record=everything)
    _, kept = run(record=lambda o: {"w": o.info.weights, "n": o.info.num_active, "t": o.queried})
    assert_equal(kept, {"w": full.info.weights, "n": full.info.num_active, "t": full.queried})
    assert kept["w"].shape == (NUM_EXAMPLES, 2)
    _, default = run()
    assert default.info is None
    assert_equal(default, full._replace(info=None))
    output = _learner.Output(1, 2, 3, 4)
    assert streaming.without_info(output) == _learner.Output(1, 2, 3, None)
    states, nothing = streaming.run_many(
        REGRESSION, jax.random.split(jax.random.key(0), 3), *data(), record=lambda o: ()
    )
    assert nothing == ()
    assert states.round.tolist() == [NUM_EXAMPLES] * 3


@pytest.mark.endless
def test_a_learner_may_take_a_smaller_block():
    """Least squares in periods of 6: the largest divisor of at most 4 is 3."""
    features = FourierFeatures(3, scale="mean")
    learner = MKL(FeatureModels(KERNELS, updates.RLS(0.5, period=6), features))
    count = Counting()
    _, three = run(learner, block_size=3, record=count)
    calls = count.calls
    for size in (4, 5, np.int64(3)):
        assert_equal(run(learner, block_size=size, record=count)[1], three)
    assert count.calls == calls
    _, six = run(learner, block_size=500, record=count)
    np.testing.assert_allclose(six, three, rtol=1e-4, atol=1e-5)


@pytest.mark.endless
@pytest.mark.parametrize(
    ("make", "most"),
    [
        (jaxmkl.raker, 1e-5),
        (functools.partial(jaxmkl.expert_mkl, banks="fixed"), 1e-3),
        (jaxmkl.expert_mkl, 0.05),
    ],
    ids=["raker", "fixed", "default"],
)
def test_how_far_a_run_and_a_scan_of_its_rounds_agree(make, most):
    """As its docstring says, on 20,000 examples and with ten times the room."""
    draws, learner = np.random.default_rng(5), make()
    X = draws.random((20_000, 6)).astype(np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    y += 5 * X[:, 4] + draws.normal(size=len(X))
    X, y = (X - 0.5) / 0.29, ((y - y.mean()) / y.std()).astype(np.float32)
    state = learner.init(jax.random.key(0), 6)
    _, ours = streaming.run(learner, state, X, y)
    _, theirs = jax.jit(lambda *of: jax.lax.scan(learner.step, of[0], of[1:]))(state, X, y)
    np.testing.assert_allclose(ours.prediction, theirs.prediction, rtol=0.0, atol=most)
    assert float(ours.loss.mean()) == pytest.approx(float(theirs.loss.mean()), rel=1e-3)


@pytest.mark.parametrize("learner", [REGRESSION, CLASSIFICATION])
def test_labels_that_are_not_there_are_predicted_and_not_learned(learner):
    X, y = data()
    y = np.where(y > 0, 1.0, -1.0).astype(np.float32) if learner is CLASSIFICATION else y
    gaps = [0, 3, 4, 5, 6, 7, 20]
    given = spoiled(y, np.nan, gaps)
    chunks = [(X[:8], given[:8]), (X[8:], given[8:])]
    outcome = list(streaming.stream(learner, begin(learner), chunks, block_size=BLOCK, gaps=True))
    state = outcome[-1][0]
    scanned, outputs = jax.lax.scan(learner.step, begin(learner), (X, given))
    assert_close(state.models[0], scanned.models[0])
    assert int(state.invalid) == int(scanned.invalid) > 0
    prediction = np.concatenate([records.prediction for _, records in outcome])
    np.testing.assert_allclose(prediction, outputs.prediction, rtol=1e-5, atol=1e-6)
    assert np.isfinite(prediction).all()
    known = np.delete(np.arange(len(y)), gaps)
    assert set(np.flatnonzero(np.isfinite(np.concatenate([r.loss for _, r in outcome])))) == {
        *known
    }
    with pytest.raises(ValueError, match="chunk 0: "):
        list(streaming.stream(learner, begin(learner), chunks))
    infinite = [(X, spoiled(given, np.inf, 1))]
    with pytest.raises(ValueError, match="chunk 0: "):
        list(streaming.stream(learner, begin(learner), infinite, gaps=True))


def test_without_compilation_few_rows_make_a_short_block():
    """Each of its rounds takes some 30 ms there, absent ones too."""
    plan_of = functools.partial(_engine.plan_of, "run", REGRESSION, None, streaming.without_info)
    usual = plan_of(length=3)
    with jax.disable_jit():
        assert plan_of(length=3).block_size == 4 < usual.block_size
        assert plan_of(length=usual.block_size) == usual


@pytest.mark.slow
def test_a_run_without_compilation_is_the_same_to_rounding():
    """Under ``jax.disable_jit``, to look into parts of one's own, it ends."""
    X, y = data()
    _, wanted = run(X=X[:3], y=y[:3], block_size=1)
    with jax.disable_jit():
        _, found = streaming.run(REGRESSION, begin(), X[:3], y[:3], block_size=1)
    np.testing.assert_allclose(found.prediction, wanted.prediction, rtol=1e-5, atol=1e-6)
