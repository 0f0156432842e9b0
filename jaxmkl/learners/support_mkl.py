"""Multiple kernel learning with support vectors: OMKC, budget OMKC (SPA, ...), kernel OGD.

Each kernel has a model f_p(x) = Σ_j a_pj k_p(x_j, x). A round on an example (x, y):

    prediction = Σ_p q_p f_p, or a vote of their signs         combination
    discount w_p by the mistake or the loss of f_p             combination (Hedge)
    a component says whether x becomes a support vector of f_p, and with which coefficient;
    it does so always, or with a probability that grows with w_p        component, learning
    where the budget is full, a policy makes room              support

A learner is a choice of each; every crossing works. The published rows are

                  component                 support        combination            learning
    perceptron    Perceptron                grows          one kernel             all
    omkc_u        Perceptron                grows          uniform vote           all
    omkc_dd       Perceptron                grows          vote, by mistakes      all
    omkc_sd       Perceptron                grows          vote, by mistakes      sampled
    spa           SparsePassiveAggressive   grows          value, by hinge loss   sampled
    rbp           Perceptron                RemoveRandom   vote, by mistakes      all
    forgetron     Perceptron                SelfTuned      vote, by mistakes      all
    bogd          GradientDescent (hinge)   RemoveOldest   vote, by mistakes      all
    bpas          PassiveAggressive         Replace        vote, by mistakes      all
    projectron    Perceptron                Project        vote, by mistakes      all
    kernel_ogd    GradientDescent           grows          one kernel             all
    omkl          GradientDescent           grows          value, by loss         all
    omkl_b        GradientDescent           RemoveOldest   value, by loss         all
    oks           GradientDescent (hinge)   grows          vote of one drawn      the one drawn

A margin of exactly 0 is a mistake; a kernel with the value 0 votes +1.

References:
  Lu, Hoi, Sahoo and Zhao, Budget online multiple kernel learning; Hoi, Jin, Zhao and Yang (2013),
  Online multiple kernel classification; Sahoo, Hoi and Li (2014), Online multiple kernel
  regression; Yang, Mahdavi, Jin, Yi and Hoi (2012), Online kernel selection.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import hedge, pytree
from jaxmkl.budget import (
    BudgetSupport,
    Policy,
    Project,
    RemoveOldest,
    RemoveRandom,
    Replace,
    SelfTuned,
)
from jaxmkl.combination import Combination, DrawOne, Hedge, Uniform, combined
from jaxmkl.components import (
    Component,
    GradientDescent,
    PassiveAggressive,
    Perceptron,
    SparsePassiveAggressive,
)
from jaxmkl.kernels import Gaussian, Kernel, KernelDictionary, Polynomial
from jaxmkl.learner import Learner, Prediction, usable_rows
from jaxmkl.learners.feature_mkl import default_kernels
from jaxmkl.losses import LOSSES
from jaxmkl.selection import LearnAll, Learning, LearnSampled
from jaxmkl.support import DenseSupport, Proposal, SparseSupport

__all__ = [
    "SupportMKL",
    "bogd",
    "bpas",
    "forgetron",
    "kernel_ogd",
    "oks",
    "omkc_dd",
    "omkc_sd",
    "omkc_u",
    "omkl",
    "omkl_b",
    "perceptron",
    "projectron",
    "rbp",
    "spa",
]


class SupportMKLState(NamedTuple):
    """State of :class:`SupportMKL`.

    Attributes:
      key: typed PRNG key, never consumed.
      round: examples seen, int32.
      invalid: examples refused because x or y was not finite, int32.
      log_weights: centred log-weights of Hedge (P,).
      support: state of the support.
    """

    key: jax.Array
    round: jax.Array
    invalid: jax.Array
    log_weights: jax.Array
    support: Any


class SupportMKLInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      weights: of the kernels (P,).
      support: support vectors of each kernel (P,), int32.
      overflow: examples so far that found no room and were not learned, int32.
    """

    weights: jax.Array
    support: jax.Array
    overflow: jax.Array


