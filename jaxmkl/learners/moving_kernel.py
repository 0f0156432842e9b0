"""What learners have in common whose kernel moves in a space of kernels while they learn."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import KernelSpace, Optimizer
from jaxmkl.kernels.optimizers import moved
from jaxmkl.learner import Learner
from jaxmkl.losses import LOSSES

__all__ = ["MovingKernel"]


class MovingKernel(Learner):
    """Base of learners with centres in ``state.rows`` and a kernel in ``state.coordinates``."""

    space: KernelSpace
    budget: int
    step_size: Any
    optimizer: Optimizer
    loss: str

    def __post_init__(self) -> None:
        wanted = {
            "space": ("clip", "a space of kernels, as jaxmkl.GaussianWidths()"),
            "optimizer": (
                "update",
                "an optimizer, as jaxmkl.InverseTime() or jaxmkl.Optax('adam', 0.01)",
            ),
        }
        for name, (method, text) in wanted.items():
            part = getattr(self, name)
            good = not isinstance(part, type) and callable(getattr(part, method, None))
            pytree.require(good and callable(part.init), self, name, part, text)
        good = isinstance(self.budget, int | np.integer) and self.budget >= 1
        pytree.require(bool(good), self, "budget", self.budget, "an integer of at least 1")
        object.__setattr__(self, "budget", int(self.budget))
        text = "one of " + ", ".join(map(repr, LOSSES))
        pytree.require(self.loss in LOSSES, self, "loss", self.loss, text)
        step_size = pytree.as_leaf(
            self,
            "step_size",
            self.step_size,
            minimum=0.0,
            exclusive=True,
            wanted="a positive finite number",
        )
        object.__setattr__(self, "step_size", step_size)

    @property
    def task(self) -> str:  # type: ignore[override]
        """That of the loss."""
        return LOSSES[self.loss].task

    def num_inputs(self, state: Any) -> int:
        """D."""
        return state.rows.shape[-1]

    def dtype(self, state: Any) -> Any:
        """Floating dtype of the state."""
        return state.weights.dtype

    def loss_value(self, prediction: jax.Array, y: jax.Array) -> jax.Array:
        """The loss of a prediction."""
        return LOSSES[self.loss].value(prediction, y)

    def _descended(
        self, state: Any, slope: jax.Array, output: Callable[[Any], jax.Array], at: Any
    ) -> tuple[Any, Any]:
        """Coordinates and the optimizer's state after a step down L' ∂output/∂θ at ``at``."""
        gradient = jax.tree.map(lambda g: slope * g, jax.grad(output)(at))
        return moved(
            self.space, self.optimizer, gradient, state.optimizer, state.coordinates, state.round
        )

    def _zero_rate(self, state: Any) -> jax.Array:
        """The share of the predictions so far that were exactly 0."""
        dtype = self.dtype(state)
        return state.zeros.astype(dtype) / jnp.maximum(state.round, 1).astype(dtype)
