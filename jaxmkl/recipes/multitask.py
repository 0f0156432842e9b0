"""Online classification of many tasks on one sampled dictionary."""

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number
from jaxmkl.features import SampledDictionary
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.learners import MultiTask
from jaxmkl.query import All, Query, Uncertainty
from jaxmkl.recipes._parts import recipe


@recipe
def multitask(
    num_tasks: int | None = None,
    kernel: Kernel | None = None,
    *,
    h: Number | None = None,
    query: Query | None = None,
    update_on: str | None = None,
    inertia: Number = 1.0,
    size: int = 100,
    ridge: Number = 1.0,
    density: Number = 1.0,
    accuracy: Number = 0.5,
    tolerance: Number | None = None,
    noise: Number = 1.0,
    rate: Number = 0.5,
    loss: str = "squared_hinge",
    components: str = "mixed",
    covariance: str = "updated",
    growth: str = "extend",
) -> MultiTask:
    """Online classification of many tasks on one sampled dictionary, asking when uncertain.

    Args:
      num_tasks: K; column 0 of X then holds the task index, 0 to K - 1, as
        :func:`jaxmkl.tables.with_tasks` makes it. With None there is one task, and all columns
        are inputs.
      kernel: one kernel; by default a Gaussian of bandwidth 1. The median distance of some
        examples (:func:`jaxmkl.kernels.median_distance`) is a good bandwidth to start from.
      h: sets how often a label is asked for when the learner is certain, as in
        :class:`jaxmkl.query.Uncertainty`; None for full information.
      query: another query, such as :class:`jaxmkl.query.Margin`; None if ``h`` is given.
      update_on: when means are updated: on a "mistake"; if "unsure", also on a loss with Θ <= 0;
        with "margin", on any loss. By default "margin" with the squared hinge; with the hinge, as
        in the paper, "mistake" with full information, else "unsure".
      inertia: ε > 0, the resistance of means to updates; it must not be small with the hinge.
      size, ridge, density, accuracy, tolerance: of :class:`jaxmkl.features.SampledDictionary`.
      noise: λ > 0.
      rate: η >= 0, the rate at which the weights of a mixture follow the losses of its parts.
      loss: "squared_hinge", or the paper's "hinge".
      components: "both" for the sum of a Gaussian of all tasks and one of each, as in the paper;
        "local" for each task on its own, or "global" for one model of all; or "mixed" for a
        mixture of these three predictions, which learns how much the tasks share.
      covariance: when covariances shrink: on examples "updated" on, or "queried", or "always".
      growth: whether the Gaussians "extend" or "restart" when a point joins the dictionary.

    References:
      Kernel sampling for online multi-task classification (supplement), equations (2) to (5) and
      Theorem 2; Calandriello, Lazaric and Valko (2017), Algorithm 2. The formulas:
      :mod:`jaxmkl.learners.multitask`.

    >>> import jax, jaxmkl, numpy as np
    >>> X, learner = np.random.default_rng(0).normal(size=(300, 2)), multitask(num_tasks=3, h=0.1)
    >>> state, task = learner.init(jax.random.key(2), num_inputs=1 + 2), np.arange(300) % 3
    >>> with_task = jaxmkl.tables.with_tasks(task, X)
    >>> state, outputs = jaxmkl.run(learner, state, with_task, X[:, 0] * X[:, 1] > 0)
    >>> asked = np.asarray(outputs.queried)
    >>> bool(asked[:100].mean() > asked[-100:].mean())
    True
    """
    both = h is not None and query is not None
    pytree.require(not both, "multitask", "query", query, "None where h is given")
    if query is None:
        query = All() if h is None else Uncertainty(h, inertia)
    if update_on is None:
        of_hinge = "mistake" if isinstance(query, All) else "unsure"
        update_on = of_hinge if loss == "hinge" else "margin"
    kernel = Gaussian(1.0) if kernel is None else kernel
    dictionary = SampledDictionary(size, ridge, density, accuracy, tolerance)
    numbers, choices = (noise, inertia, rate), (loss, components, update_on, covariance, growth)
    return MultiTask(num_tasks, kernel, dictionary, query, *numbers, *choices)
