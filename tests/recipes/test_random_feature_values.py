"""The recipes on random features: their numbers, what they promise, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from feature_cases import PAPER_BANDWIDTHS, SMALL, small, two_classes, wave

import jaxmkl
from jaxmkl.query import Disagreement
from jaxmkl.select import AdaptiveKernelSelection
from jaxmkl.updates import OGD, RLS
from tests.common.marks import long
from tests.common.trees import scan

SMALL_PROGRAMS = True


# --- the papers' settings ------------------------------------------------------------------------


def test_defaults_are_the_papers():
    for name in ("raker", "omkl_aks", "amkl", "amkl_aks"):
        learner = getattr(jaxmkl, name)()
        (bank,) = learner.models
        np.testing.assert_allclose(bank.kernels.bandwidth, PAPER_BANDWIDTHS, rtol=1e-6)
        assert bank.features.num_features == 50
        assert learner.task == "regression"
        aks = isinstance(learner.select, AdaptiveKernelSelection)
        assert aks == name.endswith("aks")
        assert not aks or float(learner.select.threshold) == 0.8
        active = isinstance(learner.query, Disagreement)
        assert active == name.startswith("amkl")
        if active:
            assert int(learner.query.max_skips) == 1
        (rule,) = bank.rules
        assert isinstance(rule, OGD)
        # a penalty of λ/2 |θ|², where the paper has .01 |θ|²
        np.testing.assert_allclose(rule.regularization, 0.02)


def test_expert_mkl_has_a_rule_for_each_rate_and_factor():
    learner = jaxmkl.expert_mkl(banks="fixed")
    first, second = learner.models[0].rules
    assert isinstance(first, OGD)
    assert isinstance(second, RLS)
    np.testing.assert_allclose(first.step_sizes, (0.1, 0.25, 0.5, 0.7))
    np.testing.assert_allclose(second.forgetting, (1.0, 0.999))
    assert learner.num_models == 6 * 8
    assert isinstance(learner.aggregate, jaxmkl.aggregate.Stack)
    hedge = jaxmkl.expert_mkl(task="classification", hedge_rate=0.1).aggregate
    assert (hedge.rate, hedge.bound) == (0.1, 1.0)
    assert jaxmkl.expert_mkl(task="classification").task == "classification"


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("raker", {"step_size": -0.1}, "step_size"),
        ("raker", {"regularization": -1.0}, "regularization"),
        ("raker", {"hedge_rate": np.inf}, "Hedge: rate"),
        ("raker", {"loss": "cubic"}, "loss"),
        ("raker", {"feature_scale": "median"}, "scale"),
        ("raker", {"num_features": 0}, "num_features"),
        ("raker", {"select": "aks"}, "select"),
        ("raker", {"query": "all"}, "query"),
        ("expert_mkl", {"hedge_rate": 1.0, "aggregate": jaxmkl.aggregate.Uniform()}, "hedge_rate"),
        ("raker", {"kernels": "gaussian"}, "kernels"),
        ("omkl_aks", {"selection_threshold": 1.5}, "threshold"),
        ("amkl", {"tolerance": -1e-3}, "tolerance"),
        ("amkl", {"max_skips": -1}, "max_skips"),
        ("expert_mkl", {"task": "ranking"}, "task"),
        ("expert_mkl", {"forgetting": (1.1,)}, "forgetting"),
        ("expert_mkl", {"step_sizes": (-0.1,)}, "step_sizes"),
        ("expert_mkl", {"regularization": 0.0}, "regularization"),
    ],
)
def test_bad_hyperparameters_are_named(name, arguments, wanted):
    with pytest.raises(ValueError, match=wanted):
        getattr(jaxmkl, name)(**arguments)


# --- hyperparameters are data --------------------------------------------------------------------

VARIED = {
    "amkl_aks": [
        {"step_size": 0.05},
        {"step_size": 0.05, "tolerance": 0.2, "max_skips": 3},
        {"step_size": 0.01, "selection_threshold": 0.2, "bandwidths": SMALL + 1},
    ],
    "expert_mkl": [
        {"step_sizes": (0.1, 0.4), "regularization": 0.1},
        {"step_sizes": (0.2, 0.3), "regularization": 1.0, "forgetting": (0.9, 0.99)},
        {"step_sizes": (0.1, 0.4), "regularization": 0.1, "hedge_rate": 0.2},
    ],
}


def mean_loss(learner, state, X, y):
    _, outputs = jax.lax.scan(learner.step, state, (X, y))
    return outputs.loss.mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["expert_mkl"], ["amkl_aks", "expert_mkl"]))
def test_run_compiles_once_for_all_values(name, caplog):
    X, y = wave(20)

    def compilations(arguments):
        learner = small(name, **arguments)
        state = learner.init(jax.random.key(0), 3)
        caplog.clear()
        with jax.log_compiles():
            jax.block_until_ready(jaxmkl.run(learner, state, X, y, block_size=9))
        return [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()]

    jax.clear_caches()
    first, *others = [compilations(arguments) for arguments in VARIED[name]]
    assert first, "the log tells of compilations"
    assert others == [[]] * len(others)


@pytest.mark.endless
def test_sweep_is_vmap_over_stacked_learners(x64):
    X, y = wave(20)
    learners = [small("amkl_aks", **arguments) for arguments in VARIED["amkl_aks"]]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(v) for v in leaves]), *learners)
    # starts do not depend on what is varied
    start = learners[0].init(jax.random.key(1), 3)
    together = jax.jit(jax.vmap(mean_loss, in_axes=(0, None, None, None)))(stacked, start, X, y)
    alone = [scan(learner, start, X, y)[1].loss.mean() for learner in learners]
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    assert len({float(loss) for loss in alone}) == len(alone), "every value made a difference"


@pytest.mark.endless
@pytest.mark.parametrize(
    ("name", "given", "varied"),
    [
        ("raker", {"step_size": 0.05, "hedge_rate": 2.0, "loss": "logistic"}, ("step_size",)),
        (
            "expert_mkl",
            {"step_sizes": (0.1, 0.4), "regularization": 0.1, "forgetting": (0.97, 0.95)},
            ("step_size", "forgetting"),
        ),
    ],
)
def test_gradients_agree_with_central_differences(name, given, varied, x64):
    names = ("bandwidth", ".rate", "regularization", *varied)
    learner = small(name, **given)
    X, y = wave(20) if name == "expert_mkl" else two_classes(20)
    start = learner.init(jax.random.key(2), 3)
    gradient = jax.jit(jax.grad(mean_loss))(learner, start, X, y)
    leaves, structure = jax.tree.flatten(learner)
    leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(learner)]
    places = [
        (i, index)
        for i, path in enumerate(paths)
        if any(name in path for name in names)
        for index in np.ndindex(leaves[i].shape)
    ]
    assert {name for name in names for i, _ in places if name in paths[i]} == set(names)
    widths = [1e-5 * max(abs(leaves[i][index]), 1e-2) for i, index in places]
    # learners that are moved at one place, to one side or the other
    moved = [np.tile(leaf, (2 * len(places),) + (1,) * leaf.ndim) for leaf in leaves]
    for k, ((i, index), h) in enumerate(zip(places, widths, strict=True)):
        moved[i][(2 * k, *index)] += h
        moved[i][(2 * k + 1, *index)] -= h
    all_values = jax.jit(jax.vmap(mean_loss, in_axes=(0, None, None, None)))
    values = np.asarray(all_values(jax.tree.unflatten(structure, moved), start, X, y))
    differences = (values[::2] - values[1::2]) / (2 * np.array(widths))
    slopes = jax.tree.leaves(gradient)
    for (i, index), difference in zip(places, differences, strict=True):
        slope = float(np.asarray(slopes[i])[index])
        assert slope == pytest.approx(difference, rel=1e-4, abs=1e-8), (paths[i], index)
        assert slope != 0, (paths[i], index)


# --- nothing diverges ----------------------------------------------------------------------------


def hard_streams(num_examples=50):
    """X (S, T, 4) and y (S, T) of every size, with columns and labels that say nothing."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(num_examples, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=num_examples)
    constant = X.copy()
    constant[:, 1:] = [0.0, 1.0, 1e6]
    inputs = [1e-6 * X, X, 1e3 * X, 1e6 * X, 1e6 * (1 + X), constant, 0 * X]
    labels = [1e-3 * y, y, 1e6 * y, 1e6 + y, np.ones_like(y)]
    pairs = [(a, b) for a in inputs for b in labels]
    return tuple(np.stack(side).astype(np.float32) for side in zip(*pairs, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: jaxmkl.raker(num_features=300),
        pytest.param(jaxmkl.amkl_aks, marks=pytest.mark.endless),
        pytest.param(
            lambda: jaxmkl.expert_mkl(num_features=20, banks="fixed"), marks=pytest.mark.endless
        ),
        pytest.param(lambda: jaxmkl.expert_mkl(num_features=20), marks=pytest.mark.endless),
    ],
    ids=["raker of many features", "amkl_aks", "fixed bank", "expert_mkl"],
)
def test_defaults_never_diverge(make):
    """Sum of (f - y)^2 at most 4 times that of y^2 on every prefix.

    Gradient descent on the squared loss with 2 rate |z|^2 <= 1 has sum f^2 <= sum y^2 whatever the
    data (it is H-infinity optimal), from which this follows for one expert.
    """
    X, y = hard_streams()
    learner = make()

    @jax.jit
    @jax.vmap
    def all_streams(X, y):
        state = learner.init(jax.random.key(0), 4)
        return jax.lax.scan(learner.step, state, (X, y))

    states, outputs = all_streams(X, y)
    for leaf in jax.tree.leaves((outputs, states.models, states.aggregate)):
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            assert np.isfinite(np.asarray(leaf)).all()
    errors = np.cumsum(np.asarray(outputs.loss, np.float64), axis=1)
    energy = np.cumsum(y.astype(np.float64) ** 2, axis=1)
    assert (errors <= 4 * energy + 1e-9).all()


