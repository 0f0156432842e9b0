"""OKL-GD: kernel online gradient descent whose new centres get a kernel that has moved.

Every centre keeps the kernel it came with, f(x) = Σ_j w_j k_{θ_j}(v_j, x). With the loss L and
L' = L'(f(x), y), a round on an example (x, y) is, if L' ≠ 0 (hinge: if y f(x) < 1):

    θ <- clip(θ - ρ_t L' w_n ∂k_{θ_n}(v_n, x)/∂θ_n)       n the newest centre
    (x, -η L', θ) becomes a centre; of M centres the oldest goes

References:
  Chen, Liang, Zheng and Príncipe (2016), Kernel least mean square with adaptive kernel size;
  Zhang and Liao (2020), section 6: with the hinge loss, and M = 2000.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmkl import pytree
from jaxmkl.kernels import GaussianWidths, InverseTime, KernelSpace, Optimizer, Scaled
from jaxmkl.kernels.optimizers import as_optimizer
from jaxmkl.learner import Prediction, usable_rows
from jaxmkl.learners.moving_kernel import MovingKernel
from jaxmkl.losses import LOSSES

__all__ = ["OwnKernels", "okl_gd"]


class OwnKernelsState(NamedTuple):
    """State of :class:`OwnKernels`; M is the budget.

    Attributes:
      key: typed PRNG key, never consumed.
      round: examples seen, int32.
      invalid: examples refused because x or y was not finite, int32.
      zeros: predictions of exactly 0 so far, int32.
      coordinates: of the kernel that the next centre starts from.
      optimizer: state of the optimizer.
      rows: centres (M, D), the one of number n in place n mod M.
      weights: w (M,).
      own: coordinates of the centres' kernels, with leading axis M.
      came: how many centres have come so far, int32.
    """

    key: jax.Array
    round: jax.Array
    invalid: jax.Array
    zeros: jax.Array
    coordinates: Any
    optimizer: Any
    rows: jax.Array
    weights: jax.Array
    own: Any
    came: jax.Array


class OwnKernelsInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      parameters: of the newest kernel: a width () or widths (D,), or a kernel.
      support: number of centres, int32.
      zero_rate: share of the predictions so far that were exactly 0. A large one warns that
        kernel values underflow: the features need scaling, or the widths are too small.
    """

    parameters: Any
    support: jax.Array
    zero_rate: jax.Array


class OwnKernelsCode(NamedTuple):
    """One example: x (D,), and whether it is usable."""

    x: jax.Array
    usable: jax.Array


