"""Numbers that may be too small for their dtype, kept as a mantissa and an exponent.

Between distant points a narrow Gaussian is smaller than the smallest float32, and yet the sign of
a sum of such values decides the step of a perceptron. So a kernel exp(-u) is represented by its
exponent u, and a sum of such values by m exp(-u), with u the smallest exponent in the sum. Terms
with u > 745.13 are zero in every precision; a sum too small for its dtype becomes the smallest
number of its sign. Without this, float32 runs keep up to 15 % more supports than float64 ones.

Kernels return *codes*: exponents u if they are exp(-u), and values otherwise. The static tuple
``exponential`` marks the kernels whose codes are exponents, along an ``axis`` of the codes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree

Marks = tuple[bool, ...] | np.ndarray | jax.Array

VANISHED = 745.13  # exp(-u) is zero in double precision above this
_NOTHING = 1e30  # the exponent of an empty sum; no exponent is larger


@pytree.dataclass
class Scaled:
    """Numbers m exp(-u), elementwise.

    Args:
      mantissa: m, or None if all are 1.
      exponent: u, or None if all are 0, for plain numbers. At most one of both is None.

    >>> far = Scaled(None, jnp.array([800.0, 500.0, 501.0]))  # all of them 0 in float32
    >>> total = far.weighted_sum(jnp.array([9.0, 1.0, -2.0]))
    >>> total.mantissa, total.exponent  # 1 - 2/e; the first vanishes in float64, too
    (Array(0.2642..., dtype=float32), Array(500., dtype=float32))
    >>> (far * far).exponent
    Array([1600., 1000., 1002.], dtype=float32)
    """

    mantissa: Any
    exponent: Any

    def __mul__(self, other: "Scaled") -> "Scaled":
        """The products: m exp(-u) m' exp(-u') = m m' exp(-(u + u'))."""
        return Scaled(
            _unless_none(jnp.multiply, self.mantissa, other.mantissa),
            _unless_none(jnp.add, self.exponent, other.exponent),
        )

    def smallest_exponent(self, live: jax.Array) -> jax.Array:
        """The smallest exponent of the ``live`` numbers along the last axis; 1e30 if none is."""
        if self.exponent is None:
            return jnp.zeros_like(self.mantissa[..., 0])
        return jax.lax.stop_gradient(jnp.min(jnp.where(live, self.exponent, _NOTHING), axis=-1))

    def times_exp(self, exponent: jax.Array) -> jax.Array:
        """Plain numbers m exp(exponent - u), or m where u is below ``exponent``."""
        if self.exponent is None:
            return self.mantissa
        # At most 0, so exp cannot overflow. Not by a minimum: its derivative is halved where both
        # are equal, as they are at the smallest exponent of a sum.
        difference = exponent - self.exponent
        difference = jnp.where(difference <= 0, difference, 0.0)
        # chosen before exp: a compiler makes a branch of what is chosen after it
        decaying = jnp.exp(jnp.where(is_there(self.exponent), difference, -_NOTHING))
        return decaying if self.mantissa is None else self.mantissa * decaying

    def weighted_sum(
        self, weights: jax.Array, start: "Scaled | None" = None, axis: int = -1
    ) -> "Scaled":
        """The sum of ``start`` and Σ_j w_j m_j exp(-u_j), along an axis.

        Its exponent is the smallest exponent of its terms, at most 745.13, and a constant to
        derivatives. Terms with a weight of 0 are ignored, even if they are NaN.
        """
        there = weights != 0
        if self.exponent is None:
            value = jnp.sum(jnp.where(there, weights * self.mantissa, 0.0), axis=axis)
            return Scaled(value if start is None else value + start.mantissa, None)
        exponents = jnp.where(there & is_there(self.exponent), self.exponent, _NOTHING)
        # below that of terms that are left out, which vanish so by themselves
        exponent = jnp.minimum(jax.lax.stop_gradient(jnp.min(exponents, axis=axis)), VANISHED)
        if start is not None:
            exponent = jnp.minimum(exponent, jax.lax.stop_gradient(start.exponent))
        # mantissas of the terms for the common exponent: none of them can overflow
        terms = weights * jnp.exp(jnp.expand_dims(exponent, axis) - exponents)
        if self.mantissa is not None:
            # chosen before the product, for the same reason as in times_exp
            terms = jnp.where(there, self.mantissa, 0.0) * terms
        value = jnp.sum(terms, axis=axis)
        if start is not None:
            value = value + start.mantissa * jnp.exp(exponent - start.exponent)
        return Scaled(value, exponent)

    def plain(self) -> jax.Array:
        """Plain numbers; those too small for the dtype become 0."""
        if self.exponent is None:
            return self.mantissa
        decaying = jnp.exp(-self.exponent)
        return decaying if self.mantissa is None else self.mantissa * decaying

    def value(self) -> jax.Array:
        """Plain numbers; those too small for the dtype become the smallest of their sign."""
        if self.exponent is None:
            return self.mantissa
        there = is_there(self.exponent).astype(self.exponent.dtype)
        mantissa = there if self.mantissa is None else self.mantissa
        value = mantissa * jnp.exp(-self.exponent)
        tiny = jnp.finfo(value.dtype).tiny
        small = (mantissa != 0) & (jnp.abs(value) < tiny)
        return jnp.where(small, jnp.sign(mantissa) * tiny, value)


def is_there(exponent: jax.Array) -> jax.Array:
    """Tell if exp(-u) is more than 0 in double precision."""
    return exponent <= VANISHED


def _unless_none(
    combine: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array | None, b: jax.Array | None
) -> jax.Array | None:
    """``combine(a, b)``, where None stands for the neutral element: the other one is returned."""
    if a is None:
        return b
    return a if b is None else combine(a, b)


def nothing(like: jax.Array) -> Scaled:
    """Empty sums, in the shape of ``like``."""
    return Scaled(jnp.zeros_like(like), jnp.full_like(like, _NOTHING))


def bounded(values: jax.Array) -> jax.Array:
    """Values clipped so that the sum of a million of them is finite; NaN becomes 0."""
    bound = 1e-6 * float(jnp.finfo(values.dtype).max)
    return jnp.clip(jnp.nan_to_num(values, nan=0.0, posinf=bound, neginf=-bound), -bound, bound)


def of_each_kind(
    exponential: tuple[bool, ...],
    exponents: Callable[[], jax.Array],
    values: Callable[[], jax.Array],
    axis: int = 0,
) -> jax.Array:
    """Codes of kernels: from ``exponents()`` if they are exp(-u), else from ``values()``."""
    if all(exponential):
        return exponents()
    if not any(exponential):
        return values()
    others = values()
    return jnp.where(_along(exponential, others.ndim, axis), exponents(), others)


def _along(exponential: tuple[bool, ...], ndim: int, axis: int) -> np.ndarray:
    """The marks, in a shape that broadcasts with an array that has kernels along ``axis``."""
    return np.array(exponential).reshape([-1 if i == axis else 1 for i in range(ndim)])


def of_codes(codes: jax.Array, exponential: bool) -> Scaled:
    """Codes of one kernel as finite numbers m exp(-u)."""
    if exponential:
        return Scaled(None, jnp.minimum(codes, _NOTHING))
    return Scaled(bounded(codes), None)


def unpacked(codes: jax.Array, exponential: Marks, axis: int = 0) -> Scaled:
    """Codes as numbers m exp(-u); ``exponential`` may be an array that broadcasts with them."""
    if isinstance(exponential, tuple):
        if all(exponential):
            return Scaled(None, codes)
        if not any(exponential):
            return Scaled(codes, None)
        exponential = _along(exponential, codes.ndim, axis)
    return Scaled(jnp.where(exponential, 1.0, codes), jnp.where(exponential, codes, 0.0))


def plain(codes: jax.Array, exponential: Marks, axis: int = 0) -> jax.Array:
    """Codes as plain values, 0 if they are too small; arguments as for :func:`unpacked`."""
    return unpacked(codes, exponential, axis).plain()


def finite(codes: jax.Array, exponential: tuple[bool, ...], axis: int = 0) -> jax.Array:
    """Codes; those that are values are bounded."""
    return of_each_kind(exponential, lambda: codes, lambda: bounded(codes), axis)
