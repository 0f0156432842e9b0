"""Counts and sums after very many rounds, from states as they are then."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import wrappers
from jaxmkl._blocks import count_on
from jaxmkl._moments import Moments
from jaxmkl.query import Forecast, Rate
from tests.common.trees import begin

SMALL_PROGRAMS = True
MOST = 2**31 - 1


def test_a_count_stays_large_and_goes_by_powers_of_two():
    counts = [count_on(jnp.asarray(MOST - 1, jnp.int32), more) for more in range(5)]
    assert [int(count) for count in counts] == [MOST - 1, MOST, *(2**30 + i for i in range(3))]
    assert int(count_on(jnp.asarray(MOST), False)) == MOST


def test_moments_move_after_two_to_the_24_numbers():
    """Single steps are below the rounding of the mean, 6e-5, and of the variance, 1.2e-7."""
    n, steps = 2**26, 20_000
    one = Moments.none((1,), np.float32)._replace(mean=jnp.full(1, 1e3), variance=jnp.ones(1))

    @jax.jit
    def after(moments, numbers):
        return jax.lax.scan(lambda m, k: (m.after(jnp.full(1, 1005.0), k), None), moments, numbers)

    found, _ = after(one, n + jnp.arange(1, steps + 1))
    share = steps / (n + steps)
    np.testing.assert_allclose(found.mean - 1e3, 5 * share, atol=5e-5)
    assert found.mean[0] > 1e3
    np.testing.assert_allclose(found.variance, 1 + share * (25 - 1), atol=4e-6)


def around_the_largest(make, rounds):
    """A learner's outputs where its counts pass 2^31 - 1, and where they are far from it."""
    draws = np.random.default_rng(0)
    X, learner = draws.normal(size=(rounds, 2)).astype(np.float32), make()
    y = X[:, 0] * X[:, 1]
    y = np.sign(y) if learner.task == "classification" else y
    state, _ = jaxmkl.run(learner, begin(learner), X, y)

    def with_counts(by):
        large = 2**30 + by

        def moved(path, leaf):
            name = jax.tree_util.keystr(path[-1:]).strip(".")
            is_count = name in ("round", "num_seen", "labels") and leaf.dtype == jnp.int32
            return jnp.full_like(leaf, large) if is_count else leaf

        return jax.tree.map_with_path(moved, state)

    ends = [jaxmkl.run(learner, with_counts(by), X, y) for by in (0, 2**30 - rounds // 2)]
    return [(int(end.round), np.asarray(outputs.prediction)) for end, outputs in ends]


def wrapped():
    learner = jaxmkl.raker(jaxmkl.Gaussian([0.5, 2.0]), num_features=10)
    learner = jaxmkl.scaled(learner, wrappers.RunningRanks(8))
    learner = jaxmkl.scaled(learner, wrappers.RunningMoments())
    return wrappers.intervals(wrappers.scaled_targets(learner, clip=5.0))


WRAPPED = {
    "wrapped": wrapped,
    "multitask": lambda: jaxmkl.multitask(kernel=jaxmkl.Gaussian(1.0), size=8),
    "omkl_b": lambda: jaxmkl.omkl_b(jaxmkl.Gaussian([0.5, 2.0]), budget=4),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", WRAPPED)
def test_learners_go_on_when_their_counts_are_at_an_end(name):
    (end, near), (after, far) = around_the_largest(WRAPPED[name], 256)
    assert (end, after) == (2**30 + 256, 2**30 + 128)
    np.testing.assert_allclose(far, near, rtol=1e-3, atol=1e-3)


def test_a_rate_is_kept_after_two_to_the_30_rounds():
    draws = np.random.default_rng(0)
    spreads, u = draws.lognormal(size=3000), draws.random(3000)
    query = Rate(0.2)
    start = query.init()._replace(
        asked=jnp.asarray(2**30 // 5), passed=jnp.asarray(2**30 // 5 * 4)
    )
    start = start._replace(spread=jnp.asarray(1.6, jnp.float32))

    @jax.jit
    def turn(state, example):
        spread, noise = example
        said = Forecast.of_one(jnp.zeros(()), variance=spread)
        ask = query.ask(state, query.score(state, said), noise)
        return query.update(state, said, ask), ask

    given = jnp.asarray(spreads, jnp.float32), jnp.asarray(u, jnp.float32)
    end, asked = jax.lax.scan(turn, start, given)
    assert abs(float(asked.mean()) - 0.2) < 0.04
    assert 2**29 < int(end.asked + end.passed) < 2**29 + 3001
    np.testing.assert_allclose(end.spread, 1.6, rtol=1e-5)


@pytest.mark.endless
def test_the_forgetron_keeps_a_difference_of_sums_that_grow():
    """The loss by removals: each of the two sums would stand still at 2^24."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(3000, 2))
    y = np.where(X[:, 0] * X[:, 1] + draws.normal(size=3000) > 0, 1.0, -1.0)
    learner = jaxmkl.forgetron(jaxmkl.Gaussian(1.0), budget=8)
    state, _ = jaxmkl.run(learner, begin(learner), X, y)
    assert 0 <= float(state.models[0].eviction.slack[0]) < 1


@pytest.mark.endless
def test_covariances_of_least_squares_stay_definite():
    """With forgetting, rounding must not grow as the directions do that nothing excites."""
    # the narrowest, the middle and the widest of the default kernels
    learner = jaxmkl.expert_mkl(jaxmkl.Gaussian([0.01, 1.0, 100.0]), num_features=20)
    state = begin(learner, 3)
    X = jax.random.normal(jax.random.key(1), (60_000, 3))
    state, _ = jaxmkl.run(learner, state, X, jnp.sin(X[:, 0]))
    for covariance in (state.models[0].rules[1].covariance, state.aggregate.models.covariance):
        S = np.asarray(covariance, np.float64)
        # symmetric to some units of rounding, as a few periods leave it
        some = 100 * np.finfo(np.float32).eps * np.abs(S).max()
        np.testing.assert_allclose(S, np.swapaxes(S, -1, -2), rtol=0, atol=some)
        assert np.linalg.eigvalsh(S).min() > 0


@pytest.mark.endless
def test_least_squares_that_forget_nothing_go_on_getting_better():
    """Where S gets small, what rounding once did to it must not stay and take it below 0."""
    rule = jaxmkl.updates.RLS(0.1)
    features = jaxmkl.features.FourierFeatures(40, orthogonal=True, scale="mean")
    bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian(8.0), (rule,), features)
    learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Mixture())
    draws = np.random.default_rng(0)
    X = draws.normal(size=(400_000, 3)).astype(np.float32)
    wanted = np.sin(X[:, 0] / 4)
    y = wanted + 0.1 * draws.normal(size=len(X)).astype(np.float32)
    state, outputs = jaxmkl.run(learner, begin(learner, 3), X, y)
    S = np.asarray(state.models[0].rules[0].covariance, np.float64)
    assert np.linalg.eigvalsh(S).min() > 0
    errors = np.mean((np.asarray(outputs.prediction) - wanted).reshape(10, -1) ** 2, axis=1)
    assert errors[-1] < errors[5]
