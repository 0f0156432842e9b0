"""Values that JAX can see through: frozen dataclasses registered as pytrees, with declared fields.

A class made with :func:`dataclass` is immutable. Its fields are children (leaves that are traced,
vmapped and differentiated) unless they are declared static: part of the tree's structure, so that
changing one means another compilation. What a field takes is said where it is declared:

    number(minimum=..., ...)      a leaf: a number or, with ``ndim=1``, several (an array)
    positive()  nonnegative()     the same, above 0, or at least 0
    share()                       the same, in [0, 1]
    count()  flag()  choice(...)  static: a whole number, a boolean, one of some names
    part(Base)  parts(Base)       a value of a class, as a kernel or a rule; a tuple of such;
                                  with ``read=`` a name may stand for one
    static()                      static, taken as it is

A ``default`` is passed by its name, so that type checkers see which fields may be left out.

Rebuilding a value from leaves (inside ``jit``, ``vmap``, ``grad`` or ``jax.tree.map``) does not
call ``__init__``. So a declaration, and ``__post_init__``, which comes after it for what concerns
two fields at once, check what a person passes and never meet a gradient or a placeholder.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn, TypeVar, dataclass_transform

import jax
import numpy as np

C = TypeVar("C", bound=type)
Convert = Callable[[Any, str, Any], Any]
MISSING: Any = dataclasses.MISSING

# Classes made by dataclass() by name, for checkpoints; one defined again replaces the older.
_REGISTERED: dict[str, type] = {}


def qualified_name(cls: type) -> str:
    """Module and name of a class, as "package.module.Class"."""
    return f"{cls.__module__}.{cls.__qualname__}"


def registered(name: str) -> type | None:
    """The class made by :func:`dataclass` that has this qualified name, if there is one."""
    return _REGISTERED.get(name)


def require(condition: bool, owner: object, argument: str, given: Any, wanted: str) -> None:
    """Raise a ``ValueError`` that names the argument, what was given and what is wanted."""
    if not condition:
        name = owner if isinstance(owner, str) else type(owner).__name__
        raise ValueError(f"{name}: {argument} must be {wanted}; got {given!r}")


def abstract(owner: object, method: str) -> NoReturn:
    """Say that a class lacks a method that its base asks for."""
    base = [base.__name__ for base in type(owner).__mro__[1:] if method in vars(base)][-1]
    name = type(owner).__name__
    raise NotImplementedError(f"{name} must define the method {method}, which {base} asks for")


def _declared(default: Any, **metadata: Any) -> Any:
    return dataclasses.field(default=default, metadata=metadata)


def static(
    *, default: Any = MISSING, convert: Convert | None = None, optional: bool = False
) -> Any:
    """Declare a field that belongs to the structure of the tree (hashable, never traced)."""
    return _declared(default, convert=convert, optional=optional, static=True)


def number(
    *,
    default: Any = MISSING,
    minimum: float = -np.inf,
    exclusive: bool = False,
    maximum: float = np.inf,
    ndim: int = 0,
    finite: bool = True,
    optional: bool = False,
    discrete: bool = False,
    wanted: str = "a finite number",
) -> Any:
    """Declare a numeric hyperparameter, checked and converted by :func:`as_leaf`.

    Args:
      default: the value if nothing is passed.
      minimum, maximum, exclusive: the limits, and whether the smallest value itself is refused.
      ndim: 1 where a one-dimensional array may stand for several values, 2 for a matrix.
      finite: whether infinity is refused. NaN always is.
      optional: whether None is taken.
      discrete: whether it counts something, so that :func:`jaxmkl.pytree.unconstrain` leaves it.
      wanted: what a message asks for.
    """
    wanted += (" or several" if ndim else "") + (", or None" if optional else "")
    limits: Any = {"minimum": minimum, "exclusive": exclusive, "maximum": maximum}
    convert = partial(as_leaf, wanted=wanted, max_ndim=ndim, finite=finite, **limits)
    return _declared(default, convert=convert, optional=optional, discrete=discrete)


def positive(*, default: Any = MISSING, ndim: int = 0, optional: bool = False) -> Any:
    """Declare a number above 0."""
    of: Any = {"ndim": ndim, "optional": optional, "wanted": "a positive finite number"}
    return number(default=default, minimum=0.0, exclusive=True, **of)


def nonnegative(
    *,
    default: Any = MISSING,
    ndim: int = 0,
    optional: bool = False,
    finite: bool = True,
    discrete: bool = False,
) -> Any:
    """Declare a number of at least 0."""
    wanted = "a finite number of at least 0" if finite else "a number of at least 0"
    of: Any = {"ndim": ndim, "optional": optional, "finite": finite, "discrete": discrete}
    return number(default=default, minimum=0.0, wanted=wanted, **of)


def share(*, default: Any = MISSING, exclusive: bool = False, ndim: int = 0) -> Any:
    """Declare a number in [0, 1], or in (0, 1]."""
    wanted = "a number in (0, 1]" if exclusive else "a number in [0, 1]"
    limits: Any = {"minimum": 0.0, "maximum": 1.0, "exclusive": exclusive}
    return number(default=default, ndim=ndim, wanted=wanted, **limits)


def as_count(owner: object, argument: str, value: Any, minimum: int = 1) -> int:
    """Check a whole number and return it as a Python integer."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    wanted = f"an integer of at least {minimum}"
    require(bool(whole and value >= minimum), owner, argument, value, wanted)
    return int(value)


