"""Linear features: the inputs and a constant, and rules of both orders on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.features import LinearFeatures
from jaxmkl.models import FeatureModels
from jaxmkl.updates import OGD, RLS, NormalizedOGD
from tests.oracles.feature_mkl import RecursiveLeastSquares

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 40, 3


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS))
    return X, X @ [0.5, -1.0, 0.2] + 0.3 + 0.1 * rng.normal(size=NUM_EXAMPLES)


def begin(learner):
    return learner.init(jax.random.key(0), NUM_INPUTS, jnp.float64)


def test_features_are_inputs_and_a_constant(x64):
    X, _ = data()
    features = LinearFeatures()
    z = np.asarray(features.encode((), jaxmkl.Linear(), X, jnp.asarray(0), None))
    assert z.shape == (NUM_EXAMPLES, 1, features.num_coordinates(NUM_INPUTS))
    gram = np.asarray(jaxmkl.Linear().gram(X)[0])
    np.testing.assert_allclose(z[:, 0] @ z[:, 0].T, (gram + 1) / 4, rtol=0, atol=1e-12)
    norms = jax.vmap(features.squared_norms)(z)[:, 0]
    np.testing.assert_allclose(norms, (z[:, 0] ** 2).sum(axis=1), rtol=1e-12)
    standard = np.random.default_rng(1).normal(size=(20_000, 7))
    z = features.encode((), jaxmkl.Linear(), standard, jnp.asarray(0), None)
    assert abs(float(jnp.sum(z**2)) / 20_000 - 1.0) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [1, 8, 16])
def test_rules_of_both_orders_are_loops_in_numpy(block_size, x64):
    X, y = data()
    rules = OGD((0.05, 0.2), 0.1), NormalizedOGD(0.4), RLS((0.1, 1.0), 0.95, period=8)
    bank = FeatureModels(jaxmkl.Linear(), rules, LinearFeatures())
    learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform())
    start = begin(learner)
    state, outputs = jaxmkl.run(learner, start, X, y, block_size=block_size)
    size = NUM_INPUTS + 1
    theta = np.zeros((3, size))
    squares = [RecursiveLeastSquares(0.95, ridge, 10, 8, size) for ridge in (0.1, 1.0)]
    predictions = []
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        z = np.append(x, 1) / np.sqrt(size)
        for one in squares:
            one.begin(t)
        f = theta @ z
        predictions.append(np.mean([*f, *(one.theta @ z for one in squares)]))
        for i, eta in enumerate((0.05, 0.2)):
            theta[i] = (1 - 0.1 * eta) * theta[i] - 2 * eta * (f[i] - label) * z
        theta[2] -= 2 * 0.4 / (1e-3 + z @ z) * (f[2] - label) * z
        for one in squares:
            one.learn(z, label)
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-9)
    steps, normalized, _ = state.models[0].rules
    np.testing.assert_allclose(steps.weights[0, 0], theta[:2], rtol=0, atol=1e-12)
    np.testing.assert_allclose(normalized.weights[0, 0], theta[2:], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_bank_of_it_stands_beside_others(x64):
    """The models are those of both banks alone, numbered through."""
    X, y = data()
    linear = FeatureModels(jaxmkl.Linear(), RLS(0.1, period=8), LinearFeatures())
    expert = jaxmkl.expert_mkl(
        jaxmkl.Gaussian((0.5, 2.0)), num_features=4, aggregate=jaxmkl.aggregate.Uniform()
    )
    both = jaxmkl.MKL((*expert.models, linear), expert.aggregate)
    alone = jaxmkl.MKL(linear, expert.aggregate)
    assert both.num_models == expert.num_models + 1
    said = {}
    for name, learner in {"both": both, "expert": expert, "alone": alone}.items():
        said[name] = np.asarray(jaxmkl.run(learner, begin(learner), X, y)[1].prediction)
    E = expert.num_models
    expected = (E * said["expert"] + said["alone"]) / (E + 1)
    np.testing.assert_allclose(said["both"], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernels", [jaxmkl.Gaussian(1.0), jaxmkl.Polynomial(1, 1.0)])
def test_other_kernels_are_refused(kernels):
    with pytest.raises(ValueError, match=r"LinearFeatures: kernels must be jaxmkl.Linear\(\)"):
        FeatureModels(kernels, features=LinearFeatures())
