"""The contract that every learner of the registry must keep, whatever its parts."""

import dataclasses
import functools
import inspect
import itertools
import re

import crossings
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import features, kernels, models, optimizers, query, updates, wrappers
from jaxmkl.testing import check_learner

SMALL_PROGRAMS = True
NUM_EXAMPLES, NUM_INPUTS = 37, 3

# --- learners by name: each of the registry (small where its defaults are large) and variants ----


def on_features(name, **arguments):
    return jaxmkl.LEARNERS[name](jaxmkl.Gaussian((0.5, 2.0)), num_features=4, **arguments)


def with_supports(name, **arguments):
    mixed = jaxmkl.KernelDictionary((jaxmkl.Gaussian((0.5, 2.0)), jaxmkl.Polynomial(2)))
    return jaxmkl.LEARNERS[name](mixed, **arguments)


def moving(name, coordinate="precision", **arguments):
    space = kernels.GaussianWidths(0.1, 4.0, (0.7, 2.0), coordinate=coordinate)
    return jaxmkl.LEARNERS[name](space, **arguments)


def scaled_and_growing():
    inner = with_supports("omkl", step_size=0.3, regularization=0.1)
    return jaxmkl.label_budget(jaxmkl.scaled(inner, wrappers.RunningMoments()), 30)


def sketch_of_a_sum():
    """A kernel of four parameters, in regression."""

    def kernel(scale):
        gaussians = jaxmkl.Gaussian((0.5 * scale, 2.0 * scale))
        return kernels.WeightedSum(gaussians, (0.3 * scale, 0.7 * scale))

    space = kernels.KernelBox(kernel(1.0), kernel(0.2), kernel(5.0))
    optimizer = optimizers.FromOptax("adabelief", 0.1)
    return jaxmkl.oks_sil(space, budget=6, loss="squared", optimizer=optimizer)


def least_squares():
    """A learner whose period ends within the blocks of a check."""
    bank = models.FeatureModels(jaxmkl.Gaussian((0.5, 2.0)), updates.RLS(0.1, 0.99, period=8))
    return jaxmkl.MKL(bank, query=query.Random(0.8))


def beside_linear():
    """Linear models beside those of kernels."""
    rules = updates.NormalizedOGD(0.3), updates.RLS(0.1, period=8)
    linear = models.FeatureModels(jaxmkl.Linear(), rules, features.LinearFeatures())
    return jaxmkl.MKL((*on_features("raker").models, linear), jaxmkl.aggregate.Hedge(1.0))


def many_tasks():
    return jaxmkl.multitask(
        2, h=0.5, loss="squared_hinge", growth="restart", covariance="queried", size=12
    )


