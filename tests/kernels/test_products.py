"""Products of points: distances that keep their digits, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import jaxmkl

SMALL_PROGRAMS = True
WIDE = 40  # inputs: more than are always subtracted


@jax.jit
def squared_distances(X, Y):
    return jaxmkl.kernels.pairwise_products(X, Y).squared_distance


@given(seed=st.integers(0, 2**31 - 1), norm=st.sampled_from([1.0, 300.0, 1e5]))
def test_near_duplicates_of_many_inputs_keep_their_distance(seed, norm):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, WIDE))
    X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    Y = X[::-1] + 1e-4 * norm * rng.normal(size=(6, WIDE))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ours = np.asarray(squared_distances(X, Y))
    assert ours.dtype == np.float32
    exact = cdist(X.astype(np.float64), Y.astype(np.float64), "sqeuclidean")
    assert np.diagonal(exact[::-1]).max() < 1e-5 * norm**2
    np.testing.assert_allclose(ours, exact, rtol=1e-5)


@given(seed=st.integers(0, 2**31 - 1), largest=st.sampled_from([1, 30, 200]))
def test_distances_of_whole_numbers_are_exact(seed, largest):
    rng = np.random.default_rng(seed)
    X = rng.integers(-largest, largest + 1, size=(7, WIDE)).astype(np.float32)
    Y = np.concatenate([X[:3], X[3:5] + rng.integers(0, 2, size=(2, WIDE))]).astype(np.float32)
    exact = cdist(X.astype(np.float64), Y.astype(np.float64), "sqeuclidean")
    np.testing.assert_array_equal(squared_distances(X, Y), exact)


def test_distances_of_mapped_runs_are_those_of_each_alone():
    """Near duplicates, whole numbers and neither: only the first need differences."""
    rng = np.random.default_rng(9)
    far = rng.normal(size=(3, 5, WIDE)).astype(np.float32)
    far[0] *= 1e3
    X, Y = far.copy(), far[:, ::-1] + rng.normal(size=far.shape).astype(np.float32)
    X[1], Y[1] = np.round(3 * X[1]), np.round(3 * Y[1])
    together = np.asarray(jax.vmap(squared_distances)(X, Y))
    for i in range(3):
        exact = cdist(X[i].astype(np.float64), Y[i].astype(np.float64), "sqeuclidean")
        np.testing.assert_allclose(together[i], exact, rtol=1e-5)
        np.testing.assert_allclose(together[i], squared_distances(X[i], Y[i]), rtol=1e-5)


@pytest.mark.parametrize("num_inputs", [3, WIDE])
@pytest.mark.parametrize("near", [False, True])
def test_gradients_of_distances_are_those_of_the_plain_form(num_inputs, near, x64):
    rng = np.random.default_rng(6)
    X = jnp.asarray(rng.normal(size=(5, num_inputs)))
    Y = jnp.asarray(rng.normal(size=(4, num_inputs)))
    Y = X[:4] + 1e-3 * Y if near else Y
    weight = rng.normal(size=(5, 4))

    def ours(X, Y):
        return jnp.sum(weight * squared_distances(X, Y) ** 2)

    def plain(X, Y):
        return jnp.sum(weight * jnp.sum((X[:, None, :] - Y[None, :, :]) ** 2, axis=2) ** 2)

    gradients = jax.jit(jax.grad(ours, argnums=(0, 1)))(X, Y)
    plainly = jax.jit(jax.grad(plain, argnums=(0, 1)))(X, Y)
    for one, other in zip(gradients, plainly, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
