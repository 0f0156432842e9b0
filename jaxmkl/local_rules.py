"""Local rules: what the model of one kernel does with a labelled example.

A rule keeps linear models on the random features of every kernel, f = θ·z(x), one for each of its
R rates and each of the P kernels: the experts of the rule, (R, P). All methods work on all of them
at once. M = 2 F is the number of coordinates of z. A rule is used by a learner like so:

    codes = rule.encode(state, round, Z)                     once a block; Z (B, P, M)
    values = rule.predict(state, code, z)                    (R, P)
    state = rule.learn(state, code, z, residuals, slopes, asked)
    state = rule.fold(state, round)                          once a block

``residuals`` (R, P) are y - f, ``slopes`` (R, P) the derivatives of the learner's loss by f.
Without ``asked`` every bit of the state stays as it was.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxmkl import pytree

__all__ = ["OGD", "RLS", "LocalRule"]

_HIGHEST = jax.lax.Precision.HIGHEST


class LocalRule(Protocol):
    """The methods of a local rule."""

    @property
    def num_rates(self) -> int:
        """Number of rates R."""

    @property
    def period(self) -> int | None:
        """Rounds between two folds, or None."""

    def init(self, num_kernels: int, num_coordinates: int, dtype: Any) -> Any:
        """The rule's state."""

    def encode(self, state: Any, round: jax.Array, Z: jax.Array) -> Any:
        """Codes of a block of features."""

    def predict(self, state: Any, code: Any, z: jax.Array) -> jax.Array:
        """Values (R, P) of the experts."""

    def learn(
        self,
        state: Any,
        code: Any,
        z: jax.Array,
        residuals: jax.Array,
        slopes: jax.Array,
        asked: jax.Array,
    ) -> Any:
        """The state after an example."""

    def fold(self, state: Any, round: jax.Array) -> Any:
        """The state after a block."""


class OGDState(NamedTuple):
    """Parameters θ of the experts, (R, P, M)."""

    weights: jax.Array


@pytree.dataclass
class OGD:
    """Online gradient descent on the regularized loss, at one step size or several.

        θ <- θ - η (L'(θ·z, y) z + 2 λ θ)

    For the squared loss the step is stable while 2 η |z|² < 2.

    Args:
      step_sizes: η, a number or an array (R,).
      regularization: λ.

    Raises:
      ValueError: for a step size or regularization that is negative or not finite.

    References:
      Hong and Chae, equations (17), (18) and (37).

    >>> OGD([0.1, 0.5]).num_rates
    2
    """

    step_sizes: Any
    regularization: Any = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "step_sizes",
            pytree.as_leaf(
                self,
                "step_sizes",
                self.step_sizes,
                minimum=0.0,
                max_ndim=1,
                wanted="at least 0 and finite: a number or a one-dimensional array",
            ),
        )
        object.__setattr__(
            self,
            "regularization",
            pytree.as_leaf(
                self,
                "regularization",
                self.regularization,
                minimum=0.0,
                wanted="a finite number of at least 0",
            ),
        )

    @property
    def num_rates(self) -> int:
        """Number of step sizes R."""
        return int(jnp.size(self.step_sizes))

    @property
    def period(self) -> None:
        """OGD needs no folding."""
        return None

    def init(self, num_kernels: int, num_coordinates: int, dtype: Any) -> OGDState:
        """Parameters of zero."""
        return OGDState(jnp.zeros((self.num_rates, num_kernels, num_coordinates), dtype))

    def encode(self, state: OGDState, round: jax.Array, Z: jax.Array) -> tuple:
        """Nothing to prepare."""
        return ()

    def predict(self, state: OGDState, code: tuple, z: jax.Array) -> jax.Array:
        """Values (R, P)."""
        return jnp.sum(state.weights * z[None], axis=-1)

    def learn(
        self,
        state: OGDState,
        code: tuple,
        z: jax.Array,
        residuals: jax.Array,
        slopes: jax.Array,
        asked: jax.Array,
    ) -> OGDState:
        """One gradient step."""
        dtype = z.dtype
        steps = jnp.atleast_1d(jnp.asarray(self.step_sizes, dtype)) * asked.astype(dtype)
        decay = 1.0 - 2.0 * steps * jnp.asarray(self.regularization, dtype)
        moves = steps[:, None] * slopes
        return OGDState(decay[:, None, None] * state.weights - moves[:, :, None] * z[None])

    def fold(self, state: OGDState, round: jax.Array) -> OGDState:
        """Nothing to do."""
        return state


