"""A reservoir: a sample of bounded size of the labelled examples of a stream.

It is the memory of a learner: banks that learn their kernels look back at it when they renew them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on
from jaxmkl._hash import hashed, seed_of, uniform_of


class ReservoirState(NamedTuple):
    """State of a :class:`Reservoir`."""

    key: jax.Array
    """A typed key; it never changes."""
    X: jax.Array
    """Inputs (N, D); zeros where no example lies."""
    y: jax.Array
    """Labels (N,) or, of K outputs, (N, K)."""
    num_examples: jax.Array
    """Examples so far, int32."""


class Renewal(NamedTuple):
    """The memory from which banks learn their kernels in a renewal, and the round of it."""

    X: jax.Array
    """Inputs (N, D); zeros where no example lies."""
    y: jax.Array
    """Labels (N,) or, of K outputs, (N, K)."""
    filled: jax.Array
    """How many places hold an example, the first ones, int32."""
    number: jax.Array
    """Number of all labelled examples so far, which the memory represents, int32."""
    round: jax.Array
    """The rounds before this one are over, int32."""
    source: jax.Array
    """The typed key of the memory."""
    place: jax.typing.ArrayLike = np.int32(0)
    """The place of the bank among those of the learner, an integer."""
    merged: jax.typing.ArrayLike = np.bool_(False)
    """True in a merge of shards, where the bank's state is that of one shard."""

    @property
    def known(self) -> jax.Array:
        """Which places (N,) hold an example."""
        return jnp.arange(len(self.X), dtype=jnp.int32) < self.filled

    @property
    def key(self) -> jax.Array:
        """A typed key for what is drawn, another one for each round and bank."""
        return jax.random.fold_in(jax.random.fold_in(self.source, self.round), self.place)

    @property
    def seed(self) -> jax.Array:
        """A seed for hashes of counters, uint32, another one for each round and bank."""
        return hashed(seed_of(self.source), self.round, self.place)

    def sample(self, size: int) -> "Renewal":
        """So many places: evenly from the examples there, or all, and empty ones behind these.

        >>> import jax, jax.numpy as jnp
        >>> X, number = jnp.arange(4.0)[:, None], jnp.asarray(3)
        >>> seen = Renewal(X, X[:, 0], number, number, number, jax.random.key(0))
        >>> sample = jax.jit(seen.sample, static_argnums=0)
        >>> sample(2).y.tolist(), sample(5).known.tolist()
        ([0.0, 1.0], [True, True, True, False, False])
        """
        N = len(self.X)
        if size == N:
            return self
        place = np.arange(size, dtype=np.int32)
        if size < N:
            # as the product of two int32 would overflow
            over = jnp.maximum(self.filled, size) - size
            place = place + (place.astype(np.float32) * (over / size)).astype(jnp.int32)
        rows, filled = jnp.minimum(place, N - 1), jnp.minimum(self.filled, size)
        sampled = self._replace(X=self.X[rows], y=self.y[rows], filled=filled)
        if size < N:
            return sampled
        known = sampled.known.reshape(-1, *(1,) * (self.y.ndim - 1))
        X = jnp.where(sampled.known[:, None], sampled.X, 0)
        return sampled._replace(X=X, y=jnp.where(known, sampled.y, 0))


