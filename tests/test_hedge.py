"""Hedge against exponential weights computed in NumPy, and under losses that break naive ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxmkl import hedge

NUM_ROUNDS, NUM_EXPERTS = 12, 5

losses_of_rounds = hnp.arrays(
    np.float64, (NUM_ROUNDS, NUM_EXPERTS), elements=st.floats(0, 1e3, allow_subnormal=False)
)
rates = st.floats(0, 10, allow_subnormal=False)


def exponential_weights(total_losses, rate):
    """w = exp(-rate · total loss) / sum, with the smallest total in the exponent's origin."""
    unnormalised = np.exp(-rate * (total_losses - total_losses.min(axis=-1, keepdims=True)))
    return unnormalised / unnormalised.sum(axis=-1, keepdims=True)


@jax.jit
def run(losses, rate):
    """Log-weights (T, E) after each round."""

    def body(log_weights, loss):
        log_weights = hedge.update(log_weights, loss, rate)
        return log_weights, log_weights

    return jax.lax.scan(body, hedge.init(losses.shape[1], losses.dtype), losses)[1]


@given(losses_of_rounds, rates)
def test_weights_are_exponential_weights(losses, rate):
    with jax.enable_x64(True):
        log_weights = run(losses, rate)
        weights = hedge.weights(log_weights)
        largest = np.max(np.asarray(log_weights), axis=1)
    expected = exponential_weights(losses.cumsum(axis=0), rate)
    # rate · total loss is up to 1.2e5: its rounding is the error of an exponent
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(largest, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_are_kept(dtype):
    with jax.enable_x64(True):
        log_weights = hedge.init(3, jnp.dtype(dtype))
        np.testing.assert_array_equal(hedge.weights(log_weights), np.full(3, 1 / 3, dtype))
        losses = np.arange(3).astype(dtype)
        updated = hedge.update(log_weights, losses, jnp.asarray(0.5, dtype))
        weights = hedge.weights(updated)
        chosen = hedge.restricted(updated, np.array([False, True, True]))
    for array in (log_weights, updated, weights, chosen):
        assert array.dtype == dtype
        assert array.shape == (3,)
    expected = exponential_weights(np.arange(3.0), 0.5)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@given(losses_of_rounds, rates, hnp.arrays(np.float64, NUM_ROUNDS, elements=st.floats(0, 1e3)))
def test_a_loss_common_to_all_changes_nothing(losses, rate, shifts):
    with jax.enable_x64(True):
        plain = hedge.weights(run(losses, rate))
        shifted = hedge.weights(run(losses + shifts[:, None], rate))
    np.testing.assert_allclose(shifted, plain, rtol=1e-8, atol=1e-300)


@given(losses_of_rounds, rates, hnp.arrays(bool, NUM_EXPERTS))
def test_restricted_weights_are_renormalised(losses, rate, subset):
    """Also where all of the subset is so bad that its plain weights underflow."""
    subset[2] = True
    total = losses.sum(axis=0)
    with jax.enable_x64(True):
        restricted = np.asarray(hedge.restricted(run(losses, rate)[-1], subset))
    expected = np.zeros(NUM_EXPERTS)
    expected[subset] = exponential_weights(total[subset], rate)
    np.testing.assert_allclose(restricted, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("bad", [np.inf, np.nan, np.finfo(np.float32).max])
def test_an_undefined_loss_costs_all_weight_and_no_more(bad):
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=(30, 4)).astype(np.float32)
    losses[10, 1] = bad
    log_weights = run(losses, jnp.float32(2.0))
    weights = np.asarray(hedge.weights(log_weights))
    assert np.isfinite(log_weights).all()
    assert (weights[:10, 1] > 0).all()
    np.testing.assert_array_equal(weights[10:, 1], 0)
    others = [0, 2, 3]
    expected = exponential_weights(losses[:, others].astype(float).cumsum(axis=0), 2.0)
    np.testing.assert_allclose(weights[10:, others], expected[10:], rtol=1e-4)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_all_undefined_at_once_leaves_weights(bad):
    losses = np.full((3, 4), bad, np.float32)
    weights = hedge.weights(run(losses, jnp.float32(1.0)))
    np.testing.assert_allclose(weights, 0.25, rtol=1e-6)


def test_infinite_loss_stays_harmless_in_a_subset():
    log_weights = hedge.update(hedge.init(3, jnp.float32), np.float32([0, np.inf, 1]), 1.0)
    subset = np.array([False, True, True])
    np.testing.assert_array_equal(hedge.restricted(log_weights, subset), [0, 0, 1])
    alone = hedge.restricted(log_weights, np.array([False, True, False]))
    np.testing.assert_array_equal(alone, [0, 1, 0])


def test_a_million_rounds_of_large_losses():
    """Two equal experts share all weight; a varying one and one slightly worse lose theirs."""

    @jax.jit
    def many(log_weights):
        def body(t, log_weights):
            wave = 1e6 * (1.5 + jnp.sin(t.astype(jnp.float32)))
            losses = jnp.stack([jnp.float32(1e6), jnp.float32(1e6), wave, jnp.float32(1e6 + 1)])
            return hedge.update(log_weights, losses, jnp.float32(1.0))

        return jax.lax.fori_loop(0, 1_000_000, body, log_weights)

    log_weights = many(hedge.init(4, jnp.float32))
    assert np.isfinite(log_weights).all()
    np.testing.assert_array_equal(hedge.weights(log_weights), [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(log_weights[:2], 0)
    # what the wave loses in all is 5e11, give or take a rounding in each round
    assert -6e11 < float(log_weights[2]) < -4e11
    np.testing.assert_allclose(log_weights[3], -1e6, rtol=0.1)


def test_derivative_by_the_rate():
    """dp/dη = -p (l - Σ p l), whatever shift keeps the log-weights centred."""
    losses = np.array([0.3, 1.2, 0.1, 2.0])

    def weights(rate):
        return hedge.weights(hedge.update(jnp.zeros(4), losses, rate))

    with jax.enable_x64(True):
        p, derivative = jax.jvp(weights, (0.7,), (1.0,))
    p = np.asarray(p)
    np.testing.assert_allclose(derivative, -p * (losses - p @ losses), rtol=1e-12)
