"""Hostile streams in single precision beside double precision: no learner runs away in silence.

Everything that is kept by recursions (covariances, factors, Gram matrices, sketches) meets inputs
that such recursions lose their digits on: rows that are nearly equal, one direction a thousand
times, rows of scales from 1e-3 to 1e3, one row again and again, a label that never changes, and
all of them in turn. Both precisions see the same numbers.
"""

import jax
import numpy as np
import pytest

import jaxmkl
from jaxmkl import abilities, features, models, updates
from jaxmkl.learners import Aligned, MultiTask
from jaxmkl.models.supports.eviction import ProjectState
from tests.common.marks import long

D = 4
KINDS, TURN = 6, 1000  # rows of one kind, or fewer where all kinds are to come
BLOCK = 256
SHORT = 1500
# rounds, a row of which costs what all before it cost where supports grow
LONG, OF_GROWING = 10**6, 20_000
GROWING = "perceptron", "omkc_u", "omkc_dd", "omkc_sd", "spa", "kernel_ogd", "omkl", "oks"


def least_squares(forgetting):
    """Least squares on random features, of which a wide kernel's are nearly dependent."""
    of_kernels = jaxmkl.Gaussian([1.0, 30.0]), updates.RLS(0.01, forgetting)
    return jaxmkl.MKL(models.FeatureModels(*of_kernels, features.FourierFeatures(8)))


def on_inputs(forgetting):
    """Least squares on the inputs themselves, of any scale."""
    rule = updates.RLS(0.01, forgetting)
    return jaxmkl.MKL(models.FeatureModels(jaxmkl.Linear(), rule, features.LinearFeatures()))


MADE = {
    "least squares": lambda: least_squares(1.0),
    "least squares that forget": lambda: least_squares(0.99),
    "least squares on inputs": lambda: on_inputs(1.0),
    "least squares on inputs that forget": lambda: on_inputs(0.99),
    "expert_mkl, fixed": lambda: jaxmkl.expert_mkl(banks="fixed", num_features=10),
    "projectron, two kernels": lambda: jaxmkl.projectron(jaxmkl.Gaussian([1.0, 30.0]), budget=40),
    "multitask": lambda: jaxmkl.multitask(2),
    "multitask, hinge": lambda: jaxmkl.recipes.published(
        "multitask", num_examples=LONG, num_inputs=D
    ),
}
LEARNERS = dict(jaxmkl.LEARNERS) | MADE
# in the gate those whose recursions are the shortest to compile
SHORT_ONES = "projectron, two kernels", "oks_sil"


def hostile(length, seed=0):
    """Rows (T, D) of six kinds, a thousand of each in turn, and numbers and classes (T,)."""
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(length, D))
    turn = np.arange(length) // min(TURN, length // KINDS) % KINDS
    first = draws.normal(size=D)
    X[turn == 0] = first + 1e-4 * X[turn == 0]
    X[turn == 1] = X[turn == 1, :1] * first
    X[turn == 2] *= 10.0 ** draws.uniform(-3, 3, size=(np.sum(turn == 2), 1))
    X[turn == 3] = first
    # a function that all kinds have in common, and noise beside it
    X = X.astype(np.float32)
    size = np.linalg.norm(X.astype(float), axis=1)
    y = np.tanh(X[:, 0] - X[:, 1]) + 0.3 * np.cos(size) + 0.1 * draws.normal(size=length)
    y[turn == 4] = 1.0
    return X, y.astype(np.float32)


def begun(learner, num_inputs, dtype):
    """A state in this precision, whose draws are those of single precision."""
    drawn, state = (learner.init(jax.random.key(0), num_inputs, d) for d in (np.float32, dtype))
    leaves = zip(jax.tree.leaves(drawn), jax.tree.leaves(state), strict=True)
    # bits of numbers, too, are as long as numbers are
    same = [a if a.dtype == b.dtype else a.astype(b.dtype) for a, b in leaves]
    return jax.tree.unflatten(jax.tree.structure(state), same)


def outcome(learner, X, y, dtype):
    """The predictions (T,) of a run in this precision, and the state after it."""
    state = begun(learner, X.shape[1], dtype)
    run = jax.jit(lambda state, X, y: jaxmkl.run(learner, state, X, y, block_size=BLOCK))
    if abilities.capacity(learner, state) is not None:
        state = abilities.enlarged(learner, state, len(X))
    state, outputs = run(state, X.astype(dtype), y.astype(dtype))
    return np.asarray(outputs.prediction, float), state


