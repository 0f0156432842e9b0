"""The arguments with which a recipe makes a learner for a task."""

import inspect
from collections.abc import Callable
from typing import Any

from jaxmkl._learner import Learner

#: Arguments that follow from the labels, where a recipe has them.
BY_TASK = "task", "num_outputs", "num_classes"


def names_of(recipe: Callable) -> tuple[str, ...]:
    """The names of a recipe's arguments that do not follow from the labels."""
    return tuple(name for name in inspect.signature(recipe).parameters if name not in BY_TASK)


def arguments_for(
    recipe: Callable[..., Learner], task: str, num_outputs: int | None = None
) -> dict[str, Any]:
    """The arguments with which a recipe makes a learner for a task, as far as it has them.

    For classification, the logistic loss replaces a squared loss that is the default.

    Args:
      recipe: a function that makes a learner, as one of :data:`jaxmkl.recipes.LEARNERS`.
      task: "regression" or "classification".
      num_outputs: number K of targets or classes, None for one target or two classes.

    >>> import jaxmkl
    >>> arguments_for(jaxmkl.expert_mkl, "classification", 3)
    {'task': 'classification', 'num_classes': 3}
    >>> arguments_for(jaxmkl.omkl, "classification", 3)
    {'loss': 'logistic'}
    """
    known = inspect.signature(recipe).parameters
    found: dict[str, Any] = {}
    if "task" in known:
        found["task"] = task
    elif task == "classification" and "loss" in known and known["loss"].default == "squared":
        found["loss"] = "logistic"
    several = "num_outputs" if task == "regression" else "num_classes"
    if num_outputs is not None and several in known:
        found[several] = num_outputs
    return found