# --- what is refused -----------------------------------------------------------------------------


def test_banks_are_chosen_by_name():
    whole = jaxmkl.expert_mkl(banks=("fixed", "diagonal", "full"), num_features=7)
    (beside,) = whole.models  # their least squares are one array
    # gradient steps on half of the kernels, least squares on a quarter of them
    assert [bank.num_models for bank in beside.banks] == [16, 2, 6]
    assert beside.banks[2].shapes == ("diagonal", "full")
    assert beside.banks[2].bank.features.num_features == 7
    by_default = jaxmkl.expert_mkl(num_features=7)
    assert [bank.num_models for bank in by_default.models] == [23, 2]
    assert [bank.num_models for bank in by_default.models[0].banks] == [16, 2, 3, 2]
    assert repr(by_default.models[0].banks[:2]) == repr(beside.banks[:2])
    assert by_default.models[0].banks[2].shapes == ("full",)
    assert by_default.models[0].banks[3].shapes == ("diagonal",)  # by likelihood
    alone = jaxmkl.expert_mkl(banks="diagonal", num_features=7)
    assert repr(alone.models[0]) == repr(beside.banks[2]).replace(", 'full'", ",")
    # one's own dictionary is the whole one
    assert len(jaxmkl.expert_mkl(jaxmkl.Gaussian(1.0)).models) == 1
    assert len(jaxmkl.expert_mkl(jaxmkl.Gaussian(1.0), banks=("fixed", "trees")).models) == 2
    for wrong in ("forest", ("fixed", "forest"), (), 3, (["fixed"],)):
        with pytest.raises(ValueError, match="expert_mkl: banks must be one or several of 'fix"):
            jaxmkl.expert_mkl(banks=wrong)
    with pytest.raises(ValueError, match="kernels must be None without a fixed bank"):
        jaxmkl.expert_mkl(jaxmkl.Gaussian(1.0), banks=("full", "trees"))
