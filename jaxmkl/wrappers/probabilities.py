"""Probabilities of classes, by a calibration of the predictions that is learned online."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import common_period, count_on, or_zero
from jaxmkl._learner import Learner, Prediction
from jaxmkl._types import PyTree, at_least_single
from jaxmkl.updates import RLS, Recursive
from jaxmkl.wrappers._standard import Standard, columns_of
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState, in_units, not_refused

_HIGHEST = jax.lax.Precision.HIGHEST
RULE = RLS(2.0)  # learns the weights of the inputs
SHARP = 1e-6  # second derivatives of the logistic loss count as at least that
FORGETTING = 0.9995  # forgetting of the second derivatives of the logistic regression
SURE = 0.01  # values read as probabilities are clipped to [SURE, 1 - SURE]
LARGE = 4.0  # bound of the squashed scaled values


class Calibration(NamedTuple):
    """Models of the log-odds, and their weights.

    One scales; each of the R others is a logistic regression: one, or two with ``passthrough``.
    """

    log_scale: Array
    """Logarithm of the scale a."""
    curvature: Array
    """Sum h of the second derivatives so far."""
    weights: Array
    """θ of the regressions (R, M), with M = 3 of two classes, 2 of several."""
    curvatures: Array
    """Their second derivatives H (R, M, M)."""
    log_shares: Array
    """Logarithms of the weights of the models (1 + R,)."""
    number: Array
    """Labels so far, int32."""


class OnInputs(NamedTuple):
    """The part of the last regression that reads the inputs, with ``passthrough``."""

    standard: Standard
    """The moments that standardise inputs."""
    models: Recursive
    """Weights of the classes W (C, D + 1), which share a covariance."""


@pytree.dataclass
class ProbabilitiesState(WrapperState):
    """State of :class:`Probabilities`."""

    calibration: Calibration
    """The models of the log-odds."""
    on_inputs: OnInputs | None
    """The part that reads the inputs; None without ``passthrough``."""


class ProbabilitiesCode(NamedTuple):
    """One example; its inputs are None without ``passthrough``."""

    inner: PyTree  # code of the inner learner
    x: Any  # the input (D,)
    u: Any  # the standardised input and a 1, over the root of their number (D + 1,)


class ProbabilitiesAux(NamedTuple):
    """A prediction's results that the update uses again; C is 2 for two classes, or K."""

    scaled: Array  # scaled values of the classes (C,)
    rows: Array  # the inputs φ of the regressions for each class (C, M)
    log_shares: Array  # log probabilities of the classes by each model (1 + R, C)
    usable: Array  # True if the learner's values are finite
    inner: PyTree  # the aux of the inner learner


