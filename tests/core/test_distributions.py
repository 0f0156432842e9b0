"""Distributions: against scipy, numeric integration and draws."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import jaxmkl
from jaxmkl.distributions import StudentMixture, density_scores

SMALL_PROGRAMS = True
DEGREES = 3.0, 5.0, 10.0, 50.0
SCALES, WEIGHTS = np.array([0.3, 1.0, 2.0, 0.7]), np.array([0.1, 0.2, 0.3, 0.4])


log_prob, cdf, crps, quantile = (
    jax.jit(getattr(StudentMixture, name)) for name in ("log_prob", "cdf", "crps", "quantile")
)


def mixture(mean=0.7):
    return StudentMixture(mean, jnp.asarray(SCALES), jnp.asarray(WEIGHTS), DEGREES)


def density(z, mean=0.7):
    z = np.asarray(z)[..., None]
    return (stats.t.pdf((z - mean) / SCALES, DEGREES) / SCALES) @ WEIGHTS


def test_against_scipy(x64):
    y, found = np.linspace(-8.0, 9.0, 41), mixture()
    np.testing.assert_allclose(log_prob(found, y), np.log(density(y)), rtol=1e-12)
    below = stats.t.cdf((y[:, None] - 0.7) / SCALES, DEGREES) @ WEIGHTS
    np.testing.assert_allclose(cdf(found, y), below, rtol=1e-11)
    variance, deviation = jax.jit(lambda own: (own.variance, own.absolute_deviation))(found)
    np.testing.assert_allclose(variance, WEIGHTS @ (SCALES**2 * stats.t.var(DEGREES)))
    distance = [stats.t.expect(np.abs, (nu,)) for nu in DEGREES] * SCALES
    np.testing.assert_allclose(deviation, WEIGHTS @ distance, rtol=1e-6)
    np.testing.assert_allclose(quantile(found, below), y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("nu", [2.5, 3.0, 4.0, 11.0, 50.0])
@pytest.mark.parametrize(("precise", "rtol"), [(True, 1e-12), (False, 1e-5)])
def test_tails_are_exact_far_away(nu, precise, rtol):
    if nu == 2.5 and not precise:
        rtol = 1e-4  # of the incomplete beta function
    with jax.enable_x64(precise):
        one = StudentMixture(0.0, jnp.ones(1), jnp.ones(1), (nu,))
        z = np.append(0.0, np.logspace(-3.0, 3.0, 61)).astype(one.scales.dtype)
        wanted = stats.t.sf(z.astype(np.float64), nu)
        seen = wanted > 1e-30
        np.testing.assert_allclose(cdf(one, -z)[seen], wanted[seen], rtol=rtol)


def test_crps_against_integration(x64):
    """The integral of (F(z) - [z >= y])² over z."""
    for y in (0.7, -3.0, 20.0):

        def square(z, y=y):
            return (stats.t.cdf((z - 0.7) / SCALES, DEGREES) @ WEIGHTS - (z >= y)) ** 2

        ends = -np.inf, y, np.inf
        wanted = sum(
            integrate.quad(square, *pair, epsabs=1e-10, limit=200)[0]
            for pair in itertools.pairwise(ends)
        )
        np.testing.assert_allclose(crps(mixture(), y), wanted, rtol=1e-7)


def test_crps_of_one_part(x64):
    import scoringrules

    y = np.linspace(-4.0, 4.0, 9)
    one = StudentMixture(1.0, jnp.array([2.0]), jnp.array([1.0]), (5.0,))
    np.testing.assert_allclose(crps(one, y), scoringrules.crps_t(y, 5.0, 1.0, 2.0), rtol=1e-9)


@pytest.mark.slow
def test_samples():
    sample = jax.jit(StudentMixture.sample, static_argnums=2)
    draws = np.asarray(sample(mixture(), jax.random.key(0), (20_000,)), np.float64)
    assert stats.kstest(cdf(mixture(), draws), "uniform").pvalue > 0.01
    shape = jax.eval_shape(lambda own: own.sample(jax.random.key(1), (5,)), mixture(jnp.zeros(3)))
    assert shape.shape == (5, 3)


@pytest.mark.slow
def test_shapes_and_units():
    many = StudentMixture(
        jnp.zeros((6, 2)), jnp.ones((6, 2, 4)), jnp.full((6, 2, 4), 0.25), DEGREES
    )

    def everything(own, y):
        return own.log_prob(y), own.cdf(y), own.crps(y), own.variance, *own.interval(0.8)

    found = jax.eval_shape(everything, many, jnp.ones((6, 2)))
    assert [part.shape for part in found] == [(6, 2)] * 6
    own, y = mixture(jnp.zeros(()) + 0.7), np.linspace(-2.0, 2.0, 5, dtype=np.float32)
    moved = jax.jit(lambda own: own.in_units(jnp.asarray(3.0), -1.0))(own)
    np.testing.assert_allclose(cdf(moved, 3 * y - 1), cdf(own, y), rtol=1e-5)
    np.testing.assert_allclose(crps(moved, 3 * y - 1), 3 * crps(own, y), rtol=1e-4)
    variance = jax.jit(lambda own: own.variance)
    np.testing.assert_allclose(variance(moved), 9 * variance(own), rtol=1e-5)


@jax.jit
def inverted(share, mean, scale):
    """The probability below a quantile, and its derivative by the share times the density."""
    found = mixture().in_units(scale, mean)
    place, slope = jax.value_and_grad(found.quantile)(share)
    return found.cdf(place), slope * jnp.exp(found.log_prob(place))


@pytest.mark.slow
@given(st.floats(0.001, 0.999), st.floats(-3.0, 3.0), st.floats(0.01, 100.0))
def test_quantiles_are_inverse_and_have_derivatives(share, mean, scale):
    with jax.enable_x64(True):
        below, product = inverted(share, mean, scale)
        assert float(below) == pytest.approx(share, rel=1e-7)
        assert float(product) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.slow
def test_distributions_in_bfloat16():
    of_two = jax.tree.map(lambda part: jnp.asarray(part, jnp.bfloat16), mixture())
    y = jnp.linspace(-3.0, 4.0, 15).astype(jnp.bfloat16)
    below = cdf(of_two, y)
    assert below.dtype == quantile(of_two, below).dtype == jnp.bfloat16
    wanted = stats.t.cdf((np.float64(y)[:, None] - 0.7) / SCALES, DEGREES) @ WEIGHTS
    np.testing.assert_allclose(below, wanted, atol=0.01)
    np.testing.assert_allclose(quantile(of_two, below), y, atol=0.1)


def test_extremes_are_finite():
    """Scales from 1e-15 to 1e15, and labels as far."""
    y = np.float32([0.0, 1e15, -1e-15, -1e15, 1e-15])
    for scale in (1e-15, 1e15):
        scales, weights = np.full(4, scale, np.float32), np.full(4, 0.25, np.float32)
        found = StudentMixture(jnp.zeros(()), jnp.asarray(scales), jnp.asarray(weights), DEGREES)
        assert np.isfinite([log_prob(found, y), cdf(found, y), crps(found, y)]).all()
        assert np.isfinite(quantile(found, 1e-4))


def test_quantiles_at_the_ends(x64):
    shares = np.resize([0.0, 1.0, -0.5, 1.5, np.nan, 1e-30], 41)  # of a shape that is compiled
    *found, least = np.asarray(quantile(mixture(), shares))[:6]
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, np.nan, np.nan])
    assert np.isfinite(least)


@pytest.mark.slow
@pytest.mark.parametrize(
    "degrees",
    [(3.0, 4.0, 10.0, 50.0), pytest.param((2.5, 3.5, 9.5, 20.5), marks=pytest.mark.endless)],
)
def test_derivatives_at_the_location(x64, degrees):
    """A label that equals the prediction, and the median."""

    def at(method, mean, scales, place):
        return getattr(StudentMixture(mean, scales, jnp.asarray(WEIGHTS), degrees), method)(place)

    def slopes(method, place):
        own = jax.grad(partial(at, method), argnums=(0, 1, 2))
        return jax.jit(own)(0.7, jnp.asarray(SCALES), place)

    peak = np.exp(at("log_prob", 0.7, jnp.asarray(SCALES), 0.7))
    for method, place, wanted in [
        ("cdf", 0.7, (-peak, 0.0, peak)),
        ("quantile", 0.5, (1.0, 0.0, 1 / peak)),
    ]:
        for found, value in zip(slopes(method, place), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)
    by_mean, by_scales, by_label = slopes("crps", 0.7)
    assert by_mean == by_label == 0
    assert np.isfinite(by_scales).all()


@pytest.mark.slow
def test_second_derivatives_of_quantiles(x64):
    """By the share they are -p'/p³, with the density p; all are differences of first ones."""

    def of(given):
        return StudentMixture(given[0], given[1:3], given[3:5], (3.0, 10.0)).quantile(given[5])

    slopes = jax.jit(jax.grad(of))
    at = np.array([0.7, 0.5, 2.0, 0.3, 0.7, 0.9])
    found, steps = np.asarray(jax.jit(jax.hessian(of))(at)), 1e-5 * np.eye(6)
    wanted = np.array([slopes(at + step) - slopes(at - step) for step in steps]) / 2e-5
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    scales, weights, nu = at[1:3], at[3:5], np.array([3.0, 10.0])
    z = (np.asarray(jax.jit(of)(at)) - 0.7) / scales
    each = weights * stats.t.pdf(z, nu) / scales
    slope = -each * (nu + 1) * z / (nu + z**2) / scales
    np.testing.assert_allclose(found[5, 5], -slope.sum() / each.sum() ** 3, rtol=1e-9)


