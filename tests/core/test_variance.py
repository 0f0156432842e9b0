"""Variances of predictions, against plain NumPy loops and on data with a known noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import jaxmkl
from jaxmkl._noise import Noise
from jaxmkl.aggregate import Uniform
from jaxmkl.features import LinearFeatures
from jaxmkl.models import FeatureModels
from jaxmkl.updates import OGD, RLS
from tests.common.trees import begin

SMALL_PROGRAMS = True

LINEAR = jaxmkl.Linear()


def least_squares(forgetting=(1.0,), num_outputs=None, query=None, extra=()):
    bank = FeatureModels(LINEAR, (RLS(0.5, forgetting), *extra), LinearFeatures())
    named = {} if query is None else {"query": query}
    return jaxmkl.MKL(bank, Uniform(), num_outputs=num_outputs, **named)


def stream(T=120, D=3, seed=0):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(T, D))
    return X, X @ np.linspace(-1.0, 2.0, D) + 0.3 * draws.normal(size=T)


def features(learner, state, X):
    """The features (T, M) of rows, as the learner's map has them."""
    bank, own = learner.models[0], state.models[0].features

    @jax.jit
    def each(X):
        keys = jax.random.split(state.key, len(X))
        codes = bank.features.encode(own, bank.kernels, X, state.round, keys)
        return jax.vmap(lambda code: bank.features.predict(own, code)[0][0])(codes)

    return np.asarray(each(X))


@pytest.mark.slow
def test_variance_of_least_squares():
    """The variance of every round equals that of a NumPy loop in double precision."""
    forgetting = (1.0, 0.98)
    with jax.enable_x64(True):
        learner, (X, y) = least_squares(forgetting), stream()
        state = begin(learner, 3)
        Z = features(learner, state, X)
        _, outputs = jaxmkl.run(learner, state, X, y)
        M, R = len(Z[0]), len(forgetting)
        S, theta, noise = np.stack([np.eye(M) / 0.5] * R), np.zeros((R, M)), 1.0
        for t, (z, label) in enumerate(zip(Z, y, strict=True)):
            f, v = theta @ z, S @ z @ z
            value = f.mean()
            own = noise * v.mean() + np.mean((f - value) ** 2)
            assert outputs.prediction[t] == pytest.approx(value, rel=1e-9, abs=1e-9)
            assert outputs.variance[t] == pytest.approx(noise + own, rel=1e-9)
            share = noise / (noise + own) if t else 1.0
            noise += max(1 / max(t, 1), 0.005) * ((label - value) ** 2 * share - noise)
            for r, phi in enumerate(forgetting):
                gain = S[r] @ z / (phi + z @ S[r] @ z)
                theta[r] += gain * (label - f[r])
                S[r] = (S[r] - np.outer(gain, S[r] @ z)) / phi


@pytest.mark.slow
def test_models_that_do_not_know_theirs_count_between_models_alone():
    """A gradient step beside least squares changes the mean and the distance, not z'Sz."""
    X, y = stream()
    learner = least_squares(extra=(OGD(0.1),))
    state, _ = jaxmkl.run(learner, begin(learner, 3), X, y)
    alone = least_squares()
    other, _ = jaxmkl.run(alone, begin(alone, 3), X, y)
    both, one = jax.jit(learner.predict)(state, X[0]), jax.jit(alone.predict)(other, X[0])
    values = np.array([one.value, 2 * both.value - one.value])
    within = one.epistemic / other.noise.variance
    between = np.var(values)
    wanted = float(state.noise.variance * within + between)
    assert float(both.epistemic) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.endless
def test_noise_of_a_stream_is_found():
    """The noise is the labels' own, the prediction's variance shrinks, and e² / v is 1."""
    X, y = stream(4000)
    learner = least_squares()
    state, outputs = jaxmkl.run(learner, begin(learner, 3), X, y)
    assert float(state.noise.variance) == pytest.approx(0.09, rel=0.25)
    ratio = (outputs.prediction - y)[100:] ** 2 / outputs.variance[100:]
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.1)
    near, far = jax.jit(learner.predict_many)(state, jnp.stack([X[0], 10 * X[0]])).epistemic
    assert far > 20 * near
    assert near < 0.01 * state.noise.variance


