"""The recipes on random features: against the NumPy oracle, and what they promise besides."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.query import Disagreement
from jaxmkl.recipes import random_features as recipes
from jaxmkl.select import AdaptiveKernelSelection
from jaxmkl.streaming import run
from jaxmkl.updates import OGD, RLS
from tests.oracles import feature_mkl as oracle

SMALL_PROGRAMS = True
PAPER_BANDWIDTHS = np.sqrt(10.0 ** ((np.arange(1, 18) - 9) / 2))  # (56)
BLOCK_SIZES = (1, 7, 32, 256, None)


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
    experts = recipes.expert_mkl(**common, step_sizes=(0.1, 0.5), regularization=0.1)
    return {
        "raker": (recipes.raker(**paper), rules),
        "omkl_aks": (recipes.omkl_aks(**paper), rules | aks),
        "amkl": (recipes.amkl(**paper, tolerance=tolerance), rules | active),
        "amkl_aks": (recipes.amkl_aks(**paper, tolerance=tolerance), rules | aks | active),
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
        state, outputs = run(learner, start, X, y, block_size=block_size, record=everything)
        check_outputs(outputs, expected)
        check_state(learner, state, expected)


KINDS = ("raker", "omkl_aks", "amkl", "amkl_aks", "expert_mkl")


@pytest.mark.data
@pytest.mark.parametrize("name", KINDS)
def test_agrees_with_the_oracle_on_tom(name, data_dir, x64):
    with np.load(data_dir / "tom.npz") as file:
        X, y = file["X"][:2016].astype(np.float64), file["y"][:2016].astype(np.float64)
    bandwidths = PAPER_BANDWIDTHS[::4] if name == "expert_mkl" else PAPER_BANDWIDTHS
    check_agreement(name, bandwidths, 50, 0.01, 0.0005, X, y, BLOCK_SIZES)


@pytest.mark.parametrize("name", KINDS)
def test_agrees_with_the_oracle_on_a_wave(name, x64):
    X, y = wave(160)
    check_agreement(name, np.array([0.5, 1.0, 2.0, 5.0]), 8, 0.05, 0.1, X, y, (1, 7, None))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("name", ["raker", "amkl_aks"])
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
    learner = getattr(recipes, name)(**given)
    start = learner.init(jax.random.key(5), 3, dtype=jnp.float64)
    expected = run_oracle(learner, arguments, bandwidths, start, X, y)
    _, outputs = run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    margins = np.asarray(outputs.prediction)
    np.testing.assert_allclose(
        outputs.loss, [oracle.loss(loss, f, label) for f, label in zip(margins, y, strict=True)]
    )


def test_clipped_experts_agree_with_the_oracle(x64):
    """As a classifier expert_mkl clips its experts: where they are combined, judged and compared,
    not where they learn."""
    X, y = two_classes(128)
    bandwidths = np.array([0.5, 2.0, 5.0])
    learner = recipes.expert_mkl(
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
    state, outputs = run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    check_state(learner, state, expected)


def test_single_precision_stays_near_the_oracle():
    """Raker makes no choices, so rounding stays rounding; AMKL may at times choose otherwise."""
    X, y = wave(400)
    bandwidths = np.array([0.5, 1.0, 2.0, 5.0])
    for name in ("raker", "expert_mkl", "amkl"):
        learner, arguments = kinds(bandwidths, 8, 0.05, 0.01)[name]
        start = learner.init(jax.random.key(11), 3)
        assert start.frequencies.dtype == jnp.float32
        frequencies = np.asarray(start.frequencies, np.float64)
        expected = oracle.FeatureMKL(bandwidths, frequencies, **arguments).run(X, y)
        _, outputs = run(learner, start, X, y)
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
        learner = getattr(recipes, name)()
        np.testing.assert_allclose(learner.kernels.bandwidth, PAPER_BANDWIDTHS, rtol=1e-6)
        assert learner.features.num_features == 50
        assert learner.task == "regression"
        aks = isinstance(learner.select, AdaptiveKernelSelection)
        assert aks == name.endswith("aks")
        assert not aks or float(learner.select.threshold) == 0.8
        active = isinstance(learner.query, Disagreement)
        assert active == name.startswith("amkl")
        if active:
            assert int(learner.query.max_skips) == 1
        (rule,) = learner.rules
        assert isinstance(rule, OGD)
        np.testing.assert_allclose(rule.regularization, 0.01)


def test_expert_mkl_has_a_rule_for_each_rate_and_factor():
    learner = recipes.expert_mkl()
    first, second = learner.rules
    assert isinstance(first, OGD)
    assert isinstance(second, RLS)
    np.testing.assert_allclose(first.step_sizes, (0.1, 0.25, 0.5, 0.7))
    np.testing.assert_allclose(second.forgetting, (1.0, 0.999))
    state = learner.init(jax.random.key(0), 2)
    assert state.log_weights.shape == (6 * 17,)
    assert recipes.expert_mkl(task="classification").task == "classification"


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("raker", {"step_size": -0.1}, "step_size"),
        ("raker", {"step_size": np.nan}, "step_size"),
        ("raker", {"regularization": -1.0}, "regularization"),
        ("raker", {"hedge_rate": -1.0}, "hedge_rate"),
        ("raker", {"hedge_rate": np.inf}, "hedge_rate"),
        ("raker", {"loss": "cubic"}, "loss"),
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
        getattr(recipes, name)(**arguments)


# --- hyperparameters are data --------------------------------------------------------------------

SMALL = np.array([0.5, 1.0, 3.0])


def small(name, bandwidths=SMALL, **arguments):
    """A small learner; the same structure for every value of the arguments."""
    return getattr(recipes, name)(kernels=jaxmkl.Gaussian(bandwidths), num_features=5, **arguments)


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


def mean_loss(learner, key, X, y):
    state = learner.init(key, X.shape[1], dtype=X.dtype)
    _, outputs = jax.lax.scan(learner.step, state, (X, y))
    return outputs.loss.mean()


@pytest.mark.parametrize("name", VARIED)
def test_other_values_are_not_another_trace(name):
    traces = 0

    @jax.jit
    def counted(learner, key, X, y):
        nonlocal traces
        traces += 1
        return mean_loss(learner, key, X, y)

    X, y = (jnp.asarray(a, jnp.float32) for a in wave(20))
    losses = [float(counted(small(name, **v), jax.random.key(0), X, y)) for v in VARIED[name]]
    assert traces == 1
    assert len(set(losses)) == len(losses), "every value made a difference"


@pytest.mark.parametrize("name", VARIED)
def test_run_compiles_once_for_all_values(name, caplog):
    X, y = wave(20)

    def compilations(arguments):
        learner = small(name, **arguments)
        state = learner.init(jax.random.key(0), 3)
        caplog.clear()
        with jax.log_compiles():
            jax.block_until_ready(run(learner, state, X, y, block_size=9))
        return [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()]

    jax.clear_caches()
    first, *others = [compilations(arguments) for arguments in VARIED[name]]
    assert first, "the log tells of compilations"
    assert others == [[]] * len(others)


@pytest.mark.parametrize("name", VARIED)
def test_sweep_is_vmap_over_stacked_learners(name, x64):
    X, y = wave(40)
    learners = [small(name, **arguments) for arguments in VARIED[name]]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(v) for v in leaves]), *learners)
    key = jax.random.key(1)
    together = jax.jit(jax.vmap(mean_loss, in_axes=(0, None, None, None)))(stacked, key, X, y)
    alone = [jax.jit(mean_loss)(learner, key, X, y) for learner in learners]
    np.testing.assert_allclose(together, alone, rtol=1e-10)


GRADED = {
    "raker": (
        {"step_size": 0.05, "hedge_rate": 2.0},
        ("bandwidth", "step_size", "hedge_rate", "regularization"),
    ),
    "amkl": (
        {"step_size": 0.05, "hedge_rate": 2.0, "tolerance": 0.01},
        ("bandwidth", "step_size", "hedge_rate", "regularization"),
    ),
    "expert_mkl": (
        {"step_sizes": (0.1, 0.4), "regularization": 0.1, "forgetting": (0.97, 0.95)},
        ("bandwidth", "step_size", "hedge_rate", "regularization", "forgetting"),
    ),
}


@pytest.mark.parametrize(
    ("name", "loss"), [*((name, "squared") for name in GRADED), ("raker", "logistic")]
)
def test_gradients_agree_with_central_differences(name, loss, x64):
    given, names = GRADED[name]
    learner = small(name, **given, **({} if name == "expert_mkl" else {"loss": loss}))
    X, y = wave(30) if loss == "squared" else two_classes(30)
    value = jax.jit(mean_loss)
    key = jax.random.key(2)
    gradient = jax.jit(jax.grad(mean_loss, allow_int=True))(learner, key, X, y)

    leaves, structure = jax.tree.flatten(learner)
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(learner)]
    slopes = jax.tree.leaves(gradient)
    seen = set()
    for i, path in enumerate(paths):
        wanted = [n for n in names if n in path]
        if not wanted:
            continue
        seen.update(wanted)
        leaf = np.asarray(leaves[i], np.float64)
        for index in np.ndindex(leaf.shape):
            h = 1e-5 * max(abs(leaf[index]), 1e-2)
            sides = []
            for sign in (1, -1):
                moved = leaf.copy()
                moved[index] += sign * h
                replaced = [*leaves[:i], jnp.asarray(moved), *leaves[i + 1 :]]
                sides.append(float(value(jax.tree.unflatten(structure, replaced), key, X, y)))
            difference = (sides[0] - sides[1]) / (2 * h)
            slope = float(np.asarray(slopes[i])[index])
            assert slope == pytest.approx(difference, rel=1e-4, abs=1e-8), (path, index)
            assert slope != 0, (path, index)
    assert seen == set(names)


# --- nothing diverges ----------------------------------------------------------------------------

LEARNERS = {
    "raker": lambda: recipes.raker(),
    "raker mean": lambda: recipes.raker(feature_scale="mean"),
    "raker large": lambda: recipes.raker(num_features=300),
    "omkl_aks": lambda: recipes.omkl_aks(),
    "amkl": lambda: recipes.amkl(),
    "amkl_aks": lambda: recipes.amkl_aks(),
    "expert_mkl": lambda: recipes.expert_mkl(num_features=20),
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


@pytest.mark.parametrize("name", LEARNERS)
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
    for leaf in jax.tree.leaves((outputs, states.local, states.log_weights)):
        assert np.isfinite(np.asarray(leaf)).all()
    errors = np.cumsum(np.asarray(outputs.loss, np.float64), axis=1)
    energy = np.cumsum(y.astype(np.float64) ** 2, axis=1)
    assert (errors <= 4 * energy + 1e-9).all()


@pytest.mark.parametrize("num_examples", [1, 2, 5])
def test_short_streams(num_examples):
    X, y = wave(50)
    learner = recipes.raker()
    start = learner.init(jax.random.key(0), 3)
    _, whole = run(learner, start, X, y)
    _, outputs = run(learner, start, X[:num_examples], y[:num_examples])
    assert outputs.prediction.shape == outputs.loss.shape == outputs.queried.shape
    assert outputs.prediction.shape == (num_examples,)
    # the past does not depend on the future, nor on how much of it there is
    np.testing.assert_allclose(outputs.prediction, whole.prediction[:num_examples], atol=1e-5)
    assert float(outputs.prediction[0]) == 0


# --- what is refused, and what is accepted -------------------------------------------------------


def started(name="raker", num_inputs=3, **arguments):
    learner = small(name, **arguments)
    return learner, learner.init(jax.random.key(3), num_inputs)


def spoiled(array, value, index):
    array = np.array(array)
    array[index] = value
    return array


X20, Y20 = wave(20)
C20 = two_classes(20)[1]

REFUSED = {
    "NaN in X": (spoiled(X20, np.nan, (4, 1)), Y20, r"\bX\b.*finite"),
    "infinity in X": (spoiled(X20, np.inf, (0, 0)), Y20, r"\bX\b.*finite"),
    "NaN in y": (X20, spoiled(Y20, np.nan, 7), r"\by\b.*finite"),
    "infinity in y": (X20, spoiled(Y20, -np.inf, 19), r"\by\b.*finite"),
    "too large for single precision": (spoiled(X20, 1e60, (2, 2)), Y20, r"\bX\b.*finite"),
    "X of one row as a vector": (X20[0], Y20[:1], r"\bX\b.*\(3,\)"),
    "X of three axes": (X20[None], Y20, r"\bX\b.*\(1, 20, 3\)"),
    "y of two columns": (X20, np.stack([Y20, Y20], axis=1), r"\by\b.*\(20, 2\)"),
    "y as a row": (X20, Y20[None], r"\by\b.*\(1, 20\)"),
    "no examples": (X20[:0], Y20[:0], r"\bX\b.*at least one.*\(0, 3\)"),
    "y as a number": (X20[:1], Y20[0], r"\by\b.*\(\)"),
    "fewer labels than examples": (X20, Y20[:19], r"\by\b.*19"),
    "too few features": (X20[:, :2], Y20, r"\bX\b.*\b3\b.*\b2\b|\bX\b.*\b2\b.*\b3\b"),
    "too many features": (np.hstack([X20, X20]), Y20, r"\bX\b.*\b3\b.*\b6\b|\bX\b.*\b6\b.*\b3\b"),
    "words in X": (X20.astype(str), Y20, r"\bX\b"),
    "complex X": (X20 + 1j, Y20, r"\bX\b"),
    "words for a regression": (X20, np.where(Y20 > 0, "up", "down"), r"\by\b"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_run_refuses(case):
    X, y, message = REFUSED[case]
    learner, state = started()
    with pytest.raises(ValueError, match=message):
        run(learner, state, X, y)


REFUSED_LABELS = {
    "three classes": np.arange(20) % 3,
    "three words": np.array(["a", "b", "c", "d"])[np.arange(20) % 4],
    "numbers": Y20,
    "another pair": np.where(C20 > 0, 2, 5),
    "NaN": spoiled(C20, np.nan, 3),
}


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("case", REFUSED_LABELS)
def test_run_refuses_labels(case, loss):
    learner, state = started(loss=loss)
    with pytest.raises(ValueError, match=r"\by\b|label"):
        run(learner, state, X20, REFUSED_LABELS[case])


def test_messages_say_what_was_given():
    learner, state = started(loss="logistic")
    with pytest.raises(ValueError, match=r"2.*5"):
        run(learner, state, X20, REFUSED_LABELS["another pair"])
    with pytest.raises(ValueError, match=r"-1.*1"):
        run(learner, state, X20, REFUSED_LABELS["three classes"])


ACCEPTED_LABELS = {
    "booleans": C20 > 0,
    "0 and 1": (C20 > 0).astype(np.int64),
    "0.0 and 1.0": (C20 > 0).astype(np.float64),
    "-1 and 1 as int8": C20.astype(np.int8),
    "two words": np.where(C20 > 0, "spam", "mail"),
    "two words as objects": np.where(C20 > 0, "spam", "mail").astype(object),
    "a list": C20.tolist(),
}


@pytest.mark.parametrize("case", ACCEPTED_LABELS)
def test_labels_in_other_words_are_the_same_run(case):
    learner, state = started(loss="logistic")
    _, expected = run(learner, state, X20, C20)
    final, outputs = run(learner, state, X20, ACCEPTED_LABELS[case])
    np.testing.assert_array_equal(outputs.prediction, expected.prediction)
    np.testing.assert_array_equal(outputs.loss, expected.loss)
    assert int(final.invalid) == 0


def test_words_keep_their_meaning_from_chunk_to_chunk():
    """Were each chunk's words sorted by themselves, "spam" would be +1 here and -1 there."""
    learner, state = started(loss="logistic")
    first = np.where(C20 > 0, "spam", "ham")
    second = np.where(C20 > 0, "zebra", "spam")
    with pytest.raises(ValueError, match=r"\by\b|label"):
        list(jaxmkl.stream(learner, state, [(X20, first), (X20, second)]))


