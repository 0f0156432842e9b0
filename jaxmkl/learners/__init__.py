"""Learners of their own kind, which are not composed of banks: moving kernels, many tasks."""

from jaxmkl.learners import aligned, moving, multitask, own_kernels, sketch
from jaxmkl.learners.aligned import Aligned
from jaxmkl.learners.moving import MovingKernel
from jaxmkl.learners.multitask import MultiTask
from jaxmkl.learners.own_kernels import OwnKernels
from jaxmkl.learners.sketch import HypothesisSketch

__all__ = [
    "Aligned",
    "HypothesisSketch",
    "MovingKernel",
    "MultiTask",
    "OwnKernels",
    "aligned",
    "moving",
    "multitask",
    "own_kernels",
    "sketch",
]
