"""Online classification of many tasks on one sampled dictionary."""

from typing import Any

from jaxmkl import _pytree as pytree
from jaxmkl.features import SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.models import MultiTask
from jaxmkl.query import All, Query, Uncertainty
from jaxmkl.recipes._parts import with_parameters_of


@with_parameters_of(MultiTask, but=("dictionary",))
def multitask(
    num_tasks: int | None = None,
    kernel: Kernel | None = None,
    *,
    h: Any = None,
    query: Query | None = None,
    update_on: str | None = None,
    inertia: Any = 1.0,
    size: int = 100,
    ridge: Any = 1.0,
    density: Any = 1.0,
    accuracy: Any = 0.5,
    tolerance: Any = None,
    **parameters: Any,
) -> MultiTask:
    """Online classification of many tasks on one sampled dictionary, asking when unsure.

    Args:
      num_tasks: K; column 0 of X then holds the task, 0 to K - 1, as
        :func:`jaxmkl.tables.with_tasks` makes it. Or None: one task, and all columns are inputs.
      kernel: one kernel; by default a Gaussian of bandwidth 1. The median distance of some
        examples (:func:`jaxmkl.kernels.median_distance`) is a good bandwidth to start from.
      h: how much is asked for where the learner is sure: the h of
        :class:`jaxmkl.query.Uncertainty`; None for full information.
      query: another query, as :class:`jaxmkl.query.Margin`; None where ``h`` is given.
      components: "both" a Gaussian of all tasks and one of each, or "local" (each task on its own)
        or "global" (one model of all).
      loss: "hinge" or "squared_hinge".
      update_on: on what means move: a "mistake"; "unsure", also a loss where Θ <= 0; or "margin",
        any loss. By default "mistake" with full information, else "unsure".
      covariance: when covariances shrink: for examples "updated" on, "queried", or "always".
      noise: λ > 0.
      inertia: ε > 0, how much means resist; it must not be small with the hinge.
      growth: whether a new point is to "extend" the Gaussians or they "restart".
      size, ridge, density, accuracy, tolerance: of the sampling, as of
        :class:`jaxmkl.features.SampledDictionary`.

    References:
      Kernel sampling for online multi-task classification (supplement), equations (2) to (5) and
      Theorem 2; Calandriello, Lazaric and Valko (2017), Algorithm 2. The formulas:
      :mod:`jaxmkl.models.multitask`.

    >>> import jax, jaxmkl
    >>> X, learner = jax.random.normal(jax.random.key(0), (300, 2)), multitask(num_tasks=3, h=0.1)
    >>> state, task = learner.init(jax.random.key(2), num_inputs=1 + 2), jax.numpy.arange(300) % 3
    >>> with_task = jaxmkl.tables.with_tasks(task, X)
    >>> state, outputs = jaxmkl.run(learner, state, with_task, X[:, 0] * X[:, 1] > 0)
    >>> bool(outputs.queried[:100].mean() > outputs.queried[-100:].mean())
    True
    """
    both = h is not None and query is not None
    pytree.require(not both, "multitask", "query", query, "None where h is given")
    if query is None:
        query = All() if h is None else Uncertainty(h, inertia)
    if update_on is None:
        update_on = "mistake" if isinstance(query, All) else "unsure"
    kernel = Gaussian(1.0) if kernel is None else kernel
    dictionary = SampledDictionary(size, ridge, density, accuracy, tolerance)
    chosen = {"query": query, "inertia": inertia, "update_on": update_on}
    return MultiTask(num_tasks, kernel, dictionary, **chosen, **parameters)
