"""Forests that grow with the stream: the partitions that they make are kernels, too."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.custom_derivatives import zero_from_primal
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import largest_of_runs, rounds_of
from jaxmkl._feedback import Feedback
from jaxmkl._shards import shard
from jaxmkl.models.bank import Bank
from jaxmkl.models.growing_trees import Tree, grown, leaves, whole_numbers
from jaxmkl.reservoir import Reservoir, ReservoirState, is_doubling
from jaxmkl.updates import Rule


class TreeModelsState(NamedTuple):
    """State of :class:`TreeModels`."""

    key: jax.Array
    """Typed; it never changes."""
    reservoir: ReservoirState
    trees: Tree
    """T trees with room for as many leaves N as the reservoir has places."""
    means: jax.Array
    """Mean label in each leaf (T, N, K)."""
    counts: jax.Array
    """Examples that it is made of, discounted (T, N)."""


class TreeCode(NamedTuple):
    """One example."""

    leaf: jax.Array
    """The leaf in each tree (T,)."""
    x: jax.Array
    """(D,)"""
    round: jax.Array
    draws: jax.Array
    """Random numbers of the reservoir (2,)."""


@pytree.dataclass
class TreeModels(Bank):
    """Forests of extremely randomised trees, grown on a reservoir of labelled examples.

    The T trees make ``groups`` models of T / groups trees each. With l_t(x) the leaf of x in tree
    t, the model of a group G is

        f_G(x) = (1 / |G|) Σ_{t ∈ G} m_t(l_t(x)),

    and every labelled example (x, y) moves the means m of its leaves l = l_t(x), of counts n:

        n_l <- φ n_l + 1,    m_l <- m_l + (y - m_l) / n_l,    φ = ``forgetting``.

    So f is a kernel smoother, and its kernel the share of trees in which two examples share a
    leaf. In rounds ``first``, 2 ``first``, 4 ``first``, ..., until the reservoir is full, and then
    in every fourth times the last, all trees are grown anew on the reservoir, whose labels then
    are what leaves begin with: in every node each input gets a threshold, uniform between its
    least and its largest value at examples there (at 8 of them, if there are more); the node
    splits where that reduces the variance of the labels most, the sum over the outputs. A node is
    a leaf if no split reduces it, or at ``depth``. Before ``first`` each tree is one leaf: the
    mean label so far.

    Labels of classes count as -1 and +1. A prediction has no derivative by the inputs, and growing
    is a constant for derivatives. The bank has no update rule, so that the learner's loss is the
    squared one unless another bank's rule or ``MKL(loss=...)`` says another.

    Args:
      num_trees: T.
      depth: splits on the way to a leaf, at most.
      groups: number of models E; it divides T.
      reservoir: the :class:`jaxmkl.reservoir.Reservoir` that trees are grown on, by default of
        4,000 places; it has 2 or more. A share of the latest examples lets trees follow drift.
      first: the round in which they grow first, a power of two.
      max_inputs: inputs that a tree may split by, drawn for each tree anew where there are more.
      forgetting: φ in (0, 1].

    Raises:
      ValueError: if ``groups`` does not divide ``num_trees``, ``first`` is no power of two, or
        the reservoir has fewer than 2 places or more than 2²⁰.

    References:
      Geurts, Ernst and Wehenkel (2006), Extremely randomized trees,
      https://doi.org/10.1007/s10994-006-6226-1. Ho (1998), The random subspace method for
      constructing decision forests, https://doi.org/10.1109/34.709601. Davies and Ghahramani
      (2014), The random forest kernel, https://arxiv.org/abs/1402.4293.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (600, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> bank = TreeModels(10, depth=8, reservoir=Reservoir(200))
    >>> learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), task="classification")
    >>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)
    >>> wrong = (outputs.prediction > 0) != y
    >>> bool(wrong[300:].mean() < 0.25)
    True
    """

    num_trees: int = pytree.count(default=16)
    depth: int = pytree.count(default=16)
    groups: int = pytree.count(default=1)
    reservoir: Reservoir = pytree.part(
        Reservoir, "a reservoir, as jaxmkl.reservoir.Reservoir(2000)", default=Reservoir(4000)
    )
    first: int = pytree.count(default=64)
    max_inputs: int = pytree.count(default=32)
    forgetting: Any = pytree.share(default=1.0, exclusive=True)
    many_outputs = True

    def __post_init__(self) -> None:
        T, size = self.num_trees, self.reservoir.size
        good = T % self.groups == 0
        pytree.require(good, self, "groups", self.groups, f"a divisor of num_trees = {T}")
        good = self.first & (self.first - 1) == 0
        pytree.require(good, self, "first", self.first, "a power of two")
        good = 2 <= size <= 2**20
        pytree.require(good, self, "reservoir", self.reservoir, "of 2 to 2**20 places")

    @property
    def num_models(self) -> int:
        return self.groups

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """None: leaves keep means."""
        return ()

    @property
    def period(self) -> int:  # type: ignore[override]
        """Trees grow in rounds that this divides."""
        return self.first

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> TreeModelsState:
        T, N = self.num_trees, self.reservoir.size
        one = Tree.of_one_leaf(N, dtype)
        trees = jax.tree.map(lambda leaf: jnp.tile(leaf, (T, *(1,) * leaf.ndim)), one)
        K = 1 if num_outputs is None else num_outputs
        kept = self.reservoir.init(jax.random.fold_in(key, 0), num_inputs, dtype, num_outputs)
        means, counts = jnp.zeros((T, N, K), dtype), jnp.zeros((T, N), dtype)
        return TreeModelsState(jax.random.fold_in(key, 1), kept, trees, means, counts)

    def encode(
        self, state: TreeModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> TreeCode:
        """The leaves of all rows, by one walk down all trees."""
        X, rounds = jax.lax.stop_gradient(X), rounds_of(round, len(X))
        draws = self.reservoir.draws(state.reservoir, rounds)
        return TreeCode(leaves(state.trees, X), X, rounds, draws)

    def predict(self, state: TreeModelsState, code: TreeCode) -> tuple[jax.Array, jax.Array]:
        """Values (E,) or (K, E), and the leaves' means (T, K)."""
        means = state.means[jnp.arange(self.num_trees), code.leaf]
        values = jnp.mean(means.reshape(self.groups, -1, means.shape[1]), axis=1).T
        return values[0] if state.reservoir.y.ndim == 1 else values, means

    def update(
        self, state: TreeModelsState, code: TreeCode, aux: jax.Array, feedback: Feedback
    ) -> TreeModelsState:
        """Means of the leaves of models that take part; the reservoir gets every label."""
        at, dtype = (jnp.arange(self.num_trees), code.leaf), aux.dtype
        learns = jnp.repeat(feedback.taken(), self.num_trees // self.groups)
        old = state.counts[at]
        new = jnp.asarray(self.forgetting, dtype) * old + 1.0
        share = jnp.where(learns, 1.0 / new, 0.0)[:, None]
        means = state.means.at[at].add(share * (feedback.y.reshape(1, -1).astype(dtype) - aux))
        counts = state.counts.at[at].set(jnp.where(learns, new, old))
        x, y, labelled = code.x, jax.lax.stop_gradient(feedback.y), jnp.any(feedback.updates)
        reservoir = self.reservoir.update(state.reservoir, x, y, code.draws, labelled)
        return state._replace(reservoir=reservoir, means=means, counts=counts)

    def close(self, state: TreeModelsState, codes: TreeCode, round: jax.Array) -> TreeModelsState:
        """All trees anew, in the rounds that the class names."""
        # a block of padding alone ends in the round it begins with, and grows nothing again
        due = is_doubling(round, self.first) & (codes.round[0] != round)
        doublings = ((self.reservoir.size - 1) // self.first).bit_length()  # until it is full
        rarely = 0x55555555 << doublings % 2 & 0x7FFFFFFF  # every other power of two from there
        times = round // self.first
        due &= (times <= 2**doublings) | (times & rarely != 0)
        given = jax.lax.stop_gradient((state.key, state.reservoir))
        old = state.trees, state.means, state.counts
        trees, means, counts = _grown_if(due, self, given, round, old)
        return state._replace(trees=trees, means=means, counts=counts)

    def merged(self, states: TreeModelsState, start: TreeModelsState | None) -> TreeModelsState:
        """Trees that are grown on the examples of all reservoirs."""
        began = None if start is None else start.reservoir
        reservoir = self.reservoir.merged(states.reservoir, began)
        own = shard(states, 0)
        return _merged(self, own._replace(reservoir=reservoir))


@jax.jit
def _merged(owner: TreeModels, state: TreeModelsState) -> TreeModelsState:
    key, kept, *old = state
    trees, means, counts = _grown(owner, (key, kept), kept.num_examples, tuple(old))
    return TreeModelsState(key, kept, trees, means, counts)


def _grown(owner: TreeModels, given: tuple, round: jax.Array, old: tuple) -> tuple:
    """New trees on a reservoir, and the means and counts of their leaves."""
    (key, kept), (_, means, _) = given, old
    T, N, K = means.shape
    inside, y = owner.reservoir.filled(kept), kept.y.reshape(-1, K)
    labels, number = whole_numbers(y, inside), jnp.sum(inside, dtype=jnp.int32)
    keys = jax.random.split(jax.random.fold_in(key, round), T)
    trees, leaf = grown(keys, kept.X, labels, number, owner.depth, owner.max_inputs)

    counted = jnp.pad(y, ((0, 0), (0, 1)), constant_values=1)
    given = counted, jnp.where(inside[None], leaf, N), number
    # GPUs add several numbers to one place in any order
    sums = jax.lax.platform_dependent(*given, cpu=_sums_at_once, default=_sums_in_order)
    counts = sums[:, :, K]
    return trees, sums[:, :, :K] / jnp.maximum(counts, 1.0)[:, :, None], counts


def _sums_at_once(counted: jax.Array, leaf: jax.Array, number: jax.Array) -> jax.Array:
    """The sums (T, N, K) over the leaves of trees (T, N) of what points (N, K) are; N: no leaf."""
    zeros = jnp.zeros_like(counted)
    return jax.vmap(lambda leaf: zeros.at[leaf].add(counted, mode="drop"))(leaf)


def _sums_in_order(counted: jax.Array, leaf: jax.Array, number: jax.Array) -> jax.Array:
    """The same, point by point, of which the first so many have leaves."""
    trees = jnp.arange(len(leaf))

    def add(i: jax.Array, sums: jax.Array) -> jax.Array:
        at = sums.at[trees, leaf[:, i]]
        return at.add(counted[i][None], mode="drop", unique_indices=True)

    sums = jnp.zeros((*leaf.shape, counted.shape[1]), counted.dtype)
    return jax.lax.fori_loop(0, largest_of_runs(number), add, sums)


@jax.custom_jvp
def _grown_if(
    due: jax.Array, owner: TreeModels, given: tuple, round: jax.Array, old: tuple
) -> tuple:
    """The trees, means and counts: new ones if they are due."""

    def turn(number: jax.Array, own: tuple) -> tuple:
        # else XLA would see that all turns do the same, and do it before the loop, always
        mine, _ = jax.lax.optimization_barrier((given, number))
        new = _grown(owner, mine, round, own)
        return optax.tree.where(due, new, own)

    return jax.lax.fori_loop(0, largest_of_runs(due.astype(jnp.int32)), turn, old)


@_grown_if.defjvp
def _derivative(primals: tuple, tangents: tuple) -> tuple:
    """A loop of dynamic length has no reverse derivative; trees and their growth are constants."""
    due, *_ = primals
    after = _grown_if(*primals)
    _, *of_leaves = tangents[-1]
    of_leaves = (jnp.where(due, jnp.zeros_like(tangent), tangent) for tangent in of_leaves)
    return after, (jax.tree.map(zero_from_primal, after[0]), *of_leaves)
