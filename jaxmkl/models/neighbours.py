"""A mean of the labels of the latest examples, by a kernel without a width."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import einsum
from jaxmkl._feedback import Feedback
from jaxmkl.models.bank import Bank
from jaxmkl.updates import Rule

ALIKE = 64  # units of rounding of squared norms, below which distances are all alike


class NeighbourModelsState(NamedTuple):
    """State of :class:`NeighbourModels`, with a ring of N places for examples."""

    X: jax.Array
    """Inputs (N, D)."""
    y: jax.Array
    """Labels (N, K), and then 1 for an example that predicts and 0 for another."""
    places: jax.Array
    """The place of the next example, and what it was when this period began (2,), int32."""


class NeighbourCode(NamedTuple):
    """One example."""

    values: jax.Array
    """The value of each output (K,)."""
    x: jax.Array
    """The inputs (D,)."""


@pytree.dataclass
class NeighbourModels(Bank[NeighbourModelsState, NeighbourCode, tuple[()]]):
    """One model: a mean of the labels of the latest examples, near ones first.

    With D inputs and the latest ``window`` labelled examples (x_i, y_i), it is the Hilbert kernel
    estimate

        f(x) = Σ_i w_i y_i / Σ_i w_i,    w_i = (|x - x_i|² + ε (|x|² + |x_i|²))^(-D/2),

    which has no width to choose: where examples are dense, only near ones count. ε is 64 units of
    rounding, so that examples nearer than these count alike; f is 0 before there are examples.
    Inputs should have similar scales. The example of a round counts from the next multiple of 32
    rounds on.

    A prediction has no derivative by the inputs. The bank has no update rule, so that the
    learner's loss is the squared one unless another bank's rule or ``MKL(loss=...)`` says another.

    Args:
      window: how many of the latest labelled examples count, at most.

    References:
      Devroye, Györfi and Krzyżak (1998), The Hilbert kernel regression estimate,
      https://doi.org/10.1006/jmva.1997.1725.

    >>> import jax, jaxmkl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> learner = jaxmkl.MKL(NeighbourModels(), jaxmkl.aggregate.Uniform(), task="classification")
    >>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)
    >>> wrong = (np.asarray(outputs.prediction) > 0) != y
    >>> bool(wrong[300:].mean() < 0.1)
    True
    """

    window: int = pytree.count(default=4000)
    period = 32
    many_outputs = True

    @property
    def num_models(self) -> int:
        return 1

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """There are none, as examples stay as they are."""
        return ()

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> NeighbourModelsState:
        N = self.window + self.period
        return NeighbourModelsState(
            X=jnp.zeros((N, num_inputs), dtype),
            y=jnp.zeros((N, (num_outputs or 1) + 1), dtype),
            places=jnp.zeros(2, jnp.int32),
        )

    def encode(
        self, state: NeighbourModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> NeighbourCode:
        """The values of a block."""
        D, finite = X.shape[1], jnp.finfo(X.dtype)
        near, tiny = ALIKE * float(finite.eps), float(finite.tiny)
        own, others = jax.lax.stop_gradient((X, state.X))
        first, second = (jnp.sum(jnp.square(rows), axis=1) for rows in (own, others))
        sums = first[:, None] + second[None]
        squared = jnp.maximum(sums - 2 * einsum("bd,nd->bn", own, others), 0) + near * sums
        # 0 only where both rows are
        squared = jnp.maximum(squared, tiny)
        predicts = state.y[:, -1] > 0
        least = jnp.min(squared, axis=1, keepdims=True, initial=jnp.inf, where=predicts)
        ratios = jnp.where(predicts, least / squared, 0)
        # of whole numbers, powers are a few products
        weights = ratios ** (D // 2) if D % 2 == 0 else jnp.sqrt(ratios) ** D
        total = einsum("bn,nk->bk", weights, state.y)
        return NeighbourCode(total[:, :-1] / jnp.maximum(total[:, -1:], 1), X)

    def predict(
        self, state: NeighbourModelsState, code: NeighbourCode
    ) -> tuple[jax.Array, tuple[()]]:
        """The value (1,) or (K, 1)."""
        return (code.values if len(code.values) == 1 else code.values[:, None]), ()

    def update(
        self, state: NeighbourModelsState, code: NeighbourCode, aux: tuple, feedback: Feedback
    ) -> NeighbourModelsState:
        """Keep the example, at a place that does not predict in this period."""
        learns, (place, begun) = feedback.taken()[0], state.places

        def put(rows: jax.Array, row: jax.Array) -> jax.Array:
            row = jnp.where(learns, row.astype(rows.dtype), rows[place])
            return jax.lax.dynamic_update_index_in_dim(rows, row, place, 0)

        after = (place + learns.astype(jnp.int32)) % len(state.X)
        y = jnp.pad(feedback.y.reshape(-1), (0, 1))
        return NeighbourModelsState(
            put(state.X, code.x), put(state.y, y), jnp.stack([after, begun])
        )

    def close(
        self, state: NeighbourModelsState, codes: NeighbourCode, round: jax.Array
    ) -> NeighbourModelsState:
        """Once a period is full, its examples predict and the oldest ones do no more."""
        N, (end, begun), full = len(state.X), state.places, round % self.period == 0
        each = np.arange(N, dtype=np.int32)
        new = (each - begun) % N < (end - begun) % N
        within = (each - end) % N >= N - self.window
        before = state.y[:, -1]
        after = (within & (new | (before > 0))).astype(before.dtype)
        predicts = jnp.where(full, after, before)
        places = jnp.stack([end, jnp.where(full, end, begun)])
        return state._replace(y=state.y.at[:, -1].set(predicts), places=places)


@abilities.merged.register
def _(
    bank: NeighbourModels, states: NeighbourModelsState, start: NeighbourModelsState | None
) -> NeighbourModelsState:
    """The latest examples of all shards, in turn, and then those with which they began."""
    shards: Any = jax.tree.map(np.asarray, states)
    if start is not None:
        shards = jax.tree.map(lambda *two: np.concatenate([two[0], [two[1]]]), shards, start)
    N, (end, begun) = bank.window + bank.period, shards.places.T[..., None]
    ages = (end - 1 - np.arange(N)) % N
    there = (shards.y[..., -1] > 0) | (ages < (end - begun) % N)
    if start is not None:
        rows = np.concatenate([shards.X, shards.y[..., :-1]], axis=-1)
        same = (rows[-1] == rows).all(axis=-1)
        there[:-1] &= ~(same & there[-1])[:-1]
        ages[-1] += N
    number = min(np.sum(there), bank.window)
    latest = np.argsort(np.where(there, ages, 2 * N).T, axis=None, kind="stable")[:number]
    place, shard = np.divmod(latest[::-1], len(shards.X))
    X, y = (np.zeros_like(rows[0]) for rows in (shards.X, shards.y))
    X[:number], y[:number] = shards.X[shard, place], shards.y[shard, place]
    y[:number, -1] = 1
    places = np.full(2, number % N, np.int32)
    return NeighbourModelsState(*map(jnp.asarray, (X, y, places)))
