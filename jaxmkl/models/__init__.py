"""Banks of models, on features or with support vectors, and learners of their own kind."""

from jaxmkl.models.aligned import Aligned as Aligned
from jaxmkl.models.bank import Bank as Bank
from jaxmkl.models.bank import Lesson as Lesson
from jaxmkl.models.multitask import MultiTask as MultiTask
from jaxmkl.models.on_features import FeatureModels as FeatureModels
from jaxmkl.models.on_supports import SupportModels as SupportModels
from jaxmkl.models.own_kernels import OwnKernels as OwnKernels
from jaxmkl.models.sketch import HypothesisSketch as HypothesisSketch
from jaxmkl.models.supports import BudgetSupport as BudgetSupport
from jaxmkl.models.supports import DenseSupport as DenseSupport
from jaxmkl.models.supports import SparseSupport as SparseSupport
