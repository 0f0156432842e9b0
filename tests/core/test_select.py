"""Selection: adaptive kernel selection has the law of the paper's balls and bins."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxmkl.select import AdaptiveKernelSelection, All, Sampled
from tests.oracles import balls_and_bins

SMALL_PROGRAMS = True
DRAWS = 40_000
THRESHOLD = 0.8

# Two-sided tail of a normal variable at 7 standard errors is 3e-12; there are below 5,000
# comparisons in this file. The chi-square tests reject at 1e-9.
SIGMAS = 7.0
LEVEL = 1e-9


def weights_with(num_kernels, size):
    """Weights of which ``size`` are above 0.8 times the largest, all different."""
    high = np.linspace(1.0, 0.85, size)
    low = np.geomspace(0.7, 0.01, num_kernels - size)
    weights = np.concatenate([high, low])
    return np.random.default_rng(size).permutation(weights / weights.sum())


CASES = [(6, 1), (6, 3), (6, 6), (17, 3), (17, 8)]


@jax.jit
def drawn_by(selection, log_weights, keys):
    """Subsets (S, P), one for each key."""

    def one(key):
        noise = selection.noise(key, len(log_weights), log_weights.dtype)
        return selection.draw(log_weights, noise)

    return jax.vmap(one)(keys)


@functools.cache
def subsets(num_kernels, size):
    """(DRAWS, P) bool from the library's short cut."""
    log_weights = jnp.log(jnp.asarray(weights_with(num_kernels, size), jnp.float32))
    keys = jax.random.split(jax.random.key(100 * num_kernels + size), DRAWS)
    return np.asarray(drawn_by(AdaptiveKernelSelection(THRESHOLD), log_weights, keys))


@functools.cache
def literal_subsets(num_kernels, size):
    rng = np.random.default_rng([num_kernels, size])
    weights = weights_with(num_kernels, size)
    return balls_and_bins.draw(rng, weights, THRESHOLD, DRAWS)


def pairs(drawn):
    """Share of draws with both kernels in; on the diagonal the inclusion probabilities."""
    numbers = drawn.astype(np.float64)
    return numbers.T @ numbers / len(drawn)


def assert_near(share, probability, draws=DRAWS):
    spread = np.sqrt(probability * (1 - probability) / draws)
    # the second term covers the Poisson tail of probabilities near 0 and 1
    assert (np.abs(share - probability) <= SIGMAS * spread + 20 / draws).all()


def law(num_kernels, size):
    """Inclusion probabilities of all pairs, and those of the subset's size."""
    p, rate = weights_with(num_kernels, size), size / num_kernels
    both = rate * (p[:, None] + p[None, :]) + rate**2 * (1 - p[:, None] - p[None, :])
    np.fill_diagonal(both, p + (1 - p) * rate)
    sizes = np.zeros(num_kernels + 1)
    sizes[1:] = stats.binom.pmf(np.arange(num_kernels), num_kernels - 1, rate)
    return both, sizes


def test_collection_is_the_papers():
    """Each kernel lies in exactly J distinct bins; K for P = 17 gives at most 34 of them."""
    rng = np.random.default_rng(0)
    for num_kernels in (4, 6, 17):
        for size in range(1, num_kernels + 1):
            (tossed,) = balls_and_bins.collection(rng, num_kernels, size)
            occurrences, bins = balls_and_bins.collection_size(num_kernels, size)
            assert tossed.shape == (num_kernels, bins)
            assert (tossed.sum(axis=1) == occurrences).all()
            assert occurrences * num_kernels == bins * size
            assert bins == min(math.comb(num_kernels, size), 2 * num_kernels)


