"""Online scaling of inputs: each example is scaled by what the stream has shown so far.

A scaler stands before a learner (:func:`scaled`). ``observe`` tells what an input would change in
the scaler's state, ``accept`` makes the change. So a block can be scaled ahead of the learner,
which then takes each change over as it was computed. Labels play no part.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on
from jaxmkl._checks import usable_rows
from jaxmkl._learner import Learner, Prediction
from jaxmkl._moments import Moments
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState


class Scaler(abc.ABC):
    """Base of online scalers: frozen pytree dataclasses that define these methods."""

    @abc.abstractmethod
    def init(self, key: Array, num_inputs: int, dtype: Any) -> Any:
        """The state before the first example."""

    @abc.abstractmethod
    def observe(self, state: Any, x: Array) -> tuple[Any, Array]:
        """The change that ``x`` (D,) makes, and the scaled ``x``."""

    @abc.abstractmethod
    def accept(self, state: Any, change: Any, seen: Array) -> Any:
        """The state after the change, or the same state unless ``seen``."""


JUDGED_FROM = 16
"""Values after which :class:`RunningMoments` knows enough to judge others by."""


class RunningMomentsState(NamedTuple):
    """State of :class:`RunningMoments`."""

    num_seen: Array
    """Inputs seen, n, int32."""
    of_all: Moments
    """m and v."""
    of_last: Moments
    """Of those since n was a power of two; zeros without a ``clip``."""

    @property
    def mean(self) -> Array:
        """Means m (D,)."""
        return self.of_all.mean

    @property
    def variance(self) -> Array:
        """Variances v (D,)."""
        return self.of_all.variance


@pytree.dataclass
class RunningMoments(Scaler):
    """Mean 0 and variance 1 by running moments (Welford, 1962), the present example included.

        x <- x within m ± clip sqrt(v)                                                  (1)
        n <- n + 1,  δ = x - m,  m <- m + δ/n,  v <- v + (δ (x - m) - v)/n
        z = (x - m)/sqrt(v)

    A column that has been constant so far gives 0. No scaled value exceeds sqrt(n - 1).

    By (1) a value is judged by what is known before it is believed: one far beyond all others
    counts as one at ``clip`` deviations. One value of 1e15 then changes next to nothing, and a
    column whose scale has grown a hundredfold is followed within n/10 values, as each that is
    clipped makes v grow by (clip² - 1)/n of itself. Nothing is judged among the first 16 values,
    nor in a column that has been constant. What was believed for want of knowledge is judged
    later: whenever n is a power of two (16 or more), columns whose last n/2 values have a
    deviation more than ``clip`` times smaller than all of them forget the older ones:

        if n = 2^k and v > clip² v':    m, v <- m', v' of the last n/2

    Args:
      clip: above 1. Where fewer than one value of a column in clip² is not 0, these are clipped
        too. Smaller ones tame heavy tails, and follow a growing scale later. None: every value
        is believed.

    Raises:
      ValueError: for another clip.

    >>> scaler, key = RunningMoments(), jax.random.key(0)
    >>> state, z = scaler.observe(scaler.init(key, 1, jnp.float32), jnp.array([3.0]))
    >>> scaler.observe(state, jnp.array([5.0]))[1]
    Array([1.], dtype=float32)
    """

    clip: Any = pytree.number(
        10.0, minimum=1.0, exclusive=True, optional=True, wanted="a finite number above 1"
    )

    def init(self, key: Array, num_inputs: int, dtype: Any) -> RunningMomentsState:
        of_all, of_last = (Moments.none((num_inputs,), dtype) for _ in range(2))
        return RunningMomentsState(jnp.zeros((), jnp.int32), of_all, of_last)

    def observe(self, state: Any, x: Array) -> tuple[RunningMomentsState, Array]:
        number, of_all, of_last = state
        now = count_on(number)
        if self.clip is None:
            of_all = of_all.after(x, now)
            return RunningMomentsState(now, of_all, of_last), of_all.scaled(x)
        clip, varied = jnp.asarray(self.clip, x.dtype), of_all.variance > 0
        judged = varied & (number >= JUDGED_FROM)
        bound = clip * jnp.sqrt(jnp.where(judged, of_all.variance, 1))
        near = jnp.clip(x, of_all.mean - bound, of_all.mean + bound)
        x = jnp.where(judged, near, x)
        of_all = of_all.after(x, now)
        # the largest power of two that is at most the number before, and how many came after it
        power = 1 << (31 - jax.lax.clz(jnp.maximum(number, 1)))
        last = jnp.maximum(number + 1 - power, 1)
        of_last = optax.tree.where(last == 1, optax.tree.zeros_like(of_last), of_last)
        of_last = of_last.after(x, last)
        # written so that a variance that has become infinite, or no number, is forgotten too
        spoiled = ~(of_all.variance / clip**2 <= of_last.variance) & (of_last.variance > 0)
        forgets = spoiled & (last == power) & (now >= JUDGED_FROM)
        of_all = optax.tree.where(forgets, of_last, of_all)
        return RunningMomentsState(now, of_all, of_last), of_all.scaled(x)

    def accept(self, state: Any, change: RunningMomentsState, seen: Array) -> Any:
        return optax.tree.where(seen, change, state)


class RunningRanksState(NamedTuple):
    """A uniform sample (C, D) of the inputs so far, their count, and the key of the draws."""

    key: Array
    num_seen: Array
    sample: Array


@pytree.dataclass
class RunningRanks(Scaler):
    """Ranks on a normal scale, by a sketch of each column's quantiles.

    With L values below x and Q equal to it in a uniform sample of n <= C of the inputs before
    (reservoir sampling: Vitter, 1985, algorithm R),

        u = (L + (Q + 1)/2) / (n + 1),      z = Φ^-1(u)

    Monotone in x, deaf to outliers and to any monotone transformation of a column; ties share
    their middle rank. The rank is off by at most sqrt(log(2/ε) / (2 C)) with probability 1 - ε
    (Dvoretzky, Kiefer and Wolfowitz).

    Args:
      capacity: C, an integer of at least 1 (static); else a ``ValueError`` is raised.

    >>> scaler, key = RunningRanks(capacity=4), jax.random.key(0)
    >>> scaler.observe(scaler.init(key, 1, jnp.float32), jnp.array([1e9]))[1]  # in the middle
    Array([0.], dtype=float32)
    """

    capacity: int = pytree.count(512)

    def init(self, key: Array, num_inputs: int, dtype: Any) -> RunningRanksState:
        sample = jnp.full((self.capacity, num_inputs), jnp.inf, dtype)
        return RunningRanksState(key, jnp.zeros((), jnp.int32), sample)

    def observe(self, state: RunningRanksState, x: Array) -> tuple[tuple[Array, Array], Array]:
        """The place of x in the sample (C for none) with x itself, and the scaled x."""
        n = jnp.minimum(state.num_seen, self.capacity).astype(x.dtype)
        # places that are still empty hold infinity: neither below x nor equal to it
        below = jnp.sum(state.sample < x[None], axis=0, dtype=jnp.int32).astype(x.dtype)
        equal = jnp.sum(state.sample == x[None], axis=0, dtype=jnp.int32).astype(x.dtype)
        scaled = jax.scipy.special.ndtri((below + 0.5 * (equal + 1.0)) / (n + 1.0))
        key = jax.random.fold_in(state.key, state.num_seen)
        drawn = jax.random.randint(key, (), 0, count_on(state.num_seen), jnp.int32)
        place = jnp.where(state.num_seen < self.capacity, state.num_seen, drawn)
        return (place, x), scaled

    def accept(self, state: RunningRanksState, change: Any, seen: Array) -> RunningRanksState:
        (place, x), seen = change, jnp.asarray(seen)
        sample = state.sample.at[jnp.where(seen, place, self.capacity)].set(x, mode="drop")
        return RunningRanksState(state.key, count_on(state.num_seen, seen), sample)


@pytree.dataclass
class ScaledState(WrapperState):
    """State of :class:`Scaled`: that of the learner inside, and the scaler's."""

    scaler: Any


