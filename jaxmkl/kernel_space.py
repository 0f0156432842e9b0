"""Spaces of kernels, in which a learner moves by gradient while it learns, and how it moves.

A space says what the parameters of its kernels are, where a learner may start, what the kernel
is to an example, and where it ends:

    GaussianWidths   a Gaussian with one width, or with one for every input
    KernelBox        any kernel whose parameters are positive, between two others of its kind

A step is taken in coordinates that suit it: a Gaussian's precision γ = 1 / (2 b²), say, or the
logarithm of a parameter. :class:`InverseTime` is the step of the paper, :class:`Optax` one of
optax's optimisers.

References:
  Zhang and Liao (2020), Hypothesis sketching for online kernel selection in continuous kernel
  space, equation (4) and section 6.
"""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxmkl import pytree, support
from jaxmkl.kernels import Kernel, KernelDictionary, Products

__all__ = [
    "GaussianWidths",
    "InverseTime",
    "KernelBox",
    "KernelSpace",
    "Optax",
    "Optimizer",
    "as_optimizer",
    "draw_start",
    "finite_codes",
    "hypothesis",
    "kernel_values",
    "moved",
]

COORDINATES = ("precision", "bandwidth")


class KernelSpace:
    """A space of kernels; a frozen pytree dataclass."""

    @property
    def num_kernels(self) -> int:
        """One: that where the learner is."""
        ...

    @property
    def exponential(self) -> tuple[bool, ...]:
        """Whether its kernels are exp(-u), and their codes u."""
        ...

    def init(self, index: jax.Array, num_inputs: int, dtype: Any) -> Any:
        """Coordinates of the start of number ``index``."""
        ...

    @property
    def num_starts(self) -> int:
        """How many starts there are."""
        ...

    def codes(self, coordinates: Any, x: jax.Array, rows: jax.Array) -> jax.Array:
        """Codes (n,) of the kernel between x (D,) and the rows (n, D)."""
        ...

    def clip(self, coordinates: Any) -> Any:
        """The nearest coordinates inside the space."""
        ...

    def parameters(self, coordinates: Any) -> Any:
        """What a person calls the kernel's parameters."""
        ...


def draw_start(space: KernelSpace, key: jax.Array, num_inputs: int, dtype: Any) -> Any:
    """Coordinates of a start, each as likely as the others."""
    index = jax.random.randint(key, (), 0, space.num_starts, dtype=jnp.int32)
    return space.init(index, num_inputs, dtype)


def finite_codes(space: KernelSpace, codes: jax.Array) -> jax.Array:
    """Codes, none of them infinite or NaN."""
    return jnp.minimum(codes, 1e30) if space.exponential[0] else support.bounded(codes)


def kernel_values(space: KernelSpace, codes: jax.Array) -> jax.Array:
    """Kernel values from codes of any shape."""
    return support.kernel_values(space, codes[None])[0]


def hypothesis(space: KernelSpace, codes: jax.Array, weights: jax.Array) -> jax.Array:
    """f(x) = Σ_j w_j k(x, v_j) from codes (n,) and weights (n,)."""
    return support.total(space, None, codes[None], weights[None])[0]


def moved(
    space: KernelSpace,
    optimizer: "Optimizer",
    gradient: Any,
    state: Any,
    coordinates: Any,
    round: jax.Array,
) -> tuple[Any, Any]:
    """The coordinates after a step, inside the space, and the optimizer's state.

    What is not finite of a step is no step, and what is not finite of the state stays as it was:
    of examples at the bound of inputs, derivatives may overflow.
    """

    def taken(coordinate: jax.Array, step: jax.Array) -> jax.Array:
        return coordinate + jnp.where(jnp.isfinite(step), step, 0.0).astype(coordinate.dtype)

    def kept(new: jax.Array, old: jax.Array) -> jax.Array:
        floating = jnp.issubdtype(new.dtype, jnp.floating)
        return jnp.where(jnp.isfinite(new), new, old) if floating else new

    step, after = optimizer.update(gradient, state, coordinates, round)
    return space.clip(jax.tree.map(taken, coordinates, step)), jax.tree.map(kept, after, state)


def _differences(x: jax.Array, rows: jax.Array) -> jax.Array:
    """Squared differences (n, D)."""
    return (rows - x[None, :]) ** 2


