"""Banks of models: on features, with support vectors in a store, forests, or neighbours."""

from jaxmkl._feedback import Feedback
from jaxmkl.models import supports
from jaxmkl.models.bank import Bank
from jaxmkl.models.likelihood import LikelihoodModels
from jaxmkl.models.metric import MetricModels
from jaxmkl.models.neighbours import NeighbourModels
from jaxmkl.models.on_features import FeatureModels
from jaxmkl.models.on_supports import SupportModels
from jaxmkl.models.side_by_side import SideBySide
from jaxmkl.models.supports import BudgetSupport, DenseSupport, SparseSupport
from jaxmkl.models.trees import TreeModels

__all__ = [
    "Bank",
    "BudgetSupport",
    "DenseSupport",
    "FeatureModels",
    "Feedback",
    "LikelihoodModels",
    "MetricModels",
    "NeighbourModels",
    "SideBySide",
    "SparseSupport",
    "SupportModels",
    "TreeModels",
    "supports",
]
