"""Renewing: banks that learn their kernels do so from the memory of the learner, in some rounds.

A bank whose ``first`` is not None registers :func:`renewed`, and :func:`renews` if its rounds are
others.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl._blocks import take
from jaxmkl._types import PyTree, State
from jaxmkl.reservoir import Renewal, is_doubling


@functools.singledispatch
def renews(bank: Any, round: Any) -> Any:
    """True if a bank is renewed when a round begins: at ``first``, twice, four times that.

    A round is an integer, or an array inside a trace. It may be any that is ``first`` or 3/2
    of it times a power of two.
    """
    return False if bank.first is None else is_doubling(round, bank.first)


@functools.singledispatch
def renewed(bank: Any, state: State, renewal: Renewal) -> State:
    """The state with kernels learned anew from the memory.

    No derivative goes through it, and any loops in it may have a dynamic length.
    """
    return state


@functools.singledispatch
def gradients(rule: Any, state: PyTree, round: jax.Array, z: jax.Array) -> jax.Array:
    """The derivatives θ (K, R, P, M) of a rule's models by their features, at z (P, M).

    By default JAX derives ``encode`` and ``predict``.
    """

    def values(z: jax.Array) -> jax.Array:
        code = take(rule.encode(state, round, z[None]), 0)
        return rule.predict(state, code, z)[0]

    def along(direction: jax.Array) -> jax.Array:
        # forward, as a sum over models would spread what has diverged to all of them
        return jax.jvp(values, (z,), (jnp.broadcast_to(direction, z.shape),))[1]

    # the value of a kernel depends on its own features alone
    return jax.vmap(along, out_axes=-1)(jnp.eye(z.shape[-1], dtype=z.dtype))
