"""Several targets and several classes: K outputs are K learners that share features."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import query, updates, wrappers
from jaxmkl.aggregate import Hedge, Mixture, Stack, Uniform
from jaxmkl.labels import class_numbers, one_vs_rest
from jaxmkl.models import FeatureModels
from tests.common.marks import long
from tests.common.trees import assert_equal, begin
from tests.oracles import feature_mkl as oracle

SMALL_PROGRAMS = True
T, D, K = 50, 3, 3
KERNELS = jaxmkl.Gaussian([0.5, 2.0])


def targets(seed=0):
    """X (T, D) and three functions of it (T, K)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, D))
    return X, np.sin(X @ rng.normal(size=(D, K))) + 0.1 * rng.normal(size=(T, K))


def classes():
    X, y = targets()
    return X, np.argmax(y, axis=1)


def outcome(learner, X, y, **how):
    state = begin(learner, X.shape[1], dtype=np.dtype("float64"))
    return jaxmkl.run(learner, state, X, y, **how)


def small(**arguments):
    rules = {"step_sizes": (0.2,), "forgetting": (0.99,), "num_features": 4}
    return jaxmkl.expert_mkl(KERNELS, **(rules | arguments))


# --- K outputs are K learners --------------------------------------------------------------------


def learners(name, task, several):
    """The learner of K outputs, or that of one."""
    outputs = {("num_classes" if task == "classification" else "num_outputs"): K}
    outputs = outputs if several else {}
    if name == "raker":
        loss = "logistic" if task == "classification" else "squared"
        return jaxmkl.raker(KERNELS, num_features=4, loss=loss, **outputs)
    if name == "rules of all kinds":
        loss = "squared" if task == "regression" else "hinge"
        rules = [updates.OGD([0.1, 0.3], 0.1, loss), updates.RLS(0.1, (1.0, 0.9), period=4)]
        if task == "classification":
            rules += [updates.PassiveAggressive(0.5), updates.Perceptron()]
            rules += [updates.SparsePassiveAggressive()]
        bank = FeatureModels(KERNELS, rules, jaxmkl.features.FourierFeatures(4))
        return jaxmkl.MKL(bank, Uniform(), task=task, num_outputs=K if several else None)
    if name == "sampled dictionary":
        features = jaxmkl.features.SampledDictionary(5)
        bank = FeatureModels(jaxmkl.Gaussian(1.0), updates.RLS(0.1, period=4), features)
        return jaxmkl.MKL(
            bank, Hedge(0.3), loss="squared", task=task, num_outputs=K if several else None
        )
    bound = 1.0 if task == "classification" else None
    rates = {"aggregate": Stack(Mixture((1.0, 0.9), bound), bound=bound)}
    rates = {"hedge_rate": 0.5} if name == "hedge" else rates
    return small(task=task, **rates, **outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"),
    long(
        [("raker", "classification")],
        itertools.product(
            ("raker", "hedge", "stack", "rules of all kinds", "sampled dictionary"),
            ("regression", "classification"),
        ),
    ),
)
def test_outputs_are_learners_of_their_own(name, task, x64):
    X, y = targets() if task == "regression" else classes()
    each = y if task == "regression" else np.where(y[:, None] == np.arange(K), 1.0, -1.0)
    _, together = outcome(learners(name, task, True), X, y)
    alone = [outcome(learners(name, task, False), X, each[:, k])[1] for k in range(K)]
    assert together.prediction.shape == (T, K)
    apart = np.stack([outputs.prediction for outputs in alone], axis=1)
    np.testing.assert_allclose(together.prediction, apart, rtol=1e-9, atol=1e-10)
    losses = sum(np.asarray(outputs.loss) for outputs in alone)
    np.testing.assert_allclose(together.loss, losses, rtol=1e-9)


