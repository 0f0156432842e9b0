"""The recipes on random features: against the NumPy oracle, and what they promise besides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.query import Disagreement
from jaxmkl.select import AdaptiveKernelSelection
from jaxmkl.updates import OGD, RLS
from tests.oracles import feature_mkl as oracle

SMALL_PROGRAMS = True
PAPER_BANDWIDTHS = np.sqrt(10.0 ** ((np.arange(1, 18) - 9) / 2))  # (56)
BLOCK_SIZES = (1, 7, 32, 256, None)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))


def everything(output):
    """Record the learner's diagnostics too."""
    return output


def wave(num_examples, num_inputs=3, seed=0):
    """A smooth function with some noise, whose labels stay in [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_examples, num_inputs))
    y = 0.8 * np.sin(X @ np.array([1.5, -0.7, 0.4])[:num_inputs])
    return X, np.clip(y + 0.1 * rng.normal(size=num_examples), -1, 1)


def two_classes(num_examples, seed=0):
    X, y = wave(num_examples, seed=seed)
    return X, np.where(y > 0.1, 1.0, -1.0)


# --- agreement with the oracle -------------------------------------------------------------------


def ogd(rate, regularization=0.02, loss="squared"):
    """The paper's penalty is λ |θ|², the library's λ/2 |θ|²."""
    return lambda size: oracle.GradientDescent(rate, regularization / 2, loss, size)


def rls(forgetting, regularization, max_growth, period):
    return lambda size: oracle.RecursiveLeastSquares(
        forgetting, regularization, max_growth, period, size
    )


def kinds(bandwidths, num_features, rate, tolerance):
    """name: (the learner, the oracle's arguments)."""
    common = {"kernels": jaxmkl.Gaussian(bandwidths), "num_features": num_features}
    paper = dict(common, step_size=rate)
    rules = {"rules": [ogd(rate)], "hedge_rate": 1.0}
    aks = {"threshold": 0.8}
    active = {"tolerance": tolerance, "max_skips": 1}
    rule = RLS(1.0, 1.0)
    limits = rule.max_growth, rule.period
    experts = jaxmkl.expert_mkl(**common, step_sizes=(0.1, 0.5), regularization=0.1)
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


def run_oracle(learner, arguments, bandwidths, state, X, y):
    """The oracle with the learner's own frequencies and noise, and nothing else of it."""
    num_experts = len(arguments["rules"]) * len(bandwidths)

    def noise(t):
        return gumbel[t], uniform[t]

    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(state.key, jnp.arange(len(y)))
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 2)
    if isinstance(learner.select, AdaptiveKernelSelection):
        drawn = jax.vmap(lambda key: learner.select.noise(key, num_experts, jnp.float64))(keys)
        gumbel, uniform = (np.asarray(leaf) for leaf in drawn)

    frequencies = np.asarray(state.models[0].frequencies, np.float64)
    return oracle.FeatureMKL(bandwidths, frequencies, noise=noise, **arguments).run(X, y)


def check_outputs(outputs, expected, tolerance=1e-9):
    np.testing.assert_array_equal(outputs.queried, expected.queried)
    np.testing.assert_array_equal(outputs.info.num_speaking, expected.selected.sum(axis=1))
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=0, atol=tolerance)
    np.testing.assert_allclose(outputs.info.weights, expected.weights, rtol=0, atol=tolerance)


def experts_of(learner, state):
    """The experts' parameters (E, M) and covariances (.., M, M).

    Recursive least squares has them up to date whenever a period is over, for features divided by
    the root of the regularization.
    """
    thetas, covariances = [], []
    (bank,), (models,) = learner.models, state.models
    for rule, local in zip(bank.rules, models.rules, strict=True):
        theta = np.asarray(local.weights, np.float64)
        if isinstance(rule, RLS):
            assert int(state.round) % rule.period == 0
            theta = theta / np.sqrt(rule.regularization)
            S = np.asarray(local.covariance, np.float64) / rule.regularization
            covariances.extend(S.reshape(-1, *S.shape[-2:]))
        thetas.extend(theta.reshape(-1, theta.shape[-1]))
    return np.array(thetas), np.array(covariances)


