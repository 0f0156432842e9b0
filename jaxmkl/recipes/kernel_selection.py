"""Kernel selection: from a continuum (OKS-SIL, OKL-GD) and from a dictionary (OKS, Proj-KA).

All take a ``query``, by default :class:`jaxmkl.query.All`: with another one they ask for some
labels only.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, section 6.
"""

from typing import Any

import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl.aggregate import DrawOne
from jaxmkl.kernels import GaussianWidths, Kernel, KernelSpace, zhang_liao
from jaxmkl.kernels.optimizers import as_optimizer
from jaxmkl.mkl import MKL
from jaxmkl.models import BudgetSupport, DenseSupport, SupportModels
from jaxmkl.models.aligned import Aligned
from jaxmkl.models.own_kernels import OwnKernels
from jaxmkl.models.sketch import HypothesisSketch
from jaxmkl.models.supports import Project
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL
from jaxmkl.updates import OGD, Perceptron


def oks_sil(
    space: KernelSpace | None = None,
    *,
    budget: int = 200,
    step_size: Any = 0.1,
    threshold: Any = 0.9,
    num_sampled: int = 3,
    optimizer: Any = None,
    loss: str = "hinge",
    ties: str = "first",
    query: Query = ASK_ALL,
) -> HypothesisSketch:
    """OKS-SIL: a hypothesis of constant size, whose kernel moves by gradient.

    The formulas are those of :mod:`jaxmkl.models.sketch`.

    Args:
      space: where the kernel is sought; by default Gaussians with one width in [2^-6.5, 2^5.5].
      budget: B, basis functions (the paper: 150 for streams below 10^4 examples, else 200).
      step_size: η.
      threshold: ν in [0, 1]: smaller, more basis functions are replaced.
      num_sampled: s, how many basis functions a new one is compared with.
      optimizer: how the kernel moves; by default :class:`~jaxmkl.kernels.InverseTime`, the step
        1/t. Or an :class:`~jaxmkl.kernels.Optax`, or any ``optax.GradientTransformation``.
      loss: "hinge", "logistic" or "squared".
      ties: of several smallest |w|, the "first" in place goes, as in the paper, or the "oldest".
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhang and Liao (2020), Algorithm 1.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (2000, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> learner = oks_sil(jaxmkl.kernels.GaussianWidths(start=1.0), step_size=1.0, budget=100)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> info = learner.info(state)
    >>> bool(info.parameters < 0.7), int(info.support)  # it started with a width of 1
    (True, 100)
    """
    return HypothesisSketch(
        GaussianWidths() if space is None else space,
        budget,
        step_size,
        as_optimizer(optimizer),
        loss,
        query,
        threshold,
        num_sampled,
        ties,
    )


def okl_gd(
    space: KernelSpace | None = None,
    *,
    budget: int = 2000,
    step_size: Any = 0.1,
    optimizer: Any = None,
    loss: str = "hinge",
    query: Query = ASK_ALL,
) -> OwnKernels:
    """OKL-GD: kernel online gradient descent; every centre keeps the kernel it came with.

    The formulas are those of :mod:`jaxmkl.models.own_kernels`.

    Args:
      space: where kernels are sought; by default Gaussians with one width in [2^-6.5, 2^5.5],
        whose gradient is taken by the width itself.
      budget: M, centres; the oldest goes.
      step_size: η.
      optimizer: how the kernel moves; as for :func:`oks_sil`.
      loss: "hinge", "logistic" or "squared".
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Chen, Liang, Zheng and Príncipe (2016); Zhang and Liao (2020), Table 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (1000, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> space = jaxmkl.kernels.GaussianWidths(start=0.5, coordinate="bandwidth")
    >>> learner = okl_gd(space, budget=500)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> mistaken = y * outputs.prediction <= 0
    >>> bool(mistaken[-200:].mean() < 0.5 * mistaken[:200].mean())
    True
    """
    space = GaussianWidths(coordinate="bandwidth") if space is None else space
    return OwnKernels(space, budget, step_size, as_optimizer(optimizer), loss, query)


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
      capacity: as for :func:`jaxmkl.perceptron`.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2; Zhang and Liao (2020), Table 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (1000, 2))
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1])
    >>> learner = oks(jaxmkl.Gaussian((0.01, 0.5, 100.0)), num_rounds=1000)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> int(learner.info(state).weights.argmax())
    1
    """
    # by exponents: the sign of a value below the smallest float32 decides what a kernel weighs
    store = DenseSupport(capacity)
    models = SupportModels(_kernels(kernels), OGD(step_size, 0.0, "hinge"), store)
    num_rounds = pytree.as_count("oks", "num_rounds", num_rounds)
    smoothing = DrawOne(0.0, smoothing).smoothing
    P = models.num_models
    rate = (2 * (1 - smoothing) * np.log(P) / (P * num_rounds)) ** 0.5
    return MKL(models, DrawOne(rate, smoothing, "vote"), query=query)


def proj_ka(
    kernels: Kernel | None = None,
    *,
    budget: int = 200,
    num_aligned: int = 10_000,
    query: Query = ASK_ALL,
) -> Aligned:
    """Proj-KA: the Projectron of the kernel that is best aligned with the first labels.

    The formulas are those of :mod:`jaxmkl.models.aligned`. A round costs O(P B²).

    Args:
      kernels: by default the 25 Gaussians of :func:`jaxmkl.kernels.zhang_liao`.
      budget: B, support vectors a kernel.
      num_aligned: m, on how many of the first rounds alignment is measured.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhang and Liao (2020), section 6; Orabona, Keshet and Caputo (2008).

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (500, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> learner = proj_ka(jaxmkl.Gaussian((0.001, 0.2, 50.0)), budget=50, num_aligned=500)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> learner.info(state).weights
    Array([0., 1., 0.], dtype=float32)
    """
    store = BudgetSupport(budget, Project())
    return Aligned(SupportModels(_kernels(kernels), Perceptron(), store), num_aligned, query)


def _kernels(kernels: Kernel | None) -> Kernel:
    return zhang_liao() if kernels is None else kernels
