"""merge: shards learned apart are the model of one pass, which is kernel ridge regression."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import aggregate, models, updates
from tests.common.trees import assert_close, assert_equal, stacked

SMALL_PROGRAMS = True
T, LENGTHS, WIDTHS, RIDGE = 60, (60, 17, 0, 41), (0.5, 1.5), 0.3
KERNELS = jaxmkl.Gaussian(WIDTHS)
FEATURES = jaxmkl.features.FourierFeatures(5, scale="mean")


def least_squares(rule=None, top=None, **options):
    rule = updates.RLS((RIDGE, 2.0), period=8) if rule is None else rule
    bank = models.FeatureModels(KERNELS, rule, FEATURES)
    return jaxmkl.MKL(bank, aggregate.Hedge(0.7) if top is None else top, **options)


LEARNER = least_squares()


def data():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(4, T, 3))
    return X, np.sin(2 * X[..., 0]) + X[..., 1] * X[..., 2]


def shards_of(state, number=4):
    return stacked(*[state] * number)


def begin(learner, seed=0):
    return learner.init(jax.random.key(seed), num_inputs=3)


@functools.cache
def learned_apart():
    """The states of shards, and their merged state, in double precision."""
    states, _ = jaxmkl.run_fleet(LEARNER, shards_of(begin(LEARNER)), *data(), lengths=LENGTHS)
    return states, jaxmkl.merge(LEARNER, states)


def joined(a):
    return np.concatenate([a[m, :n] for m, n in enumerate(LENGTHS)])


def ridge_regression(frequencies, X, y, points):
    """f = k(., X) (K + λ I)⁻¹ y of the kernels (1/F) Σ cos(v·(x - x')) and both λ: (R, P, n)."""

    def gram(width, V, A, B):
        return np.cos((A[:, None] - B[None]) @ V.T / width).mean(axis=-1)

    def fit(ridge, width, V):
        alpha = np.linalg.solve(gram(width, V, X, X) + ridge * np.eye(len(X)), y)
        return gram(width, V, points, X) @ alpha

    pairs = list(zip(WIDTHS, np.asarray(frequencies), strict=True))
    return np.array([[fit(ridge, *pair) for pair in pairs] for ridge in (RIDGE, 2.0)])


@jax.jit
def values(learner, state, points):
    """Values of all models at the points (E, n)."""

    def one(x):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, x[None]))
        return learner.predict_code(state, code)[1][0].values

    return jax.vmap(one)(points).T


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_shards_are_one_pass_over_all():
    """Ragged, with a period that is not full at their ends; and the stream goes on alike."""
    X, y = data()
    _, merged = learned_apart()
    points = np.random.default_rng(1).normal(size=(9, 3))
    expected = ridge_regression(merged.models[0].frequencies, joined(X), joined(y), points)
    found = values(LEARNER, merged, points).reshape(2, 2, 9)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    one, _ = jaxmkl.run(LEARNER, begin(LEARNER), joined(X), joined(y))
    np.testing.assert_allclose(found, values(LEARNER, one, points).reshape(2, 2, 9), atol=1e-8)
    assert int(merged.round) == int(one.round) == sum(LENGTHS)
    assert_equal(merged.key, one.key)
    ahead = [jaxmkl.run(LEARNER, state, joined(X), joined(y))[0] for state in (merged, one)]
    assert_close(values(LEARNER, ahead[0], points), values(LEARNER, ahead[1], points), 1e-8)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_what_all_shards_knew_counts_once():
    """Learned apart, merged, and again: still one pass."""
    X, y = data()
    _, once = learned_apart()
    states, _ = jaxmkl.run_fleet(LEARNER, shards_of(once), X, y, lengths=LENGTHS)
    state = jaxmkl.merge(LEARNER, states, start=once)
    points = np.random.default_rng(1).normal(size=(9, 3))
    twice = [np.concatenate([joined(a)] * 2) for a in (X, y)]
    expected = ridge_regression(state.models[0].frequencies, *twice, points)
    found = values(LEARNER, state, points).reshape(2, 2, 9)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert int(state.round) == 2 * sum(LENGTHS)
    assert int(state.noise.number) == 2 * int(once.noise.number) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_losses_of_the_shards_weigh_the_models():
    """Log-weights are -η_g times the losses so far of each model, up to a constant."""
    states, merged = learned_apart()
    total = states.aggregate.log_weights.sum(axis=0)
    np.testing.assert_allclose(merged.aggregate.log_weights, total - total.max())
    assert float(np.ptp(total)) > 1


