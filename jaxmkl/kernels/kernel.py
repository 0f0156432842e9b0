"""The base of all kernels, and kernels made from others by ``+``, ``*`` and ``on``."""

import abc
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._checks import as_floats
from jaxmkl._types import Numbers, PyTree
from jaxmkl.kernels import scaled
from jaxmkl.kernels.products import Products, pairwise_products

Columns = int | Sequence[int] | np.ndarray

# Error messages ask for this if something else than kernels is given, such as a list.
SEVERAL = "a kernel, as jaxmkl.Gaussian([0.5, 2.0]), or several in one jaxmkl.KernelDictionary"


class Kernel(abc.ABC):
    """Base of all kernels: a value is one kernel, or a stack of P kernels.

    Kernels can be added, multiplied and restricted to some of the inputs; stacks combine kernel by
    kernel, and one kernel combines with every kernel of a stack:

    >>> import jaxmkl
    >>> kernel = 0.5 * jaxmkl.Gaussian([1.0, 2.0]) * jaxmkl.Polynomial(2) + jaxmkl.Linear()
    >>> (kernel + jaxmkl.Linear().on([0])).gram(jnp.ones((1, 2))).ravel()  # 2² / 2 + 2 + 1
    Array([5., 5.], dtype=float32)

    **A kernel of your own.** For a function of the squared distance, subclass
    :class:`jaxmkl.kernels.Stationary` with one method; for one of the inner product,
    :class:`jaxmkl.kernels.DotProduct`. For any other, subclass this class, decorate the subclass
    with :func:`jaxmkl.pytree.dataclass`, and define ``num_kernels`` and ``codes``:

    >>> @pytree.dataclass
    ... class Periodic(Kernel):
    ...     period: float = pytree.positive(default=1.0)
    ...     num_kernels = 1
    ...     exponential = (True,)  # exp(-u), and the codes are u
    ...     def codes(self, products):  # 2 Σ_d sin²(π (x_d - x'_d) / period)
    ...         turns = (products.X[:, None, :] - products.Y[None, :, :]) / self.period
    ...         return 2 * jnp.sum(jnp.sin(jnp.pi * turns) ** 2, axis=2)[None]
    >>> Periodic(2.0).gram(jnp.zeros((1, 1)), jnp.ones((1, 1)))  # exp(-2)
    Array([[[0.1353...]]], dtype=float32)

    ``jaxmkl.testing.check_kernel(Periodic(2.0))`` tells whether it meets these requirements:

    ``codes`` is given :class:`jaxmkl.kernels.Products`: ``inner`` and ``squared_distance`` (n, m),
    ``X`` (n, D) and ``Y`` (m, D), always all four. It returns (P, n, m) in their dtype, where

    - code i, j depends on row i of X and row j of Y alone: n and m are any numbers, because the
      library asks for Gram matrices, for single columns and for k(x, x);
    - the code of a kernel that ``exponential`` marks is the exponent u of exp(-u), so that values
      too small for their dtype lose nothing; the code of any other is its value k (the default);
    - parameters are fields that are traced: use ``jnp`` and no ``if`` on their values; fields that
      change shapes are ``pytree.static()``;
    - values are symmetric and positive semidefinite; derivatives are finite where X = Y.

    The other methods follow from these two. To save work, a kernel may define ``column_codes``
    (codes of one kernel per column) and ``families`` (parts of a stack that share their work); one
    with k(x, x) = 1 ``unit``, so that diverging classifiers are noticed; one whose parameters
    require some number of inputs ``require_inputs``; and one that is shift-invariant
    ``spectral_scale`` and ``frequencies``, for random features.
    """

    __array_ufunc__ = None  # NumPy scalars leave their product to the kernel

    @property
    @abc.abstractmethod
    def num_kernels(self) -> int:
        """Number of kernels P."""

    @property
    def exponential(self) -> tuple[bool, ...]:
        """For each of the P kernels, True if it is exp(-u) and its code is u."""
        return (False,) * self.num_kernels

    @property
    def unit(self) -> tuple[bool, ...]:
        """For each of the P kernels, True if k(x, x) = 1 for all x is known.

        By default it is known of kernels with a known spectrum, as these have Fourier features.
        """
        return (not self.without_spectrum,) * self.num_kernels

    @property
    def families(self) -> tuple["Kernel", ...]:
        """The kernels in parts, in order; work common to the kernels of a part is done once."""
        return (self,)

    @property
    def without_spectrum(self) -> tuple[str, ...]:
        """Names of the kernels with an unknown spectrum, which have no Fourier features."""
        known = type(self).spectral_scale is not Kernel.spectral_scale
        return () if known else (type(self).__name__,)

    @property
    def num_spectra(self) -> int:
        """Number Q of spectra from which frequencies are drawn: P, or more for a product."""
        return self.num_kernels

    @abc.abstractmethod
    def codes(self, products: Products) -> jax.Array:
        """Codes (P, n, m): exponents u of kernels exp(-u), and values of the others."""

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        """Codes (n, m) of one kernel per column: column j has those of the kernel ``index[j]``."""
        return jnp.take_along_axis(self.codes(products), index[None, None, :], axis=0)[0]

    def evaluate(self, products: Products) -> jax.Array:
        """Kernel values (P, n, m) from inner products and squared distances."""
        return scaled.plain(self.codes(products), self.exponential)

    def gram(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """Kernel values (P, n, m) between the rows of ``X`` (n, D) and ``Y`` (m, D; default X)."""
        X = as_floats("X", X)
        Y = X if Y is None else as_floats("Y", Y)
        pytree.require(X.ndim == 2, self, "the shape of X", X.shape, "(n, D), n rows of D inputs")
        good, wanted = Y.ndim == 2 and X.shape[1:] == Y.shape[1:], f"(m, {X.shape[1]}), as X has"
        pytree.require(good, self, "the shape of Y", Y.shape, f"{wanted} {X.shape}")
        self.require_inputs(X.shape[1])
        return self.evaluate(pairwise_products(X, Y))

    def diagonal_codes(self, X: jax.Array) -> jax.Array:
        """Codes (P, n) of each row of ``X`` (n, D) with itself."""

        def of_row(row: jax.Array, square: jax.Array) -> jax.Array:
            one = square[None, None]
            return self.codes(Products(one, jnp.zeros_like(one), row[None], row[None]))[:, 0, 0]

        return jax.vmap(of_row, out_axes=1)(X, jnp.sum(X**2, axis=1))

    def require_inputs(self, num_inputs: int) -> None:
        """Raise a ``ValueError`` unless the parameters fit rows of D inputs."""
        for kernel in kernels_in(vars(self)):
            kernel.require_inputs(num_inputs)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        """Random scales s (Q, F): s g with g ~ N(0, I) follows the kernel's spectral density.

        They are drawn for bandwidth 1, as :meth:`frequencies` divides by the bandwidth.
        """
        pytree.abstract(self, "spectral_scale")

    def frequencies(self, drawn: jax.Array) -> jax.Array:
        """Frequencies (P, F, D), in turns (v / 2π), from draws (Q, F, D)."""
        return drawn / (2.0 * np.pi)

    def on(self, columns: Columns) -> "Kernel":
        """The kernel on some ``columns`` of the inputs: one index, or several that differ.

        >>> import jaxmkl
        >>> jaxmkl.Gaussian(1.0).on([0, 2])
        OnColumns(kernel=Gaussian(bandwidth=1.0), columns=(0, 2))
        """
        return OnColumns(self, columns)  # type: ignore[arg-type]

    def __add__(self, other: "Kernel") -> "Kernel":
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | Numbers") -> "Kernel":
        return Product((self, other)) if isinstance(other, Kernel) else Multiple(self, other)

    __rmul__ = __mul__


def kernels_in(tree: PyTree) -> list[Kernel]:
    """The outermost kernels of a tree, without their parts."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda value: isinstance(value, Kernel))
    return [leaf for leaf in leaves if isinstance(leaf, Kernel)]


def of_the_kernel(name: str) -> Any:
    """A property of a kernel that is the one of its part ``kernel``."""
    return property(attrgetter(f"kernel.{name}"), doc="As in the kernel.")


def of_all_parts(name: str) -> Any:
    """A property of a kernel that joins the tuples of its parts ``kernels``."""
    of_each, doc = attrgetter(name), "As in the kernels, one after the other."
    return property(lambda self: sum(map(of_each, self.kernels), ()), doc=doc)


class WithSpectraOfParts(Kernel):
    """Base of kernels whose spectra are those of their ``kernels``, one part after the other."""

    kernels: tuple[Kernel, ...]
    without_spectrum = of_all_parts("without_spectrum")

    @property
    def num_spectra(self) -> int:
        return sum(kernel.num_spectra for kernel in self.kernels)

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        pairs = zip(self.kernels, jax.random.split(key, len(self.kernels)), strict=True)
        return jnp.concatenate([k.spectral_scale(own, num_features, dtype) for k, own in pairs])

    def _frequencies(self, drawn: jax.Array) -> list[jax.Array]:
        """Frequencies of the parts."""
        *ends, _ = accumulate(kernel.num_spectra for kernel in self.kernels)
        pairs = zip(self.kernels, jnp.split(drawn, ends), strict=True)
        return [kernel.frequencies(own) for kernel, own in pairs]


@pytree.dataclass
class _Combined(Kernel):
    """Two or more ``kernels`` combined one by one, each with P kernels or with one."""

    kernels: tuple[Kernel, ...] = pytree.parts(Kernel, "a kernel")

    def __post_init__(self) -> None:
        sizes = {kernel.num_kernels for kernel in self.kernels} - {1}
        wanted = "of one number of kernels each, or of one kernel"
        pytree.require(len(sizes) <= 1, self, "kernels", self.kernels, wanted)

    @property
    def num_kernels(self) -> int:
        return max(kernel.num_kernels for kernel in self.kernels)


@pytree.dataclass
class Sum(_Combined):
    """The sums k + k' of two or more ``kernels``, each with P kernels or with one."""

    def codes(self, products: Products) -> jax.Array:
        return reduce(jnp.add, [kernel.evaluate(products) for kernel in self.kernels])


@pytree.dataclass
class Product(WithSpectraOfParts, _Combined):
    """The products k k' of two or more ``kernels``, each with P kernels or with one.

    If all factors are exp(-u), so is the product, and exponents add up. Its frequencies are sums
    of independent frequencies of its factors, as k k' is the mean of cos((v + v')·(x - x')).
    """

    @property
    def exponential(self) -> tuple[bool, ...]:
        return self._in_all_factors("exponential")

    @property
    def unit(self) -> tuple[bool, ...]:
        return self._in_all_factors("unit")

    def _in_all_factors(self, name: str) -> tuple[bool, ...]:
        marks = np.broadcast_arrays(*(getattr(kernel, name) for kernel in self.kernels))
        return tuple(np.all(marks, axis=0).tolist())

    @property
    def families(self) -> tuple[Kernel, ...]:
        """Products of the factors' families, if these have the same sizes."""
        families = [kernel.families for kernel in self.kernels]
        sizes = {tuple(family.num_kernels for family in one) for one in families}
        return tuple(map(Product, zip(*families, strict=True))) if len(sizes) == 1 else (self,)

    def codes(self, products: Products) -> jax.Array:
        return scaled.of_each_kind(
            self.exponential,
            lambda: reduce(jnp.add, [kernel.codes(products) for kernel in self.kernels]),
            lambda: reduce(jnp.multiply, [kernel.evaluate(products) for kernel in self.kernels]),
        )

    def frequencies(self, drawn: jax.Array) -> jax.Array:
        return reduce(jnp.add, self._frequencies(drawn))


@pytree.dataclass
class Multiple(Kernel):
    """A positive ``factor`` c, a number or (P,), times one ``kernel`` or P: exponents u - log c.

    Raises:
      ValueError: if ``kernel`` is not a kernel, or the factor is not positive.
    """

    kernel: Kernel = pytree.part(Kernel, "a kernel")
    factor: Numbers = pytree.positive(ndim=1)

    def __post_init__(self) -> None:
        P = self.kernel.num_kernels
        good = len({P, np.size(self.factor)} - {1}) <= 1
        wanted = f"one number, or one for each of the {P} kernels"
        pytree.require(good, self, "factor", self.factor, wanted)

    @property
    def num_kernels(self) -> int:
        return max(self.kernel.num_kernels, np.size(self.factor))

    @property
    def exponential(self) -> tuple[bool, ...]:
        return self.kernel.exponential * (self.num_kernels // self.kernel.num_kernels)

    def _factor(self, dtype: DTypeLike) -> jax.Array:
        return jnp.atleast_1d(jnp.asarray(self.factor, dtype))[:, None, None]

    def codes(self, products: Products) -> jax.Array:
        codes = self.kernel.codes(products)
        c = self._factor(codes.dtype)
        return scaled.of_each_kind(self.exponential, lambda: codes - jnp.log(c), lambda: c * codes)

    def evaluate(self, products: Products) -> jax.Array:
        values = self.kernel.evaluate(products)
        return self._factor(values.dtype) * values


def _as_columns(owner: object, name: str, value: Columns) -> tuple[int, ...]:
    columns = np.atleast_1d(np.asarray(value))
    good = columns.dtype.kind in "iu" and columns.ndim == 1 and columns.size > 0
    good = good and bool((columns >= 0).all()) and len(set(columns.tolist())) == columns.size
    pytree.require(good, owner, name, value, "a column index, or several that differ")
    return tuple(columns.tolist())


@pytree.dataclass
class OnColumns(Kernel):
    """A ``kernel`` on some ``columns`` of the inputs (static); made by :meth:`Kernel.on`.

    Parameters for each input, such as bandwidths (P, D), follow the order of the columns.

    Raises:
      ValueError: if ``kernel`` is not a kernel, or the columns are not distinct whole numbers.
    """

    kernel: Kernel = pytree.part(Kernel, "a kernel")
    columns: tuple[int, ...] = pytree.static(default=pytree.MISSING, convert=_as_columns)

    num_kernels = of_the_kernel("num_kernels")
    exponential = of_the_kernel("exponential")
    unit = of_the_kernel("unit")
    without_spectrum = of_the_kernel("without_spectrum")
    num_spectra = of_the_kernel("num_spectra")

    @property
    def families(self) -> tuple[Kernel, ...]:
        return tuple(family.on(self.columns) for family in self.kernel.families)

    def codes(self, products: Products) -> jax.Array:
        return self.kernel.codes(products.on(self.columns))

    def column_codes(self, products: Products, index: jax.Array) -> jax.Array:
        return self.kernel.column_codes(products.on(self.columns), index)

    def require_inputs(self, num_inputs: int) -> None:
        good = max(self.columns) < num_inputs
        wanted = f"below {num_inputs}, the number of inputs"
        pytree.require(good, self, "columns", self.columns, wanted)
        self.kernel.require_inputs(len(self.columns))

    def spectral_scale(self, key: jax.Array, num_features: int, dtype: DTypeLike) -> jax.Array:
        return self.kernel.spectral_scale(key, num_features, dtype)

    def frequencies(self, drawn: jax.Array) -> jax.Array:
        """The kernel's frequencies, which are 0 outside its columns."""
        places = np.array(self.columns)
        own = self.kernel.frequencies(drawn[:, :, places])
        off = jnp.zeros((*own.shape[:2], drawn.shape[2]), own.dtype)
        return off.at[:, :, places].set(own)
