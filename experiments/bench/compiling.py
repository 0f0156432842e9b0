"""The cost of compiling every recipe: kernels, and processor seconds by stage.

On a CPU each kernel of a program is a module of LLVM, which takes about the same time whatever is
in it. So their number determines the cost of compiling. Every recipe has a process of its own.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

import jax

import jaxmkl
from jaxmkl.evaluate import Row

from ..options import Options, chosen
from ..report import Report
from .device import NUM_TASKS, examples
from .features import FIXED
from .launches import num_kernels
from .timing import figures, in_own_process

INPUTS = 10
EXAMPLES = 4096
RECIPES: Mapping[str, Callable[..., jaxmkl.Learner]] = {
    **jaxmkl.LEARNERS,
    "multitask": partial(jaxmkl.multitask, num_tasks=NUM_TASKS),
    "oks": partial(jaxmkl.oks, num_rounds=EXAMPLES),
    FIXED: partial(jaxmkl.expert_mkl, banks="fixed"),
}


def compiling(name: str, number: int = EXAMPLES) -> dict[str, list[float]]:
    """Return the kernels of a run, and the processor seconds of init and each stage."""
    jax.config.update("jax_enable_compilation_cache", False)
    learner = RECIPES[name]()
    X, y = examples(name, learner, number, INPUTS)
    seconds: dict[str, list[float]] = {}
    before = time.process_time()

    def lap(stage: str) -> None:
        nonlocal before
        seconds[f"{stage}_seconds"] = [time.process_time() - before]
        before = time.process_time()

    state = jax.block_until_ready(learner.init(jax.random.key(0), X.shape[1]))
    lap("init")
    traced = jax.jit(jaxmkl.run).trace(learner, state, X, y)
    lap("trace")
    lowered = traced.lower()
    lap("lowering")
    text = lowered.compile().as_text()
    lap("compile")
    assert text is not None
    return {"kernels": [float(num_kernels(text))], **seconds}


def run(options: Options, report: Report) -> None:
    """Compile a run of every recipe, or of some, each in a process of its own."""
    names, rows = chosen("learner", options.algorithms, RECIPES, RECIPES), list[Row]()
    for name in report.steps("compiling", names):
        found = in_own_process(compiling, name)
        rows += figures("generated", name, found, examples=EXAMPLES, inputs=INPUTS)
    report.table(
        f"Compiling a run of {EXAMPLES} examples of {INPUTS} inputs: processor seconds",
        rows,
        notes=(
            f"jax {jax.__version__}; each recipe with its defaults, in a process of its own; "
            f"multitask: {NUM_TASKS} tasks, a column more",
            "kernels: of the optimised program, those inside of loops and branches once",
            "init: the state before the first round, compiled and made",
        ),
    )
