"""Computations on several cores of a CPU: XLA runs those of one thread one after the other."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

_here = threading.local()


def num_cores() -> int:
    """The cores that this process may use."""
    is_known = hasattr(os, "sched_getaffinity")  # not on macOS and Windows
    return len(os.sched_getaffinity(0)) if is_known else os.cpu_count() or 1


def leave_cores() -> None:
    """Let the computations of this thread follow each other, as others have the cores."""
    _here.leaves_cores = True


@contextlib.contextmanager
def mapping(number: int, platform: str) -> Iterator[Callable[..., Any]]:
    """A ``map`` of so many computations, on a CPU of as many at a time as there are cores.

    Threads begin with JAX's settings of the process; where others hold, as in ``with
    jax.enable_x64():``, computations follow each other, and so do those within one of them.
    """
    leaves = platform != "cpu" or getattr(_here, "leaves_cores", False)
    cores = 1 if leaves else min(num_cores(), number)
    with ThreadPoolExecutor(max(1, cores), initializer=leave_cores) as pool:
        yield pool.map if cores > 1 and _begins_with_our_settings(pool) else map


def _begins_with_our_settings(pool: ThreadPoolExecutor) -> bool:
    """True if a thread of the pool has JAX's settings of this one."""
    try:
        return pool.submit(_settings).result() == _settings()
    except RuntimeError:  # no thread begins any more when the main one has ended
        return False


def _settings() -> tuple:
    """JAX's settings in this thread."""
    every = {name: getattr(jax.config, name, None) for name in jax.config.values}
    return every, jax.sharding.get_mesh()
