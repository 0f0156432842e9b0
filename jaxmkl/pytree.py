"""Values that JAX can see through: frozen dataclasses registered as pytrees.

A class made with :func:`dataclass` is immutable. Its fields are children (leaves that are traced,
vmapped and differentiated) unless they are declared with :func:`static`, which puts them into the
tree's structure: changing a static field means another compilation, changing a leaf never does.

Rebuilding a value from leaves (inside ``jit``, ``vmap``, ``grad`` or ``jax.tree.map``) does not
call ``__init__``. So ``__post_init__`` may check what a person passes without ever meeting a
tracer, a gradient or a placeholder in its place.
"""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

__all__ = [
    "REGISTERED",
    "as_leaf",
    "dataclass",
    "from_fields",
    "qualified_name",
    "require",
    "static",
]

C = TypeVar("C", bound=type)

#: All classes made by :func:`dataclass`, by module and name: what a checkpoint can name.
REGISTERED: dict[str, type] = {}


def qualified_name(cls: type) -> str:
    """Module and name of a class, as "package.module.Class"."""
    return f"{cls.__module__}.{cls.__qualname__}"


def static(default: Any = dataclasses.MISSING, **kwargs: Any) -> Any:
    """Declare a field that belongs to the structure of the tree (hashable, never traced)."""
    return dataclasses.field(default=default, metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static,))
def dataclass(cls: C) -> C:
    """Make ``cls`` a frozen dataclass that is a pytree.

    Equality and hash are those of identity: a value may hold arrays. Compare the leaves with
    ``chex.assert_trees_all_equal``.

    >>> import jax
    >>> @dataclass
    ... class Step:
    ...     rate: float
    ...     loss: str = static("squared")
    >>> jax.tree.leaves(Step(0.5))
    [0.5]
    >>> jax.tree.map(lambda leaf: 2 * leaf, Step(0.5))
    Step(rate=1.0, loss='squared')
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)  # type: ignore[assignment]
    fields = dataclasses.fields(cls)
    data = tuple(f.name for f in fields if not f.metadata.get("static", False))
    meta = tuple(f.name for f in fields if f.metadata.get("static", False))
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in data)

    def flatten(value: Any) -> tuple[tuple, tuple]:
        return tuple(getattr(value, n) for n in data), tuple(getattr(value, n) for n in meta)

    def flatten_with_keys(value: Any) -> tuple[tuple, tuple]:
        children, aux = flatten(value)
        return tuple(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple, children: Any) -> Any:
        named = zip((*data, *meta), (*children, *aux), strict=True)
        return from_fields(cls, dict(named))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    REGISTERED[qualified_name(cls)] = cls
    return cls


def from_fields(cls: type, fields: dict[str, Any]) -> Any:
    """An instance with these fields as they are, not checked and not converted."""
    value: Any = object.__new__(cls)
    for name, item in fields.items():
        object.__setattr__(value, name, item)
    return value


def require(condition: bool, owner: Any, argument: str, given: Any, wanted: str) -> None:
    """Raise a ``ValueError`` that names the argument, what was given and what is wanted."""
    if not condition:
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise ValueError(f"{name}: {argument} must be {wanted}; got {given!r}")


def as_leaf(
    owner: Any,
    argument: str,
    value: Any,
    *,
    wanted: str = "a finite number",
    minimum: float = -np.inf,
    exclusive: bool = False,
    maximum: float = np.inf,
    max_ndim: int = 0,
    finite: bool = True,
) -> Any:
    """Check a numeric hyperparameter and return it as a float or a float array.

    Tracers pass unseen; sequences become float64 arrays, so that a run in double precision loses
    nothing. The learner casts a leaf to the data's dtype where it uses it.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    try:
        array = np.asarray(value)
        # numbers of extension types (bfloat16) are of kind V
        array = array.astype(np.float64) if array.dtype.kind in "biufV" else np.array(np.nan)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    ok = array.ndim <= max_ndim and array.size > 0 and not np.isnan(array).any()
    ok = ok and (not finite or bool(np.isfinite(array).all()))
    ok = ok and bool((array > minimum).all() if exclusive else (array >= minimum).all())
    require(ok and bool((array <= maximum).all()), owner, argument, value, wanted)
    if isinstance(value, jax.Array):
        return value
    return float(array) if array.ndim == 0 else array
