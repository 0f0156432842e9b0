"""What learners have in common whose kernel moves in a space of kernels while they learn."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxmkl import _pytree as pytree
from jaxmkl._learner import Algorithm, State
from jaxmkl.kernels import InverseTime, KernelSpace, Optimizer
from jaxmkl.kernels.optimizers import moved
from jaxmkl.losses import LOSSES
from jaxmkl.query import All, Query


@pytree.dataclass
class MovingState(State):
    """State of learners with a moving kernel; B is their budget.

    Attributes:
      zeros: predictions of exactly 0 so far, int32.
      coordinates: of the kernel in its space.
      optimizer: state of the optimizer.
      rows: points of the basis functions (B, D).
      weights: w (B,).
    """

    zeros: jax.Array
    coordinates: Any
    optimizer: Any
    rows: jax.Array
    weights: jax.Array


class MovingInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      parameters: of the kernel, or the newest: a width () or widths (D,), or a kernel.
      support: number of basis functions, int32.
      zero_rate: share of the predictions so far that were exactly 0. A large one warns that
        kernel values underflow: the features need scaling, or the widths are too small.
    """

    parameters: Any
    support: jax.Array
    zero_rate: jax.Array


@pytree.dataclass
class MovingKernel(Algorithm):
    """Base of learners with basis functions in ``state.rows`` and a kernel that moves.

    Args:
      space: where the kernel is sought.
      budget: B, how many basis functions there are at most (static).
      step_size: η of their weights.
      optimizer: how the kernel moves.
      loss: "hinge", "logistic" or "squared" (static).
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.
    """

    space: Any = pytree.part(KernelSpace, "a space of kernels, as jaxmkl.kernels.GaussianWidths()")
    budget: int = pytree.count(200)
    step_size: Any = pytree.positive(0.1)
    optimizer: Any = pytree.part(
        Optimizer, "an optimizer, as jaxmkl.kernels.Optax('adam', 0.01)", InverseTime()
    )
    loss: str = pytree.choice(*LOSSES, default="hinge")
    query: Any = pytree.part(Query, "a query, as jaxmkl.query.Margin(0.1)", All())

    def _start(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: Any
    ) -> dict[str, Any]:
        """Fields of :class:`MovingState`: no basis function, a kernel from the space's starts."""
        coordinates = self.space.draw_start(key, num_inputs, dtype)
        return frame | {
            "zeros": jnp.zeros((), jnp.int32),
            "coordinates": coordinates,
            "optimizer": self.optimizer.init(coordinates),
            "rows": jnp.zeros((self.budget, num_inputs), dtype),
            "weights": jnp.zeros((self.budget,), dtype),
        }

    def _descended(
        self,
        state: Any,
        gradient_of: Callable[[Any], jax.Array],
        at: Any,
        slope: jax.Array,
        wanted: jax.Array,
    ) -> dict[str, Any]:
        """The kernel and its optimizer after a step down L' ∂output/∂θ at ``at``, if wanted."""
        gradient = jax.tree.map(lambda g: slope * g, jax.grad(gradient_of)(at))
        before = state.coordinates, state.optimizer
        after = moved(self.space, self.optimizer, gradient, *before[::-1], state.round)
        coordinates, optimizer = optax.tree.where(wanted, after, before)
        return {"coordinates": coordinates, "optimizer": optimizer}

    def _info(self, state: Any, number: jax.Array) -> MovingInfo:
        """The kernel's parameters, how many basis functions there are, how often f was 0."""
        zeros, rounds = state.zeros, jnp.maximum(state.round, 1)
        dtype = self.dtype(state)
        rate = zeros.astype(dtype) / rounds.astype(dtype)
        return MovingInfo(self.space.parameters(state.coordinates), number, rate)
