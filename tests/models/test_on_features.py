"""Models on features: each rule against NumPy in double precision, on both kinds of maps."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import updates
from jaxmkl.features import FourierFeatures, SampledDictionary
from jaxmkl.models import FeatureModels
from jaxmkl.updates import (
    OGD,
    RLS,
    NormalizedOGD,
    PassiveAggressive,
    Perceptron,
    SparsePassiveAggressive,
)
from tests.common.trees import assert_equal, scan
from tests.oracles.feature_mkl import RecursiveLeastSquares
from tests.oracles.multitask import Dictionary
from tests.oracles.support_mkl import gaussian

SMALL_PROGRAMS = True


@functools.cache
def data(num_examples=40):
    """X (T, 2), targets (T,) and classes (T,)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_examples, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    return X, y, np.where(y > 0.1, 1.0, -1.0)


def start(learner, key, dtype):
    return learner.init(key, 2, dtype)


# --- first order, on Fourier features ------------------------------------------------------------

BANDWIDTHS = np.array([0.5, 2.0])


def moved_by(rule, f, y, norm, uniform):
    """decay and coefficient of one model, worked out once more."""
    hinge = max(0.0, 1 - y * f)
    if isinstance(rule, Perceptron):
        return 1.0, y * (y * f <= 0)
    if isinstance(rule, PassiveAggressive):
        return 1.0, y * min(rule.aggressiveness, hinge / norm)
    if isinstance(rule, SparsePassiveAggressive):
        rho = min(rule.alpha, hinge) / rule.beta
        if uniform >= rho:
            return 1.0, 0.0
        return 1.0, y * min(rule.step_size / rho, hinge / norm)
    if isinstance(rule, NormalizedOGD):
        return 1.0, -rule.step_size / (rule.epsilon + norm) * 2 * (f - y)
    eta = float(rule.step_sizes)
    return 1 - eta * rule.regularization, -eta * 2 * (f - y)


RULES = (
    Perceptron(),
    PassiveAggressive(0.3),
    SparsePassiveAggressive(0.5, 1.0, 1.5),
    OGD(0.01, 0.5),
    NormalizedOGD(0.4),
)


@pytest.mark.slow
def test_rules_of_first_order_are_loops_in_numpy(x64):
    """All on the same features; models stand rule by rule, kernel by kernel."""
    X, _, y = data()
    bank = FeatureModels(jaxmkl.Gaussian(BANDWIDTHS), RULES, FourierFeatures(6, scale="mean"))
    learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform())
    begun = start(learner, jax.random.key(3), jnp.float64)
    state, outputs = scan(learner, begun, X, y)

    # the numbers of a round: by its key, then by its purpose
    def drawn(t):
        key = jax.random.fold_in(jax.random.fold_in(begun.key, t), 0)
        return jax.random.uniform(key, (2 * len(RULES),), jnp.float32)

    uniform = np.asarray(jax.vmap(drawn)(jnp.arange(len(X))), np.float64).reshape(len(X), -1, 2)
    W = np.asarray(begun.models[0].frequencies)
    theta, predictions = np.zeros((len(RULES), 2, 12)), []
    learned = np.zeros(len(RULES), int)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        phase = W @ x / BANDWIDTHS[:, None]
        z = np.concatenate([np.sin(phase), np.cos(phase)], axis=1) / np.sqrt(6)
        f = np.sum(theta * z, axis=-1)
        predictions.append(f.mean())
        for (i, rule), p in itertools.product(enumerate(RULES), range(2)):
            drawn_here = uniform[t, i, p]
            decay, coefficient = moved_by(rule, f[i, p], label, z[p] @ z[p], drawn_here)
            theta[i, p] = decay * theta[i, p] + coefficient * z[p]
            learned[i] += coefficient != 0
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-12)
    for own, expected in zip(state.models[0].rules, theta, strict=True):
        np.testing.assert_allclose(own.weights[:, 0, 0], expected, rtol=0, atol=1e-12)
    assert (learned > 10).all()
    assert (learned[:3] < 2 * len(X)).all(), "some examples are left out"


# --- on a sampled dictionary ---------------------------------------------------------------------

SIZE, BANDWIDTH = 12, 0.7
BANK = FeatureModels(
    jaxmkl.Gaussian(BANDWIDTH),
    (OGD(0.2, 0.1), RLS(0.2, 0.95, max_growth=3.0, period=8)),
    SampledDictionary(SIZE),
)
LEARNER = jaxmkl.MKL(BANK, jaxmkl.aggregate.Uniform())


def uniform_numbers(state, num_examples):
    """Those that decide which examples come in: the round's key, the first bank's, uniform."""

    def drawn(t):
        key = jax.random.fold_in(jax.random.fold_in(state.key, t), 3)
        return jax.random.uniform(key, (), jnp.float32)

    return np.asarray(jax.vmap(drawn)(jnp.arange(num_examples)), np.float64)


