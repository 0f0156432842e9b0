"""Queries, which decide whether the label of an example is worth asking for.

A query reads the forecast of a learner (:class:`Forecast`) before the label is known, and gives
the example a score: the larger it is, the more the label is worth. The prediction carries the
score, so a pool of examples can be ranked by it.

    All             asks for every label
    Disagreement    asks unless the models agree and one of the last labels was asked for
    Margin          asks at random, more often the nearer the prediction is to another class
    Uncertainty     asks if the variance of the prediction outweighs its margin, else at random
    Random          asks at random
    Rate            asks for the labels worth most, at a rate kept on any stream

Every learner takes every query, but :class:`Uncertainty` needs a learner with variances.
"""

import abc
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on, uniform
from jaxmkl._moments import Moments
from jaxmkl._types import EMPTY, Noise, Number, State
from jaxmkl.losses import Squared, loss_field

__all__ = ["All", "Disagreement", "Forecast", "Margin", "Query", "Random", "Rate", "Uncertainty"]


class Forecast(NamedTuple):
    """A prediction and the models' values behind it, which a query reads.

    Attributes:
      value: the prediction, a number, or (K,) for several outputs.
      values: the values of the E models, as they are combined, (E,) or (K, E).
      weights: the weights (E,) of the models, of sum 1.
      active: the mask (E,) of the active models; None for all.
      variance: the variance of the learner's function, of the value's shape; None if unknown.
      noise: the variance of the label around it, of the value's shape; None if unknown.
      margin: for classifiers, half the distance between the likeliest class and the next, which is
        |f| for two classes; None for regression.
    """

    value: jax.Array
    values: jax.Array
    weights: jax.Array
    active: jax.Array | None = None
    variance: jax.Array | None = None
    noise: jax.Array | None = None
    margin: jax.Array | None = None

    @classmethod
    def of_one(cls, value: jax.Array, variance: jax.Array | None = None) -> "Forecast":
        """The forecast of a learner that is a single model."""
        return cls(value, value[None], jnp.ones_like(value)[None], variance=variance)


class Query(abc.ABC, Generic[State, Noise]):
    """Base of all queries: frozen pytree dataclasses that define :meth:`score` and :meth:`ask`."""

    needs_variance: bool = False
    """True if the query reads ``forecast.variance``."""
    is_random: bool = True
    """False if :meth:`ask` needs no random numbers."""

    def init(self, dtype: DTypeLike = jnp.float32) -> State:
        """The query's own state before the first round, a pytree with numbers of this dtype."""
        return EMPTY

    def noise(self, key: jax.Array) -> Noise:
        """The random numbers for one example: by default a uniform one, the same in any dtype."""
        numbers: Any = uniform(key, (), jnp.float32) if self.is_random else ()
        return numbers

    @abc.abstractmethod
    def score(self, state: State, forecast: Forecast) -> jax.Array:
        """The worth of the label, a number."""

    @abc.abstractmethod
    def ask(self, state: State, score: jax.Array, noise: Noise) -> jax.Array:
        """Decide by the score and the random numbers whether to ask, a boolean."""

    def update(
        self, state: State, forecast: Forecast, asked: jax.Array, y: ArrayLike = 0.0
    ) -> State:
        """The query's state after a round in which a label was asked for or not.

        Args:
          state: the state before the round.
          forecast: the forecast for the round's example.
          asked: whether there is a label to learn from.
          y: that label; 0 if there is none.
        """
        return state

    def await_label(self, state: State, asked: jax.Array) -> State:
        """The query's state after a label was asked for (if ``asked``) that arrives later."""
        return state

    def refuse_label(self, state: State, refused: jax.Array) -> State:
        """The query's state after a label asked for was refused (if ``refused``)."""
        return state


class _Waiting(Query):
    """Base of queries whose state counts in ``waiting`` the labels that have not arrived yet."""

    def refuse_label(self, state: Any, refused: jax.Array) -> Any:
        late = refused & (state.waiting > 0)
        return state._replace(waiting=state.waiting - late.astype(jnp.int32))


@pytree.dataclass
class All(Query[tuple, tuple]):
    """Ask for every label; all scores are 1."""

    is_random = False

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return jnp.ones((), forecast.value.dtype)

    def ask(self, state: tuple, score: jax.Array, noise: tuple) -> jax.Array:
        return jnp.asarray(True)


