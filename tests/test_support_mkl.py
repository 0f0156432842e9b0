"""The learners with support vectors: against the NumPy oracle, and what they promise besides."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import support_mkl as oracle
from sklearn.datasets import load_breast_cancer

import jaxmkl
from jaxmkl.learner import select_row
from jaxmkl.support import DenseState, SparseState

# of the first, values of far points are below the smallest float32
BANDWIDTHS = (0.1, 0.5, 2.0)
DEGREES = (1, 2, 3)
NUM_EXAMPLES = 300


# --- data and kernels ----------------------------------------------------------------------------


class Stream(NamedTuple):
    """Examples X (T, D), labels y (T,), regression targets (T,), in float64."""

    X: np.ndarray
    y: np.ndarray
    target: np.ndarray


@functools.cache
def stream():
    """Breast cancer in [-1, 1], 300 rows in another order, every eighth label wrong."""
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:NUM_EXAMPLES]
    X = X[rows]
    low, high = X.min(axis=0), X.max(axis=0)
    X = (2 * (X - low) / (high - low) - 1).astype(np.float32).astype(np.float64)
    assert len(np.unique(X, axis=0)) == NUM_EXAMPLES
    y = np.where((y[rows] > 0) ^ (rng.random(NUM_EXAMPLES) < 1 / 8), 1.0, -1.0)
    target = np.sin(X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=NUM_EXAMPLES)
    return Stream(X, y, target)


def kernels_of(bandwidths, degrees):
    """The same kernels as the library's and as the oracle's."""
    parts = [jaxmkl.Gaussian(bandwidths)] if bandwidths else []
    parts += [jaxmkl.Polynomial(degrees)] if degrees else []
    library = parts[0] if len(parts) == 1 else jaxmkl.KernelDictionary(tuple(parts))
    plain = [oracle.gaussian(b) for b in bandwidths] + [oracle.polynomial(q) for q in degrees]
    return library, plain


# --- learners and what the oracle calls them -----------------------------------------------------


class Case(NamedTuple):
    """A learner made from kernels and a budget, the oracle's arguments, and what it needs."""

    make: object
    arguments: dict
    budget: int | None = None
    one_kernel: bool = False
    regression: bool = False
    tied_if_narrow: bool = False


def vote(cost="mistake"):
    return jaxmkl.Hedge(-np.log(0.99), output="vote", cost=cost)


def value(cost="loss"):
    return jaxmkl.Hedge(-np.log(0.99), output="value", cost=cost)


def crossing(component, support, combination, learning=None):
    learning = jaxmkl.LearnAll() if learning is None else learning
    return lambda kernels, **_: jaxmkl.SupportMKL(
        kernels, component, support, combination, learning
    )


def budgeted(component, policy, combination, learning=None):
    def make(kernels, budget):
        support = jaxmkl.BudgetSupport(budget, policy)
        return crossing(component, support, combination, learning)(kernels)

    return make


