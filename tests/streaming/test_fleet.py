"""run_fleet: each stream is a run of its own, whatever its length and company."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxmkl
from jaxmkl import abilities
from tests.common.marks import long
from tests.common.trees import assert_close, assert_equal, everything, plain, row_of

SMALL_PROGRAMS = True
M, T, BLOCK = 5, 21, 8
RAGGED = (21, 7, 0, 16, 1)
KERNELS = jaxmkl.Gaussian([0.5, 2.0])
RAKER = jaxmkl.raker(KERNELS, num_features=4)
LEARNERS = {
    "raker": RAKER,
    "asks": jaxmkl.amkl_aks(KERNELS, num_features=4, tolerance=0.05, max_skips=3),
    "supports": jaxmkl.omkc_sd(KERNELS),
    "budget": jaxmkl.bpas(KERNELS, budget=4),
    "expert_mkl": jaxmkl.expert_mkl(KERNELS, num_features=4),
    "targets": jaxmkl.raker(KERNELS, num_features=4, num_outputs=2),
    "scaled": jaxmkl.label_budget(jaxmkl.scaled(RAKER, jaxmkl.wrappers.RunningMoments()), 9),
}


@functools.partial(jax.jit, static_argnames="number")
def begin(learner, number=M):
    keys = jax.random.split(jax.random.key(3), number)
    return jax.vmap(lambda key: learner.init(key, 2))(keys)


def data(learner=RAKER):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(M, T, 2)).astype(np.float32)
    y = np.sin(2 * X[..., 0]) * X[..., 1] + 0.1 * np.arange(M, dtype=np.float32)[:, None]
    if learner.task == "classification":
        return X, y > 0
    return X, y if learner.num_outputs is None else np.stack([y, -y], axis=-1)


def fleet(learner, states, X, y, **options):
    return jaxmkl.run_fleet(learner, states, X, y, block_size=BLOCK, record=everything, **options)


@jax.jit
def step(learner, state, x, y):
    return learner.step(state, (x, y))


def equals_runs_alone(learner, states, X, y, ends, outputs, lengths, tolerance=2e-5):
    """Example by example, which is one program for all lengths."""
    for m, length in enumerate(lengths):
        end, recorded = row_of(states, m), row_of(outputs, m)
        if abilities.capacity(learner, end) is not None:
            end = abilities.enlarged(learner, end, 64)
        behind = jax.tree.map(lambda leaf, n=length: leaf[n:], recorded)
        for leaf in jax.tree.leaves(plain(behind)):
            assert np.isnan(leaf).all() if leaf.dtype.kind == "f" else not leaf.any()
        for t in range(length):
            end, alone = step(learner, end, X[m, t], y[m, t])
            assert_close(row_of(recorded, t), alone, tolerance)
        if abilities.capacity(learner, end) is None:
            assert_close(row_of(ends, m), end, tolerance)
        else:
            assert_close(
                abilities.num_supports(learner, row_of(ends, m)),
                abilities.num_supports(learner, end),
            )
        assert_equal(row_of(ends, m).round, end.round)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "lengths"),
    long([("budget", RAGGED)], [("raker", None), *((name, RAGGED) for name in LEARNERS)]),
)
def test_each_stream_is_a_run_of_its_own(name, lengths):
    """Twice: the second time the states go on, from the middle of a block."""
    learner = LEARNERS[name]
    X, y = data(learner)
    states = begin(learner)
    for _ in range(2):
        ends, outputs = fleet(learner, states, X, y, lengths=lengths)
        given = states, X, y, ends, outputs, lengths or (T,) * M
        equals_runs_alone(learner, *given, tolerance=1e-9)
        states = ends


@pytest.mark.slow
def test_what_stands_behind_a_stream_is_not_looked_at():
    X, y = data()
    clean = fleet(RAKER, begin(RAKER), X, y, lengths=RAGGED)
    for m, length in enumerate(RAGGED):
        X[m, length:], y[m, length:] = np.nan, np.inf
    assert_equal(fleet(RAKER, begin(RAKER), X, y, lengths=np.array(RAGGED)), clean)


@pytest.mark.endless
def test_labels_in_words_behind_a_stream_may_be_missing():
    X, y = data()
    words = np.where(y > 0, "yes", "no").astype(object)
    classifier = jaxmkl.raker(KERNELS, num_features=4, loss="hinge")
    for m, length in enumerate(RAGGED):
        words[m, length:] = None
    by_word = fleet(classifier, begin(classifier), X, words, lengths=RAGGED)
    assert_equal(fleet(classifier, begin(classifier), X, y > 0, lengths=RAGGED), by_word)


CLASSIFIER = jaxmkl.raker(KERNELS, num_features=4, loss="hinge")


@pytest.mark.endless
@pytest.mark.parametrize(
    "learner",
    [
        jaxmkl.wrappers.predictive(RAKER),
        jaxmkl.wrappers.one_vs_rest(CLASSIFIER, 2),
    ],
    ids=["predictive", "one_vs_rest"],
)
def test_a_stream_of_no_examples_keeps_its_state(learner):
    """Though it closes the blocks of the others."""
    X, y = data(CLASSIFIER if learner.num_outputs else RAKER)
    states = begin(learner, 2)
    ends, _ = fleet(learner, states, X[:2], y[:2], lengths=[T, 0])
    assert_equal(row_of(ends, 1), row_of(states, 1))
    assert ends.round.tolist() == [T, 0]


@pytest.mark.slow
@settings(max_examples=8)
@given(st.lists(st.integers(0, T), min_size=M, max_size=M))
def test_streams_may_be_cut_anywhere(cuts):
    """Each at a place of its own; the same bits, for blocks are aligned with the rounds."""
    X, y = data()
    whole, outputs = fleet(RAKER, begin(RAKER), X, y)
    later = np.stack([np.roll(X[m], -cut, axis=0) for m, cut in enumerate(cuts)])
    later_y = np.stack([np.roll(y[m], -cut) for m, cut in enumerate(cuts)])
    states, first = fleet(RAKER, begin(RAKER), X, y, lengths=cuts)
    states, second = fleet(RAKER, states, later, later_y, lengths=T - np.array(cuts))
    assert_equal(states, whole)
    for m, cut in enumerate(cuts):
        joined = np.concatenate([first.loss[m, :cut], second.loss[m, : T - cut]])
        np.testing.assert_array_equal(joined, outputs.loss[m])


@pytest.mark.slow
def test_groups_change_nothing(monkeypatch):
    """Groups of a size that need not divide the number of streams."""
    module = importlib.import_module("jaxmkl.streaming.many")
    X, y = data()
    together = fleet(RAKER, begin(RAKER), X, y, lengths=RAGGED)
    sizes, of = [], module.run_group

    def run_group(learner, states, *given, **options):
        sizes.append(len(states.round))
        return of(learner, states, *given, **options)

    monkeypatch.setattr(module, "run_group", run_group)
    monkeypatch.setattr(module, "_MOST", 2 * 32)
    assert_close(fleet(RAKER, begin(RAKER), X, y, lengths=RAGGED), together)
    assert sizes == [2] * 3


def test_blocks_are_no_longer_than_streams(monkeypatch):
    """Also of a learner whose period is longer."""
    module = importlib.import_module("jaxmkl.streaming.many")

    def plan_of(*arguments):
        raise InterruptedError(f"blocks of {module_plan_of(*arguments).block_size}")

    module_plan_of = module.plan_of
    monkeypatch.setattr(module, "plan_of", plan_of)
    X, y = data()
    rule = jaxmkl.updates.RLS(period=128)
    learner = jaxmkl.MKL(jaxmkl.models.FeatureModels(KERNELS, rule, RAKER.models[0].features))
    assert learner.period == 128
    with pytest.raises(InterruptedError, match=r"^blocks of 8$"):  # before anything is compiled
        jaxmkl.run_fleet(learner, begin(learner), X[:, :5], y[:, :5])


@pytest.mark.endless
def test_labels_may_come_late():
    X, y = data()
    states = begin(RAKER)
    ends, outputs = fleet(RAKER, states, X, y, lengths=RAGGED, delay=3)
    for m in (0, 1):
        given = X[m, : RAGGED[m]], y[m, : RAGGED[m]]
        options = {"block_size": BLOCK, "record": everything, "delay": 3}
        end, alone = jaxmkl.run(RAKER, row_of(states, m), *given, **options)
        recorded = jax.tree.map(lambda leaf, m=m: leaf[m, : RAGGED[m]], outputs)
        assert_close((row_of(ends, m), recorded), (end, alone))


@pytest.mark.slow
def test_inside_a_trace_bad_examples_are_counted():
    X, y = data()
    y[3, 5] = np.nan
    run_it = jax.jit(lambda states, X, y: fleet(RAKER, states, X, y, lengths=jnp.array(RAGGED)))
    states, outputs = run_it(begin(RAKER), X, y)
    assert states.invalid.tolist() == [0, 0, 0, 1, 0]
    y[3, 5] = 0.0
    whole = fleet(RAKER, begin(RAKER), X, y, lengths=RAGGED)
    apart = jax.tree.map(lambda leaf: np.delete(np.asarray(leaf), 3, axis=0), outputs.loss)
    np.testing.assert_allclose(apart, np.delete(whole[1].loss, 3, axis=0), rtol=1e-5)


def spoiled(array, place, value):
    array = array.copy()
    array[place] = value
    return array


X0, y0 = data()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": spoiled(X0, (3, 15, 1), np.nan)}, r"X must be finite.*got X\[3, 15, 1\] = nan"),
        ({"y": spoiled(y0, (3, 2), np.inf)}, r"y must be finite.*got y\[3, 2\] = inf"),
        ({"X": X0[:4]}, r"X must have shape \(5, T, 2\).*got shape \(4, 21, 2\)"),
        ({"X": X0[..., :1]}, r"X must have shape \(5, T, 2\).*got shape \(5, 21, 1\)"),
        ({"X": scipy.sparse.csr_array(X0[0])}, r"X must have shape \(5, T, 2\).*shape \(21, 2\)"),
        ({"X": X0[:, :0], "y": y0[:, :0]}, r"at least one example; got shape \(5, 0, 2\)"),
        ({"y": y0[:, :4]}, r"y must have shape \(5, 21\); got shape \(5, 4\)"),
        ({"lengths": [1, 2, 3]}, r"lengths must be 5 integers from 0 to 21; got \[1, 2, 3\]"),
        ({"lengths": [1, 2, 3, 4, 22]}, "lengths must be 5 integers from 0 to 21"),
        ({"lengths": [1, 2, 3, 4, -1]}, "lengths must be 5 integers from 0 to 21"),
        ({"lengths": np.ones((5, 21), bool)}, "lengths must be 5 integers .* got bool"),
        ({"states": RAKER.init(jax.random.key(0), 2)}, "run_fleet: states must be states of one"),
        ({"states": np.ones((5, 2))}, "run_fleet: states must be states of one.*got 'ndarray'"),
        ({"states": begin(jaxmkl.raker(KERNELS, num_features=5))}, r"features must be of shape"),
        ({"X": jax.random.split(jax.random.key(0), (5, 21, 2))}, "X must hold numbers or labels"),
        ({"learner": "raker"}, "run_fleet: learner must be a learner"),
        ({"mesh": 8}, "run_fleet: mesh must be a jax.sharding.Mesh or None; got 8"),
        ({"block_size": 0}, "block_size must be an integer of at least 1; got 0"),
    ],
)  # fmt: skip
def test_what_makes_no_fleet_is_refused(changed, message):
    given = {"learner": RAKER, "states": begin(RAKER), "X": X0, "y": y0, "lengths": RAGGED}
    with pytest.raises(ValueError, match=message):
        jaxmkl.run_fleet(**given | changed)
