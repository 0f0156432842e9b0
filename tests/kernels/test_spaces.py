"""Spaces of kernels and how learners move in them: derivatives, bounds, optimisers."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

import jaxmkl
from jaxmkl import kernels
from tests.common.selection_streams import (
    CAUCHY,
    HIGH,
    LOW,
    TWO,
    box,
    numbers_of,
    parameters_of_two,
    two_gaussians,
    widths,
)
from tests.oracles import oks as oracle

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
    "two Gaussians": (box(two_gaussians, (0.4, 0.5, 0.3, 0.6), LOW, HIGH), TWO, parameters_of_two),
}


@pytest.mark.slow
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


@pytest.mark.slow
def test_kernels_on_columns_move_as_on_those_columns_alone(x64):
    def box_of(kernel):
        return kernels.KernelBox(kernel(1.0), kernel(0.2), kernel(5.0))

    on_columns = box_of(lambda b: jaxmkl.Gaussian(b).on([0, 2]))
    X = np.random.default_rng(1).normal(size=(5, NUM_INPUTS))
    found = []
    for space, rows in ((on_columns, X), (box_of(jaxmkl.Gaussian), X[:, [0, 2]])):
        start = space.init(jnp.asarray(0), rows.shape[1], jnp.float64)

        def values(coordinates, space=space, rows=rows):
            return space.values(coordinates, rows[0], jnp.asarray(rows[1:])).plain()

        slope = jax.tree.leaves(jax.jacobian(values)(start))
        found.append((values(start), slope))
    chex.assert_trees_all_close(*found, rtol=1e-12)


def test_parameters_are_a_persons(x64):
    """Whatever the coordinates are."""
    for coordinate in ("precision", "bandwidth"):
        space = kernels.GaussianWidths(start=0.7, coordinate=coordinate)
        one = space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64)
        assert one.shape == ()
        np.testing.assert_allclose(space.parameters(one), 0.7)
        space = kernels.GaussianWidths(start=0.7, per_input=True, coordinate=coordinate)
        each = space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64)
        assert each.shape == (NUM_INPUTS,)
        np.testing.assert_allclose(space.parameters(each), 0.7)
    kernel = two_gaussians(0.25, 0.5, 0.3, 0.6)
    space = kernels.KernelBox(kernel, kernel, kernel)
    again = space.parameters(space.init(jnp.asarray(0), NUM_INPUTS, jnp.float64))
    chex.assert_trees_all_close(again, kernel, rtol=1e-14)


@pytest.mark.slow
def test_every_start_is_drawn():
    space = kernels.GaussianWidths(start=(0.5, 1.0, 2.0))
    assert space.num_starts == 3
    assert kernels.GaussianWidths().num_starts == 7
    draw = jax.vmap(lambda key: space.draw_start(key, NUM_INPUTS, jnp.float32))
    drawn = np.asarray(space.parameters(draw(jax.random.split(jax.random.key(0), 600))))
    values, counts = np.unique(np.round(drawn, 5), return_counts=True)
    assert values.tolist() == [0.5, 1.0, 2.0]
    assert counts.min() > 150
    stack = kernels.KernelBox(jaxmkl.Cauchy((1.0, 3.0)), jaxmkl.Cauchy(0.1), jaxmkl.Cauchy(9.0))
    assert stack.num_starts == 2
    for index, wanted in ((0, 1.0), (1, 3.0)):
        kernel = stack.parameters(stack.init(jnp.asarray(index), NUM_INPUTS, jnp.float32))
        assert float(kernel.bandwidth) == pytest.approx(wanted)


# --- bounds --------------------------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6)


@given(numbers, st.sampled_from(["precision", "bandwidth"]), st.booleans())
def test_widths_are_clipped(number, coordinate, per_input):
    space = kernels.GaussianWidths(0.25, 4.0, 1.0, per_input, coordinate)
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


# --- arguments -----------------------------------------------------------------------------------

GOOD = jaxmkl.Cauchy(1.0)
BOX = {"start": GOOD, "lower": GOOD, "upper": GOOD}


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        (kernels.GaussianWidths, {"lower": 0.0}, "lower"),
        (kernels.GaussianWidths, {"lower": np.nan}, "lower"),
        (kernels.GaussianWidths, {"upper": [1.0, 2.0]}, "upper"),
        (kernels.GaussianWidths, {"lower": 2.0, "upper": 1.0, "start": 1.5}, "upper"),
        (kernels.GaussianWidths, {"start": -1.0}, "start"),
        (kernels.GaussianWidths, {"start": ()}, "start"),
        (kernels.GaussianWidths, {"start": (1.0, 0.001)}, "start"),
        (kernels.GaussianWidths, {"start": "wide"}, "start"),
        (kernels.GaussianWidths, {"coordinate": "log"}, "coordinate"),
        (kernels.KernelBox, {"start": 1.0}, "start"),
        (kernels.KernelBox, {"start": jaxmkl.Linear()}, "start|lower"),
        (kernels.KernelBox, {"lower": jaxmkl.Gaussian(1.0)}, "lower"),
        (kernels.KernelBox, {"upper": jaxmkl.Gaussian(1.0)}, "upper"),
        (kernels.KernelBox, {"lower": jaxmkl.Cauchy((0.1, 0.2))}, "lower"),
        (kernels.KernelBox, {"lower": jaxmkl.Cauchy(1.5)}, "lower"),
        (kernels.KernelBox, {"upper": jaxmkl.Cauchy(0.5)}, "upper"),
        (kernels.KernelBox, dict.fromkeys(BOX, jaxmkl.Polynomial(2, offset=0.0)), "start"),
        (kernels.KernelBox, dict.fromkeys(BOX, jaxmkl.KernelDictionary((GOOD,))), "start"),
    ],
)
def test_bad_arguments_are_named(kind, arguments, wanted):
    given = BOX | arguments if kind is kernels.KernelBox else arguments
    with pytest.raises(ValueError, match=rf"{kind.__name__}: ({wanted}) must be .*; got "):
        kind(**given)
