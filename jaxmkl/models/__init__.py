"""Banks of models, on features or with support vectors."""

from jaxmkl.models.bank import Bank as Bank
from jaxmkl.models.bank import Lesson as Lesson
from jaxmkl.models.on_features import FeatureModels as FeatureModels
