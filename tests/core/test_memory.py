"""The memory of a composed learner: what banks that learn their kernels are given, and when."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl._renewals import renewals_of
from jaxmkl.models import FeatureModels, LikelihoodModels, MetricModels, TreeModels
from jaxmkl.reservoir import Renewal, Reservoir
from tests.common.banks import MeanOfMemory
from tests.common.marks import long, quick
from tests.common.trees import assert_close, assert_equal, begin, plain, scan

SMALL_PROGRAMS = True


def stream():
    """Some labels are missing, and one example is refused."""
    draws = np.random.default_rng(3)
    X, y = draws.normal(size=(40, 2)).astype(np.float32), draws.normal(size=40).astype(np.float32)
    y[draws.random(40) < 0.3] = np.nan
    X[5, 1] = np.nan
    return X, y


@pytest.mark.parametrize("aggregate", quick(["drawn"], ["all", "drawn"]))
def test_banks_are_renewed_from_the_labelled_examples_so_far(aggregate):
    """Also where a model is drawn each round, and others do not learn."""
    X, y = stream()
    known = np.isfinite(y) & np.isfinite(X).all(axis=1)
    given = (
        jaxmkl.aggregate.Uniform()
        if aggregate == "all"
        else jaxmkl.aggregate.DrawOne(1.0, cost="loss")
    )
    learner = jaxmkl.MKL((MeanOfMemory(), MeanOfMemory(16)), given)
    assert learner.memory.size == 100
    state, _ = scan(learner, begin(learner), X, y)
    wanted, inputs = y[:32][known[:32]].mean(), X[:32][known[:32]].sum(axis=0)
    for own, rounds in zip(state.models, (8 + 16 + 32, 16 + 32), strict=True):
        np.testing.assert_allclose(own["mean"], wanted, rtol=1e-5)
        np.testing.assert_allclose(own["inputs"], inputs, rtol=1e-4)
        assert own["rounds"] == rounds
    assert state.models[0]["drawn"] != state.models[1]["drawn"]  # each has its own key
    assert state.memory.num_examples == known.sum()
    np.testing.assert_array_equal(state.memory.y[: known.sum()], y[known])


@pytest.mark.slow
def test_a_run_cut_at_a_renewal_renews_once():
    X, y = np.ones((40, 2), np.float32), np.arange(40.0, dtype=np.float32)
    learner = jaxmkl.MKL(MeanOfMemory())
    start = learner.init(jax.random.key(0), 2)
    whole, _ = jaxmkl.run(learner, start, X, y)
    state = start
    for some in (slice(0, 16), slice(16, 17), slice(17, 40)):
        state, _ = jaxmkl.run(learner, state, X[some], y[some])
    assert_equal(state, whole)
    assert state.models[0]["rounds"] == 8 + 16 + 32


@jax.jit
def sampled(renewal):
    return [renewal.sample(size) for size in (3, 8, 11)]


@pytest.mark.parametrize("number", [0, 2, 5, 8])
def test_a_sample_is_even_and_has_no_example_twice(number):
    y = np.arange(1.0, 9.0, dtype=np.float32)
    known = np.arange(8) < number
    y = np.where(known, y, 0)
    at = jnp.asarray(number)
    for some in plain(sampled(Renewal(y[:, None], y, at, at, at, jax.random.key(0)))):
        size, here = len(some.y), np.asarray(some.known)
        held = some.y[here]
        assert len(set(held)) == len(held) == min(size, number)
        np.testing.assert_array_equal(np.sort(here)[::-1], here)  # known ones first
        np.testing.assert_array_equal(some.X[:, 0], some.y)
        assert (some.y[~here] == 0).all()
        if number > size:
            assert np.ptp(np.diff(held)) <= 1


def test_the_memory_has_room_for_the_bank_that_looks_at_the_most():
    inside = FeatureModels(jaxmkl.Gaussian(1.0), jaxmkl.updates.RLS(0.1))
    banks = inside, MetricModels(inside, sample=30), TreeModels(sample=70)
    assert jaxmkl.MKL(banks).memory.size == 70
    assert jaxmkl.MKL(inside).memory is None
    own = Reservoir(50, latest=20)
    assert jaxmkl.MKL(banks, memory=own).memory is own
    assert jaxmkl.expert_mkl().memory.size == 4000
    assert jaxmkl.raker().memory is None


def test_a_memory_has_one_home():
    inside, own = FeatureModels(jaxmkl.Gaussian(1.0)), Reservoir(50)
    wanted = r"reservoir must be left out: the memory is the learner's, as MKL\(..., memory=Res"
    for make in (MetricModels, LikelihoodModels):
        with pytest.raises(ValueError, match=f"{make.__name__}: {wanted}"):
            make(inside, reservoir=own)
    with pytest.raises(ValueError, match=f"TreeModels: {wanted}"):
        TreeModels(reservoir=own)
    with pytest.raises(ValueError, match="sample must be an integer of at least 1; got Reservoir"):
        MetricModels(inside, "full", own)
    with pytest.raises(ValueError, match="memory must be None, as no bank of models learns its k"):
        jaxmkl.MKL(inside, memory=own)
    with pytest.raises(ValueError, match="memory must be a reservoir, as"):
        jaxmkl.MKL(TreeModels(), memory=500)


def in_segments(make, X, y, lengths):
    """The results of drivers, in their segments, and of one program of all rounds."""
    learner = make()
    start = learner.init(jax.random.key(0), X.shape[1])
    state, outputs = start, []
    for a, b in zip(np.cumsum([0, *lengths]), np.cumsum(lengths), strict=False):
        state, recorded = jaxmkl.run(learner, state, X[a:b], y[a:b])
        outputs.append(recorded)
    traced = jax.jit(lambda start: jaxmkl.run(learner, start, X, y))(start)
    return (state, jax.tree.map(lambda *leaves: np.concatenate(leaves), *outputs)), traced


AROUND = {
    "by itself": lambda: jaxmkl.MKL((MeanOfMemory(), MeanOfMemory(12))),
    "scaled, with lags": lambda: jaxmkl.wrappers.lagged(
        jaxmkl.scaled(jaxmkl.MKL(MeanOfMemory()), jaxmkl.wrappers.RunningMoments()), 2
    ),
    "one of each class": lambda: jaxmkl.wrappers.one_vs_rest(
        jaxmkl.MKL(MeanOfMemory(), task="classification"), 3
    ),
    "late": lambda: jaxmkl.wrappers.delayed(jaxmkl.MKL(MeanOfMemory()), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["late"], AROUND))
def test_renewals_between_segments_are_those_of_a_trace(name):
    """Also where some labels are missing, and a run is cut amid a block and at a renewal."""
    X, y = stream()
    X, y = np.nan_to_num(np.tile(X, (3, 1))), np.tile(np.where(np.isnan(y), 0, y), 3)
    if name == "one of each class":
        y = np.digitize(y, (-0.5, 0.5)).astype(np.float32)
    apart, traced = in_segments(AROUND[name], X, y, (3, 29, 1, 63, 24))
    assert_close(apart, traced, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["by itself"], ["by itself", "scaled, with lags", "late"]))
def test_rounds_one_by_one_are_renewed_apart_too(name):
    """A ``step`` compiles its rounds without renewals, and ``update`` and ``skip`` renew, too."""
    X, y = stream()
    X, y = np.nan_to_num(X[:40]), np.where(np.isnan(y), 0, y)[:40]
    learner = AROUND[name]()
    state = start = learner.init(jax.random.key(0), X.shape[1])
    values = []
    for x, label in zip(X[:20], y, strict=False):
        state, output = learner.step(state, (x, label))
        values.append(output.prediction)
    for x, label in zip(X[20:], y[20:], strict=True):
        values.append(learner.predict(state, x).value)
        state = learner.update(state, x, label)
    traced, outputs = jax.jit(lambda start: jax.lax.scan(learner.step, start, (X, y)))(start)
    assert_close((state, np.stack(values)), (traced, outputs.prediction), 1e-5)
    skipped = learner.skip(state, X[0])
    assert_close(skipped, jax.jit(learner.skip)(state, X[0]), 1e-5)


@pytest.mark.slow
def test_a_trace_of_one_round_renews_amid_it():
    """Whatever is traced: the example alone, the state, or the learner."""
    learner = jaxmkl.MKL(MeanOfMemory())
    state = learner.init(jax.random.key(0), 2)
    first = learner.models[0].first
    for _ in range(first - 1):
        state = learner.update(state, jnp.ones(2), 1.0)
    ways = [
        learner.update(state, np.ones(2), 1.0),
        jax.jit(lambda x: learner.update(state, x, 1.0))(np.ones(2)),
        jax.jit(lambda state: learner.update(state, np.ones(2), 1.0))(state),
        jax.jit(lambda learner: learner.update(state, np.ones(2), 1.0))(learner),
    ]
    for other in ways[1:]:
        assert_close(ways[0].models, other.models, 1e-6)
    assert int(ways[0].round) == first
    not_renewed = renewals_of(learner).rounds.update(state, np.ones(2), 1.0)
    pairs = zip(*map(jax.tree.leaves, (ways[0].models, not_renewed.models)), strict=True)
    assert any(np.any(np.asarray(a) != b) for a, b in pairs)
