"""Spaces of kernels, in which a learner moves by gradient steps while it learns.

An optimizer (:mod:`jaxmkl.optimizers`) takes steps in coordinates that suit the space, such as a
Gaussian's precision γ = 1 / (2 b²), or the logarithms of parameters.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, equation (4) and section 6.
"""

import abc
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxmkl import _pytree as pytree
from jaxmkl._types import Number, Numbers, PyTree
from jaxmkl.kernels import scaled
from jaxmkl.kernels.combined import KernelDictionary
from jaxmkl.kernels.kernel import Kernel
from jaxmkl.kernels.products import Products
from jaxmkl.kernels.scaled import Scaled


class KernelSpace(abc.ABC):
    """Base of spaces of kernels: frozen pytree dataclasses. Coordinates are a pytree."""

    @property
    @abc.abstractmethod
    def num_starts(self) -> int:
        """Number of kernels that a search may start from."""

    @property
    def unit(self) -> bool:
        """True if all of its kernels are known to have k(x, x) = 1."""
        return False

    @abc.abstractmethod
    def init(self, index: jax.Array, num_inputs: int, dtype: DTypeLike) -> PyTree:
        """Coordinates of the start with this ``index``."""

    @abc.abstractmethod
    def values(self, coordinates: PyTree, x: jax.Array, rows: jax.Array) -> Scaled:
        """Values (n,) of the kernel between x (D,) and the rows (n, D), all of them finite."""

    @abc.abstractmethod
    def clip(self, coordinates: PyTree) -> PyTree:
        """The nearest coordinates inside the space."""

    @abc.abstractmethod
    def parameters(self, coordinates: PyTree) -> PyTree:
        """The kernel's parameters in the usual units, such as bandwidths."""

    def draw_start(self, key: jax.Array, num_inputs: int, dtype: DTypeLike) -> PyTree:
        """Coordinates of a start, drawn uniformly."""
        index = jax.random.randint(key, (), 0, self.num_starts, dtype=jnp.int32)
        return self.init(index, num_inputs, dtype)


@pytree.dataclass
class GaussianWidths(KernelSpace):
    """Gaussians exp(-Σ_d (x_d - x'_d)² / (2 b_d²)), one bandwidth b or one for each input.

    Args:
      lower, upper: smallest and largest bandwidth, by default 2^-6.5 and 2^5.5 (Zhang and Liao,
        2020).
      start: bandwidths, one of which is drawn to start with, for all inputs; by default the seven
        widest of the paper's 25: 2^2.5, 2^3, ..., 2^5.5.
      per_input: whether every input has a bandwidth of its own (static).
      coordinate: the quantity that gradient steps change, "precision", γ = 1 / (2 b²), or
        "bandwidth" (static).

    Raises:
      ValueError: if a bandwidth is not positive, or a start lies outside the bounds.

    >>> GaussianWidths(start=0.5).init(jnp.array(0), num_inputs=3, dtype=jnp.float32)  # γ
    Array(2., dtype=float32)
    """

    lower: Number = pytree.positive(default=2.0**-6.5)
    upper: Number = pytree.positive(default=2.0**5.5)
    start: Numbers = pytree.positive(default=tuple(2.0 ** (i / 2) for i in range(5, 12)), ndim=1)
    per_input: bool = pytree.flag(default=False)
    coordinate: str = pytree.choice("precision", "bandwidth", default="precision")

    def __post_init__(self) -> None:
        if any(isinstance(v, jax.core.Tracer) for v in (self.lower, self.upper, self.start)):
            return
        text = f"at least lower, {self.lower!r}"
        pytree.require(bool(self.lower <= self.upper), self, "upper", self.upper, text)
        starts, text = np.asarray(self.start), f"within [{self.lower!r}, {self.upper!r}]"
        good = bool((starts >= self.lower).all() and (starts <= self.upper).all())
        pytree.require(good, self, "start", self.start, text)

    @property
    def num_starts(self) -> int:
        return np.size(self.start)

    @property
    def unit(self) -> bool:
        return True

    def init(self, index: jax.Array, num_inputs: int, dtype: DTypeLike) -> jax.Array:
        start = jnp.atleast_1d(jnp.asarray(self.start, dtype))[index]
        return self._coordinate(jnp.broadcast_to(start, (num_inputs,) if self.per_input else ()))

    def _coordinate(self, bandwidth: jax.Array) -> jax.Array:
        return 0.5 / bandwidth**2 if self.coordinate == "precision" else bandwidth

    def parameters(self, coordinates: jax.Array) -> jax.Array:
        return (0.5 / coordinates) ** 0.5 if self.coordinate == "precision" else coordinates

    def values(self, coordinates: jax.Array, x: jax.Array, rows: jax.Array) -> Scaled:
        # broadcast last, or each of the n D terms would compute gamma again
        gamma = coordinates if self.coordinate == "precision" else 0.5 / coordinates**2
        gamma = jnp.broadcast_to(gamma, x.shape)[None, :]
        # weight before summing: a sum that overflows would have no finite derivative
        return scaled.of_codes(jnp.sum(gamma * (rows - x[None, :]) ** 2, axis=1), True)

    def clip(self, coordinates: jax.Array) -> jax.Array:
        ends = self._coordinate(jnp.asarray([self.lower, self.upper], coordinates.dtype))
        # the largest bandwidth has the smallest precision
        return jnp.clip(coordinates, jnp.minimum(*ends), jnp.maximum(*ends))


