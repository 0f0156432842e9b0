"""Models on features whose inputs have a metric that is learned from the models' own gradients."""

import abc
import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import moments_of, sum_over_rows
from jaxmkl._feedback import Feedback
from jaxmkl._metric import (
    SHAPES,
    applied,
    by_inputs,
    importances,
    metric_of,
    outer_products,
    signs_of,
)
from jaxmkl._types import Number, PyTree
from jaxmkl.features import MetricFeatures
from jaxmkl.models.bank import Bank
from jaxmkl.models.on_features import FeatureAux, FeatureCode, FeatureModels, FeatureModelsState
from jaxmkl.reservoir import Renewal
from jaxmkl.updates import Rule

_RECENT = 0.01  # weight of the latest round in the models' losses
_STEEP = 4  # power of the inverse losses that weighs their gradients


class MetricModelsState(NamedTuple):
    """State of :class:`MetricBank`."""

    bank: FeatureModelsState
    """State of the models; that of their features has the metrics."""
    losses: jax.Array
    """Discounted squared errors of the models (E,), summed over outputs."""
    variances: jax.Array
    """Of the inputs (D,) at the last renewal; ones before the first."""

    @property
    def metrics(self) -> tuple[jax.Array, ...]:
        """L of each shape: (D,) if it is diagonal, or (D, D)."""
        return self.bank.features.metrics