# Budgets are below the number of mistakes, so that some support vectors have to go.
KNOWN = {
    "raker": lambda: on_features("raker"),
    "omkl_aks": lambda: on_features("omkl_aks"),
    "amkl": lambda: on_features("amkl", tolerance=0.01),
    "amkl_aks": lambda: on_features("amkl_aks", tolerance=0.01, max_skips=2),
    "expert_mkl": lambda: on_features("expert_mkl"),
    "omkc_u": lambda: with_supports("omkc_u"),
    "omkc_dd": lambda: with_supports("omkc_dd", discount=0.9),
    "omkc_sd": lambda: with_supports("omkc_sd", discount=0.9, smoothing=0.3),
    "spa": lambda: with_supports("spa", beta=1.5),
    "rbp": lambda: with_supports("rbp", budget=5),
    "forgetron": lambda: with_supports("forgetron", budget=5),
    "bogd": lambda: with_supports("bogd", budget=9),
    "bpas": lambda: with_supports("bpas", budget=6),
    "projectron": lambda: with_supports("projectron", budget=6, threshold=0.1),
    "omkl": lambda: with_supports("omkl", step_size=0.05),
    "omkl_b": lambda: with_supports("omkl_b", step_size=0.05, budget=7),
    "perceptron": jaxmkl.perceptron,
    "kernel_ogd": jaxmkl.kernel_ogd,
    "oks_sil": lambda: moving("oks_sil", budget=6, num_sampled=2, query=query.Margin(0.5)),
    "okl_gd": lambda: moving("okl_gd", coordinate="bandwidth", budget=7, query=query.Margin(0.5)),
    "oks": lambda: with_supports("oks", num_rounds=NUM_EXAMPLES),
    "proj_ka": lambda: with_supports("proj_ka", budget=6, num_aligned=20),
    "multitask": many_tasks,
}
VARIANTS = {
    "raker: orthogonal, mean, hinge": lambda: on_features(
        "raker", orthogonal=True, feature_scale="mean", loss="hinge"
    ),
    "amkl_aks: Huber's loss, a relative tolerance": lambda: on_features(
        "amkl_aks", loss="huber", tolerance=0.05, max_skips=2, relative=True
    ),
    "expert_mkl: classes, selecting, active": lambda: on_features(
        "expert_mkl",
        task="classification",
        select=jaxmkl.select.AdaptiveKernelSelection(0.5),
        query=query.Disagreement(0.01, 2),
        hedge_rate=0.1,
    ),
    "label_budget of amkl": lambda: jaxmkl.label_budget(on_features("amkl", tolerance=0.01), 10),
    "scaled by ranks": lambda: jaxmkl.scaled(
        on_features("amkl_aks", tolerance=0.01), wrappers.RunningRanks()
    ),
    "expert_mkl: three targets": lambda: on_features("expert_mkl", num_outputs=3),
    "expert_mkl: three classes": lambda: on_features(
        "expert_mkl",
        task="classification",
        num_classes=3,
        select=jaxmkl.select.AdaptiveKernelSelection(0.5),
        query=query.Rate(0.5),
    ),
    "omkc_sd: those drawn vote and learn": lambda: with_supports(
        "omkc_sd", discount=0.9, smoothing=0.3, sampled="both"
    ),
    "bogd: removal by size": lambda: with_supports(
        "bogd", budget=9, eviction=jaxmkl.models.supports.RemoveUnbiased(True, 0.3)
    ),
    "raker: classes, logistic": lambda: on_features("raker", loss="logistic", num_classes=3),
    "intervals around scaled targets": lambda: wrappers.intervals(
        wrappers.scaled_targets(on_features("raker", num_outputs=2))
    ),
    "intervals of a distribution": lambda: wrappers.intervals(
        wrappers.predictive(least_squares())
    ),
    "distributions of two targets": lambda: wrappers.scaled_targets(
        wrappers.predictive(on_features("raker", num_outputs=2))
    ),
    "three classes that come late": lambda: wrappers.delayed(
        on_features("expert_mkl", task="classification", num_classes=3), 2
    ),
    "probabilities of raker": lambda: wrappers.probabilities(
        on_features("raker", loss="logistic"), passthrough=True
    ),
    "probabilities of classes": lambda: wrappers.probabilities(
        on_features("raker", loss="hinge", num_classes=3)
    ),
    "one against the rest": lambda: wrappers.one_vs_rest(
        with_supports("spa", beta=1.5, query=query.Margin(0.3)), 3
    ),
    "scaled by moments, all believed": lambda: jaxmkl.scaled(
        on_features("raker"), wrappers.RunningMoments(None)
    ),
    "scaled targets": lambda: wrappers.scaled_targets(on_features("raker"), 5.0),
    "label_budget of scaled omkl": scaled_and_growing,
    "oks_sil: a weighted sum, adabelief": sketch_of_a_sum,
    "late labels": lambda: wrappers.delayed(
        jaxmkl.label_budget(on_features("amkl", tolerance=0.01), 12), 3
    ),
    "late labels, lagged": lambda: wrappers.delayed(wrappers.lagged(least_squares(), 2, 1), 4),
    "lagged classes": lambda: wrappers.lagged(with_supports("spa", beta=1.5), 2, 2),
    "linear features beside others": beside_linear,
}
OTHERS = {name: make for name, make in jaxmkl.LEARNERS.items() if name not in KNOWN}
LEARNERS = KNOWN | VARIANTS | OTHERS

# Their prediction is a vote without weights, or of one kernel: no derivative tells anything.
PIECEWISE_CONSTANT = {"omkc_u", "oks"}


# The others take minutes. With the long tests come recipes on features, with supports on a budget,
# in a space of kernels and of many tasks; those made of the same parts in other combinations are
# endless. So is proj_ka, which has loops in NumPy in its own tests.
QUICK = {"amkl_aks"}
LONG = {"expert_mkl", "spa", "oks_sil", "multitask"}
assert LEARNERS.keys() >= LONG | QUICK


