"""The speed and memory of learners with support vectors, a moving kernel, or many tasks."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row, UsageError, state_bytes

from ..evaluate import Stream, keys_of, timed
from ..inside import num_supports
from ..options import Options
from ..papers import multitask
from ..papers.paper import Job
from ..report import Report
from .timing import Data, figures, in_own_process, in_turn, measured, peak_memory, ratios, real_or

REPEATS = 3
# Shapes of the papers' files, for data made in their place.
SHAPES = {"magic04": (19_020, 10), "a9a": (48_842, 123), "cod_rna": (331_152, 8)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner with support vectors on a data set, in several orders at once."""

    dataset: str
    learner: str
    orders: int
    arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    length: int | None = None  # examples, if not all

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.learner if self.orders == 1 else f"{self.learner}, {self.orders} orders"

    def rows(self, dataset: str, metrics: Mapping[str, list[float]]) -> list[Row]:
        """Return the rows of the figures on a data set."""
        return figures(dataset, self.name, metrics, seeds=self.orders, **self.arguments)


CASES = (
    Case("magic04", "spa", 1),
    Case("magic04", "spa", 10),
    Case("magic04", "omkc_dd", 1),
    *(Case("magic04", name, 10, {"budget": 254}) for name in ("rbp", "forgetron", "bogd", "bpas")),
    Case("a9a", "spa", 1),
    Case("a9a", "spa", 10),
    Case("a9a", "omkc_dd", 1),
    Case("a9a", "oks_sil", 10, {"budget": 200}),
)
LARGEST = Case("a9a", "omkc_dd", 10)


def of_two_classes(name: str) -> Data:
    """Return generated examples of the shape of a data set."""
    draws = np.random.default_rng(0)
    T, D = SHAPES[name]
    # a9a has zeros and ones, a ninth of them ones
    X = draws.uniform(size=(T, D)) < 1 / 9 if name == "a9a" else 50 * draws.normal(size=(T, D))
    score = X @ draws.normal(size=D)
    score += 0.5 * score.std() * draws.normal(size=T)
    return f"generated, as {name}", X, np.where(score > np.median(score), 1, -1)


@jax.jit
def orders_at_once(
    learner: jaxmkl.Learner, keys: jax.Array, X: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array | None]:
    """Return the predictions of runs of all keys, each in its own order, and their supports."""
    states, outputs = jaxmkl.run_many(learner, keys, X, y)
    return outputs.prediction, num_supports(learner, states)


def call_of(case: Case, options: Options) -> tuple[str, tuple]:
    """Return the name of the data set and the arguments of :func:`orders_at_once` for a case."""
    dataset, X, y = real_or(options, case.dataset, partial(of_two_classes, case.dataset))
    learner = jaxmkl.LEARNERS[case.learner](**case.arguments)
    X, y = jax.device_put(X[: case.length]), jax.device_put(y[: case.length])
    return dataset, (learner, keys_of(case.orders), X, y)


def support_vectors(options: Options, report: Report) -> None:
    """Time passes of learners with support vectors."""
    prepared = [(case, *call_of(case, options)) for case in CASES]
    calls = {
        f"{data} {case.name}": (orders_at_once, arguments) for case, data, arguments in prepared
    }
    found = measured(report, calls, REPEATS, twice=False)
    rows: list[Row] = []
    for (case, dataset, _), of_case in zip(prepared, found.values(), strict=True):
        metrics = {
            "seconds_per_pass": [s / case.orders for s in of_case.seconds],
            **of_case.before,
            "support": [float(np.mean(of_case.result[1]))],
        }
        rows += case.rows(dataset, metrics)
    report.table(
        f"Support vectors: medians of {REPEATS} rounds, all in turn",
        rows,
        notes=(
            "16 kernels; oks_sil: one, that moves; with 10 orders at once the time is that of one "
            "pass of one order",
            "trace, lowering and compile seconds: once for all passes",
        ),
    )


TENTHS = 10
SKETCH: dict[str, Any] = {"budget": 200, "step_size": 0.1}
END_REPEATS = 5


