"""Drivers: a learner over a stream, over many permutations of it, over chunks from anywhere."""

from jaxmkl.streaming.checkpoints import Checkpoints
from jaxmkl.streaming.run import permutations, run, run_many, stream, without_info
from jaxmkl.streaming.sparse import SparseRows

__all__ = [
    "Checkpoints",
    "SparseRows",
    "permutations",
    "run",
    "run_many",
    "stream",
    "without_info",
]