@pytree.dataclass
class KernelBox(KernelSpace):
    """All kernels whose parameters lie between those of two kernels of one kind.

    Coordinates are a tree like the kernel, with the logarithms of its parameters.

    Args:
      start: one kernel, or a stack from which one is drawn. A kernel of many parts, such as
        :class:`jaxmkl.kernels.WeightedSum`, is one kernel.
      lower, upper: kernels of the same kind with the smallest and the largest parameters.

    Raises:
      ValueError: if the kernels are of different kinds or have no parameters, or if parameters
        are not positive or out of order.

    >>> import jaxmkl
    >>> space = KernelBox(jaxmkl.Cauchy((1.0, 2.0)), jaxmkl.Cauchy(0.1), jaxmkl.Cauchy(10.0))
    >>> space.parameters(space.init(jnp.array(1), num_inputs=3, dtype=jnp.float32))
    Cauchy(bandwidth=Array(2., dtype=float32...))
    """

    start: Kernel = pytree.part(Kernel, "a kernel or a stack of one family")
    lower: Kernel = pytree.part(Kernel, "one kernel")
    upper: Kernel = pytree.part(Kernel, "one kernel")

    def __post_init__(self) -> None:
        for name in ("start", "lower", "upper"):
            kernel, many = getattr(self, name), name == "start"
            good = not isinstance(kernel, KernelDictionary) and (many or kernel.num_kernels == 1)
            wanted = "a kernel or a stack of one family" if many else "one kernel"
            pytree.require(good, self, name, kernel, wanted)
            good = len({jax.tree.structure(one) for one in (kernel, self.start)}) == 1
            pytree.require(good, self, name, kernel, "a kernel of the same kind as start")
            good = bool(jax.tree.leaves(kernel)) and _holds(lambda leaf: leaf > 0, kernel)
            pytree.require(good, self, name, kernel, "a kernel with positive parameters")
        good = _holds(np.less_equal, self.lower, self.start)
        pytree.require(good, self, "lower", self.lower, "at most start everywhere")
        good = _holds(np.greater_equal, self.upper, self.start)
        pytree.require(good, self, "upper", self.upper, "at least start everywhere")

    @property
    def num_starts(self) -> int:
        return self.start.num_kernels

    @property
    def unit(self) -> bool:
        return all(self.start.unit)

    def init(self, index: jax.Array, num_inputs: int, dtype: DTypeLike) -> PyTree:
        def chosen(leaf: ArrayLike) -> jax.Array:
            logs = jnp.log(jnp.asarray(leaf, dtype))
            if self.num_starts == 1 or logs.ndim == 0:
                return logs
            return logs[index] if logs.ndim == 1 else logs[index][None]

        return jax.tree.map(chosen, self.start)

    def parameters(self, coordinates: PyTree) -> PyTree:
        return jax.tree.map(jnp.exp, coordinates)

    def values(self, coordinates: PyTree, x: jax.Array, rows: jax.Array) -> Scaled:
        inner = jnp.dot(rows, x, precision=jax.lax.Precision.HIGHEST)
        largest = float(jnp.finfo(x.dtype).max) ** 0.75
        # an infinite distance would have no finite derivative
        distance = jnp.minimum(jnp.sum((rows - x[None, :]) ** 2, axis=1), largest)
        products = Products(inner[None, :], distance[None, :], x[None, :], rows)
        codes = self.parameters(coordinates).codes(products)[0, 0]
        return scaled.of_codes(codes, self.start.exponential[0])

    def clip(self, coordinates: PyTree) -> PyTree:
        def within(value: jax.Array, low: ArrayLike, high: ArrayLike) -> jax.Array:
            ends = (jnp.log(jnp.asarray(end, value.dtype)) for end in (low, high))
            return jnp.clip(value, *ends)

        return jax.tree.map(within, coordinates, self.lower, self.upper)


def _holds(relation: Callable[..., ArrayLike], *trees: PyTree) -> bool:
    """Tell if the relation holds between all leaves; tracers pass."""
    leaves = zip(*map(jax.tree.leaves, trees), strict=True)
    known = (each for each in leaves if not any(isinstance(a, jax.core.Tracer) for a in each))
    return all(np.all(relation(*map(np.asarray, each))) for each in known)
