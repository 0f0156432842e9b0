"""The memory of a process and of a learner's state."""

import sys
from pathlib import Path

import jax

from jaxmkl._types import PyTree


def held_bytes(field: str = "VmHWM") -> int:
    """The largest memory of the process so far, in bytes; for "VmRSS", its present memory.

    A system that does not report the present memory gives the largest so far; Windows gives 0.
    """
    status = Path("/proc/self/status")
    if status.exists():  # where it does, getrusage starts with the memory of the parent process
        for line in status.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 2**10
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 2**10


def state_bytes(state: PyTree) -> int:
    """The size of a state's arrays in bytes, without its keys.

    >>> state_bytes((jax.random.key(0), jax.numpy.zeros(3, "float32")))
    12
    """
    is_key = jax.dtypes.prng_key
    arrays = jax.tree.leaves(state)
    return sum(a.nbytes for a in arrays if not jax.numpy.issubdtype(a.dtype, is_key))
