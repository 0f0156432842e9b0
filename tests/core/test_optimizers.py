"""Optimizers, by which learners move in a space of kernels: steps, compilations, files."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxmkl
from jaxmkl import optimizers
from tests.common.selection_streams import begin, stream, trajectory, widths

SMALL_PROGRAMS = True

NUM_INPUTS = 3


def small_learner(optimizer=None, **arguments):
    return jaxmkl.oks_sil(widths(), budget=25, step_size=0.5, optimizer=optimizer, **arguments)


@pytest.mark.slow
def test_a_rate_of_zero_holds_the_kernel():
    X, y = stream()
    learner = jaxmkl.okl_gd(widths(), budget=25, optimizer=optimizers.InverseTime(0.0))
    state, _, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
    np.testing.assert_array_equal(states.coordinates, 2.0)
    assert float(learner.info(state).parameters) == 0.5
    assert int(learner.info(state).support) == 25


@pytest.mark.slow
def test_optimizers_of_optax_by_object_and_by_name_are_the_same():
    X, y = stream()

    def run(optimizer):
        learner = jaxmkl.okl_gd(widths(), budget=25, step_size=0.5, optimizer=optimizer)
        _, _, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
        return np.asarray(states.coordinates)

    by_name = run(optimizers.FromOptax("sgd", 0.1))
    np.testing.assert_allclose(run(optax.sgd(0.1)), by_name, rtol=1e-6)
    assert np.abs(by_name - by_name[0]).max() > 0.01
    steps = np.abs(np.diff(run(optax.chain(optax.clip(1e-4), optax.sgd(0.1)))))
    assert 0 < steps.max() <= 1e-5 + 3e-7  # 2 is known to 2.4e-7
    assert np.mean(steps > 0.9e-5) > 0.1


@pytest.mark.endless
def test_the_round_is_not_an_optimizers_count():
    """Adam counts the rounds in which the kernel moved."""
    X, y = stream()
    learner = small_learner(optimizers.FromOptax("adam", 0.01))
    start = begin(learner, X.shape[1], np.float32)
    state, _, states = trajectory(learner, start, X, y)
    since = np.asarray(states.since)
    changed = np.any(since[1:] != since[:-1], axis=1)
    moved = np.asarray(states.coordinates)[1:] != np.asarray(states.coordinates)[:-1]
    assert not np.any(moved & ~changed)
    count = int(state.optimizer[0].count)
    assert 50 < count < len(X) - 50
    assert count - np.sum(changed) in (0, 1, 2)  # the first example, the last round


@pytest.mark.slow
def test_another_learning_rate_is_not_another_compilation():
    X, y = stream()
    X, y = X[:40].astype(np.float32), y[:40]

    @jax.jit
    @chex.assert_max_traces(n=1)
    def last(learner, state):
        state, _ = jax.lax.scan(learner.step, state, (X, y))
        return learner.info(state).parameters

    made = []
    for rate in (0.001, 0.01, 0.1):
        learner = small_learner(optimizers.FromOptax("adam", rate))
        made.append(float(last(learner, begin(learner, X.shape[1], np.float32))))
    assert len(set(made)) == 3


def test_inverse_time_by_hand():
    tree = {"a": jnp.array([2.0, -4.0]), "b": jnp.array(1.0)}
    step, state = optimizers.InverseTime(0.5).update(tree, (), tree, jnp.asarray(4))
    np.testing.assert_allclose(step["a"], [-0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(step["b"], -0.1, rtol=1e-6)
    assert state == ()


@pytest.mark.parametrize(
    ("make", "owner", "wanted"),
    [
        (lambda: optimizers.InverseTime(-1.0), "InverseTime", "rate"),
        (lambda: optimizers.InverseTime(np.nan), "InverseTime", "rate"),
        (lambda: optimizers.InverseTime([0.1, 0.2]), "InverseTime", "rate"),
        (lambda: optimizers.FromOptax("no such", 0.1), "FromOptax", "method"),
        (lambda: optimizers.FromOptax("chain", 0.1), "FromOptax", "method"),  # not an optimiser
        (lambda: optimizers.FromOptax("l2_loss", 0.1), "FromOptax", "method"),
        (lambda: optimizers.FromOptax("__name__", 0.1), "FromOptax", "method"),
        (lambda: optimizers.FromOptax("lbfgs", 0.1), "FromOptax", "method"),  # needs the loss
        (lambda: optimizers.FromOptax(0.1), "FromOptax", "method"),
        (lambda: optimizers.FromOptax(optax.adam), "FromOptax", "method"),
        (lambda: optimizers.FromOptax("adam"), "FromOptax", "learning_rate"),
        (lambda: optimizers.FromOptax("adam", -0.1), "FromOptax", "learning_rate"),
        (lambda: optimizers.FromOptax("adam", "fast"), "FromOptax", "learning_rate"),
        (lambda: optimizers.FromOptax(optax.sgd(0.1), 0.1), "FromOptax", "learning_rate"),
    ],
)
def test_bad_arguments_are_named(make, owner, wanted):
    with pytest.raises(ValueError, match=rf"{owner}: {wanted} must be .*; got "):
        make()


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [jaxmkl.oks_sil, jaxmkl.okl_gd])
def test_an_optimizer_by_object_cannot_be_saved(make, tmp_path):
    learner = make(widths(), budget=5, optimizer=optax.adam(0.01))
    state = begin(learner, NUM_INPUTS, np.float32)
    with pytest.raises(ValueError, match=r"save: learner\.optimizer\.method.* must be "):
        jaxmkl.save(tmp_path / "state.npz", learner, state)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [jaxmkl.oks_sil, jaxmkl.okl_gd])
def test_objects_that_need_more_than_gradients_are_refused_before_a_run(make):
    for optimizer in (
        optax.lbfgs(),
        optax.polyak_sgd(),
        optax.masked(optax.sgd(0.1), {"a": True}),
    ):
        learner = make(optimizer=optimizer)
        with pytest.raises(
            ValueError, match="optimizer must be one that needs gradients and weig"
        ):
            learner.init(jax.random.key(0), num_inputs=2)
    make(optimizer=optax.adam(0.1)).init(jax.random.key(0), num_inputs=2)
