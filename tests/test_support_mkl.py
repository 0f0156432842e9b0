"""The learners with support vectors: against the NumPy oracle, and what they promise besides."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from oracles import oks as oks_oracle
from oracles import support_mkl as oracle
from sklearn.datasets import load_breast_cancer

import jaxmkl
from jaxmkl import pytree
from jaxmkl.kernels import Kernel
from jaxmkl.learner import select_row
from jaxmkl.support import Entries, GrowingState

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

    if isinstance(support, GrowingState):
        used = int(support.used)
        if not isinstance(support.coefficients, Entries):
            for p, j in np.argwhere(support.coefficients[:, :used]):
                add(p, support.rows[j], support.scale * support.coefficients[p, j])
        else:
            stored = int(support.coefficients.used)
            assert not support.coefficients.coefficient[stored:].any()
            for row, p, a in zip(
                *(part[:stored] for part in support.coefficients[:3]), strict=True
            ):
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


def draws(state, num_rounds, num_kernels):
    """The uniform numbers (T, P) that decide who learns, and those that decide who goes."""

    def one(t, which):
        key = jax.random.fold_in(jax.random.fold_in(state.key, t), which)
        return jax.random.uniform(key, (num_kernels,), jnp.float32)

    both = [jax.vmap(lambda t, w=w: one(t, w))(jnp.arange(num_rounds)) for w in (0, 1)]
    return [np.asarray(numbers, np.float64) for numbers in both]


def run_oracle(case, kernels, state, X, y):
    """The oracle with the learner's random numbers, and nothing else of it."""
    learner = oracle.SupportMKL(kernels, budget=case.budget, **case.arguments)
    predictions, values, weights, number = [], [], [], []
    for example in zip(X, y, *draws(state, len(X), len(kernels)), strict=True):
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


@functools.cache
def expected_of(name):
    """The oracle's run of a case on the stream, in double precision."""
    case = ALL[name]
    with jax.enable_x64(True):
        start = begin(learner_of(name), stream().X.shape[1])
        return run_oracle(case, kernels_for(case)[1], start, stream().X, labels_for(case))


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


def check_run(name, learner, run=jaxmkl.run, **arguments):
    """A run of a learner on the stream is the oracle's run of this case; return the state."""
    X, y = stream().X, labels_for(ALL[name])
    state, outputs = run(learner, begin(learner, X.shape[1]), X, y, record=everything, **arguments)
    check_outputs(outputs, expected_of(name))
    check_end(learner, state, expected_of(name), X)
    return state


@pytest.mark.parametrize("name", ALL)
def test_agrees_with_the_oracle(name, x64):
    state = check_run(name, learner_of(name))
    budget = ALL[name].budget
    assert budget is None or (np.asarray(state.support.number) == budget).any(), "one is full"


@pytest.mark.parametrize("name", ["omkc_dd", "spa", "forgetron"])
def test_step_and_the_values_of_kernels_agree_with_the_oracle(name, x64):
    learner, X, expected = learner_of(name), stream().X, expected_of(name)
    state, outputs, f = rounds(learner, begin(learner, X.shape[1]), X, stream().y)
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
@pytest.mark.parametrize("name", [name for name in CASES if name != "spa, normalized"])
def test_agrees_with_the_oracle_on_the_papers_data(name, data_dir, x64):
    case = CASES[name]
    if case.budget is not None:
        case = case._replace(budget=PAPER_BUDGETS.get(name, 50))
    library, plain = paper_kernels(case)
    learner = case.make(library) if case.budget is None else case.make(library, budget=case.budget)
    for data in ("german", "svmguide3"):
        check_agreement(case, learner, plain, *paper_stream(data, data_dir))


# --- one kernel drawn ----------------------------------------------------------------------------


OKS_WIDTHS = (0.1, 0.2, 1.0, 4.0)


