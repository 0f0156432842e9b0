"""Measurements for all benchmarks: calls in turn, memory, separate processes."""

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median, stdev
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxmkl
from jaxmkl.evaluate import Row, UsageError, held_bytes

from ..evaluate import compiled, timed
from ..options import Options
from ..papers.paper import data_folder
from ..report import Report

Data = tuple[str, np.ndarray, np.ndarray]  # a name, X (T, D) and y (T,)


def real_or(options: Options, name: str, made: Callable[[], Data]) -> Data:
    """Return a data set of the papers in float32 if it is available, else a generated one."""
    try:
        data = jaxmkl.tables.read(data_folder(options) / f"{name}.npz")
    except (UsageError, OSError):
        name, X, y = made()
        return name, X.astype(np.float32), y.astype(np.float32)
    return name, np.asarray(data.X, np.float32), np.asarray(data.y, np.float32)


@jax.jit
def one_run(learner: jaxmkl.Learner, state: object, X: jax.Array, y: jax.Array) -> jaxmkl.Output:
    """Return the outputs of a run from a state."""
    return jaxmkl.run(learner, state, X, y)[1]


def in_turn(
    functions: Mapping[str, Callable[[], object]], repeats: int, *, twice: bool = True
) -> dict[str, list[float]]:
    """Call functions in turn, several rounds of them, and return the seconds of each call.

    Each timed call follows an untimed one of the same function, so that none pays for what another
    left in the caches; ``twice=False`` omits the untimed calls, for calls that take seconds.

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


class Measured(NamedTuple):
    """A compiled call: the result of the first one, the seconds before it and of later ones."""

    result: Any
    before: dict[str, list[float]]  # tracing, lowering and compiling, as metrics
    seconds: list[float]
    program: Any = None  # the compiled one


def measured(
    report: Report,
    calls: Mapping[str, tuple[Callable, tuple]],
    repeats: int,
    *,
    others: Mapping[str, Callable[[], object]] | None = None,
    twice: bool = True,
) -> dict[str, Measured]:
    """Compile jitted functions for their arguments, call each once, then time all in turn.

    ``calls`` has functions and arguments by name, ``others`` has functions that are timed among
    them without being compiled; the rest is as in :func:`in_turn`.
    """
    functions: dict[str, Callable[[], object]] = {}
    found = dict.fromkeys(others or {}, Measured(None, {}, []))
    with report.progress("compiling", len(calls)) as step:
        for name, (function, arguments) in calls.items():
            step(name)
            ready, before = compiled(function, *arguments)
            functions[name] = partial(ready, *arguments)
            # it touches fresh memory
            result = jax.block_until_ready(functions[name]())
            found[name] = Measured(result, before, [], ready)
    functions |= others or {}
    report.say(f"timing {len(functions)} functions in turn, {repeats} times")
    later = in_turn(functions, repeats, twice=twice)
    return {name: found[name]._replace(seconds=later[name]) for name in functions}


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> list[float]:
    """Return the ratios of calls made in the same round."""
    return [a / b for a, b in zip(numerator, denominator, strict=True)]


def figures(
    dataset: str, algorithm: str, of_metrics: Mapping[str, Sequence[float]], **parameters: Any
) -> list[Row]:
    """Return the rows of figures: the medians of the repeats and their deviations."""
    device = jax.devices()[0].device_kind
    return [
        Row(
            *("bench", dataset, algorithm, metric),
            mean=median(values),
            std=stdev(values) if len(values) > 1 else 0.0,
            seeds=parameters.get("seeds", 1),
            parameters={"repeats": len(values), "device": device, **parameters},
        )
        for metric, values in of_metrics.items()
    ]


def peak_memory(field: str = "VmHWM") -> float:
    """Return the result of :func:`jaxmkl.evaluate.held_bytes` in MiB."""
    return held_bytes(field) / 2**20


def in_own_process(function: Callable, *arguments: Any) -> Any:
    """Return the result of a function in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()
