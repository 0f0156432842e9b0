"""Moved to :mod:`jaxmkl.streaming.sparse`."""

from jaxmkl.streaming.sparse import SparseRows as SparseRows