class RLSState(NamedTuple):
    """State of recursive least squares, in a form that a block of examples can share.

    With S and θ as they stood when ``period`` rounds were last folded in, and z_s the examples
    learned since, the present values are

        S_t = scale (S - Σ_s h_s h_s'),   θ_t = θ + Σ_s coefficients_s h_s,
        h_s = Σ_u factor_su gains_u,      gains_u = S z_u

    Attributes:
      weights: θ (R, P, M).
      covariance: S (R, P, M, M), symmetric.
      gains: (R, P, period, M).
      factor: (R, P, period, period), lower triangular; a row of zeros where nothing was learned.
      coefficients: (R, P, period).
      scale: (R, P).
      forgetting: φ_t of this period (R, P).
    """

    weights: jax.Array
    covariance: jax.Array
    gains: jax.Array
    factor: jax.Array
    coefficients: jax.Array
    scale: jax.Array
    forgetting: jax.Array


class RLSCode(NamedTuple):
    """Per example: its slot in the period, and products with the gains and the weights.

    Products with gains that come later in the period are not looked at.
    """

    slot: jax.Array  # int32
    gain: jax.Array  # S z (R, P, M)
    kernel: jax.Array  # z·gains (R, P, period)
    own_kernel: jax.Array  # z·S z (R, P)
    value: jax.Array  # θ·z (R, P)


