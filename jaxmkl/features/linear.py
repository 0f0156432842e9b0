"""Inputs themselves as features: linear models beside those of kernels."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl.features.map import FeatureMap
from jaxmkl.kernels import Kernel, Linear


@pytree.dataclass
class LinearFeatures(FeatureMap[tuple, jax.Array, tuple]):
    """The D inputs and a constant, for linear models.

        z(x) = (x, 1) / sqrt(D + 1),      z(x)·z(x') = (x·x' + 1) / (D + 1)

    On standardised inputs |z|² is 1 on average. So step sizes and ridge penalties mean what they
    mean on :class:`FourierFeatures` of scale "mean", but |z|² differs from example to example:
    rules of first order need steps that are normalised (:class:`jaxmkl.updates.NormalizedOGD`),
    or smaller ones. A rule of second order keeps a covariance (D + 1, D + 1).

    Raises:
      ValueError: by :meth:`check`, for another kernel than :class:`jaxmkl.Linear`.

    A bank on them stands beside any other, here beside the models of ``expert_mkl``, for wide
    inputs or few of them that matter:

    >>> import jaxmkl
    >>> from jaxmkl.updates import RLS, NormalizedOGD
    >>> rules = NormalizedOGD(0.3), RLS(0.1, (1.0, 0.999))
    >>> linear = jaxmkl.models.FeatureModels(jaxmkl.Linear(), rules, LinearFeatures())
    >>> expert = jaxmkl.expert_mkl()
    >>> jaxmkl.MKL((*expert.models, linear), expert.aggregate).num_models  # 25 and 3
    28
    """

    def num_coordinates(self, num_inputs: int) -> int:
        return num_inputs + 1

    def check(self, kernels: Kernel) -> None:
        pytree.require(isinstance(kernels, Linear), self, "kernels", kernels, "jaxmkl.Linear()")

    def init(
        self, key: jax.Array, kernels: Kernel, num_inputs: int, dtype: DTypeLike | None = None
    ) -> tuple:
        return ()

    def encode(
        self, state: tuple, kernels: Kernel, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> jax.Array:
        """Features (B, 1, D + 1)."""
        z = jnp.concatenate([X, jnp.ones_like(X[:, :1])], axis=1)
        return (z / jnp.sqrt(jnp.asarray(z.shape[1], X.dtype)))[:, None, :]
