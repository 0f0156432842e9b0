"""The speed of learners on random features: time per example, and a stream never in memory."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor

import jaxmkl

from .. import generate
from ..evaluate import keys_of
from ..inside import encode, kernels_of, whole_blocks
from ..options import Options
from ..report import Report
from .timing import Data, figures, measured, one_run, peak_memory, ratios, real_or

INPUTS = 77
LENGTH = 13_813
NUM_KERNELS = 17
NUM_FEATURES = 50
COMPONENTS = NUM_KERNELS * NUM_FEATURES
SEEDS_AT_ONCE = 32
NUM_CLASSES = 10
REPEATS = 5
FIRST = {"scikit-learn": 500, "expert_mkl": 10_000}  # examples timed, if not all
FIXED = "expert_mkl, fixed"
LONG = 10_000_000
CHUNK = 100_000

of_features = partial(figures, num_kernels=NUM_KERNELS, num_features=NUM_FEATURES)
many_runs = jax.jit(partial(jaxmkl.run_many, permute=False))


def of_77_inputs() -> Data:
    """Return generated examples of the shape of twitter."""
    draws = np.random.default_rng(0)
    X = draws.uniform(size=(LENGTH, INPUTS)).astype(np.float32)
    return "generated", X, np.sin(X @ draws.normal(size=INPUTS)) + 0.1 * draws.normal(size=LENGTH)


def sklearn_one_at_a_time(X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Return a pass of RBFSampler and SGDRegressor over the examples, one at a time."""
    sampler = RBFSampler(n_components=COMPONENTS, random_state=0).fit(X[:1])

    def one_pass() -> None:
        model = SGDRegressor(learning_rate="constant", eta0=0.01)
        model.partial_fit(sampler.transform(X[:1]), y[:1])
        for i in range(1, len(y)):
            z = sampler.transform(X[i : i + 1])
            model.predict(z)
            model.partial_fit(z, y[i : i + 1])

    return one_pass


@jax.jit
def _product(learner: jaxmkl.MKL, state: Any, X: jax.Array) -> jax.Array:
    """The plain product X V' of whole blocks, each stored where the next one will be."""
    blocks = whole_blocks(learner, X)
    frequencies = jax.lax.collapse(state.models[0].features, 0, 2)

    def one(_: jax.Array, block: jax.Array) -> tuple[jax.Array, None]:
        return jnp.dot(block, frequencies.T, precision=jax.lax.Precision.HIGHEST), None

    stored = jnp.zeros((blocks.shape[1], len(frequencies)), X.dtype)
    return jax.lax.scan(one, stored, blocks)[0]


def short(options: Options, report: Report) -> None:
    """Time an example of raker and expert_mkl, alone and many seeds at once, and scikit-learn."""
    dataset, X, y = real_or(options, "twitter", of_77_inputs)
    X, y, T, key = jax.device_put(X), jax.device_put(y), len(y), jax.random.key(0)
    n, few = FIRST["scikit-learn"], FIRST["expert_mkl"]
    raker, learned = jaxmkl.raker(num_features=NUM_FEATURES), jaxmkl.expert_mkl()
    expert = jaxmkl.expert_mkl(banks="fixed")
    assert kernels_of(raker).num_kernels == NUM_KERNELS
    of_classes = [
        jaxmkl.expert_mkl(task="classification", num_classes=K, banks="fixed")
        for K in (None, NUM_CLASSES)
    ]
    digits = jnp.arange(few) % NUM_CLASSES
    state, keys = raker.init(key, INPUTS), keys_of(SEEDS_AT_ONCE)
    # each function, its arguments, and the number of examples that it runs over
    calls: dict[str, tuple[Callable, tuple, int]] = {
        "raker": (one_run, (raker, state, X, y), T),
        f"raker, {SEEDS_AT_ONCE} seeds": (many_runs, (raker, keys, X, y), T * SEEDS_AT_ONCE),
        "encoding": (jax.jit(encode), (raker, state, X), T),
        "product": (_product, (raker, state, X), T),
    }
    part = few // 8
    for name, learner in {FIXED: expert, "expert_mkl": learned}.items():
        start = learner.init(key, INPUTS)
        calls[name] = (one_run, (learner, start, X[:few], y[:few]), few)
        calls[f"{name}, start"] = (one_run, (learner, start, X[:part], y[:part]), part)
        many = (learner, keys, X[:part], y[:part])
        calls[f"{name}, {SEEDS_AT_ONCE} seeds"] = (many_runs, many, part * SEEDS_AT_ONCE)
    for name, learner in zip(("two", "ten"), of_classes, strict=True):
        label = digits > NUM_CLASSES / 2 if learner.num_outputs is None else digits
        arguments = (learner, learner.init(key, INPUTS), X[:few], label)
        calls[f"{FIXED}, {name} classes"] = (one_run, arguments, few)
    found = measured(
        report,
        {name: call[:2] for name, call in calls.items()},
        REPEATS,
        others={"scikit-learn": sklearn_one_at_a_time(np.asarray(X[:n]), np.asarray(y[:n]))},
    )
    numbers = {name: call[2] for name, call in calls.items()} | {"scikit-learn": n}
    each = {name: [s / numbers[name] * 1e6 for s in found[name].seconds] for name in numbers}
    # metrics that are ratios of two rows
    beside = {
        "raker": {"times_product": "product"},
        f"raker, {SEEDS_AT_ONCE} seeds": {"times_raker": "raker"},
        "encoding": {"times_raker": "raker"},
        FIXED: {"times_raker": "raker"},
        f"{FIXED}, {SEEDS_AT_ONCE} seeds": {"times_one_seed": f"{FIXED}, start"},
        f"{FIXED}, ten classes": {"times_two_classes": f"{FIXED}, two classes"},
        "expert_mkl": {"times_fixed": FIXED},
        f"expert_mkl, {SEEDS_AT_ONCE} seeds": {"times_one_seed": "expert_mkl, start"},
        "scikit-learn": {"times_raker": "raker"},
    }
    rows = []
    for name, times in each.items():
        metrics = {"microseconds_per_example": times}
        metrics |= {m: ratios(times, each[other]) for m, other in beside.get(name, {}).items()}
        if name in calls:
            metrics |= found[name].before
        seeds = {"seeds": SEEDS_AT_ONCE} if name.endswith("seeds") else {}
        rows += of_features(dataset, name, metrics, **seeds)
    report.table(
        f"Speed on {T} examples of {INPUTS} inputs: medians of {REPEATS} rounds, all in turn",
        rows,
        notes=(
            f"raker: {NUM_KERNELS} kernels of {NUM_FEATURES} features; expert_mkl: its default, "
            "whose kernels are learned; fixed: its fixed bank alone",
            f"{SEEDS_AT_ONCE} seeds at once: the time of one example in one run",
            f"expert_mkl: the first {few} examples; of {SEEDS_AT_ONCE} seeds, and at the start, "
            f"the first {part}, where kernels are learned anew most often",
            f"product: inputs and the {COMPONENTS} frequencies of raker, block by block, stored; "
            "encoding: their sines and cosines, summed up",
            f"scikit-learn: RBFSampler({COMPONENTS}) and SGDRegressor, transform, predict and "
            f"partial_fit one example at a time, the first {n}; as many frequencies",
        ),
    )


def long_stream(report: Report, total: int = LONG, chunk: int = CHUNK) -> None:
    """Measure the cost and memory of a stream that is never in memory, at its start and end."""
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
            "first and last: medians over the chunks of the first and last tenth of the stream; "
            "making the examples is not counted",
            "memory growth: of the process's peak, from the end of the first tenth to the end",
        ),
    )
