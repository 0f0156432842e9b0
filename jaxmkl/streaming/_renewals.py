"""Renewals as programs of their own, which drivers call between segments of rounds.

So a bank whose kernels are learned adds nothing to the program of the rounds, and the first rounds
do not wait for the compilation of renewals. (To compile these in another thread meanwhile took
longer on two cores: 16 s for 15 to the first result of the default, and 28 processor seconds for
24.) Inside a user's trace renewals are a part of :meth:`jaxmkl.Learner.close`.
"""

from typing import Any, NamedTuple

import jax

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner
from jaxmkl._types import PyTree
from jaxmkl.mkl import MKL, MKLState
from jaxmkl.models import Bank
from jaxmkl.models.renewals import renew
from jaxmkl.wrappers.wrapper import layers


@pytree.dataclass
class _Between(MKL):
    """A composed learner between two renewals, which are left to the driver."""

    def _renewed(self, state: MKLState, ended: jax.Array) -> MKLState:
        return state


class Renewals(NamedTuple):
    """The renewals of a learner, apart from its rounds."""

    rounds: Learner
    """The learner without its renewals, which has the same states."""
    inside: MKL
    """The composed learner, within all wrappers."""

    @classmethod
    def of(cls, learner: Learner) -> "Renewals | None":
        """Those of a learner; None where there are none, or not in rounds that a driver counts."""
        *around, inside = layers(learner)
        apart = type(inside) is MKL and inside.memory is not None
        if not apart or not all(layer.keeps_rounds for layer in around):
            return None

        def between(part: Any) -> Any:
            is_inside = isinstance(part, MKL)
            return pytree.from_fields(_Between, vars(part)) if is_inside else part

        rounds = jax.tree.map(between, learner, is_leaf=lambda part: isinstance(part, MKL))
        return cls(rounds, inside)

    def after(self, round: int) -> int:
        """The round of the next renewal after this one."""
        return min(_next(bank, round) for bank in self.inside.models if bank.first is not None)

    def renewed(self, state: PyTree, round: int) -> PyTree:
        """The state after the renewals that are due when this round begins."""
        own = _inside(state)
        models = list(own.models)
        for i, bank in enumerate(self.inside.models):
            if bank.first is not None and bool(bank.renews(round)):
                given = bank, own.models[i], self.inside.memory, own.memory, own.round, i
                models[i] = renew(*given)
        return _with_inside(state, own.replace(models=tuple(models)))


def _next(bank: Bank, round: int) -> int:
    """The first round after this one in which a bank is renewed."""
    first: Any = bank.first
    starts = first, (3 * first // 2 if first % 2 == 0 else 3 * first)
    rounds = sorted(start << k for start in starts for k in range(31))
    later = (at for at in rounds if at > round and bool(bank.renews(at)))
    return next(later, 2**31)


def _is_inside(part: Any) -> bool:
    return isinstance(part, MKLState)


def _inside(state: PyTree) -> MKLState:
    """The state of the composed learner within those of wrappers."""
    return next(filter(_is_inside, jax.tree.leaves(state, is_leaf=_is_inside)))


def _with_inside(state: PyTree, own: MKLState) -> PyTree:
    return jax.tree.map(lambda p: own if _is_inside(p) else p, state, is_leaf=_is_inside)
