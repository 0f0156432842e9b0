"""Learners around learners: scaling, label budgets, densities, intervals, late labels.

A wrapper is a learner like any other: it can be scanned, vmapped, differentiated, saved, and
wrapped again.
"""

from jaxmkl.wrappers.delayed import Delayed, delayed
from jaxmkl.wrappers.intervals import Intervals, intervals
from jaxmkl.wrappers.label_budget import LabelBudget, label_budget
from jaxmkl.wrappers.lagged import Lagged, lagged
from jaxmkl.wrappers.one_vs_rest import OneVsRest, one_vs_rest
from jaxmkl.wrappers.predictive import Predictive, predictive
from jaxmkl.wrappers.probabilities import Probabilities, probabilities
from jaxmkl.wrappers.scaled import (
    AllBut,
    RunningMoments,
    RunningRanks,
    ScaledInputs,
    Scaler,
    scaled,
)
from jaxmkl.wrappers.targets import ScaledTargets, scaled_targets
from jaxmkl.wrappers.wrapper import OnBlocks, OneByOne, Wrapper, WrapperState, layers

__all__ = [
    "AllBut",
    "Delayed",
    "Intervals",
    "LabelBudget",
    "Lagged",
    "OnBlocks",
    "OneByOne",
    "OneVsRest",
    "Predictive",
    "Probabilities",
    "RunningMoments",
    "RunningRanks",
    "ScaledInputs",
    "ScaledTargets",
    "Scaler",
    "Wrapper",
    "WrapperState",
    "delayed",
    "intervals",
    "label_budget",
    "lagged",
    "layers",
    "one_vs_rest",
    "predictive",
    "probabilities",
    "scaled",
    "scaled_targets",
]