def check_state(learner, state, expected, tolerance=1e-9):
    thetas, covariances = experts_of(learner, state)
    np.testing.assert_allclose(thetas, np.array(expected.theta), rtol=tolerance, atol=tolerance)
    scale = max([1.0, *(np.abs(S).max() for S in expected.covariance)])
    np.testing.assert_allclose(covariances, np.array(expected.covariance), atol=tolerance * scale)
    if isinstance(learner.select, AdaptiveKernelSelection):
        np.testing.assert_array_equal(state.select.selected, expected.final_selected)
    np.testing.assert_allclose(
        state.aggregate.log_weights, expected.log_weights, rtol=tolerance, atol=tolerance
    )
    if isinstance(learner.query, Disagreement):
        assert int(state.query.skips) == expected.skips


def check_agreement(name, bandwidths, num_features, rate, tolerance, X, y, block_sizes):
    learner, arguments = kinds(bandwidths, num_features, rate, tolerance)[name]
    start = learner.init(jax.random.key(11), X.shape[1], dtype=jnp.float64)
    expected = run_oracle(learner, arguments, bandwidths, start, X, y)
    if name.startswith("amkl"):
        assert 0.1 < expected.queried.mean() < 0.95, "labels both asked for and not"
    if name.endswith("aks"):
        sizes = expected.selected.sum(axis=1)
        assert len(np.unique(sizes)) > 2, "subsets of several sizes"
    state, outputs = scan(learner, start, X, y)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)
    for block_size in block_sizes:
        state, outputs = jaxmkl.run(learner, start, X, y, block_size=block_size, record=everything)
        check_outputs(outputs, expected)
        check_state(learner, state, expected)


KINDS = ("raker", "omkl_aks", "amkl", "amkl_aks", "expert_mkl")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_agrees_with_the_oracle_on_tom(name, data_dir, x64):
    with np.load(data_dir / "tom.npz") as file:
        X, y = file["X"][:2016].astype(np.float64), file["y"][:2016].astype(np.float64)
    bandwidths = PAPER_BANDWIDTHS[::4] if name == "expert_mkl" else PAPER_BANDWIDTHS
    check_agreement(name, bandwidths, 50, 0.01, 0.0005, X, y, BLOCK_SIZES)


@pytest.mark.parametrize(
    ("name", "block_sizes"),
    [
        ("raker", ()),
        ("omkl_aks", ()),
        ("amkl", ()),
        ("amkl_aks", (7,)),
        ("expert_mkl", (7,)),
        *(slow(name, (1, 7, None)) for name in KINDS),
    ],
)
def test_agrees_with_the_oracle_on_a_wave(name, block_sizes, x64):
    X, y = wave(160)
    check_agreement(name, np.array([0.5, 1.0, 2.0, 5.0]), 8, 0.05, 0.1, X, y, block_sizes)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("raker", "logistic"),
        ("amkl_aks", "hinge"),
        slow("raker", "hinge"),
        slow("amkl_aks", "logistic"),
    ],
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


