"""Forests against plain loops, and their bank under the contract of learners."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor

import jaxmkl
from jaxmkl import abilities
from jaxmkl._hash import hashed
from jaxmkl.aggregate import Hedge, Uniform
from jaxmkl.models import FeatureModels, TreeModels
from jaxmkl.models.boosting import sums_in_any_order
from jaxmkl.models.growing_trees import (
    Tree,
    grown,
    grown_in_pieces,
    inputs_of,
    leaves,
    whole_numbers,
)
from tests.common.trees import assert_equal, begin, plain, scan, stacked
from tests.oracles import trees as oracle

SMALL_PROGRAMS = True

SMALL = TreeModels(4, depth=4, groups=2, sample=12, first=8)


@partial(jax.jit, static_argnums=5)
def grow(seeds, X, y, number, depth, max_inputs=32):
    """Trees on the first so many points, and the leaf (T, N) of each point."""
    (T,), N = seeds.shape, len(X)
    rows, labels = jnp.tile(jnp.arange(N, dtype=jnp.int32), (T, 1)), whole_numbers(y, number)
    trees = grown(seeds, X, labels, rows, number, (depth, 1, 0), max_inputs)
    return trees, leaves_of(trees, X)


@jax.jit
def leaves_of(trees, X):
    """The leaf (T, N) of each point in each of T trees."""
    roots = np.arange(len(trees.threshold), dtype=np.int32) * trees.threshold.shape[1]
    flat = Tree(*(array.reshape(-1) for array in trees))
    return (leaves(flat, roots, X) - roots[None]).T


def splits_of(trees, tree):
    """Children (N, 2) and inputs (N,) of the splits of a tree."""
    links = np.asarray(trees.links).reshape(len(trees.threshold), -1, 3)[tree]
    return links[:, :2], links[:, 2]


def places_in(trees, bank, X):
    """The places (N, T) of the leaves of points in a bank's state."""
    return np.asarray(jax.jit(lambda trees, X: leaves(trees, bank.plan.roots, X))(trees, X))


as_whole_numbers = jax.jit(whole_numbers)


def labels_of(y, number=None):
    """What the oracle grows on."""
    number = len(y) if number is None else number
    return np.asarray(as_whole_numbers(y, number), np.float64)[:number]


SEEDS = np.asarray(hashed(jnp.uint32(7), np.arange(60)))


@pytest.mark.parametrize("number", [40, 23, 2, 1, 0])
@pytest.mark.parametrize("kind", ["numbers", "classes", "constant inputs", "one class"])
def test_grows_as_plain_loops_do(number, kind):
    with jax.enable_x64(True):
        rng = np.random.default_rng(number)
        X, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
        if kind == "classes":
            y = np.sign(y)
        if kind == "constant inputs":
            X[:] = 1.0
        if kind == "one class":
            y[:] = -1.0
        forest, (leaf,) = grow(SEEDS[:1], X, y, number, 9)
        splits, wanted = oracle.grow(X[:number], labels_of(y, number), 9, SEEDS[0])
        assert bool(splits) == (number > 1 and kind in ("numbers", "classes"))
        n = len(splits)
        children, inputs = splits_of(forest, 0)
        for i, array in enumerate((inputs, forest.threshold[0])):
            np.testing.assert_allclose(array[:n], [own[i] for own in splits], rtol=1e-12)
        np.testing.assert_array_equal(children[:n], np.reshape([s[2:] for s in splits], (n, 2)))
        np.testing.assert_array_equal(leaf[:number], wanted)


