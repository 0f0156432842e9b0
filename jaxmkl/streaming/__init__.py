"""Drivers: a learner over a stream, over many permutations of it, many over streams of their own, over chunks from anywhere."""

from jaxmkl.streaming.fleet import run_fleet
from jaxmkl.streaming.run import permutations, run, run_many, stream, without_info
from jaxmkl.streaming.sparse import SparseRows

__all__ = [
    "SparseRows",
    "permutations",
    "run",
    "run_fleet",
    "run_many",
    "stream",
    "without_info",
]