@pytree.dataclass
class OwnKernels(MovingKernel):
    """Kernel online gradient descent, every centre with a kernel of its own.

    Args:
      space: where kernels are sought.
      budget: M (static).
      step_size: η.
      optimizer: how the kernel moves.
      loss: "hinge", "logistic" or "squared" (static).

    Raises:
      ValueError: for an argument outside its range.
    """

    space: KernelSpace
    budget: int = pytree.static(default=2000)
    step_size: Any = 0.1
    optimizer: Optimizer = InverseTime()
    loss: str = pytree.static(default="hinge")

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> OwnKernelsState:
        """No centre; a kernel drawn from the starts of the space.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D.
          dtype: floating dtype of the state; the default float of JAX.
        """
        num_inputs, dtype = self.checked_start(num_inputs, dtype)
        M = self.budget
        coordinates = self.space.draw_start(jax.random.fold_in(key, 1), num_inputs, dtype)

        def repeated(leaf: jax.Array) -> jax.Array:
            return jnp.tile(leaf[None], (M,) + (1,) * leaf.ndim)

        return OwnKernelsState(
            key=jax.random.fold_in(key, 0),
            round=jnp.zeros((), jnp.int32),
            invalid=jnp.zeros((), jnp.int32),
            zeros=jnp.zeros((), jnp.int32),
            coordinates=coordinates,
            optimizer=self.optimizer.init(coordinates),
            rows=jnp.zeros((M, num_inputs), dtype),
            weights=jnp.zeros((M,), dtype),
            own=jax.tree.map(repeated, coordinates),
            came=jnp.zeros((), jnp.int32),
        )

    def encode(self, state: OwnKernelsState, X: jax.Array) -> OwnKernelsCode:
        """The rows of a block ``X`` (B, D)."""
        usable = usable_rows(X)
        return OwnKernelsCode(jnp.where(usable[:, None], X, 0.0), usable)

    def _kernel(self, coordinates: Any, x: jax.Array, row: jax.Array) -> Scaled:
        """The kernel of one centre (D,)."""
        values = self.space.values(coordinates, x, row[None, :])
        return jax.tree.map(lambda leaf: leaf[0], values)

    def _value(self, state: OwnKernelsState, x: jax.Array) -> jax.Array:
        values = jax.vmap(self._kernel, in_axes=(0, None, 0))(state.own, x, state.rows)
        return values.weighted_sum(state.weights).value()

    def decide(self, state: OwnKernelsState, code: OwnKernelsCode) -> Prediction:
        """The hypothesis' value; every label is wanted."""
        f = self._value(state, code.x)
        return Prediction(jnp.where(code.usable, f, jnp.nan), code.usable)

    def learn(
        self,
        state: OwnKernelsState,
        code: OwnKernelsCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> OwnKernelsState:
        """Move the kernel, add a centre, if the label was asked for."""
        valid = code.usable & (jnp.isfinite(y) | ~asked)
        active = asked & valid & present
        y = jnp.where(active, y, 0.0)
        x, M = code.x, self.budget
        f = self._value(state, x)
        slope = LOSSES[self.loss].slope(f, y)
        fresh = -jnp.asarray(self.step_size, x.dtype) * slope
        wanted = active & (slope != 0) & jnp.isfinite(fresh)
        # before the first centre its place holds the weight 0
        newest = (state.came - 1) % M

        def output(coordinates: Any) -> jax.Array:
            """The newest centre's part of the hypothesis at x, by its kernel."""
            kernel = self._kernel(coordinates, x, state.rows[newest])
            return state.weights[newest] * kernel.plain()

        of_newest = jax.tree.map(lambda leaf: leaf[newest], state.own)
        coordinates, optimizer = self._descended(state, slope, output, of_newest)
        place = jnp.where(wanted, state.came % M, M)

        def where_wanted(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(wanted, new, old)

        def placed(old: jax.Array, new: jax.Array) -> jax.Array:
            return old.at[place].set(new, mode="drop")

        return OwnKernelsState(
            key=state.key,
            round=state.round + present.astype(jnp.int32),
            invalid=state.invalid + (present & ~valid).astype(jnp.int32),
            zeros=state.zeros + (present & code.usable & (f == 0)).astype(jnp.int32),
            coordinates=jax.tree.map(where_wanted, coordinates, state.coordinates),
            optimizer=jax.tree.map(where_wanted, optimizer, state.optimizer),
            rows=placed(state.rows, x),
            weights=placed(state.weights, fresh),
            own=jax.tree.map(placed, state.own, coordinates),
            came=state.came + wanted.astype(jnp.int32),
        )

    def info(self, state: OwnKernelsState) -> OwnKernelsInfo:
        """The newest kernel's parameters, how many centres there are, how often f was 0."""
        return OwnKernelsInfo(
            self.space.parameters(state.coordinates),
            jnp.minimum(state.came, self.budget),
            self._zero_rate(state),
        )


def okl_gd(
    space: KernelSpace | None = None,
    *,
    budget: int = 2000,
    step_size: Any = 0.1,
    optimizer: Any = None,
    loss: str = "hinge",
) -> OwnKernels:
    """OKL-GD: kernel online gradient descent; every centre keeps the kernel it came with.

    The formulas are those of :mod:`jaxmkl.learners.okl_gd`.

    Args:
      space: where kernels are sought; by default Gaussians with one width in [2^-6.5, 2^5.5],
        whose gradient is taken by the width itself.
      budget: M, centres; the oldest goes.
      step_size: η.
      optimizer: how the kernel moves; as for :func:`jaxmkl.oks_sil`.
      loss: "hinge", "logistic" or "squared".

    Raises:
      ValueError: for an argument outside its range.

    References:
      Chen, Liang, Zheng and Príncipe (2016); Zhang and Liao (2020), Table 2.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (1000, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> space = jaxmkl.GaussianWidths(start=0.5, coordinate="bandwidth")
    >>> learner = okl_gd(space, budget=500)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> mistaken = y * outputs.prediction <= 0
    >>> bool(mistaken[-200:].mean() < 0.5 * mistaken[:200].mean())
    True
    """
    space = GaussianWidths(coordinate="bandwidth") if space is None else space
    return OwnKernels(space, budget, step_size, as_optimizer(optimizer), loss)
