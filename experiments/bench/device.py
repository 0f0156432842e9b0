"""Many seeds at once on the accelerator that JAX finds, and what its programs launch and hold.

Beside the microseconds per example and seed there are the kernels that a round launches, counted
in the compiled program, and the memory that the program says it needs. If a few seeds take much
longer than starting their kernels, or 1,024 much longer than 32, the device computes or moves
data.
"""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row

from ..evaluate import keys_of
from ..report import Report
from .launches import kernels_a_round
from .supports import orders_at_once
from .timing import figures, measured

SEEDS = (1, 32, 1024)
REPEATS = 3
INPUTS = 20
NUM_TASKS = 29
# Learners, and their examples on a CPU, so that 1,024 seeds end within minutes; an accelerator has
# more of them.
CASES: Mapping[str, tuple[Callable[[], jaxmkl.Learner], int]] = {
    "raker": (jaxmkl.raker, 1024),
    "amkl_aks": (jaxmkl.amkl_aks, 1024),
    "expert_mkl, fixed": (partial(jaxmkl.expert_mkl, banks="fixed"), 256),
    "spa": (jaxmkl.spa, 512),
    "omkc_dd": (jaxmkl.omkc_dd, 256),
    "oks_sil": (jaxmkl.oks_sil, 256),
    "multitask": (partial(jaxmkl.multitask, NUM_TASKS, jaxmkl.Gaussian(3.0)), 256),
}
TIMES_MORE = 8


def examples(
    name: str, learner: jaxmkl.Learner, number: int, inputs: int = INPUTS
) -> tuple[np.ndarray, np.ndarray]:
    """Return generated examples X (T, D) and y (T,) of a learner's task, float32."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(number, inputs)).astype(np.float32)
    y = np.sin(X @ draws.normal(size=inputs) / 4) + 0.1 * draws.normal(size=number)
    if learner.task == "classification":
        y = np.where(y > 0, 1.0, -1.0)
    if name == "multitask":
        X = jaxmkl.tables.with_tasks(draws.integers(NUM_TASKS, size=number), X)
    return X, y.astype(np.float32)


def run(report: Report) -> None:
    """Time every learner with every number of seeds."""
    on_cpu = jax.default_backend() == "cpu"
    more = 1 if on_cpu else TIMES_MORE
    rows: list[Row] = []
    for name, (make, number) in CASES.items():
        learner, T = make(), number * more
        data = jax.device_put(examples(name, learner, T))
        # an order for each seed, or all runs of a learner without random numbers would be the same
        calls = {
            name if S == 1 else f"{name}, {S} seeds": (
                orders_at_once,
                (learner, keys_of(S), *data),
            )
            for S in SEEDS
        }
        report.say(f"{name}: {T} examples")
        for label, found in measured(report, calls, REPEATS, twice=False).items():
            S, needed = len(found.result[0]), found.program.memory_analysis()
            held = needed.argument_size_in_bytes + needed.output_size_in_bytes
            launched = kernels_a_round(found.program.as_text(), learner.preferred_block_size)
            each = [s / (T * S) * 1e6 for s in found.seconds]
            report.say(f"{label}: {min(each):.4g} us an example at the least")
            metrics = {
                "microseconds_per_example": each,
                "kernels_a_round": [launched],
                "mebibytes": [(held + needed.temp_size_in_bytes) / 2**20],
                **found.before,
            }
            rows += figures("generated", label, metrics, seeds=S, examples=T, inputs=INPUTS)
    device = jax.devices()[0]
    report.table(
        f"Seeds at once: microseconds an example and seed, medians of {REPEATS} rounds",
        rows,
        notes=(
            f"device: {device.device_kind}, platform {device.platform}; jax {jax.__version__}",
            f"{INPUTS} inputs, an order for each seed; multitask: {NUM_TASKS} tasks; examples: "
            + ", ".join(f"{name} {number * more}" for name, (_, number) in CASES.items()),
            "kernels a round: of all seeds together, counted in the program; on a CPU operations",
        ),
    )
