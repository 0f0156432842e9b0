"""Spaces of kernels and how learners move in them: derivatives, bounds, optimisers."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st
from oracles import oks as oracle
from selection_streams import (
    CAUCHY,
    HIGH,
    LOW,
    TWO,
    begin,
    box,
    numbers_of,
    parameters_of_two,
    stream,
    trajectory,
    two_gaussians,
    widths,
)

import jaxmkl

SMALL_PROGRAMS = True

NUM_INPUTS = 3


# --- values and derivatives ----------------------------------------------------------------------


SPACES = {
    "precision": (widths(), {"kernel": oracle.GAUSSIAN}, numbers_of),
    "precisions": (widths(per_input=True), {"kernel": oracle.GAUSSIAN}, numbers_of),
    "width": (widths(coordinate="bandwidth"), {"kernel": oracle.GAUSSIAN_WIDTH}, numbers_of),
    "each width": (
        widths(per_input=True, coordinate="bandwidth"),
        {"kernel": oracle.GAUSSIAN_WIDTH},
        numbers_of,
    ),
    "Cauchy": (
        box(jaxmkl.Cauchy, (0.4,), (0.1,), (10.0,)),
        CAUCHY,
        lambda kernel: np.exp(kernel.bandwidth),
    ),
    "two Gaussians": (
        box(two_gaussians, (0.4, 0.5, 0.3, 0.6), LOW, HIGH),
        TWO,
        parameters_of_two,
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_values_and_derivatives_are_the_oracles(name, x64):
    space, plain, theta_of = SPACES[name]
    rng = np.random.default_rng(0)
    rows, x = rng.normal(size=(4, NUM_INPUTS)), rng.normal(size=NUM_INPUTS)
    start = space.draw_start(jax.random.key(0), NUM_INPUTS, jnp.float64)
    leaves, tree = jax.tree.flatten(start)
    moved = [leaf + 0.1 * rng.random(leaf.shape) for leaf in leaves]
    coordinates = jax.tree.unflatten(tree, moved)
    theta = theta_of(coordinates)

    def values(coordinates):
        return space.values(coordinates, x, jnp.asarray(rows)).plain()

    kernel = plain["kernel"]
    np.testing.assert_allclose(values(coordinates), kernel.values(theta, rows, x), rtol=1e-12)
    slopes = kernel.slopes(theta, rows, x)
    if plain.get("logarithmic"):
        slopes = slopes * theta  # d / d log = theta d / d theta
        jacobian = jax.jacobian(values)(coordinates)
        if name == "two Gaussians":
            jacobian = np.concatenate([jacobian.weights, jacobian.kernels.bandwidth], axis=1)
        else:
            jacobian = jacobian.bandwidth
    else:
        jacobian = jax.jacobian(values)(coordinates)
    np.testing.assert_allclose(jacobian, slopes, rtol=1e-10, atol=1e-14)


def test_parameters_are_a_persons(x64):
    """Whatever the coordinates are."""
    for coordinate in ("precision", "bandwidth"):
        space = jaxmkl.GaussianWidths(start=0.7, coordinate=coordinate)
        one = space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64)
        assert one.shape == ()
        np.testing.assert_allclose(space.parameters(one), 0.7)
        space = jaxmkl.GaussianWidths(start=0.7, per_input=True, coordinate=coordinate)
        each = space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64)
        assert each.shape == (NUM_INPUTS,)
        np.testing.assert_allclose(space.parameters(each), 0.7)
    kernel = two_gaussians(0.25, 0.5, 0.3, 0.6)
    space = jaxmkl.KernelBox(kernel, kernel, kernel)
    again = space.parameters(space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64))
    chex.assert_trees_all_close(again, kernel, rtol=1e-14)


def test_every_start_is_drawn():
    space = jaxmkl.GaussianWidths(start=(0.5, 1.0, 2.0))
    assert space.num_starts == 3
    assert jaxmkl.GaussianWidths().num_starts == 7
    draw = jax.vmap(lambda key: space.draw_start(key, NUM_INPUTS, jnp.float32))
    drawn = np.asarray(space.parameters(draw(jax.random.split(jax.random.key(0), 600))))
    values, counts = np.unique(np.round(drawn, 5), return_counts=True)
    assert values.tolist() == [0.5, 1.0, 2.0]
    assert counts.min() > 150
    stack = jaxmkl.KernelBox(jaxmkl.Cauchy((1.0, 3.0)), jaxmkl.Cauchy(0.1), jaxmkl.Cauchy(9.0))
    assert stack.num_starts == 2
    for index, wanted in ((0, 1.0), (1, 3.0)):
        kernel = stack.parameters(stack.init(jnp.asarray(index), NUM_INPUTS, jnp.float32))
        assert float(kernel.bandwidth) == pytest.approx(wanted)


# --- bounds --------------------------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6)


@given(numbers, st.sampled_from(["precision", "bandwidth"]), st.booleans())
def test_widths_are_clipped(number, coordinate, per_input):
    space = jaxmkl.GaussianWidths(0.25, 4.0, 1.0, per_input, coordinate)
    with jax.enable_x64(True):
        shape = (NUM_INPUTS,) if per_input else ()
        clipped = space.clip(jnp.full(shape, number))
        low, high = (0.5 / 4.0**2, 0.5 / 0.25**2) if coordinate == "precision" else (0.25, 4.0)
        np.testing.assert_array_equal(clipped, np.full(shape, np.clip(number, low, high)))
        width = np.asarray(space.parameters(clipped))
        assert ((width >= 0.25 * (1 - 1e-14)) & (width <= 4 * (1 + 1e-14))).all()


@given(numpy_st.arrays(np.float64, 4, elements=st.floats(-30, 30)))
def test_a_box_is_clipped_leaf_by_leaf(logs):
    space = box(two_gaussians, (0.4, 0.5, 0.3, 0.6), LOW, HIGH)
    with jax.enable_x64(True):
        start = space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64)
        leaves, tree = jax.tree.flatten(start)
        # the order of leaves: the bandwidths, then the weights
        assert [leaf.shape for leaf in leaves] == [(2,), (2,)]
        coordinates = jax.tree.unflatten(tree, [jnp.asarray(logs[2:]), jnp.asarray(logs[:2])])
        clipped = parameters_of_two(space.clip(coordinates))
        np.testing.assert_allclose(clipped, np.clip(np.exp(logs), LOW, HIGH), rtol=1e-13)


# --- steps ---------------------------------------------------------------------------------------


def small_learner(optimizer=None, **arguments):
    return jaxmkl.oks_sil(widths(), budget=25, step_size=0.5, optimizer=optimizer, **arguments)


def test_inverse_time_by_hand():
    tree = {"a": jnp.array([2.0, -4.0]), "b": jnp.array(1.0)}
    step, state = jaxmkl.InverseTime(0.5).update(tree, (), tree, jnp.asarray(4))
    np.testing.assert_allclose(step["a"], [-0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(step["b"], -0.1, rtol=1e-6)
    assert state == ()


def test_a_rate_of_zero_holds_the_kernel():
    X, y = stream()
    learner = jaxmkl.okl_gd(widths(), budget=25, optimizer=jaxmkl.InverseTime(0.0))
    state, _, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
    np.testing.assert_array_equal(states.coordinates, 2.0)
    assert float(learner.info(state).parameters) == 0.5
    assert int(learner.info(state).support) == 25


def test_optimizers_of_optax_by_object_and_by_name_are_the_same():
    X, y = stream()

    def run(optimizer, make=jaxmkl.okl_gd):
        learner = make(widths(), budget=25, step_size=0.5, optimizer=optimizer)
        _, _, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
        return np.asarray(states.coordinates)

    by_name = run(jaxmkl.Optax("sgd", 0.1))
    np.testing.assert_allclose(run(optax.sgd(0.1)), by_name, rtol=1e-6)
    assert np.abs(by_name - by_name[0]).max() > 0.01
    for make in (jaxmkl.oks_sil, jaxmkl.okl_gd):
        steps = np.abs(np.diff(run(optax.chain(optax.clip(1e-4), optax.sgd(0.1)), make)))
        assert 0 < steps.max() <= 1e-5 + 3e-7  # 2 is known to 2.4e-7
        assert np.mean(steps > 0.9e-5) > 0.1


def test_the_round_is_not_an_optimizers_count():
    """Adam counts the rounds in which the kernel moved."""
    X, y = stream()
    learner = small_learner(jaxmkl.Optax("adam", 0.01))
    start = begin(learner, X.shape[1], np.float32)
    state, _, states = trajectory(learner, start, X, y)
    since = np.asarray(states.since)
    changed = np.any(since[1:] != since[:-1], axis=1)
    moved = np.asarray(states.coordinates)[1:] != np.asarray(states.coordinates)[:-1]
    assert not np.any(moved & ~changed)
    count = int(state.optimizer[0].count)
    assert 50 < count < len(X) - 50
    assert count - np.sum(changed) in (0, 1, 2)  # the first example, the last round


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
        learner = small_learner(jaxmkl.Optax("adam", rate))
        made.append(float(last(learner, begin(learner, X.shape[1], np.float32))))
    assert len(set(made)) == 3

    # and many rates are one run
    def of_rate(rate):
        learner = small_learner(jaxmkl.Optax("adam", rate))
        state = begin(learner, X.shape[1], np.float32)
        state, _ = jax.lax.scan(learner.step, state, (X, y))
        return learner.info(state).parameters

    together = jax.jit(jax.vmap(of_rate))(jnp.array([0.001, 0.01, 0.1]))
    np.testing.assert_allclose(together, made, rtol=1e-5)


# --- files ---------------------------------------------------------------------------------------


def test_a_checkpoint_with_an_optimizer_by_name(tmp_path):
    learner = small_learner(jaxmkl.Optax("adam", 0.01))
    state = begin(learner, NUM_INPUTS, np.float32)
    adam, *rest = state.optimizer
    adam = adam._replace(mu=jnp.asarray(0.3, jnp.float32), count=jnp.asarray(7, jnp.int32))
    state = state._replace(optimizer=(adam, *rest))
    jaxmkl.save(tmp_path / "state.npz", learner, state)
    loaded, again = jaxmkl.load(tmp_path / "state.npz")
    assert repr(loaded) == repr(learner)
    chex.assert_trees_all_equal(again._replace(key=0), state._replace(key=0))
    assert jax.tree.structure(again) == jax.tree.structure(state)


@pytest.mark.parametrize("make", [jaxmkl.oks_sil, jaxmkl.okl_gd])
def test_an_optimizer_by_object_cannot_be_saved(make, tmp_path):
    learner = make(widths(), budget=5, optimizer=optax.adam(0.01))
    state = begin(learner, NUM_INPUTS, np.float32)
    with pytest.raises(ValueError, match=r"save: learner\.optimizer\.method.* must be "):
        jaxmkl.save(tmp_path / "state.npz", learner, state)
    assert list(tmp_path.iterdir()) == []


# --- arguments -----------------------------------------------------------------------------------

GOOD = jaxmkl.Cauchy(1.0)


@pytest.mark.parametrize(
    ("make", "owner", "wanted"),
    [
        (lambda: jaxmkl.GaussianWidths(lower=0.0), "GaussianWidths", "lower"),
        (lambda: jaxmkl.GaussianWidths(lower=np.nan), "GaussianWidths", "lower"),
        (lambda: jaxmkl.GaussianWidths(upper=np.inf), "GaussianWidths", "upper"),
        (lambda: jaxmkl.GaussianWidths(upper=[1.0, 2.0]), "GaussianWidths", "upper"),
        (lambda: jaxmkl.GaussianWidths(2.0, 1.0, 1.5), "GaussianWidths", "upper"),
        (lambda: jaxmkl.GaussianWidths(start=-1.0), "GaussianWidths", "start"),
        (lambda: jaxmkl.GaussianWidths(start=()), "GaussianWidths", "start"),
        (lambda: jaxmkl.GaussianWidths(start=100.0), "GaussianWidths", "start"),
        (lambda: jaxmkl.GaussianWidths(start=(1.0, 0.001)), "GaussianWidths", "start"),
        (lambda: jaxmkl.GaussianWidths(start="wide"), "GaussianWidths", "start"),
        (lambda: jaxmkl.GaussianWidths(coordinate="log"), "GaussianWidths", "coordinate"),
        (lambda: jaxmkl.KernelBox(1.0, GOOD, GOOD), "KernelBox", "start"),
        (lambda: jaxmkl.KernelBox(jaxmkl.Linear(), GOOD, GOOD), "KernelBox", "start|lower"),
        (lambda: jaxmkl.KernelBox(GOOD, jaxmkl.Gaussian(1.0), GOOD), "KernelBox", "lower"),
        (lambda: jaxmkl.KernelBox(GOOD, GOOD, jaxmkl.Gaussian(1.0)), "KernelBox", "upper"),
        (lambda: jaxmkl.KernelBox(GOOD, jaxmkl.Cauchy((0.1, 0.2)), GOOD), "KernelBox", "lower"),
        (lambda: jaxmkl.KernelBox(GOOD, jaxmkl.Cauchy(1.5), GOOD), "KernelBox", "lower"),
        (lambda: jaxmkl.KernelBox(GOOD, GOOD, jaxmkl.Cauchy(0.5)), "KernelBox", "upper"),
        (
            lambda: jaxmkl.KernelBox(*[jaxmkl.Polynomial(2, offset=0.0)] * 3),
            "KernelBox",
            "start",
        ),
        (
            lambda: jaxmkl.KernelBox(*[jaxmkl.KernelDictionary((GOOD,))] * 3),
            "KernelBox",
            "start",
        ),
        (lambda: jaxmkl.InverseTime(-1.0), "InverseTime", "rate"),
        (lambda: jaxmkl.InverseTime(np.nan), "InverseTime", "rate"),
        (lambda: jaxmkl.InverseTime([0.1, 0.2]), "InverseTime", "rate"),
        (lambda: jaxmkl.Optax("no such", 0.1), "Optax", "method"),
        (lambda: jaxmkl.Optax("chain", 0.1), "Optax", "method"),  # not an optimiser
        (lambda: jaxmkl.Optax("l2_loss", 0.1), "Optax", "method"),
        (lambda: jaxmkl.Optax("__name__", 0.1), "Optax", "method"),
        (lambda: jaxmkl.Optax(0.1), "Optax", "method"),
        (lambda: jaxmkl.Optax(optax.adam), "Optax", "method"),
        (lambda: jaxmkl.Optax("adam"), "Optax", "learning_rate"),
        (lambda: jaxmkl.Optax("adam", -0.1), "Optax", "learning_rate"),
        (lambda: jaxmkl.Optax("adam", "fast"), "Optax", "learning_rate"),
        (lambda: jaxmkl.Optax(optax.sgd(0.1), 0.1), "Optax", "learning_rate"),
    ],
)
def test_bad_arguments_are_named(make, owner, wanted):
    with pytest.raises(ValueError, match=rf"{owner}: ({wanted}) must be .*; got "):
        make()
