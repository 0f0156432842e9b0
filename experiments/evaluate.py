"""One learner on one stream, many seeds in one vmapped call, timed apart from its compilation."""

import dataclasses
import functools
import inspect
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxmkl

from .options import UsageError
from .report import Row, row

__all__ = [
    "FAMILY",
    "MAX_SKIPS",
    "TOLERANCE",
    "Candidate",
    "Runs",
    "Stream",
    "accepts",
    "candidate",
    "check_settings",
    "compiled",
    "evaluate",
    "keys_of",
    "num_supports",
    "pausing",
    "prepare",
    "recent",
    "timed",
    "without_info",
]

# The learners of the amkl family, in the order of the tables.
FAMILY = ("raker", "omkl_aks", "amkl", "amkl_aks", "expert_mkl")

TOLERANCE = 1.0
MAX_SKIPS = 2

without_info = jaxmkl.without_info


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Examples in the order they are played; the labels of a classification are -1 and +1.

    ``unit`` is what a squared error is multiplied by to be in the target's own units.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    task: str
    unit: float = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A learner, the name it has in tables, and the factory's arguments."""

    name: str
    learner: Any
    parameters: Mapping[str, Any]


class Runs(NamedTuple):
    """What S runs over a stream of T examples left behind."""

    metric: str  # "mse" or "mistake_rate"
    error: np.ndarray  # (S, T): the metric up to each round
    labels: np.ndarray  # (S, T): the share of labels asked for up to each round
    weights: np.ndarray | None  # (S, T, P): every kernel's weight, summed over its experts
    seconds_per_run: float
    support: np.ndarray | None = None  # (S,): support vectors at the end, those of all kernels

    @property
    def times(self) -> np.ndarray:
        """The rounds 1, ..., T."""
        return np.arange(1, self.error.shape[1] + 1)

    def rows(
        self,
        paper: str,
        dataset: str,
        candidate: Candidate,
        printed: Callable[[str, str, str, str], float | None] = lambda *_: None,
    ) -> list[Row]:
        """Return a row for the error, the share of labels asked for, and the support vectors."""
        measured = {self.metric: self.error[:, -1], "label_rate": self.labels[:, -1]}
        if self.support is not None:
            measured["support"] = self.support
        return [
            row(
                (paper, dataset, candidate.name, metric),
                values,
                printed=printed(paper, dataset, candidate.name, metric),
                parameters=candidate.parameters,
                seconds_per_run=self.seconds_per_run,
            )
            for metric, values in measured.items()
        ]


def accepts(factory: str) -> tuple[str, ...]:
    """Return the names of a factory's parameters."""
    return tuple(inspect.signature(jaxmkl.LEARNERS[factory]).parameters)


def check_settings(
    settings: Mapping[str, Any],
    factories: Mapping[str, str],
    accepts: Callable[[str], Collection[str]] = accepts,
) -> list[str]:
    """Check that every setting is a parameter of one of the algorithms, at least.

    Args:
        settings: the values given with ``--set``.
        factories: the factory of every algorithm asked for.
        accepts: tells the names of a factory's parameters.

    Returns:
        a line for each setting that some of the algorithms do not have.

    Raises:
        UsageError: none of them has it.
    """
    lines = []
    for name in settings:
        without = [a for a, factory in factories.items() if name not in accepts(factory)]
        if len(without) == len(factories):
            known = dict.fromkeys(p for f in factories.values() for p in accepts(f))
            raise UsageError(
                f"--set {name}: no parameter of {', '.join(without)}; "
                f"there are: {', '.join(known)}"
            )
        if without:
            lines.append(f"--set {name}: no parameter of {', '.join(without)}, left out there")
    return lines


