"""Models on features whose inputs have a metric that is learned, here by the models' gradients."""

import abc
from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import sum_over_rows
from jaxmkl._metric import (
    SHAPES,
    applied,
    by_inputs,
    metric_of,
    outer_products,
    signs_of,
)
from jaxmkl._types import Number
from jaxmkl.models.on_features import FeatureModels
from jaxmkl.models.under_metrics import Models, UnderMetrics
from jaxmkl.reservoir import Renewal

_STEEP = 4  # power of the inverse losses that weighs their gradients


@pytree.dataclass
class MetricBank(UnderMetrics):
    """The base of banks on features of L'x, whose metrics L are learned from the memory.

    A subclass defines :meth:`learned`. In rounds ``first``, twice as many, four times as many and
    so on all metrics are learned, and then all models begin anew and learn the ``sample`` of the
    memory: least squares in closed form, with each example weighted by the number of those that it
    stands for, and rules of first order in one pass.

    >>> import jaxmkl, numpy as np
    >>> from jaxmkl.updates import OGD
    >>> @pytree.dataclass
    ... class Standardized(MetricBank):
    ...     def learned(self, models, renewal, turn):
    ...         D = renewal.X.shape[1]
    ...         return (jax.lax.rsqrt(models.variances * D),)
    >>> learner = jaxmkl.MKL(Standardized(FeatureModels(jaxmkl.Gaussian(1.0), OGD(0.01)), first=8))
    >>> X = np.linspace(0.0, 9.0, 16).reshape(8, 2)
    >>> state, _ = jaxmkl.run(learner, learner.init(jax.random.key(0), 2), X, X[:, 0])
    >>> np.allclose(state.models[0].metrics[0] * X.std(axis=0), 0.5**0.5)
    True
    """

    bank: FeatureModels = pytree.part(FeatureModels, "a bank on features")
    shapes: tuple[str, ...] = pytree.choices(*SHAPES, default=("diagonal",))
    sample: int = pytree.count(default=2000)
    first: int = pytree.count(default=256)

    def __post_init__(self) -> None:
        sequential, wanted = self.bank.features.sequential, "one whose features do not grow"
        pytree.require(not sequential, self, "bank", self.bank, wanted)

    @property
    def banks(self) -> tuple[Any, ...]:
        """The bank itself."""
        return (self,)

    @property
    def turns(self) -> int:
        """How often metrics are learned in a row."""
        return 1

    @abc.abstractmethod
    def learned(self, models: Models, renewal: Renewal, turn: jax.Array) -> tuple[jax.Array, ...]:
        """The metrics, of each shape, from the models and a sample of the memory.

        ``turn`` says how often they have been learned in this renewal.
        """


@pytree.dataclass
class MetricModels(MetricBank):
    """A bank on features of L'x, with metrics L learned from the gradients of its own models.

    In rounds ``first``, twice as many, four times as many and so on, over ``sample`` examples x_i
    of the learner's memory, a sample of all labelled ones so far:

        M = Σ_e p_e Σ_i ∇f_e(x_i) ∇f_e(x_i)',     L L' ∝ M^power,  Σ_d v_d (L L')_dd = 1

    with p_e ∝ 1 / l_e⁴ for the recent squared errors l_e of the models, the variances v_d of the
    inputs in that sample; with several outputs M is the sum over them. A full L is the symmetric
    root, with random signs of its columns, drawn anew each time. Without them the noise of the
    gradients, which lies along the frequencies of the features, would stretch the same directions
    each time, which doubles the error where two directions of 32 matter. Then all models begin
    anew and learn these examples under the new metric: least squares in closed form, with each
    example weighted by the number of those that it stands for, and rules of first order in one
    pass. All this is repeated ``repetitions`` times. Between such rounds the bank is the one
    inside, on the inputs L'x. If M is 0 or not finite, the metric stays. At first it is I/sqrt(D):
    for any number of inputs of variance 1, the variances of L'x add up to 1. From the first
    renewal on they do so whatever the scale of the inputs, so use widths around 1.

    With several metrics, each has models of its own, from whose gradients it is learned. Models
    are numbered metric by metric: with S metrics there are S times as many models.

    No derivative goes through a renewal: derivatives by widths and rates are those of the rounds
    since the last one.

    Args:
      bank: the models, on any features that are not sequential.
      shapes: of the metric: "diagonal", a weight for each input, or "full"; or both. A full metric
        of D inputs takes D² numbers and D³ operations a renewal; of more than 500 inputs it is
        diagonal, too.
      sample: how many examples of the memory a renewal looks at, evenly.
      first: the round of the first metric; blocks divide half of it, so powers of two suit.
      repetitions: how often a metric is learned in a row.
      power: 1 is the published one; 1/2 changes less.

    Raises:
      ValueError: if the features are sequential, or a number is not in its range.

    References:
      Radhakrishnan, Beaglehole, Pandit and Belkin (2024), Mechanism for feature learning in neural
      networks and backpropagation-free machine learning models, Science 383,
      https://doi.org/10.1126/science.adi5639.

    >>> import jaxmkl
    >>> inside = jaxmkl.raker(jaxmkl.Gaussian([1.0, 3.0])).models[0]
    >>> jaxmkl.MKL(MetricModels(inside)).num_models
    2
    >>> jaxmkl.MKL(MetricModels(inside, ("diagonal", "full"))).num_models
    4
    """

    repetitions: int = pytree.count(default=2)
    power: Number = pytree.positive(default=1.0)

    @property
    def turns(self) -> int:
        return self.repetitions

    def learned(self, models: Models, renewal: Renewal, turn: jax.Array) -> tuple[jax.Array, ...]:
        X, features, kernels = renewal.X, self.bank.features, self.bank.kernels
        D, shares, weights = X.shape[1], _shares(models.losses), models.weights
        K, R, _, P, M = weights.shape
        # a model that diverged would spoil the products for all, and squares may overflow
        good = (shares[None, ..., None] > 0) & jnp.isfinite(weights)
        weights = jnp.where(good, weights, 0)

        def moments(rows: tuple[jax.Array, jax.Array]) -> tuple:
            """The sums over rows of each M, for gradients by L'x."""
            X, known = rows
            found = []
            for s, (own, metric) in enumerate(zip(models.features, models.metrics, strict=True)):
                of_models = weights[:, :, s].reshape(K * R, P, M)
                by = features.gradients(own, kernels, applied(metric, X), of_models)
                counts = known[:, None, None, None] * shares[None, None, :, s]
                counts = jnp.broadcast_to(counts, (len(X), K, R, P)).reshape(-1)
                found.append(outer_products(by.reshape(-1, D), counts, metric.ndim == 1))
            return tuple(found)

        rows = X, renewal.known.astype(X.dtype)
        summed = sum_over_rows(moments, rows, renewal.filled, weights.size)
        signs = signs_of(renewal.round, turn, D, X.dtype)
        return tuple(
            metric_of(by_inputs(M, metric), self.power, metric, models.variances, signs)
            for M, metric in zip(summed, models.metrics, strict=True)
        )


def _shares(losses: jax.Array) -> jax.Array:
    """Numbers in proportion to 1 / l_e⁴ (R, S, P), for each metric by itself.

    The largest is 1, as metrics are free of the size; 0 where a loss is not finite.
    """
    known = jnp.isfinite(losses)
    least = jnp.min(losses, axis=(0, 2), where=known, initial=jnp.inf, keepdims=True)
    ratios = jnp.where(losses > least, least / jnp.where(losses > 0, losses, 1), 1.0)
    return jnp.where(known, ratios**_STEEP, 0.0)