def test_errors():
    for degrees in (2.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"degrees must be finite numbers above 2"):
            StudentMixture(0.0, jnp.ones(1), jnp.ones(1), (degrees,))


@pytest.mark.endless
def test_a_scale_that_is_not_known_makes_all_unknown():
    mean, scales = np.float32([1.0, 2.0]), np.float32([[0.5, np.nan], [0.5, 2.0]])
    weights = np.float32([0.4, 0.6])

    def everything(mean, scales):
        one = StudentMixture(mean, scales, jnp.asarray(weights), degrees=(3, 10)).in_units(2.0)
        return {
            "variance": one.variance,
            "absolute_deviation": one.absolute_deviation,
            "log_prob": one.log_prob(1.5),
            "log_components": one.log_components(1.5).sum(axis=-1),
            "cdf": one.cdf(1.5),
            "quantile": one.quantile(0.3),
            "interval": one.interval(0.9)[0],
            "sample": one.sample(jax.random.key(0)),
            "crps": one.crps(1.5),
        }

    found = jax.jit(everything)(mean, scales)
    for name, value in found.items():
        assert np.isnan(value).tolist() == [True, False], name
    slopes = jax.jit(jax.jacrev(lambda mean: everything(mean, scales)))(mean)
    for name, slope in slopes.items():
        assert np.isfinite(slope[1:]).all(), name
        # a sum over all, of which the first is cut off
        assert np.isfinite(np.diag(slope)).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [DEGREES, pytest.param((3.0, 4.0), marks=pytest.mark.endless)])