def candidate(
    name: str,
    factory: str,
    task: str,
    settings: Mapping[str, Any],
    scaler: Any = None,
    **arguments: Any,
) -> Candidate:
    """Build a learner for a task.

    Args:
        name: its name in tables.
        factory: the name of the library's factory.
        task: ``"regression"`` or ``"classification"``.
        settings: values given with ``--set``; they come before ``arguments``.
        scaler: an online scaler of the features to stand before it, or None.
        **arguments: the factory's arguments.

    Raises:
        UsageError: the factory refuses a value, or makes a learner for another task.
    """
    signature = inspect.signature(jaxmkl.LEARNERS[factory])
    if task == "classification":
        if "task" in signature.parameters:
            arguments = {"task": task, **arguments}
        elif "loss" in signature.parameters and signature.parameters["loss"].default == "squared":
            arguments = {"loss": "logistic", **arguments}
    arguments |= {k: v for k, v in settings.items() if k in signature.parameters}
    try:
        learner = jaxmkl.LEARNERS[factory](**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from error
    if learner.task != task:
        raise UsageError(f"{name}: with these settings it does {learner.task}, not {task}")
    bound = signature.bind(**arguments)
    bound.apply_defaults()
    parameters = dict(bound.arguments)
    if scaler is not None:
        learner = jaxmkl.scaled(learner, scaler)
        parameters["scaler"] = scaler
    return Candidate(name, learner, parameters)


def pausing(factory: str) -> dict[str, Any]:
    """Return arguments with which a learner that may skip labels does so at targets of variance 1.

    The library's tolerance suits the paper's targets, whose variance is some thousandths.
    """
    if "tolerance" not in accepts(factory):
        return {}
    return {"tolerance": TOLERANCE, "max_skips": MAX_SKIPS}


@functools.cache
def _with_weights(num_kernels: int) -> Callable[[Any], Any]:
    """Return a record that keeps the kernels' weights; the same object each time.

    Another function object would be another compilation.
    """

    def record(output: Any) -> Any:
        return output._replace(info=output.info.weights.reshape(-1, num_kernels).sum(0))

    return record


def compiled(function: Any, *arguments: Any, **static: Any) -> tuple[Any, float]:
    """Compile a jitted function for its arguments.

    Args:
        function: a jitted function.
        *arguments: its arrays and trees of arrays.
        **static: its static arguments.

    Returns:
        what is to be called with the arguments, and the seconds of tracing and compiling.
    """
    began = time.perf_counter()
    return function.lower(*arguments, **static).compile(), time.perf_counter() - began


def timed(function: Callable, *arguments: Any) -> tuple[Any, float]:
    """Call a compiled function, wait for its result, and return it and the seconds."""
    began = time.perf_counter()
    result = jax.block_until_ready(function(*arguments))
    return result, time.perf_counter() - began


def num_supports(learner: Any, states: Any) -> jax.Array | None:
    """Return how many support vectors (S,) all kernels of states have; None for a learner without.

    A support vector that several kernels hold counts once for each.
    """

    def of_state(state: Any) -> jax.Array | None:
        number = getattr(learner.info(state), "support", None)
        return None if number is None else number.sum()

    return jax.vmap(of_state)(states)


@functools.partial(jax.jit, static_argnames=("permute", "record"))
def _run_many(learner: Any, keys: Any, X: Any, y: Any, permute: bool, record: Callable) -> Any:
    states, outputs = jaxmkl.run_many(learner, keys, X, y, permute=permute, record=record)
    return outputs, num_supports(learner, states)


def keys_of(seeds: int) -> jax.Array:
    """Return the keys (S,) of the seeds, the same for every learner."""
    return jax.random.split(jax.random.key(0), seeds)


def prepare(
    learner: Any, stream: Stream, seeds: int, *, permute: bool, weights: bool = False
) -> Callable[[], Runs]:
    """Compile the runs of a learner over a stream, every seed at once, and return what plays them.

    Args:
        learner: the learner, or the wrapped one.
        stream: the examples.
        seeds: how many runs.
        permute: whether every run has its own order of the examples.
        weights: whether to keep the kernels' weights.
    """
    keys = keys_of(seeds)
    record: Callable[[Any], Any] = without_info
    if weights:
        core: Any = learner.learner if isinstance(learner, jaxmkl.Scaled) else learner
        record = _with_weights(core.kernels.num_kernels)
    arguments = (learner, keys, stream.X, stream.y)
    function, _ = compiled(_run_many, *arguments, permute=permute, record=record)

    def play() -> Runs:
        (outputs, support), running = timed(function, *arguments)
        prediction = np.asarray(outputs.prediction, np.float64)
        y = np.asarray(stream.y, np.float64)
        if permute:
            y = y[np.asarray(jaxmkl.permutations(keys, len(y)))]
        if stream.task == "classification":
            metric, error = "mistake_rate", jaxmkl.metrics.running_mistake_rate(prediction, y)
        else:
            metric, error = "mse", jaxmkl.metrics.running_mse(prediction, y) * stream.unit
        return Runs(
            metric=metric,
            error=error,
            labels=jaxmkl.metrics.running_label_rate(np.asarray(outputs.queried)),
            weights=np.asarray(outputs.info) if weights else None,
            seconds_per_run=running / seeds,
            support=None if support is None else np.asarray(support),
        )

    return play


def evaluate(learner: Any, stream: Stream, seeds: int, *, permute: bool) -> Runs:
    """Compile the runs of a learner over a stream and play them at once."""
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
