"""What feature maps have in common."""

from typing import Any

import jax

from jaxmkl import _pytree as pytree
from jaxmkl.kernels import Kernel


class FeatureMap:
    """Base of all feature maps: frozen pytree dataclasses.

    A map gives an example x coordinates z_p(x) (P, M) for each of P kernels: for a block at once,
    by :meth:`encode`; but one that grows with the stream (``sequential``) by the methods ``offer``
    and ``accept`` of :class:`jaxmkl.features.SampledDictionary`.
    """

    sequential = False
    """Whether coordinates come one example after the other."""

    def num_coordinates(self, num_inputs: int) -> int:
        """M, for D inputs."""
        pytree.abstract(self, "num_coordinates")

    def check(self, kernels: Kernel) -> None:
        """Raise unless these kernels have such features."""

    def init(self, key: jax.Array, kernels: Any, num_inputs: int, dtype: Any = None) -> Any:
        """The map's state."""
        pytree.abstract(self, "init")

    def encode(self, state: Any, kernels: Any, X: jax.Array, round: jax.Array) -> Any:
        """Features (B, P, M) of the rows of ``X`` (B, D), or codes where ``sequential``."""
        pytree.abstract(self, "encode")

    def squared_norms(self, z: jax.Array) -> jax.Array:
        """|z_p|² (P,) of an example's features (P, M)."""
        return (z * z).sum(axis=-1)
