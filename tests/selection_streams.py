"""Streams for the tests of online kernel selection, and what a learner does on them."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

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

    Of the latter only what has no leading axes of examples: rows (B, D) would be many.
    """

    def one(state, example):
        after, output = learner.step(state, example)
        return after, (output, state._replace(key=None, rows=None))

    state, (outputs, states) = jax.lax.scan(one, state, (X, y))
    return state, outputs, states


class Parameters(NamedTuple):
    """A space's coordinates as the oracles' theta."""

    theta: np.ndarray
    low: np.ndarray
    high: np.ndarray


def numbers_of(tree):
    """All numbers of a tree in one array (n,); of a lone number that number."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else np.concatenate([one.ravel() for one in leaves])


def mistakes(y, outputs):
    return np.asarray(y) * np.asarray(outputs.prediction) <= 0


def assert_finite(tree):
    for path, leaf in jax.tree.leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert np.isfinite(np.asarray(leaf)).all(), jax.tree_util.keystr(path)
