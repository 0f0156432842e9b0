"""Many small learners, each on its own stream, beside one learner on as many examples."""

from functools import partial

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row

from ..report import Report
from .timing import figures, in_turn, ratios

STREAMS = 10_000
EXAMPLES = 100
INPUTS = 5
REPEATS = 5
BANDWIDTHS = (0.3, 1.0, 3.0)
NUM_FEATURES = 20


def run(report: Report) -> None:
    """Time a fleet on full streams, one on ragged streams, and one run, including input checks.

    Drivers are called as a user calls them, after their programs have been compiled.
    """
    learner = jaxmkl.raker(jaxmkl.Gaussian(BANDWIDTHS), num_features=NUM_FEATURES)
    draws = np.random.default_rng(0)
    X = draws.normal(size=(STREAMS, EXAMPLES, INPUTS)).astype(np.float32)
    y = np.sin(2 * X[..., 0]) * X[..., 1]
    lengths = draws.integers(EXAMPLES + 1, size=STREAMS)
    keys = jax.random.split(jax.random.key(0), STREAMS)
    states = jax.jit(jax.vmap(partial(learner.init, num_inputs=INPUTS)))(keys)
    one = learner.init(jax.random.key(0), INPUTS)
    fleet = partial(jaxmkl.run_fleet, learner, states, X, y)
    # each function, and the number of examples that it runs over
    calls = {
        "raker": (partial(jaxmkl.run, learner, one, X.reshape(-1, INPUTS), y.ravel()), y.size),
        "raker, a fleet": (fleet, y.size),
        "raker, a fleet, ragged": (partial(fleet, lengths=lengths), int(lengths.sum())),
    }
    report.say(f"timing {len(calls)} functions in turn, {REPEATS} times")
    seconds = in_turn({name: call[0] for name, call in calls.items()}, REPEATS)
    rows: list[Row] = []
    for name, (_, examples) in calls.items():
        each = {"microseconds_per_example": [s / examples * 1e6 for s in seconds[name]]}
        if name != "raker":
            each["times_one_run"] = ratios(seconds[name], seconds["raker"])
        rows += figures("generated", name, each, examples=examples, inputs=INPUTS)
    report.table(
        f"{STREAMS:,} learners at once: medians of {REPEATS} rounds, all in turn",
        rows,
        notes=(
            f"raker: {len(BANDWIDTHS)} kernels of {NUM_FEATURES} features, {INPUTS} inputs; one "
            f"run of {y.size:,} examples, or {STREAMS:,} states of {EXAMPLES} each",
            f"ragged: 0 to {EXAMPLES} examples per stream, drawn uniformly",
            "times one run: seconds of the call relative to those of one run of all examples",
        ),
    )
