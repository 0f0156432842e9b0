"""Linear features: the inputs and a constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.features import LinearFeatures
from jaxmkl.models import FeatureModels

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 40, 3


def test_features_are_inputs_and_a_constant(x64):
    X = np.random.default_rng(0).normal(size=(NUM_EXAMPLES, NUM_INPUTS))
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


@pytest.mark.parametrize("kernels", [jaxmkl.Gaussian(1.0), jaxmkl.Polynomial(1, 1.0)])
def test_other_kernels_are_refused(kernels):
    with pytest.raises(ValueError, match=r"LinearFeatures: kernels must be jaxmkl.Linear\(\)"):
        FeatureModels(kernels, features=LinearFeatures())
