"""A small stream, and learners to run over it."""

import functools

import jax
import numpy as np

import jaxmkl
from jaxmkl import streaming
from jaxmkl.recipes.random_features import amkl, raker

NUM_EXAMPLES, NUM_INPUTS, BLOCK = 21, 2, 4
KERNELS = jaxmkl.Gaussian((0.5, 2.0))
REGRESSION = amkl(KERNELS, num_features=4, tolerance=0.02, max_skips=2)
CLASSIFICATION = raker(KERNELS, num_features=4, loss="hinge")


@functools.cache
def data():
    """X (T, D) and y (T,) of quarters, which are exact in every floating type."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(NUM_EXAMPLES, NUM_INPUTS)) / 4
    y = np.round(4 * np.sin(X.sum(axis=1))) / 4
    return X.astype(np.float32), y.astype(np.float32)


@functools.cache
def begin(learner=REGRESSION, dtype=None):
    return learner.init(jax.random.key(0), NUM_INPUTS, dtype)


def run(learner=REGRESSION, X=None, y=None, state=None, **options):
    X, y = data()[0] if X is None else X, data()[1] if y is None else y
    options = {"block_size": BLOCK} | options
    return streaming.run(learner, begin(learner) if state is None else state, X, y, **options)


def spoiled(array, value, place):
    array = np.array(array)
    array[place] = value
    return array


class Counting:
    """A record function that counts how often it is traced."""

    def __init__(self):
        self.calls = 0

    def __call__(self, output):
        self.calls += 1
        return output.loss