def count(*, default: Any = MISSING, minimum: int = 1, optional: bool = False) -> Any:
    """Declare a static whole number."""
    convert = partial(as_count, minimum=minimum)
    return static(default=default, convert=convert, optional=optional)


def _taken_if(good: Callable[[Any], bool], wanted: str, taken: Callable = lambda v: v) -> Convert:
    """A conversion that refuses what is not good, and then is ``taken``."""

    def convert(owner: object, name: str, value: object) -> Any:
        require(good(value), owner, name, value, wanted)
        return taken(value)

    return convert


def require_tree(owner: object, argument: str, value: Any) -> None:
    """Raise if a value is an object that JAX cannot see through."""
    opaque = jax.tree_util.all_leaves([value])
    shown = f"an instance of {type(value).__name__}, which is none"
    wanted = "a pytree: decorate its class with jaxmkl.pytree.dataclass"
    require(not opaque, owner, argument, shown, wanted)


def _several(value: object) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def flag(*, default: Any = MISSING) -> Any:
    """Declare a static boolean."""
    known = bool, np.bool_
    convert = _taken_if(lambda v: isinstance(v, known), "True or False", bool)
    return static(default=default, convert=convert)


def choice(
    *known: str,
    default: Any = MISSING,
    optional: bool = False,
    derived: Callable[[Any], str] | None = None,
) -> Any:
    """Declare a static name, one of those ``known``; ``derived`` is as for :func:`part`."""
    wanted = "one of " + ", ".join(map(repr, known))
    convert = _taken_if(lambda value: isinstance(value, str) and value in known, wanted)
    of: Any = {"convert": convert, "optional": optional, "derived": derived}
    return _declared(default, static=True, **of)


def choices(*known: str, default: Any = MISSING) -> Any:
    """Declare a static tuple of different names, each one of those ``known``."""
    wanted = f"one or several of {', '.join(map(repr, known))}"

    def good(value: object) -> bool:
        names = _several(value)
        return 0 < len(names) == len(set(names)) and set(names) <= set(known)

    return _declared(default, static=True, convert=_taken_if(good, wanted, _several))