def check_oks(bandwidths, X, y, **arguments):
    """OKS's rounds are the oracle's; each of the bandwidths was drawn."""
    learner = jaxmkl.oks(jaxmkl.Gaussian(bandwidths), num_rounds=len(X), **arguments)
    start = begin(learner, X.shape[1])
    kernels = [oracle.gaussian(b) for b in bandwidths]
    plain = oks_oracle.SampledKernel(
        kernels,
        arguments["step_size"],
        oks_oracle.oks_rate(len(kernels), len(X), arguments["smoothing"]),
        arguments["smoothing"],
    )

    def lot(t):
        key = jax.random.fold_in(jax.random.fold_in(start.key, t), 2)
        return jax.random.uniform(key, (len(kernels),), jnp.float32)[0]

    lots = np.asarray(jax.vmap(lot)(jnp.arange(len(X))), np.float64)
    predictions, drawn, chances, number = [], [], [], []
    for example in zip(X, y, lots, strict=True):
        number.append([len(rows) for rows in plain.rows])
        predictions.append(plain.step(*example))
        drawn.append(plain.drawn)
        chances.append(plain.chances)
    # room is not made inside jit
    state, outputs, f = rounds(learner, learner.enlarged(start, len(X)), X, y)
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
    share = learner.combination.smoothing / len(kernels)
    weights = (np.asarray(learner.info(state).weights) - share) / (1 - arguments["smoothing"])
    np.testing.assert_allclose(weights, plain.weights / plain.weights.sum(), atol=1e-9)
    assert len(set(drawn)) == len(kernels)
    assert np.sum(np.array(predictions) == 0) > 1
    assert plain.weights.max() / plain.weights.min() > 2


def test_oks_agrees_with_the_oracle(x64):
    X, y, _ = stream()
    check_oks(OKS_WIDTHS, X, y, step_size=0.3, smoothing=0.3)


@pytest.mark.data
@pytest.mark.parametrize("name", ["german", "svmguide3"])
def test_oks_agrees_with_the_oracle_on_the_papers_data(name, data_dir, x64):
    X, y = paper_stream(name, data_dir)
    check_oks(tuple(oks_oracle.candidate_widths()), X, y, step_size=0.1, smoothing=0.2)


def test_oks_has_the_papers_kernels_and_rate():
    learner = jaxmkl.oks(num_rounds=1000)
    np.testing.assert_allclose(learner.kernels.bandwidth, oks_oracle.candidate_widths())
    assert learner.combination.rate == pytest.approx(oks_oracle.oks_rate(25, 1000))