def test_one_class_only_is_a_stream_too():
    learner, state = started(loss="logistic")
    for labels in (np.ones(20), -np.ones(20), np.ones(20, dtype=bool), np.zeros(20, dtype=bool)):
        signs = np.where(labels > 0, 1.0, -1.0)
        _, expected = run(learner, state, X20, signs)
        _, outputs = run(learner, state, X20, labels)
        np.testing.assert_array_equal(outputs.prediction, expected.prediction)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32, np.float64, bool])
def test_other_number_types_are_converted(dtype):
    learner, state = started()
    X, y = np.round(2 * X20).clip(0, 1).astype(dtype), np.round(2 * Y20).clip(0, 1).astype(dtype)
    _, outputs = run(learner, state, X, y)
    _, expected = run(learner, state, X.astype(np.float32), y.astype(np.float32))
    assert outputs.prediction.dtype == jnp.float32
    np.testing.assert_array_equal(outputs.prediction, expected.prediction)


def test_lists_columns_and_jax_arrays_are_streams():
    learner, state = started()
    _, expected = run(learner, state, X20, Y20)
    given = [
        (X20.tolist(), Y20.tolist()),
        (jnp.asarray(X20), jnp.asarray(Y20)),
        (X20, Y20[:, None]),
        (np.asfortranarray(X20), Y20[::-1][::-1]),
    ]
    for X, y in given:
        _, outputs = run(learner, state, X, y)
        np.testing.assert_array_equal(outputs.prediction, expected.prediction)


