"""Feature maps: finite maps z with z(x)·z(x') close to k(x, x')."""

from jaxmkl.features.dictionary import SampledDictionary as SampledDictionary
from jaxmkl.features.fourier import FourierFeatures as FourierFeatures
from jaxmkl.features.linear import LinearFeatures as LinearFeatures
from jaxmkl.features.map import FeatureMap as FeatureMap
