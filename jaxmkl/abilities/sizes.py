"""Sizes: of models, of their values, and of the steps that they take."""

import functools
from typing import Any

import jax

from jaxmkl._types import PyTree


@functools.singledispatch
def squared_norms(part: Any, state: PyTree) -> jax.Array:
    """|f_e|² of models: (E,) or (K, E) of a bank, and |θ|² (K, R, P) of a rule.

    A penalty in :class:`jaxmkl.aggregate.Hedge` wants them.
    """
    raise NotImplementedError(f"{type(part).__name__} does not know its norms")


@functools.singledispatch
def reach(part: Any, rounds: jax.Array) -> jax.Array | None:
    """How large values f_e of a classifier's models can be after so many rounds.

    This is in exact arithmetic: values far beyond it are lost to rounding. It is a number or
    (E,), infinite for models of which it is not known, and None where none is known. ``rounds`` is
    a number of the dtype wanted.
    """
    return None


@functools.singledispatch
def warn_of_steps(part: Any, norm: float | None = None) -> None:
    """Warn of step sizes that cannot converge on examples that all have this k(x, x), or |z|².

    A bank knows the norm of its examples itself, if it is known.
    """
