"""Speed: time an example, beside scikit-learn one example at a time, and a very long stream.

And learners with support vectors: seconds a pass over data sets of the papers, and memory; and
whether the last tenth of a stream takes as long as the first where the support is bounded;
and passes over many tasks, and the memory of their models.
"""

import dataclasses
import functools
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median, stdev
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor

import jaxmkl

from . import generate, multitask
from .evaluate import compiled, keys_of, num_supports, timed, without_info
from .options import Options, UsageError
from .paper import Job, data_folder
from .report import Report, Row

__all__ = ["in_turn", "long_stream", "memory", "run", "support_vectors", "tenths"]

INPUTS = 77
LENGTH = 13_813
NUM_KERNELS = 17
NUM_FEATURES = 50
COMPONENTS = NUM_KERNELS * NUM_FEATURES
SEEDS_AT_ONCE = 32
REPEATS = 5
FIRST = {"scikit-learn": 500, "expert_mkl": 4_096}  # examples timed, where it is not all
SUPPORT_REPEATS = 3
LONG = 10_000_000
CHUNK = 100_000


def in_turn(
    functions: Mapping[str, Callable[[], Any]], repeats: int, *, twice: bool = True
) -> dict[str, list[float]]:
    """Call functions in turn, several rounds of them, and return the seconds of each call.

    Each timed call follows one of the same function that is not timed, so that none pays for what
    another left in the caches; ``twice=False`` leaves that out, for calls of seconds.

    >>> list(map(len, in_turn({"one": lambda: 1, "two": lambda: 2}, 3).values()))
    [3, 3]
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            if twice:
                jax.block_until_ready(function())
            seconds[name].append(timed(function)[1])
    return seconds


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> list[float]:
    """Return the ratios of calls made in the same round."""
    return [a / b for a, b in zip(numerator, denominator, strict=True)]


def stream_of_77(options: Options) -> tuple[str, np.ndarray, np.ndarray]:
    """Return twitter where the data are, else generated examples of the same shape."""
    try:
        data = jaxmkl.data.read(data_folder(options) / "twitter.npz")
        return "twitter", np.asarray(data.X, np.float32), np.asarray(data.y, np.float32)
    except (UsageError, OSError):
        draws = np.random.default_rng(0)
        X = draws.uniform(size=(LENGTH, INPUTS)).astype(np.float32)
        y = np.sin(X @ draws.normal(size=INPUTS)) + 0.1 * draws.normal(size=LENGTH)
        return "generated", X, y.astype(np.float32)


def sklearn_one_at_a_time(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Return a pass of RBFSampler and SGDRegressor over the examples, one at a time."""
    sampler = RBFSampler(n_components=COMPONENTS, random_state=0).fit(X[:1])

    def play() -> None:
        model = SGDRegressor(learning_rate="constant", eta0=0.01)
        model.partial_fit(sampler.transform(X[:1]), y[:1])
        for i in range(1, len(y)):
            z = sampler.transform(X[i : i + 1])
            model.predict(z)
            model.partial_fit(z, y[i : i + 1])

    return play


@jax.jit
def _run(learner: Any, state: Any, X: Any, y: Any) -> Any:
    return jaxmkl.run(learner, state, X, y, record=without_info)[1]


@jax.jit
def _run_many(learner: Any, keys: Any, X: Any, y: Any) -> Any:
    return jaxmkl.run_many(learner, keys, X, y, permute=False, record=without_info)


@functools.partial(jax.jit, static_argnames="block")
def _encode(learner: Any, state: Any, X: Any, block: int) -> Any:
    """Encode all blocks and sum the codes up, so that none can be left out."""
    blocks = X[: len(X) // block * block].reshape(-1, block, X.shape[1])

    def total(part: Any) -> Any:
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(learner.encode(state, part)))

    return jax.lax.map(total, blocks)


def figures(
    dataset: str, algorithm: str, metric: str, values: Sequence[float], **parameters: Any
) -> Row:
    """Return the row of a measured figure: the median of the repeats and their deviation."""
    return Row(
        paper="bench",
        dataset=dataset,
        algorithm=algorithm,
        metric=metric,
        mean=median(values),
        std=stdev(values) if len(values) > 1 else 0.0,
        seeds=parameters.get("seeds", 1),
        parameters={
            "repeats": len(values),
            "device": jax.devices()[0].device_kind,
            **parameters,
        },
    )


