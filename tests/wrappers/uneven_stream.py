"""A stream whose inputs are on very different scales."""

import functools

import numpy as np

NUM_EXAMPLES, NUM_INPUTS = 40, 3


@functools.cache
def data(seed=0):
    """X (T, D) on very different scales, and y (T,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)) * [1e-3, 1, 300] + [0, 5, -1e3]
    y = np.sin(2 * (X[:, 1] - 5)) + X[:, 0] * 500
    return X.astype(np.float32), y.astype(np.float32)