@pytree.dataclass
class MetricBank(Bank):
    """The base of banks on features of L'x, whose metrics L are learned from the memory.

    One that is new defines :meth:`learned`. In rounds ``first``, twice as many, four times as many
    and so on all metrics are learned, and then all models begin anew and learn the ``sample`` of
    the memory: least squares in closed form, each example counting as often as it stands for, and
    rules of first order by one pass.
    """

    bank: FeatureModels = pytree.part(FeatureModels, "a bank on features")
    shapes: tuple[str, ...] = pytree.choices(*SHAPES, default=("diagonal",))
    sample: int = pytree.count(default=2000)
    first: int = pytree.count(default=256)
    many_outputs = True

    def __post_init__(self) -> None:
        sequential, wanted = self.bank.features.sequential, "one whose features do not grow"
        pytree.require(not sequential, self, "bank", self.bank, wanted)

    @property
    def inside(self) -> FeatureModels:
        """The models on features under the metrics."""
        features = MetricFeatures(self.shapes, self.bank.features)
        return dataclasses.replace(self.bank, features=features)

    @property
    def turns(self) -> int:
        """How often metrics are learned in a row."""
        return 1

    @abc.abstractmethod
    def learned(self, state: MetricModelsState, renewal: Renewal, turn: jax.Array) -> tuple:
        """The metrics, of each shape, from a state and a sample of the memory.

        ``turn`` says how often they have been learned in this renewal.
        """

    @property
    def num_models(self) -> int:
        return self.inside.num_models

    @property
    def num_kernels(self) -> int:
        return self.inside.num_kernels

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return self.bank.all_rules

    @property
    def random(self) -> bool:
        return self.bank.random

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """That of the models inside."""
        return self.bank.period

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> MetricModelsState:
        bank = self.inside.init(key, num_inputs, dtype, num_outputs)
        losses, variances = jnp.zeros((self.num_models,), dtype), jnp.ones((num_inputs,), dtype)
        return MetricModelsState(bank, losses, variances)

    def encode(
        self, state: MetricModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> FeatureCode:
        return self.inside.encode(state.bank, X, round, keys)

    def frequencies(self, state: MetricModelsState) -> jax.Array | None:
        """Those of its features (P, F, D), or None."""
        return self.inside.frequencies(state.bank)

    def encode_features(
        self, state: MetricModelsState, Z: jax.Array, round: jax.Array
    ) -> FeatureCode:
        """As :meth:`encode`, of rows whose features Z (B, P, M) are known."""
        return self.inside.encode_features(state.bank, Z, round)

    def predict(
        self, state: MetricModelsState, code: FeatureCode
    ) -> tuple[jax.Array, tuple[jax.Array, FeatureAux]]:
        values, aux = self.inside.predict(state.bank, code)
        return values, (values, aux)

    def update(
        self,
        state: MetricModelsState,
        code: FeatureCode,
        aux: tuple[jax.Array, FeatureAux],
        feedback: Feedback,
    ) -> MetricModelsState:
        values, inside = aux
        learns = jnp.any(feedback.updates)
        errors = jnp.square(values - feedback.y[..., None])
        errors = errors.reshape(-1, errors.shape[-1]).sum(axis=0)
        losses = state.losses + _RECENT * (errors - state.losses)
        # a model that diverged has its chance once it began anew
        losses = jnp.where(jnp.isfinite(state.losses), losses, errors)
        bank = self.inside.update(state.bank, code, inside, feedback)
        return state._replace(bank=bank, losses=jnp.where(learns, losses, state.losses))

    def close(
        self, state: MetricModelsState, codes: FeatureCode, round: jax.Array
    ) -> MetricModelsState:
        return state._replace(bank=self.inside.close(state.bank, codes, round))

    def prepared(
        self, state: MetricModelsState, renewal: Renewal
    ) -> tuple[MetricModelsState, Renewal, jax.Array]:
        """What a renewal begins with: the state, the sample, and how often each example counts."""
        given = renewal.sample(self.sample)
        filled, dtype = given.filled, given.X.dtype
        _, variances = moments_of(given.X, filled)
        state = state._replace(variances=jnp.where(filled > 0, variances, state.variances))
        each = given.number.astype(dtype) / jnp.maximum(filled, 1).astype(dtype)
        return state, given, jnp.where(given.known, each, 0)

    def learned_of(self, state: MetricModelsState) -> tuple[tuple, tuple]:
        """What a renewal learns: the metrics, and the states of the rules."""
        return state.metrics, state.bank.rules

    def with_learned(
        self, state: MetricModelsState, metrics: tuple, rules: tuple
    ) -> MetricModelsState:
        """The state with other metrics and rules."""
        features = state.bank.features._replace(metrics=metrics)
        return state._replace(bank=FeatureModelsState(features, rules))

    def features_of(self, state: MetricModelsState, X: jax.Array) -> jax.Array:
        """Features (N, P, M) of rows under all metrics."""
        each = zip(*state.bank.features, strict=True)
        return jnp.concatenate([self.features(own, L, X) for L, own in each], axis=1)

    def features(self, state: PyTree, metric: jax.Array, X: jax.Array) -> jax.Array:
        """Features (N, P, M) of rows under a metric, by a state of the map inside."""
        features, kernels = self.bank.features, self.bank.kernels
        keys = jax.random.split(jax.random.key(0), len(X))
        codes = features.encode(state, kernels, applied(metric, X), jnp.zeros((), jnp.int32), keys)
        return jax.vmap(lambda code: features.predict(state, code)[0])(codes)


@abilities.warn_of_steps.register
def _(bank: MetricBank) -> None:
    abilities.warn_of_steps(bank.bank)


@abilities.variances.register
def _(
    bank: MetricBank,
    state: MetricModelsState,
    code: FeatureCode,
    aux: tuple[jax.Array, FeatureAux],
) -> jax.Array:
    return abilities.variances(bank.inside, state.bank, code, aux[1])


@abilities.renewed.register
def _(bank: MetricBank, state: MetricModelsState, renewal: Renewal) -> MetricModelsState:
    before, given, counts = bank.prepared(state, renewal)

    def turn(number: jax.Array, carry: tuple) -> tuple:
        """The metrics and the rules' states, learned once."""
        own = bank.with_learned(before, *carry)
        metrics = bank.learned(own, given, number)
        Z = bank.features_of(bank.with_learned(before, metrics, carry[1]), given.X)
        rules = zip(bank.bank.rules, carry[1], strict=True)
        fitted = (r.fitted(own, Z, given.y, counts, given.round) for r, own in rules)
        return metrics, tuple(fitted)

    after = jax.lax.fori_loop(0, bank.turns, turn, bank.learned_of(before))
    return bank.with_learned(before, *after)


@abilities.importances.register
def _(bank: MetricBank, state: MetricModelsState) -> jax.Array:
    """How much each input matters (D,), of sum 1: the diagonal of L L' over its trace.

    Of several metrics it is their mean.
    """
    return jnp.mean(jnp.stack([importances(metric) for metric in state.metrics]), axis=0)


@pytree.dataclass
class MetricModels(MetricBank):
    """A bank on features of L'x, with metrics L learned from the gradients of its own models.

    In rounds ``first``, twice as many, four times as many and so on, over ``sample`` examples x_i
    of the learner's memory, a sample of all labelled ones so far:

        M = Σ_e p_e Σ_i ∇f_e(x_i) ∇f_e(x_i)',     L L' ∝ M^power,  Σ_d v_d (L L')_dd = 1

    with p_e ∝ 1 / l_e⁴ for the recent squared errors l_e of the models, the variances v_d of the
    inputs in that sample, and of several outputs the sum over them. A full L is the symmetric
    one but for random signs of its columns, drawn anew each time: without them the noise of a
    gradient, which lies along the features' frequencies, would stretch the same ones again, which
    doubles the error where two directions of 32 matter. Then all models begin anew
    and learn these examples under the new metric: least squares in closed form, each example
    counting as often as it stands for, and rules of first order by one pass. All this is repeated
    ``repetitions`` times. Between such rounds the bank is the one inside, on
    :class:`jaxmkl.features.MetricFeatures`, and costs a product X L more. Where M is 0 or not
    finite the metric stays. At first it is I/sqrt(D): of inputs of variance 1 the variances of L'x
    add up to 1, however many there are, and from the first renewal on they do whatever the inputs'
    scale. So widths around 1 suit.

    Several metrics stand side by side: each has models of its own, from whose gradients it is
    learned. They come metric by metric: with S of them the bank has S times as
    many models.

    No derivative goes through a renewal: those by widths and rates are those of the rounds since.

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

    def learned(self, state: MetricModelsState, renewal: Renewal, turn: jax.Array) -> tuple:
        X, features, kernels = renewal.X, self.bank.features, self.bank.kernels
        (metrics, inside), rules = state.bank.features, state.bank.rules
        D, S, P = X.shape[1], len(metrics), features.num_vectors(kernels)
        empty = jnp.zeros((S * P, features.num_coordinates(D)), X.dtype)
        states = zip(self.bank.rules, rules, strict=True)
        each = [abilities.gradients(rule, own, renewal.round, empty) for rule, own in states]
        weights = jnp.concatenate(each, axis=1)
        K, R, _, M = weights.shape
        weights = weights.reshape(K, R, S, P, M)
        shares = _shares(state.losses.reshape(R, S, P))
        # a model that diverged would spoil the products for all, and squares may overflow
        good = (shares[None, ..., None] > 0) & jnp.isfinite(weights)
        weights = jnp.where(good, weights, 0)

        def moments(rows: tuple[jax.Array, jax.Array]) -> tuple:
            """The sums over rows of each M, for gradients by L'x."""
            X, known = rows
            found = []
            for s, (own, metric) in enumerate(zip(inside, metrics, strict=True)):
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
            metric_of(by_inputs(M, metric), self.power, metric, state.variances, signs)
            for M, metric in zip(summed, metrics, strict=True)
        )


def _shares(losses: jax.Array) -> jax.Array:
    """Numbers in proportion to 1 / l_e⁴ (R, S, P), for each metric by itself.

    The largest is 1, as metrics are free of the size; 0 where a loss is not finite.
    """
    known = jnp.isfinite(losses)
    least = jnp.min(losses, axis=(0, 2), where=known, initial=jnp.inf, keepdims=True)
    ratios = jnp.where(losses > least, least / jnp.where(losses > 0, losses, 1), 1.0)
    return jnp.where(known, ratios**_STEEP, 0.0)
