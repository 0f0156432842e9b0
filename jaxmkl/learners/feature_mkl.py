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
0.3/|z|², stable on streams of any length, in place of 1/sqrt(T). All of these are parameters.

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
from jaxmkl.kernels import Gaussian, Kernel
from jaxmkl.labelling import Always, Confidence, Experts, Labelling
from jaxmkl.learner import Learner, Prediction, usable_rows
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
    """One example: features (P, 2 F), codes of the rules, random numbers, whether x is usable."""

    features: jax.Array
    local: tuple
    noise: Any
    usable: jax.Array


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
    loss: str = pytree.static(default="squared")
    task: str = pytree.static(default="regression")

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
            self,
            "hedge_rate",
            self.hedge_rate,
            minimum=0.0,
            wanted="a finite number of at least 0",
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
        sizes = range(1, min(block_size, self._period) + 1)
        return max(size for size in sizes if self._period % size == 0)

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> FeatureMKLState:
        """Draw the frequencies; parameters zero, weights equal, all experts chosen.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D.
          dtype: floating dtype of the state; the default float of JAX.
        """
        num_inputs, dtype = self.checked_start(num_inputs, dtype)
        E = self.num_experts
        P, M = self.kernels.num_kernels, 2 * self.features.num_features
        frequencies = self.features.init(
            jax.random.fold_in(key, 0), self.kernels, num_inputs, dtype
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
        usable = usable_rows(X)  # below the bound no phase overflows
        X = jnp.where(usable[:, None], X, 0.0)
        z = self.features(self.kernels, state.frequencies, X)
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
            usable=usable,
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
        return Prediction(jnp.where(code.usable, value, jnp.nan), query & code.usable)

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
        valid = code.usable & (jnp.isfinite(y) | ~asked)
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

    def fold(self, state: FeatureMKLState, codes: FeatureMKLCode) -> FeatureMKLState:
        """Fold what the local rules have pending."""
        local = tuple(
            rule.fold(rule_state, rule_codes, state.round)
            for rule, rule_state, rule_codes in zip(
                self.rules, state.local, codes.local, strict=True
            )
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
    *,
    num_features: int,
    step_size: Any,
    regularization: Any,
    hedge_rate: Any,
    loss: str,
    orthogonal: bool,
    feature_scale: str,
) -> FeatureMKL:
    """The learners of Hong and Chae: one gradient step a kernel."""
    pytree.require(
        loss in LOSSES, "loss", "loss", loss, "one of " + ", ".join(repr(name) for name in LOSSES)
    )
    features = FourierFeatures(num_features, orthogonal, feature_scale)
    if step_size is None:
        step_size = 0.3 / features.squared_norm
    return FeatureMKL(
        kernels=default_kernels() if kernels is None else kernels,
        features=features,
        rules=(OGD(step_size, regularization),),
        selection=selection,
        labelling=labelling,
        hedge_rate=hedge_rate,
        loss=loss,
        task=LOSSES[loss].task,
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
    """Raker: a gradient step for each kernel on its random features, Hedge over the kernels.

        θ_p <- θ_p - η_l (L'(f_p, y) z_p + 2 λ θ_p),      w_p <- w_p exp(-η_g L(f_p, y))
        prediction = Σ_p w_p f_p / Σ_p w_p,               f_p = θ_p·z_p(x)

    The published setting is ``raker(step_size=T**-0.5, hedge_rate=T**-0.5,
    feature_scale="mean")`` for a stream of T examples; see the module for why it is not the
    default.

    Args:
      kernels: shift-invariant kernels; by default 17 Gaussians, b_i² = 10^((i - 9)/2).
      num_features: frequencies a kernel, F; each kernel has 2 F coordinates.
      step_size: η_l; by default 0.3/|z|² (0.006 for 50 features of scale "sum"), stable on any
        stream.
      regularization: λ.
      hedge_rate: η_g, for losses of the order of 1 and below.
      loss: "squared" for regression; "logistic" or "hinge" for classification.
      orthogonal: draw frequencies in orthogonal blocks.
      feature_scale: "sum" (|z|² = F) or "mean" (|z|² = 1).

    Raises:
      ValueError: for an argument outside its range.

    References:
      Shen, Chen and Giannakis (2019); Hong and Chae, Algorithm 1 with all kernels.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (1000, 2))
    >>> learner = jaxmkl.raker(step_size=0.005)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, jax.numpy.sin(6 * X[:, 0]))
    >>> bool(outputs.loss[-100:].mean() < 0.05)
    True
    """
    return _ogd_mkl(
        AllKernels(),
        Always(),
        kernels,
        num_features=num_features,
        step_size=step_size,
        regularization=regularization,
        hedge_rate=hedge_rate,
        loss=loss,
        orthogonal=orthogonal,
        feature_scale=feature_scale,
    )


def omkl_aks(
    kernels: Kernel | None = None,
    *,
    selection_threshold: Any = 0.8,
    num_features: int = 50,
    step_size: Any = None,
    regularization: Any = 0.01,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
) -> FeatureMKL:
    """OMKL-AKS: :func:`raker` with adaptive kernel selection.

    After each label a subset V of the kernels is drawn
    (:class:`jaxmkl.AdaptiveKernelSelection`); only these predict, with renormalised weights. All
    kernels go on learning.

    Args:
      kernels: as in :func:`raker`.
      selection_threshold: δ; kernels with a weight above δ times the largest set the size of V.
      num_features: as in :func:`raker`.
      step_size: as in :func:`raker`.
      regularization: as in :func:`raker`.
      hedge_rate: as in :func:`raker`.
      loss: as in :func:`raker`.
      orthogonal: as in :func:`raker`.
      feature_scale: as in :func:`raker`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hong and Chae, Algorithm 1, with γ of (58).

    >>> import jax, jaxmkl
    >>> learner = jaxmkl.omkl_aks()
    >>> state = learner.init(jax.random.key(0), num_inputs=2)
    >>> state, output = learner.step(state, (jax.numpy.ones(2), 1.0))
    >>> int(output.info.num_selected)  # before the first label all kernels are chosen
    17
    """
    return _ogd_mkl(
        AdaptiveKernelSelection(selection_threshold),
        Always(),
        kernels,
        num_features=num_features,
        step_size=step_size,
        regularization=regularization,
        hedge_rate=hedge_rate,
        loss=loss,
        orthogonal=orthogonal,
        feature_scale=feature_scale,
    )


def amkl(
    kernels: Kernel | None = None,
    *,
    tolerance: Any = 0.0002,
    max_skips: Any = 1.0,
    num_features: int = 50,
    step_size: Any = None,
    regularization: Any = 0.01,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
) -> FeatureMKL:
    """AMKL: :func:`raker` that asks for a label only where its kernels disagree.

    The rule is :class:`jaxmkl.Confidence`. Without a label nothing is learned. The published
    tolerance is 0.0005; the default asks a little more often, which the larger steps here need
    for the published errors.

    Args:
      kernels: as in :func:`raker`.
      tolerance: η_c, disagreement up to which a label is skipped, in squared units of y.
      max_skips: M, labels skipped in a row at most.
      num_features: as in :func:`raker`.
      step_size: as in :func:`raker`.
      regularization: as in :func:`raker`.
      hedge_rate: as in :func:`raker`.
      loss: as in :func:`raker`.
      orthogonal: as in :func:`raker`.
      feature_scale: as in :func:`raker`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hong and Chae, Algorithm 2 with all kernels.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (1000, 2))
    >>> learner = jaxmkl.amkl(jaxmkl.Gaussian([0.5, 1.0, 2.0]), tolerance=0.001, max_skips=3)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0])
    >>> bool(0.25 <= outputs.queried.mean() < 0.5)
    True
    """
    return _ogd_mkl(
        AllKernels(),
        Confidence(tolerance, max_skips),
        kernels,
        num_features=num_features,
        step_size=step_size,
        regularization=regularization,
        hedge_rate=hedge_rate,
        loss=loss,
        orthogonal=orthogonal,
        feature_scale=feature_scale,
    )


def amkl_aks(
    kernels: Kernel | None = None,
    *,
    tolerance: Any = 0.0002,
    max_skips: Any = 1.0,
    selection_threshold: Any = 0.8,
    num_features: int = 50,
    step_size: Any = None,
    regularization: Any = 0.01,
    hedge_rate: Any = 1.0,
    loss: str = "squared",
    orthogonal: bool = False,
    feature_scale: str = "sum",
) -> FeatureMKL:
    """AMKL-AKS: :func:`amkl` with adaptive kernel selection, as in :func:`omkl_aks`.

    Args:
      kernels: as in :func:`raker`.
      tolerance: as in :func:`amkl`.
      max_skips: as in :func:`amkl`.
      selection_threshold: as in :func:`omkl_aks`.
      num_features: as in :func:`raker`.
      step_size: as in :func:`raker`.
      regularization: as in :func:`raker`.
      hedge_rate: as in :func:`raker`.
      loss: as in :func:`raker`.
      orthogonal: as in :func:`raker`.
      feature_scale: as in :func:`raker`.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Hong and Chae, Algorithm 2.

    >>> import jaxmkl
    >>> jaxmkl.amkl_aks().labelling, jaxmkl.amkl_aks().selection
    (Confidence(tolerance=0.0002, max_skips=1.0), AdaptiveKernelSelection(threshold=0.8))
    """
    return _ogd_mkl(
        AdaptiveKernelSelection(selection_threshold),
        Confidence(tolerance, max_skips),
        kernels,
        num_features=num_features,
        step_size=step_size,
        regularization=regularization,
        hedge_rate=hedge_rate,
        loss=loss,
        orthogonal=orthogonal,
        feature_scale=feature_scale,
    )


def expert_mkl(
    kernels: Kernel | None = None,
    *,
    task: str = "regression",
    num_features: int = 50,
    step_sizes: Any = (0.1, 0.25, 0.5, 0.7),
    forgetting: Any = (1.0, 0.999),
    regularization: Any = 0.1,
    hedge_rate: Any = None,
    selection: Selection | None = None,
    labelling: Labelling | None = None,
    orthogonal: bool = False,
) -> FeatureMKL:
    """Hedge over kernels times local rules: gradient steps to track, least squares to fit.

    The experts are all pairs of a kernel and one of six local models on its features (|z|² = 1):
    gradient descent at four step sizes, recursive least squares with and without forgetting.
    Selection and labelling work on these 102 experts as on kernels. As a classifier it fits the
    labels ±1 by squared loss, and experts are clipped to [-1, 1] where they are combined and
    judged.

    Args:
      kernels: as in :func:`raker`.
      task: "regression" or "classification".
      num_features: frequencies a kernel, F.
      step_sizes: rates η of :class:`jaxmkl.OGD`; stable below 1.
      forgetting: factors φ of :class:`jaxmkl.RLS`.
      regularization: λ of :class:`jaxmkl.RLS`.
      hedge_rate: η_g; by default 1 for regression, 0.1 for classification.
      selection: which experts predict; by default :class:`jaxmkl.AllKernels`.
      labelling: when a label is asked for; by default :class:`jaxmkl.Always`.
      orthogonal: draw frequencies in orthogonal blocks.

    Raises:
      ValueError: for an argument outside its range.

    References:
      Beyond the papers; the parts are those of Hong and Chae.

    >>> import jax, jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 2))
    >>> learner = jaxmkl.expert_mkl(task="classification")
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0] * X[:, 1] > 0)
    >>> learner.num_experts
    102
    """
    classify = task == "classification"
    if hedge_rate is None:
        hedge_rate = 0.1 if classify else 1.0
    return FeatureMKL(
        kernels=default_kernels() if kernels is None else kernels,
        features=FourierFeatures(num_features, orthogonal, "mean"),
        rules=(OGD(step_sizes), RLS(regularization, forgetting)),
        selection=AllKernels() if selection is None else selection,
        labelling=Always() if labelling is None else labelling,
        hedge_rate=hedge_rate,
        bound=1.0 if classify else None,
        loss="squared",
        task=task,
    )
