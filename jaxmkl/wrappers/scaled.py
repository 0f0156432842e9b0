"""Online scaling of inputs: each example is scaled by statistics of the stream so far.

A scaler transforms the inputs of a learner (:func:`scaled`). ``observe`` computes the change that
an input makes to the scaler's state, ``accept`` makes the change. So a block can be scaled ahead
of the learner, which then accepts each change as it was computed. Labels are not used.
"""

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on
from jaxmkl._checks import usable_rows
from jaxmkl._learner import Learner, Prediction
from jaxmkl._moments import Moments
from jaxmkl._types import Number, PyTree
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState


class Scaler(abc.ABC):
    """Base of online scalers: frozen pytree dataclasses that define these methods."""

    @abc.abstractmethod
    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> PyTree:
        """The state before the first example."""

    @abc.abstractmethod
    def observe(self, state: PyTree, x: Array) -> tuple[PyTree, Array]:
        """The change that ``x`` (D,) makes, and the scaled ``x``."""

    @abc.abstractmethod
    def accept(self, state: PyTree, change: PyTree, seen: Array) -> PyTree:
        """The state after the change; unchanged unless ``seen``."""


CLIPPED_FROM = 16
"""Number of values after which :class:`RunningMoments` clips others."""


class RunningMomentsState(NamedTuple):
    """State of :class:`RunningMoments`."""

    num_seen: Array
    """Number n of inputs seen, int32."""
    of_all: Moments
    """Moments m and v of all inputs."""
    of_last: Moments
    """Moments of the inputs since n was a power of two; zeros without a ``clip``."""

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

    By (1) a value far from all others counts as one at ``clip`` standard deviations. So a single
    value of 1e15 changes next to nothing, and the moments follow a column whose scale has grown a
    hundredfold within n/10 values, as each clipped value makes v grow by (clip² - 1)/n of itself.
    The first 16 values are not clipped, nor is a column that has been constant. Outliers that pass
    this way are forgotten later: whenever n is a power of two (16 or more), a column forgets its
    older values if the standard deviation of the last n/2 is more than ``clip`` times smaller:

        if n = 2^k and v > clip² v':    m, v <- m', v' of the last n/2

    Args:
      clip: a number above 1. If fewer than one value of a column in clip² is not 0, these are
        clipped too. Smaller clips limit heavy tails more, and follow a growing scale more slowly.
        With None no value is clipped.

    Raises:
      ValueError: if the clip is not such a number.

    >>> scaler, key = RunningMoments(), jax.random.key(0)
    >>> state, z = scaler.observe(scaler.init(key, 1, jnp.float32), jnp.array([3.0]))
    >>> scaler.observe(state, jnp.array([5.0]))[1]
    Array([1.], dtype=float32)
    """

    clip: Number | None = pytree.number(
        10.0, minimum=1.0, exclusive=True, optional=True, wanted="a finite number above 1"
    )

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> RunningMomentsState:
        of_all, of_last = (Moments.none((num_inputs,), dtype) for _ in range(2))
        return RunningMomentsState(jnp.zeros((), jnp.int32), of_all, of_last)

    def observe(self, state: RunningMomentsState, x: Array) -> tuple[RunningMomentsState, Array]:
        number, of_all, of_last = state
        now = count_on(number)
        if self.clip is None:
            of_all = of_all.after(x, now)
            return RunningMomentsState(now, of_all, of_last), of_all.scaled(x)
        clip, varied = jnp.asarray(self.clip, x.dtype), of_all.variance > 0
        clipped = varied & (number >= CLIPPED_FROM)
        bound = clip * jnp.sqrt(jnp.where(clipped, of_all.variance, 1))
        near = jnp.clip(x, of_all.mean - bound, of_all.mean + bound)
        x = jnp.where(clipped, near, x)
        of_all = of_all.after(x, now)
        # the largest power of two up to the number before, and how many values came after it
        power = 1 << (31 - jax.lax.clz(jnp.maximum(number, 1)))
        last = jnp.maximum(number + 1 - power, 1)
        of_last = optax.tree.where(last == 1, optax.tree.zeros_like(of_last), of_last)
        of_last = of_last.after(x, last)
        # written so that a variance that is infinite or NaN is forgotten too
        spoiled = ~(of_all.variance / clip**2 <= of_last.variance) & (of_last.variance > 0)
        forgets = spoiled & (last == power) & (now >= CLIPPED_FROM)
        of_all = optax.tree.where(forgets, of_last, of_all)
        return RunningMomentsState(now, of_all, of_last), of_all.scaled(x)

    def accept(
        self, state: RunningMomentsState, change: RunningMomentsState, seen: Array
    ) -> RunningMomentsState:
        return optax.tree.where(seen, change, state)


class RunningRanksState(NamedTuple):
    """The key of the draws, the count of inputs, and a uniform sample (C, D) of them."""

    key: Array
    num_seen: Array
    sample: Array


@pytree.dataclass
class RunningRanks(Scaler):
    """Ranks on a normal scale, by a sketch of each column's quantiles.

    If L values are below x and Q equal to it in a uniform sample of n <= C earlier inputs
    (reservoir sampling: Vitter, 1985, algorithm R),

        u = (L + (Q + 1)/2) / (n + 1),      z = Φ^-1(u)

    It is monotone in x, and insensitive to outliers and to monotone transformations of a column;
    ties share their middle rank. The rank is off by at most sqrt(log(2/ε) / (2 C)) with
    probability 1 - ε (Dvoretzky, Kiefer and Wolfowitz).

    Args:
      capacity: C, an integer of at least 1 (static); otherwise a ``ValueError`` is raised.

    >>> scaler, key = RunningRanks(capacity=4), jax.random.key(0)
    >>> scaler.observe(scaler.init(key, 1, jnp.float32), jnp.array([1e9]))[1]  # in the middle
    Array([0.], dtype=float32)
    """

    capacity: int = pytree.count(512)

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> RunningRanksState:
        sample = jnp.full((self.capacity, num_inputs), jnp.inf, dtype)
        return RunningRanksState(key, jnp.zeros((), jnp.int32), sample)

    def observe(self, state: RunningRanksState, x: Array) -> tuple[tuple[Array, Array], Array]:
        """The pair of x and its place in the sample (C for none), and the scaled x."""
        n = jnp.minimum(state.num_seen, self.capacity).astype(x.dtype)
        # empty places hold infinity, which is neither below x nor equal to it
        below = jnp.sum(state.sample < x[None], axis=0, dtype=jnp.int32).astype(x.dtype)
        equal = jnp.sum(state.sample == x[None], axis=0, dtype=jnp.int32).astype(x.dtype)
        scaled = jax.scipy.special.ndtri((below + 0.5 * (equal + 1.0)) / (n + 1.0))
        key = jax.random.fold_in(state.key, state.num_seen)
        drawn = jax.random.randint(key, (), 0, count_on(state.num_seen), jnp.int32)
        place = jnp.where(state.num_seen < self.capacity, state.num_seen, drawn)
        return (place, x), scaled

    def accept(
        self, state: RunningRanksState, change: tuple[Array, Array], seen: Array
    ) -> RunningRanksState:
        (place, x), seen = change, jnp.asarray(seen)
        sample = state.sample.at[jnp.where(seen, place, self.capacity)].set(x, mode="drop")
        return RunningRanksState(state.key, count_on(state.num_seen, seen), sample)


@pytree.dataclass
class ScaledState(WrapperState):
    """State of :class:`Scaled`: those of the inner learner and of the scaler."""

    scaler: PyTree


class ScaledCode(NamedTuple):
    """The code of the scaled input, the scaler's change, and whether the input is usable."""

    inner: PyTree
    change: PyTree
    usable: Array


