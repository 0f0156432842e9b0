"""Banks side by side are the banks, with their least squares in one array."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities
from jaxmkl.features import FourierFeatures, SampledDictionary
from jaxmkl.models import FeatureModels, Feedback, LikelihoodModels, MetricModels, SideBySide
from jaxmkl.reservoir import Renewal
from jaxmkl.updates import OGD, RLS

SMALL_PROGRAMS = True

WIDTHS, D, B = [0.5, 1.0, 2.0], 3, 8
FEATURES = FourierFeatures(5)


def on_features(*rules):
    return FeatureModels(jaxmkl.Gaussian(WIDTHS), rules, FEATURES)


def banks():
    """A bank of two rules, one with two metrics, and one by likelihood."""
    squares = RLS([0.1, 1.0], [1.0, 0.9], period=B)
    return (
        on_features(OGD([0.1, 0.3]), squares),
        MetricModels(on_features(RLS(0.01, 0.95, max_growth=3.0, period=B)), ("diagonal", "full")),
        LikelihoodModels(on_features(RLS(0.05, period=2 * B)), steps=3),
    )


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


@functools.partial(jax.jit, static_argnums=2)
def begun(bank, key, K=None):
    return bank.init(key, D, float, K)


def feedback_of(y, learns):
    return Feedback(y, learns, jnp.array(True), jnp.array(True))


@jax.jit
def block(bank, state, X, y, learns, round):
    """A block of examples by one bank: its state, values (B, E) and variances (B, E)."""
    keys = jax.random.split(jax.random.key(0), len(X))
    codes = bank.encode(state, X, round, keys)

    def one(state, example):
        code, y, learns = example
        values, aux = bank.predict(state, code)
        variances = abilities.variances(bank, state, code, aux)
        return bank.update(state, code, aux, feedback_of(y, learns)), (values, variances)

    after, said = jax.lax.scan(one, state, (codes, y, learns))
    return bank.close(after, codes, round + len(X)), said


@jax.jit
def renewed(bank, state, given):
    return abilities.renewed(bank, state, given)


def stream(K, blocks=6):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(blocks, B, D))
    y = np.sin(X[..., 0]) + X[..., 1]
    return X, y if K is None else np.stack([y, -y, y**2], -1), rng.random((blocks, B, 64)) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("K", [None, pytest.param(3, marks=pytest.mark.endless)])
def test_models_are_those_of_the_banks_alone(K):
    # of one output fewer, which compile fewer programs, and other places of least squares
    alone, key = banks(), jax.random.key(7)
    places = [np.arange(12), np.arange(12, 18), np.arange(18, 21)]
    if K is None:
        learning = MetricModels(alone[1].bank)
        alone = on_features(*reversed(alone[0].rules)), learning
        places = [np.r_[0:6, 9:15], np.arange(6, 9)]
    together = SideBySide(alone)
    keys = [jax.random.fold_in(key, i) for i in range(len(alone))]
    own = tuple(begun(bank, key, K) for bank, key in zip(alone, keys, strict=True))
    state = begun(together, key, K)
    assert together.num_models == sum(bank.num_models for bank in alone)
    X, y, learns = stream(K)
    for number in range(len(X)):
        if number == 3:
            given = Renewal(
                jnp.asarray(np.vstack(X[:3])),
                jnp.asarray(np.concatenate(y[:3])),
                *(jnp.asarray(24, jnp.int32) for _ in range(3)),
                jax.random.key(5),
            )
            state = renewed(together, state, given)
            own = own[0], *(renewed(alone[i], own[i], given) for i in range(1, len(alone)))
        round, each = jnp.asarray(number * B, jnp.int32), []
        some = learns[number, :, : together.num_models]
        state, found = block(together, state, X[number], y[number], some, round)
        parts = []
        for bank, s, place in zip(alone, own, places, strict=True):
            s, said = block(bank, s, X[number], y[number], some[:, place], round)
            parts.append(s)
            each.append(said)
        own = tuple(parts)
        for got, expected in zip(found, zip(*each, strict=True), strict=True):
            expected = np.concatenate(expected, axis=-1)[..., np.argsort(np.concatenate(places))]
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
    shares = np.stack(
        [abilities.importances(*pair) for pair in zip(alone[1:], own[1:], strict=True)]
    )
    np.testing.assert_allclose(
        abilities.importances(together, state), shares.mean(axis=0), rtol=1e-8
    )


@pytest.mark.endless
def test_shards_of_banks_that_learn_no_kernels_are_merged():
    """To what one pass over all of them learns."""
    alone = on_features(RLS([0.1, 1.0], period=B)), on_features(RLS(0.5, period=B))
    learner = jaxmkl.MKL(SideBySide(alone), jaxmkl.aggregate.Uniform())
    start = learner.init(jax.random.key(0), D, dtype=float)
    X, y, _ = stream(None, 4)
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), start)
    halves = X.reshape(2, -1, D), y.reshape(2, -1)
    merged = jaxmkl.merge(learner, jaxmkl.run_fleet(learner, both, *halves)[0])
    whole, _ = jaxmkl.run(learner, start, X.reshape(-1, D), y.reshape(-1))
    values = [learner.predict_many(state, X[0]).value for state in (merged, whole)]
    np.testing.assert_allclose(*values, rtol=1e-9)
    other = learner.init(jax.random.key(1), D, dtype=float)
    apart = jax.tree.map(lambda *leaves: jnp.stack(leaves), start, other)
    with pytest.raises(ValueError, match="features must be the same in all states"):
        jaxmkl.merge(learner, apart)


@pytest.mark.endless
def test_shards_add_up_for_fixed_kernels_beside_those_that_are_learned():
    """The latter are learned anew from all examples, and may forget; the former may not."""

    def learner(*fixed):
        learning = MetricModels(on_features(RLS(0.5, 0.9, period=B)), first=2 * B)
        return jaxmkl.MKL(SideBySide((learning, on_features(*fixed))), jaxmkl.aggregate.Uniform())

    def shards(learner):
        start = learner.init(jax.random.key(0), D, dtype=float)
        return jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), start)

    adding, forgetting = learner(RLS([0.1, 1.0], period=B)), learner(RLS(0.1, 0.9, period=B))
    X, y, _ = stream(None, 6)
    X, y = X.reshape(-1, D), y.reshape(-1)
    n = len(y) // 3  # the second shard has twice as many
    X_of, y_of = (np.stack([np.pad(a[:n], ((0, n), (0, 0))[: a.ndim]), a[n:]]) for a in (X, y))
    ends, _ = jaxmkl.run_fleet(adding, shards(adding), X_of, y_of, lengths=[n, 2 * n])
    merged = jaxmkl.merge(adding, ends)
    start = adding.init(jax.random.key(0), D, dtype=float)
    whole, _ = jaxmkl.run(adding, start, X, y)
    found, expected = (state.models[0].rules[0] for state in (merged, whole))
    learned = len(WIDTHS)
    np.testing.assert_allclose(found.weights[:, learned:], expected.weights[:, learned:], 1e-8)
    of_larger = jax.tree.map(lambda leaf: leaf[1], ends).models[0].rules[0].weights
    assert np.abs(found.weights - of_larger)[:, learned:].max() > 1e-3
    assert np.abs(found.weights - of_larger)[:, :learned].max() > 1e-3
    with pytest.raises(ValueError, match="forgetting of RLS must be 1"):
        jaxmkl.merge(forgetting, shards(forgetting))


@pytest.mark.endless
def test_derivatives_go_through_the_arguments_of_the_banks():
    X, y, learns = stream(None, 2)
    key = jax.random.key(1)

    def cost(rate, width):
        rules = OGD(0.1), RLS(rate, period=B)
        inside = FeatureModels(jaxmkl.Gaussian(width), rules, FEATURES)
        bank = SideBySide((inside, MetricModels(on_features(RLS(0.1, period=B)))))
        state, total = begun(bank, key), 0.0
        for number in range(2):
            some = learns[number, :, : bank.num_models]
            round = jnp.asarray(number * B, jnp.int32)
            state, (values, _) = block(bank, state, X[number], y[number], some, round)
            total += jnp.sum((values - y[number][:, None]) ** 2)
        return total

    at, step = (jnp.asarray(0.3), jnp.asarray([0.7, 1.5])), 1e-6
    slopes = jax.grad(cost, argnums=(0, 1))(*at)
    above, below = cost(at[0] + step, at[1]), cost(at[0] - step, at[1])
    np.testing.assert_allclose(slopes[0], (above - below) / (2 * step), rtol=1e-5)
    more = jnp.asarray([step, 0.0])
    above, below = cost(at[0], at[1] + more), cost(at[0], at[1] - more)
    np.testing.assert_allclose(slopes[1][0], (above - below) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((jaxmkl.models.TreeModels(),), "banks"),
        ((FeatureModels(jaxmkl.Polynomial(2), RLS(), SampledDictionary(4)),), "do not grow"),
        (
            (MetricModels(on_features(RLS())), LikelihoodModels(on_features(RLS()), first=64)),
            "one first",
        ),
        (
            (
                MetricModels(on_features(RLS()), sample=50),
                MetricModels(on_features(RLS()), sample=60),
            ),
            "one sample",
        ),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        SideBySide(given)


def test_other_numbers_of_features_are_refused():
    other = FeatureModels(jaxmkl.Gaussian(WIDTHS), RLS(), jaxmkl.features.FourierFeatures(6))
    with pytest.raises(ValueError, match="as many features"):
        SideBySide((on_features(RLS()), other)).init(jax.random.key(0), D, float)