@pytest.mark.slow
def test_several_outputs_have_one_each():
    X, y = stream(600)
    Y = np.stack([y, 10 * y], axis=1)
    learner = least_squares(num_outputs=2)
    _, outputs = jaxmkl.run(learner, begin(learner, 3), X, Y)
    assert outputs.variance.shape == (600, 2)
    ratio = outputs.variance[-1, 1] / outputs.variance[-1, 0]
    assert float(ratio) == pytest.approx(100.0, rel=0.02)


@pytest.mark.parametrize("make", [jaxmkl.raker, jaxmkl.kernel_ogd, jaxmkl.spa])
def test_learners_without_a_variance_say_so(make):
    learner, x = make(), jnp.ones(2)
    state = jax.eval_shape(lambda: learner.init(jax.random.key(0), 2))
    prediction = jax.eval_shape(learner.predict, state, x)
    assert prediction.variance is None
    assert prediction.epistemic is None
    assert jax.eval_shape(learner.step, state, (x, 1.0))[1].variance is None


@pytest.mark.endless
def test_scaled_targets_keep_the_units_of_the_label():
    X, y = stream(1500)
    learner = jaxmkl.wrappers.scaled_targets(least_squares())
    begun = begin(learner, 3)
    one, other = (jaxmkl.run(learner, begun, X, labels)[1].variance for labels in (y, 7 + 50 * y))
    np.testing.assert_allclose(other[500:], 2500 * one[500:], rtol=1e-2)


@pytest.mark.slow
def test_a_query_that_needs_a_variance_takes_that_of_least_squares():
    X, y = stream(500)
    query = jaxmkl.query.Uncertainty(h=0.0)
    learner = jaxmkl.MKL(
        FeatureModels(LINEAR, RLS(0.5), LinearFeatures()), task="classification", query=query
    )
    state, _ = jaxmkl.run(learner, begin(learner, 3), X[:30], y[:30] > 0)
    found = jax.jit(learner.predict_many)(state, X)
    unsure = np.abs(found.value) <= found.epistemic / 4
    np.testing.assert_array_equal(found.query, unsure)
    assert 0 < unsure.mean() < 1
    with pytest.raises(ValueError, match="needs no variance"):
        jaxmkl.raker(query=query, loss="hinge").init(jax.random.key(0), 3)


@jax.jit
def noises(labels, own):
    """The noise after each label of predictions 0.5, with variances of their own."""

    def one(noise, given):
        y, own = given
        after = noise.after(y, jnp.float32(0.5), own, jnp.asarray(True))
        return after, after

    return jax.lax.scan(one, Noise.none(None, jnp.float32), (labels, own))[1]


NUMBERS = arrays(np.float32, 20, elements=st.floats(-(2.0**40), 2.0**40, width=32))


@settings(max_examples=50, deadline=None)
@given(labels=NUMBERS, own=NUMBERS)
def test_noise_stays_positive_and_finite(labels, own):
    """Labels of 1e12 and models that are sure or not; what is not finite changes nothing."""
    labels[-1] = np.inf
    variance, number = noises(labels, np.abs(own))
    assert bool(((variance > 0) & (variance < np.inf)).all())
    assert number[-1] == 19
    assert variance[-1] == variance[-2]


@pytest.mark.slow
def test_a_target_that_never_varies_leaves_a_positive_variance():
    X, _ = stream(4000)
    learner = least_squares()
    _, outputs = jaxmkl.run(learner, begin(learner, 3), X, np.zeros(4000))
    variance = np.asarray(outputs.variance)
    assert ((variance > 0) & np.isfinite(variance)).all()
