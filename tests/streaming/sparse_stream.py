"""A stream of sparse rows, and a learner to run over it."""

import functools

import jax
import numpy as np
import scipy.sparse

import jaxmkl
from jaxmkl import streaming
from jaxmkl.recipes.random_features import raker
from tests.common.trees import everything

NUM_EXAMPLES, NUM_INPUTS, BLOCK = 23, 7, 4
KERNELS = jaxmkl.Gaussian((0.5, 2.0))
LEARNER = raker(KERNELS, num_features=4)


@functools.cache
def data():
    """X (T, D), most of it zeros, and y (T,)."""
    rng = np.random.default_rng(0)
    shape = NUM_EXAMPLES, NUM_INPUTS
    X = rng.normal(size=shape) * (rng.random(shape) < 0.3)
    return X.astype(np.float32), np.sin(X.sum(axis=1)).astype(np.float32)


def csr(X=None):
    return scipy.sparse.csr_array(data()[0] if X is None else X)


def begin(learner=LEARNER, dtype=None):
    return learner.init(jax.random.key(0), NUM_INPUTS, dtype)


def run(X, y=None, learner=LEARNER, dtype=None):
    y = data()[1] if y is None else y
    state = begin(learner, dtype)
    return streaming.run(learner, state, X, y, block_size=BLOCK, record=everything)


def blocks(rows):
    """All rows, dense."""
    return np.asarray(rows[np.arange(len(rows))])


def with_entry(value, dtype=np.float32):
    X = data()[0].astype(dtype)
    X[6] = 0
    X[6, 5] = value
    return csr(X)