@pytest.mark.endless
def test_rules_learn_on_the_coordinates_of_a_dictionary(x64):
    """In the turn of each example: its coordinates, its value, its label."""
    X, y, _ = data()
    begun = start(LEARNER, jax.random.key(5), jnp.float64)
    points = Dictionary(gaussian(BANDWIDTH), size=SIZE)
    theta, squares, predictions = np.zeros(SIZE), RecursiveLeastSquares(0.95, 0.2, 3, 8, SIZE), []
    for t, (x, u) in enumerate(zip(X, uniform_numbers(begun, len(X)), strict=True)):
        points.offer(x, u)
        phi = points.embed(x)
        squares.begin(t)
        predictions.append((theta @ phi + squares.theta @ phi) / 2)
        squares.learn(phi, y[t])
        theta = (1 - 0.2 * 0.1) * theta - 0.2 * 2 * (theta @ phi - y[t]) * phi
    assert len(points.points) == SIZE
    assert points.refused > 0
    assert np.abs(predictions).max() > 0.5
    state, outputs = scan(LEARNER, begun, X, y)
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-7)
    ((gradient, least_squares), dictionary) = state.models[0].rules, state.models[0].features
    np.testing.assert_array_equal(dictionary.rows, points.rows())
    assert int(dictionary.refused) == points.refused
    np.testing.assert_allclose(gradient.weights[0, 0, 0], theta, rtol=0, atol=1e-7)
    # up to date where a period is over; features are divided by the root of the regularization
    assert len(X) % 8 == 0
    of_squares = np.asarray(least_squares.weights[0, 0, 0]) / np.sqrt(0.2)
    np.testing.assert_allclose(of_squares, squares.theta, rtol=0, atol=1e-7)
    S = np.asarray(least_squares.covariance[0, 0]) / 0.2
    np.testing.assert_allclose(S, squares.covariance, rtol=1e-6, atol=1e-7)


@pytest.mark.endless
def test_gradients_pass_through_a_dictionary(x64):
    """By the bandwidth, with the same examples coming in; by what the rules have."""
    X, y, _ = data()
    X, y = X[:16], y[:16]
    begun = start(LEARNER, jax.random.key(5), jnp.float64)

    def mean_loss(numbers):
        bandwidth, eta, penalty, ridge, forgetting = numbers
        rules = (OGD(eta, penalty), RLS(ridge, forgetting, period=8))
        bank = FeatureModels(jaxmkl.Gaussian(bandwidth), rules, SampledDictionary(SIZE))
        learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Hedge(0.5))
        state = begun.replace(aggregate=learner.aggregate.init(2, jnp.float64))
        state, outputs = jax.lax.scan(learner.step, state, (X, y))
        return outputs.loss.mean(), state.models[0].features.rows

    given = jnp.array([BANDWIDTH, 0.2, 0.1, 0.2, 0.95])
    value_and_slopes = jax.jit(jax.value_and_grad(mean_loss, has_aux=True))
    (_, came_in), gradient = value_and_slopes(given)
    assert (gradient != 0).all()
    for i in range(5):
        step = 1e-6 * jnp.eye(5)[i]
        (above, a), (below, b) = (value_and_slopes(given + side * step)[0] for side in (1, -1))
        np.testing.assert_array_equal(a, came_in)
        np.testing.assert_array_equal(b, came_in)
        np.testing.assert_allclose(gradient[i], (above - below) / 2e-6, rtol=1e-5, atol=1e-9)


@functools.cache
def amid_a_stream():
    """A state in single precision after five examples."""
    X, y = (np.asarray(a[:5], np.float32) for a in data()[:2])
    return scan(LEARNER, start(LEARNER, jax.random.key(7), jnp.float32), X, y)[0]


EXAMPLE = np.array([0.3, 2.5], np.float32)


@jax.jit
def updated(state, x, y):
    return LEARNER.update(state, x, y)


@pytest.mark.endless
def test_a_label_not_asked_for_still_shows_its_input_to_the_dictionary():
    state = amid_a_stream()
    skipped = jax.jit(LEARNER.skip)(state, EXAMPLE)
    taught = updated(state, EXAMPLE, np.float32(1))
    assert_equal(taught.models[0].features, skipped.models[0].features)
    assert int(skipped.models[0].features.number) > int(state.models[0].features.number)
    of_gradient = [s.models[0].rules[0].weights for s in (skipped, state, taught)]
    np.testing.assert_array_equal(of_gradient[0], of_gradient[1])
    assert np.any(of_gradient[1] != of_gradient[2])


