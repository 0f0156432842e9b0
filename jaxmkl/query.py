"""Queries: whether the label of an example is worth asking for.

A query reads the forecast of a learner (:class:`Forecast`), before the label is seen, and gives it
a score: the larger, the more the label is worth. The prediction carries the score, so that a pool
of examples can be ranked by it.

    All             every label
    Disagreement    unless the models agree, and after some labels skipped in a row all the same
    Margin          the nearer the prediction is to another class, the likelier
    Uncertainty     where the variance of the prediction outweighs its margin, and else by chance
    Random          by chance alone
    Rate            the labels worth most, at a rate that is kept whatever the stream does

Every learner takes every query; one that needs a variance is refused by learners without one.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on, uniform
from jaxmkl._moments import Moments

__all__ = ["All", "Disagreement", "Forecast", "Margin", "Query", "Random", "Rate", "Uncertainty"]


class Forecast(NamedTuple):
    """What a learner knows of an example before its label: what a query reads.

    Attributes:
      value: the prediction, a number, or of several outputs (K,).
      values: of the E models, as they are combined (E,), or (K, E).
      weights: of the models, of sum 1 (E,).
      speaking: which models speak, boolean (E,); None for all.
      variance: of the prediction, a number, or None where the learner has none.
      margin: of a classifier, half the distance between the likeliest class and the next, |f| of
        two classes; None for numbers.
      worked: what the learner worked out for the prediction and uses again in the update.
    """

    value: jax.Array
    values: jax.Array
    weights: jax.Array
    speaking: jax.Array | None = None
    variance: Any = None
    worked: Any = ()
    margin: Any = None

    @classmethod
    def of_one(cls, value: jax.Array, worked: Any = (), variance: Any = None) -> "Forecast":
        """The forecast of a learner that is one model."""
        return cls(value, value[None], jnp.ones_like(value)[None], None, variance, worked)


class Query(abc.ABC):
    """Base of all queries: frozen pytree dataclasses that define :meth:`score` and :meth:`ask`."""

    needs_variance = False
    """Whether it reads ``forecast.variance``."""

    def init(self, dtype: Any = jnp.float32) -> Any:
        """The query's own state before the first round, a pytree; its numbers of this dtype."""
        return ()

    def noise(self, key: jax.Array) -> Any:
        """The random numbers for one example; by default a uniform one, the same in any dtype."""
        return uniform(key, (), jnp.float32)

    @abc.abstractmethod
    def score(self, state: Any, forecast: Forecast) -> jax.Array:
        """How much the label is worth, a number."""

    @abc.abstractmethod
    def ask(self, state: Any, score: jax.Array, noise: Any) -> jax.Array:
        """Whether to ask, a boolean, from the score and the random numbers."""

    def update(self, state: Any, forecast: Forecast, asked: jax.Array, y: Any = 0.0) -> Any:
        """The query's state after a round in which a label was asked for or not.

        Args:
          state, forecast: as before the round, and of its example.
          asked: whether there is a label to learn from.
          y: that label; 0 where there is none.
        """
        return state

    def await_label(self, state: Any, asked: jax.Array) -> Any:
        """The query's state after a label was asked for (if ``asked``) that comes later."""
        return state


@pytree.dataclass
class All(Query):
    """Ask for every label; all scores are 1."""

    def noise(self, key: jax.Array) -> tuple:
        """None is needed."""
        return ()

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return jnp.ones((), forecast.value.dtype)

    def ask(self, state: tuple, score: jax.Array, noise: Any) -> jax.Array:
        return jnp.asarray(True)


class DisagreementState(NamedTuple):
    """State of :class:`Disagreement`."""

    skips: jax.Array
    """Labels not asked for in a row, int32."""
    learned: Any = ()
    """How many labels were learned, int32, and their moments; where the tolerance is relative."""


