"""Kernels that are functions of the distance: Gaussian, Laplacian, Cauchy, a base for others.

Their spectral densities (Rahimi and Recht, 2007) are scale mixtures of Gaussians: a frequency is
``s g / b`` with g ~ N(0, I), the bandwidth b and a random scale s. It is 1 for a Gaussian; 1/|u|
with u ~ N(0, 1) for a Laplacian, whose frequencies are multivariate Cauchy; and sqrt(2 e) with
e ~ Exp(1) for a Cauchy kernel, whose frequencies are multivariate Laplace.
"""

import abc
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import Numbers, at_least_single
from jaxmkl.kernels.kernel import Kernel
from jaxmkl.kernels.products import Products


class Stacked(Kernel):
    """Base of kernels of one family that differ in parameters: numbers, or arrays (P,)."""

    profile_is_exponent = False  # True if the profile is the exponent v of a kernel exp(-v)
    _per_input: tuple[str, ...] = ()  # parameters that may be (P, D), one for each of the inputs

    def __post_init__(self) -> None:
        P = self.num_kernels
        for name, shape in self._shapes().items():
            good = len(shape) <= 1 + (name in self._per_input) and shape[:1] in ((), (1,), (P,))
            wanted = f"a number or one for each of the {P} kernels"
            pytree.require(good, self, name, getattr(self, name), wanted)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        names = [field.name for field in fields if not field.metadata.get("static")]
        return {name: jnp.shape(getattr(self, name)) for name in names}

    @property
    def num_kernels(self) -> int:
        return max((shape[0] for shape in self._shapes().values() if shape), default=1)

    @property
    def exponential(self) -> tuple[bool, ...]:
        return (self.profile_is_exponent,) * self.num_kernels

    def profile(self, u: jax.Array) -> jax.Array:
        """The codes for arguments ``u``, elementwise; parameters have shapes that broadcast."""
        pytree.abstract(self, "profile")

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        return self.codes(products, index)

    def codes(self, products: Products, index: jax.Array | None = None) -> jax.Array:
        """Codes (P, n, m), or with an ``index`` the codes (n, m) of :meth:`column_codes`."""
        u = self._argument(products, index)
        shape = (self.num_kernels, *u.shape[1:]) if index is None else u.shape
        return jnp.broadcast_to(self._profile_of(u, index), shape)

    @abc.abstractmethod
    def _argument(self, products: Products, index: jax.Array | None) -> jax.Array:
        """The argument u of the profile."""

    def _profile_of(self, u: jax.Array, index: jax.Array | None) -> jax.Array:
        """The profile of u, with parameters (P,) reshaped to broadcast with it."""

        def spread(value: ArrayLike) -> jax.Array:
            value = jnp.asarray(value, u.dtype)
            if value.ndim != 1:
                return value
            value = jnp.broadcast_to(value, (self.num_kernels,))
            return value[:, None, None] if index is None else value[index][None, :]

        return jax.tree.map(spread, self).profile(u)


