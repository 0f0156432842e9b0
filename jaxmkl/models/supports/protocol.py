"""The protocol of stores of support vectors, and functions of a period that stores share.

A learner goes through a block of B examples like this:

    codes = store.encode(state, kernels, X, round)           once, by matrix products
    for each example:
        f, aux = store.predict(state, kernels, code)         code: one row of codes
        state = store.update(state, kernels, code, aux, proposal)
    state = store.close(state, kernels, codes, round, decays)

Shapes: B block, D inputs, P kernels, R rounds of a period.
"""

import abc
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import rounds_of
from jaxmkl._types import Aux, Code, State
from jaxmkl.kernels import Kernel, pairwise_products, scaled


class Proposal(NamedTuple):
    """The proposed update of the models in a round.

    A padding round has ``learned`` all False and ``decay`` all 1, and changes no bit.
    """

    learned: jax.Array
    """A mask of the kernels that add the example (P,)."""
    coefficient: jax.Array
    """Its coefficient (P,)."""
    decay: jax.Array | None = None
    """The factor of all earlier coefficients of kernel p (P,), 1 where the kernel takes no part;
    None for 1 everywhere."""
    draw: jax.Array | None = None
    """Uniform numbers (P,) for a store that is ``random``, or None."""


class Store(abc.ABC, Generic[State, Code, Aux]):
    """The base of all stores, which hold the support vectors of P kernels.

    A subclass is a frozen dataclass (:func:`jaxmkl.pytree.dataclass`). Its state is a pytree with
    at least the fields ``number``, the number of supports of each kernel (P,), and ``overflow``,
    the number of examples that were not added for want of room, both int32.
    """

    period: int
    """R, rounds after which new supports are settled: a power of two, and so is the size of
    blocks, which is at most R and aligned with the rounds."""
    random: bool = False
    """True if ``update`` needs random numbers."""

    @abc.abstractmethod
    def init(self, kernels: Kernel, num_inputs: int, dtype: DTypeLike) -> State:
        """The state without supports."""

    @abc.abstractmethod
    def encode(self, state: State, kernels: Kernel, X: jax.Array, round: jax.Array) -> Code:
        """The codes of a block: its kernel values and sums with the supports.

        Args:
          state: the state at the start of the block, or within it: examples of earlier rounds are
            ignored.
          kernels: the P kernels.
          X: the examples (B, D), all finite.
          round: the number of examples seen before, int32; the rounds of the block are
            ``round//B*B`` and the next B - 1.

        Returns:
          Codes, a pytree with leading axis B. ``codes.own`` are the values k_p(x, x) (B, P),
          ``codes.rows`` the examples (B, D) and ``codes.round`` their rounds (B,).
        """

    @abc.abstractmethod
    def predict(self, state: State, kernels: Kernel, code: Code) -> tuple[jax.Array, Aux]:
        """Values f (P,) of one example, and the results that :meth:`update` uses again."""

    @abc.abstractmethod
    def update(
        self, state: State, kernels: Kernel, code: Code, aux: Aux, proposal: Proposal
    ) -> State:
        """The state after an example; ``aux`` is the second result of :meth:`predict`."""

    @abc.abstractmethod
    def close(
        self, state: State, kernels: Kernel, codes: Code, round: jax.Array, decays: bool
    ) -> State:
        """The state after a block; at the end of a period, with its supports settled.

        ``round`` is the number of examples seen by now, int32; ``decays`` says whether proposals
        ever decay (static).
        """

    def reach(self, step: jax.Array, rounds: jax.Array) -> jax.Array | None:
        """How large |f| can be after so many rounds of steps of that size, in exact arithmetic.

        By :func:`reach_of_sums`, or :func:`reach_of_all` where supports are removed, for kernels
        with k(x, x) = 1. None if it is not known.
        """
        return None

    def used(self, state: State) -> jax.Array:
        """The number of supports that fill the room, int32; 0 if room is not limited."""
        return jnp.zeros((), jnp.int32)

    def capacity_of(self, state: State) -> int | None:
        """The number of supports for which the state has room; None if it is not limited."""
        return None

    def enlarged(self, state: State, capacity: int) -> State:
        """The state with room for at least so many supports."""
        return state


def reach_of_sums(step: jax.Array, rounds: jax.Array) -> jax.Array:
    """How large |f| can be after n steps f <- f + c k(x, ·) with |c| and c f(x) at most s.

        |f(x)|² <= |f|² <= n (2 s + s²),    as a step adds 2 c f(x) + c² to |f|²

    where k(x, x) = 1. It is no more if k(x, ·) is projected onto a span that f lies in, or if f
    also decays.
    """
    return jnp.sqrt(rounds * step * (2.0 + step))


def reach_of_all(step: jax.Array, rounds: jax.Array) -> jax.Array:
    """The same for models that lose supports, by which |f| may grow: the sum n s of all steps."""
    return rounds * step


def as_period(owner: object, name: str, value: Any) -> int:
    """Check a field that is a period, which blocks must divide."""
    good = isinstance(value, int) and 1 <= value <= 4096 and value & (value - 1) == 0
    pytree.require(good, owner, name, value, "a power of two up to 4096")
    return value


class Codes(NamedTuple):
    """Codes of a block's examples; leading axis B."""

    settled: Any
    """Sums (B, P) over the settled supports; None in a store with a budget."""
    recent: jax.Array
    """Kernels (B, P, R) against the examples of the period, in the form that the store needs."""
    own: jax.Array
    """Values k_p(x, x), (B, P)."""
    rows: jax.Array
    """The examples (B, D)."""
    round: jax.Array
    """Their rounds (B,), int32."""


def encode_recent(kernels: Kernel, recent: jax.Array, X: jax.Array, round: jax.Array) -> Codes:
    """Codes of a block X without ``settled``; its ``recent`` are codes of the kernels.

    The argument ``recent`` (R, D) has the rows of the period so far. If a block has already begun,
    the rows of its earlier rounds come from there.
    """
    R, B = recent.shape[0], X.shape[0]
    # the place in the period of the block's first row
    start = round // B * B % R
    rows = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(recent), X, start, 0)
    over = jnp.arange(R, dtype=jnp.int32) < round % R
    rows = jnp.where(over[:, None], recent, rows)
    own = jax.lax.dynamic_slice_in_dim(rows, start, B, 0)
    marks = kernels.exponential
    codes = scaled.finite(kernels.codes(pairwise_products(own, rows)), marks)
    itself = scaled.plain(scaled.finite(kernels.diagonal_codes(own), marks), marks)
    return Codes(None, jnp.moveaxis(codes, 0, 1), itself.T, own, rounds_of(round, B))


def keep_rows(recent: jax.Array, codes: Codes, round: jax.Array) -> jax.Array:
    """The rows (R, D) of the period after those rounds of a block that are below ``round``."""
    # a later round is within the block, even after the counter wraps around
    ahead = codes.round - round
    over = (ahead < 0) | (ahead >= len(codes.round))
    seen = jnp.where(over[:, None], codes.rows, 0.0)
    start = codes.round[0] % recent.shape[0]
    return jax.lax.dynamic_update_slice_in_dim(recent, seen, start, 0)