class DisagreementState(NamedTuple):
    """State of :class:`Disagreement`."""

    skips: jax.Array
    """Number of labels skipped since one was asked for, int32; -1 before the first."""
    waiting: jax.Array
    """Labels asked for that have not arrived yet, int32."""
    learned: tuple = ()
    """The number of labels learned, int32, and their moments, if the tolerance is relative."""


@pytree.dataclass
class Disagreement(_Waiting):
    """Ask unless the models agree; after ``max_skips`` labels skipped in a row, ask in any case.

    With a_t = 1 if the label of round t was asked for, else 0, the weights p of all models, the
    set V of active models and the models' values f, the label of round t is skipped if and only if

        a_{t-1} + ... + a_{t-M} > 0                            one of the last M was asked for
        max_j Σ_{i in V} p_i (f_i - f_j)² <= tolerance         the models agree

    where j runs over all models. So the first label is always asked for, when all models are still
    0 and agree; if M is infinite, it is the only one that is asked for in any case. A label that
    arrives late (:meth:`jaxmkl.Learner.ask`) counts when it is asked for; a round whose label is
    refused, as NaN is, does not count.

    The sum is a variance about the mean m of V under p plus Σ_V p · (f_j - m)², so one pass over
    the models is enough. Its maximum is the score. With another ``loss`` L the distance is
    L(f_i, f_j) between every two models, which takes E² losses a round.

    Args:
      tolerance: η_c, a number of at least 0 in squared units of the prediction.
      max_skips: M, the largest number of labels skipped in a row; at least 1/(M + 1) of the labels
        are asked for.
      relative: whether the tolerance is in units of the running variance of the labels learned so
        far (static): .01 then means a disagreement of a tenth of their standard deviation. The
        first two labels are asked for.
      loss: a loss of numbers in :mod:`jaxmkl.losses`, or its name; it is summed over several
        outputs. The theorems about the rule assume one with the triangle inequality, such as
        ``EpsilonInsensitive(0.0)``, the absolute loss; the squared loss has none.

    Raises:
      ValueError: if a number is negative or not a number, the loss is one of classes, or the
        tolerance is relative and the loss is not squared or, in a round, outputs are several.

    References:
      Hong and Chae, "confidence condition" (33), Algorithm 2 (the text states the criterion
      reversed), (34), (35).

    >>> rule, half = Disagreement(tolerance=0.01, max_skips=1), jnp.array([0.5, 0.5])
    >>> state, forecast = rule.init(), Forecast(jnp.array(0.51), jnp.array([0.5, 0.52]), half)
    >>> for t in range(4):  # the models agree
    ...     asked = rule.ask(state, rule.score(state, forecast), None)
    ...     state = rule.update(state, forecast, asked)
    ...     print(bool(asked), end=" ")
    True False True False
    """

    tolerance: Number = pytree.nonnegative(default=0.0005, finite=False)
    max_skips: Number = pytree.nonnegative(default=1.0, finite=False, discrete=True)
    relative: bool = pytree.flag(default=False)
    loss: Any = loss_field(default="squared")
    is_random = False

    def __post_init__(self) -> None:
        of_numbers = self.loss.task == "regression"
        pytree.require(of_numbers, self, "loss", self.loss, "a loss of regression")
        squared = not self.relative or isinstance(self.loss, Squared)
        pytree.require(squared, self, "loss", self.loss, "squared where the tolerance is relative")

    def init(self, dtype: DTypeLike = jnp.float32) -> DisagreementState:
        none = jnp.zeros((), jnp.int32)
        learned = (none, Moments.none((), dtype)) if self.relative else ()
        return DisagreementState(none - 1, none, learned)

    def score(self, state: DisagreementState, forecast: Forecast) -> jax.Array:
        """The largest weighted sum of distances from one model."""
        values, p = forecast.values, forecast.weights
        if forecast.active is not None:
            p = jnp.where(forecast.active, p, 0.0)
        if not isinstance(self.loss, Squared):
            of_each = jnp.atleast_2d(values)  # (K, E)
            apart = self.loss.value(of_each[:, :, None], of_each[:, None, :])  # (K, E of V, E)
            return jnp.max(jnp.sum(p[None, :, None] * apart, axis=(0, 1)))
        total = jnp.sum(p)
        distance = _distances(p / total, values)
        return jnp.sum(p * distance) + total * jnp.max(distance)

    def ask(self, state: DisagreementState, score: jax.Array, noise: tuple) -> jax.Array:
        tolerance = jnp.asarray(self.tolerance, score.dtype)
        if self.relative:
            number, labels = state.learned
            unit = labels.variance.astype(score.dtype)
            tolerance = jnp.where(number >= 2, tolerance * unit, jnp.nan)
        agree = score <= tolerance  # False if one of them is NaN
        skips = state.skips.astype(score.dtype)
        one_of_last = (skips >= 0) & (skips < jnp.asarray(self.max_skips, score.dtype))
        return ~(agree & one_of_last)

    def update(
        self, state: DisagreementState, forecast: Forecast, asked: jax.Array, y: ArrayLike = 0.0
    ) -> DisagreementState:
        learned = state.learned
        if self.relative:
            one = jnp.ndim(y) == 0
            pytree.require(one, self, "relative", True, "False where there are several outputs")
            number, labels = learned
            y = jnp.asarray(y).astype(labels.mean.dtype)
            after = count_on(number), labels.after(y, count_on(number))
            learned = optax.tree.where(asked, after, learned)
        late = asked & (state.waiting > 0)  # it was counted when it was asked for
        since = jnp.where((state.skips < 0) | late, state.skips, count_on(state.skips))
        waiting = state.waiting - late.astype(jnp.int32)
        return DisagreementState(jnp.where(asked & ~late, 0, since), waiting, learned)

    def await_label(self, state: DisagreementState, asked: jax.Array) -> DisagreementState:
        skips, waiting = jnp.where(asked, 0, state.skips), state.waiting
        return state._replace(skips=skips, waiting=waiting + asked.astype(jnp.int32))