def test_scores_of_numpy_are_those_of_the_methods(degrees, x64):
    draws = np.random.default_rng(0)
    mean, y = draws.normal(size=(2, 9))
    scales = np.exp(draws.normal(size=(9, len(degrees))))
    weights = draws.dirichlet(np.ones(len(degrees)), 9)
    found = density_scores(StudentMixture(mean, scales, weights, degrees), 7.0 + y, start=7.0)
    one = StudentMixture(*map(jnp.asarray, (mean, scales, weights)), degrees)
    np.testing.assert_allclose(found.log_score, log_prob(one, y), rtol=1e-12)
    np.testing.assert_allclose(found.pit, cdf(one, y), rtol=1e-11)
    np.testing.assert_allclose(found.crps, crps(one, y), rtol=1e-5)  # of half as many points
    np.testing.assert_allclose(found.high - 7.0, quantile(one, 0.95), rtol=1e-8)
    np.testing.assert_allclose(found.low - 7.0, quantile(one, 0.05), rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e20, 1e30])
def test_the_score_is_in_units_of_the_labels(unit):
    """Squares of these scales vanish or overflow in single precision."""
    scales, weights = jnp.array([0.5, 2.0]), jnp.array([0.9, 0.1])
    y, (one, other) = (
        np.array([-3.0, 0.0, 0.7], np.float32),
        (StudentMixture(0.0, scales * t, weights, degrees=(3, 10)) for t in (1.0, unit)),
    )
    np.testing.assert_allclose(crps(other, unit * y) / unit, crps(one, y), rtol=1e-5)


def test_what_is_no_probability_has_no_interval():
    one = StudentMixture(0.0, jnp.ones(1), jnp.ones(1), degrees=(3,))
    for coverage in (-1.0, -0.1, 1.1, np.nan):
        assert np.isnan(one.interval(coverage)).all()
    np.testing.assert_allclose(one.interval(0.0), 0.0, atol=1e-12)


def test_labels_to_score_may_be_a_list():
    one = StudentMixture(np.zeros(2), np.ones((2, 1)), np.ones((2, 1)), degrees=(3,))
    found = density_scores(one, [0, 1])
    np.testing.assert_allclose(found.pit, stats.t.cdf([0, 1], 3), rtol=1e-12)


