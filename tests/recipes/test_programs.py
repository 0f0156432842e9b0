"""Learners as users compile them: all optimisations, default blocks, single precision.

Other tests switch off the compiler's last optimisations, and most look at double precision.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl

KERNELS = jaxmkl.Gaussian((0.5, 1.0, 2.0, 4.0))


# of each kind of models one
LEARNERS = {
    "raker": jaxmkl.raker(KERNELS, num_features=8),
    "omkl": jaxmkl.omkl(KERNELS, step_size=0.05),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", LEARNERS)
def test_single_precision_is_double_precision_but_for_rounding(name):
    learner, rng = LEARNERS[name], np.random.default_rng(0)
    X = rng.normal(size=(100, 3)).astype(np.float32).astype(float)
    y = np.sin(X @ rng.normal(size=3)) + 0.1 * rng.normal(size=100)
    single = learner.init(jax.random.key(0), 3, jnp.float32)
    found = jaxmkl.run(learner, single, X.astype(np.float32), y)[1]
    with jax.enable_x64(True):
        double = learner.init(jax.random.key(0), 3, jnp.float64)
        # the same frequencies, which are drawn anew in double precision
        start = jax.tree.map(
            lambda own, like: own if own.dtype == like.dtype else own.astype(like.dtype),
            single.replace(dtype="float64"),
            double,
        )
        wanted = jaxmkl.run(learner, start, X, y)[1]
    assert found.prediction.dtype == np.float32
    np.testing.assert_allclose(found.prediction, wanted.prediction, atol=1e-3)
