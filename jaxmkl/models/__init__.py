"""Banks of models, on features or with support vectors, and learners of their own kind."""

from jaxmkl._feedback import Feedback
from jaxmkl.models import aligned, gaussians, moving, multitask, own_kernels, sketch, supports
from jaxmkl.models.aligned import Aligned
from jaxmkl.models.bank import Bank
from jaxmkl.models.multitask import MultiTask
from jaxmkl.models.on_features import FeatureModels
from jaxmkl.models.on_supports import SupportModels
from jaxmkl.models.own_kernels import OwnKernels
from jaxmkl.models.sketch import HypothesisSketch
from jaxmkl.models.supports import BudgetSupport, DenseSupport, SparseSupport

__all__ = [
    "Aligned",
    "Bank",
    "BudgetSupport",
    "DenseSupport",
    "FeatureModels",
    "Feedback",
    "HypothesisSketch",
    "MultiTask",
    "OwnKernels",
    "SparseSupport",
    "SupportModels",
    "aligned",
    "gaussians",
    "moving",
    "multitask",
    "own_kernels",
    "sketch",
    "supports",
]