@pytree.dataclass
class Disagreement(Query):
    """Ask unless the models agree, and after ``max_skips`` skips in a row ask all the same.

    With the weights p of all models, the set V of those that speak and the models' values f, a
    label is skipped if

        max_j Σ_{i in V} p_i (f_i - f_j)² <= tolerance

    where j runs over all models. About the mean m of V under p the sum is a variance plus
    Σ_V p · (f_j - m)², so one pass over the models decides. This sum is the score. For every loss
    the distance between two models is the squared one.

    Args:
      tolerance: η_c, a number of at least 0 in squared units of the prediction.
      max_skips: M, the largest number of labels skipped in a row; at least 1/(M + 1) of the labels
        is asked for.
      relative: whether the tolerance is in units of the running variance of the labels learned so
        far (static): .01 then is a disagreement of a tenth of their standard deviation, whatever
        the target's units. The first two labels are asked for.

    Raises:
      ValueError: when a number is negative or none.

    References:
      Hong and Chae, "confidence condition" (33), Algorithm 2 (the sentence of the text that states
      the criterion has it reversed), (34), (35).

    >>> import jax.numpy as jnp
    >>> rule = Disagreement(tolerance=0.01, max_skips=1)
    >>> half = jnp.array([0.5, 0.5])
    >>> score = rule.score(rule.init(), Forecast(jnp.array(0.51), jnp.array([0.5, 0.52]), half))
    >>> bool(rule.ask(rule.init(), score, None))
    False
    """

    tolerance: Any = pytree.nonnegative(0.0005, finite=False)
    max_skips: Any = pytree.nonnegative(1.0, finite=False, discrete=True)
    relative: bool = pytree.flag(False)

    def noise(self, key: jax.Array) -> tuple:
        """None is needed."""
        return ()

    def init(self, dtype: Any = jnp.float32) -> DisagreementState:
        none = jnp.zeros((), jnp.int32)
        return DisagreementState(none, (none, Moments.none((), dtype)) if self.relative else ())

    def score(self, state: DisagreementState, forecast: Forecast) -> jax.Array:
        """The largest weighted squared distance from one model."""
        values, p = forecast.values, forecast.weights
        if forecast.speaking is not None:
            p = jnp.where(forecast.speaking, p, 0.0)
        total = jnp.sum(p)
        distance = _distances(p / total, values)
        return jnp.sum(p * distance) + total * jnp.max(distance)

    def ask(self, state: DisagreementState, score: jax.Array, noise: Any) -> jax.Array:
        tolerance = jnp.asarray(self.tolerance, score.dtype)
        if self.relative:
            number, labels = state.learned
            unit = labels.variance.astype(score.dtype)
            tolerance = jnp.where(number >= 2, tolerance * unit, jnp.nan)
        agree = score <= tolerance  # never, where one is NaN
        may_skip = state.skips.astype(score.dtype) < jnp.asarray(self.max_skips, score.dtype)
        return ~(agree & may_skip)

    def update(
        self, state: DisagreementState, forecast: Forecast, asked: jax.Array, y: Any = 0.0
    ) -> DisagreementState:
        learned = state.learned
        if self.relative:
            one = jnp.ndim(y) == 0
            pytree.require(one, self, "relative", True, "False where there are several outputs")
            number, labels = learned
            y = jnp.asarray(y).astype(labels.mean.dtype)
            after = count_on(number), labels.after(y, count_on(number))
            learned = optax.tree.where(asked, after, learned)
        return DisagreementState(jnp.where(asked, 0, state.skips + 1), learned)


def _drawn(h: Any, above: jax.Array, uniform: jax.Array) -> jax.Array:
    """Whether a uniform number is below h / (h + above), for any h from 0 to infinity.

    In the number's own precision, in which it is below 1.
    """
    above = above.astype(uniform.dtype)
    h = jnp.asarray(h, above.dtype)
    positive = above > 0
    share = jnp.where(positive, h / (h + jnp.where(positive, above, 1.0)), 1.0)
    return uniform < jnp.where(jnp.isinf(h), 1.0, share)


@pytree.dataclass
class Margin(Query):
    """Ask with probability h / (h + |f|), whatever the variance; the score is -|f|.

    With several classes half the distance between the likeliest and the next stands for |f|.

    Args:
      h: at least 0; infinite, every label is asked for.

    Raises:
      ValueError: for a negative h.

    References:
      Cesa-Bianchi, Gentile and Zaniboni (2006), Worst-case analysis of selective sampling for
      linear classification.

    >>> import jax.numpy as jnp
    >>> rule, uniform = Margin(h=0.1), jnp.array(0.4)
    >>> [bool(rule.ask((), jnp.array(-margin), uniform)) for margin in (0.0, 0.1, 0.3)]
    [True, True, False]
    """

    h: Any = pytree.nonnegative(0.1, finite=False)

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return -_surety(forecast)

    def ask(self, state: tuple, score: jax.Array, noise: jax.Array) -> jax.Array:
        return _drawn(self.h, -score, noise)