@pytree.dataclass
class Probabilities(OnBlocks[ProbabilitiesState, ProbabilitiesCode, ProbabilitiesAux]):
    """A classifier whose predictions are log-odds; made by :func:`probabilities`."""

    learner: Learner = pytree.part(Learner, "a classifier, as jaxmkl.expert_mkl(task=...)")
    passthrough: bool = pytree.flag(default=False)

    def __post_init__(self) -> None:
        task, wanted = self.learner.task, "a classifier, as jaxmkl.spa()"
        pytree.require(task == "classification", self, "learner", task, wanted)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """With ``passthrough`` it divides that of the rule, too."""
        return common_period((RULE, self.learner) if self.passthrough else (self.learner,))

    def init(
        self, key: Array, num_inputs: int, dtype: DTypeLike | None = None
    ) -> ProbabilitiesState:
        inner = self.learner.init(key, num_inputs, dtype)
        dtype, K = self.learner.dtype(inner), self.num_outputs
        R = 1 + self.passthrough
        weights = jnp.asarray((0.5, 0.5, 0.0) if K is None else (0.5, 0.5), dtype)
        eye = jnp.eye(len(weights), dtype=dtype)
        calibration = Calibration(
            log_scale=jnp.log(jnp.asarray(2.0, dtype)),
            curvature=jnp.zeros((), dtype),
            weights=jnp.broadcast_to(weights, (R, *weights.shape)),
            curvatures=jnp.broadcast_to(eye, (R, *eye.shape)),
            log_shares=jnp.full((1 + R,), -jnp.log(1.0 + R), dtype),
            number=jnp.zeros((), jnp.int32),
        )
        if not self.passthrough:
            return ProbabilitiesState(inner, calibration, None)
        D = num_inputs - self.leading_columns
        models = Recursive.start(RULE, D + 1, dtype, 2 if K is None else K)
        on_inputs = OnInputs(Standard.none(D, dtype), models)
        return ProbabilitiesState(inner, calibration, on_inputs)

    def encode(
        self, state: ProbabilitiesState, X: Array, given: Array | None = None
    ) -> ProbabilitiesCode:
        codes = super().encode(state, X, given)
        if state.on_inputs is None:
            return ProbabilitiesCode(codes, None, None)
        columns = columns_of(X, self.leading_columns)
        Z = state.on_inputs.standard.standardised(columns)
        U = jnp.concatenate([Z, jnp.ones_like(Z[:, :1])], axis=1)
        return ProbabilitiesCode(codes, columns, U / math.sqrt(U.shape[1]))

    def predict_code(
        self, state: ProbabilitiesState, code: ProbabilitiesCode
    ) -> tuple[Prediction, ProbabilitiesAux]:
        """The prediction as log-odds, or as log probabilities of K classes."""
        prediction, inner = super().predict_code(state, code.inner)
        own, two = state.calibration, self.num_outputs is None
        usable = jnp.all(jnp.isfinite(prediction.value))
        f = or_zero(usable, prediction.value)
        scale = jnp.exp(own.log_scale)
        scaled, p = scale * f, jnp.clip((1.0 + f) / 2.0, SURE, 1.0 - SURE)
        read = [LARGE * jnp.tanh(scaled / LARGE), jax.scipy.special.logit(p)]
        rows = jnp.stack([*read, jnp.ones_like(f)] if two else read, axis=-1)
        if two:  # two classes: z/2 and -z/2
            scaled, rows = (jnp.stack([a, -a]) / 2.0 for a in (scaled, rows))
        regressed = jnp.matmul(own.weights, rows.T, precision=_HIGHEST)
        if state.on_inputs is not None:
            regressed = regressed.at[1].add(state.on_inputs.models.predict(RULE, code.u))
        each = jax.nn.log_softmax(jnp.concatenate([scaled[None], regressed]), axis=-1)
        found = jax.nn.logsumexp(own.log_shares[:, None] + each, axis=0)
        value = jnp.where(usable, found[0] - found[1] if two else found, jnp.nan)
        said = in_units(prediction, scale)._replace(value=value)
        return said, ProbabilitiesAux(scaled, rows, each, usable, inner)

    def update_code(
        self,
        state: ProbabilitiesState,
        code: ProbabilitiesCode,
        aux: ProbabilitiesAux,
        y: Array,
        asked: Array,
        present: Array,
    ) -> tuple[ProbabilitiesState, Array]:
        """The inner learner learns, and the calibration takes a step, if there is a label."""
        good = aux.usable & jnp.all(jnp.isfinite(y)) & jnp.all(jnp.isfinite(aux.log_shares))
        known, own = asked & present & good, state.calibration
        of = jnp.stack([y > 0, ~(y > 0)]) if self.num_outputs is None else y > 0
        after = optax.tree.where(known, _calibrated(own, aux, of), own)
        updated, learned = super().update_code(state, code.inner, aux.inner, y, asked, present)
        updated = updated.replace(calibration=after)
        if state.on_inputs is None:
            return updated, learned
        standard, models = state.on_inputs
        counted = not_refused(learned, aux.usable, asked, present)
        p = jnp.exp(or_zero(known, aux.log_shares[2]))
        # a step of Newton as one of least squares: weighted by the second derivative
        root = jnp.sqrt(jnp.maximum(1.0 - jnp.sum(p * p), SHARP))
        errors = (of.astype(p.dtype) - p) / root
        models = models.after(RULE, root * code.u, errors, state.round, known)
        on_inputs = OnInputs(standard.after(code.x, counted), models)
        return updated.replace(on_inputs=on_inputs), learned

    def close(self, state: ProbabilitiesState, codes: ProbabilitiesCode) -> ProbabilitiesState:
        state = super().close(state, codes.inner)
        if state.on_inputs is None:
            return state
        (standard, models), round = state.on_inputs, state.round
        models = models.close(RULE, len(codes.x), round)
        standard = standard.renewed(round % RULE.period == 0)
        return state.replace(on_inputs=OnInputs(standard, models))

    def loss_value(self, prediction: Array, y: Array) -> Array:
        """The loss -log p of the true class."""
        if self.num_outputs is None:
            return jax.nn.softplus(-y * prediction)
        own = jnp.sum(jnp.where(y > 0, prediction, 0.0), axis=-1)
        return jax.nn.logsumexp(prediction, axis=-1) - own


