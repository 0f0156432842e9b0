"""Update rules, which say how a model changes with a labelled example."""

from jaxmkl.updates import first_order, second_order
from jaxmkl.updates.adaptive import Optax
from jaxmkl.updates.first_order import (
    OGD,
    NormalizedOGD,
    PassiveAggressive,
    Perceptron,
    SparsePassiveAggressive,
    Step,
    Update,
)
from jaxmkl.updates.recursive import Recursive
from jaxmkl.updates.rule import Rule
from jaxmkl.updates.second_order import RLS

__all__ = [
    "OGD",
    "RLS",
    "NormalizedOGD",
    "Optax",
    "PassiveAggressive",
    "Perceptron",
    "Recursive",
    "Rule",
    "SparsePassiveAggressive",
    "Step",
    "Update",
    "first_order",
    "second_order",
]