@pytest.mark.slow
def test_oracle(x64):
    """Every output against the paper's loops, with the learner's frequencies."""
    X, y = targets()
    learner = small(hedge_rate=0.7, orthogonal=False, num_outputs=K)
    start = begin(learner, D, seed=3, dtype=np.dtype("float64"))
    outputs = jaxmkl.run(learner, start, X, y)[1]
    rule = learner.models[0].rules[1]
    rules = [
        lambda size: oracle.GradientDescent(0.2, 0.0, "squared", size),
        lambda size: oracle.RecursiveLeastSquares(0.99, 0.1, rule.max_growth, rule.period, size),
    ]
    for k in range(K):
        one = oracle.FeatureMKL(
            [0.5, 2.0],
            np.asarray(start.models[0].frequencies),
            rules,
            hedge_rate=0.7,
            feature_scale="mean",
        )
        wanted = one.run(X, y[:, k]).prediction
        np.testing.assert_allclose(outputs.prediction[:, k], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.endless
def test_one_vs_rest_is_a_learner_a_class(x64):
    X, y = classes()
    spa = jaxmkl.spa(KERNELS, query=query.Margin(0.5))
    several = wrappers.one_vs_rest(spa, K)
    key = jax.random.key(0)
    begin = jax.jit(lambda of, key: of.init(key, D, jnp.float64))
    state = begin(several, key)
    values, predict = jax.jit(several.predict)(state, X[0]).value, jax.jit(spa.predict)
    for k in range(K):
        own = begin(spa, jax.random.fold_in(key, k))
        assert predict(own, X[0]).value == values[k]
    # all learn when one of them asks, so only with every label are they as if alone
    several = wrappers.one_vs_rest(jaxmkl.spa(KERNELS), K)
    end, outputs = jaxmkl.run(several, begin(several, key), X, y)
    assert (int(end.round), int(end.invalid)) == (T, 0)
    for k in range(K):
        own = begin(jaxmkl.spa(KERNELS), jax.random.fold_in(key, k))
        alone = jaxmkl.run(jaxmkl.spa(KERNELS), own, X, np.where(y == k, 1, -1))[1]
        np.testing.assert_allclose(outputs.prediction[:, k], alone.prediction, atol=1e-10)


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.endless
def test_the_margin_of_classes_is_half_the_distance_to_the_next():
    learner = small(task="classification", num_classes=K, query=query.Margin(0.1))
    X, y = classes()
    state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(0), D), X, y)
    assert 0 < outputs.queried.mean() < 1
    said = jax.jit(learner.predict)(state, X[0])
    _, middle, highest = sorted(np.asarray(said.value).tolist())
    np.testing.assert_allclose(said.score, -(highest - middle) / 2, rtol=1e-5)


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_labels_mean_the_same_everywhere():
    learner = jaxmkl.raker(KERNELS, num_features=4, loss="logistic", num_classes=K)
    X, y = classes()
    X = X.astype(np.float32)
    start = begin(learner, D)
    eager = jaxmkl.run(learner, start, X, y)[1].prediction
    words = jaxmkl.run(learner, start, X, np.array(["ash", "elm", "oak"])[y])[1].prediction
    jitted = jax.jit(lambda y: jaxmkl.run(learner, start, X, y)[1].prediction)(y)
    scanned = jax.lax.scan(learner.step, start, (X, jnp.asarray(y)))[1].prediction
    np.testing.assert_array_equal(eager, words)
    np.testing.assert_allclose(jitted, eager, atol=1e-5)
    np.testing.assert_allclose(scanned, eager, atol=1e-5)
    state = start
    predict, update = jax.jit(learner.predict), jax.jit(learner.update)
    for x, label, wanted in zip(X[:5], y, eager, strict=False):
        np.testing.assert_allclose(predict(state, x).value, wanted, atol=1e-5)
        state = update(state, x, label)
    chunks = [(X[:20], np.array(["ash", "elm", "oak"])[y[:20]]), (X[20:], ["oak"] * 30)]
    assert int(list(jaxmkl.stream(learner, start, chunks))[-1][0].invalid) == 0
    message = r"chunk 1: .* must be of the classes 'ash', 'elm', 'oak'; got 'fir'"
    with pytest.raises(ValueError, match=message):
        list(jaxmkl.stream(learner, start, [chunks[0], (X[20:], ["fir"] * 30)]))


@pytest.mark.slow
def test_what_is_no_class_is_refused_and_counted():
    learner = jaxmkl.raker(KERNELS, num_features=4, loss="logistic", num_classes=K)
    start = begin(learner, D)
    step = jax.jit(learner.step)
    for label in (3.0, -1.0, 0.5, np.nan):
        state, output = step(start, (np.ones(D, np.float32), label))
        assert (int(state.invalid), int(state.round)) == (1, 1)
        assert np.isnan(output.loss)
        assert_equal(start.models, state.models)


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        ([2, 0, 1], [2, 0, 1]),
        (["b", "a", "c"], [1, 0, 2]),
        ([[1.0], [0.0]], [1, 0]),
        ([True], [1]),
        (jnp.array([2, 0], jnp.bfloat16), [2, 0]),
    ],
)
def test_class_numbers(y, wanted):
    found, _ = class_numbers(y, 3)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2, 3], "whole numbers from 0 to 2, or strings; got 3"),
        ([0.5, 1], "got 0.5"),
        ([0.0, np.nan], "got nan"),
        (["a", "b"], "of 3 classes; got 2: ['a', 'b']"),
        ([1j], "dtype complex128"),
        ([[0, 1]], "shape (T,) or (T, 1)"),
    ],
)
def test_class_numbers_refused(y, message):
    with pytest.raises(
        ValueError,
        match=f"{message!r}"[1:-1].replace("(", r"\(").replace(")", r"\)").replace("[", r"\["),
    ):
        class_numbers(y, 3)


def test_one_vs_rest_of_labels():
    found = one_vs_rest(jnp.array([[0], [2]]), 3)
    np.testing.assert_array_equal(found, [[[1, -1, -1]], [[-1, -1, 1]]])


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="num_outputs must be None for classification; got 3"):
        small(task="classification", num_outputs=3)
    with pytest.raises(ValueError, match="num_classes must be None for regression; got 3"):
        jaxmkl.raker(num_classes=3)
    with pytest.raises(ValueError, match="num_outputs must be an integer of at least 2; got 1"):
        small(num_outputs=1)
    bank = jaxmkl.models.SupportModels(KERNELS, updates.Perceptron())
    with pytest.raises(ValueError, match="None with models on supports"):
        jaxmkl.MKL(bank, num_outputs=3)
    with pytest.raises(ValueError, match="learner must be a classifier of two classes"):
        wrappers.one_vs_rest(jaxmkl.raker(), 3)
    learner, (X, y) = jaxmkl.raker(KERNELS, num_features=4, num_outputs=K), targets()
    state = begin(learner, D)
    with pytest.raises(ValueError, match=r"y must have shape \(T, 3\).*got shape \(50,\)"):
        jaxmkl.run(learner, state, X, y[:, 0])
    with pytest.raises(ValueError, match="y must be 3 numbers, the label of x"):
        learner.update(state, X[0], 1.0)