@pytest.mark.endless
@pytest.mark.usefixtures("x64")
def test_models_of_several_outputs():
    """And uniform weights, and labels refused, which are no examples but are counted."""
    learner = least_squares(updates.RLS(RIDGE), aggregate.Uniform(), num_outputs=2)
    X, y = data()
    X, y = X[:2], np.stack([y, X[..., 0]], axis=-1)[:2]
    y[1, 5] = np.nan
    run_it = jax.jit(lambda state, X, y: jaxmkl.run(learner, state, X, y)[0])
    shards = [run_it(begin(learner), *shard) for shard in zip(X, y, strict=True)]
    merged = jaxmkl.merge(learner, stacked(*shards))
    one = run_it(shards[0], X[1], y[1])
    assert int(merged.invalid) == int(one.invalid) == 1
    points = np.random.default_rng(1).normal(size=(9, 3))
    predict = jax.jit(learner.predict_many)
    found, expected = (predict(state, points).value for state in (merged, one))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def growing():
    features = jaxmkl.features.SampledDictionary(4)
    bank = models.FeatureModels(jaxmkl.Gaussian(1.0), updates.RLS(0.1), features)
    return jaxmkl.MKL(bank)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (jaxmkl.raker(KERNELS), "merge: a part .* by least squares .*got OGD"),
        (least_squares(updates.RLS(0.1, 0.99)), "forgetting of RLS must be 1: .*got 0.99"),
        (least_squares(top=aggregate.Mixture()), "under Uniform, Hedge or DrawOne.*got Mixture"),
        (jaxmkl.spa(KERNELS), "must be models on features.*got SupportModels"),
        (growing(), "features must be features that do not grow"),
        (least_squares(query=jaxmkl.query.Rate(0.5)), "learner.query must be one without a state"),
        (jaxmkl.scaled(LEARNER, jaxmkl.wrappers.RunningMoments()), "learner must be composed"),
    ],
    ids=["gradient", "forgetting", "mixture", "supports", "growing", "query", "scaled"],
)  # fmt: skip
def test_what_does_not_add_up_is_refused(learner, message):
    state = learner.init(jax.random.key(0), num_inputs=3)
    with pytest.raises(ValueError, match=message):
        jaxmkl.merge(learner, jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), state))


@pytest.mark.slow
def test_states_that_do_not_belong_together_are_refused():
    one, other = begin(LEARNER, seed=0), begin(LEARNER, seed=1)
    apart = stacked(one, other)
    with pytest.raises(ValueError, match="features must be the same in all states"):
        jaxmkl.merge(LEARNER, apart)
    with pytest.raises(ValueError, match="features must be the same in all states and the start"):
        jaxmkl.merge(LEARNER, shards_of(one), start=other)
    ahead = one.replace(round=one.round + 3)
    with pytest.raises(ValueError, match="start must be the state that all shards began with"):
        jaxmkl.merge(LEARNER, stacked(ahead, one), start=ahead)
    with pytest.raises(ValueError, match="merge: states must be states of one learner, stacked"):
        jaxmkl.merge(LEARNER, one)
    with pytest.raises(ValueError, match="merge: states must be arrays, outside of jit"):
        jax.jit(lambda states: jaxmkl.merge(LEARNER, states))(shards_of(one))
    (bank,) = shards_of(one).models
    spoiled = bank.rules[0]._replace(covariance=-bank.rules[0].covariance)
    broken = shards_of(one).replace(models=(bank._replace(rules=(spoiled,)),))
    with pytest.raises(ValueError, match="rounding has left a covariance without an inverse"):
        jaxmkl.merge(LEARNER, broken)
