"""Online scaling of inputs: each example is scaled by statistics of the stream so far.

A scaler transforms the inputs of a learner (:func:`scaled`). Its ``predict`` scales an input and
computes the change that the input makes to the scaler's state; ``update`` makes that change. So a
block can be scaled ahead of the learner, and each change is made in its round. Labels are not
used.
"""

import abc
from operator import index
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on
from jaxmkl._checks import require_key, usable_rows
from jaxmkl._learner import Learner, Prediction
from jaxmkl._moments import Moments
from jaxmkl._types import Aux, Number, PyTree, State, at_least_single
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState


class Scaler(abc.ABC, Generic[State, Aux]):
    """Base of online scalers: frozen pytree dataclasses that define these methods."""

    @abc.abstractmethod
    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> State:
        """The state before the first example."""

    @abc.abstractmethod
    def predict(self, state: State, x: Array) -> tuple[Array, Aux]:
        """The scaled ``x`` (D,), and the change that it makes to the state."""

    @abc.abstractmethod
    def update(self, state: State, aux: Aux, seen: Array) -> State:
        """The state after the change ``aux``; unchanged unless ``seen``."""


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
class RunningMoments(Scaler[RunningMomentsState, RunningMomentsState]):
    """Mean 0 and variance 1 by running moments (Welford, 1962), the present example included.

        x <- x within m ± clip sqrt(v)                                                  (1)
        n <- n + 1,  δ = x - m,  m <- m + δ/n,  v <- v + (δ (x - m) - v)/n
        z = (x - m)/sqrt(v)

    A column that has been constant so far gives 0. No scaled value exceeds sqrt(n - 1). The
    variance must be a number of the state's dtype: in float32, differences below 1e-18 count as
    none, of which drivers warn.

    By (1) a value far from all others counts as one at ``clip`` standard deviations. So a single
    value of 1e15 changes next to nothing, and a column whose scale has grown a hundredfold is
    clipped for some n/10 rounds, as each clipped value makes v grow by (clip² - 1)/n of itself.
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
    >>> predict = jax.jit(scaler.predict)
    >>> z, state = predict(scaler.init(key, 1, jnp.float32), jnp.array([3.0]))
    >>> predict(state, jnp.array([5.0]))[0]
    Array([1.], dtype=float32)
    """

    clip: Number | None = pytree.number(
        default=10.0, minimum=1.0, exclusive=True, optional=True, wanted="a finite number above 1"
    )

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> RunningMomentsState:
        of_all, of_last = (Moments.none((num_inputs,), dtype) for _ in range(2))
        return RunningMomentsState(jnp.zeros((), jnp.int32), of_all, of_last)

    def predict(self, state: RunningMomentsState, x: Array) -> tuple[Array, RunningMomentsState]:
        """The scaled x, and the state once x is seen."""
        number, of_all, of_last = state
        now = count_on(number)
        if self.clip is None:
            of_all = of_all.after(x, now)
            return of_all.scaled(x), RunningMomentsState(now, of_all, of_last)
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
        return of_all.scaled(x), RunningMomentsState(now, of_all, of_last)

    def update(
        self, state: RunningMomentsState, aux: RunningMomentsState, seen: Array
    ) -> RunningMomentsState:
        return optax.tree.where(seen, aux, state)


class RunningRanksState(NamedTuple):
    """State of :class:`RunningRanks`."""

    key: Array
    """The key of the draws."""
    num_seen: Array
    """Number of inputs seen, int32."""
    sample: Array
    """A uniform sample of them (C, D), infinite where there is none yet."""


