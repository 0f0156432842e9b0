"""Streams of many tasks for the tests of multi-task learning, and its oracle."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmkl
from jaxmkl import multitask
from jaxmkl._checks import fingerprints
from tests.common.selection_streams import assert_close, keyless
from tests.oracles.multitask import Dictionary
from tests.oracles.multitask import MultiTask as Oracle
from tests.oracles.support_mkl import gaussian

BANDWIDTH, SIZE, NUM_INPUTS = 1.2, 15, 3


def make(num_tasks=3, **arguments):
    """The paper's learner, or one with other arguments."""
    kernel, published = jaxmkl.Gaussian(BANDWIDTH), {"loss": "hinge", "components": "both"}
    return multitask(num_tasks, kernel, **({"size": SIZE} | published | arguments))


def examples(num_rounds, num_tasks, seed=0):
    """task (T,), X (T, d) and y (T,): tasks that differ by their threshold, with some noise."""
    rng = np.random.default_rng(seed)
    task = rng.integers(num_tasks, size=num_rounds)
    X = rng.normal(size=(num_rounds, NUM_INPUTS))
    f = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * (task - (num_tasks - 1) / 2)
    return task, X, np.where(f + 0.3 * rng.normal(size=num_rounds) > 0, 1.0, -1.0)


def rounds(num_rounds, num_tasks, share=0.6, seed=0):
    """X (T, K, d), y (T, K), present (T, K)."""
    task = np.tile(np.arange(num_tasks), num_rounds)
    _, X, y = examples(num_rounds * num_tasks, num_tasks, seed)
    y = np.where(task % 2 == 0, y, -y)
    present = np.random.default_rng(seed + 1).random((num_rounds, num_tasks)) < share
    shape = num_rounds, num_tasks
    return X.reshape(*shape, -1), y.reshape(shape), present


def begin(learner, dtype=np.float64, seed=1):
    num_inputs = NUM_INPUTS + (learner.num_tasks is not None)
    return learner.init(jax.random.key(seed), num_inputs, dtype)


def assert_same(one, other):
    """Two states, bit for bit."""
    assert_close(keyless(one), keyless(other), rtol=0)


@jax.jit
def scanned(learner, state, X, y):
    """The state at the end, the outputs, and the states before each round."""

    def one(state, example):
        after, output = learner.step(state, example)
        return after, (output, state)

    return jax.lax.scan(one, state, (X, y))


@jax.jit
def covariances(learner, state):
    return learner.covariances(state)


@jax.jit
def scanned_rounds(learner, state, X, y, present):
    return jax.lax.scan(learner.round, state, (X, y, present))


@jax.jit
def all_draws(state, rounds, X):
    """Two uniform numbers (n, 2) of examples ``X`` with their tasks: dictionary, question."""

    def one(round, x, fingerprint):
        key = jax.random.fold_in(state.key, round)
        keys = [jax.random.fold_in(key, by) for by in (x[0].astype(jnp.int32), fingerprint)]
        return jnp.stack([jax.random.uniform(key, (), jnp.float32) for key in keys])

    return jax.vmap(one)(rounds, X, fingerprints(X))


def oracle_of(learner, num_tasks):
    """The oracle with a learner's parameters."""
    rule = learner.query
    names = {"All": "all", "Uncertainty": "unsure", "Margin": "margin", "Random": "chance"}
    sampler = learner.dictionary
    dictionary = Dictionary(
        gaussian(BANDWIDTH),
        sampler.size,
        sampler.ridge,
        sampler.density,
        sampler.accuracy,
        1e-8 if sampler.tolerance is None else sampler.tolerance,
    )
    return Oracle(
        num_tasks,
        dictionary,
        learner.noise,
        learner.inertia,
        names[type(rule).__name__],
        getattr(rule, "h", getattr(rule, "rate", 0.0)),
        learner.loss,
        learner.components,
        learner.update_on,
        learner.covariance,
        learner.growth,
        learner.rate,
    )


def used(learner, array):
    """The Gaussians that the learner keeps, of the oracle's K + 1."""
    first, last = learner.components == "local", 1 if learner.components == "global" else None
    return np.asarray(array)[int(first) : last]
