"""Forests that grow with the stream: the partitions that they make are kernels, too."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import largest_of_runs
from jaxmkl._feedback import Feedback
from jaxmkl.models.bank import Bank
from jaxmkl.models.growing_trees import Tree, grown, leaves, seeds_of, whole_numbers
from jaxmkl.reservoir import Renewal, is_doubling
from jaxmkl.updates import Rule


class TreeModelsState(NamedTuple):
    """State of :class:`TreeModels`."""

    trees: Tree
    """T trees with room for as many leaves N as the bank has examples in its sample."""
    of_leaves: jax.Array
    """Of each leaf its mean labels, and how many examples made them, discounted (T, N, K + 1)."""

    @property
    def means(self) -> jax.Array:
        """Mean labels in each leaf (T, N, K)."""
        return self.of_leaves[..., :-1]

    @property
    def counts(self) -> jax.Array:
        """Examples that they are made of, discounted (T, N)."""
        return self.of_leaves[..., -1]


class TreeCode(NamedTuple):
    """One example."""

    leaf: jax.Array
    """The leaf in each tree (T,)."""


@pytree.dataclass
class TreeModels(Bank):
    """Forests of extremely randomised trees, grown on the learner's memory.

    The T trees make ``groups`` models of T / groups trees each. With l_t(x) the leaf of x in tree
    t, the model of a group G is

        f_G(x) = (1 / |G|) Σ_{t ∈ G} m_t(l_t(x)),

    and every labelled example (x, y) moves the means m of its leaves l = l_t(x), of counts n:

        n_l <- φ n_l + 1,    m_l <- m_l + (y - m_l) / n_l,    φ = ``forgetting``.

    So f is a kernel smoother, and its kernel the share of trees in which two examples share a
    leaf. All trees are grown anew in rounds 2, 3, 4, 6, 8, 12, ... times ``first`` / 2 below
    ``sample``, and from there on in those that are powers of 4. They grow on so many examples of
    the memory, whose labels then are what leaves begin with: in every node each input gets a
    threshold, uniform between its least and its largest value at examples there (at some 8 of
    them, if there are more); the node splits where that reduces the variance of the labels most,
    the sum over the outputs. A node is a leaf if no split reduces it, or at ``depth``. Before
    ``first`` each tree is one leaf: the mean label so far.

    Labels of classes count as -1 and +1. A prediction has no derivative by the inputs, and growing
    is a constant for derivatives. The bank has no update rule, so that the learner's loss is the
    squared one unless another bank's rule or ``MKL(loss=...)`` says another.

    Args:
      num_trees: T.
      depth: splits on the way to a leaf, at most.
      groups: number of models E; it divides T.
      sample: how many examples of the memory trees are grown on, 2 or more. A share of the latest
        ones in the memory lets trees follow drift.
      first: the round in which they grow first, a power of two.
      max_inputs: inputs that a tree may split by, drawn for each tree anew where there are more.
      forgetting: φ in (0, 1].

    Raises:
      ValueError: if ``groups`` does not divide ``num_trees``, ``first`` is no power of two, or
        ``sample`` is less than 2 or more than 2²⁰.

    References:
      Geurts, Ernst and Wehenkel (2006), Extremely randomized trees,
      https://doi.org/10.1007/s10994-006-6226-1. Ho (1998), The random subspace method for
      constructing decision forests, https://doi.org/10.1109/34.709601. Davies and Ghahramani
      (2014), The random forest kernel, https://arxiv.org/abs/1402.4293.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (600, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> bank = TreeModels(10, depth=8, sample=200)
    >>> learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), task="classification")
    >>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)
    >>> wrong = (outputs.prediction > 0) != y
    >>> bool(wrong[300:].mean() < 0.25)
    True
    """

    num_trees: int = pytree.count(default=16)
    depth: int = pytree.count(default=16)
    groups: int = pytree.count(default=1)
    sample: int = pytree.count(default=4000, minimum=2)
    first: int = pytree.count(default=64)
    max_inputs: int = pytree.count(default=32)
    forgetting: Any = pytree.share(default=1.0, exclusive=True)
    many_outputs = True

    def __post_init__(self) -> None:
        T = self.num_trees
        good = T % self.groups == 0
        pytree.require(good, self, "groups", self.groups, f"a divisor of num_trees = {T}")
        good = self.first & (self.first - 1) == 0
        pytree.require(good, self, "first", self.first, "a power of two")
        pytree.require(self.sample <= 2**20, self, "sample", self.sample, "at most 2**20")

    @property
    def num_models(self) -> int:
        return self.groups

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """None: leaves keep means."""
        return ()

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> TreeModelsState:
        T, N = self.num_trees, self.sample
        one = Tree.of_one_leaf(N, dtype)
        trees = jax.tree.map(lambda leaf: jnp.tile(leaf, (T, *(1,) * leaf.ndim)), one)
        K = 1 if num_outputs is None else num_outputs
        return TreeModelsState(trees, jnp.zeros((T, N, K + 1), dtype))

    def encode(
        self, state: TreeModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> TreeCode:
        """The leaves of all rows, by one walk down all trees."""
        return TreeCode(leaves(state.trees, jax.lax.stop_gradient(X)))

    def predict(self, state: TreeModelsState, code: TreeCode) -> tuple[jax.Array, jax.Array]:
        """Values (E,) or (K, E), and means and counts of the leaves (T, K + 1)."""
        found = state.of_leaves[jnp.arange(self.num_trees), code.leaf]
        of_groups = found.reshape(self.groups, -1, found.shape[1])[:, :, :-1]
        values = jnp.mean(of_groups, axis=1).T
        return values[0] if len(values) == 1 else values, found

    def update(
        self, state: TreeModelsState, code: TreeCode, aux: jax.Array, feedback: Feedback
    ) -> TreeModelsState:
        """Means of the leaves of models that take part."""
        dtype, means, counts = aux.dtype, aux[:, :-1], aux[:, -1:]
        learns = jnp.repeat(feedback.taken(), self.num_trees // self.groups)[:, None]
        number = jnp.asarray(self.forgetting, dtype) * counts + 1.0
        moved = means + (feedback.y.reshape(1, -1).astype(dtype) - means) / number
        after = jnp.where(learns, jnp.concatenate([moved, number], axis=1), aux)
        at = jnp.arange(self.num_trees), code.leaf
        return state._replace(of_leaves=state.of_leaves.at[at].set(after))


@abilities.renews.register
def _(bank: TreeModels, round: Any) -> Any:
    """Whether trees grow, in the rounds that the class names."""
    early, rarely = round < bank.sample, round & 0x55555555 != 0  # at powers of 4
    between = is_doubling(round, max(3, 3 * bank.first // 2)) & early
    return is_doubling(round, bank.first) & (early | rarely) | between


@abilities.renewed.register
def _(bank: TreeModels, state: TreeModelsState, renewal: Renewal) -> TreeModelsState:
    """New trees, and the means and counts of their leaves."""
    T, N, K = state.means.shape
    given = renewal.sample(N)
    number, y = given.filled, given.y.reshape(-1, K)
    seeds, labels = seeds_of(given.seed, T), whole_numbers(y, number)
    trees, leaf = grown(seeds, given.X, labels, number, bank.depth, bank.max_inputs)
    counted = jnp.pad(y, ((0, 0), (0, 1)), constant_values=1)
    of_leaves = counted, jnp.where(given.known[None], leaf, N), number
    # GPUs add several numbers to one place in any order
    sums = jax.lax.platform_dependent(*of_leaves, cpu=_sums_at_once, default=_sums_in_order)
    counts = sums[:, :, K:]
    means = sums[:, :, :K] / jnp.maximum(counts, 1.0)
    return TreeModelsState(trees, jnp.concatenate([means, counts], axis=2))


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
