"""Common tests of learners with a moving kernel: blocks, precision, range, queries."""

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
    trajectory,
)

SMALL_PROGRAMS = True

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