@pytree.dataclass
class RLS:
    """Recursive least squares with forgetting, at one forgetting factor or several.

        g = S z,   d = φ + z·g,   θ <- θ + g (y - θ·z) / d,   S <- (S - g g'/d) / φ_t

    from S = I/λ. Where examples excite only some directions, dividing by φ lets S grow without
    bound in the others, in float32 until rounding drowns everything. So forgetting rests while
    the trace of S would exceed ``max_growth`` times its initial value:
    φ_t = min(1, max(φ, trace(S - g g'/d) / (max_growth trace(I/λ)))). Below the bound this is
    plain exponential forgetting, φ_t = φ.

    The target is the label itself, whatever the learner's loss: squared loss on labels of ±1 is
    a sound classifier.

    A block of examples needs S only in a few matrix products: inside ``period`` rounds just the
    triangular factor of its change moves (see :class:`RLSState`), and S itself is renewed once a
    period. In exact arithmetic this is the update above, example by example.

    Args:
      regularization: λ > 0, the ridge penalty |θ|² that S = I/λ stands for.
      forgetting: φ in (0, 1], a number or an array (R,); 1 forgets nothing.
      max_growth: bound on the trace of S, in units of its initial value.
      period: rounds between two renewals of S (static).

    Raises:
      ValueError: for an argument outside its range.

    References:
      Haykin, Adaptive Filter Theory, chapter on recursive least squares.

    >>> RLS(regularization=0.1, forgetting=[1.0, 0.999]).num_rates
    2
    """

    regularization: Any = 0.1
    forgetting: Any = 1.0
    max_growth: Any = 10.0
    period: int = pytree.static(default=32)

    def __post_init__(self) -> None:
        for name, limits in {
            "regularization": {"wanted": "positive and finite"},
            "forgetting": {"maximum": 1.0, "max_ndim": 1, "wanted": "in (0, 1], or several"},
            "max_growth": {"finite": False, "wanted": "a positive number"},
        }.items():
            value = pytree.as_leaf(
                self, name, getattr(self, name), minimum=0.0, exclusive=True, **limits
            )  # type: ignore[arg-type]
            object.__setattr__(self, name, value)
        good = isinstance(self.period, int) and self.period >= 1
        pytree.require(good, self, "period", self.period, "an integer of at least 1")

    @property
    def num_rates(self) -> int:
        """Number of forgetting factors R."""
        return int(jnp.size(self.forgetting))

    def init(self, num_kernels: int, num_coordinates: int, dtype: Any) -> RLSState:
        """Parameters of zero, S = I/λ."""
        R, P, M, b = self.num_rates, num_kernels, num_coordinates, self.period
        scale = 1.0 / jnp.asarray(self.regularization, dtype)
        identity = jnp.eye(M, dtype=dtype) * scale
        return RLSState(
            weights=jnp.zeros((R, P, M), dtype),
            covariance=jnp.tile(identity, (R, P, 1, 1)),
            gains=jnp.zeros((R, P, b, M), dtype),
            factor=jnp.zeros((R, P, b, b), dtype),
            coefficients=jnp.zeros((R, P, b), dtype),
            scale=jnp.ones((R, P), dtype),
            forgetting=self._forgetting(jnp.full((R, P), M * scale, dtype), M),
        )

    def _forgetting(self, trace: jax.Array, num_coordinates: int) -> jax.Array:
        """φ_t (R, P) for a period that begins with this trace of S."""
        dtype = trace.dtype
        initial = num_coordinates / jnp.asarray(self.regularization, dtype)
        growth = trace / (jnp.asarray(self.max_growth, dtype) * initial)
        floor = jnp.minimum(jnp.maximum(growth, 0.0), 1.0) ** (1.0 / self.period)
        return jnp.maximum(jnp.atleast_1d(jnp.asarray(self.forgetting, dtype))[:, None], floor)

    def encode(self, state: RLSState, round: jax.Array, Z: jax.Array) -> RLSCode:
        """Products of the block's features with S, with each other and with θ."""
        B, b = Z.shape[0], self.period
        slot = round % b
        start = slot // B * B
        slots = start + jnp.arange(B, dtype=jnp.int32)
        new = jnp.einsum("rpmn,bpn->rpbm", state.covariance, Z, precision=_HIGHEST)
        placed = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(state.gains), new, start, 2)
        gains = jnp.where((jnp.arange(b) < slot)[:, None], state.gains, placed)
        return RLSCode(
            slot=slots,
            gain=jnp.moveaxis(new, 2, 0),
            kernel=jnp.einsum("bpm,rpsm->brps", Z, gains, precision=_HIGHEST),
            own_kernel=jnp.einsum("bpm,rpbm->brp", Z, new, precision=_HIGHEST),
            value=jnp.einsum("rpm,bpm->brp", state.weights, Z, precision=_HIGHEST),
        )

    def _innovations(self, state: RLSState, code: RLSCode) -> jax.Array:
        """h_s·z for the examples s learned since the last fold, (R, P, period)."""
        return jnp.einsum("rpsu,rpu->rps", state.factor, code.kernel, precision=_HIGHEST)

    def predict(self, state: RLSState, code: RLSCode, z: jax.Array) -> jax.Array:
        """Values (R, P)."""
        return code.value + jnp.sum(state.coefficients * self._innovations(state, code), axis=-1)

    def learn(
        self,
        state: RLSState,
        code: RLSCode,
        z: jax.Array,
        residuals: jax.Array,
        slopes: jax.Array,
        asked: jax.Array,
    ) -> RLSState:
        """The recursion, on the triangular factor alone."""
        dtype = z.dtype
        # z'S_t z. Rounding must not turn a direction that is used up negative.
        h_z = self._innovations(state, code)
        power = state.scale * (code.own_kernel - jnp.sum(h_z**2, axis=-1))
        learned = asked & (power > 0)
        denominator = state.forgetting + jnp.where(learned, power, 1.0)
        root = jnp.sqrt(state.scale / denominator)

        # S_t z = scale (gain - Σ_u past_u gains_u)
        past = jnp.einsum("rps,rpsu->rpu", h_z, state.factor, precision=_HIGHEST)

        def write(buffer: jax.Array, row: jax.Array, where: jax.Array) -> jax.Array:
            old = jax.lax.dynamic_index_in_dim(buffer, code.slot, 2, keepdims=False)
            row = jnp.where(where, row, old)
            return jax.lax.dynamic_update_index_in_dim(buffer, row, code.slot, 2)

        rows = learned[..., None]
        own = jax.nn.one_hot(code.slot, self.period, dtype=dtype)
        coefficient = residuals * state.scale / (denominator * root)
        return RLSState(
            weights=state.weights,
            covariance=state.covariance,
            gains=write(state.gains, code.gain, rows),
            factor=write(state.factor, root[..., None] * (own - past), rows),
            coefficients=write(state.coefficients, coefficient, learned),
            scale=jnp.where(learned, state.scale / state.forgetting, state.scale),
            forgetting=state.forgetting,
        )

    def fold(self, state: RLSState, round: jax.Array) -> RLSState:
        """Renew S and θ when a period is full."""

        def renew(state: RLSState) -> RLSState:
            H = jnp.matmul(state.factor, state.gains, precision=_HIGHEST)
            downdate = jnp.matmul(jnp.swapaxes(H, -1, -2), H, precision=_HIGHEST)
            covariance = state.scale[..., None, None] * (state.covariance - downdate)
            trace = jnp.trace(covariance, axis1=-2, axis2=-1)
            change = jnp.einsum("rps,rpsm->rpm", state.coefficients, H, precision=_HIGHEST)
            return RLSState(
                weights=state.weights + change,
                covariance=covariance,
                gains=jnp.zeros_like(state.gains),
                factor=jnp.zeros_like(state.factor),
                coefficients=jnp.zeros_like(state.coefficients),
                scale=jnp.ones_like(state.scale),
                forgetting=self._forgetting(trace, covariance.shape[-1]),
            )

        return jax.lax.cond(round % self.period == 0, renew, lambda state: state, state)
