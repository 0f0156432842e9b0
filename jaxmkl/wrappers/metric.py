"""A metric for the inputs of any learner, learned from the gradients of its own models."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._algorithm import Algorithm
from jaxmkl._blocks import rounds_of, take
from jaxmkl._learner import Learner, Prediction
from jaxmkl._metric import (
    SHAPES,
    applied,
    importances,
    isotropic,
    metric_of,
    outer_products,
    signs_of,
)
from jaxmkl._types import Number, PyTree
from jaxmkl.reservoir import Reservoir, ReservoirState, is_doubling
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState

_RESERVOIR = Reservoir(500)


@pytree.dataclass
class LearnedMetricState(WrapperState):
    """State of :class:`LearnedMetric`."""

    metric: Array
    """L: (D,) if it is diagonal, or (D, D)."""
    reservoir: ReservoirState
    """Labelled examples, before the metric."""


class LearnedMetricCode(NamedTuple):
    """One example."""

    x: Array
    """The input (D,), before the metric."""
    round: Array
    """The example's round, int32."""
    draws: Array
    """Random numbers of the reservoir (2,)."""
    inner: PyTree
    """Code of the inner learner."""


@pytree.dataclass
class LearnedMetric(OnBlocks):
    """A learner with a metric that it learns; made by :func:`learned_metric`."""

    learner: Algorithm = pytree.part(Algorithm, "a learner that is no wrapper, as jaxmkl.spa()")
    shape: str = pytree.choice(*SHAPES, default="diagonal")
    reservoir: Reservoir = pytree.part(
        Reservoir, "a reservoir, as jaxmkl.reservoir.Reservoir(500)", default=_RESERVOIR
    )
    first: int = pytree.count(default=256)
    repetitions: int = pytree.count(default=2)
    power: Number = pytree.positive(default=1.0)

    preferred_block_size = Learner.preferred_block_size
    keeps_rounds = False  # as examples are learned again

    def __post_init__(self) -> None:
        columns, wanted = self.learner.leading_columns, "one all of whose columns are inputs"
        pytree.require(not columns, self, "learner", self.learner, wanted)

    @property
    def period(self) -> int:  # type: ignore[override]
        """The largest that divides the round of the first metric and the inner period."""
        return math.gcd(self.first, self.learner.period or 0)

    def init(
        self, key: Array, num_inputs: int, dtype: DTypeLike | None = None
    ) -> LearnedMetricState:
        inner = self.learner.init(key, num_inputs, dtype)
        dtype, key = self.learner.dtype(inner), jax.random.fold_in(key, 2)
        reservoir = self.reservoir.init(key, num_inputs, dtype, self.num_outputs)
        metric = isotropic(self.shape, num_inputs, num_inputs, dtype)
        return LearnedMetricState(inner, metric, reservoir)

    def encode(
        self, state: LearnedMetricState, X: Array, given: Array | None = None
    ) -> LearnedMetricCode:
        given, rounds = X if given is None else given, rounds_of(state.round, len(X))
        codes = self.learner.encode(state.inner, applied(state.metric, X), given)
        draws = self.reservoir.draws(state.reservoir, rounds)
        return LearnedMetricCode(X, rounds, draws, codes)

    def predict_code(
        self, state: LearnedMetricState, code: LearnedMetricCode
    ) -> tuple[Prediction, PyTree]:
        return self.learner.predict_code(state.inner, code.inner)

    def update_code(
        self,
        state: LearnedMetricState,
        code: LearnedMetricCode,
        aux: PyTree,
        y: Array,
        asked: Array,
        present: Array,
    ) -> LearnedMetricState:
        """The inner learner learns, and what it did not refuse enters the reservoir."""
        before = state.inner.invalid
        inner = self.learner.update_code(state.inner, code.inner, aux, y, asked, present)
        learned = asked & present & (inner.invalid == before)
        y = jnp.where(learned, y, 0.0)
        x = jnp.where(learned, code.x, 0.0)
        reservoir = self.reservoir.update(state.reservoir, x, y, code.draws, learned)
        return state.replace(inner=inner, reservoir=reservoir)

    def close(self, state: LearnedMetricState, codes: LearnedMetricCode) -> LearnedMetricState:
        state = state.replace(inner=self.learner.close(state.inner, codes.inner))
        # a block of padding alone ends in the round it begins with, and renews nothing again
        due = is_doubling(state.round, self.first) & (codes.round[0] != state.round)
        # a statistic: no derivative goes through a renewal, and loops of dynamic length have none
        owner, fixed = jax.lax.stop_gradient((self, state))
        times = jnp.where(due, self.repetitions, 0)
        renewed = jax.lax.fori_loop(0, times, lambda turn, own: owner._renewed(own, turn), fixed)
        return optax.tree.where(due, renewed, state)

    def _gradients(self, state: LearnedMetricState, x: Array) -> tuple[Array, Array]:
        """Gradients of the models' values by an input (E or K E, D), and their weights."""

        def values(x: Array) -> tuple[Array, Array]:
            code = take(self.encode(state, x[None]), 0)
            forecast = self.learner.predict_own(state.inner, code.inner.own)[0]
            return forecast.values, forecast.weights

        return jax.jacrev(values, has_aux=True)(x)

    def _renewed(self, state: LearnedMetricState, turn: Array) -> LearnedMetricState:
        """The state with the metric of its gradients, and a learner that learned the reservoir."""
        X, y = state.reservoir.X, state.reservoir.y
        filled = self.reservoir.filled(state.reservoir)
        D, diagonal = X.shape[1], state.metric.ndim == 1

        def added(i: Array, total: Array) -> Array:
            gradients, weights = self._gradients(state, X[i])
            weights = jnp.broadcast_to(weights, gradients.shape[:-1]).reshape(-1)
            return total + outer_products(gradients.reshape(-1, D), weights, diagonal)

        number = jnp.sum(filled, dtype=jnp.int32)
        moments = jax.lax.fori_loop(0, number, added, jnp.zeros_like(state.metric))
        signs = signs_of(state.round, turn, D, moments.dtype)
        variances = jnp.full((D,), 1 / D, moments.dtype)
        metric = metric_of(moments, self.power, state.metric, variances, signs)
        # the examples take the last rounds, so that blocks end where they would
        run, start = state.inner, state.round - number
        frame = ("key", "invalid", "outlying", "nonfinite", "magnitudes", "query")
        kept = {name: getattr(run, name) for name in frame}
        began = self.learner.init(run.key, D, self.learner.dtype(run))
        began = began.replace(round=start, **kept)
        if capacity := self.learner.capacity(run):
            began = self.learner.enlarged(began, capacity)
        yes = jnp.ones((), bool)

        def learned(i: Array, own: PyTree) -> PyTree:
            codes = self.learner.encode(own, applied(metric, X[i][None]), X[i][None])
            code = take(codes, 0)
            aux = self.learner.predict_code(own, code)[1]
            own = self.learner.update_code(own, code, aux, y[i], yes, yes)
            return self.learner.close(own, codes)

        inner = jax.lax.fori_loop(0, number, learned, began)
        return state.replace(inner=inner.replace(**kept), metric=metric)

    def importances(self, state: LearnedMetricState) -> Array:
        """How much each input matters (D,), of sum 1: the diagonal of L L' over its trace."""
        return importances(state.metric)