@pytree.dataclass
class GaussianWidths(KernelSpace):
    """Gaussians exp(-Σ_d (x_d - x'_d)² / (2 b_d²)), one width b for all inputs or one for each.

    Args:
      lower: smallest width.
      upper: largest width.
      start: widths of which one, drawn at random, is the first of all inputs; by default the
        seven widest of the paper's 25, 2^2.5, 2^3, ..., 2^5.5.
      per_input: whether every input has a width of its own (static).
      coordinate: in what steps are taken, "precision", γ = 1 / (2 b²), or "bandwidth", b
        (static).

    Raises:
      ValueError: for widths that are not positive, or a start outside the bounds.

    References:
      Zhang and Liao (2020), section 6: 2^-6.5 to 2^5.5.

    >>> import jax.numpy as jnp
    >>> space = GaussianWidths(start=0.5)
    >>> space.init(jnp.array(0), num_inputs=3, dtype=jnp.float32)  # γ
    Array(2., dtype=float32)
    """

    lower: Any = 2.0**-6.5
    upper: Any = 2.0**5.5
    start: Any = tuple(2.0 ** (i / 2) for i in range(5, 12))
    per_input: bool = pytree.static(default=False)
    coordinate: str = pytree.static(default="precision")

    num_kernels = 1
    exponential = (True,)

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "start"):
            value = pytree.as_leaf(
                self,
                name,
                getattr(self, name),
                minimum=0.0,
                exclusive=True,
                max_ndim=int(name == "start"),
                wanted="a positive finite number" + " or several" * (name == "start"),
            )
            object.__setattr__(self, name, value)
        bounds = self.lower, self.upper
        if all(isinstance(bound, float) for bound in bounds):
            good = self.lower <= self.upper
            pytree.require(good, self, "upper", self.upper, f"at least lower, {self.lower!r}")
        if not any(isinstance(v, jax.core.Tracer) for v in (*bounds, self.start)):
            starts = np.asarray(self.start)
            good = bool((starts >= self.lower).all() and (starts <= self.upper).all())
            text = f"within [{self.lower!r}, {self.upper!r}]"
            pytree.require(good, self, "start", self.start, text)
        good = self.coordinate in COORDINATES
        text = "one of " + repr(COORDINATES)
        pytree.require(good, self, "coordinate", self.coordinate, text)

    @property
    def num_starts(self) -> int:
        """How many starts there are."""
        return int(np.prod(jnp.shape(self.start)))

    def init(self, index: jax.Array, num_inputs: int, dtype: Any) -> jax.Array:
        """γ or b of a start: () or (D,)."""
        start = jnp.atleast_1d(jnp.asarray(self.start, dtype))[index]
        return self._coordinate(jnp.broadcast_to(start, (num_inputs,) if self.per_input else ()))

    def _coordinate(self, bandwidth: jax.Array) -> jax.Array:
        """The coordinate of a width."""
        return 0.5 / bandwidth**2 if self.coordinate == "precision" else bandwidth

    def _precision(self, coordinate: jax.Array) -> jax.Array:
        return coordinate if self.coordinate == "precision" else 0.5 / coordinate**2

    def codes(self, coordinates: jax.Array, x: jax.Array, rows: jax.Array) -> jax.Array:
        """Exponents (n,)."""
        gamma = jnp.broadcast_to(self._precision(coordinates), x.shape)
        # the product first: of a sum that overflows, no derivative would be finite
        return jnp.sum(gamma[None, :] * _differences(x, rows), axis=1)

    def clip(self, coordinates: jax.Array) -> jax.Array:
        """Widths within the bounds."""
        ends = [self._coordinate(jnp.asarray(end, coordinates.dtype)) for end in self._ends()]
        return jnp.clip(coordinates, ends[0], ends[1])

    def _ends(self) -> tuple[Any, Any]:
        """The widths with the smallest and the largest coordinate."""
        if self.coordinate == "precision":
            return self.upper, self.lower
        return self.lower, self.upper

    def parameters(self, coordinates: jax.Array) -> jax.Array:
        """The width, () or (D,)."""
        return (0.5 / self._precision(coordinates)) ** 0.5


