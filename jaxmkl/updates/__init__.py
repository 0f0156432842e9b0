"""Update rules: what one model does with a labelled example, of first order and of second."""

from jaxmkl.updates import first_order, second_order
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
from jaxmkl.updates.second_order import RLS, SecondOrder

__all__ = [
    "OGD",
    "RLS",
    "NormalizedOGD",
    "PassiveAggressive",
    "Perceptron",
    "Recursive",
    "Rule",
    "SecondOrder",
    "SparsePassiveAggressive",
    "Step",
    "Update",
    "first_order",
    "second_order",
]
