"""The reservoir against a plain loop, and the law of what stays."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxmkl.reservoir import Renewal, Reservoir, is_doubling
from tests.common.trees import plain
from tests.oracles.hash import hashed, uniform

SMALL_PROGRAMS = True


@jax.jit
def filled_by(reservoir, key, y, learns=None):
    """The states after a stream whose inputs are its labels, and after each round."""
    learns = jnp.ones(len(y), bool) if learns is None else learns
    state = reservoir.init(key, 2, jnp.float32)

    draws = reservoir.draws(state, jnp.arange(len(y)))

    def step(state, example):
        draws, label, learned = example
        x = jnp.stack([label, -label])
        state = reservoir.update(state, x, label, draws, learned)
        return state, state

    return jax.lax.scan(step, state, (draws, jnp.asarray(y, jnp.float32), learns))


filled = jax.jit(Reservoir.filled)


def numbers_of_rounds(key):
    """Two numbers from [0, 1) for each of 14 rounds."""
    seed = hashed(0, *np.asarray(jax.random.key_data(key)))
    return [[uniform(hashed(seed, t, i)) for i in range(2)] for t in range(14)]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "latest"), [(1, 0), (4, 0), (5, 2), (3, 3)])
@given(seed=st.integers(0, 99), labelled=st.lists(st.booleans(), min_size=14, max_size=14))
def test_holds_what_a_plain_loop_holds(size, latest, seed, labelled):
    key = jax.random.key(seed)
    y = np.arange(1.0, 15.0, dtype=np.float32)
    reservoir = Reservoir(size, latest)
    state, _ = filled_by(reservoir, key, y, np.array(labelled))

    room, ring, sample, left = size - latest, [], [], 0
    drawn = np.float32(numbers_of_rounds(key))
    for label, learned, (chance, which) in zip(y, labelled, drawn, strict=True):
        if not learned:
            continue
        ring.append(label)
        if len(ring) <= latest:
            continue
        offered, n = ring.pop(0), left
        left += 1
        if len(sample) < room:
            sample.append(offered)
        elif room and chance * np.float32(n + 1) < room:
            sample[int(which * np.float32(room))] = offered

    held, inputs = np.asarray(state.y), np.asarray(state.X)
    np.testing.assert_array_equal(held[latest : latest + len(sample)], sample)
    assert set(held[: len(ring)] if latest else ring) == set(ring)
    places_filled = np.asarray(filled(reservoir, state))
    assert places_filled.sum() == len(ring) + len(sample) == min(size, sum(labelled))
    np.testing.assert_array_equal(held != 0, places_filled)
    np.testing.assert_array_equal(inputs, np.stack([held, -held], axis=1))
    assert state.num_examples == sum(labelled)


@pytest.mark.slow
@pytest.mark.parametrize("latest", [0, 4])
def test_each_example_stays_with_the_same_probability(latest):
    """N = 10 of T = 40 examples stay; the latest always, the others U / (T - latest) each."""
    reservoir, T, S = Reservoir(10, latest), 40, 4000
    y = np.arange(1.0, T + 1)
    keys = jax.random.split(jax.random.key(1), S)
    states, _ = jax.jit(jax.vmap(lambda key: filled_by(reservoir, key, y)))(keys)
    counts = np.bincount(np.asarray(states.y).astype(int).ravel(), minlength=T + 1)[1:]
    old = T - latest
    p = (10 - latest) / old
    error = np.sqrt(S * p * (1 - p))
    assert np.abs(counts[:old] - S * p).max() < 4 * error
    np.testing.assert_array_equal(counts[old:], S)


def merged(reservoir, key, lengths):
    """The labels that stay of shards that number theirs from 10,000, 20,000, ... on."""
    rounds = np.arange(max(lengths))
    shards = [
        filled_by(reservoir, key, rounds + 10_000.0 * (s + 1), rounds < n)[0]
        for s, n in enumerate(lengths)
    ]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)
    return shards, reservoir.merged(states, None)


@pytest.mark.slow
def test_merged_shards_are_a_sample_of_all():
    """As many of each as it has examples, but for chance, each once, from its own sample."""
    reservoir, lengths = Reservoir(40), (10, 60, 330)
    expected, found = 40 * np.array(lengths) / 400, []
    for seed in range(30):
        shards, state = merged(reservoir, jax.random.key(seed), lengths)
        labels = np.asarray(state.y)
        assert int(state.num_examples) == 400
        assert len(set(labels)) == 40
        assert set(labels) <= {float(y) for shard in shards for y in shard.y}
        assert np.array_equal(state.X, np.stack([labels, -labels], axis=1))
        found.append(np.bincount((labels // 10_000).astype(int), minlength=4)[1:])
    # of a sample without replacement: the error of the mean of 30 numbers
    spread = np.sqrt(expected * (1 - expected / 40) * 360 / 399 / 30)
    assert (np.abs(np.mean(found, axis=0) - expected) < 4 * spread).all()


def test_merged_shards_that_fit_are_all_there():
    reservoir = Reservoir(40)
    shards, state = merged(reservoir, jax.random.key(0), (3, 0, 20))
    known = np.concatenate([shards[0].y[:3], shards[2].y[:20]])
    assert sorted(np.asarray(state.y[:23])) == sorted(known)
    assert int(reservoir.filled(state).sum()) == int(state.num_examples) == 23
    again = merged(reservoir, jax.random.key(0), (3, 0, 20))[1]
    assert np.array_equal(state.y, again.y)


def test_what_has_no_merged_sample_is_refused():
    states, _ = merged(Reservoir(8), jax.random.key(0), (3, 4))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    nothing = stacked._replace(num_examples=jnp.zeros(2, jnp.int32))
    assert int(Reservoir(8).merged(nothing, None).num_examples) == 0
    with pytest.raises(ValueError, match=r"latest of a reservoir must be 0: .*got 2"):
        Reservoir(8, latest=2).merged(stacked, None)
    with pytest.raises(ValueError, match="start must be of a state that has learned nothing"):
        Reservoir(8).merged(stacked, states[0])


def test_a_sample_of_a_memory_is_even_and_of_what_is_there():
    X = np.arange(1.0, 10.0, dtype=np.float32)[:, None]
    sample = jax.jit(Renewal.sample, static_argnums=1)
    for filled, size in itertools.product((0, 1, 3, 4, 5, 7, 9), (1, 4, 9, 12)):
        number = jnp.asarray(filled)
        found = sample(Renewal(X, X[:, 0], number, number, number, jax.random.key(0)), size)
        there = min(filled, size)
        assert (len(found.X), int(found.filled), int(found.known.sum())) == (size, there, there)
        places = np.asarray(found.y[:there]) - 1
        np.testing.assert_array_equal(found.X[:, 0], found.y)
        # each stands for as many of those there as the others, but for one
        gaps = np.diff(places, append=filled)
        assert not there or (places[0] == 0 and np.ptp(gaps) <= 1), (filled, size, places)


def test_a_round_without_a_label_changes_no_bit():
    reservoir = Reservoir(3, latest=1)
    state, states = filled_by(
        reservoir, jax.random.key(0), np.arange(1.0, 9.0), np.arange(8) % 2 == 0
    )
    for t in (1, 3, 5, 7):
        for leaf in jax.tree.leaves(plain(states)):
            np.testing.assert_array_equal(leaf[t - 1], leaf[t])
    assert state.num_examples == 4


def test_several_outputs_in_double_precision(x64):
    reservoir = Reservoir(4)
    x, y = np.arange(3.0), np.array([0.1, 0.2])

    @jax.jit
    def one_round(x, y):
        state = reservoir.init(jax.random.key(0), 3, jnp.float64, num_outputs=2)
        draws = reservoir.draws(state, jnp.arange(1))
        return reservoir.update(state, x, y, draws[0], True)

    state = one_round(x, y)
    assert state.X.dtype == state.y.dtype == jnp.float64
    np.testing.assert_array_equal(state.y[0], y)
    assert state.y.shape == (4, 2)


def test_the_latest_fit():
    with pytest.raises(ValueError, match="Reservoir: latest must be at most size = 3; got 4"):
        Reservoir(3, latest=4)


def test_doublings():
    chosen = np.flatnonzero(np.asarray(is_doubling(jnp.arange(5000), 250)))
    np.testing.assert_array_equal(chosen, [250, 500, 1000, 2000, 4000])
