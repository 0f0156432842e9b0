"""Predictive distributions of numbers: densities, quantiles, samples and scores.

A distribution is a pytree of arrays. Its methods are pure functions, for use inside any trace, and
work on leading axes of any shape: one prediction, a stream of them (T,), seeds and outputs.

:func:`density_scores` and :func:`central_intervals` do the same in NumPy and double precision, for
rows in chunks of many lengths, each of which JAX would compile.
"""

import math
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc
from jax.typing import ArrayLike

from jaxmkl import _pytree as pytree
from jaxmkl._programs import Kept
from jaxmkl._types import AnyArray, Labels, at_least_single

__all__ = ["COVERAGE", "DensityScores", "StudentMixture", "central_intervals", "density_scores"]

COVERAGE = 0.9  # the coverage of intervals, by default
_BISECTIONS = 60
_MOST_STEPS, _SETTLED = 200, 1e-9  # steps of Newton's method, and the change that ends it
# degrees of freedom from which an approximation of Student's distribution is right to all digits,
# while the incomplete beta function loses some in single precision
_MANY_DEGREES = 100.0
_LEVELS = {"float32": 7, "float64": 30}  # levels of a continued fraction
_POINTS = {jnp: np.polynomial.legendre.leggauss(64), np: np.polynomial.legendre.leggauss(32)}


def _several_degrees(owner: object, name: str, value: object) -> tuple[float, ...]:
    degrees = np.atleast_1d(np.asarray(value, np.float64))
    good = degrees.ndim == 1 and degrees.size > 0 and all((degrees > 2.0) & (degrees < np.inf))
    wanted = "finite numbers above 2, with which variances are finite"
    pytree.require(good, owner, name, value, wanted)
    return tuple(degrees.tolist())


def log_peaks(degrees: tuple[float, ...]) -> list[float]:
    """Logarithms of the densities of Student's t at 0."""
    return [
        math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
        for nu in degrees
    ]


