"""Learners with support vectors in float32: near the oracle, on any scale, without overflow."""

import functools
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support_cases import (
    ALL,
    BANDWIDTHS,
    DEGREES,
    NUM_EXAMPLES,
    begin,
    kernels_of,
    learner_of,
    run_oracle,
    stream,
)

from jaxmkl import _pytree as pytree
from jaxmkl.kernels import Kernel
from jaxmkl.recipes.support_vectors import omkc_dd
from jaxmkl.streaming.run import run
from tests.common.marks import long
from tests.common.trees import everything

SMALL_PROGRAMS = True


# Of all data alike: as many kernels of each kind, so that one program of a learner serves all.


def single(learner, X, y):
    start = begin(learner, X.shape[1], np.float32)
    state, outputs = run(learner, start, X, y, record=everything)
    assert outputs.prediction.dtype == np.float32
    for leaf in jax.tree.leaves((state.aggregate, state.models, outputs)):
        assert np.isfinite(np.asarray(leaf)).all()
    return start, state, outputs


@functools.cache
def on_the_stream(name):
    """The oracle's run and the learner's, its states and outputs."""
    X, y, _ = stream()
    library, plain = kernels_of(BANDWIDTHS, DEGREES)
    start, state, outputs = single(learner_of(name, library), X, y)
    return run_oracle(ALL[name], plain, start, X, y), state, outputs


def few_differ(y, outputs, expected, at_most):
    """Mistakes that are not the oracle's, besides those where the vote is a tie."""
    clear = np.abs(expected.prediction) > 1e-6
    ours, theirs = (y * np.asarray(one.prediction) <= 0 for one in (outputs, expected))
    return np.sum((ours != theirs) & clear) <= at_most


@pytest.mark.endless
@pytest.mark.parametrize("name", ["omkc_dd", "spa", "bpas"])
def test_single_precision_stays_near_the_oracle(name):
    expected, _, outputs = on_the_stream(name)
    assert few_differ(stream().y, outputs, expected, at_most=5)
    # of kernels that are not full, too
    number = np.asarray(outputs.info.support, float)
    np.testing.assert_allclose(number.sum(axis=1), expected.number.sum(axis=1), rtol=0.03, atol=3)


@pytree.dataclass
class PlainGaussian(Kernel):
    """Gaussian kernels by value: those of far points are 0 in single precision."""

    bandwidth: object

    @property
    def num_kernels(self):
        return len(self.bandwidth)

    def codes(self, products):
        return jnp.stack(
            [jnp.exp(-products.squared_distance / (2 * b**2)) for b in self.bandwidth]
        )


@pytest.mark.endless
def test_without_exponents_far_points_would_be_lost():
    # each kernel's perceptron is on its own
    expected, with_exponents, _ = on_the_stream("omkc_dd")
    _, without, _ = single(omkc_dd(PlainGaussian(BANDWIDTHS[:1])), *stream()[:2])
    exact = len(expected.held[0])
    assert abs(int(with_exponents.models[0].number[0]) - exact) <= 0.03 * exact
    assert abs(int(without.models[0].number[0]) - exact) > 0.1 * exact


def raw(kind):
    """Points of norm 300 with near duplicates, or whole numbers around 500; and labels."""
    rng = np.random.default_rng(8)
    T, half = NUM_EXAMPLES, NUM_EXAMPLES // 2
    if kind == "norm 300":
        X = rng.normal(size=(T, 30))
        X *= 300 / np.linalg.norm(X, axis=1, keepdims=True)
        X[half:] = X[:half] + 0.01 * rng.normal(size=(half, 30))
        y = np.sign(X[:, 0] + X[:, 1])
    else:
        X = rng.integers(470, 531, size=(T, 500)).astype(np.float64)
        y = np.sign((X[:, :3] - 500.5).sum(axis=1))
    y = np.where(rng.random(len(y)) < 0.1, -y, y)
    return X.astype(np.float32).astype(np.float64), y


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("omkc_dd", "norm 300"), ("spa", "whole numbers")])
@pytest.mark.parametrize("bandwidths", [(2**-6, 2**-3, 1.0), (4.0, 16.0, 64.0)])
def test_single_precision_on_raw_features(name, kind, bandwidths):
    X, y = raw(kind)
    library, plain = kernels_of(bandwidths, DEGREES)
    start, state, outputs = single(learner_of(name, library), X, y)
    expected = run_oracle(ALL[name], plain, start, X, y)
    assert few_differ(y, outputs, expected, at_most=0.03 * len(y))
    number = int(state.models[0].number.sum())
    assert abs(number - expected.number[-1].sum()) <= 0.03 * number + 3
    weights = np.asarray(outputs.info.weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["spa"], ["spa", "bpas"]))
def test_polynomials_that_overflow_do_no_harm(name):
    X, y = 1e8 * stream().X, stream().y
    library, _ = kernels_of((1e8, 3e8, 1e9), DEGREES)
    learner = learner_of(name, library)
    with np.errstate(over="ignore"):
        assert np.isinf((X[0] @ X[0]).astype(np.float32) ** DEGREES[-1])
    counted = pytest.warns(RuntimeWarning, match="diverges") if name == "spa" else nullcontext()
    with counted:  # values that overflow
        _, state, outputs = single(learner, X, y)
    if name == "spa":  # it judges by the loss, which is beyond all bounds
        weights = np.asarray(outputs.info.weights)
        assert weights[0, 5] > 0
        assert weights[-1, 5] == 0
        # without weight, its values say nothing: changing its coefficients changes nothing
        support = state.models[0]
        entries = support.coefficients
        other = entries.coefficient.at[5].multiply(-1.0)
        assert (np.asarray(other) != np.asarray(entries.coefficient)).any()
        changed = support._replace(
            coefficients=entries._replace(coefficient=other),
            recent=support.recent.at[5].multiply(-1.0),
        )
        predict = jax.jit(learner.predict)
        x = jnp.asarray(X[3], jnp.float32)
        prediction = float(predict(state, x).value)
        assert np.isfinite(prediction)
        assert prediction == float(predict(state.replace(models=(changed,)), x).value)
