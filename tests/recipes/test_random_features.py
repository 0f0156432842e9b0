"""The recipes on random features: against the NumPy oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from feature_cases import (
    PAPER_BANDWIDTHS,
    SMALL,
    check_outputs,
    check_state,
    experts_of,
    ogd,
    rls,
    run_oracle,
    small,
    two_classes,
    wave,
)

import jaxmkl
from jaxmkl.query import Disagreement
from jaxmkl.select import AdaptiveKernelSelection
from jaxmkl.updates import RLS
from tests.common.marks import long
from tests.common.trees import everything
from tests.oracles import feature_mkl as oracle

SMALL_PROGRAMS = FEW_ROWS = True


# --- agreement with the oracle -------------------------------------------------------------------


def kinds(bandwidths, num_features, rate, tolerance):
    """name: (the learner, the oracle's arguments)."""
    common = {"kernels": jaxmkl.Gaussian(bandwidths), "num_features": num_features}
    paper = dict(common, step_size=rate)
    rules = {"rules": [ogd(rate)], "hedge_rate": 1.0}
    aks = {"threshold": 0.8}
    active = {"tolerance": tolerance, "max_skips": 1}
    rule = RLS(1.0, 1.0)
    limits = rule.max_growth, rule.period
    experts = jaxmkl.expert_mkl(
        **common, step_sizes=(0.1, 0.5), regularization=0.1, hedge_rate=1.0, orthogonal=False
    )
    return {
        "raker": (jaxmkl.raker(**paper), rules),
        "omkl_aks": (jaxmkl.omkl_aks(**paper), rules | aks),
        "amkl": (jaxmkl.amkl(**paper, tolerance=tolerance), rules | active),
        "amkl_aks": (jaxmkl.amkl_aks(**paper, tolerance=tolerance), rules | aks | active),
        "expert_mkl": (
            experts,
            {
                "rules": [
                    ogd(0.1, 0.0),
                    ogd(0.5, 0.0),
                    rls(1.0, 0.1, *limits),
                    rls(0.999, 0.1, *limits),
                ],
                "hedge_rate": 1.0,
                "feature_scale": "mean",
            },
        ),
    }


def check_agreement(name, bandwidths, num_features, rate, tolerance, X, y):
    learner, arguments = kinds(bandwidths, num_features, rate, tolerance)[name]
    start = learner.init(jax.random.key(11), X.shape[1], dtype=jnp.float64)
    expected = run_oracle(learner, arguments, bandwidths, start, X, y)
    if name.startswith("amkl"):
        assert 0.1 < expected.queried.mean() < 0.95, "labels both asked for and not"
    if name.endswith("aks"):
        sizes = expected.selected.sum(axis=1)
        assert len(np.unique(sizes)) > 2, "subsets of several sizes"
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)


@pytest.mark.data
@pytest.mark.endless
@pytest.mark.parametrize("name", long(["amkl_aks"], ["amkl_aks", "expert_mkl"]))
def test_agrees_with_the_oracle_on_tom(name, data_dir, x64):
    with np.load(data_dir / "tom.npz") as file:
        X, y = file["X"][:1024].astype(np.float64), file["y"][:1024].astype(np.float64)
    bandwidths = PAPER_BANDWIDTHS[::8] if name == "expert_mkl" else PAPER_BANDWIDTHS
    check_agreement(name, bandwidths, 50, 0.01, 0.0005, X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", long(["expert_mkl"], ["raker", "omkl_aks", "amkl", "amkl_aks", "expert_mkl"])
)
def test_agrees_with_the_oracle_on_a_wave(name, x64):
    X, y = wave(160)
    check_agreement(name, np.array([0.5, 1.0, 2.0, 5.0]), 8, 0.05, 0.1, X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loss"), long([("amkl_aks", "hinge")], [("raker", "logistic"), ("amkl_aks", "hinge")])
)
def test_agrees_with_the_oracle_on_classes(name, loss, x64):
    X, y = two_classes(120)
    bandwidths = np.array([0.5, 1.0, 2.0, 5.0])
    arguments = {"rules": [ogd(0.05, 0.02, loss)], "hedge_rate": 0.5, "loss": loss}
    given = {
        "kernels": jaxmkl.Gaussian(bandwidths),
        "num_features": 8,
        "step_size": 0.05,
        "hedge_rate": 0.5,
        "loss": loss,
    }
    if name == "amkl_aks":
        arguments |= {"tolerance": 0.05, "max_skips": 2, "threshold": 0.5}
        given |= {"tolerance": 0.05, "max_skips": 2, "selection_threshold": 0.5}
    learner = getattr(jaxmkl, name)(**given)
    start = learner.init(jax.random.key(5), 3, dtype=jnp.float64)
    expected = run_oracle(learner, arguments, bandwidths, start, X, y)
    _, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    margins = np.asarray(outputs.prediction)
    np.testing.assert_allclose(
        outputs.loss, [oracle.loss(loss, f, label) for f, label in zip(margins, y, strict=True)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", long(["squared"], ["squared", "huber"]))
def test_relative_tolerances_agree_with_the_oracle(loss, x64):
    """In units of the target far from 1; of Huber's loss, whose threshold is 1, in few."""
    X, y = wave(120)
    scale, offset = (100.0, 30.0) if loss == "squared" else (2.0, 0.0)
    y = offset + scale * y
    bandwidths = np.array([0.5, 1.0, 2.0, 5.0])
    active = {"tolerance": 0.3, "max_skips": 2}
    given = {"step_size": 0.05, "hedge_rate": 0.5 / scale**2, "loss": loss}
    learner = jaxmkl.amkl(
        jaxmkl.Gaussian(bandwidths), num_features=8, relative=True, **given, **active
    )
    rules = {"rules": [ogd(0.05, 0.02, loss)], "hedge_rate": 0.5 / scale**2, "loss": loss}
    start = learner.init(jax.random.key(5), 3, dtype=jnp.float64)
    expected = run_oracle(learner, rules | active | {"relative": True}, bandwidths, start, X, y)
    assert expected.queried[:2].all()
    assert 0.35 < expected.queried.mean() < 0.95
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)
    number, labels = state.query.learned
    assert int(number) == expected.queried.sum()
    np.testing.assert_allclose(labels.variance, np.var(y[expected.queried]), rtol=1e-9)


@pytest.mark.slow
def test_clipped_experts_agree_with_the_oracle(x64):
    """As a classifier expert_mkl clips its experts: where they are combined, judged and compared,
    not where they learn."""
    X, y = two_classes(128)
    bandwidths = np.array([0.5, 2.0, 5.0])
    learner = jaxmkl.expert_mkl(
        kernels=jaxmkl.Gaussian(bandwidths),
        task="classification",
        num_features=8,
        step_sizes=(0.4,),
        forgetting=(0.99,),
        regularization=0.02,
        hedge_rate=0.1,
        query=Disagreement(0.3, 1),
        select=AdaptiveKernelSelection(0.3),
    )
    rule = RLS(1.0, 1.0)
    arguments = {
        "rules": [ogd(0.4, 0.0), rls(0.99, 0.02, rule.max_growth, rule.period)],
        "hedge_rate": 0.1,
        "feature_scale": "mean",
        "tolerance": 0.3,
        "max_skips": 1,
        "threshold": 0.3,
    }
    start = learner.init(jax.random.key(12), 3, dtype=jnp.float64)
    expected = run_oracle(learner, arguments | {"bound": 1.0}, bandwidths, start, X, y)
    free = run_oracle(learner, arguments, bandwidths, start, X, y)
    assert np.abs(free.prediction - expected.prediction).max() > 0.1, "the bound is met"
    assert 0.5 < expected.queried.mean() < 0.95
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)