def test_one_example_is_a_stream():
    learner, state = started()
    final, outputs = run(learner, state, X20[:1], Y20[:1])
    assert outputs.prediction.shape == (1,)
    assert int(final.round) == 1


@pytest.mark.parametrize("block_size", [0, -1, 1.5, "auto"])
def test_bad_block_sizes_are_named(block_size):
    learner, state = started()
    with pytest.raises(ValueError, match="block_size"):
        run(learner, state, X20, Y20, block_size=block_size)


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
    step = jax.jit(lambda learner, state, x, y: learner.step(state, (x, y)))
    refused = len(bad)

    def skip(learner, state, x):
        return learner.skip(state, x)

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
            assert_same_trees(state, jax.jit(skip)(learner, before, X[t]))
            continue
        counted = before._replace(round=before.round + 1, invalid=before.invalid + 1)
        assert_same_trees(state, counted)
    assert int(state.invalid) == refused > 0


# --- label budgets, recursive least squares ------------------------------------------------------


@pytest.mark.parametrize("budget", [0, 1, 10, 1000])
@pytest.mark.parametrize("name", ["raker", "amkl", "amkl_aks", "expert_mkl"])
def test_label_budget_is_never_exceeded(name, budget):
    X, y = wave(60)
    inner = small(name)
    learner = jaxmkl.label_budget(inner, budget)
    state = learner.init(jax.random.key(0), 3)
    _, outputs = run(learner, state, X, y)
    queried = np.asarray(outputs.queried)
    assert queried.sum() <= budget
    _, free = run(inner, inner.init(jax.random.key(0), 3), X, y)
    allowed = np.cumsum(np.asarray(free.queried)) <= budget
    if name in ("raker", "expert_mkl"):
        assert queried.sum() == min(budget, 60)
        np.testing.assert_array_equal(queried, allowed)
    # up to the exhaustion of the budget it is the learner without one
    until = int(np.argmin(allowed)) if not allowed.all() else 60
    np.testing.assert_array_equal(queried[:until], np.asarray(free.queried)[:until])
    np.testing.assert_allclose(outputs.prediction[:until], free.prediction[:until], atol=1e-6)