def data_for(learner, length, seed):
    X, y = hostile(length, seed)
    if learner.leading_columns and getattr(learner, "num_tasks", None):
        X = np.concatenate([np.arange(length)[:, None] % 2, X], axis=1).astype(np.float32)
    return X, np.sign(y) if learner.task == "classification" else y


def errors(learner, predicted, y):
    """The mean loss of a regression, the share of mistakes of a classifier."""
    if learner.task == "classification":
        return float(np.mean(y * predicted <= 0))
    return float(np.mean((predicted - y) ** 2))


def stays_near_double_precision(name, length, seed=0):
    learner = LEARNERS[name]()
    X, y = data_for(learner, length, seed)
    single, state = outcome(learner, X, y, np.float32)
    double, of_double = outcome(learner, X, y, np.float64)
    assert np.isfinite(single).all()
    assert all(np.isfinite(leaf).all() for leaf in floats_of(state))
    for each in (state, of_double):
        stay_positive(each)
        stay_inverse(learner, each)
    # a learner that runs away is orders of magnitude beyond what its values are
    assert np.abs(single).max() <= 3 * max(np.abs(double).max(), np.abs(y).max())
    found, wanted = (errors(learner, each, y) for each in (single, double))
    # 5 %, and where classes are counted what chance alone makes of rounds that rounding decides
    by_chance = 3 * np.sqrt(wanted / length) if learner.task == "classification" else 0.0
    assert found <= 1.05 * wanted + by_chance
    return single, double


def floats_of(state):
    leaves = jax.tree.leaves(state)
    return [leaf for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]


def stay_positive(state):
    """Covariances, given or by a factor, are positive definite but for their own rounding."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        field = jax.tree_util.keystr(path)
        if field.endswith((".covariance", ".gaussians")):
            S = np.asarray(leaf, float)
            if field.endswith(".gaussians"):  # factors, beside means
                S = S[..., : S.shape[-2]] @ np.swapaxes(S[..., : S.shape[-2]], -1, -2)
            eigenvalues = np.linalg.eigvalsh((S + np.swapaxes(S, -1, -2)) / 2)
            rounding = np.finfo(leaf.dtype).eps * S.shape[-1] * eigenvalues[..., -1:]
            assert (eigenvalues > -rounding).all(), field


def stay_inverse(learner, state):
    """Inverse factors that are kept are those of the Gram matrix of the points they stand for.

    Where a block has rows of all scales, kernel values of nearly equal ones are rounded to some
    1e-5, and the largest entries of the factors are about 1e2. What runs away is far beyond that.
    """
    for K, M in gram_matrices(learner, state):
        M = np.asarray(M, float)
        assert np.abs(M @ np.asarray(K, float) @ M.T - np.eye(len(M))).max() < 10


def gram_matrices(learner, state):
    """Yield Gram matrices L L', and what the state has as L⁻¹."""
    if isinstance(learner, MultiTask):
        points = state.dictionary
        n = int(points.number)
        yield gram(learner.kernel, points.rows[:n])[0], points.table[0, :n, :n]
    pairs = []
    if isinstance(learner, Aligned):
        pairs = [(learner.models, state.models)]
    elif isinstance(learner, jaxmkl.MKL):
        pairs = zip(learner.models, state.models, strict=True)
    for bank, own in pairs:
        if not isinstance(getattr(own, "eviction", None), ProjectState):
            continue
        for p, n in enumerate(own.number):
            rows = np.concatenate([own.rows[p], own.recent_rows])[own.eviction.slot[p, :n]]
            yield gram(bank.kernels, rows)[p], own.eviction.basis[p, :n, :n]


def gram(kernels, rows):
    """Gram matrices (P, n, n) in double precision."""
    return kernels.gram(np.asarray(rows, float), np.asarray(rows, float))


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["oks_sil"], SHORT_ONES))
def test_single_precision_stays_near_double(name, x64):
    stays_near_double_precision(name, SHORT)


@pytest.mark.endless
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_million_rounds_do_too(name, seed, x64):
    stays_near_double_precision(name, OF_GROWING if name in GROWING else LONG, seed)
