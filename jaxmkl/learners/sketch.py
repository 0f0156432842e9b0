"""OKS-SIL: gradient steps choose the kernel from a continuum; the hypothesis has a constant size.

The hypothesis f(x) = Σ_j w_j k_θ(v_j, x) has B basis functions at most. With the loss L and its
derivative L' = L'(f(x), y), a round on an example (x, y) is, if L' ≠ 0 (hinge: if y f(x) < 1):

    fewer than B:   (x, -η L') is added
    B:              s basis functions are drawn, with probabilities in proportion to k(x, v_j);
                    α = K_s⁺ k_s(x),   δ = k(x, x) - k_s(x)·α    the distance from their span
        δ > ν k(x, x):   (x, -η L') replaces the one with the smallest |w|
        else:            w_k <- w_k - η L' α_k for the s drawn   (compensation)
    where one was added or replaced, the kernel moves, with the new w and the new basis:
                    θ <- clip(θ - ρ_t L' ∂f(x)/∂θ)

For the hinge loss and Gaussians exp(-γ r²), θ = γ, the last line is line 19 of Algorithm 1,
γ <- γ - ρ_t y Σ_j w_j k_j r_j²; here ∂f/∂θ comes from ``jax.grad``, whatever the kernel.

The text of the paper takes derivatives of the loss elsewhere (``gradients="sketches"``). A round
still learns where L'(f(x), y) ≠ 0, but that derivative is replaced by

    for the weights     L'(f^b(x), y)    f^b: the new basis with the old weights, so that x has the
                                         weight of the one that it replaces; one added has 0
    for the kernel      L'(f^w(x), y)    f^w: the new basis with the new weights

Algorithm 1 has no factor in line 19 that is 0 where y f^w(x) >= 1, although the text calls it
equivalent to (4), the gradient at f^w. With the best step size both come near the printed
figures: in % of mistakes on german, svmguide3 and spambase (10 orders, features not scaled) 29.7,
21.0 and 29.0 at the prediction, 29.7, 21.1 and 29.0 at the sketches.

A round costs O(B). Where all kernel values underflow (in double precision), basis functions are
drawn uniformly; f is 0 then, which counts as a mistake. The paper takes the values as they are.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, Algorithm 1, equations (1) to (4).
"""

from collections.abc import Callable
from functools import partial, reduce
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._blocks import sum_of, uniform
from jaxmkl._feedback import Feedback
from jaxmkl._types import Number, PyTree
from jaxmkl.kernels import Scaled, scaled
from jaxmkl.learners.moving import MovingKernel, MovingState
from jaxmkl.query import Forecast

# Eigenvalues of K_s below this share of the largest count as 0, by the bytes of a number.
_CUTOFF = {8: 1e-10, 4: 1e-5, 2: 1e-2}
# Sweeps of Jacobi's method over all pairs, after which only rounding errors are left, and the
# largest s for which it is written out.
_SWEEPS, _WRITTEN_OUT = {8: 5, 4: 4, 2: 3}, 4


@pytree.dataclass
class HypothesisSketchState(MovingState):
    """State of :class:`HypothesisSketch`."""

    since: jax.Array
    """Rounds in which the basis functions were added (B,), int32."""
    number: jax.Array
    """Number of basis functions, int32."""