@pytest.mark.parametrize("name", ["amkl", slow("raker"), slow("expert_mkl")])
def test_single_precision_stays_near_the_oracle(name):
    """Where nothing is chosen, rounding stays rounding; AMKL may at times choose otherwise."""
    X, y = wave(200)
    bandwidths = np.array([0.5, 1.0, 2.0, 5.0])
    learner, arguments = kinds(bandwidths, 8, 0.05, 0.01)[name]
    start = learner.init(jax.random.key(11), 3)
    assert start.models[0].frequencies.dtype == jnp.float32
    frequencies = np.asarray(start.models[0].frequencies, np.float64)
    expected = oracle.FeatureMKL(bandwidths, frequencies, **arguments).run(X, y)
    _, outputs = jaxmkl.run(learner, start, X, y)
    assert outputs.prediction.dtype == jnp.float32
    if name == "amkl":
        flipped = np.mean(np.asarray(outputs.queried) != expected.queried)
        assert flipped <= 0.02
        error = np.sqrt(np.mean((np.asarray(outputs.prediction) - expected.prediction) ** 2))
        assert error < 0.02
    else:
        np.testing.assert_allclose(outputs.prediction, expected.prediction, atol=2e-4)


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
    learner = jaxmkl.expert_mkl()
    first, second = learner.models[0].rules
    assert isinstance(first, OGD)
    assert isinstance(second, RLS)
    np.testing.assert_allclose(first.step_sizes, (0.1, 0.25, 0.5, 0.7))
    np.testing.assert_allclose(second.forgetting, (1.0, 0.999))
    state = learner.init(jax.random.key(0), 2)
    assert state.aggregate.log_weights.shape == (6 * 17,)
    assert jaxmkl.expert_mkl(task="classification").task == "classification"


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("raker", {"step_size": -0.1}, "step_size"),
        ("raker", {"step_size": np.nan}, "step_size"),
        ("raker", {"regularization": -1.0}, "regularization"),
        ("raker", {"hedge_rate": -1.0}, "Hedge: rate"),
        ("raker", {"hedge_rate": np.inf}, "Hedge: rate"),
        ("raker", {"loss": "cubic"}, "loss"),
        ("raker", {"feature_scale": "median"}, "scale"),
        ("raker", {"num_features": 0}, "num_features"),
        ("raker", {"select": "aks"}, "select"),
        ("raker", {"query": "all"}, "query"),
        ("expert_mkl", {"hedge_rate": 1.0, "aggregate": jaxmkl.aggregate.Uniform()}, "hedge_rate"),
        ("raker", {"kernels": "gaussian"}, "kernels"),
        ("omkl_aks", {"selection_threshold": -0.1}, "threshold"),
        ("omkl_aks", {"selection_threshold": 1.5}, "threshold"),
        ("amkl", {"tolerance": -1e-3}, "tolerance"),
        ("amkl", {"max_skips": -1}, "max_skips"),
        ("expert_mkl", {"task": "ranking"}, "task"),
        ("expert_mkl", {"forgetting": (0.0,)}, "forgetting"),
        ("expert_mkl", {"forgetting": (1.1,)}, "forgetting"),
        ("expert_mkl", {"step_sizes": (-0.1,)}, "step_sizes"),
        ("expert_mkl", {"regularization": 0.0}, "regularization"),
    ],
)
def test_bad_hyperparameters_are_named(name, arguments, wanted):
    with pytest.raises(ValueError, match=wanted):
        getattr(jaxmkl, name)(**arguments)


# --- hyperparameters are data --------------------------------------------------------------------

SMALL = np.array([0.5, 1.0, 3.0])


def small(name, bandwidths=SMALL, **arguments):
    """A small learner; the same structure for every value of the arguments."""
    return getattr(jaxmkl, name)(kernels=jaxmkl.Gaussian(bandwidths), num_features=5, **arguments)


VARIED = {
    "raker": [
        {"step_size": 0.05},
        {"step_size": 0.01, "hedge_rate": 3.0},
        {"step_size": 0.02, "regularization": 0.3, "bandwidths": 2 * SMALL},
    ],
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
@pytest.mark.parametrize("name", VARIED)
def test_other_values_are_not_another_trace(name):
    traces = 0

    @jax.jit
    def counted(learner, key, X, y):
        nonlocal traces
        traces += 1
        return mean_loss(learner, learner.init(key, 3), X, y)

    X, y = (jnp.asarray(a, jnp.float32) for a in wave(20))
    losses = [float(counted(small(name, **v), jax.random.key(0), X, y)) for v in VARIED[name]]
    assert traces == 1
    assert len(set(losses)) == len(losses), "every value made a difference"


@pytest.mark.parametrize("name", ["amkl_aks", slow("raker"), slow("expert_mkl")])
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


@pytest.mark.parametrize("name", ["amkl_aks", slow("expert_mkl"), slow("raker")])
def test_sweep_is_vmap_over_stacked_learners(name, x64):
    X, y = wave(20)
    learners = [small(name, **arguments) for arguments in VARIED[name]]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(v) for v in leaves]), *learners)
    # starts do not depend on what is varied
    start = learners[0].init(jax.random.key(1), 3)
    together = jax.jit(jax.vmap(mean_loss, in_axes=(0, None, None, None)))(stacked, start, X, y)
    alone = [scan(learner, start, X, y)[1].loss.mean() for learner in learners]
    np.testing.assert_allclose(together, alone, rtol=1e-10)