of_features = functools.partial(figures, num_kernels=NUM_KERNELS, num_features=NUM_FEATURES)


def short(options: Options, report: Report) -> None:
    """Time an example of raker, alone and 32 seeds at once, scikit-learn and expert_mkl."""
    dataset, X, y = stream_of_77(options)
    keys = keys_of(SEEDS_AT_ONCE)
    raker = jaxmkl.raker(num_features=NUM_FEATURES)
    expert = jaxmkl.expert_mkl(num_features=NUM_FEATURES)
    assert raker.kernels.num_kernels == NUM_KERNELS
    state, expert_state = (learner.init(keys[0], INPUTS) for learner in (raker, expert))
    device_X, device_y = jax.device_put(X), jax.device_put(y)
    few = FIRST["expert_mkl"]
    calls: dict[str, tuple[Any, tuple, dict]] = {
        "raker": (_run, (raker, state, device_X, device_y), {}),
        "raker, 32 seeds": (_run_many, (raker, keys, device_X, device_y), {}),
        "encode": (_encode, (raker, state, device_X), {"block": raker.preferred_block_size}),
        "raker, few": (_run, (raker, state, device_X[:few], device_y[:few]), {}),
        "expert_mkl": (_run, (expert, expert_state, device_X[:few], device_y[:few]), {}),
    }
    functions: dict[str, Callable[[], Any]] = {}
    compiling: dict[str, float] = {}
    with report.progress("compiling", len(calls)) as step:
        for name, (function, arguments, static) in calls.items():
            step(name)
            ready, compiling[name] = compiled(function, *arguments, **static)
            functions[name] = functools.partial(ready, *arguments)
            timed(functions[name])  # the first call touches fresh memory
    n = FIRST["scikit-learn"]
    functions["scikit-learn"] = sklearn_one_at_a_time(X[:n], y[:n])
    report.say(f"timing {len(functions)} things in turn, {REPEATS} times")
    seconds = in_turn(functions, REPEATS)

    T = len(y)
    each = {
        "raker": [s / T * 1e6 for s in seconds["raker"]],
        "raker, 32 seeds": [s / T / SEEDS_AT_ONCE * 1e6 for s in seconds["raker, 32 seeds"]],
        "expert_mkl": [s / few * 1e6 for s in seconds["expert_mkl"]],
        "scikit-learn": [s / n * 1e6 for s in seconds["scikit-learn"]],
    }
    encoding = ratios(seconds["encode"], seconds["raker"])
    over_raker = ratios(each["scikit-learn"], each["raker"])
    rows = [
        of_features(dataset, "raker", "microseconds_per_example", each["raker"]),
        of_features(dataset, "raker", "compile_seconds", [compiling["raker"]]),
        of_features(dataset, "raker", "encoding_share", encoding),
        of_features(
            dataset,
            "raker, 32 seeds",
            "microseconds_per_example",
            each["raker, 32 seeds"],
            seeds=SEEDS_AT_ONCE,
        ),
        of_features(dataset, "raker, 32 seeds", "compile_seconds", [compiling["raker, 32 seeds"]]),
        of_features(dataset, "expert_mkl", "microseconds_per_example", each["expert_mkl"]),
        of_features(dataset, "expert_mkl", "compile_seconds", [compiling["expert_mkl"]]),
        of_features(
            dataset,
            "expert_mkl",
            "times_raker",
            ratios(seconds["expert_mkl"], seconds["raker, few"]),
        ),
        of_features(dataset, "scikit-learn", "microseconds_per_example", each["scikit-learn"]),
        of_features(dataset, "scikit-learn", "times_raker", over_raker),
        of_features(
            dataset,
            "scikit-learn",
            "times_raker_32_seeds",
            ratios(each["scikit-learn"], each["raker, 32 seeds"]),
        ),
    ]
    report.table(
        f"Speed on {T} examples of {INPUTS} inputs: medians of {REPEATS} rounds, all in turn",
        report.add(rows),
        notes=(
            f"raker, expert_mkl: {NUM_KERNELS} kernels of {NUM_FEATURES} features; with 32 seeds "
            "at once the time is that of one example in one run",
            f"expert_mkl: the first {few} examples, beside raker on the same",
            f"scikit-learn: RBFSampler({COMPONENTS}) and SGDRegressor, transform, predict and "
            f"partial_fit one example at a time, the first {n}; the same 850 frequencies",
            "encoding share: encoding all blocks alone, over the whole run",
        ),
    )


