"""Speed of learners on random features: an example's time, and a stream never in memory."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import jax
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor

import jaxmkl

from .. import generate
from ..evaluate import keys_of
from ..inside import encode, kernels_of
from ..options import Options
from ..report import Report
from .timing import Data, figures, measured, peak_memory, ratios, real_or

INPUTS = 77
LENGTH = 13_813
NUM_KERNELS = 17
NUM_FEATURES = 50
COMPONENTS = NUM_KERNELS * NUM_FEATURES
SEEDS_AT_ONCE = 32
REPEATS = 5
FIRST = {"scikit-learn": 500, "expert_mkl": 4_096}  # examples timed, where it is not all
LONG = 10_000_000
CHUNK = 100_000

of_features = partial(figures, num_kernels=NUM_KERNELS, num_features=NUM_FEATURES)


def of_77_inputs() -> Data:
    """Return generated examples of the shape of twitter."""
    draws = np.random.default_rng(0)
    X = draws.uniform(size=(LENGTH, INPUTS)).astype(np.float32)
    return "generated", X, np.sin(X @ draws.normal(size=INPUTS)) + 0.1 * draws.normal(size=LENGTH)


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
    return jaxmkl.run(learner, state, X, y, record=jaxmkl.streaming.without_info)[1]


@jax.jit
def _run_many(learner: Any, keys: Any, X: Any, y: Any) -> Any:
    return jaxmkl.run_many(
        learner, keys, X, y, permute=False, record=jaxmkl.streaming.without_info
    )


def short(options: Options, report: Report) -> None:
    """Time an example of raker, alone and 32 seeds at once, scikit-learn and expert_mkl."""
    dataset, X, y = real_or(options, "twitter", of_77_inputs)
    keys = keys_of(SEEDS_AT_ONCE)
    raker = jaxmkl.raker(num_features=NUM_FEATURES)
    expert = jaxmkl.expert_mkl(num_features=NUM_FEATURES)
    assert kernels_of(raker).num_kernels == NUM_KERNELS
    state, expert_state = (learner.init(keys[0], INPUTS) for learner in (raker, expert))
    all_X, all_y = jax.device_put(X), jax.device_put(y)
    n, few = FIRST["scikit-learn"], FIRST["expert_mkl"]
    found = measured(
        report,
        {
            "raker": (_run, (raker, state, all_X, all_y)),
            "raker, 32 seeds": (_run_many, (raker, keys, all_X, all_y)),
            "encode": (jax.jit(encode), (raker, state, all_X)),
            "raker, few": (_run, (raker, state, all_X[:few], all_y[:few])),
            "expert_mkl": (_run, (expert, expert_state, all_X[:few], all_y[:few])),
        },
        REPEATS,
        others={"scikit-learn": sklearn_one_at_a_time(X[:n], y[:n])},
    )
    T = len(y)
    examples = {"raker": T, "raker, 32 seeds": T * SEEDS_AT_ONCE, "expert_mkl": few}
    examples["scikit-learn"] = n
    each = {
        name: [s / number * 1e6 for s in found[name].seconds] for name, number in examples.items()
    }
    more = {
        "raker": {"encoding_share": ratios(found["encode"].seconds, found["raker"].seconds)},
        "expert_mkl": {
            "times_raker": ratios(found["expert_mkl"].seconds, found["raker, few"].seconds)
        },
        "scikit-learn": {
            "times_raker": ratios(each["scikit-learn"], each["raker"]),
            "times_raker_32_seeds": ratios(each["scikit-learn"], each["raker, 32 seeds"]),
        },
    }
    rows = []
    for name in examples:
        metrics = {"microseconds_per_example": each[name], **more.get(name, {})}
        if found[name].compiling:
            metrics["compile_seconds"] = [found[name].compiling]
        seeds = {"seeds": SEEDS_AT_ONCE} if name == "raker, 32 seeds" else {}
        rows += of_features(dataset, name, metrics, **seeds)
    report.table(
        f"Speed on {T} examples of {INPUTS} inputs: medians of {REPEATS} rounds, all in turn",
        rows,
        notes=(
            f"raker, expert_mkl: {NUM_KERNELS} kernels of {NUM_FEATURES} features; with 32 seeds "
            "at once the time is that of one example in one run",
            f"expert_mkl: the first {few} examples, beside raker on the same",
            f"scikit-learn: RBFSampler({COMPONENTS}) and SGDRegressor, transform, predict and "
            f"partial_fit one example at a time, the first {n}; the same 850 frequencies",
            "encoding share: encoding all blocks alone, over the whole run",
        ),
    )


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
    metrics = {
        "mse": [error / seen],
        "microseconds_per_example_first": first,
        "microseconds_per_example_last": last,
        "last_over_first": [median(last) / median(first)],
        "peak_memory_mib": [memory[-1]],
        "memory_growth_mib": [memory[-1] - memory[min(tenth, number - 1)]],
    }
    rows = of_features("generated, drifting", "raker", metrics, examples=total, chunk=chunk)
    report.table(
        f"{total:,} examples of {generate.DIMENSIONS} inputs, made chunk by chunk",
        rows,
        notes=(
            "first and last: medians over the chunks of a tenth of the stream at either end; "
            "making the examples is not counted",
            "memory growth: of the process's peak, from the first tenth's end to the stream's",
        ),
    )