def test_labels_without_bound_are_impossible():
    """In NumPy as in JAX; the largest finite label is not."""
    y = np.array([np.inf, -np.inf, 1e200, np.nan])
    one = StudentMixture(np.zeros(4), np.ones((4, 2)), np.full((4, 2), 0.5), degrees=(3, 10))
    found, single = density_scores(one, y), y.copy()
    single[2] = 1e30  # as far as single precision has numbers
    assert found.log_score[:2].tolist() == log_prob(one, single)[:2].tolist() == [-np.inf] * 2
    assert found.crps[:2].tolist() == crps(one, single)[:2].tolist() == [np.inf, np.inf]
    assert found.pit[:3].tolist() == cdf(one, single)[:3].tolist() == [1.0, 0.0, 1.0]
    assert np.isfinite(found.log_score[2])
    assert found.crps[2] == pytest.approx(1e200)
    assert np.isnan([found.log_score[3], found.crps[3], found.pit[3]]).all()


def single(t):
    return StudentMixture(t, jnp.full(2, t), jnp.full(2, 0.5), degrees=(3, 5))


ALONE = {
    "quantile": lambda t: single(t).quantile(0.1 * t),
    "interval": lambda t: single(t).interval(0.1 * t),
    "crps": lambda t: single(t).crps(0.1 * t),
    "alignment": lambda t: jaxmkl.kernels.kernel_alignment(
        jaxmkl.Gaussian(t), np.full((3, 1), t), np.ones(3)
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_loops_called_alone_are_compiled_once(name, compiled):
    ALONE[name](1.0)
    assert not compiled(lambda: ALONE[name](2.0))


@pytest.mark.slow
def test_infinite_labels_have_no_density_and_missing_ones_none_that_is_known():
    y = jnp.array([jnp.inf, -jnp.inf, jnp.nan, 1e30, 0.5])
    found = np.asarray(single(1.0).log_prob(y))
    np.testing.assert_array_equal(found[:2], -np.inf)
    assert np.isnan(found[2])
    assert np.isfinite(found[3:]).all()
    slopes = jax.vmap(jax.grad(single(1.0).log_prob))(y)
    assert np.isfinite(np.asarray(slopes)[[0, 1, 3, 4]]).all()


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1e3, 1e4])
def test_crps_of_scales_far_apart(x64, ratio):
    """Half the expected distance of two draws, by integration on a grid of logarithms."""
    scales, weights, nu = np.array([1.0, ratio]), np.array([0.99, 0.01]), (50.0, 3.0)
    grid = np.append(0.0, np.logspace(-8.0, 12.0, 40_001))
    tail = stats.t.sf(grid[:, None] / scales, nu) @ weights
    wanted = 2.0 * np.trapezoid(tail * (1.0 - tail), grid)
    one = StudentMixture(np.zeros(1), scales[None], weights[None], nu)
    far = 1e7 * ratio  # where E|Y - y| is the distance
    np.testing.assert_allclose(far - crps(one, far), wanted, rtol=1e-3)
    np.testing.assert_allclose(far - density_scores(one, [far]).crps, wanted, rtol=1e-2)


@pytest.mark.parametrize("nu", [2.5, 1e6])
def test_any_degrees_of_freedom(x64, nu):
    """Many take no longer than few, and broken ones are not cut off."""
    y = np.array([0.5, -2.0, 4.0])
    one = StudentMixture(np.zeros(3), np.full((3, 1), 2.0), np.ones((3, 1)), (nu,))
    np.testing.assert_allclose(cdf(one, y), stats.t.cdf(y / 2.0, nu), rtol=1e-11)
    found = density_scores(one, y)
    np.testing.assert_allclose(found.pit, stats.t.cdf(y / 2.0, nu), rtol=1e-11)
    np.testing.assert_allclose(found.high, 2.0 * stats.t.ppf(0.95, nu), rtol=1e-8)


def test_a_part_of_no_weight_does_not_decide(x64):
    scales, weights = np.array([[1e-5, 1.0]]), np.array([[1.0, 0.0]])
    one = StudentMixture(np.zeros(1), scales, weights, (100.0, 100.0))
    wanted = stats.t.logpdf(1e9, 100.0) - np.log(1e-5)
    np.testing.assert_allclose(density_scores(one, [1e4]).log_score, wanted, rtol=1e-12)
    np.testing.assert_allclose(log_prob(one, 1e4), wanted, rtol=1e-12)
