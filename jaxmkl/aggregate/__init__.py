"""Aggregates: how the values of E models become one prediction, and how models are judged."""

from jaxmkl.aggregate import hedge, mixture
from jaxmkl.aggregate.base import Aggregate, Combination
from jaxmkl.aggregate.hedge import DrawOne, Hedge, HedgeState, Uniform
from jaxmkl.aggregate.mixture import Mixture
from jaxmkl.aggregate.stack import Stack

__all__ = [
    "Aggregate",
    "Combination",
    "DrawOne",
    "Hedge",
    "HedgeState",
    "Mixture",
    "Stack",
    "Uniform",
    "hedge",
    "mixture",
]
