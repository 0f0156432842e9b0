"""Aggregates: how the values of E models become one prediction, and how models are judged."""

from jaxmkl.aggregate.base import Aggregate as Aggregate
from jaxmkl.aggregate.base import Combination as Combination
from jaxmkl.aggregate.hedge import DrawOne as DrawOne
from jaxmkl.aggregate.hedge import Hedge as Hedge
from jaxmkl.aggregate.hedge import HedgeState as HedgeState
from jaxmkl.aggregate.hedge import Uniform as Uniform
from jaxmkl.aggregate.mixture import Mixture as Mixture
from jaxmkl.aggregate.stack import Stack as Stack