def _calibrated(own: Calibration, aux: ProbabilitiesAux, of: Array) -> Calibration:
    """The calibration after a label, whose class is where ``of`` (C,) is True."""
    dtype = own.curvature.dtype
    said = jnp.exp(aux.log_shares)
    slope, bend = _derivatives(aux.scaled[:, None], said[0], of)
    curvature = own.curvature + bend[0, 0]
    step = slope[0] / jnp.where(curvature > 0, curvature, 1.0)
    gradients, bends = jax.vmap(_derivatives, (None, 0, None))(aux.rows, said[1:], of)
    prior = (1.0 - FORGETTING) * jnp.eye(gradients.shape[1], dtype=dtype)
    curvatures = FORGETTING * own.curvatures + prior[None] + bends
    number = count_on(own.number)
    log_weights = own.log_shares + jnp.sum(jnp.where(of[None], aux.log_shares, 0.0), axis=1)
    uniform = 1.0 / (number.astype(dtype) + 1.0)
    shares = (1.0 - uniform) * jax.nn.softmax(log_weights) + uniform / len(log_weights)
    wide = at_least_single(dtype)
    change = jnp.linalg.solve(curvatures.astype(wide), gradients[..., None].astype(wide))
    return Calibration(
        log_scale=own.log_scale - jnp.clip(step, -0.5, 0.5),
        curvature=curvature,
        weights=own.weights - change[..., 0].astype(dtype),
        curvatures=curvatures,
        log_shares=jnp.log(shares),
        number=number,
    )


def _derivatives(rows: Array, p: Array, of: Array) -> tuple[Array, Array]:
    """The gradient (M,) and second derivatives (M, M) of -log p of the class ``of`` (C,) marks."""
    means = jnp.sum(p[:, None] * rows, axis=0)
    beside = rows - means[None]
    weighted = p[:, None] * beside
    bend = jnp.matmul(beside.T, weighted, precision=_HIGHEST)
    return means - jnp.sum(jnp.where(of[:, None], rows, 0.0), axis=0), bend


def probabilities(learner: Learner, *, passthrough: bool = False) -> Probabilities:
    """Make a classifier predict log-odds, by a calibration that is learned online.

        two classes   p(+1) = σ(z),  z a number      jax.nn.sigmoid(outputs.prediction)
        K classes     p = softmax(z),  z (K,)        jax.nn.softmax(outputs.prediction)

    Models of the log-odds are mixed. One scales the learner's values f, z = a f. Another is
    a logistic regression, z = θ·φ, on the scaled values, squashed, and on the log-odds of values
    read as 2 p - 1, which squared loss on labels of -1 and +1 tends to. For two classes φ has a 1
    too; for several, all classes share one θ:

        φ = (4 tanh(a f / 4), log((1 + f) / (1 - f)), 1)      with (1 + f)/2 within [.01, .99]

    With ``passthrough`` there is a third, which reads the inputs too, z_k = θ·φ_k + w_k·u, with u
    = (x, 1)/sqrt(D + 1) of the standardised inputs: by their moments in the last round that 32
    divides, and clipped at three standard deviations.

    Each label moves all by a Newton step on -log p of its class y, with the sums of the second
    derivatives. From log a = log 2, h = 0, θ = (.5, .5, 0), H = I, w = 0 and A = 2 I,

        h <- h + Σ_k p_k (z_k - Σ_j p_j z_j)²,   log a <- log a - g / h,   g = Σ_k p_k z_k - z_y
        H <- .9995 H + .0005 I + Σ_k p_k (φ_k - m)(φ_k - m)',   θ <- θ - H⁻¹ (Σ_k p_k φ_k - φ_y)
        A <- A + (1 - Σ_k p_k²) u u',   w_k <- w_k + A⁻¹ u (1[k = y] - p_k)

    with m = Σ_k p_k φ_k; log a moves by at most a half at once, so that values of any size find
    their scale in about ten labels. For two classes the last step is Newton's; for several, one
    matrix A stands for those of all classes. The models are weighted by their probabilities of
    the labels so far, v_i ∝ v_i p_i(y), of which 1/(n + 1) is then uniform after n labels. The
    loss is -log p. The predicted class is that of the learner unless a regression knows better,
    for instance that one class is rarer than its values say.

    Passing the inputs on pays where much of the label is linear in them, as with many columns of 0
    and 1; elsewhere it changes little. It keeps (D + 1)² numbers, and each round multiplies by
    them: with thousands of inputs that takes longer than the learner. RESULTS.md has log losses
    and calibration errors beside those of scikit-learn's boosting.

    Args:
      learner: any classifier.
      passthrough: whether a regression reads the inputs, too (static).

    Raises:
      ValueError: if the learner is not a classifier, or ``passthrough`` neither True nor False.

    References:
      Platt (1999), Probabilistic outputs for support vector machines (in batch); Herbster and
      Warmuth (1998), Tracking the best expert (weights of which a share is uniform).

    >>> import jaxmkl, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> learner = probabilities(jaxmkl.raker(jaxmkl.Gaussian([0.5, 1.0]), loss="logistic"))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0] > 0)
    >>> p = jax.nn.sigmoid(outputs.prediction)
    >>> bool(0 <= p.min() and p.max() <= 1 and outputs.loss[-100:].mean() < 0.4)
    True
    """
    return Probabilities(learner, passthrough)
