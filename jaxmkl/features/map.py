"""The protocol of feature maps."""

import abc
from typing import Any, Generic

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl._blocks import take
from jaxmkl._feedback import Feedback
from jaxmkl._types import EMPTY, Aux, Code, State
from jaxmkl.kernels import Kernel


class FeatureMap(abc.ABC, Generic[State, Code, Aux]):
    """Base of all feature maps: frozen pytree dataclasses.

    Its type parameters are its state, its codes, and what a prediction hands to the update, all
    pytrees.

    A map gives an example x coordinates z_p(x) (P, M), by default for each of P kernels, else as
    many as :meth:`num_vectors` says. It may learn: its state is the bank's
    (:class:`jaxmkl.models.FeatureModels`), which calls it like so:

        state = map.init(key, kernels, D, dtype)
        codes = map.encode(state, kernels, X, round, keys)       once a block
        z, aux = map.predict(state, code)
        state = map.update(state, code, aux, feedback)           in every round
        state = map.close(state, codes, round)                   once a block

    There are three kinds. A map that is drawn once has a state that nothing changes. A map that
    learns now and then collects what it needs in :meth:`update`; only :meth:`close`, in rounds
    that its ``period`` divides, changes what :meth:`encode` and :meth:`predict` read. A map that
    is ``sequential`` may change in every round: features then are made one example at a time.
    """

    sequential = False
    """True if features of an example depend on the examples before it in the block."""
    squared_norm: float | None = None
    """|z_p(x)|² where it is known to be the same for every x and p, or None."""
    period: int | None = None
    """Rounds between two changes of the map when a block is closed; blocks divide it. None where
    closing a block changes nothing."""

    @abc.abstractmethod
    def num_coordinates(self, num_inputs: int) -> int:
        """M, for D inputs."""

    def num_vectors(self, kernels: Kernel) -> int:
        """P, for these kernels."""
        return kernels.num_kernels

    def check(self, kernels: Kernel) -> None:
        """Raise a ``ValueError`` unless these kernels have such features."""
        return

    @abc.abstractmethod
    def init(
        self, key: jax.Array, kernels: Kernel, num_inputs: int, dtype: DTypeLike | None = None
    ) -> State:
        """The map's state, a pytree."""

    @abc.abstractmethod
    def encode(
        self, state: State, kernels: Kernel, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> Code:
        """Codes of the rows of ``X`` (B, D), with leading axis B; by default features (B, P, M).

        Args:
          state: at the block's start, or amid it.
          kernels: those that the features are for.
          X: finite.
          round: of the next example; row j belongs to round ``round // B * B + j``.
          keys: a typed key for each row (B,).
        """

    def predict(self, state: State, code: Code) -> tuple[jax.Array, Aux]:
        """Features z (P, M) of one example, and what :meth:`update` uses again.

        By default the code is z, and nothing is used again.
        """
        features: Any = code
        return features, EMPTY

    def update(self, state: State, code: Code, aux: Aux, feedback: Feedback) -> State:
        """The state after an example.

        The feedback has the label ``y`` and which of the bank's models take part in the
        ``updates``. What needs no label depends on ``seen``, and without ``present`` no bit may
        change.
        """
        return state

    def close(self, state: State, codes: Code, round: jax.Array) -> State:
        """The state after a block; rounds below ``round`` are over."""
        return state

    def gradients(
        self, state: State, kernels: Kernel, X: jax.Array, weights: jax.Array
    ) -> jax.Array:
        """Gradients (B, J, P, D) of θ·z_p(x) by x, for weights θ (J, P, M) and rows of ``X``.

        By default JAX derives :meth:`encode` and :meth:`predict`.
        """
        J, P, _ = weights.shape
        # of one kernel at a time: all but its own weights are 0
        alone = weights[:, None] * jnp.eye(P, dtype=weights.dtype)[None, :, :, None]

        def features(x: jax.Array) -> jax.Array:
            keys = jax.random.split(jax.random.key(0), 1)
            code = take(self.encode(state, kernels, x[None], jnp.zeros((), jnp.int32), keys), 0)
            return self.predict(state, code)[0]

        def of_one(x: jax.Array) -> jax.Array:
            backward = jax.vjp(features, x)[1]
            (gradients,) = jax.vmap(backward)(alone.reshape(J * P, *alone.shape[2:]))
            return gradients.reshape(J, P, -1)

        return jax.vmap(of_one)(X)

    def squared_norms(self, z: jax.Array) -> jax.Array:
        """|z_p|² (P,) of an example's features (P, M)."""
        return (z * z).sum(axis=-1)
