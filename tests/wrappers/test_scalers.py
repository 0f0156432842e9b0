"""Online scaling against the moments and ranks of every prefix of a stream."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from jaxmkl import wrappers
from jaxmkl._checks import input_bound
from tests.common.trees import assert_equal

SMALL_PROGRAMS = True

NUM_EXAMPLES, NUM_INPUTS = 12, 2

# Few values, so that ties and constant beginnings are common.
columns = hnp.arrays(
    np.float64,
    (NUM_EXAMPLES, NUM_INPUTS),
    elements=st.one_of(st.sampled_from([0.0, 1.0, -2.5, 64.0]), st.floats(-100, 100, width=16)),
)
SCALERS = {
    "moments": wrappers.RunningMoments(),
    "moments, all believed": wrappers.RunningMoments(None),
    "ranks": wrappers.RunningRanks(capacity=5),
}


@jax.jit
def run(scaler, X, key):
    """The last state, and scaled rows (T, D)."""

    def body(state, x):
        z, change = scaler.predict(state, x)
        return scaler.update(state, change, True), z

    return jax.lax.scan(body, scaler.init(key, X.shape[1], X.dtype), X)


def scaled_by(scaler, X, seed=0):
    """Scaled rows, in double precision."""
    with jax.enable_x64(True):
        return np.asarray(run(scaler, np.asarray(X, np.float64), jax.random.key(seed))[1])


def standardized_by_prefix(X):
    Z = np.zeros_like(X)
    for t in range(len(X)):
        seen = X[: t + 1]
        varied = np.ptp(seen, axis=0) > 0
        deviation = np.where(varied, np.std(seen, axis=0), 1)
        Z[t] = np.where(varied, (X[t] - np.mean(seen, axis=0)) / deviation, 0)
    return Z


def ranks_by_prefix(X):
    """Φ^-1((r - 1/2) / n), with r the middle rank of the last of n values."""
    Z = np.zeros_like(X)
    for t in range(len(X)):
        rank = stats.rankdata(X[: t + 1], axis=0)[-1]
        Z[t] = stats.norm.ppf((rank - 0.5) / (t + 1))
    return Z


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["moments", "ranks"])
def test_types_are_kept(name):
    X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    with jax.enable_x64(True):
        state, Z = run(SCALERS[name], X, jax.random.key(0))
        start = SCALERS[name].init(jax.random.key(0), 3, jnp.dtype("float32"))
        assert Z.dtype == np.float32
        for before, after in zip(jax.tree.leaves(start), jax.tree.leaves(state), strict=True):
            assert (before.shape, before.dtype) == (after.shape, after.dtype)
            assert not before.aval.weak_type
        assert int(state.num_seen) == 9
        assert state.num_seen.dtype == jnp.int32


@pytest.mark.parametrize("name", SCALERS)
def test_constant_columns_give_zero(name):
    X = np.tile([0.1, -3e7, 0.0], (20, 1)).astype(np.float32)
    X[:, 2] = np.arange(20)
    _, Z = run(SCALERS[name], X, jax.random.key(0))
    np.testing.assert_array_equal(Z[:, :2], 0)
    np.testing.assert_array_equal(Z[0], 0)
    assert (np.asarray(Z[1:, 2]) > 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALERS)
def test_what_is_not_seen_leaves_no_trace(name):
    scaler = SCALERS[name]
    X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    state, _ = run(scaler, X, jax.random.key(0))
    z, change = scaler.predict(state, jnp.full(3, 100.0))
    assert (np.asarray(z) > 1).all()
    for unseen in (False, np.False_, jnp.asarray(False)):
        assert_equal(scaler.update(state, change, unseen), state)
    assert int(scaler.update(state, change, jnp.asarray(True)).num_seen) == 9


# --- moments -------------------------------------------------------------------------------------


@given(columns)
def test_moments_are_those_of_the_prefix(X):
    Z = scaled_by(wrappers.RunningMoments(), X)
    np.testing.assert_allclose(Z, standardized_by_prefix(X), rtol=1e-9, atol=1e-9)
    # the bound is attained by a first deviation, so rounding may pass it
    assert (np.abs(Z) <= np.sqrt(np.arange(NUM_EXAMPLES))[:, None] * (1 + 1e-12)).all()


def test_moments_of_a_far_column_in_single_precision():
    """The mean is 10⁴ deviations from zero: a difference of sums of squares would be noise."""
    X = (1e4 + np.random.default_rng(0).normal(size=(2000, 1))).astype(np.float32)
    _, Z = run(wrappers.RunningMoments(), X, jax.random.key(0))
    expected = standardized_by_prefix(X.astype(np.float64))
    np.testing.assert_allclose(Z, expected, atol=0.02)


def test_moments_survive_the_largest_inputs():
    """The squares of some are at the end of single precision; their sum is beyond it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)).astype(np.float32)
    X[10::10, 0] = input_bound(np.float32) * np.array([1, -1, 0.5, 1, -1])
    _, Z = run(wrappers.RunningMoments(None), X, jax.random.key(0))
    expected = standardized_by_prefix(X.astype(np.float64))
    assert (np.abs(expected[10::10]) > 0.5).all()
    np.testing.assert_allclose(Z, expected, atol=1e-5)


