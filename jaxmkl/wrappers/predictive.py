"""Predictive distributions around any regression learner, whose scale depends on the input."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import common_period, count_on
from jaxmkl._learner import Learner, Output, Prediction
from jaxmkl._moments import Moments
from jaxmkl._noise import least_square
from jaxmkl._programs import Kept
from jaxmkl._types import PyTree
from jaxmkl.distributions import StudentMixture, squared_ratio
from jaxmkl.updates import RLS, Recursive
from jaxmkl.wrappers._standard import Standard, columns_of
from jaxmkl.wrappers.wrapper import OnBlocks, WrapperState, not_refused, require_numbers

_HIGHEST = jax.lax.Precision.HIGHEST
DEGREES = 3.0, 5.0, 10.0, 50.0
MEMORIES = 20, 200  # memories of the two running log-scales, in labels
DISCOUNT = 0.998  # discount of the log densities by which the parts are weighted
UNIFORM = 0.01  # the share of weights that is always uniform
DIRECTIONS = 32  # random directions of the inputs, each with a sine and a cosine
RULE = RLS(3.5, 0.9995)  # learns the log-scale relative to the running one
ALONE = 20  # number of first labels from which only the running log-scales are learned
WIDER = 1.0, 2.0 / 3.0, 1.0 / 3.0, 0.0  # multiples of log(100)/n that widen the parts till then
LEAST = 1e-6  # the least square of an error till then, relative to the labels' variance
_ROBUST = 4.0  # degrees of freedom of the running log-scales
_OF_LOG = 1.27  # the mean of -log ε² of a standard normal ε
_MOST = 6.0  # bound of a round's features, before they are scaled


class Density(NamedTuple):
    """The parts of one output's density, before an input is known."""

    running: Array
    """Two running log-scales o of e², with short and long memory (2,)."""
    scale: Recursive
    """Least squares for the log-scale relative to the longer one."""
    offsets: Array
    """Log-scales b_j of the parts relative to that (J,)."""
    log_weights: Array
    """Discounted log densities of the parts (J,)."""
    labels: Moments
    """Mean and variance of the labels."""
    number: Array
    """Labels so far, int32; those before the first that differs count as one."""


@pytree.dataclass
class PredictiveState(WrapperState):
    """State of :class:`Predictive`."""

    directions: Array
    """W, directions of the inputs (32, D)."""
    inputs: Standard
    """The moments that standardise inputs, renewed in rounds that 32 divides."""
    density: Density
    """The parts of densities; with K outputs all leaves have a leading axis."""


class PredictiveInfo(NamedTuple):
    """Diagnostics."""

    log_score: Array
    """The log density of the round's label, a number or (K,); NaN where there is no label, or no
    density yet."""
    inner: PyTree
    """The inner learner's diagnostics."""


class PredictiveCode(NamedTuple):
    """One example."""

    x: Array  # the input (D,)
    waves: Array  # sines and cosines of its directions (64,)
    inner: PyTree  # code of the inner learner


