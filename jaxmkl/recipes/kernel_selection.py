"""Kernel selection: from a continuum (OKS-SIL, OKL-GD) and from a dictionary (OKS, Proj-KA).

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, section 6.
"""

from typing import Any

import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl.aggregate import DrawOne
from jaxmkl.kernels import GaussianWidths, Kernel, KernelSpace, zhang_liao
from jaxmkl.mkl import MKL
from jaxmkl.models import Aligned, BudgetSupport, DenseSupport, HypothesisSketch, OwnKernels
from jaxmkl.models.supports import Project
from jaxmkl.optimizers import as_optimizer
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL, bank_of, recipe, with_parameters_of
from jaxmkl.updates import OGD, Perceptron


@with_parameters_of(HypothesisSketch)
def oks_sil(
    space: KernelSpace | None = None, *, optimizer: Any = None, **parameters: Any
) -> HypothesisSketch:
    """OKS-SIL: a hypothesis of constant size, whose kernel moves by gradient.

    Args:
      space: where the kernel is sought; by default Gaussians with one width in [2^-6.5, 2^5.5].
      budget: B, basis functions (the paper: 150 for streams below 10^4 examples, else 200).
      step_size: η.
      threshold: ν in [0, 1]: smaller, more basis functions are replaced.
      num_sampled: s, how many basis functions a new one is compared with.
      optimizer: how the kernel moves; by default :class:`jaxmkl.optimizers.InverseTime`, the step
        1/t. Or a :class:`jaxmkl.optimizers.FromOptax`, or any ``optax.GradientTransformation``.
      loss: L, a value of :mod:`jaxmkl.losses`, or one of its names.
      ties: of several smallest |w|, the "first" in place goes, as in the paper, or the "oldest".
      query: when a label is asked for, by default always.

    References:
      Zhang and Liao (2020), Algorithm 1; its formulas: :mod:`jaxmkl.models.sketch`.

    >>> oks_sil(GaussianWidths(start=1.0), step_size=1.0, budget=100).optimizer
    InverseTime(rate=1.0)
    """
    space = GaussianWidths() if space is None else space
    return HypothesisSketch(space, optimizer=as_optimizer(optimizer), **parameters)


@with_parameters_of(OwnKernels)
def okl_gd(
    space: KernelSpace | None = None,
    *,
    budget: int = 2000,
    optimizer: Any = None,
    **parameters: Any,
) -> OwnKernels:
    """OKL-GD: kernel online gradient descent; every centre keeps the kernel it came with.

    Args:
      space: as for :func:`oks_sil`, but by default gradients are taken by the width itself.
      budget: M, centres; the oldest goes.
      step_size, optimizer, loss, query: as for :func:`oks_sil`.

    References:
      Chen, Liang, Zheng and Príncipe (2016); Zhang and Liao (2020), Table 2. The formulas:
      :mod:`jaxmkl.models.own_kernels`.

    >>> okl_gd(budget=500, step_size=0.2).optimizer
    InverseTime(rate=1.0)
    """
    space = GaussianWidths(coordinate="bandwidth") if space is None else space
    return OwnKernels(space, budget, optimizer=as_optimizer(optimizer), **parameters)


@recipe
def oks(
    kernels: Kernel | None = None,
    *,
    step_size: Any = 0.1,
    smoothing: Any = 0.2,
    num_rounds: int = 10_000,
    capacity: int = 1024,
    query: Query = ASK_ALL,
) -> MKL:
    """OKS: in each round one kernel is drawn; it predicts, and it alone learns and is judged.

        I ~ p,    p_i = (1 - δ) w_i / Σ w + δ / P,    prediction = s(f_I)
        if y f_I < 1:    f_I <- f_I + η y k_I(x, ·)
        if y f_I <= 0:   w_I <- w_I exp(-η_g / p_I)

    with s(0) = 1 and η_g = sqrt(2 (1 - δ) ln P / (P T)).

    Args:
      kernels: by default the 25 Gaussians of :func:`jaxmkl.kernels.zhang_liao`.
      step_size: η.
      smoothing: δ in (0, 1].
      num_rounds: T, the length of the stream that η_g is for.
      capacity, query: as for :func:`jaxmkl.perceptron`.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2; Zhang and Liao (2020), Table 2.

    >>> round(oks(num_rounds=1000).aggregate.rate, 4)
    0.0144
    """
    # by exponents: the sign of a value below the smallest float32 decides what a kernel weighs
    models = bank_of(kernels, OGD(step_size, 0.0, "hinge"), DenseSupport(capacity), zhang_liao)
    num_rounds = pytree.as_count("oks", "num_rounds", num_rounds)
    smoothing = DrawOne(0.0, smoothing).smoothing
    P = models.num_models
    rate = (2 * (1 - smoothing) * np.log(P) / (P * num_rounds)) ** 0.5
    return MKL(models, DrawOne(rate, smoothing, "vote"), query=query)


@with_parameters_of(Aligned)
def proj_ka(kernels: Kernel | None = None, *, budget: int = 200, **parameters: Any) -> Aligned:
    """Proj-KA: the Projectron of the kernel that is best aligned with the first labels.

    Args:
      budget: B, support vectors a kernel; a round costs O(P B²).
      num_aligned: m, on how many of the first rounds alignment is measured.
      kernels, query: as for :func:`oks`.

    References:
      Zhang and Liao (2020), section 6; Orabona, Keshet and Caputo (2008). The formulas:
      :mod:`jaxmkl.models.aligned`.

    >>> proj_ka(budget=50).models.store
    BudgetSupport(budget=50, eviction=Project(threshold=0.0), period=32)
    """
    store = BudgetSupport(budget, Project())
    return Aligned(bank_of(kernels, Perceptron(), store, zhang_liao), **parameters)
