"""OKS, of which one kernel a round takes part: against the NumPy oracle, and in float32."""

import jax
import numpy as np
import pytest
from support_cases import NUM_EXAMPLES, begin, held, rounds, stream

from jaxmkl import abilities, aggregate, updates
from jaxmkl.kernels import Gaussian
from jaxmkl.mkl import MKL
from jaxmkl.models import DenseSupport, SupportModels
from jaxmkl.recipes import kernel_selection
from tests.oracles import oks as plain_oks
from tests.oracles.support_mkl import gaussian

SMALL_PROGRAMS = FEW_ROWS = True

WIDTHS = (0.1, 0.2, 1.0, 4.0)


def decaying(kernels, *, step_size, smoothing, num_rounds, regularization):
    """OKS's parts with a penalty."""
    update = updates.OGD(step_size, regularization, "hinge")
    rate = plain_oks.oks_rate(kernels.num_kernels, num_rounds, smoothing)
    bank = SupportModels(kernels, update, DenseSupport())
    return MKL(bank, aggregate.DrawOne(rate, smoothing, "vote"))


def check(learner, bandwidths, X, y, step_size, smoothing, regularization=0.0):
    """The learner's rounds are the oracle's; each of the bandwidths was drawn."""
    P = len(bandwidths)
    start = abilities.enlarged(
        learner, begin(learner, X.shape[1]), len(X)
    )  # no room is made inside jit
    plain = plain_oks.SampledKernel(
        [gaussian(b) for b in bandwidths],
        step_size,
        plain_oks.oks_rate(P, len(X), smoothing),
        smoothing,
        regularization,
    )

    def lot(t):
        key = jax.random.fold_in(jax.random.fold_in(start.key, t), 1)
        return jax.random.uniform(key, (), np.float32)

    lots = np.asarray(jax.jit(jax.vmap(lot))(np.arange(len(X))), np.float64)
    predictions, drawn, chances, number = [], [], [], []
    for example in zip(X, y, lots, strict=True):
        number.append([len(rows) for rows in plain.rows])
        predictions.append(plain.step(*example))
        drawn.append(plain.drawn)
        chances.append(plain.chances)
    state, outputs, f = rounds(learner, start, X, y)
    f = np.asarray(f)[np.arange(len(X)), drawn]
    np.testing.assert_allclose(f, predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(outputs.prediction, np.where(np.array(predictions) >= 0, 1, -1))
    np.testing.assert_allclose(outputs.info.weights, chances, rtol=1e-9)
    np.testing.assert_array_equal(outputs.info.support, number)
    for ours, rows, coefficients in zip(
        held(state, X), plain.rows, plain.coefficients, strict=True
    ):
        np.testing.assert_array_equal([X[t] for t, _ in ours], rows)
        np.testing.assert_allclose([a for _, a in ours], coefficients, rtol=1e-12)
    weights = (np.asarray(learner.info(state).weights) - smoothing / P) / (1 - smoothing)
    np.testing.assert_allclose(weights, plain.weights / plain.weights.sum(), atol=1e-9)
    assert len(set(drawn)) == P
    assert np.sum(np.array(predictions) == 0) > 1
    assert plain.weights.max() / plain.weights.min() > 2


@pytest.mark.endless
def test_agrees_with_the_oracle(x64):
    X, y, _ = stream()
    arguments = {"step_size": 0.3, "smoothing": 0.3}
    learner = kernel_selection.oks(Gaussian(WIDTHS), num_rounds=len(X), **arguments)
    check(learner, WIDTHS, X, y, **arguments)


@pytest.mark.slow
def test_a_kernel_that_is_not_drawn_does_not_decay(x64):
    X, y, _ = stream()
    arguments = {"step_size": 0.3, "smoothing": 0.3, "regularization": 0.2}
    learner = decaying(Gaussian(WIDTHS), num_rounds=len(X), **arguments)
    check(learner, WIDTHS, X, y, **arguments)


def test_the_papers_kernels_and_rate():
    learner = kernel_selection.oks(num_rounds=1000)
    (bank,) = learner.models
    np.testing.assert_allclose(bank.kernels.bandwidth, plain_oks.candidate_widths())
    assert learner.aggregate.rate == pytest.approx(plain_oks.oks_rate(25, 1000))


@pytest.mark.endless
def test_single_precision():
    """The sign of values that no float32 holds decides the weights of narrow kernels."""
    X, y, _ = stream()
    learner = kernel_selection.oks(Gaussian(WIDTHS), num_rounds=NUM_EXAMPLES, smoothing=0.9)
    wrong, tiny = {}, {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            start = abilities.enlarged(learner, begin(learner, X.shape[1], dtype), NUM_EXAMPLES)
            _, outputs, f = rounds(learner, start, X.astype(dtype), y.astype(dtype))
            wrong[dtype] = y * np.asarray(outputs.prediction) <= 0
            f = np.abs(np.asarray(f, np.float64))
            tiny[dtype] = np.sum((f > 0) & (f < 1e-40))
    assert tiny[np.float64] > NUM_EXAMPLES / 6
    assert np.sum(wrong[np.float32] != wrong[np.float64]) <= 2
