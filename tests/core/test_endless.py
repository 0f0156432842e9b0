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
    np.testing.assert_allclose(end.spread, 1.6, atol=0.01)


@pytest.mark.endless
def test_the_forgetron_keeps_a_difference_of_sums_that_grow():
    """The loss by removals: each of the two sums would stand still at 2^24."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(3000, 2))
    y = np.where(X[:, 0] * X[:, 1] + draws.normal(size=3000) > 0, 1.0, -1.0)
    learner = jaxmkl.forgetron(jaxmkl.Gaussian(1.0), budget=8)
    state, _ = jaxmkl.run(learner, begin(learner), X, y)
    assert 0 <= float(state.models[0].eviction.slack[0]) < 1
