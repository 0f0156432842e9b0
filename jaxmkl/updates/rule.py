"""What rules of first and of second order have in common."""

from typing import Any

from jaxmkl import _pytree as pytree
from jaxmkl.losses import HasLoss


class Rule(HasLoss):
    """Base of all update rules, frozen pytree dataclasses.

    A rule has models at R rates for each of P kernels, (R, P) in all. An argument outside its
    range raises a ``ValueError`` that names it.
    """

    loss: Any = "hinge"
    """The loss it descends, in a subclass perhaps by a name in :data:`jaxmkl.losses.LOSSES`."""

    @property
    def num_rates(self) -> int:
        """Number of rates R."""
        return 1

    def merged(self, states: Any, start: Any) -> Any:
        """One state of those of shards, all leaves with a leading axis (:func:`jaxmkl.merge`).

        ``start`` is the state that they began with; None for one of a learner's ``init``.
        """
        wanted = "jaxmkl.updates.RLS: what others learned does not add up"
        pytree.require(False, "merge", "a rule", self, wanted)
