"""Combination and judging of kernels, by hand; weights that have underflowed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import hedge
from jaxmkl.combination import combined

LOG_WEIGHTS = np.log(np.array([0.5, 0.3, 0.2]))
ALL = np.array([True, True, True])


def test_values_and_votes(x64):
    f = jnp.array([-4.0, 0.0, 2.0])
    for make, q in (
        (jaxmkl.Uniform, np.full(3, 1 / 3)),
        (lambda output: jaxmkl.Hedge(0.1, output), np.array([0.5, 0.3, 0.2])),
    ):
        log_weights = jnp.asarray(LOG_WEIGHTS)
        np.testing.assert_allclose(make("value").weights(log_weights), q, rtol=1e-14)
        value = combined(make("value"), log_weights, f)
        np.testing.assert_allclose(value, -4 * q[0] + 2 * q[2], rtol=1e-14)
        # a value of 0 votes +1
        vote = combined(make("vote"), log_weights, f)
        np.testing.assert_allclose(vote, -q[0] + q[1] + q[2], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("cost", "loss", "costs"),
    [
        # y = -1: wrong, wrong at 0, right
        ("mistake", "hinge", [1.0, 1.0, 0.0]),
        ("loss", "hinge", [1.5, 1.0, 0.0]),
        ("loss", "squared", [2.25, 1.0, 1.0]),
    ],
)
def test_hedge_discounts_what_is_judged(cost, loss, costs, x64):
    f, y = jnp.array([0.5, 0.0, -2.0]), jnp.array(-1.0)
    rule = jaxmkl.Hedge(0.7, cost=cost)
    for judged in (ALL, np.array([True, False, True]), ~ALL):
        after = rule.judge(jnp.asarray(LOG_WEIGHTS), f, y, loss, jnp.asarray(judged))
        w = np.exp(LOG_WEIGHTS) * np.exp(-0.7 * np.array(costs) * judged)
        np.testing.assert_allclose(rule.weights(after), w / w.sum(), rtol=1e-12)
        assert float(jnp.max(after)) == 0


def test_uniform_judges_nothing():
    log_weights = jnp.zeros(3)
    after = jaxmkl.Uniform().judge(log_weights, jnp.ones(3), jnp.array(-1.0), "hinge", ALL)
    np.testing.assert_array_equal(after, log_weights)


@pytest.mark.parametrize("lost", [1e6, np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_without_weight_stays_silent(lost, dtype):
    """Its weight is 0 and not NaN, whatever its loss was, and it contributes nothing."""
    with jax.enable_x64(True):
        rule = jaxmkl.Hedge(1.0)
        log_weights = hedge.update(
            jnp.zeros(3, dtype), jnp.asarray([0.0, lost, 0.5], dtype), jnp.asarray(1.0, dtype)
        )
        q = np.asarray(rule.weights(log_weights))
        assert q.dtype == dtype
        assert q[1] == 0
        np.testing.assert_allclose(q.sum(), 1, rtol=1e-6)
        for f in (3e38, np.inf, np.nan):
            values = jnp.asarray([1.0, f, -1.0], dtype)
            got = float(combined(rule, log_weights, values))
            np.testing.assert_allclose(got, q[0] - q[2], rtol=1e-6)
        later = rule.judge(log_weights, values, jnp.asarray(1.0, dtype), "squared", ALL)
        assert np.isfinite(later).all()
        assert float(rule.weights(later)[1]) == 0


def test_one_is_drawn_by_its_weight(x64):
    """p = .8 q + .2 / 3 of q = .5, .3, .2: cumulative .46667, .77333, 1."""
    rule = jaxmkl.DrawOne(0.1, 0.2)
    log_weights = jnp.asarray(LOG_WEIGHTS)
    p = np.array([7, 4.6, 3.4]) / 15
    np.testing.assert_allclose(rule.weights(log_weights), p, rtol=1e-12)
    for number, wanted in ((0.0, 0), (0.466, 0), (0.467, 1), (0.773, 1), (0.774, 2), (1.0, 2)):
        # the other numbers say nothing
        drawn = rule.draw(log_weights, jnp.array([number, 0.0, 0.9]))
        np.testing.assert_array_equal(drawn, np.arange(3) == wanted)
        for output, said in (("value", [-4.0, 0.0, 2.0]), ("vote", [-1.0, 1.0, 1.0])):
            rule = jaxmkl.DrawOne(0.1, 0.2, output)
            f = jnp.array([-4.0, 0.0, 2.0])
            assert float(combined(rule, log_weights, f, drawn)) == said[wanted]


def test_the_one_drawn_is_judged_in_proportion(x64):
    """Only where it was wrong, or said nothing; by 1 / p."""
    rule = jaxmkl.DrawOne(0.7, 0.2)
    p = np.array([7, 4.6, 3.4]) / 15
    for label in (1.0, -1.0):
        for drawn, f in itertools.product(range(3), (-1.0, 0.0, 1.0)):
            after = rule.judge(
                jnp.asarray(LOG_WEIGHTS),
                jnp.full(3, f),
                jnp.asarray(label),
                "hinge",
                jnp.arange(3) == drawn,
            )
            w = np.exp(LOG_WEIGHTS)
            w[drawn] *= np.exp(-0.7 * (label * f <= 0) / p[drawn])
            wanted = 0.8 * w / w.sum() + 0.2 / 3
            np.testing.assert_allclose(rule.weights(after), wanted, rtol=1e-12)


def test_a_single_kernel_is_always_drawn():
    rule = jaxmkl.DrawOne(0.1)
    for number in (0.0, 0.5, 1.0):
        assert rule.draw(jnp.zeros(1), jnp.array([number])).tolist() == [True]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: jaxmkl.DrawOne(-0.1), "rate"),
        (lambda: jaxmkl.DrawOne(0.1, 0.0), "smoothing"),
        (lambda: jaxmkl.DrawOne(0.1, 1.5), "smoothing"),
        (lambda: jaxmkl.DrawOne(0.1, [0.1, 0.2]), "smoothing"),
        (lambda: jaxmkl.DrawOne(0.1, output="sum"), "output"),
        (lambda: jaxmkl.Uniform("sign"), "output"),
        (lambda: jaxmkl.Hedge(0.1, output="sum"), "output"),
        (lambda: jaxmkl.Hedge(0.1, cost="hinge"), "cost"),
        (lambda: jaxmkl.Hedge(-0.1), "rate"),
        (lambda: jaxmkl.Hedge(np.nan), "rate"),
        (lambda: jaxmkl.Hedge([0.1, 0.2]), "rate"),
    ],
)
def test_bad_arguments_are_named(make, wanted):
    with pytest.raises(ValueError, match=f"{wanted} must be"):
        make()
