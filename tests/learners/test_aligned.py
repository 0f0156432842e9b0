"""Proj-KA: one pass against the two of the published method, by the NumPy oracles."""

import numpy as np
import pytest

import jaxmkl
from jaxmkl import proj_ka
from jaxmkl.learners import Aligned
from jaxmkl.models import SupportModels
from jaxmkl.updates import OGD
from tests.common.selection_streams import assert_finite, begin, keyless, raw, stream
from tests.common.trees import everything, scan
from tests.oracles import oks as oracle
from tests.oracles.support_mkl import SupportMKL, gaussian

SMALL_PROGRAMS = FEW_ROWS = True

# The Gram matrices of wider kernels have no inverse in double precision.
WIDTHS = (0.1, 0.2, 0.3, 0.5)
BUDGET, NUM_ALIGNED = 20, 130


def alignments(kernels, X, y, last):
    """Alignments over the first t examples (last + 1, P), t = 0, ..., last; 0 for none."""
    rows = np.zeros((last + 1, len(kernels)))
    for p, kernel in enumerate(kernels):
        K = np.array([kernel(X[:last], x) for x in X[:last]])
        for t in range(1, last + 1):
            ideal = np.outer(y[:t], y[:t])
            rows[t, p] = np.sum(K[:t, :t] * ideal) / (t * np.linalg.norm(K[:t, :t]))
    return rows


def check(X, y, widths, budget, num_aligned):
    """The learner's rounds are the oracles'; return which kernel predicted in each (T,)."""
    kernels = [gaussian(width) for width in widths]
    learner = proj_ka(jaxmkl.Gaussian(widths), budget=budget, num_aligned=num_aligned)
    start = begin(learner, X.shape[1])
    end, outputs = jaxmkl.run(learner, start, X, y, block_size=16, record=everything)

    aligned = alignments(kernels, X, y, num_aligned)
    aligned = aligned[np.minimum(np.arange(len(X)), num_aligned)]
    np.testing.assert_allclose(outputs.info.alignment, aligned, rtol=1e-9, atol=1e-12)
    best = np.argmax(np.round(aligned, 12), axis=1)  # the first of equal ones
    np.testing.assert_array_equal(np.argmax(outputs.info.weights, axis=1), best)
    np.testing.assert_array_equal(np.sum(outputs.info.weights, axis=1), 1)

    # before round m, the Projectron of the kernel best aligned so far predicts
    predictions, support = [], []
    for kernel in kernels:
        plain = SupportMKL(
            [kernel], policy="project", budget=budget, threshold=0.0, combination="value"
        )
        support.append([])
        predictions.append([])
        for x, label in zip(X, y, strict=True):
            support[-1].append(plain.support[0])
            predictions[-1].append(plain.step(x, label, [0.0], [0.0]))
    predictions, rounds = np.array(predictions), np.arange(len(X))
    np.testing.assert_allclose(outputs.prediction, predictions[best, rounds], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(outputs.info.support, np.transpose(support))
    assert np.all(np.array(support)[:, -1] == budget)

    # from round m on, the published method
    width, plain = oracle.proj_ka(widths, X, y, budget, num_aligned)
    one = [plain.step(x, label, [0.0], [0.0]) for x, label in zip(X, y, strict=True)]
    np.testing.assert_allclose(
        outputs.prediction[num_aligned:], one[num_aligned:], rtol=1e-9, atol=1e-9
    )
    info = learner.info(end)
    assert widths[int(np.argmax(info.weights))] == width
    library = jaxmkl.kernels.kernel_alignment(
        jaxmkl.Gaussian(widths), X[:num_aligned], y[:num_aligned]
    )
    np.testing.assert_allclose(info.alignment, library, rtol=1e-9)
    return best


@pytest.mark.endless
def test_agrees_with_the_oracles(x64):
    best = check(*stream(), WIDTHS, BUDGET, NUM_ALIGNED)
    assert len(set(best[1:NUM_ALIGNED])) > 1, "one kernel after another was best"
    assert best[-1] != 0


@pytest.mark.endless
@pytest.mark.parametrize("kind", [1e4, "bound"])
def test_far_examples_are_finite_and_say_nothing(kind):
    X, y = raw(kind, 8)
    learner = proj_ka(jaxmkl.Gaussian((0.1, 1.0)), budget=10, num_aligned=50)
    end, outputs = scan(learner, begin(learner, X.shape[1], np.float32), X, y)
    assert_finite((keyless(end), outputs))
    np.testing.assert_array_equal(outputs.prediction, 0)
    # K is the identity: 1 / sqrt(m), of both kernels alike
    np.testing.assert_allclose(learner.info(end).alignment, 50**-0.5, rtol=1e-5)
    assert learner.info(end).weights.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"kernels": 1.0}, "kernels"),
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"num_aligned": 0}, "num_aligned"),
        ({"num_aligned": 1e4}, "num_aligned"),
    ],
)
def test_bad_arguments_are_named(arguments, wanted):
    with pytest.raises(ValueError, match=rf"\b{wanted} must be .*; got "):
        proj_ka(**arguments)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (None, "models with supports"),
        (jaxmkl.Gaussian(1.0), "models with supports"),
        (SupportModels(jaxmkl.Gaussian(1.0), OGD(0.1)), "for classification"),
    ],
)
def test_other_models_are_refused(models, said):
    with pytest.raises(ValueError, match=f"Aligned: models must be {said}.*; got "):
        Aligned(models)
