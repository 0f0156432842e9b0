"""Endless streams: whether errors and times stay the same, in single precision too.

Each learner runs over a stream that is generated chunk by chunk, in float32 and in float64 side by
side, and once more in float64 on inputs that differ in the eighth digit: a difference as large as
that between the two runs in float64 is no effect of precision. ``--rounds`` is the number of
examples.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row, parameters_of
from jaxmkl.models import supports

from .. import generate
from ..evaluate import FAMILY
from ..options import Options, chosen
from ..report import Report
from .timing import figures, in_turn, ratios

ROUNDS = 1_000_000
CHUNK = 16_384  # examples, at most
BUDGET = 64  # support vectors, where there is a budget
INPUTS = 3  # of two classes; more cannot be learned with so small a budget
TASKS = 5
REPEATS = 5
MOVED = 6e-8  # relative: what rounding to float32 changes
# the precision and by how much inputs are moved, by name; all are compared with float64
RUNS = {
    "float32": ("float32", 0.0),
    "float64": ("float64", 0.0),
    "float64, inputs moved": ("float64", MOVED),
}


def spa_on_a_budget() -> jaxmkl.MKL:
    """Return SPA with a budget, which removes the oldest support vector."""
    spa = jaxmkl.spa()
    store = supports.BudgetSupport(BUDGET, supports.RemoveOldest())
    bank = jaxmkl.models.SupportModels(spa.models[0].kernels, spa.models[0].rule, store)
    return jaxmkl.MKL(bank, spa.aggregate, spa.select, spa.query)


def learners() -> dict[str, Callable[[], jaxmkl.Learner]]:
    """Return a factory of each learner whose cost and memory do not grow, by name."""
    budgets = [name for name in jaxmkl.LEARNERS if "budget" in parameters_of(name)]
    found: dict[str, Callable[[], jaxmkl.Learner]] = {n: jaxmkl.LEARNERS[n] for n in FAMILY}
    found |= {name: partial(jaxmkl.LEARNERS[name], budget=BUDGET) for name in budgets}
    near = jaxmkl.kernels.GaussianWidths(start=0.5)  # the default ones are too wide here
    for name in ("oks_sil", "okl_gd"):
        found[name] = partial(jaxmkl.LEARNERS[name], near, budget=BUDGET)
    # the default threshold of the dictionary depends on the precision
    tasks = partial(jaxmkl.multitask, TASKS, jaxmkl.Gaussian(2.0), size=BUDGET, tolerance=1e-4)
    return found | {"spa": spa_on_a_budget, "multitask": tasks}


def examples(learner: jaxmkl.Learner, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return examples of the stream for a learner: of two classes, numbers or tasks.

    >>> examples(jaxmkl.raker(), 0, 3)[0].shape, examples(jaxmkl.rbp(), 0, 3)[0].shape
    ((3, 10), (3, 3))
    """
    if learner.task == "regression":
        return generate.examples(0, start, stop, drift=False)
    X, y = generate.two_that_matter(0, start, stop)
    X = X[:, :INPUTS]
    if isinstance(learner, jaxmkl.learners.MultiTask):
        X = jaxmkl.tables.with_tasks(np.arange(start, stop) % TASKS, X)
    return X, y


