"""OKS-SIL: the kernel is chosen from a continuum by gradient, on a hypothesis of constant size.

The hypothesis f(x) = Σ_j w_j k_θ(v_j, x) has B basis functions at most. With the loss L and its
derivative L' = L'(f(x), y), a round on an example (x, y) is, if L' ≠ 0 (hinge: if y f(x) < 1):

    fewer than B:   (x, -η L') is added
    B:              s basis functions are drawn, with probabilities in proportion to k(x, v_j);
                    α = K_s⁺ k_s(x),   δ = k(x, x) - k_s(x)·α    the distance from their span
        δ > ν k(x, x):   the one with the smallest |w| gives its place to (x, -η L')
        else:            w_k <- w_k - η L' α_k for the s drawn   (compensation)
    where one was added or replaced, the kernel moves, with the new w and the new basis:
                    θ <- clip(θ - ρ_t L' ∂f(x)/∂θ)

For the hinge loss and Gaussians exp(-γ r²), θ = γ, the last line is equation (4) of the paper,
γ <- γ - ρ_t y Σ_j w_j k_j r_j²; here ∂f/∂θ comes from ``jax.grad``, whatever the kernel. A round
costs O(B), whatever the number of rounds so far.

The paper draws and judges by kernel values as they are. Where all of them underflow (in double
precision), basis functions are drawn uniformly; f is 0 then, which counts as a mistake.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, Algorithm 1, equations (1) to (4).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import pytree
from jaxmkl.kernels import GaussianWidths, InverseTime, KernelSpace, Optimizer, Scaled
from jaxmkl.kernels.optimizers import as_optimizer
from jaxmkl.learner import Prediction, usable_rows
from jaxmkl.learners.moving_kernel import MovingKernel
from jaxmkl.losses import LOSSES

__all__ = ["HypothesisSketch", "oks_sil"]

TIES = ("first", "oldest")
# Eigenvalues of K_s below this share of the largest count as 0, by the size of a number.
_CUTOFF = {8: 1e-10, 4: 1e-5, 2: 1e-2}


class HypothesisSketchState(NamedTuple):
    """State of :class:`HypothesisSketch`.

    Attributes:
      key: typed PRNG key, never consumed.
      round: examples seen, int32.
      invalid: examples refused because x or y was not finite, int32.
      zeros: predictions of exactly 0 so far, int32.
      coordinates: of the kernel in its space.
      optimizer: state of the optimizer.
      rows: points of the basis functions (B, D).
      weights: w (B,).
      since: rounds in which they came (B,), int32.
      number: how many there are, int32.
    """

    key: jax.Array
    round: jax.Array
    invalid: jax.Array
    zeros: jax.Array
    coordinates: Any
    optimizer: Any
    rows: jax.Array
    weights: jax.Array
    since: jax.Array
    number: jax.Array


class HypothesisSketchInfo(NamedTuple):
    """Diagnostics.

    Attributes:
      parameters: of the kernel: a width () or widths (D,), or a kernel.
      support: number of basis functions, int32.
      zero_rate: share of the predictions so far that were exactly 0. A large one warns that
        kernel values underflow: the features need scaling, or the widths are too small.
    """

    parameters: Any
    support: jax.Array
    zero_rate: jax.Array


class HypothesisSketchCode(NamedTuple):
    """One example: x (D,), uniform numbers (s,), whether x is usable."""

    x: jax.Array
    uniform: jax.Array
    usable: jax.Array


@pytree.dataclass
class HypothesisSketch(MovingKernel):
    """A hypothesis of B basis functions, whose kernel moves in a space of kernels.

    Args:
      space: where the kernel is sought.
      budget: B (static).
      step_size: η.
      threshold: ν in [0, 1].
      num_sampled: s, from 1 to B (static).
      optimizer: how the kernel moves.
      loss: "hinge", "logistic" or "squared" (static).
      ties: which of several smallest |w| goes, "first" in place, or "oldest" (static).

    Raises:
      ValueError: for an argument outside its range.
    """

    space: KernelSpace
    budget: int = pytree.static(default=200)
    step_size: Any = 0.1
    threshold: Any = 0.9
    num_sampled: int = pytree.static(default=3)
    optimizer: Optimizer = InverseTime()
    loss: str = pytree.static(default="hinge")
    ties: str = pytree.static(default="first")

    def __post_init__(self) -> None:
        super().__post_init__()
        s = self.num_sampled
        good = isinstance(s, int | np.integer) and 1 <= s <= self.budget
        pytree.require(bool(good), self, "num_sampled", s, "an integer from 1 to budget")
        object.__setattr__(self, "num_sampled", int(s))
        threshold = pytree.as_leaf(
            self, "threshold", self.threshold, minimum=0.0, maximum=1.0, wanted="in [0, 1]"
        )
        object.__setattr__(self, "threshold", threshold)
        pytree.require(self.ties in TIES, self, "ties", self.ties, "one of " + repr(TIES))

    def init(self, key: jax.Array, num_inputs: int, dtype: Any = None) -> HypothesisSketchState:
        """No basis function; a kernel drawn from the starts of the space.

        Args:
          key: typed PRNG key (``jax.random.key``).
          num_inputs: D.
          dtype: floating dtype of the state; the default float of JAX.
        """
        num_inputs, dtype = self.checked_start(num_inputs, dtype)
        B = self.budget
        coordinates = self.space.draw_start(jax.random.fold_in(key, 1), num_inputs, dtype)
        return HypothesisSketchState(
            key=jax.random.fold_in(key, 0),
            round=jnp.zeros((), jnp.int32),
            invalid=jnp.zeros((), jnp.int32),
            zeros=jnp.zeros((), jnp.int32),
            coordinates=coordinates,
            optimizer=self.optimizer.init(coordinates),
            rows=jnp.zeros((B, num_inputs), dtype),
            weights=jnp.zeros((B,), dtype),
            since=jnp.zeros((B,), jnp.int32),
            number=jnp.zeros((), jnp.int32),
        )

    def encode(self, state: HypothesisSketchState, X: jax.Array) -> HypothesisSketchCode:
        """The rows of a block ``X`` (B, D) and their random numbers."""
        B = X.shape[0]
        usable = usable_rows(X)
        rounds = state.round // B * B + jnp.arange(B, dtype=jnp.int32)

        def uniform(round: jax.Array) -> jax.Array:
            key = jax.random.fold_in(state.key, round)
            # the same numbers in every precision
            return jax.random.uniform(key, (self.num_sampled,), jnp.float32).astype(X.dtype)

        return HypothesisSketchCode(
            jnp.where(usable[:, None], X, 0.0), jax.vmap(uniform)(rounds), usable
        )

    def decide(self, state: HypothesisSketchState, code: HypothesisSketchCode) -> Prediction:
        """The hypothesis' value; every label is wanted."""
        values = self.space.values(state.coordinates, code.x, state.rows)
        f = values.weighted_sum(state.weights).value()
        return Prediction(jnp.where(code.usable, f, jnp.nan), code.usable)

    def learn(
        self,
        state: HypothesisSketchState,
        code: HypothesisSketchCode,
        y: jax.Array,
        asked: jax.Array,
        present: jax.Array,
    ) -> HypothesisSketchState:
        """The basis, the weights, the kernel, if the label was asked for."""
        valid = code.usable & (jnp.isfinite(y) | ~asked)
        active = asked & valid & present
        y = jnp.where(active, y, 0.0)
        x, w, B = code.x, state.weights, self.budget
        places = jnp.arange(B, dtype=jnp.int32)
        values = self.space.values(state.coordinates, x, state.rows)
        f = values.weighted_sum(w).value()
        slope = LOSSES[self.loss].slope(f, y)
        fresh = -jnp.asarray(self.step_size, w.dtype) * slope
        wanted = active & (slope != 0) & jnp.isfinite(fresh)
        full = state.number >= B

        drawn = draw_places(values, places < state.number, code.uniform)
        alpha, share = self._projection(state, x, values, drawn)
        replaces = full & (share > jnp.asarray(self.threshold, w.dtype))
        changed = wanted & (replaces | ~full)
        here = changed & (places == jnp.where(full, self._victim(state), state.number))
        of_drawn = jnp.sum(jnp.where(places[None, :] == drawn[:, None], alpha[:, None], 0), axis=0)
        w = w + jnp.where(wanted & full & ~replaces, fresh * of_drawn, 0.0)
        w = jnp.where(here, fresh, w)

        def output(coordinates: Any) -> jax.Array:
            """The new hypothesis at x, by its kernel; its new point is x."""
            own = self.space.values(coordinates, x, x[None, :])
            of_rows = self.space.values(coordinates, x, state.rows)
            values = jax.tree.map(lambda a, b: jnp.where(here, a, b), own, of_rows)
            return values.weighted_sum(w).value()

        coordinates, optimizer = self._descended(state, slope, output, state.coordinates)

        def where_changed(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(changed, new, old)

        return HypothesisSketchState(
            key=state.key,
            round=state.round + present.astype(jnp.int32),
            invalid=state.invalid + (present & ~valid).astype(jnp.int32),
            zeros=state.zeros + (present & code.usable & (f == 0)).astype(jnp.int32),
            coordinates=jax.tree.map(where_changed, coordinates, state.coordinates),
            optimizer=jax.tree.map(where_changed, optimizer, state.optimizer),
            rows=state.rows.at[jnp.where(jnp.any(here), jnp.argmax(here), B)].set(x, mode="drop"),
            weights=w,
            since=jnp.where(here, state.round, state.since),
            number=state.number + (changed & ~full).astype(jnp.int32),
        )

    def _projection(
        self, state: HypothesisSketchState, x: jax.Array, values: Scaled, drawn: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """α (s,) of k(x, ·) on the drawn ones, and the share of |k(x, ·)|² that is left over."""
        rows = state.rows[drawn]
        among = jax.vmap(lambda row: self.space.values(state.coordinates, row, rows).plain())(rows)
        own = self.space.values(state.coordinates, x, x[None, :])
        of_drawn = jax.tree.map(lambda leaf: leaf[drawn], values).plain()
        inverse = jnp.linalg.pinv(among, rtol=_CUTOFF[x.dtype.itemsize], hermitian=True)
        alpha = jnp.dot(inverse, of_drawn, precision=jax.lax.Precision.HIGHEST)
        explained = jnp.dot(of_drawn, alpha, precision=jax.lax.Precision.HIGHEST)
        itself = own.plain()[0]
        return alpha, 1.0 - explained / jnp.where(itself > 0, itself, 1.0)

    def _victim(self, state: HypothesisSketchState) -> jax.Array:
        """The place with the smallest |w|."""
        size = jnp.abs(state.weights)
        if self.ties == "first":
            return jnp.argmin(size)
        age = jnp.where(size <= jnp.min(size), state.since, jnp.iinfo(jnp.int32).max)
        return jnp.argmin(age)

    def info(self, state: HypothesisSketchState) -> HypothesisSketchInfo:
        """The kernel's parameters, how many basis functions there are, how often f was 0."""
        return HypothesisSketchInfo(
            self.space.parameters(state.coordinates),
            state.number,
            self._zero_rate(state),
        )


def draw_places(values: Scaled, taken: jax.Array, uniform: jax.Array) -> jax.Array:
    """Places (s,) drawn without replacement, one for each of the uniform numbers (s,).

    The probability of a place that is ``taken`` (B,) is in proportion to its kernel value; where
    the values left are all 0, it is the same for all that are left.
    """
    places, drawn = jnp.arange(taken.shape[0]), []
    values = jax.lax.stop_gradient(values)
    for u in uniform:
        p = values.times_exp(values.smallest_exponent(taken))
        p = jnp.where(taken, jnp.maximum(p, 0.0), 0.0)
        p = jnp.where(jnp.any(p > 0), p, taken.astype(p.dtype))
        total = jnp.cumsum(p)
        place = jnp.argmax(total > u * total[-1])
        drawn.append(place)
        taken = taken & (places != place)
    return jnp.stack(drawn).astype(jnp.int32)


def oks_sil(
    space: KernelSpace | None = None,
    *,
    budget: int = 200,
    step_size: Any = 0.1,
    threshold: Any = 0.9,
    num_sampled: int = 3,
    optimizer: Any = None,
    loss: str = "hinge",
    ties: str = "first",
) -> HypothesisSketch:
    """OKS-SIL: a hypothesis of constant size, whose kernel moves by gradient.

    The formulas are those of :mod:`jaxmkl.learners.oks_sil`.

    Args:
      space: where the kernel is sought; by default Gaussians with one width in [2^-6.5, 2^5.5].
      budget: B, basis functions (the paper: 150 for streams below 10^4 examples, else 200).
      step_size: η.
      threshold: ν in [0, 1]: smaller, more basis functions are replaced.
      num_sampled: s, how many basis functions a new one is compared with.
      optimizer: how the kernel moves; by default :class:`~jaxmkl.InverseTime`, the step 1/t. Or
        an :class:`~jaxmkl.Optax`, or any ``optax.GradientTransformation``.
      loss: "hinge", "logistic" or "squared".
      ties: of several smallest |w|, the "first" in place goes, as in the paper, or the "oldest".

    Raises:
      ValueError: for an argument outside its range.

    References:
      Zhang and Liao (2020), Algorithm 1.

    >>> import jax, jaxmkl
    >>> X = jax.random.uniform(jax.random.key(0), (2000, 2))
    >>> y = jax.numpy.sign(jax.numpy.sin(6 * X[:, 0]) * jax.numpy.sin(6 * X[:, 1]))
    >>> learner = oks_sil(jaxmkl.GaussianWidths(start=1.0), step_size=1.0, budget=100)
    >>> state = learner.init(jax.random.key(1), num_inputs=2)
    >>> state, outputs = jaxmkl.run(learner, state, X, y)
    >>> info = learner.info(state)
    >>> bool(info.parameters < 0.7), int(info.support)  # it started with a width of 1
    (True, 100)
    """
    space = GaussianWidths() if space is None else space
    return HypothesisSketch(
        space, budget, step_size, threshold, num_sampled, as_optimizer(optimizer), loss, ties
    )