@pytree.dataclass
class Uncertainty(Query):
    """Ask where unsure, and else by a chance that falls with how sure one is.

        Θ = |f| - v/(4ε)        with the variance v of the prediction
        Θ <= 0:    ask
        else:      ask with probability h / (h + Θ)

    The score is -Θ.

    Args:
      h: at least 0: the larger, the more is asked for. With 0 only where unsure; infinite, always.
      inertia: ε > 0, the same as the learner's where it has one.

    Raises:
      ValueError: for a negative h, or an inertia that is not positive.

    References:
      Kernel sampling for online multi-task classification, Theorem 2.

    >>> import jax.numpy as jnp
    >>> rule, uniform = Uncertainty(h=0.1), jnp.array(0.4)
    >>> [bool(rule.ask((), jnp.array(-surety), uniform)) for surety in (-0.1, 0.1, 0.3)]
    [True, True, False]
    """

    h: Any = pytree.nonnegative(0.1, finite=False)
    inertia: Any = pytree.positive(1.0)
    needs_variance = True

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        epsilon = jnp.asarray(self.inertia, forecast.value.dtype)
        return forecast.variance / (4.0 * epsilon) - _surety(forecast)

    def ask(self, state: tuple, score: jax.Array, noise: jax.Array) -> jax.Array:
        return _drawn(self.h, -score, noise)


@pytree.dataclass
class Random(Query):
    """Ask by chance alone; all scores are the rate.

    Args:
      rate: the share of labels asked for, in [0, 1].

    Raises:
      ValueError: for a rate outside.

    >>> import jax.numpy as jnp
    >>> bool(Random(0.5).ask((), jnp.array(0.5), jnp.array(0.4)))
    True
    """

    rate: Any = pytree.share(0.5)

    def score(self, state: tuple, forecast: Forecast) -> jax.Array:
        return jnp.asarray(self.rate, forecast.value.dtype)

    def ask(self, state: tuple, score: jax.Array, noise: jax.Array) -> jax.Array:
        return noise < score.astype(noise.dtype)


class RateState(NamedTuple):
    """State of :class:`Rate`."""

    threshold: jax.Array
    """s."""
    spread: jax.Array
    """Mean of √d over the rounds."""
    asked: jax.Array
    """Labels asked for, int32; halved, as is ``passed``, where both together are 2^30."""
    passed: jax.Array
    """Labels not asked for, int32."""
    waiting: jax.Array
    """Labels asked for that have not come yet, int32."""
    lead: jax.Array
    """The head start in rounds, once it is known whether there are classes."""


# Rounds whose share of labels a classifier gets at once, and those in which it pays them back.
HEAD_START, PAID_BACK = 400.0, 1000.0


