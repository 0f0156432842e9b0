"""The composed learner: four parts, each of which answers one question.

    models      which models there are, and what one does with a labelled example
    aggregate   how their values become one prediction, and how they are judged
    select      which of them are active, and which learn
    query       whether the label is worth asking for

A round on an example (x, y), with the E models of all banks:

    f_e      of every model                                       models
    value    from the f_e of the active models                    aggregate, select
    asked    by the value, the f_e and their weights              query
    if asked:  the models that are to learn take a step           models, select
               the models are judged                              aggregate
               the next active models are drawn                   select

Any four parts make a learner; what makes no sense is refused where it is made. The published
algorithms are rows of :mod:`jaxmkl.recipes`.

Where models know how unsure they are (least squares, with v_e = z'S z of model e), so does the
learner. With the weights q, the noise s of labels, and the mean over the models that know theirs,

    epistemic = s Σ_e q_e v_e / Σ_e q_e + Σ_e q_e (f_e - value)²        within, and between models
    variance  = s + epistemic                                           of the label
    s <- s + η ((y - value)² s / variance - s),   η = max(1/n, .005)    with the n-th label

Banks that learn their kernels look back at the **memory**, a reservoir of labelled examples, and
say in which rounds and what they make of it (:func:`jaxmkl.abilities.renewed`).

With K outputs, targets or classes, a model has K values, and the aggregate combines those of each
output apart: one against the rest, with shared features, covariances and selections.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._algorithm import Algorithm, FrameCode, State
from jaxmkl._blocks import common_period, rounds_of, uniform
from jaxmkl._feedback import Feedback
from jaxmkl._noise import Noise
from jaxmkl._renewals import Renewals, renewals_of
from jaxmkl._types import PyTree
from jaxmkl.aggregate import Aggregate, Combination, Hedge
from jaxmkl.aggregate.base import Penalized, combined_by, sign_kept
from jaxmkl.losses import Squared, loss_field
from jaxmkl.models import Bank
from jaxmkl.models.renewals import apart, as_seen_by, renewed_if
from jaxmkl.query import All as AskAll
from jaxmkl.query import Forecast, Query
from jaxmkl.reservoir import Reservoir, ReservoirState
from jaxmkl.select import All, Select
from jaxmkl.updates import Rule

__all__ = ["MKL", "MKLInfo", "MKLState"]

# Subkeys of a round: for steps by chance, the aggregate, the selection, and then each bank.
_CHANCE, _AGGREGATE, _SELECT, _BANKS = range(4)


@pytree.dataclass
class MKLState(State):
    """State of :class:`MKL`."""

    models: tuple
    """A state for each bank."""
    aggregate: PyTree
    select: PyTree
    noise: Noise | None
    """The noise of labels around predictions, where models know their own variance; or None."""
    memory: ReservoirState | None
    """Labelled examples, where banks learn their kernels; or None."""


class MKLInfo(NamedTuple):
    """Diagnostics."""

    weights: jax.Array
    """Weights of the models, of sum 1 (E,)."""
    num_active: jax.Array
    """How many models are active, int32; those that are drawn for each round count as active."""
    support: Any
    """Support vectors of each kernel of the banks that have any (P,), or None."""
    overflow: jax.Array | None
    """Examples so far that found no room and were not learned, int32, or None."""
    shares: abilities.Shares | None = None
    """Weights of the aggregate's memories and stacks, or None."""


class MemoryCode(NamedTuple):
    """One example, as the memory takes it."""

    x: jax.Array
    """The input (D,)."""
    round: jax.Array
    """Its round, int32."""
    draws: jax.Array
    """Random numbers of the reservoir (2,)."""


class MKLCode(NamedTuple):
    """One example."""

    models: tuple
    """Codes of the banks."""
    chance: jax.Array | None
    """Uniform numbers (E,), or None."""
    aggregate: PyTree
    """Noise of the aggregate."""
    select: PyTree
    """Noise of the selection."""
    memory: MemoryCode | None
    """None without a memory."""


class MKLAux(NamedTuple):
    """A prediction's results that the update uses again."""

    value: jax.Array
    """The prediction, a number or (K,)."""
    variance: jax.Array | None
    """Its own variance, of the same shape, or None."""
    drawn: jax.Array | None
    """Which models alone take part in the round (E,) or (K, E); None for all."""
    models: tuple
    """The banks' results."""
    aggregate: PyTree
    """The aggregate's results."""


