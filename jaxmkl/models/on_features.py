"""Models on features: f = θ·z(x), one for each kernel, rate and rule, and for each output.

The features of a block are computed at once and shared by all rules. A sequential feature map,
such as one that grows with the stream, computes those of each example in turn, before its label is
asked for; rules then have blocks of one example. A map that learns does so after the prediction of
the round.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import common_period, rounds_of, take
from jaxmkl._feedback import Feedback
from jaxmkl._shards import shard
from jaxmkl._types import PyTree
from jaxmkl.features import FeatureMap, FourierFeatures
from jaxmkl.kernels.kernel import SEVERAL, Kernel
from jaxmkl.models.bank import Bank
from jaxmkl.updates import OGD, Rule


class FeatureModelsState(NamedTuple):
    """State of :class:`FeatureModels`."""

    features: PyTree
    """State of the feature map."""
    rules: tuple
    """A state for each rule."""

    @property
    def frequencies(self) -> jax.Array:
        """Frequencies of Fourier features (P, F, D), drawn for bandwidth 1.

        For products of kernels, one array for each factor.
        """
        return self.features


class FeatureCode(NamedTuple):
    """One example."""

    features: PyTree
    """Code of the feature map."""
    rules: tuple
    """Codes of the rules."""


class FeatureAux(NamedTuple):
    """A prediction's results that the update uses again."""

    z: jax.Array
    """Features (P, M)."""
    features: PyTree
    """The results of the feature map."""
    rules: tuple
    """The results of the rules."""


class BlocksOfOne(NamedTuple):
    """A rule on features that are not known before their round: it has blocks of one example."""

    rule: Rule
    num_rates: int
    period: int | None = None

    def encode(self, state: PyTree, round: jax.Array, Z: jax.Array) -> jax.Array:
        """The rounds (B,) of the examples, as features are unknown."""
        return rounds_of(round, len(Z))

    def predict(self, state: PyTree, round: jax.Array, z: jax.Array) -> tuple[jax.Array, tuple]:
        """The rule's values; and its codes of the block, the values, and its results."""
        codes = self.rule.encode(state, round, z[None])
        values, aux = self.rule.predict(state, take(codes, 0), z)
        return values, (codes, values, aux)

    def update(self, state: PyTree, round: jax.Array, aux: tuple, feedback: Feedback) -> PyTree:
        """The rule's update, and the end of the block."""
        codes, _, own = aux
        after = self.rule.update(state, take(codes, 0), own, feedback)
        if self.rule.period is None:
            return after
        closed = self.rule.close(after, codes, round + 1)
        return optax.tree.where(feedback.present, closed, state)

    def close(self, state: PyTree, rounds: jax.Array, round: jax.Array) -> PyTree:
        """The state as it is: the last update closed the last block."""
        return state