GRADED = {
    "raker": (
        {"step_size": 0.05, "hedge_rate": 2.0},
        ("bandwidth", "step_size", ".rate", "regularization"),
    ),
    "amkl": (
        {"step_size": 0.05, "hedge_rate": 2.0, "tolerance": 0.01},
        ("bandwidth", "step_size", ".rate", "regularization"),
    ),
    "expert_mkl": (
        {"step_sizes": (0.1, 0.4), "regularization": 0.1, "forgetting": (0.97, 0.95)},
        ("bandwidth", "step_size", ".rate", "regularization", "forgetting"),
    ),
}


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("amkl", "squared"),
        slow("expert_mkl", "squared"),
        slow("raker", "logistic"),
        slow("raker", "squared"),
    ],
)
def test_gradients_agree_with_central_differences(name, loss, x64):
    given, names = GRADED[name]
    learner = small(name, **given, **({} if name == "expert_mkl" else {"loss": loss}))
    X, y = wave(20) if loss == "squared" else two_classes(20)
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

LEARNERS = {
    "raker": lambda: jaxmkl.raker(),
    "raker mean": lambda: jaxmkl.raker(feature_scale="mean"),
    "raker large": lambda: jaxmkl.raker(num_features=300),
    "omkl_aks": lambda: jaxmkl.omkl_aks(),
    "amkl": lambda: jaxmkl.amkl(),
    "amkl_aks": lambda: jaxmkl.amkl_aks(),
    "expert_mkl": lambda: jaxmkl.expert_mkl(num_features=20),
}


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
    "name",
    [slow(name) if name in ("raker large", "omkl_aks", "amkl") else name for name in LEARNERS],
)
def test_defaults_never_diverge(name):
    """Sum of (f - y)^2 at most 4 times that of y^2 on every prefix.

    Gradient descent on the squared loss with 2 rate |z|^2 <= 1 has sum f^2 <= sum y^2 whatever the
    data (it is H-infinity optimal), from which this follows for one expert.
    """
    X, y = hard_streams()
    learner = LEARNERS[name]()

    @jax.jit
    @jax.vmap
    def all_streams(X, y):
        state = learner.init(jax.random.key(0), 4)
        return jax.lax.scan(learner.step, state, (X, y))

    states, outputs = all_streams(X, y)
    for leaf in jax.tree.leaves((outputs, states.models, states.aggregate)):
        assert np.isfinite(np.asarray(leaf)).all()
    errors = np.cumsum(np.asarray(outputs.loss, np.float64), axis=1)
    energy = np.cumsum(y.astype(np.float64) ** 2, axis=1)
    assert (errors <= 4 * energy + 1e-9).all()


@pytest.mark.parametrize("num_examples", [1, 2, 5])
def test_short_streams(num_examples):
    X, y = wave(50)
    learner = small("raker")
    start = learner.init(jax.random.key(0), 3)
    _, whole = jaxmkl.run(learner, start, X, y)
    _, outputs = jaxmkl.run(learner, start, X[:num_examples], y[:num_examples])
    assert outputs.prediction.shape == outputs.loss.shape == outputs.queried.shape
    assert outputs.prediction.shape == (num_examples,)
    # the past does not depend on the future, nor on how much of it there is
    np.testing.assert_allclose(outputs.prediction, whole.prediction[:num_examples], atol=1e-5)
    assert float(outputs.prediction[0]) == 0


