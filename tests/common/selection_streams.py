"""Streams for the tests of online kernel selection, and what a learner does on them."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

import jaxmkl
from jaxmkl._checks import input_bound
from tests.oracles import oks as oracle

LOWEST, HIGHEST = 2.0**-6.5, 2.0**5.5
NUM_EXAMPLES = 300
PAPER_EXAMPLES = 1500
PAPER_SETS = ("german", "svmguide3", "spambase")


def unit_interval(X):
    """Columns in [0, 1], as numbers that single precision holds too."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1)
    return ((X - low) / width).astype(np.float32).astype(np.float64)


@functools.cache
def stream():
    """Breast cancer in [0, 1], 300 rows in another order, every eighth label wrong."""
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:NUM_EXAMPLES]
    y = np.where((y[rows] > 0) ^ (rng.random(NUM_EXAMPLES) < 1 / 8), 1.0, -1.0)
    return unit_interval(X[rows]), y


def paper_stream(name, folder):
    """1,500 examples at most, in another order, in [0, 1], none twice.

    An example that is stored already is compensated with 1 on itself and rounding on others, which
    parts weights that were equal, and so decides which is the smallest.
    """
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    first = np.sort(np.unique(X, axis=0, return_index=True)[1])
    rows = np.random.default_rng(1).permutation(first)[:PAPER_EXAMPLES]
    return unit_interval(X[rows]), y[rows]


def begin(learner, num_inputs, dtype=np.float64, seed=3):
    return learner.init(jax.random.key(seed), num_inputs, dtype=dtype)


@jax.jit
def trajectory(learner, state, X, y):
    """The scan of ``step``: the last state, outputs, and all states before a round.

    The latter without rows (B, D) and the like, which would be many numbers.
    """

    def one(state, example):
        after, output = learner.step(state, example)
        large = {name: None for name in ("key", "rows", "own") if hasattr(state, name)}
        return after, (output, state.replace(**large))

    state, (outputs, states) = jax.lax.scan(one, state, (X, y))
    return state, outputs, states


def draws(state, num_rounds, samples):
    """The uniform numbers (T, s) of the rounds."""

    def one(t):
        return jax.random.uniform(jax.random.fold_in(state.key, t), (samples,), jnp.float32)

    return np.asarray(jax.jit(jax.vmap(one))(np.arange(num_rounds)), np.float64)


def assert_close(one, other, **tolerance):
    """Two pytrees without keys, leaf by leaf."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def keyless(state):
    """A state whose leaves are all numbers."""
    return state.replace(key=None)


def numbers_of(tree):
    """All numbers of a tree in one array (n,); of a lone number that number."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else np.concatenate([one.ravel() for one in leaves])


def mistakes(y, outputs):
    return np.asarray(y) * np.asarray(outputs.prediction) <= 0


def check_zero_rate(learner, state, outputs):
    """The share of predictions of exactly 0 before each round, and after the last."""
    zeros = np.append(0, np.cumsum(np.asarray(outputs.prediction) == 0))
    share = zeros / np.maximum(np.arange(len(zeros)), 1)
    told = np.append(outputs.info.zero_rate, learner.info(state).zero_rate)
    np.testing.assert_allclose(told, share, rtol=1e-6)


def assert_finite(tree):
    for path, leaf in jax.tree.leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert np.isfinite(np.asarray(leaf)).all(), jax.tree_util.keystr(path)


# --- spaces, and what the oracles call them ------------------------------------------------------


def widths(start=0.5, **arguments):
    return jaxmkl.kernels.GaussianWidths(LOWEST, HIGHEST, start=start, **arguments)


def box(kind, start, low, high):
    return jaxmkl.kernels.KernelBox(kind(*start), kind(*low), kind(*high))


def two_gaussians(w1, w2, b1, b2):
    return jaxmkl.kernels.WeightedSum(jaxmkl.Gaussian((b1, b2)), (w1, w2))


def parameters_of_two(kernel):
    return np.exp(np.concatenate([kernel.weights, kernel.kernels.bandwidth]))


class Case(NamedTuple):
    """A space, arguments of learner and oracle, and those that the oracle alone has.

    ``theta`` makes the oracle's parameters of the coordinates.
    """

    space: object
    arguments: dict
    plain: dict
    theta: object = numbers_of


PRECISION = {"low": 0.5 / HIGHEST**2, "high": 0.5 / LOWEST**2}
WIDTH = {"kernel": oracle.GAUSSIAN_WIDTH, "low": LOWEST, "high": HIGHEST}
CAUCHY = {"kernel": oracle.CAUCHY, "logarithmic": True, "low": 0.1, "high": 10.0}
LOW, HIGH = (0.1, 0.2, 0.05, 0.5), (2.0, 3.0, 5.0, 4.0)
TWO = {"kernel": oracle.TWO_GAUSSIANS, "logarithmic": True, "low": LOW, "high": HIGH}


def theta_of_rounds(theta, coordinates):
    """The oracle's parameters (T, ...) of coordinates with leading axis T."""
    leaves = jax.tree.map(np.asarray, coordinates)
    T = len(jax.tree.leaves(leaves)[0])
    return np.array([theta(jax.tree.map(lambda leaf, t=t: leaf[t], leaves)) for t in range(T)])


# --- raw features --------------------------------------------------------------------------------


def raw(kind, num_inputs=500):
    """Examples (80, D) in single precision of some norm, or whole numbers; labels."""
    rng = np.random.default_rng(5)
    if kind == "whole numbers":
        X = rng.integers(470, 531, size=(80, num_inputs)).astype(np.float32)
    else:
        X = rng.normal(size=(80, num_inputs))
        if kind == "bound":
            X = np.sign(X) * rng.uniform(0.5, 1, X.shape) * input_bound(np.float32)
            X[0] = input_bound(np.float32)
        else:
            X *= kind / np.linalg.norm(X, axis=1, keepdims=True)
        X = X.astype(np.float32)
    return X, np.where(rng.random(80) < 0.5, 1.0, -1.0).astype(np.float32)
