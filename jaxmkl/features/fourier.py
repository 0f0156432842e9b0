"""Random Fourier features of shift-invariant kernels."""

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.polynomial import Chebyshev, Polynomial

from jaxmkl import _pytree as pytree
from jaxmkl._types import at_least_single
from jaxmkl.features.map import FeatureMap
from jaxmkl.kernels import Kernel

HIGHEST = jax.lax.Precision.HIGHEST

_WIDE = 500  # inputs
# Frequencies of all kernels together: a round takes several times their memory.
MOST = 2**27


def _sinc(u: np.ndarray) -> np.ndarray:
    """sin(2 π s) / s for u = s²."""
    return 2.0 * np.pi * np.sinc(2.0 * np.sqrt(u))


def _cosine(u: np.ndarray) -> np.ndarray:
    """cos(2 π s) for u = s²."""
    return np.cos(2.0 * np.pi * np.sqrt(u))


@cache
def _coefficients(function: Callable, degree: int) -> tuple[float, ...]:
    """Coefficients of a polynomial in u = s², |s| <= 1/4, the highest power first."""
    near = Chebyshev.interpolate(function, degree, domain=[0.0, 1.0 / 16.0])
    return tuple(near.convert(kind=Polynomial).coef[::-1].tolist())


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _sines_of_turns(t: jax.Array, size: float = 1.0) -> tuple[jax.Array, jax.Array]:
    """sin(2 π t) and cos(2 π t) over a ``size``, elementwise, to the rounding of t.

    Phases in turns are brought near 0 by one exact subtraction, whatever their size: with
    q = round(2 t) and s = t - q/2 in [-1/4, 1/4] both are polynomials, times -1 if q is odd.
    The standard functions leave the vector unit where phases are large.
    """
    q = jnp.round(2.0 * t)
    s = t - 0.5 * q
    sign = 1.0 - 4.0 * (0.5 * q - jnp.floor(0.5 * q))
    # within 3e-10 and 2e-15
    degree = 5 if t.dtype == jnp.float32 else 10

    def polynomial(of: Callable) -> Any:
        highest: Any
        highest, *others = _coefficients(of, degree)
        return reduce(lambda total, c: total * (s * s) + c, others, highest)

    sine, cosine = sign * s * polynomial(_sinc), sign * polynomial(_cosine)
    return (sine, cosine) if size == 1 else (sine / size, cosine / size)


@_sines_of_turns.defjvp
def _derivative_of_sines(size: float, primals: tuple, tangents: tuple) -> tuple:
    sine, cosine = _sines_of_turns(*primals, size)
    phase = 2.0 * np.pi * tangents[0]
    return (sine, cosine), (cosine * phase, -sine * phase)


def _qr(matrices: jax.Array) -> tuple[jax.Array, jax.Array]:
    q, r = jnp.linalg.qr(matrices.astype(at_least_single(matrices.dtype)))
    return q.astype(matrices.dtype), r.astype(matrices.dtype)


def _qr_in_turn(matrices: jax.Array) -> tuple[jax.Array, jax.Array]:
    """QR of matrices (P, n, D, D) one after the other, under further ``vmap`` too.

    In jaxlib 0.10 a batch of them waits in the CPU's pool of threads for threads of that pool, so
    that two programs at the same moment might wait for ever.
    """
    return jax.vmap(jax.vmap(jax.custom_batching.sequential_vmap(_qr)))(matrices)


