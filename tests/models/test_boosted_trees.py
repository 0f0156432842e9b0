"""The boosted model beside a forest: against plain loops, and under the contract of learners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities
from jaxmkl._feedback import Feedback
from jaxmkl.aggregate import Uniform
from jaxmkl.models import TreeModels
from jaxmkl.models.growing_trees import whole_numbers
from jaxmkl.reservoir import Renewal
from tests.common.trees import assert_equal, begin, plain, stacked
from tests.oracles import trees as oracle

SMALL_PROGRAMS = True

SMALL = TreeModels(4, depth=4, groups=2, sample=130, first=8, stages=2)


@jax.jit
def renewed(bank, state, renewal):
    return abilities.renewed(bank, state, renewal)


@jax.jit
def played(bank, state, X, y, learns):
    """The state after rounds, and the values (T, E) or (T, K, E) before each."""
    codes = bank.encode(state, X, jnp.asarray(0), None)

    def one(state, given):
        code, y, learns = given
        values, aux = bank.predict(state, code)
        feedback = Feedback(y, learns, jnp.asarray(True), jnp.asarray(True))
        return bank.update(state, code, aux, feedback), values

    return jax.lax.scan(one, state, (codes, y, learns))


@pytest.mark.slow
@pytest.mark.parametrize("number", [200, 130, 40])
@pytest.mark.parametrize(
    ("loss", "K"),
    [
        pytest.param("squared", 1, marks=pytest.mark.endless),
        ("logistic", 3),
        pytest.param("squared", 3, marks=pytest.mark.endless),
        pytest.param("logistic", 1, marks=pytest.mark.endless),
    ],
)
def test_grows_and_learns_as_plain_loops_do(number, loss, K):
    with jax.enable_x64(True):
        rng = np.random.default_rng(number)
        X, y = rng.normal(size=(260, 3)), rng.normal(size=(260, K))
        y[:, 0] += 3 * (X[:, 0] > 0.2) * X[:, 1]
        if loss == "logistic":
            y = np.sign(y)
        bank = TreeModels(4, depth=12, sample=200, stages=3, loss=loss, forgetting=0.97)
        state = bank.init(jax.random.key(0), 3, "float64", None if K == 1 else K)
        memory = [np.where(np.arange(200)[:, None] < number, a[:200], 0.0) for a in (X, y)]
        memory[1] = memory[1].reshape(200, *(() if K == 1 else (K,)))
        count = jnp.asarray(number, jnp.int32)
        begun = jnp.asarray(64, jnp.int32)
        seen = Renewal(*map(jnp.asarray, memory), count, count, begun, jax.random.key(5))
        state = renewed(bank, state, seen)
        bits = (200 - 1).bit_length()

        def whole(r):
            return np.asarray(whole_numbers(jnp.asarray(r), len(r)), np.float64)

        of_memory = X[:number], y[:number]
        plan = 3, 12, 4, bits, loss == "logistic", whole
        wanted = oracle.Boosted(*of_memory, np.uint32(seen.seed), *plan)
        state, values = played(
            bank, state, X[200:], y[200:].reshape(60, *seen.y.shape[1:]), np.ones((60, 2), bool)
        )
        values = np.asarray(values).reshape(60, K, 2)
        for t in range(60):
            np.testing.assert_allclose(values[t, :, 1], wanted.predict(X[200 + t])[0], atol=1e-9)
            wanted.learn(X[200 + t], y[200 + t], 0.97)
        if number > 64:
            assert sum(len(tree[0]) for tree in wanted.stages[0]) > 20


def test_a_model_that_does_not_take_part_stays():
    """And of trees that never grew, each stage takes half of what is left."""
    X, y = np.zeros((5, 2), np.float32), np.full(5, 2.0, np.float32)
    learns = np.tile([True, False, True], (5, 1))
    _, values = played(SMALL, SMALL.init(jax.random.key(0), 2, "float32"), X, y, learns)
    np.testing.assert_allclose(values[:, 0], [0, 2, 2, 2, 2])
    np.testing.assert_array_equal(values[:, 1], 0.0)
    # S is 2 in both stages, and H 1: a step of half of 2 / 1.5 each
    np.testing.assert_allclose(values[:2, 2], [0.0, 4 / 3], rtol=1e-6)
    only = played(SMALL, SMALL.init(jax.random.key(0), 2, "float32"), X, y, ~learns)[0]
    changed = np.flatnonzero(np.any(np.asarray(only.of_leaves) != 0, axis=1))
    np.testing.assert_array_equal(changed, SMALL.plan.roots[SMALL.plan.model == 1])


@pytest.mark.endless  # stages are those of plain loops above
def test_boosting_follows_what_a_forest_misses():
    """A sum of steps in many inputs, without noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 8)).astype(np.float32)
    y = np.sum(X > 0.5, axis=1).astype(np.float32)
    bank = TreeModels(8, sample=1024, stages=8)
    state = bank.init(jax.random.key(0), 8, "float32")
    count = jnp.asarray(1024, jnp.int32)
    seen = Renewal(X[:1024], y[:1024], count, count, count, jax.random.key(1))
    _, values = played(
        bank, renewed(bank, state, seen), X[1024:], y[1024:], np.ones((976, 2), bool)
    )
    of_forest, boosted = np.mean((values - y[1024:, None]) ** 2, axis=0)
    assert boosted < 0.6 * of_forest