def peak_memory() -> float:
    """Return the most memory the process has held so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # there getrusage starts with what the parent process held
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def long_stream(report: Report, total: int = LONG, chunk: int = CHUNK) -> None:
    """Play a generated stream that is never in memory: its cost and memory, first and last."""
    making = 0.0

    def timed_chunks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal making
        began = time.perf_counter()
        for made in generate.chunks(0, total, chunk):
            making += time.perf_counter() - began
            yield made
            began = time.perf_counter()

    learner = jaxmkl.raker(num_features=NUM_FEATURES)
    state = learner.init(jax.random.key(0), generate.DIMENSIONS)
    number = -(-total // chunk)
    tenth = max(1, number // 10)
    seconds: list[float] = []
    memory: list[float] = []
    error, seen = 0.0, 0
    with report.progress("long stream", number) as step:
        began = time.perf_counter()
        for _, outputs in jaxmkl.stream(learner, state, timed_chunks()):
            error += float(outputs.loss.sum())  # waits for the chunk
            now = time.perf_counter()
            seconds.append(now - began - making)
            began, making = now, 0.0
            seen += len(outputs.loss)
            memory.append(peak_memory())
            step(f"{seen:,} examples, mse {error / seen:.4f}")
    # the first chunk compiles
    first = [s / chunk * 1e6 for s in seconds[1 : tenth + 1]]
    last = [s / chunk * 1e6 for s in seconds[-tenth - 1 : -1]]
    row = functools.partial(
        of_features, "generated, drifting", "raker", examples=total, chunk=chunk
    )
    rows = [
        row("mse", [error / seen]),
        row("microseconds_per_example_first", first),
        row("microseconds_per_example_last", last),
        row("last_over_first", [median(last) / median(first)]),
        row("peak_memory_mib", [memory[-1]]),
        row("memory_growth_mib", [memory[-1] - memory[min(tenth, number - 1)]]),
    ]
    report.table(
        f"{total:,} examples of {generate.DIMENSIONS} inputs, made chunk by chunk",
        report.add(rows),
        notes=(
            "first and last: medians over the chunks of a tenth of the stream at either end; "
            "making the examples is not counted",
            "memory growth: of the process's peak, from the first tenth's end to the stream's",
        ),
    )


# Shapes of the papers' files, for data made in their place.
SHAPES = {"magic04": (19_020, 10), "a9a": (48_842, 123), "cod_rna": (331_152, 8)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner with support vectors over a data set, in as many orders at once."""

    dataset: str
    learner: str
    orders: int
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    length: int | None = None  # examples, where it is not all

    @property
    def name(self) -> str:
        """How it is called in tables."""
        return self.learner if self.orders == 1 else f"{self.learner}, {self.orders} orders"


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


def stream_of_two_classes(options: Options, name: str) -> tuple[str, np.ndarray, np.ndarray]:
    """Return a data set of the papers where the data are, else generated ones of its shape."""
    try:
        data = jaxmkl.data.read(data_folder(options) / f"{name}.npz")
        return name, np.asarray(data.X, np.float32), np.asarray(data.y, np.float32)
    except (UsageError, OSError):
        draws = np.random.default_rng(0)
        T, D = SHAPES[name]
        # a9a has zeros and ones, a ninth of them ones
        X = draws.uniform(size=(T, D)) < 1 / 9 if name == "a9a" else 50 * draws.normal(size=(T, D))
        score = X @ draws.normal(size=D)
        score += 0.5 * score.std() * draws.normal(size=T)
        y = np.where(score > np.median(score), 1, -1)
        return f"generated, as {name}", X.astype(np.float32), y.astype(np.float32)


@jax.jit
def _orders(learner: Any, keys: Any, X: Any, y: Any) -> Any:
    states, outputs = jaxmkl.run_many(learner, keys, X, y, record=without_info)
    return outputs.prediction, num_supports(learner, states)


