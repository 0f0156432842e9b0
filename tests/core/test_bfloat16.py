"""States in bfloat16, of which LAPACK has no factors, and NumPy's scalars make float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl

KERNELS = jaxmkl.Gaussian((0.5, 2.0))
LEARNERS = {
    "orthogonal features": lambda: jaxmkl.raker(KERNELS, num_features=4, orthogonal=True),
    "kernels that are learned": jaxmkl.expert_mkl,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_round_compiles_and_keeps_its_types(name):
    learner = LEARNERS[name]()

    def first(key, x):
        state = learner.init(key, 3, jnp.bfloat16)
        return state, *learner.step(state, (x, 1.0))

    traced = jax.jit(first).trace(jax.random.key(0), jnp.ones(3))
    traced.lower()
    before, after, output = traced.out_info
    kinds = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(t)] for t in (before, after)]
    assert kinds[0] == kinds[1]
    assert output.prediction.dtype == output.loss.dtype == jnp.bfloat16


@pytest.mark.slow
def test_shards_are_merged():
    features, rule = jaxmkl.features.FourierFeatures(4), jaxmkl.updates.RLS(1.0)
    learner = jaxmkl.MKL(jaxmkl.models.FeatureModels(KERNELS, rule, features))
    X = np.random.default_rng(0).normal(size=(2, 40, 2))
    predicted = []
    for dtype in (jnp.bfloat16, jnp.float32):
        state = learner.init(jax.random.key(0), 2, dtype)
        shards = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), state)
        merged = jaxmkl.merge(learner, jaxmkl.run_fleet(learner, shards, X, X[..., 0])[0])
        predicted.append(np.asarray(learner.predict_many(merged, X[0]).value, float))
    # covariances of three digits have rough inverses
    assert np.corrcoef(*predicted)[0, 1] > 0.95