@pytree.dataclass
class FeatureModels(Bank[FeatureModelsState, FeatureCode, FeatureAux]):
    """A bank of linear models on the features of kernels.

    There is a model for each rule, rate and kernel, in this order: rule by rule, rate by rate,
    kernel by kernel. Several outputs share features and covariances, and first-order rules treat
    each output as a separate model.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      rules: one or several update rules.
      features: the feature map; :class:`jaxmkl.features.FourierFeatures` need shift-invariant
        kernels, a :class:`jaxmkl.features.SampledDictionary` needs one kernel, of any kind, and
        :class:`jaxmkl.features.LinearFeatures` need the linear one.

    Raises:
      ValueError: if the kernels have no such features.

    >>> import jaxmkl
    >>> FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), OGD([0.1, 0.3])).num_models
    4
    """

    kernels: Kernel = pytree.part(Kernel, SEVERAL)
    rules: Any = pytree.parts(Rule, "an update rule, as jaxmkl.updates.OGD(0.1)", default=(OGD(),))
    features: FeatureMap = pytree.part(
        FeatureMap,
        "a feature map, as jaxmkl.features.FourierFeatures()",
        default=FourierFeatures(),
    )
    many_outputs = True

    def __post_init__(self) -> None:
        self.features.check(self.kernels)
        for rule in self.rules:
            rule.check()

    @property
    def num_models(self) -> int:
        return self.num_kernels * sum(rule.num_rates for rule in self.rules)

    @property
    def num_kernels(self) -> int:
        return self.features.num_vectors(self.kernels)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return self.rules

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The common period of the map and, unless the map is sequential, of the rules."""
        return common_period((self.features, *self._rules))

    @property
    def _rules(self) -> tuple[Rule | BlocksOfOne, ...]:
        """The rules as the features of the map need them."""
        if not self.features.sequential:
            return self.rules
        return tuple(BlocksOfOne(rule, rule.num_rates) for rule in self.rules)

    def _each(self, state: FeatureModelsState, *others: tuple) -> Iterator[tuple]:
        """The rules, each with its state and with its item of the ``others``."""
        return zip(self._rules, state.rules, *others, strict=True)

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> FeatureModelsState:
        P, M = self.num_kernels, self.features.num_coordinates(num_inputs)
        K = 1 if num_outputs is None else num_outputs
        features = self.features.init(key, self.kernels, num_inputs, dtype)
        return FeatureModelsState(features, tuple(r.init(P, M, dtype, K) for r in self.rules))

    def encode(
        self, state: FeatureModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> FeatureCode:
        """The features of a block ``X`` (B, D), and the codes of the rules."""
        codes = self.features.encode(state.features, self.kernels, X, round, keys)
        Z = jax.vmap(lambda code: self.features.predict(state.features, code)[0])(codes)
        of_rules = tuple(rule.encode(own, round, Z) for rule, own in self._each(state))
        return FeatureCode(codes, of_rules)

    def predict(
        self, state: FeatureModelsState, code: FeatureCode
    ) -> tuple[jax.Array, FeatureAux]:
        z, of_map = self.features.predict(state.features, code.features)
        each = self._each(state, code.rules)
        values, aux = zip(*[rule.predict(*own, z) for rule, *own in each], strict=True)
        return joined(values), FeatureAux(z, of_map, aux)

    def update(
        self, state: FeatureModelsState, code: FeatureCode, aux: FeatureAux, feedback: Feedback
    ) -> FeatureModelsState:
        """Take the step of every rule, for the models that take part, and then that of the map."""
        of_rules = feedback._replace(norm=self.features.squared_norms(aux.z)[None, :])
        P, start, rules = len(aux.z), 0, []
        for rule, *own in self._each(state, code.rules, aux.rules):
            end = start + rule.num_rates * P
            rules.append(rule.update(*own, of_rules.cut(start, end, (1, rule.num_rates, P))))
            start = end
        features = self.features.update(state.features, code.features, aux.features, feedback)
        return FeatureModelsState(features, tuple(rules))

    def close(
        self, state: FeatureModelsState, codes: FeatureCode, round: jax.Array
    ) -> FeatureModelsState:
        rules = tuple(rule.close(*own, round) for rule, *own in self._each(state, codes.rules))
        features = self.features.close(state.features, codes.features, round)
        return FeatureModelsState(features, rules)


@abilities.warn_of_steps.register
def _(bank: FeatureModels) -> None:
    norm = bank.features.squared_norm
    for rule in bank.rules if norm is not None else ():
        abilities.warn_of_steps(rule, norm)


@abilities.squared_norms.register
def _(bank: FeatureModels, state: FeatureModelsState) -> jax.Array:
    return joined(list(map(abilities.squared_norms, bank.rules, state.rules)))


@abilities.variances.register
def _(rule: BlocksOfOne, state: PyTree, round: jax.Array, aux: tuple) -> jax.Array:
    codes, values, own = aux
    size = values.size // len(values)
    return variances_of(rule.rule, size, values.dtype, state, take(codes, 0), own)


@abilities.variances.register
def _(
    bank: FeatureModels, state: FeatureModelsState, code: FeatureCode, aux: FeatureAux
) -> jax.Array:
    (P, _), dtype, each = aux.z.shape, aux.z.dtype, bank._each(state, code.rules, aux.rules)
    return jnp.concatenate(
        [variances_of(rule, rule.num_rates * P, dtype, *own) for rule, *own in each]
    )


@abilities.merged.register
def _(
    bank: FeatureModels, states: FeatureModelsState, start: FeatureModelsState | None
) -> FeatureModelsState:
    good = not bank.features.sequential
    wanted = "features that do not grow with the stream: they differ between shards"
    pytree.require(good, "merge", "features", bank.features, wanted)
    began = (None,) * len(bank.rules) if start is None else start.rules
    require_same(*(own.features for own in (states, start) if own is not None))
    rules = tuple(map(abilities.merged, bank.rules, states.rules, began))
    return FeatureModelsState(shard(states.features, 0), rules)


def require_same(features: PyTree, *others: PyTree) -> None:
    """Raise unless features of shards, with a leading axis, and others are the same."""
    own = shard(features, 0)
    for one, *rest in zip(*map(jax.tree.leaves, (own, features, *others)), strict=True):
        good = all(np.all(np.asarray(other) == np.asarray(one)) for other in rest)
        wanted = "the same in all states and the start: begin all from one learner.init"
        pytree.require(good, "merge", "features", "different ones", wanted)


def variances_of(rule: Rule | BlocksOfOne, size: int, dtype: DTypeLike, *own: PyTree) -> jax.Array:
    """Variances of a rule's models by its state, code and results; 0 if it does not know them."""
    if not abilities.can(abilities.variances, rule):
        return jnp.zeros((size,), dtype)
    return abilities.variances(rule, *own).reshape(-1)


def joined(each: Sequence[jax.Array]) -> jax.Array:
    """Numbers of the models (E,) or (K, E), from those of each rule (K, R, P)."""
    joined = jnp.concatenate([a.reshape(a.shape[0], -1) for a in each], axis=1)
    return joined[0] if len(joined) == 1 else joined
