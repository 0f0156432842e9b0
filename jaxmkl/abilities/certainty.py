"""Certainty: variances of what models predict."""

import functools
from typing import Any

import jax

from jaxmkl._types import PyTree


@functools.singledispatch
def variances(part: Any, state: PyTree, code: PyTree, aux: PyTree) -> jax.Array:
    """Variances of the models' values, as multiples of that of the labels' noise.

    They are (E,) of a bank, with 0 for models that do not know theirs, and (R, P) of a rule, from
    what ``predict`` returned as ``aux``. A learner has a variance where one of its rules
    registered this.
    """
    raise NotImplementedError(f"{type(part).__name__} does not know its variances")
