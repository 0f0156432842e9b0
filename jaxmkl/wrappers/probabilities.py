"""Probabilities of classes, by a scale of the predictions that is fitted online."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Learner, Prediction
from jaxmkl._types import PyTree
from jaxmkl.wrappers.wrapper import Wrapper, WrapperState, in_units


@pytree.dataclass
class ProbabilitiesState(WrapperState):
    """State of :class:`Probabilities`."""

    log_scale: Array
    """Logarithm of the scale a."""
    curvature: Array
    """Sum h of 1 and the second derivatives so far."""


@pytree.dataclass
class Probabilities(Wrapper):
    """A classifier whose predictions are log-odds; made by :func:`probabilities`."""

    learner: Learner = pytree.part(Learner, "a classifier, as jaxmkl.expert_mkl(task=...)")

    def __post_init__(self) -> None:
        task, wanted = self.learner.task, "a classifier, as jaxmkl.spa()"
        pytree.require(task == "classification", self, "learner", task, wanted)

    def init(
        self, key: Array, num_inputs: int, dtype: DTypeLike | None = None
    ) -> ProbabilitiesState:
        inner = self.learner.init(key, num_inputs, dtype)
        dtype = self.learner.dtype(inner)
        return ProbabilitiesState(inner, jnp.asarray(jnp.log(2.0), dtype), jnp.ones((), dtype))

    def predict_code(self, state: ProbabilitiesState, code: PyTree) -> tuple[Prediction, tuple]:
        """The prediction as log-odds a f."""
        prediction, aux = super().predict_code(state, code)
        scale = jnp.exp(state.log_scale)
        log_odds = scale * prediction.value
        return in_units(prediction, scale)._replace(value=log_odds), (log_odds, aux)

    def update_code(
        self,
        state: ProbabilitiesState,
        code: PyTree,
        aux: tuple,
        y: Array,
        asked: Array,
        present: Array,
    ) -> ProbabilitiesState:
        """The inner learner learns, and the scale takes a Newton step, if there is a label."""
        log_odds, inside = aux
        known = asked & present & jnp.all(jnp.isfinite(y) & jnp.isfinite(log_odds))
        z, of = jnp.where(known, log_odds, 0.0), y > 0
        if z.ndim == 0:  # two classes: z/2 and -z/2
            z, of = jnp.stack([z, -z]) / 2.0, jnp.stack([of, ~of])
        p = jax.nn.softmax(z)
        mean = jnp.sum(p * z)
        slope, bend = mean - jnp.sum(jnp.where(of, z, 0.0)), jnp.sum(p * (z - mean) ** 2)
        curvature = state.curvature + bend
        step = jnp.clip(slope / curvature, -0.5, 0.5)
        updated = super().update_code(state, code, inside, y, asked, present)
        return updated.replace(
            log_scale=jnp.where(known, state.log_scale - step, state.log_scale),
            curvature=jnp.where(known, curvature, state.curvature),
        )

    def loss_value(self, prediction: Array, y: Array) -> Array:
        """The loss -log p of the true class."""
        if self.num_outputs is None:
            return jax.nn.softplus(-y * prediction)
        own = jnp.sum(jnp.where(y > 0, prediction, 0.0), axis=-1)
        return jax.nn.logsumexp(prediction, axis=-1) - own


def probabilities(learner: Learner) -> Probabilities:
    """Make a classifier predict log-odds: its predictions f times a scale a, fitted online.

        two classes   z = a f,  p(+1) = σ(z)             jax.nn.sigmoid(outputs.prediction)
        K classes     z = a f (K,),  p = softmax(z)      jax.nn.softmax(outputs.prediction)

    The predicted class stays the same, and the loss is -log p. From a = 2 on, log a takes a Newton
    step on the -log p of every label, with the sum of the second derivatives:

        g = Σ_k p_k z_k - z_y,   h <- h + Σ_k p_k (z_k - Σ_j p_j z_j)²,   log a <- log a - g / h

    by at most a half at once. Clipping values to [.001, 1] and normalising them instead has a
    larger log loss: with ``scaled(expert_mkl(...), RunningMoments())`` .268 for .243 on spambase,
    .387 for .373 on magic04 (4,000 examples of each, drawn), .53 for .23 on scikit-learn's digits.

    Args:
      learner: any classifier.

    Raises:
      ValueError: if the learner is not a classifier.

    References:
      Platt (1999), Probabilistic outputs for support vector machines (a scale, fitted in batch).

    >>> import jaxmkl
    >>> X = jax.random.normal(jax.random.key(0), (500, 2))
    >>> learner = probabilities(jaxmkl.raker(jaxmkl.Gaussian(1.0), loss="logistic"))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, X[:, 0] > 0)
    >>> p = jax.nn.sigmoid(outputs.prediction)
    >>> bool((p >= 0).all() and (p <= 1).all() and outputs.loss[-100:].mean() < 0.4)
    True
    """
    return Probabilities(learner)