def call_of(case: Case, options: Options) -> tuple[str, tuple]:
    """Return the data set's name and what :func:`_orders` plays a case with."""
    dataset, X, y = stream_of_two_classes(options, case.dataset)
    learner = jaxmkl.LEARNERS[case.learner](**case.arguments)
    X, y = jax.device_put(X[: case.length]), jax.device_put(y[: case.length])
    return dataset, (learner, keys_of(case.orders), X, y)


def rows_of(dataset: str, case: Case) -> Callable[[str, Sequence[float]], Row]:
    """Return what makes the row of a metric of a case."""

    def row_of(metric: str, values: Sequence[float]) -> Row:
        parameters = {"seeds": case.orders, **case.arguments}
        return figures(dataset, case.name, metric, values, **parameters)

    return row_of


def support_vectors(options: Options, report: Report) -> None:
    """Time passes of learners with support vectors."""
    functions: dict[str, Callable[[], Any]] = {}
    ready: list[tuple[Case, str, float, float]] = []
    with report.progress("first calls", len(CASES)) as step:
        for case in CASES:
            dataset, arguments = call_of(case, options)
            step(f"{dataset} {case.name}")
            function, compiling = compiled(_orders, *arguments)
            call = functools.partial(function, *arguments)
            (_, number), _ = timed(call)
            functions[f"{dataset} {case.name}"] = call
            ready.append((case, dataset, compiling, float(np.mean(number))))
    report.say(f"timing {len(functions)} things in turn, {SUPPORT_REPEATS} times")
    later = in_turn(functions, SUPPORT_REPEATS, twice=False).values()
    rows: list[Row] = []
    for (case, dataset, compiling, number), seconds in zip(ready, later, strict=True):
        row_of = rows_of(dataset, case)
        rows += [
            row_of("seconds_per_pass", [s / case.orders for s in seconds]),
            row_of("compile_seconds", [compiling]),
            row_of("support", [number]),
        ]
    report.table(
        f"Support vectors: medians of {SUPPORT_REPEATS} rounds, all in turn",
        report.add(rows),
        notes=(
            "16 kernels; oks_sil: one, that moves; with 10 orders at once the time is that of one "
            "pass of one order",
            "compile seconds: tracing and compiling, once for all passes",
        ),
    )


TENTHS = 10
ENDS = {0: "first", TENTHS - 1: "last"}
SKETCH: dict[str, Any] = {"budget": 200, "step_size": 0.1}


def tenths(options: Options, report: Report) -> None:
    """Time the tenths of a stream with OKS-SIL, and the first and the last in turn."""
    dataset, X, y = stream_of_two_classes(options, "cod_rna")
    order = np.asarray(jaxmkl.permutations(keys_of(1), len(y))[0])
    size = len(order) // TENTHS
    chunks = [(X[rows], y[rows]) for rows in order[: size * TENTHS].reshape(TENTHS, size)]
    learner = jaxmkl.oks_sil(**SKETCH)
    start = learner.init(jax.random.key(0), X.shape[1])
    report.say(f"playing {dataset} in {TENTHS} chunks of {size}")
    next(jaxmkl.stream(learner, start, chunks[:1]))  # compiles

    def played(state: Any, chunk: tuple) -> Any:
        return next(jaxmkl.stream(learner, state, [chunk]))

    states, seconds = [start], []
    for chunk in chunks:
        (state, _), taken = timed(played, states[-1], chunk)
        states.append(state)
        seconds.append(taken)
    ends = {end: functools.partial(played, states[i], chunks[i]) for i, end in ENDS.items()}
    later = in_turn(ends, REPEATS)

    def row(metric: str, values: Sequence[float]) -> Row:
        return figures(dataset, "oks_sil", metric, values, examples=size * TENTHS, **SKETCH)

    rows = [
        row("seconds_per_pass", [sum(seconds)]),
        *(row(f"seconds_{end}_tenth", of_end) for end, of_end in later.items()),
        row("last_over_first", ratios(later["last"], later["first"])),
    ]
    report.table(
        f"Tenths of a stream: {size} examples each, one order",
        report.add(rows),
        notes=(
            f"first and last: medians of {REPEATS} rounds, in turn, each from the state it met",
            "all tenths, in one pass, in seconds: " + ", ".join(f"{s:.2f}" for s in seconds),
        ),
    )


