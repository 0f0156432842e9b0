"""Drivers: a learner over a stream, over many permutations of it, over chunks from anywhere."""

from jaxmkl.streaming.run import permutations as permutations
from jaxmkl.streaming.run import run as run
from jaxmkl.streaming.run import run_many as run_many
from jaxmkl.streaming.run import stream as stream
from jaxmkl.streaming.run import without_info as without_info
from jaxmkl.streaming.sparse import SparseRows as SparseRows