def test_its_room_is_as_it_says():
    """A tree of a stage has half of the points, and two in a leaf at least."""
    plan = TreeModels(stages=24).plan
    assert (plan.total, plan.room, plan.num_models) == (112, 1000, 2)
    assert plan.roots[-1] + plan.room <= plan.size
    state = TreeModels(stages=24).init(jax.random.key(0), 100, "float32")
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(state)) < 4.3e6


@pytest.mark.endless
def test_merged_shards_grow_it_on_what_they_kept():
    # 96 examples in all, a round in which shards grow the forest alone
    X, y = jax.random.normal(jax.random.key(1), (2, 48, 3)), jnp.zeros((2, 48))
    y = y + X[..., 0] * X[..., 1]
    learner = jaxmkl.MKL(SMALL, Uniform())
    shards, _ = jaxmkl.run_fleet(learner, stacked(*[begin(learner, 3)] * 2), X, y)
    merged = jaxmkl.merge(learner, shards)
    (own,), memory = merged.models, merged.memory
    np.testing.assert_allclose(own.start, np.mean(memory.y[:96]), atol=1e-6)
    at = np.asarray(jax.jit(lambda s, X: SMALL.encode(s, X, 0, None))(own, memory.X[:96]).leaf)
    counts = plain(own.of_leaves)[:, -1]
    for tree in range(4, 8):
        found, numbers = np.unique(at[:, tree], return_counts=True)
        assert len(found) > 4
        np.testing.assert_array_equal(counts[found], numbers)


@pytest.mark.endless
def test_stays_where_the_forest_alone_grows():
    X = jax.random.normal(jax.random.key(1), (130, 3))
    y, number = X[:, 0] * X[:, 1], jnp.asarray(130, jnp.int32)
    renewals = [
        Renewal(X, y, number, number, jnp.asarray(at), jax.random.key(3)) for at in (8, 12)
    ]
    one = renewed(SMALL, SMALL.init(jax.random.key(0), 3, "float32"), renewals[0])
    one = one._replace(of_leaves=one.of_leaves + 1, start=one.start + 1)
    two, root = renewed(SMALL, one, renewals[1]), SMALL.plan.roots[4]
    assert_equal(one.of_leaves[root:], two.of_leaves[root:])
    assert_equal(one.trees.threshold[root:], two.trees.threshold[root:])
    assert_equal(one.trees.links[3 * root :], two.trees.links[3 * root :])
    assert_equal(one.start, two.start)
    assert np.any(plain(one.trees.threshold[:root]) != plain(two.trees.threshold[:root]))


@pytest.mark.endless
def test_runs_side_by_side_are_those_alone():
    """Bit for bit, also if they have points for other numbers of stages."""
    bank = TreeModels(4, depth=4, sample=256, stages=2)
    state = bank.init(jax.random.key(0), 3, "float32")
    X = np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)

    def alone(number):
        known = np.arange(256) < number
        x, y = jnp.where(known[:, None], X, 0), jnp.where(known, X[:, 0] * X[:, 1], 0)
        return renewed(
            bank, state, Renewal(x, y, number, number, jnp.asarray(64), jax.random.key(3))
        )

    numbers = jnp.asarray([70, 256, 130], jnp.int32)
    beside = jax.jit(jax.vmap(alone))(numbers)
    for i, number in enumerate(numbers):
        assert_equal(alone(number), jax.tree.map(lambda leaf, i=i: leaf[i], beside))