def _mark(name):
    if name in QUICK:
        return []
    return pytest.mark.slow if name in LONG or name in OTHERS else pytest.mark.endless


ENTRIES = [pytest.param(name, marks=_mark(name)) for name in LEARNERS]
# whose derivatives are looked at with the long tests: one that learns its kernel. Those on
# features and with supports are compared with differences beside their recipes.
KINDS = {"oks_sil"}
OF_KINDS = [
    pytest.param(name, marks=pytest.mark.slow if name in KINDS else pytest.mark.endless)
    for name in LEARNERS
]


@pytest.fixture(scope="module", params=ENTRIES)
def name(request):
    """Every learner in turn, with all tests of one after the other: they share what they run."""
    yield request.param
    jax.clear_caches()


@pytest.fixture(scope="module", params=OF_KINDS)
def kind(request):
    """As ``name``, for tests that are long for few of them."""
    yield request.param
    jax.clear_caches()


@functools.cache
def learner_of(name):
    return LEARNERS[name]()


def stream(learner):
    """X (T, D) and y (T,) in single precision; y of both signs for classifiers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS))
    y = np.sin(X @ [1.5, -0.7, 0.4]) + 0.1 * rng.normal(size=NUM_EXAMPLES)
    outputs = learner.num_outputs
    if learner.task == "classification":
        y = np.where(y > 0.1, 1.0, -1.0) if outputs is None else np.digitize(y, (-0.5, 0.5))
    elif outputs is not None:
        y = np.stack([np.roll(y, k) for k in range(outputs)], axis=1)
    K = getattr(learner, "num_tasks", None)
    if K is not None:
        X = jaxmkl.tables.with_tasks(np.arange(NUM_EXAMPLES) % K, X[:, 1:])
    return X.astype(np.float32), y.astype(np.float32)


# --- the registry --------------------------------------------------------------------------------


def test_registry_is_covered():
    published = "raker omkl_aks amkl amkl_aks expert_mkl kernel_ogd omkl omkl_b perceptron omkc_u "
    published += "omkc_dd omkc_sd spa rbp forgetron bogd bpas projectron oks_sil okl_gd oks "
    published += "proj_ka multitask"
    assert set(published.split()) <= set(jaxmkl.LEARNERS)
    for name, factory in jaxmkl.LEARNERS.items():
        assert factory is getattr(jaxmkl, name)
        assert factory.__name__ == name


@pytest.mark.parametrize("factory", jaxmkl.LEARNERS.values(), ids=jaxmkl.LEARNERS)
def test_factories_are_documented(factory):
    text = inspect.getdoc(factory)
    assert ">>> " in text, "an example"
    assert "Args:" in text
    assert "Reference" in text, "the source"
    assert re.search(r"[Ee]quation|[Aa]lgorithm|\(\d+\)|\b(19|20)\d\d\b", text)
    for parameter in inspect.signature(factory).parameters:
        assert re.search(rf"\b{parameter}\b", text), parameter


@pytest.mark.parametrize("factory", jaxmkl.LEARNERS.values(), ids=jaxmkl.LEARNERS)
def test_factories_say_which_names_there_are(factory):
    names = list(inspect.signature(factory).parameters)
    wanted = rf"^{factory.__name__}\(\) got .* 'rates'; it takes {', '.join(names)}$"
    with pytest.raises(TypeError, match=wanted):
        factory(rates=0.1)
    if "task" not in names:
        wanted = "the task follows from the loss" if "loss" in names else "for classes alone"
        assert "loss" in names or factory().task == "classification"
        with pytest.raises(TypeError, match=rf"'task' \(.*{wanted}\); it takes"):
            factory(task="regression")


# --- every learner -------------------------------------------------------------------------------


def test_keeps_the_contract(name):
    learner = learner_of(name)
    X, y = stream(learner)
    # many seeds at once, which two sizes ask for, take long: supports have them in fleets, and on
    # several devices
    sizes = (16,) if name in LONG else (16, 7)
    check_learner(learner, examples=(X, y), block_sizes=sizes)

    def outcome(X, y):
        return jaxmkl.run(learner, learner.init(jax.random.key(0), NUM_INPUTS, X.dtype), X, y)

    for dtype in (np.float32, np.float64):
        double = jax.enable_x64(dtype is np.float64)
        with double, jax.numpy_dtype_promotion("strict"):
            jax.eval_shape(outcome, np.asarray(X, dtype), np.asarray(y, dtype))


def test_learner_is_differentiable(kind):
    learner = learner_of(kind)
    X, y = stream(learner)

    @jax.jit
    def total(learner, X, y):
        state = learner.init(jax.random.key(0), NUM_INPUTS, dtype=X.dtype)
        _, outputs = jax.lax.scan(learner.step, state, (X, y))
        return jnp.nanmean(outputs.loss)

    def gaps(X, y):
        """The same examples, one without a label, one that is refused."""
        X, y = np.array(X), np.array(y, np.float32)
        X[21], y[13] = np.nan, np.nan
        return X, y

    for examples in (X, y), gaps(X, y):
        gradient = jax.grad(total, allow_int=True)(learner, *examples)
        leaves = [g for g in jax.tree.leaves(gradient) if g.dtype != jax.dtypes.float0]
        assert leaves
        for leaf in leaves:
            assert np.isfinite(np.asarray(leaf)).all()
        told = any(np.any(np.asarray(leaf) != 0) for leaf in leaves)
        assert told == (kind not in PIECEWISE_CONSTANT)


def parts_of(value):
    """All dataclasses that a value is made of, itself among them."""
    if isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts_of(getattr(value, field.name))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_repr_says_all_there_is(name):
    """It names every field, and read as Python it gives the same learner."""
    learner = learner_of(name)
    text = repr(learner)
    names = {type(part).__name__: type(part) for part in parts_of(learner)}
    for part in parts_of(learner):
        for field in dataclasses.fields(part):
            assert f"{field.name}=" in text
    names |= {"array": np.array, "inf": np.inf, "nan": np.nan, "Array": jnp.array}
    # two parts have a class of this name
    names |= {"All": jaxmkl.select.All, "AskAll": query.All}
    again = eval(text.replace("query=All()", "query=AskAll()"), names)
    assert jax.tree.structure(again) == jax.tree.structure(learner)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(learner), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# --- every pair of parts -------------------------------------------------------------------------


# the recipes cover most parts
@pytest.mark.endless
@pytest.mark.parametrize("chosen", crossings.CROSSINGS.values(), ids=crossings.CROSSINGS)
def test_every_pair_of_parts_keeps_the_contract(chosen):
    """One seed at a time: the registry's learners run many together, of most parts."""
    check_learner(crossings.made(chosen), block_sizes=(16,), checkpoint=False)
    jax.clear_caches()


