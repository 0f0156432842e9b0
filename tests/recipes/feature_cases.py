"""Streams, small learners and the NumPy oracle, for the recipes on random features."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl.query import Disagreement
from jaxmkl.select import AdaptiveKernelSelection
from jaxmkl.updates import RLS
from tests.oracles import feature_mkl as oracle

PAPER_BANDWIDTHS = np.sqrt(10.0 ** ((np.arange(1, 18) - 9) / 2))  # (56)
SMALL = np.array([0.5, 1.0, 3.0])


def wave(num_examples, num_inputs=3, seed=0):
    """A smooth function with some noise, whose labels stay in [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_examples, num_inputs))
    y = 0.8 * np.sin(X @ np.array([1.5, -0.7, 0.4])[:num_inputs])
    return X, np.clip(y + 0.1 * rng.normal(size=num_examples), -1, 1)


def two_classes(num_examples, seed=0):
    X, y = wave(num_examples, seed=seed)
    return X, np.where(y > 0.1, 1.0, -1.0)


def small(name, bandwidths=SMALL, **arguments):
    """A small learner; the same structure for every value of the arguments."""
    if name == "expert_mkl":
        arguments = {"hedge_rate": 1.0, "orthogonal": False, **arguments}
    return getattr(jaxmkl, name)(kernels=jaxmkl.Gaussian(bandwidths), num_features=5, **arguments)


def ogd(rate, regularization=0.02, loss="squared"):
    """The paper's penalty is λ |θ|², the library's λ/2 |θ|²."""
    return lambda size: oracle.GradientDescent(rate, regularization / 2, loss, size)


def rls(forgetting, regularization, max_growth, period):
    return lambda size: oracle.RecursiveLeastSquares(
        forgetting, regularization, max_growth, period, size
    )


def run_oracle(learner, arguments, bandwidths, state, X, y):
    """The oracle with the learner's own frequencies and noise, and nothing else of it."""
    num_experts = len(arguments["rules"]) * len(bandwidths)

    def noise(t):
        return gumbel[t], uniform[t]

    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(state.key, jnp.arange(len(y)))
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 2)
    if isinstance(learner.select, AdaptiveKernelSelection):
        drawn = jax.vmap(lambda key: learner.select.noise(key, num_experts, jnp.float64))(keys)
        gumbel, uniform = (np.asarray(leaf) for leaf in drawn)

    frequencies = np.asarray(state.models[0].frequencies, np.float64)
    return oracle.FeatureMKL(bandwidths, frequencies, noise=noise, **arguments).run(X, y)


def check_outputs(outputs, expected, tolerance=1e-9):
    np.testing.assert_array_equal(outputs.queried, expected.queried)
    np.testing.assert_array_equal(outputs.info.num_active, expected.selected.sum(axis=1))
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=0, atol=tolerance)
    np.testing.assert_allclose(outputs.info.weights, expected.weights, rtol=0, atol=tolerance)


def experts_of(learner, state):
    """The experts' parameters (E, M) and covariances (.., M, M).

    Recursive least squares has them up to date whenever a period is over, for features divided by
    the root of the regularization.
    """
    thetas, covariances = [], []
    (bank,), (models,) = learner.models, state.models
    for rule, local in zip(bank.rules, models.rules, strict=True):
        theta = np.asarray(local.weights, np.float64)
        if isinstance(rule, RLS):
            assert int(state.round) % rule.period == 0
            theta = theta / np.sqrt(rule.regularization)
            S = np.asarray(local.covariance, np.float64) / rule.regularization
            covariances.extend(S.reshape(-1, *S.shape[-2:]))
        else:
            theta = np.moveaxis(theta, 0, -2)
        thetas.extend(theta.reshape(-1, theta.shape[-1]))
    return np.array(thetas), np.array(covariances)


def check_state(learner, state, expected, tolerance=1e-9):
    thetas, covariances = experts_of(learner, state)
    np.testing.assert_allclose(thetas, np.array(expected.theta), rtol=tolerance, atol=tolerance)
    scale = max([1.0, *(np.abs(S).max() for S in expected.covariance)])
    np.testing.assert_allclose(covariances, np.array(expected.covariance), atol=tolerance * scale)
    if isinstance(learner.select, AdaptiveKernelSelection):
        np.testing.assert_array_equal(state.select.selected, expected.final_selected)
    np.testing.assert_allclose(
        state.aggregate.log_weights, expected.log_weights, rtol=tolerance, atol=tolerance
    )
    if isinstance(learner.query, Disagreement):
        assert int(state.query.skips) == expected.skips
