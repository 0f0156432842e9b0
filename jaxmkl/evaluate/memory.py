"""How much memory a process and a learner's state take."""

import sys
from pathlib import Path

import jax

from jaxmkl._types import PyTree


def held_bytes(field: str = "VmHWM") -> int:
    """The most memory that the process has held so far; of "VmRSS" what it holds now.

    Where the system does not tell what is held now, the most so far stands for it; 0 on Windows.
    """
    status = Path("/proc/self/status")
    if status.exists():  # there getrusage starts with what the parent process held
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
    """The bytes of a state's arrays, its keys left out.

    >>> state_bytes((jax.random.key(0), jax.numpy.zeros(3, "float32")))
    12
    """
    is_key = jax.dtypes.prng_key
    arrays = jax.tree.leaves(state)
    return sum(a.nbytes for a in arrays if not jax.numpy.issubdtype(a.dtype, is_key))