def test_oks_in_single_precision_is_oks():
    """The sign of values that no float32 holds decides the weights of narrow kernels."""
    X, y, _ = stream()
    learner = jaxmkl.oks(jaxmkl.Gaussian(OKS_WIDTHS), num_rounds=NUM_EXAMPLES, smoothing=0.9)
    wrong, tiny = {}, {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            start = learner.enlarged(begin(learner, X.shape[1], dtype), NUM_EXAMPLES)
            _, outputs, f = rounds(learner, start, X.astype(dtype), y.astype(dtype))
            wrong[dtype] = y * np.asarray(outputs.prediction) <= 0
            f = np.abs(np.asarray(f, np.float64))
            tiny[dtype] = np.sum((f > 0) & (f < 1e-40))
    assert tiny[np.float64] > NUM_EXAMPLES / 6
    assert np.sum(wrong[np.float32] != wrong[np.float64]) <= 2


# --- blocks, tiles, periods ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "block_size"), [("omkc_dd", 8), ("spa", 1), ("forgetron", 2)])
def test_block_size_changes_nothing(name, block_size, x64):
    check_run(name, learner_of(name), block_size=block_size)


def with_support(name, support):
    learner = learner_of(name)
    return jaxmkl.SupportMKL(
        learner.kernels, learner.component, support, learner.combination, learner.learning
    )


SMALL = {"capacity": 8, "tile": 16, "period": 16}
LARGE = {"capacity": 500, "tile": 64, "period": 32}


@pytest.mark.parametrize(
    ("name", "support"),
    [
        ("omkc_dd", jaxmkl.DenseSupport(**SMALL)),
        ("omkc_dd", jaxmkl.SparseSupport(**LARGE)),
        ("spa", jaxmkl.SparseSupport(**SMALL)),
        ("spa", jaxmkl.DenseSupport(**LARGE)),
        ("kernel_ogd", jaxmkl.SparseSupport(**SMALL)),
        ("forgetron", jaxmkl.BudgetSupport(10, jaxmkl.SelfTuned(), period=2)),
    ],
    ids=str,
)
def test_store_tile_capacity_and_period_change_nothing(name, support, x64):
    check_run(name, with_support(name, support))


def test_sparse_inputs_change_nothing(x64):
    def run(learner, state, X, y, **arguments):
        return jaxmkl.run(learner, state, scipy.sparse.csr_array(X), y, **arguments)

    check_run("spa", learner_of("spa"), run)


# --- capacity ------------------------------------------------------------------------------------


class Limited(oracle.SupportMKL):
    """Nothing is added while the kernels together hold ``capacity`` examples."""

    capacity = 8
    overflow = 0

    def step(self, *example):
        held = {entry.t for one in self.expansions for entry in one.entries}
        self.room, self.wanted = len(held) < self.capacity, False
        prediction = super().step(*example)
        self.overflow += self.wanted and not self.room
        return prediction

    def add(self, *arguments):
        self.wanted = True
        if self.room:
            super().add(*arguments)


@pytest.mark.parametrize("store", [jaxmkl.DenseSupport, jaxmkl.SparseSupport])
def test_without_room_nothing_is_learned_and_all_else_goes_on(store, x64):
    name = "omkc_dd" if store is jaxmkl.DenseSupport else "spa"
    learner = with_support(name, store(capacity=8, tile=8, period=8))
    X, y, _ = stream()
    start = begin(learner, X.shape[1])
    assert learner.capacity(start) == 8
    state, outputs, f = rounds(learner, start, X, y)  # inside jit: not enlarged
    full = Limited(kernels_for(ALL[name])[1], **ALL[name].arguments)
    predictions = [
        full.step(*example) for example in zip(X, y, *draws(start, len(X), 6), strict=True)
    ]
    np.testing.assert_allclose(outputs.prediction, predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f[-1], full.f, rtol=1e-9, atol=1e-9)
    assert int(state.support.overflow) == full.overflow > 20
    assert int(learner.num_supports(state)) == learner.capacity(state) == 8
    places = [[(t, pytest.approx(a, rel=1e-9)) for t, a in one] for one in full.places]
    assert held(state, X) == places


def test_a_run_makes_room_and_goes_on_from_a_file(x64, tmp_path):
    learner = with_support("omkc_dd", jaxmkl.DenseSupport(**SMALL))
    made = []

    def run(learner, state, X, y, **arguments):
        made.append(learner.capacity(state))
        state, first = jaxmkl.run(learner, state, X[:100], y[:100], **arguments)
        made.append(learner.capacity(state))
        path = tmp_path / "state.npz"
        jaxmkl.save(path, learner, state)
        learner, state = jaxmkl.load(path)
        assert learner.capacity(state) == made[-1]
        state, second = jaxmkl.run(learner, state, X[100:], y[100:], **arguments)
        made.append(learner.capacity(state))
        return state, jax.tree.map(lambda *parts: np.concatenate(parts), first, second)

    state = check_run("omkc_dd", learner, run)
    assert int(state.support.overflow) == 0
    assert made[0] < 100 <= made[1] < int(learner.num_supports(state)) <= made[2]


def test_a_stream_makes_room(x64):
    learner = with_support("spa", jaxmkl.SparseSupport(**SMALL))

    def run(learner, state, X, y, **arguments):
        chunks = [(X[i : i + 150], y[i : i + 150]) for i in range(0, len(X), 150)]
        states, outputs = zip(*jaxmkl.stream(learner, state, chunks, **arguments), strict=True)
        return states[-1], jax.tree.map(lambda *parts: np.concatenate(parts), *outputs)

    state = check_run("spa", learner, run)
    assert int(state.support.overflow) == 0
    assert learner.capacity(state) >= int(learner.num_supports(state)) > 8


# --- single precision, range, bad input ----------------------------------------------------------


@pytree.dataclass
class PlainGaussian(Kernel):
    """Gaussian kernels by value: those of far points are 0 in single precision."""

    bandwidth: object

    @property
    def num_kernels(self):
        return len(self.bandwidth)

    def codes(self, products):
        return jnp.stack(
            [jnp.exp(-products.squared_distance / (2 * b**2)) for b in self.bandwidth]
        )


def single(learner, X, y):
    start = begin(learner, X.shape[1], np.float32)
    state, outputs = jaxmkl.run(learner, start, X, y, record=everything)
    assert outputs.prediction.dtype == np.float32
    for leaf in jax.tree.leaves((state.log_weights, state.support, outputs)):
        assert np.isfinite(np.asarray(leaf)).all()
    return start, state, outputs


def few_differ(y, outputs, expected, at_most):
    """Mistakes that are not the oracle's, besides those where the vote is a tie."""
    clear = np.abs(expected.prediction) > 1e-6
    ours, theirs = (y * np.asarray(one.prediction) <= 0 for one in (outputs, expected))
    return np.sum((ours != theirs) & clear) <= at_most


@pytest.mark.parametrize("name", ["omkc_dd", "spa", "rbp", "forgetron", "bpas"])
def test_single_precision_stays_near_the_oracle(name):
    case = ALL[name]
    X, y, _ = stream()
    library, plain = kernels_of(BANDWIDTHS, DEGREES)
    start, _, outputs = single(learner_of(name, library), X, y)
    expected = run_oracle(case, plain, start, X, y)
    assert few_differ(y, outputs, expected, at_most=5)
    # of kernels that are not full, too
    number = np.asarray(outputs.info.support, float)
    np.testing.assert_allclose(number.sum(axis=1), expected.number.sum(axis=1), rtol=0.03, atol=3)


def test_without_exponents_far_points_would_be_lost():
    X, y, _ = stream()
    plain = [oracle.gaussian(BANDWIDTHS[0])]
    counts = {}
    for kernel in (jaxmkl.Gaussian(BANDWIDTHS[:1]), PlainGaussian(BANDWIDTHS[:1])):
        start, state, _ = single(jaxmkl.omkc_dd(kernel), X, y)
        counts[type(kernel).__name__] = int(state.support.number[0])
    expected = run_oracle(ALL["omkc_dd"], plain, start, X, y)
    exact = len(expected.held[0])
    assert abs(counts["Gaussian"] - exact) <= 0.03 * exact
    assert abs(counts["PlainGaussian"] - exact) > 0.1 * exact


def raw(kind):
    """Points of norm 300 with near duplicates, or whole numbers around 500; and labels."""
    rng = np.random.default_rng(8)
    if kind == "norm 300":
        X = rng.normal(size=(200, 8))
        X *= 300 / np.linalg.norm(X, axis=1, keepdims=True)
        X[100:] = X[:100] + 0.02 * rng.normal(size=(100, 8))
        y = np.sign(X[:, 0] + X[:, 1])
    else:
        X = rng.integers(470, 531, size=(120, 500)).astype(np.float64)
        y = np.sign((X[:, :3] - 500.5).sum(axis=1))
    y = np.where(rng.random(len(y)) < 0.1, -y, y)
    return X.astype(np.float32).astype(np.float64), y


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("omkc_dd", "norm 300"),
        ("forgetron", "norm 300"),
        ("omkc_dd", "whole numbers"),
        ("spa", "whole numbers"),
    ],
)
def test_single_precision_on_raw_features(name, kind):
    case = ALL[name]
    X, y = raw(kind)
    library, plain = kernels_of(tuple(2.0 ** np.arange(-6, 7)), DEGREES)
    start, state, outputs = single(learner_of(name, library), X, y)
    expected = run_oracle(case, plain, start, X, y)
    assert few_differ(y, outputs, expected, at_most=0.03 * len(y))
    number = int(state.support.number.sum())
    assert abs(number - expected.number[-1].sum()) <= 0.03 * number + 3
    weights = np.asarray(outputs.info.weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["spa", "bogd"])
