"""Models on features: each rule against NumPy in double precision, on both kinds of maps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
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


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


@functools.partial(jax.jit, static_argnames="dtype")
def start(learner, key, dtype):
    return learner.init(key, 2, dtype)


def numbers(tree):
    def plain(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(plain, tree)


def assert_same(one, other):
    """Bit for bit."""
    left, right = jax.tree.leaves_with_path(numbers(one)), jax.tree.leaves(numbers(other))
    for (path, a), b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


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


RULES = {
    "perceptron": Perceptron(),
    "passive aggressive": PassiveAggressive(0.3),
    "sparse passive aggressive": SparsePassiveAggressive(0.5, 1.0, 1.5),
    "gradient": OGD(0.01, 0.5),
    "normalised": NormalizedOGD(0.4),
}


@pytest.mark.parametrize(
    ("name", "scale"),
    [*((name, "sum") for name in RULES), ("passive aggressive", "mean"), ("gradient", "mean")],
)
def test_rules_of_first_order_are_loops_in_numpy(name, scale, x64):
    rule, (X, y, classes) = RULES[name], data()
    if rule.loss == "hinge":
        y = classes
    bank = FeatureModels(jaxmkl.Gaussian(BANDWIDTHS), rule, FourierFeatures(6, scale=scale))
    learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform())
    begun = start(learner, jax.random.key(3), jnp.float64)
    state, outputs = scan(learner, begun, X, y)

    # the numbers of a round: by its key, then by its purpose
    def drawn(t):
        key = jax.random.fold_in(jax.random.fold_in(begun.key, t), 0)
        return jax.random.uniform(key, (2,), jnp.float32)

    uniform = np.asarray(jax.vmap(drawn)(jnp.arange(len(X))), np.float64)
    W = np.asarray(begun.models[0].frequencies)
    theta, predictions, learned = np.zeros((2, 12)), [], 0
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        phase = W @ x / BANDWIDTHS[:, None]
        z = np.concatenate([np.sin(phase), np.cos(phase)], axis=1)
        z = z if scale == "sum" else z / np.sqrt(6)
        f = np.sum(theta * z, axis=1)
        predictions.append(f.mean())
        for p in range(2):
            decay, coefficient = moved_by(rule, f[p], label, z[p] @ z[p], uniform[t, p])
            theta[p] = decay * theta[p] + coefficient * z[p]
            learned += coefficient != 0
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.models[0].rules[0].weights[0], theta, atol=1e-12)
    assert learned > 10
    if rule.loss == "hinge":
        assert learned < 2 * len(X), "some examples are left out"
    _, in_blocks = jaxmkl.run(learner, begun, X, y, block_size=16)
    np.testing.assert_allclose(in_blocks.prediction, predictions, rtol=0, atol=1e-12)


@jax.jit
def values_of(learner, state, x):
    codes = learner.encode_block(state, x[None])
    return learner.decide(state, jax.tree.map(lambda leaf: leaf[0], codes))[1].values


def test_models_stand_rule_by_rule_rate_by_rate_kernel_by_kernel(x64):
    X, y, _ = data()
    kernels, features = jaxmkl.Gaussian(BANDWIDTHS), FourierFeatures(6, scale="mean")

    def learner(rules):
        return jaxmkl.MKL(FeatureModels(kernels, rules, features), jaxmkl.aggregate.Uniform())

    together = learner((OGD([0.1, 0.3]), RLS(0.1, [1.0, 0.9], period=8)))
    assert together.num_models == 2 * (2 + 2)
    begun = start(together, jax.random.key(3), jnp.float64)
    state, _ = scan(together, begun, X, y)
    values, expected = values_of(together, state, X[0]), []
    for rule in (OGD([0.1]), OGD([0.3]), RLS(0.1, [1.0], period=8), RLS(0.1, [0.9], period=8)):
        alone = learner(rule)
        other, _ = scan(alone, start(alone, jax.random.key(3), jnp.float64), X, y)
        expected.extend(np.asarray(values_of(alone, other, X[0])))
    np.testing.assert_allclose(values, expected, rtol=1e-10)


# --- on a sampled dictionary ---------------------------------------------------------------------

SIZE, BANDWIDTH = 12, 0.7
ON_DICTIONARY = {
    "least squares": RLS(0.2, 0.95, max_growth=3.0, period=8),
    "gradient": OGD(0.2, 0.1),
}


def on_dictionary(rules, **parts):
    bank = FeatureModels(jaxmkl.Gaussian(BANDWIDTH), rules, SampledDictionary(SIZE))
    return jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), **parts)


def uniform_numbers(state, num_examples):
    """Those that decide which examples come in: the round's key, the first bank's, uniform."""

    def drawn(t):
        key = jax.random.fold_in(jax.random.fold_in(state.key, t), 3)
        return jax.random.uniform(key, (), jnp.float32)

    return np.asarray(jax.vmap(drawn)(jnp.arange(num_examples)), np.float64)


@pytest.mark.parametrize("name", ON_DICTIONARY)
def test_rules_learn_on_the_coordinates_of_a_dictionary(name, x64):
    """In the turn of each example: its coordinates, its value, its label; in any blocks."""
    rule, (X, y, _) = ON_DICTIONARY[name], data()
    learner = on_dictionary(rule)
    begun = start(learner, jax.random.key(5), jnp.float64)
    points = Dictionary(gaussian(BANDWIDTH), size=SIZE)
    model = RecursiveLeastSquares(0.95, 0.2, 3.0, 8, SIZE)
    predictions = []
    for t, (x, u) in enumerate(zip(X, uniform_numbers(begun, len(X)), strict=True)):
        points.offer(x, u)
        phi = points.embed(x)
        model.begin(t)
        predictions.append(model.theta @ phi)
        if isinstance(rule, RLS):
            model.learn(phi, y[t])
        else:
            error = model.theta @ phi - y[t]
            model.theta = (1 - 0.2 * 0.1) * model.theta - 0.2 * 2 * error * phi
    assert len(points.points) == SIZE
    assert points.refused > 0
    state, outputs = scan(learner, begun, X, y)
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-7)
    bank = state.models[0]
    np.testing.assert_array_equal(bank.features.rows, points.rows())
    assert int(bank.features.refused) == points.refused
    theta = np.asarray(bank.rules[0].weights[0, 0])
    if isinstance(rule, RLS):
        assert len(X) % rule.period == 0
        theta = theta / np.sqrt(0.2)
        S = np.asarray(bank.rules[0].covariance[0, 0]) / 0.2
        np.testing.assert_allclose(S, model.covariance, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(theta, model.theta, rtol=0, atol=1e-7)
    assert np.abs(predictions).max() > 0.5
    after, in_blocks = jaxmkl.run(learner, begun, X, y, block_size=7)
    np.testing.assert_allclose(in_blocks.prediction, predictions, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(after.models[0].features.rows, points.rows())


def test_both_kinds_of_rules_share_a_dictionary(x64):
    X, y, _ = data()
    both = on_dictionary((OGD(0.2, 0.1), ON_DICTIONARY["least squares"]))
    begun = start(both, jax.random.key(5), jnp.float64)
    together, _ = scan(both, begun, X, y)
    for i, name in enumerate(("gradient", "least squares")):
        learner = on_dictionary(ON_DICTIONARY[name])
        alone, _ = scan(learner, start(learner, jax.random.key(5), jnp.float64), X, y)
        assert_same(together.models[0].features, alone.models[0].features)
        np.testing.assert_allclose(
            together.models[0].rules[i].weights, alone.models[0].rules[0].weights, rtol=1e-9
        )


def test_gradients_pass_through_a_dictionary(x64):
    """By the bandwidth, with the same examples coming in; by what the rules have."""
    X, y, _ = data()
    X, y = X[:16], y[:16]
    rules = (OGD(0.2, 0.1), RLS(0.2, 0.95, period=8))
    begun = start(on_dictionary(rules), jax.random.key(5), jnp.float64)

    @jax.jit
    def mean_loss(numbers):
        bandwidth, eta, penalty, ridge, forgetting = numbers
        rules = (OGD(eta, penalty), RLS(ridge, forgetting, period=8))
        bank = FeatureModels(jaxmkl.Gaussian(bandwidth), rules, SampledDictionary(SIZE))
        learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Hedge(0.5))
        state = begun.replace(aggregate=learner.aggregate.init(2, jnp.float64))
        state, outputs = jax.lax.scan(learner.step, state, (X, y))
        return outputs.loss.mean(), state.models[0].features.since

    given = jnp.array([BANDWIDTH, 0.2, 0.1, 0.2, 0.95])
    gradient, came_in = jax.jit(jax.grad(mean_loss, has_aux=True))(given)
    assert (gradient != 0).all()
    for i in range(5):
        step = 1e-6 * jnp.eye(5)[i]
        (above, a), (below, b) = mean_loss(given + step), mean_loss(given - step)
        np.testing.assert_array_equal(a, came_in)
        np.testing.assert_array_equal(b, came_in)
        np.testing.assert_allclose(gradient[i], (above - below) / 2e-6, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("rules", [ON_DICTIONARY["least squares"], ON_DICTIONARY["gradient"]])
def test_padding_leaves_no_trace(rules):
    """Bit for bit, in a dictionary and in what is learned on it; at the end of a period too."""
    X, y = (np.asarray(a, np.float32) for a in data()[:2])
    learner = on_dictionary(rules)
    state, _ = scan(learner, start(learner, jax.random.key(5), jnp.float32), X[:7], y[:7])

    @jax.jit
    def absent(state, x, y):
        codes = learner.encode_block(state, x[None])
        code = jax.tree.map(lambda leaf: leaf[0], codes)
        state, output = learner.advance(state, code, y, present=False)
        return learner.close_block(state, codes), output

    after, output = absent(state, X[20], y[20])
    assert_same(after, state)
    assert not bool(output.queried)


def test_a_label_not_asked_for_still_shows_its_input_to_the_dictionary():
    X, y = (np.asarray(a, np.float32) for a in data()[:2])
    learner = on_dictionary(OGD(0.2))
    state = start(learner, jax.random.key(5), jnp.float32)
    skipped = jax.jit(learner.skip)(state, X[0])
    assert int(skipped.models[0].features.number) == 1
    assert not np.any(skipped.models[0].rules[0].weights)
    taught = jax.jit(learner.update)(state, X[0], y[0])
    assert_same(taught.models[0].features, skipped.models[0].features)


@pytest.mark.parametrize("bad", ["x", "y"])
@pytest.mark.parametrize("rules", [ON_DICTIONARY["least squares"], ON_DICTIONARY["gradient"]])
def test_a_refused_example_does_not_come_in(rules, bad):
    """Nor where its label was asked for and is none: nothing but the counters moves."""
    X, y = (np.asarray(a, np.float32) for a in data()[:2])
    learner = on_dictionary(rules)
    state, _ = scan(learner, start(learner, jax.random.key(5), jnp.float32), X[:3], y[:3])
    x = np.where(bad == "x", np.nan, X[20]).astype(np.float32)
    label = np.float32(np.nan if bad == "y" else 1.0)
    after = jax.jit(learner.update)(state, x, label)
    assert_same(after, state.replace(round=state.round + 1, invalid=state.invalid + 1))


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
            lambda: FeatureModels(jaxmkl.Gaussian(1.0), jaxmkl.updates.Rule()),
            "FeatureModels: rules must be of first or second order",
        ),
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
