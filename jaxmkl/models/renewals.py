"""Renewals of banks that learn their kernels, amid the rounds of a learner and apart from them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.custom_derivatives import zero_from_primal

from jaxmkl import abilities
from jaxmkl._blocks import largest_of_runs, of_each, wanted_of_runs
from jaxmkl._devices import device_of
from jaxmkl._programs import Kept
from jaxmkl._renewals import Renewals
from jaxmkl._threads import mapping
from jaxmkl._types import PyTree
from jaxmkl.models.bank import Bank
from jaxmkl.reservoir import Renewal, Reservoir, ReservoirState


@partial(Kept, quickly=0)
def renew(
    bank: Bank,
    state: PyTree,
    reservoir: Reservoir,
    memory: PyTree,
    round: jax.Array,
    place: int,
    merged: bool = False,
    *,
    in_turn: bool = False,
) -> PyTree:
    """The state of a bank, the one at a ``place``, renewed from a memory when a round begins.

    In a merge it begins with the state of one shard, and the memory is that of all.

    Where learners stand side by side, states, memories and rounds have their leading axes, and
    they are renewed together or ``in_turn``.
    """

    def one(state: PyTree, memory: ReservoirState, round: jax.Array) -> PyTree:
        renewal = as_seen_by(reservoir.renewal(memory, round), place)
        return abilities.renewed(bank, state, renewal._replace(merged=jnp.asarray(merged)))

    return of_each(one, round, state, memory, round, in_turn=in_turn)


def as_seen_by(renewal: Renewal, place: int) -> Renewal:
    """As the bank at a place sees it, with draws of its own."""
    return renewal._replace(place=jnp.asarray(place, jnp.int32))


def apart(rounds: Any, banks: Sequence[Bank], memory: Reservoir, kind: type) -> Renewals:
    """The renewals of banks from a memory.

    Args:
      rounds: the learner without them.
      kind: the class of states that have those of the banks and of the memory; they may lie
        within states of wrappers.
    """
    learning = [(i, bank) for i, bank in enumerate(banks) if bank.first is not None]

    def is_own(part: Any) -> bool:
        return isinstance(part, kind)

    def renewed(state: PyTree, round: int) -> PyTree:
        due = [i for i, bank in learning if bool(abilities.renews(bank, round))]
        if not due:
            return state
        own = next(filter(is_own, jax.tree.leaves(state, is_leaf=is_own)))
        models = list(own.models)
        # together, they would take the compiler for TPUs five times as long, and CPUs 1.1 times as
        # long to renew
        platform = device_of(own.round).platform
        in_turn = platform != "gpu"

        def one(i: int) -> PyTree:
            return renew(banks[i], models[i], memory, own.memory, own.round, i, in_turn=in_turn)

        with mapping(len(due), platform) as apply:
            if apply is not map:
                # XLA would begin what waits for the same arrays one after the other
                jax.block_until_ready(own)
            renewed_banks = [*apply(one, due)]
        for i, bank in zip(due, renewed_banks, strict=True):
            models[i] = bank
        after = own.replace(models=tuple(models))
        return jax.tree.map(lambda p: after if is_own(p) else p, state, is_leaf=is_own)

    def after(round: int) -> int:
        return min(_next(bank, round) for _, bank in learning)

    return Renewals(rounds, after, renewed)


def _next(bank: Bank, round: int) -> int:
    """The first round after this one in which a bank is renewed."""
    first: Any = bank.first
    starts = first, (3 * first // 2 if first % 2 == 0 else 3 * first)
    rounds = sorted(start << k for start in starts for k in range(31))
    later = (at for at in rounds if at > round and bool(abilities.renews(bank, at)))
    return next(later, 2**31)


@jax.custom_jvp
def renewed_if(due: jax.Array, bank: Bank, renewal: Renewal, state: PyTree) -> PyTree:
    """The state of a bank, renewed if that is due.

    Under ``vmap`` a condition is a choice between both sides, worked out in every block; a loop
    that has no turns costs nothing.
    """

    def turn(number: jax.Array, own: PyTree) -> PyTree:
        # else XLA would see that all turns do the same, and do it before the loop, always
        given, own, _ = jax.lax.optimization_barrier((renewal, own, number))
        return optax.tree.where(wanted_of_runs(due), abilities.renewed(bank, own, given), own)

    return jax.lax.fori_loop(0, largest_of_runs(due.astype(jnp.int32)), turn, state)


@renewed_if.defjvp
def _derivative(primals: tuple, tangents: tuple) -> tuple:
    """A loop of dynamic length has no reverse derivative; what is learned anew is a constant."""
    due, after = primals[0], renewed_if(*primals)

    def kept(leaf: jax.Array, tangent: jax.Array) -> jax.Array:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return zero_from_primal(leaf)
        return jnp.where(due, jnp.zeros_like(tangent), tangent)

    return after, jax.tree.map(kept, after, tangents[-1])
