"""OKL-GD: kernel online gradient descent that adapts the kernel of each new centre.

Every centre keeps the kernel it was added with, f(x) = Σ_j w_j k_{θ_j}(v_j, x). With the loss L
and L' = L'(f(x), y), a round on an example (x, y) is, if L' ≠ 0 (hinge: if y f(x) < 1):

    θ <- clip(θ - ρ_t L' w_n ∂k_{θ_n}(v_n, x)/∂θ_n)       n the newest centre
    (x, -η L', θ) becomes a centre; if there are M centres, the oldest is removed

References:
  Chen, Liang, Zheng and Príncipe (2016), Kernel least mean square with adaptive kernel size;
  Zhang and Liao (2020), section 6: with the hinge loss, and M = 2000.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import count_on, take
from jaxmkl._feedback import Feedback
from jaxmkl._types import PyTree
from jaxmkl.kernels import Scaled
from jaxmkl.learners.moving import MovingKernel, MovingState
from jaxmkl.query import Forecast


@pytree.dataclass
class OwnKernelsState(MovingState):
    """State of :class:`OwnKernels`; the next centre's kernel starts from ``coordinates``."""

    own: PyTree
    """Coordinates of the centres' kernels, with leading axis M; centre n is at n mod M."""
    came: jax.Array
    """Number of centres added so far, int32."""

    @property
    def number(self) -> jax.Array:
        """Number of centres."""
        return jnp.minimum(self.came, self.weights.shape[-1])


@pytree.dataclass
class OwnKernels(MovingKernel[OwnKernelsState, jax.Array, jax.Array]):
    """Kernel online gradient descent, every centre with a kernel of its own.

    Args:
      space, step_size, optimizer, loss, query: as for
        :class:`jaxmkl.learners.moving.MovingKernel`, with the same errors.
      budget: M, the largest number of centres (static).
    """

    budget: int = pytree.count(default=2000)

    def init_own(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> OwnKernelsState:
        start = self._start(frame, key, num_inputs, dtype)
        own = jax.tree.map(lambda c: jnp.repeat(c[None], self.budget, 0), start["coordinates"])
        return OwnKernelsState(**start, own=own, came=jnp.zeros((), jnp.int32))

    def encode_own(self, state: OwnKernelsState, X: jax.Array, keys: jax.Array) -> jax.Array:
        """The rows of a block: each round's kernels are only known when its turn comes."""
        return X

    def _kernel(self, coordinates: PyTree, x: jax.Array, row: jax.Array) -> Scaled:
        return take(self.space.values(coordinates, x, row[None, :]), 0)

    def predict_own(self, state: OwnKernelsState, code: jax.Array) -> tuple[Forecast, jax.Array]:
        values = jax.vmap(self._kernel, in_axes=(0, None, 0))(state.own, code, state.rows)
        value = values.weighted_sum(state.weights).value()
        return Forecast.of_one(value), value

    def update_own(
        self, state: OwnKernelsState, code: jax.Array, aux: jax.Array, feedback: Feedback
    ) -> OwnKernelsState:
        """Move the kernel and add a centre, if there is a label."""
        x, M = code, self.budget
        slope, fresh, wanted = self._step(aux, feedback)
        # before the first centre its place holds the weight 0
        newest = (state.came - 1) % M

        def output(coordinates: PyTree) -> jax.Array:
            """The newest centre's part of the hypothesis at x, by its kernel."""
            kernel = self._kernel(coordinates, x, state.rows[newest])
            return state.weights[newest] * kernel.plain()

        at = take(state.own, newest)
        state = self._descended(state, jax.grad(output), at, slope, wanted)
        place = jnp.where(wanted, state.came % M, M)

        def placed(old: jax.Array, new: jax.Array) -> jax.Array:
            return old.at[place].set(new, mode="drop")

        return state.replace(
            zeros=state.zeros + (feedback.seen & (aux == 0)).astype(jnp.int32),
            rows=placed(state.rows, x),
            weights=placed(state.weights, fresh),
            own=jax.tree.map(placed, state.own, state.coordinates),
            came=count_on(state.came, wanted),
        )