@pytest.mark.parametrize("budget", [-1, np.nan, np.inf])
def test_bad_budgets_are_named(budget):
    with pytest.raises(ValueError, match="budget"):
        jaxmkl.label_budget(small("raker"), budget)


def test_covariances_survive_forgetting_in_single_precision():
    """20,000 examples, most of them the same point: it excites one direction, the rest would grow.

    1 / 0.9^2000 is 1e91: without a bound on the trace nothing would be left of the covariance.
    """
    rng = np.random.default_rng(8)
    X = np.tile(rng.normal(size=(1, 3)), (20_000, 1)).astype(np.float32)
    X[8_000:9_000] = rng.normal(size=(1_000, 3))
    X[18_000:] = rng.normal(size=(2_000, 3))
    y = np.sin(X[:, 0]).astype(np.float32)
    learner = small("expert_mkl", step_sizes=(0.1,), forgetting=(0.9, 0.99, 0.999, 1.0))
    state = learner.init(jax.random.key(4), 3)
    (rule,) = [r for r in learner.rules if isinstance(r, RLS)]
    state, outputs = run(learner, state, X, y)
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
    _, fresh = run(learner, learner.init(jax.random.key(4), 3), X[18_000:], y[18_000:])
    losses = np.asarray(outputs.loss, np.float64)
    assert losses[19_000:].mean() <= 1.2 * np.asarray(fresh.loss, np.float64)[1_000:].mean()
    assert losses[4_000:8_000].mean() < 1e-4