def tenths(options: Options, report: Report) -> None:
    """Time the tenths of a stream with OKS-SIL, and the first and the last in turn."""
    dataset, X, y = real_or(options, "cod_rna", partial(of_two_classes, "cod_rna"))
    order = np.asarray(jaxmkl.permutations(keys_of(1), len(y))[0])
    size = len(order) // TENTHS
    chunks = [(X[rows], y[rows]) for rows in order[: size * TENTHS].reshape(TENTHS, size)]
    learner = jaxmkl.oks_sil(**SKETCH)
    start = learner.init(jax.random.key(0), X.shape[1])
    report.say(f"running {dataset} in {TENTHS} chunks of {size}")
    next(jaxmkl.stream(learner, start, chunks[:1]))  # compiles

    def run_chunk(state: object, chunk: tuple) -> tuple:
        return next(jaxmkl.stream(learner, state, [chunk]))

    states, seconds = [start], []
    for chunk in chunks:
        (state, _), taken = timed(run_chunk, states[-1], chunk)
        states.append(state)
        seconds.append(taken)
    ends = {"first": 0, "last": TENTHS - 1}
    again = {end: partial(run_chunk, states[i], chunks[i]) for end, i in ends.items()}
    later = in_turn(again, END_REPEATS)
    metrics = {
        "seconds_per_pass": [sum(seconds)],
        **{f"seconds_{end}_tenth": of_end for end, of_end in later.items()},
        "last_over_first": ratios(later["last"], later["first"]),
    }
    report.table(
        f"Tenths of a stream: {size} examples each, one order",
        figures(dataset, "oks_sil", metrics, examples=size * TENTHS, **SKETCH),
        notes=(
            f"first and last: medians of {END_REPEATS} rounds, each from the state it met",
            "all tenths, in one pass, in seconds: " + ", ".join(f"{s:.2f}" for s in seconds),
        ),
    )


LANDMINE = (14_820, 9, 29)  # examples, inputs and tasks
TASK_ORDERS = 10
TASK_RUNS = {"multitask": None, "multitask, h = 0.1": 0.1}  # h by name


def stream_of_tasks(options: Options) -> Stream:
    """Return landmine if the data are available, else generated examples of its shape."""
    try:
        job = Job(multitask.PAPER, options, Report("bench"), ("landmine",), (), 1)
        return multitask.stream_of(job, "landmine")
    except UsageError:
        T, D, K = LANDMINE
        draws = np.random.default_rng(0)
        X = draws.normal(size=(T, D)).astype(np.float32)
        task = draws.integers(K, size=T)
        y = np.where(X[:, 0] * X[:, 1] + 0.1 * task > 3, 1.0, -1.0).astype(np.float32)
        X = jaxmkl.tables.with_tasks(task, X)
        return Stream("generated, as landmine", X, y, "classification")


def many_tasks(options: Options, report: Report) -> None:
    """Time passes over many tasks, several orders at once, and measure the memory of one."""
    stream = stream_of_tasks(options)
    num_tasks = int(stream.X[:, 0].max()) + 1
    data = jax.device_put(stream.X), jax.device_put(stream.y)
    learners = {
        name: jaxmkl.multitask(num_tasks, jaxmkl.Gaussian(3.0), h=h)
        for name, h in TASK_RUNS.items()
    }
    keys = keys_of(TASK_ORDERS)
    calls = {name: (orders_at_once, (learner, keys, *data)) for name, learner in learners.items()}
    rows: list[Row] = []
    for name, found in measured(report, calls, REPEATS, twice=False).items():
        state = learners[name].init(keys[0], stream.X.shape[1])
        metrics = {
            "seconds_per_pass": [s / TASK_ORDERS for s in found.seconds],
            **found.before,
            "state_mib": [state_bytes(state) / 2**20],
        }
        rows += figures(stream.name, name, metrics, seeds=TASK_ORDERS, size=100)
    report.table(
        f"Many tasks: medians of {REPEATS} rounds, in turn",
        rows,
        notes=(
            f"{num_tasks} tasks, a dictionary of 100 points; the time of one pass of one order, "
            f"{TASK_ORDERS} at once",
        ),
    )


def _peak_of(case: Case, options: Options) -> tuple[str, dict[str, list[float]]]:
    """Run a case; return its data set and its figures."""
    dataset, arguments = call_of(case, options)
    before = peak_memory()
    (_, number), seconds = timed(orders_at_once, *arguments)
    return dataset, {
        "peak_memory_mib": [peak_memory()],
        "memory_before_mib": [before],
        "seconds_per_pass": [seconds / case.orders],
        "support": [float(np.mean(number))],
    }


def memory(options: Options, report: Report, case: Case = LARGEST) -> None:
    """Measure the peak memory of many support vectors, in a process of their own."""
    report.say(f"running {case.dataset} {case.name} in a process of its own: some minutes")
    rows = case.rows(*in_own_process(_peak_of, case, options))
    report.table(
        "Memory of many support vectors",
        rows,
        notes=(
            "peak: the most the process has held; before: with the data read, nothing compiled",
            "the seconds are those of the only call, compilation included",
        ),
    )
