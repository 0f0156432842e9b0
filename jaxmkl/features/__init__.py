"""Feature maps: finite maps z with z(x)·z(x') close to k(x, x')."""

from jaxmkl.features import dictionary
from jaxmkl.features.dictionary import SampledDictionary
from jaxmkl.features.fourier import FourierFeatures
from jaxmkl.features.linear import LinearFeatures
from jaxmkl.features.map import FeatureMap

__all__ = [
    "FeatureMap",
    "FourierFeatures",
    "LinearFeatures",
    "SampledDictionary",
    "dictionary",
]