@pytest.mark.parametrize("subsets_of", [subsets, literal_subsets], ids=["short cut", "literal"])
@pytest.mark.parametrize(("num_kernels", "size"), CASES)
def test_subsets_have_the_exact_law(subsets_of, num_kernels, size):
    drawn = subsets_of(num_kernels, size)
    assert drawn.shape == (DRAWS, num_kernels)
    assert drawn.dtype == bool
    assert balls_and_bins.subset_size(weights_with(num_kernels, size), THRESHOLD) == size
    both, sizes = law(num_kernels, size)
    assert drawn.any(axis=1).all(), "no subset is empty"
    assert_near(pairs(drawn), both)
    counts = np.bincount(drawn.sum(axis=1), minlength=num_kernels + 1)
    # sizes that are expected less than 10 times are put together
    rare = sizes * DRAWS < 10
    expected = np.append(sizes[~rare], sizes[rare].sum()) * DRAWS
    found = np.append(counts[~rare], counts[rare].sum())
    if expected[-1] < 10:
        assert found[-1] <= 60
        expected, found = expected[:-1], found[:-1]
    if len(found) > 1:
        statistic = ((found - expected) ** 2 / expected).sum()
        assert stats.chi2.sf(statistic, len(found) - 1) > LEVEL


def test_three_kernels_at_once():
    """The law of whole subsets, not of pairs alone: all 64 subsets of 6 kernels."""
    num_kernels, size = 6, 3
    p, rate = weights_with(num_kernels, size), size / num_kernels
    codes = 2 ** np.arange(num_kernels)
    members = (np.arange(64)[:, None] & codes) > 0
    count = members.sum(axis=1)
    # any member may be the one drawn by its weight, the others joined
    probability = (members @ p) * rate ** (count - 1.0) * (1 - rate) ** (num_kernels - count)
    assert probability.sum() == pytest.approx(1)
    assert probability[0] == 0
    for drawn in (subsets(num_kernels, size), literal_subsets(num_kernels, size)):
        share = np.bincount(drawn @ codes, minlength=64) / DRAWS
        assert_near(share, probability)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_threshold_sets_the_number(threshold):
    """(23): K counts the weights above the threshold times the largest, strictly."""
    weights = np.array([1.0, 0.9, 0.31, 0.3, 0.2])
    selection = AdaptiveKernelSelection(threshold)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(7), DRAWS)
        drawn = np.asarray(drawn_by(selection, jnp.log(jnp.asarray(weights)), keys))
    p = weights / weights.sum()
    rate = np.sum(weights > threshold) / 5
    assert_near(drawn.mean(axis=0), p + (1 - p) * rate)


@pytest.mark.parametrize("share", [-0.1, 1.5, np.nan, "some", [0.1, 0.2]])
def test_bad_shares_are_named(share):
    with pytest.raises(ValueError, match="AdaptiveKernelSelection: threshold must be"):
        AdaptiveKernelSelection(share)
    with pytest.raises(ValueError, match="Sampled: smoothing must be"):
        Sampled(share)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_weights_far_apart(dtype):
    """Weights whose logarithms differ by hundreds: the best one is always in, nothing is NaN."""
    with jax.enable_x64(True):
        log_weights = jnp.array([-800.0, 0.0, -90.0, -1e4], dtype)
        keys = jax.random.split(jax.random.key(1), 2000)
        drawn = np.asarray(drawn_by(AdaptiveKernelSelection(0.8), log_weights, keys))
    assert drawn[:, 1].all()
    assert_near(drawn[:, [0, 2, 3]].mean(axis=0), np.full(3, 0.25), draws=2000)


def test_a_subset_speaks_from_one_label_to_the_next():
    """Before the first label all do; without a label nothing is drawn."""
    selection = AdaptiveKernelSelection(0.8)
    log_weights = jnp.log(jnp.asarray(weights_with(6, 2), jnp.float32))
    state = selection.init(6)
    assert selection.active(state).tolist() == [True] * 6
    update = jax.jit(selection.update)
    subsets_met = set()
    for t in range(20):
        noise = selection.noise(jax.random.key(t), 6, jnp.float32)
        kept = update(state, log_weights, noise, False)
        np.testing.assert_array_equal(kept.selected, state.selected)
        state = update(state, log_weights, noise, True)
        drawn = selection.draw(log_weights, noise)
        np.testing.assert_array_equal(selection.active(state), drawn)
        subsets_met.add(tuple(drawn.tolist()))
    assert len(subsets_met) > 5
    assert selection.probabilities(state, log_weights) is None
    assert not selection.random


