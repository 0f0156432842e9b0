"""Online kernel selection: from a continuum (OKS-SIL, OKL-GD) and from a dictionary (OKS, Proj-KA).

All take a ``query``, by default :class:`jaxmkl.query.All`: with another one they ask for some
labels only.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, section 6.
"""

from typing import Any

from jaxmkl.kernel_space import GaussianWidths, KernelSpace, as_optimizer
from jaxmkl.models.own_kernels import OwnKernels
from jaxmkl.models.sketch import HypothesisSketch
from jaxmkl.query import Query
from jaxmkl.recipes._parts import ASK_ALL

__all__ = ["okl_gd", "oks_sil"]


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
      optimizer: how the kernel moves; by default :class:`~jaxmkl.InverseTime`, the step 1/t. Or
        an :class:`~jaxmkl.Optax`, or any ``optax.GradientTransformation``.
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
    >>> learner = oks_sil(jaxmkl.GaussianWidths(start=1.0), step_size=1.0, budget=100)
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
    >>> space = jaxmkl.GaussianWidths(start=0.5, coordinate="bandwidth")
    >>> learner = okl_gd(space, budget=500)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> mistaken = y * outputs.prediction <= 0
    >>> bool(mistaken[-200:].mean() < 0.5 * mistaken[:200].mean())
    True
    """
    space = GaussianWidths(coordinate="bandwidth") if space is None else space
    return OwnKernels(space, budget, step_size, as_optimizer(optimizer), loss, query)