@pytree.dataclass
class Predictive(OnBlocks[PredictiveState, PredictiveCode, tuple]):
    """A learner whose predictions are distributions; made by :func:`predictive`."""

    learner: Learner = pytree.part(Learner, "a learner, as jaxmkl.expert_mkl()")

    preferred_block_size = Learner.preferred_block_size

    def __post_init__(self) -> None:
        require_numbers(self)

    @property
    def period(self) -> int | None:  # type: ignore[override]
        """The largest number that divides the period of the inner learner and that of the rule."""
        return common_period((RULE, self.learner))

    def init(self, key: Array, num_inputs: int, dtype: DTypeLike | None = None) -> PredictiveState:
        inner = self.learner.init(key, num_inputs, dtype)
        return _begun(self, inner, jax.random.fold_in(key, 3), num_inputs=num_inputs)

    def encode(
        self, state: PredictiveState, X: Array, given: Array | None = None
    ) -> PredictiveCode:
        columns = columns_of(X, self.leading_columns)
        inputs = state.inputs.standardised(columns)
        angles = jnp.matmul(inputs, state.directions.T, precision=_HIGHEST)
        angles = angles / math.sqrt(columns.shape[1])
        waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
        codes = self.learner.encode(state.inner, X, given)
        return PredictiveCode(columns, waves / math.sqrt(DIRECTIONS), codes)

    def predict_code(
        self, state: PredictiveState, code: PredictiveCode
    ) -> tuple[Prediction, tuple]:
        """The prediction with its distribution, whose variance becomes the prediction's."""
        prediction, inner = self.learner.predict_code(state.inner, code.inner)

        def one(own: Density, value: Array, variance: Array | None) -> tuple:
            # derivatives of an example without a value would be NaN
            value = jnp.where(jnp.isnan(value), own.labels.mean, value)
            features = _features(own, code.waves, value, variance)
            return features, _distribution(own, features, value)

        features, found = self._each(one, state.density, prediction.value, prediction.variance)
        known = (state.density.number > 1)[..., None]
        scales = jnp.where(known, found.scales, jnp.nan)
        said = StudentMixture(prediction.value, scales, found.weights, found.degrees)
        after = prediction._replace(variance=said.variance, distribution=said)
        # the update goes on with an arbitrary scale while none is known
        return after, (features, found, prediction.value, inner)

    def update_code(
        self,
        state: PredictiveState,
        code: PredictiveCode,
        aux: tuple,
        y: Array,
        asked: Array,
        present: Array,
    ) -> tuple[PredictiveState, Array]:
        """The inner learner learns, and so does the density, if there is a label."""
        (features, found, value, inside), round = aux, state.round
        updated, learned = super().update_code(state, code.inner, inside, y, asked, present)
        known = learned & jnp.all(jnp.isfinite(y) & jnp.isfinite(value))

        def one(own: Density, features: Array, found: StudentMixture, y: Array) -> Density:
            return _learned(own, features, found, jnp.where(known, y, found.mean), round, known)

        density = self._each(one, state.density, features, found, y)
        usable = ~jnp.any(jnp.isnan(value))
        inputs = state.inputs.after(code.x, not_refused(learned, usable, asked, present))
        return updated.replace(inputs=inputs, density=density), learned

    def close(self, state: PredictiveState, codes: PredictiveCode) -> PredictiveState:
        state = super().close(state, codes.inner)
        size, round = len(codes.x), state.round

        def settled(own: Density) -> Density:
            return own._replace(scale=own.scale.close(RULE, size, round))

        return state.replace(
            density=self._each(settled, state.density),
            inputs=state.inputs.renewed(round % RULE.period == 0),
        )

    def info(self, state: PredictiveState) -> PredictiveInfo:
        none = jnp.full_like(state.density.labels.mean, jnp.nan)
        return PredictiveInfo(none, self.learner.info(state.inner))

    def advance(
        self, state: PredictiveState, code: PredictiveCode, y: Array, present: ArrayLike = True
    ) -> tuple[PredictiveState, Output]:
        after, output = super().advance(state, code, y, present)
        assert output.distribution is not None  # predict_code has made it
        label = self._label(state, y)
        known = jnp.where(jnp.isfinite(label), label, jnp.nan)  # as the loss has it
        log_score = output.distribution.log_prob(known)
        return after, output._replace(info=output.info._replace(log_score=log_score))

    def distribution(self, state: PredictiveState, x: Array) -> StudentMixture:
        """The distribution of the label of ``x`` (D,), with K outputs of each (K,)."""
        found = self.predict(state, x).distribution
        assert found is not None  # predict_code has made it
        return found


@partial(Kept, on_host=True)
def _begun(learner: Predictive, inner: PyTree, key: Array, *, num_inputs: int) -> PredictiveState:
    """The state around an inner one, with nothing learned."""
    dtype, K, J = learner.dtype(inner), learner.num_outputs, len(DEGREES)
    D = num_inputs - learner.leading_columns
    said = jax.eval_shape(learner.learner.predict, inner, jnp.zeros((num_inputs,), dtype))
    M = 2 * DIRECTIONS + 4 + (said.variance is not None)
    density = Density(
        running=jnp.zeros((2,), dtype),
        scale=Recursive.start(RULE, M, dtype),
        offsets=jnp.zeros((J,), dtype),
        log_weights=jnp.zeros((J,), dtype),
        labels=Moments.none((), dtype),
        number=jnp.zeros((), jnp.int32),
    )
    if K is not None:
        density = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (K, *leaf.shape)), density)
    directions = jax.random.normal(key, (DIRECTIONS, D), jnp.float32).astype(dtype)
    return PredictiveState(inner, directions, Standard.none(D, dtype), density)