@pytree.dataclass
class Reservoir:
    """N labelled examples: a uniform sample of the stream, and on request the latest ones.

    Of the N places, ``latest`` hold the latest examples, in turn. An example that leaves them, the
    n-th to do so, is offered to the other U = N - latest places: it takes place n if n < U, else
    with probability U / (n + 1) a place at random. So these hold a uniform sample without
    replacement of all examples that are not among the latest, and no example lies in two places.

    Which examples stay depends on the key of the state and on the rounds alone.

    Args:
      size: N.
      latest: places for the latest examples, at most N.

    Raises:
      ValueError: if ``latest`` is above ``size``.

    References:
      Vitter (1985), Random sampling with a reservoir, algorithm R,
      https://doi.org/10.1145/3147.3165.

    >>> import jax
    >>> reservoir = Reservoir(4, latest=1)
    >>> state = reservoir.init(jax.random.key(0), 1, "float32")
    >>> draws = jax.jit(reservoir.draws)(state, jax.numpy.arange(9))
    >>> update = jax.jit(reservoir.update)
    >>> for t in range(9):
    ...     state = update(state, jax.numpy.ones(1), float(t), draws[t], True)
    >>> int(state.num_examples), float(state.y[0]), bool(reservoir.filled(state).all())
    (9, 8.0, True)
    """

    size: int = pytree.count(default=2000)
    latest: int = pytree.count(default=0, minimum=0)

    def __post_init__(self) -> None:
        good = self.latest <= self.size
        pytree.require(good, self, "latest", self.latest, f"at most size = {self.size}")

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> ReservoirState:
        """The empty reservoir for D inputs and, unless it is None, K outputs."""
        outputs = () if num_outputs is None else (num_outputs,)
        X = jnp.zeros((self.size, num_inputs), dtype)
        y = jnp.zeros((self.size, *outputs), dtype)
        return ReservoirState(key, X, y, jnp.zeros((), jnp.int32))

    def filled(self, state: ReservoirState) -> jax.Array:
        """Which places (N,) hold an example."""
        # the places of the latest come first
        return jnp.arange(self.size, dtype=jnp.int32) < state.num_examples

    def renewal(self, state: ReservoirState, round: jax.Array) -> Renewal:
        """The memory as banks see it when a round begins."""
        key, X, y, number = state
        filled = jnp.minimum(number, self.size)
        return Renewal(X, y, filled, number, round, key)

    def draws(self, state: ReservoirState, rounds: jax.Array) -> jax.Array:
        """The random numbers (B, 2) of rounds (B,), in [0, 1): for a block at once."""
        bits = hashed(seed_of(state.key), rounds[:, None], np.arange(2)[None])
        return uniform_of(bits)

    def update(
        self,
        state: ReservoirState,
        x: jax.Array,
        y: jax.typing.ArrayLike,
        draws: jax.Array,
        learns: jax.typing.ArrayLike,
    ) -> ReservoirState:
        """The state after an example x (D,) with label y, a number or (K,), of a round's draws.

        Where ``learns`` is false, no bit changes.
        """
        learns = jnp.asarray(learns)
        X, Y = state.X, state.y
        offered, n = (x.astype(X.dtype), jnp.asarray(y, Y.dtype)), state.num_examples
        taken = learns
        if self.latest:
            turn = n % self.latest
            oldest = X[turn], Y[turn]
            X, Y = (_written(a, turn, new, learns) for a, new in zip((X, Y), offered, strict=True))
            offered, n = oldest, n - self.latest
            taken = learns & (n >= 0)
        if uniform := self.size - self.latest:
            drawn = jnp.minimum((draws[1] * uniform).astype(jnp.int32), uniform - 1)
            taken &= (n < uniform) | (draws[0] * (n + 1).astype(draws.dtype) < uniform)
            place = self.latest + jnp.where(n < uniform, n, drawn)
            X, Y = (_written(a, place, new, taken) for a, new in zip((X, Y), offered, strict=True))
        return state._replace(X=X, y=Y, num_examples=count_on(state.num_examples, learns))

    def merged(self, states: ReservoirState, start: ReservoirState | None) -> ReservoirState:
        """A uniform sample of the examples of all shards, from theirs (:func:`jaxmkl.merge`).

        Each shard gives as many as a sample of all, without replacement, would have of it.
        """
        wanted = "0: shards have no order in which some examples would be the latest"
        pytree.require(self.latest == 0, "merge", "latest of a reservoir", self.latest, wanted)
        known = 0 if start is None else int(start.num_examples)
        wanted = "of a state that has learned nothing: its sample lies in every shard"
        pytree.require(known == 0, "merge", "start", f"a reservoir of {known} examples", wanted)
        numbers = np.asarray(states.num_examples, np.int64)
        ends, key = np.cumsum(numbers), states.key[0]
        seed = jax.random.key_data(jax.random.fold_in(key, ends[-1] % 2**31))
        draws = np.random.default_rng(np.asarray(seed))
        # the places of a sample, as if all examples stood in a row
        places = draws.choice(ends[-1], min(self.size, ends[-1]), replace=False)
        shares = np.bincount(np.searchsorted(ends, places, "right"), minlength=len(numbers))
        some = zip(numbers, shares, strict=True)
        own = [draws.permutation(min(n, self.size))[:share] for n, share in some]
        taken = np.repeat(np.arange(len(numbers)), shares), np.concatenate(own)
        X, y = np.asarray(states.X), np.asarray(states.y)
        kept_X, kept_y = np.zeros_like(X[0]), np.zeros_like(y[0])
        kept_X[: len(places)], kept_y[: len(places)] = X[taken], y[taken]
        number = jnp.asarray(min(ends[-1], np.iinfo(np.int32).max), jnp.int32)
        return ReservoirState(key, jnp.asarray(kept_X), jnp.asarray(kept_y), number)


def _written(array: jax.Array, place: jax.Array, new: jax.Array, taken: jax.Array) -> jax.Array:
    """The array with a new row at a place, or as it was if that is not taken."""
    old = jax.lax.dynamic_index_in_dim(array, place, 0, keepdims=False)
    row = jnp.where(taken, new, old)
    return jax.lax.dynamic_update_index_in_dim(array, row, place, 0)


def is_doubling(round: Any, first: int) -> Any:
    """True if a round, an integer or an array of them, is ``first`` times a power of two.

    >>> [t for t in range(50) if is_doubling(t, 6)]
    [6, 12, 24, 48]
    """
    times = round // first
    return (times > 0) & (times * first == round) & (times & (times - 1) == 0)
