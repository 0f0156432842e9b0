"""Models on features: f = θ·z(x), one for each kernel, rate and rule; with K outputs K of each.

The features of a block are made at once and shared by all rules, unless the feature map grows with
the stream: then each example gets its coordinates in its turn, before its label is asked for, and
may become a point of the map.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import dots, rounds_of, take, uniform
from jaxmkl.features import FeatureMap, FourierFeatures
from jaxmkl.kernels.kernel import SEVERAL, Kernel
from jaxmkl.models.bank import Bank, Lesson
from jaxmkl.updates import OGD, Rule, SecondOrder, Update
from jaxmkl.updates.first_order import traits

_HIGHEST = jax.lax.Precision.HIGHEST


class FeatureModelsState(NamedTuple):
    """State of :class:`FeatureModels`."""

    features: Any
    """Of the feature map."""
    rules: tuple
    """A state for each rule."""

    @property
    def frequencies(self) -> jax.Array:
        """Of Fourier features: (P, F, D), drawn for bandwidth 1; more of products."""
        return self.features


class FirstOrderState(NamedTuple):
    """State of the models of a rule of first order."""

    weights: jax.Array
    """θ (P, K, R, M): those that meet the same features lie together."""


class FeatureCode(NamedTuple):
    """One example."""

    features: Any
    """(P, M), or its code in a map that grows."""
    rules: tuple
    """Codes of the rules; empty with a map that grows."""
    uniform: Any = None
    """With a map that grows: a number for the example."""
    round: Any = None
    """With a map that grows: its round."""


class Worked(NamedTuple):
    """What a prediction worked out."""

    z: jax.Array
    """Features (P, M)."""
    rules: tuple
    """Code, values (K, R, P) and what second order uses again, of each rule."""
    offer: Any
    """What becomes of the example in a map that grows, else None."""


@pytree.dataclass
class FeatureModels(Bank):
    """A bank of linear models on the features of kernels.

    Models are the rates of the rules times the kernels, in this order: rule by rule, rate by rate,
    kernel by kernel. With several outputs all share features and covariances, and rules of first
    order treat each output as a model of its own.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      rules: one update rule or several, of first or second order.
      features: the feature map; :class:`jaxmkl.features.FourierFeatures` want shift-invariant
        kernels, a :class:`jaxmkl.features.SampledDictionary` wants one kernel, of any kind, and
        :class:`jaxmkl.features.LinearFeatures` the linear one.

    Raises:
      ValueError: for kernels that have no such features.

    >>> import jaxmkl
    >>> FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), OGD([0.1, 0.3])).num_models
    4
    """

    kernels: Any = pytree.part(Kernel, SEVERAL)
    rules: Any = pytree.parts(Rule, "an update rule, as jaxmkl.updates.OGD(0.1)", (OGD(),))
    features: Any = pytree.part(
        FeatureMap, "a feature map, as jaxmkl.features.FourierFeatures()", FourierFeatures()
    )
    many_outputs = True

    def __post_init__(self) -> None:
        self.features.check(self.kernels)
        for rule in self.rules:
            good = isinstance(rule, Update | SecondOrder)
            pytree.require(good, self, "rules", rule, "of first or second order")
            if isinstance(rule, Update):
                traits(rule)

    @property
    def num_models(self) -> int:
        return self.kernels.num_kernels * sum(rule.num_rates for rule in self.rules)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        return self.rules

    @property
    def random(self) -> bool:
        return any(isinstance(rule, Update) and traits(rule).random for rule in self.rules)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The largest that divides those of the rules; none on a map that grows."""
        periods = [rule.period for rule in self.rules if isinstance(rule, SecondOrder)]
        return int(np.gcd.reduce(periods)) if periods and not self.features.sequential else None

    def init(
        self, key: jax.Array, num_inputs: int, dtype: Any, num_outputs: int | None = None
    ) -> FeatureModelsState:
        P, M = self.kernels.num_kernels, self.features.num_coordinates(num_inputs)
        K = 1 if num_outputs is None else num_outputs
        features = self.features.init(key, self.kernels, num_inputs, dtype)
        rules = (
            rule.init(P, M, dtype, K)
            if isinstance(rule, SecondOrder)
            else FirstOrderState(jnp.zeros((P, K, rule.num_rates, M), dtype))
            for rule in self.rules
        )
        return FeatureModelsState(features, tuple(rules))

    def encode(
        self, state: FeatureModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> FeatureCode:
        """Features of a block ``X`` (B, D), and what rules of second order make of them."""
        features = self.features.encode(state.features, self.kernels, X, round)
        if self.features.sequential:
            numbers = jax.vmap(lambda key: uniform(key, (), X.dtype))(keys)
            return FeatureCode(features, (), numbers, rounds_of(round, X.shape[0]))
        return FeatureCode(features, self._encoded(state, round, features))

    def _encoded(self, state: FeatureModelsState, round: jax.Array, Z: jax.Array) -> tuple:
        """Codes of the rules for features Z (B, P, M)."""
        return tuple(
            rule.encode(own, round, Z) if isinstance(rule, SecondOrder) else ()
            for rule, own in zip(self.rules, state.rules, strict=True)
        )

    def predict(self, state: FeatureModelsState, code: FeatureCode) -> tuple[jax.Array, Worked]:
        z, codes, offer = code.features, code.rules, None
        if self.features.sequential:
            # a block of one: codes of the rules keep their leading axis
            offer = self.features.offer(state.features, code.features, code.uniform)
            z = offer.coordinates[None]
            codes = self._encoded(state, code.round, z[None])
        worked = []
        for rule, own, codes_of in zip(self.rules, state.rules, codes, strict=True):
            if isinstance(rule, SecondOrder):
                values, again = rule.predict(own, take(codes_of, 0) if offer else codes_of)
            else:
                values, again = _values(own.weights, z), ()
            worked.append((codes_of, values, again))
        joined = [values.reshape(values.shape[0], -1) for _, values, _ in worked]
        values = jnp.concatenate(joined, axis=1)  # (K, E)
        return values[0] if len(values) == 1 else values, Worked(z, tuple(worked), offer)

    def learn(
        self, state: FeatureModelsState, code: FeatureCode, worked: Worked, lesson: Lesson
    ) -> FeatureModelsState:
        """Every rule's step, for the models that take part."""
        z, y, start, rules = worked.z, jnp.atleast_1d(lesson.y), 0, []
        norm = self.features.squared_norms(z)[None, :]
        for rule, own, of_rule in zip(self.rules, state.rules, worked.rules, strict=True):
            codes, values, again = of_rule
            _, R, P = values.shape
            mine = lesson.cut(start, start + R * P, (1, R, P))
            start += R * P
            if isinstance(rule, Update):
                step = jax.vmap(rule.step, in_axes=(0, 0, None))(values, y, norm)
                taken, weights = mine.taken(step.probability), own.weights
                if step.decay is not None:
                    weights = _by_kernel(jnp.where(taken, step.decay, 1.0)) * weights
                move = _by_kernel(jnp.where(taken, step.coefficient, 0.0))
                after = FirstOrderState(weights + move * z[:, None, None])
            else:
                errors = y[:, None, None] - values
                example = take(codes, 0) if worked.offer else codes
                after = rule.learn(own, example, again, errors, mine.taken()[0])
                if worked.offer is not None:
                    after = rule.close(after, codes, code.round + 1)
                    after = optax.tree.where(lesson.present, after, own)
            rules.append(after)
        features = state.features
        if worked.offer is not None:
            features = self.features.accept(features, worked.offer, lesson.seen)
        return FeatureModelsState(features, tuple(rules))

    def close(
        self, state: FeatureModelsState, codes: FeatureCode, round: jax.Array
    ) -> FeatureModelsState:
        if self.features.sequential:
            return state
        rules = (
            rule.close(own, of_rule, round) if isinstance(rule, SecondOrder) else own
            for rule, own, of_rule in zip(self.rules, state.rules, codes.rules, strict=True)
        )
        return state._replace(rules=tuple(rules))

    def merged(self, states: FeatureModelsState, start: Any) -> FeatureModelsState:
        good = not self.features.sequential
        wanted = "features that do not grow with the stream: each shard has others"
        pytree.require(good, "merge", "features", self.features, wanted)
        began = (None,) * len(self.rules) if start is None else start.rules
        features = jax.tree.map(lambda leaf: leaf[0], states.features)
        known = [states.features] if start is None else [states.features, start.features]
        for one, *others in zip(*map(jax.tree.leaves, (features, *known)), strict=True):
            good = all(np.all(np.asarray(other) == np.asarray(one)) for other in others)
            wanted = "the same in all states and the start: begin all from one learner.init"
            pytree.require(good, "merge", "features", "different ones", wanted)
        rules = zip(self.rules, states.rules, began, strict=True)
        return FeatureModelsState(features, tuple(rule.merged(*own) for rule, *own in rules))


def _values(weights: jax.Array, z: jax.Array) -> jax.Array:
    """θ·z (K, R, P) of models (P, K, R, M) on features (P, M).

    By products of matrices, see :func:`dots`: of all models of a kernel with its features, unless
    these are one each.
    """
    P, K, R, M = weights.shape
    if K * R == 1:
        return dots(weights[:, 0, 0], z)[None, None]
    of_kernel, batch = ((2,), (1,)), ((0,), (0,))
    flat = weights.reshape(P, K * R, M)
    values = jax.lax.dot_general(flat, z, (of_kernel, batch), precision=_HIGHEST)
    return jnp.moveaxis(values.reshape(P, K, R), 0, -1)


def _by_kernel(a: jax.Array) -> jax.Array:
    """Numbers of models (K, R, P) as they stand beside weights, (P, K, R, 1)."""
    return jnp.moveaxis(a, -1, 0)[..., None]
