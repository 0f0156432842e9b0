"""Zhang and Liao's learners as published: every round against the NumPy oracles."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from support_cases import held, numbers_of, rounds

import jaxmkl
from jaxmkl.recipes import published
from tests.common.marks import long
from tests.common.selection_streams import begin, stream, trajectory
from tests.common.trees import everything
from tests.oracles import oks as oracle
from tests.oracles.support_mkl import gaussian

SMALL_PROGRAMS = FEW_ROWS = True

# section 6: Ω = [2^-6.5, 2^5.5] for σ, and so for γ = 1/(2 σ²)
LOW, HIGH = 2.0**-6.5, 2.0**5.5
STARTS = [2.0 ** (-(i + 1) / 2) for i in range(-12, -5)]


def made(name, T, D, **changes):
    return dataclasses.replace(published(name, num_examples=T, num_inputs=D), **changes)


# --- OKS-SIL and OKL-GD --------------------------------------------------------------------------


def draws(state, num_rounds, samples):
    """The uniform numbers (T, s) of the rounds."""

    def one(t):
        return jax.random.uniform(jax.random.fold_in(state.key, t), (samples,), np.float32)

    return np.asarray(jax.jit(jax.vmap(one))(np.arange(num_rounds)), np.float64)


def check_moving(learner, plain, X, y, *draws, seed=3):
    """Predictions, weights and the kernel of all rounds; ``plain`` begins with the same kernel."""
    start = begin(learner, X.shape[1], seed=seed)
    theta = float(start.coordinates)
    one = plain(theta)
    state, outputs, states = trajectory(learner, start, X, y)
    predictions, thetas, did = np.zeros(len(X)), np.zeros(len(X)), []
    weights = np.zeros((len(X), learner.budget))
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        own = one.weights if hasattr(one, "weights") else [c.coefficient for c in one.centres]
        weights[t, : len(own)], thetas[t] = own, one.theta
        predictions[t] = one.step(x, label, *(u[t] for u in draws))
        did.append(getattr(one, "did", None))
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(states.weights, weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(states.coordinates, thetas, rtol=1e-9)
    np.testing.assert_allclose(state.coordinates, one.theta, rtol=1e-9)
    assert abs(thetas[-1] / theta - 1) > 1e-6, "the kernel moved"
    return theta, did


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "samples", "gradients"),
    long(
        [(150, 3, "prediction")],
        [(150, 3, "prediction"), (8, 8, "prediction"), (8, 8, "sketches")],
    ),
)
def test_oks_sil(budget, samples, gradients, x64):
    """As published, and with all of B drawn, which leaves nothing to chance."""
    X, y = stream()
    # so that basis functions are both replaced and compensated for
    scale, eta = (4.0, 0.01) if budget == 150 else (1.0, 1.0)
    X = scale * X
    learner = made("oks_sil", len(X), X.shape[1], step_size=eta)
    assert (learner.budget, learner.num_sampled, learner.gradients) == (150, 3, "prediction")
    assert made("oks_sil", 10_000, 3).budget == 200
    learner = dataclasses.replace(learner, budget=budget, num_sampled=samples, gradients=gradients)
    plain = functools.partial(
        oracle.HypothesisSketch,
        low=0.5 / HIGH**2,
        high=0.5 / LOW**2,
        eta=eta,
        rate=1.0,
        budget=budget,
        samples=samples,
        nu=0.9,
        gradients=gradients,
    )
    u = draws(begin(learner, X.shape[1]), len(X), samples)
    theta, did = check_moving(learner, plain, X, y, u)
    assert np.isclose(theta, 0.5 / np.square(STARTS)).sum() == 1
    assert min(did.count(what) for what in ("replaced", "compensated")) > 5, did


@pytest.mark.slow
def test_okl_gd(x64):
    X, y = stream()
    X = 3 * X
    learner = made("okl_gd", len(X), X.shape[1], step_size=0.1)
    assert learner.budget == 2000
    plain = functools.partial(oracle.OwnKernels, low=LOW, high=HIGH, eta=0.1, memory=2000)
    theta, _ = check_moving(learner, plain, X, y, seed=2)
    assert np.isclose(theta, STARTS).sum() == 1


def check_held(found, rows, coefficients, X):
    """Which rows of the stream a kernel holds, in order, and their coefficients."""
    number_of = numbers_of(X)
    assert [t for t, _ in found] == [number_of[row.tobytes()] for row in rows]
    np.testing.assert_allclose([a for _, a in found], coefficients, rtol=1e-9, atol=1e-9)


# --- OKS -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_oks(x64):
    X, y = stream()
    T = len(X)
    learner = published("oks", num_examples=T, num_inputs=X.shape[1])
    assert learner.models[0].store.capacity >= T
    widths = oracle.candidate_widths()
    start = begin(learner, X.shape[1])
    plain = oracle.SampledKernel(
        [gaussian(width) for width in widths], 0.1, oracle.oks_rate(25, T, 0.2), 0.2
    )

    def chance(t):
        key = jax.random.fold_in(jax.random.fold_in(start.key, t), 1)
        return jax.random.uniform(key, (), np.float32)

    u = np.asarray(jax.jit(jax.vmap(chance))(np.arange(T)), np.float64)
    state, outputs, values = rounds(learner, start, X, y)
    predictions, drawn, chances = [], [], []
    for example in zip(X, y, u, strict=True):
        predictions.append(plain.step(*example))
        drawn.append(plain.drawn)
        chances.append(plain.chances)
    found = np.asarray(values)[np.arange(T), drawn]
    np.testing.assert_allclose(found, predictions, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(outputs.prediction, np.where(np.array(predictions) < 0, -1, 1))
    np.testing.assert_allclose(outputs.info.weights, chances, rtol=1e-9)
    for found, rows, coefficients in zip(
        held(state, X), plain.rows, plain.coefficients, strict=True
    ):
        check_held(found, rows, coefficients, X)
    chances = 0.8 * plain.weights / plain.weights.sum() + 0.2 / 25
    np.testing.assert_allclose(learner.aggregate.weights(state.aggregate), chances, rtol=1e-9)
    assert len(set(drawn)) > 15
    assert plain.weights.max() / plain.weights.min() > 2


# --- Proj-KA -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("budget", long([20], [150, 20]))
def test_proj_ka(budget, x64):
    """Two runs; the second has the kernel that the first chose, and begins anew."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(160, 6))
    y = np.where((np.sin(3 * X[:, 0]) + X[:, 1] > 0) ^ (rng.random(160) < 0.2), 1.0, -1.0)
    learner = published("proj_ka", num_examples=len(X), num_inputs=X.shape[1])
    assert (learner.models.store.budget, learner.num_aligned) == (150, 160)
    assert published("proj_ka", num_examples=20_000, num_inputs=6).num_aligned == 10_000
    store = dataclasses.replace(learner.models.store, budget=budget)
    learner = dataclasses.replace(
        learner, models=dataclasses.replace(learner.models, store=store), num_aligned=100
    )
    widths = oracle.candidate_widths()
    width, plain = oracle.proj_ka(widths, X, y, budget, 100)
    start, how = begin(learner, X.shape[1]), {"record": everything}
    state, first = jaxmkl.run(learner, start, X[:100], y[:100], **how)
    np.testing.assert_array_equal(first.prediction, 0)
    assert not np.any(learner.info(state).support)
    np.testing.assert_allclose(
        learner.info(state).alignment,
        oracle.kernel_alignment([gaussian(w) for w in widths], X[:100], y[:100]),
        rtol=1e-9,
    )
    state, outputs = jaxmkl.run(learner, state, X, y, **how)
    chosen = widths.index(width)
    assert np.all(np.argmax(outputs.info.weights, axis=1) == chosen)
    predictions, support = [], []
    for x, label in zip(X, y, strict=True):
        support.append(plain.support[0])
        predictions.append(plain.step(x, label, [0.0], [0.0]))
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(outputs.info.support[:, chosen], support)
    np.testing.assert_array_equal(np.delete(outputs.info.support, chosen, axis=1), 0)
    found = held(state.replace(models=(state.models,)), X)[chosen]
    (one,) = plain.expansions
    check_held(found, [e.x for e in one.entries], [e.coefficient for e in one.entries], X)
    assert (support[-1] == budget) == (budget == 20)
