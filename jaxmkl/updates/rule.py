"""What rules of first and of second order have in common."""


class Rule:
    """Base of all update rules, frozen pytree dataclasses.

    A rule has models at R rates for each of P kernels, (R, P) in all. An argument outside its
    range raises a ``ValueError`` that names it.
    """

    loss: str = "hinge"
    """Name of the loss it descends, in :data:`jaxmkl.losses.LOSSES`."""

    @property
    def num_rates(self) -> int:
        """Number of rates R."""
        return 1