@pytest.mark.slow
def test_single_precision_stays_near_the_oracle():
    """AMKL may at times choose otherwise."""
    X, y = wave(200)
    bandwidths = np.array([0.5, 1.0, 2.0, 5.0])
    learner, arguments = kinds(bandwidths, 8, 0.05, 0.01)["amkl"]
    start = learner.init(jax.random.key(11), 3)
    assert start.models[0].frequencies.dtype == jnp.float32
    frequencies = np.asarray(start.models[0].frequencies, np.float64)
    expected = oracle.FeatureMKL(bandwidths, frequencies, **arguments).run(X, y)
    _, outputs = jaxmkl.run(learner, start, X, y)
    assert outputs.prediction.dtype == jnp.float32
    assert np.mean(np.asarray(outputs.queried) != expected.queried) <= 0.02
    assert np.sqrt(np.mean((np.asarray(outputs.prediction) - expected.prediction) ** 2)) < 0.02


# --- recursive least squares ---------------------------------------------------------------------


@pytest.mark.endless
def test_covariances_survive_forgetting_in_single_precision():
    """4,992 examples, most of them the same point: it excites one direction, the rest would grow.

    1 / 0.9^2000 is 1e91: without a bound on the trace nothing would be left of the covariance.
    """
    rng = np.random.default_rng(8)
    X = np.tile(rng.normal(size=(1, 3)), (4_992, 1)).astype(np.float32)
    X[2_000:2_250] = rng.normal(size=(250, 3))
    X[4_000:] = rng.normal(size=(992, 3))
    y = np.sin(X[:, 0]).astype(np.float32)
    learner = small("expert_mkl", step_sizes=(0.1,), forgetting=(0.9, 0.99, 0.999, 1.0))
    state = learner.init(jax.random.key(4), 3)
    (rule,) = [r for r in learner.models[0].rules if isinstance(r, RLS)]
    state, outputs = jaxmkl.run(learner, state, X, y)
    _, S = experts_of(learner, state)
    assert len(S) == 4 * len(SMALL)
    assert np.isfinite(S).all()
    scale = np.abs(S).max(axis=(1, 2), keepdims=True)
    assert (np.abs(S - S.transpose(0, 2, 1)) <= 1e-6 * scale).all()
    eigenvalues = np.linalg.eigvalsh((S + S.transpose(0, 2, 1)) / 2)
    assert (eigenvalues[:, 0] >= -1e-4 * eigenvalues[:, -1]).all()
    traces = np.trace(S, axis1=1, axis2=2)
    bound = float(rule.max_growth) * 10 / float(np.asarray(rule.regularization))
    assert (traces <= 1.01 * bound).all()
    assert np.isfinite(np.asarray(outputs.prediction)).all()
    # it has stayed able to learn: at the end it is as good as a learner without that past
    _, fresh = jaxmkl.run(learner, learner.init(jax.random.key(4), 3), X[4_000:], y[4_000:])
    losses = np.asarray(outputs.loss, np.float64)
    assert losses[4_500:].mean() <= 1.2 * np.asarray(fresh.loss, np.float64)[500:].mean()
    assert losses[1_000:2_000].mean() < 1e-4