@pytree.dataclass
class Rate(Query):
    """Ask for a share of the labels, those worth most; it is kept whatever the stream does.

    With the prediction f, and d its variance where the learner has one, else that of the models'
    values by their weights,

        classes    score = ((d + ε) / (f² + ε))⁴
        numbers    score = (1 + √d / mean √d) / 2
        ask if     log(score / u) > s - log rate,   u uniform
        s <- s + (asked - rate) / sqrt(1 + t/100)

    So for numbers half of the labels come by chance and half in proportion to the disagreement,
    as models that agree may all be wrong. The labels asked for stay within 2 + due/40 of

        due = rate · t                                  numbers
        due = rate · (t + 400 (1 - t/1000)_+)           classes

    beyond that the next one is asked for, or is not, whatever its score, and s stays. So a
    classifier learns the first examples, and pays them back within 1,000 rounds. Where answers
    come late, ask by :meth:`jaxmkl.Learner.ask`, which counts at once.

    Args:
      rate: the share of labels, in (0, 1].
      epsilon: ε, in squared units of the prediction.

    Raises:
      ValueError: for an argument outside its range.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (2000, 2))
    >>> learner = jaxmkl.raker(query=Rate(0.1))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> bool(abs(outputs.queried.sum() - 200) <= 7)
    True
    """

    rate: Any = pytree.share(0.1, exclusive=True)
    epsilon: Any = pytree.positive(0.001)

    def init(self, dtype: Any = jnp.float32) -> RateState:
        dtypes = RateState(dtype, dtype, jnp.int32, jnp.int32, jnp.int32, dtype)
        return RateState(*(jnp.zeros((), each) for each in dtypes))

    def score(self, state: RateState, forecast: Forecast) -> jax.Array:
        spread = _spread(forecast)
        if forecast.margin is not None:
            epsilon = jnp.asarray(self.epsilon, spread.dtype)
            return ((spread + epsilon) / (forecast.margin**2 + epsilon)) ** 4
        mean = state.spread.astype(spread.dtype)
        known = mean > 0
        return jnp.where(known, 1.0 + jnp.sqrt(spread) / jnp.where(known, mean, 1.0), 2.0) / 2.0

    def ask(self, state: RateState, score: jax.Array, noise: jax.Array) -> jax.Array:
        rate = jnp.asarray(self.rate, noise.dtype)
        chance = jnp.log(noise) + state.threshold.astype(noise.dtype) - jnp.log(rate)
        wanted = jnp.log(score.astype(noise.dtype)) > chance
        wanting, slack = self._wanting(state, noise.dtype)
        return (wanted & (wanting > -slack)) | (wanting >= slack) | (rate >= 1.0)

    def _rounds(self, state: RateState, dtype: Any) -> jax.Array:
        return (state.asked + state.passed).astype(dtype)

    def _wanting(self, state: RateState, dtype: Any) -> tuple[jax.Array, jax.Array]:
        """Labels due with the next round that were not asked for, and the corridor about 0."""
        rounds, lead = self._rounds(state, dtype) + 1.0, state.lead.astype(dtype)
        ahead = lead * jnp.maximum(1.0 - rounds / PAID_BACK, 0.0)
        due = jnp.asarray(self.rate, dtype) * (rounds + ahead)
        return due - state.asked, 2.0 + due / 40.0

    def _counted(self, state: RateState, asked: jax.Array) -> RateState:
        number, dtype = asked.astype(jnp.int32), state.threshold.dtype
        rounds, (wanting, slack) = self._rounds(state, dtype), self._wanting(state, dtype)
        rate = jnp.where(rounds < PAID_BACK, 1.0 - state.lead / PAID_BACK, 1.0) * self.rate
        # a label that the corridor forces, or forbids, says nothing of the scores
        excess = jnp.where(jnp.abs(wanting) < slack, number - rate.astype(dtype), 0.0)
        many = state.asked + state.passed >= 2**30
        before, passed = (
            jnp.where(many, count // 2, count) for count in (state.asked, state.passed)
        )
        return state._replace(
            threshold=state.threshold + excess / jnp.sqrt(1.0 + rounds / 100.0),
            asked=before + number,
            passed=passed + 1 - number,
        )

    def update(
        self, state: RateState, forecast: Forecast, asked: jax.Array, y: Any = 0.0
    ) -> RateState:
        # a label that was waited for was counted when it was asked for
        late, now = asked & (state.waiting > 0), self._counted(state, asked)
        after = optax.tree.where(late, state._replace(waiting=state.waiting - 1), now)
        spread = jnp.sqrt(_spread(forecast)).astype(state.spread.dtype)
        step = (spread - state.spread) / jnp.maximum(self._rounds(after, spread.dtype), 1.0)
        lead = 0.0 if forecast.margin is None else HEAD_START
        return after._replace(
            spread=state.spread + jnp.where(jnp.isfinite(spread), step, 0.0),
            lead=jnp.full_like(state.lead, lead),
        )

    def await_label(self, state: RateState, asked: jax.Array) -> RateState:
        after = self._counted(state, asked)._replace(waiting=state.waiting + 1)
        return optax.tree.where(asked, after, state)


def _spread(forecast: Forecast) -> jax.Array:
    """d: the variance of the prediction, or that of the models' values by their weights."""
    if forecast.variance is not None:
        return forecast.variance
    p, values = forecast.weights, jnp.atleast_2d(forecast.values)
    return jnp.sum(p * _distances(p, jnp.where(p[None] > 0, values, 0.0)))


def _distances(p: jax.Array, values: jax.Array) -> jax.Array:
    """Squared distances (E,) of the models' values from their mean by p, summed over outputs."""
    values = jnp.atleast_2d(values)  # (K, E)
    mean = jnp.sum(p[None] * values, axis=1, keepdims=True)
    return jnp.sum((values - mean) ** 2, axis=0)


def _surety(forecast: Forecast) -> jax.Array:
    """The margin of a classifier; of numbers the size of the prediction."""
    if forecast.margin is not None:
        return forecast.margin
    return jnp.sum(jnp.abs(forecast.value))
