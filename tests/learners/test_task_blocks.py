"""Many tasks in the form that rounds have on accelerators, beside the other one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator_forms import in_both_forms, plans
from marks import long
from task_streams import examples, make
from trees import assert_close, begin

import jaxmkl
from jaxmkl.streaming import _engine
from jaxmkl.tables import with_tasks

SMALL_PROGRAMS = True
LEARNERS = {
    "a mixture": lambda: make(loss="squared_hinge", components="mixed", update_on="margin"),
    "one task": lambda: make(None, components="mixed", size=200),
    "as published": lambda: make(inertia=2.0, query=jaxmkl.query.Uncertainty(0.1)),
    "each alone, on a budget": lambda: jaxmkl.label_budget(make(components="local"), 60),
    "one model of all": lambda: make(components="global", covariance="always"),
    "reset": lambda: make(growth="restart"),
}


def stream(learner):
    task, X, y = examples(150, 3)
    return np.array(with_tasks(task, X) if learner.leading_columns else X), y


@pytest.mark.slow
@pytest.mark.parametrize("name", long(["a mixture"], LEARNERS))
def test_rounds_on_accelerators_are_the_same(name, x64):
    """Also from amid a block on, and with examples that are refused."""
    learner = LEARNERS[name]()
    X, y = stream(learner)
    X[70, 1] = np.nan
    begun, one, other = in_both_forms(learner, X, y, 20)
    assert_close(other, one, 1e-7)
    assert one[0].invalid == 1
    number = getattr(one[0], "inner", one[0]).dictionary.number
    assert number > getattr(begun, "inner", begun).dictionary.number > 3


@pytest.mark.endless
def test_derivatives_on_accelerators_are_the_same(x64):
    learner = LEARNERS["a mixture"]()
    rows = _engine.Rows(*map(jnp.asarray, stream(learner)))

    @partial(jax.jit, static_argnames="plan")
    def slopes(learner, plan):
        def total(learner):
            start = begin(learner, rows.X.shape[1])
            return _engine.scan_rows(learner, start, rows, plan)[1].loss.sum()

        return jax.grad(total, allow_int=True)(learner)

    one, other = (slopes(learner, plan) for plan in plans(learner))
    assert_close(other, one, 1e-6)
    assert one.inertia != 0
