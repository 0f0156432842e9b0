"""Online and active multiple kernel learning in JAX.

At the top is what a first hour needs: kernels, the published algorithms by name, drivers, the
composed learner. The rest lives in namespaces:

    aggregate select query updates    the parts of a composed learner
    models features kernels           what its models are made of
    wrappers                          scaling, label budgets, late labels, ...
    streaming                         drivers, sparse inputs
    design                            choosing the points worth labelling from a pool
    tables (also data)                files, DataFrames, models in files, labels
    metrics losses                    what a run achieved
    pytree testing                    for kernels, rules and learners of one's own
"""

from jaxmkl import _pytree
from jaxmkl import aggregate as aggregate
from jaxmkl import design as design
from jaxmkl import features as features
from jaxmkl import kernels as kernels
from jaxmkl import losses as losses
from jaxmkl import metrics as metrics
from jaxmkl import models as models
from jaxmkl import query as query
from jaxmkl import recipes as recipes
from jaxmkl import select as select
from jaxmkl import streaming as streaming
from jaxmkl import tables as tables
from jaxmkl import testing as testing
from jaxmkl import updates as updates
from jaxmkl import wrappers as wrappers
from jaxmkl._learner import Algorithm as Algorithm
from jaxmkl._learner import Learner as Learner
from jaxmkl._learner import State as State
from jaxmkl._version import __version__ as __version__
from jaxmkl.checkpoint import load as load
from jaxmkl.checkpoint import save as save
from jaxmkl.kernels import Cauchy as Cauchy
from jaxmkl.kernels import Gaussian as Gaussian
from jaxmkl.kernels import KernelDictionary as KernelDictionary
from jaxmkl.kernels import Laplacian as Laplacian
from jaxmkl.kernels import Linear as Linear
from jaxmkl.kernels import Polynomial as Polynomial
from jaxmkl.mkl import MKL as MKL
from jaxmkl.recipes import LEARNERS as LEARNERS
from jaxmkl.recipes import amkl as amkl
from jaxmkl.recipes import amkl_aks as amkl_aks
from jaxmkl.recipes import bogd as bogd
from jaxmkl.recipes import bpas as bpas
from jaxmkl.recipes import expert_mkl as expert_mkl
from jaxmkl.recipes import forgetron as forgetron
from jaxmkl.recipes import kernel_ogd as kernel_ogd
from jaxmkl.recipes import multitask as multitask
from jaxmkl.recipes import okl_gd as okl_gd
from jaxmkl.recipes import oks as oks
from jaxmkl.recipes import oks_sil as oks_sil
from jaxmkl.recipes import omkc_dd as omkc_dd
from jaxmkl.recipes import omkc_sd as omkc_sd
from jaxmkl.recipes import omkc_u as omkc_u
from jaxmkl.recipes import omkl as omkl
from jaxmkl.recipes import omkl_aks as omkl_aks
from jaxmkl.recipes import omkl_b as omkl_b
from jaxmkl.recipes import perceptron as perceptron
from jaxmkl.recipes import proj_ka as proj_ka
from jaxmkl.recipes import projectron as projectron
from jaxmkl.recipes import raker as raker
from jaxmkl.recipes import rbp as rbp
from jaxmkl.recipes import spa as spa
from jaxmkl.streaming import permutations as permutations
from jaxmkl.streaming import run as run
from jaxmkl.streaming import run_many as run_many
from jaxmkl.streaming import stream as stream
from jaxmkl.tables import Model as Model
from jaxmkl.tables import load_model as load_model
from jaxmkl.tables import save_model as save_model
from jaxmkl.wrappers import label_budget as label_budget
from jaxmkl.wrappers import scaled as scaled

pytree = _pytree
data = tables
