"""Banks whose metric has the largest marginal likelihood: oracles, bad input, what is found."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.features import FourierFeatures
from jaxmkl.models import FeatureModels, LikelihoodModels
from jaxmkl.models.likelihood import evidence
from jaxmkl.testing import check_learner
from jaxmkl.updates import OGD, RLS
from tests.common.marks import long
from tests.common.trees import begin, scan
from tests.oracles.likelihood import Evidence, likeliest

SMALL_PROGRAMS = True

WIDTHS, FEATURES = np.array([0.7, 1.5]), 4


def learner_of(shape="diagonal", *, outputs=None, size=100, **options):
    rules = RLS(0.1, max_growth=1e9, period=8), OGD(0.3)
    inside = FeatureModels(jaxmkl.Gaussian(WIDTHS), rules, FourierFeatures(FEATURES))
    options = {"first": 16, "steps": 5, "examples": size} | options
    return jaxmkl.MKL(
        LikelihoodModels(inside, shape, size, **options), loss="squared", num_outputs=outputs
    )


def stream(T, D=3, outputs=None, dtype=np.float64):
    draws = np.random.default_rng(5)
    X = draws.normal(size=(T, D))
    y = np.sin(2 * X[:, 0]) + 0.1 * draws.normal(size=T)
    y = y if outputs is None else np.stack([y, X[:, 0] * X[:, -1]], axis=1)
    return X.astype(dtype), y.astype(dtype)


def values_of(bank, state, x):
    codes = bank.encode(state, x[None], jnp.asarray(32), None)
    return bank.predict(state, jax.tree.map(lambda leaf: leaf[0], codes))[0]


@pytest.mark.slow
def test_the_evidence_is_that_of_a_gaussian_process(x64):
    """With its derivatives; examples that are not known do not count."""
    draws, (X, y) = np.random.default_rng(0), stream(12, outputs=2)
    frequencies = draws.normal(size=(2, FEATURES, 3))
    L = draws.normal(size=(3, 3))
    known = np.arange(12) % 4 != 1
    process = Evidence(frequencies, X[known], y[known])

    def features(L):
        turns = jnp.einsum("nd,de,pfe->npf", X, L, frequencies)
        return jnp.concatenate([jnp.sin(turns), jnp.cos(turns)], axis=-1) / np.sqrt(FEATURES)

    @jax.jit
    def ours(L, log_ridge):
        of_known = features(L) * known[:, None, None], y * known[:, None]
        squares = jnp.sum(of_known[1] ** 2, axis=0)
        given = *of_known, jnp.asarray(known.sum(), float), squares, jnp.exp(log_ridge)
        value, by_Z, by_ridge = evidence(*given)
        return value, (jax.vjp(features, L)[1](by_Z)[0], by_ridge)

    value, slopes = ours(L, -1.0)
    wanted = process(L, -1.0)
    other, less = ours(2 * L, -2.0)[0] - value, process(2 * L, -2.0)[0] - wanted[0]
    np.testing.assert_allclose(other, less, rtol=1e-9)  # both up to a constant
    np.testing.assert_allclose(slopes[0], wanted[1], rtol=1e-9)
    np.testing.assert_allclose(slopes[1], wanted[2], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("kernels", "outputs"), long([(3, 2)], [(1, 1), (3, 2)]))
def test_derivatives_of_the_evidence_are_those_of_its_value(x64, kernels, outputs):
    draws = np.random.default_rng(1)
    Z, y = draws.normal(size=(9, kernels, 5)), draws.normal(size=(9, outputs))

    @jax.jit
    def both(Z, log_ridge):
        given = y, jnp.asarray(9.0), jnp.sum(y**2, axis=0)

        def value(Z, log_ridge):
            return evidence(Z, *given, jnp.exp(log_ridge))[0]

        closed = evidence(Z, *given, jnp.exp(log_ridge))
        return closed[1:], jax.grad(value, argnums=(0, 1))(Z, log_ridge)

    closed, derived = both(Z, jnp.asarray(-2.0))
    for ours, wanted in zip(closed, derived, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "outputs"), long([("diagonal", None)], [("diagonal", None), ("full", 2)])
)
def test_is_a_plain_loop_over_two_renewals(x64, shape, outputs):
    X, y = stream(32, outputs=outputs)
    learner = learner_of(shape, outputs=outputs)
    state = begin(learner, 3, seed=2)
    frequencies = np.asarray(state.models[0].features[0]) / WIDTHS[:, None, None]
    state, _ = scan(learner, state, X, y)
    L = np.eye(3) / np.sqrt(3)
    for T in (16, 32):
        evidence = Evidence(frequencies, X[:T], y[:T].reshape(T, -1))
        diagonal = shape == "diagonal"
        L = likeliest(evidence, L, 0.01, diagonal=diagonal, steps=5, rate=0.1)
    own = state.models[0]
    metric = np.diag(own.metrics[0]) if diagonal else own.metrics[0]
    np.testing.assert_allclose(metric, L, atol=1e-9)
    # and then least squares of everything
    turns = np.einsum("nd,de,pfe->npf", X, L, frequencies)
    Z = np.concatenate([np.sin(turns), np.cos(turns)], axis=-1) / np.sqrt(FEATURES)
    values = jax.jit(jax.vmap(functools.partial(values_of, learner.models[0], own)))(X)
    for p in range(2):
        A = Z[:, p].T @ Z[:, p] + 0.1 * np.eye(2 * FEATURES)
        wanted = Z[:, p] @ np.linalg.solve(A, Z[:, p].T @ y)
        np.testing.assert_allclose(values[..., p], wanted, atol=1e-9)


@pytest.mark.endless
@pytest.mark.parametrize("case", ["full, two targets", "three classes"])
def test_keeps_the_contract(case):
    if case == "three classes":
        bank = learner_of(size=9, steps=2).models[0]
        learner = jaxmkl.MKL(bank, loss="squared", task="classification", num_outputs=3)
    else:
        learner = learner_of("full", outputs=2, size=9, steps=2)
    check_learner(learner)


@pytest.mark.endless
def test_finds_the_input_that_matters():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(600, 6)).astype(np.float32)
    y = np.sin(2 * X[:, 4])
    inside = FeatureModels(jaxmkl.Gaussian(1.0), RLS(0.01), FourierFeatures(20))
    errors = []
    for bank in (inside, LikelihoodModels(inside, sample=200)):
        learner = jaxmkl.MKL(bank, loss="squared")
        state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(0), 6), X, y)
        errors.append(outputs.loss[300:].mean())
    shares = learner.importances(state)
    assert shares[4] > 0.9
    assert errors[1] < errors[0] / 20


@pytest.mark.slow
@pytest.mark.parametrize("shape", long(["diagonal"], ["diagonal", "full"]))
def test_bad_input_leaves_the_metric_finite(shape):
    """Constant inputs or labels, half of the labels missing, a single label, one input."""
    learner = learner_of(shape, size=7)
    X, y = stream(40, dtype=np.float32)
    half = np.where(np.arange(40) % 2 == 0, np.nan, y)
    single = np.where(np.arange(40) == 3, y, np.nan)
    none = np.full(40, np.nan)
    labels = (y, np.zeros(40), np.ones(40), half, single, none)
    for inputs, given in [(np.ones_like(X), y), *((X, given) for given in labels)]:
        state = begin(learner, 3)
        state, outputs = scan(learner, state, inputs, given.astype(np.float32))
        own = state.models[0]
        assert all(np.isfinite(leaf).all() for leaf in (own.metrics[0], own.rules[0].weights))
        assert np.isfinite(outputs.prediction).all()
        np.testing.assert_allclose(learner.importances(state).sum(), 1.0, rtol=1e-5)
    if shape == "full":
        state, _ = scan(learner, begin(learner, num_inputs=1), X[:, :1], y)
        assert np.isfinite(state.models[0].metrics[0]).all()


@pytest.mark.slow
def test_a_constant_input_does_not_matter():
    X, y = stream(40, dtype=np.float32)
    X[:, 1] = 3.0
    learner = learner_of(size=7)
    state, _ = scan(learner, begin(learner, 3), X, y)
    assert learner.importances(state)[1] == 0


@pytest.mark.endless
def test_derivatives_go_through_a_run(x64):
    """They are those by differences, but that what a renewal learns is a constant for them."""
    X, y = stream(40)

    @jax.jit
    def losses(width):
        inside = FeatureModels(jaxmkl.Gaussian(width), RLS(0.1, period=8), FourierFeatures(3))
        bank = LikelihoodModels(inside, first=16, sample=8, steps=2)
        learner = jaxmkl.MKL(bank, loss="squared")
        state = begin(learner, 3)
        return scan(learner, state, X, y)[1].loss

    width, step = jnp.array([0.7]), jnp.array([1e-6])
    _, slopes = jax.jvp(losses, (width,), (jnp.ones(1),))
    by_difference = (losses(width + step) - losses(width - step)) / 2e-6
    np.testing.assert_allclose(slopes[:16], by_difference[:16], rtol=1e-5, atol=1e-7)
    total = jax.grad(lambda width: losses(width).sum())(width)
    np.testing.assert_allclose(total, slopes.sum(keepdims=True), rtol=1e-9)
