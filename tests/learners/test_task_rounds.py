"""Many tasks on one dictionary: against the oracle, one example a round and one of each task."""

import numpy as np
import pytest

from jaxmkl.query import Margin, Random
from jaxmkl.streaming import run
from jaxmkl.tables import with_tasks
from tests.common.task_streams import (
    NUM_INPUTS,
    all_draws,
    begin,
    covariances,
    examples,
    make,
    oracle_of,
    rounds,
    scanned_rounds,
    used,
)

SMALL_PROGRAMS = True

MODES = {
    "full": {},
    "full, squared": {
        "loss": "squared_hinge", "noise": 0.5, "inertia": 2.0, "update_on": "mistake"
    },
    "full, mixed": {"components": "mixed", "rate": 1.3, "update_on": "unsure"},
    "full, mixed, restart": {
        "components": "mixed", "loss": "squared_hinge", "growth": "restart", "size": 40
    },
    "active, mixed, squared": {"components": "mixed", "loss": "squared_hinge", "h": 0.1},
    "full, local": {"components": "local"},
    "full, global, squared": {"components": "global", "loss": "squared_hinge"},
    "full, margin": {"update_on": "margin", "inertia": 3.0},
    "full, restart": {"growth": "restart", "size": 40},
    "full, queried": {"covariance": "queried"},
    "active": {"h": 0.1},
    "active, squared": {"h": 0.2, "loss": "squared_hinge"},
    "active, local, queried": {"h": 0.1, "components": "local", "covariance": "queried"},
    "active, global": {"h": 0.1, "components": "global", "noise": 2.0},
    "active, always": {"h": 0.5, "covariance": "always"},
    "active, restart, squared": {
        "h": 0.1, "growth": "restart", "loss": "squared_hinge", "size": 40
    },
    "margin": {"query": Margin(0.3), "update_on": "mistake"},
    "chance": {"query": Random(0.4), "update_on": "margin", "covariance": "always"},
    "other sampling": {"h": 0.3, "ridge": 0.3, "density": 0.7, "accuracy": 0.1, "tolerance": 0.2},
}  # fmt: skip

# Each mode takes seconds to compile: the others are for `pytest -m endless`.
LONG = {"active, restart, squared"}


def modes(quick=(), outcome=LONG):
    def mark(mode):
        known = [] if mode in quick else pytest.mark.slow
        return known if mode in outcome else pytest.mark.endless

    return [pytest.param(mode, marks=mark(mode)) for mode in MODES]


ALONE = {"active, local, queried"}


@pytest.mark.parametrize("mode", modes({"active, local, queried"}, ALONE))
def test_the_oracle_one_example_a_round(mode, x64):
    """One example a round, in blocks; every value to 1e-9."""
    learner = make(**MODES[mode])
    T = 400
    task, X, y = examples(T, 3)
    start = begin(learner)
    rows = with_tasks(task, X)
    state, outputs = run(learner, start, rows, y)
    uniform = np.asarray(all_draws(start, np.arange(T), rows), np.float64)
    oracle = oracle_of(learner, 3)
    value, asked = np.zeros(T), np.zeros(T, bool)
    for t in range(T):
        k = int(task[t])
        said = oracle.step({k: (X[t], y[t])}, {k: tuple(uniform[t])})[k]
        value[t], asked[t] = said.value, said.asked
    np.testing.assert_allclose(outputs.prediction, value, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(outputs.queried, asked)
    assert asked.all() == mode.startswith("full")
    assert_state_is_the_oracles(learner, state, oracle)
    np.testing.assert_array_equal(state.round, T)


def assert_state_is_the_oracles(learner, state, oracle):
    assert int(state.dictionary.number) == len(oracle.dictionary.points)
    assert int(state.dictionary.refused) == oracle.dictionary.refused
    np.testing.assert_allclose(state.means, used(learner, oracle.means), rtol=0, atol=1e-9)
    if learner.components == "mixed":
        np.testing.assert_allclose(state.alone, oracle.alone, rtol=0, atol=1e-9)
        assert np.abs(oracle.alone).max() > 0.1
        weights = learner.info(state).weights
        np.testing.assert_allclose(weights, oracle.weights(), rtol=0, atol=1e-9)
        assert np.abs(oracle.weights() - 1 / 3).max() > 0.1
    sigma = np.linalg.inv(used(learner, oracle.precisions))
    np.testing.assert_allclose(covariances(learner, state), sigma, rtol=0, atol=1e-9)
    assert np.abs(used(learner, oracle.means)).max() > 0.1


@pytest.mark.parametrize("mode", modes())
def test_the_oracle_in_rounds(mode, x64):
    """Some tasks a round, and rounds without any; what stands for absent ones is ignored."""
    T, K = 150, 3
    learner = make(K, **MODES[mode])
    X, y, present = rounds(T, K)
    present[::9] = False
    X[~present], y[~present] = np.nan, np.nan
    start = begin(learner)
    state, outputs = scanned_rounds(learner, start, X, y, present)
    number = np.cumsum(present.any(axis=1)) - present.any(axis=1)
    assert int(state.round) == present.any(axis=1).sum() < T
    assert int(state.invalid) == 0
    flat = np.repeat(number, K), with_tasks(np.tile(np.arange(K), T), X.reshape(T * K, -1))
    uniform = np.asarray(all_draws(start, *flat), np.float64).reshape(T, K, 2)
    oracle = oracle_of(learner, K)
    for t in range(T):
        there = np.flatnonzero(present[t])
        said = oracle.step(
            {k: (X[t, k], y[t, k]) for k in there}, {k: tuple(uniform[t, k]) for k in there}
        )
        for k in range(K):
            if k not in said:
                assert np.isnan(outputs.prediction[t, k])
                assert np.isnan(outputs.loss[t, k])
                assert not outputs.queried[t, k]
                continue
            assert abs(float(outputs.prediction[t, k]) - said[k].value) < 1e-9
            assert bool(outputs.queried[t, k]) == said[k].asked
    assert_state_is_the_oracles(learner, state, oracle)


# --- rounds and streams --------------------------------------------------------------------------


def test_shapes_of_a_round_are_checked():
    learner = make()
    state = begin(learner, np.float32)
    good = np.zeros((3, NUM_INPUTS)), np.ones(3), np.ones(3, bool)
    for i, (name, bad) in enumerate([("X", np.zeros((3, 4))), ("y", np.ones(2)), ("present", 1)]):
        given = [bad if j == i else part for j, part in enumerate(good)]
        with pytest.raises(ValueError, match=f"MultiTask: {name} of a round must be of shape"):
            learner.round(state, tuple(given))