@pytree.dataclass
class Stationary(Stacked):
    """Base of kernels that are functions of the distance in units of a bandwidth.

    A subclass defines ``profile(u)``, the kernel's values for u = r² / b², elementwise; further
    parameters broadcast with u there. With ``profile_is_exponent = True`` the profile is v, and
    the kernel exp(-v), so values too small for their dtype lose nothing. Where points coincide,
    the derivative by the distance is taken to be zero, so that the profile may have square roots;
    with ``smooth = True`` the profile is differentiated there as it is.

    Args:
      bandwidth: b: a number, an array (P,), or (P, D), one for each input, and then
        u = Σ_d (x_d - x'_d)² / b_d².

    >>> from jaxmkl import pytree
    >>> @pytree.dataclass
    ... class Matern32(Stationary):
    ...     def profile(self, u):
    ...         s = jnp.sqrt(3 * u)
    ...         return (1 + s) * jnp.exp(-s)
    >>> Matern32([0.5, 1.0]).gram(jnp.zeros((1, 2)), jnp.ones((1, 2))).ravel()
    Array([0.0439..., 0.2978...], dtype=float32)
    """

    bandwidth: Numbers = pytree.positive(ndim=2)
    smooth = False
    _per_input = ("bandwidth",)

    def _argument(self, products: Products, index: jax.Array | None) -> jax.Array:
        dtype = products.X.dtype
        # the square of a quotient, as the slope of 1 / b² would overflow where the value does not
        weights = 1.0 / self._widths(at_least_single(dtype))
        weights = (weights**2).astype(dtype)
        if index is None and weights.ndim == 2:
            return products.weighted_distance(weights)
        if index is None:
            return products.squared_distance[None] * weights[:, None, None]
        weights = jnp.broadcast_to(weights, (self.num_kernels, *weights.shape[1:]))[index]
        if weights.ndim == 2:
            return products.weighted_column_distance(weights)
        return products.squared_distance * weights[None, :]

    def _widths(self, dtype: DTypeLike) -> jax.Array:
        """The bandwidths (P,) or (P, D), from the least whose square is a normal number.

        Below it, as there, different points are unlike each other, and equal ones are not 0 · ∞.
        """
        widths = jnp.atleast_1d(jnp.asarray(self.bandwidth, dtype))
        return jnp.maximum(widths, float(np.sqrt(jnp.finfo(dtype).tiny)))

    def _profile_of(self, u: jax.Array, index: jax.Array | None) -> jax.Array:
        profile = partial(super()._profile_of, index=index)
        if self.smooth:
            return profile(u)
        # where u is 0, take the profile of a constant: the derivative of a root is infinite there
        apart = u > 0
        zero = profile(jnp.zeros((1,) * u.ndim, u.dtype))
        return jnp.where(apart, profile(jnp.where(apart, u, 1.0)), zero)

    def require_inputs(self, num_inputs: int) -> None:
        shape = np.shape(self.bandwidth)
        wanted = f"(P, {num_inputs}), a width for each of the inputs"
        good = len(shape) < 2 or shape[1] == num_inputs
        pytree.require(good, self, "the shape of bandwidth", shape, wanted)

    def frequencies(self, drawn: jax.Array) -> jax.Array:
        widths = self._widths(drawn.dtype)
        widths = widths if widths.ndim == 2 else widths[:, None]
        return drawn / (2.0 * np.pi * widths[:, None, :])


@pytree.dataclass
class Gaussian(Stationary):
    """Gaussian kernel exp(-r² / (2 b²)), b the ``bandwidth`` as in :class:`Stationary`.

    >>> Gaussian([0.1, 1.0]).num_kernels, Gaussian([[0.1, 1.0]]).num_kernels  # one b per input
    (2, 1)
    """

    profile_is_exponent = True
    smooth = True

    def profile(self, u: jax.Array) -> jax.Array:
        return 0.5 * u

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        return jnp.ones((self.num_kernels, num_features), dtype)


@pytree.dataclass
class Laplacian(Stationary):
    """Laplacian (exponential) kernel exp(-r / b), r the Euclidean distance.

    b is the ``bandwidth`` as in :class:`Stationary`. Where inputs coincide the gradient is zero.
    """

    profile_is_exponent = True

    def profile(self, u: jax.Array) -> jax.Array:
        return jnp.sqrt(u)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        u = jax.random.normal(key, (self.num_kernels, num_features), dtype)
        return 1.0 / jnp.maximum(jnp.abs(u), 1e-7)


@pytree.dataclass
class Cauchy(Stationary):
    """Cauchy (rational quadratic) kernel 1 / (1 + r² / b²), b as in :class:`Stationary`."""

    smooth = True

    def profile(self, u: jax.Array) -> jax.Array:
        return 1.0 / (1.0 + u)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        return jnp.sqrt(2.0 * jax.random.exponential(key, (self.num_kernels, num_features), dtype))
