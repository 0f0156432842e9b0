"""Online scaling of inputs: each example is scaled by what the stream has shown so far.

A scaler is a part that stands before a learner (:func:`jaxmkl.scaled`). ``observe`` sees one input
vector and returns what would change in its state, and the scaled vector; ``accept`` makes the
change. So a block can be scaled ahead of the learner, which then takes each change over as it was
computed. Labels play no part.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree

__all__ = ["RunningMoments", "RunningRanks", "Scaler"]


class Scaler(Protocol):
    """The methods of an online scaler."""

    def init(self, key: jax.Array, num_inputs: int, dtype: Any) -> Any:
        """The state before the first example."""

    def observe(self, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        """The change that ``x`` (D,) makes, and the scaled ``x``."""

    def accept(self, state: Any, change: Any, seen: jax.Array) -> Any:
        """The state after the change, or the same state unless ``seen``."""


class RunningMomentsState(NamedTuple):
    """Count, means (D,) and variances (D,) of the inputs seen."""

    num_seen: jax.Array
    mean: jax.Array
    variance: jax.Array


@pytree.dataclass
class RunningMoments:
    """Mean 0 and variance 1 by running moments, the present example included.

        n <- n + 1,  δ = x - m,  m <- m + δ/n,  v <- v + (δ (x - m) - v)/n,  z = (x - m)/sqrt(v)

    A column that has been constant so far gives 0. No scaled value exceeds sqrt(n - 1).

    References:
      Welford (1962).

    >>> import jax, jax.numpy as jnp
    >>> scaler = RunningMoments()
    >>> state = scaler.init(jax.random.key(0), 1, jnp.float32)
    >>> for x in (1.0, 3.0, 5.0):
    ...     change, z = scaler.observe(state, jnp.array([x]))
    ...     state = scaler.accept(state, change, seen=True)
    >>> float(z[0])
    1.2247...
    """

    def init(self, key: jax.Array, num_inputs: int, dtype: Any) -> RunningMomentsState:
        """Nothing seen."""
        zeros = jnp.zeros((2, num_inputs), dtype)
        return RunningMomentsState(jnp.zeros((), jnp.int32), zeros[0], zeros[1])

    def observe(
        self, state: RunningMomentsState, x: jax.Array
    ) -> tuple[RunningMomentsState, jax.Array]:
        """The moments with x in them, and the scaled x."""
        num_seen = state.num_seen + 1
        n = num_seen.astype(x.dtype)
        difference = x - state.mean
        mean = state.mean + difference / n
        variance = state.variance + (difference * (x - mean) - state.variance) / n
        varied = variance > 0
        scaled = jnp.where(varied, (x - mean) * jax.lax.rsqrt(jnp.where(varied, variance, 1)), 0)
        return RunningMomentsState(num_seen, mean, variance), scaled

    def accept(
        self, state: RunningMomentsState, change: RunningMomentsState, seen: jax.Array
    ) -> RunningMomentsState:
        """The new moments."""
        return jax.tree.map(lambda new, old: jnp.where(seen, new, old), change, state)


class RunningRanksState(NamedTuple):
    """A uniform sample (C, D) of the inputs so far, their count, and the key of the draws."""

    key: jax.Array
    num_seen: jax.Array
    sample: jax.Array


@pytree.dataclass
class RunningRanks:
    """Ranks on a normal scale, by a sketch of each column's quantiles.

    The sketch is a uniform sample of C of the inputs seen so far (reservoir sampling). With L the
    sampled values below x, Q those equal to it and n the size of the sample,

        u = (L + (Q + 1)/2) / (n + 1),      z = Φ^-1(u)

    taken before x may enter the sample. Monotone in x, deaf to outliers and to any monotone
    transformation of a column; ties share their middle rank. The rank is off by at most
    sqrt(log(2/ε) / (2 C)) with probability 1 - ε (Dvoretzky, Kiefer and Wolfowitz).

    Args:
      capacity: C, an integer of at least 1 (static).

    Raises:
      ValueError: for another capacity.

    References:
      Vitter (1985), algorithm R.

    >>> import jax, jax.numpy as jnp
    >>> scaler = RunningRanks(capacity=4)
    >>> state = scaler.init(jax.random.key(0), 1, jnp.float32)
    >>> for x in (1.0, 1e9, 10.0):
    ...     change, z = scaler.observe(state, jnp.array([x]))
    ...     state = scaler.accept(state, change, seen=True)
    >>> float(z[0])  # in the middle
    0.0
    """

    capacity: int = pytree.static(default=512)

    def __post_init__(self) -> None:
        good = isinstance(self.capacity, int) and self.capacity >= 1
        pytree.require(good, self, "capacity", self.capacity, "an integer of at least 1")

    def init(self, key: jax.Array, num_inputs: int, dtype: Any) -> RunningRanksState:
        """An empty sample."""
        sample = jnp.full((self.capacity, num_inputs), jnp.inf, dtype)
        return RunningRanksState(key, jnp.zeros((), jnp.int32), sample)

    def observe(
        self, state: RunningRanksState, x: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        """The place of x in the sample (C for none) with x itself, and the scaled x."""
        dtype = x.dtype
        n = jnp.minimum(state.num_seen, self.capacity).astype(dtype)
        # places that are still empty hold infinity: neither below x nor equal to it
        below = jnp.sum(state.sample < x[None], axis=0, dtype=jnp.int32).astype(dtype)
        equal = jnp.sum(state.sample == x[None], axis=0, dtype=jnp.int32).astype(dtype)
        scaled = jax.scipy.special.ndtri((below + 0.5 * (equal + 1.0)) / (n + 1.0))
        key = jax.random.fold_in(state.key, state.num_seen)
        drawn = jax.random.randint(key, (), 0, state.num_seen + 1, jnp.int32)
        place = jnp.where(state.num_seen < self.capacity, state.num_seen, drawn)
        return (place, x), scaled

    def accept(
        self, state: RunningRanksState, change: tuple[jax.Array, jax.Array], seen: jax.Array
    ) -> RunningRanksState:
        """The sample with x in its place."""
        place, x = change
        seen = jnp.asarray(seen)
        sample = state.sample.at[jnp.where(seen, place, self.capacity)].set(x, mode="drop")
        return RunningRanksState(state.key, state.num_seen + seen.astype(jnp.int32), sample)
