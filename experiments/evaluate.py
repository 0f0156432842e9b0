"""One learner on one stream, many seeds in one vmapped call, timed without its compilation."""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

import jaxmkl
from jaxmkl import Learner
from jaxmkl import evaluate as evaluation
from jaxmkl.evaluate import Candidate, Row, rows
from jaxmkl.evaluate.rows import Printed

from .inside import kernel_weights, kernels_of_models, num_supports
from .options import Settings

# The learners of the amkl family, in the order of the tables.
FAMILY = ("raker", "omkl_aks", "amkl", "amkl_aks", "expert_mkl")

PROGRAMS = 16  # compiled programs that are kept
# On CPUs, to compile in half the time: XLA's former emitters of loops, and less work for LLVM.
BRIEF = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Examples in the order of the run; labels of two classes are -1 and +1."""

    name: str
    X: np.ndarray
    y: np.ndarray
    task: str

    @property
    def num_classes(self) -> int | None:
        """The number of classes, which are 0, 1, ...; None for two classes and for numbers."""
        several = self.task == "classification" and np.any(self.y > 1)
        return int(self.y.max()) + 1 if several else None

    def astype(self, dtype: DTypeLike) -> "Stream":
        """Return the stream in another precision."""
        return dataclasses.replace(self, X=self.X.astype(dtype), y=self.y.astype(dtype))

    def at(self, rows: slice | np.ndarray, name: str | None = None) -> "Stream":
        """Return some rows of the stream, under a name of their own if it is given."""
        return Stream(name or self.name, self.X[rows], self.y[rows], self.task)

    def standardised(self, first: int) -> "Stream":
        """Return inputs, and targets that are numbers, scaled by the first ones' moments; float32.

        >>> Stream("a", np.arange(10.0)[:, None], np.arange(10.0), "regression").standardised(2).y
        array([-1.,  1.,  3.,  5.,  7.,  9., 11., 13., 15., 17.], dtype=float32)
        """

        def scaled(values: np.ndarray) -> np.ndarray:
            values = np.asarray(values, np.float64)
            mean, deviation = values[:first].mean(axis=0), values[:first].std(axis=0)
            return (values - mean) / np.where(deviation > 0, deviation, 1.0)

        y = scaled(self.y) if self.task == "regression" else self.y
        return dataclasses.replace(self, X=scaled(self.X), y=y).astype(np.float32)


def candidate(
    name: str, factory: str, task: str, settings: Settings, scaler: Any = None, **arguments: Any
) -> Candidate:
    """Make a learner for a task, as :func:`jaxmkl.evaluate.candidate` does.

    ``scaler`` is an online scaler around it, or None.
    """
    made = evaluation.candidate(name, factory, task, settings, **arguments)
    if scaler is None:
        return made
    parameters = {**made.parameters, "scaler": scaler}
    return made._replace(learner=jaxmkl.scaled(made.learner, scaler), parameters=parameters)


def stacked(learners: Sequence[Learner]) -> Learner:
    """Stack learners of one structure into one, with a leading axis on every leaf."""
    return jax.tree.map(lambda *leaves: jnp.stack([*map(jnp.asarray, leaves)]), *learners)


class Measured(NamedTuple):
    """The figures of S runs: metrics by name, each (S,), and the seconds of one run."""

    metrics: Mapping[str, np.ndarray]
    seconds_per_run: float

    def rows(
        self, paper: str, dataset: str, candidate: Candidate, printed: Printed | None = None
    ) -> list[Row]:
        """Return a row for each metric."""
        others = {"parameters": candidate.parameters, "seconds_per_run": self.seconds_per_run}
        return rows((paper, dataset, candidate.name), self.metrics, printed, **others)


def in_sequence(runs: Iterable[Mapping[str, float]]) -> Measured:
    """Take runs one after the other from an iterator, which yields their metrics."""
    began = time.perf_counter()
    each = list(runs)
    seconds = (time.perf_counter() - began) / len(each)
    return Measured({name: np.array([one[name] for one in each]) for name in each[0]}, seconds)


@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """The predictions, queries and weights of S runs over a stream of T examples."""

    stream: Stream
    order: np.ndarray  # (S, T): the examples in the order of each run
    prediction: np.ndarray  # (S, T), in that order
    queried: np.ndarray  # (S, T)
    weights: np.ndarray | None  # (S, T, P): every kernel's weight, summed over its experts
    support: np.ndarray | None  # (S,): support vectors of all kernels at the end
    seconds_per_run: float

    @property
    def times(self) -> np.ndarray:
        """The rounds 1, ..., T."""
        return np.arange(1, self.prediction.shape[1] + 1)

    @property
    def metric(self) -> str:
        """The name of the error."""
        return "mistake_rate" if self.stream.task == "classification" else "mse"

    @functools.cached_property
    def error(self) -> np.ndarray:
        """The metric up to each round (S, T)."""
        y = np.asarray(self.stream.y, np.float64)[self.order]
        if self.stream.task == "classification":
            return np.asarray(jaxmkl.metrics.running_mistake_rate(self.prediction, y))
        return np.asarray(jaxmkl.metrics.running_mse(self.prediction, y))

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """The share of labels asked for up to each round (S, T)."""
        return np.asarray(jaxmkl.metrics.running_label_rate(self.queried))

    def rows(self, *name: Any, metrics: Mapping[str, np.ndarray] | None = None) -> list[Row]:
        """Return a row for each metric, by default those of :meth:`metrics`.

        The other arguments are those of :meth:`Measured.rows`.
        """
        measured = self.metrics() if metrics is None else metrics
        return Measured(measured, self.seconds_per_run).rows(*name)

    def metrics(self) -> dict[str, np.ndarray]:
        """Return the error (S,), the share of labels asked for, and the support vectors."""
        last = {self.metric: self.error[:, -1], "label_rate": self.labels[:, -1]}
        return last if self.support is None else {**last, "support": self.support}


def compiled(
    function: Any, *arguments: Any, brief: bool = False, **static: Any
) -> tuple[Any, dict[str, list[float]]]:
    """Trace, lower and compile a jitted function for its arguments; static ones are named.

    A function that only runs briefly (``brief``) is optimised less.

    Returns:
        the compiled function of the arguments, and the seconds of each stage, as a metric.
    """
    traced, tracing = timed(functools.partial(function.trace, **static), *arguments)
    lowered, lowering = timed(traced.lower)
    options = BRIEF if brief and jax.default_backend() == "cpu" else None
    try:
        ready, compiling = timed(lowered.compile, options)
    except jax.errors.JaxRuntimeError:  # this version does not know the options
        ready, compiling = timed(lowered.compile)
    stages = {"trace": tracing, "lowering": lowering, "compile": compiling}
    return ready, {f"{stage}_seconds": [seconds] for stage, seconds in stages.items()}


_programs: dict[tuple, Callable] = {}


def program(function: Any, *arguments: Any, brief: bool = False, **static: Any) -> Callable:
    """Compile a function, or reuse one compiled for arguments of the same shapes."""
    leaves, structure = jax.tree.flatten(arguments)
    key = (function, structure, *map(jax.typeof, leaves), brief, *static.items())
    if key not in _programs:
        if len(_programs) >= PROGRAMS:
            # JAX would keep those that are dropped, and each takes memory maps, of which a
            # process may only have so many
            _programs.clear()
            jax.clear_caches()
        _programs[key], _ = compiled(function, *arguments, brief=brief, **static)
    return _programs[key]


def timed(function: Callable, *arguments: Any) -> tuple[Any, float]:
    """Call a compiled function, wait for its result, and return it and the seconds."""
    began = time.perf_counter()
    result = jax.block_until_ready(function(*arguments))
    return result, time.perf_counter() - began


@functools.partial(jax.jit, static_argnames=("permute", "record"))
def _run_many(
    learner: Learner, keys: jax.Array, X: jax.Array, y: jax.Array, permute: bool, record: Callable
) -> tuple[jaxmkl.Output, jax.Array | None]:
    states, outputs = jaxmkl.run_many(learner, keys, X, y, permute=permute, record=record)
    return outputs, num_supports(learner, states)


@functools.partial(jax.jit, static_argnames=("permute", "record"))
def sweep(
    learners: Learner,
    *data: jax.Array,
    permute: bool = True,
    record: Callable = jaxmkl.streaming.without_info,
) -> jaxmkl.Output:
    """Run stacked learners over keys, X and y at once; return their records (G, S, T, ...)."""

    def of_one(learner: Learner) -> jaxmkl.Output:
        return jaxmkl.run_many(learner, *data, permute=permute, record=record)[1]

    return jax.vmap(of_one)(learners)


def keys_of(seeds: int) -> jax.Array:
    """Return the keys (S,) of the seeds, the same for every learner."""
    return jax.random.split(jax.random.key(0), seeds)


def prepare(
    learner: Learner,
    stream: Stream,
    seeds: int,
    *,
    permute: bool | None = None,
    weights: bool = False,
    brief: bool = False,
) -> Callable[[], Runs]:
    """Compile runs of a learner over a stream, all seeds at once, and return a function for them.

    With ``permute`` every run has its own order of the examples; by default, if they are of
    classes. With ``weights`` the kernels' weights are kept; with ``brief`` compilation takes less
    time.
    """
    keys, T = keys_of(seeds), len(stream.y)
    permute = stream.task == "classification" if permute is None else permute
    kept = kernel_weights(kernels_of_models(learner)) if weights else None
    record = kept or jaxmkl.streaming.without_info
    arguments = (learner, keys, stream.X, stream.y)
    function = program(_run_many, *arguments, brief=brief, permute=permute, record=record)
    orders = jaxmkl.permutations(keys, T) if permute else np.tile(np.arange(T), (seeds, 1))

    def run() -> Runs:
        (outputs, support), running = timed(function, *arguments)
        return Runs(
            stream=stream,
            order=np.asarray(orders),
            prediction=np.asarray(outputs.prediction, np.float64),
            queried=np.asarray(outputs.queried),
            weights=np.asarray(outputs.info) if weights else None,
            support=None if support is None else np.asarray(support),
            seconds_per_run=running / seeds,
        )

    return run


def evaluate(learner: Learner, stream: Stream, seeds: int, *, permute: bool | None = None) -> Runs:
    """Compile the runs of a learner over a stream and run them all at once."""
    return prepare(learner, stream, seeds, permute=permute)()


def recent(running: np.ndarray, window: int) -> np.ndarray:
    """Return the means over the last ``window`` rounds, given those over all rounds so far.

    >>> recent(np.array([1.0, 1.5, 2.0, 2.5]), 2)  # of 1, 2, 3, 4
    array([1. , 1.5, 2.5, 3.5])
    """
    count = np.arange(1, running.shape[-1] + 1)
    total = running * count
    before = np.zeros_like(total)
    before[..., window:] = total[..., :-window]
    return (total - before) / np.minimum(count, window)
