"""Update rules of second order: models on features that keep a covariance.

All methods work on all models of a rule at once, (R, P); z has M coordinates. Models of K outputs
share a covariance; values, errors and weights have a leading axis of the outputs, (K, R, P), of
length 1 for a single output.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl import abilities
from jaxmkl._blocks import diagonal_of, factor_and_inverse, sum_over_rows
from jaxmkl._feedback import Feedback
from jaxmkl._shards import added
from jaxmkl._types import Number, Numbers, PyTree
from jaxmkl.updates.rule import Rule

_HIGHEST = jax.lax.Precision.HIGHEST
# multiples of the machine epsilon that keep S definite, see RLS: in its diagonal, where examples
# are forgotten and always, and in the noise of a label
JITTER, FLOOR, NOISE = 1000, 8, 2
SYMMETRIZED = 16  # periods after which S is made symmetric again


class RLSState(NamedTuple):
    """State of recursive least squares, in a form that a block of examples can share.

    Everything is kept for features z/sqrt(λ) and a ridge penalty of 1, so that the regularization
    acts where it is used: S and θ here are λ S and sqrt(λ) θ of :class:`RLS`. With S and θ as they
    were at the end of the last period, and z_s the examples learned since, the present values are

        S_t = (S - Σ_s h_s h_s') / discount,   θ_t = θ + Σ_s coefficients_s h_s,
        h_s = Σ_u factor_su gains_u,      gains_u = S z_u
    """

    weights: jax.Array
    """θ (K, R, P, M)."""
    covariance: jax.Array
    """S (R, P, M, M), symmetric to rounding."""
    gains: jax.Array
    """S z_u of the period's examples (R, P, period, M)."""
    table: jax.Array
    """A row for each round of the period, its row of the factor and its coefficients, zeros where
    nothing was learned; and a row for rounds that are over (R, P, period + 1, period + K)."""
    discount: jax.Array
    """The product of φ_s (R, P)."""

    @property
    def period(self) -> int:
        """Rounds between two renewals of S."""
        return self.table.shape[-2] - 1

    @property
    def factor(self) -> jax.Array:
        """The factor (R, P, period, period), lower triangular."""
        return self.table[..., :-1, : self.period]

    @property
    def learned(self) -> jax.Array:
        """True for the rounds of the period in which something was learned (R, P, period).

        An example that was not learned from leaves no trace: its row of the factor is zero.
        """
        return diagonal_of(self.table)[..., : self.period] != 0

    @property
    def coefficients(self) -> jax.Array:
        """The coefficients (K, R, P, period)."""
        return jnp.moveaxis(self.table[..., :-1, self.period :], -1, 0)


class RLSCode(NamedTuple):
    """Per example: its slot and floor in the period, products with the gains and the weights.

    Products with gains that come later in the period are ignored.
    """

    slot: jax.Array  # int32; the period where the round is over
    jitter: jax.Array  # what is added to the diagonal of S when the period ends (R, P, M)
    gain: jax.Array  # S z (R, P, M)
    # z·gains, θ·z, the variance of the label relative to that of others, and what φ must not fall
    # below in this period (R, P, period + K + 2), in one array
    numbers: jax.Array


#: Values (K, R, P), and of the period Σ_s h_s·z factor_s (R, P, period) and Σ_s (h_s·z)² (R, P).
RLSAux = tuple[jax.Array, jax.Array, jax.Array]


@pytree.dataclass
class RLS(Rule[RLSState, RLSCode, RLSAux]):
    """Recursive least squares with forgetting, at one forgetting factor or several.

        g = S z,   d = φ_k + z·g,   θ <- θ + g (y - θ·z) / d,   S <- (S - g g'/d) / φ_k

    from S = I/λ. Where examples excite only some directions, dividing by φ lets S grow without
    bound in the others, in float32 until rounding errors dominate. So the trace of S is kept
    within ``max_growth`` (κ) times its initial value: every ``period`` (b) rounds, beginning with
    the first, the present trace of S decides

        φ_k = max(φ, (trace S / (κ trace I/λ))^(1/b)),   at most 1,

    for the next b rounds. Far below the bound this is plain exponential forgetting.

    The target is the label itself, whatever the learner's loss: squared loss on labels of ±1 is
    a sound classifier.

    A block of examples needs S only in a few matrix products: within a period only the triangular
    factor of its change is updated (see :class:`RLSState`), and S itself is renewed once a period.
    In exact arithmetic this is the update above, example by example, except for two terms that
    keep S definite despite rounding errors. With S as it was when the period began, the label of
    an example has a noise of r in place of 1, and after each period the diagonal of S grows where
    something was learned,

        d = r φ_k + z·g,   r = max(1, 2 b u Σ_i S_ii z_i²),
        S_ii <- S_ii + u max(1000 (φ^-b - 1), 8 (1 - m)) S_ii,   m = trace S / trace I/λ,

    with u the machine epsilon, 1.2e-7 in single and 2.2e-16 in double precision. The noise r is
    above 1 for examples so large that rounding errors exceed z'S z, as may happen where |z|² / λ
    is above 10^5 in single precision. The term with φ is for φ < 1. The last term is needed where
    φ is 1 and inputs excite few directions: without it S becomes smaller there than its own
    rounding errors, and in single precision errors grow after 10^5 to 10^7 examples.

    Args:
      regularization: λ > 0, the ridge penalty |θ|² that S = I/λ stands for; a number or an array
        (R,).
      forgetting: φ in (0, 1], a number or an array (R,); 1 forgets nothing.
      max_growth: κ, the bound on the trace of S, relative to its initial value.
      period: rounds between two renewals of S (static).

    References:
      Haykin, Adaptive Filter Theory, chapter on recursive least squares.

    >>> RLS(regularization=0.1, forgetting=[1.0, 0.999]).num_rates
    2
    """

    regularization: Numbers = pytree.positive(default=0.1, ndim=1)
    forgetting: Numbers = pytree.share(default=1.0, exclusive=True, ndim=1)
    max_growth: Number = pytree.number(
        default=10.0, minimum=0.0, exclusive=True, finite=False, wanted="a positive number"
    )
    period: int = pytree.count(default=32)
    loss = "squared"

    def __post_init__(self) -> None:
        sizes = {np.size(self.regularization), np.size(self.forgetting)} - {1}
        wanted = "one number, or as many as there are of regularization"
        pytree.require(len(sizes) < 2, self, "forgetting", self.forgetting, wanted)

    @property
    def num_rates(self) -> int:
        return max(np.size(self.regularization), np.size(self.forgetting))

    def init(
        self, num_kernels: int, num_coordinates: int, dtype: DTypeLike, num_outputs: int = 1
    ) -> RLSState:
        K, R, P, M, b = num_outputs, self.num_rates, num_kernels, num_coordinates, self.period
        return RLSState(
            weights=jnp.zeros((K, R, P, M), dtype),
            covariance=jnp.tile(jnp.eye(M, dtype=dtype), (R, P, 1, 1)),
            gains=jnp.zeros((R, P, b, M), dtype),
            table=jnp.zeros((R, P, b + 1, b + K), dtype),
            discount=jnp.ones((R, P), dtype),
        )

    def limits(self, diagonal: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The floor and jitter of a period that begins with this diagonal of S (..., R, [P,] M).

        φ must not fall below the floor, and as much as the jitter times its diagonal is added to S
        when the period ends (..., R, [P]): see :class:`RLS`. Rounding errors, divided by φ again
        and again, would make eigenvalues negative. The error of an entry of S is in proportion to
        the diagonal entries of its row and column, and so is the jitter: coordinates may have very
        different scales. If S only shrinks, a few multiples of the machine epsilon are enough to
        outweigh the errors of earlier periods.
        """
        dtype, M = diagonal.dtype, diagonal.shape[-1]
        # Each step is rounded in every program alike: sums that XLA fuses would not be, nor would
        # products that are added to something.
        trace = jnp.matmul(diagonal, jnp.ones((M,), dtype), precision=_HIGHEST)
        growth = jnp.clip(trace / M / jnp.asarray(self.max_growth, dtype), 0.0, 1.0)
        forgetting = jnp.atleast_1d(jnp.asarray(self.forgetting, dtype)) ** -self.period
        forgotten = (forgetting - 1.0).reshape(-1, *(1,) * (trace.ndim - 1))
        jitter = jnp.maximum(JITTER * forgotten, FLOOR / M * (M - trace)) * jnp.finfo(dtype).eps
        return growth ** (1.0 / self.period), jitter

    def least_noise(self, apart: jax.Array) -> jax.Array:
        """2 b u Σ_i S_ii z_i², the least variance of the label of an example z, from the sum.

        Rounding makes z'S z uncertain by some u Σ_i S_ii z_i². With this variance, b examples like
        z do not reduce z'S z below that. S is as it was when the period began.
        """
        return NOISE * self.period * jnp.finfo(apart.dtype).eps * apart

    def encode(self, state: RLSState, round: jax.Array, Z: jax.Array) -> RLSCode:
        """Products of the block's features with S, with each other and with θ.

        Features are (B, P, M), or (B, R, P, M) where each rate has its own.
        """
        B, b = Z.shape[0], self.period
        slot = round % b
        start = slot // B * B
        slots = start + jnp.arange(B, dtype=jnp.int32)
        regularization = jnp.atleast_1d(jnp.asarray(self.regularization, Z.dtype))
        Z = jnp.moveaxis(Z, 0, -2)  # (P, B, M), or (R, P, B, M)
        Z = jnp.broadcast_to(Z, (self.num_rates, *Z.shape[-3:]))
        Z = Z * jax.lax.rsqrt(regularization)[:, None, None, None]
        # a copy for each rate: XLA would rather move the far larger covariances together
        Z = jax.lax.optimization_barrier(Z)
        new = jnp.matmul(Z, state.covariance, precision=_HIGHEST)
        gains = _merged(state.gains, new, start, jnp.arange(b, dtype=jnp.int32) >= slot)
        kernel = jnp.matmul(Z, jnp.swapaxes(gains, -1, -2), precision=_HIGHEST)
        # a product and a sum would do, but XLA's CPU compiler (jaxlib 0.10) gets it wrong here
        value = jnp.matmul(Z, jnp.moveaxis(state.weights, 0, -1), precision=_HIGHEST)
        # here and behind a barrier, not where S is renewed: XLA would copy S there to have it
        # before and after
        diagonal = jax.lax.optimization_barrier(gathered_diagonal(state.covariance))
        floor, jitter = self.limits(diagonal)
        jitter = jitter[..., None] * diagonal
        apart = jnp.einsum("rpbm,rpm->rpb", Z**2, diagonal, precision=_HIGHEST)
        noise = jnp.maximum(self.least_noise(apart), 1.0)[..., None]
        floor = jnp.broadcast_to(floor[..., None, None], noise.shape)
        numbers = jnp.concatenate([kernel, value, noise, floor], axis=-1)
        return RLSCode(
            slot=jnp.where(slots >= slot, slots, b),
            jitter=jnp.broadcast_to(jitter, (B, *jitter.shape)),
            gain=jnp.moveaxis(new, 2, 0),
            numbers=jnp.moveaxis(numbers, 2, 0),
        )

    def predict(self, state: RLSState, code: RLSCode, z: jax.Array) -> tuple[jax.Array, RLSAux]:
        """Values (K, R, P); and these with the sums over the period that :meth:`update` uses."""
        b, width = state.period, state.table.shape[-1]
        kernel = jnp.where(np.arange(width)[None, None] < b, code.numbers[..., :width], 0.0)
        h_z = jnp.einsum("rpsu,rpu->rps", state.table, kernel, precision=_HIGHEST)
        sums = jnp.einsum("rps,rpsu->rpu", h_z, state.table, precision=_HIGHEST)
        values = jnp.moveaxis(code.numbers[..., b:width] + sums[..., b:], -1, 0)
        # without the last row, which is zeros, the sum is one of 32, which takes one kernel
        square = jnp.sum(h_z[..., :-1] ** 2, axis=-1)
        return values, (values, sums[..., :b], square)

    def update(self, state: RLSState, code: RLSCode, aux: RLSAux, feedback: Feedback) -> RLSState:
        (values, past, square), dtype = aux, aux[0].dtype
        errors = jnp.atleast_1d(feedback.y)[:, None, None] - values
        # rounding must not make the variance of an exhausted direction negative
        variance = _left(code, square)
        learned = feedback.taken()[0] & (variance > 0)
        forgetting = jnp.atleast_1d(jnp.asarray(self.forgetting, dtype))[:, None]
        discount = jnp.maximum(forgetting, code.numbers[..., -1]) * state.discount
        noise = code.numbers[..., -2] * discount
        root = jax.lax.rsqrt(noise + jnp.where(learned, variance, 1.0))
        # S_t z = (gain - Σ_u past_u gains_u) / discount
        own = jax.nn.one_hot(code.slot, self.period, dtype=dtype)[None, None]
        row = jnp.concatenate([own - past, jnp.moveaxis(errors, 0, -1)], axis=-1)
        row = jnp.where(learned[..., None], root[..., None] * row, 0.0)
        return state._replace(
            table=jax.lax.dynamic_update_index_in_dim(state.table, row, code.slot, -2),
            discount=jnp.where(learned, discount, state.discount),
        )

    def close(self, state: RLSState, codes: RLSCode, round: jax.Array) -> RLSState:
        """Keep the gains of the block; renew S and θ when a period is full."""
        # the last round of a block is never over before the block is
        start, fresh = codes.slot[-1] + 1 - codes.slot.size, jnp.zeros((self.period,), bool)
        put = jax.lax.dynamic_update_slice_in_dim
        fresh = put(fresh, codes.slot < self.period, start, 0)
        new = jnp.moveaxis(codes.gain, 0, 2)
        gains = _merged(state.gains, new, start, fresh[None, None] & state.learned)
        renewed = partial(self._renewed, codes.jitter[0])
        return self.settled(renewed, state._replace(gains=gains), codes.slot.size, round)

    def settled(
        self, renewed: Callable[[Any, Any, Any], Any], state: PyTree, size: int, round: jax.Array
    ) -> PyTree:
        """The state after a block of ``size``: ``renewed(state, full, due)`` if a period is full.

        Dividing S by φ again and again would magnify the asymmetry that rounding leaves. So S is
        due to be made symmetric every 16 periods, or at once where a period forgets more than 6 %.
        """
        full = (round % self.period == 0) & (round > 0)
        rarely = round // self.period % SYMMETRIZED == 0
        due = full & (rarely | jnp.any(state.discount < 0.94))
        if self.period == size:
            # nearly always full: without a branch the covariance is renewed in place
            return renewed(state, full, due)
        return jax.lax.cond(full, lambda own: renewed(own, full, due), lambda own: own, state)

    def taken_in(
        self,
        covariance: jax.Array,
        discount: jax.Array,
        rows: jax.Array,
        jitter: jax.Array,
        full: Any,
        due: jax.Array,
    ) -> jax.Array:
        """(S - Σ_s h_s h_s') / discount + jitter I, after rows h (..., period, M), if it is full.

        The jitter is added to S_ii where Σ_s h_si² > 0; the rows are zeros unless full. The result
        is made symmetric if that is ``due``.
        """
        scale = 1.0 / jnp.where(full, discount, 1.0)[..., None, None]
        downdate = jnp.matmul(jnp.swapaxes(rows, -1, -2), rows, precision=_HIGHEST)
        # worked out before: otherwise XLA does it for each entry of S
        jitter = jnp.where(jnp.sum(rows**2, axis=-2) > 0, jitter, 0.0)
        jitter = jax.lax.optimization_barrier(jitter)[..., None]
        # a product takes a sixth less time than a selection
        eye = np.expand_dims(np.eye(rows.shape[-1], dtype=rows.dtype), (*range(rows.ndim - 2),))
        S = scale * (covariance - downdate) + eye * jitter
        return jax.lax.cond(due, lambda S: (S + jnp.swapaxes(S, -1, -2)) / 2, lambda S: S, S)

    def fitted(
        self,
        state: RLSState,
        Z: jax.Array,
        y: jax.Array,
        counts: jax.Array,
        round: jax.Array,
        vectors: np.ndarray | None = None,
    ) -> RLSState:
        """The least squares of all examples at once.

            S = (I + c Σ_i n_i z_i z_i' / λ)⁻¹,   θ = S c Σ_i n_i z_i y_i

        With forgetting, counts n_i add up to 1 / (1 - φ) at most, as in a stream: c is 1, or
        smaller to make them so. I is replaced by (1 + 2 u trace A) I, with A the sum and u the
        machine epsilon: otherwise rounding alone might make S indefinite. If S is indefinite all
        the same, as when few directions have nearly all examples, 2 becomes 16, 128, and so on.
        Models have the features of their kernel, or those of their place in ``vectors`` (R, P).
        """
        dtype, began = Z.dtype, jax.tree.map(jnp.zeros_like, state)
        rates = jnp.zeros((self.num_rates,), dtype)
        regularization = rates + jnp.atleast_1d(jnp.asarray(self.regularization, dtype))
        forgetting = rates + jnp.atleast_1d(jnp.asarray(self.forgetting, dtype))
        total = jnp.sum(counts)
        share = 1.0 / jnp.maximum(1.0, total * (1.0 - forgetting)) / regularization  # (R,)

        def products(rows: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            Z, labels, counts = rows
            weighted = Z * counts[:, None, None]
            information = jnp.einsum("npm,npl->pml", weighted, Z, precision=_HIGHEST)
            return information, jnp.einsum("npm,nk->kpm", weighted, labels, precision=_HIGHEST)

        rows = Z, y.reshape(len(y), -1), counts
        information, towards = sum_over_rows(products, rows, counts > 0)
        vectors = np.arange(Z.shape[1])[None] if vectors is None else vectors
        information, towards = information[vectors], towards[:, vectors]
        information = share[:, None, None, None] * information
        least = jnp.sum(2 * jnp.finfo(dtype).eps * gathered_diagonal(information), axis=-1)
        covariance = _inverse(information, least)
        towards = jnp.broadcast_to(towards, (towards.shape[0], *covariance.shape[:-1]))
        weights = jnp.einsum("rpml,krpl->krpm", covariance, towards, precision=_HIGHEST)
        # of features z/sqrt(λ)
        scale = (share * jnp.sqrt(regularization))[None, :, None, None]
        discount = jnp.ones_like(state.discount)
        return began._replace(weights=scale * weights, covariance=covariance, discount=discount)

    def _information(self, state: RLSState) -> tuple[jax.Array, jax.Array]:
        """A = S⁻¹ (R, P, M, M), and A θ (K, R, P, M)."""
        diagonal = gathered_diagonal(state.covariance)
        jitter = self.limits(diagonal)[1][..., None] * diagonal
        state = self._renewed(jitter, state, True, jnp.zeros((), bool))
        A = _inverse(state.covariance)
        return A, jnp.einsum("rpmn,krpn->krpm", A, state.weights, precision=_HIGHEST)

    def _renewed(self, jitter: jax.Array, state: RLSState, full: Any, due: jax.Array) -> RLSState:
        """S and θ with all pending examples, if the period is full."""
        factor = jnp.where(full, state.factor, 0.0)
        rows = jnp.matmul(factor, state.gains, precision=_HIGHEST)
        pending = rows, jitter, full, due
        return state._replace(
            weights=state.weights + _change(state, rows),
            covariance=self.taken_in(state.covariance, state.discount, *pending),
            table=jnp.where(full, 0.0, state.table),
            discount=jnp.where(full, 1.0, state.discount),
        )


@abilities.variances.register
def _(rule: RLS, state: RLSState, code: RLSCode, aux: RLSAux) -> jax.Array:
    """z'S z (R, P)."""
    return jnp.maximum(_left(code, aux[2]), 0.0) / state.discount


@abilities.gradients.register
def _(rule: RLS, state: RLSState, round: jax.Array, z: jax.Array) -> jax.Array:
    """θ with all pending examples."""
    rows = jnp.matmul(state.factor, state.gains, precision=_HIGHEST)
    weights = state.weights + _change(state, rows)  # of features z/sqrt(λ)
    regularization = jnp.atleast_1d(jnp.asarray(rule.regularization, weights.dtype))
    return weights * jax.lax.rsqrt(regularization)[None, :, None, None]


@abilities.merged.register
def _(rule: RLS, states: RLSState, start: RLSState | None) -> RLSState:
    """S and θ from the sums of A = S⁻¹ and b = A θ, in which each example is a summand."""
    good = bool(np.all(np.asarray(rule.forgetting) == 1.0))
    wanted = "1: what was forgotten in a shard does not tell how old it is in the whole"
    pytree.require(good, "merge", "forgetting of RLS", rule.forgetting, wanted)
    return _joined(rule, states, start)


def _left(code: RLSCode, square: jax.Array) -> jax.Array:
    """z'S z (R, P) times the discount, with the example's own z."""
    own = jax.lax.dynamic_index_in_dim(code.numbers, code.slot, -1, keepdims=False)
    return own - square


def gathered_diagonal(S: jax.Array) -> jax.Array:
    """The diagonal (..., M) of S (..., M, M), gathered: to have it by strides XLA would copy S."""
    return jnp.diagonal(S, axis1=-2, axis2=-1)


@jax.jit
def _joined(rule: RLS, states: RLSState, start: RLSState | None) -> RLSState:
    """The state from the sums of all shards' A and A θ, with nothing pending."""
    empty = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), states)
    A, b = jax.vmap(rule._information)(states)
    eye = jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape[1:])
    A_0, b_0 = (eye, empty.weights) if start is None else rule._information(start)
    covariance = _inverse(added(A, A_0))
    weights = jnp.einsum("rpmn,krpn->krpm", covariance, added(b, b_0), precision=_HIGHEST)
    discount = jnp.ones_like(empty.discount)
    return empty._replace(weights=weights, covariance=covariance, discount=discount)


def _change(state: RLSState, rows: jax.Array) -> jax.Array:
    """The change that the pending examples, of rows h (R, P, period, M), make to θ."""
    return jnp.einsum("krps,rpsm->krpm", state.coefficients, rows, precision=_HIGHEST)


TRIES = 5
"""Attempts to invert a matrix that is indefinite by rounding, each time with more added."""


def _inverse(matrices: jax.Array, least: jax.Array | None = None) -> jax.Array:
    """The inverses of positive definite matrices A (..., M, M); NaN where one is not.

    With ``least`` (...) they are those of (1 + δ) I + A, with δ the least, or 8, 64, ... times
    that, the first with which one is found.
    """
    M = matrices.shape[-1]
    flat = matrices.reshape(-1, M, M)
    if least is None:
        return jax.lax.map(lambda A: factor_and_inverse(A)[1], flat).reshape(matrices.shape)

    def one(given: tuple[jax.Array, jax.Array]) -> jax.Array:
        A, least = given

        def again(carry: tuple) -> tuple:
            tries, delta, _ = carry
            ridge = (1.0 + delta) * np.eye(M, dtype=A.dtype)
            return tries + 1, 8.0 * delta, factor_and_inverse(ridge + A)[1]

        def is_open(carry: tuple) -> jax.Array:
            tries, _, found = carry
            return (tries < TRIES) & ~jnp.all(jnp.isfinite(found))

        none = jnp.full_like(A, jnp.nan)
        return jax.lax.while_loop(is_open, again, (jnp.zeros((), jnp.int32), least, none))[2]

    return jax.lax.map(one, (flat, least.reshape(-1))).reshape(matrices.shape)


def _merged(gains: jax.Array, new: jax.Array, start: jax.Array, fresh: jax.Array) -> jax.Array:
    """Gains (R, P, period, M), replaced by the block's own, from ``start`` on, where ``fresh``."""
    if new.shape != gains.shape:
        new = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(gains), new, start, 2)
    return jnp.where(fresh[..., None], new, gains)