def _log(square: Array) -> Array:
    """The logarithm of a square or a variance, limited so that it is finite."""
    limits = jnp.finfo(square.dtype)
    return jnp.log(jnp.clip(square, limits.tiny, limits.max))


def _features(own: Density, waves: Array, value: Array, variance: Array | None) -> Array:
    """The features φ of a round (M,), each of order 1."""
    short, long = own.running
    f = jnp.clip(own.labels.scaled(value), -_MOST, _MOST)
    logs = [short] if variance is None else [short, _log(variance)]
    of_logs = jnp.clip(jnp.stack(logs) - long, -_MOST, _MOST) / 2.0
    features = jnp.concatenate([jnp.stack([jnp.ones_like(f), f, jnp.abs(f)]), of_logs, waves])
    return jnp.where(jnp.isfinite(features), features, 0.0)


def _distribution(own: Density, features: Array, value: Array) -> StudentMixture:
    finite = jnp.finfo(value.dtype)
    limits = np.add(np.log(np.asarray([finite.tiny, finite.max])), (5.0, -5.0))
    # few errors may all be small by chance: parts are wider, one at least as wide as the labels
    few = jnp.maximum(own.number - 1, 1).astype(value.dtype)
    wide = own.running[1] + math.log(100.0) / few * jnp.asarray(WIDER, value.dtype)
    wide = wide.at[0].max(_log(own.labels.variance))
    log_square = own.running[1] + own.scale.predict(RULE, features)[0] + own.offsets
    log_square = jnp.where(own.number < ALONE, wide, log_square)
    log_square = jnp.clip(log_square, *limits.astype(value.dtype))
    weights = (1.0 - UNIFORM) * jax.nn.softmax(own.log_weights) + UNIFORM / len(DEGREES)
    return StudentMixture(value, jnp.exp(log_square / 2.0), weights, DEGREES)


def _gradient(rho: Array, degrees: Array | float) -> Array:
    """The derivative of a t's log density by its log-scale (of s²), at ρ = e²/s²."""
    return ((degrees + 1.0) * rho / (degrees + rho) - 1.0) / 2.0


def _information(degrees: np.ndarray | float) -> np.ndarray | float:
    """The Fisher information of that log-scale, which depends on the degrees of freedom alone."""
    return degrees / (2.0 * (degrees + 3.0))


def _learned(
    own: Density, features: Array, found: StudentMixture, y: Array, round: Array, known: Array
) -> Density:
    """The density after a label, if it is ``known``."""
    dtype = y.dtype
    degrees = jnp.asarray(DEGREES, dtype)
    information = jnp.asarray(_information(np.asarray(DEGREES)), dtype)
    number = count_on(own.number)
    labels = own.labels.after(y, number)
    # errors of labels that are all the same say nothing about those to come
    number = jnp.where((labels.variance > 0) | (own.number > 1), number, 1)
    n, alone = number.astype(dtype), number <= ALONE
    each = found.log_components(y)
    shares = jax.nn.softmax(jnp.log(found.weights) + each)
    gradients = _gradient(squared_ratio(y - found.mean, found.scales), degrees)
    along = partial(jnp.dot, shares, precision=_HIGHEST)
    error = along(gradients) / along(information)
    log_weights = DISCOUNT * own.log_weights + each
    square = jnp.square(y - found.mean) + least_square(y)
    log_square = _log(jnp.where(alone, jnp.maximum(square, LEAST * labels.variance), square))
    of_running = jnp.exp(jnp.minimum(log_square - own.running, 60.0))
    steps = _gradient(of_running, _ROBUST) / _information(_ROBUST)
    steps = jnp.where(alone, log_square + _OF_LOG - own.running, steps)
    # the error of the first label, predicted without knowing any, is forgotten with the second
    rates = jnp.maximum(1.0 / jnp.maximum(n - 1.0, 1.0), 1.0 / jnp.asarray(MEMORIES, dtype))
    offsets = own.offsets + jnp.maximum(1.0 / n, 1.0 / MEMORIES[1]) * gradients / information
    after = own._replace(
        running=own.running + rates * steps,
        offsets=jnp.where(alone, own.offsets, offsets),
        log_weights=jnp.where(alone, own.log_weights, log_weights - jnp.max(log_weights)),
        labels=labels,
        number=number,
    )
    good = known & jnp.all(jnp.isfinite(each) & jnp.isfinite(after.labels.variance))
    after = optax.tree.where(good, after, own)
    scale = own.scale.after(RULE, features, error[None], round, good & ~alone)
    return after._replace(scale=scale)


