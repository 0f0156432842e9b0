"""The cost of a learner's own uncertainty: variances, densities, probabilities."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

import jaxmkl
from jaxmkl.wrappers import predictive, probabilities

from ..options import Options
from ..report import Report
from .features import FIXED, of_77_inputs
from .timing import figures, measured, ratios, real_or

EXAMPLES = 10_000
REPEATS = 7


def run(options: Options, report: Report) -> None:
    """Time runs that keep values alone, variances, densities, and probabilities of two classes."""
    dataset, X, y = real_or(options, "twitter", of_77_inputs)
    X, y = jax.device_put(X[:EXAMPLES]), jax.device_put(y[:EXAMPLES])
    fixed = jaxmkl.expert_mkl(banks="fixed")
    classes = jaxmkl.expert_mkl(task="classification", banks="fixed")
    key, calls = jax.random.key(0), dict[str, tuple[Callable, tuple]]()

    def add(name: str, learner: jaxmkl.Learner, label: jax.Array, *also: str) -> None:
        def keep(output: jaxmkl.Output) -> tuple:
            return tuple(getattr(output, field) for field in ("prediction", "loss", *also))

        arguments = learner, learner.init(key, X.shape[1]), X, label
        calls[name] = jax.jit(partial(jaxmkl.run, record=keep)), arguments

    for name, learner in {FIXED: fixed, "expert_mkl": jaxmkl.expert_mkl()}.items():
        add(f"{name}, value", learner, y)
        add(f"{name}, variance", learner, y, "variance")
        add(f"{name}, density", predictive(learner), y, "distribution")
    positive = y > jnp.median(y)
    add(f"{FIXED}, two classes, value", classes, positive)
    for passthrough in (False, True):
        name = f"{FIXED}, two classes, probabilities" + passthrough * " with inputs"
        add(name, probabilities(classes, passthrough=passthrough), positive)
    found = measured(report, calls, REPEATS)
    rows = []
    for name in calls:
        seconds = found[name].seconds
        metrics = {"microseconds_per_example": [s / len(y) * 1e6 for s in seconds]}
        if not name.endswith("value"):
            value = found[name.rpartition(", ")[0] + ", value"].seconds
            metrics["times_value"] = ratios(seconds, value)
        rows += figures(dataset, name, metrics | found[name].before, examples=len(y))
    report.table(
        f"Knowing how sure it is, on {len(y)} examples of {X.shape[1]} inputs: medians of "
        f"{REPEATS} rounds, all in turn",
        rows,
        notes=(
            "value: predictions and losses are kept; variance: variances, too; density: by "
            "jaxmkl.wrappers.predictive; probabilities: by jaxmkl.wrappers.probabilities, with "
            "inputs: and passthrough=True",
            "times value: seconds of the run relative to those of one that keeps values",
        ),
    )
