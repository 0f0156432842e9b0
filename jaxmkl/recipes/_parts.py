"""What several recipes are made of."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl import query, select
from jaxmkl.aggregate import Hedge
from jaxmkl.kernels import Gaussian, Kernel, lu_hoi
from jaxmkl.models import SupportModels
from jaxmkl.updates import Update

F = TypeVar("F", bound=Callable[..., Any])
ASK_ALL, SELECT_ALL = query.All(), select.All()


def rate_of(discount: Any) -> Any:
    """η_g = -log γ."""
    if isinstance(discount, jax.core.Tracer):
        return -jnp.log(discount)
    good = np.ndim(discount) == 0 and 0 < float(discount) <= 1
    pytree.require(good, "discount", "discount", discount, "in (0, 1]")
    return -float(np.log(float(discount)))


def vote(discount: Any) -> Hedge:
    """A vote of signs, discounted by mistakes."""
    return Hedge(rate_of(discount), output="vote", cost="mistake")


def one_kernel(owner: str, kernel: Kernel | None) -> Kernel:
    """One kernel, by default a Gaussian of bandwidth 1."""
    kernel = Gaussian(1.0) if kernel is None else kernel
    good = isinstance(kernel, Kernel) and kernel.num_kernels == 1
    pytree.require(good, owner, "kernel", kernel, "one kernel")
    return kernel


def outputs_of(owner: str, task: str, num_outputs: Any, num_classes: Any) -> Any:
    """K, the number of targets in regression, and that of classes in classification."""
    numbers = task == "regression"
    name, other = ("num_classes", num_classes) if numbers else ("num_outputs", num_outputs)
    pytree.require(other is None, owner, name, other, f"None for {task}")
    return num_outputs if numbers else num_classes


def bank_of(
    kernels: Kernel | None, update: Update, store: Any, default: Callable[[], Kernel] = lu_hoi
) -> SupportModels:
    """Models with supports on the kernels given, or on those of a published dictionary."""
    return SupportModels(default() if kernels is None else kernels, update, store)


def recipe(function: F) -> F:
    """Have a function answer to names that are none of its arguments with those that are.

    >>> recipe(one_kernel)(owner="spa", kernels=None)
    Traceback (most recent call last):
    TypeError: one_kernel() got an unexpected keyword argument 'kernels'; it takes owner, kernel
    """
    known = inspect.signature(function).parameters
    of_task = "the task follows from the loss" if "loss" in known else "it is for classes alone"

    @wraps(function)
    def made(*given: Any, **named: Any) -> Any:
        for name in (name for name in named if name not in known):
            text = f"{function.__name__}() got an unexpected keyword argument {name!r}"
            text += f" ({of_task})" if name == "task" else ""
            raise TypeError(f"{text}; it takes {', '.join(known)}")
        return function(*given, **named)

    return made  # type: ignore[return-value]


def with_parameters_of(base: Callable[..., Any], but: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Make a :func:`recipe` whose ``**parameters`` are those with a default in ``base``, but some.

    >>> @with_parameters_of(lambda x, rate=1.0, loss="squared": rate * x, but=("loss",))
    ... def hinge(x, *, most=3, **parameters): ...
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
        return recipe(function)

    return decorate