@pytree.dataclass
class Scaled(Wrapper):
    """A learner whose inputs are scaled online; made by :func:`scaled`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    scaler: Scaler = pytree.part(Scaler, "a scaler, as jaxmkl.wrappers.RunningMoments()")

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> ScaledState:
        inner = self.learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        key, dtype = jax.random.fold_in(key, 1), self.learner.dtype(inner)
        return ScaledState(inner, self.scaler.init(key, num_inputs, dtype))

    def encode_block(self, state: ScaledState, X: Array, given: Array | None = None) -> ScaledCode:
        """Scale the rows one after the other, then encode them together."""

        def one(scaler: PyTree, row: tuple) -> tuple[PyTree, tuple]:
            x, seen = row
            change, z = self.scaler.observe(scaler, x)
            return self.scaler.accept(scaler, change, seen), (change, z)

        usable = usable_rows(X)
        ahead = jnp.arange(len(X)) >= state.round % len(X)
        filled = jnp.where(usable[:, None], X, 0.0)
        _, (changes, Z) = jax.lax.scan(one, state.scaler, (filled, usable & ahead))
        Z = jnp.where(jnp.arange(X.shape[1])[None] < self.leading_columns, filled, Z)
        # an unusable row must be refused by the inner learner too
        Z = jnp.where(usable[:, None], Z, jnp.nan)
        codes = super().encode_block(state, Z, X if given is None else given)
        return ScaledCode(codes, changes, usable)

    def decide(self, state: ScaledState, code: ScaledCode) -> tuple[Prediction, PyTree]:
        return super().decide(state, code.inner)

    def teach(
        self,
        state: ScaledState,
        code: ScaledCode,
        forecast: PyTree,
        y: Array,
        asked: Array,
        present: Array,
    ) -> ScaledState:
        """The inner learner learns if asked; the scaler learns every usable input."""
        taught = super().teach(state, code.inner, forecast, y, asked, present)
        scaler = self.scaler.accept(state.scaler, code.change, code.usable & present)
        return taught.replace(scaler=scaler)

    def close_block(self, state: ScaledState, codes: ScaledCode) -> ScaledState:
        return super().close_block(state, codes.inner)


def scaled(learner: Learner, scaler: Scaler) -> Scaled:
    """Scale the inputs of a learner online, inside the same scan.

    Args:
      learner: any learner.
      scaler: :class:`RunningMoments` or :class:`RunningRanks`.

    Raises:
      ValueError: if ``learner`` is not a learner, or ``scaler`` not a scaler.

    >>> import jaxmkl
    >>> learner = scaled(jaxmkl.raker(), RunningMoments())
    >>> learner.init(jax.random.key(0), num_inputs=2).scaler.mean
    Array([0., 0.], dtype=float32)
    """
    return Scaled(learner, scaler)
