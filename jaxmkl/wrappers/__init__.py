"""Learners around learners: scaling, budgets of labels, intervals, classes, late labels.

A wrapper is a learner like any other: it may be scanned, vmapped, differentiated, saved, and
wrapped again.
"""

from jaxmkl.wrappers.delayed import Delayed as Delayed
from jaxmkl.wrappers.delayed import delayed as delayed
from jaxmkl.wrappers.intervals import Intervals as Intervals
from jaxmkl.wrappers.intervals import intervals as intervals
from jaxmkl.wrappers.label_budget import LabelBudget as LabelBudget
from jaxmkl.wrappers.label_budget import label_budget as label_budget
from jaxmkl.wrappers.lagged import Lagged as Lagged
from jaxmkl.wrappers.lagged import lagged as lagged
from jaxmkl.wrappers.one_vs_rest import OneVsRest as OneVsRest
from jaxmkl.wrappers.one_vs_rest import one_vs_rest as one_vs_rest
from jaxmkl.wrappers.probabilities import Probabilities as Probabilities
from jaxmkl.wrappers.probabilities import probabilities as probabilities
from jaxmkl.wrappers.scaled import RunningMoments as RunningMoments
from jaxmkl.wrappers.scaled import RunningRanks as RunningRanks
from jaxmkl.wrappers.scaled import Scaled as Scaled
from jaxmkl.wrappers.scaled import Scaler as Scaler
from jaxmkl.wrappers.scaled import scaled as scaled
from jaxmkl.wrappers.targets import ScaledTargets as ScaledTargets
from jaxmkl.wrappers.targets import scaled_targets as scaled_targets
from jaxmkl.wrappers.wrapper import OneByOne as OneByOne
from jaxmkl.wrappers.wrapper import Wrapper as Wrapper
from jaxmkl.wrappers.wrapper import WrapperState as WrapperState
