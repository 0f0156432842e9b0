"""Merging: states of shards that were learned separately become one (:func:`jaxmkl.merge`)."""

import functools
from typing import Any

from jaxmkl import _pytree as pytree
from jaxmkl._types import PyTree


@functools.singledispatch
def merged(part: Any, states: PyTree, start: PyTree | None) -> PyTree:
    """One state of a part from those of shards, whose leaves have a leading axis.

    ``start`` is the state with which they began; None for one of ``init``.

    Raises:
      ValueError: by default, as states of most parts cannot be added.
    """
    wanted = "models on features by least squares (jaxmkl.updates.RLS), or under learned metrics, "
    wanted += "or forests, under Uniform, Hedge or DrawOne: the states of others cannot be added"
    pytree.require(False, "merge", "a part of the learner", part, wanted)