@pytree.dataclass
class MKL(Algorithm[MKLState, MKLCode, MKLAux]):
    """Multiple kernel learning, composed of its parts.

    Args:
      models: one bank of models or several; their models are numbered through.
      aggregate: how values become a prediction and how models are judged.
      select: which models are active, and which learn.
      query: when a label is asked for.
      loss: by which predictions, and models, are judged, a value of :mod:`jaxmkl.losses` or one
        of its names; by default that of the first update rule, or the squared one without a rule.
      task: "regression" or "classification"; by default that of the loss (static).
      num_outputs: K, for several targets, or the number of classes (static). Predictions then are
        vectors (K,), labels of classes whole numbers from 0 to K - 1.
      memory: the reservoir from which banks learn their kernels; by default it has as many places
        as the bank that looks at the most, and there is none (None) where no bank learns any.

    Raises:
      ValueError: for a part of another kind, or parts that make no sense together: a vote, or
        mistakes, or a rule for classes, in regression; several outputs of models with supports
        (:func:`jaxmkl.wrappers.one_vs_rest`); a penalty on norms that models do not know; a
        memory for banks that learn no kernels.

    Warns:
      RuntimeWarning: for step sizes that cannot converge (:class:`jaxmkl.updates.OGD`).

    >>> import jax, jaxmkl, numpy as np
    >>> kernels = jaxmkl.Gaussian([0.3, 1.0, 3.0])
    >>> on_features = jaxmkl.models.FeatureModels(kernels, jaxmkl.updates.PassiveAggressive(0.1))
    >>> on_supports = jaxmkl.models.SupportModels(kernels, jaxmkl.updates.Perceptron())
    >>> learner = MKL((on_features, on_supports), Hedge(0.1), query=jaxmkl.query.Margin(0.5))
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0] * X[:, 1] > 0)
    >>> learner.num_models, bool(outputs.queried.mean() < 0.9)
    (6, True)
    """

    models: Any = pytree.parts(Bank, "a bank, as jaxmkl.models.FeatureModels(kernels)")
    aggregate: Aggregate = pytree.part(
        Aggregate, "an aggregate, as jaxmkl.aggregate.Hedge(1.0)", default=Hedge()
    )
    select: Select = pytree.part(Select, "a selection, as jaxmkl.select.All()", default=All())
    query: Query = pytree.part(Query, "a query, as jaxmkl.query.Margin(0.1)", default=AskAll())
    loss: Any = loss_field(
        default=None, derived=lambda own: own.rules[0].loss if own.rules else Squared()
    )
    task: Any = pytree.choice(
        "regression", "classification", default=None, derived=lambda learner: learner.loss.task
    )
    num_outputs: Any = pytree.count(default=None, minimum=2, optional=True)
    memory: Any = pytree.part(
        Reservoir,
        "a reservoir, as jaxmkl.reservoir.Reservoir(4000), or None",
        default=None,
        optional=True,
        derived=lambda learner: learner._usual_memory(),
    )

    def __post_init__(self) -> None:
        if self.task == "regression":
            wanted = "of values and losses: votes and mistakes are for classes"
            signs = abilities.signs(self.aggregate)
            pytree.require(not signs, self, "aggregate", self.aggregate, wanted)
            for name, loss in [("loss", self.loss), *(("models", r.loss) for r in self.rules)]:
                good = loss.task == "regression"
                pytree.require(good, self, name, loss, "of a loss for numbers, as 'squared'")
        if self.num_outputs is not None:
            wanted = "None with models on supports (take jaxmkl.wrappers.one_vs_rest)"
            good = all(bank.many_outputs for bank in self.models)
            pytree.require(good, self, "num_outputs", self.num_outputs, wanted)
        if self.aggregate.penalty is not None:
            wanted = "one without a penalty, as some of the models do not know their norms: those "
            wanted += "on features by rules of first order do"
            parts = [part for bank in self.models for part in (bank, *bank.all_rules)]
            good = all(abilities.can(abilities.squared_norms, part) for part in parts)
            pytree.require(good, self, "aggregate", self.aggregate, wanted)
        good = self.memory is None or bool(self._learning)
        wanted = "None, as no bank of models learns its kernels"
        pytree.require(good, self, "memory", self.memory, wanted)
        for bank in self.models:
            abilities.warn_of_steps(bank)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The update rules of all banks."""
        return tuple(rule for bank in self.models for rule in bank.all_rules)

    @property
    def _learning(self) -> list[Any]:
        """The banks that learn their kernels."""
        return [bank for bank in self.models if bank.first is not None]

    def _usual_memory(self) -> Reservoir | None:
        sizes = [bank.sample for bank in self._learning]
        return Reservoir(max(sizes)) if sizes else None

    @property
    def num_models(self) -> int:
        """Number of models E."""
        return sum(bank.num_models for bank in self.models)

    @property
    def has_variance(self) -> bool:
        """True if some of the models know their variance, as those of least squares do."""
        return any(abilities.can(abilities.variances, rule) for rule in self.rules)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The largest number that divides the periods of all parts, and all renewals' rounds."""
        renewals = [f // 2 if f % 2 == 0 else f for f in (b.first for b in self._learning)]
        return math.gcd(common_period((*self.models, self.aggregate)) or 0, *renewals) or None

    def init_own(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> MKLState:
        keys = [jax.random.fold_in(key, i) for i in range(len(self.models))]
        banks, K = zip(self.models, keys, strict=True), self.num_outputs
        aggregate = self.aggregate.init(self.num_models, dtype)
        if K is not None:
            aggregate = jax.tree.map(lambda a: jnp.broadcast_to(a, (K, *a.shape)), aggregate)
        memory = None
        if self.memory is not None:
            own = jax.random.fold_in(key, len(self.models))
            memory = self.memory.init(own, num_inputs, dtype, K)
        return MKLState(
            **frame,
            models=tuple(bank.init(key, num_inputs, dtype, K) for bank, key in banks),
            aggregate=aggregate,
            select=self.select.init(self.num_models),
            noise=Noise.none(K, dtype) if self.has_variance else None,
            memory=memory,
        )

    def _log_weights(self, state: PyTree) -> jax.Array:
        """Logarithms of the models' weights (E,), of several outputs those of the mean weights."""
        found = self._each(self.aggregate.log_weights, state)
        if self.num_outputs is None:
            return found
        return jax.nn.logsumexp(jax.nn.log_softmax(found), axis=0)

    def _mean(self, weights: PyTree) -> Any:
        """Weights, as (E,) of the models, the mean over the outputs."""
        return jax.tree.map(lambda w: w if self.num_outputs is None else w.mean(axis=0), weights)

    def _banks(self, state: MKLState, *others: tuple) -> Iterator[tuple]:
        """The banks, each with its state and with what the ``others`` have for it."""
        return zip(self.models, state.models, *others, strict=True)

    def encode_own(self, state: MKLState, X: jax.Array, keys: jax.Array) -> MKLCode:
        """Codes of all banks for a block ``X`` (B, D), and the random numbers of its rounds."""
        E = self.num_models

        def drawn(which: int, draw: Callable[[jax.Array], PyTree]) -> PyTree:
            """Random numbers of each round, by the subkey of a purpose."""
            return jax.vmap(lambda key: draw(jax.random.fold_in(key, which)))(keys)

        by_chance = self.select.random or any(bank.random for bank in self.models)
        memory = None
        if self.memory is not None:
            rounds = rounds_of(state.round, len(X))
            memory = MemoryCode(X, rounds, self.memory.draws(state.memory, rounds))
        return MKLCode(
            models=tuple(
                bank.encode(own, X, state.round, drawn(_BANKS + i, lambda key: key))
                for i, (bank, own) in enumerate(self._banks(state))
            ),
            chance=drawn(_CHANCE, lambda key: uniform(key, (E,), X.dtype)) if by_chance else None,
            aggregate=drawn(
                _AGGREGATE, lambda key: abilities.noise(self.aggregate, key, E, X.dtype)
            ),
            select=drawn(_SELECT, lambda key: self.select.noise(key, E, X.dtype)),
            memory=memory,
        )

    def predict_own(self, state: MKLState, code: MKLCode) -> tuple[Forecast, MKLAux]:
        predicted = [bank.predict(*own) for bank, *own in self._banks(state, code.models)]
        values, of_banks = zip(*predicted, strict=True)
        active = self.select.active(state.select)
        if self.select.random and code.chance is not None:
            log_weights = self._log_weights(state.aggregate)
            active = self.select.combined(state.select, log_weights, code.chance)
        joined = jnp.concatenate(values, axis=-1)

        def combined(own: PyTree, values: jax.Array) -> tuple[Combination, PyTree]:
            combination, aux = combined_by(self.aggregate, own, values, active, code.aggregate)
            if self._keeps_sign:
                logs = self.aggregate.log_weights(own)
                value = sign_kept(combination.value, logs, combination.values, active)
                combination = combination._replace(value=value)
            return combination, aux

        combination, of_aggregate = self._each(combined, state.aggregate, joined)
        weights, value = self._mean(combination.weights), combination.value
        variance = self._variance(state, code, of_banks, combination)
        noise = None if state.noise is None else state.noise.variance
        forecast = Forecast(value, combination.values, weights, active, variance, noise)
        aux = MKLAux(value, variance, combination.drawn, of_banks, of_aggregate)
        return forecast, aux

    @property
    def _keeps_sign(self) -> bool:
        """True if means may be too small for their dtype, and only their signs count."""
        small = self.num_models > 1 and any(bank.small_values for bank in self.models)
        means = self.aggregate.is_mean and "vote" not in abilities.signs(self.aggregate)
        return small and means and self.task == "classification"

    def _variance(
        self, state: MKLState, code: MKLCode, of_banks: tuple, combination: Combination
    ) -> jax.Array | None:
        """The prediction's own variance: within models, and between them."""
        if state.noise is None:
            return None
        dtype = combination.value.dtype
        multiples = jnp.concatenate(
            [
                abilities.variances(bank, *own)
                if abilities.can(abilities.variances, bank)
                else jnp.zeros(bank.num_models, dtype)
                for bank, *own in self._banks(state, code.models, of_banks)
            ]
        )

        def one(noise: jax.Array, combination: Combination) -> jax.Array:
            q, known = combination.weights, (multiples > 0) & jnp.isfinite(multiples)
            of_known = jnp.sum(q, where=known)
            within = jnp.sum(q * multiples, where=known) / jnp.where(of_known > 0, of_known, 1.0)
            distances = jnp.square(combination.values - combination.value)
            between = jnp.sum(q * distances, where=(q > 0) & jnp.isfinite(distances))
            return noise * within + between

        return self._each(one, state.noise.variance, combination)

    def update_own(
        self, state: MKLState, code: MKLCode, aux: MKLAux, feedback: Feedback
    ) -> MKLState:
        """The models learn, are judged, and some are chosen, if there is a label."""
        log_weights = self._log_weights(state.aggregate)
        known, y = feedback.updates, feedback.y
        learns = jnp.broadcast_to(known, log_weights.shape)
        if aux.drawn is not None:
            # of several outputs: a model that is drawn for one of them
            learns = learns & jnp.any(jnp.atleast_2d(aux.drawn), axis=0)
        probability = self.select.probabilities(state.select, log_weights)
        feedback = feedback._replace(updates=learns, probability=probability, chance=code.chance)
        judged = feedback.taken() if self.select.judge_sampled else learns

        penalties = None
        if self.aggregate.penalty is not None:
            each = [abilities.squared_norms(*own) for own in self._banks(state)]
            norms = jnp.concatenate(each, axis=-1)
            penalties = 0.5 * jnp.asarray(self.aggregate.penalty, norms.dtype) * norms

        def judge(own: PyTree, aux: PyTree, y: jax.Array, penalties: jax.Array | None) -> PyTree:
            loss = self.loss if penalties is None else Penalized(self.loss, penalties)
            return self.aggregate.update(own, aux, y, loss, judged, state.round)

        aggregate = self._each(judge, state.aggregate, aux.aggregate, y, penalties)
        models, start = [], 0
        for bank, *own in self._banks(state, code.models, aux.models):
            models.append(bank.update(*own, feedback.cut(start, start + bank.num_models)))
            start += bank.num_models
        log_weights = self._log_weights(aggregate)
        select = self.select.update(state.select, log_weights, code.select, known)
        after = state.replace(models=tuple(models), aggregate=aggregate, select=select)
        if code.memory is not None:
            # what a renewal looks at is a constant for derivatives
            example = jax.lax.stop_gradient((code.memory.x, y))
            memory = self.memory.update(state.memory, *example, code.memory.draws, known)
            after = after.replace(memory=memory)
        if state.noise is None or aux.variance is None:
            return after
        noise = state.noise.after(y, aux.value, aux.variance, known)
        return after.replace(noise=noise)

    def close(self, state: MKLState, codes: FrameCode) -> MKLState:
        # of the frame's code, as those of parts may be empty
        size, memory = len(codes.usable), codes.own.memory
        banks = self._banks(state, codes.own.models)
        models = tuple(bank.close(*own, state.round) for bank, *own in banks)
        aggregate = self._each(
            lambda own: self.aggregate.close(own, size, state.round), state.aggregate
        )
        state = state.replace(models=models, aggregate=aggregate)
        if memory is None:
            return state
        # a block of padding alone ends in the round it begins with, and renews nothing again
        return self._renewed(state, memory.round[0] != state.round)

    def _renewed(self, state: MKLState, ended: jax.Array) -> MKLState:
        """The state after the renewals that are due, if a block has ``ended``."""
        models, renewal = list(state.models), self.memory.renewal(state.memory, state.round)
        for i, bank in enumerate(self.models):
            if bank.first is not None:
                due = ended & abilities.renews(bank, state.round)
                models[i] = renewed_if(due, bank, as_seen_by(renewal, i), models[i])
        return state.replace(models=tuple(models))

    def info(self, state: MKLState) -> MKLInfo:
        both = self.aggregate.weights, lambda own: abilities.shares(self.aggregate, own)
        weights, shares = (self._mean(self._each(of, state.aggregate)) for of in both)
        active, number = self.select.active(state.select), jnp.asarray(self.num_models, jnp.int32)
        number = number if active is None else jnp.sum(active, dtype=jnp.int32)
        found = [pair for own in self._banks(state) if (pair := abilities.support_counts(*own))]
        counts = jnp.concatenate([own for own, _ in found]) if found else None
        over = jnp.sum(jnp.stack([own for _, own in found]), dtype=jnp.int32) if found else None
        return MKLInfo(weights, number, counts, over, shares)


@abilities.reach.register
def _(learner: MKL, rounds: jax.Array) -> jax.Array | None:
    each = [(abilities.reach(bank, rounds), bank.num_models) for bank in learner.models]
    if all(reach is None for reach, _ in each):
        return None
    filled = ((jnp.inf if reach is None else reach, size) for reach, size in each)
    return jnp.concatenate([jnp.broadcast_to(reach, (size,)) for reach, size in filled])


@abilities.inside.register
def _(learner: MKL, state: MKLState) -> abilities.Inside:
    pairs = tuple(zip(learner.models, state.models, strict=True))
    return abilities.Inside(pairs, lambda states: state.replace(models=tuple(states)))


@abilities.context.register
def _(learner: MKL, state: MKLState) -> PyTree:
    return abilities.context(learner.aggregate, state.aggregate)


@abilities.with_context.register
def _(learner: MKL, state: MKLState, context: PyTree) -> MKLState:
    own = abilities.with_context(learner.aggregate, state.aggregate, context)
    return state.replace(aggregate=own)


@abilities.out_of_order.register
def _(learner: MKL, state: MKLState) -> MKLState:
    return state.replace(aggregate=abilities.out_of_order(learner.aggregate, state.aggregate))


@pytree.dataclass
class _Between(MKL):
    """A composed learner between two renewals, which are left to whoever calls it."""

    def _renewed(self, state: MKLState, ended: jax.Array) -> MKLState:
        return state


_Between.__name__ = MKL.__name__  # in messages


@renewals_of.register
def _(learner: MKL) -> Renewals | None:
    if type(learner) is not MKL or learner.memory is None:
        return None
    rounds = pytree.from_fields(_Between, vars(learner))
    return apart(rounds, learner.models, learner.memory, MKLState)