def test_polynomials_that_overflow_do_no_harm(name):
    X = 1e6 * stream().X[:64]
    y = stream().y[:64]
    kernels = jaxmkl.KernelDictionary((jaxmkl.Gaussian((1e6, 1e7)), jaxmkl.Polynomial(3)))
    learner = learner_of(name, kernels)
    _, state, outputs = single(learner, X, y)
    if name == "spa":  # it judges by the loss, which is beyond all bounds
        weights = np.asarray(outputs.info.weights)
        assert weights[0, 2] > 0
        assert weights[-1, 2] == 0
        # without weight, its values say nothing: changing its coefficients changes nothing
        entries = state.support.coefficients
        other = jnp.where(entries.kernel == 2, -entries.coefficient, entries.coefficient)
        recent = state.support.recent.at[2].multiply(-1.0)
        changed = state._replace(
            support=state.support._replace(
                coefficients=entries._replace(coefficient=other), recent=recent
            )
        )
        predict = jax.jit(learner.predict)
        x = jnp.asarray(X[3], jnp.float32)
        prediction = float(predict(state, x).value)
        assert np.isfinite(prediction)
        assert prediction == float(predict(changed, x).value)


def test_examples_that_are_not_finite_are_left_out_and_counted(x64):
    X, y, _ = (array.copy() for array in stream())
    X[50, 3], y[120] = np.nan, np.nan
    learner = learner_of("omkc_dd")
    state, outputs, _ = rounds(learner, begin(learner, X.shape[1]), X, y)
    assert int(state.invalid) == 2
    assert int(state.round) == NUM_EXAMPLES
    refused = np.array([50, 120])
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(outputs.loss)), refused)
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(outputs.queried)), [50])
    kept = np.delete(np.arange(NUM_EXAMPLES), refused)
    plain = kernels_for(ALL["omkc_dd"])[1]
    # its draws are not looked at: nothing here is random
    expected = run_oracle(ALL["omkc_dd"], plain, state, X[kept], y[kept])
    np.testing.assert_allclose(outputs.prediction[kept], expected.prediction, atol=1e-9)
    assert [[t for t, _ in one] for one in held(state, X)] == [
        [kept[t] for t, _ in one] for one in expected.held
    ]


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kernel_ogd", "omkl"])
def test_gradients_of_the_cumulative_loss_agree_with_differences(name, x64):
    X, y = stream().X[:48, :4], stream().target[:48]
    bandwidths = np.array([0.7] if name == "kernel_ogd" else [0.4, 1.5])
    start = np.append(bandwidths, 0.2)

    @jax.jit
    def loss(parameters):
        bandwidth, step_size = parameters[:-1], parameters[-1]
        learner = getattr(jaxmkl, name)(jaxmkl.Gaussian(bandwidth), step_size=step_size)
        store = jaxmkl.DenseSupport(64, tile=16, period=16)
        learner = jaxmkl.SupportMKL(
            learner.kernels, learner.component, store, learner.combination, learner.learning
        )
        _, outputs = jaxmkl.run(learner, begin(learner, 4), X, y)
        return outputs.loss.sum()

    gradient = np.asarray(jax.jit(jax.grad(loss))(jnp.asarray(start)))
    for i, step in enumerate(1e-5 * np.eye(len(start))):
        difference = (loss(start + step) - loss(start - step)) / 2e-5
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6)
        assert abs(gradient[i]) > 1e-3


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("perceptron", {"kernel": jaxmkl.Gaussian([1.0, 2.0])}, "kernel"),
        ("perceptron", {"capacity": 0}, "capacity"),
        ("kernel_ogd", {"kernel": "gaussian"}, "kernel"),
        ("kernel_ogd", {"loss": "cubic"}, "loss"),
        ("kernel_ogd", {"step_size": 0.0}, "step_size"),
        ("omkc_u", {"kernels": 3}, "kernels"),
        ("omkc_dd", {"discount": 0.0}, "discount"),
        ("omkc_dd", {"discount": 1.5}, "discount"),
        ("omkc_dd", {"discount": [0.9, 0.9]}, "discount"),
        ("omkc_dd", {"capacity": 2.5}, "capacity"),
        ("omkc_sd", {"smoothing": -0.1}, "smoothing"),
        ("omkc_sd", {"smoothing": np.nan}, "smoothing"),
        ("spa", {"step_size": -1.0}, "step_size"),
        ("spa", {"alpha": 0.0}, "alpha"),
        ("spa", {"alpha": 2.0, "beta": 1.0}, "beta"),
        ("rbp", {"budget": 0}, "budget"),
        ("rbp", {"budget": 2.0}, "budget"),
        ("bogd", {"regularization": -0.1}, "regularization"),
        ("bogd", {"step_size": 2.0, "regularization": 0.5}, "regularization"),
        ("bpas", {"aggressiveness": 0.0}, "aggressiveness"),
        ("bpas", {"aggressiveness": "high"}, "aggressiveness"),
        ("projectron", {"threshold": -1e-9}, "threshold"),
        ("omkl", {"hedge_rate": -1.0}, "rate"),
        ("omkl", {"hedge_rate": np.inf}, "rate"),
        ("omkl_b", {"budget": -1}, "budget"),
        ("oks", {"kernels": 0.5}, "kernels"),
        ("oks", {"step_size": 0.0}, "step_size"),
        ("oks", {"smoothing": 0.0}, "smoothing"),
        ("oks", {"smoothing": 1.1}, "smoothing"),
        ("oks", {"num_rounds": 0}, "num_rounds"),
        ("oks", {"num_rounds": 1e4}, "num_rounds"),
        ("oks", {"capacity": 0}, "capacity"),
    ],
)
def test_bad_arguments_are_named(name, arguments, wanted):
    with pytest.raises(ValueError, match=rf"\b{wanted} must be"):
        getattr(jaxmkl, name)(**arguments)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("kernels", None),
        ("component", jaxmkl.Perceptron),
        ("component", jaxmkl.LearnAll()),
        ("support", jaxmkl.Perceptron()),
        ("combination", 0.5),
        ("learning", jaxmkl.LearnAll),
    ],
)
def test_bad_parts_are_named(wanted, given):
    parts = {
        "kernels": jaxmkl.Gaussian(1.0),
        "component": jaxmkl.Perceptron(),
        "support": jaxmkl.DenseSupport(),
        "combination": jaxmkl.Uniform(),
        "learning": jaxmkl.LearnAll(),
    }
    with pytest.raises(ValueError, match=f"{wanted} must be"):
        jaxmkl.SupportMKL(**parts | {wanted: given})


def test_bad_numbers_of_inputs_are_named():
    for number in (0, -1, 2.0, None):
        with pytest.raises(ValueError, match="num_inputs must be"):
            jaxmkl.spa().init(jax.random.key(0), number)
