"""Segments of few shapes: what another length compiles, and that it changes nothing."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import _threads
from jaxmkl.features import FourierFeatures
from jaxmkl.models import FeatureModels, MetricModels, renewals
from jaxmkl.models.renewals import renew
from jaxmkl.streaming._engine import room_of
from jaxmkl.updates import OGD
from tests.common.banks import MeanOfMemory
from tests.common.marks import long
from tests.common.trees import assert_close, assert_equal, plain

SMALL_PROGRAMS = True


def fixed():
    return jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=3)


def learned():
    inside = FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.1), FourierFeatures(3))
    return jaxmkl.MKL((MeanOfMemory(16, sample=30), inside), loss="squared")


def stream(T, D=2):
    X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("make", long([learned], [fixed, learned]))
def test_another_length_compiles_nothing(make, compiled):
    learner, (X, y) = make(), stream(9000)
    start = learner.init(jax.random.key(0), 2)

    def run(T):
        return jaxmkl.run(learner, start, X[:T], y[:T])

    assert compiled(run, 520)
    assert not any(compiled(run, T) for T in (520, 513, 777, 4096, 8999))
    # two more shapes for the short ones, whose renewals are there
    assert len(compiled(lambda: (run(64), run(512)))) == 2
    assert not any(compiled(run, T) for T in (1, 37, 63, 65, 100, 511))

    def chunks():
        cut = [slice(a, b) for a, b in ((0, 5), (5, 100), (100, 700), (700, 5000))]
        return [s for s, _ in jaxmkl.stream(learner, start, [(X[c], y[c]) for c in cut])][-1]

    assert not compiled(chunks)
    other = jax.tree.map(lambda leaf: leaf, learner)  # another value of the same structure
    assert not compiled(jaxmkl.run, other, start, X[:600], y[:600])


@pytest.mark.slow
def test_long_streams_are_the_rounds_of_one_program():
    """Over several segments, from amid a block on; with records of keys, numbers and booleans."""
    learner, (X, y) = fixed(), stream(9000)
    start, _ = jaxmkl.run(learner, learner.init(jax.random.key(0), 2), X[:5], y[:5])

    def record(output):
        key = jax.random.fold_in(jax.random.key(0), jnp.isnan(output.loss).astype(int))
        return output.prediction, output.queried, output.info.weights, key

    given = learner, start, X[5:], y[5:]
    state, recorded = jaxmkl.run(*given, record=record)
    assert [len(leaf) for leaf in recorded] == [8995] * 4
    traced = jax.jit(lambda *given: jaxmkl.run(*given, record=record))(*given)
    assert_close((state, recorded), traced, 1e-4)


@pytest.mark.slow
def test_kernels_that_are_learned_go_on_bit_for_bit():
    """A run that is cut at multiples of the block, at renewals, beside them and at segments."""
    learner, (X, y) = learned(), stream(4500)
    start = learner.init(jax.random.key(0), 2)
    whole, outputs = jaxmkl.run(learner, start, X, y)
    state, parts = start, []
    for some in np.split(np.arange(4500), [16, 40, 64, 3072, 3080, 4096, 4104]):
        state, recorded = jaxmkl.run(learner, state, X[some], y[some])
        parts.append(recorded.prediction)
    assert_equal(state, whole)
    np.testing.assert_array_equal(np.concatenate(parts), outputs.prediction)


def test_wide_rows_are_run_in_short_segments():
    """So that what is padded stays small."""
    lengths = {1: 64, 64: 64, 65: 512, 512: 512, 513: 4096, 10**6: 4096}
    assert {n: room_of(n, 1) for n in lengths} == lengths
    for columns, room in ((4096, 4096), (4097, 512), (32_769, 64), (10**6, 64)):
        assert room_of(5000, columns) == room


@pytest.mark.slow
def test_arrays_on_a_device_stay_there():
    device = jax.devices()[-1]
    learner, (X, y) = fixed(), stream(5000)
    start = learner.init(jax.random.key(0), 2)
    at_device = jax.device_put((start, X, y), device)
    state, outputs = jaxmkl.run(learner, *at_device)
    assert all(leaf.devices() == {device} for leaf in jax.tree.leaves((state, outputs)))
    assert_equal(plain((state, outputs)), plain(jaxmkl.run(learner, start, X, y)))


@pytest.mark.slow
def test_arrays_as_long_as_a_segment_are_cut_at_renewals():
    """JAX's arrays, which need not be padded, give the same as NumPy's."""
    learner, (X, y) = learned(), stream(64)
    start = learner.init(jax.random.key(0), 2)
    expected = jaxmkl.run(learner, start, X, y)
    assert_equal(jaxmkl.run(learner, start, jnp.asarray(X), jnp.asarray(y)), expected)


@pytest.mark.slow
def test_banks_that_are_renewed_in_one_round_are_the_same_in_threads(monkeypatch):
    """On two cores, but not amid other threads, or where settings are those of this one."""
    inside = FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.1), FourierFeatures(3))
    banks = MeanOfMemory(16, sample=30), MeanOfMemory(16, sample=7), inside
    learner, (X, y) = jaxmkl.MKL(banks, loss="squared"), stream(70)
    start = learner.init(jax.random.key(0), 2)
    names: list[str] = []

    def renewed(*given, **static):
        names.append(threading.current_thread().name)
        return renew(*given, **static)

    monkeypatch.setattr(renewals, "renew", renewed)

    def run(cores):
        names.clear()
        monkeypatch.setattr(_threads, "num_cores", lambda: cores)
        state = jaxmkl.run(learner, start, X, y)[0]
        assert len(names) == 6  # before rounds 16, 32 and 64
        return state

    alone = run(1)
    assert set(names) == {"MainThread"}
    assert_equal(run(2), alone)
    assert "MainThread" not in names
    with ThreadPoolExecutor(1, "other", _threads.leave_cores) as pool:
        assert_equal(pool.submit(run, 2).result(), alone)
    assert set(names) == {"other_0"}
    with _threads.mapping(2, "cpu") as apply:
        assert_equal(next(apply(run, [2])), alone)
    assert len(set(names)) == 1
    assert "MainThread" not in names
    with jax.default_matmul_precision("float32"):
        run(2)
    assert set(names) == {"MainThread"}


@pytest.mark.slow
def test_rates_of_renewed_models_stay_arguments(compiled):
    """Other numbers of a learner, and other states, are no other programs."""
    X, y = stream(80)

    def run(rate):
        inside = FeatureModels(jaxmkl.Gaussian(1.0), OGD(rate), FourierFeatures(3))
        learner = jaxmkl.MKL(MetricModels(inside, sample=30, first=16), loss="squared")
        return jaxmkl.run(learner, learner.init(jax.random.key(0), 2), X, y)

    run(0.1)
    assert not compiled(run, 0.2)


@pytest.mark.slow
def test_runs_side_by_side_are_those_alone():
    """Whose renewals are amid one program, and those of a run are apart."""
    learner, (X, y) = learned(), stream(150)
    keys = jax.random.split(jax.random.key(4), 3)
    states, outputs = jaxmkl.run_many(learner, keys, X, y, permute=False)
    starts = [learner.init(jax.random.fold_in(key, 0), 2) for key in keys]
    alone = [jaxmkl.run(learner, start, X, y) for start in starts]
    for s, (state, recorded) in enumerate(alone):
        np.testing.assert_allclose(outputs.prediction[s], recorded.prediction, atol=1e-3)
        assert_equal(jax.tree.map(lambda leaf, s=s: leaf[s], states.memory), state.memory)


@pytest.mark.endless
@pytest.mark.parametrize("make", [fixed, learned])
def test_runs_of_many_keys_compile_nothing_for_another_length_or_number(make, compiled):
    learner, (X, y) = make(), stream(5000)
    all_keys = jax.random.split(jax.random.key(1), 8)
    keys = {S: all_keys[:S] for S in (6, 7, 8)}

    def run(T, S):
        return jaxmkl.run_many(learner, keys[S], X[:T], y[:T])

    assert compiled(run, 520, 8)
    # seven runs are padded to eight, and six
    for T, S in ((520, 8), (777, 8), (4999, 7), (600, 6)):
        assert not compiled(run, T, S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "permute"),
    long([(fixed, True)], itertools.product([fixed, learned], [True, False])),
)
def test_runs_of_many_keys_are_those_of_one_program(make, permute):
    """A part of a group and a whole one, over renewals and several segments."""
    learner, (X, y) = make(), stream(600)
    keys = jax.random.split(jax.random.key(1), 3)
    given = learner, keys, X, y
    states, outputs = jaxmkl.run_many(*given, permute=permute)
    traced = jax.jit(lambda *given: jaxmkl.run_many(*given, permute=permute))(*given)
    assert_close((plain(states), outputs), (plain(traced[0]), traced[1]), 1e-3)
    order = np.asarray(jaxmkl.streaming.permutations(keys, 600)[1]) if permute else np.arange(600)
    alone = learner.init(jax.random.fold_in(keys[1], 0), 2)
    alone, expected = jaxmkl.run(learner, alone, X[order], y[order])
    np.testing.assert_allclose(outputs.prediction[1], expected.prediction, atol=1e-4)
    assert int(states.round[1]) == 600
