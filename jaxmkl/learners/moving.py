"""The base of learners whose kernel moves in a space of kernels while they learn."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._algorithm import Algorithm, OwnState, State
from jaxmkl._feedback import Feedback
from jaxmkl._types import Aux, Code, Number, PyTree
from jaxmkl.kernels import KernelSpace
from jaxmkl.losses import loss_field
from jaxmkl.models.supports.protocol import reach_of_all
from jaxmkl.optimizers import InverseTime, Optimizer, require_gradients_alone
from jaxmkl.query import All, Query
from jaxmkl.updates.first_order import warn_of_step_size


@pytree.dataclass
class MovingState(State):
    """State of learners with a moving kernel; B is their budget."""

    zeros: jax.Array
    """Predictions of exactly 0 so far, int32."""
    coordinates: PyTree
    """Coordinates of the kernel in its space."""
    optimizer: PyTree
    """State of the optimizer."""
    rows: jax.Array
    """Points of the basis functions (B, D)."""
    weights: jax.Array
    """w (B,)."""


class MovingInfo(NamedTuple):
    """Diagnostics."""

    parameters: PyTree
    """Parameters of the kernel, or the newest: a width () or widths (D,), or a kernel."""
    support: jax.Array
    """Number of basis functions, int32."""
    zero_rate: jax.Array
    """Share of the predictions so far that were exactly 0. A large one warns that kernel values
    underflow: the features need scaling, or the widths are too small."""


@pytree.dataclass
class MovingKernel(Algorithm[OwnState, Code, Aux]):
    """Base of learners with basis functions in ``state.rows`` and a kernel that moves.

    Args:
      space: the space of kernels that is searched.
      budget: B, the largest number of basis functions (static).
      step_size: η of their weights.
      optimizer: how the kernel moves.
      loss: L, a value of :mod:`jaxmkl.losses`, or one of its names.
      query: when a label is asked for.

    Raises:
      ValueError: for an argument outside its range.

    Warns:
      RuntimeWarning: for a step size that cannot converge (:class:`jaxmkl.updates.OGD`).
    """

    space: KernelSpace = pytree.part(
        KernelSpace, "a space of kernels, as jaxmkl.kernels.GaussianWidths()"
    )
    budget: int = pytree.count(default=200)
    step_size: Number = pytree.positive(default=0.1)
    optimizer: Optimizer = pytree.part(
        Optimizer,
        "an optimizer, as jaxmkl.optimizers.FromOptax('adam', 0.01)",
        default=InverseTime(),
    )
    loss: Any = loss_field(default="hinge")
    query: Query = pytree.part(Query, "a query, as jaxmkl.query.Margin(0.1)", default=All())

    def __post_init__(self) -> None:
        if self.space.unit:
            name = f"{type(self).__name__}: step_size"
            warn_of_step_size(name, self.step_size, self.loss, 1.0)

    def _start(
        self, frame: dict, key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> dict[str, Any]:
        """Fields of :class:`MovingState`: no basis function, a kernel from the space's starts."""
        coordinates = self.space.draw_start(key, num_inputs, dtype)
        require_gradients_alone(self, "optimizer", self.optimizer, coordinates)
        return frame | {
            "zeros": jnp.zeros((), jnp.int32),
            "coordinates": coordinates,
            "optimizer": self.optimizer.init(coordinates),
            "rows": jnp.zeros((self.budget, num_inputs), dtype),
            "weights": jnp.zeros((self.budget,), dtype),
        }

    def _step(
        self, value: jax.Array, feedback: Feedback
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """L', the weight -η L' of a new basis function, and whether a step is taken."""
        slope = self.loss.slope(value, feedback.y)
        fresh = -jnp.asarray(self.step_size, slope.dtype) * slope
        return slope, fresh, feedback.updates & (slope != 0) & jnp.isfinite(fresh)

    def _descended(
        self,
        state: PyTree,
        derivative: Callable[[PyTree], PyTree],
        at: PyTree,
        slope: jax.Array,
        wanted: jax.Array,
    ) -> PyTree:
        """The state after a step of the kernel down L' ∂output/∂θ at ``at``, within the space.

        The state is unchanged unless the step is ``wanted``. Derivatives may overflow for inputs
        near their bound: entries of the step that are not finite count as 0, and entries of the
        optimizer's new state that are not finite keep their old value.
        """

        def taken(coordinate: jax.Array, step: jax.Array) -> jax.Array:
            return coordinate + jnp.where(jnp.isfinite(step), step, 0.0).astype(coordinate.dtype)

        def kept(new: jax.Array, old: jax.Array) -> jax.Array:
            floating = jnp.issubdtype(new.dtype, jnp.floating)
            return jnp.where(jnp.isfinite(new), new, old) if floating else new

        gradient = jax.tree.map(lambda g: slope * g, derivative(at))
        given = state.optimizer, state.coordinates, state.round
        step, after = self.optimizer.update(gradient, *given)
        after = jax.tree.map(kept, after, state.optimizer)
        moved = self.space.clip(jax.tree.map(taken, state.coordinates, step)), after
        before = state.coordinates, state.optimizer
        coordinates, optimizer = optax.tree.where(wanted, moved, before)
        return state.replace(coordinates=coordinates, optimizer=optimizer)

    def info(self, state: PyTree) -> MovingInfo:
        dtype, rounds = self.dtype(state), jnp.maximum(state.round, 1)
        rate = state.zeros.astype(dtype) / rounds.astype(dtype)
        return MovingInfo(self.space.parameters(state.coordinates), state.number, rate)


@abilities.reach.register
def _(learner: MovingKernel, rounds: jax.Array) -> jax.Array | None:
    """The sum of all steps, since basis functions may be removed.

    This is not a proven bound if the kernel moves: weights that cancelled under the old kernel
    need not cancel under the new one. Far larger values still mean that the learner diverged.
    """
    steepest = learner.loss.steepest
    if steepest is None or not learner.space.unit:
        return None
    return reach_of_all(jnp.asarray(learner.step_size, rounds.dtype) * steepest, rounds)
