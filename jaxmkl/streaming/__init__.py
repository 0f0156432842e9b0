"""Drivers: a learner over a stream, over permutations of it, over chunks; fleets of learners."""

from jaxmkl._programs import keep_programs
from jaxmkl.streaming._engine import without_info
from jaxmkl.streaming.checkpoints import Checkpoints
from jaxmkl.streaming.many import permutations, run_fleet, run_many
from jaxmkl.streaming.run import Stream, run, stream
from jaxmkl.streaming.sparse import SparseRows

__all__ = [
    "Checkpoints",
    "SparseRows",
    "Stream",
    "keep_programs",
    "permutations",
    "run",
    "run_fleet",
    "run_many",
    "stream",
    "without_info",
]