@pytree.dataclass
class HypothesisSketch(MovingKernel[HypothesisSketchState, tuple, tuple]):
    """A hypothesis of B basis functions, whose kernel moves in a space of kernels.

    Args:
      space, budget, step_size, optimizer, loss, query: as for
        :class:`jaxmkl.learners.moving.MovingKernel`, with the same errors.
      threshold: ν in [0, 1].
      num_sampled: s, from 1 to B (static).
      ties: which one is removed if several |w| are the smallest, the "first" in place or the
        "oldest" (static).
      gradients: where derivatives of the loss are taken, at the "prediction" or at the "sketches"
        f^b and f^w (static).
    """

    threshold: Number = pytree.share(default=0.9)
    num_sampled: int = pytree.count(default=3)
    ties: str = pytree.choice("first", "oldest", default="first")
    gradients: str = pytree.choice("prediction", "sketches", default="prediction")

    def __post_init__(self) -> None:
        super().__post_init__()
        s = self.num_sampled
        pytree.require(s <= self.budget, self, "num_sampled", s, "an integer from 1 to budget")

    def init_own(
        self, frame: dict[str, Any], key: jax.Array, num_inputs: int, dtype: DTypeLike
    ) -> HypothesisSketchState:
        start = self._start(frame, key, num_inputs, dtype)
        since, number = jnp.zeros((self.budget,), jnp.int32), jnp.zeros((), jnp.int32)
        return HypothesisSketchState(**start, since=since, number=number)

    def encode_own(
        self, state: HypothesisSketchState, X: jax.Array, keys: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Examples, and random numbers (s,) for each."""
        return X, jax.vmap(lambda key: uniform(key, (self.num_sampled,), X.dtype))(keys)

    def predict_own(self, state: HypothesisSketchState, code: tuple) -> tuple[Forecast, tuple]:
        """The value of the hypothesis, and the kernel values (B,) that it sums."""
        values = self.space.values(state.coordinates, code[0], state.rows)
        total = values.weighted_sum(state.weights)
        value = total.value()
        return Forecast.of_one(value), (value, values, total.exponent)

    def update_own(
        self, state: HypothesisSketchState, code: tuple, aux: tuple, feedback: Feedback
    ) -> HypothesisSketchState:
        (x, noise), (value, values, exponent), w, B = code, aux, state.weights, self.budget
        places = jnp.arange(B, dtype=jnp.int32)
        slope, fresh, wanted = self._step(value, feedback)
        full = state.number >= B

        # 1. whether x enters the basis, which one it replaces, or how others compensate
        drawn = draw_places(values, places < state.number, noise)
        alpha, share = self._projection(state, x, drawn)
        replaces = full & (share > jnp.asarray(self.threshold, w.dtype))
        size = jnp.abs(w)
        if self.ties == "oldest":
            size = jnp.where(size <= jnp.min(size), state.since, jnp.iinfo(jnp.int32).max)
        victim = jnp.argmin(size).astype(jnp.int32)
        if self.gradients == "sketches":
            # f^b: x has the weight of the one that it replaces
            own = self.space.values(state.coordinates, x, x[None, :])
            new = replaces & (places == victim)
            of_basis = jax.tree.map(lambda a, b: jnp.where(new, a, b), own, values)
            _, fresh, _ = self._step(of_basis.weighted_sum(w).value(), feedback)
            wanted = wanted & jnp.isfinite(fresh)
        # 2. the weights; a place B is none
        changed = wanted & (replaces | ~full)
        place = jnp.where(changed, jnp.where(full, victim, state.number), B)
        compensated = jnp.where(wanted & full & ~replaces, drawn, B)
        # written out, these are one pass over B numbers
        for i, change in zip(compensated, fresh * alpha, strict=True):
            w = jnp.where(places == i, w + change, w)
        comes = places == place
        w = jnp.where(comes, fresh, w)

        # 3. the kernel, by the new weights and the new basis
        rows = state.rows.at[place].set(x, mode="drop")
        if exponent is not None:  # where the kernel moves, the others were there before
            own = self.space.values(state.coordinates, x, x[None, :])
            exponent = jnp.minimum(exponent, jax.lax.stop_gradient(own.exponent[0]))

        def terms(coordinates: PyTree) -> jax.Array:
            """The terms of the new hypothesis at x, by its kernel, times exp(exponent)."""
            values = self.space.values(coordinates, x, rows)
            return w * values.times_exp(exponent)

        def total(terms: jax.Array) -> jax.Array:
            return Scaled(terms, exponent).value()

        def output(coordinates: PyTree) -> jax.Array:
            return total(jnp.sum(terms(coordinates)))

        if self.gradients == "sketches":
            slope = self.loss.slope(output(state.coordinates), feedback.y)
        derivative = jax.grad(output)
        if sum(leaf.size for leaf in jax.tree.leaves(state.coordinates)) == 1:
            derivative = partial(_derivative_of_sum, total, terms)
        state = self._descended(state, derivative, state.coordinates, slope, changed)
        return state.replace(
            zeros=state.zeros + (feedback.seen & (value == 0)).astype(jnp.int32),
            rows=rows,
            weights=w,
            since=jnp.where(comes, state.round, state.since),
            number=state.number + (changed & ~full).astype(jnp.int32),
        )

    def _projection(self, state: MovingState, x: jax.Array, drawn: jax.Array) -> tuple:
        """α (s,) of k(x, ·) on the drawn ones, and the share of |k(x, ·)|² that is left over."""
        s, rows = len(drawn), state.rows[drawn]
        both = jnp.concatenate([rows, x[None]])
        # all kernel values in one matrix (s, s + 1)
        each = jax.vmap(lambda row: self.space.values(state.coordinates, row, both).plain())
        values = each(rows)
        of_drawn = values[:, s]
        alpha = [*_coefficients(values[:, :s], of_drawn)]
        itself = self.space.values(state.coordinates, x, x[None, :]).plain()[0]
        explained = sum_of([a * k for a, k in zip(alpha, of_drawn, strict=True)])
        return jnp.stack(alpha), 1.0 - explained / jnp.where(itself > 0, itself, 1.0)


def _coefficients(among: jax.Array, values: jax.Array) -> jax.Array:
    """K⁺ k (s,) for the kernel values of s points with each other (s, s) and with another (s,)."""
    cutoff = _CUTOFF[values.dtype.itemsize]

    def by_inverse(among: jax.Array, values: jax.Array) -> jax.Array:
        # LAPACK has no bfloat16
        wide = among.astype(jnp.float32) if among.dtype.itemsize < 4 else among
        inverse = jnp.linalg.pinv(wide, rtol=cutoff, hermitian=True).astype(values.dtype)
        return jnp.dot(inverse, values, precision=jax.lax.Precision.HIGHEST)

    if len(values) > _WRITTEN_OUT:
        return by_inverse(among, values)
    by_rotations = partial(_by_rotations, cutoff=cutoff)
    return jax.lax.platform_dependent(among, values, cpu=by_inverse, default=by_rotations)


def _by_rotations(among: jax.Array, values: jax.Array, cutoff: float) -> jax.Array:
    """The product with the pseudoinverse, by Jacobi's method written out for each number.

    On accelerators this is one kernel, while an eigendecomposition takes many.
    """
    s, sweeps = len(values), _SWEEPS[values.dtype.itemsize]
    # of the order of 1, or squares may overflow
    largest = reduce(jnp.maximum, [among[i, i] for i in range(s)])
    scale = 1.0 / jnp.where(largest > 0, largest, 1.0)
    a = {(i, j): scale * among[i, j] for i in range(s) for j in range(i, s)}
    v, rotations = [scale * value for value in values], []
    zero, one = jnp.zeros_like(scale), jnp.ones_like(scale)
    for p, q in sweeps * [*combinations(range(s), 2)]:
        half, off = 0.5 * (a[q, q] - a[p, p]), a[p, q]
        square = half * half + off * off
        # 1 where both are 0, so that derivatives are finite
        length = jnp.sqrt(jax.lax.select(square > 0, square, one))
        tangent = off / (half + jax.lax.select(half < 0, -length, length))
        cos = 1.0 / jnp.sqrt(1.0 + tangent * tangent)
        sin = cos * tangent
        a[p, p], a[q, q] = a[p, p] - tangent * off, a[q, q] + tangent * off
        a[p, q] = zero
        for i in {*range(s)} - {p, q}:
            ip, iq = (min(i, p), max(i, p)), (min(i, q), max(i, q))
            a[ip], a[iq] = cos * a[ip] - sin * a[iq], sin * a[ip] + cos * a[iq]
        v[p], v[q] = cos * v[p] - sin * v[q], sin * v[p] + cos * v[q]
        rotations.append((p, q, cos, sin))
    largest = reduce(jnp.maximum, [a[i, i] for i in range(s)])
    for i in range(s):
        counts = a[i, i] > cutoff * largest
        v[i] = jnp.where(counts, v[i] / jnp.where(counts, a[i, i], 1.0), 0.0)
    for p, q, cos, sin in reversed(rotations):
        v[p], v[q] = cos * v[p] + sin * v[q], cos * v[q] - sin * v[p]
    return jnp.stack(v)


def _derivative_of_sum(of_sum: Callable, terms: Callable, at: PyTree) -> PyTree:
    """The derivative of ``of_sum(sum(terms(at)))`` by a single number, forward in one pass."""
    ones = jax.tree.map(jnp.ones_like, at)
    total, moved = jnp.sum(jnp.stack(jax.jvp(terms, (at,), (ones,))), axis=1)
    found = jax.jvp(of_sum, (total,), (moved,))[1]
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, found), at)


def draw_places(values: Scaled, taken: jax.Array, uniform: jax.Array) -> jax.Array:
    """Places (s,) drawn without replacement, one for each of the uniform numbers (s,).

    Probabilities of places that are ``taken`` (B,) are in proportion to their kernel values, or
    equal where the values left are all 0.
    """
    places, drawn = jnp.arange(taken.shape[0]), []
    values = jax.lax.stop_gradient(values)
    for u in uniform:
        exponent = values.smallest_exponent(taken)
        p = jnp.where(taken, jnp.maximum(values.times_exp(exponent), 0.0), 0.0)
        # where all are exp(-u), the largest of them is 1, or 0
        some = scaled.is_there(exponent) if values.mantissa is None else jnp.any(p > 0)
        total = jnp.cumsum(jnp.where(some, p, taken.astype(p.dtype)))
        place = jnp.argmax(total > u * total[-1])
        drawn.append(place)
        taken = taken & (places != place)
    return jnp.stack(drawn).astype(jnp.int32)
