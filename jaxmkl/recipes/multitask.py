"""Online classification of many tasks on one sampled dictionary."""

from typing import Any

from jaxmkl import _pytree as pytree
from jaxmkl.features import SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.models.multitask import MultiTask
from jaxmkl.query import All, Query, Uncertainty


def multitask(
    num_tasks: int | None = None,
    kernel: Kernel | None = None,
    *,
    h: Any = None,
    query: Query | None = None,
    components: str = "both",
    loss: str = "hinge",
    update_on: str | None = None,
    covariance: str = "updated",
    noise: Any = 1.0,
    inertia: Any = 1.0,
    size: int = 100,
    growth: str = "extend",
    ridge: Any = 1.0,
    density: Any = 1.0,
    accuracy: Any = 0.5,
    tolerance: Any = None,
) -> MultiTask:
    """Online classification of many tasks on one sampled dictionary, asking when unsure.

    The formulas are those of :mod:`jaxmkl.models.multitask`.

    Args:
      num_tasks: K; column 0 of X then holds the task, 0 to K - 1, as
        :func:`jaxmkl.tables.with_tasks` makes it. Or None: one task, and all columns are inputs.
      kernel: one kernel; by default a Gaussian of bandwidth 1. The median distance of some
        examples (:func:`jaxmkl.kernels.median_distance`) is a good bandwidth to start from.
      h: how much is asked for where the learner is sure: the h of
        :class:`jaxmkl.query.Uncertainty`; None for full information.
      query: another query than that of ``h``, as :class:`jaxmkl.query.Margin`; or None.
      components: "both" a Gaussian of all tasks and one of each, or "local" (each task on its own)
        or "global" (one model of all).
      loss: "hinge" or "squared_hinge".
      update_on: on what means move: a "mistake"; "unsure", also a loss where Θ <= 0; or "margin",
        any loss. By default "mistake" with full information, else "unsure".
      covariance: when covariances shrink: for examples "updated" on, "queried", or "always".
      noise: λ > 0.
      inertia: ε > 0, how much means resist; it must not be small with the hinge.
      size: D, the most points of the dictionary.
      growth: whether a new point is to "extend" the Gaussians or they "restart".
      ridge: α of the sampling.
      density: β of the sampling.
      accuracy: ε of the sampling.
      tolerance: of the sampling, as of :class:`jaxmkl.features.SampledDictionary`.

    Raises:
      ValueError: for an argument outside its range, or for both ``h`` and ``query``.

    References:
      Kernel sampling for online multi-task classification (supplement), equations (2) to (5) and
      Theorem 2; Calandriello, Lazaric and Valko (2017), Algorithm 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (1000, 2))
    >>> task = jax.random.randint(jax.random.key(1), (1000,), 0, 3)
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1] + 0.2 * (task - 1))
    >>> learner = multitask(num_tasks=3, size=40, h=0.1)
    >>> state = learner.init(jax.random.key(2), num_inputs=1 + 2)
    >>> state, outputs = jaxmkl.run(learner, state, jaxmkl.tables.with_tasks(task, X), y)
    >>> mistakes = y * outputs.prediction <= 0
    >>> bool(mistakes[:200].mean() > 1.5 * mistakes[-200:].mean())
    True
    >>> bool(outputs.queried[-200:].mean() < 0.5)
    True
    """
    both = h is not None and query is not None
    pytree.require(not both, "multitask", "query", query, "None where h is given")
    if query is None:
        query = All() if h is None else Uncertainty(h, inertia)
    if update_on is None:
        update_on = "mistake" if isinstance(query, All) else "unsure"
    return MultiTask(
        num_tasks,
        Gaussian(1.0) if kernel is None else kernel,
        SampledDictionary(size, ridge, density, accuracy, tolerance),
        query,
        noise,
        inertia,
        loss,
        components,
        update_on,
        covariance,
        growth,
    )
