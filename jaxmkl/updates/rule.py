"""The protocol of update rules on features, and what all rules have in common.

A rule has models at R rates for each of P kernels, f = θ·z(x), with K outputs K of each. The bank
(:class:`jaxmkl.models.FeatureModels`) calls it like so:

    state = rule.init(P, M, dtype, K)
    codes = rule.encode(state, round, Z)                     once a block
    values, aux = rule.predict(state, code, z)
    state = rule.update(state, code, aux, feedback)
    state = rule.close(state, codes, round)                  once a block
"""

import abc
from typing import Any, Generic

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from jaxmkl import abilities
from jaxmkl._blocks import dots, take, uniform
from jaxmkl._feedback import Feedback
from jaxmkl._types import EMPTY, Aux, Code, State
from jaxmkl.losses import HasLoss


class Rule(abilities.NoMethods, HasLoss, abc.ABC, Generic[State, Code, Aux]):
    """Base of all update rules: frozen pytree dataclasses.

    An argument outside its range raises a ``ValueError`` that names it.
    """

    loss: Any = "hinge"
    """The loss that it reduces; a subclass may take a name in :data:`jaxmkl.losses.LOSSES`."""
    period: int | None = None
    """Number of rounds after which :meth:`close` acts again; blocks divide it. None if it never
    does anything."""

    @property
    def num_rates(self) -> int:
        """Number of rates R."""
        return 1

    @property
    def random(self) -> bool:
        """True if steps are random, so that the update needs uniform numbers."""
        return False

    def check(self) -> None:
        """Raise a ``ValueError`` if what the rule computes has a wrong shape."""
        return

    @abc.abstractmethod
    def init(
        self, num_kernels: int, num_coordinates: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> State:
        """The rule's state, a pytree, for features z (P, M)."""

    def encode(self, state: State, round: jax.Array, Z: jax.Array) -> Code:
        """Codes of a block of features ``Z`` (B, P, M), with leading axis B.

        Args:
          state: the state at the start of the block, or within it.
          round: the round of the next example; row j belongs to ``round // B * B + j``.
          Z: the features. Rows of rounds that are over are ignored.
        """
        return EMPTY

    @abc.abstractmethod
    def predict(self, state: State, code: Code, z: jax.Array) -> tuple[jax.Array, Aux]:
        """Values (K, R, P) of the models on z (P, M), and what :meth:`update` uses again."""

    @abc.abstractmethod
    def update(self, state: State, code: Code, aux: Aux, feedback: Feedback) -> State:
        """The state after an example.

        Every bit of a model stays as it was unless ``feedback.taken()`` (1, R, P) is True for it.
        """

    def close(self, state: State, codes: Code, round: jax.Array) -> State:
        """The state after a block; rounds below ``round`` are over."""
        return state

    def fitted(
        self, state: State, Z: jax.Array, y: jax.Array, counts: jax.Array, round: jax.Array
    ) -> State:
        """The state of models that begin anew and learn N examples before a round.

        By default examples are learned one after the other, each once. A rule with a solution in
        closed form weights each example by its count. Random steps depend on the round that an
        example is given.

        Args:
          state: any state of the rule, for its shapes and dtype.
          Z: features (N, P, M).
          y: labels (N,), or of K outputs (N, K).
          counts: how often each example counts (N,); those at 0 are ignored.
          round: the round that comes next.
        """
        first = round - jnp.sum(counts > 0, dtype=jnp.int32)

        def learned(example: tuple, own: State) -> State:
            z, label, now = example
            codes = self.encode(own, now, z[None])
            code = take(codes, 0)
            values, aux = self.predict(own, code, z)
            yes, norm = jnp.ones((), bool), jnp.sum(z * z, axis=-1)[None]
            shape, chance = (1, *values.shape[1:]), None
            if self.random:
                chance = uniform(jax.random.fold_in(jax.random.key(0), now), shape, z.dtype)
            updates = jnp.ones(shape, bool)
            feedback = Feedback(label, updates, yes, yes, chance=chance, norm=norm)
            return self.close(self.update(own, code, aux, feedback), codes, now + 1)

        def turn(own: State, example: tuple) -> tuple[State, None]:
            z, label, count, before = example
            after = learned((z, label, first + before), own)
            return optax.tree.where(count > 0, after, own), None

        before = jnp.cumsum(counts > 0, dtype=jnp.int32) - (counts > 0)
        (_, P, M), K = Z.shape, 1 if y.ndim == 1 else y.shape[1]
        began = self.init(P, M, Z.dtype, K)
        return jax.lax.scan(turn, began, (Z, y, counts, before))[0]


class WeightsRule(Rule[State, tuple, tuple]):
    """Base of rules whose states have ``weights`` θ (P, K, R, M).

    Models on the same features z_p lie together, so that a prediction is one product of
    matrices for each kernel.
    """

    def predict(self, state: Any, code: tuple, z: jax.Array) -> tuple[jax.Array, tuple]:
        """Values θ·z (K, R, P) on features (P, M); and the features and values themselves."""
        P, K, R, M = state.weights.shape
        if K * R == 1:  # one model a kernel: no matrices to multiply
            values = dots(state.weights[:, 0, 0], z)[None, None]
        else:
            of_kernel, batch, highest = ((2,), (1,)), ((0,), (0,)), jax.lax.Precision.HIGHEST
            flat = state.weights.reshape(P, K * R, M)
            flat = jax.lax.dot_general(flat, z, (of_kernel, batch), precision=highest)
            values = jnp.moveaxis(flat.reshape(P, K, R), 0, -1)
        return values, (z, values)


@abilities.squared_norms.register
def _(rule: WeightsRule, state: Any) -> jax.Array:
    return jnp.moveaxis(jnp.sum(jnp.square(state.weights), axis=-1), 0, -1)


def beside_weights(a: jax.Array) -> jax.Array:
    """Numbers of models (K, R, P) in the order of the weights, (P, K, R, 1)."""
    return jnp.moveaxis(a, -1, 0)[..., None]
