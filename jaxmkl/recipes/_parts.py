"""Parts and checks that several recipes share."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmkl import _pytree as pytree
from jaxmkl import query, select
from jaxmkl._types import Number
from jaxmkl.aggregate import Hedge
from jaxmkl.kernels import Gaussian, Kernel, lu_hoi
from jaxmkl.models import SupportModels, supports
from jaxmkl.updates import Update

F = TypeVar("F", bound=Callable[..., Any])
ASK_ALL, SELECT_ALL = query.All(), select.All()


def rate_of(discount: Number) -> Number:
    """The rate η_g = -log γ of Hedge for a discount γ."""
    if isinstance(discount, jax.core.Tracer):
        return -jnp.log(discount)
    limits: Any = {"minimum": 0.0, "exclusive": True, "maximum": 1.0, "wanted": "in (0, 1]"}
    return -float(np.log(float(pytree.as_leaf("discount", "discount", discount, **limits))))


def vote(discount: Number) -> Hedge:
    """A weighted vote of signs; mistakes discount a weight."""
    return Hedge(rate_of(discount), output="vote", cost="mistake")


def one_kernel(owner: str, kernel: Kernel | None) -> Kernel:
    """The kernel given, checked to be one, by default a Gaussian of bandwidth 1."""
    kernel = Gaussian(1.0) if kernel is None else kernel
    good = isinstance(kernel, Kernel) and kernel.num_kernels == 1
    pytree.require(good, owner, "kernel", kernel, "one kernel")
    return kernel


def outputs_of(
    owner: str, task: str, num_outputs: int | None, num_classes: int | None
) -> int | None:
    """The number K of targets in regression, or of classes in classification."""
    numbers = task == "regression"
    name, other = ("num_classes", num_classes) if numbers else ("num_outputs", num_outputs)
    pytree.require(other is None, owner, name, other, f"None for {task}")
    return num_outputs if numbers else num_classes


def bank_of(
    kernels: Kernel | None,
    update: Update,
    store: supports.Store,
    default: Callable[[], Kernel] = lu_hoi,
) -> SupportModels:
    """Models with supports on the kernels given, by default on a published dictionary."""
    return SupportModels(default() if kernels is None else kernels, update, store)


def recipe(function: F) -> F:
    """Make the error on an unknown keyword name all keywords that the function takes.

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