SPA = {"rule": "spa", "combination": "value", "discount": "hinge", "sampled": True}
SQUARED = {"rule": "ogd", "loss": "squared", "combination": "value", "discount": "squared"}
CASES = {
    "perceptron": Case(
        jaxmkl.perceptron, {"weighting": "uniform", "combination": "value"}, one_kernel=True
    ),
    "omkc_u": Case(jaxmkl.omkc_u, {"weighting": "uniform"}),
    "omkc_dd": Case(jaxmkl.omkc_dd, {}),
    "omkc_sd": Case(
        functools.partial(jaxmkl.omkc_sd, discount=0.9, smoothing=0.1),
        {"sampled": True, "discount_sampled": True, "gamma": 0.9, "delta": 0.1},
    ),
    "spa": Case(jaxmkl.spa, SPA | {"normalized_step": False}),
    "spa, normalized": Case(
        functools.partial(jaxmkl.spa, normalized_step=True, alpha=0.8, beta=1.5, step_size=0.2),
        SPA | {"alpha": 0.8, "beta": 1.5, "rate": 0.2},
    ),
    "rbp": Case(jaxmkl.rbp, {"policy": "random"}, budget=13),
    "forgetron": Case(jaxmkl.forgetron, {"policy": "forgetron"}, budget=10),
    "bogd": Case(jaxmkl.bogd, {"rule": "ogd", "policy": "oldest"}, budget=40),
    "bpas": Case(
        jaxmkl.bpas,
        {"rule": "pa", "cap": 0.1, "policy": "replace"},
        budget=20,
        tied_if_narrow=True,
    ),
    "projectron": Case(
        functools.partial(jaxmkl.projectron, threshold=0.05),
        {"policy": "project", "threshold": 0.05},
        budget=15,
    ),
    "kernel_ogd": Case(
        functools.partial(jaxmkl.kernel_ogd, regularization=0.2),
        SQUARED | {"weighting": "uniform", "regularization": 0.2},
        one_kernel=True,
        regression=True,
    ),
    "omkl": Case(
        functools.partial(jaxmkl.omkl, step_size=0.2, hedge_rate=0.5),
        SQUARED | {"rate": 0.2, "regularization": 0.0, "hedge_rate": 0.5},
        regression=True,
    ),
    "omkl_b": Case(
        functools.partial(jaxmkl.omkl_b, regularization=0.1),
        SQUARED | {"policy": "oldest"},
        budget=17,
        regression=True,
    ),
}
# what no paper has
CROSSINGS = {
    "sampled perceptrons on a budget, by value": Case(
        budgeted(
            jaxmkl.Perceptron(), jaxmkl.RemoveRandom(), value("mistake"), jaxmkl.LearnSampled(0.2)
        ),
        {"policy": "random", "combination": "value", "sampled": True, "delta": 0.2},
        budget=7,
    ),
    "sampled Forgetrons": Case(
        budgeted(jaxmkl.Perceptron(), jaxmkl.SelfTuned(), vote(), jaxmkl.LearnSampled(0.3)),
        {"policy": "forgetron", "sampled": True, "delta": 0.3},
        budget=8,
    ),
    "passive aggressive without a budget": Case(
        crossing(jaxmkl.PassiveAggressive(0.3), jaxmkl.DenseSupport(), value()),
        {"rule": "pa", "cap": 0.3, "combination": "value", "discount": "hinge"},
    ),
    "sparse passive aggressive on a budget": Case(
        budgeted(
            jaxmkl.SparsePassiveAggressive(0.1, 1.0, 2.0, True),
            jaxmkl.RemoveRandom(),
            vote(),
            jaxmkl.LearnSampled(0.5),
        ),
        {"rule": "spa", "beta": 2.0, "policy": "random", "sampled": True, "delta": 0.5},
        budget=9,
    ),
    "perceptrons with entries": Case(
        crossing(jaxmkl.Perceptron(), jaxmkl.SparseSupport(), vote()), {}
    ),
    "sampled gradient descent with entries": Case(
        crossing(
            jaxmkl.GradientDescent(0.1, 0.3, "hinge"),
            jaxmkl.SparseSupport(),
            value(),
            jaxmkl.LearnSampled(0.2),
        ),
        {
            "rule": "ogd",
            "regularization": 0.3,
            "combination": "value",
            "discount": "hinge",
            "sampled": True,
            "delta": 0.2,
        },
    ),
    "gradient descent, a random one goes": Case(
        budgeted(jaxmkl.GradientDescent(0.1, 0.2, "hinge"), jaxmkl.RemoveRandom(), vote()),
        {"rule": "ogd", "regularization": 0.2, "policy": "random"},
        budget=12,
    ),
    "passive aggressive, the oldest goes": Case(
        budgeted(jaxmkl.PassiveAggressive(0.2), jaxmkl.RemoveOldest(), jaxmkl.Uniform()),
        {
            "rule": "pa",
            "cap": 0.2,
            "policy": "oldest",
            "weighting": "uniform",
            "combination": "value",
        },
        budget=11,
    ),
}
ALL = CASES | CROSSINGS


