"""Learners with support vectors beside the NumPy oracle: data, cases, and what is compared."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

from jaxmkl import aggregate, query, select, updates
from jaxmkl._checks import fingerprints
from jaxmkl.kernels import Gaussian, KernelDictionary, Polynomial
from jaxmkl.mkl import MKL
from jaxmkl.models import BudgetSupport, SparseSupport, SupportModels, supports
from jaxmkl.models.supports.growing import GrowingState
from jaxmkl.models.supports.tiles import Entries
from jaxmkl.recipes import budgets, support_vectors
from jaxmkl.streaming.run import run
from tests.common.selection_streams import begin
from tests.common.trees import everything
from tests.oracles import support_mkl as oracle

# of the first, values of far points are below the smallest float32
BANDWIDTHS = (0.1, 0.5, 2.0)
DEGREES = (1, 2, 3)
NUM_EXAMPLES = 200


# --- data and kernels ----------------------------------------------------------------------------


class Stream(NamedTuple):
    """Examples X (T, D), labels y (T,), regression targets (T,), in float64."""

    X: np.ndarray
    y: np.ndarray
    target: np.ndarray


@functools.cache
def stream():
    """Breast cancer in [-1, 1], some rows in another order, every eighth label wrong."""
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
    parts = [Gaussian(bandwidths)] if bandwidths else []
    parts += [Polynomial(degrees)] if degrees else []
    library = parts[0] if len(parts) == 1 else KernelDictionary(tuple(parts))
    plain = [oracle.gaussian(b) for b in bandwidths] + [oracle.polynomial(q) for q in degrees]
    return library, plain


# --- learners and what the oracle calls them -----------------------------------------------------


class Case(NamedTuple):
    """A learner made from kernels and a budget, the oracle's arguments, and what it needs."""

    make: Any
    arguments: dict
    budget: int | None = None
    one_kernel: bool = False
    regression: bool = False
    tied_if_narrow: bool = False


def vote(cost="mistake"):
    return aggregate.Hedge(-np.log(0.99), output="vote", cost=cost)


def value(cost="loss"):
    return aggregate.Hedge(-np.log(0.99), output="value", cost=cost)


def crossing(update, store, combined, *parts):
    return lambda kernels, **_: MKL(SupportModels(kernels, update, store), combined, *parts)


def budgeted(update, eviction, combined, *parts):
    def make(kernels, budget):
        return crossing(update, BudgetSupport(budget, eviction), combined, *parts)(kernels)

    return make


