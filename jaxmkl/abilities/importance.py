"""Importance of the inputs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._types import PyTree
from jaxmkl.abilities.walk import found


@functools.singledispatch
def importances(part: Any, state: PyTree) -> jax.Array | None:
    """How much each input matters (D,), of sum 1; None of a part that does not learn it.

    By default it is the mean over the parts inside that know it.
    """
    known = [shares for shares in found(importances, part, state) if shares is not None]
    if not known:
        return None
    D = known[0].shape[-1]
    return jnp.mean(jnp.concatenate([shares.reshape(-1, D) for shares in known]), axis=0)
