"""The experiments of decisions, by real small runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_rows import value

from experiments import decisions
from experiments.__main__ import main
from experiments.decisions import arms, search
from experiments.evaluate import Stream, keys_of
from tests.common.trees import assert_close, assert_equal, plain, row_of

SMALL_PROGRAMS = True


@pytest.mark.endless
def test_bandits_without_any_file(play, monkeypatch):
    monkeypatch.setattr(arms, "ROUNDS", 200)
    monkeypatch.setattr(arms, "FEATURES", 10)
    rows = play("decisions --parts bandits", "waves", seeds=2)
    assert {row["algorithm"] for row in rows} == {*arms.CHOICES, arms.LINUCB}
    rounds = jax.vmap(arms.waves)(keys_of(2))
    at_random = 200 * float((rounds.means.max(axis=2) - rounds.means.mean(axis=2)).mean())
    for name in (*arms.CHOICES, arms.LINUCB):
        assert 0 < value(rows, name, "regret") < at_random


@pytest.mark.slow
def test_the_wheel_and_the_digits():
    rounds = jax.jit(arms.wheel)(jax.random.key(0))
    large = np.asarray(rounds.means) == arms.LARGE
    outside = np.linalg.norm(rounds.contexts, axis=1) > arms.RADIUS
    np.testing.assert_array_equal(large.sum(axis=1), outside)
    assert len({tuple(signs) for signs in np.sign(np.asarray(rounds.contexts)[large[:, 1]])}) == 1
    assert np.abs(rounds.rewards - rounds.means).max() < 6 * arms.WHEEL_NOISE
    rounds = arms.digits(jax.random.key(0))
    assert rounds.contexts.shape == (1797, 64)
    np.testing.assert_array_equal(rounds.means.sum(axis=1), 1)
    assert (rounds.means != arms.digits(jax.random.key(1)).means).any()


@pytest.mark.endless
def test_arms_learn_apart_but_for_the_noise():
    X = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    learner = arms.learner_of(X)
    begin = jax.jit(jax.vmap(lambda key: learner.init(key, 2)))
    start = begin(jax.random.split(jax.random.key(1), 3))
    states, step, alone = start, jax.jit(arms.learned), jax.jit(learner.update)
    one = row_of(start, 1)
    for x, reward in zip(X, (1.0, 0.0, 2.0, 1.0), strict=True):
        states, one = step(learner, states, jnp.array(1), x, reward), alone(one, x, reward)
    # two programs, whose sines XLA may round differently
    assert_close(plain(row_of(states, 1)), plain(one), 1e-5)
    for other in (0, 2):  # which were not played
        assert_equal(row_of(plain(states.models), other), row_of(plain(start.models), other))
    assert states.noise.number.tolist() == [4, 4, 4]
    np.testing.assert_allclose(states.noise.variance, one.noise.variance, rtol=1e-5)
    assert 0 < one.noise.variance < 2
    states = step(learner, states, jnp.array(2), X[0], 0.0)
    assert states.noise.number.tolist() == [5, 5, 5]


def test_linucb_is_ridge_regression_of_each_arm():
    keys = jax.random.split(jax.random.key(0), 2)
    X, means = jax.random.normal(keys[0], (30, 2)), jax.random.normal(keys[1], (30, 3))
    rounds = arms.Rounds(X, means, means)
    found = arms.linucb(jax.tree.map(lambda leaf: leaf[None], rounds))[0]
    Z, Y = np.append(X, np.ones((30, 1)), axis=1).astype(np.float64), np.asarray(means)
    played = np.full(30, -1)
    for t, z in enumerate(Z):
        bounds = []
        for arm in range(3):
            own = played[:t] == arm
            S = np.linalg.inv(np.eye(3) + Z[:t][own].T @ Z[:t][own])
            bounds.append(z @ S @ Z[:t][own].T @ Y[:t][own, arm] + np.sqrt(z @ S @ z))
        played[t] = np.argmax(bounds)
    np.testing.assert_allclose(found, Y.max(axis=1) - Y[np.arange(30), played], atol=1e-6)


@pytest.mark.endless
def test_optimisation(play, monkeypatch):
    monkeypatch.setattr(search, "EVALUATIONS", 30)
    monkeypatch.setattr(search, "FEATURES", 20)
    rows = play("decisions --parts optimisation", "branin", seeds=4)
    by_chance = value(rows, search.RANDOM, "simple_regret")
    for name in search.WORTH:
        assert 0 <= value(rows, name, "simple_regret") < by_chance
        assert value(rows, name, "simple_regret") <= value(rows, name, "regret_halfway")


def test_minima_of_the_functions():
    best = {
        "branin": [(np.pi + 5) / 15, 2.275 / 15],
        "hartmann6": [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
    }
    for name, function in search.FUNCTIONS.items():
        x = jnp.asarray(best[name], jnp.float32)
        assert len(x) == function.num_inputs
        np.testing.assert_allclose(function.value(x), function.minimum, atol=1e-4)


@pytest.mark.endless
def test_a_tenth_of_the_labels(play, monkeypatch, capsys):
    X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    made = Stream("friedman1", X, np.sin(2 * X[:, 0]), "regression")
    monkeypatch.setattr(decisions, "stream_of", lambda job, dataset: made)
    rows = play("decisions --parts active", "friedman1", seeds=2, num_features=4)
    assert {row["algorithm"] for row in rows} == {*decisions.QUERIES}
    for name in decisions.QUERIES:
        assert abs(value(rows, name, "label_rate") - decisions.SHARE) < 0.05
    of_chance = value(rows, decisions.CHANCE, "mse")
    share = value(rows, "rate, by variance", "mse") / of_chance
    assert value(rows, "rate, by variance", "mse_over_chance") == pytest.approx(share)
    apart = value(rows, "rate, by variance", "difference")
    assert apart == pytest.approx(value(rows, "rate, by variance", "mse") - of_chance)
    assert "friedman1, rate, by variance:" in capsys.readouterr().out


def test_files_that_are_missing_are_left_out_or_named(monkeypatch, capsys):
    assert main(["decisions", "--parts", "active", "--datasets", "tom"]) == 2
    assert "--data DIR" in capsys.readouterr().err
    monkeypatch.setattr(search, "FUNCTIONS", {})
    assert main(["decisions", "--parts", "optimisation"]) == 2  # without functions nothing is run
    assert "left out: tom, air" in capsys.readouterr().out
