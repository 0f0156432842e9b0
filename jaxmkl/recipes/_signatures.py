"""Recipes that are others with some parts chosen: their signature says all that they take."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def with_parameters_of(base: Callable[..., Any], but: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Have a function's ``**parameters`` stand for what has a default in ``base``, but for some.

    >>> def base(x, *, rate=1.0, loss="squared"):
    ...     return x, rate, loss
    >>> @with_parameters_of(base, but=("loss",))
    ... def hinge(x, *, most=3, **parameters):
    ...     return base(x, loss="hinge", **parameters)
    >>> print(inspect.signature(hinge))
    (x, *, most=3, rate=1.0)
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        others = inspect.signature(base).parameters.values()
        added = [p.replace(kind=p.KEYWORD_ONLY) for p in others if p.default is not p.empty]
        added = [p for p in added if p.name not in {*own.parameters, *but}]
        function.__signature__ = own.replace(parameters=named + added)  # type: ignore[attr-defined]
        return function

    return decorate