@pytree.dataclass
class RunningRanks(Scaler[RunningRanksState, tuple[Array, Array]]):
    """Ranks on a normal scale, by a sketch of each column's quantiles.

    If L values are below x and Q equal to it in a uniform sample of n <= C earlier inputs
    (reservoir sampling: Vitter, 1985, algorithm R),

        u = (L + (Q + 1)/2) / (n + 1),      z = Φ^-1(u)

    It is monotone in x, and insensitive to outliers and to monotone transformations of a column;
    ties share their middle rank. It is a step function: derivatives by x are 0. The rank is off by
    at most sqrt(log(2/ε) / (2 C)) with probability 1 - ε (Dvoretzky, Kiefer and Wolfowitz).

    Args:
      capacity: C, an integer of at least 1 (static); otherwise a ``ValueError`` is raised.

    >>> scaler, key = RunningRanks(capacity=4), jax.random.key(0)
    >>> state = scaler.init(key, 1, jnp.float32)
    >>> jax.jit(scaler.predict)(state, jnp.array([1e9]))[0]  # in the middle
    Array([0.], dtype=float32)
    """

    capacity: int = pytree.count(default=512)

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> RunningRanksState:
        sample = jnp.full((self.capacity, num_inputs), jnp.inf, dtype)
        return RunningRanksState(key, jnp.zeros((), jnp.int32), sample)

    def predict(self, state: RunningRanksState, x: Array) -> tuple[Array, tuple[Array, Array]]:
        """The scaled x, and the pair of its place in the sample (C for none) and x."""
        dtype = at_least_single(x.dtype)  # bfloat16 has no counts above 256
        n = jnp.minimum(state.num_seen, self.capacity).astype(dtype)
        # empty places hold infinity, which is neither below x nor equal to it
        below = jnp.sum(state.sample < x[None], axis=0, dtype=jnp.int32).astype(dtype)
        equal = jnp.sum(state.sample == x[None], axis=0, dtype=jnp.int32).astype(dtype)
        scaled = jax.scipy.special.ndtri((below + 0.5 * (equal + 1.0)) / (n + 1.0)).astype(x.dtype)
        key = jax.random.fold_in(state.key, state.num_seen)
        drawn = jax.random.randint(key, (), 0, count_on(state.num_seen), jnp.int32)
        place = jnp.where(state.num_seen < self.capacity, state.num_seen, drawn)
        return scaled, (place, x)

    def update(
        self, state: RunningRanksState, aux: tuple[Array, Array], seen: Array
    ) -> RunningRanksState:
        (place, x), seen = aux, jnp.asarray(seen)
        sample = state.sample.at[jnp.where(seen, place, self.capacity)].set(x, mode="drop")
        return RunningRanksState(state.key, count_on(state.num_seen, seen), sample)


@pytree.dataclass
class AllBut(Scaler[State, Aux]):
    """A scaler of all inputs except some, which are left unchanged.

    Args:
      scaler: the scaler of the others.
      ranges: pairs (first, end) of places that are left unchanged, without ``end`` (static).
      limit: the largest absolute value that these have; larger ones are clipped to it.

    Raises:
      ValueError: if ``ranges`` are not such pairs, or the limit is not above 0; by ``init``, if
        there are not so many inputs.

    >>> scaler = AllBut(RunningMoments(), ((1, 3),), limit=6.5)
    >>> state = scaler.init(jax.random.key(0), 3, jnp.float32)
    >>> jax.jit(scaler.predict)(state, jnp.array([5.0, 6.0, 7.0]))[0]
    Array([0. , 6. , 6.5], dtype=float32)
    """

    scaler: Scaler = pytree.part(Scaler, "a scaler, as RunningMoments()")
    ranges: tuple[tuple[int, int], ...] = pytree.static()
    limit: Number | None = pytree.number(default=None, minimum=0.0, exclusive=True, optional=True)

    def __post_init__(self) -> None:
        wanted = "pairs (first, end) of integers, 0 <= first < end"
        try:
            ranges = tuple((index(first), index(end)) for first, end in self.ranges)
        except (TypeError, ValueError):
            pytree.require(False, self, "ranges", self.ranges, wanted)
        good = all(0 <= first < end for first, end in ranges)
        pytree.require(good, self, "ranges", self.ranges, wanted)
        vars(self)["ranges"] = ranges

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike) -> State:
        good = all(end <= num_inputs for _, end in self.ranges)
        pytree.require(good, self, "ranges", self.ranges, f"within the {num_inputs} inputs")
        return self.scaler.init(key, num_inputs, dtype)

    def predict(self, state: State, x: Array) -> tuple[Array, Aux]:
        z, aux = self.scaler.predict(state, x)
        stay = np.zeros(len(x), bool)
        for first, end in self.ranges:
            stay[first:end] = True
        kept = x if self.limit is None else jnp.clip(x, -self.limit, self.limit)
        return jnp.where(stay, kept, z), aux

    def update(self, state: State, aux: Aux, seen: Array) -> State:
        return self.scaler.update(state, aux, seen)