@pytree.dataclass
class StudentMixture:
    """A mixture of Student's t distributions around one location.

        p(y) = Σ_j w_j t_j((y - mean) / s_j) / s_j

    with t_j the density of ν_j degrees of freedom. It is symmetric, and its fewest degrees of
    freedom determine its tails. Where a scale is NaN nothing is known of y: all methods return
    NaN, and their derivatives are 0.

    Args:
      mean: the location, of any shape (...).
      scales: s_j > 0 (..., J), or NaN.
      weights: w_j >= 0, of sum 1 (..., J).
      degrees: ν_j > 2, J numbers (static).

    Raises:
      ValueError: for degrees of at most 2.

    >>> import jaxmkl
    >>> scales, weights = jnp.array([0.5, 2.0]), jnp.array([0.9, 0.1])
    >>> y = jaxmkl.distributions.StudentMixture(1.0, scales, weights, degrees=(3, 10))
    >>> low, high = jax.jit(y.interval)(0.9)
    >>> cdf = jax.jit(y.cdf)
    >>> bool(abs(cdf(high) - cdf(low) - 0.9) < 1e-5)
    True
    """

    mean: Any
    scales: Any
    weights: Any
    degrees: tuple[float, ...] = pytree.static(convert=_several_degrees)

    @property
    def variance(self) -> Array:
        """Σ_j w_j s_j² ν_j / (ν_j - 2)."""
        _, own = self._spread(jnp.shape(self.mean))
        each = own.weights * own.scales**2 * (own.nu / (own.nu - 2.0))
        return self._known(jnp.sum(each, axis=0))

    @property
    def absolute_deviation(self) -> Array:
        """The mean of |y - mean|, which is less sensitive to heavy tails than the variance."""
        _, own = self._spread(jnp.shape(self.mean))
        each = own.scales * 2.0 * jnp.exp(own.log_peaks) * (own.nu / (own.nu - 1.0))
        return self._known(jnp.sum(own.weights * each, axis=0))

    def _known(self, value: Array) -> Array:
        """The value (...), NaN where a scale is NaN."""
        return jnp.where(jnp.any(jnp.isnan(self.scales), axis=-1), jnp.nan, value)

    def in_units(self, scale: Array, shift: Any = 0.0) -> "StudentMixture":
        """The distribution of ``shift + scale y``, for a positive scale."""
        unit = jnp.broadcast_to(scale, jnp.shape(self.mean))
        known = ~jnp.isnan(self.scales)
        # so that derivatives by the unit are not NaN
        scales = jnp.where(known, unit[..., None] * jnp.where(known, self.scales, 1.0), jnp.nan)
        return StudentMixture(shift + unit * self.mean, scales, self.weights, self.degrees)

    def _spread(self, shape: tuple[int, ...]) -> tuple[Array, "_Parts"]:
        """The mean in this shape (...), and the parts there, with scales 1 in place of NaN."""
        scales = jnp.asarray(self.scales)
        scales = jnp.where(jnp.isnan(scales), jnp.ones_like(scales), scales)
        mean, each = jnp.asarray(self.mean, scales.dtype), (*shape, len(self.degrees))
        scales, weights = (jnp.moveaxis(jnp.broadcast_to(part, each), -1, 0)
                           for part in (scales, self.weights))  # fmt: skip
        return jnp.broadcast_to(mean, shape), _Parts(scales, weights, self.degrees)

    def _at(self, y: Labels) -> tuple[Array, "_Parts"]:
        """The distance y - mean (...), and the parts there."""
        y = jnp.asarray(y, jnp.asarray(self.scales).dtype)
        mean, own = self._spread(jnp.broadcast_shapes(y.shape, jnp.shape(self.mean)))
        return jnp.broadcast_to(y, mean.shape) - mean, own

    def log_components(self, y: Labels) -> Array:
        """The logarithms of the t densities at ``y`` (..., J), without their weights."""
        distance, own = self._at(y)
        found = jnp.moveaxis(own.log_densities(distance), 0, -1)
        return jnp.where(jnp.isnan(self._known(distance))[..., None], jnp.nan, found)

    def log_prob(self, y: Labels) -> Array:
        """The logarithm of the density at ``y`` (...), which is the log score of a label."""
        y = jnp.asarray(y, jnp.asarray(self.scales).dtype)
        infinite = jnp.isinf(y)  # distances are finite, so that derivatives are numbers
        distance, own = self._at(jnp.where(infinite, 0.0, y))
        value = own.log_density(jnp.where(jnp.isnan(distance), 0.0, distance))
        value = jnp.where(infinite, -jnp.inf, value)
        return jnp.where(jnp.isnan(self._known(distance)), jnp.nan, value)

    def cdf(self, y: Labels) -> Array:
        """The probability (...) of at most ``y``, which is the probability integral transform."""
        distance, own = self._at(y)
        below = distance < 0
        tail = own.tail(jnp.where(below, -distance, distance))  # |distance| has no slope at 0
        return self._known(jnp.where(below, tail, 1.0 - tail))

    def quantile(self, share: Any) -> Array:
        """The y with ``cdf(y) = share``, for shares in [0, 1] that broadcast with the mean.

        It is infinite at both ends, and NaN outside [0, 1]. It is found by bisection of the tail;
        two steps of Newton's method give it derivatives, the first three of which are exact.
        """
        return _quantile(self, jnp.asarray(share, jnp.asarray(self.scales).dtype))

    def _quantile(self, share: Array) -> Array:
        mean, own = self._spread(jnp.broadcast_shapes(share.shape, jnp.shape(self.mean)))
        share = jnp.broadcast_to(share, mean.shape)
        below = share < 0.5
        tail, side = jnp.where(below, share, 1.0 - share), jnp.where(below, -1.0, 1.0)
        fixed, wanted = jax.lax.stop_gradient((own, tail))
        # with more than 2 degrees of freedom P(|T| > z) is below 2/z²
        high = jnp.max(fixed.scales, axis=0) * jnp.sqrt(2.0 / jnp.maximum(wanted, 1e-30))

        def halved(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2.0
            above = fixed.tail(middle) > wanted
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        low, high = jax.lax.fori_loop(0, _BISECTIONS, halved, (jnp.zeros_like(high), high))
        distance = (low + high) / 2.0
        for _ in range(2):
            # far from the mean the density is too small for its dtype
            density = jnp.maximum(jnp.exp(own.log_density(distance)), jnp.finfo(tail.dtype).tiny)
            distance = distance + (own.tail(distance) - tail) / density
        end = jnp.where(tail == 0, jnp.inf, jnp.nan)
        return self._known(mean + side * jnp.where(tail > 0, distance, end))

    def interval(self, coverage: Any) -> tuple[Array, Array]:
        """The lower and upper ends (...) between which a label lies with this probability.

        They are NaN for a probability outside [0, 1].
        """
        coverage = jnp.asarray(coverage)
        high = self.quantile(jnp.where(coverage >= 0, (1.0 + coverage) / 2.0, jnp.nan))
        return 2.0 * jnp.broadcast_to(self.mean, high.shape) - high, high

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Draws, of the shape ``shape + (...)``."""
        of_part, of_t = jax.random.split(key)
        mean, own = self._spread((*shape, *jnp.shape(self.mean)))
        part = jax.random.categorical(of_part, jnp.log(own.weights), axis=0)
        scale = jnp.take_along_axis(own.scales, part[None], 0)[0]
        nu = jnp.asarray(self.degrees, scale.dtype)[part]
        return self._known(mean + scale * jax.random.t(of_t, nu, scale.shape, scale.dtype))

    def crps(self, y: Labels) -> Array:
        """The continuous ranked probability score (...), in units of y: smaller is better.

        It is E|Y - y| - E|Y - Y'| / 2, with Y and Y' drawn independently. The first expectation
        has a closed form; the second is 4 ∫_0^∞ F (1 - F), computed with 64 points.
        """
        return _crps(self, jnp.asarray(y, jnp.asarray(self.scales).dtype))

    def _crps(self, y: Array) -> Array:
        distance, own = self._at(y)
        return self._known(own.crps(distance))


# alone, each call would compile its loop again
_quantile, _crps = Kept(StudentMixture._quantile), Kept(StudentMixture._crps)


@pytree.dataclass
class _Parts:
    """The parts of mixtures around 0, arrays of JAX or NumPy; distances are (...) throughout.

    The J parts come first, so that NumPy's arrays are contiguous for operations on n rows.
    """

    scales: Any  # (J, ...)
    weights: Any  # (J, ...)
    degrees: tuple[float, ...] = pytree.static()

    @property
    def _xp(self) -> ModuleType:
        return np if isinstance(self.scales, np.ndarray) else jnp

    @property
    def nu(self) -> Any:
        """The degrees of freedom (J, 1, ...)."""
        return self._column(self.degrees)

    @property
    def log_peaks(self) -> Any:
        """Logarithms of the t densities at 0 (J, 1, ...)."""
        return self._column(log_peaks(self.degrees))

    def _column(self, values: Any) -> Any:
        array = self._xp.asarray(values, self.scales.dtype)
        return array.reshape(-1, *(1,) * (self.scales.ndim - 1))

    def _log_standard(self, ratio: AnyArray) -> Any:
        """The logarithms of the t densities (J, ...) of unit scale at squared distances."""
        return self.log_peaks - (self.nu + 1.0) / 2.0 * self._xp.log1p(ratio / self.nu)

    def log_densities(self, distance: AnyArray) -> Any:
        """The logarithms of the t densities (J, ...), without their weights."""
        ratio = squared_ratio(distance[None], self.scales)
        return self._log_standard(ratio) - self._xp.log(self.scales)

    def log_density(self, distance: AnyArray) -> Any:
        """The logarithm of the density."""
        each = self.log_densities(distance)
        if self._xp is jnp:
            return jax.nn.logsumexp(each, axis=0, b=self.weights)
        with np.errstate(divide="ignore"):  # of a weight of 0
            each += np.log(self.weights)
        most = each.max(axis=0)
        return most + np.log(np.exp(each - most).sum(axis=0))

    def _tails(self, distance: AnyArray) -> Any:
        """The probability (J, ...) of exceeding a distance of at least 0, for each part."""
        far = self._xp.minimum(self._xp.abs(distance)[None] / self.scales, 1e15)
        if self._xp is jnp:
            wide = at_least_single(far.dtype)  # in bfloat16 sums lose all digits
            return jnp.stack(list(map(_tail, far.astype(wide), self.degrees))).astype(far.dtype)
        square = zip(np.square(far, out=far), self.degrees, strict=True)
        return np.stack([0.5 - within(each / nu, nu) / 2.0 for each, nu in square])

    def tail(self, distance: AnyArray) -> Any:
        """The probability of exceeding a distance of at least 0; in NumPy to 1 part in 10^16."""
        return (self.weights * self._tails(distance)).sum(axis=0)

    def mean_distance(self, distance: AnyArray) -> Any:
        """E|Y - y| for a label at this distance."""
        nu, ratio = self.nu, squared_ratio(distance[None], self.scales)
        density = self._xp.exp(self._log_standard(ratio))
        beyond = 2.0 * self.scales * (density * (nu + ratio) / (nu - 1.0))
        inside = self._xp.abs(distance)[None] * (1.0 - 2.0 * self._tails(distance))
        return (self.weights * (inside + beyond)).sum(axis=0)

    def mean_difference(self) -> Any:
        """E|Y - Y'|, by z = s tan(u), where F (1 - F) is smooth up to u = π/2."""
        xp = self._xp
        points, shares = _POINTS[xp]
        places = np.tan(np.pi / 4.0 * (points + 1.0))
        nodes = np.stack([places, np.pi / 4.0 * shares * (1.0 + places**2)], axis=1)
        # nearer to large scales, which decide although their weights are small
        roots = xp.sqrt(self.weights if xp is np else jax.lax.stop_gradient(self.weights))
        scale = (roots * self.scales).sum(axis=0) / roots.sum(axis=0)

        def added(total: AnyArray, node: AnyArray) -> tuple[Any, None]:
            tail = self.tail(node[0] * scale)
            return total + node[1] * tail * (1.0 - tail), None

        total = xp.zeros_like(scale)
        if xp is jnp:
            total, _ = jax.lax.scan(added, total, jnp.asarray(nodes, scale.dtype))
        else:
            for node in nodes:
                total, _ = added(total, node)
        return 4.0 * scale * total

    def crps(self, distance: AnyArray) -> Any:
        """The continuous ranked probability score of a label at this distance."""
        return self.mean_distance(distance) - self.mean_difference() / 2.0


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _tail(z: Array, degrees: float) -> Array:
    """The probability that Student's t of ν degrees of freedom exceeds ``z`` >= 0.

    With c = 1 / (1 + z²/ν), a = ν/2 and B the beta function it is, for large z, where c is below
    (a + 1) / (a + 5/2),

        c^a √(1 - c) / (2 a B(a, 1/2)) · 1/(1 + d_1/(1 + d_2/(1 + ...))),
        d_2m = m (1/2 - m) c / ((a + 2m - 1)(a + 2m)),
        d_2m+1 = -(a + m)(a + m + 1/2) c / ((a + 2m)(a + 2m + 1))

    (Abramowitz and Stegun, 1964, 26.5.8); otherwise :func:`within` has it if ν is whole, and the
    much slower incomplete beta function if it is not. The derivative is given as the density,
    which is smooth at 0, where these forms have no derivative.
    """
    square = jnp.square(z) / degrees
    if degrees > _MANY_DEGREES:
        return jax.scipy.special.erfc(_normal_of(jnp, square, degrees) / math.sqrt(2.0)) / 2.0
    c, a = 1.0 / (1.0 + square), degrees / 2.0
    if degrees % 1.0:
        return betainc(jnp.full_like(c, a), jnp.full_like(c, 0.5), c) / 2.0
    is_far = c < (a + 1.0) / (a + 2.5)
    share = jnp.where(is_far, c, 0.5)
    fraction = jnp.ones_like(c)
    for m in range(_LEVELS[c.dtype.name], -1, -1):
        odd = -(a + m) * (a + m + 0.5) / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1.0 + odd * share / fraction
        if m:
            even = m * (0.5 - m) / ((a + 2 * m - 1) * (a + 2 * m))
            fraction = 1.0 + even * share / fraction
    log_beta = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    scale = jnp.exp(a * jnp.log(share) - log_beta) * jnp.sqrt(1.0 - share)
    near = 0.5 - within(jnp.where(is_far, 1.0, square), degrees) / 2.0
    return jnp.where(is_far, scale / (2.0 * a * fraction), near)


@_tail.defjvp
def _tail_and_slope(degrees: float, at: tuple[Array], by: tuple[Array]) -> tuple[Array, Array]:
    (z,), (change,) = at, by
    (log_peak,) = log_peaks((degrees,))
    density = jnp.exp(log_peak - (degrees + 1.0) / 2.0 * jnp.log1p(jnp.square(z) / degrees))
    return _tail(z, degrees), -density * change


def within(square: Any, degrees: float) -> Any:
    """P(|T| <= z) of Student's t of ν degrees of freedom, at ``square`` = z²/ν >= 0.

    With r = sqrt(square) and c = 1 / (1 + square) it is, for few whole degrees of freedom
    (Abramowitz and Stegun, 1964, 26.7.3 and 26.7.4; the sums have ⌊ν/2⌋ terms),

        r √c Σ_k a_k c^k,                    a_k = a_{k-1} (k - 1/2)/k,    ν even
        2/π (arctan r + r c Σ_k a_k c^k),    a_k = a_{k-1} k/(k + 1/2),    ν odd

    with a_0 = 1. NumPy arrays give NumPy arrays; those of JAX may be traced.

    >>> within(np.array([0.0, 1.0 / 3.0]), 3).round(4).tolist()
    [0.0, 0.609]
    """
    if degrees % 1.0 or degrees > _MANY_DEGREES:
        return within_any(square, degrees)
    xp = jnp if isinstance(square, jax.Array) else np
    r, c, k = xp.sqrt(square), 1.0 / (1.0 + square), np.arange(1, degrees // 2)
    ratios = k / (k + 0.5) if degrees % 2.0 else (k - 0.5) / k
    total = 0.0
    for coefficient in np.cumprod([1.0, *ratios])[::-1].tolist():
        total = total * c + coefficient
    if degrees % 2.0:
        return 2.0 / np.pi * (xp.arctan(r) + r * c * total)
    return r * xp.sqrt(c) * total


def within_any(u: Any, degrees: Any) -> Any:
    """:func:`within` for any degrees of freedom, one for each of the squares ``u`` = z²/ν > 0.

    >>> within_any(np.array([1.0 / 3.0, 1e-4]), np.array([3.0, 1e4])).round(4).tolist()
    [0.609, 0.6827]
    """
    xp = jnp if isinstance(u, jax.Array) else np
    small, large = xp.minimum(u, 1.0), xp.maximum(u, 1.0)  # no quotient of infinities
    share = xp.where(u < 1, small / (1 + small), 1 / (1 + 1 / large))  # z²/(ν + z²)
    found = special_of(xp).betainc(0.5, degrees / 2, share)
    of_many = special_of(xp).erf(_normal_of(xp, u, degrees) / math.sqrt(2.0))
    return xp.where(degrees > _MANY_DEGREES, of_many, found)


def _normal_of(xp: ModuleType, u: Any, degrees: Any) -> Any:
    """The normal quantile at the level of a t quantile, from u = t²/ν; for many degrees ν.

    Hill (1970), Algorithm 395: Student's t-distribution.
    """
    w, b = (degrees - 0.5) * xp.log1p(u), 48 * xp.square(degrees - 0.5)
    inside = ((-0.4 * w - 3.3) * w - 24.0) * w - 85.5
    inside = (inside / (0.8 * xp.square(w) + 100.0 + b) + w + 3.0) / b
    return xp.where(w < 1e3, (1 + inside) * xp.sqrt(w), xp.inf)


def special_of(xp: ModuleType) -> ModuleType:
    """The special functions of a library: for NumPy those of SciPy, on which JAX depends."""
    if xp is jnp:
        return jax.scipy.special
    import scipy.special

    return scipy.special


def squared_ratio(distance: AnyArray, scale: AnyArray) -> Any:
    """(distance / scale)², limited to be finite."""
    if isinstance(distance, np.ndarray):
        return np.minimum(np.abs(distance) / scale, 1e150) ** 2
    return jnp.minimum((distance / scale) ** 2, 1e30)


# --- in NumPy and double precision ---------------------------------------------------------------


class DensityScores(NamedTuple):
    """The scores of labels (n,), NaN for a row without a label or a density."""

    log_score: np.ndarray
    """Logarithms of the densities at the labels."""
    crps: np.ndarray
    """Continuous ranked probability scores, in units of the labels."""
    pit: np.ndarray
    """Probabilities of at most the label."""
    low: np.ndarray
    """Lower ends of the central intervals of :data:`COVERAGE`, also for rows without a label."""
    high: np.ndarray
    """Upper ends."""
    mean: np.ndarray
    """The location of each density, NaN for none."""


def density_scores(
    distribution: StudentMixture, y: ArrayLike, start: float = 0.0
) -> DensityScores:
    """Score mixtures (n,) at labels (n,), as by ``log_prob``, ``crps``, ``cdf`` and ``interval``.

    Args:
      distribution: the distribution of ``y - start`` in each row.
      y: labels, NaN for none.
      start: subtracted from the labels, so that single precision is enough for the distribution.
    """
    y = np.asarray(y, np.float64)
    mean, usable, _ = _usable(distribution)
    low, high = central_intervals(distribution, COVERAGE, start)
    mean, known, own = _usable(distribution, ~np.isnan(y))
    error = (y - start)[known] - mean[known]
    distance = np.abs(error)
    log_score, crps, pit = np.full((3, len(y)), np.nan)
    log_score[known] = np.where(np.isinf(distance), -np.inf, own.log_density(distance))
    crps[known] = own.crps(distance)
    pit[known] = np.clip(0.5 + np.sign(error) * (0.5 - own.tail(distance)), 0.0, 1.0)
    return DensityScores(log_score, crps, pit, low, high, np.where(usable, start + mean, np.nan))


def central_intervals(
    distribution: StudentMixture, coverage: float = COVERAGE, start: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends (n,) between which labels lie with this probability.

    It is :meth:`StudentMixture.interval` without a compilation; NaN where a distribution is not
    finite. Newton's method finds half the width: as the tail is convex, steps from a point below
    never pass it. The closer the probability is to 1, the more steps there are.

    >>> one = StudentMixture(np.zeros(1), np.ones((1, 1)), np.ones((1, 1)), degrees=(3,))
    >>> [end.round(3).tolist() for end in central_intervals(one, 0.95, start=10.0)]
    [[6.818], [13.182]]
    """
    mean, usable, own = _usable(distribution)
    half, distance = np.full(mean.shape, np.nan), np.zeros(usable.sum())
    for _ in range(_MOST_STEPS):
        step = (own.tail(distance) - (1 - coverage) / 2) / np.exp(own.log_density(distance))
        distance = distance + step
        if np.all(np.abs(step) <= _SETTLED * distance):
            break
    half[usable] = distance
    return start + mean - half, start + mean + half


def _usable(
    distribution: StudentMixture, among: Any = True
) -> tuple[np.ndarray, np.ndarray, _Parts]:
    """The locations (n,), the mask of finite distributions ``among`` some (n,), their parts."""
    parts = distribution.mean, distribution.scales, distribution.weights
    mean, scales, weights = (np.asarray(part, np.float64) for part in parts)
    usable = among & np.isfinite(mean) & np.isfinite(scales * weights).all(axis=-1)
    scales, weights = (np.ascontiguousarray(part[usable].T) for part in (scales, weights))
    return mean, usable, _Parts(scales, weights, distribution.degrees)