def test_bounded_forgetting_agrees_with_the_oracle(x64):
    """The same in double precision against the per-example form, with the bound at work."""
    rng = np.random.default_rng(9)
    X = np.tile(rng.normal(size=(1, 3)), (320, 1))
    X[150:200] = rng.normal(size=(50, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=320)
    learner = small("expert_mkl", step_sizes=(0.1,), forgetting=(0.8,), regularization=0.5)
    (rule,) = [r for r in learner.rules if isinstance(r, RLS)]
    growth = float(rule.max_growth)
    rules = [ogd(0.1, 0.0), rls(0.8, 0.5, rule.max_growth, rule.period)]
    arguments = {"rules": rules, "hedge_rate": 1.0, "feature_scale": "mean"}
    start = learner.init(jax.random.key(4), 3, dtype=jnp.float64)
    expected = run_oracle(learner, arguments, SMALL, start, X, y)
    traces = np.array([np.trace(S) for S in expected.covariance])
    np.testing.assert_allclose(traces, growth * 10 / 0.5, rtol=0.05)  # the bound is reached
    for block_size in (1, 16, None):
        state, outputs = run(learner, start, X, y, block_size=block_size, record=everything)
        check_outputs(outputs, expected, tolerance=1e-8)
        check_state(learner, state, expected, tolerance=1e-8)
