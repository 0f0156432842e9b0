"""The form that rounds have on accelerators, run on the device that there is."""

from jaxmkl.streaming import _engine
from tests.common.trees import begin, everything


def plans(learner, block_size=16):
    """The plans of a CPU and of an accelerator."""
    plan = _engine.plan_of("run", learner, block_size, everything)
    return plan, plan._replace(platform="gpu")


def in_both_forms(learner, X, y, before):
    """The state after the first rows, amid a block, and what follows in the two forms."""
    here, there = plans(learner)
    start = begin(learner, X.shape[1], dtype=X.dtype)
    begun, _ = _engine.run_rows(learner, start, _engine.Rows(X[:before], y[:before]), plan=here)
    rows = _engine.Rows(X[before:], y[before:])
    return begun, *(_engine.run_rows(learner, begun, rows, plan=plan) for plan in (here, there))
