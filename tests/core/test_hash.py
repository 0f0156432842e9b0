"""Random numbers by a hash: plain integers, and that they look random over 10^7 of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxmkl._hash import hashed, seed_of, uniform_of
from tests.oracles import hash as oracle

MANY = 10**7


def test_is_a_loop_over_plain_integers():
    seeds = np.array([0, 1, 7, 2**31, 2**32 - 1], np.uint32)
    words = np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32)
    ours = jax.jit(hashed)(seeds[:, None], 3, words[None])
    wanted = [[oracle.hashed(seed, 3, word) for word in words] for seed in seeds]
    assert ours.dtype == jnp.uint32
    np.testing.assert_array_equal(ours, wanted)
    values = uniform_of(ours)
    assert values.dtype == jnp.float32
    np.testing.assert_array_equal(values, [[oracle.uniform(b) for b in row] for row in wanted])


def test_uniform_numbers_are_the_same_in_every_dtype(x64):
    bits = hashed(jnp.uint32(5), jnp.arange(100))
    np.testing.assert_array_equal(uniform_of(bits, jnp.float64), uniform_of(bits))
    ends = uniform_of(jnp.asarray([0, 2**32 - 1], jnp.uint32))
    assert float(ends[0]) == 0
    assert float(ends[1]) == 1 - 2**-24


def test_keys_make_seeds_that_differ():
    keys = jax.random.split(jax.random.key(0), 1000)
    seeds = jax.jit(jax.vmap(seed_of))(keys)
    assert len(np.unique(seeds)) == 1000
    assert seed_of(keys[3]) == seeds[3]
    wanted = oracle.hashed(0, *np.asarray(jax.random.key_data(keys[3])))
    assert int(seeds[3]) == wanted


def counters(kind):
    """10^7 numbers in an order in which neighbours are close by their counters."""
    if kind == "words":
        return hashed(jnp.uint32(3), jnp.arange(MANY))
    if kind == "seeds":
        return hashed(jnp.arange(MANY).astype(jnp.uint32), 5)
    rows, columns = jnp.arange(2500)[:, None], jnp.arange(4000)[None]
    both = hashed(jnp.uint32(1), rows, columns)
    return (both if kind == "the second of two words" else both.T).reshape(-1)


def chi_squared(numbers, cells):
    """The probability of counts that are as uneven as those of so many cells."""
    return stats.chisquare(np.bincount(numbers, minlength=cells)).pvalue


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["words", "seeds", "the first of two words", "the second of two words"]
)
def test_numbers_are_uniform_and_neighbours_independent(kind):
    bits = np.asarray(jax.jit(counters, static_argnums=0)(kind))
    found = []
    for shift in (0, 8, 16, 24):
        found.append(chi_squared(bits >> shift & 255, 256))
        # pairs of neighbours, of their lowest, middle and highest eight bits
        bytes_ = (bits >> shift & 255).astype(np.int64)
        found.append(chi_squared(bytes_[:-1] << 8 | bytes_[1:], 65536))
    values = bits / 2**32 - 0.5
    for lag in (1, 2, 3, 16, 4000):
        correlation = 12 * np.mean(values[:-lag] * values[lag:])
        found.append(2 * stats.norm.sf(abs(correlation) * np.sqrt(MANY - lag)))
    assert min(found) > 1e-3 / len(found)


def test_a_bit_of_a_word_changes_half_of_the_bits():
    words = np.arange(5000, dtype=np.uint32)
    before = hashed(jnp.uint32(9), words)
    for bit in range(32):
        changed = np.bitwise_count(np.asarray(before ^ hashed(jnp.uint32(9), words ^ 2**bit)))
        assert abs(changed.mean() - 16) < 5 * np.sqrt(8 / 5000)
