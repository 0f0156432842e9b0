"""The ranges that numbers are declared with: maps to numbers without limits, checks in a trace."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl._devices import is_shared


class _Declared(NamedTuple):
    """Where a number is declared, and as what."""

    owner: Any
    field: dataclasses.Field

    @property
    def range(self) -> dict[str, Any]:
        """What :func:`jaxmkl.pytree.as_leaf` is told of it: minimum, maximum, ..."""
        return self.field.metadata["convert"].keywords

    @property
    def limits(self) -> tuple[Any, Any]:
        """Below and above, where it has any and may be moved."""
        if self.field.metadata["discrete"]:
            return None, None
        ends = self.range["minimum"], self.range["maximum"]
        below, above = (None if np.isinf(end) else end for end in ends)
        return below, above


def _mapped(function: Callable[[_Declared, Any], Any], tree: Any) -> Any:
    """The tree with ``function(declared, number)`` in place of each number that is declared."""

    def is_value(node: Any) -> bool:
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


def _floating(x: Any) -> jax.Array:
    return jnp.asarray(x, jnp.result_type(x, float))


def unconstrain(value: Any) -> Any:
    """Map the numbers of a learner, or of a part of one, to numbers without limits.

        u = log(x - a)                     of a number above a, as positive() and nonnegative()
        u = log(x - a) - log(b - x)        of a number from a to b, as share(): its logit

    The result has the form of a learner but is none: optimisers work on it, and :func:`constrain`
    makes a learner of it again. Numbers that are declared without limits or count something
    (``max_skips``, ``budget``), leaves that are not declared and static fields stay as they are.

    A number at its limit, as a forgetting factor of 1 or a penalty of 0, becomes infinite, and its
    derivative is 0: gradient steps leave it where it is. Begin inside the range with what is to
    move. Optimisers that look at the numbers themselves (weight decay, L-BFGS) want all of them
    inside.

    Args:
      value: any value with declared fields (:func:`jaxmkl.pytree.dataclass`), or a tree of such.

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


def constrain(value: Any) -> Any:
    """Map what :func:`unconstrain` made, whatever it has become since, into the declared ranges.

    Both functions are pure, and inverse to each other up to rounding.

    Args:
      value: a value whose numbers are without limits.

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

        def inside(u: Any) -> Any:
            if below is None:
                return above - jnp.exp(-u)
            return below + (jnp.exp(u) if above is None else (above - below) * jax.nn.sigmoid(u))

        fixed = jnp.isinf(u)
        # no derivative of the infinite: 0 times that of the loss might not be 0
        at_limit = jax.lax.stop_gradient(inside(u))
        return jnp.where(fixed, at_limit, inside(jnp.where(fixed, 0.0, u)))

    return _mapped(held, value)


def in_range(value: Any) -> jax.Array:
    """Whether every number is in the range that it is declared with, a boolean; NaN is not."""
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


def reported(learner: Any, before: Any, after: Any) -> Any:
    """The state after some rounds: all count as ``nonfinite`` where a number is out of range."""
    sound, rounds = in_range(learner), after.round - before.round

    def one(path: tuple, old: Any, new: Any) -> Any:
        counts = path and getattr(path[-1], "name", None) == "nonfinite"
        return jnp.where(sound, new, old + rounds) if counts else new

    return jax.tree.map_with_path(one, before, after)


def refuse_out_of_range(value: Any) -> None:
    """Raise a ``ValueError`` for the first number that can be seen to be out of its range."""

    def check(declared: _Declared, x: Any) -> None:
        if not is_shared(x):
            convert = partial(declared.field.metadata["convert"], max_ndim=np.ndim(x))
            convert(declared.owner, declared.field.name, x)

    _mapped(check, value)
