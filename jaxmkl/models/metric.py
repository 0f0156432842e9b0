"""Models on features whose inputs have a metric that is learned from the models' own gradients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import (
    common_period,
    largest_of_runs,
    rounds_of,
    sum_over_rows,
    take,
)
from jaxmkl._feedback import Feedback
from jaxmkl._metric import SHAPES, applied, importances, isotropic, metric_of, outer_products
from jaxmkl._types import Number, PyTree
from jaxmkl.models.bank import Bank
from jaxmkl.models.on_features import FeatureCode, FeatureModels, FeatureModelsState
from jaxmkl.reservoir import Reservoir, ReservoirState, is_doubling
from jaxmkl.updates import Rule

_HIGHEST = jax.lax.Precision.HIGHEST

_RECENT = 0.01  # weight of the latest round in the models' losses
_STEEP = 4  # power of the inverse losses that weighs their gradients


class MetricModelsState(NamedTuple):
    """State of :class:`MetricModels`."""

    bank: FeatureModelsState
    """State of the models."""
    metric: jax.Array
    """L: (D,) if it is diagonal, or (D, D)."""
    losses: jax.Array
    """Discounted squared errors of the models (E,), summed over outputs."""
    reservoir: ReservoirState
    """Labelled examples, before the metric."""


class MetricCode(NamedTuple):
    """One example."""

    x: jax.Array
    """The input (D,), before the metric."""
    round: jax.Array
    """The example's round, int32."""
    bank: FeatureCode
    """Code of the models."""