@pytest.mark.slow
def test_nodes_of_one_label_do_not_split_in_single_precision():
    """Their means are not whole numbers, and rounding would find a reduction."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y = np.where(X[:, :1] > 0.3, 0.1, 0.7).astype(np.float32)
    _, (leaf,) = grow(SEEDS[:1], X, y, 300, 20)
    splits, wanted = oracle.grow(X, labels_of(y), 20, SEEDS[0])
    np.testing.assert_array_equal(leaf, wanted)
    assert 0 < len(splits) < 60


@pytest.mark.parametrize("kind", ["normal", "one far from the others", "two values", "far from 0"])
def test_sums_of_whole_numbers_do_not_overflow(kind):
    y = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    if kind == "one far from the others":
        y[0] = 1e6
    if kind == "two values":
        y = np.sign(y)
    if kind == "far from 0":
        y += 1e5
    numbers = np.asarray(as_whole_numbers(y, 400), np.int64)
    assert not numbers[400:].any()
    assert 2**24 < np.abs(numbers).sum(axis=0).max() < 2**31
    # in proportion to the centred labels, to rounding
    centred = (y - y[:400].mean(axis=0, dtype=np.float64))[:400]
    factor = np.abs(numbers).max() / np.abs(centred).max()
    rounding = 2 * np.abs(y[:400]).max() * np.finfo(np.float32).eps * 4 + 2 / factor
    np.testing.assert_allclose(numbers[:400] / factor, centred, rtol=2e-5, atol=rounding)


@pytest.mark.slow
def test_each_tree_has_inputs_of_its_own():
    rng = np.random.default_rng(2)
    X, y = (rng.normal(size=(40, m)).astype(np.float32) for m in (5, 1))
    forest, leaf = grow(SEEDS[:3], X, y, 40, 20, 2)
    chosen = np.asarray(inputs_of(SEEDS[:3], 5, 2))
    assert len({tuple(sorted(own)) for own in chosen}) > 1
    for i, seed in enumerate(SEEDS[:3]):
        splits, wanted = oracle.grow(X[:, chosen[i]], labels_of(y), 20, seed)
        np.testing.assert_array_equal(leaf[i], wanted)
        by = [chosen[i][own[0]] for own in splits]
        np.testing.assert_array_equal(splits_of(forest, i)[1][: len(splits)], by)


@pytest.mark.endless
def test_forests_are_as_good_as_those_of_scikit_learn():
    X, y = make_friedman1(1600, 10, noise=0.1, random_state=0)
    X, y = X.astype(np.float32), y.astype(np.float32)
    forest, leaf = grow(SEEDS, X[:800], y[:800, None], 800, 40)
    means = [np.bincount(own, y[:800]) / np.bincount(own) for own in np.asarray(leaf)]
    at = np.asarray(leaves_of(forest, X[800:]))
    ours = np.mean([mean[own] for mean, own in zip(means, at, strict=True)], axis=0)
    theirs = ExtraTreesRegressor(60, random_state=0).fit(X[:800], y[:800]).predict(X[800:])
    errors = [np.mean((values - y[800:]) ** 2) for values in (ours, theirs)]
    assert errors[0] < 1.1 * errors[1]
    assert np.corrcoef(ours, theirs)[0, 1] > 0.98


@pytest.mark.endless
def test_many_points_grow_piece_by_piece():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1100, 2)).astype(np.float32)
    y = np.sin(3 * X[:, :1]) + rng.normal(size=(1100, 1)).astype(np.float32)
    forest, leaf = grow(SEEDS[:2], X, y, 1100, 12)
    for i, seed in enumerate(SEEDS[:2]):
        splits, wanted = oracle.grow(X, labels_of(y), 12, seed)
        np.testing.assert_array_equal(leaf[i], wanted)
        by = [own[0] for own in splits]
        np.testing.assert_array_equal(splits_of(forest, i)[1][: len(splits)], by)


@pytest.mark.endless
def test_the_same_tree_in_single_precision_and_side_by_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 3)).astype(np.float32)
    y = (1e4 + rng.normal(size=(64, 1))).astype(np.float32)  # labels far from 0 lose no digits
    together = grow(SEEDS[:3], X, y, 64, 20)
    for i, seed in enumerate(SEEDS[:3]):
        trees, (leaf,) = grow(SEEDS[i : i + 1], X, y, 64, 20)
        _, wanted = oracle.grow(X, labels_of(y), 20, seed)
        np.testing.assert_array_equal(leaf, wanted)
        np.testing.assert_array_equal(together[1][i], leaf)
        np.testing.assert_array_equal(together[0].links[i], trees.links[0])
    numbers = np.array([64, 40, 64])
    beside = jax.vmap(grow, in_axes=(0, None, None, 0, None))(SEEDS[:3, None], X, y, numbers, 20)
    for i, number in enumerate(numbers):
        alone, leaf = grow(SEEDS[i : i + 1], X, y, number, 20)
        np.testing.assert_array_equal(beside[1][i, 0, :number], leaf[0, :number])
        np.testing.assert_array_equal(beside[0].links[i], alone.links)


@pytest.mark.endless
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"task": "classification"},
        {"num_outputs": 2},
        {"task": "classification", "num_outputs": 3},
    ],
)
@pytest.mark.parametrize("boosted", [False, True])
def test_keeps_the_contract(options, boosted):
    loss = "logistic" if "task" in options else "squared"
    stages = TreeModels(4, depth=4, groups=2, sample=70, first=8, stages=1, loss=loss)
    bank = stages if boosted else SMALL
    learner = jaxmkl.MKL(bank, Uniform() if options else Hedge(0.5), **options)
    jaxmkl.testing.check_learner(learner)


@pytest.mark.slow
def test_leaves_keep_means_of_all_labels_that_meet_them():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 2)).astype(np.float32), rng.normal(size=60).astype(np.float32)
    missing = rng.random(60) < 0.4
    # which grows in rounds 32 and 48
    bank = TreeModels(2, depth=3, groups=2, sample=64, first=32, forgetting=0.9)
    learner = jaxmkl.MKL(bank, Uniform())
    state, outputs = plain(scan(learner, begin(learner), X, np.where(missing, np.nan, y)))
    own = state.models[0]
    leaf = places_in(own.trees, bank, X)
    known = np.flatnonzero(~missing)
    np.testing.assert_array_equal(state.memory.y[: len(known)], y[known])
    for tree in range(2):
        for at in np.unique(leaf[:, tree]):
            met = [t for t in known if leaf[t, tree] == at]
            begun = [t for t in met if t < 48]
            mean, count = (np.mean(y[begun]) if begun else 0.0), len(begun)
            for t in (t for t in met if t >= 48):
                count = 0.9 * count + 1
                mean += (y[t] - mean) / count
            np.testing.assert_allclose(own.of_leaves[at, 0], mean, atol=1e-5)
            np.testing.assert_allclose(own.of_leaves[at, 1], count, rtol=1e-5)
    # before the first growth: the discounted mean of all labels
    mean = count = 0.0
    for t in range(32):
        np.testing.assert_allclose(outputs.prediction[t], mean, atol=1e-5)
        if not missing[t]:
            count = 0.9 * count + 1
            mean += (y[t] - mean) / count


@pytest.mark.endless
def test_merged_shards_grow_trees_on_what_they_kept():
    """Leaves have the means of the examples of both reservoirs."""
    X, y = jax.random.normal(jax.random.key(1), (2, 30, 3)), jnp.zeros((2, 30))
    y = y + X[..., 0] * X[..., 1]
    bank = dataclasses.replace(SMALL, sample=40)
    learner = jaxmkl.MKL(bank, Uniform())
    start = stacked(*[begin(learner, 3)] * 2)
    shards, _ = jaxmkl.run_fleet(learner, start, X, y, lengths=[30, 25])
    merged = jaxmkl.merge(learner, shards)
    (own,), seen = merged.models, np.concatenate([X[0], X[1, :25]])
    kept, labels = np.asarray(merged.memory.X), np.asarray(merged.memory.y)
    assert int(merged.memory.num_examples) == 55
    assert {tuple(x) for x in kept} <= {tuple(x) for x in seen}
    for leaf in places_in(own.trees, bank, kept).T:
        assert len(set(leaf)) > 4
        for one in set(leaf):
            inside = leaf == one
            assert float(own.of_leaves[one, 1]) == inside.sum()
            mean = labels[inside].mean()
            np.testing.assert_allclose(own.of_leaves[one, 0], mean, rtol=1e-5, atol=1e-6)
    assert int(merged.round) == 55


def test_trees_grow_between_powers_of_two_until_the_sample_is_full():
    renews = jax.jit(jax.vmap(lambda round: abilities.renews(TreeModels(), round)))
    found = np.flatnonzero(renews(jnp.arange(70_000)))
    early = [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
    np.testing.assert_array_equal(found, [*early, 16_384, 65_536])


@pytest.mark.endless
def test_a_full_sample_grows_trees_at_every_fourth_round():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(80, 2)).astype(np.float32), rng.normal(size=80).astype(np.float32)
    learner = jaxmkl.MKL(SMALL, Uniform())  # grown in rounds 8, 16, when it is full, and 64

    def splits(state, example):
        state, _ = learner.step(state, example)
        return state, state.models[0].trees.splits

    start = learner.init(jax.random.key(0), 2)
    _, found = jax.lax.scan(splits, start, (X, y))
    before = np.concatenate([start.models[0].trees.splits[None], found[:-1]])
    changed = np.any(np.asarray(found) != before, axis=1)
    np.testing.assert_array_equal(np.flatnonzero(changed) + 1, [8, 16, 64])


@pytest.mark.endless
def test_derivatives_of_others_pass_by_growth():
    X = jax.random.normal(jax.random.key(0), (40, 2))
    y = jnp.sin(X[:, 0])

    def loss(step, forgetting):
        features = FeatureModels(jaxmkl.Gaussian(1.0), jaxmkl.updates.OGD(step))
        bank = TreeModels(2, 3, sample=16, first=8, forgetting=forgetting)
        learner = jaxmkl.MKL((features, bank), Uniform())
        return jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)[1].loss.sum()

    by_step, by_forgetting = jax.jit(jax.grad(loss, argnums=(0, 1)))(0.1, 0.9)
    assert np.all(np.isfinite([by_step, by_forgetting]))
    assert by_step != 0
    assert by_forgetting != 0


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"groups": 5}, "groups must be a divisor of num_trees = 16"),
        ({"num_trees": 6, "stages": 3}, "stages must be 0 unless 4 divides num_trees = 6"),
        ({"loss": "hinge"}, "loss must be one of 'squared', 'logistic'"),
        ({"first": 48}, "first must be a power of two"),
        ({"sample": 1}, "sample must be an integer of at least 2"),
        ({"sample": 2**21}, "sample must be at most 2"),
        ({"forgetting": 0.0}, "forgetting must be a number in"),
    ],
)
def test_refuses(options, wanted):
    with pytest.raises(ValueError, match=wanted):
        TreeModels(**options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_in_any_order(dtype):
    """To rounding those of the numbers, and the same bits whatever the order of the points."""
    draws = np.random.default_rng(0)
    with jax.enable_x64(dtype == "float64"):
        counted = draws.normal(size=(300, 3)) * [1e-20, 1.0, 1e20]
        counted[200:] = 0
        at = draws.integers(7, size=(300, 4)) + 7 * np.arange(4)
        sums = partial(sums_in_any_order, size=28)
        both = np.stack([counted, counted[::-1]]), np.stack([at, at[::-1]])
        given = jnp.asarray(both[0], dtype), jnp.asarray(both[1], jnp.int32)
        forward, backward = np.asarray(jax.jit(jax.vmap(sums))(*given))
    wanted = np.zeros((28, 3))
    np.add.at(wanted, at, counted[:, None])
    most = np.abs(counted).max(axis=0)
    assert np.abs((forward - wanted) / most).max() < 20 * np.finfo(dtype).eps
    assert_equal(forward, backward)


@pytest.mark.slow
def test_growth_in_a_single_piece_is_that_in_pieces():
    """The form of GPUs and that of CPUs make the same trees, bit for bit."""
    draws = np.random.default_rng(0)
    X = jnp.asarray(draws.normal(size=(600, 5)).round(1), jnp.float32)
    y = jnp.sin(3 * X[:, :2]) * X[:, 2:3]
    number, limits = jnp.asarray(550), jnp.asarray([7, 2, 1])
    rows = np.stack([np.pad(draws.permutation(550), (0, 50)) for _ in range(3)])
    given = jnp.arange(3, dtype=jnp.uint32), X, whole_numbers(y, number), jnp.asarray(rows)
    one, many = (
        jax.jit(partial(grown_in_pieces, 4, piece))(*given, number, limits) for piece in (None, 64)
    )
    assert_equal(one, many)
    assert (np.asarray(one) >= 0).any()
