"""Losses L(f, y) of a real prediction f, with the derivative by f that the papers use.

    squared     (f - y)²                                                  regression
    huber       r² where |r| <= 1, else 2 |r| - 1, with r = f - y         regression
    logistic    log(1 + exp(-y f))                                        classification
    hinge       max(0, 1 - y f)                                           classification

At a kink the derivative is written out: the hinge loss moves a model only where y f < 1.
Labels of classifiers are -1 and +1.

Huber's loss (Huber, 1964) is the squared one near 0; no label moves a first-order model further
than one at distance 1 does. That is one unit of the target: one standard deviation behind
:func:`jaxmkl.wrappers.scaled_targets`, which says when to have it. Recursive least squares
descend the squared loss, whatever loss a learner is judged by.
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


def _bounded(residual: jax.Array) -> jax.Array:
    """The residual within [-1, 1]."""
    return jnp.clip(residual, -1.0, 1.0)


LOSSES: dict[str, Loss] = {
    # (f - y)²
    "squared": Loss(lambda f, y: (f - y) ** 2, lambda f, y: 2.0 * (f - y), "regression"),
    # c (2 r - c) with r = f - y and c = r within [-1, 1]
    "huber": Loss(
        lambda f, y: _bounded(f - y) * (2.0 * (f - y) - _bounded(f - y)),
        lambda f, y: 2.0 * _bounded(f - y),
        "regression",
    ),
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