def predictive(learner: Learner) -> Predictive:
    """Give the predictions of a learner densities, whose scale depends on the input.

    The density is a mixture of t distributions around the prediction f
    (:class:`jaxmkl.distributions.StudentMixture`),

        p(y) = Σ_j w_j t_j((y - f) / s_j) / s_j,      ν = 3, 5, 10, 50
        log s_j² = o + θ·φ + b_j

    with a running log-scale o of memory 200 and the features φ of the round: a 1; f standardised
    as the labels, and |f|; how far a running log-scale of memory 20 is from o; how far the
    logarithm of the prediction's variance is, where the learner knows it; and 32 sines and cosines
    of random directions of the inputs x, standardised online. With ρ = (y - f)²/s², the derivative
    of a t's log density by log s² and its Fisher information,

        g(ρ) = ((ν + 1) ρ/(ν + ρ) - 1)/2,      I = ν/(2 (ν + 3)),

    a label moves all by natural gradients. With r_j ∝ w_j p_j(y):

        o <- o + η g(e²/exp(o))/I   of ν = 4,     η = max(1/n, 1/200) with the n-th label
        b_j <- b_j + η g(ρ_j)/I_j
        θ by recursive least squares (λ = 3.5, φ = .9995) on the error Σ_j r_j g(ρ_j) / Σ_j r_j I_j
        w ∝ exp(l), 1 % of it uniform,      l_j <- .998 l_j + log p_j(y)

    Before two labels differ the scale is unknown, and the distribution is NaN; labels up to there
    count as one. From the first 20 labels only o is learned, as the mean of log e² + 1.27 with e²
    at least a millionth of the labels' variance; the first error, of a prediction without any
    label, is forgotten with the second, so that n - 1 stands for n in the η of o. As few errors
    may all be small by chance, parts are wider meanwhile: log s_j² = o + (1, 2/3, 1/3, 0)
    log(100)/(n - 1), and for ν = 3 at least the logarithm of the labels' variance. As g is
    bounded, outliers move the scale little. The Fisher information does not depend on the label,
    so θ needs but one covariance, of some seventy numbers a side, whatever D is.

    The prediction keeps its value; its ``variance`` becomes that of the distribution, so that
    :func:`intervals` around it are as wide as the density says and cover what they promise. A run
    records ``outputs.distribution`` and, with ``record=lambda output: output``, the log density of
    each label as ``outputs.info.log_score``; with wrappers around this one that is
    ``outputs.distribution.log_prob(y)``.

    Args:
      learner: any regression learner.

    Raises:
      ValueError: if the learner is a classifier (:func:`probabilities`).

    References:
      Lange, Little and Taylor (1989), Robust statistical modeling using the t distribution (its
      Fisher information); Waxman, Llorente and Djurić (2025), online Bayesian stacking, for
      densities weighed by log scores. The online scale is ours.

    >>> import jax, jaxmkl, numpy as np
    >>> X, noise = np.random.default_rng(0).normal(size=(2, 1000, 2))
    >>> y = X[:, 0] + np.where(X[:, 1] > 0, 0.5, 0.05) * noise[:, 0]
    >>> learner = predictive(jaxmkl.raker(jaxmkl.Gaussian([1.0, 3.0])))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> @jax.jit
    ... def told(x):
    ...     distribution = learner.distribution(state, x)
    ...     return distribution.variance, distribution.log_prob(0.0)
    >>> wide, narrow = told(np.array([0.0, 1.0])), told(np.array([0.0, -1.0]))
    >>> bool(wide[0] > 3 * narrow[0]), bool(wide[1] < narrow[1])
    (True, True)
    """
    return Predictive(learner)