LANDMINE = (14_820, 9, 29)  # examples, inputs and tasks
TASK_ORDERS = 10
TASK_RUNS = {"multitask": None, "multitask, h = 0.1": 0.1}  # h by name


def stream_of_tasks(options: Options) -> multitask.Tasks:
    """Return landmine where the data are, else generated examples of its shape."""
    T, D, K = LANDMINE
    try:
        job = Job(multitask.PAPER, options, Report("bench"), ("landmine",), (), 1)
        return multitask.stream_of(job, "landmine")
    except UsageError:
        draws = np.random.default_rng(0)
        X = draws.normal(size=(T, D)).astype(np.float32)
        task = draws.integers(K, size=T)
        y = np.where(X[:, 0] * X[:, 1] + 0.1 * task > 3, 1.0, -1.0).astype(np.float32)
        return multitask.Tasks("generated, as landmine", jaxmkl.data.with_tasks(task, X), y)


def many_tasks(options: Options, report: Report) -> None:
    """Time passes over many tasks, several orders at once, and tell the memory of one."""
    stream = stream_of_tasks(options)
    num_tasks = int(stream.task.max()) + 1
    X, y = jax.device_put(stream.X), jax.device_put(stream.y)
    functions: dict[str, Callable[[], Any]] = {}
    ready: list[tuple[str, float, float]] = []
    for name, h in TASK_RUNS.items():
        learner = jaxmkl.multitask(num_tasks, jaxmkl.Gaussian(3.0), h=h)
        state = learner.init(jax.random.key(0), X.shape[1])
        leaves = jax.tree.leaves(state._replace(key=state.round))
        held = sum(leaf.nbytes for leaf in leaves) / 2**20
        arguments = learner, keys_of(TASK_ORDERS), X, y
        function, compiling = compiled(_orders, *arguments)
        functions[name] = functools.partial(function, *arguments)
        ready.append((name, compiling, held))
    report.say(f"timing {len(functions)} things in turn, {SUPPORT_REPEATS} times")
    later = in_turn(functions, SUPPORT_REPEATS, twice=False)
    rows: list[Row] = []
    for name, compiling, held in ready:
        row = functools.partial(figures, stream.name, name, seeds=TASK_ORDERS, size=100)
        rows += [
            row("seconds_per_pass", [s / TASK_ORDERS for s in later[name]]),
            row("compile_seconds", [compiling]),
            row("state_mib", [held]),
        ]
    report.table(
        f"Many tasks: medians of {SUPPORT_REPEATS} rounds, in turn",
        report.add(rows),
        notes=(
            f"{num_tasks} tasks, a dictionary of 100 points; the time of one pass of one order, "
            f"{TASK_ORDERS} at once",
        ),
    )


def _peak_of(case: Case, options: Options) -> tuple[str, float, float, float, float]:
    """Play a case; return its data set, memory before and at most, seconds and supports."""
    dataset, arguments = call_of(case, options)
    before = peak_memory()
    (_, number), seconds = timed(_orders, *arguments)
    return dataset, before, peak_memory(), seconds, float(np.mean(number))


def memory(options: Options, report: Report, case: Case = LARGEST) -> None:
    """Measure the most memory that many support vectors take, in a process of their own."""
    report.say(f"playing {case.dataset} {case.name} in a process of its own: some minutes")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        found = pool.submit(_peak_of, case, options).result()
    dataset, before, peak, seconds, number = found
    row = rows_of(dataset, case)
    rows = [
        row("peak_memory_mib", [peak]),
        row("memory_before_mib", [before]),
        row("seconds_per_pass", [seconds / case.orders]),
        row("support", [number]),
    ]
    report.table(
        "Memory of many support vectors",
        report.add(rows),
        notes=(
            "peak: the most the process has held; before: with the data read, nothing compiled",
            "the seconds are those of the only call, compilation included",
        ),
    )


def run(options: Options, report: Report) -> None:
    """Run the benchmark, or the long stream or the measurement of memory instead."""
    if options.long:
        long_stream(report)
    elif options.memory:
        memory(options, report)
    else:
        short(options, report)
        support_vectors(options, report)
        tenths(options, report)
        many_tasks(options, report)
