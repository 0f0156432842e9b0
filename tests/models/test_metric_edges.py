"""Banks with a learned metric: padding, long streams, models that diverge, and importances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.features import FourierFeatures
from jaxmkl.models import FeatureModels, MetricModels
from jaxmkl.optimizers import FromOptax
from jaxmkl.updates import OGD, RLS, Optax, SparsePassiveAggressive
from jaxmkl.updates.second_order import _inverse as inverse
from jaxmkl.wrappers import delayed
from tests.common.banks import MeanOfMemory
from tests.common.trees import assert_equal, begin, scan

SMALL_PROGRAMS = True

pytestmark = pytest.mark.slow


def bank_of(rules, shape="diagonal", size=8):
    inside = FeatureModels(jaxmkl.Gaussian([0.7, 2.0]), rules, FourierFeatures(3))
    return MetricModels(inside, shape, size, first=16)


def stream(T):
    X = np.random.default_rng(0).normal(size=(T, 2)).astype(np.float32)
    return X, np.sin(2 * X[:, 0])


@pytest.mark.endless
def test_padding_behind_a_renewal_renews_nothing_again():
    """A block without examples closes in the round in which the last one was closed."""
    learner, (X, y) = jaxmkl.MKL(bank_of(RLS(0.1))), stream(16)
    start = begin(learner)
    state, _ = scan(learner, start, X, y)
    assert not np.array_equal(*(own.models[0].metrics[0] for own in (start, state)))

    @jax.jit
    def padded(state):
        return learner.close(state, learner.encode(state, X[:8]))

    assert_equal(padded(state), state)


@pytest.mark.slow
def test_late_labels_renew_once():
    """While labels are waited for the learner inside stays in the round of its renewal."""
    X, y = stream(19)
    learner = jaxmkl.MKL(MeanOfMemory(16))
    late = delayed(learner, 3)
    state, _ = scan(learner, begin(learner), X[:16], y[:16])
    after, _ = scan(late, begin(late), X, y)
    assert after.inner.round == 16
    assert_equal(after.inner.models, state.models)


def test_models_that_diverge_have_no_say():
    """The metric is that of the models that learn."""
    X, y = stream(200)
    with pytest.warns(RuntimeWarning, match="cannot converge"):
        learner = jaxmkl.MKL(bank_of(OGD([0.1, 50.0])), loss="squared")
    state, _ = scan(learner, begin(learner), X, y)
    own = state.models[0]
    assert not np.isfinite(own.losses[2:]).any()
    assert np.isfinite(own.losses[:2]).all()
    # as without the second rate
    alone = jaxmkl.MKL(bank_of(OGD([0.1])), loss="squared")
    apart, _ = scan(alone, begin(alone), X, y)
    np.testing.assert_allclose(own.metrics[0], apart.models[0].metrics[0], rtol=1e-3)


@pytest.mark.endless
def test_least_squares_of_very_many_examples_stay_definite():
    """In single precision, on features of which a few directions have nearly all."""
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    features, kernels = FourierFeatures(20), jaxmkl.Gaussian([1.0, 30.0])
    frequencies = features.init(jax.random.key(1), kernels, 4, jnp.float32)
    rule, y = RLS(0.1), X[:, 0]
    for number in 1e6, 1e9:
        counts = jnp.full(500, number / 500, jnp.float32)
        Z = features(kernels, frequencies, X)
        state = rule.fitted(rule.init(2, 40, jnp.float32), Z, y, counts, jnp.asarray(512))
        assert (np.linalg.eigvalsh(state.covariance) > 0).all()
        # the prediction of features z/sqrt(λ)
        values = np.einsum("npm,pm->np", Z / np.sqrt(0.1), state.weights[0, 0])
        assert np.mean((values[:, 1] - y) ** 2) < 0.01


@pytest.mark.endless
def test_steps_by_chance_are_taken_in_a_renewal():
    X, y = stream(40)
    learner = jaxmkl.MKL(bank_of(SparsePassiveAggressive(0.5)))
    state, _ = scan(learner, begin(learner), X, np.sign(y))
    assert np.abs(state.models[0].rules[0].weights).max() > 0
    assert np.isfinite(state.models[0].metrics[0]).all()


@pytest.mark.endless
@pytest.mark.parametrize("other", [OGD(0.1), Optax(FromOptax("adam", 0.1))])
def test_derivatives_go_through_a_run(other):
    """Before a renewal they are those of the bank inside; one behind leaves them finite."""
    X, y = stream(40)

    def total(width, learns, T):
        rules = RLS(0.1, period=8), other
        # with a metric, widths are in units of the root of the number of inputs
        width = width if learns else width * np.float32(np.sqrt(2))
        bank = FeatureModels(jaxmkl.Gaussian(width), rules, FourierFeatures(3))
        bank = MetricModels(bank, first=16, sample=8) if learns else bank
        learner = jaxmkl.MKL(bank, loss="squared")
        state = begin(learner)
        return scan(learner, state, X[:T], y[:T])[1].loss.sum()

    slope = jax.jit(jax.grad(total), static_argnums=(1, 2))
    width = jnp.array([0.7])
    np.testing.assert_allclose(slope(width, True, 15), slope(width, False, 15), rtol=1e-4)
    assert np.isfinite(slope(width, True, 40)).all()


def test_importances_are_the_mean_over_banks_that_learn_them():
    fixed = FeatureModels(jaxmkl.Gaussian(1.0), RLS(0.1))
    learner = jaxmkl.MKL((bank_of(RLS(0.1)), fixed, bank_of(RLS(0.1), "full")))
    state = begin(learner)
    one, other = (np.random.default_rng(0).normal(size=shape) for shape in (2, (2, 2)))
    banks = list(state.models)
    for place, metric in ((0, one), (2, other)):
        banks[place] = banks[place]._replace(metrics=(jnp.asarray(metric, jnp.float32),))
    state = state.replace(models=tuple(banks))
    full = np.diag(other @ other.T)
    expected = one**2 / (one**2).sum() / 2 + full / full.sum() / 2
    np.testing.assert_allclose(learner.importances(state), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", ["diagonal", "full"])
def test_a_constant_input_does_not_matter(shape):
    """Nothing tells the gradient along it, whose random part may be the largest of all."""
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    X[:, 1] = 3.0
    learner = jaxmkl.MKL(MetricModels(FeatureModels(jaxmkl.Gaussian(1.0), RLS(0.1)), shape))
    state = learner.init(jax.random.key(0), 3)
    state, _ = jaxmkl.run(learner, state, X, np.sin(2 * X[:, 0]))
    shares = learner.importances(state)
    assert shares[1] == 0
    assert shares.argmax() == 0
    np.testing.assert_allclose(shares.sum(), 1.0, rtol=1e-5)


@pytest.mark.parametrize("negative", [0.0, 3.0, 40.0])
def test_sums_that_rounding_makes_indefinite_have_an_inverse(negative):
    """A sum with an eigenvalue below 0 by some units of rounding of its trace."""
    draws = np.random.default_rng(1)
    basis = np.linalg.qr(draws.normal(size=(12, 12)))[0]
    unit = np.finfo(np.float32).eps
    values = np.concatenate([[1e8, 2e8], np.linspace(0.1, 30, 9), [-negative * unit * 3e8]])
    A = ((basis * values) @ basis.T).astype(np.float32)
    A = jnp.asarray((A + A.T) / 2)[None, None]
    least = 2 * unit * jnp.trace(A[0, 0])[None, None]
    found = np.asarray(inverse(A, least), float)[0, 0]
    assert (np.linalg.eigvalsh((found + found.T) / 2) > -1e-9).all()
    tried = [1 + float(least[0, 0]) * 8.0**k for k in range(5)]
    wanted = [np.linalg.inv(np.asarray(A, float)[0, 0] + r * np.eye(12)) for r in tried]
    near = [np.abs(found - each).max() <= 0.2 * np.abs(each).max() for each in wanted]
    assert near.index(True) == {0.0: 0, 3.0: 1, 40.0: 2}[negative]
