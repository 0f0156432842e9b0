"""Kernel values that overflow: models with supports that they spoil are counted and warned of."""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import updates
from jaxmkl.models import SupportModels
from tests.common.marks import long

SMALL_PROGRAMS = True
T = 24
# (x·x')^9 of rows this large is beyond the largest number, and (x·x')^9 of rows of 1 is not
LARGE = {"float32": 1e3, "float64": 1e20}


def played(learner, X, y, dtype):
    state = learner.init(jax.random.key(0), X.shape[1], dtype)
    return jaxmkl.run(learner, state, X.astype(dtype), y.astype(dtype))


def stream(dtype, large):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(T, 2))
    X[10:] *= LARGE[dtype] if large else 1.0
    return X, np.sign(X[:, 0] * X[:, 1] + 0.1)


LEARNERS = {
    "perceptron": lambda k: jaxmkl.perceptron(k, capacity=32),
    "spa": lambda k: jaxmkl.spa(
        jaxmkl.KernelDictionary((jaxmkl.Gaussian(1.0), k)), beta=1.0, smoothing=1.0
    ),
    "rbp": lambda k: jaxmkl.rbp(k, budget=64),
    "bank beside another": lambda k: jaxmkl.MKL(
        (
            SupportModels(jaxmkl.Gaussian(1.0), updates.Perceptron()),
            SupportModels(k, updates.PassiveAggressive(1e-3, normalized_step=False)),
        )
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", long(["float32"], LARGE))
@pytest.mark.parametrize("name", long(["spa", "bank beside another"], LEARNERS))
def test_classifiers_that_overflow_are_counted(name, dtype, x64):
    learner = LEARNERS[name](jaxmkl.Polynomial(9))
    X, y = stream(dtype, large=True)
    with pytest.warns(RuntimeWarning, match="update"):
        state, outputs = played(learner, X, y, dtype)
    assert 1 <= int(state.nonfinite) <= T - 10
    assert np.isfinite(outputs.prediction).all()
    state, _ = played(learner, *stream(dtype, large=False), dtype)
    assert int(state.nonfinite) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", long(["float32"], LARGE))
def test_a_regression_that_overflows_is_counted(dtype, x64):
    """Its steps grow until the sums of both signs are no numbers any more."""
    X, y = stream(dtype, large=False)
    learner = jaxmkl.kernel_ogd(jaxmkl.Polynomial(9), step_size=1e6, capacity=32)
    with pytest.warns(RuntimeWarning, match="update"):
        state, outputs = played(learner, X, y, dtype)
    assert int(state.nonfinite) > T // 2
    assert np.isfinite(outputs.prediction).all()
