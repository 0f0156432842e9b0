"""Banks of models, on features or with support vectors."""

from jaxmkl.models.bank import Bank as Bank
from jaxmkl.models.bank import Lesson as Lesson
from jaxmkl.models.on_features import FeatureModels as FeatureModels
from jaxmkl.models.on_supports import SupportModels as SupportModels
from jaxmkl.models.supports import BudgetSupport as BudgetSupport
from jaxmkl.models.supports import DenseSupport as DenseSupport
from jaxmkl.models.supports import SparseSupport as SparseSupport
