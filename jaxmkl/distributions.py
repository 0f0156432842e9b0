"""Predictive distributions of numbers: densities, quantiles, samples and scores.

A distribution is a pytree of arrays. Its methods are pure functions, for use inside any trace, and
work on leading axes of any shape: one prediction, a stream of them (T,), seeds and outputs.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc

from jaxmkl import _pytree as pytree
from jaxmkl._types import Labels

__all__ = ["StudentMixture"]

_BISECTIONS = 60
_LEVELS = {"float32": 7, "float64": 30}  # of a continued fraction
_NODES, _SHARES = np.polynomial.legendre.leggauss(64)


def _several_degrees(owner: object, name: str, value: object) -> tuple[float, ...]:
    degrees = np.atleast_1d(np.asarray(value, np.float64))
    good = degrees.ndim == 1 and degrees.size > 0 and bool((degrees > 2.0).all())
    pytree.require(good, owner, name, value, "numbers above 2, with which variances are finite")
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

    with t_j the density of ν_j degrees of freedom. It is symmetric, with tails as heavy as its
    fewest degrees make them. Where some scale is NaN nothing is known of y: all methods return
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
    >>> low, high = y.interval(0.9)
    >>> bool(jnp.isclose(y.cdf(high) - y.cdf(low), 0.9, atol=1e-5))
    True
    """

    mean: Any
    scales: Any
    weights: Any
    degrees: tuple[float, ...] = pytree.static(convert=_several_degrees)

    @property
    def variance(self) -> Array:
        """Σ_j w_j s_j² ν_j / (ν_j - 2)."""
        own = self._spread(jnp.shape(self.mean))
        each = own.weights * own.scales**2 * (own.nu / (own.nu - 2.0))
        return self._known(jnp.sum(each, axis=-1))

    @property
    def absolute_deviation(self) -> Array:
        """The mean of |y - mean|, which heavy tails move less than they do the variance."""
        own = self._spread(jnp.shape(self.mean))
        each = own.scales * 2.0 * jnp.exp(own.log_peaks) * (own.nu / (own.nu - 1.0))
        return self._known(jnp.sum(own.weights * each, axis=-1))

    def _known(self, value: Array) -> Array:
        """The value (...), NaN where some scale is."""
        return jnp.where(jnp.any(jnp.isnan(self.scales), axis=-1), jnp.nan, value)

    def in_units(self, scale: Array, shift: Any = 0.0) -> "StudentMixture":
        """The distribution of ``shift + scale y``, for a positive scale."""
        unit = jnp.broadcast_to(scale, jnp.shape(self.mean))
        known = ~jnp.isnan(self.scales)
        # derivatives by the unit are not those of NaN
        scales = jnp.where(known, unit[..., None] * jnp.where(known, self.scales, 1.0), jnp.nan)
        mean = shift + unit * self.mean
        return StudentMixture(mean, scales, self.weights, self.degrees)

    def _spread(self, shape: tuple[int, ...]) -> "_Parts":
        """The mean of this shape (...), and what the parts have (..., J); scales 1 for NaN."""
        scales = jnp.asarray(self.scales)
        scales = jnp.where(jnp.isnan(scales), jnp.ones_like(scales), scales)
        mean = jnp.broadcast_to(jnp.asarray(self.mean, scales.dtype), shape)
        of_degrees = jnp.asarray([self.degrees, log_peaks(self.degrees)], scales.dtype)
        each, parts = (*shape, len(self.degrees)), (scales, self.weights, *of_degrees)
        scales, weights, nu, peaks = (jnp.broadcast_to(part, each) for part in parts)
        return _Parts(mean, scales, weights, nu, peaks, self.degrees)

    def _at(self, y: Labels) -> tuple[Array, "_Parts"]:
        """The distance y - mean (...), and the parts there."""
        y = jnp.asarray(y, jnp.asarray(self.scales).dtype)
        own = self._spread(jnp.broadcast_shapes(y.shape, jnp.shape(self.mean)))
        return jnp.broadcast_to(y, own.mean.shape) - own.mean, own

    def log_components(self, y: Labels) -> Array:
        """The logarithms of the t densities at ``y`` (..., J), without their weights."""
        distance, own = self._at(y)
        found = own.log_densities(distance)
        return jnp.where(jnp.isnan(self._known(distance))[..., None], jnp.nan, found)

    def log_prob(self, y: Labels) -> Array:
        """The logarithm of the density at ``y`` (...): the log score of a label."""
        distance, own = self._at(y)
        return self._known(own.log_density(distance))

    def cdf(self, y: Labels) -> Array:
        """The probability of at most ``y`` (...), which is the probability integral transform."""
        distance, own = self._at(y)
        below = distance < 0
        # not an absolute value, whose derivative at 0 is 0
        tail = own.tail(jnp.where(below, -distance, distance))
        return self._known(jnp.where(below, tail, 1.0 - tail))

    def quantile(self, share: Any) -> Array:
        """The y with ``cdf(y) = share``, for shares in [0, 1] that broadcast with the mean.

        It is infinite at both ends, and NaN for what is no share. It is found by bisection of the
        tail; a last step of Newton's gives it derivatives.
        """
        share = jnp.asarray(share, jnp.asarray(self.scales).dtype)
        own = self._spread(jnp.broadcast_shapes(share.shape, jnp.shape(self.mean)))
        share = jnp.broadcast_to(share, own.mean.shape)
        below = share < 0.5
        tail, side = jnp.where(below, share, 1.0 - share), jnp.where(below, -1.0, 1.0)
        fixed, wanted = jax.lax.stop_gradient((own, tail))
        # with more than 2 degrees of freedom P(|T| > z) is below 2/z²
        high = jnp.max(fixed.scales, axis=-1) * jnp.sqrt(2.0 / jnp.maximum(wanted, 1e-30))

        def halved(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2.0
            above = fixed.tail(middle) > wanted
            return jnp.where(above, middle, low), jnp.where(above, high, middle)

        low, high = jax.lax.fori_loop(0, _BISECTIONS, halved, (jnp.zeros_like(high), high))
        distance = (low + high) / 2.0
        # far away the density is too small for its dtype
        density = jnp.maximum(jnp.exp(fixed.log_density(distance)), jnp.finfo(tail.dtype).tiny)
        change = (own.tail(distance) - tail) / density
        end = jnp.where(tail == 0, jnp.inf, jnp.nan)
        return self._known(own.mean + side * jnp.where(tail > 0, distance + change, end))

    def interval(self, coverage: Any) -> tuple[Array, Array]:
        """The lower and upper end (...) between which a label lies with this probability."""
        high = self.quantile((1.0 + coverage) / 2.0)
        return 2.0 * jnp.broadcast_to(self.mean, high.shape) - high, high

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Draws, of the shape ``shape + (...)``."""
        of_part, of_t = jax.random.split(key)
        own = self._spread((*shape, *jnp.shape(self.mean)))
        part = jax.random.categorical(of_part, jnp.log(own.weights))[..., None]
        scale, nu = (jnp.take_along_axis(a, part, -1)[..., 0] for a in (own.scales, own.nu))
        return self._known(own.mean + scale * jax.random.t(of_t, nu, scale.shape, scale.dtype))

    def crps(self, y: Labels) -> Array:
        """The continuous ranked probability score (...), in units of y: smaller is better.

        E|Y - y| - E|Y - Y'| / 2, with Y and Y' drawn independently. The first has a closed form,
        the second is 4 ∫_0^∞ F (1 - F) by 64 points.
        """
        distance, own = self._at(y)
        return self._known(own.mean_distance(distance) - own.mean_difference() / 2.0)


@pytree.dataclass
class _Parts:
    """The parts of a mixture, at as many places as there are; distances are (...) throughout."""

    mean: Array
    """(...)"""
    scales: Array
    """(..., J)"""
    weights: Array
    """(..., J)"""
    nu: Array
    """(..., J)"""
    log_peaks: Array
    """Logarithms of the t densities at 0 (..., J)."""
    degrees: tuple[float, ...] = pytree.static()

    def _ratio(self, distance: Array) -> Array:
        return squared_ratio(distance[..., None], self.scales)

    def log_densities(self, distance: Array) -> Array:
        tail = (self.nu + 1.0) / 2.0 * jnp.log1p(self._ratio(distance) / self.nu)
        return self.log_peaks - jnp.log(self.scales) - tail

    def log_density(self, distance: Array) -> Array:
        return jax.nn.logsumexp(self.log_densities(distance), axis=-1, b=self.weights)

    def _tails(self, distance: Array) -> Array:
        far = jnp.minimum(jnp.abs(distance[..., None]) / self.scales, 1e15)
        return jnp.stack(list(map(_tail, jnp.moveaxis(far, -1, 0), self.degrees)), axis=-1)

    def tail(self, distance: Array) -> Array:
        """The probability of more than mean + distance, for distances of at least 0."""
        return jnp.sum(self.weights * self._tails(distance), axis=-1)

    def mean_distance(self, distance: Array) -> Array:
        """E|Y - y|."""
        nu, density = self.nu, jnp.exp(self.log_densities(distance))
        beyond = 2.0 * self.scales**2 * density * (nu + self._ratio(distance)) / (nu - 1.0)
        inside = jnp.abs(distance)[..., None] * (1.0 - 2.0 * self._tails(distance))
        return jnp.sum(self.weights * (inside + beyond), axis=-1)

    def mean_difference(self) -> Array:
        """E|Y - Y'|, by z = s tan(u), where F (1 - F) is smooth up to u = π/2."""
        u, shares = (np.pi / 4.0 * a for a in (_NODES + 1.0, _SHARES))
        scale = jnp.exp(jnp.sum(self.weights * jnp.log(self.scales), axis=-1))
        places, shares = np.tan(u), shares * (1.0 + np.tan(u) ** 2)

        def added(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            tail = self.tail(node[0] * scale)
            return total + node[1] * tail * (1.0 - tail), None

        nodes = jnp.asarray(places, scale.dtype), jnp.asarray(shares, scale.dtype)
        total, _ = jax.lax.scan(added, jnp.zeros_like(scale), nodes)
        return 4.0 * scale * total


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _tail(z: Array, degrees: float) -> Array:
    """The probability that Student's t of ν degrees of freedom exceeds ``z`` >= 0.

    With c = 1 / (1 + z²/ν), a = ν/2 and B the beta function it is, for far z, c below
    (a + 1) / (a + 5/2),

        c^a √(1 - c) / (2 a B(a, 1/2)) · 1/(1 + d_1/(1 + d_2/(1 + ...))),
        d_2m = m (1/2 - m) c / ((a + 2m - 1)(a + 2m)),
        d_2m+1 = -(a + m)(a + m + 1/2) c / ((a + 2m)(a + 2m + 1))

    (Abramowitz and Stegun, 1964, 26.5.8) and else, if ν is whole, by :func:`within`. Other ν take
    the incomplete beta function, in many times the time. Its derivative is the density, which is
    smooth at 0, where these forms have none.
    """
    square = jnp.square(z) / degrees
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
    near = 0.5 - within(jnp.where(is_far, 1.0, square), int(degrees)) / 2.0
    return jnp.where(is_far, scale / (2.0 * a * fraction), near)


@_tail.defjvp
def _tail_and_slope(degrees: float, at: tuple[Array], by: tuple[Array]) -> tuple[Array, Array]:
    (z,), (change,) = at, by
    (log_peak,) = log_peaks((degrees,))
    density = jnp.exp(log_peak - (degrees + 1.0) / 2.0 * jnp.log1p(jnp.square(z) / degrees))
    return _tail(z, degrees), -density * change


def within(square: Any, degrees: int) -> Any:
    """P(|T| <= z) of Student's t of whole degrees of freedom ν, at ``square`` = z²/ν >= 0.

    With r = sqrt(square) and c = 1 / (1 + square) it is (Abramowitz and Stegun, 1964, 26.7.3 and
    26.7.4; the sums have ⌊ν/2⌋ terms)

        r √c Σ_k a_k c^k,                    a_k = a_{k-1} (k - 1/2)/k,    ν even
        2/π (arctan r + r c Σ_k a_k c^k),    a_k = a_{k-1} k/(k + 1/2),    ν odd

    with a_0 = 1. Arrays of NumPy stay such, those of JAX may be traced.

    >>> within(np.array([0.0, 1.0 / 3.0]), 3).round(4).tolist()
    [0.0, 0.609]
    """
    xp = jnp if isinstance(square, jax.Array) else np
    r, c, k = xp.sqrt(square), 1.0 / (1.0 + square), np.arange(1, degrees // 2)
    ratios = k / (k + 0.5) if degrees % 2 else (k - 0.5) / k
    total = 0.0
    for coefficient in np.cumprod([1.0, *ratios])[::-1].tolist():
        total = total * c + coefficient
    if degrees % 2:
        return 2.0 / np.pi * (xp.arctan(r) + r * c * total)
    return r * xp.sqrt(c) * total


def squared_ratio(distance: Array, scale: Array) -> Array:
    """(distance / scale)², limited so that it is finite."""
    return jnp.minimum(jnp.square(distance / scale), 1e30)