SPA = {"rule": "spa", "combination": "value", "discount": "hinge", "sampled": True}
SQUARED = {"rule": "ogd", "loss": "squared", "combination": "value", "discount": "squared"}
HINGE = {"rule": "ogd", "combination": "value", "discount": "hinge"}
GROWING = {
    "perceptron": Case(
        support_vectors.perceptron,
        {"weighting": "uniform", "combination": "value"},
        one_kernel=True,
    ),
    "omkc_u": Case(support_vectors.omkc_u, {"weighting": "uniform"}),
    "omkc_dd": Case(support_vectors.omkc_dd, {}),
    "omkc_sd": Case(
        functools.partial(support_vectors.omkc_sd, discount=0.9, smoothing=0.1),
        {"sampled": True, "discount_sampled": True, "gamma": 0.9, "delta": 0.1},
    ),
    "spa": Case(support_vectors.spa, SPA | {"normalized_step": False}),
    "spa, normalized": Case(
        functools.partial(
            support_vectors.spa, normalized_step=True, alpha=0.8, beta=1.5, step_size=0.2
        ),
        SPA | {"alpha": 0.8, "beta": 1.5, "rate": 0.2},
    ),
    "kernel_ogd": Case(
        functools.partial(support_vectors.kernel_ogd, regularization=0.2),
        SQUARED | {"weighting": "uniform", "regularization": 0.2},
        one_kernel=True,
        regression=True,
    ),
    "omkl": Case(
        functools.partial(support_vectors.omkl, step_size=0.2, hedge_rate=0.5),
        SQUARED | {"rate": 0.2, "regularization": 0.0, "hedge_rate": 0.5},
        regression=True,
    ),
}
BUDGETS = {
    "rbp": Case(budgets.rbp, {"policy": "random"}, budget=11),
    "forgetron": Case(budgets.forgetron, {"policy": "forgetron"}, budget=10),
    "bogd": Case(budgets.bogd, {"rule": "ogd", "policy": "oldest"}, budget=40),
    "bpas": Case(
        budgets.bpas,
        {"rule": "pa", "cap": 0.1, "policy": "replace"},
        budget=20,
        tied_if_narrow=True,
    ),
    "projectron": Case(
        functools.partial(budgets.projectron, threshold=0.05),
        {"policy": "project", "threshold": 0.05},
        budget=15,
    ),
    "omkl_b": Case(
        functools.partial(budgets.omkl_b, regularization=0.1),
        SQUARED | {"policy": "oldest"},
        budget=17,
        regression=True,
    ),
}
# what no paper has
GROWING_CROSSINGS = {
    "active sampled gradient descent with entries": Case(
        crossing(
            updates.OGD(0.1, 0.3, "hinge"),
            SparseSupport(),
            value(),
            select.Sampled(0.2),
            query.Margin(0.5),
        ),
        HINGE | {"regularization": 0.3, "sampled": True, "delta": 0.2, "h": 0.5},
    )
}
BUDGET_CROSSINGS = {
    "BOGD++": Case(
        functools.partial(
            budgets.bogd, eviction=supports.RemoveUnbiased(by_size=True, largest=0.3)
        ),
        {"rule": "ogd", "policy": "by size", "largest": 0.3},
        budget=20,
    ),
    "sampled unbiased Perceptrons of which those drawn vote": Case(
        budgeted(
            updates.Perceptron(),
            supports.RemoveUnbiased(),
            vote(),
            select.Sampled(0.3, sampled="both"),
        ),
        {"policy": "unbiased", "sampled": True, "combine_sampled": True, "delta": 0.3},
        budget=8,
    ),
    "sampled Forgetrons": Case(
        budgeted(updates.Perceptron(), supports.SelfTuned(), vote(), select.Sampled(0.3)),
        {"policy": "forgetron", "sampled": True, "delta": 0.3},
        budget=8,
    ),
    "sampled gradient descent on a budget": Case(
        budgeted(
            updates.OGD(0.1, 0.3, "hinge"), supports.RemoveOldest(), value(), select.Sampled(0.2)
        ),
        HINGE | {"regularization": 0.3, "sampled": True, "delta": 0.2, "policy": "oldest"},
        budget=9,
    ),
    "adaptive kernel selection on a budget": Case(
        budgeted(
            updates.Perceptron(),
            supports.Project(0.05),
            aggregate.Hedge(-np.log(0.9), "vote", "mistake"),
            select.AdaptiveKernelSelection(0.5),
            query.Margin(0.5),
        ),
        {
            "policy": "project",
            "threshold": 0.05,
            "gamma": 0.9,
            "threshold_of_weights": 0.5,
            "h": 0.5,
        },
        budget=6,
    ),
}
ALL = GROWING | BUDGETS | GROWING_CROSSINGS | BUDGET_CROSSINGS


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


def replaced_store(learner, store):
    """The learner with another store in its one bank."""
    (bank,) = learner.models
    return dataclasses.replace(learner, models=dataclasses.replace(bank, store=store))


def with_store(name, store):
    return replaced_store(learner_of(name), store)


def labels_for(case):
    return stream().target if case.regression else stream().y


# --- one run -------------------------------------------------------------------------------------


@jax.jit
def rounds(learner, state, X, y):
    """The scan of ``step``, and the models' values f (T, P) before each round."""

    def one(state, example):
        x, _ = example
        codes = learner.encode(state, x[None])
        code = jax.tree.map(lambda leaf: leaf[0], codes)
        values = learner.predict_own(state, code.own)[1].models[0][0]
        state, output = learner.step(state, example)
        return state, (output, values)

    state, (outputs, f) = jax.lax.scan(one, state, (X, y))
    return state, outputs, f


def numbers_of(X):
    """The number of each row of a stream; of equal ones the first."""
    return {row.tobytes(): t for t, row in reversed(list(enumerate(X)))}


def held(state, X):
    """For each kernel: numbers of the stream's rows it holds, in order, and its coefficients."""
    number_of = numbers_of(X)
    support = jax.tree.map(np.asarray, state.models[0])
    P = len(support.number)
    found = [[] for _ in range(P)]

    def add(p, row, coefficient):
        assert row.dtype == X.dtype
        found[p].append((number_of[row.tobytes()], float(coefficient)))

    if isinstance(support, GrowingState):
        used = int(support.used)
        if not isinstance(support.coefficients, Entries):
            for p, j in np.argwhere(support.coefficients[:, :used]):
                add(p, support.rows[j], support.scale[p] * support.coefficients[p, j])
        else:
            lists = support.coefficients
            for p, stored in enumerate(lists.used):
                assert not lists.coefficient[p, stored:].any()
                for row, a in zip(lists.row[p, :stored], lists.coefficient[p], strict=False):
                    add(p, support.rows[row], support.scale[p] * a)
        for p, j in np.argwhere(support.recent):
            add(p, support.recent_rows[j], support.recent[p, j])
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
    """The oracle's results: of each round, and at the end."""

    prediction: np.ndarray
    weights: np.ndarray
    number: np.ndarray
    active: np.ndarray
    held: list
    final_weights: np.ndarray
    labels: int


