"""Multiple kernel learning on random features: Raker, OMKL-AKS, AMKL, AMKL-AKS and expert_mkl.

Each kernel has a linear model on its own random Fourier features z_p(x), one for each rate of each
local rule; the pairs e of model and kernel are experts, with values f_e = θ_e·z_p(x). Hedge weighs
the experts by their losses. A round on an example (x, y):

    q = weights of the chosen subset V, renormalised;  prediction = Σ_e q_e f_e       (31), (43)
    ask for y unless the labelling rule is content without it                         (33)
    if asked: θ_e by its local rule (17), weights by Hedge (22), and a new subset V   (23)-(30)

Four published algorithms are two choices of two: which experts predict, and when to ask.

                             every label     when unsure
    all kernels              raker           amkl
    adaptive selection       omkl_aks        amkl_aks

Where we deviate, with measured reasons: features of norm |z|² = F ("sum") and a Hedge rate of 1
instead of (10) and 1/sqrt(T), which give errors several times the printed ones; a step size of
1/(2 |z|²), stable on streams of any length, in place of 1/sqrt(T). All of these are parameters.

References:
  Hong and Chae, Active learning with multiple kernels, Algorithms 1 and 2.
  Shen, Chen and Giannakis (2019), Random feature-based online multi-kernel learning in
  environments with unknown dynamics (Raker).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import hedge, pytree
from jaxmkl.kernels import Gaussian, Kernel, ShiftInvariantKernel
from jaxmkl.labelling import Always, Confidence, Experts, Labelling
from jaxmkl.learner import Learner, Prediction
from jaxmkl.local_rules import OGD, RLS, LocalRule
from jaxmkl.losses import LOSSES
from jaxmkl.random_features import FourierFeatures, require_shift_invariant
from jaxmkl.selection import AdaptiveKernelSelection, AllKernels, Selection

__all__ = ["FeatureMKL", "amkl", "amkl_aks", "expert_mkl", "omkl_aks", "raker"]


class FeatureMKLState(NamedTuple):
    """State of :class:`FeatureMKL`.

    Attributes:
      key: typed PRNG key, never consumed.
      round: examples seen, int32.
      invalid: examples refused because x or y was not finite, int32.
      frequencies: (P, F, D), drawn for bandwidth 1.
      local: a state for each local rule.
      log_weights: centred log-weights of Hedge (E,).
      selected: experts that predict until the next label, boolean (E,).
      labelling: state of the labelling rule.
    """

    key: jax.Array
    round: jax.Array
    invalid: jax.Array
    frequencies: jax.Array
    local: tuple
    log_weights: jax.Array
    selected: jax.Array
    labelling: Any


class FeatureMKLInfo(NamedTuple):
    """Diagnostics: Hedge weights (E,) and the number of experts that predict."""

    weights: jax.Array
    num_selected: jax.Array


class FeatureMKLCode(NamedTuple):
    """One example: features (P, 2 F), codes of the rules, random numbers, whether x is finite."""

    features: jax.Array
    local: tuple
    noise: Any
    finite: jax.Array


@pytree.dataclass
class FeatureMKL(Learner):
    """Multiple kernel learning on random features, built from its parts.

    Args:
      kernels: a shift-invariant kernel that stacks P bandwidths, or a dictionary of these.
      features: how they are approximated.
      rules: local rules; experts are their rates times the kernels, rule by rule, rate by rate.
      selection: which experts predict.
      labelling: when a label is asked for.
      hedge_rate: η_g.
      loss: "squared", "logistic" or "hinge" (static).
      task: "regression" or "classification" (labels -1, +1) (static).
      bound: experts' values are clipped to [-bound, bound] in the prediction and in Hedge's losses
        (not in the local updates); None for no bound.

    Raises:
      ValueError: for an unknown loss or task, or kernels that have no Fourier features.
    """

    kernels: Any
    features: FourierFeatures
    rules: tuple[LocalRule, ...]
    selection: Selection
    labelling: Labelling
    hedge_rate: Any
    bound: Any = None
    loss: str = pytree.static("squared")
    task: str = pytree.static("regression")

    def __post_init__(self) -> None:
        require_shift_invariant("FeatureMKL", self.kernels)
        good = isinstance(self.rules, tuple) and len(self.rules) > 0
        pytree.require(good, self, "rules", self.rules, "a non-empty tuple of local rules")
        pytree.require(
            self.loss in LOSSES, self, "loss", self.loss, "one of " + ", ".join(map(repr, LOSSES))
        )
        tasks = ("regression", "classification")
        pytree.require(self.task in tasks, self, "task", self.task, "one of " + repr(tasks))
        rate = pytree.as_leaf(
            self, "hedge_rate", self.hedge_rate, minimum=0.0, wanted="a finite number of at least 0"
        )
        object.__setattr__(self, "hedge_rate", rate)
        if self.bound is not None:
            bound = pytree.as_leaf(
                self,
                "bound",
                self.bound,
                minimum=0.0,
                exclusive=True,
                wanted="a positive finite number or None",
            )
            object.__setattr__(self, "bound", bound)

    @property
    def num_experts(self) -> int:
        """Number of experts E."""
        return self.kernels.num_kernels * sum(rule.num_rates for rule in self.rules)

    @property
    def _period(self) -> int | None:
        periods = [rule.period for rule in self.rules if rule.period is not None]
        return int(np.gcd.reduce(periods)) if periods else None

    @property
    def preferred_block_size(self) -> int:
        """Examples per block that are fastest on a CPU."""
        return self._period or 256

    def fit_block_size(self, block_size: int) -> int:
        """The largest divisor of the rules' period of at most ``block_size``, if they have one."""
        if self._period is None:
            return block_size
        return max(b for b in range(1, self._period + 1) if self._period % b == 0 and b <= block_size)

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> FeatureMKLState:
        """Draw the frequencies; parameters zero, weights equal, all experts chosen.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D.
          dtype: floating dtype of the state; the default float of JAX.
        """
        good = isinstance(num_inputs, int | np.integer) and num_inputs >= 1
        pytree.require(good, self, "num_inputs", num_inputs, "an integer of at least 1")
        dtype = jnp.dtype(float if dtype is None else dtype)
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        E = self.num_experts
        P, M = self.kernels.num_kernels, 2 * self.features.num_features
        frequencies = self.features.init(
            jax.random.fold_in(key, 0), self.kernels, int(num_inputs), dtype
        )
        return FeatureMKLState(
            key=jax.random.fold_in(key, 1),
            round=jnp.zeros((), jnp.int32),
            invalid=jnp.zeros((), jnp.int32),
            frequencies=frequencies,
            local=tuple(rule.init(P, M, dtype) for rule in self.rules),
            log_weights=hedge.init(E, dtype),
            selected=jnp.ones((E,), bool),
            labelling=self.labelling.init(),
        )

    def num_inputs(self, state: FeatureMKLState) -> int:
        """D."""
        return state.frequencies.shape[-1]

    def dtype(self, state: FeatureMKLState) -> Any:
        """Floating dtype of the state."""
        return state.frequencies.dtype

    def encode(self, state: FeatureMKLState, X: jax.Array) -> FeatureMKLCode:
        """Features, products and random numbers of a block ``X`` (B, D)."""
        B = X.shape[0]
        z = self.features(self.kernels, state.frequencies, X)
        finite = jnp.all(jnp.isfinite(X), axis=1) & jnp.all(jnp.isfinite(z), axis=(1, 2))
        z = jnp.where(finite[:, None, None], z, 0.0)
        rounds = state.round // B * B + jnp.arange(B, dtype=jnp.int32)

        def noise(round: jax.Array) -> Any:
            key = jax.random.fold_in(state.key, round)
            return self.selection.noise(key, self.num_experts, z.dtype)

        return FeatureMKLCode(
            features=z,
            local=tuple(
                rule.encode(local, state.round, z)
                for rule, local in zip(self.rules, state.local, strict=True)
            ),
            noise=jax.vmap(noise)(rounds),
            finite=finite,
        )

    def _values(self, state: FeatureMKLState, code: FeatureMKLCode) -> list[jax.Array]:
        """Values of the experts, (R, P) for each rule."""
        return [
            rule.predict(local, rule_code, code.features)
            for rule, local, rule_code in zip(self.rules, state.local, code.local, strict=True)
        ]

    def _bounded(self, values: list[jax.Array]) -> jax.Array:
        """Values of the experts as they are combined and judged, (E,)."""
        joined = jnp.concatenate([v.ravel() for v in values])
        if self.bound is None:
            return joined
        bound = jnp.asarray(self.bound, joined.dtype)
        return jnp.clip(joined, -bound, bound)

    def decide(self, state: FeatureMKLState, code: FeatureMKLCode) -> Prediction:
        """Combine the chosen experts; ask by the labelling rule."""
        values = self._bounded(self._values(state, code))
        q = hedge.restricted(state.log_weights, state.selected)
        # an expert without weight must not speak, not even when it has overflowed
        value = jnp.sum(jnp.where(q > 0, q * values, 0.0))
        experts = Experts(values, hedge.weights(state.log_weights), state.selected)
        query = self.labelling.query(state.labelling, experts)
        return Prediction(jnp.where(code.finite, value, jnp.nan), query & code.finite)

    def learn(
        self,
        state: FeatureMKLState,
        code: FeatureMKLCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> FeatureMKLState:
        """Local rules, Hedge and selection, if the label was asked for."""
        loss = LOSSES[self.loss]
        valid = code.finite & (jnp.isfinite(y) | ~asked)
        learned = asked & valid & present
        y = jnp.where(learned, y, 0.0)
        values = self._values(state, code)
        local = tuple(
            rule.learn(rule_state, rule_code, code.features, y - f, loss.slope(f, y), learned)
            for rule, rule_state, rule_code, f in zip(
                self.rules, state.local, code.local, values, strict=True
            )
        )
        updated = hedge.update(
            state.log_weights,
            loss.value(self._bounded(values), y),
            jnp.asarray(self.hedge_rate, y.dtype),
        )
        labelling = self.labelling.update(state.labelling, learned)
        seen = present & valid
        return FeatureMKLState(
            key=state.key,
            round=state.round + present.astype(jnp.int32),
            invalid=state.invalid + (present & ~valid).astype(jnp.int32),
            frequencies=state.frequencies,
            local=local,
            log_weights=jnp.where(learned, updated, state.log_weights),
            selected=jnp.where(learned, self.selection.draw(code.noise, updated), state.selected),
            labelling=jax.tree.map(
                lambda new, old: jnp.where(seen, new, old), labelling, state.labelling
            ),
        )

    def fold(self, state: FeatureMKLState) -> FeatureMKLState:
        """Fold what the local rules have pending."""
        local = tuple(
            rule.fold(rule_state, state.round)
            for rule, rule_state in zip(self.rules, state.local, strict=True)
        )
        return state._replace(local=local)

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The loss of a prediction."""
        return LOSSES[self.loss].value(prediction, y)

    def info(self, state: FeatureMKLState) -> FeatureMKLInfo:
        """Weights of the experts and how many are chosen."""
        return FeatureMKLInfo(
            hedge.weights(state.log_weights), jnp.sum(state.selected, dtype=jnp.int32)
        )


def default_kernels() -> Gaussian:
    """The dictionary of (56): 17 Gaussians with b_i² = 10^((i - 9)/2), i = 1 ... 17."""
    return Gaussian(10.0 ** ((np.arange(1, 18) - 9) / 4))


def _ogd_mkl(
    selection: Selection,
    labelling: Labelling,
    kernels: Kernel | None,
    num_features: int,
    step_size: Any,
    regularization: Any,
    hedge_rate: Any,
    loss: str,
    orthogonal: bool,
    feature_scale: str,
) -> FeatureMKL:
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    if step_size is None:
        step_size = 0.5 / features.squared_norm
    return FeatureMKL(
        kernels=default_kernels() if kernels is None else kernels,
        features=features,
        rules=(OGD(step_size, regularization),),
        selection=selection,
        labelling=labelling,
        hedge_rate=hedge_rate,
        loss=loss,
        task=LOSSES[loss].task if loss in LOSSES else "regression",
    )


def raker(
    kernels: Kernel | None = None,
    *,
    num_features: int = 50,
    step_size: Any = None,
    regularization: Any = 0.01,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
) -> FeatureMKL:
    """Raker: online gradient descent per kernel on random features, Hedge over the kernels."""
    return _ogd_mkl(
        AllKernels(), Always(), kernels, num_features, step_size, regularization, hedge_rate,
        loss, orthogonal, feature_scale,
    )


def omkl_aks(kernels=None, *, selection_threshold=0.8, num_features=50, step_size=None, regularization=0.01, hedge_rate=1.0, loss="squared", orthogonal=False, feature_scale="sum"):
    """x"""
    return _ogd_mkl(AdaptiveKernelSelection(selection_threshold), Always(), kernels, num_features, step_size, regularization, hedge_rate, loss, orthogonal, feature_scale)


def amkl(kernels=None, *, tolerance=0.0005, max_skips=1, num_features=50, step_size=None, regularization=0.01, hedge_rate=1.0, loss="squared", orthogonal=False, feature_scale="sum"):
    """x"""
    return _ogd_mkl(AllKernels(), Confidence(tolerance, max_skips), kernels, num_features, step_size, regularization, hedge_rate, loss, orthogonal, feature_scale)


def amkl_aks(kernels=None, *, tolerance=0.0005, max_skips=1, selection_threshold=0.8, num_features=50, step_size=None, regularization=0.01, hedge_rate=1.0, loss="squared", orthogonal=False, feature_scale="sum"):
    """x"""
    return _ogd_mkl(AdaptiveKernelSelection(selection_threshold), Confidence(tolerance, max_skips), kernels, num_features, step_size, regularization, hedge_rate, loss, orthogonal, feature_scale)


def expert_mkl(kernels=None, *, task="regression", num_features=50, step_sizes=(0.1, 0.25, 0.5, 0.7), forgetting=(1.0, 0.999), rls_regularization=None, hedge_rate=None, bound=None, selection=AllKernels(), labelling=Always(), orthogonal=False):
    """x"""
    c = task == "classification"
    return FeatureMKL(
        kernels=default_kernels() if kernels is None else kernels,
        features=FourierFeatures(num_features, orthogonal, "mean"),
        rules=(OGD(step_sizes), RLS(0.1 if rls_regularization is None else rls_regularization, forgetting)),
        selection=selection, labelling=labelling,
        hedge_rate=(0.1 if c else 1.0) if hedge_rate is None else hedge_rate,
        bound=(1.0 if c else None) if bound is None else bound,
        loss="squared", task=task)