@pytest.mark.endless
def test_banks_side_by_side_keep_the_contract():
    """One that grows with the stream and one with supports, each with a period of its own."""
    banks = [
        crossings.MODELS[name](crossings.RULES["gradient"]("hinge"))
        for name in ("sampled dictionary", "sparse supports")
    ]
    learner = jaxmkl.MKL(
        banks,
        crossings.AGGREGATES["Hedge by loss"]("classification"),
        jaxmkl.select.AdaptiveKernelSelection(0.6),
        query.Disagreement(0.05, 2),
    )
    check_learner(learner, block_sizes=(16,), checkpoint=False)


def test_pairs_are_covered():
    """The greedy choice leaves out no pair that is possible."""
    assert crossings.OF_RECIPES.keys() <= KNOWN.keys()
    first, rows = crossings.BUDGETS[0], crossings.CROSSINGS.values()
    assert {*crossings.BUDGETS} <= {row[0] for row in rows}
    rows = [*rows, *crossings.OF_RECIPES.values()]
    rows = [(first, *row[1:]) if row[0] in crossings.BUDGETS else row for row in rows]
    found = set().union(*map(crossings.pairs_of, rows))
    for (i, first), (j, second) in itertools.combinations(enumerate(crossings.PARTS), 2):
        for a, b in itertools.product(first, second):
            pair = tuple(a if k == i else b if k == j else None for k in range(6))
            assert (((i, a), (j, b)) in found) == crossings.possible(pair)
