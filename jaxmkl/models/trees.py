"""Forests that grow with the stream: the partitions that they make are kernels, too."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import einsum
from jaxmkl._feedback import Feedback
from jaxmkl.models.bank import Bank
from jaxmkl.models.boosting import TREES, Plan
from jaxmkl.models.growing_trees import Tree, leaves
from jaxmkl.reservoir import Renewal, is_doubling
from jaxmkl.updates import Rule


class TreeModelsState(NamedTuple):
    """State of :class:`TreeModels`, of T trees with room for R leaves together."""

    trees: Tree
    of_leaves: jax.Array
    """The values and weights of each leaf (R, K + 1), or of stages for classes (R, 2 K). In a
    forest they are the mean labels and the number of examples behind them, discounted."""
    start: jax.Array
    """The start of the boosted model (K,)."""


class TreeCode(NamedTuple):
    """One example."""

    leaf: jax.Array
    """The place of the leaf in each tree (T,)."""


@pytree.dataclass
class TreeModels(Bank[TreeModelsState, TreeCode, tuple[jax.Array, jax.Array]]):
    """Forests of extremely randomised trees, grown on the learner's memory.

    The T trees of the forest make ``groups`` models of T / groups trees each. With l_t(x) the leaf
    of x in tree t, the model of a group G is

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

    With ``stages`` M, there is one more model behind the groups, boosted: M stages of 4 trees,
    grown in those of the rounds that are powers of two times ``first``, and each on the residuals
    of the stages before it,

        F_m(x) = F_{m-1}(x) + ν / 4 Σ_t u_t(l_t(x)),    u_l = S_l / (H_l + κ),    ν = .5,

    from the mean label F_0, with r = y - F_{m-1} and h = 1 for S = Σ r and H = Σ h over the
    examples in a leaf, and κ = .5. A tree grows on half of the examples, to a depth of 10 and two
    examples in a leaf at least; gains count half an example of label 0 more in every node. Its
    leaves then get all examples. On n examples, n / 64 stages grow. Every later example adds its r
    and h in all stages at once: S_l <- φ S_l + r, H_l <- φ H_l + h. The value is F_M. If ``loss``
    is "logistic", F is the log odds of a class, with r = t - σ(F), h = σ(F) σ(-F), κ = 1, u in
    [-4, 4], and t in {0, 1}; the value is 2 σ(F_M) - 1. Several outputs share the trees.

    Labels of classes count as -1 and +1. A prediction has no derivative by the inputs, and growing
    is a constant for derivatives. The bank has no update rule, so that the learner's loss is the
    squared one unless another bank's rule or ``MKL(loss=...)`` says another.

    Args:
      num_trees: T.
      depth: splits on the way to a leaf, at most.
      groups: number of models of the forest; it divides T.
      sample: how many examples of the memory trees are grown on, 2 or more. A share of the latest
        ones in the memory lets trees follow drift.
      first: the round in which they grow first, a power of two.
      max_inputs: inputs that a tree may split by, drawn for each tree anew where there are more.
      forgetting: φ in (0, 1].
      stages: M; by default there is no boosted model. With one, T is a multiple of 4.
      loss: "squared" or "logistic", that of the boosted model.

    Raises:
      ValueError: if ``groups`` does not divide ``num_trees``, 4 does not and there are ``stages``,
        ``first`` is no power of two, or ``sample`` is less than 2 or more than 2²⁰.

    References:
      Geurts, Ernst and Wehenkel (2006), Extremely randomized trees,
      https://doi.org/10.1007/s10994-006-6226-1. Ho (1998), The random subspace method for
      constructing decision forests, https://doi.org/10.1109/34.709601. Davies and Ghahramani
      (2014), The random forest kernel, https://arxiv.org/abs/1402.4293. Friedman (2002),
      Stochastic gradient boosting, https://doi.org/10.1016/S0167-9473(01)00065-2; Friedman, Hastie
      and Tibshirani (2000), Additive logistic regression, https://doi.org/10.1214/aos/1016218223.

    >>> import jax, jaxmkl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> bank = TreeModels(10, depth=8, sample=200)
    >>> learner = jaxmkl.MKL(bank, jaxmkl.aggregate.Uniform(), task="classification")
    >>> state, outputs = jaxmkl.run(learner, learner.init(jax.random.key(1), 2), X, y)
    >>> wrong = (np.asarray(outputs.prediction) > 0) != y
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
    stages: int = pytree.count(default=0, minimum=0)
    loss: str = pytree.choice("squared", "logistic", default="squared")
    many_outputs = True

    def __post_init__(self) -> None:
        T = self.num_trees
        good = T % self.groups == 0
        pytree.require(good, self, "groups", self.groups, f"a divisor of num_trees = {T}")
        good = not self.stages or T % TREES == 0
        wanted = f"0 unless {TREES} divides num_trees = {T}"
        pytree.require(good, self, "stages", self.stages, wanted)
        good = self.first & (self.first - 1) == 0
        pytree.require(good, self, "first", self.first, "a power of two")
        pytree.require(self.sample <= 2**20, self, "sample", self.sample, "at most 2**20")

    @property
    def num_models(self) -> int:
        return self.plan.num_models

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """There are none, as leaves keep means."""
        return ()

    @property
    def plan(self) -> Plan:
        """How its trees lie in the state, and grow."""
        given = self.num_trees, self.groups, self.stages, self.sample, self.depth, self.max_inputs
        return Plan(*given, self.loss == "logistic")

    def init(
        self, key: jax.Array, num_inputs: int, dtype: DTypeLike, num_outputs: int | None = None
    ) -> TreeModelsState:
        return TreeModelsState(*self.plan.begun(num_outputs or 1, dtype))

    def encode(
        self, state: TreeModelsState, X: jax.Array, round: jax.Array, keys: jax.Array
    ) -> TreeCode:
        """The leaves of all rows, by one walk down all trees."""
        return TreeCode(leaves(state.trees, self.plan.roots, jax.lax.stop_gradient(X)))

    def predict(
        self, state: TreeModelsState, code: TreeCode
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Values (E,) or (K, E), what leaves keep (T, K + 1 or 2 K), and F (T, K)."""
        plan, K, E = self.plan, len(state.start), self.num_models
        found = state.of_leaves[code.leaf]
        values = plan.bounded(found[:, :K], plan.boosts)
        F = einsum("et,tk->ek", jnp.asarray(plan.sums, values.dtype), values)
        F += jnp.where(plan.begins, state.start[None], 0)
        out = F[:E]
        if plan.logistic:
            out = jnp.where(plan.begins[:E], jnp.tanh(out / 2), out)
        return out[:, 0] if K == 1 else out.T, (found, F[E:])

    def update(
        self, state: TreeModelsState, code: TreeCode, aux: tuple, feedback: Feedback
    ) -> TreeModelsState:
        """Values and weights of the leaves of models that take part."""
        found, F = aux
        plan, K, dtype = self.plan, len(state.start), found.dtype
        values, weights = found[:, :K], found[:, K:]
        r, h = plan.steps(F, feedback.y.reshape(1, -1).astype(dtype), plan.boosts)
        forgetting, added = jnp.asarray(self.forgetting, dtype), plan.added(plan.boosts)
        after = forgetting * weights + h
        moved = values + (r - values * (h + (1 - forgetting) * added)) / (after + added)
        learns = feedback.taken()[plan.model][:, None]
        after = jnp.where(learns, jnp.concatenate([moved, after], axis=1), found)
        return state._replace(of_leaves=state.of_leaves.at[code.leaf].set(after))


@abilities.renews.register
def _(bank: TreeModels, round: Any) -> Any:
    """True in the rounds in which trees grow."""
    early, rarely = round < bank.sample, round & 0x55555555 != 0  # at powers of 4
    between = is_doubling(round, max(3, 3 * bank.first // 2)) & early
    return is_doubling(round, bank.first) & (early | rarely) | between


@abilities.renewed.register
def _(bank: TreeModels, state: TreeModelsState, renewal: Renewal) -> TreeModelsState:
    """New trees, and what their leaves keep of the examples."""
    given = renewal.sample(bank.sample)
    y = given.y.reshape(-1, len(state.start))
    anew = is_doubling(given.round, bank.first) | given.merged
    before = state.trees, state.of_leaves, state.start
    grown = bank.plan.grown(given.seed, given.X, y, given.filled, before, anew)
    return TreeModelsState(*grown)