def as_part(
    owner: object,
    argument: str,
    value: object,
    *,
    base: type,
    wanted: str,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Check a value of the class ``base``, which ``read`` may make of something else."""
    given = value if read is None else read(value)
    require(isinstance(given, base), owner, argument, value, wanted)
    require_tree(owner, argument, given)
    return given


def part(
    base: type,
    wanted: str,
    *,
    default: Any = MISSING,
    optional: bool = False,
    read: Callable[[Any], Any] | None = None,
    derived: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field that holds a value of the class ``base``.

    Args:
      base: the class.
      wanted: what a message asks for: which value, and how it is made.
      default: the value if nothing is passed.
      optional: whether None is taken.
      read: a function that makes such a value from something else that is accepted, such as its
        name, and returns anything else unchanged.
      derived: what None stands for, computed from the instance, whose earlier fields are set.
    """
    convert = partial(as_part, base=base, wanted=wanted, read=read)
    return _declared(default, convert=convert, optional=optional, derived=derived)


def parts(base: type, wanted: str, *, default: Any = MISSING) -> Any:
    """Declare a field that holds a tuple of one or more values of the class ``base``."""

    def convert(owner: object, name: str, value: object) -> tuple:
        several = _several(value)
        good = bool(several) and all(isinstance(item, base) for item in several)
        require(good, owner, name, value, f"{wanted}, or a tuple of them")
        for item in several:
            require_tree(owner, name, item)
        return several

    return _declared(default, convert=convert)


def as_leaf(
    owner: object,
    argument: str,
    value: object,
    *,
    wanted: str = "a finite number",
    minimum: float = -np.inf,
    exclusive: bool = False,
    maximum: float = np.inf,
    max_ndim: int = 0,
    finite: bool = True,
) -> Any:
    """Check a numeric hyperparameter and return it as a float or a float array.

    Tracers pass unseen. Sequences become float64 arrays; learners cast them to the data's dtype.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    array = np.array(np.nan)
    with contextlib.suppress(TypeError, ValueError):
        if np.asarray(value).dtype.kind in "biufV":  # V: extension types, as bfloat16
            array = np.asarray(value).astype(np.float64)
    inside = (array > minimum if exclusive else array >= minimum) & (array <= maximum)  # not NaN
    ok = array.ndim <= max_ndim and array.size > 0 and bool(np.all(inside))
    ok = ok and not (finite and np.isinf(array).any())
    require(ok, owner, argument, value, wanted)
    if isinstance(value, jax.Array):
        return value
    return float(array) if array.ndim == 0 else array


def _undeclared(owner: object, name: str, value: Any) -> Any:
    """A plain list or tuple of numbers as an array, and all else but text as it is."""
    text = "declared as static() or choice(...): text is no number that could be traced"
    require(not isinstance(value, str), owner, name, value, text)
    plain = type(value) in (list, tuple) and len(value) > 0
    numbers = plain and all(isinstance(item, int | float | np.number) for item in value)
    return np.asarray(value, np.float64) if numbers else value


@dataclass_transform(
    frozen_default=True,
    eq_default=False,
    field_specifiers=(
        static,
        number,
        positive,
        nonnegative,
        share,
        count,
        flag,
        choice,
        part,
        parts,
    ),
)
def dataclass(cls: C) -> C:
    """Make ``cls`` a frozen dataclass that is a pytree, and converts its fields as declared.

    A field without a declaration is a child taken as it is; only a list or tuple of numbers
    becomes an array. Equality and hash are those of identity, as a value may hold arrays; compare
    the leaves with ``chex.assert_trees_all_equal``.

    >>> @dataclass
    ... class Step:
    ...     rates: float = positive(ndim=1)
    ...     loss: str = choice("squared", "hinge", default="squared")
    >>> jax.tree.map(lambda leaf: 2 * leaf, Step(0.5))
    Step(rates=1.0, loss='squared')
    >>> Step(-1.0)
    Traceback (most recent call last):
    ValueError: Step: rates must be a positive finite number or several; got -1.0
    """
    own = getattr(cls, "__post_init__", None)

    def __post_init__(self: Any) -> None:
        for field in dataclasses.fields(self):
            given, declared = getattr(self, field.name), field.metadata
            convert = declared.get("convert", None if declared.get("static") else _undeclared)
            if given is None and declared.get("derived"):
                given = declared["derived"](self)
            if convert is not None and not (given is None and declared.get("optional")):
                object.__setattr__(self, field.name, convert(self, field.name, given))
        if own is not None:
            own(self)

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)  # type: ignore[assignment]
    fields = dataclasses.fields(cls)
    meta = [field.name for field in fields if field.metadata.get("static")]
    data = [field.name for field in fields if field.name not in meta]
    keys = [jax.tree_util.GetAttrKey(name) for name in data]

    def flatten(value: object) -> tuple[list, tuple]:
        return [getattr(value, n) for n in data], tuple(getattr(value, n) for n in meta)

    def flatten_with_keys(value: object) -> tuple[list, tuple]:
        children, aux = flatten(value)
        return list(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple, children: Iterable[Any]) -> Any:
        return from_fields(cls, dict(zip(data + meta, (*children, *aux), strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    _REGISTERED[qualified_name(cls)] = cls
    return cls


def check_fields(value: Any) -> None:
    """Refuse fields that are not what is declared.

    Declared numbers, one or many, pass: their ranges are checked elsewhere.
    """
    for field in dataclasses.fields(value):
        given, convert = getattr(value, field.name), field.metadata.get("convert")
        passes = given is None and field.metadata.get("optional")
        if getattr(convert, "func", None) is as_leaf:
            passes = passes or isinstance(given, int | float | np.ndarray | jax.Array)
        if convert is not None and not passes:
            same = convert(value, field.name, given) is given
            good = same or not isinstance(given, str)
            require(good, value, field.name, given, "a value, and not its name")


def from_fields(cls: type, fields: dict[str, Any]) -> Any:
    """An instance with these fields as they are, not checked and not converted."""
    value: Any = object.__new__(cls)
    vars(value).update(fields)
    return value
