"""What learners with a moving kernel have in common: blocks, precision, range, questions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmkl
from jaxmkl import okl_gd, oks_sil
from jaxmkl.query import Uncertainty
from tests.common.selection_streams import (
    assert_finite,
    begin,
    keyless,
    mistakes,
    raw,
    stream,
    trajectory,
    widths,
)

SMALL_PROGRAMS = True

SKETCH = {"budget": 25, "step_size": 0.5, "optimizer": jaxmkl.optimizers.InverseTime(3.0)}
OWN = {"budget": 60, "step_size": 0.3, "optimizer": jaxmkl.optimizers.InverseTime(0.3)}
LEARNERS = {
    "sketch": oks_sil(widths(per_input=True), **SKETCH),
    "own kernels": okl_gd(widths(coordinate="bandwidth"), **OWN),
}


@pytest.mark.endless
@pytest.mark.parametrize("name", LEARNERS)
def test_single_precision_stays_near_double(name):
    X, y = stream()
    learner = LEARNERS[name]
    wrong = {}
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            start = begin(learner, X.shape[1], dtype)
            end, outputs, _ = trajectory(learner, start, X.astype(dtype), y.astype(dtype))
            assert outputs.prediction.dtype == dtype
            assert_finite((keyless(end), outputs))
            wrong[dtype] = mistakes(y, outputs)
            assert int(learner.info(end).support) == learner.budget
            # as many numbers as at the start, of the same kind
            for before, after in zip(jax.tree.leaves(start), jax.tree.leaves(end), strict=True):
                assert (before.shape, before.dtype) == (after.shape, after.dtype)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(keyless(end)))
    assert numbers <= learner.budget * (X.shape[1] + 3) + 40
    assert np.sum(wrong[np.float32] != wrong[np.float64]) <= 3
    assert wrong[np.float32].mean() < 0.3


FAR = {
    "sketch": oks_sil(
        jaxmkl.kernels.GaussianWidths(start=1.0, per_input=True), budget=10, step_size=1.0
    ),
    "own kernels": okl_gd(
        jaxmkl.kernels.GaussianWidths(start=1.0, coordinate="bandwidth"),
        budget=20,
        optimizer=jaxmkl.optimizers.FromOptax("adam", 0.01),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [1e4, "bound", "whole numbers"])
@pytest.mark.parametrize("name", FAR)
def test_far_examples_are_finite_and_say_nothing(name, kind):
    """Every kernel value is 0: every prediction is, and that is a mistake."""
    X, y = raw(kind)
    learner = FAR[name]
    state, outputs, states = trajectory(learner, begin(learner, X.shape[1], np.float32), X, y)
    assert_finite((keyless(state), outputs))
    np.testing.assert_array_equal(outputs.prediction, 0)
    assert mistakes(y, outputs).all()
    info = learner.info(state)
    assert float(info.zero_rate) == 1
    assert int(info.support) == learner.budget
    assert int(state.invalid) == 0
    if name == "own kernels":
        assert int(state.came) == len(X)
        np.testing.assert_array_equal(states.coordinates, 1)
    else:
        # far from all others each replaces the first of equal weights
        np.testing.assert_allclose(np.abs(state.weights), 1)
        assert int(state.since.max()) == len(X) - 1


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"space": jaxmkl.Gaussian(1.0)}, "space"),
        ({"budget": 0}, "budget"),
        ({"budget": 2.0}, "budget"),
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": np.inf}, "step_size"),
        ({"step_size": [0.1, 0.2]}, "step_size"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"optimizer": jaxmkl.optimizers.InverseTime}, "optimizer"),
        ({"loss": "cubic"}, "loss"),
        ({"query": 0.1}, "query"),
    ],
)
def test_bad_arguments_are_named(arguments, wanted):
    for recipe, name in ((oks_sil, "HypothesisSketch"), (okl_gd, "OwnKernels")):
        with pytest.raises(ValueError, match=rf"{name}: {wanted} must be .*; got "):
            recipe(**arguments)


def test_a_query_that_needs_a_variance_is_refused():
    with pytest.raises(ValueError, match="query must be one that needs no variance"):
        oks_sil(query=Uncertainty()).init(jax.random.key(0), 2)
    assert jnp.isfinite(oks_sil().init(jax.random.key(0), 2).weights).all()
