"""Gradient descent by any transformation of gradients that optax has: momentum, AdaGrad, Adam."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.losses import loss_field
from jaxmkl.optimizers import FromOptax, require_gradients_alone
from jaxmkl.updates.rule import WeightsRule, beside_weights


class OptaxState(NamedTuple):
    """State of :class:`Optax`."""

    weights: jax.Array
    """θ (P, K, 1, M): models on the same features lie together."""
    optimizer: PyTree
    """The state of optax for each model, with leading axes (P, K, 1)."""


def _taken(value: object) -> Any:
    return FromOptax(value) if isinstance(value, optax.GradientTransformation) else value


@pytree.dataclass
class Optax(WeightsRule[OptaxState]):
    """Gradient descent on features by an optimiser of optax, for each model apart.

        g = L'(f, y) z(x),    (u, s) <- transformation.update(g, s, θ),    θ <- θ + u

    Every model has a state s of its own: where it does not take part in an update, as without a
    label, no bit of its weights or of s changes, and counts of steps are counts of its updates.
    Models with supports have no weights to move, and take rules of first order instead.

    Args:
      transformation: an ``optax.GradientTransformation``, as ``optax.adam(1e-2)``, that needs
        nothing besides gradients and weights. It is static: another object is another
        compilation, and :func:`jaxmkl.save` cannot write it. An optimiser by its name, as
        ``jaxmkl.optimizers.FromOptax("adam", 1e-2)``, can be saved, and its learning rate be
        swept and differentiated.
      loss: L, a value of :mod:`jaxmkl.losses`, or one of its names.

    Raises:
      ValueError: if the transformation is neither; by a bank, if it needs more, as values of the
        loss (``optax.lbfgs``, ``optax.polyak_sgd``).

    References:
      Kingma and Ba (2015), Adam: a method for stochastic optimization,
      https://arxiv.org/abs/1412.6980; Duchi, Hazan and Singer (2011), Adaptive subgradient
      methods, https://jmlr.org/papers/v12/duchi11a.html.

    >>> import jaxmkl, numpy as np
    >>> rule = Optax(optax.adam(0.05), loss="huber")
    >>> bank = jaxmkl.models.FeatureModels(jaxmkl.Gaussian([0.5, 2.0]), rule)
    >>> learner, X = jaxmkl.MKL(bank), np.random.default_rng(0).normal(size=(400, 2))
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, np.sin(2 * X[:, 0]))
    >>> bool(outputs.loss[200:].mean() < 0.1)
    True
    """

    transformation: Any = pytree.part(
        FromOptax,
        "an optax.GradientTransformation, as optax.adam(0.01), or jaxmkl.optimizers.FromOptax",
        read=_taken,
    )
    loss: Any = loss_field(default="squared")

    def check(self) -> None:
        require_gradients_alone(self, "transformation", self.transformation)

    def init(
        self, num_kernels: int, num_coordinates: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> OptaxState:
        weights = jnp.zeros((num_kernels, num_outputs, 1, num_coordinates), dtype)

        def typed(leaf: jax.Array) -> jax.Array:
            """A leaf in the learner's dtype if it is floating-point, without a weak type."""
            floating = jnp.issubdtype(leaf.dtype, jnp.floating)
            return leaf.astype(dtype if floating else leaf.dtype)

        optimizer = _for_each(self.transformation.init)(weights)
        return OptaxState(weights, jax.tree.map(typed, optimizer))

    def update(self, state: OptaxState, code: tuple, aux: tuple, feedback: Feedback) -> OptaxState:
        z, values = aux
        slopes = jax.vmap(self.loss.slope)(values, jnp.atleast_1d(feedback.y))
        gradient = beside_weights(slopes) * z[:, None, None]

        def move(gradient: jax.Array, optimizer: PyTree, weights: jax.Array) -> OptaxState:
            step, after = self.transformation.update(gradient, optimizer, weights, None)
            return OptaxState(weights + step.astype(weights.dtype), after)

        after = _for_each(move)(gradient, state.optimizer, state.weights)
        taken = beside_weights(jnp.broadcast_to(feedback.taken(), values.shape))[..., 0]

        def kept(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(taken.reshape(*taken.shape, *(1,) * (new.ndim - 3)), new, old)

        return jax.tree.map(kept, after, state)


def _for_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one model's weights (M,) over models (P, K, R)."""
    return jax.vmap(jax.vmap(jax.vmap(function)))