class Pass:
    """A learner's pass over the stream in one precision; the initial draws are the same in all."""

    def __init__(
        self, learner: jaxmkl.Learner, num_inputs: int, precision: str, moved: float = 0.0
    ) -> None:
        self.learner, self.precision, self.moved = learner, precision, moved
        self.draws = np.random.default_rng(0)
        key = jax.random.key(0)
        drawn = jax.tree.leaves(learner.init(key, num_inputs, np.float32))
        with self._precision():
            like, structure = jax.tree.flatten(learner.init(key, num_inputs, np.dtype(precision)))
            pairs = zip(drawn, like, strict=True)
            same = [a if a.dtype == b.dtype else a.astype(b.dtype) for a, b in pairs]
            self.state = jax.tree.unflatten(structure, same)
        self.errors: list[float] = []  # sums of chunks
        self.ends: list[tuple] = []  # states and examples that are run again, to be timed

    def _precision(self) -> AbstractContextManager:
        return jax.enable_x64(self.precision == "float64")

    def run(self, state: object, X: np.ndarray, y: np.ndarray) -> tuple:
        """Run over some examples."""
        with self._precision():
            return jaxmkl.run(self.learner, state, X, y)

    def go_on(self, X: np.ndarray, y: np.ndarray) -> None:
        """Run over the next examples."""
        if self.moved:
            factors = 1 + self.moved * self.draws.uniform(-1, 1, size=X.shape)
            factors[:, : self.learner.leading_columns] = 1  # a task stays what it is
            X = X * factors
        self.state, outputs = self.run(self.state, X, y)
        if self.learner.task == "regression":
            loss = np.asarray(outputs.loss, np.float64)
        else:
            loss = np.asarray(outputs.prediction) * y <= 0
        self.errors.append(float(np.sum(loss)))

    def last_over_first(self, size: int) -> dict[str, list[float]]:
        """Time the kept examples again, in turn."""
        ends = zip(("first", "last"), self.ends, strict=True)
        again = {name: partial(self.run, *end) for name, end in ends}
        seconds = in_turn(again, REPEATS)
        found = {
            f"microseconds_per_example_{name}": [s / size * 1e6 for s in of]
            for name, of in seconds.items()
        }
        return found | {"last_over_first": ratios(seconds["last"], seconds["first"])}


def tenths(rounds: int) -> tuple[int, int]:
    """Return the length of a chunk and the number of chunks in a tenth of the stream.

    >>> tenths(1_000_000), tenths(5_000)
    ((14286, 7), (500, 1))
    """
    each = max(1, rounds // 10)
    number = -(-each // CHUNK)
    return -(-each // number), number


def run_passes(
    name: str, learner: jaxmkl.Learner, rounds: int, step: Callable[[str], None]
) -> list[Row]:
    """Run a learner in every way of :data:`RUNS` and return the rows of its figures."""
    size, number = tenths(rounds)
    X, y = examples(learner, 0, size)
    runs = {label: Pass(learner, X.shape[1], *how) for label, how in RUNS.items()}
    for chunk in range(10 * number):
        if chunk:
            X, y = examples(learner, chunk * size, (chunk + 1) * size)
        for run in runs.values():
            if chunk in (number - 1, 10 * number - 1):
                run.ends.append((run.state, X, y))
            run.go_on(X, y)
        so_far = ", ".join(f"{run.errors[-1] / size:.4f}" for run in runs.values())
        step(f"{name}, {(chunk + 1) * size:,} examples, error {so_far}")
    last = {label: sum(run.errors[-number:]) / (number * size) for label, run in runs.items()}
    rows: list[Row] = []
    for label, run in runs.items():
        metrics = {
            "error_first_tenth": [sum(run.errors[:number]) / (number * size)],
            "error_last_tenth": [last[label]],
            "times_float64": [last[label] / last["float64"] if last["float64"] else 1.0],
            "nonfinite": [float(run.state.nonfinite)],
            **run.last_over_first(size),
        }
        rows += figures("generated", f"{name}, {label}", metrics, examples=10 * number * size)
    return rows


def run(options: Options, report: Report) -> None:
    """Run the requested learners, one after the other."""
    known, rounds = learners(), options.rounds or ROUNDS
    names = chosen("learner", options.algorithms, known, known)
    size, number = tenths(rounds)
    rows: list[Row] = []
    with report.progress("endless", 10 * number * len(names)) as step:
        for name in names:
            found = run_passes(name, known[name](), rounds, step)
            for row in found:
                if row.metric in ("error_last_tenth", "last_over_first"):  # long before the table
                    report.say(f"{row.algorithm}: {row.metric} {row.mean:.4g}")
            rows += found
            jax.clear_caches()
    report.table(
        f"{10 * number * size:,} examples, made chunk by chunk",
        rows,
        notes=(
            f"{generate.DIMENSIONS} inputs and numbers, or {INPUTS} and two classes; budgets of "
            f"{BUDGET} support vectors a kernel; error: squares, or the share of mistakes",
            f"inputs moved: each number by a factor of its own, within 1 ± {MOVED:g}",
            f"times: medians of {REPEATS} rounds of a chunk at the end of the first and of the "
            "last tenth, each from the state it met, in turn",
        ),
    )