@pytree.dataclass
class FourierFeatures(FeatureMap[jax.Array, jax.Array, tuple]):
    """Random Fourier features of a dictionary of shift-invariant kernels.

    With frequencies v_1 ... v_F drawn from the spectral density of a kernel,

        z(x) = c [sin v_1·x, ..., sin v_F·x, cos v_1·x, ..., cos v_F·x]

    Frequencies are drawn once, for bandwidth 1, and divided by the kernel's bandwidth where they
    are used: a change, a sweep and a gradient of bandwidths need no new draw. Those of a product
    are sums of independent ones of its factors; those of a kernel on columns are 0 off them.

    Args:
      num_features: F, the number of frequencies a kernel; z has 2 F coordinates.
      orthogonal: draw directions in orthogonal blocks (lengths as for i.i.d. ones), which lowers
        the variance of the approximation (Yu et al., 2016).
      scale: "mean" (c = 1/sqrt(F), so z·z' approximates k and |z|² is 1 as k(x, x) is, equation
        (10) of Hong and Chae) or "sum" (c = 1, |z|² = F, as in Raker's reference implementation:
        gradient steps must be F times smaller).

    Raises:
      ValueError: for a num_features below 1 or another scale, or, where frequencies are drawn, for
        so many inputs that there would be more than 2^27 of them (512 MiB in single precision).

    References:
      Rahimi and Recht (2007), Random features for large-scale kernel machines.
      Hong and Chae, Active learning with multiple kernels, equations (7) to (10).
      Yu et al. (2016), Orthogonal random features.

    >>> import jaxmkl
    >>> features, kernels = FourierFeatures(num_features=4), jaxmkl.Gaussian([0.5, 2.0])
    >>> frequencies = features.init(jax.random.key(0), kernels, 3)
    >>> jax.jit(features)(kernels, frequencies, jnp.ones((5, 3))).shape
    (5, 2, 8)
    """

    num_features: int = pytree.count(default=50)
    orthogonal: bool = pytree.flag(default=False)
    scale: str = pytree.choice("sum", "mean", default="mean")

    def num_coordinates(self, num_inputs: int) -> int:
        return 2 * self.num_features

    @property
    def squared_norm(self) -> float:  # type: ignore[override]
        """|z(x)|², the same for every x."""
        return float(self.num_features) if self.scale == "sum" else 1.0

    def init(
        self, key: jax.Array, kernels: Kernel, num_inputs: int, dtype: DTypeLike | None = None
    ) -> jax.Array:
        dtype = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
        kernels.require_inputs(num_inputs)
        Q, F, D = kernels.num_spectra, self.num_features, num_inputs
        wanted = f"at most {MOST // (Q * F):,}, as {Q} kernels of {F} features have {Q * F * D:,} "
        wanted += "frequencies otherwise (hash the inputs to fewer, as scikit-learn's "
        wanted += "FeatureHasher does, or take features.LinearFeatures)"
        pytree.require(Q * F * D <= MOST, self, "num_inputs", D, wanted)
        normal_key, rotation_key, scale_key = jax.random.split(key, 3)
        # drawn flat: the same numbers, but a batch of such draws compiles several times faster
        directions = jax.random.normal(normal_key, (Q * F * D,), dtype).reshape(Q, F, D)
        if self.orthogonal:
            lengths = jnp.linalg.norm(directions, axis=-1, keepdims=True)
            num_blocks = -(-F // D)
            # of very many inputs only as many directions as there are frequencies
            wide = max(F, _WIDE) < D
            columns = F if wide else D
            # as jax.random.orthogonal draws, but flat, too
            numbers = jax.random.normal(rotation_key, (Q * num_blocks * D * columns,), dtype)
            matrices = numbers.reshape(Q, num_blocks, D, columns)
            q, r = jax.lax.platform_dependent(matrices, cpu=_qr_in_turn, default=_qr)
            blocks = q * jnp.sign(jnp.einsum("...ii->...i", r))[..., None, :]
            blocks = jnp.swapaxes(blocks, -1, -2) if wide else blocks
            directions = lengths * blocks.reshape(Q, -1, D)[:, :F]
        return directions * kernels.spectral_scale(scale_key, F, dtype)[..., None]

    def __call__(self, kernels: Kernel, frequencies: jax.Array, X: jax.Array) -> jax.Array:
        """Features z (B, P, 2 F) of the rows of ``X`` (B, D)."""
        chex.assert_rank([frequencies, X], [3, 2])
        return self.at_frequencies(kernels.frequencies(frequencies), X)

    def at_frequencies(self, frequencies: jax.Array, X: jax.Array) -> jax.Array:
        """Features z (B, P, 2 F) of rows (B, D) at frequencies (P, F, D), in turns by unit."""
        P, F, D = frequencies.shape
        turns = jnp.dot(X, frequencies.reshape(P * F, D).T, precision=HIGHEST)
        # sizes before they are joined, where it takes no pass of its own
        size = F**0.5 if self.scale == "mean" else 1.0
        return jnp.concatenate(_sines_of_turns(turns.reshape(-1, P, F), size), axis=-1)

    def encode(
        self, state: jax.Array, kernels: Kernel, X: jax.Array, round: jax.Array, keys: Any
    ) -> jax.Array:
        return self(kernels, state, X)

    def gradients(
        self, state: jax.Array, kernels: Kernel, X: jax.Array, weights: jax.Array
    ) -> jax.Array:
        """Gradients (B, J, P, D) as of any map, in closed form: Σ_f (a_f cos - b_f sin) v_f.

        a and b are the weights θ of the sines and of the cosines.
        """
        Z, F = self(kernels, state, X)[:, None], self.num_features  # (B, 1, P, 2 F)
        a, b = weights[None, :, :, :F], weights[None, :, :, F:]
        slopes = 2.0 * np.pi * (a * Z[..., F:] - b * Z[..., :F])
        turns = kernels.frequencies(state)
        return jnp.einsum("bjpf,pfd->bjpd", slopes, turns, precision=HIGHEST)

    def squared_norms(self, z: jax.Array) -> jax.Array:
        return jnp.full(z.shape[:1], self.squared_norm, z.dtype)

    def check(self, kernels: Kernel) -> None:
        others = ", ".join(kernels.without_spectrum)
        text = (
            "of a known spectrum: Gaussian, Laplacian, Cauchy, products and dictionaries of them,"
        )
        text += (
            " or one of your own that defines spectral_scale (see help('jaxmkl.guide.extend'));"
        )
        text += " models with supports take any kernel"
        pytree.require(not others, self, "kernels", others, text)
