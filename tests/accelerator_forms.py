"""The form that rounds have on accelerators, played on the device that there is."""

from trees import everything

from jaxmkl.streaming import _engine


def plans(learner, block_size=16):
    """Of a CPU, and of an accelerator."""
    plan = _engine.plan_of("run", learner, block_size, everything)._replace(fused=False)
    return plan, plan._replace(platform="gpu")
