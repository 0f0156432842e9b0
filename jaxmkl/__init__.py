"""Online and active multiple kernel learning in JAX."""

from jaxmkl.kernels import Cauchy as Cauchy
from jaxmkl.kernels import Gaussian as Gaussian
from jaxmkl.kernels import KernelDictionary as KernelDictionary
from jaxmkl.kernels import Laplacian as Laplacian
from jaxmkl.kernels import Linear as Linear
from jaxmkl.kernels import Polynomial as Polynomial
from jaxmkl.labelling import Always as Always
from jaxmkl.labelling import Confidence as Confidence
from jaxmkl.learner import Learner as Learner
from jaxmkl.learner import Output as Output
from jaxmkl.learner import Prediction as Prediction
from jaxmkl.learners.feature_mkl import FeatureMKL as FeatureMKL
from jaxmkl.learners.feature_mkl import amkl as amkl
from jaxmkl.learners.feature_mkl import amkl_aks as amkl_aks
from jaxmkl.learners.feature_mkl import expert_mkl as expert_mkl
from jaxmkl.learners.feature_mkl import omkl_aks as omkl_aks
from jaxmkl.learners.feature_mkl import raker as raker
from jaxmkl.local_rules import OGD as OGD
from jaxmkl.local_rules import RLS as RLS
from jaxmkl.random_features import FourierFeatures as FourierFeatures
from jaxmkl.selection import AdaptiveKernelSelection as AdaptiveKernelSelection
from jaxmkl.selection import AllKernels as AllKernels
from jaxmkl.streams import run as run
from jaxmkl.streams import run_many as run_many

LEARNERS = {f.__name__: f for f in (raker, omkl_aks, amkl, amkl_aks, expert_mkl)}