@pytree.dataclass
class _AtRandom(Query[tuple, jax.Array]):
    """Ask if the score is 0 or more, else with probability h / (h - score), h up to infinity."""

    h: Number = pytree.nonnegative(default=0.1, finite=False)

    def ask(self, state: tuple, score: jax.Array, noise: jax.Array) -> jax.Array:
        below = -score.astype(noise.dtype)  # in this precision the uniform number is below 1
        h = jnp.asarray(self.h, noise.dtype)
        share = jnp.where(below > 0, h / (h + jnp.where(below > 0, below, 1.0)), 1.0)
        return noise < jnp.where(jnp.isinf(h), 1.0, share)


@pytree.dataclass
class Margin(_AtRandom):
    """Ask with probability h / (h + |f|), whatever the variance; the score is -|f|.

    With several classes, half the distance between the likeliest and the next replaces |f|.

    Args:
      h: a number of at least 0; if it is infinite, every label is asked for.

    Raises:
      ValueError: if h is negative or not a number.

    References:
      Cesa-Bianchi, Gentile and Zaniboni (2006), Worst-case analysis of selective sampling for
      linear classification.

    >>> rule, uniform = Margin(h=0.1), jnp.array(0.4)
    >>> [bool(rule.ask((), jnp.array(-margin), uniform)) for margin in (0.0, 0.1, 0.3)]
    [True, True, False]
    """

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return -_margin(forecast)


@pytree.dataclass
class Uncertainty(_AtRandom):
    """Ask if the prediction is uncertain, else at random, less often the more certain it is.

        score = v/(4ε) - |f|        with the variance v of the prediction
        score >= 0:    ask
        else:          ask with probability h / (h - score)

    Args:
      h: at least 0: the larger, the more often it asks; 0 asks only if uncertain, infinity always.
      inertia: ε > 0, the same as the learner's if it has one.

    Raises:
      ValueError: if h is negative, or the inertia is not positive.

    References:
      Kernel sampling for online multi-task classification, Theorem 2.

    >>> rule, uniform = Uncertainty(h=0.1), jnp.array(0.4)
    >>> [bool(rule.ask((), jnp.array(-theta), uniform)) for theta in (-0.1, 0.1, 0.3)]
    [True, True, False]
    """

    inertia: Number = pytree.positive(default=1.0)
    needs_variance = True

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        epsilon = jnp.asarray(self.inertia, forecast.value.dtype)
        variance = jnp.sum(forecast.variance) / (4.0 * epsilon)  # type: ignore[arg-type]
        return variance - _margin(forecast)


