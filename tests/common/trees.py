"""Trees of arrays compared, and learners begun and run by one program, for all tests."""

import jax
import jax.numpy as jnp
import numpy as np


def is_key(leaf):
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain(tree):
    """NumPy arrays; keys as numbers."""
    return jax.tree.map(lambda v: np.asarray(jax.random.key_data(v) if is_key(v) else v), tree)


def assert_equal(one, other):
    """Bit for bit."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right) > 0
    for (path, a), b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def assert_close(one, other, tolerance=2e-5):
    """To rounding; what is not a floating point number must be equal."""
    left, right = jax.tree.leaves_with_path(plain(one)), jax.tree.leaves(plain(other))
    assert len(left) == len(right) > 0
    for (path, a), b in zip(left, right, strict=True):
        where = jax.tree_util.keystr(path)
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


@jax.jit
def row_of(tree, row):
    """One program a tree; leaf by leaf each shape would be one."""
    return jax.tree.map(lambda leaf: leaf[row], tree)


@jax.jit
def stacked(*trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def everything(output):
    """Record the diagnostics too; one function, as each other one would be compiled again."""
    return output


def begin(learner, num_inputs=2, seed=0, dtype=None):
    """The first state; outside of a trace NumPy makes it, and nothing compiles."""
    return learner.init(jax.random.key(seed), num_inputs, dtype)


@jax.jit
def scan(learner, state, X, y):
    return jax.lax.scan(learner.step, state, (X, y))