# --- moments that one value does not spoil -------------------------------------------------------


def judged_by_prefix(X, clip):
    """A column at a time: the values that count, each with its weight."""
    Z = np.zeros_like(X)
    for column, said in enumerate(X.T):
        values, weights = np.zeros(0), np.zeros(0)

        def moments(values, weights):
            if not np.ptp(values):
                return values[0], 0.0
            mean = np.average(values, weights=weights)
            return mean, np.sqrt(np.average((values - mean) ** 2, weights=weights))

        for t, x in enumerate(said):
            mean, deviation = moments(values, weights) if t else (0.0, 0.0)
            if t >= 16 and deviation > 0:
                x = np.clip(x, mean - clip * deviation, mean + clip * deviation)
            values, weights, n = np.append(values, x), np.append(weights, 1.0), t + 1
            if n in (16, 32, 64, 128, 256, 512, 1024):
                last = values[-n // 2 :]
                if moments(values, weights)[1] > clip * last.std() > 0:
                    values, weights = last, np.full(n // 2, 2.0)
            mean, deviation = moments(values, weights)
            Z[t, column] = (x - mean) / deviation if deviation > 0 else 0.0
    return Z


def sparse(rng, shape, share):
    return np.where(rng.random(shape) < share, rng.lognormal(size=shape), 0.0)


def wild(rng, row):
    return np.where(np.arange(300)[:, None] == row, 1e9, rng.normal(size=(300, 3)))


STREAMS = {
    "dense": lambda rng: rng.normal(size=(300, 3)),
    "sparse": lambda rng: sparse(rng, (300, 3), 0.05),
    "wild at once": lambda rng: wild(rng, 0),
    "wild early": lambda rng: wild(rng, 7),
    "wild late": lambda rng: wild(rng, 90),
    "growing": lambda rng: rng.normal(size=(300, 3)) * 10.0 ** (np.arange(300)[:, None] // 100),
    "shrinking": lambda rng: rng.normal(size=(300, 3)) / 10.0 ** (np.arange(300)[:, None] // 40),
    "heavy tails": lambda rng: rng.standard_t(1, size=(300, 3)),
}


@pytest.mark.parametrize(("name", "clip"), [("dense", 10.0), *((name, 3.0) for name in STREAMS)])
def test_judging_moments_against_numpy(name, clip):
    X = STREAMS[name](np.random.default_rng(0))
    expected = judged_by_prefix(X, clip)
    apart = np.abs(expected - standardized_by_prefix(X)).max() > 0.1
    assert apart == (clip == 3 or name != "dense")
    found = scaled_by(wrappers.RunningMoments(clip), X)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_what_is_not_wild_is_believed_bit_for_bit():
    """Drifting by two hundredths of a deviation a row, too."""
    X = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    X = X + 0.02 * np.arange(500, dtype=np.float32)[:, None]
    believing, judging = (
        run(wrappers.RunningMoments(clip), X, jax.random.key(0)) for clip in (None, 10.0)
    )
    np.testing.assert_array_equal(judging[1], believing[1])
    assert_equal(judging[0].of_all, believing[0].of_all)


WILD = 1e15


@pytest.mark.parametrize("row", [0, 15, 16, 200])
def test_one_wild_row_is_healed(row):
    """Late it changes next to nothing; among the first it is forgotten."""
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    clean = np.asarray(run(wrappers.RunningMoments(), X, jax.random.key(0))[1])
    X[row] = WILD
    spoiled = np.asarray(run(wrappers.RunningMoments(None), X, jax.random.key(0))[1])
    judged = np.asarray(run(wrappers.RunningMoments(), X, jax.random.key(0))[1])
    assert np.abs(spoiled[300:]).max() < 0.1
    assert judged[300:].std() > 0.7
    if row >= 200:
        assert np.abs(judged[row]).max() < 10
        np.testing.assert_allclose(judged[row + 1 :], clean[row + 1 :], atol=1.0)
        assert judged[row + 1 :].std() > 0.8


def test_sparse_columns_are_learned_and_healed():
    """The first value in a column of zeros counts; if it was wild, it is forgotten later."""
    rng = np.random.default_rng(0)
    X = sparse(rng, (2000, 2), 0.03).astype(np.float32)
    X[:100] = 0
    clean = np.asarray(run(wrappers.RunningMoments(), X, jax.random.key(0))[1])
    first = int(np.flatnonzero(X[:, 0])[0])
    assert clean[first, 0] == pytest.approx(np.sqrt(first), rel=1e-5)
    X[100] = WILD
    healed = np.asarray(run(wrappers.RunningMoments(), X, jax.random.key(0))[1])
    assert np.abs(healed[101:128]).max() < 0.2
    np.testing.assert_allclose(healed[512:].std(axis=0), clean[512:].std(axis=0), rtol=0.5)


@pytest.mark.parametrize("grown", [100.0, 1e4, 0.01])
def test_a_scale_that_changes_is_followed(grown):
    """Within a tenth or two of the past if it grows, when n is a power of two if it shrinks."""
    X = np.random.default_rng(0).normal(size=(2500, 2)).astype(np.float32)
    X[1000:] *= grown
    judged, believed = (
        np.asarray(run(wrappers.RunningMoments(clip), X, jax.random.key(0))[1])
        for clip in (10.0, None)
    )
    assert np.abs(judged).max() <= 10.1
    later = slice(1200, None) if grown > 1 else slice(2048, None)
    assert (judged[later].std(axis=0) > 0.5).all()
    assert (judged[later].std(axis=0) < 3.0).all()
    if grown < 1:
        assert (believed[later].std(axis=0) < 0.05).all()


@pytest.mark.parametrize("clip", [1.0, np.nan, np.inf, "far", [3.0, 4.0]])
def test_a_clip_is_checked(clip):
    with pytest.raises(ValueError, match="RunningMoments: clip must be a finite number above 1"):
        wrappers.RunningMoments(clip)


# --- ranks ---------------------------------------------------------------------------------------


@given(columns)
def test_ranks_are_those_of_the_prefix_while_the_sample_holds_it(X):
    """The last rank is taken before its value would push another out."""
    Z = scaled_by(wrappers.RunningRanks(capacity=NUM_EXAMPLES - 1), X)
    np.testing.assert_allclose(Z, ranks_by_prefix(X), rtol=1e-9, atol=1e-12)


def test_ranks_in_single_precision():
    X = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    _, Z = run(wrappers.RunningRanks(), X, jax.random.key(0))
    assert wrappers.RunningRanks().capacity >= 400
    np.testing.assert_allclose(Z, ranks_by_prefix(X.astype(np.float64)), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_ranks_count_beyond_256_in_bfloat16():
    X = np.random.default_rng(0).integers(-64, 64, (400, 2))
    scaler, key = wrappers.RunningRanks(capacity=512), jax.random.key(0)
    found, wanted = (run(scaler, X.astype(dtype), key)[1] for dtype in ("bfloat16", "float32"))
    np.testing.assert_array_equal(found, wanted.astype("bfloat16"))


def test_ranks_do_not_change_under_monotone_transformations():
    """Also when the sample is full, and with ties."""
    X = np.random.default_rng(2).integers(-30, 30, size=(200, 2)).astype(np.float64)
    scaler = wrappers.RunningRanks(capacity=16)
    for transform in (lambda x: 2.0**x, np.arctan):
        np.testing.assert_array_equal(scaled_by(scaler, transform(X)), scaled_by(scaler, X))
    np.testing.assert_allclose(scaled_by(scaler, -X), -scaled_by(scaler, X), atol=1e-9)


@given(columns)
def test_ranks_against_one_sampled_value(X):
    """Capacity 1: below, equal or above; nothing to compare the first with."""
    Z = scaled_by(wrappers.RunningRanks(capacity=1), X)
    np.testing.assert_array_equal(Z[0], 0)
    np.testing.assert_array_equal(Z[1] > 0, X[1] > X[0])
    np.testing.assert_array_equal(Z[1] == 0, X[1] == X[0])
    quartile = stats.norm.ppf(0.75)
    distance = np.abs(Z[..., None] - [-quartile, 0, quartile]).min(axis=-1)
    np.testing.assert_allclose(distance, 0, atol=1e-9)


SEEDS, LENGTH, CAPACITY = 5000, 24, 5
# Two-sided tail of a normal variable at 6 standard errors is 2e-9; there are 300 comparisons.
SIGMAS = 6.0


@pytest.fixture(scope="module")
def samples():
    """Samples (SEEDS, CAPACITY, 2) of a stream of rows (t, -t)."""
    t = np.arange(LENGTH, dtype=np.float32)
    X = np.stack([t, -t], axis=1)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    scaler = wrappers.RunningRanks(capacity=CAPACITY)
    states, _ = jax.jit(jax.vmap(lambda key: run(scaler, X, key)))(keys)
    return np.asarray(states.sample)


def test_sample_is_of_distinct_whole_rows(samples):
    np.testing.assert_array_equal(samples[..., 1], -samples[..., 0])
    rows = np.sort(samples[..., 0], axis=1)
    assert (np.diff(rows, axis=1) > 0).all()
    assert np.isin(rows, np.arange(LENGTH)).all()


def test_sample_is_uniform(samples):
    """Every row with probability C/T, every pair with that of a draw without replacement."""
    chosen = (samples[..., :1] == np.arange(LENGTH)).any(axis=1).astype(np.float64)
    share = chosen.T @ chosen / SEEDS
    one = CAPACITY / LENGTH
    expected = np.full((LENGTH, LENGTH), one * (CAPACITY - 1) / (LENGTH - 1))
    np.fill_diagonal(expected, one)
    errors = np.sqrt(expected * (1 - expected) / SEEDS)
    assert (np.abs(share - expected) <= SIGMAS * errors).all()


def test_error_of_ranks_is_within_its_bound():
    """At most a share ε of the samples misses the rank by more than sqrt(log(2/ε)/(2C))."""
    capacity, share = 32, 0.05
    X = np.random.default_rng(3).permutation(300).astype(np.float32)[:, None]
    keys = jax.random.split(jax.random.key(1), 400)
    scaler = wrappers.RunningRanks(capacity=capacity)
    _, Z = jax.jit(jax.vmap(lambda key: run(scaler, X, key)))(keys)
    found = stats.norm.cdf(np.asarray(Z)[:, -1, 0])
    rank = (stats.rankdata(X)[-1] - 0.5) / len(X)
    bound = np.sqrt(np.log(2 / share) / (2 * capacity))
    assert 0 < np.mean(np.abs(found - rank) > bound / 4) < 1
    assert np.mean(np.abs(found - rank) > bound) <= share


@pytest.mark.parametrize("capacity", [0, 2.5, "8"])
def test_capacity_is_checked(capacity):
    wanted = f"RunningRanks: capacity must be an integer of at least 1; got {capacity!r}"
    with pytest.raises(ValueError, match=wanted):
        wrappers.RunningRanks(capacity)


@pytest.mark.parametrize(
    "ranges", [None, (0, 1), ((0, 1.5),), ((1, 1),), ((-1, 1),), (("a", "b"),)]
)
def test_ranges_that_are_left_unchanged_are_checked(ranges):
    with pytest.raises(
        ValueError, match=r"AllBut: ranges must be pairs \(first, end\) of integer"
    ):
        wrappers.AllBut(wrappers.RunningMoments(), ranges)


def test_ranges_beyond_the_inputs_are_refused():
    scaler = wrappers.AllBut(wrappers.RunningMoments(), ((1, np.int64(3)),))
    scaler.init(jax.random.key(0), 3, np.float32)
    with pytest.raises(ValueError, match="AllBut: ranges must be within the 2 inputs; got"):
        scaler.init(jax.random.key(0), 2, np.float32)