# --- what is refused -----------------------------------------------------------------------------


def started(name="raker", num_inputs=3, **arguments):
    learner = small(name, **arguments)
    return learner, learner.init(jax.random.key(3), num_inputs)


@pytest.mark.parametrize("num_inputs", [0, -1, 2.5])
def test_bad_numbers_of_inputs_are_named(num_inputs):
    with pytest.raises(ValueError, match="num_inputs"):
        small("raker").init(jax.random.key(0), num_inputs)


def plain(tree):
    """Keys as the numbers they hold, so that all leaves compare."""

    def numbers(leaf):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(numbers, tree)


def assert_same_trees(one, other):
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right)
    for (path, a), b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


@jax.jit
def step(learner, state, x, y):
    return learner.step(state, (x, y))


@jax.jit
def skip(learner, state, x):
    return learner.skip(state, x)


@pytest.mark.parametrize("where", ["x", "y", "both"])
@pytest.mark.parametrize("name", ["raker", "amkl_aks", "expert_mkl"])
def test_invalid_examples_leave_the_state_alone(name, where):
    """In a raw scan nothing can be raised: such examples are counted and not learned from."""
    X, y = (np.asarray(a, np.float32) for a in wave(24))
    bad = np.array([0, 5, 6, 23])
    if where in ("x", "both"):
        X[bad, [0, 1, 2, 0]] = [np.nan, np.inf, -np.inf, np.nan]
    if where in ("y", "both"):
        y[bad] = [np.nan, np.inf, -np.inf, np.nan]
    learner, state = started(name)
    refused = len(bad)
    for t in range(len(y)):
        before = state
        state, output = step(learner, state, X[t], y[t])
        assert int(state.round) == t + 1
        if t not in bad:
            assert np.isfinite(float(output.prediction))
            assert np.isfinite(float(output.loss))
            continue
        assert np.isnan(float(output.loss))
        if where == "y":
            assert np.isfinite(float(output.prediction))
        else:
            assert np.isnan(float(output.prediction))
            assert not bool(output.queried)
        if where == "y" and not bool(output.queried):
            # a label that was not asked for is not looked at: this is a skip like any other
            refused -= 1
            assert_same_trees(state, skip(learner, before, X[t]))
            continue
        counted = before.replace(round=before.round + 1, invalid=before.invalid + 1)
        assert_same_trees(state, counted)
    assert int(state.invalid) == refused > 0


# --- recursive least squares ---------------------------------------------------------------------


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [16, slow(1), slow(None)])
def test_bounded_forgetting_agrees_with_the_oracle(block_size, x64):
    """The same in double precision against the per-example form, with the bound at work."""
    rng = np.random.default_rng(9)
    X = np.tile(rng.normal(size=(1, 3)), (320, 1))
    X[150:200] = rng.normal(size=(50, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=320)
    learner = small("expert_mkl", step_sizes=(0.1,), forgetting=(0.8,), regularization=0.5)
    (rule,) = [r for r in learner.models[0].rules if isinstance(r, RLS)]
    growth = float(rule.max_growth)
    rules = [ogd(0.1, 0.0), rls(0.8, 0.5, rule.max_growth, rule.period)]
    arguments = {"rules": rules, "hedge_rate": 1.0, "feature_scale": "mean"}
    start = learner.init(jax.random.key(4), 3, dtype=jnp.float64)
    expected = run_oracle(learner, arguments, SMALL, start, X, y)
    traces = np.array([np.trace(S) for S in expected.covariance])
    np.testing.assert_allclose(traces, growth * 10 / 0.5, rtol=0.05)  # the bound is reached
    state, outputs = jaxmkl.run(learner, start, X, y, block_size=block_size, record=everything)
    check_outputs(outputs, expected, tolerance=1e-8)
    check_state(learner, state, expected, tolerance=1e-8)