class SupportMKLCode(NamedTuple):
    """One example: codes of the support, random numbers (P,) or None, whether x is usable.

    The numbers are for learning by chance, for the policy, and for the combination.
    """

    support: Any
    chance: Any
    draw: Any
    lot: Any
    usable: jax.Array


@pytree.dataclass
class SupportMKL(Learner):
    """Multiple kernel learning with support vectors, built from its parts.

    Args:
      kernels: a kernel that stacks P of them, or a dictionary.
      component: what a kernel's model does with an example.
      support: where support vectors are kept, and how many.
      combination: how values become a prediction and how kernels are judged.
      learning: which kernels learn.

    Raises:
      ValueError: for a part that is none.
    """

    kernels: Any
    component: Component
    support: Any
    combination: Combination
    learning: Learning

    def __post_init__(self) -> None:
        pytree.require(isinstance(self.kernels, Kernel), self, "kernels", self.kernels, "a kernel")
        wanted = {
            "component": ("update", "a component, as jaxmkl.Perceptron()"),
            "support": ("enlarged", "a support, as jaxmkl.DenseSupport()"),
            "combination": ("judge", "a combination, as jaxmkl.Hedge(0.01)"),
            "learning": ("probabilities", "a rule of learning, as jaxmkl.LearnAll()"),
        }
        for name, (method, text) in wanted.items():
            part = getattr(self, name)
            good = not isinstance(part, type) and callable(getattr(part, method, None))
            pytree.require(good, self, name, part, text)

    @property
    def task(self) -> str:  # type: ignore[override]
        """That of the component's loss."""
        return LOSSES[self.component.loss].task

    @property
    def preferred_block_size(self) -> int:
        """The support's period."""
        return self.support.period

    def fit_block_size(self, block_size: int) -> int:
        """The largest power of two of at most ``block_size`` and the support's period."""
        return 1 << (min(block_size, self.support.period).bit_length() - 1)

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> SupportMKLState:
        """No support vectors, equal weights.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D.
          dtype: floating dtype of the state; the default float of JAX.
        """
        num_inputs, dtype = self.checked_start(num_inputs, dtype)
        return SupportMKLState(
            key=jax.random.fold_in(key, 0),
            round=jnp.zeros((), jnp.int32),
            invalid=jnp.zeros((), jnp.int32),
            log_weights=hedge.init(self.kernels.num_kernels, dtype),
            support=self.support.init(self.kernels, num_inputs, dtype),
        )

    def num_inputs(self, state: SupportMKLState) -> int:
        """D."""
        return state.support.rows.shape[-1]

    def dtype(self, state: SupportMKLState) -> Any:
        """Floating dtype of the state."""
        return state.log_weights.dtype

    def capacity(self, state: SupportMKLState) -> int | None:
        """Support vectors the state has room for; None with a budget."""
        return self.support.capacity_of(state.support)

    def num_supports(self, state: SupportMKLState) -> jax.Array:
        """Support vectors that fill that room."""
        return self.support.used(state.support)

    def enlarged(self, state: SupportMKLState, capacity: int) -> SupportMKLState:
        """The state with room for so many support vectors, at least."""
        return state._replace(support=self.support.enlarged(state.support, capacity))

    def encode(self, state: SupportMKLState, X: jax.Array) -> SupportMKLCode:
        """Kernel values and random numbers of a block ``X`` (B, D)."""
        usable = usable_rows(X)
        X = jnp.where(usable[:, None], X, 0.0)
        codes = self.support.encode(state.support, self.kernels, X, state.round)

        def uniform(which: int) -> jax.Array:
            def one(round: jax.Array) -> jax.Array:
                key = jax.random.fold_in(jax.random.fold_in(state.key, round), which)
                # the same numbers in every precision
                uniform = jax.random.uniform(key, (self.kernels.num_kernels,), jnp.float32)
                return uniform.astype(X.dtype)

            return jax.vmap(one)(codes.round)

        sampled = self.component.random or self.learning.random
        return SupportMKLCode(
            support=codes,
            chance=uniform(0) if sampled else None,
            draw=uniform(1) if self.support.random else None,
            lot=uniform(2) if self.combination.random else None,
            usable=usable,
        )

    def values(self, state: SupportMKLState, code: SupportMKLCode) -> jax.Array:
        """Values f (P,); what has overflowed says nothing."""
        f = self.support.values(state.support, self.kernels, code.support)
        return jnp.where(jnp.isfinite(f), f, 0.0)

    def decide(self, state: SupportMKLState, code: SupportMKLCode) -> Prediction:
        """Combine the kernels; every label is wanted."""
        drawn = self.combination.draw(state.log_weights, code.lot)
        value = combined(self.combination, state.log_weights, self.values(state, code), drawn)
        return Prediction(jnp.where(code.usable, value, jnp.nan), code.usable)

    def learn(
        self,
        state: SupportMKLState,
        code: SupportMKLCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> SupportMKLState:
        """Components and Hedge, if the label was asked for."""
        valid = code.usable & (jnp.isfinite(y) | ~asked)
        active = asked & valid & present
        y = jnp.where(active, y, 0.0)
        f = self.values(state, code)
        update = self.component.update(f, y, code.support.own)
        drawn = self.combination.draw(state.log_weights, code.lot)
        taking_part = active if drawn is None else active & drawn
        p = self.learning.probabilities(state.log_weights)
        sampled = taking_part if p is None else taking_part & (code.chance < p)
        if update.probability is not None:
            p = update.probability if p is None else p * update.probability
        learned = update.wanted & taking_part & jnp.isfinite(update.coefficient)
        if p is not None:
            learned = learned & (code.chance < p)
        proposal = Proposal(
            learned=learned,
            coefficient=update.coefficient,
            shrink=update.shrink,
            present=active,
            draw=code.draw,
        )
        judged = sampled if self.learning.judge_sampled else taking_part
        log_weights = self.combination.judge(state.log_weights, f, y, self.component.loss, judged)
        return SupportMKLState(
            key=state.key,
            round=state.round + present.astype(jnp.int32),
            invalid=state.invalid + (present & ~valid).astype(jnp.int32),
            log_weights=jnp.where(active, log_weights, state.log_weights),
            support=self.support.learn(state.support, self.kernels, code.support, proposal),
        )

    def fold(self, state: SupportMKLState, codes: SupportMKLCode) -> SupportMKLState:
        """Settle the support vectors of a finished period."""
        folded = self.support.fold(
            state.support, self.kernels, codes.support, state.round, self.component.shrinks
        )
        return state._replace(support=folded)

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The component's loss of a prediction."""
        return LOSSES[self.component.loss].value(prediction, y)

    def info(self, state: SupportMKLState) -> SupportMKLInfo:
        """Weights and support vectors of the kernels."""
        weights = self.combination.weights(state.log_weights)
        return SupportMKLInfo(weights, state.support.number, state.support.overflow)


def classification_kernels() -> KernelDictionary:
    """The 16 kernels of Lu et al.: Gaussians of σ = 2^-6 ... 2^6, (x·x')^q for q = 1, 2, 3."""
    return KernelDictionary((Gaussian(2.0 ** np.arange(-6, 7)), Polynomial((1, 2, 3))))


def _rate(discount: Any) -> Any:
    """η_g = -log γ."""
    if isinstance(discount, jax.core.Tracer):
        return -jnp.log(discount)
    good = np.ndim(discount) == 0 and 0 < float(discount) <= 1
    pytree.require(good, "discount", "discount", discount, "in (0, 1]")
    return -float(np.log(float(discount)))


def _classifier(
    kernels: Kernel | None,
    component: Component,
    support: Any,
    combination: Combination,
    learning: Learning | None = None,
) -> SupportMKL:
    return SupportMKL(
        classification_kernels() if kernels is None else kernels,
        component,
        support,
        combination,
        LearnAll() if learning is None else learning,
    )


def _vote(discount: Any) -> Hedge:
    return Hedge(_rate(discount), output="vote", cost="mistake")


def perceptron(kernel: Kernel | None = None, *, capacity: int = 1024) -> SupportMKL:
    """The kernel perceptron: an example that one kernel's model errs on becomes a support vector.

        if y f(x) <= 0:   f <- f + y k(x, ·)

    Args:
      kernel: one kernel; by default a Gaussian of bandwidth 1.
      capacity: support vectors there is room for. ``run`` and its like enlarge it as needed;
        inside one's own ``jit`` or ``scan`` what finds no room is not learned but counted, in
        ``state.support.overflow``.

    Raises:
      ValueError: for more than one kernel, or a capacity below 1.

    References:
      Rosenblatt (1958); Lu, Hoi, Sahoo and Zhao, Table 1.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 2))
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1])
    >>> learner = perceptron()
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> mistakes = int((y * outputs.prediction <= 0).sum())
    >>> mistakes == int(state.support.number[0]), mistakes < 100
    (True, True)
    """
    kernel = Gaussian(1.0) if kernel is None else kernel
    good = isinstance(kernel, Kernel) and kernel.num_kernels == 1
    pytree.require(good, "perceptron", "kernel", kernel, "one kernel")
    return _classifier(kernel, Perceptron(), DenseSupport(capacity), Uniform())


def omkc_u(kernels: Kernel | None = None, *, capacity: int = 1024) -> SupportMKL:
    """OMKC(U): a perceptron for each kernel, and an equal vote.

        prediction = 1/P Σ_p s(f_p),    s(f) = 1 if f >= 0, else -1

    Args:
      kernels: by default Gaussians of σ = 2^-6 ... 2^6 and (x·x')^q, q = 1, 2, 3.
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hoi, Jin, Zhao and Yang (2013); Lu, Hoi, Sahoo and Zhao, Table 1.

    >>> omkc_u().combination
    Uniform(output='vote')
    """
    return _classifier(kernels, Perceptron(), DenseSupport(capacity), Uniform("vote"))


def omkc_dd(
    kernels: Kernel | None = None, *, discount: Any = 0.99, capacity: int = 1024
) -> SupportMKL:
    """OMKC(DD): a perceptron for each kernel, and a vote by Hedge; all kernels learn.

        prediction = Σ_p w_p s(f_p) / Σ_p w_p,    w_p <- w_p γ^[y f_p <= 0]

    Args:
      kernels: as for :func:`omkc_u`.
      discount: γ in (0, 1].
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hoi, Jin, Zhao and Yang (2013), deterministic update and combination; Lu, Hoi, Sahoo and
      Zhao, Table 1.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 2))
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1])
    >>> learner = omkc_dd()
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> int((y * outputs.prediction <= 0).sum()) < 60
    True
    """
    return _classifier(kernels, Perceptron(), DenseSupport(capacity), _vote(discount))


def omkc_sd(
    kernels: Kernel | None = None,
    *,
    discount: Any = 0.99,
    smoothing: Any = 0.001,
    capacity: int = 1024,
) -> SupportMKL:
    """OMKC(SD): as :func:`omkc_dd`, but only kernels drawn by their weights learn, and are judged.

        Z_p ~ Bernoulli((1 - δ) w_p / max w + δ);  where Z_p = 1 and y f_p <= 0: the perceptron's
        update, and w_p <- γ w_p

    Args:
      kernels: as for :func:`omkc_u`.
      discount: γ in (0, 1].
      smoothing: δ in [0, 1].
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hoi, Jin, Zhao and Yang (2013), stochastic update, deterministic combination; Lu, Hoi, Sahoo
      and Zhao, Table 1.

    >>> omkc_sd().learning
    LearnSampled(smoothing=0.001, judge_sampled=True)
    """
    learning = LearnSampled(smoothing, judge_sampled=True)
    return _classifier(kernels, Perceptron(), DenseSupport(capacity), _vote(discount), learning)


def spa(
    kernels: Kernel | None = None,
    *,
    step_size: Any = 0.1,
    alpha: Any = 1.0,
    beta: Any = 3.0,
    discount: Any = 0.99,
    smoothing: Any = 0.001,
    normalized_step: bool = False,
    capacity: int = 1024,
) -> SupportMKL:
    """SPA: passive aggressive steps now and then, oftener for better kernels.

        p_p = (1 - δ) w_p / max w + δ,    ρ_p = min(α, l_p) / β,    l_p = max(0, 1 - y f_p)
        with probability p_p ρ_p:   f_p <- f_p + min(η / ρ_p, l_p / k_p(x, x)) y k_p(x, ·)
        w_p <- w_p γ^{l_p},         prediction = Σ_p w_p f_p / Σ_p w_p

    Args:
      kernels: as for :func:`omkc_u`.
      step_size: η.
      alpha: α; larger, more support vectors.
      beta: β >= α; larger, fewer support vectors: at most T α / β are expected of a kernel.
      discount: γ in (0, 1].
      smoothing: δ in [0, 1].
      normalized_step: divide by k(x, x), as the formula says; the figures of the paper come from
        the form that does not (static).
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Lu, Hoi, Sahoo and Zhao, Algorithm 1 and Proposition 1.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 2))
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1])
    >>> learner = spa()
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> int((y * outputs.prediction <= 0).sum()) < 100, int(state.support.number.sum()) < 1000
    (True, True)
    """
    component = SparsePassiveAggressive(step_size, alpha, beta, normalized_step)
    combination = Hedge(_rate(discount), output="value", cost="loss")
    return _classifier(
        kernels, component, SparseSupport(capacity), combination, LearnSampled(smoothing)
    )


def _budgeted(
    kernels: Kernel | None, component: Component, budget: int, policy: Policy, discount: Any
) -> SupportMKL:
    return _classifier(kernels, component, BudgetSupport(budget, policy), _vote(discount))


def rbp(kernels: Kernel | None = None, *, budget: int = 256, discount: Any = 0.99) -> SupportMKL:
    """Randomized budget perceptrons: of a full budget one support vector at random goes.

    Args:
      kernels: as for :func:`omkc_u`.
      budget: support vectors a kernel.
      discount: γ in (0, 1] of the vote.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Cavallanti, Cesa-Bianchi and Gentile (2007); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> rbp(budget=50).support
    BudgetSupport(budget=50, policy=RemoveRandom(), period=32)
    """
    return _budgeted(kernels, Perceptron(), budget, RemoveRandom(), discount)


def forgetron(
    kernels: Kernel | None = None, *, budget: int = 256, discount: Any = 0.99
) -> SupportMKL:
    """Self-tuned Forgetrons: coefficients shrink, then the oldest support vector goes.

    The formulas are those of :class:`jaxmkl.budget.SelfTuned`.

    Args:
      kernels: as for :func:`omkc_u`.
      budget: support vectors a kernel.
      discount: γ in (0, 1] of the vote.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Dekel, Shalev-Shwartz and Singer (2005); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> forgetron(budget=50).support.policy
    SelfTuned()
    """
    return _budgeted(kernels, Perceptron(), budget, SelfTuned(), discount)


def bogd(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    step_size: Any = 0.1,
    regularization: Any = 0.1,
    discount: Any = 0.99,
) -> SupportMKL:
    """Bounded online gradient descent on the hinge loss; the oldest support vector goes.

        f <- (1 - η λ) f;    if y f < 1:   f <- f + η y k(x, ·)

    Args:
      kernels: as for :func:`omkc_u`.
      budget: support vectors a kernel.
      step_size: η.
      regularization: λ.
      discount: γ in (0, 1] of the vote.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhao, Wang, Wu, Jin and Hoi (2012); Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> bogd().component
    GradientDescent(step_size=0.1, regularization=0.1, loss='hinge')
    """
    component = GradientDescent(step_size, regularization, "hinge")
    return _budgeted(kernels, component, budget, RemoveOldest(), discount)


def bpas(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    aggressiveness: Any = 0.1,
    discount: Any = 0.99,
) -> SupportMKL:
    """Budget passive aggressive, simple: the new support vector takes the place it best fills.

    The formulas are those of :class:`jaxmkl.budget.Replace`.

    Args:
      kernels: as for :func:`omkc_u`.
      budget: support vectors a kernel.
      aggressiveness: C.
      discount: γ in (0, 1] of the vote.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Wang and Vucetic (2010), BPA-S; Lu, Hoi, Sahoo and Zhao, Table 2.

    >>> bpas().component
    PassiveAggressive(aggressiveness=0.1, normalized_step=True)
    """
    component = PassiveAggressive(aggressiveness)
    return _budgeted(kernels, component, budget, Replace(), discount)


def projectron(
    kernels: Kernel | None = None,
    *,
    budget: int = 256,
    threshold: Any = 0.0,
    discount: Any = 0.99,
) -> SupportMKL:
    """Projectrons: what does not fit the budget is projected onto the support vectors.

    The formulas are those of :class:`jaxmkl.budget.Project`. A kernel's inverse Gram matrix takes
    B² numbers.

    Args:
      kernels: as for :func:`omkc_u`.
      budget: support vectors a kernel.
      threshold: squared distance from the span below which a new one is projected, at least 0.
      discount: γ in (0, 1] of the vote.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Orabona, Keshet and Caputo (2009).

    >>> projectron(threshold=0.01).support.policy
    Project(threshold=0.01)
    """
    return _budgeted(kernels, Perceptron(), budget, Project(threshold), discount)


def kernel_ogd(
    kernel: Kernel | None = None,
    *,
    step_size: Any = 0.1,
    regularization: Any = 0.0,
    loss: str = "squared",
    capacity: int = 1024,
) -> SupportMKL:
    """Kernel online gradient descent with one kernel: every example becomes a support vector.

        f <- (1 - η λ) f - η L'(f, y) k(x, ·)

    Args:
      kernel: one kernel; by default a Gaussian of bandwidth 1.
      step_size: η.
      regularization: λ.
      loss: "squared", "logistic" or "hinge".
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for more than one kernel, or an argument outside its range.

    References:
      Kivinen, Smola and Williamson (2001); Hong and Chae, Table II, KL-RBF, POLY and LINEAR.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (500, 2))
    >>> learner = kernel_ogd(jaxmkl.Gaussian(0.3))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0] * X[:, 1])
    >>> bool(outputs.loss[-100:].mean() < 0.1 * outputs.loss[:20].mean())
    True
    """
    kernel = Gaussian(1.0) if kernel is None else kernel
    good = isinstance(kernel, Kernel) and kernel.num_kernels == 1
    pytree.require(good, "kernel_ogd", "kernel", kernel, "one kernel")
    component = GradientDescent(step_size, regularization, loss)
    return SupportMKL(kernel, component, DenseSupport(capacity), Uniform(), LearnAll())


def omkl(
    kernels: Kernel | None = None,
    *,
    step_size: Any = 0.1,
    regularization: Any = 0.0,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    capacity: int = 1024,
) -> SupportMKL:
    """OMKL: kernel online gradient descent for each kernel, Hedge over the kernels.

        prediction = Σ_p w_p f_p / Σ_p w_p,    w_p <- w_p exp(-η_g L(f_p, y))

    Args:
      kernels: by default the 17 Gaussians of :func:`jaxmkl.raker`.
      step_size: η.
      regularization: λ.
      hedge_rate: η_g.
      loss: "squared", "logistic" or "hinge".
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Sahoo, Hoi and Li (2014); Hong and Chae, Table II.

    >>> omkl().combination
    Hedge(rate=1.0, output='value', cost='loss')
    """
    return SupportMKL(
        default_kernels() if kernels is None else kernels,
        GradientDescent(step_size, regularization, loss),
        DenseSupport(capacity),
        Hedge(hedge_rate),
        LearnAll(),
    )


def omkl_b(
    kernels: Kernel | None = None,
    *,
    budget: int = 50,
    step_size: Any = 0.1,
    regularization: Any = 0.0,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
) -> SupportMKL:
    """OMKL-B: as :func:`omkl`, on a budget of support vectors; the oldest goes.

    Args:
      kernels: as for :func:`omkl`.
      budget: support vectors a kernel.
      step_size: η.
      regularization: λ.
      hedge_rate: η_g.
      loss: "squared", "logistic" or "hinge".

    Raises:
      ValueError: for an argument outside its range.

    References:
      Sahoo, Hoi and Li (2014); Hong and Chae, Table II.

    >>> omkl_b().support
    BudgetSupport(budget=50, policy=RemoveOldest(), period=32)
    """
    return SupportMKL(
        default_kernels() if kernels is None else kernels,
        GradientDescent(step_size, regularization, loss),
        BudgetSupport(budget, RemoveOldest()),
        Hedge(hedge_rate),
        LearnAll(),
    )


def selection_kernels() -> Gaussian:
    """The 25 Gaussians of Zhang and Liao: σ = 2^(-(i + 1) / 2), i = -12 ... 12."""
    return Gaussian(2.0 ** (-(np.arange(-12, 13) + 1) / 2))


def oks(
    kernels: Kernel | None = None,
    *,
    step_size: Any = 0.1,
    smoothing: Any = 0.2,
    num_rounds: int = 10_000,
    capacity: int = 1024,
) -> SupportMKL:
    """OKS: in each round one kernel is drawn; it predicts, and it alone learns and is judged.

        I ~ p,    p_i = (1 - δ) w_i / Σ w + δ / P,    prediction = s(f_I)
        if y f_I < 1:    f_I <- f_I + η y k_I(x, ·)
        if y f_I <= 0:   w_I <- w_I exp(-η_g / p_I)

    with s(0) = 1 and η_g = sqrt(2 (1 - δ) ln P / (P T)).

    Args:
      kernels: by default Gaussians of σ = 2^(-(i + 1) / 2), i = -12 ... 12.
      step_size: η.
      smoothing: δ in (0, 1].
      num_rounds: T, the length of the stream that η_g is for.
      capacity: as for :func:`perceptron`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Yang, Mahdavi, Jin, Yi and Hoi (2012), Algorithm 2; Zhang and Liao (2020), Table 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (1000, 2))
    >>> y = jax.numpy.sign(X[:, 0] * X[:, 1])
    >>> learner = oks(jaxmkl.Gaussian((0.01, 0.5, 100.0)), num_rounds=1000)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> weights = learner.info(state).weights
    >>> int(weights.argmax())
    1
    """
    kernels = selection_kernels() if kernels is None else kernels
    pytree.require(isinstance(kernels, Kernel), "oks", "kernels", kernels, "a kernel")
    good = isinstance(num_rounds, int | np.integer) and num_rounds >= 1
    pytree.require(good, "oks", "num_rounds", num_rounds, "an integer of at least 1")
    smoothing = DrawOne(0.0, smoothing).smoothing
    P = kernels.num_kernels
    rate = (2 * (1 - smoothing) * np.log(P) / (P * num_rounds)) ** 0.5
    return SupportMKL(
        kernels,
        GradientDescent(step_size, 0.0, "hinge"),
        # by exponents: the sign of a value below the smallest float32 decides what a kernel weighs
        DenseSupport(capacity),
        DrawOne(rate, smoothing, "vote"),
        LearnAll(),
    )