def learned_metric(
    learner: Algorithm,
    shape: str = "diagonal",
    *,
    reservoir: Reservoir = _RESERVOIR,
    first: int = 256,
    repetitions: int = 2,
    power: Number = 1.0,
) -> LearnedMetric:
    """Give a learner the inputs L'x, with a metric L that is learned from its own gradients.

    In rounds ``first``, twice as many, four times as many and so on, for all examples x_i of a
    reservoir of the labelled ones so far:

        M = Σ_i Σ_e p_e ∇f_e(x_i) ∇f_e(x_i)',     L L' ∝ M^power,  tr(L L') = D

    with the learner's models f_e and their weights p_e, and of several outputs the sum over them;
    a full L is symmetric but for random signs of its columns, drawn anew each time.
    Then the learner begins anew and learns the reservoir under the new metric; all that is
    repeated ``repetitions`` times. Between two such rounds it costs one product.

    For models on features :class:`jaxmkl.models.MetricModels` does the same without replaying
    examples one by one, and stands beside other banks. This wrapper is for the others, as those
    with support vectors. Predictions that are votes, or models that are 0, have no gradient: where
    M is 0 the metric stays. No derivative goes through a renewal, so those by hyperparameters are
    those of the rounds since.

    Args:
      learner: any learner that is no wrapper; put scaling, label budgets and the like around this
        one.
      shape: "diagonal" for a weight for each input, or "full".
      reservoir: the sample of labelled examples, by default 500.
      first: the round of the first metric; blocks divide it, so powers of two suit.
      repetitions: how often a metric is learned in a row.
      power: 1 is the published one; 1/2 changes less.

    Raises:
      ValueError: if the learner is a wrapper or its first columns are no inputs, or a number is
        not in its range.

    References:
      Radhakrishnan, Beaglehole, Pandit and Belkin (2024), Mechanism for feature learning in neural
      networks and backpropagation-free machine learning models, Science 383,
      https://doi.org/10.1126/science.adi5639.

    >>> import jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (520, 4))
    >>> learner = learned_metric(jaxmkl.kernel_ogd(jaxmkl.Gaussian(2.0)))
    >>> state = learner.init(jax.random.key(1), num_inputs=4)
    >>> state, _ = jaxmkl.run(learner, state, X, jnp.sin(X[:, 2]))
    >>> int(learner.importances(state).argmax())
    2
    """
    return LearnedMetric(learner, shape, reservoir, first, repetitions, power)
