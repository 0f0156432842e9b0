"""Losses L(f, y) of a real prediction f, with the derivative by f that the papers use.

At a kink the derivative is written out: the hinge loss moves a model only where y f < 1.
Labels of classifiers are -1 and +1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["LOSSES", "Loss"]


class Loss(NamedTuple):
    """A loss: its value and its derivative by the prediction, elementwise, and its task."""

    value: Callable[[jax.Array, jax.Array], jax.Array]
    slope: Callable[[jax.Array, jax.Array], jax.Array]
    task: str


LOSSES: dict[str, Loss] = {
    # (f - y)²
    "squared": Loss(lambda f, y: (f - y) ** 2, lambda f, y: 2.0 * (f - y), "regression"),
    # log(1 + exp(-y f))
    "logistic": Loss(
        lambda f, y: jax.nn.softplus(-y * f),
        lambda f, y: -y * jax.nn.sigmoid(-y * f),
        "classification",
    ),
    # max(0, 1 - y f)
    "hinge": Loss(
        lambda f, y: jnp.maximum(1.0 - y * f, 0.0),
        lambda f, y: jnp.where(y * f < 1.0, -y, jnp.zeros_like(f)),
        "classification",
    ),
}
