"""Small learners, states of any numbers, and what is the same bit for bit, for checkpoints."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl

NUM_EXAMPLES, NUM_INPUTS = 24, 2


def small(name="raker", **arguments):
    factory = jaxmkl.LEARNERS[name]
    offered = {"kernels": jaxmkl.Gaussian((0.5, 2.0)), "num_features": 3, "budget": 4}
    taken = {k: v for k, v in offered.items() if k in inspect.signature(factory).parameters}
    return factory(**taken | arguments)


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NUM_EXAMPLES, NUM_INPUTS)).astype(np.float32)
    return X, np.sign(X[:, 0] * X[:, 1])


def after_a_while(learner, dtype=np.float32, key=None):
    """A state with any numbers, such as no file should change: NaN, -0 and infinity among them."""
    rng = np.random.default_rng(1)

    def numbers(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.fold_in(key, rng.integers(100))
        if leaf.dtype == bool:
            return jnp.asarray(rng.integers(0, 2, leaf.shape).astype(bool))
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.asarray(rng.integers(0, 2**31 - 1, leaf.shape).astype(leaf.dtype))
        values = rng.normal(size=leaf.shape).astype(leaf.dtype)
        values.flat[:4] = np.array([-0.0, np.nan, -np.inf, np.finfo(leaf.dtype).tiny / 4])[
            : values.size
        ]
        return jnp.asarray(values)

    key = jax.random.key(3) if key is None else key
    like = jax.eval_shape(lambda key: learner.init(key, NUM_INPUTS, dtype), key)
    return jax.tree.map(numbers, like)


def leaves_of(tree):
    """Path, type, dtype and numbers of every leaf; for keys their implementation too."""
    found = []
    for path, leaf in jax.tree.leaves_with_path(tree):
        kind = type(leaf).__name__
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            kind = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        found.append((jax.tree_util.keystr(path), kind, np.asarray(leaf)))
    return found


def assert_same(one, other):
    """Bit for bit, the sign of zeros and the bits of NaN included."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, kind, a), (_, other_kind, b) in zip(leaves_of(one), leaves_of(other), strict=True):
        assert (kind, a.dtype, a.shape) == (other_kind, b.dtype, b.shape), path
        assert a.tobytes() == b.tobytes(), path