def kernels_for(case):
    if case.one_kernel:
        return kernels_of((0.5,), ())
    if case.regression:  # the gradient's steps with polynomials diverge on the squared loss
        return kernels_of((0.3, 0.5, 2.0), ())
    if case.tied_if_narrow:  # places that differ by less than rounding, where k² is below 1e-16
        return kernels_of((0.5, 1.0, 2.0), DEGREES)
    return kernels_of(BANDWIDTHS, DEGREES)


def learner_of(name, kernels=None):
    case = ALL[name]
    kernels = kernels_for(case)[0] if kernels is None else kernels
    return case.make(kernels) if case.budget is None else case.make(kernels, budget=case.budget)


def begin(learner, num_inputs, dtype=np.float64):
    return learner.init(jax.random.key(3), num_inputs, dtype=dtype)


# --- one run -------------------------------------------------------------------------------------


def everything(output):
    """Record the learner's diagnostics too."""
    return output


@jax.jit
def rounds(learner, state, X, y):
    """The scan of ``step``, and the kernels' values f (T, P) before each round."""

    def one(state, example):
        x, label = example
        codes = learner.encode(state, x[None])
        code = select_row(codes, 0)
        f = learner.support.values(state.support, learner.kernels, code.support)
        state, output = learner.advance(state, code, label)
        return learner.fold(state, codes), (output, f)

    state, (outputs, f) = jax.lax.scan(one, state, (X, y))
    return state, outputs, f


def held(state, X):
    """For each kernel: numbers of the stream's rows it holds, in order, and its coefficients."""
    number_of = {row.tobytes(): t for t, row in reversed(list(enumerate(X)))}
    support = jax.tree.map(np.asarray, state.support)
    P = len(support.number)
    found = [[] for _ in range(P)]

    def add(p, row, coefficient):
        assert row.dtype == X.dtype
        found[p].append((number_of[row.tobytes()], float(coefficient)))

    if isinstance(support, DenseState | SparseState):
        used = int(support.used)
        if isinstance(support, DenseState):
            for p, j in np.argwhere(support.coefficients[:, :used]):
                add(p, support.rows[j], support.scale * support.coefficients[p, j])
        else:
            stored = int(support.used_entries)
            assert not support.entries.coefficient[stored:].any()
            for row, p, a in zip(*(part[:stored] for part in support.entries), strict=True):
                add(p, support.rows[row], support.scale * a)
        for p, j in np.argwhere(support.recent):
            add(p, support.recent_rows[j], support.scale * support.recent[p, j])
    else:
        C = support.rows.shape[1]
        for p in range(P):
            for slot in np.argsort(support.order[p], kind="stable")[: support.number[p]]:
                settled = slot < C
                row = support.rows[p, slot] if settled else support.recent_rows[slot - C]
                add(p, row, support.coefficients[p, slot])
    assert [len(one) for one in found] == support.number.tolist()
    return found


class Expected(NamedTuple):
    """What the oracle did: of each round, and at the end."""

    prediction: np.ndarray
    f: np.ndarray
    weights: np.ndarray
    number: np.ndarray
    held: list
    final_weights: np.ndarray


def draws(state, num_rounds, num_kernels, dtype):
    """The uniform numbers (T, P) that decide who learns, and those that decide who goes."""

    def one(t, which):
        key = jax.random.fold_in(jax.random.fold_in(state.key, t), which)
        return jax.random.uniform(key, (num_kernels,), dtype)

    both = [jax.vmap(lambda t, w=w: one(t, w))(jnp.arange(num_rounds)) for w in (0, 1)]
    return [np.asarray(numbers, np.float64) for numbers in both]


