"""Update rules: what one model does with a labelled example, of first order and of second."""

from jaxmkl.updates.first_order import OGD as OGD
from jaxmkl.updates.first_order import NormalizedOGD as NormalizedOGD
from jaxmkl.updates.first_order import PassiveAggressive as PassiveAggressive
from jaxmkl.updates.first_order import Perceptron as Perceptron
from jaxmkl.updates.first_order import SparsePassiveAggressive as SparsePassiveAggressive
from jaxmkl.updates.first_order import Step as Step
from jaxmkl.updates.first_order import Update as Update
from jaxmkl.updates.recursive import Recursive as Recursive
from jaxmkl.updates.rule import Rule as Rule
from jaxmkl.updates.second_order import RLS as RLS
from jaxmkl.updates.second_order import SecondOrder as SecondOrder