class ScaledCode(NamedTuple):
    """Code of the scaled input, the scaler's change, whether the input is usable."""

    inner: Any
    change: Any
    usable: Array


@pytree.dataclass
class Scaled(Wrapper):
    """A learner that sees its inputs through an online scaler; made by :func:`scaled`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    scaler: Scaler = pytree.part(Scaler, "a scaler, as jaxmkl.wrappers.RunningMoments()")

    def init(self, key: Array, num_inputs: int, dtype: Any = None) -> ScaledState:
        inner = self.learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        key, dtype = jax.random.fold_in(key, 1), self.learner.dtype(inner)
        return ScaledState(inner, self.scaler.init(key, num_inputs, dtype))

    def encode_block(self, state: Any, X: Array, given: Array | None = None) -> ScaledCode:
        """Scale the rows one after the other, then encode them together."""

        def one(scaler: Any, row: tuple) -> tuple[Any, tuple]:
            x, seen = row
            change, z = self.scaler.observe(scaler, x)
            return self.scaler.accept(scaler, change, seen), (change, z)

        usable = usable_rows(X)
        ahead = jnp.arange(len(X)) >= state.round % len(X)
        filled = jnp.where(usable[:, None], X, 0.0)
        _, (changes, Z) = jax.lax.scan(one, state.scaler, (filled, usable & ahead))
        Z = jnp.where(jnp.arange(X.shape[1])[None] < self.leading_columns, filled, Z)
        # what the learner gets for an unusable row must be refused there too
        Z = jnp.where(usable[:, None], Z, jnp.nan)
        codes = super().encode_block(state, Z, X if given is None else given)
        return ScaledCode(codes, changes, usable)

    def decide(self, state: ScaledState, code: ScaledCode) -> tuple[Prediction, Any]:
        return super().decide(state, code.inner)

    def teach(
        self, state: Any, code: ScaledCode, forecast: Any, y: Array, asked: Array, present: Array
    ) -> ScaledState:
        """The learner learns if asked; the scaler sees every usable input."""
        taught = super().teach(state, code.inner, forecast, y, asked, present)
        scaler = self.scaler.accept(state.scaler, code.change, code.usable & present)
        return taught.replace(scaler=scaler)

    def close_block(self, state: ScaledState, codes: ScaledCode) -> ScaledState:
        return super().close_block(state, codes.inner)


def scaled(learner: Learner, scaler: Scaler) -> Scaled:
    """Let a learner see its inputs through an online scaler, inside the same scan.

    Args:
      learner: any learner.
      scaler: :class:`RunningMoments` or :class:`RunningRanks`.

    Raises:
      ValueError: for what is no learner, or no scaler.

    >>> import jaxmkl
    >>> learner = scaled(jaxmkl.raker(), RunningMoments())
    >>> learner.init(jax.random.key(0), num_inputs=2).scaler.mean
    Array([0., 0.], dtype=float32)
    """
    return Scaled(learner, scaler)
