"""Online and active multiple kernel learning in JAX.

At the top is what a first hour needs: kernels, the published algorithms by name, drivers, the
composed learner. :mod:`jaxmkl.guide` has the guides. The rest lives in namespaces:

- :mod:`jaxmkl.aggregate`, :mod:`jaxmkl.select`, :mod:`jaxmkl.query`, :mod:`jaxmkl.updates`: the
  parts of a composed learner (:mod:`jaxmkl.mkl`);
- :mod:`jaxmkl.models`, :mod:`jaxmkl.features`, :mod:`jaxmkl.kernels`, :mod:`jaxmkl.losses`,
  :mod:`jaxmkl.optimizers`: what its models are made of; :mod:`jaxmkl.reservoir`: the examples
  that learned kernels look back at;
- :mod:`jaxmkl.learners`: learners of their own kind; :mod:`jaxmkl.abilities`: what only some parts
  can do, as growth, merging and late labels;
- :mod:`jaxmkl.recipes`: the published algorithms, with their formulas;
- :mod:`jaxmkl.wrappers`: scaling, label budgets, late labels, intervals, ...;
- :mod:`jaxmkl.streaming`: drivers, sparse inputs; :mod:`jaxmkl.merging`: shards of a stream;
- :mod:`jaxmkl.design`: choosing the points worth labelling from a pool;
- :mod:`jaxmkl.tables`, :mod:`jaxmkl.labels`: files, DataFrames, pipelines in files; labels
  as numbers;
- :mod:`jaxmkl.metrics`: what a run achieved; :mod:`jaxmkl.distributions`: what is predicted where
  a number is not enough;
- :mod:`jaxmkl.evaluate`: scores, baselines and candidates of an evaluation, as plain values;
- :mod:`jaxmkl.pytree`, :mod:`jaxmkl.testing`: for kernels, rules and learners of one's own;
- ``jaxmkl.sklearn``: estimators for scikit-learn, where that is installed and this imported.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if "jaxmkl" in {Path(word).stem for word in sys.orig_argv}:  # perhaps the command
    from jaxmkl import _command  # noqa: F401 (before all others, as interrupts end it)

from jaxmkl import (
    abilities,
    aggregate,
    design,
    distributions,
    features,
    guide,
    kernels,
    labels,
    learners,
    losses,
    merging,
    metrics,
    mkl,
    models,
    optimizers,
    pytree,
    query,
    recipes,
    reservoir,
    select,
    streaming,
    testing,
    updates,
    wrappers,
)
from jaxmkl._algorithm import Algorithm, State
from jaxmkl._compile_cache import compile_cache
from jaxmkl._learner import Learner, Output, Prediction
from jaxmkl._version import __version__
from jaxmkl.checkpoint import load, save
from jaxmkl.kernels import Cauchy, Gaussian, KernelDictionary, Laplacian, Linear, Polynomial
from jaxmkl.merging import merge
from jaxmkl.mkl import MKL
from jaxmkl.recipes import (
    LEARNERS,
    amkl,
    amkl_aks,
    bogd,
    bpas,
    expert_mkl,
    forgetron,
    kernel_ogd,
    multitask,
    okl_gd,
    oks,
    oks_sil,
    omkc_dd,
    omkc_sd,
    omkc_u,
    omkl,
    omkl_aks,
    omkl_b,
    perceptron,
    proj_ka,
    projectron,
    raker,
    rbp,
    spa,
)
from jaxmkl.streaming import permutations, run, run_fleet, run_many, stream
from jaxmkl.wrappers import label_budget, scaled

if TYPE_CHECKING:
    from jaxmkl import evaluate, tables
    from jaxmkl.tables import Pipeline, load_pipeline, save_pipeline

__all__ = [
    "LEARNERS",
    "MKL",
    "Algorithm",
    "Cauchy",
    "Gaussian",
    "KernelDictionary",
    "Laplacian",
    "Learner",
    "Linear",
    "Output",
    "Pipeline",
    "Polynomial",
    "Prediction",
    "State",
    "__version__",
    "abilities",
    "aggregate",
    "amkl",
    "amkl_aks",
    "bogd",
    "bpas",
    "compile_cache",
    "design",
    "distributions",
    "evaluate",
    "expert_mkl",
    "features",
    "forgetron",
    "guide",
    "kernel_ogd",
    "kernels",
    "label_budget",
    "labels",
    "learners",
    "load",
    "load_pipeline",
    "losses",
    "merge",
    "merging",
    "metrics",
    "mkl",
    "models",
    "multitask",
    "okl_gd",
    "oks",
    "oks_sil",
    "omkc_dd",
    "omkc_sd",
    "omkc_u",
    "omkl",
    "omkl_aks",
    "omkl_b",
    "optimizers",
    "perceptron",
    "permutations",
    "proj_ka",
    "projectron",
    "pytree",
    "query",
    "raker",
    "rbp",
    "recipes",
    "reservoir",
    "run",
    "run_fleet",
    "run_many",
    "save",
    "save_pipeline",
    "scaled",
    "select",
    "spa",
    "stream",
    "streaming",
    "tables",
    "testing",
    "updates",
    "wrappers",
]


def __getattr__(name: str) -> Any:
    """Import evaluations and tables when they are asked for, as learners do not need them."""
    if name in ("evaluate", "tables"):
        return importlib.import_module(f"{__name__}.{name}")
    pipelines = "Pipeline", "load_pipeline", "save_pipeline"
    if name not in pipelines:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    tables = importlib.import_module(f"{__name__}.tables")
    globals().update((late, getattr(tables, late)) for late in pipelines)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