@pytree.dataclass
class KernelBox(KernelSpace):
    """All kernels between two of a kind, parameter by parameter; steps are taken in logarithms.

    Args:
      start: where to start: one kernel, or a stack of which one is drawn at random. A kernel of
        many parts, as :class:`~jaxmkl.WeightedSum`, is one.
      lower: a kernel of the same kind with the smallest parameters.
      upper: one with the largest.

    Raises:
      ValueError: for kernels of different kinds, parameters that are not positive or out of
        order, or a kernel without parameters.

    >>> import jax.numpy as jnp, jaxmkl
    >>> space = KernelBox(jaxmkl.Cauchy((1.0, 2.0)), jaxmkl.Cauchy(0.1), jaxmkl.Cauchy(10.0))
    >>> space.parameters(space.init(jnp.array(1), num_inputs=3, dtype=jnp.float32))
    Cauchy(bandwidth=Array(2., dtype=float32...))
    """

    start: Any
    lower: Any
    upper: Any

    num_kernels = 1

    def __post_init__(self) -> None:
        for name in ("start", "lower", "upper"):
            kernel = getattr(self, name)
            good = isinstance(kernel, Kernel) and not isinstance(kernel, KernelDictionary)
            good = good and (name == "start" or kernel.num_kernels == 1)
            wanted = "a kernel or a stack of one family" if name == "start" else "one kernel"
            pytree.require(good, self, name, kernel, wanted)
            trees = {jax.tree.structure(part) for part in (kernel, self.start)}
            pytree.require(
                len(trees) == 1, self, name, kernel, "a kernel of the same kind as start"
            )
            leaves = jax.tree.leaves(kernel)
            known = [leaf for leaf in leaves if not isinstance(leaf, jax.core.Tracer)]
            good = bool(leaves) and all(bool((np.asarray(leaf) > 0).all()) for leaf in known)
            pytree.require(good, self, name, kernel, "a kernel with positive parameters")
        for name, low, high in (
            ("lower", self.lower, self.start),
            ("upper", self.start, self.upper),
        ):
            pairs = zip(jax.tree.leaves(low), jax.tree.leaves(high), strict=True)
            ordered = all(
                isinstance(a, jax.core.Tracer)
                or isinstance(b, jax.core.Tracer)
                or bool(np.all(np.asarray(a) <= np.asarray(b)))
                for a, b in pairs
            )
            side = "at most" if name == "lower" else "at least"
            pytree.require(ordered, self, name, getattr(self, name), f"{side} start everywhere")

    @property
    def exponential(self) -> tuple[bool, ...]:
        """Whether the kernels are exp(-u)."""
        return self.start.exponential[:1]

    @property
    def num_starts(self) -> int:
        """How many kernels ``start`` stacks."""
        return self.start.num_kernels

    def init(self, index: jax.Array, num_inputs: int, dtype: Any) -> Any:
        """Logarithms of the parameters of a start, as a tree like the kernel."""

        def chosen(leaf: Any) -> jax.Array:
            logs = jnp.log(jnp.asarray(leaf, dtype))
            return logs[index] if self.num_starts > 1 and logs.ndim else logs

        return jax.tree.map(chosen, self.start)

    def parameters(self, coordinates: Any) -> Any:
        """The kernel."""
        return jax.tree.map(jnp.exp, coordinates)

    def codes(self, coordinates: Any, x: jax.Array, rows: jax.Array) -> jax.Array:
        """Codes (n,)."""
        inner = jnp.dot(rows, x, precision=jax.lax.Precision.HIGHEST)
        largest = float(jnp.finfo(x.dtype).max) ** 0.75
        # of an infinite distance, no derivative would be finite
        distance = jnp.minimum(jnp.sum(_differences(x, rows), axis=1), largest)
        products = Products(inner[None, :], distance[None, :])
        return self.parameters(coordinates).codes(products)[0, 0]

    def clip(self, coordinates: Any) -> Any:
        """Parameters within the bounds."""

        def within(value: jax.Array, low: Any, high: Any) -> jax.Array:
            ends = (jnp.log(jnp.asarray(end, value.dtype)) for end in (low, high))
            return jnp.clip(value, *ends)

        return jax.tree.map(within, coordinates, self.lower, self.upper)


