"""Kernel selection: from a continuum (OKS-SIL, OKL-GD) and from a dictionary (OKS, Proj-KA).

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, section 6.
"""

from typing import TypeAlias

import numpy as np
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number
from jaxmkl.aggregate import DrawOne
from jaxmkl.kernels import GaussianWidths, Kernel, KernelSpace, zhang_liao
from jaxmkl.learners import Aligned, HypothesisSketch, OwnKernels
from jaxmkl.losses import Loss
from jaxmkl.mkl import MKL
from jaxmkl.models import BudgetSupport, DenseSupport
from jaxmkl.models.supports import Project
from jaxmkl.optimizers import Optimizer, as_optimizer
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL, bank_of, recipe
from jaxmkl.updates import OGD, Perceptron

OptimizerLike: TypeAlias = "Optimizer | optax.GradientTransformation | None"


@recipe
def oks_sil(
    space: KernelSpace | None = None,
    *,
    optimizer: OptimizerLike = None,
    budget: int = 200,
    step_size: Number = 0.1,
    loss: Loss | str = "hinge",
    query: Query = ASK_ALL,
    threshold: Number = 0.9,
    num_sampled: int = 3,
    ties: str = "first",
    gradients: str = "prediction",
) -> HypothesisSketch:
    """OKS-SIL: a hypothesis of constant size, whose kernel moves by gradient steps.

    Args:
      space: kernels to choose from; by default Gaussians with one bandwidth in [2^-6.5, 2^5.5].
      optimizer: moves the kernel: :class:`jaxmkl.optimizers.InverseTime` by default, with the step
        1/t, :class:`jaxmkl.optimizers.FromOptax`, or any ``optax.GradientTransformation``.
      budget: B, the number of basis functions (in the paper 150 for streams below 10^4 examples,
        else 200).
      step_size: η.
      loss: L, a loss of :mod:`jaxmkl.losses`, or one of its names.
      query: when a label is asked for, by default always.
      threshold: ν in [0, 1]; the smaller it is, the more basis functions are replaced.
      num_sampled: s, the number of basis functions with which a new one is compared.
      ties: which one of several smallest |w| is replaced, the "first" in place, as in the paper,
        or the "oldest".
      gradients: where the loss is differentiated, at the "prediction", as in the paper's Algorithm
        1, or at the "sketches" f^b and f^w, as in its text (:mod:`jaxmkl.learners.sketch`).

    References:
      Zhang and Liao (2020), Algorithm 1; its formulas: :mod:`jaxmkl.learners.sketch`.

    >>> oks_sil(GaussianWidths(start=1.0), step_size=1.0, budget=100).optimizer
    InverseTime(rate=1.0)
    """
    space = GaussianWidths() if space is None else space
    moved = space, budget, step_size, as_optimizer(optimizer), loss, query
    return HypothesisSketch(*moved, threshold, num_sampled, ties, gradients)


@recipe
def okl_gd(
    space: KernelSpace | None = None,
    *,
    budget: int = 2000,
    optimizer: OptimizerLike = None,
    step_size: Number = 0.1,
    loss: Loss | str = "hinge",
    query: Query = ASK_ALL,
) -> OwnKernels:
    """OKL-GD: kernel online gradient descent, in which every centre keeps its first kernel.

    Args:
      space: as for :func:`oks_sil`, but by default gradients are taken by the bandwidth itself.
      budget: M, the number of centres; the oldest is evicted.
      optimizer, step_size, loss, query: as for :func:`oks_sil`.

    References:
      Chen, Liang, Zheng and Príncipe (2016); Zhang and Liao (2020), Table 2. The formulas:
      :mod:`jaxmkl.learners.own_kernels`.

    >>> okl_gd(budget=500, step_size=0.2).optimizer
    InverseTime(rate=1.0)
    """
    space = GaussianWidths(coordinate="bandwidth") if space is None else space
    return OwnKernels(space, budget, step_size, as_optimizer(optimizer), loss, query)


@recipe
def oks(
    kernels: Kernel | None = None,
    *,
    step_size: Number = 0.1,
    smoothing: Number = 0.2,
    num_rounds: int = 10_000,
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """OKS: each round draws one kernel; it alone predicts and learns, and its weight changes.

        I ~ p,    p_i = (1 - δ) w_i / Σ w + δ / P,    prediction = s(f_I)
        if y f_I < 1:    f_I <- f_I + η y k_I(x, ·)
        if y f_I <= 0:   w_I <- w_I exp(-η_g / p_I)

    with s(0) = 1 and η_g = sqrt(2 (1 - δ) ln P / (P T)).

    Args:
      kernels: by default the 25 Gaussians of :func:`jaxmkl.kernels.zhang_liao`.
      step_size: η.
      smoothing: δ in (0, 1].
      num_rounds: T, the length of the stream, which sets η_g.
      capacity, query: as for :func:`jaxmkl.perceptron`.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2; Zhang and Liao (2020), Table 2.

    >>> round(oks(num_rounds=1000).aggregate.rate, 4)
    0.0144
    """
    # exponents matter: the sign of a value below the smallest float32 changes a kernel's weight
    models = bank_of(kernels, OGD(step_size, 0.0, "hinge"), DenseSupport(capacity), zhang_liao)
    num_rounds = pytree.as_count("oks", "num_rounds", num_rounds)
    smoothing = DrawOne(0.0, smoothing).smoothing
    P = models.num_models
    rate = (2 * (1 - smoothing) * np.log(P) / (P * num_rounds)) ** 0.5
    return MKL(models, DrawOne(rate, smoothing, "vote"), query=query)


@recipe
def proj_ka(
    kernels: Kernel | None = None,
    *,
    budget: int = 200,
    num_aligned: int = 10_000,
    two_passes: bool = False,
    query: Query = ASK_ALL,
) -> Aligned:
    """Proj-KA: the Projectron with the kernel that is best aligned with the first labels.

    Args:
      budget: B, the number of support vectors for each kernel; a round costs O(P B²).
      num_aligned: m, the number of first rounds on which alignment is measured.
      two_passes: whether Projectrons wait until round m, when the kernel is chosen, and then learn
        the first m examples as well, as in the paper (:mod:`jaxmkl.learners.aligned`).
      kernels, query: as for :func:`oks`.

    References:
      Zhang and Liao (2020), section 6; Orabona, Keshet and Caputo (2008). The formulas:
      :mod:`jaxmkl.learners.aligned`.

    >>> proj_ka(budget=50).models.store
    BudgetSupport(budget=50, eviction=Project(threshold=0.0), period=32)
    """
    store = BudgetSupport(budget, Project())
    models = bank_of(kernels, Perceptron(), store, zhang_liao)
    return Aligned(models, num_aligned, query, two_passes)