@pytree.dataclass
class ScaledInputsState(WrapperState):
    """State of :class:`ScaledInputs`."""

    scaler: PyTree
    """The state of the scaler."""


class ScaledCode(NamedTuple):
    """The code of the scaled input, the scaler's change, and whether the input is usable."""

    inner: PyTree
    change: PyTree
    usable: Array


@pytree.dataclass
class ScaledInputs(OnBlocks[ScaledInputsState, ScaledCode, Aux]):
    """A learner whose inputs are scaled online; made by :func:`scaled`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.raker()")
    scaler: Scaler = pytree.part(Scaler, "a scaler, as jaxmkl.wrappers.RunningMoments()")

    def init(
        self, key: Array, num_inputs: int, dtype: DTypeLike | None = None
    ) -> ScaledInputsState:
        require_key(self, key)
        inner = self.learner.init(jax.random.fold_in(key, 0), num_inputs, dtype)
        key, dtype = jax.random.fold_in(key, 1), self.learner.dtype(inner)
        return ScaledInputsState(inner, self.scaler.init(key, num_inputs, dtype))

    def encode(self, state: ScaledInputsState, X: Array, given: Array | None = None) -> ScaledCode:
        """Scale the rows one after the other, then encode them together."""

        def one(scaler: PyTree, row: tuple) -> tuple[PyTree, tuple]:
            x, seen = row
            z, change = self.scaler.predict(scaler, x)
            return self.scaler.update(scaler, change, seen), (change, z)

        usable = usable_rows(X)
        ahead = jnp.arange(len(X), dtype=jnp.int32) >= state.round % len(X)
        filled = jnp.where(usable[:, None], X, 0.0)
        _, (changes, Z) = jax.lax.scan(one, state.scaler, (filled, usable & ahead))
        Z = jnp.where(jnp.arange(X.shape[1])[None] < self.leading_columns, filled, Z)
        # an unusable row must be refused by the inner learner too
        Z = jnp.where(usable[:, None], Z, jnp.nan)
        codes = super().encode(state, Z, X if given is None else given)
        return ScaledCode(codes, changes, usable)

    def predict_code(self, state: ScaledInputsState, code: ScaledCode) -> tuple[Prediction, Aux]:
        return super().predict_code(state, code.inner)

    def update_code(
        self,
        state: ScaledInputsState,
        code: ScaledCode,
        aux: Aux,
        y: Array,
        asked: Array,
        present: Array,
    ) -> tuple[ScaledInputsState, Array]:
        """The inner learner learns if asked; the scaler learns every usable input."""
        updated, learned = super().update_code(state, code.inner, aux, y, asked, present)
        scaler = self.scaler.update(state.scaler, code.change, code.usable & present)
        return updated.replace(scaler=scaler), learned

    def close(self, state: ScaledInputsState, codes: ScaledCode) -> ScaledInputsState:
        return super().close(state, codes.inner)


def scaled(learner: Learner, scaler: Scaler) -> ScaledInputs:
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
    return ScaledInputs(learner, scaler)