def run_oracle(case, kernels, state, X, y, dtype=np.float64):
    """The oracle with the learner's random numbers, and nothing else of it."""
    learner = oracle.SupportMKL(kernels, budget=case.budget, **case.arguments)
    predictions, values, weights, number = [], [], [], []
    for example in zip(X, y, *draws(state, len(X), len(kernels), dtype), strict=True):
        weights.append(learner.weights.copy())
        number.append(learner.support)
        predictions.append(learner.step(*example))
        values.append(learner.f)
    places = learner.places
    if case.arguments.get("policy") in ("oldest", "forgetron"):
        places = [sorted(entries) for entries in places]  # by age
    return Expected(
        np.array(predictions),
        np.array(values),
        np.array(weights),
        np.array(number),
        places,
        learner.weights,
    )


def check_outputs(outputs, expected):
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(outputs.info.weights, expected.weights, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(outputs.info.support, expected.number)


def check_end(learner, state, expected, X):
    number_of = {row.tobytes(): t for t, row in reversed(list(enumerate(X)))}
    for ours, entries in zip(held(state, X), expected.held, strict=True):
        assert [t for t, _ in ours] == [number_of[X[t].tobytes()] for t, _ in entries]
        np.testing.assert_allclose(
            [a for _, a in ours], [a for _, a in entries], rtol=1e-9, atol=1e-9
        )
    weights = learner.combination.weights(state.log_weights)
    np.testing.assert_allclose(weights, expected.final_weights, rtol=0, atol=1e-9)


def check_agreement(case, learner, kernels, X, y):
    start = begin(learner, X.shape[1])
    expected = run_oracle(case, kernels, start, X, y)
    if case.budget is not None:
        assert (np.array(expected.number[-1]) == case.budget).any(), "a budget is full"
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    check_outputs(outputs, expected)
    check_end(learner, state, expected, X)


def labels_for(case):
    return stream().target if case.regression else stream().y


@pytest.mark.parametrize("name", ALL)
def test_agrees_with_the_oracle(name, x64):
    case = ALL[name]
    check_agreement(case, learner_of(name), kernels_for(case)[1], stream().X, labels_for(case))


@pytest.mark.parametrize("name", ["omkc_dd", "spa", "forgetron"])
def test_step_and_the_values_of_kernels_agree_with_the_oracle(name, x64):
    case, learner, X = ALL[name], learner_of(name), stream().X
    start = begin(learner, X.shape[1])
    expected = run_oracle(case, kernels_for(case)[1], start, X, labels_for(case))
    state, outputs, f = rounds(learner, start, X, labels_for(case))
    np.testing.assert_allclose(f, expected.f, rtol=1e-9, atol=1e-9)
    check_outputs(outputs, expected)
    check_end(learner, state, expected, X)


# --- the papers' data ----------------------------------------------------------------------------


def paper_stream(name, folder):
    """1,000 examples in another order; svmguide3 gets three empty columns, as german has 24."""
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    rows = np.random.default_rng(1).permutation(len(X))[:1000]
    X, y = X[rows], y[rows]
    if name == "german":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2 * (X - low) / (high - low) - 1
    return np.pad(X, ((0, 0), (0, 24 - X.shape[1]))), y


PAPER_BUDGETS = {"bogd": 100, "projectron": 20}


def paper_kernels(case):
    """The factories' default kernels, spelled out; where places tie, without the narrow ones."""
    if case.one_kernel:
        return kernels_of((1.0,), ())
    if case.regression:
        return kernels_of(tuple(np.sqrt(10.0 ** ((np.arange(1, 18) - 9) / 2))), ())
    lowest = 0 if case.tied_if_narrow else -6
    return kernels_of(tuple(2.0 ** np.arange(lowest, 7)), DEGREES)


@pytest.mark.data
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_oracle_on_the_papers_data(name, data_dir, x64):
    case = CASES[name]
    if case.budget is not None:
        case = case._replace(budget=PAPER_BUDGETS.get(name, 50))
    library, plain = paper_kernels(case)
    learner = case.make(library) if case.budget is None else case.make(library, budget=case.budget)
    for data in ("german", "svmguide3"):
        check_agreement(case, learner, plain, *paper_stream(data, data_dir))
