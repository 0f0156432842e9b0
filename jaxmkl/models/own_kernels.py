"""OKL-GD: kernel online gradient descent whose new centres get a kernel that has moved.

Every centre keeps the kernel it came with, f(x) = Σ_j w_j k_{θ_j}(v_j, x). With the loss L and
L' = L'(f(x), y), a round on an example (x, y) is, if L' ≠ 0 (hinge: if y f(x) < 1):

    θ <- clip(θ - ρ_t L' w_n ∂k_{θ_n}(v_n, x)/∂θ_n)       n the newest centre
    (x, -η L', θ) becomes a centre; of M centres the oldest goes

References:
  Chen, Liang, Zheng and Príncipe (2016), Kernel least mean square with adaptive kernel size;
  Zhang and Liao (2020), section 6: with the hinge loss, and M = 2000.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import take
from jaxmkl._learner import Round
from jaxmkl.kernels import Scaled
from jaxmkl.losses import LOSSES
from jaxmkl.models.moving import MovingInfo, MovingKernel, MovingState
from jaxmkl.query import Forecast


@pytree.dataclass
class OwnKernelsState(MovingState):
    """State of :class:`OwnKernels`; M is the budget.

    The centre of number n is in place n mod M; ``coordinates`` are what the next one starts from.

    Attributes:
      own: coordinates of the centres' kernels, with leading axis M.
      came: how many centres have come so far, int32.
    """

    own: Any
    came: jax.Array


@pytree.dataclass
class OwnKernels(MovingKernel):
    """Kernel online gradient descent, every centre with a kernel of its own.

    Args:
      space, step_size, optimizer, loss, query: as of :class:`~jaxmkl.models.moving.MovingKernel`.
      budget: M (static).

    Raises:
      ValueError: for an argument outside its range.
    """

    budget: int = pytree.count(2000)

    def begin(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: Any
    ) -> OwnKernelsState:
        """No centre; a kernel drawn from the starts of the space."""
        start = self._start(frame, key, num_inputs, dtype)

        def repeated(leaf: jax.Array) -> jax.Array:
            return jnp.tile(leaf[None], (self.budget,) + (1,) * leaf.ndim)

        own = jax.tree.map(repeated, start["coordinates"])
        return OwnKernelsState(**start, own=own, came=jnp.zeros((), jnp.int32))

    def encode(self, state: OwnKernelsState, X: jax.Array, keys: jax.Array) -> jax.Array:
        """The rows of a block ``X`` (B, D): kernels are not known before their turn."""
        return X

    def _kernel(self, coordinates: Any, x: jax.Array, row: jax.Array) -> Scaled:
        """The kernel of one centre, a number."""
        return take(self.space.values(coordinates, x, row[None, :]), 0)

    def forecast(self, state: OwnKernelsState, code: jax.Array) -> Forecast:
        values = jax.vmap(self._kernel, in_axes=(0, None, 0))(state.own, code, state.rows)
        return Forecast.of_one(values.weighted_sum(state.weights).value())

    def learn(
        self, state: OwnKernelsState, code: jax.Array, forecast: Forecast, round: Round
    ) -> OwnKernelsState:
        """Move the kernel, add a centre, if there is a label."""
        x, M = code, self.budget
        slope = LOSSES[self.loss].slope(forecast.value, round.y)
        fresh = -jnp.asarray(self.step_size, x.dtype) * slope
        wanted = round.learns & (slope != 0) & jnp.isfinite(fresh)
        # before the first centre its place holds the weight 0
        newest = (state.came - 1) % M

        def output(coordinates: Any) -> jax.Array:
            """The newest centre's part of the hypothesis at x, by its kernel."""
            kernel = self._kernel(coordinates, x, state.rows[newest])
            return state.weights[newest] * kernel.plain()

        of_newest = take(state.own, newest)
        kernel = self._descended(state, output, of_newest, slope, wanted)
        place = jnp.where(wanted, state.came % M, M)

        def placed(old: jax.Array, new: jax.Array) -> jax.Array:
            return old.at[place].set(new, mode="drop")

        return state.replace(
            **kernel,
            zeros=state.zeros + (round.seen & (forecast.value == 0)).astype(jnp.int32),
            rows=placed(state.rows, x),
            weights=placed(state.weights, fresh),
            own=jax.tree.map(placed, state.own, kernel["coordinates"]),
            came=state.came + wanted.astype(jnp.int32),
        )

    def info(self, state: OwnKernelsState) -> MovingInfo:
        """The newest kernel's parameters, how many centres there are, how often f was 0."""
        return self._info(state, jnp.minimum(state.came, self.budget))
