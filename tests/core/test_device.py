"""On a GPU or TPU that JAX finds: the results of the CPU beside it, and one kernel for a block.

No machine without one can run them: ``pytest -m device tests/core/test_device.py``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import design
from tests.common.trees import assert_close, assert_equal, everything, plain

pytestmark = pytest.mark.device
T, D, TASKS = 600, 6, 3


@pytest.fixture(autouse=True)
def device():
    """The accelerator, on which JAX works by default."""
    found = jax.devices()[0]
    if found.platform == "cpu":
        pytest.fail("JAX finds no GPU or TPU, and these tests ask what one of them does")
    return found


def on_cpu():
    return jax.default_device(jax.devices("cpu")[0])


LEARNERS = jaxmkl.LEARNERS | {
    "multitask": lambda: jaxmkl.multitask(TASKS, jaxmkl.Gaussian(2.0)),
    "predictive": lambda: jaxmkl.wrappers.predictive(jaxmkl.expert_mkl(banks="fixed")),
}


def examples(learner, dtype=np.float32):
    """X (T, D) and y (T,) of the learner's task, with a row that is refused."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(T, D))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * draws.normal(size=T)
    if learner.task == "classification":
        y = np.where(y > 0, 1.0, -1.0)
    if hasattr(learner, "num_tasks"):
        X = jaxmkl.tables.with_tasks(draws.integers(TASKS, size=T), X)
    return X.astype(dtype), y.astype(dtype)


def outcome(learner, dtype, **options):
    X, y = examples(learner, dtype)
    state = learner.init(jax.random.key(0), X.shape[1], dtype)
    state, outputs = jaxmkl.run(learner, state, X, y, record=everything, **options)
    return jax.tree.map(np.asarray, (outputs.prediction, outputs.loss, outputs.queried))


@pytest.mark.parametrize("name", LEARNERS)
def test_runs_are_those_of_the_cpu(name):
    """In double precision, as what is chosen by a comparison seldom differs there."""
    learner = LEARNERS[name]()
    with jax.enable_x64(True):
        there = outcome(learner, np.float64)
        with on_cpu():
            here = outcome(learner, np.float64)
    assert_close(there, here, 1e-6)
    assert np.isfinite(there[0]).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_losses_in_single_precision_are_those_of_the_cpu(name):
    learner = LEARNERS[name]()
    there = outcome(learner, np.float32)[1]
    with on_cpu():
        here = outcome(learner, np.float32)[1]
    assert np.mean(there) == pytest.approx(np.mean(here), rel=0.05, abs=0.01)


@pytest.mark.parametrize("name", ["raker", "expert_mkl", "amkl_aks", "spa", "multitask"])
def test_runs_go_on_and_side_by_side_bit_for_bit(name):
    """The same run again, cut, and beside others, to rounding."""
    learner = LEARNERS[name]()
    X, y = jax.device_put(examples(learner))
    keys = jax.random.split(jax.random.key(1), 5)
    together = jaxmkl.run_many(learner, keys, X, y, permute=False)[1]
    again = jaxmkl.run_many(learner, keys, X, y, permute=False)[1]
    assert_equal(together, again)
    state = learner.init(jax.random.fold_in(keys[2], 0), X.shape[1])
    after, alone = jaxmkl.run(learner, state, X, y)
    half, first = jaxmkl.run(learner, state, X[:300], y[:300])
    end, second = jaxmkl.run(learner, half, X[300:], y[300:])
    cut = np.concatenate([first.prediction, second.prediction])
    np.testing.assert_array_equal(cut, alone.prediction)
    assert_equal(end, after)
    close = np.isclose(together.prediction[2], alone.prediction, rtol=1e-3, atol=1e-3)
    assert close.mean() > 0.97


def test_a_state_moves_between_devices(tmp_path):
    learner = jaxmkl.expert_mkl(banks="fixed")
    X, y = examples(learner)
    state, _ = jaxmkl.run(learner, learner.init(jax.random.key(0), D), X, y)
    jaxmkl.save(tmp_path / "state", learner, state)
    with on_cpu():
        loaded, here = jaxmkl.load(tmp_path / "state")
        assert_equal(here, state)
        values = loaded.predict(here, jnp.asarray(X[0])).value
    np.testing.assert_allclose(values, learner.predict(state, X[0]).value, rtol=1e-3, atol=1e-3)


SOLVERS = {
    "ted": lambda Z: design.ted(features=Z, regularization=0.1, num_points=9),
    "cted": lambda Z: design.cted(features=Z, regularization=0.1, num_points=9),
    "rrss": lambda Z: design.rrss(features=Z, regularization=0.1, num_points=9),
    "gmkal": lambda Z: design.gmkal(features=Z[None], regularization=0.1, num_points=9),
    "lmkal": lambda Z: design.lmkal(features=Z[None], regularization=0.1, num_points=9),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_points_are_those_that_a_cpu_chooses(name):
    with jax.enable_x64(True):
        Z = np.random.default_rng(0).normal(size=(80, 12))
        there = plain(SOLVERS[name](jnp.asarray(Z)))
        with on_cpu():
            here = plain(SOLVERS[name](jnp.asarray(Z)))
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_examples_stay_on_the_device():
    """One answer comes back from a run, that of its counters, which is asked for."""
    learner = jaxmkl.raker()
    X, y = jax.device_put(examples(learner))
    state = learner.init(jax.random.key(0), D)
    jaxmkl.run(learner, state, X, y)
    with jax.transfer_guard_device_to_host("disallow"):
        after, outputs = jaxmkl.run(learner, state, X, y)
        runs = jaxmkl.run_many(learner, jax.random.split(jax.random.key(0), 3), X, y)[0]
    assert outputs.loss.devices() == after.round.devices() == runs.round.devices() == X.devices()


def test_bad_values_on_the_device_are_named():
    learner = jaxmkl.raker()
    X, y = jax.device_put(examples(learner))
    state, wrong = learner.init(jax.random.key(0), D), X.at[7, 2].set(jnp.nan)
    wanted = r"X must be finite .* X\[7, 2\] = nan and 1 such"
    with pytest.raises(ValueError, match=wanted):
        jaxmkl.run(learner, state, wrong, y)
    with pytest.raises(ValueError, match=wanted):
        jax.jit(lambda state: jaxmkl.run(learner, state, wrong, y)[0])(state)