class Optimizer:
    """How a learner moves in a space of kernels; a frozen pytree dataclass."""

    def init(self, coordinates: Any) -> Any:
        """Its state."""
        ...

    def update(
        self, gradient: Any, state: Any, coordinates: Any, round: jax.Array
    ) -> tuple[Any, Any]:
        """What is added to the coordinates in a round, counted from 0, and the next state."""
        ...


@pytree.dataclass
class InverseTime(Optimizer):
    """Gradient descent with the step ρ / t in round t = 1, 2, ...

    Args:
      rate: ρ; 0 holds the kernel where it is.

    >>> import jax.numpy as jnp
    >>> InverseTime(2.0).update(jnp.array(0.5), (), jnp.array(1.0), round=jnp.array(3))[0]
    Array(-0.25, dtype=float32)
    """

    rate: Any = 1.0

    def __post_init__(self) -> None:
        rate = pytree.as_leaf(
            self, "rate", self.rate, minimum=0.0, wanted="a finite number of at least 0"
        )
        object.__setattr__(self, "rate", rate)

    def init(self, coordinates: Any) -> tuple:
        """Nothing."""
        return ()

    def update(
        self, gradient: Any, state: tuple, coordinates: Any, round: jax.Array
    ) -> tuple[Any, tuple]:
        """-ρ/t times the gradient."""

        def step(g: jax.Array) -> jax.Array:
            return -jnp.asarray(self.rate, g.dtype) / (round + 1).astype(g.dtype) * g

        return jax.tree.map(step, gradient), state


@pytree.dataclass
class Optax(Optimizer):
    """An optimiser of optax.

    Adam and its like have no derivative at a gradient of 0; where a run is to be differentiated,
    take another, as "adabelief" or "sgd".

    Args:
      method: the name of one that takes a learning rate first, as "adam"; or any
        ``optax.GradientTransformation`` (static: another object is another compilation, and
        :func:`jaxmkl.save` cannot write it).
      learning_rate: for a name, its learning rate.

    Raises:
      ValueError: for an unknown name, or a learning rate that is missing or not needed.

    >>> import optax
    >>> Optax("adam", 0.01)
    Optax(method='adam', learning_rate=0.01)
    >>> space_step = Optax(optax.chain(optax.clip(1.0), optax.sgd(0.1)))
    """

    method: Any = pytree.static()
    learning_rate: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.method, str):
            make = getattr(optax, self.method, None)
            first = (
                next(iter(inspect.signature(make).parameters), None) if callable(make) else None
            )
            text = "the name of an optimiser of optax that takes a learning rate first"
            pytree.require(first == "learning_rate", self, "method", self.method, text)
            rate = pytree.as_leaf(
                self,
                "learning_rate",
                self.learning_rate,
                minimum=0.0,
                wanted="a finite number of at least 0",
            )
            object.__setattr__(self, "learning_rate", rate)
        else:
            good = isinstance(self.method, optax.GradientTransformation)
            text = "the name of an optimiser or a GradientTransformation"
            pytree.require(good, self, "method", self.method, text)
            text = "None beside a GradientTransformation, which has its own"
            pytree.require(
                self.learning_rate is None, self, "learning_rate", self.learning_rate, text
            )

    def _made(self, dtype: Any) -> optax.GradientTransformation:
        if isinstance(self.method, str):
            return getattr(optax, self.method)(jnp.asarray(self.learning_rate, dtype))
        return self.method

    def init(self, coordinates: Any) -> Any:
        """The optimiser's state."""
        return self._made(jax.tree.leaves(coordinates)[0].dtype).init(coordinates)

    def update(
        self, gradient: Any, state: Any, coordinates: Any, round: jax.Array
    ) -> tuple[Any, Any]:
        """What the optimiser does."""
        made = self._made(jax.tree.leaves(coordinates)[0].dtype)
        step, after = made.update(gradient, state, coordinates)
        return step, optax.tree.cast_like(after, state)


def as_optimizer(optimizer: Any) -> Optimizer:
    """An optimizer: 1/t for None, and what optax made as it is."""
    if optimizer is None:
        return InverseTime()
    return Optax(optimizer) if isinstance(optimizer, optax.GradientTransformation) else optimizer
