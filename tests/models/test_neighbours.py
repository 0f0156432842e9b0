"""Neighbours among the latest examples against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl.aggregate import Uniform
from jaxmkl.models import NeighbourModels
from jaxmkl.testing import check_learner

SMALL_PROGRAMS = True

BANK = NeighbourModels(window=50)


def oracle(X, y, dtype="float64", period=32, window=50):
    """Values (T, K) before each label; a label that is NaN teaches nothing."""
    near, values = 64 * np.finfo(dtype).eps, np.zeros_like(y)
    known, number = [], []
    for t, x in enumerate(X):
        if t % period == 0:
            known = number[-window:]
        if known:
            own, labels = X[known], y[known]
            total = (x**2).sum() + (own**2).sum(axis=1)
            squared = ((own - x) ** 2).sum(axis=1) + near * total
            weights = (squared.min() / squared) ** (X.shape[1] / 2)
            values[t] = weights @ labels / weights.sum()
        if np.isfinite(y[t]).all():
            number.append(t)
    return values


def stream(T=200, D=3, K=None, seed=0):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(T, D))
    y = np.sin(X[:, 0]) + X[:, D // 2] * X[:, -1]
    return X, y if K is None else np.stack([y, X[:, 0]], axis=1)


def run(X, y, dtype, bank=BANK, **options):
    K = None if y.ndim == 1 else y.shape[1]
    learner = jaxmkl.MKL(bank, Uniform(), num_outputs=K)
    state = learner.init(jax.random.key(0), X.shape[1], dtype=dtype)
    state, outputs = jaxmkl.run(learner, state, X, y, **options)
    return learner, state, np.asarray(outputs.prediction)


@pytest.mark.parametrize(
    ("D", "K"), [(3, 2), *(pytest.param(D, None, marks=pytest.mark.slow) for D in (1, 2))]
)
def test_values_are_those_of_a_plain_loop(D, K):
    X, y = stream(D=D, K=K)
    with jax.enable_x64(True):
        _, _, found = run(X, y, "float64")
    wanted = oracle(X, y.reshape(len(y), -1)).reshape(y.shape)
    assert np.abs(wanted[32:]).max() > 0.5
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    _, _, single = run(X, y, "float32")
    wanted = oracle(X, y.reshape(len(y), -1), "float32").reshape(y.shape)
    np.testing.assert_allclose(single, wanted, rtol=2e-3, atol=2e-3)


def test_examples_at_one_place_count_alike():
    X = np.tile([[1.0, 2.0], [3.0, 4.0]], (32, 1))
    y = np.arange(64.0)
    _, _, found = run(X, y, "float32")
    # of the first 32 rows, those of each place have the mean labels 15 and 16
    np.testing.assert_allclose(found[32:], np.tile([15.0, 16.0], 16), rtol=1e-5)


def test_a_window_holds_the_latest_examples():
    X, y = stream(300)
    _, state, _ = run(X, y, "float32")
    own = state.models[0]
    predicts = np.asarray(own.y[:, -1]) > 0
    assert predicts.sum() == 50  # of the 288 rows until the period began
    found = {tuple(row) for row in np.asarray(own.X)[predicts].tolist()}
    assert found == {tuple(row) for row in X[238:288].astype("float32").tolist()}


def test_values_are_the_same_row_by_row():
    X, y = stream(120)
    learner, end, found = run(X, y, "float32")
    state, each = learner.init(jax.random.key(0), 3), []
    for example in zip(X, y, strict=True):
        state, output = learner.step(state, example)
        each.append(float(output.prediction))
    np.testing.assert_allclose(each, found, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state.models[0].y, end.models[0].y)


def test_refused_rounds_leave_no_example():
    X, y = stream(120)
    y[[3, 40, 41, 90]] = np.nan
    learner = jaxmkl.MKL(BANK, Uniform())
    rounds = jax.jit(lambda state: jax.lax.scan(learner.step, state, (X, y)))
    _, outputs = rounds(learner.init(jax.random.key(0), 3))
    wanted = oracle(X, y[:, None], "float32")[:, 0]
    np.testing.assert_allclose(outputs.prediction, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_derivatives_by_labels_are_weights():
    X, y = stream(64)
    learner = jaxmkl.MKL(BANK, Uniform())
    state = learner.init(jax.random.key(0), 3)

    def last(y):
        return jaxmkl.run(learner, state, X, y)[1].prediction[-1]

    found = np.asarray(jax.jit(jax.grad(last))(jnp.asarray(y, "float32")))
    assert found[:32].min() > 0
    assert not found[32:].any()
    assert found.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_shards_are_merged_into_their_latest_examples():
    X, y = stream(120)
    learner, start, _ = run(X[:32], y[:32], "float32")
    states = [jaxmkl.run(learner, start, X[at], y[at])[0] for at in np.split(np.r_[32:112], 2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    merged = jaxmkl.merge(learner, stacked, start=start)
    own = merged.models[0]
    predicts = np.asarray(own.y[:, -1]) > 0
    # the latest of each shard in turn, of whom each has 40
    latest = np.r_[47:72, 87:112]
    found = {tuple(row) for row in np.asarray(own.X)[predicts].tolist()}
    assert found == {tuple(row) for row in X[latest].astype("float32").tolist()}
    # with room for all, those with which they began come once
    wide = NeighbourModels(window=200)
    learner, start, _ = run(X[:32], y[:32], "float32", wide)
    states = [jaxmkl.run(learner, start, X[at], y[at])[0] for at in np.split(np.r_[32:112], 2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    own = jaxmkl.merge(learner, stacked, start=start).models[0]
    predicts = np.asarray(own.y[:, -1]) > 0
    assert predicts.sum() == 112
    assert own.places.tolist() == [112, 112]
    np.testing.assert_array_equal(np.asarray(own.X)[:32], X[:32].astype("float32"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_keep_their_types_under_strict_promotion(dtype):
    learner = jaxmkl.MKL(BANK, Uniform())
    with jax.numpy_dtype_promotion("strict"):
        before = jax.eval_shape(lambda key: learner.init(key, 3, dtype), jax.random.key(0))
        after, output = jax.eval_shape(
            learner.step, before, (jnp.ones(3, dtype), jnp.ones((), dtype))
        )
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(after)] == [
        (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(before)
    ]
    assert output.prediction.dtype == dtype


@pytest.mark.slow
def test_contract_of_learners():
    check_learner(jaxmkl.MKL(BANK, Uniform()))
    check_learner(jaxmkl.MKL(BANK, Uniform(), num_outputs=2))
