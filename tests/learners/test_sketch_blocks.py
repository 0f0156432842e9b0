"""OKS-SIL in the form that rounds have on accelerators, beside the other one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator_forms import plans
from marks import long
from trees import assert_close, begin

import jaxmkl
from jaxmkl.kernels import GaussianWidths, KernelBox
from jaxmkl.kernels.scaled import Scaled
from jaxmkl.learners.sketch import draw_places, draw_places_at_once
from jaxmkl.streaming import _engine

SMALL_PROGRAMS = True
LEARNERS = {
    "one width": lambda: jaxmkl.oks_sil(budget=15),
    "sketches": lambda: jaxmkl.oks_sil(budget=15, step_size=1.0, gradients="sketches"),
    "widths, five drawn": lambda: jaxmkl.oks_sil(
        GaussianWidths(per_input=True), budget=15, num_sampled=5, ties="oldest"
    ),
    "no exponents": lambda: jaxmkl.oks_sil(
        KernelBox(jaxmkl.Cauchy((1.0, 2.0)), jaxmkl.Cauchy(0.1), jaxmkl.Cauchy(10.0)), budget=15
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["one width"], LEARNERS))
@pytest.mark.parametrize("unit", long([100.0], [1.0, 100.0]))
def test_rounds_on_accelerators_are_the_same(name, unit, x64):
    """Also where most kernel values are 0, and with an example that is refused."""
    learner = LEARNERS[name]()
    X = np.random.default_rng(0).normal(size=(120, 3)) * unit
    y, X[70, 1] = X[:, 0] * X[:, 1] > 0, np.nan
    start, rows = begin(learner, 3, dtype=np.float64), _engine.Rows(X, y)
    one, other = (_engine.run_rows(learner, start, rows, plan=plan) for plan in plans(learner))
    assert_close(other, one, 1e-7)
    assert one[0].number == 15


@pytest.mark.endless
def test_derivatives_on_accelerators_are_the_same(x64):
    learner = LEARNERS["one width"]()
    X = jax.random.normal(jax.random.key(0), (60, 3))
    rows = _engine.Rows(X, X[:, 0] * X[:, 1] > 0)

    @partial(jax.jit, static_argnames="plan")
    def slopes(learner, plan):
        def total(learner):
            return _engine.scan_rows(learner, begin(learner, 3), rows, plan)[1].loss.sum()

        return jax.grad(total)(learner)

    one, other = (slopes(learner, plan) for plan in plans(learner))
    assert_close(other, one, 1e-6)
    assert one.step_size != 0


def test_places_drawn_at_once_are_those_drawn_in_turn(x64):
    """Of few and of many, near and so far that all values but one or two are 0."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-2, 4, size=(400, 1))
    exponents = jnp.asarray(sizes * rng.random((400, 40)))
    numbers, uniform = jnp.asarray(rng.integers(1, 41, 400)), jnp.asarray(rng.random((400, 3)))

    def both(exponent, number, uniform):
        values = Scaled(None, exponent)
        return (
            draw_places(values, jnp.arange(40) < number, uniform),
            draw_places_at_once(values, number, uniform),
        )

    in_turn, at_once = jax.jit(jax.vmap(both))(exponents, numbers, uniform)
    np.testing.assert_array_equal(at_once, in_turn)