def test_all_speak_and_learn():
    for selection in (All(), Sampled(0.5)):
        state = selection.init(4)
        assert selection.active(state) is None
        noise = selection.noise(jax.random.key(0), 4, jnp.float32)
        after = selection.update(state, jnp.zeros(4), noise, jnp.asarray(True))
        assert jax.tree.leaves((state, noise, after)) == []


# --- which kernels learn -------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.001, 0.25, 1.0])
def test_probabilities_of_learning(smoothing, x64):
    """(1 - δ) w / max w + δ, whatever the weights are divided by."""
    weights = np.array([0.2, 1e-9, 0.5, 0.25])
    rule = Sampled(smoothing)
    expected = (1 - smoothing) * weights / 0.5 + smoothing
    for factor in (1.0, 7.0, 1e-200):
        got = np.asarray(rule.probabilities((), jnp.log(jnp.asarray(factor * weights))))
        np.testing.assert_allclose(got, expected, rtol=1e-9)
        assert got.max() <= 1


def test_probabilities_of_learning_with_weights_far_apart():
    got = Sampled(0.125).probabilities((), jnp.array([-1e30, 0.0, -90.0], jnp.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [0.125, 1.0, 0.125])


@pytest.mark.parametrize("smoothing", [0.0, 0.001, 0.137, 1.0])
def test_those_drawn_are_combined(smoothing):
    """With their probabilities, by the numbers that decide who learns; the best one always is."""
    log_weights = jnp.log(jnp.array([0.2, 0.5, 0.25, 1e-6, 0.5], jnp.float32))
    chance = jnp.asarray(np.random.default_rng(0).random((DRAWS, 5)), jnp.float32)
    chance = chance.at[:20].set(np.nextafter(np.float32(1), np.float32(0)))
    found = {}
    for sampled in ("update", "combination", "both"):
        rule = Sampled(smoothing, sampled=sampled)
        assert rule.random
        assert rule.active(rule.init(5)) is None
        combined = jax.vmap(rule.combined, in_axes=(None, None, 0))
        found[sampled] = combined((), log_weights, chance), rule.probabilities((), log_weights)
    assert found["update"][0] is None
    assert found["combination"][1] is None
    p = found["both"][1]
    np.testing.assert_array_equal(p, found["update"][1])
    mask = np.asarray(found["both"][0])
    np.testing.assert_array_equal(mask, found["combination"][0])
    assert mask[:, [1, 4]].all()
    drawn = np.asarray(chance) < np.asarray(p)
    np.testing.assert_array_equal(mask[:, [0, 2, 3]], drawn[:, [0, 2, 3]])
    assert_near(mask.mean(axis=0), np.asarray(p, np.float64))


def test_a_model_of_no_weight_is_never_drawn():
    """Its probability is 0 where nothing is smoothed, and uniform numbers may be 0 themselves."""
    combined = Sampled(0.0, sampled="both").combined((), jnp.array([0.0, -1e30]), jnp.zeros(2))
    np.testing.assert_array_equal(combined, [True, False])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_the_best_are_combined_where_a_number_rounds_up_to_1(dtype):
    logs = jnp.asarray([0.0, -3.0, 0.0], dtype)
    combined = Sampled(0.1, sampled="both").combined((), logs, jnp.ones(3, dtype))
    np.testing.assert_array_equal(combined, [True, False, True])


def test_what_is_sampled_is_one_of_three():
    with pytest.raises(ValueError, match="Sampled: sampled must be"):
        Sampled(sampled="prediction")


def test_all_kernels_learn_always():
    rule = All()
    assert rule.probabilities((), jnp.zeros(3)) is None
    assert not rule.random
    assert Sampled().random
    assert not Sampled().judge_sampled
