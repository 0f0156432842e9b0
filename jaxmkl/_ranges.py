"""Ranges of declared numbers: maps to unconstrained numbers and back, and checks in a trace."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmkl import _pytree as pytree
from jaxmkl._devices import is_shared
from jaxmkl._types import PyTree

T = TypeVar("T")


class _Declared(NamedTuple):
    """The declaration of a number: its owner and field."""

    owner: object
    field: dataclasses.Field

    @property
    def range(self) -> dict[str, Any]:
        """Arguments for :func:`jaxmkl.pytree.as_leaf`: minimum, maximum, ..."""
        return self.field.metadata["convert"].keywords

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Lower and upper limit; None without one, and for numbers that count something."""
        if self.field.metadata["discrete"]:
            return None, None
        ends = self.range["minimum"], self.range["maximum"]
        below, above = (None if np.isinf(end) else end for end in ends)
        return below, above


def _mapped(function: Callable[[_Declared, Any], Any], tree: T) -> T:
    """Replace each declared number of a tree by ``function(declared, number)``."""

    def is_value(node: object) -> bool:
        return pytree.registered(pytree.qualified_name(type(node))) is not None

    def of_value(node: Any) -> Any:
        if not is_value(node):
            return node
        fields = {}
        for field in dataclasses.fields(node):
            given, convert = getattr(node, field.name), field.metadata.get("convert")
            if getattr(convert, "func", None) is pytree.as_leaf:
                given = jax.tree.map(partial(function, _Declared(node, field)), given)
            elif not field.metadata.get("static"):
                given = _mapped(function, given)
            fields[field.name] = given
        return pytree.from_fields(type(node), fields)

    return jax.tree.map(of_value, tree, is_leaf=is_value)


def _floating(x: ArrayLike) -> jax.Array:
    return jnp.asarray(x, jnp.result_type(x, float))


def unconstrain(value: T) -> T:
    """Map the numbers of a learner, or of a part of one, to numbers without limits.

        u = log(x - a)                     for a number above a, as positive() and nonnegative()
        u = log(x - a) - log(b - x)        for a number from a to b, as share(): its logit

    The result has the form of a learner, but cannot be used as one: it is for optimisers, and
    :func:`constrain` turns it into a learner again. Numbers that are declared without limits or
    count something (``max_skips``, ``budget``), undeclared leaves and static fields are unchanged.

    A number at its limit, as a forgetting factor of 1 or a penalty of 0, becomes infinite, and its
    derivative is 0: gradient steps do not change it. So numbers to be optimised must start inside
    their range. Optimisers that use the values of the numbers (weight decay, L-BFGS) need all of
    them to be inside.

    Args:
      value: any value with declared fields (:func:`jaxmkl.pytree.dataclass`), or a tree of them.

    >>> import jaxmkl
    >>> free = unconstrain(jaxmkl.updates.OGD(0.5))
    >>> free.step_sizes, free.regularization
    (Array(-0.693..., dtype=float32), Array(-inf, dtype=float32))
    >>> constrain(free).step_sizes, constrain(free).regularization
    (Array(0.5, dtype=float32), Array(0., dtype=float32))
    """

    def free(declared: _Declared, x: Any) -> Any:
        below, above = declared.limits
        if below is above is None:
            return x
        x = _floating(x)
        u = jnp.zeros_like(x) if below is None else jnp.log(x - below)
        return u if above is None else u - jnp.log(above - x)

    return _mapped(free, value)


def constrain(value: T) -> T:
    """Map the result of :func:`unconstrain`, optimised or not, back into the declared ranges.

    Both functions are pure, and inverse to each other up to rounding.

    Args:
      value: a value whose numbers are unconstrained.

    >>> import jaxmkl, optax
    >>> free, optimizer = unconstrain(jaxmkl.updates.OGD(0.1)), optax.adam(1.0)
    >>> slope = jax.grad(lambda free: constrain(free).step_sizes ** 2)(free)
    >>> change, _ = optimizer.update(slope, optimizer.init(free))
    >>> constrain(optax.apply_updates(free, change)).step_sizes  # 0.1 / e
    Array(0.0367..., dtype=float32)
    """

    def held(declared: _Declared, u: Any) -> Any:
        below, above = declared.limits
        if below is above is None:
            return u

        def inside(u: jax.Array) -> jax.Array:
            if below is None:
                return above - jnp.exp(-u)  # type: ignore[operator]
            return below + (jnp.exp(u) if above is None else (above - below) * jax.nn.sigmoid(u))

        fixed = jnp.isinf(u)
        # no derivative where u is infinite: 0 times that of the loss might be NaN
        at_limit = jax.lax.stop_gradient(inside(u))
        return jnp.where(fixed, at_limit, inside(jnp.where(fixed, 0.0, u)))

    return _mapped(held, value)


def in_range(value: PyTree) -> jax.Array:
    """True if every number is in its declared range; NaN is not."""
    found: list[tuple[_Declared, Any]] = []
    _mapped(lambda *declared: found.append(declared), value)
    if not found:
        return jnp.asarray(True)
    x = jnp.concatenate([jnp.ravel(_floating(x)) for _, x in found])
    sizes, largest = [np.size(x) for _, x in found], float(jnp.finfo(x.dtype).max)

    def of_each(name: str) -> np.ndarray:
        return np.repeat([declared.range[name] for declared, _ in found], sizes)

    most = np.where(of_each("finite"), largest, np.inf)
    below = np.maximum(of_each("minimum"), -most).astype(x.dtype)
    above = np.minimum(of_each("maximum"), most).astype(x.dtype)
    return jnp.all(jnp.where(of_each("exclusive"), x > below, x >= below) & (x <= above))


def refuse_out_of_range(value: PyTree) -> None:
    """Raise a ``ValueError`` for the first number that is out of its range; tracers pass."""

    def check(declared: _Declared, x: Any) -> None:
        if not is_shared(x):
            convert = partial(declared.field.metadata["convert"], max_ndim=np.ndim(x))
            convert(declared.owner, declared.field.name, x)

    _mapped(check, value)