@pytree.dataclass
class Random(Query[tuple, jax.Array]):
    """Ask at random; all scores are the rate.

    Args:
      rate: the share of labels asked for, in [0, 1].

    Raises:
      ValueError: if the rate is outside [0, 1].

    >>> bool(Random(0.5).ask((), jnp.array(0.5), jnp.array(0.4)))
    True
    """

    rate: Number = pytree.share(default=0.5)

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return jnp.asarray(self.rate, forecast.value.dtype)

    def ask(self, state: tuple, score: jax.Array, noise: jax.Array) -> jax.Array:
        return noise < score.astype(noise.dtype)


class RateState(NamedTuple):
    """State of :class:`Rate`."""

    threshold: jax.Array
    """The threshold s."""
    spread: jax.Array
    """Mean of √d, or of √v, over the rounds."""
    asked: jax.Array
    """Labels asked for, int32; halved, like ``passed``, when their sum reaches 2^30."""
    passed: jax.Array
    """Labels not asked for, int32."""
    waiting: jax.Array
    """Labels asked for that have not arrived yet, int32."""
    lead: jax.Array
    """The head start in rounds, 0 before the first round and in regression."""


# A classifier may ask for the labels of 400 rounds in advance; 1,000 rounds pay them back.
HEAD_START, PAID_BACK = 400.0, 1000.0