@pytree.dataclass
class MetricModels(Bank):
    """A bank on features of L'x, with a metric L learned from the gradients of its own models.

    In rounds ``first``, twice as many, four times as many and so on, over the examples x_i of a
    reservoir of all labelled ones so far:

        M = Σ_e p_e Σ_i ∇f_e(x_i) ∇f_e(x_i)',     L L' ∝ M^power,  tr(L L') = 1

    with p_e ∝ 1 / l_e⁴ for the recent squared errors l_e of the models, and of several outputs the
    sum over them. Then all models begin anew and learn the reservoir under the new metric: least
    squares in closed form, each example counting as often as it stands for, and rules of first
    order by one pass. All this is repeated ``repetitions`` times. Between such rounds the bank is
    the one inside, and costs a product X L more. Where M is 0 or not finite the metric stays. At
    first it is I/sqrt(D): so widths of kernels are in units of sqrt(D), and 1 suits inputs of
    variance 1, however many there are.

    No derivative goes through a renewal: those by widths and rates are those of the rounds since.

    Args:
      bank: the models, on any features that are not sequential.
      shape: "diagonal", a weight for each input, or "full". A full metric of D inputs takes D²
        numbers and D³ operations a renewal.
      reservoir: the sample of labelled examples, by default 2,000.
      first: the round of the first metric; blocks divide it, so powers of two suit.
      repetitions: how often a metric is learned in a row.
      power: 1 is the published one; 1/2 changes less.

    Raises:
      ValueError: if the features are sequential, or a number is not in its range.

    References:
      Radhakrishnan, Beaglehole, Pandit and Belkin (2024), Mechanism for feature learning in neural
      networks and backpropagation-free machine learning models, Science 383,
      https://doi.org/10.1126/science.adi5639.

    >>> import jaxmkl
    >>> learner = jaxmkl.MKL(MetricModels(jaxmkl.raker(jaxmkl.Gaussian([1.0, 3.0])).models[0]))
    >>> learner.num_models
    2
    """

    bank: FeatureModels = pytree.part(FeatureModels, "a bank on features")
    shape: str = pytree.choice(*SHAPES, default="diagonal")
    reservoir: Reservoir = pytree.part(
        Reservoir, "a reservoir, as jaxmkl.reservoir.Reservoir(500)", default=Reservoir()
    )
    first: int = pytree.count(default=256)
    repetitions: int = pytree.count(default=2)
    power: Number = pytree.positive(default=1.0)
    many_outputs = True

    def __post_init__(self) -> None:
        sequential, wanted = self.bank.features.sequential, "one whose features do not grow"
        pytree.require(not sequential, self, "bank", self.bank, wanted)

    @property
    def num_models(self) -> int:
        return self.bank.num_models

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return self.bank.all_rules

    @property
    def random(self) -> bool:
        return self.bank.random

    @property
    def period(self) -> int:  # type: ignore[override]
        """The largest that divides the round of the first metric and the period inside."""
        return common_period((self.bank, _Period(self.first))) or self.first

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> MetricModelsState:
        bank = self.bank.init(key, num_inputs, dtype, num_outputs)
        key = jax.random.fold_in(key, 1)
        return MetricModelsState(
            bank=bank,
            metric=isotropic(self.shape, num_inputs, 1.0, dtype),
            losses=jnp.zeros((self.num_models,), dtype),
            reservoir=self.reservoir.init(key, num_inputs, dtype, num_outputs),
        )

    def encode(
        self, state: MetricModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> MetricCode:
        codes = self.bank.encode(state.bank, applied(state.metric, X), round, keys)
        return MetricCode(X, rounds_of(round, len(X)), codes)

    def predict(
        self, state: MetricModelsState, code: MetricCode
    ) -> tuple[jax.Array, tuple[jax.Array, PyTree]]:
        values, aux = self.bank.predict(state.bank, code.bank)
        return values, (values, aux)

    def update(
        self,
        state: MetricModelsState,
        code: MetricCode,
        aux: tuple[jax.Array, PyTree],
        feedback: Feedback,
    ) -> MetricModelsState:
        values, inside = aux
        learns = jnp.any(feedback.updates)
        errors = jnp.square(values - feedback.y[..., None])
        errors = errors.reshape(-1, errors.shape[-1]).sum(axis=0)
        losses = state.losses + _RECENT * (errors - state.losses)
        # a model that diverged has its chance once it began anew
        losses = jnp.where(jnp.isfinite(state.losses), losses, errors)
        return MetricModelsState(
            bank=self.bank.update(state.bank, code.bank, inside, feedback),
            metric=state.metric,
            losses=jnp.where(learns, losses, state.losses),
            reservoir=self.reservoir.update(
                state.reservoir, code.x, feedback.y, code.round, learns
            ),
        )

    def close(
        self, state: MetricModelsState, codes: MetricCode, round: jax.Array
    ) -> MetricModelsState:
        bank = self.bank.close(state.bank, codes.bank, round)
        # a block of padding alone ends in the round it begins with, and renews nothing again
        due = is_doubling(round, self.first) & (codes.round[0] != round)
        examples = state.reservoir.X, state.reservoir.y, self.reservoir.filled(state.reservoir)
        number = state.reservoir.num_examples
        given = examples, number, state.losses, bank.features, round
        rules, metric = _renewed_if(due, self, given, (bank.rules, state.metric))
        return state._replace(bank=bank._replace(rules=rules), metric=metric)

    def importances(self, state: MetricModelsState) -> jax.Array:
        """How much each input matters (D,), of sum 1: the diagonal of L L' over its trace."""
        return importances(state.metric)

    def renewed(self, given: tuple, changing: tuple) -> tuple:
        """The states of the rules and the metric, learned from the reservoir once."""
        (X, _, filled), _, losses, features, round = given
        rules, metric = changing
        M, P = self.bank.features.num_coordinates(X.shape[1]), self.bank.kernels.num_kernels
        empty = jnp.zeros((P, M), X.dtype)
        weights = [
            _weights_of(rule, own, round, empty)
            for rule, own in zip(self.bank.rules, rules, strict=True)
        ]
        moments = self._moments(
            features, metric, X, filled, jnp.concatenate(weights, axis=1), _shares(losses)
        )
        return self._refitted(given, rules, metric_of(moments, self.power, metric))

    def _refitted(self, given: tuple, rules: tuple, metric: jax.Array) -> tuple:
        """The states of the rules after the reservoir under a metric, and the metric."""
        (X, y, filled), number, _, features, round = given
        Z = self._features(features, applied(metric, X))
        filled = filled.astype(X.dtype)
        counts = filled * (number.astype(X.dtype) / jnp.maximum(jnp.sum(filled), 1))
        rules = tuple(
            rule.fitted(own, Z, y, counts, round)
            for rule, own in zip(self.bank.rules, rules, strict=True)
        )
        return rules, metric

    def _features(self, features: PyTree, X: jax.Array) -> jax.Array:
        """Features (N, P, M) of rows, under the metric already."""
        feature_map, round = self.bank.features, jnp.zeros((), jnp.int32)
        keys = jax.random.split(jax.random.key(0), len(X))
        codes = feature_map.encode(features, self.bank.kernels, X, round, keys)
        return jax.vmap(lambda code: feature_map.predict(features, code)[0])(codes)

    def _moments(
        self,
        features: PyTree,
        metric: jax.Array,
        X: jax.Array,
        filled: jax.Array,
        weights: jax.Array,
        shares: jax.Array,
    ) -> jax.Array:
        """M (D, D) or its diagonal (D,), of models of weights θ (K, R, P, M)."""
        D, (K, R, P, _) = X.shape[1], weights.shape
        shares = jnp.tile(shares.reshape(1, 1, R, P), (1, K, 1, 1))
        # squares of the weights of models that diverge may overflow
        weights = jnp.where(shares[0, ..., None] > 0, weights, 0).reshape(K * R, P, -1)

        def outer(rows: tuple[jax.Array, jax.Array]) -> jax.Array:
            X, filled = rows
            inside = applied(metric, X)
            by = self.bank.features.gradients(features, self.bank.kernels, inside, weights)
            counts = jnp.broadcast_to(filled[:, None, None, None] * shares, (len(X), K, R, P))
            return outer_products(by.reshape(-1, D), counts.reshape(-1), metric.ndim == 1)

        inside = sum_over_rows(outer, (X, filled.astype(X.dtype)), filled)
        # gradients by x are L times those by L'x
        if metric.ndim == 1:
            return metric**2 * inside
        half = jnp.dot(metric, inside, precision=_HIGHEST)
        return jnp.dot(half, metric.T, precision=_HIGHEST)


class _Period(NamedTuple):
    """A part with a period."""

    period: int


def _shares(losses: jax.Array) -> jax.Array:
    """p_e ∝ 1 / l_e⁴ (E,); 0 where a loss is not finite."""
    known = jnp.isfinite(losses)
    smallest = jnp.min(losses, where=known, initial=jnp.inf)
    ratios = jnp.where(losses > smallest, smallest / jnp.where(losses > 0, losses, 1), 1.0)
    shares = jnp.where(known, ratios**_STEEP, 0.0)
    return shares / jnp.sum(shares)


def _weights_of(rule: Rule, state: PyTree, round: jax.Array, empty: jax.Array) -> jax.Array:
    """The weights θ (K, R, P, M) of a rule's models, the derivatives of its values by z (P, M)."""

    # a model that diverged would spoil the products for all
    state = jax.tree.map(
        lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, jnp.zeros_like(leaf)), state
    )

    def values(z: jax.Array) -> jax.Array:
        code = take(rule.encode(state, round, z[None]), 0)
        return rule.predict(state, code, z)[0]

    out, backward = jax.vjp(values, empty)
    K, R, P = out.shape
    # the value of a kernel depends on its own features alone
    each = jnp.eye(K * R, dtype=out.dtype).reshape(K * R, K, R, 1)
    (weights,) = jax.vmap(backward)(jnp.broadcast_to(each, (K * R, K, R, P)))
    return weights.reshape(K, R, *empty.shape)


@jax.custom_jvp
def _renewed_if(due: jax.Array, owner: MetricModels, given: tuple, changing: tuple) -> tuple:
    """What changes at a renewal, after the repetitions of one if it is due."""

    def turn(_: jax.Array, own: tuple) -> tuple:
        return optax.tree.where(due, owner.renewed(given, own), own)

    turns = largest_of_runs(jnp.where(due, owner.repetitions, 0))
    return jax.lax.fori_loop(0, turns, turn, changing)


@_renewed_if.defjvp
def _derivative(primals: tuple, tangents: tuple) -> tuple:
    """A loop of dynamic length has no reverse derivative; a renewal is a statistic."""
    due, *_ = primals
    after = _renewed_if(*primals)
    return after, jax.tree.map(lambda t: jnp.where(due, jnp.zeros_like(t), t), tangents[-1])
