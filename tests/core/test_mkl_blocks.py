"""Composed learners in the form that rounds have on accelerators, beside the other one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator_forms import in_both_forms, plans

import jaxmkl
from jaxmkl import aggregate, query, select, wrappers
from jaxmkl.models import FeatureModels
from jaxmkl.streaming import _engine
from jaxmkl.updates import OGD, RLS
from tests.common.marks import long
from tests.common.trees import assert_close, begin

SMALL_PROGRAMS = True
WIDTHS = jaxmkl.Gaussian((0.5, 2.0))


def fixed(kernels=WIDTHS, **options):
    return jaxmkl.expert_mkl(kernels, num_features=6, **options)


def least_squares(**parts):
    features = jaxmkl.features.FourierFeatures(6)
    rules = RLS((0.1, 1.0), (1.0, 0.99), period=8), OGD((0.1, 0.5), loss="squared")
    return jaxmkl.MKL(FeatureModels(WIDTHS, rules, features), **parts)


LEARNERS = {
    "a stack": fixed,
    "labels asked for": lambda: fixed(query=query.Rate(0.5, by="variance")),
    "classes": lambda: fixed(task="classification", query=query.Margin(0.3)),
    "three targets": lambda: fixed(num_outputs=3),
    "a mixture, some models": lambda: least_squares(
        aggregate=aggregate.Mixture((1.0, 0.9)), select=select.AdaptiveKernelSelection(0.5)
    ),
    "a stack on Hedge": lambda: least_squares(
        aggregate=aggregate.Stack(aggregate.Hedge(1.0), RLS((1.0, 2.0), (1.0, 0.9), period=4))
    ),
    "within a budget of labels": lambda: jaxmkl.label_budget(fixed(), 60),
    "densities of scaled targets": lambda: wrappers.predictive(wrappers.scaled_targets(fixed())),
    "intervals": lambda: wrappers.intervals(fixed()),
    "probabilities of scaled inputs": lambda: wrappers.probabilities(
        jaxmkl.scaled(fixed(task="classification"), wrappers.RunningMoments())
    ),
    "one class against the rest": lambda: wrappers.one_vs_rest(fixed(task="classification"), 3),
    "learned kernels too": lambda: jaxmkl.expert_mkl(num_features=6, banks=("fixed", "diagonal")),
}


def stream(learner, dtype=np.float64):
    """With an example that is refused, and one that has no label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=120)
    if learner.task == "classification":
        y = np.sign(y) if learner.num_outputs is None else np.digitize(y, (-0.5, 0.5)) + 0.0
    elif learner.num_outputs:
        y = np.stack([y, X[:, 0], -y], axis=1)
    X[70, 1] = y[50] = np.nan
    return X, y.astype(dtype)


@pytest.mark.endless
@pytest.mark.parametrize("name", long(["a stack"], LEARNERS))
def test_rounds_on_accelerators_are_the_same(name, x64):
    """Also from amid a block, and a period of least squares, on."""
    learner = LEARNERS[name]()
    X, y = stream(learner)
    _, one, other = in_both_forms(learner, X, y, 20)
    assert_close(other, one, 1e-7)
    assert one[0].invalid >= 1
    assert np.nanstd(one[1].prediction[-40:]) > 0.1  # something was learned


@pytest.mark.endless
def test_rounds_on_accelerators_are_as_good_in_single_precision():
    learner = fixed()
    X, y = stream(learner, np.float32)
    rows, start = _engine.Rows(X, y), begin(learner, 3, dtype=X.dtype)
    one, other = (_engine.run_rows(learner, start, rows, plan=plan)[1] for plan in plans(learner))
    np.testing.assert_allclose(other.prediction, one.prediction, atol=2e-3)


@pytest.mark.endless
def test_derivatives_on_accelerators_are_the_same(x64):
    learner = fixed()
    rows = _engine.Rows(*(jnp.asarray(np.nan_to_num(a)) for a in stream(learner)))

    @partial(jax.jit, static_argnames="plan")
    def slopes(kernels, plan):
        def total(kernels):
            learner = fixed(kernels)
            return _engine.scan_rows(learner, begin(learner, 3), rows, plan=plan)[1].loss.sum()

        return jax.grad(total)(kernels)

    one, other = (slopes(WIDTHS, plan) for plan in plans(learner))
    assert_close(other, one, 1e-6)
    assert np.all(one.bandwidth != 0)