@pytest.mark.endless
def test_an_example_without_a_usable_label_teaches_nothing():
    """Its input comes into the dictionary, which knows no labels."""
    state = amid_a_stream()
    after, skipped = (
        updated(state, EXAMPLE, np.float32(np.nan)),
        jax.jit(LEARNER.skip)(state, EXAMPLE),
    )
    assert_equal(after, skipped.replace(invalid=state.invalid + 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), features=SampledDictionary(4)),
            "SampledDictionary: kernels must be one kernel",
        ),
        (lambda: FeatureModels("gaussian"), "FeatureModels: kernels must be a kernel"),
        (lambda: FeatureModels(jaxmkl.Gaussian(1.0), ()), "FeatureModels: rules must be"),
        (lambda: FeatureModels(jaxmkl.Gaussian(1.0), 0.1), "FeatureModels: rules must be"),
        (lambda: FeatureModels(jaxmkl.Gaussian(1.0), OGD), "FeatureModels: rules must be"),
        (
            lambda: FeatureModels(jaxmkl.Gaussian(1.0), OGD(), "fourier"),
            "FeatureModels: features must be a feature map",
        ),
    ],
)
def test_what_makes_no_bank_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_blocks_fit_the_periods():
    """Those of rules of second order, unless the map grows with the stream."""
    kernel = jaxmkl.Gaussian(1.0)
    assert FeatureModels(kernel, (RLS(period=12), RLS(period=8))).period == 4
    assert FeatureModels(kernel, OGD()).period is None
    assert FeatureModels(kernel, RLS(period=8), SampledDictionary(4)).period is None
    learner = jaxmkl.MKL(FeatureModels(kernel, RLS(period=12)))
    assert [learner.fit_block_size(size) for size in (1, 5, 11, 12, 256)] == [1, 4, 6, 12, 12]
    assert learner.preferred_block_size == 12
    free = jaxmkl.MKL(FeatureModels(kernel, OGD()))
    assert free.fit_block_size(77) == 77


# --- every rule with the defaults ----------------------------------------------------------------

FOR_NUMBERS = {
    "OGD": OGD(),
    "OGD, Huber's loss": OGD(loss="huber"),
    "NormalizedOGD": NormalizedOGD(),
    "Optax": updates.Optax(optax.adam(0.02)),
    "Optax, Huber's loss": updates.Optax(optax.sgd(0.1, momentum=0.5), "huber"),
    "RLS": RLS(period=8),
    "RLS that forgets": RLS(forgetting=0.99, period=8),
}
FOR_CLASSES = {
    "OGD, hinge": OGD(loss="hinge"),
    "OGD, logistic": OGD(loss="logistic"),
    "Optax, logistic": updates.Optax(optax.adagrad(0.1), "logistic"),
    "Perceptron": Perceptron(),
    "PassiveAggressive": PassiveAggressive(1.0),
    "SparsePassiveAggressive": SparsePassiveAggressive(),
}


def test_all_rules_are_played_with_the_defaults():
    rules = {getattr(updates, name) for name in updates.__all__ if name[0].isupper()}
    rules = {r for r in rules if issubclass(r, updates.Rule)} - {updates.Rule, updates.Update}
    played = {type(rule) for rule in (FOR_NUMBERS | FOR_CLASSES).values()}
    assert played == rules


@pytest.mark.endless
@pytest.mark.parametrize(
    ("rules", "D"), [(FOR_NUMBERS, 50), (FOR_CLASSES, 5)], ids=["numbers", "classes"]
)
def test_no_rule_diverges_with_the_defaults_of_the_bank(D, rules):
    """On inputs in [0, 1] and on standardised ones errors stay of the order of the labels.

    Where a kernel is too narrow for D a normalised step of 1/2 errs about twice as much as 0 does.
    """
    learner = jaxmkl.MKL(FeatureModels(jaxmkl.Gaussian([1.0, 8.0]), tuple(rules.values())))
    draws = np.random.default_rng(0)
    for X in draws.uniform(size=(400, D)), draws.normal(size=(400, D)):
        y = np.sin(X[:, 0] + X[:, 1]) + 0.1 * draws.normal(size=400)
        y = y - y.mean()
        y = np.where(y > 0, 1.0, -1.0) if rules is FOR_CLASSES else y / y.std()
        state = learner.init(jax.random.key(0), D)
        state, _ = jaxmkl.run(learner, state, X[:350].astype(np.float32), y[:350])
        assert int(state.nonfinite) == 0
        values = values_of(learner, state, X[350:].astype(np.float32))
        errors = ((values - y[350:, None]) ** 2).mean(axis=0)
        limit = 4.0 if rules is FOR_NUMBERS else 10.0  # margins of classes may be larger than 1
        assert (errors < limit).all(), errors


@jax.jit
def values_of(learner, state, X):
    """The models' values (B, E)."""

    def one(x):
        code = jax.tree.map(lambda leaf: leaf[0], learner.encode(state, x[None]))
        return learner.predict_code(state, code)[1][0].values

    return jax.vmap(one)(X)