@pytree.dataclass
class Rate(_Waiting):
    """Ask for a share of the labels, those worth most; the share is kept on any stream.

    With the prediction f, and the weighted variance d of the models' values (for a single model,
    the variance of its prediction),

        classification    score = ((d + ε) / (f² + ε))⁴
        regression        score = (1 + √d / mean √d) / 2
        ask if            log(score / u) > s - log rate,   u uniform
        s <- s + (asked - rate) / sqrt(1 + t/100)

    So in regression half of the labels are drawn at random and half in proportion to the
    disagreement, as models that agree may all be wrong. A learner that knows its own variance v
    (``prediction.epistemic``) is unsure there, and needs no such half. With ``by="variance"``,

        classification    score = ((v + ε) / (f² + ε))⁴
        regression        score = √v / mean √v

    The number asked for is within 3 + due/40 of

        due = rate · t                                  regression
        due = rate · (t + 400 (1 - t/1000)_+)           classification

    once a classifier, which asks for all labels at first, has so many; until t = 1,000 it then
    asks less often. From 2 + due/40 on the score does not decide, and s does not change. If labels
    arrive late, ask by :meth:`jaxmkl.Learner.ask`, which counts at once.

    Args:
      rate: the share of labels, in (0, 1].
      epsilon: ε, in squared units of the prediction.
      by: "disagreement" for d, which all learners have, or "variance" for v, of learners that know
        it, such as those with least squares (static).

    Raises:
      ValueError: if an argument is outside its range.

    >>> import jax, jaxmkl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> learner = jaxmkl.raker(query=Rate(0.1))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> bool(abs(np.sum(np.asarray(outputs.queried)) - 200) <= 7)
    True
    """

    rate: Number = pytree.share(default=0.1, exclusive=True)
    epsilon: Number = pytree.positive(default=0.001)
    by: str = pytree.choice("disagreement", "variance", default="disagreement")

    @property
    def needs_variance(self) -> bool:  # type: ignore[override]
        return self.by == "variance"

    def init(self, dtype: DTypeLike = jnp.float32) -> RateState:
        dtypes = dtype, dtype, jnp.int32, jnp.int32, jnp.int32, dtype
        return RateState(*(jnp.zeros((), each) for each in dtypes))

    def score(self, state: RateState, forecast: Forecast) -> jax.Array:
        spread = self._spread(forecast)
        if forecast.margin is not None:
            epsilon = jnp.asarray(self.epsilon, spread.dtype)
            return ((spread + epsilon) / (forecast.margin**2 + epsilon)) ** 4
        mean = state.spread.astype(spread.dtype)
        known = mean > 0
        relative = jnp.where(known, jnp.sqrt(spread) / jnp.where(known, mean, 1.0), 1.0)
        return relative if self.by == "variance" else (1.0 + relative) / 2.0

    def _spread(self, forecast: Forecast) -> jax.Array:
        """The variance that the score reads: d, or v, or that of a single model."""
        p, values, variance = forecast.weights, jnp.atleast_2d(forecast.values), forecast.variance
        if variance is not None and (self.by == "variance" or len(p) == 1):
            return jnp.sum(variance)
        return jnp.sum(p * _distances(p, jnp.where(p[None] > 0, values, 0.0)))

    def ask(self, state: RateState, score: jax.Array, noise: jax.Array) -> jax.Array:
        rate = jnp.asarray(self.rate, noise.dtype)
        chance = jnp.log(noise) + state.threshold.astype(noise.dtype) - jnp.log(rate)
        wanted = jnp.log(score.astype(noise.dtype)) > chance
        wanting, slack = self._wanting(state, noise.dtype)
        return (wanted & (wanting > -slack)) | (wanting >= slack) | (rate >= 1.0)

    def _rounds(self, state: RateState, dtype: DTypeLike) -> jax.Array:
        return (state.asked + state.passed).astype(dtype)

    def _wanting(self, state: RateState, dtype: DTypeLike) -> tuple[jax.Array, jax.Array]:
        """Labels due by the next round minus those asked for, and the bound that it may reach."""
        rounds, lead = self._rounds(state, dtype) + 1.0, state.lead.astype(dtype)
        ahead = lead * jnp.maximum(1.0 - rounds / PAID_BACK, 0.0)
        due = jnp.asarray(self.rate, dtype) * (rounds + ahead)
        return due - state.asked.astype(dtype), 2.0 + due / 40.0

    def _counted(self, state: RateState, asked: jax.Array) -> RateState:
        number, dtype = asked.astype(jnp.int32), state.threshold.dtype
        asks = asked.astype(dtype)
        rounds, (wanting, slack) = self._rounds(state, dtype), self._wanting(state, dtype)
        rate = jnp.where(rounds < PAID_BACK, 1.0 - state.lead / PAID_BACK, 1.0) * self.rate
        # if the bound decides, the threshold stays
        excess = jnp.where(jnp.abs(wanting) < slack, asks - rate.astype(dtype), 0.0)
        halved = (state.asked + state.passed >= 2**30).astype(jnp.int32)
        return state._replace(
            threshold=state.threshold + excess / jnp.sqrt(1.0 + rounds / 100.0),
            asked=(state.asked >> halved) + number,
            passed=(state.passed >> halved) + 1 - number,
        )

    def update(
        self, state: RateState, forecast: Forecast, asked: jax.Array, y: ArrayLike = 0.0
    ) -> RateState:
        # a label that arrives late was counted when it was asked for
        late, now = asked & (state.waiting > 0), self._counted(state, asked)
        after = optax.tree.where(late, state._replace(waiting=state.waiting - 1), now)
        spread = jnp.sqrt(self._spread(forecast)).astype(state.spread.dtype)
        step = (spread - state.spread) / jnp.maximum(self._rounds(after, spread.dtype), 1.0)
        spread = state.spread + jnp.where(jnp.isfinite(spread), step, 0.0)
        lead = jnp.full_like(state.lead, 0.0 if forecast.margin is None else HEAD_START)
        return after._replace(spread=spread, lead=lead)

    def await_label(self, state: RateState, asked: jax.Array) -> RateState:
        after = self._counted(state, asked)._replace(waiting=state.waiting + 1)
        return optax.tree.where(asked, after, state)


def _distances(p: jax.Array, values: jax.Array) -> jax.Array:
    """Squared distances (E,) of the models' values from their mean by p, summed over outputs."""
    values = jnp.atleast_2d(values)  # (K, E)
    mean = jnp.sum(p[None] * values, axis=1, keepdims=True)
    return jnp.sum((values - mean) ** 2, axis=0)


def _margin(forecast: Forecast) -> jax.Array:
    """The margin of a classifier, or the absolute value of a prediction in regression."""
    if forecast.margin is not None:
        return forecast.margin
    return jnp.sum(jnp.abs(forecast.value))