@functools.partial(jax.jit, static_argnums=(2, 3))
def draws_of(key, X, num_kernels, dtype):
    P = num_kernels

    def one(t, fingerprint):
        of_round = jax.random.fold_in(key, t)
        chance, active, bank = (jax.random.fold_in(of_round, w) for w in (0, 2, 3))
        asked = jax.random.fold_in(of_round, fingerprint)
        s = jax.random.uniform(active, (2 * P,), dtype, minval=jnp.finfo(dtype).tiny)
        u, v = (jax.random.uniform(k, (P,), jnp.float32) for k in (chance, bank))
        return u, v, jax.random.uniform(asked, (), jnp.float32), s.reshape(2, P)

    return jax.vmap(one)(jnp.arange(len(X)), fingerprints(X))


def draws(state, X, num_kernels):
    """The uniform numbers of all rounds, each from a subkey of its own.

    Who is sampled (T, P), who goes (T, P), whether the label is asked for (T,), and who is active
    (T, 2, P).
    """
    found = draws_of(state.key, X, num_kernels, jnp.dtype(state.dtype))
    return [np.asarray(numbers, np.float64) for numbers in found]


def run_oracle(case, kernels, state, X, y):
    """The oracle with the learner's random numbers, and nothing else of it."""
    plain = oracle.SupportMKL(kernels, budget=case.budget, **case.arguments)
    predictions, weights, number, active = [], [], [], []
    for example in zip(X, y, *draws(state, X, len(kernels)), strict=True):
        weights.append(plain.weights.copy())
        number.append(plain.support)
        active.append(plain.active.sum())
        predictions.append(plain.step(*example))
    places = plain.places
    if case.arguments.get("policy") in ("oldest", "forgetron"):
        places = [sorted(entries) for entries in places]  # by age
    return Expected(
        np.array(predictions),
        np.array(weights),
        np.array(number),
        np.array(active),
        places,
        plain.weights,
        plain.labels,
    )


def check_outputs(outputs, expected):
    np.testing.assert_allclose(outputs.prediction, expected.prediction, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(outputs.info.weights, expected.weights, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(outputs.info.support, expected.number)
    np.testing.assert_array_equal(outputs.info.num_active, expected.active)
    assert int(np.asarray(outputs.queried).sum()) == expected.labels


def check_end(learner, state, expected, X):
    number_of = numbers_of(X)
    for ours, entries in zip(held(state, X), expected.held, strict=True):
        assert [t for t, _ in ours] == [number_of[X[t].tobytes()] for t, _ in entries]
        np.testing.assert_allclose(
            [a for _, a in ours], [a for _, a in entries], rtol=1e-9, atol=1e-9
        )
    weights = learner.aggregate.weights(state.aggregate)
    np.testing.assert_allclose(weights, expected.final_weights, rtol=0, atol=1e-9)


@functools.cache
def expected_of(name):
    """The oracle's run of a case on the stream, in double precision."""
    case = ALL[name]
    with jax.enable_x64(True):
        learner = learner_of(name)
        start = begin(learner, stream().X.shape[1])
        plain = kernels_for(case)[1]
        return run_oracle(case, plain, start, stream().X, labels_for(case))


def check_run(name, learner, run=run, **arguments):
    """A run of a learner on the stream is the oracle's run of this case; return the state."""
    X, y = stream().X, labels_for(ALL[name])
    state, outputs = run(learner, begin(learner, X.shape[1]), X, y, record=everything, **arguments)
    check_outputs(outputs, expected_of(name))
    check_end(learner, state, expected_of(name), X)
    return state


# --- the papers' data ----------------------------------------------------------------------------


def paper_stream(name, folder):
    """400 examples in another order; svmguide3 gets three empty columns, as german has 24."""
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    rows = np.random.default_rng(1).permutation(len(X))[:400]
    X, y = X[rows], y[rows]
    if name == "german":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2 * (X - low) / (high - low) - 1
    return np.pad(X, ((0, 0), (0, 24 - X.shape[1]))), y


def paper_kernels(case):
    """The recipes' default kernels, spelled out."""
    if case.one_kernel:
        return kernels_of((1.0,), ())
    if case.regression:
        return kernels_of(tuple(np.sqrt(10.0 ** ((np.arange(1, 18) - 9) / 2))), ())
    return kernels_of(tuple(2.0 ** np.arange(-6, 7)), DEGREES)


def check_on_the_papers_data(name, folder):
    case = ALL[name]
    library, plain = paper_kernels(case)
    learner = case.make(library)
    for data in ("german", "svmguide3"):
        X, y = paper_stream(data, folder)
        start = begin(learner, X.shape[1])
        expected = run_oracle(case, plain, start, X, y)
        state, outputs = run(learner, start, X, y, record=everything)
        check_outputs(outputs, expected)
        check_end(learner, state, expected, X)
